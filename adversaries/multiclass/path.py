"""A way through the simplex: straight lines between the points of a quasi-random Dirichlet sequence.

Independent exponential variables divided by their sum have the distribution Dirichlet(1, ..., 1): all class
probabilities are equally likely. In place of random numbers, the exponentials of point i are made of the
fractional parts of 1/2 + i/g, 1/2 + i/g^2, ..., 1/2 + i/g^k, with g > 1 the root of g^(k+1) = g + 1: points
that spread evenly and are known in advance, so that the draws of the game are left to the outcomes.

References
----------
Roberts (2018). The unreasonable effectiveness of quasirandom sequences: the sequence.
"""

from __future__ import annotations

import math

import numpy as np
from numba.extending import register_jitable

from adversaries.multiclass.protocol import Floats
from adversaries.protocol import State

SPACING, ROOT, LEG, FIRST = range(4)
"""Parts of the state: rounds a leg lasts, g, the present leg; then its ends and the present point, k each."""


def path_state(n_classes: int, spacing: float) -> State:
    """The state of a path before its first round, with so many rounds from point to point."""
    root = 2.0
    for _ in range(60):
        root = (1.0 + root) ** (1.0 / (n_classes + 1))
    return np.array([spacing, root, -1.0, *[0.0] * (3 * n_classes)])


@register_jitable
def move(state: State, t: int, k: int) -> Floats:
    """The point of round t, shape (k,), a view of the state."""
    leg = math.floor(t / state[SPACING])
    start, end = state[FIRST : FIRST + k], state[FIRST + k : FIRST + 2 * k]
    if leg != state[LEG]:
        state[LEG] = leg
        fill_point(start, leg, state[ROOT])
        fill_point(end, leg + 1, state[ROOT])
    share = t / state[SPACING] - leg
    here = state[FIRST + 2 * k : FIRST + 3 * k]
    for c in range(k):
        here[c] = start[c] + share * (end[c] - start[c])
    return here


@register_jitable
def fill_point(point: Floats, number: int, root: float) -> None:
    """Point `number` of the sequence; the first one is the middle of the simplex."""
    total, stride = 0.0, 1.0
    for c in range(len(point)):
        stride /= root
        place = 0.5 + number * stride
        point[c] = -math.log(1.0 - (place - math.floor(place)))
        total += point[c]
    for c in range(len(point)):
        point[c] /= total


@register_jitable
def drawn(weights: Floats, u: float) -> int:
    """The class that a uniform draw picks, with probabilities proportional to the weights."""
    left, last = 0.0, 0
    for c in range(len(weights)):
        left += weights[c]
    left *= u
    for c in range(len(weights)):
        if weights[c] > 0.0:
            left -= weights[c]
            last = c
            if left < 0.0:
                return c
    return last
