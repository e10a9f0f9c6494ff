"""Level sets and classes: what was promised, before and after a recalibration, and what came."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
from numpy.typing import NDArray

from onlinecal.arrays import Floats
from onlinecal.measures.lp.level_sets import levels_of, number_level_sets
from onlinecal.plots.numbers import wilson_interval


def level_set_errors(
    before: Floats,
    after: Floats,
    labels: NDArray[np.int64],
    classes: tuple[str, ...],
    n_levels: int,
    p: float,
    confidence: float = 0.95,
) -> pl.DataFrame:
    """A row per level set (of the forecasts before) and class in which anything is promised or came.

    Columns level_set, class, rows, mass; before and after: mean forecasts of these rows; frequency of the
    class, low and high: the ends of Wilson's interval of it; share: |error|^p as a part of the sum over all,
    for p = inf |error| as a part of the largest. The largest error comes first.
    """
    numbers, first = number_level_sets(before, n_levels)
    corners = levels_of(before[first], n_levels) / n_levels
    n_sets, k = len(first), before.shape[1]
    counts = np.bincount(numbers, minlength=n_sets)
    ones = np.bincount(numbers * k + labels, minlength=n_sets * k).reshape(n_sets, k)
    old, new = (_sums(values, numbers, n_sets) for values in (before, after))
    v, j = np.nonzero(old + new + ones > 1e-9 * counts[:, None])
    size = np.abs(old - ones)[v, j]
    order = np.argsort(-size, kind="stable")
    v, j, size = v[order], j[order], size[order]
    largest = max(float(size[0]), 1e-300)
    weights = size / largest if math.isinf(p) else (size / largest) ** p
    low, high = wilson_interval(ones[v, j], counts[v], confidence)
    names = [level_name(corner, classes, n_levels) for corner in corners]
    return pl.DataFrame(
        {
            "level_set": [names[one] for one in v],
            "class": [classes[one] for one in j],
            "rows": counts[v],
            "mass": counts[v] / len(labels),
            "before": old[v, j] / counts[v],
            "after": new[v, j] / counts[v],
            "frequency": ones[v, j] / counts[v],
            "low": low,
            "high": high,
            "share": weights if math.isinf(p) else weights / max(float(weights.sum()), 1e-300),
        }
    )


def level_name(corner: Floats, classes: tuple[str, ...], n_levels: int) -> str:
    """A level set by the classes whose probability reaches a level, the largest first."""
    reached = sorted(np.flatnonzero(corner > 0.5 / n_levels), key=lambda j: -corner[j])
    words = [f"{classes[j]} ≥ {corner[j]:.3g}" for j in reached[:3]]
    return ", ".join(words) + (" …" if len(reached) > 3 else "") or f"all < {1 / n_levels:.3g}"


def _sums(values: Floats, numbers: NDArray[np.int64], n_sets: int) -> Floats:
    """Sums of rows (n, k) over level sets, shape (n_sets, k)."""
    order = np.argsort(numbers, kind="stable")
    starts = np.searchsorted(numbers[order], np.arange(n_sets))
    return np.add.reduceat(values[order], starts, axis=0)
