"""Keeps rows of probabilities on the simplex: the nearest point of it, least probabilities, and limits.

`nearest` and `project_rows` find the nearest point of the simplex, and `limited` the nearest one within
factors of a start. `spread_rest` shares what one probability leaves among the others. `floored` makes every
probability at least 1/(C (n + 1)). All of them give rows with sum 1, if `floored` and `limited` are given
such, and change no argument but `out`. Where there is nothing to do `floored` and `limited` return their
argument.

Why that floor: n rows cannot tell a probability of 0 from one of 1/n, and an outcome that was given 0 has an
infinite log loss. An average p over n rows becomes (n p + 1/C)/(n + 1) when one row joins them that has each
of C classes in equal parts. This keeps the order of the classes and moves a row by at most sqrt(1 - 1/C)/(n +
1) in l2.

Nothing is kept between calls. The order of the sums, MOST_NEWTON_STEPS and SIMPLEX_TOLERANCE are part of the
results: a model that was saved must give the same bits. Arguments are checked by who calls.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from onlinecal.arrays import Floats
from onlinecal.compiling import compiled, kernel_part

MOST_NEWTON_STEPS = 100
SIMPLEX_TOLERANCE = 1e-13
"""How far the sum of a projected row may be from 1."""


@kernel_part
def nearest(z: Floats, start: Floats, least: float, most: float, out: Floats) -> None:
    """Write into `out` the point of the simplex nearest to z in l2, within least and most times `start`.

    That point is z less a shift, cut to the limits. Newton's method finds the shift for which the sum is 1,
    and bisection helps where it would leave the bracket. With least = 0 and most = inf only the simplex
    limits the point.
    """
    low, high, shift = np.inf, -np.inf, 0.0
    for c in range(len(z)):
        low, high = min(low, z[c] - 1.0), max(high, z[c])
    for _ in range(MOST_NEWTON_STEPS):
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
        if abs(excess) <= SIMPLEX_TOLERANCE:
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


SHARE_TOLERANCE = 1e-12
"""A probability counts as at least 1/k if k times it is at most this far below 1."""


def spread_rest(masses: Sequence[float], p: float) -> list[float]:
    """Share 1 - p among k - 1 labels in proportion to their masses, with every share below p if possible.

    It is possible if p is at least 1/k. Then a label whose proportion would give it p or more gets just
    less than p, and the others share the surplus in proportion. Below 1/k some label must get more than p,
    and the proportions stand as they are. Masses are not negative; if all are zero, shares are equal.
    """
    rest, total, count = 1.0 - p, sum(masses), len(masses)
    if total <= 0.0:
        masses, total = [1.0] * count, float(count)
    shares = [rest * (mass / total) for mass in masses]
    if max(shares) < p or p * (count + 1) < 1.0 - SHARE_TOLERANCE:
        return shares
    most = math.nextafter(p, 0.0)
    order = sorted(range(count), key=masses.__getitem__)
    sums = list(accumulate(masses[place] for place in order))
    # from the largest mass down: a label that would get too much gets `most`, and the rest is shared again
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
    """The probability that 0 becomes after n rows: 1/(C (n + 1))."""
    return 1.0 / (n_classes * (n_rows + 1.0))


def floored(table: Floats, least: float) -> Floats:
    """Probabilities (n, C) mixed with the uniform distribution so that 0 becomes `least`, which may be 0."""
    if least == 0.0:
        return table
    return (1.0 - table.shape[1] * least) * table + least


def limited(corrected: Floats, start: Floats, keep: float, limit: float) -> Floats:
    """The nearest rows in l2, (n, C), that give each class between two multiples of what the start gives it.

    The multiples are max(keep, 1/limit) and limit. Rows within them stay as they are.
    """
    least = max(keep, 1.0 / limit)
    return corrected if least == 0.0 else _nearest_rows(corrected, start, least, limit)
