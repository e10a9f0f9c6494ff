"""Almost-One-Step-Ahead on a grid whose points are all in its table: uniform, {0, 1/m, ..., 1}, or graded.

A round takes O(1). The grid stays; without a horizon, `nested_memory`, its cells are halved now and then.

The table holds a pair (position, sum) for each point, in order. See `cells` for the protocol and the
meaning of a sum. On a uniform grid a unit is 1/m until an outcome is neither 0 nor 1; then `refined` makes
it 2^SHIFT times smaller, once and for ever. On a graded grid (`graded`) it is 2^-28.

Without hints the labels stay sorted: all points left of the current cell accept 0, all right of it
accept 1. Only the charged point can change its label, and then the neighbouring cell is valid. The
two loops of `enter_valid` therefore only ever turn after hints or late labels have disturbed
that order; they end because 0 always accepts 0 and 1 always accepts 1.

If there may be hints, a point without bias accepts both outcomes, while that is covered. It may then come to
more bias than c, up to 1 - 1/m. The EXCESS is what points have beyond c; it is covered while it is no more
than the distance that reports have saved against the d/m that a round may cost.
"""

from __future__ import annotations

import numpy as np

from onlinecal.arrays import Ints
from onlinecal.compiling import inlined, uncounted
from onlinecal.forecasters.binary import cells, graded
from onlinecal.forecasters.binary.cells import (
    BELOW,
    BRIM,
    END,
    FINE,
    HIGH,
    LAST,
    LOW,
    LOWER,
    MOVED,
    OWN,
    REPORT,
    ROUNDS,
    SCALE,
    SPREAD,
    STEP,
    TABLE,
    TILT,
    Memory,
)

FORMAT_FIXED = 1

# The machine's own part of the header. SHIFT: a cell is 2^SHIFT units wide; UNEVEN if they differ. FREED:
# whether points without bias may accept both outcomes, which helps hints. EXCESS: then the sum over points
# of (|bias| - c)^+. SHARED: whether outcomes were shares; on a nested grid the stage when they first were. On
# a graded grid that stays, see `prices`: RATE is lambda in units of 1/SCALE^2; WEIGHT the sum of 1 + |kappa|,
# and CORNERS that with the weights max(v, 1 - v), in units of 1/SCALE. STAGE: of a nested grid; 0 on one that
# stays. LIMIT: the last round before its cells are divided.
SHIFT, FREED, EXCESS, SHARED, RATE, WEIGHT, CORNERS, STAGE, LIMIT = range(OWN, OWN + 9)
UNEVEN = -1
UNIT_BITS = 28
"""Units of at most about 2^-28, once outcomes are shares."""


def uniform_memory(n_cells: int, rule: str, slack: float, report: str, hints: bool = False) -> Ints:
    """The memory before the first round on a uniform grid: any cell is valid (sign) or the middle one."""
    memory = _laid_out(np.arange(n_cells + 1), rule, slack, report, hints)
    memory[FREED] = int(hints and rule == "balanced")
    free_points(memory)
    return memory


def graded_memory(points: Ints, slack: float) -> Ints:
    """The same for the balanced rule on the grid of these points, one of which is 1/2; no hints."""
    memory = _laid_out(points, "balanced", slack, cells.KINDS[cells.OUTER], False)
    memory[SHIFT] = UNEVEN
    memory[RATE], memory[WEIGHT], memory[CORNERS] = graded.prices(points)
    return memory


def nested_memory(slack: float, stage: int = 1) -> Ints:
    """The same without a horizon, as it begins or as it would be at a later stage."""
    memory = graded_memory(graded.nested_points(stage), slack)
    memory[STAGE], memory[LIMIT] = stage, last_round(int(memory[HIGH]), stage)
    memory[RATE] = memory[WEIGHT] = memory[CORNERS] = 0
    return memory


def _laid_out(points: Ints, rule: str, slack: float, report: str, hints: bool) -> Ints:
    """Header and table, in units of 1/points[-1], without biases."""
    scale = int(points[-1])
    middle = int(np.searchsorted(2 * points, scale)) - 1
    memory = cells.header(FORMAT_FIXED, scale, max(1, 2**31 // scale), rule, slack, report, hints)
    memory[LOWER], memory[STEP] = int(points[middle]), int(points[middle + 1] - points[middle])
    memory[END] = TABLE + 2 * len(points)
    memory[BELOW] = TABLE + 2 * middle
    memory[SHIFT], memory[LIMIT] = memory[STEP].bit_length() - 1, BRIM
    return np.concatenate([memory, np.column_stack([points, memory[TILT] * points]).ravel()])


@inlined
def cells_of(memory: Memory) -> int:
    """How many cells the grid has."""
    return ((memory[END] - TABLE) >> 1) - 1


def refined(memory: Ints, slack: float) -> Ints:
    """The memory, ready for outcomes that are neither 0 nor 1.

    On a uniform grid units become small enough, and nothing else changes. On a graded one wide cells are
    split and midpoints reported from now on.
    """
    if memory[SHARED]:
        return memory
    return _refined_graded(memory) if memory[SHIFT] == UNEVEN else _refined_uniform(memory, slack)


def _refined_uniform(memory: Ints, slack: float) -> Ints:
    shift = UNIT_BITS - int(memory[SCALE] - 1).bit_length()
    points, sums = memory[TABLE::2], memory[TABLE + 1 :: 2]
    rule, kind = ("balanced" if memory[TILT] else "sign"), cells.KINDS[memory[REPORT]]
    finer = _laid_out(points << shift, rule, slack, kind, bool(memory[cells.HINTED]))
    finer[TABLE + 1 :: 2] = sums << shift
    for field in (LOWER, LAST, SPREAD):
        finer[field] = int(memory[field]) << shift
    finer[MOVED] = -((-int(memory[MOVED]) * int(finer[FINE]) << shift) // int(memory[FINE]))
    for field in (BELOW, ROUNDS, FREED):
        finer[field] = memory[field]
    finer[SHARED] = 1
    free_points(finer)
    return finer


def _refined_graded(memory: Ints) -> Ints:
    points, sums = memory[TABLE : memory[END]].reshape(-1, 2).T
    stage = int(memory[STAGE])
    rate = graded.nested(stage).rate if stage else int(memory[RATE])
    every = graded.split(points, rate)
    finer = np.concatenate([memory[:TABLE], np.repeat(every, 2)])
    finer[TABLE + 1 :: 2][np.searchsorted(every, points)] = sums
    finer[END], finer[SHARED] = len(finer), stage or 1
    # without hints that is the midpoint; of rounds that were reported otherwise the distance is still known
    finer[REPORT] = cells.AT_HINT
    if not stage:
        added, widest = np.setdiff1d(every, points), int(np.diff(every).max())
        finer[RATE] = max(rate, -(-widest * graded.GRAIN // 2))
        finer[WEIGHT] += graded.GRAIN * len(added)
        finer[CORNERS] += np.maximum(added, graded.GRAIN - added).sum()
    finer[BELOW] = TABLE + 2 * np.searchsorted(every, memory[LOWER])
    enter_valid(finer, finer[BELOW])
    return finer


def free_points(memory: Ints) -> None:
    """Let points without bias accept both outcomes, if they may, and sum up what points have beyond c.

    On an odd number of cells with slack 1/2 no point would ever accept both outcomes, and hints be without
    effect: so that the two in the middle do, c is then at least 1/2 + 1/(2m).
    """
    if not memory[FREED]:
        return
    m, shift = int(cells_of(memory)), int(memory[SHIFT])
    memory[HIGH] = max(memory[HIGH], ((m + 1) >> 1) << shift)
    memory[LOW] = memory[SCALE] - memory[HIGH]
    biases = memory[TABLE + 1 :: 2] - memory[TABLE::2]
    memory[EXCESS] = np.maximum(np.abs(biases) - memory[HIGH], 0).sum()


@inlined
def takes_shares(memory: Memory) -> bool:
    """Whether it is `refined`."""
    return bool(memory[SHARED] != 0)


@inlined
def in_units(memory: Memory, lower: int, step: int) -> tuple[int, int]:
    """A cell in today's units, if it was reported before `refined`."""
    if memory[SHIFT] == UNEVEN:
        return lower, step
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
    """Whether every cell can be divided in two, if that is due after the coming round."""
    due = memory[ROUNDS] + 1 >= memory[LIMIT] and len(memory) < 2 * memory[END] - TABLE
    return bool(not due and bears(memory))


@inlined
def last_round(high: int, stage: int) -> int:
    """The last round that a nested grid serves, if the slack is `high` in its units."""
    if stage >= graded.LAST_STAGE:
        return BRIM
    first = min(stage, graded.NESTED_STAGES)
    return ((high * graded.NESTED_ROUNDS[first - 1]) >> graded.GRAIN_BITS) << (2 * (stage - first))


@uncounted
def halve(memory: Memory) -> None:
    """Divide every cell in two where the next of the nested grids does, and make a valid cell current.

    Once wide cells were split for shares, that is in the middle.
    """
    n_cells, stage = cells_of(memory), memory[STAGE]
    stride = 0 if memory[SHARED] or stage >= graded.NESTED_STAGES else 1 << (graded.NESTED_STAGES - 1 - stage)
    for cell in range(n_cells, 0, -1):
        above, upper, total = TABLE + 4 * cell, memory[TABLE + 2 * cell], memory[TABLE + 2 * cell + 1]
        middle = (memory[TABLE + 2 * cell - 2] + upper) >> 1
        if stride > 0:
            middle = graded.NESTED_POINTS[(2 * cell - 1) * stride]
        memory[above - 2], memory[above - 1] = middle, memory[TILT] * middle
        memory[above], memory[above + 1] = upper, total
    memory[END] += 2 * n_cells
    memory[STAGE], memory[LIMIT] = stage + 1, last_round(memory[HIGH], stage + 1)
    enter_valid(memory, 2 * memory[BELOW] - TABLE)


@inlined
def covered(memory: Memory) -> bool:
    """Whether unbiased points accept both outcomes: what they may add is within the guarantee."""
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
    zero = below <= memory[HIGH] or (free and below == tilt * memory[index])
    one = above >= memory[LOW] or (free and above == tilt * memory[index + 2])
    return bool(zero and one)


@inlined
def propose(memory: Memory, hint: float) -> tuple[int, int]:
    """The current cell, or in a memory that has hints the valid one nearest to the hint (of two, the lower).

    Without a hint that is the one nearest to the middle of the last round's cell.
    """
    step = memory[STEP]
    if hint < 0.0 and memory[cells.HINTED] == 0:
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
    return memory[TABLE + 2 * cell], step


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
    enter_valid(memory, charge_point(memory, lower, step, above, y, reported))
    if memory[ROUNDS] >= memory[LIMIT]:
        halve(memory)


@inlined
def pair_of(memory: Memory, lower: int, step: int, above: int) -> int:
    """The index of the pair of a cell's lower (0) or upper (1) end."""
    if lower == memory[LOWER] and step == memory[STEP]:
        return memory[BELOW] + 2 * above
    if memory[SHIFT] == UNEVEN:
        return cells.find(memory, lower + step * above)
    return TABLE + 2 * ((lower + step * above) >> memory[SHIFT])


@inlined
def charge_point(memory: Memory, lower: int, step: int, above: int, y: int, reported: float) -> int:
    """The same, but `enter_valid` is left to find a valid cell, searched from the pair of this index."""
    low, high = memory[LOW], memory[HIGH]
    point = lower + step * above
    change = point - y
    index = pair_of(memory, lower, step, above)
    new = memory[index + 1] + change
    memory[index + 1] = new
    bias = new - memory[TILT] * point
    memory[SPREAD] += abs(bias) - abs(bias - change)
    count(memory, lower, step, point, reported)
    if memory[FREED]:
        memory[EXCESS] += beyond(memory, bias) - beyond(memory, bias - change)
    return index + 2 * ((above & (new < low)) - ((1 - above) & (new > high)) - above)


@inlined
def enter_valid(memory: Memory, below: int) -> None:
    """Go down from a pair until it accepts 0, then up until the next accepts 1: that is the current cell."""
    while memory[below + 1] > memory[HIGH]:
        below -= 2
    while memory[below + 3] < memory[LOW]:
        below += 2
    memory[BELOW], memory[LOWER] = below, memory[below]
    if memory[SHIFT] == UNEVEN:
        memory[STEP] = memory[below + 2] - memory[below]


@inlined
def charge_inside(memory: Memory, lower: int, step: int, y: int, reported: float) -> None:
    """Charge the round to a point of its cell that takes no bias: the outcome y itself."""
    count(memory, lower, step, y, reported)
    if memory[ROUNDS] >= memory[LIMIT]:
        halve(memory)


@inlined
def count(memory: Memory, lower: int, step: int, y: int, reported: float) -> None:
    """Count the round and its distance."""
    memory[ROUNDS] += 1
    memory[LAST] = 2 * lower + step
    memory[MOVED] += cells.travelled(memory, lower, step, y, reported)


@inlined
def certificate_rises(
    memory: Memory, lower: int, step: int, reported: float, seen: bool
) -> tuple[float, float]:
    """By how much the certificate would rise with outcome 0 and with outcome 1; nothing is drawn."""
    below, above = pair_of(memory, lower, step, 0), pair_of(memory, lower, step, 1)
    return cells.rises_at_ends(memory, lower, step, memory[below + 1], memory[above + 1], reported)
