"""What the memory of a simplex run says: the exact cell of a frame, the charged points, their biases."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats
from onlinecal.forecasters.simplex.account import Cell
from onlinecal.forecasters.simplex.machine import memory as memories
from onlinecal.forecasters.simplex.machine.table import (
    CLASSES,
    LABELS,
    POINT,
    SCALE,
    SUMS,
    part_of,
    vertex_at,
)

Memory = NDArray[np.int64]


def cell_of(memory: Memory, frame: int) -> Cell:
    """The exact cell of a frame."""
    k, scale = int(memory[CLASSES]), int(memory[SCALE])
    labels, points = int(part_of(memory, frame, LABELS)), int(vertex_at(memory, frame, 0))
    rows = memory[points : points + k * k].reshape(k, k)
    order = np.argsort(memory[labels : labels + k])
    sums = tuple(memory[frame + SUMS : frame + SUMS + k].tolist())
    return Cell(scale, sums, tuple(tuple(row) for row in rows[order].tolist()))


def charged_points(memory: Memory) -> tuple[Floats, Floats]:
    """The points charged so far and their biases, both of shape (V, k)."""
    if not len(memory):
        return np.empty((0, 0)), np.empty((0, 0))
    k, scale, table = int(memory[CLASSES]), int(memory[SCALE]), memories.records_of(memory)
    return table[:, POINT : POINT + k] / scale, table[:, POINT + k :] / scale


def lp_norm(values: Floats, p: float) -> float:
    """The l_p norm of all entries, without overflow or underflow of the powers."""
    largest = float(values.max())
    if largest == 0.0 or np.isinf(p):
        return largest
    return largest * float(((values / largest) ** p).sum()) ** (1.0 / p)
