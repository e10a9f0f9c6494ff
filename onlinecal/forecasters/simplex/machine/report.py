"""The report that follows a hint: the point of the announced cell that is best if the hint is right.

That is the hint, if it is in the cell; else the point with the least expected log loss under the hint. It is
looked for from where the straight way from the barycentre to the hint leaves the cell.

A mixture of the cell's vertices w_i with the weights l_i is best if no vertex has a *gain*, the sum of
h_c w_ic / q_c over the classes c, q being the mixture and h the hint, above 1; and no point of the cell is
better by more than the largest gain less 1. Weight goes, again and again, from the used vertex with the least
gain to the one with the largest: so much that the slope along this way does not change its sign, whatever the
curvature.

A cell's vertices w_0, ..., w_(k-1) each differ from the next by one step that moves weight from a class to
the one after it, in cyclic order; only one of the k steps, that of the *last* class, does not occur. In the
sums of a point's coordinates from the class after that one on, each step lowers one sum by a unit, so that
barycentric coordinates are differences of such sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onlinecal.compiling import kernel_part, uncounted
from onlinecal.forecasters.simplex.machine.table import (
    CLASSES,
    SCALE,
    STEP,
    SUMS,
    Memory,
    vertex_at,
)

NEAR_ENOUGH = 5e-3
"""How far the expected log loss may be above the least, in nats."""
MOST_MOVES = 100
"""Of weight from vertex to vertex; any mixture is in the cell."""
TINY = 1e-12
"""No probability is taken to be less, where logarithms are compared."""


@uncounted
def step_class(memory: Memory, frame: int, i: int) -> int:
    """The class that loses a unit from vertex i to vertex i + 1."""
    k = memory[CLASSES]
    x, c = vertex_at(memory, frame, i), 0
    while memory[x + k + c] >= memory[x + c]:
        c += 1
    return c


@uncounted
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
    """Write the point of the frame's cell that follows the hint, k probabilities, into `vector`."""
    k = memory[CLASSES]
    weights = np.empty(2 * k)
    share = share_inside(memory, frame, hint, weights)
    for c in range(k):
        centre = memory[frame + SUMS + c] / (k * memory[SCALE])
        vector[c] = min(max(centre + share * (hint[c] - centre), 0.0), 1.0)
    if share < 1.0:
        for i in range(k):
            weights[i] = max(1.0 / k + share * (weights[i] - 1.0 / k), 0.0)
        improve(memory, frame, hint, weights, vector)
        write_mixture(memory, frame, weights, vector)


@uncounted
def share_inside(memory: Memory, frame: int, hint: Any, weights: Any) -> float:
    """Which share of the way from the barycentre to the hint is in the cell; write the hint's weights."""
    k = memory[CLASSES]
    last = k * (k - 1) // 2
    for i in range(k - 1):
        last -= step_class(memory, frame, i)
    share, before = 1.0, 1.0
    for i in range(k):
        after = weight_of(memory, frame, last, i, hint) if i < k - 1 else 0.0
        if before - after < 0.0:
            share = min(share, 1.0 / (1.0 - k * (before - after)))
        weights[i] = before - after
        before = after
    return share


@uncounted
def improve(memory: Memory, frame: int, hint: Any, weights: Any, vector: Any) -> None:
    """Move weight from vertex to vertex until the mixture's expected log loss is nearly the least.

    Behind the k weights there is room for as many numbers.
    """
    k, first = memory[CLASSES], vertex_at(memory, frame, 0)
    unit = 1.0 / memory[SCALE]
    for _ in range(MOST_MOVES):
        for c in range(k):
            weights[k + c] = unit / max(vector[c], TINY)
        most, least, up, down = -1.0, np.inf, 0, 0
        for i in range(k):
            gain, x = 0.0, first + i * k
            for c in range(k):
                gain += hint[c] * weights[k + c] * memory[x + c]
            if gain > most:
                most, up = gain, i
            if weights[i] > 0.0 and gain < least:
                least, down = gain, i
        if most <= 1.0 + NEAR_ENOUGH or up == down:
            break
        # the slope is the difference of gains; it falls with the curvature, the faster the nearer a zero is
        curvature, nearest = 0.0, 0.0
        for c in range(k):
            rate = weights[k + c] * (memory[first + up * k + c] - memory[first + down * k + c])
            curvature += hint[c] * rate * rate
            nearest = max(nearest, -rate)
        slope = most - least
        moved = min(slope / (curvature + slope * nearest), weights[down])
        weights[up] += moved
        weights[down] -= moved
        for c in range(k):
            vector[c] += moved * unit * (memory[first + up * k + c] - memory[first + down * k + c])


@uncounted
def write_mixture(memory: Memory, frame: int, weights: Any, vector: Any) -> None:
    """Write the mixture of the frame's vertices with these weights, which need not sum to 1."""
    k, first = memory[CLASSES], vertex_at(memory, frame, 0)
    total = 0.0
    for i in range(k):
        total += weights[i]
    for c in range(k):
        part = 0.0
        for i in range(k):
            part += weights[i] * memory[first + i * k + c]
        vector[c] = min(part / (total * memory[SCALE]), 1.0)
