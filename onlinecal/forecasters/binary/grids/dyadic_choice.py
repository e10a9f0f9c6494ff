"""Which cell of a dyadic grid comes next: the first, and that of the coming round."""

from __future__ import annotations

from onlinecal.forecasters.binary.cells import LOWER, ROUNDS, STEP, Memory, inlined, part
from onlinecal.forecasters.binary.grids.dyadic_accounts import (
    ADAPTIVE,
    BASE,
    LIMIT,
    TUNED,
    UNIT,
    WISH,
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


@part
def begin(memory: Memory) -> None:
    """Enter the cell of the first round."""
    memory[WISH] = step = next_step(memory)
    enter_cell(memory, search_cell(memory, 0, UNIT, step, unbiased_are_free(memory)), step)


@inlined
def choose_cell(memory: Memory, fresh: bool, flipped: bool, above: int) -> None:
    """Make a valid cell of the level that the next round may use the current one.

    `fresh`: a point was charged for the first time. `flipped`: the current cell's end that was charged, the
    lower (0) or upper (1) one, accepts no more of it.
    """
    due = fresh or memory[ROUNDS] >= memory[LIMIT]
    if due:
        memory[WISH] = next_step(memory)
    width, target = memory[STEP], memory[WISH]
    free = unbiased_are_free(memory)
    stay = target == width and not (flipped and not enter_neighbour(memory, above, free))
    certain = free or memory[TUNED] & ADAPTIVE == 0
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
