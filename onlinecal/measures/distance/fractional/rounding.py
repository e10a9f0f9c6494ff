"""From a fractional calibrated sequence to a real one: shortest paths near a given curve.

The relaxation's level sets, laid end to end, are a convex curve from (0, 0) to (T, n1) in the plane of
(rounds used, ones used). A calibrated sequence is a path of lattice points. Moving a corner along the curve
is nearly free, since it passes rounds between neighbouring values; moving it across is not. So every corner
may move far along the curve and little across it, and the cheapest path through such windows is found by
dynamic programming. Its corners are the middle of the next windows, which gives a local search that stops
when nothing is gained.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from onlinecal.compiling import compiled, kernel_part
from onlinecal.measures.counts import Counts, Floats, Ints, PrefixSums, prefix
from onlinecal.measures.distance.fractional.relaxation import Relaxation
from onlinecal.measures.distance.kernel_parts import count_up_to
from onlinecal.measures.distance.levels import Levels, distance_by_sums, make_levels

ACROSS = 4
"""How many ones a corner may move across the curve."""

MARGINS = (1.0, 10.0, np.inf)
"""A corner whose path is this much dearer than the best one to its window is dropped, if a path is left."""

REACHES = (4, 12, 36, 108)
"""How many rounds a corner may move along the curve, from quick to thorough."""

LEAST_GAIN = 0.03
"""A pass that closes less than this share of the gap is followed by a wider one."""

NARROWEST = 2
"""Least reach of a pass."""

LEAST_WORK = 1e6
"""So much, some hundredths of a second, a search may cost in any case."""

WINDOW_WORK = 4
"""Setting up one lattice point of a window takes about as long as trying so many level sets."""


@dataclass(frozen=True, eq=False)
class Tables:
    """What the passes look up: prefix sums of the history, potentials (K,) and their prefix sums (K+1,)."""

    sums: PrefixSums
    zero_potential: Floats
    one_potential: Floats
    zero_lifts: Floats
    one_lifts: Floats

    @property
    def arrays(self) -> tuple[Floats | Ints, ...]:
        """In the order in which the kernel takes them."""
        potentials = (self.zero_potential, self.one_potential)
        return self.sums.values, *potentials, *self.sums[1:], self.zero_lifts, self.one_lifts


def search_tables(counts: Counts, sums: PrefixSums, relaxation: Relaxation) -> Tables:
    """The tables of a history and its relaxation, in one pass over the forecasts."""
    u0 = np.interp(counts.values, relaxation.nodes, relaxation.zero_potential)
    u1 = np.interp(counts.values, relaxation.nodes, relaxation.one_potential)
    return Tables(sums, u0, u1, prefix(counts.zeros * u0), prefix(counts.ones * u1))


@dataclass(frozen=True, eq=False)
class Curve:
    """Corners (rounds used, ones used) from (0, 0) to (T, n1), each (L+1,), and values between them, (L,)."""

    rounds: Ints
    ones: Ints
    values: Floats


def curve_of_masses(counts: Counts, values: Floats, masses: Floats) -> Curve:
    """The curve of fractional level sets, its corners rounded to the lattice."""
    kept = masses > 1e-9 * masses.sum()
    values, masses = values[kept], masses[kept]
    rounds = np.rint(prefix(masses)).astype(np.int64)
    ones = np.rint(prefix(masses * values)).astype(np.int64)
    rounds[-1], ones[-1] = counts.n_rounds, counts.n_ones
    return Curve(rounds, ones, values)


def curve_of_levels(levels: Levels) -> Curve:
    """The curve that real level sets make."""
    return Curve(prefix(levels.zeros + levels.ones), prefix(levels.ones), levels.values)


def round_near(
    tables: Tables, lower: float, curve: Curve, work_limit: float, tolerance: float
) -> tuple[Levels | None, float, float]:
    """Local search from a curve: its best level sets (None without a path), their distance, and the work.

    The distance is that of `distance_by_sums`: no pass looks at every forecast. The search stops when the
    distance is within `tolerance` of the lower bound, when another pass could exceed the work (level sets
    tried, and points of windows), or when the widest windows bring nothing.
    """
    best, distance, work = None, np.inf, 0.0
    work_limit = max(work_limit, LEAST_WORK)
    # how many of the level sets that the windows allow are really tried; the first pass tells
    tried_share = 1.0
    for reach in REACHES:
        while True:
            most = windows_work(curve, reach)
            if best is not None and work + tried_share * most > work_limit:
                return best, distance, work
            # a long curve gets narrow windows rather than none
            narrowed = max(NARROWEST, int(reach * math.sqrt(min(1.0, work_limit / most))))
            path, tried = _pass(tables, _with_fillers(curve), narrowed, work_limit - work)
            work += tried
            if path is None and work > work_limit and best is None and narrowed > NARROWEST:
                # a second chance, at most as dear as the first
                path, tried = _pass(tables, _with_fillers(curve), NARROWEST, work_limit)
                work += tried
            if path is None:
                if work > work_limit:
                    return best, distance, work
                break
            if narrowed == reach:
                tried_share = tried / most
            levels = make_levels(np.diff(path[:, 0] - path[:, 1]), np.diff(path[:, 1]))
            reached = distance_by_sums(tables.sums, levels)
            gain = distance - reached
            if gain > 0:
                best, distance, curve = levels, reached, curve_of_levels(levels)
            if distance - lower <= tolerance or work > work_limit:
                return best, distance, work
            if gain <= LEAST_GAIN * (distance - lower):
                break
    return best, distance, work


def windows_work(curve: Curve, reach: int) -> float:
    """The most that a pass through windows of this reach can cost, points to set up and level sets to try."""
    length, depth = 2 * reach + 1, 2 * ACROSS + 1
    return 2.0 * len(curve.values) * length * depth * (WINDOW_WORK + length)


def _with_fillers(curve: Curve) -> Curve:
    """Room for a small level set between any two: it can take the rounds that do not fit either of them."""
    if len(curve.values) == 1:
        return curve
    twice = np.repeat(np.arange(len(curve.rounds)), 2)[1:-1]
    keep = np.concatenate([twice[:1], twice[1:-1], twice[-1:]])
    values = np.empty(2 * len(curve.values) - 1)
    values[::2] = curve.values
    values[1::2] = (curve.values[1:] + curve.values[:-1]) / 2
    return Curve(curve.rounds[keep], curve.ones[keep], values)


def _pass(tables: Tables, curve: Curve, reach: int, work_limit: float) -> tuple[Ints | None, float]:
    values = curve.values
    directions = np.concatenate([values[:1], (values[1:] + values[:-1]) / 2, values[-1:]])
    shifts = np.arange(-reach, reach + 1)
    lowest = np.rint(curve.ones[:, None] + directions[:, None] * shifts).astype(np.int64) - ACROSS
    work = 0.0
    for margin in MARGINS:
        work += WINDOW_WORK * lowest.size * (2 * ACROSS + 1)
        if work > work_limit:
            break
        most = int(min(work_limit - work, 2**62))
        path, tried = path_through_windows(tables, curve, lowest, margin, most)
        work += tried
        if path[-1, 0] >= 0:
            return path, work
    return None, work


def path_through_windows(
    tables: Tables, curve: Curve, lowest: Ints, margin: float, most: int
) -> tuple[Ints, int]:
    """Cheapest path with one corner in each window (see `search_windows`), and the level sets tried.

    The path is (L+1, 2) int64 of (rounds, ones), -1 throughout if there is none or more than `most` level
    sets would be tried.
    """
    points = (*lowest.shape, 2 * ACROSS + 1)
    excess, came_from = np.full(points, np.inf), np.full(points, -1, dtype=np.int32)
    sums, inside = np.zeros((3, 2, *points[1:])), np.zeros((2, *points[1:]), dtype=np.bool_)
    path = np.full((len(curve.rounds), 2), -1)
    windows = (curve.rounds, curve.values, lowest, ACROSS, margin, most)
    tried = search_windows(*tables.arrays, *windows, excess, came_from, sums, inside, path)
    return path, tried


@kernel_part
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


@compiled
def search_windows(
    values: Floats,
    u0: Floats,
    u1: Floats,
    zeros: Ints,
    ones: Ints,
    sums0: Floats,
    sums1: Floats,
    lifts0: Floats,
    lifts1: Floats,
    corners: Ints,
    level_values: Floats,
    lowest: Ints,
    across: int,
    margin: float,
    most: int,
    excess: Floats,
    came_from: Ints,
    sums: Floats,
    inside: Any,
    path: Ints,
) -> int:
    """Cheapest path with one corner in each window.

    values, u0, u1 (K,): forecasts and their potentials; zeros, ones (K+1,) int64 prefix counts, with prefix
    sums of forecasts and of potentials. Window k, k = 0..L, holds the points of corners[k] + i - reach
    rounds and lowest[k, i] + j ones, i in 0..2 reach, j in 0..2 across; the first and last corner are
    fixed. Writes the path, unless there is none or more than `most` level sets would be tried; returns the
    level sets tried. Room to work in, since numba takes long to compile what makes arrays: excess and
    came_from (int32), infinite and -1, for each point of each window; sums, three, and inside, for two
    windows.
    """
    n0, n1 = zeros[-1], ones[-1]
    n_levels, length, depth = len(level_values), lowest.shape[1], 2 * across + 1
    reach = length // 2
    # per window in turn: sums of the first zeros and ones of a lattice point, its share of the lower bound
    sum0, sum1, lift = sums[0], sums[1], sums[2]
    tried = 0
    for k in range(n_levels + 1):
        new, old = k % 2, (k + 1) % 2
        is_end = k == 0 or k == n_levels
        for i in range(length):
            n = corners[k] + i - reach
            for j in range(depth):
                b = lowest[k, i] + j
                a = n - b
                fixed_elsewhere = is_end and (i != reach or j != across)
                inside[new, i, j] = 0 <= a <= n0 and 0 <= b <= n1 and not fixed_elsewhere
                if inside[new, i, j]:
                    g0 = min(count_up_to(zeros, a) - 1, len(values) - 1)
                    g1 = min(count_up_to(ones, b) - 1, len(values) - 1)
                    sum0[new, i, j] = sums0[g0] + (a - zeros[g0]) * values[g0]
                    sum1[new, i, j] = sums1[g1] + (b - ones[g1]) * values[g1]
                    lift[new, i, j] = lifts0[g0] + (a - zeros[g0]) * u0[g0]
                    lift[new, i, j] += lifts1[g1] + (b - ones[g1]) * u1[g1]
        if k == 0:
            excess[0, reach, across] = 0.0
            continue
        v = level_values[k - 1]
        least = np.inf
        for i in range(length):
            for j in range(depth):
                least = min(least, excess[k - 1, i, j])
        for i in range(length):
            for j in range(depth):
                so_far = excess[k - 1, i, j]
                if not inside[old, i, j] or so_far > least + margin:
                    continue
                n, b = corners[k - 1] + i - reach, lowest[k - 1, i] + j
                for i2 in range(length):
                    size = corners[k] + i2 - reach - n
                    if size < 0:
                        continue
                    # the ones that keep the value nearest to v, and one more or less; any for the last corner
                    j_near = int(np.floor(b + v * size + 0.5)) - lowest[k, i2]
                    j_first, j_last = max(0, j_near - 1), min(depth - 1, j_near + 1)
                    if k == n_levels:
                        j_first, j_last = 0, depth - 1
                    for j2 in range(j_first, j_last + 1):
                        s = lowest[k, i2] + j2 - b
                        if not inside[new, i2, j2] or s < 0 or s > size:
                            continue
                        tried += 1
                        total = so_far - (lift[new, i2, j2] - lift[old, i, j])
                        if size > 0:
                            value = s / size
                            g = count_up_to(values, value)
                            a = n - b
                            total += transport(
                                a,
                                a + size - s,
                                sum0[old, i, j],
                                sum0[new, i2, j2],
                                value,
                                zeros[g],
                                sums0[g],
                            )
                            if total >= excess[k, i2, j2]:
                                continue
                            total += transport(
                                b, b + s, sum1[old, i, j], sum1[new, i2, j2], value, ones[g], sums1[g]
                            )
                        if total < excess[k, i2, j2]:
                            excess[k, i2, j2] = total
                            came_from[k, i2, j2] = i * depth + j
        if tried > most:
            break
    i, j = reach, across
    if excess[n_levels, i, j] == np.inf:
        return tried
    for k in range(n_levels, -1, -1):
        path[k, 0], path[k, 1] = corners[k] + i - reach, lowest[k, i] + j
        if k > 0:
            i, j = came_from[k, i, j] // depth, came_from[k, i, j] % depth
    return tried
