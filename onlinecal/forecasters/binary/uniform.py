"""Almost-One-Step-Ahead on a uniform grid {0, 1/m, ..., 1}: the paper's, and the one for hints.

A unit is 1/m until an outcome is neither 0 nor 1. Then `refined` makes it 2^SHIFT times smaller, once and for
ever. `full_table` says what the table holds and why a round takes O(1), and `cells` what HIGH, LOW and TILT
are, and who keeps a memory.

The largest bias that the rule normally allows is c, and d/m is the most that one round may cost. If there may
be hints, a point without bias accepts both outcomes, while the promise still holds. Its bias may then exceed
c, up to 1 - 1/m. EXCESS is the sum of what biases have beyond c. It is *covered* while it is no more than the
distance that reports have saved against the d/m of each round.

The promise after T rounds is d T/m for the distance and c for the bias of each of the m - 1 inner points
(docs/theory.md, Theorem 7; where points without bias are free Theorem 7a, with late labels Theorem 15).

EXCESS is written by `charge_point`, and anew by `free_points`; SHIFT, FREED and the thresholds only when a
memory is made or `refined`. All else in a round is written as `full_table` says. UNIT_BITS decides into which
units outcomes between 0 and 1 are rounded, and so what saved memories of such outcomes have.

`contract` says what each function of the module does, and what SETTINGS, ACCUMULATORS and PROMISED_BY are
for. Three things are said twice, and change together. Which cells are valid (`is_valid`) and which of them is
nearest to a hint (`propose`) is also in `marks` (`mark_both_sides`, `changes_cells`, `nearest_marked`) and in
`guided_uniform.propose`, which replays with hints use. `full_table.make_valid` has the rule of validity
without free points. And `promise`, or for a window `window_promise`, is without late labels, hints and shares
also `uniform_bound` in `choice` (`_memory_that_stays`), which decides between this grid and a graded one
before there is a memory.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from onlinecal.arrays import Ints
from onlinecal.compiling import inlined
from onlinecal.forecasters.binary import cells, full_table
from onlinecal.forecasters.binary.cells import (
    BELOW,
    BRIM,
    END,
    FINE,
    HIGH,
    LAST_MIDDLE,
    LOW,
    LOWER,
    MOVED,
    REPORT,
    ROUNDS,
    SCALE,
    SPREAD,
    STEP,
    TABLE,
    TILT,
    Memory,
)
from onlinecal.forecasters.binary.full_table import (
    FIRST_OF_GRID,
    SHARED,
    cells_of,
    change_bias,
    check_current_cell,
    count_round,
    first_to_try,
    make_valid,
    new_table,
    rounding_of,
)
from onlinecal.forecasters.binary.guarantees import Biases, Terms
from onlinecal.layout import Layout
from onlinecal.restoring import require

FORMAT_UNIFORM = 1

# what is alike on all grids of a full table
bears = full_table.bears
note_late = full_table.note_late
takes_shares = full_table.takes_shares

HEADER = Layout(FIRST_OF_GRID)
SHIFT = HEADER.field("a cell is 2^SHIFT units wide", "count")
FREED = HEADER.field("whether points without bias may accept both outcomes, which helps hints", "0 or 1")
EXCESS = HEADER.field("the sum over points of (|bias| - c)^+, where points are freed", "units")
SETTINGS = SHIFT, FREED, *range(HEADER.end, TABLE)
ACCUMULATORS = MOVED, SPREAD
PROMISED_BY = [SCALE, REPORT, FINE, END, SHARED, FREED]
UNIT_BITS = 28
"""Once outcomes are shares units are about 2^-28, or smaller."""


def new_memory(n_cells: int, rule: str, slack: float, report: str, hints: bool = False) -> Ints:
    """The memory before the first round."""
    memory = new_table(FORMAT_UNIFORM, np.arange(n_cells + 1), rule, slack, report, hints)
    memory[FREED] = int(hints and rule == "balanced")
    free_points(memory)
    return memory


def refined(memory: Ints, slack: float) -> Ints:
    """The memory, ready for outcomes that are neither 0 nor 1: only its units become small enough."""
    if memory[SHARED]:
        return memory
    shift = UNIT_BITS - int(memory[SCALE] - 1).bit_length()
    points, sums = memory[TABLE::2], memory[TABLE + 1 :: 2]
    rule, report = ("balanced" if memory[TILT] else "sign"), cells.REPORT_KINDS[memory[REPORT]]
    finer = new_table(FORMAT_UNIFORM, points << shift, rule, slack, report, bool(memory[cells.HINTED]))
    finer[TABLE + 1 :: 2] = sums << shift
    for field in (LOWER, LAST_MIDDLE, SPREAD):
        finer[field] = int(memory[field]) << shift
    # distances are rounded up, so that their sum is never understated
    finer[MOVED] = -((-int(memory[MOVED]) * int(finer[FINE]) << shift) // int(memory[FINE]))
    for field in (BELOW, ROUNDS, FREED):
        finer[field] = memory[field]
    finer[SHIFT], finer[SHARED] = shift, 1
    free_points(finer)
    return finer


def free_points(memory: Ints) -> None:
    """Let points without bias accept both outcomes, if they may, and sum up what points have beyond c.

    On an odd number of cells with slack 1/2 no point would ever accept both outcomes, and hints would have no
    effect. So c is at least 1/2 + 1/(2m) then, and the two points in the middle accept both.
    """
    if not memory[FREED]:
        return
    m, step = int(cells_of(memory)), int(memory[STEP])
    memory[HIGH] = max(memory[HIGH], ((m + 1) >> 1) * step)
    memory[LOW] = memory[SCALE] - memory[HIGH]
    biases = memory[TABLE + 1 :: 2] - memory[TABLE::2]
    memory[EXCESS] = np.maximum(np.abs(biases) - memory[HIGH], 0).sum()


@inlined
def in_units(memory: Memory, lower: int, step: int) -> tuple[int, int]:
    """A cell in today's units, if it was reported before `refined`."""
    factor = memory[STEP] // step
    return lower * factor, step * factor


@inlined
def has_room(memory: Memory) -> bool:
    """Whether another round can be played: the table never grows."""
    return bears(memory)


@inlined
def covered(memory: Memory) -> bool:
    """Whether unbiased points accept both outcomes: the bias beyond c is within the guarantee."""
    fine = memory[FINE]
    price = (memory[STEP] if memory[REPORT] == cells.MIDPOINT else 2 * memory[STEP]) * fine
    if memory[SHARED]:
        # what rounding costs is within the guarantee too
        price += fine + 1
    return bool(memory[FREED] and memory[MOVED] + 2 * fine * memory[EXCESS] <= price * memory[ROUNDS])


@inlined
def is_valid(memory: Memory, cell: int, free: bool) -> bool:
    """Whether the ends of a cell, by its number, accept 0 and 1; `free` lets unbiased points accept both."""
    index, tilt = TABLE + 2 * cell, memory[TILT]
    below, above = memory[index + 1], memory[index + 3]
    accepts_zero = below <= memory[HIGH] or (free and below == tilt * memory[index])
    accepts_one = above >= memory[LOW] or (free and above == tilt * memory[index + 2])
    return bool(accepts_zero and accepts_one)


@inlined
def propose(memory: Memory, hint: float) -> tuple[int, int]:
    """The current cell, or in a memory that has hints the valid one nearest to the hint (of two, the lower).

    Without a hint it is the one nearest to the middle of the last round's cell.
    """
    step = memory[STEP]
    if hint < 0.0 and memory[cells.HINTED] == 0:
        return memory[LOWER], step
    m, free = cells_of(memory), covered(memory)
    target = hint * m if hint >= 0.0 else memory[LAST_MIDDLE] / (2 * step)
    left = right = cell = min(int(target), m - 1)
    while not is_valid(memory, cell, free):
        if right + 1 >= m or (left > 0 and target - left <= right + 1 - target):
            left -= 1
            cell = left
        else:
            right += 1
            cell = right
    return memory[TABLE + 2 * cell], step


@inlined
def beyond(memory: Memory, bias: int) -> int:
    """By how much the size of a bias exceeds c; 0 if it does not."""
    excess = abs(bias) - memory[HIGH]
    return excess * (excess > 0)


@inlined
def pair_of(memory: Memory, lower: int, above: int) -> int:
    """The index of the pair of a cell's lower (0) or upper (1) end."""
    below = memory[BELOW] if lower == memory[LOWER] else TABLE + 2 * (lower >> memory[SHIFT])
    return below + 2 * above


@inlined
def charge(memory: Memory, lower: int, step: int, above: int, y: int, reported: float) -> None:
    """Charge the round to the lower (0) or upper (1) end of its cell, and make a valid cell current.

    The outcome y is not inside the cell.
    """
    make_valid(memory, charge_point(memory, lower, step, above, y, reported))


@inlined
def charge_point(memory: Memory, lower: int, step: int, above: int, y: int, reported: float) -> int:
    """The same without `make_valid`, which the caller is to call with the index that this returns."""
    point = lower + step * above
    index, change = pair_of(memory, lower, above), point - y
    bias = change_bias(memory, index, change)
    count_round(memory, lower, step, point, reported)
    if memory[FREED]:
        memory[EXCESS] += beyond(memory, bias) - beyond(memory, bias - change)
    return first_to_try(memory, index, above)


@inlined
def charge_inside(memory: Memory, lower: int, step: int, y: int, reported: float) -> None:
    """Charge the round to a point of its cell that takes no bias: the outcome y itself."""
    count_round(memory, lower, step, y, reported)


@inlined
def certificate_rises(
    memory: Memory, lower: int, step: int, reported: float, seen: bool
) -> tuple[float, float]:
    """By how much the certificate would rise with outcome 0 and with outcome 1; nothing is drawn."""
    below, above = memory[pair_of(memory, lower, 0) + 1], memory[pair_of(memory, lower, 1) + 1]
    return cells.rises_at_ends(memory, lower, step, below, above, reported)


def room_of(memory: Ints) -> int:
    """How many integers a memory takes up in all."""
    return len(memory)


def _of_biases(memory: Memory, terms: Terms) -> tuple[int, Biases]:
    """The number of cells, and the bounds of biases, which allow for an odd number of cells with hints."""
    m, slack = int(cells_of(memory)), terms.biases.slack
    if memory[FREED]:
        slack = max(slack, (m + 1) // 2 / m)
    return m, terms.biases._replace(slack=slack)


def promise(memory: Memory, terms: Terms, rounds: int, late: int) -> float:
    """The bound beforehand on distance plus bias after so many rounds with so many forecasts late."""
    m, biases = _of_biases(memory, terms)
    total = terms.reach * rounds / m + rounds * rounding_of(memory) + biases.total(m, late)
    # one point without bias may exceed c by 1 - 1/m - c; with late labels as many points as are open
    beyond_slack = 1.0 - 1.0 / m - biases.slack
    if memory[FREED] and beyond_slack > 0.0:
        total += late + 1.0 if late else beyond_slack
    return total


def window_promise(memory: Memory, terms: Terms, rounds: int, late: int) -> float | None:
    """The bound on any so many consecutive rounds.

    It adds up the lengths of the intervals that biases stay in. Each forecast that may be open besides the
    newest makes them 1 longer. A point v without bias that accepts both outcomes may come to a bias of v, or
    v - 1, if that is beyond c.
    """
    m, biases = _of_biases(memory, terms)
    lengths = (m - 1) * biases.length
    if memory[FREED]:
        within = min(m - 1, math.floor(Fraction(biases.slack) * m))
        beyond_slack = Fraction((m - 1 - within) * (m + within), 2 * m)
        lengths = 2.0 * (biases.slack * within + float(beyond_slack))
    return rounds * (terms.reach / m + rounding_of(memory)) + (lengths + late * (m - 1))


def most_rounds(memory: Memory, terms: Terms, late: int) -> int:
    """How many rounds the accumulators bear in all, whatever comes."""
    report, fine, scale = int(memory[REPORT]), int(memory[FINE]), int(memory[SCALE])
    # the most that a round adds to MOVED
    dearest = (1 if report == cells.MIDPOINT else 2) * int(memory[STEP]) * fine
    dearest += int(report == cells.AT_HINT) + (fine + 1 if memory[SHARED] else 0)
    most = -(-BRIM // dearest)
    # SPREAD is at most (c + late) scale for each of the points, and rises by at most `scale` in a round
    if (Fraction(_of_biases(memory, terms)[1].worst) + late) * scale * (scale - 1) >= BRIM:
        most = min(most, BRIM // scale)
    return most


def check_grid(memory: Ints, like: Ints) -> None:
    """ValueError unless the memory has the points of `like`, and a cell of them is current."""
    check_current_cell(memory)
    require(memory[SHARED] == like[SHARED] and len(memory) == memory[END], "its grid")
    require(np.array_equal(memory[TABLE::2], like[TABLE::2]), "its points")


def is_cell(memory: Ints, lower: int, step: int) -> bool:
    """Whether a round may wait that was reported in this cell, in today's units or in earlier ones."""
    return 0 < step <= memory[STEP] and (step | lower) & (step - 1) == 0
