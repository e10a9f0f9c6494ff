"""Almost-One-Step-Ahead on the grid {0, 1/m, ..., 1}: one integer a point, O(1) a round.

The table holds the m + 1 sums, one a point. See `cells` for the protocol and the meaning of a sum. A unit is
1/m until an outcome is neither 0 nor 1; then `refined` makes it 2^SHIFT times smaller, once and for ever.

Without hints the labels stay sorted: all points left of the current cell accept 0, all right of it
accept 1. Only the charged point can change its label, and then the neighbouring cell is valid. The
two loops at the end of `charge` therefore only ever turn after hints or late labels have disturbed
that order; they end because 0 always accepts 0 and 1 always accepts 1.

With hints a point without bias accepts both outcomes, while that is covered. It may then come to more bias
than c, up to 1 - 1/m. The EXCESS is what points have beyond c; it is covered while it is no more than the
distance that reports have saved against the d/m that a round may cost. The valid cells are marked behind the
table, so that the one nearest to a hint is found without a walk (`marks`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onlinecal.forecasters.binary.cells import (
    BRIM,
    COMMON,
    FINE,
    HIGH,
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
from onlinecal.forecasters.binary.marks import first_marked, last_marked, mark, n_words

FORMAT_UNIFORM = 1

# The machine's own part of the header. SHIFT: a cell is 2^SHIFT units wide. HINTED: whether hints were given.
# EXCESS: sum over points of (|bias| - c)^+, kept once hints were given. SHARED: whether outcomes were shares.
# FREED: whether points without bias may accept both outcomes, as they did not in version 0.1.
SHIFT, HINTED, EXCESS, SHARED, FREED = range(COMMON, COMMON + 5)
UNIT_BITS = 28
"""Units of at most about 2^-28, once outcomes are shares."""


def new_memory(n_cells: int, rule: str, slack: float, report: str) -> NDArray[np.int64]:
    """The memory before the first round: any cell is valid then (sign) or the middle one (balanced)."""
    memory = header(FORMAT_UNIFORM, n_cells, max(1, 2**31 // n_cells), rule, slack, report)
    memory[LOWER], memory[STEP], memory[FREED] = (n_cells - 1) // 2, 1, int(rule == "balanced")
    return np.concatenate([memory, memory[TILT] * np.arange(n_cells + 1)])


@inlined
def cells_of(memory: Memory) -> int:
    """How many cells the grid has."""
    return memory[SCALE] >> memory[SHIFT]


def as_first_edition(memory: NDArray[np.int64]) -> NDArray[np.int64]:
    """A new memory that follows the rules of version 0.1."""
    memory = memory.copy()
    memory[FREED] = 0
    return memory


def in_use(memory: NDArray[np.int64]) -> NDArray[np.int64]:
    """The memory without what follows from it: the marks of the valid cells."""
    return memory[: TABLE + cells_of(memory) + 1]


def with_hints(memory: NDArray[np.int64]) -> NDArray[np.int64]:
    """The memory, ready for hints: behind the table the valid cells are marked, strictly and then freely."""
    m = int(cells_of(memory))
    if len(memory) > TABLE + m + 1:
        return memory
    words = n_words(m)
    memory = np.concatenate([memory, np.zeros(2 * words, np.int64)])
    sums = memory[TABLE : TABLE + m + 1]
    biases = sums - memory[TILT] * (np.arange(m + 1) << memory[SHIFT])
    unbiased = biases == 0
    memory[HINTED] = 1
    if memory[FREED]:
        memory[EXCESS] = int(np.maximum(np.abs(biases) - memory[HIGH], 0).sum())
    for start, also in ((0, False), (words, unbiased)):
        zero, one = (sums <= memory[HIGH]) | also, (sums >= memory[LOW]) | also
        marks = (zero[:-1] & one[1:]).astype(np.int64)
        at = TABLE + m + 1 + start
        while True:
            marks = np.concatenate([marks, np.zeros(-len(marks) % 32, np.int64)]).reshape(-1, 32)
            marks = (marks << np.arange(32)).sum(axis=1)
            memory[at : at + len(marks)] = marks
            at += len(marks)
            if len(marks) == 1:
                break
            marks = (marks != 0).astype(np.int64)
    return memory


def refined(memory: NDArray[np.int64], slack: float) -> NDArray[np.int64]:
    """The memory in units small enough for outcomes that are neither 0 nor 1: nothing else changes."""
    m, shift = int(memory[SCALE]), UNIT_BITS - int(memory[SCALE] - 1).bit_length()
    if memory[SHARED]:
        return memory
    table = in_use(memory)[TABLE:]
    rule, kind = ("balanced" if memory[TILT] else "sign"), REPORTS[memory[REPORT]]
    scale = m << shift
    fine = max(1, 2**31 // scale)
    finer = header(FORMAT_UNIFORM, scale, fine, rule, slack, kind)
    finer[LOWER], finer[STEP] = int(memory[LOWER]) << shift, 1 << shift
    finer[ROUNDS], finer[SPREAD] = int(memory[ROUNDS]), int(memory[SPREAD]) << shift
    finer[MOVED] = -((-int(memory[MOVED]) * fine << shift) // int(memory[FINE]))
    finer[SHIFT], finer[HINTED], finer[SHARED], finer[FREED] = (
        shift,
        int(memory[HINTED]),
        1,
        int(memory[FREED]),
    )
    sums = table << shift
    if memory[HINTED] and memory[FREED]:
        biases = np.abs(sums - (np.arange(m + 1) << shift))
        finer[EXCESS] = int(np.maximum(biases - finer[HIGH], 0).sum())
    return np.concatenate([finer, sums])


@inlined
def in_units(memory: Memory, lower: int, step: int) -> tuple[int, int]:
    """A cell in today's units, if it was reported before `refined`."""
    factor = memory[STEP] // step
    return lower * factor, step * factor


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
    freed = memory[HINTED] and memory[FREED]
    return bool(freed and memory[MOVED] + 2 * fine * memory[EXCESS] <= price * memory[ROUNDS])


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
    """The current cell, or with a hint the valid cell nearest to it (of two equally near, the lower)."""
    step = memory[STEP]
    if hint < 0.0:
        return memory[LOWER], step
    m, shift = cells_of(memory), memory[SHIFT]
    target = hint * m
    home, free = min(int(target), m - 1), covered(memory)
    if is_valid(memory, home, free):
        return home << shift, step
    left, right = home - 1, home + 1
    start = TABLE + m + 1
    if start < len(memory):
        start += n_words(m) * free
        left, right = last_marked(memory, start, m, left), first_marked(memory, start, m, right)
    else:
        while left >= 0 and not is_valid(memory, left, free):
            left -= 1
        while right < m and not is_valid(memory, right, free):
            right += 1
    if right >= m or (left >= 0 and target - (left + 1) <= right - target):
        return left << shift, step
    return right << shift, step


@inlined
def charge(memory: Memory, lower: int, step: int, y: int, reported: float) -> None:
    """Charge the round to its end of the cell and make a valid cell current.

    An outcome inside the cell is charged to the point it is itself, which takes no bias.
    """
    memory[ROUNDS] += 1
    if (lower < y) & (y < lower + step):
        memory[MOVED] += travelled(memory, lower, step, y, reported)
        return
    low, high, shift = memory[LOW], memory[HIGH], memory[SHIFT]
    above = int(y > lower)
    point = lower + step * above
    change = point - y
    index = point >> shift
    new = memory[TABLE + index] + change
    memory[TABLE + index] = new
    bias = new - memory[TILT] * point
    memory[SPREAD] += abs(bias) - abs(bias - change)
    memory[MOVED] += travelled(memory, lower, step, point, reported)
    cell = index - above + (above & (new < low)) - ((1 - above) & (new > high))
    while memory[TABLE + cell] > high:
        cell -= 1
    while memory[TABLE + cell + 1] < low:
        cell += 1
    memory[LOWER] = cell << shift
    if memory[HINTED]:
        if memory[FREED]:
            memory[EXCESS] += max(0, abs(bias) - high) - max(0, abs(bias - change) - high)
        mark_cells(memory, index)


@inlined
def mark_cells(memory: Memory, index: int) -> None:
    """Bring the marks of the two cells beside a point up to date, if there are marks."""
    m = cells_of(memory)
    start = TABLE + m + 1
    if start == len(memory):
        return
    words = n_words(m)
    for cell in range(max(0, index - 1), min(m, index + 1)):
        mark(memory, start, m, cell, is_valid(memory, cell, False))
        mark(memory, start + words, m, cell, is_valid(memory, cell, True))


@inlined
def certificate_rises(memory: Memory, lower: int, step: int, reported: float) -> tuple[float, float]:
    """By how much the certificate would rise with outcome 0 and with outcome 1."""
    index = TABLE + (lower >> memory[SHIFT])
    return rises_at_ends(memory, lower, step, memory[index], memory[index + 1], reported)
