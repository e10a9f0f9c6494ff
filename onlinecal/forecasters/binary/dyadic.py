"""Almost-One-Step-Ahead without a horizon: dyadic grids, nested or self-tuning, points kept sparsely.

Positions are integers in units of 2^-28, so a point of a coarse grid is the same point of every finer
one: the table survives each change of level. See `cells` for the protocol, `dyadic_search` for the
table.

Let c bound a point's bias and d/m the distance from the report to the charged point. The *base* grid of
round t is the coarsest of the 2^k with t <= (4/3) 4^k c/d. "nested" always plays on it. "adaptive"
prefers the coarsest grid that also has m >= t d / (2 kappa c visited): the fewer points were charged,
the finer. A finer grid saves distance in every round but leaves *orphans*, charged points off the base
grid, whose bias stays behind. The machine keeps both accounts and goes finer only while

    bias on orphans + c <= distance saved against the base grid + (5/3) c ,

so whatever comes, distance plus bias never exceed what nested grids guarantee plus (5/3) c.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from onlinecal.forecasters.binary.cells import (
    BRIM,
    FINE,
    HIGH,
    LOW,
    LOWER,
    MOVED,
    ROUNDS,
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
from onlinecal.forecasters.binary.dyadic_search import (
    END,
    OWN,
    enter_cell,
    enter_neighbour,
    find_end,
    insert,
    nearest_cell,
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
ALLOWANCE = Fraction(5, 3)
"""Bias on orphans, in multiples of c, that no savings need to cover: what nested grids leave unused."""

# The machine's own part of the header. TUNED: 1 for adaptive. PRICE: the worst distance of a round, in
# half steps. PACE: c/d in units of 2^-16. BOUND: c in units of 2^-28. BASE: the base grid's step.
# LIMIT: the last round before the level must be chosen anew. SAVED and ORPHANED: the two accounts.
TUNED, PRICE, PACE, BOUND, BASE, LIMIT, SAVED, ORPHANED = range(OWN, OWN + 8)


def new_memory(rule: str, slack: float, report: str, tuned: bool) -> NDArray[np.int64]:
    """The memory before the first round."""
    memory = header(FORMAT_DYADIC, UNIT, 1 << FINE_BITS, rule, slack, report)
    bound = Fraction(1) if rule == "sign" else Fraction(slack)
    price = 1 if report == "midpoint" else 2
    memory[TUNED], memory[PRICE], memory[BOUND] = int(tuned), price, int(bound * UNIT)
    memory[PACE] = int(bound * 2 / price * (1 << 16))
    memory[SAVED] = int(ALLOWANCE * bound * 2 * UNIT) * memory[FINE]
    memory[BASE] = UNIT
    memory += [0, 0, UNIT, memory[TILT] * UNIT]
    memory[END] = len(memory)
    step = next_step(memory)
    enter_cell(memory, search_cell(memory, 0, UNIT, step), step)
    return np.array(memory)


def in_use(memory: NDArray[np.int64]) -> NDArray[np.int64]:
    """The memory without room to spare."""
    return memory[: memory[END]]


@inlined
def bears(memory: Memory) -> bool:
    """Whether no accumulator can wrap in one more round."""
    moved_fits = memory[MOVED] < BRIM and memory[SAVED] < BRIM
    return bool(moved_fits and memory[SPREAD] < BRIM and memory[ROUNDS] < MOST_ROUNDS)


@inlined
def has_room(memory: Memory) -> bool:
    """Whether a point that was never charged still fits."""
    return bool(memory[END] + 2 <= len(memory) and bears(memory))


@inlined
def last_round(pace: int, level: int) -> int:
    """The last round that the base grid of 2^level cells serves: (4/3) 4^level c/d, rounded down."""
    return ((pace << (2 * level + 2)) // 3) >> 16


@inlined
def next_step(memory: Memory) -> int:
    """The step of the level that the next round may use; brings BASE, ORPHANED and LIMIT up to date."""
    t = memory[ROUNDS] + 1
    pace = memory[PACE]
    base, level = UNIT, 0
    while t > last_round(pace, level):
        base >>= 1
        level += 1
    if base != memory[BASE]:
        memory[BASE] = base
        orphaned = 0
        for index in range(TABLE, memory[END], 2):
            if memory[index] & (base - 1):
                orphaned += abs(memory[index + 1] - memory[TILT] * memory[index])
        memory[ORPHANED] = orphaned
    limit = last_round(pace, level)
    if memory[TUNED] and affordable(memory):
        visited = max(1, (memory[END] - TABLE) // 2 - 2)
        reach = (pace * visited) >> EAGERNESS
        while level < LEVELS and t > (reach << level) >> 16:
            level += 1
        if level < LEVELS:
            limit = min(limit, (reach << level) >> 16)
    memory[LIMIT] = limit
    return UNIT >> level


@inlined
def affordable(memory: Memory) -> bool:
    """Whether one more round on a finer grid keeps the orphans' bias covered."""
    # SAVED in whole units of the bias: the bias in units of SAVED would wrap 2^9 times as soon
    return memory[ORPHANED] + memory[BOUND] <= memory[SAVED] >> (FINE_BITS + 1)


@inlined
def propose(memory: Memory, hint: float) -> tuple[int, int]:
    """The current cell, or with a hint the valid cell of the current level nearest to it."""
    step = memory[STEP]
    if hint < 0.0:
        return memory[LOWER], step
    return nearest_cell(memory, hint * UNIT, step), step


@inlined
def charge(memory: Memory, lower: int, step: int, outcome: int, reported: float) -> None:
    """Charge the round to its end of the cell, choose the next level, make a valid cell current.

    Call it only while `has_room`.
    """
    point = lower + step * outcome
    index = find_end(memory, lower, step, outcome)
    fresh = memory[index] != point
    if fresh:
        insert(memory, index, point)
    change = point - outcome * UNIT
    new = memory[index + 1] + change
    memory[index + 1] = new
    bias = new - memory[TILT] * point
    rise = abs(bias) - abs(bias - change)
    moved = travelled(memory, lower, step, outcome, reported)
    memory[SPREAD] += rise
    memory[MOVED] += moved
    memory[SAVED] += memory[PRICE] * memory[BASE] * memory[FINE] - moved
    if point & (memory[BASE] - 1):
        memory[ORPHANED] += rise
    memory[ROUNDS] += 1
    width = target = memory[STEP]
    if fresh or memory[ROUNDS] >= memory[LIMIT] or (target != memory[BASE] and not affordable(memory)):
        target = next_step(memory)
    flipped = new < memory[LOW] if outcome else new > memory[HIGH]
    home = point == memory[LOWER] + width * outcome
    if target != width or (flipped and home and not enter_neighbour(memory, outcome)):
        width = max(width, target)
        start = memory[LOWER] & -width
        enter_cell(memory, search_cell(memory, start, start + width, target), target)


@inlined
def certificate_rises(memory: Memory, lower: int, step: int, reported: float) -> tuple[float, float]:
    """By how much the certificate would rise with outcome 0 and with outcome 1."""
    below = sum_from(memory, find_end(memory, lower, step, 0), lower)
    above = sum_from(memory, find_end(memory, lower, step, 1), lower + step)
    return rises_at_ends(memory, lower, step, below, above, reported)
