"""A lower end for several classes from events: seen through a set of classes, calibrated is calibrated."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np

from onlinecal.arrays import Floats

MOST_SUBSETS = 6
"""Number of classes up to which every set of classes is looked at as one event."""


def lower_by_events(p: Floats, lower_of: Callable[[Floats, tuple[int, ...]], float]) -> float:
    """The largest lower end of the distance of p, (T, k).

    `lower_of(event, classes)` is one of the binary distance of the forecasts (T,) that any of these comes.
    """
    k = p.shape[1]

    def binary(classes: tuple[int, ...]) -> float:
        return lower_of(np.minimum(p[:, classes].sum(axis=1), 1.0), classes)

    singles = [binary((j,)) for j in range(k)]
    best = max(sum(singles), 2 * max(singles))
    if k <= MOST_SUBSETS:
        for size in range(2, k // 2 + 1):
            best = max([best, *(2 * binary(classes) for classes in combinations(range(k), size))])
    return best
