"""Rows on the simplex: the point of it that is nearest, and no class below a least probability.

One probability is set; the others share what is left.

n rows cannot tell a probability of 0 from one of 1/n, and an outcome that was given 0 has an infinite log
loss. (n p + u)/(n + 1) with u = 1/C for each of C classes is what an average over n rows becomes when one row
with every class in equal parts joins them. It keeps the order of the classes and moves a row by at most
sqrt(1 - 1/C)/(n + 1) in l2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from onlinecal.arrays import Floats
from onlinecal.compiling import compiled, kernel_part

MOST_STEPS = 100
SUM_ROUNDING = 1e-13
"""What the sum of a row may miss 1 by."""


@kernel_part
def nearest(z: Floats, start: Floats, least: float, most: float, out: Floats) -> None:
    """The point of the simplex nearest to z in l2, each class between two multiples of `start`, into `out`.

    It is z less a shift, cut to the limits; for the shift that makes the sum 1, Newton's method. With
    least = 0 and most = inf nothing but the simplex limits it.
    """
    low, high, shift = np.inf, -np.inf, 0.0
    for c in range(len(z)):
        low, high = min(low, z[c] - 1.0), max(high, z[c])
    for _ in range(MOST_STEPS):
        total, free = 0.0, 0
        for c in range(len(z)):
            p, bottom = z[c] - shift, least * start[c]
            top = most * start[c] if most < np.inf else np.inf
            if p < bottom:
                p = bottom
            elif p > top:
                p = top
            else:
                free += 1
            out[c] = p
            total += p
        excess = total - 1.0
        if abs(excess) <= SUM_ROUNDING:
            break
        if excess > 0.0:
            low = shift
        else:
            high = shift
        if free > 0:
            shift += excess / free
        if free == 0 or not low < shift < high:
            shift = 0.5 * (low + high)


@compiled
def _fill_nearest(table: Floats, start: Floats, least: float, most: float, out: Floats) -> None:
    for row in range(table.shape[0]):
        nearest(table[row], start[row], least, most, out[row])


def project_rows(table: Floats) -> Floats:
    """Each row's nearest point of the simplex in l2, shape (n, k)."""
    return _nearest_rows(table, table, 0.0, math.inf)


def _nearest_rows(table: Floats, start: Floats, least: float, most: float) -> Floats:
    out = np.empty(table.shape)
    _fill_nearest(np.ascontiguousarray(table), np.ascontiguousarray(start), least, most, out)
    return out


ROUNDING = 1e-12


def spread_rest(masses: Sequence[float], p: float) -> list[float]:
    """Share 1 - p among the others in proportion to their masses, none as much as p itself if that can be.

    It can be when p is at least 1/k for k labels together with the one that has p: then what proportions
    would give beyond p goes to the rest of the others, in their proportions, and p stays the largest. Below
    1/k some other label is larger however the shares are dealt, and the proportions stand as they are. The
    masses of the k - 1 others are not negative; if all are zero, shares are equal.
    """
    rest, total, count = 1.0 - p, sum(masses), len(masses)
    if total <= 0.0:
        masses, total = [1.0] * count, float(count)
    shares = [rest * (mass / total) for mass in masses]
    if max(shares) < p or p * (count + 1) < 1.0 - ROUNDING:
        return shares
    most = math.nextafter(p, 0.0)
    order = sorted(range(count), key=masses.__getitem__)
    sums = list(accumulate(masses[place] for place in order))
    # from the largest down: whoever would get too much gets `most`, and the others share what is left
    while order and _share(rest, masses[order[-1]], sums[-1], len(order)) > most:
        shares[order.pop()] = most
        rest = max(rest - most, 0.0)
        sums.pop()
    for place in order:
        shares[place] = _share(rest, masses[place], sums[-1], len(order))
    return shares


def _share(rest: float, mass: float, total: float, count: int) -> float:
    return rest * (mass / total) if total > 0.0 else rest / count


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
    return corrected if least == 0.0 else _nearest_rows(corrected, start, least, limit)
