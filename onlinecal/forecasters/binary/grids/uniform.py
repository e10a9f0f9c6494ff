"""Almost-One-Step-Ahead on the grid {0, 1/m, ..., 1}: one integer a point, O(1) a round.

The table holds the m + 1 sums, one a point. See `cells` for the protocol and the meaning of a sum. A unit is
1/m until an outcome is neither 0 nor 1; then `refined` makes it 2^SHIFT times smaller, once and for ever.

Without hints the labels stay sorted: all points left of the current cell accept 0, all right of it
accept 1. Only the charged point can change its label, and then the neighbouring cell is valid. The
two loops at the end of `charge` therefore only ever turn after hints or late labels have disturbed
that order; they end because 0 always accepts 0 and 1 always accepts 1.

If there may be hints, a point without bias accepts both outcomes, while that is covered. It may then come to
more bias than c, up to 1 - 1/m. The EXCESS is what points have beyond c; it is covered while it is no more
than the distance that reports have saved against the d/m that a round may cost.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onlinecal.forecasters.binary.cells import (
    BRIM,
    COMMON,
    FINE,
    HIGH,
    HINTED,
    LAST,
    LOW,
    LOWER,
    MIDPOINT,
    MOVED,
    REPORT,
    REPORTS,
    ROUNDS,
    SCALE,
    SPREAD,
    STEP,
    TABLE,
    TILT,
    Memory,
    header,
    inlined,
    rises_at_ends,
    travelled,
)

FORMAT_UNIFORM = 1

# The machine's own part of the header. SHIFT: a cell is 2^SHIFT units wide. FREED: whether points without
# bias may accept both outcomes, which helps hints. EXCESS: then the sum over points of (|bias| - c)^+.
# SHARED: whether outcomes were shares.
SHIFT, FREED, EXCESS, SHARED = range(COMMON, COMMON + 4)
UNIT_BITS = 28
"""Units of at most about 2^-28, once outcomes are shares."""


def new_memory(n_cells: int, rule: str, slack: float, report: str, hints: bool = False) -> NDArray[np.int64]:
    """The memory before the first round: any cell is valid then (sign) or the middle one (balanced)."""
    memory = header(FORMAT_UNIFORM, n_cells, max(1, 2**31 // n_cells), rule, slack, report, hints)
    memory[LOWER], memory[STEP], memory[FREED] = (n_cells - 1) // 2, 1, int(hints and rule == "balanced")
    fresh = np.concatenate([memory, memory[TILT] * np.arange(n_cells + 1)])
    free_points(fresh)
    return fresh


@inlined
def cells_of(memory: Memory) -> int:
    """How many cells the grid has."""
    return memory[SCALE] >> memory[SHIFT]


def in_use(memory: NDArray[np.int64]) -> NDArray[np.int64]:
    """The memory without room to spare, of which it has none."""
    return memory


def refined(memory: NDArray[np.int64], slack: float) -> NDArray[np.int64]:
    """The memory in units small enough for outcomes that are neither 0 nor 1: nothing else changes."""
    m, shift = int(memory[SCALE]), UNIT_BITS - int(memory[SCALE] - 1).bit_length()
    if memory[SHARED]:
        return memory
    table, hints = memory[TABLE:], bool(memory[HINTED])
    rule, kind = ("balanced" if memory[TILT] else "sign"), REPORTS[memory[REPORT]]
    scale = m << shift
    fine = max(1, 2**31 // scale)
    finer = header(FORMAT_UNIFORM, scale, fine, rule, slack, kind, hints)
    finer[LOWER], finer[STEP] = int(memory[LOWER]) << shift, 1 << shift
    finer[LAST] = int(memory[LAST]) << shift
    finer[ROUNDS], finer[SPREAD] = int(memory[ROUNDS]), int(memory[SPREAD]) << shift
    finer[MOVED] = -((-int(memory[MOVED]) * fine << shift) // int(memory[FINE]))
    finer[SHIFT], finer[SHARED], finer[FREED] = shift, 1, int(memory[FREED])
    fresh = np.concatenate([finer, table << shift])
    free_points(fresh)
    return fresh


def free_points(memory: NDArray[np.int64]) -> None:
    """Let points without bias accept both outcomes, if they may, and sum up what points have beyond c.

    On an odd number of cells with slack 1/2 no point would ever accept both outcomes, and hints be without
    effect: so that the two in the middle do, c is then at least 1/2 + 1/(2m).
    """
    if not memory[FREED]:
        return
    m, shift = int(cells_of(memory)), int(memory[SHIFT])
    memory[HIGH] = max(memory[HIGH], ((m + 1) >> 1) << shift)
    memory[LOW] = memory[SCALE] - memory[HIGH]
    biases = memory[TABLE:] - (np.arange(m + 1) << shift)
    memory[EXCESS] = np.maximum(np.abs(biases) - memory[HIGH], 0).sum()


@inlined
def takes_shares(memory: Memory) -> bool:
    """Whether it is `refined`."""
    return bool(memory[SHARED] != 0)


@inlined
def in_units(memory: Memory, lower: int, step: int) -> tuple[int, int]:
    """A cell in today's units, if it was reported before `refined`."""
    factor = memory[STEP] // step
    return lower * factor, step * factor


@inlined
def note_late(memory: Memory, others: int) -> None:
    """The slack of a grid that was made for its slack stays."""


@inlined
def bears(memory: Memory) -> bool:
    """Whether no accumulator can wrap in one more round."""
    return bool(memory[MOVED] < BRIM and memory[SPREAD] < BRIM and memory[ROUNDS] < BRIM)


@inlined
def has_room(memory: Memory) -> bool:
    """The table never grows."""
    return bears(memory)


@inlined
def covered(memory: Memory) -> bool:
    """Whether unbiased points accept both outcomes: what they may add is within the guarantee."""
    fine = memory[FINE]
    price = (memory[STEP] if memory[REPORT] == MIDPOINT else 2 * memory[STEP]) * fine
    if memory[SHARED]:
        # what rounding costs is within the guarantee too
        price += fine + 1
    return bool(memory[FREED] and memory[MOVED] + 2 * fine * memory[EXCESS] <= price * memory[ROUNDS])


@inlined
def is_valid(memory: Memory, cell: int, free: bool) -> bool:
    """Whether the ends of a cell, by its number, accept 0 and 1; `free` lets unbiased points accept both."""
    below, above = memory[TABLE + cell], memory[TABLE + cell + 1]
    tilt, shift = memory[TILT], memory[SHIFT]
    zero = below <= memory[HIGH] or (free and below == tilt * (cell << shift))
    one = above >= memory[LOW] or (free and above == tilt * ((cell + 1) << shift))
    return bool(zero and one)


@inlined
def propose(memory: Memory, hint: float) -> tuple[int, int]:
    """The current cell, or in a memory that has hints the valid one nearest to the hint (of two, the lower).

    Without a hint that is the one nearest to the middle of the last round's cell.
    """
    step = memory[STEP]
    if hint < 0.0 and memory[HINTED] == 0:
        return memory[LOWER], step
    m, free = cells_of(memory), covered(memory)
    target = hint * m if hint >= 0.0 else memory[LAST] / (2 * step)
    left = right = cell = min(int(target), m - 1)
    while not is_valid(memory, cell, free):
        if right + 1 >= m or (left > 0 and target - left <= right + 1 - target):
            left -= 1
            cell = left
        else:
            right += 1
            cell = right
    return cell << memory[SHIFT], step


@inlined
def beyond(memory: Memory, bias: int) -> int:
    """What a bias has beyond c."""
    excess = abs(bias) - memory[HIGH]
    return excess * (excess > 0)


@inlined
def charge(memory: Memory, lower: int, step: int, above: int, y: int, reported: float) -> None:
    """Charge the round to the lower (0) or upper (1) end of its cell, and make a valid cell current.

    The outcome y is not inside the cell.
    """
    charge_point(memory, lower, step, above, y, reported)
    enter_valid(memory)


@inlined
def charge_point(memory: Memory, lower: int, step: int, above: int, y: int, reported: float) -> None:
    """The same, but for the cell that is made current it is left to `enter_valid` to make it valid."""
    low, high, shift = memory[LOW], memory[HIGH], memory[SHIFT]
    point = lower + step * above
    change = point - y
    index = point >> shift
    new = memory[TABLE + index] + change
    memory[TABLE + index] = new
    bias = new - memory[TILT] * point
    memory[SPREAD] += abs(bias) - abs(bias - change)
    charge_inside(memory, lower, step, point, reported)
    if memory[FREED]:
        memory[EXCESS] += beyond(memory, bias) - beyond(memory, bias - change)
    cell = index - above + (above & (new < low)) - ((1 - above) & (new > high))
    memory[LOWER] = cell << shift


@inlined
def enter_valid(memory: Memory) -> None:
    """Move the current cell down until its lower end accepts 0, and then up until its upper end accepts 1."""
    cell = memory[LOWER] >> memory[SHIFT]
    while memory[TABLE + cell] > memory[HIGH]:
        cell -= 1
    while memory[TABLE + cell + 1] < memory[LOW]:
        cell += 1
    memory[LOWER] = cell << memory[SHIFT]


@inlined
def charge_inside(memory: Memory, lower: int, step: int, y: int, reported: float) -> None:
    """Charge the round to a point of its cell that takes no bias: the outcome y itself."""
    memory[ROUNDS] += 1
    memory[LAST] = 2 * lower + step
    memory[MOVED] += travelled(memory, lower, step, y, reported)


@inlined
def certificate_rises(memory: Memory, lower: int, step: int, reported: float) -> tuple[float, float]:
    """By how much the certificate would rise with outcome 0 and with outcome 1."""
    index = TABLE + (lower >> memory[SHIFT])
    return rises_at_ends(memory, lower, step, memory[index], memory[index + 1], reported)
