"""Replays with hints: the grid machines with a guide beside the memory, for valid cells and pairs at once.

A guide is made for a replay and thrown away: it holds nothing that does not follow from the memory. What is
played is what the machines play without one, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.forecasters.binary import dyadic, uniform
from onlinecal.forecasters.binary.cells import (
    FORMAT,
    HIGH,
    LOW,
    ROUNDS,
    SCALE,
    STEP,
    TABLE,
    TILT,
    Memory,
    inlined,
    part,
)
from onlinecal.forecasters.binary.dyadic import BASE, LEVELS, PACE, UNIT
from onlinecal.forecasters.binary.dyadic_search import find
from onlinecal.forecasters.binary.labels import fill_labels, labels_length, nearest_labelled, set_label

# The header of a guide. SHIFTS: the binary logarithms of the steps that the labels are for, the base grid's and
# a finer one's; NONE: of none. PAIRS: the same of the points whose pairs are known. DEEPEST: the finest level
# there is room for. LABELS: where the labels begin, PLACES: where the pairs' places do. A uniform grid has
# labels of one kind only.
SHIFTS, PAIRS, DEEPEST, LABELS, PLACES = 0, 2, 3, 4, 6
HEAD = 7
NONE = LEVELS + 1
SPARE_LEVELS, LEAST_LEVELS = 4, 12
"""Levels beyond the last base grid, and levels in all, that a guide has room for at least."""


def new_guide(memory: NDArray[np.int64], rounds: int) -> NDArray[np.int64]:
    """The guide of a memory for so many more rounds."""
    uniformly = memory[FORMAT] == uniform.FORMAT_UNIFORM
    level, last = 0, int(memory[ROUNDS]) + rounds
    while not uniformly and last > dyadic.last_round(int(memory[PACE]), level):
        level += 1
    level = min(LEVELS, max(level + SPARE_LEVELS, LEAST_LEVELS))
    length = labels_length(int(uniform.cells_of(memory)) if uniformly else 1 << level)
    guide = np.zeros(HEAD + length if uniformly else HEAD + 2 * length + (1 << level) + 1, np.int64)
    guide[:HEAD] = NONE, NONE, NONE, level, HEAD, HEAD + length, HEAD + 2 * length
    return guide


@inlined
def label(memory: Memory, guide: Memory, start: int, number: int, point: int, total: int) -> None:
    """Note what a point with this sum accepts."""
    zero, one = int(total <= memory[HIGH]), int(total >= memory[LOW])
    set_label(guide, start, number, zero, one, int(total == memory[TILT] * point))


@inlined
def propose_uniform(both: Any, hint: float) -> tuple[int, int]:
    """`uniform.propose`, with a guide."""
    memory, guide = both
    m, shift = uniform.cells_of(memory), memory[uniform.SHIFT]
    if guide[SHIFTS] != shift:
        uniform.expect_hints(memory)
        for number in range(m + 1):
            label(memory, guide, HEAD, number, number << shift, memory[TABLE + number])
        guide[SHIFTS] = shift
    target = hint * m
    home, free = min(int(target), m - 1), int(uniform.covered(memory))
    return nearest_labelled(guide, HEAD, m, home, target, free) << shift, memory[STEP]


@inlined
def charge_uniform(both: Any, lower: int, step: int, above: int, y: int, reported: float) -> None:
    """`uniform.charge`, with a guide."""
    memory, guide = both
    uniform.charge_point(memory, lower, step, above, y, reported)
    point = lower + step * above
    number = point >> memory[uniform.SHIFT]
    label(memory, guide, HEAD, number, point, memory[TABLE + number])


@part
def renew(memory: Memory, guide: Memory, step: int) -> None:
    """Make the guide suit another step, that of the base grid or a finer one."""
    kind, shift = int(step != memory[BASE]), 0
    while 1 << shift < step:
        shift += 1
    n_cells, start = UNIT >> shift, guide[LABELS + kind]
    last_zero = memory[HIGH] >> shift if memory[TILT] else n_cells
    first_one = (memory[LOW] + step - 1) >> shift if memory[TILT] else 0
    fill_labels(guide, start, n_cells, last_zero, first_one)
    for index in range(TABLE, memory[dyadic.END], 2):
        point = memory[index]
        if point & (step - 1) == 0:
            label(memory, guide, start, point >> shift, point, memory[index + 1])
    guide[SHIFTS + kind] = shift
    if shift < guide[PAIRS]:
        guide[PAIRS], index = shift, TABLE
        for number in range(n_cells + 1):
            while memory[index] < number << shift:
                index += 2
            guide[guide[PLACES] + number] = index


@inlined
def pair_of(memory: Memory, guide: Memory, point: int) -> int:
    """The index of the first pair not below a point."""
    shift = guide[PAIRS]
    if (shift == NONE) | (point & ((1 << shift) - 1) != 0):
        return find(memory, point)
    return guide[guide[PLACES] + (point >> shift)]


@inlined
def propose_dyadic(both: Any, hint: float) -> tuple[int, int]:
    """`dyadic.propose`, with a guide."""
    memory, guide = both
    step = memory[STEP]
    if step << guide[DEEPEST] < UNIT:
        return dyadic.propose(memory, hint)
    free = int(dyadic.unbiased_are_free(memory))
    while True:
        kind = int(step != memory[BASE])
        if 1 << guide[SHIFTS + kind] != step:
            renew(memory, guide, step)
        shift = guide[SHIFTS + kind]
        n_cells = UNIT >> shift
        target = hint * n_cells
        home = min(int(target), n_cells - 1)
        lower = nearest_labelled(guide, guide[LABELS + kind], n_cells, home, target, free) << shift
        below, above = pair_of(memory, guide, lower), pair_of(memory, guide, lower + step)
        if dyadic.may_play(memory, below, above, lower, step):
            return lower, step
        step = memory[BASE]


@inlined
def charge_dyadic(both: Any, lower: int, step: int, above: int, y: int, reported: float) -> None:
    """`dyadic.charge`, with a guide."""
    memory, guide = both
    point = lower + step * above
    index = pair_of(memory, guide, point)
    fresh = memory[index] != point
    dyadic.charge_pair(memory, index, lower, step, above, y, reported)
    if fresh and guide[PAIRS] != NONE:
        first, shift = guide[PLACES], guide[PAIRS]
        for place in range(first + (point >> shift) + 1, first + (UNIT >> shift) + 1):
            guide[place] += 2
    for kind in range(2):
        shift = guide[SHIFTS + kind]
        if point & ((1 << shift) - 1) == 0:
            label(memory, guide, guide[LABELS + kind], point >> shift, point, memory[index + 1])


def guided(rules: ModuleType) -> tuple[Callable[..., tuple[int, int]], Callable[..., None]]:
    """`propose` and `charge` of a machine on (memory, guide)."""
    if rules is uniform:
        return propose_uniform, charge_uniform
    return propose_dyadic, charge_dyadic
