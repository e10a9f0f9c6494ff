"""From a fractional calibrated sequence to a real one: a shortest path near a given curve.

The relaxation's level sets, laid end to end, are a convex curve from (0, 0) to (n0, n1) in the plane of
(zeros used, ones used). A calibrated sequence is a path of lattice points; the cheapest one whose corners
stay within a small square around the curve's corners is nearly as cheap as the curve.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from onlinecal.measures.counts import Counts, Floats, Ints
from onlinecal.measures.levels import Levels, make_levels


def round_to_levels(counts: Counts, nodes: Floats, masses: Floats, radius: int) -> Levels:
    """Level sets of the cheapest path whose corners lie within `radius` of the fractional path's corners.

    nodes and masses, shape (n,): value and size of each fractional level set, by increasing value.
    """
    n0, n1 = counts.n_zeros, counts.n_ones
    kept = masses > 1e-9 * masses.sum()
    corners_zeros = _corners((1.0 - nodes[kept]) * masses[kept], n0)
    corners_ones = _corners(nodes[kept] * masses[kept], n1)
    path = path_near(
        counts.values,
        _prefix(counts.zeros),
        _prefix(counts.ones),
        _prefix(counts.zeros * counts.values),
        _prefix(counts.ones * counts.values),
        corners_zeros,
        corners_ones,
        radius,
    )
    return make_levels(np.diff(path[:, 0]), np.diff(path[:, 1]))


def _prefix(terms: NDArray) -> NDArray:
    return np.concatenate([np.zeros(1, dtype=terms.dtype), np.cumsum(terms)])


def _corners(parts: Floats, total: int) -> Ints:
    corners = np.rint(_prefix(parts)).astype(np.int64)
    corners[-1] = total
    return np.minimum(corners, total)


@njit(cache=True)
def sum_of_smallest(n: int, prefix: Ints, prefix_sums: Floats, values: Floats) -> float:
    """Sum of the n smallest rounds of one outcome."""
    group = np.searchsorted(prefix, n, side="right") - 1
    if group >= len(values):
        return prefix_sums[-1]
    return prefix_sums[group] + (n - prefix[group]) * values[group]


@njit(cache=True)
def transport(
    start: int, end: int, sum_start: float, sum_end: float, value: float, below: int, sum_below: float
) -> float:
    """Sum of |forecast - value| over the rounds start..end-1 of one outcome.

    `below` rounds of the outcome have a forecast of at most `value`; sum_* sum that many smallest forecasts.
    """
    if below <= start:
        return (sum_end - sum_start) - value * (end - start)
    if below >= end:
        return value * (end - start) - (sum_end - sum_start)
    return value * (2 * below - start - end) - (2.0 * sum_below - sum_start - sum_end)


@njit(cache=True)
def path_near(
    values: Floats,
    zeros: Ints,
    ones: Ints,
    zero_sums: Floats,
    one_sums: Floats,
    corner_zeros: Ints,
    corner_ones: Ints,
    radius: int,
) -> Ints:
    """Cheapest path with one corner near each given one; shape (L+1, 2) int64.

    values (K,) float64; zeros, ones (K+1,) int64 prefix counts, zero_sums, one_sums (K+1,) float64 prefix
    sums of forecasts; corner_* (L+1,) int64, the first (0, 0), the last (n0, n1).
    """
    n0, n1 = zeros[-1], ones[-1]
    n_levels = len(corner_zeros) - 1
    width = 2 * radius + 1
    cost = np.full((n_levels + 1, width, width), np.inf)
    came_from = np.full((n_levels + 1, width, width), -1, dtype=np.int32)
    cost[0, radius, radius] = 0.0
    start_sums = np.empty((2, width))
    end_sums = np.empty((2, width))
    for k in range(n_levels + 1):
        for i in range(width):
            a = min(max(corner_zeros[k] + i - radius, 0), n0)
            b = min(max(corner_ones[k] + i - radius, 0), n1)
            end_sums[0, i] = sum_of_smallest(a, zeros, zero_sums, values)
            end_sums[1, i] = sum_of_smallest(b, ones, one_sums, values)
        last = k == n_levels
        for i in range(width * (k > 0)):
            a2 = corner_zeros[k] + i - radius
            if a2 < 0 or a2 > n0 or (last and i != radius):
                continue
            for j in range(width):
                b2 = corner_ones[k] + j - radius
                if b2 < 0 or b2 > n1 or (last and j != radius):
                    continue
                for i1 in range(width):
                    a = corner_zeros[k - 1] + i1 - radius
                    if a < 0 or a > a2:
                        continue
                    for j1 in range(width):
                        b = corner_ones[k - 1] + j1 - radius
                        so_far = cost[k - 1, i1, j1]
                        if b < 0 or b > b2 or so_far >= cost[k, i, j]:
                            continue
                        step = 0.0
                        if a2 + b2 > a + b:
                            value = (b2 - b) / (a2 - a + b2 - b)
                            g = np.searchsorted(values, value, side="right")
                            step = transport(
                                a, a2, start_sums[0, i1], end_sums[0, i], value, zeros[g], zero_sums[g]
                            )
                            step += transport(
                                b, b2, start_sums[1, j1], end_sums[1, j], value, ones[g], one_sums[g]
                            )
                        if so_far + step < cost[k, i, j]:
                            cost[k, i, j] = so_far + step
                            came_from[k, i, j] = i1 * width + j1
        start_sums[:] = end_sums
    path = np.empty((n_levels + 1, 2), dtype=np.int64)
    i, j = radius, radius
    for k in range(n_levels, -1, -1):
        path[k, 0] = corner_zeros[k] + i - radius
        path[k, 1] = corner_ones[k] + j - radius
        if k > 0:
            i, j = came_from[k, i, j] // width, came_from[k, i, j] % width
    return path
