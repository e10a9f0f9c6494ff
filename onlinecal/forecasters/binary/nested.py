"""Almost-One-Step-Ahead without a horizon on graded grids whose cells are halved as rounds go by.

The grid of stage s has 2^s cells. LIMIT says how many rounds it serves; then every cell is divided in two
where the next grid has a point. Points of one grid are points of the next, so the table survives. Otherwise a
round is that of `graded`. `cells` says who keeps a memory.

STAGE and LIMIT change in `charge` and `charge_inside` alone, by `halve`, once the round that LIMIT names has
been charged. The current cell is then made valid on the next grid. So between two rounds the grid is that of
the coming round. NESTED_POINTS and NESTED_ROUNDS decide forecasts, and `check_grid` refuses a saved memory
that does not have them.

The promise after t rounds adds up lambda of each stage over its rounds, the bounds on biases, and what a
change of kappa costs at each division (docs/theory.md, Theorem 11a; with shares 26a). No window is promised.

`contract` says what each function of the module does, and what SETTINGS, ACCUMULATORS and PROMISED_BY are
for. The rule of validity is that of `full_table.make_valid`, with no second form: there are no hints here,
and no guide. `promise` is `bound`, which `most_rounds` calls, too; nothing else says it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from onlinecal.arrays import Ints
from onlinecal.compiling import inlined, uncounted
from onlinecal.forecasters.binary import cells, full_table, graded
from onlinecal.forecasters.binary.cells import (
    BELOW,
    BRIM,
    END,
    FINE,
    HIGH,
    MOVED,
    REPORT,
    ROUNDS,
    SCALE,
    SPREAD,
    TABLE,
    TILT,
    Memory,
)
from onlinecal.forecasters.binary.full_table import (
    FIRST_OF_GRID,
    SHARED,
    cells_of,
    check_current_cell,
    new_table,
    rounding_of,
)
from onlinecal.forecasters.binary.graded import (
    GRADED_SCALE,
    GRADED_SCALE_BITS,
    enter_valid,
    graded_points,
    prices,
    split,
    with_more_points,
)
from onlinecal.forecasters.binary.guarantees import Terms, last_bearable
from onlinecal.layout import Layout
from onlinecal.restoring import require

FORMAT_NESTED = 4

# what is alike on all grids of a full table, and on graded ones
bears = full_table.bears
note_late = full_table.note_late
takes_shares = full_table.takes_shares
certificate_rises = graded.certificate_rises
in_units = graded.in_units
is_cell = graded.is_cell
propose = graded.propose

HEADER = Layout(FIRST_OF_GRID)
STAGE = HEADER.field("there are 2^STAGE cells, or more once wide ones were split for shares", "count")
LIMIT = HEADER.field("the last round before cells are divided", "round")
SETTINGS = range(HEADER.end, TABLE)
ACCUMULATORS = MOVED, SPREAD
PROMISED_BY = [SCALE, REPORT, FINE, END, HIGH, SHARED, STAGE]

NESTED_STAGES = 5
"""The nested grid of stage s has 2^s cells; up to this stage its points are some of NESTED_POINTS."""
NESTED_POINTS = graded_points(1 << (NESTED_STAGES - 1))
NESTED_ROUNDS = np.array([4, 42, 222, 800, 4865], np.int64)
"""The last rounds that the grids of the stages 1 to NESTED_STAGES serve, at slack 1; they grow with the
slack. Each later grid serves four times as long as the one before. The first four numbers are such that the
guarantee is never above sqrt(3 t), at slack 1/2."""
LAST_STAGE = 19
"""The last stage serves for ever: at slack 1/2 it begins after some 10^11 rounds."""


class Nested(NamedTuple):
    """What the guarantee needs of a nested grid and of the next one.

    Attributes
    ----------
    rate, weight, corners
        The grid's `prices`.
    turn
        When the next grid takes over, the kappa of points change: the sum of the sizes of these changes.
    late_turn
        The same with each size times max(v, 1 - v), and the largest of these products once more.
    half_split
        Half of the widest cell if cells are split for shares, in units of 1/scale^2.
    """

    rate: int
    weight: int
    corners: int
    turn: int
    late_turn: int
    half_split: int


def nested_points(stage: int, split_at: int = 0) -> Ints:
    """The points of the nested grid of 2^stage cells, in units of 2^-28.

    There are more if wide cells were split for shares, at the stage `split_at`; 0 means that they were not.
    """
    first = split_at or min(stage, NESTED_STAGES)
    if split_at:
        points = split(nested_points(split_at), nested(split_at).rate)
    else:
        points = NESTED_POINTS[:: 1 << (NESTED_STAGES - first)]
    for _ in range(first, stage):
        middles = (points[:-1] + points[1:]) >> 1
        points = np.insert(points, np.arange(1, len(points)), middles)
    return points


@lru_cache(LAST_STAGE)
def nested(stage: int) -> Nested:
    """What the guarantee needs of the nested grid of 2^stage cells."""
    points = nested_points(stage)
    finer = nested_points(min(stage + 1, LAST_STAGE))
    inner = points[1:-1]
    (ones, zeros), later = graded.costs(points), graded.costs(finer)
    turns = np.abs(zeros - ones - (later[1] - later[0])[np.searchsorted(finer, inner) - 1])
    weighted = -(-turns * np.maximum(inner, GRADED_SCALE - inner) // GRADED_SCALE)
    owned = prices(points)
    widest = int(np.diff(split(points, owned[0])).max())
    late_turn = int(weighted.sum() + weighted.max())
    return Nested(*owned, int(turns.sum()), late_turn, widest * (GRADED_SCALE >> 1))


def new_memory(slack: float, stage: int = 1) -> Ints:
    """The memory before the first round, or as it would be at a later stage."""
    memory = new_table(
        FORMAT_NESTED, nested_points(stage), "balanced", slack, cells.REPORT_KINDS[cells.OUTER], False
    )
    memory[STAGE], memory[LIMIT] = stage, last_round(int(memory[HIGH]), stage)
    return memory


def refined(memory: Ints, slack: float) -> Ints:
    """The memory, ready for outcomes that are neither 0 nor 1: wide cells are split."""
    if memory[SHARED]:
        return memory
    stage = int(memory[STAGE])
    finer = with_more_points(memory, split(memory[TABLE : memory[END] : 2], nested(stage).rate))
    finer[SHARED] = stage
    return finer


@inlined
def has_room(memory: Memory) -> bool:
    """Whether another round can be played, with room to divide every cell in two if that is due after it."""
    due = memory[ROUNDS] + 1 >= memory[LIMIT] and len(memory) < 2 * memory[END] - TABLE
    return bool(not due and bears(memory))


@inlined
def last_round(high: int, stage: int) -> int:
    """The last round that the grid of a stage serves, if the slack is `high` in its units."""
    if stage >= LAST_STAGE:
        return BRIM
    first = min(stage, NESTED_STAGES)
    return ((high * NESTED_ROUNDS[first - 1]) >> GRADED_SCALE_BITS) << (2 * (stage - first))


@uncounted
def halve(memory: Memory) -> None:
    """Divide every cell in two as the next nested grid does, and make a valid cell current.

    Once wide cells were split for shares, cells are divided in the middle.
    """
    n_cells, stage = cells_of(memory), memory[STAGE]
    stride = 0 if memory[SHARED] or stage >= NESTED_STAGES else 1 << (NESTED_STAGES - 1 - stage)
    for cell in range(n_cells, 0, -1):
        above, upper, total = TABLE + 4 * cell, memory[TABLE + 2 * cell], memory[TABLE + 2 * cell + 1]
        middle = (memory[TABLE + 2 * cell - 2] + upper) >> 1
        if stride > 0:
            middle = NESTED_POINTS[(2 * cell - 1) * stride]
        memory[above - 2], memory[above - 1] = middle, memory[TILT] * middle
        memory[above], memory[above + 1] = upper, total
    memory[END] += 2 * n_cells
    memory[STAGE], memory[LIMIT] = stage + 1, last_round(memory[HIGH], stage + 1)
    enter_valid(memory, 2 * memory[BELOW] - TABLE)


@inlined
def charge(memory: Memory, lower: int, step: int, above: int, y: int, reported: float) -> None:
    """`graded.charge`, and cells are halved where that is due."""
    graded.charge(memory, lower, step, above, y, reported)
    if memory[ROUNDS] >= memory[LIMIT]:
        halve(memory)


@inlined
def charge_inside(memory: Memory, lower: int, step: int, y: int, reported: float) -> None:
    """Charge the round to a point of its cell that takes no bias: the outcome y itself."""
    graded.charge_inside(memory, lower, step, y, reported)
    if memory[ROUNDS] >= memory[LIMIT]:
        halve(memory)


def room_of(memory: Ints) -> int:
    """How many integers a memory takes up in all: enough for the next grid, too."""
    return int(2 * memory[END] - TABLE)


def bound(memory: Memory, slack: float, rounds: int, late: int) -> float:
    """The sum over s <= t of lambda_s, the biases' bounds, and what a change of kappa costs at each division.

    Late labels add lambda of the first grid, and what `Nested` says. Once outcomes are shares a round may
    cost half of the widest cell, which each division halves. On the grid of the first share cells may have
    been whole for most rounds: there a round may cost lambda, if that is more.
    """
    scale, split_at, stage, start = int(memory[SCALE]), int(memory[SHARED]), 1, 0
    weight = corners = moved = 0
    while True:
        now, rate = nested(stage), nested(stage).rate
        if split_at and stage >= split_at:
            half = (nested(split_at).half_split >> (stage - split_at)) + scale
            rate = max(rate, half) if stage == split_at else half
        end = min(rounds, int(last_round(int(memory[HIGH]), stage)))
        moved += rate * (end - start + (late if stage == 1 else 0))
        if end == rounds:
            break
        if not split_at or stage < split_at:
            weight, corners = weight + now.turn, corners + now.late_turn
        stage, start = stage + 1, end
    if split_at:
        # each point counts 1 at most, and all |kappa| that there were as much as one
        most = scale * cells_of(memory) << max(0, stage - int(memory[STAGE]))
        now = now._replace(weight=most, corners=most)
    total = (moved / scale + slack * (weight + now.weight) + late * (corners + now.corners)) / scale
    return total + (rounds * rounding_of(memory) + 0.5 * (late + 1) if split_at else 0.0)


def promise(memory: Memory, terms: Terms, rounds: int, late: int) -> float:
    """The bound beforehand on distance plus bias after so many rounds with so many forecasts late."""
    return bound(memory, terms.biases.slack, rounds, late)


def window_promise(memory: Memory, terms: Terms, rounds: int, late: int) -> float | None:
    """None: a grid that changes promises nothing of windows."""
    return None


def most_rounds(memory: Memory, terms: Terms, late: int) -> int:
    """How many rounds the accumulators bear in all, whatever comes; the bound also bounds their distance."""
    # SPREAD is in units of 2^-28, MOVED in units of 2^-32
    return last_bearable(lambda rounds: bound(memory, terms.biases.slack, rounds, late) >= 1 << 29)


def check_grid(memory: Ints, like: Ints) -> None:
    """ValueError unless the memory has the points of its stage, and a cell of them is current."""
    check_current_cell(memory)
    stage, split_at = int(memory[STAGE]), int(memory[SHARED])
    require(0 <= split_at <= stage and 0 < stage <= LAST_STAGE, "its grid")
    require(int(memory[LIMIT]) == last_round(int(memory[HIGH]), stage), "its grid")
    require(np.array_equal(memory[TABLE : memory[END] : 2], nested_points(stage, split_at)), "its points")
