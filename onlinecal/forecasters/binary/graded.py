"""Almost-One-Step-Ahead on a graded grid: finer in the middle, where a step of the grid would cost most.

A cell below 1/2 reports its lower end, so that only outcomes 1 cost its width; a cell above 1/2 reports its
upper end, so that only outcomes 0 do. With w the width of the cell below a point v <= 1/2, each round that is
charged to v then costs v w on average, but for the bias of v. A graded grid has v w = lambda at every point,
and 1/2 is one of its points (docs/theory.md, Theorem 7d). Points are whole numbers of 2^-28. `full_table`
says what the table holds and why a round takes O(1), and `cells` who keeps a memory. There are no hints.

The promise after T rounds is lambda T, and for each inner point (1 + |kappa|) times the bound on its bias
(Theorem 7c; with late labels Theorem 15, in a window 25a, with shares 26a).

LAMBDA and the two sums are written when a memory is made or `refined`, from its points. In a round only what
`full_table` names is written. A saved memory must have just the points that `graded_points` and `split` give
for its settings (`check_grid`), so none of their integers may change; `best_half` decides which grid is
played.

`contract` says what each function of the module does, and what SETTINGS, ACCUMULATORS and PROMISED_BY are
for. The rule of validity is that of `full_table.make_valid`, with no second form: there are no hints here,
and no guide. `promise` is `bound`, which `choice` also calls to decide between this grid and a uniform one.
`_bound_of_size` says the same for a grid that is not made yet, without late labels and shares; both change
together.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from onlinecal.arrays import Ints
from onlinecal.compiling import inlined
from onlinecal.forecasters.binary import cells, full_table
from onlinecal.forecasters.binary.cells import (
    BELOW,
    BRIM,
    END,
    FINE,
    LOWER,
    MOVED,
    REPORT,
    SCALE,
    SPREAD,
    STEP,
    TABLE,
    Memory,
    find,
)
from onlinecal.forecasters.binary.full_table import (
    FIRST_OF_GRID,
    SHARED,
    change_bias,
    check_current_cell,
    count_round,
    first_to_try,
    make_valid,
    new_table,
    rounding_of,
)
from onlinecal.forecasters.binary.guarantees import Terms
from onlinecal.layout import Layout
from onlinecal.restoring import require

FORMAT_GRADED = 3

# what is alike on all grids of a full table
bears = full_table.bears
note_late = full_table.note_late
takes_shares = full_table.takes_shares

HEADER = Layout(FIRST_OF_GRID)
LAMBDA = HEADER.field("lambda, see `prices`", "1/SCALE^2")
WEIGHT_SUM = HEADER.field("the sum over inner points of 1 + |kappa|", "units")
CORNER_SUM = HEADER.field("the same with the weights max(v, 1 - v)", "units")
SETTINGS = range(LAMBDA, TABLE)
ACCUMULATORS = MOVED, SPREAD
PROMISED_BY = [SCALE, REPORT, FINE, END, SHARED, LAMBDA, WEIGHT_SUM, CORNER_SUM]

GRADED_SCALE_BITS = 28
GRADED_SCALE = 1 << GRADED_SCALE_BITS
MOST_TIMES_LAMBDA = 3
"""Once outcomes are shares no cell is wider than so many times lambda."""
MOST_HALF = 1 << 19
"""The most cells below 1/2: the narrowest are then some 2^7 units wide."""


@lru_cache(64)
def graded_points(half: int) -> Ints:
    """The points of the graded grid with so many cells below 1/2 and as many above, in units of 2^-28."""
    rate, step = 1.0 / (8 * half), 1.0
    # Newton's method: v^2 of the lowest point falls 2 * half times as fast as the rate rises
    while abs(step) > 1e-15 * rate and half > 1:
        step = (_below(rate, half)[-1] ** 2 - rate) / (2 * half)
        rate += step
    lower = [0, *(round(v * GRADED_SCALE) for v in reversed(_below(rate, half)))]
    points = np.array([*lower, *(GRADED_SCALE - v for v in reversed(lower[:-1]))], np.int64)
    points.setflags(write=False)
    return points


def _below(rate: float, half: int) -> list[float]:
    """The points from 1/2 down to the lowest above 0: v w is the rate there, and at 1/2 the rate is w."""
    v = 0.5
    points = [v]
    for place in range(half - 1):
        v -= rate / v if place else rate
        points.append(v)
    return points


def best_half(rounds: int, weight: float) -> int:
    """The number of cells below 1/2 with the least bound: rounds * lambda plus `weight` for each point."""
    about = math.sqrt(rounds / (16.0 * weight))
    first = min(max(1, int(about + 0.25 * math.log(max(about, 1.0)) + 0.5)), MOST_HALF - 2)
    return min(range(first, first + 3), key=lambda half: _bound_of_size(rounds, weight, half))


def _bound_of_size(rounds: int, weight: float, half: int) -> float:
    rate, points, _ = prices(graded_points(half))
    return rounds * rate / GRADED_SCALE**2 + weight * points / GRADED_SCALE


def prices(points: Ints) -> tuple[int, int, int]:
    """Three numbers of a grid: lambda, the sum of 1 + |kappa| over inner points v, and a weighted sum of it.

    The weights are max(v, 1 - v). Lambda is in units of 1/scale^2. The sums are in units of 1/scale, and the
    second is rounded up.
    """
    scale, inner = points[-1], points[1:-1]
    ones, zeros = costs(points)
    rate = (inner * ones + (scale - inner) * zeros).max()
    weights = scale + np.abs(zeros - ones)
    corners = -(-weights * np.maximum(inner, scale - inner) // scale)
    return int(rate), int(weights.sum()), int(corners.sum())


def costs(points: Ints) -> tuple[Ints, Ints]:
    """The distance of each inner point from its report when it is charged with a one, and with a zero."""
    scale, inner, widths = points[-1], points[1:-1], np.diff(points)
    return np.where(2 * inner <= scale, widths[:-1], 0), np.where(2 * inner >= scale, widths[1:], 0)


def split(points: Ints, rate: int) -> Ints:
    """The points and more between them, evenly in each cell, until none is wider than 3 times this lambda."""
    widest = max(1, MOST_TIMES_LAMBDA * rate // int(points[-1]))
    pieces = -(-np.diff(points) // widest)
    cells = zip(points.tolist(), points[1:].tolist(), pieces.tolist(), strict=False)
    return np.array(
        [low + (high - low) * part // number for low, high, number in cells for part in range(number)]
        + [int(points[-1])],
        np.int64,
    )


def new_memory(points: Ints, slack: float) -> Ints:
    """The memory before the first round, for the balanced rule on these points, one of which is 1/2."""
    memory = new_table(FORMAT_GRADED, points, "balanced", slack, cells.REPORT_KINDS[cells.OUTER], False)
    memory[LAMBDA], memory[WEIGHT_SUM], memory[CORNER_SUM] = prices(points)
    return memory


def with_more_points(memory: Ints, points: Ints) -> Ints:
    """The memory with these points, the new ones without a charge, which reports midpoints from now on."""
    before, sums = memory[TABLE : memory[END]].reshape(-1, 2).T
    finer = np.concatenate([memory[:TABLE], np.repeat(points, 2)])
    finer[TABLE + 1 :: 2][np.searchsorted(points, before)] = sums
    finer[END] = len(finer)
    # without hints this reports the midpoint, and the distance of rounds that were reported before stays
    # exact
    finer[REPORT] = cells.AT_HINT
    enter_valid(finer, TABLE + 2 * int(np.searchsorted(points, memory[LOWER])))
    return finer


def refined(memory: Ints, slack: float) -> Ints:
    """The memory, ready for outcomes that are neither 0 nor 1: wide cells are split."""
    if memory[SHARED]:
        return memory
    points, rate = memory[TABLE : memory[END] : 2], int(memory[LAMBDA])
    every = split(points, rate)
    finer = with_more_points(memory, every)
    added, widest = np.setdiff1d(every, points), int(np.diff(every).max())
    finer[SHARED] = 1
    finer[LAMBDA] = max(rate, -(-widest * GRADED_SCALE // 2))
    finer[WEIGHT_SUM] += GRADED_SCALE * len(added)
    finer[CORNER_SUM] += np.maximum(added, GRADED_SCALE - added).sum()
    return finer


@inlined
def in_units(memory: Memory, lower: int, step: int) -> tuple[int, int]:
    """A cell in today's units, which never change."""
    return lower, step


@inlined
def has_room(memory: Memory) -> bool:
    """Whether another round can be played: the table never grows."""
    return bears(memory)


@inlined
def propose(memory: Memory, hint: float) -> tuple[int, int]:
    """The current cell."""
    return memory[LOWER], memory[STEP]


@inlined
def pair_of(memory: Memory, lower: int, step: int, above: int) -> int:
    """The index of the pair of a cell's lower (0) or upper (1) end."""
    if lower == memory[LOWER] and step == memory[STEP]:
        return memory[BELOW] + 2 * above
    return find(memory, lower + step * above)


@inlined
def enter_valid(memory: Memory, below: int) -> None:
    """Make the valid cell current that is nearest to the cell whose lower end has this pair."""
    make_valid(memory, below)
    memory[STEP] = memory[memory[BELOW] + 2] - memory[LOWER]


@inlined
def charge(memory: Memory, lower: int, step: int, above: int, y: int, reported: float) -> None:
    """Charge the round to the lower (0) or upper (1) end of its cell, and make a valid cell current.

    The outcome y is not inside the cell.
    """
    point = lower + step * above
    index = pair_of(memory, lower, step, above)
    change_bias(memory, index, point - y)
    count_round(memory, lower, step, point, reported)
    enter_valid(memory, first_to_try(memory, index, above))


@inlined
def charge_inside(memory: Memory, lower: int, step: int, y: int, reported: float) -> None:
    """Charge the round to a point of its cell that takes no bias: the outcome y itself."""
    count_round(memory, lower, step, y, reported)


@inlined
def certificate_rises(
    memory: Memory, lower: int, step: int, reported: float, seen: bool
) -> tuple[float, float]:
    """By how much the certificate would rise with outcome 0 and with outcome 1; nothing is drawn."""
    below, above = pair_of(memory, lower, step, 0), pair_of(memory, lower, step, 1)
    return cells.rises_at_ends(memory, lower, step, memory[below + 1], memory[above + 1], reported)


def room_of(memory: Ints) -> int:
    """How many integers a memory takes up in all."""
    return len(memory)


def bound(memory: Memory, slack: float, rounds: int, late: int) -> float:
    """lambda T plus, for each point, (1 + |kappa|) times the bound c + D max(v, 1 - v) of its bias.

    Once outcomes are shares lambda is at least half of the widest cell, and the D + 1 forecasts that were
    open then may cost the width of a cell each.
    """
    scale = int(memory[SCALE])
    biases = slack * int(memory[WEIGHT_SUM]) + late * int(memory[CORNER_SUM])
    total = (rounds * int(memory[LAMBDA]) / scale + biases) / scale
    return total + (rounds * rounding_of(memory) + 0.5 * (late + 1) if memory[SHARED] else 0.0)


def promise(memory: Memory, terms: Terms, rounds: int, late: int) -> float:
    """The bound beforehand on distance plus bias after so many rounds with so many forecasts late."""
    return bound(memory, terms.biases.slack, rounds, late)


def window_promise(memory: Memory, terms: Terms, rounds: int, late: int) -> float | None:
    """The bound on any so many consecutive rounds.

    It adds up the lengths of the intervals that biases stay in. Each forecast that may be open besides the
    newest makes them 1 longer.
    """
    lengths = bound(memory, terms.biases.length + late, rounds, 0)
    return lengths + (late * 0.5 if memory[SHARED] else 0.0)


def most_rounds(memory: Memory, terms: Terms, late: int) -> int:
    """How many rounds the accumulators bear in all, whatever comes; the bound also bounds their distance."""
    scale, fine = int(memory[SCALE]), int(memory[FINE])
    apart = bound(memory, terms.biases.slack, 0, late) * scale
    each = 2 * fine * (int(memory[LAMBDA]) // scale + 1) + (fine + 1 if memory[SHARED] else 0)
    return int(min((BRIM - 4.0 * fine * apart) // each, BRIM // scale if apart >= BRIM else BRIM))


def check_grid(memory: Ints, like: Ints) -> None:
    """ValueError unless the memory has the points of `like`, and a cell of them is current."""
    check_current_cell(memory)
    require(memory[SHARED] == like[SHARED] and len(memory) == memory[END], "its grid")
    require(np.array_equal(memory[TABLE::2], like[TABLE::2]), "its points")


def is_cell(memory: Ints, lower: int, step: int) -> bool:
    """Whether a round may wait that was reported in this cell: its ends are points."""
    points = memory[TABLE : memory[END] : 2]
    ends = np.array([lower, lower + step])
    places = np.searchsorted(points, ends)
    return step > 0 and places[1] < len(points) and bool((points[places] == ends).all())
