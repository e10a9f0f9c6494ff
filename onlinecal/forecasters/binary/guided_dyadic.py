"""Replays with hints on dyadic grids, with a guide of `marks` beside the memory.

The guide has marks of the cells of a few steps at a time, in slots, and the pairs of the points of one step.

A replay is `new_guide`, then `propose` and `charge` for each round, and `leave` at the end. What always holds
between two rounds: a slot whose SLOT_SHIFTS names a step has the marks of all its cells, as the memory is
now; and if PAIRS_SHIFT names a step, the places behind PAIR_PLACES are the first pairs not below its points.
`propose` fills a slot when it first needs it (`renew`); `charge` keeps both up to date. A guide is never
saved.
"""

from __future__ import annotations

import numpy as np

from onlinecal.arrays import Ints
from onlinecal.compiling import inlined, uncounted
from onlinecal.compiling.instructions import lowest_bit
from onlinecal.forecasters.binary import cells, dyadic
from onlinecal.forecasters.binary.cells import HIGH, LAST_MIDDLE, LOW, STEP, TABLE, TILT, Memory, find
from onlinecal.forecasters.binary.dyadic import DYADIC_SCALE, FINEST_LEVEL, sum_from
from onlinecal.forecasters.binary.marks import (
    changes_cells,
    mark_both_sides,
    mark_run,
    marks_length,
    nearest_marked,
)
from onlinecal.layout import Layout

N_SLOTS = 4
HEADER = Layout()
SLOT_SHIFTS = HEADER.field("of the steps that the slots have marks for", "binary logarithm", N_SLOTS)
PAIRS_SHIFT = HEADER.field("of the step whose points have known pairs", "binary logarithm")
DEEPEST = HEADER.field("the finest level there is room for", "level")
SLOT_LENGTH = HEADER.field("words of a slot; the first slot begins at MARKS", "count")
PAIR_PLACES = HEADER.field("where the places of the pairs begin", "place")
MARKS = HEADER.end
NO_SHIFT = FINEST_LEVEL + 1
"""What stands in place of a binary logarithm where there is no step."""
SPARE_LEVELS, LEAST_LEVELS = 4, 12
"""A guide has room for at least so many levels beyond the last base grid, and for so many levels in all."""


def new_guide(memory: Ints, rounds: int) -> Ints:
    """The guide of a memory for so many more rounds."""
    level, last = 0, int(memory[cells.ROUNDS]) + rounds
    while last > dyadic.last_round(int(memory[dyadic.PACE]), level):
        level += 1
    level = min(FINEST_LEVEL, max(level + SPARE_LEVELS, LEAST_LEVELS))
    room = 2 * marks_length(1 << level)
    places = MARKS + N_SLOTS * room
    guide = np.zeros(places + (1 << level) + 1, np.int64)
    guide[:N_SLOTS] = guide[PAIRS_SHIFT] = NO_SHIFT
    guide[DEEPEST], guide[SLOT_LENGTH], guide[PAIR_PLACES] = level, room, places
    return guide


@uncounted
def renew(memory: Memory, guide: Memory, slot: int, shift: int) -> None:
    """Mark all cells of a step anew."""
    n_cells, start, step = DYADIC_SCALE >> shift, MARKS + slot * guide[SLOT_LENGTH], 1 << shift
    first, last = 0, n_cells - 1
    mark_run(guide, start + marks_length(n_cells), n_cells, first, last)
    if memory[TILT]:
        first, last = (memory[LOW] - 1) >> shift, memory[HIGH] >> shift
    mark_run(guide, start, n_cells, first, last)
    for index in range(TABLE, memory[cells.END], 2):
        if memory[index] & (step - 1) == 0:
            note_point(memory, guide, start, index, shift)
    guide[SLOT_SHIFTS + slot] = shift
    if shift < guide[PAIRS_SHIFT]:
        guide[PAIRS_SHIFT], index = shift, TABLE
        for number in range(n_cells + 1):
            while memory[index] < number << shift:
                index += 2
            guide[guide[PAIR_PLACES] + number] = index


@inlined
def note_point(memory: Memory, guide: Memory, start: int, index: int, shift: int) -> None:
    """Mark the cells of a step on both sides of a charged point."""
    point, step = memory[index], 1 << shift
    below = above = index
    if point > 0:
        below -= 2
        while memory[below] > point - step:
            below -= 2
        below += 2 * (memory[below] != point - step)
    if point < DYADIC_SCALE:
        above += 2
        while memory[above] < point + step:
            above += 2
    lower, upper = sum_from(memory, below, point - step), sum_from(memory, above, point + step)
    mark_both_sides(memory, guide, start, point, (lower, memory[index + 1], upper), step, point >> shift)


@inlined
def pair_of(memory: Memory, guide: Memory, point: int) -> int:
    """The index of the first pair not below a point."""
    shift = guide[PAIRS_SHIFT]
    if (shift == NO_SHIFT) | (point & ((1 << shift) - 1) != 0):
        return find(memory, point)
    return guide[guide[PAIR_PLACES] + (point >> shift)]


@inlined
def propose(memory: Memory, guide: Memory, hint: float) -> tuple[int, int]:
    """`dyadic.propose`, with a guide."""
    step = memory[STEP]
    if step << guide[DEEPEST] < DYADIC_SCALE:
        return dyadic.propose(memory, hint)
    free, in_odds = int(dyadic.unbiased_are_free(memory)), memory[dyadic.TUNED] & dyadic.EAGER_BIT != 0
    while True:
        shift = lowest_bit(step)
        n_cells, slot = DYADIC_SCALE >> shift, shift & (N_SLOTS - 1)
        if guide[SLOT_SHIFTS + slot] != shift:
            renew(memory, guide, slot, shift)
        target = hint * n_cells if hint >= 0.0 else memory[LAST_MIDDLE] / (2 * step)
        start = MARKS + slot * guide[SLOT_LENGTH] + free * marks_length(n_cells)
        lower = nearest_marked(guide, start, n_cells, target, in_odds) << shift
        below, above = pair_of(memory, guide, lower), pair_of(memory, guide, lower + step)
        if dyadic.may_play(memory, below, above, lower, step):
            return lower, step
        step = memory[dyadic.BASE]


@inlined
def charge(memory: Memory, guide: Memory, lower: int, step: int, outcome: int, reported: float) -> None:
    """`dyadic.charge`, with a guide."""
    point = lower + step * outcome
    index = pair_of(memory, guide, point)
    fresh = memory[index] != point
    dyadic.charge_pair(memory, index, lower, step, outcome, outcome * DYADIC_SCALE, reported)
    if fresh and guide[PAIRS_SHIFT] != NO_SHIFT:
        first, shift = guide[PAIR_PLACES], guide[PAIRS_SHIFT]
        for place in range(first + (point >> shift) + 1, first + (DYADIC_SCALE >> shift) + 1):
            guide[place] += 2
    if fresh or changes_cells(memory, point, memory[index + 1], point - outcome * DYADIC_SCALE):
        note_change(memory, guide, point, index)


@uncounted
def note_change(memory: Memory, guide: Memory, point: int, index: int) -> None:
    """Mark the cells of all steps on both sides of a charged point anew."""
    for slot in range(N_SLOTS):
        shift = guide[SLOT_SHIFTS + slot]
        if shift != NO_SHIFT and point & ((1 << shift) - 1) == 0:
            note_point(memory, guide, MARKS + slot * guide[SLOT_LENGTH], index, shift)


@inlined
def leave(memory: Memory) -> None:
    """Do nothing: `charge` put nothing off."""
