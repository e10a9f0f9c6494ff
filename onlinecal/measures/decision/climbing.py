"""Gradient ascent by L-BFGS on a few numbers, with the same steps on every processor.

scipy's L-BFGS-B calls BLAS and LAPACK, whose last bits differ between machines; where a search has several
peaks, another bit can end on another one.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

import numpy as np

from onlinecal.arrays import Floats

Objective = Callable[[Floats], tuple[float, Floats]]
"""From a point to its value and gradient, an array of the point's shape."""

MEMORY = 10
SUFFICIENT = 1e-4
"""Share of the first order gain that a step must bring (Armijo)."""
FLATTER = 0.9
"""Share of its slope that a step must lose (Wolfe)."""
MOST_TRIALS = 20
LEAST_GAIN = 1e7 * 2.0**-52
"""Relative gain below which the climb ends: scipy's default, as the next one."""
LEAST_SLOPE = 1e-5
"""Largest entry of the gradient below which it ends."""


def climb(objective: Objective, start: Floats, max_iterations: int) -> tuple[float, Floats]:
    """A local maximum, or where the iterations ended: its value and the point.

    References
    ----------
    Nocedal and Wright, "Numerical Optimization" (2006), algorithm 7.4; step lengths by bisection until both
    of Wolfe's conditions hold, Lewis and Overton (2013), algorithm 2.6.
    """
    point = start
    value, slope = objective(point)
    pairs: deque[tuple[Floats, Floats, float]] = deque(maxlen=MEMORY)
    for _ in range(max_iterations):
        if np.abs(slope).max() <= LEAST_SLOPE:
            break
        direction = _direction(slope, pairs)
        rise = _dot(slope, direction)
        first = 1.0 if pairs else 1.0 / math.sqrt(_dot(slope, slope))
        step, higher, ahead = _line(objective, point, value, direction, rise, first)
        if not higher > value:
            break
        moved = step * direction
        change = slope - ahead
        curvature = _dot(moved, change)
        if curvature > 2.0**-52 * _dot(change, change):
            pairs.append((moved, change, 1.0 / curvature))
        gain = (higher - value) / max(abs(higher), abs(value), 1.0)
        point, value, slope = point + moved, higher, ahead
        if gain <= LEAST_GAIN:
            break
    return value, point


def _dot(first: Floats, second: Floats) -> float:
    return float((first * second).sum())


def _direction(slope: Floats, pairs: deque[tuple[Floats, Floats, float]]) -> Floats:
    """The two loops over the last moves: the slope times an estimate of the inverse Hessian."""
    direction = slope
    weights = []
    for moved, change, inverse in reversed(pairs):
        weight = inverse * _dot(moved, direction)
        weights.append(weight)
        direction = direction - weight * change
    if pairs:
        _, change, inverse = pairs[-1]
        direction = direction / (inverse * _dot(change, change))
    for (moved, change, inverse), weight in zip(pairs, reversed(weights), strict=True):
        direction = direction + (weight - inverse * _dot(change, direction)) * moved
    return direction


def _line(
    objective: Objective, point: Floats, value: float, direction: Floats, rise: float, step: float
) -> tuple[float, float, Floats]:
    """A step along the direction that gains enough and ends where it is flatter; its value and gradient."""
    low, high = 0.0, math.inf
    best = (0.0, value, direction)
    for _ in range(MOST_TRIALS):
        found, slope = objective(point + step * direction)
        if found > best[1]:
            best = (step, found, slope)
        if found < value + SUFFICIENT * step * rise:
            high = step
        elif _dot(slope, direction) > FLATTER * rise:
            low = step
        else:
            return step, found, slope
        step = (low + high) / 2.0 if high < math.inf else 2.0 * low
    return best
