"""The report that follows a hint: the point of the announced cell towards it.

From the barycentre go straight towards the hint, and stop at the hint or where the way leaves the cell. A
cell's vertices w_0, ..., w_(k-1) each differ from the next by one step that moves weight from a class to
the one after it, in cyclic order; only one of the k steps, that of the *last* class, does not occur. In the
sums of a point's coordinates from the class after that one on, each step lowers one sum by a unit, so that
barycentric coordinates are differences of such sums.
"""

from __future__ import annotations

from typing import Any

from onlinecal.compiling import kernel_part
from onlinecal.forecasters.simplex.machine.table import CLASSES, SCALE, STEP, SUMS, Memory, vertex_at


@kernel_part
def step_class(memory: Memory, frame: int, i: int) -> int:
    """The class that loses a unit from vertex i to vertex i + 1."""
    k = memory[CLASSES]
    x, c = vertex_at(memory, frame, i), 0
    while memory[x + k + c] >= memory[x + c]:
        c += 1
    return c


@kernel_part
def weight_of(memory: Memory, frame: int, last: int, i: int, hint: Any) -> float:
    """How many units of step i (0: none before the first) lead from w_0 to the hint."""
    k = memory[CLASSES]
    moved = step_class(memory, frame, i)
    x, c, total = vertex_at(memory, frame, 0), last, 0.0
    while c != moved:
        c = c + 1 if c + 1 < k else 0
        total += memory[x + c] - hint[c] * memory[SCALE]
    return total / memory[STEP]


@kernel_part
def move_inside(memory: Memory, frame: int, hint: Any, vector: Any) -> None:
    """Write the point of the frame's cell towards the hint, k probabilities, into `vector`."""
    k = memory[CLASSES]
    last = k * (k - 1) // 2
    for i in range(k - 1):
        last -= step_class(memory, frame, i)
    share, before = 1.0, 1.0
    for i in range(k):
        after = weight_of(memory, frame, last, i, hint) if i < k - 1 else 0.0
        if before - after < 0.0:
            share = min(share, 1.0 / (1.0 - k * (before - after)))
        before = after
    for c in range(k):
        centre = memory[frame + SUMS + c] / (k * memory[SCALE])
        vector[c] = min(max(centre + share * (hint[c] - centre), 0.0), 1.0)
