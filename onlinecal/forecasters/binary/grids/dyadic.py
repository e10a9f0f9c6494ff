"""Almost-One-Step-Ahead without a horizon: dyadic grids, nested or self-tuning, points kept sparsely.

Positions are integers in units of 2^-28, so a point of a coarse grid is the same point of every finer
one: the table survives each change of level. See `cells` for the protocol, `dyadic_search` for the
table, `dyadic_accounts` for the levels.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from onlinecal.forecasters.binary.cells import (
    BRIM,
    FINE,
    GROWS,
    HIGH,
    HINTED,
    LAST,
    LATE,
    LOW,
    LOWER,
    MOVED,
    ROUNDS,
    SPREAD,
    STEP,
    TILT,
    Memory,
    header,
    inlined,
    rises_at_ends,
    travelled,
)
from onlinecal.forecasters.binary.grids.dyadic_accounts import (
    ALLOWANCE,
    BASE,
    BOUND,
    EAGER,
    FINE_BITS,
    FORMAT_DYADIC,
    MOST_ROUNDS,
    ORPHANED,
    PACE,
    PRICE,
    SAVED,
    SHARED,
    TUNED,
    UNIT,
    add_slack,
    begin,
    choose_cell,
    may_play,
    owed,
    unbiased_are_free,
)
from onlinecal.forecasters.binary.grids.dyadic_search import (
    END,
    find,
    find_end,
    insert,
    nearest_cell,
    sum_from,
)


def new_memory(
    rule: str, slack: float, report: str, tuned: int, hints: bool = False, grows: bool = False
) -> NDArray[np.int64]:
    """The memory before the first round; `tuned`: bits of TUNED; `grows`: whether late labels add slack."""
    return _made(rule, slack, report, tuned, hints, grows).copy()


@lru_cache(64)
def _made(rule: str, slack: float, report: str, tuned: int, hints: bool, grows: bool) -> NDArray[np.int64]:
    memory = header(FORMAT_DYADIC, UNIT, 1 << FINE_BITS, rule, slack, report, hints)
    bound = Fraction(1) if rule == "sign" else Fraction(slack)
    price = 1 if report == "midpoint" else 2
    memory[TUNED], memory[PRICE], memory[BOUND] = tuned, price, int(bound * UNIT)
    memory[PACE] = int(bound * 2 / price * (1 << 16))
    memory[GROWS] = memory[HIGH] if grows else 0
    memory[SAVED] = int(ALLOWANCE * bound * 2 * UNIT) * memory[FINE]
    memory[BASE] = UNIT
    memory += [0, 0, UNIT, memory[TILT] * UNIT]
    memory[END] = len(memory)
    begin(memory)
    return np.array(memory)


def in_use(memory: NDArray[np.int64]) -> NDArray[np.int64]:
    """The memory without room to spare."""
    return memory[: memory[END]]


def refined(memory: NDArray[np.int64], slack: float) -> NDArray[np.int64]:
    """The memory, ready for outcomes that are neither 0 nor 1: its units are small enough."""
    if not memory[TUNED] & SHARED:
        memory = memory.copy()
        memory[TUNED] |= SHARED
    return memory


@inlined
def takes_shares(memory: Memory) -> bool:
    """Whether it is `refined`."""
    return bool(memory[TUNED] & SHARED != 0)


@inlined
def in_units(memory: Memory, lower: int, step: int) -> tuple[int, int]:
    """A cell in today's units, which never change."""
    return lower, step


@inlined
def note_late(memory: Memory, others: int) -> None:
    """So many others are open: where nobody has set the slack it grows with the most that ever were."""
    if others > memory[LATE] and memory[GROWS] > 0:
        add_slack(memory, others)


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
def propose(memory: Memory, hint: float) -> tuple[int, int]:
    """The current cell, or in a memory that has hints the valid one of the level that is nearest to the hint.

    Without a hint that is the one nearest to the middle of the last round's cell. Where the accounts cover
    neither whatever happens on a finer grid nor this cell, the base grid's.
    """
    step = memory[STEP]
    if hint < 0.0 and memory[HINTED] == 0:
        return memory[LOWER], step
    target = hint * UNIT if hint >= 0.0 else memory[LAST] / 2
    free, in_odds = unbiased_are_free(memory), memory[TUNED] & EAGER != 0
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
    moved = travelled(memory, lower, step, point, reported)
    memory[ROUNDS] += 1
    memory[LAST] = 2 * lower + step
    memory[MOVED] += moved
    memory[SAVED] += memory[PRICE] * memory[BASE] * memory[FINE] - moved


@inlined
def certificate_rises(memory: Memory, lower: int, step: int, reported: float) -> tuple[float, float]:
    """By how much the certificate would rise with outcome 0 and with outcome 1."""
    below = sum_from(memory, find_end(memory, lower, step, 0), lower)
    above = sum_from(memory, find_end(memory, lower, step, 1), lower + step)
    return rises_at_ends(memory, lower, step, below, above, reported)
