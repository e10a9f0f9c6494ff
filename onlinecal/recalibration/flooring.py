"""No probability is 0: what was fitted is mixed with the uniform distribution, at the weight of one row.

n rows cannot tell a probability of 0 from one of 1/n, and an outcome that was given 0 has an infinite log
loss. (n p + u)/(n + 1) with u = 1/C for each of C classes is what an average over n rows becomes when one row
with every class in equal parts joins them. It keeps the order of the classes and moves a row by at most
sqrt(1 - 1/C)/(n + 1) in l2.
"""

from __future__ import annotations

import numpy as np

from onlinecal.arrays import Floats
from onlinecal.compiling import compiled

MOST_STEPS = 100
ROUNDING = 1e-13
"""What the sum of a row may miss 1 by."""


def least_probability(n_rows: float, n_classes: int) -> float:
    """1/(C (n + 1)): what a probability of 0 becomes."""
    return 1.0 / (n_classes * (n_rows + 1.0))


def floored(table: Floats, least: float) -> Floats:
    """Probabilities (n, C) mixed with the uniform distribution so that 0 becomes `least`; 0 changes none."""
    if least == 0.0:
        return table
    return (1.0 - table.shape[1] * least) * table + least


def limited(corrected: Floats, start: Floats, keep: float, limit: float) -> Floats:
    """Rows (n, C), the nearest in l2 with each class between two multiples of what the start gives it.

    They are the larger of `keep` and 1/limit, and `limit`. Rows that are within stay as they are.
    """
    least = max(keep, 1.0 / limit)
    if least == 0.0:
        return corrected
    out = np.empty_like(corrected)
    _limit_rows(np.ascontiguousarray(corrected), np.ascontiguousarray(start), least, limit, out)
    return out


@compiled
def _limit_rows(corrected: Floats, start: Floats, least: float, limit: float, out: Floats) -> None:
    """Rows less a shift, cut to their limits; for the shift that makes the sum 1, Newton's method."""
    n, k = corrected.shape
    for i in range(n):
        low, high, shift = -1.0, 1.0, 0.0
        for _ in range(MOST_STEPS):
            total, free = 0.0, 0
            for c in range(k):
                p, bottom = corrected[i, c] - shift, least * start[i, c]
                top = limit * start[i, c] if limit < np.inf else 1.0
                if p < bottom:
                    p = bottom
                elif p > top:
                    p = top
                else:
                    free += 1
                out[i, c] = p
                total += p
            excess = total - 1.0
            if abs(excess) <= ROUNDING:
                break
            if excess > 0.0:
                low = shift
            else:
                high = shift
            if free > 0:
                shift += excess / free
            if free == 0 or not low < shift < high:
                shift = 0.5 * (low + high)
