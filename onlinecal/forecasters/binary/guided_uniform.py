"""Replays with hints on a uniform grid, with a guide of `marks` beside the memory.

A replay is `new_guide`, then `propose` and `charge` for each round, and `leave` at the end. `grid.py` makes
the guide and calls `leave`; if a replay breaks off, it puts the memory from before back instead. The loop of
`compiled.py` calls the rest. The first `propose` writes all marks; from then on they are those of the memory
after each `charge`. `charge` does not look for a valid current cell, which rounds with hints do not need:
LOWER and BELOW are those of some cell until `leave`. A guide is never saved.
"""

from __future__ import annotations

import numpy as np

from onlinecal.arrays import Ints
from onlinecal.compiling import inlined
from onlinecal.forecasters.binary import cells, uniform
from onlinecal.forecasters.binary.cells import BELOW, LAST_MIDDLE, LOWER, STEP, TABLE, Memory
from onlinecal.forecasters.binary.full_table import cells_of, make_valid
from onlinecal.forecasters.binary.marks import (
    changes_cells,
    mark_both_sides,
    marks_length,
    nearest_marked,
)

NOTED, MARKS = 0, 1
"""A guide has at NOTED whether its marks are those of the memory, and from MARKS on the marks."""


def new_guide(memory: Ints, rounds: int) -> Ints:
    """The guide of a memory, for however many rounds."""
    return np.zeros(MARKS + 2 * marks_length(int(cells_of(memory))), np.int64)


@inlined
def propose(memory: Memory, guide: Memory, hint: float) -> tuple[int, int]:
    """`uniform.propose`, with a guide."""
    m = cells_of(memory)
    if guide[NOTED] == 0:
        for number in range(0, m, 2):
            note_point(memory, guide, number)
        note_point(memory, guide, m)
        guide[NOTED] = 1
    target = hint * m if hint >= 0.0 else memory[LAST_MIDDLE] / (2 * memory[STEP])
    start = MARKS + int(uniform.covered(memory)) * marks_length(m)
    return nearest_marked(guide, start, m, target, False) << memory[uniform.SHIFT], memory[STEP]


@inlined
def note_point(memory: Memory, guide: Memory, number: int) -> None:
    """Mark the cells on both sides of a point."""
    index = TABLE + 2 * number
    # the last point has no upper neighbour, and this sum is not read
    above = memory[index + 3] if index + 2 < memory[cells.END] else 0
    sums = memory[index - 1], memory[index + 1], above
    mark_both_sides(memory, guide, MARKS, memory[index], sums, memory[STEP], number)


@inlined
def charge(memory: Memory, guide: Memory, lower: int, step: int, outcome: int, reported: float) -> None:
    """`uniform.charge`, with a guide, but for the current cell, which is made valid at the end."""
    y = outcome * memory[cells.SCALE]
    below = uniform.charge_point(memory, lower, step, outcome, y, reported)
    memory[BELOW], memory[LOWER] = below, memory[below]
    point = lower + step * outcome
    number = point >> memory[uniform.SHIFT]
    if changes_cells(memory, point, memory[TABLE + 2 * number + 1], point - y):
        note_point(memory, guide, number)


@inlined
def leave(memory: Memory) -> None:
    """Make a valid cell current, which `charge` puts off."""
    make_valid(memory, memory[BELOW])
