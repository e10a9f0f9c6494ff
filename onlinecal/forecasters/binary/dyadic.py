"""Almost-One-Step-Ahead without a horizon: dyadic grids, nested or self-tuning, points kept sparsely.

Positions are integers in units of 2^-28, so a point of a coarse grid is the same point of every finer one:
the table survives each change of level. `contract` says what its functions do, and `cells` what HIGH, LOW and
TILT are, and who keeps a memory. The table holds a pair (position, sum) for 0, for 1 and for each point that
was ever charged; any other point has bias 0, so its sum is tilt * position. Steps are powers of two and cells
start at multiples of their step.

Invariant: the pairs are sorted by position. The first and the last are sentinels, 0 and 1, which never have a
bias: 0 accepts 0 and 1 accepts 1, so that every search ends. After each charge these hold:

- The current cell, from LOWER to LOWER + STEP, is valid: its lower end accepts 0 and its upper end accepts 1,
  by the rule or because it is unbiased and such points are *free*. The accounts cover it (`may_play`).
- BELOW and ABOVE are what `find` gives for its ends: the indices of the first pairs not below them. An end
  that was never charged has no pair there.
- SPREAD is the sum of the sizes of all biases, and ORPHANED that of `owed`, over all pairs.
- BASE is the step of the base grid. WISH stays the level's step up to the round LIMIT, unless a new point is
  charged.

After `new_memory` only `charge`, `charge_inside` and `note_late` write here, with the functions that they
call; `guided_dyadic` charges by `charge_pair`, which `charge` calls, too. TUNED, PRICE and the units stay as
they were made, but for SHARED_BIT, which `refined` sets in a copy. The slack (HIGH, LOW, BIAS_BOUND, PACE)
changes in `add_slack` alone, and only grows. EAGERNESS, EXTRA_EAGERNESS and ALLOWANCE decide forecasts, and
ALLOWANCE is in the promise, too.

*The accounts* say which level a grid may play on: what finer grids save and what they owe. Let c bound a
point's bias and d/m the distance from the report to the charged point. The *base* grid of round t is the
coarsest of the 2^k with t <= (4/3) 4^k c/d. "nested" always plays on it. "adaptive" prefers the coarsest grid
that also has m >= t d / (2 kappa c visited): the fewer points were charged, the finer. A finer grid saves
distance in every round, but what bias it leaves on *orphans*, points off the base grid, stays behind. So a
cell of a finer grid is played only if, whatever the outcome,

    bias on orphans + bias beyond c elsewhere <= distance saved against the base grid + (5/3) c ,

and distance plus bias never exceed what nested grids guarantee plus (5/3) c. Points without bias are free,
they accept both outcomes, as long as the right-hand side covers all bias there is and one more charge. A free
point's bias may come to more than c.

The promise is that of docs/theory.md, Theorem 11 for nested and Theorem 12 for self-tuning grids, with late
labels Theorem 15 and, where the slack grows with them, 15a. No window is promised.

`contract` also says what SETTINGS, ACCUMULATORS and PROMISED_BY are for. Which cells are valid (`accepts`,
`valid`) and which of them is nearest to a hint (`nearest_cell`) is said a second time in `marks`
(`mark_both_sides`, `changes_cells`, `nearest_marked`), and `propose` in `guided_dyadic.propose`: replays with
hints use these, and they change together. `promise` is `bound`, which `most_rounds` calls, too.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from onlinecal.compiling import inlined, uncounted
from onlinecal.forecasters.binary import cells
from onlinecal.forecasters.binary.cells import (
    ABOVE,
    BELOW,
    BRIM,
    END,
    FINE,
    GROWING_SLACK,
    HIGH,
    LAST_MIDDLE,
    LATE,
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
    find,
)
from onlinecal.forecasters.binary.guarantees import MOST_PROMISED, Terms, last_bearable
from onlinecal.layout import Layout
from onlinecal.restoring import require

FORMAT_DYADIC = 2
FINEST_LEVEL = 28
DYADIC_SCALE = 1 << FINEST_LEVEL
FINE_BITS = 8
EAGERNESS = 2
"""2 kappa = 2^-EAGERNESS says how eagerly the self-tuning grid refines: best on coins, safe elsewhere."""
EXTRA_EAGERNESS = 1
"""What is added to it where hints are good: they are then moved less, and the certificate is greater."""
ALLOWANCE = Fraction(5, 3)
"""Bias on orphans, in multiples of c, that no savings need to cover, since nested grids leave as much
unused."""

HEADER = Layout(OWN)
TUNED = HEADER.field("bits, see below", "choice")
PRICE = HEADER.field("the worst distance of a round", "half steps")
PACE = HEADER.field("c/d, for which base grids are made; (c + 3D/4)/d once slack has grown", "2^-16")
BIAS_BOUND = HEADER.field("c", "units")
BASE = HEADER.field("step of the base grid", "units")
LIMIT = HEADER.field("the last round before the level must be chosen anew", "round")
SAVED = HEADER.field("the account of what finer grids saved", "1/(2 SCALE FINE)")
ORPHANED = HEADER.field("the account of what they owe", "units")
WISH = HEADER.field("step of the level that was chosen; the accounts may not bear it in every round", "units")
ADAPTIVE_BIT, SHARED_BIT, EAGER_BIT = 1, 2, 4
"""The bits of TUNED. ADAPTIVE_BIT: the grid tunes itself, else it is nested. SHARED_BIT: outcomes were
shares. EAGER_BIT: hints are good, so the grid refines more eagerly, and distances from hints are measured in
odds."""
SETTINGS = PRICE, PACE, BIAS_BOUND
ACCUMULATORS = MOVED, SPREAD, SAVED
PROMISED_BY = [SCALE, REPORT, TUNED, PACE, HIGH, LATE, BASE]


def new_memory(
    rule: str, slack: float, report: str, tuned: int, hints: bool = False, grows: bool = False
) -> NDArray[np.int64]:
    """The memory before the first round; `tuned`: bits of TUNED; `grows`: whether late labels add slack."""
    memory = cells.header(FORMAT_DYADIC, DYADIC_SCALE, 1 << FINE_BITS, rule, slack, report, hints)
    bound = Fraction(1) if rule == "sign" else Fraction(slack)
    price = 1 if report == "midpoint" else 2
    memory[TUNED], memory[PRICE], memory[BIAS_BOUND] = tuned, price, int(bound * DYADIC_SCALE)
    memory[PACE] = int(bound * 2 / price * (1 << 16))
    memory[GROWING_SLACK] = memory[HIGH] if grows else 0
    memory[SAVED] = int(ALLOWANCE * bound * 2 * DYADIC_SCALE) * memory[FINE]
    memory[BASE] = DYADIC_SCALE
    memory += [0, 0, DYADIC_SCALE, memory[TILT] * DYADIC_SCALE]
    memory[END] = len(memory)
    begin(memory)
    return np.array(memory)


def refined(memory: NDArray[np.int64], slack: float) -> NDArray[np.int64]:
    """The memory, ready for outcomes that are neither 0 nor 1: its units are small enough."""
    if not memory[TUNED] & SHARED_BIT:
        memory = memory.copy()
        memory[TUNED] |= SHARED_BIT
    return memory


@inlined
def takes_shares(memory: Memory) -> bool:
    """Whether it is `refined`."""
    return bool(memory[TUNED] & SHARED_BIT != 0)


@inlined
def in_units(memory: Memory, lower: int, step: int) -> tuple[int, int]:
    """The cell itself, since the units of this grid never change."""
    return lower, step


@inlined
def note_late(memory: Memory, others: int) -> None:
    """So many others are open: slack that no user has set grows with the largest such number."""
    if others > memory[LATE] and memory[GROWING_SLACK] > 0:
        add_slack(memory, others)


@inlined
def bears(memory: Memory) -> bool:
    """Whether no accumulator can wrap in one more round."""
    moved_fits = memory[MOVED] < BRIM and memory[SAVED] < BRIM
    return bool(moved_fits and memory[SPREAD] < BRIM and memory[ROUNDS] < MOST_PROMISED)


@inlined
def has_room(memory: Memory) -> bool:
    """Whether a point that was never charged still fits."""
    return bool(memory[END] + 2 <= len(memory) and bears(memory))


@inlined
def propose(memory: Memory, hint: float) -> tuple[int, int]:
    """The current cell, or in a memory that has hints the valid one of the level that is nearest to the hint.

    Without a hint it is the one nearest to the middle of the last round's cell. If the accounts do not cover
    that cell, it is the nearest valid cell of the base grid.
    """
    step = memory[STEP]
    if hint < 0.0 and memory[cells.HINTED] == 0:
        return memory[LOWER], step
    target = hint * DYADIC_SCALE if hint >= 0.0 else memory[LAST_MIDDLE] / 2
    free, in_odds = unbiased_are_free(memory), memory[TUNED] & EAGER_BIT != 0
    while True:
        lower = nearest_cell(memory, target, step, free, in_odds)
        if may_play(memory, find(memory, lower), find(memory, lower + step), lower, step):
            return lower, step
        step = memory[BASE]


@inlined
def charge(memory: Memory, lower: int, step: int, above: int, y: int, reported: float) -> None:
    """Charge the round to the lower (0) or upper (1) end of its cell, and choose the next level and cell.

    The outcome y is not inside the cell. Call it only while `has_room`.
    """
    charge_pair(memory, find_end(memory, lower, step, above), lower, step, above, y, reported)


@inlined
def charge_pair(
    memory: Memory, index: int, lower: int, step: int, above: int, y: int, reported: float
) -> None:
    """The same; `index` is that of the first pair not below the charged end."""
    point = lower + step * above
    fresh = memory[index] != point
    if fresh:
        insert(memory, index, point)
    change = point - y
    new = memory[index + 1] + change
    memory[index + 1] = new
    bias = new - memory[TILT] * point
    memory[SPREAD] += abs(bias) - abs(bias - change)
    memory[ORPHANED] += owed(memory, point, bias) - owed(memory, point, bias - change)
    travel(memory, lower, step, point, reported)
    flipped = new < memory[LOW] if above else new > memory[HIGH]
    home = point == memory[LOWER] + memory[STEP] * above
    crossed = point == memory[LOWER] + memory[STEP] * (1 - above)
    choose_cell(memory, fresh, flipped and home, above, crossed)


@inlined
def charge_inside(memory: Memory, lower: int, step: int, y: int, reported: float) -> None:
    """Charge the round to a point of its cell that takes no bias: the outcome y itself."""
    travel(memory, lower, step, y, reported)
    choose_cell(memory, False, False, 0, False)


@inlined
def travel(memory: Memory, lower: int, step: int, point: int, reported: float) -> None:
    """Count the round and its distance."""
    moved = cells.travelled(memory, lower, step, point, reported)
    memory[ROUNDS] += 1
    memory[LAST_MIDDLE] = 2 * lower + step
    memory[MOVED] += moved
    memory[SAVED] += memory[PRICE] * memory[BASE] * memory[FINE] - moved


@inlined
def certificate_rises(
    memory: Memory, lower: int, step: int, reported: float, seen: bool
) -> tuple[float, float]:
    """By how much the certificate would rise with outcome 0 and with outcome 1; nothing is drawn."""
    lower_sum = sum_from(memory, find_end(memory, lower, step, 0), lower)
    upper_sum = sum_from(memory, find_end(memory, lower, step, 1), lower + step)
    return cells.rises_at_ends(memory, lower, step, lower_sum, upper_sum, reported)


@inlined
def last_round(pace: int, level: int) -> int:
    """The last round that the base grid of 2^level cells serves: (4/3) 4^level c/d, rounded down."""
    return ((pace << (2 * level + 2)) // 3) >> 16


@inlined
def pace_alone(memory: Memory) -> int:
    """c/d in units of 2^-16."""
    return (memory[BIAS_BOUND] >> (FINEST_LEVEL - 17)) // memory[PRICE]


@uncounted
def add_slack(memory: Memory, others: int) -> None:
    """Raise the slack from c to c sqrt(1 + 4D), where D others are open; accounts and thresholds follow.

    A cell that is valid stays valid. Base grids are made for biases of c sqrt(1 + 4D) + 3D/4 from now on.
    """
    memory[LATE] = others
    high = int(memory[GROWING_SLACK] * math.sqrt(1.0 + 4.0 * others))
    added = high - memory[HIGH]
    memory[HIGH], memory[LOW], memory[BIAS_BOUND] = high, DYADIC_SCALE - high, high
    memory[SAVED] += 10 * added // 3 * memory[FINE]
    memory[PACE] = ((4 * high + 3 * others * DYADIC_SCALE) >> (FINEST_LEVEL - 15)) // memory[PRICE]
    count_debts(memory)
    memory[WISH] = next_step(memory)


@uncounted
def next_step(memory: Memory) -> int:
    """The step of the level that the next round may use. BASE, ORPHANED and LIMIT are brought up to date."""
    t = memory[ROUNDS] + 1
    pace = memory[PACE]
    base, level = DYADIC_SCALE, 0
    # slack that has grown asks for a coarser base grid, but points of the present one stay its points
    while base > memory[BASE] or (level < FINEST_LEVEL and t > last_round(pace, level)):
        base >>= 1
        level += 1
    if base != memory[BASE]:
        memory[BASE] = base
        count_debts(memory)
    limit = last_round(pace, level)
    if memory[TUNED] & ADAPTIVE_BIT:
        visited = max(1, (memory[END] - TABLE) // 2 - 2)
        is_eager = memory[TUNED] & EAGER_BIT != 0
        reach = (pace_alone(memory) * visited) >> (EAGERNESS + EXTRA_EAGERNESS * is_eager)
        while level < FINEST_LEVEL and t > (reach << level) >> 16:
            level += 1
        if level < FINEST_LEVEL:
            limit = min(limit, (reach << level) >> 16)
    memory[LIMIT] = limit
    return DYADIC_SCALE >> level


@inlined
def count_debts(memory: Memory) -> None:
    """Bring ORPHANED up to date after a change of what points owe."""
    orphaned = 0
    for index in range(TABLE, memory[END], 2):
        orphaned += owed(memory, memory[index], memory[index + 1] - memory[TILT] * memory[index])
    memory[ORPHANED] = orphaned


@inlined
def savings(memory: Memory) -> int:
    """SAVED in units of biases, rounded down.

    Biases are not brought to units of SAVED, which are 2^9 times finer: they would outgrow 64 bits sooner.
    """
    return memory[SAVED] >> (FINE_BITS + 1)


@inlined
def unbiased_are_free(memory: Memory) -> bool:
    """Whether points without bias accept both outcomes: all bias and one more charge are covered."""
    return bool(memory[TUNED] & ADAPTIVE_BIT and memory[SPREAD] + DYADIC_SCALE <= savings(memory))


@inlined
def owed(memory: Memory, point: int, bias: int) -> int:
    """The part of a bias that the base grid's guarantee does not cover: all off that grid, on it beyond c."""
    debt = abs(bias) - memory[BIAS_BOUND] * (point & (memory[BASE] - 1) == 0)
    return debt * (debt > 0)


@inlined
def debt_after(memory: Memory, index: int, point: int, change: int) -> int:
    """By how much the debts would rise if a point's bias changed.

    `index` is that of the first pair not below the point.
    """
    bias = sum_from(memory, index, point) - memory[TILT] * point
    return owed(memory, point, bias + change) - owed(memory, point, bias)


@inlined
def may_play(memory: Memory, at_lower: int, at_upper: int, lower: int, step: int) -> bool:
    """Whether the debts stay covered if this cell is played, whatever the outcome; true on the base grid.

    `at_lower` and `at_upper` are the indices of the first pairs not below its ends.
    """
    if step == memory[BASE] or memory[ORPHANED] + DYADIC_SCALE <= savings(memory):
        return True
    return covers(memory, at_lower, at_upper, lower, step)


@uncounted
def covers(memory: Memory, at_lower: int, at_upper: int, lower: int, step: int) -> bool:
    """`may_play` for a cell off the base grid, where savings do not cover just any charge.

    It computes by how much either outcome would raise the debts.
    """
    # the round itself saves at least what the base grid may cost in it beyond this cell
    room = savings(memory) - memory[ORPHANED] + ((memory[PRICE] * (memory[BASE] - step)) >> 1)
    upper = lower + step
    debt_zero = debt_after(memory, at_lower, lower, lower)
    debt_one = debt_after(memory, at_upper, upper, upper - DYADIC_SCALE)
    return bool((room >= 0) & (debt_zero <= room) & (debt_one <= room))


@uncounted
def begin(memory: Memory) -> None:
    """Enter the cell of the first round."""
    memory[WISH] = step = next_step(memory)
    enter_cell(memory, search_cell(memory, 0, DYADIC_SCALE, step, unbiased_are_free(memory)), step)


@inlined
def choose_cell(memory: Memory, fresh: bool, flipped: bool, above: int, crossed: bool) -> None:
    """Make a cell of the level that the next round may use the current one.

    `fresh`: a point was charged for the first time. `flipped`: that end of the current cell was charged which
    `above` tells, the lower (0) or upper (1) one, and now refuses the outcome that it has to accept there.
    `crossed`: an end of the current cell was charged as the opposite end of another cell, in which the round
    was announced. If it was free, it may refuse its own outcome from now on.
    """
    due = fresh or memory[ROUNDS] >= memory[LIMIT]
    if due:
        memory[WISH] = next_step(memory)
    width, target = memory[STEP], memory[WISH]
    free = unbiased_are_free(memory)
    stay = target == width and not (flipped and not enter_neighbour(memory, above, free))
    certain = free or memory[TUNED] & ADAPTIVE_BIT == 0
    if crossed and free:
        stay = stay and is_current_valid(memory, free)
    if not certain:
        stay = stay or not (due or flipped)
        stay = stay and is_current_valid(memory, free)
        stay = stay and may_play(memory, memory[BELOW], memory[ABOVE], memory[LOWER], width)
    if stay:
        return
    while True:
        lower = search_around(memory, target, free)
        if certain or may_play(memory, find(memory, lower), find(memory, lower + target), lower, target):
            break
        target = memory[BASE]
    enter_cell(memory, lower, target)


@inlined
def is_current_valid(memory: Memory, free: bool) -> bool:
    """Whether the current cell's ends accept their outcomes; `free` lets unbiased points accept both."""
    at_lower, at_upper = memory[BELOW], memory[ABOVE]
    lower, upper = memory[LOWER], memory[LOWER] + memory[STEP]
    return bool(accepts(memory, at_lower, lower, 0, free) and accepts(memory, at_upper, upper, 1, free))


@uncounted
def search_around(memory: Memory, step: int, free: bool) -> int:
    """The lower end of a valid cell of width `step`, searched outwards from the current cell."""
    width = max(step, memory[STEP])
    start = memory[LOWER] & -width
    return search_cell(memory, start, start + width, step, free)


@inlined
def find_end(memory: Memory, lower: int, step: int, above: int) -> int:
    """`find` for an end of a cell, the lower one with 0, the upper one with 1."""
    point = lower + step * above
    if point == memory[LOWER] + memory[STEP] * above:
        return memory[BELOW + above]
    return find(memory, point)


@uncounted
def insert(memory: Memory, index: int, position: int) -> None:
    """Open a pair for a point that was never charged; the memory must have room for it."""
    for i in range(memory[END] - 1, index - 1, -1):
        memory[i + 2] = memory[i]
    memory[index] = position
    memory[index + 1] = memory[TILT] * position
    memory[END] += 2
    memory[BELOW] += 2 * (position < memory[LOWER])
    memory[ABOVE] += 2 * (position < memory[LOWER] + memory[STEP])


@inlined
def sum_from(memory: Memory, index: int, position: int) -> int:
    """The sum of a point, charged before or not; if it was, `index` is that of its pair."""
    return memory[index + 1] if memory[index] == position else memory[TILT] * position


@inlined
def accepts(memory: Memory, index: int, position: int, above: int, free: bool) -> bool:
    """Whether a point accepts outcomes below it (0) or above it (1); both if it is unbiased and `free`.

    `index` is that of the first pair not below the point.
    """
    total = sum_from(memory, index, position)
    within = total >= memory[LOW] if above else total <= memory[HIGH]
    return bool(within or (free and total == memory[TILT] * position))


@inlined
def accepts_at(memory: Memory, position: int, above: int, free: bool) -> bool:
    """The same, wherever the point's pair is."""
    return accepts(memory, find(memory, position), position, above, free)


@uncounted
def search_cell(memory: Memory, lower: int, upper: int, step: int, free: bool) -> int:
    """The lower end of a valid cell of width `step`, searched outwards from [lower, upper], in O(log) steps.

    Strides double until the ends of an interval accept 0 and 1, which is then bisected (Lemma 14). A point
    that refuses one outcome accepts the other, so only one of the ends ever moves.
    """
    stride = step
    while not accepts_at(memory, lower, 0, free):
        upper, lower = lower, max(0, lower - stride)
        stride *= 2
    while not accepts_at(memory, upper, 1, free):
        lower, upper = upper, min(memory[SCALE], upper + stride)
        stride *= 2
    while upper - lower > step:
        middle = lower + (((upper - lower) >> 1) & -step)
        if accepts_at(memory, middle, 0, free):
            lower = middle
        else:
            upper = middle
    return lower


@uncounted
def enter_cell(memory: Memory, lower: int, step: int) -> None:
    """Make a cell the current one."""
    memory[LOWER], memory[STEP] = lower, step
    memory[BELOW], memory[ABOVE] = find(memory, lower), find(memory, lower + step)


@uncounted
def enter_neighbour(memory: Memory, beyond: int, free: bool) -> bool:
    """Make the cell beyond the end that was just charged current; False, and no change, if it is not valid.

    The charged end is the lower one (0) or the upper one (1), and now accepts outcomes on its other side. One
    of the next few pairs is the neighbour's far end, so this takes no search.
    """
    if beyond:
        lower, at_lower = memory[LOWER] + memory[STEP], memory[ABOVE]
        upper, at_upper = lower + memory[STEP], at_lower + 2
        while memory[at_upper] < upper:
            at_upper += 2
        fits = accepts(memory, at_upper, upper, 1, free)
    else:
        upper, at_upper = memory[LOWER], memory[BELOW]
        lower, at_lower = upper - memory[STEP], at_upper - 2
        while memory[at_lower] > lower:
            at_lower -= 2
        fits = accepts(memory, at_lower, lower, 0, free)
        if memory[at_lower] < lower:
            at_lower += 2
    if fits:
        memory[LOWER], memory[BELOW], memory[ABOVE] = lower, at_lower, at_upper
    return fits


@uncounted
def nearest_cell(memory: Memory, target: float, step: int, free: bool, in_odds: bool) -> int:
    """The lower end of the valid cell of width `step` nearest to `target` (of two, the lower one).

    Distances are those of probabilities, or of odds if `in_odds`. Cells whose ends were never charged are
    alike: valid if unbiased points are free, else exactly where LOW - step <= lower end <= HIGH. So it is
    enough to look at the nearest of those and at the neighbours of charged points.
    """
    last = memory[SCALE] - step
    home = min(int(target), last) & -step
    lower = left = right = home
    index = at_left = at_right = find(memory, home)
    alike = free or memory[TILT] == 0
    while not valid(memory, index, lower, step, free):
        if lower <= left:
            left, at_left = next_below(memory, at_left, left, step, alike)
        if lower >= right:
            right, at_right = next_above(memory, at_right, right, step, alike)
        low = left >= 0 and target - (left + step) <= right - target
        if in_odds and left >= 0 and right <= last:
            low = cells.lower_is_nearer(target, left + step, right, memory[SCALE])
        if right > last or low:
            lower, index = left, at_left
        else:
            lower, index = right, at_right
    return lower


@inlined
def valid(memory: Memory, index: int, lower: int, step: int, free: bool) -> bool:
    """Whether the lower end accepts outcome 0 and the upper end accepts outcome 1.

    `index` is that of the first pair not below the lower end.
    """
    if not accepts(memory, index, lower, 0, free):
        return False
    upper = lower + step
    while memory[index] < upper:
        index += 2
    return accepts(memory, index, upper, 1, free)


@uncounted
def next_below(memory: Memory, index: int, lower: int, step: int, alike: bool) -> tuple[int, int]:
    """The lower end of the next cell below that may be valid, and the index of the first pair not below it.

    It is negative if there is no such cell. `index` is that of the first pair not below `lower`. `alike` says
    whether cells whose ends were never charged are all valid.
    """
    best = lower - step
    if not alike and memory[index] != lower:
        back = index - 2
        while memory[back] & (step - 1):
            back -= 2
        untouched = min(best, memory[HIGH] & -step)
        best = memory[back]
        if untouched + step >= memory[LOW]:
            best = max(best, untouched)
    while index > TABLE and memory[index - 2] >= best:
        index -= 2
    return best, index


@uncounted
def next_above(memory: Memory, index: int, lower: int, step: int, alike: bool) -> tuple[int, int]:
    """The lower end of the next cell above that may be valid, and the index of the first pair not below it.

    It is SCALE if there is no such cell. The arguments are those of `next_below`.
    """
    best = lower + step
    if best >= memory[SCALE]:
        return best, index
    while memory[index] < best:
        index += 2
    if not alike and memory[index] != best:
        ahead = index
        while memory[ahead] & (step - 1):
            ahead += 2
        untouched = max(best, (memory[LOW] - 1) & -step)
        best = memory[ahead] - step
        if untouched <= memory[HIGH]:
            best = min(best, untouched)
    while memory[index] < best:
        index += 2
    return best, index


def room_of(memory: NDArray[np.int64]) -> int:
    """How many integers a memory takes up in all, with some to spare for points that will be charged."""
    return 1 << (len(memory) + 1).bit_length()


def bound(rounds: int, pace: int, terms: Terms, tuned: bool, late: int = 0, least_cells: int = 1) -> float:
    """sum over s <= t of d/m_s, plus the biases' bounds, plus (5/3) c when the grid tunes itself.

    m_s is the base grid of round s. With c = d (the two rules as published) this is at most
    2 sqrt(3 c d t) for every t; see docs/theory.md for what late labels add. The base grid has `least_cells`
    at least, and is finer than the pace asks for if slack has grown.
    """
    (biases, reach), level, start, moved = terms, 0, 0, 0.0
    while rounds > (end := last_round(pace, level)):
        moved += reach * (end - start) / (1 << level)
        level, start = level + 1, end
    total = moved + reach * (rounds - start) / (1 << level) + biases.total(max(1 << level, least_cells), late)
    if tuned:
        return total + float(ALLOWANCE) * biases.worst + (late_share(late, reach) if late else 0.0)
    return total + late * reach


def late_share(late: int, reach: float) -> float:
    """(D + 1)(1 + d): by how much orphans' bias may exceed what savings cover if so many labels are late."""
    return (late + 1) * (1.0 + reach)


def promise(memory: Memory, terms: Terms, rounds: int, late: int) -> float:
    """The bound beforehand on distance plus bias after so many rounds with so many forecasts late."""
    least_cells = 1
    if memory[GROWING_SLACK]:
        biases = terms.biases._replace(slack=int(memory[HIGH]) / DYADIC_SCALE)
        terms, late = terms._replace(biases=biases), max(late, int(memory[LATE]))
        least_cells = DYADIC_SCALE // int(memory[BASE])
    # an outcome between 0 and 1 is rounded to a unit
    rounding = 1.0 / DYADIC_SCALE if memory[TUNED] & SHARED_BIT else 0.0
    tuned = bool(memory[TUNED] & ADAPTIVE_BIT)
    return rounds * rounding + bound(rounds, int(memory[PACE]), terms, tuned, late, least_cells)


def window_promise(memory: Memory, terms: Terms, rounds: int, late: int) -> float | None:
    """None: a grid that changes promises nothing of windows."""
    return None


def most_rounds(memory: Memory, terms: Terms, late: int) -> int:
    """How many rounds the accumulators bear in all, whatever comes.

    MOVED and SAVED, in units of 2^-37, fit while the distance is below 2^26; SPREAD and the orphans' bias, in
    units of 2^-28, below 2^35, which they cannot reach in 2^34 rounds. Half of it is kept for what the
    guarantee leaves out.
    """
    pace, tuned = int(memory[PACE]), bool(memory[TUNED] & ADAPTIVE_BIT)

    def is_too_many(rounds: int) -> bool:
        moved = bound(rounds, pace, terms, tuned) + late_share(late, terms.reach)
        biased = bound(rounds, pace, terms, tuned, late)
        return moved >= 1 << 25 or (rounds > 1 << 34 and biased >= 1 << 34)

    return last_bearable(is_too_many)


def check_grid(memory: NDArray[np.int64], like: NDArray[np.int64]) -> None:
    """ValueError unless the grids and the current cell are those of a forecaster that began as `like`."""
    require(memory[TUNED] & ~SHARED_BIT == like[TUNED] & ~SHARED_BIT, "what its configuration says")
    lower, step = int(memory[LOWER]), int(memory[STEP])
    for size in (step, int(memory[BASE]), int(memory[WISH])):
        require(0 < size <= DYADIC_SCALE and size & (size - 1) == 0, "its grids")
    ends = [find(memory, lower), find(memory, lower + step)]
    require(memory[[BELOW, ABOVE]].tolist() == ends and lower % step == 0, "its cell")


def is_cell(memory: NDArray[np.int64], lower: int, step: int) -> bool:
    """Whether a round may wait that was reported in this cell: one of any level."""
    return step > 0 and (step | lower) & (step - 1) == 0
