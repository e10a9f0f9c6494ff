"""The cell of a round that waits for its outcome: 3 k + 1 integers of 32 bits instead of k vertices.

    scale | step | first vertex (k) | the class that loses a step, from vertex to vertex (k - 1) | labels (k)

Each vertex differs from the one before by a step that moves weight from a class to the one after it, in
cyclic order. So a first vertex and the order of the steps are the whole cell. The labels say by which class
each vertex is charged. The scale is that of the memory when the round was announced; later ones are its
multiples.
"""

from __future__ import annotations

from typing import Any

from onlinecal.compiling import uncounted
from onlinecal.forecasters.binary.cells import BRIM
from onlinecal.forecasters.simplex.machine.report import step_class
from onlinecal.forecasters.simplex.machine.table import (
    BALANCE,
    CLASSES,
    LABELS,
    MOVED,
    SCALE,
    SPREAD,
    STEP,
    Memory,
    part_of,
    units,
    vertex_at,
)

CELL_SCALE, CELL_STEP, FIRST = range(3)
FAR = 1 << 28
"""Fewer rounds than this, however far each was, leave room for very many more."""


@uncounted
def cell_size(k: int) -> int:
    """How many integers a cell of k classes is."""
    return 3 * k + 1


@uncounted
def write_cell(memory: Memory, frame: int, cell: Any) -> None:
    """Write the cell of a frame."""
    k, x, labels = memory[CLASSES], vertex_at(memory, frame, 0), part_of(memory, frame, LABELS)
    cell[CELL_SCALE], cell[CELL_STEP] = memory[SCALE], memory[STEP]
    for c in range(k):
        cell[FIRST + c] = memory[x + c]
        cell[FIRST + 2 * k - 1 + c] = memory[labels + c]
    for i in range(k - 1):
        cell[FIRST + k + i] = step_class(memory, frame, i)


@uncounted
def write_vertex(cell: Any, k: int, outcome: int, point: Any, x: int) -> None:
    """Write the vertex that is labelled with an outcome to x, in units of the cell's scale."""
    for c in range(k):
        point[x + c] = cell[FIRST + c]
    i = 0
    while cell[FIRST + 2 * k - 1 + i] != outcome:
        loser = cell[FIRST + k + i]
        point[x + loser] -= cell[CELL_STEP]
        point[x + (loser + 1 if loser + 1 < k else 0)] += cell[CELL_STEP]
        i += 1


@uncounted
def write_sums(cell: Any, k: int, sums: Any) -> None:
    """Write the sums of the vertices' coordinates, k times the barycentre in units of the cell's scale."""
    for c in range(k):
        sums[c] = k * cell[FIRST + c]
    for i in range(k - 1):
        loser, moved = cell[FIRST + k + i], (k - 1 - i) * cell[CELL_STEP]
        sums[loser] -= moved
        sums[loser + 1 if loser + 1 < k else 0] += moved


@uncounted
def bears_surely(memory: Memory) -> bool:
    """Whether one more round is borne for certain, also if the grid changes: `rounds_left` has it exactly."""
    far = FAR * units(memory)
    return bool(memory[MOVED] < far and memory[BALANCE] < far and memory[SPREAD] < BRIM >> 1)
