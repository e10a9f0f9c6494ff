"""Which level a dyadic grid may play on: its accounts of what finer grids save and of what they owe.

Let c bound a point's bias and d/m the distance from the report to the charged point. The *base* grid of
round t is the coarsest of the 2^k with t <= (4/3) 4^k c/d. "nested" always plays on it. "adaptive"
prefers the coarsest grid that also has m >= t d / (2 kappa c visited): the fewer points were charged,
the finer. A finer grid saves distance in every round, but what bias it leaves on *orphans*, points off the
base grid, stays behind. So a cell of a finer grid is played only if, whatever the outcome,

    bias on orphans + bias beyond c elsewhere <= distance saved against the base grid + (5/3) c ,

and distance plus bias never exceed what nested grids guarantee plus (5/3) c. Points without bias accept both
outcomes, and may come to more than c, while all bias there is and one more charge are covered like that.

Which cell of a dyadic grid comes next: the first, and that of the coming round.
"""

from __future__ import annotations

import math
from fractions import Fraction

from onlinecal.forecasters.binary.cells import (
    FINE,
    GROWS,
    HIGH,
    LATE,
    LOW,
    LOWER,
    ROUNDS,
    SPREAD,
    STEP,
    TABLE,
    TILT,
    Memory,
    inlined,
    part,
)
from onlinecal.forecasters.binary.grids.dyadic_search import (
    ABOVE,
    BELOW,
    END,
    OWN,
    accepts,
    enter_cell,
    enter_neighbour,
    find,
    search_cell,
    sum_from,
)

FORMAT_DYADIC = 2
LEVELS = 28
UNIT = 1 << LEVELS
FINE_BITS = 8
MOST_ROUNDS = 1 << 43
"""So many rounds t are served: `next_step` shifts numbers up to 12 * 2^16 * (t + 1)."""
EAGERNESS = 2
"""2 kappa = 2^-EAGERNESS says how eagerly the self-tuning grid refines: best on coins, safe elsewhere."""
MORE_EAGERNESS = 1
"""So much more eagerly where hints are good: they are moved less, for a greater certificate."""
ALLOWANCE = Fraction(5, 3)
"""Bias on orphans, in multiples of c, that no savings need to cover: what nested grids leave unused."""

# The machine's own part of the header. TUNED: see below. PRICE: the worst distance of a round, in
# half steps. PACE: the bound on biases that base grids are made for, divided by d, in units of 2^-16; that is
# c/d, or with slack that grows (c + 3D/4)/d. BOUND: c in units of 2^-28. BASE: the base grid's step. LIMIT:
# the last round before the level must be chosen anew. SAVED and ORPHANED: the two accounts. WISH: the step of
# the level that was chosen, which the accounts may not bear in every round.
TUNED, PRICE, PACE, BOUND, BASE, LIMIT, SAVED, ORPHANED, WISH = range(OWN, OWN + 9)
ADAPTIVE, SHARED, EAGER = 1, 2, 4
"""The bits of TUNED: whether the grid tunes itself, or is nested; whether outcomes were shares; and whether
hints are good: the grid then refines more eagerly, and the cell nearest to a hint is that by odds."""


@inlined
def last_round(pace: int, level: int) -> int:
    """The last round that the base grid of 2^level cells serves: (4/3) 4^level c/d, rounded down."""
    return ((pace << (2 * level + 2)) // 3) >> 16


@inlined
def pace_alone(memory: Memory) -> int:
    """c/d in units of 2^-16."""
    return (memory[BOUND] >> (LEVELS - 17)) // memory[PRICE]


@part
def add_slack(memory: Memory, others: int) -> None:
    """Make the slack c sqrt(1 + 4D), if it was c, where D others are open; accounts and thresholds follow.

    A cell that is valid stays so. Base grids are made for biases of c sqrt(1 + 4D) + 3D/4 from now on.
    """
    memory[LATE] = others
    high = int(memory[GROWS] * math.sqrt(1.0 + 4.0 * others))
    added = high - memory[HIGH]
    memory[HIGH], memory[LOW], memory[BOUND] = high, UNIT - high, high
    memory[SAVED] += 10 * added // 3 * memory[FINE]
    memory[PACE] = ((4 * high + 3 * others * UNIT) >> (LEVELS - 15)) // memory[PRICE]
    count_debts(memory)
    memory[WISH] = next_step(memory)


@part
def next_step(memory: Memory) -> int:
    """The step of the level that the next round may use; brings BASE, ORPHANED and LIMIT up to date."""
    t = memory[ROUNDS] + 1
    pace = memory[PACE]
    base, level = UNIT, 0
    # slack that has grown asks for a coarser base grid, but points of the present one stay its points
    while base > memory[BASE] or (level < LEVELS and t > last_round(pace, level)):
        base >>= 1
        level += 1
    if base != memory[BASE]:
        memory[BASE] = base
        count_debts(memory)
    limit = last_round(pace, level)
    if memory[TUNED] & ADAPTIVE:
        visited = max(1, (memory[END] - TABLE) // 2 - 2)
        reach = (pace_alone(memory) * visited) >> (EAGERNESS + MORE_EAGERNESS * (memory[TUNED] & EAGER != 0))
        while level < LEVELS and t > (reach << level) >> 16:
            level += 1
        if level < LEVELS:
            limit = min(limit, (reach << level) >> 16)
    memory[LIMIT] = limit
    return UNIT >> level


@inlined
def count_debts(memory: Memory) -> None:
    """Bring ORPHANED up to date after a change of what points owe."""
    orphaned = 0
    for index in range(TABLE, memory[END], 2):
        orphaned += owed(memory, memory[index], memory[index + 1] - memory[TILT] * memory[index])
    memory[ORPHANED] = orphaned


@inlined
def savings(memory: Memory) -> int:
    """SAVED in whole units of the bias: the bias in units of SAVED would wrap 2^9 times as soon."""
    return memory[SAVED] >> (FINE_BITS + 1)


@inlined
def unbiased_are_free(memory: Memory) -> bool:
    """Whether points without bias accept both outcomes: all bias and one more charge are covered."""
    return bool(memory[TUNED] & ADAPTIVE and memory[SPREAD] + UNIT <= savings(memory))


@inlined
def owed(memory: Memory, point: int, bias: int) -> int:
    """What the base grid's guarantee does not cover of a bias: all off that grid, else what is beyond c."""
    debt = abs(bias) - memory[BOUND] * (point & (memory[BASE] - 1) == 0)
    return debt * (debt > 0)


@inlined
def debt_after(memory: Memory, index: int, point: int, change: int) -> int:
    """By how much the debts would rise if a point's bias changed.

    `index` is that of the first pair not below the point.
    """
    bias = sum_from(memory, index, point) - memory[TILT] * point
    return owed(memory, point, bias + change) - owed(memory, point, bias)


@inlined
def may_play(memory: Memory, below: int, above: int, lower: int, step: int) -> bool:
    """Whether the debts stay covered if this cell is played, whatever the outcome: so on the base grid.

    `below` and `above` are those of the first pairs not below its ends.
    """
    if step == memory[BASE] or memory[ORPHANED] + UNIT <= savings(memory):
        return True
    return covers(memory, below, above, lower, step)


@part
def covers(memory: Memory, below: int, above: int, lower: int, step: int) -> bool:
    """The same, for sure, where the savings do not cover every charge."""
    room = savings(memory) - memory[ORPHANED] + ((memory[PRICE] * (memory[BASE] - step)) >> 1)
    upper = lower + step
    zero = debt_after(memory, below, lower, lower)
    one = debt_after(memory, above, upper, upper - UNIT)
    return bool((room >= 0) & (zero <= room) & (one <= room))


@part
def begin(memory: Memory) -> None:
    """Enter the cell of the first round."""
    memory[WISH] = step = next_step(memory)
    enter_cell(memory, search_cell(memory, 0, UNIT, step, unbiased_are_free(memory)), step)


@inlined
def choose_cell(memory: Memory, fresh: bool, flipped: bool, above: int, crossed: bool) -> None:
    """Make a cell of the level that the next round may use the current one, valid or free.

    `fresh`: a point was charged for the first time. `flipped`: the current cell's end that was charged, the
    lower (0) or upper (1) one, accepts no more of it. `crossed`: an end was charged with the other's outcome,
    for a round that was announced in another cell. If it was free, it may refuse its own outcome from now on.
    """
    due = fresh or memory[ROUNDS] >= memory[LIMIT]
    if due:
        memory[WISH] = next_step(memory)
    width, target = memory[STEP], memory[WISH]
    free = unbiased_are_free(memory)
    stay = target == width and not (flipped and not enter_neighbour(memory, above, free))
    certain = free or memory[TUNED] & ADAPTIVE == 0
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
    below, above = memory[BELOW], memory[ABOVE]
    lower, upper = memory[LOWER], memory[LOWER] + memory[STEP]
    return bool(accepts(memory, below, lower, 0, free) and accepts(memory, above, upper, 1, free))


@part
def search_around(memory: Memory, step: int, free: bool) -> int:
    """The lower end of a valid cell of width `step`, searched outwards from the current cell."""
    width = max(step, memory[STEP])
    start = memory[LOWER] & -width
    return search_cell(memory, start, start + width, step, free)
