"""Replays with hints: the grid machines with a guide beside the memory, for valid cells and pairs at once.

A guide is made for a replay and thrown away: it holds nothing that does not follow from the memory. What is
played is what the machines play without one, to the bit.

For each kind of validity, strict and with unbiased points free, a guide holds a bit for each cell: its mark.
The valid cell nearest to a hint is then found in some two words of 64 cells.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from onlinecal.compiling import inlined, uncounted
from onlinecal.compiling.instructions import highest_bit, lowest_bit
from onlinecal.forecasters.binary import cells, dyadic, fixed
from onlinecal.forecasters.binary.cells import HIGH, LAST, LOW, STEP, TABLE, TILT, Memory, find
from onlinecal.forecasters.binary.dyadic import LEVELS, UNIT, sum_from

# The header of a guide. SHIFTS: the binary logarithms of the steps that the SLOTS have marks for; NONE: for
# none. PAIRS: the same of the points whose pairs are known. DEEPEST: the finest level there is room for.
# ROOM: of a slot; the first begins at MARKS. PLACES: where the pairs' places begin. A uniform grid has one
# slot, and no pairs.
SLOTS = 4
SHIFTS, PAIRS, DEEPEST, ROOM, PLACES, MARKS = 0, SLOTS, SLOTS + 1, SLOTS + 2, SLOTS + 3, SLOTS + 4
NONE = LEVELS + 1
SPARE_LEVELS, LEAST_LEVELS = 4, 12
"""Levels beyond the last base grid, and levels in all, that a guide has room for at least."""


def new_guide(memory: NDArray[np.int64], rounds: int) -> NDArray[np.int64]:
    """The guide of a memory for so many more rounds."""
    uniformly = memory[cells.FORMAT] == fixed.FORMAT_FIXED
    level, last = 0, int(memory[cells.ROUNDS]) + rounds
    while not uniformly and last > dyadic.last_round(int(memory[dyadic.PACE]), level):
        level += 1
    level = min(LEVELS, max(level + SPARE_LEVELS, LEAST_LEVELS))
    room = 2 * marks_length(int(fixed.cells_of(memory)) if uniformly else 1 << level)
    places = MARKS + SLOTS * room
    guide = np.zeros(MARKS + room if uniformly else places + (1 << level) + 1, np.int64)
    guide[:SLOTS] = guide[PAIRS] = NONE
    guide[DEEPEST], guide[ROOM], guide[PLACES] = level, room, places
    return guide


@inlined
def note(
    memory: Memory, guide: Memory, start: int, point: int, sums: tuple[int, int, int], step: int, cell: int
) -> None:
    """Mark the cells on both sides of a point, `cell` being the upper one's number, if they are valid.

    `sums` are those of the point's lower neighbour, of itself and of its upper neighbour.
    """
    below, total, above = sums
    low, high, tilt, scale = memory[LOW], memory[HIGH], memory[TILT], memory[cells.SCALE]
    freely = start + marks_length(scale // step)
    zero, one, unbiased = total <= high, total >= low, total == tilt * point
    if point > 0:
        strict = below <= high
        free = strict | (below == tilt * (point - step))
        mark(guide, start, cell - 1, int(strict & one))
        mark(guide, freely, cell - 1, int(free & (one | unbiased)))
    if point < scale:
        strict = above >= low
        free = strict | (above == tilt * (point + step))
        mark(guide, start, cell, int(zero & strict))
        mark(guide, freely, cell, int((zero | unbiased) & free))


@inlined
def changes_cells(memory: Memory, point: int, total: int, change: int) -> bool:
    """Whether a point that came to this sum by a change accepts something else than before."""
    old, unbiased = total - change, memory[TILT] * point
    zero = (total <= memory[HIGH]) != (old <= memory[HIGH])
    one = (total >= memory[LOW]) != (old >= memory[LOW])
    return bool(zero | one | (total == unbiased) | (old == unbiased))


@inlined
def propose_uniform(memory: Memory, guide: Memory, hint: float) -> tuple[int, int]:
    """`fixed.propose`, with a guide."""
    m, shift = fixed.cells_of(memory), memory[fixed.SHIFT]
    if guide[SHIFTS] != shift:
        for number in range(0, m, 2):
            note_uniform(memory, guide, number)
        note_uniform(memory, guide, m)
        guide[SHIFTS] = shift
    target = hint * m if hint >= 0.0 else memory[LAST] / (2 * memory[STEP])
    start = MARKS + int(fixed.covered(memory)) * marks_length(m)
    return nearest_marked(guide, start, m, target, False) << shift, memory[STEP]


@inlined
def note_uniform(memory: Memory, guide: Memory, number: int) -> None:
    """Mark the cells on both sides of a point."""
    index = TABLE + 2 * number
    # beyond the last point a sum that nobody reads
    above = memory[index + 3] if index + 2 < memory[cells.END] else 0
    sums = memory[index - 1], memory[index + 1], above
    note(memory, guide, MARKS, memory[index], sums, memory[STEP], number)


@inlined
def charge_uniform(
    memory: Memory, guide: Memory, lower: int, step: int, outcome: int, reported: float
) -> None:
    """`fixed.charge`, with a guide, but for the current cell, which is made valid at the end."""
    y = outcome * memory[cells.SCALE]
    below = fixed.charge_point(memory, lower, step, outcome, y, reported)
    memory[cells.BELOW], memory[cells.LOWER] = below, memory[below]
    point = lower + step * outcome
    number = point >> memory[fixed.SHIFT]
    if changes_cells(memory, point, memory[TABLE + 2 * number + 1], point - y):
        note_uniform(memory, guide, number)


@uncounted
def renew(memory: Memory, guide: Memory, slot: int, shift: int) -> None:
    """Mark all cells of a step anew."""
    n_cells, start, step = UNIT >> shift, MARKS + slot * guide[ROOM], 1 << shift
    first, last = 0, n_cells - 1
    mark_run(guide, start + marks_length(n_cells), n_cells, first, last)
    if memory[TILT]:
        first, last = (memory[LOW] - 1) >> shift, memory[HIGH] >> shift
    mark_run(guide, start, n_cells, first, last)
    for index in range(TABLE, memory[cells.END], 2):
        if memory[index] & (step - 1) == 0:
            note_dyadic(memory, guide, start, index, shift)
    guide[SHIFTS + slot] = shift
    if shift < guide[PAIRS]:
        guide[PAIRS], index = shift, TABLE
        for number in range(n_cells + 1):
            while memory[index] < number << shift:
                index += 2
            guide[guide[PLACES] + number] = index


@inlined
def note_dyadic(memory: Memory, guide: Memory, start: int, index: int, shift: int) -> None:
    """Mark the cells of a step on both sides of a charged point."""
    point, step = memory[index], 1 << shift
    below = above = index
    if point > 0:
        below -= 2
        while memory[below] > point - step:
            below -= 2
        below += 2 * (memory[below] != point - step)
    if point < UNIT:
        above += 2
        while memory[above] < point + step:
            above += 2
    lower, upper = sum_from(memory, below, point - step), sum_from(memory, above, point + step)
    note(memory, guide, start, point, (lower, memory[index + 1], upper), step, point >> shift)


@inlined
def pair_of(memory: Memory, guide: Memory, point: int) -> int:
    """The index of the first pair not below a point."""
    shift = guide[PAIRS]
    if (shift == NONE) | (point & ((1 << shift) - 1) != 0):
        return find(memory, point)
    return guide[guide[PLACES] + (point >> shift)]


@inlined
def propose_dyadic(memory: Memory, guide: Memory, hint: float) -> tuple[int, int]:
    """`dyadic.propose`, with a guide."""
    step = memory[STEP]
    if step << guide[DEEPEST] < UNIT:
        return dyadic.propose(memory, hint)
    free, in_odds = int(dyadic.unbiased_are_free(memory)), memory[dyadic.TUNED] & dyadic.EAGER != 0
    while True:
        shift = lowest_bit(step)
        n_cells, slot = UNIT >> shift, shift & (SLOTS - 1)
        if guide[SHIFTS + slot] != shift:
            renew(memory, guide, slot, shift)
        target = hint * n_cells if hint >= 0.0 else memory[LAST] / (2 * step)
        start = MARKS + slot * guide[ROOM] + free * marks_length(n_cells)
        lower = nearest_marked(guide, start, n_cells, target, in_odds) << shift
        below, above = pair_of(memory, guide, lower), pair_of(memory, guide, lower + step)
        if dyadic.may_play(memory, below, above, lower, step):
            return lower, step
        step = memory[dyadic.BASE]


@inlined
def charge_dyadic(
    memory: Memory, guide: Memory, lower: int, step: int, outcome: int, reported: float
) -> None:
    """`dyadic.charge`, with a guide."""
    point = lower + step * outcome
    index = pair_of(memory, guide, point)
    fresh = memory[index] != point
    dyadic.charge_pair(memory, index, lower, step, outcome, outcome * UNIT, reported)
    if fresh and guide[PAIRS] != NONE:
        first, shift = guide[PLACES], guide[PAIRS]
        for place in range(first + (point >> shift) + 1, first + (UNIT >> shift) + 1):
            guide[place] += 2
    if fresh or changes_cells(memory, point, memory[index + 1], point - outcome * UNIT):
        note_change(memory, guide, point, index)


@uncounted
def note_change(memory: Memory, guide: Memory, point: int, index: int) -> None:
    """Mark the cells of all steps on both sides of a charged point anew."""
    for slot in range(SLOTS):
        shift = guide[SHIFTS + slot]
        if shift != NONE and point & ((1 << shift) - 1) == 0:
            note_dyadic(memory, guide, MARKS + slot * guide[ROOM], index, shift)


def guided(rules: ModuleType) -> tuple[Callable[..., tuple[int, int]], Callable[..., None]]:
    """How a machine proposes and charges where a guide is beside its memory: see `compile_replay`."""
    return (propose_uniform, charge_uniform) if rules is fixed else (propose_dyadic, charge_dyadic)


ALL, BIT = np.int64(-1), np.int64(1)
"""A word with all bits and one with the lowest. The interpreter, too, shifts them within 64 bits."""


@inlined
def marks_length(n_cells: int) -> int:
    """How many words the marks of so many cells take up, of one kind."""
    return (n_cells + 63) >> 6


@inlined
def mark(guide: Memory, start: int, cell: int, on: int) -> None:
    """Set the mark of a cell, or clear it."""
    place, bit = start + (cell >> 6), cell & 63
    guide[place] = (guide[place] & ~(BIT << bit)) | (on * BIT << bit)


@inlined
def mark_run(guide: Memory, start: int, n_cells: int, first: int, last: int) -> None:
    """Mark the cells from `first` to `last`, as far as there are such, and no others."""
    first, last = max(first, 0), min(last, n_cells - 1)
    for number in range(marks_length(n_cells)):
        low, high = max(first - 64 * number, 0), min(last - 64 * number, 63)
        guide[start + number] = (ALL << low) & ~((ALL << 1) << high) if low <= high else 0


@inlined
def nearest_marked(guide: Memory, start: int, n_cells: int, target: float, in_odds: bool) -> int:
    """The marked cell nearest to `target`, in cells: that which the target is in, or of two the lower.

    Nearest is counted in probabilities or `in_odds`. Some cell is marked.
    """
    home = min(int(target), n_cells - 1)
    number, bit, last = home >> 6, home & 63, marks_length(n_cells) - 1
    word = guide[start + number]
    left, right = word & ~((ALL << 1) << bit), word & (ALL << bit)
    below = above = number
    while left == 0 and below > 0:
        below -= 1
        left = guide[start + below]
    while right == 0 and above < last:
        above += 1
        right = guide[start + above]
    if left == 0:
        return 64 * above + lowest_bit(right)
    below = 64 * below + highest_bit(left)
    if right == 0:
        return below
    above = 64 * above + lowest_bit(right)
    if in_odds:
        nearer = below == home or cells.lower_is_nearer(target, below + 1, above, n_cells)
        return below if nearer else above
    # target - (below + 1) <= above - target, in whole numbers
    part_of_home = target - home
    twice = int(part_of_home > 0.0) + int(part_of_home > 0.5)
    rather = int((below != home) & (twice > above + below + 1 - 2 * home))
    return below + ((above - below) & -rather)
