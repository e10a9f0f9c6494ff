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

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.measures.counts import Counts, prefix
from onlinecal.measures.distance.fractional.windows import ACROSS, Curve, Tables, path_through_windows
from onlinecal.measures.distance.levels import Levels, distance_by_sums, make_levels

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
