"""Which cell of a dyadic grid comes next: the first, that of the coming round, and after the first hint."""

from __future__ import annotations

from onlinecal.forecasters.binary.cells import HIGH, LOW, LOWER, REPORT, ROUNDS, STEP, Memory, inlined, part
from onlinecal.forecasters.binary.defaults import (
    FOLLOWING,
    KIND_WITH_HINTS,
    SLACK_ON_FIXED_GRIDS,
    SLACK_WITH_HINTS,
    UNSET,
    UNSET_REPORT,
    UNSET_SLACK,
)
from onlinecal.forecasters.binary.grids.dyadic_accounts import (
    ALLOWANCE,
    BASE,
    BOUND,
    BY_EXACT_ACCOUNTS,
    DEFAULTS,
    EAGER,
    FINE_BITS,
    LEVELS,
    LIMIT,
    PACE,
    PRICE,
    SAVED,
    TUNED,
    TUNED_BY,
    UNIT,
    WISH,
    affordable,
    count_debts,
    may_play,
    next_step,
    unbiased_are_free,
)
from onlinecal.forecasters.binary.grids.dyadic_search import (
    ABOVE,
    BELOW,
    accepts,
    enter_cell,
    enter_neighbour,
    find,
    search_cell,
)

THIRDS = int(6 * ALLOWANCE)
"""The allowance of a c in units, in thirds of half units."""


@part
def begin(memory: Memory) -> None:
    """Enter the cell of the first round."""
    step = next_step(memory)
    memory[WISH] = step if memory[TUNED] & TUNED_BY == BY_EXACT_ACCOUNTS else 0
    enter_cell(memory, search_cell(memory, 0, UNIT, step, unbiased_are_free(memory)), step)


@inlined
def choose_cell(memory: Memory, fresh: bool, flipped: bool, above: int) -> None:
    """Make a valid cell of the level that the next round may use the current one.

    `fresh`: a point was charged for the first time. `flipped`: the current cell's end that was charged, the
    lower (0) or upper (1) one, accepts no more of it.
    """
    width = target = memory[STEP]
    exact = memory[TUNED] & TUNED_BY == BY_EXACT_ACCOUNTS
    due = fresh or memory[ROUNDS] >= memory[LIMIT]
    if due or not (exact or target == memory[BASE] or affordable(memory)):
        target = next_step(memory)
        memory[WISH] = target if exact else memory[WISH]
    if exact:
        target = memory[WISH]
    free = unbiased_are_free(memory)
    stay = target == width and not (flipped and not enter_neighbour(memory, above, free))
    certain = free or not exact
    if not certain:
        stay = stay or not (due or flipped)
        stay = stay and is_current_valid(memory)
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
def is_current_valid(memory: Memory) -> bool:
    """Whether the current cell's ends accept their outcomes, unbiased or not."""
    below, above = memory[BELOW], memory[ABOVE]
    lower, upper = memory[LOWER], memory[LOWER] + memory[STEP]
    return bool(accepts(memory, below, lower, 0, False) and accepts(memory, above, upper, 1, False))


@part
def search_around(memory: Memory, step: int, free: bool) -> int:
    """The lower end of a valid cell of width `step`, searched outwards from the current cell."""
    width = max(step, memory[STEP])
    start = memory[LOWER] & -width
    return search_cell(memory, start, start + width, step, free)


@inlined
def expect_hints(memory: Memory) -> None:
    """From the first hint on slack, report and eagerness, if not set, are those that cost hints no skill."""
    if memory[TUNED] & UNSET << DEFAULTS:
        follow_hints(memory)


@part
def follow_hints(memory: Memory) -> None:
    """The same, once. Before the first round all is as if it had been set; later the base grids stay."""
    unset = (memory[TUNED] >> DEFAULTS) & UNSET
    tuned = memory[TUNED] & TUNED_BY
    memory[TUNED] += (FOLLOWING - unset) << DEFAULTS
    if tuned:
        memory[TUNED] |= EAGER
    if unset & UNSET_SLACK:
        bound = int((SLACK_WITH_HINTS if tuned else SLACK_ON_FIXED_GRIDS) * UNIT)
        memory[SAVED] += (allowed(bound) - allowed(memory[BOUND])) << FINE_BITS
        memory[BOUND] = memory[HIGH] = bound
        memory[LOW] = UNIT - bound
        count_debts(memory)
    if unset & UNSET_REPORT:
        memory[REPORT], memory[PRICE] = KIND_WITH_HINTS, 2
    if memory[ROUNDS] == 0:
        memory[PACE] = ((memory[BOUND] << 17) // memory[PRICE]) >> LEVELS
        begin(memory)
    else:
        choose_cell(memory, True, False, 0)


@inlined
def allowed(bound: int) -> int:
    """What ALLOWANCE is of a bound, in half units."""
    return bound * THIRDS // 3
