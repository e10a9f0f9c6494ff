"""From a fractional calibrated sequence to a real one: shortest paths through windows near a curve.

The relaxation's level sets, laid end to end, are a convex curve from (0, 0) to (T, n1) in the plane of
(rounds used, ones used). A calibrated sequence is a path of lattice points. Moving a corner along the curve
costs next to nothing, since it passes rounds between neighbouring values; moving it across costs more. So
each corner gets a window that is long along the curve and narrow across it, and dynamic programming finds the
cheapest path through the windows. Its corners are the middles of the next windows. This local search stops
when nothing is gained.

Tables and curves never change; each pass makes a new path, and `round_near` keeps the best level sets so far.
Windows belong to one pass: `look_up_window` fills in `sums`, then `try_level_sets` lowers `excess` and notes
`came_from`. Every second window shares its `sums`, so a window may be read until the next but one is looked
up. Whatever the path, the level sets at its corners are calibrated, so only how near they come may change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import compiled, uncounted
from onlinecal.measures.counts import Counts, PrefixSums, prefix
from onlinecal.measures.distance.fractional.relaxation import Relaxation
from onlinecal.measures.distance.levels import (
    Levels,
    count_between,
    count_up_to,
    distance_by_sums,
    make_levels,
)

ACROSS = 4
"""A corner may move so many ones across the curve."""

CELLS = 1024
"""Cells of [0, 1], a power of two, in whose table forecast values are looked up."""


class OutcomeTables(NamedTuple):
    """What passes look up of a history of K forecast values. Of two rows the first is of zeros."""

    values: Floats
    """The forecast values, (K,)."""
    counts: Floats
    """Rounds with the first forecast values, (2, K + 1)."""
    forecasts: Floats
    """Sums of their forecasts, (2, K + 1)."""
    potentials: Floats
    """u0 and u1 at the forecast values, (2, K)."""
    lifts: Floats
    """Sums of the potentials of rounds with the first forecast values, (2, K + 1)."""
    below: Ints
    """How many forecast values are at most k / CELLS, k = 0..CELLS + 1; (CELLS + 2,)."""


class SearchTables(NamedTuple):
    """What all passes use: prefix sums of a history, and tables of both outcomes."""

    sums: PrefixSums
    outcomes: OutcomeTables


def search_tables(counts: Counts, sums: PrefixSums, relaxation: Relaxation) -> SearchTables:
    """The tables of a history and its relaxation, in one pass over the forecasts."""
    u0, u1 = (relaxation.potential(outcome, counts.values) for outcome in (0, 1))
    tables = OutcomeTables(
        counts.values,
        np.array([sums.zeros, sums.ones], dtype=np.float64),
        np.array([sums.zero_sums, sums.one_sums]),
        np.array([u0, u1]),
        np.array([prefix(counts.zeros * u0), prefix(counts.ones * u1)]),
        np.searchsorted(counts.values, np.arange(CELLS + 2) / CELLS, side="right"),
    )
    return SearchTables(sums, tables)


@dataclass(frozen=True, eq=False)
class Curve:
    """Corners (rounds used, ones used) from (0, 0) to (T, n1), each (L+1,), and values between them, (L,)."""

    rounds: Ints
    ones: Ints
    values: Floats


class Windows(NamedTuple):
    """Where corners may be, L + 1 windows of P points, and the cheapest paths to them.

    Point number i * depth + j of a window has lowest[i] + j ones, and i more rounds than its first point.
    """

    values: Floats
    """The values that level sets between windows are near to, (L,)."""
    corners: Ints
    """Rounds used at the middle of each window, (L + 1,)."""
    lowest: Ints
    """The least ones in each row of a window, (L + 1, length)."""
    used: Ints
    """Zeros and ones used at each point, (2, L + 1, P); -1 for both where no corner may be."""
    sums: Floats
    """Of every second window: the sums of the first zeros and ones, and the share of the bound, (2, 3, P)."""
    excess: Floats
    """The least excess of paths that end at a point, (L + 1, P)."""
    came_from: Any
    """The point that such a path passed in the window before, (L + 1, P), int32."""


def search_windows(
    tables: OutcomeTables, corners: Ints, level_values: Floats, lowest: Ints, margin: float, most: int
) -> tuple[Ints | None, int]:
    """Cheapest path with one corner in each window, (L+1, 2) of (rounds, ones), and the level sets tried.

    Window k, k = 0..L, holds the points of corners[k] + i - reach rounds and lowest[k, i] + j ones, i in
    0..2 reach, j in 0..2 across; the first and last corner are fixed. The path is None if there is none or
    more than `most` level sets would be tried.
    """
    (n_windows, length), depth = lowest.shape, 2 * ACROSS + 1
    middle = length * depth // 2
    # arrays are made outside of kernels, since numba compiles the making of arrays slowly
    points = np.empty((2, n_windows, length, depth), np.int64)
    np.add(lowest[:, :, None], np.arange(depth), out=points[1])
    rounds = corners[:, None] + (np.arange(length) - length // 2)
    np.subtract(rounds[:, :, None], points[1], out=points[0])
    used = points.reshape(2, n_windows, -1)
    ends = used[:, [0, -1], middle]
    used[:, [0, -1]] = -1
    used[:, [0, -1], middle] = ends
    # as unsigned numbers, those below 0 are the largest
    outside = used.view(np.uint64) > tables.counts[:, -1:, None].astype(np.uint64)
    np.copyto(used, -1, where=outside[0] | outside[1])
    excess, came_from = np.full(used.shape[1:], np.inf), np.empty(used.shape[1:], np.int32)
    excess[0, middle] = 0.0
    sums = np.zeros((2, 3, length * depth))
    windows = Windows(level_values, corners, lowest, used, sums, excess, came_from)
    tried = fill_paths(tables, windows, margin, most)
    if excess[-1, middle] == np.inf:
        return None, tried
    passed = [middle]
    for k in range(n_windows - 1, 0, -1):
        passed.append(int(came_from[k, passed[-1]]))
    path = used[:, np.arange(n_windows), passed[::-1]]
    return np.column_stack([path.sum(axis=0), path[1]]), tried


@compiled
def fill_paths(tables: OutcomeTables, windows: Windows, margin: float, most: int) -> int:
    """Fill in the cheapest paths through the windows, and say how many level sets were tried."""
    tried = 0
    for k in range(len(windows.corners)):
        look_up_window(tables, windows.used, windows.sums, k)
        if k > 0:
            tried += try_level_sets(tables, windows, margin, k)
        if tried > most:
            break
    return tried


@uncounted
def look_up_window(tables: OutcomeTables, used: Ints, sums: Floats, k: int) -> None:
    """Fill in the sums of first zeros and ones for each point of window k, and its share of the bound."""
    place, last = k % 2, len(tables.values) - 1
    for outcome in range(2):
        counts = tables.counts[outcome]
        for point in range(used.shape[2]):
            count = used[outcome, k, point]
            if count >= 0:
                whole = count_up_to(counts, count) - 1
                if whole > last:
                    whole = last
                rest = count - counts[whole]
                lift = tables.lifts[outcome, whole] + rest * tables.potentials[outcome, whole]
                sums[place, outcome, point] = tables.forecasts[outcome, whole] + rest * tables.values[whole]
                # the share of zeros, to which that of ones is added
                sums[place, 2, point] = lift + outcome * sums[place, 2, point]


@uncounted
def try_level_sets(tables: OutcomeTables, windows: Windows, margin: float, k: int) -> int:
    """Extend the paths that end in window k - 1 to window k, and say how many level sets were tried.

    Level sets have values near that of the curve; any value to the last corner.
    """
    lowest, excess, came_from = windows.lowest, windows.excess[k], windows.came_from[k]
    before, now, ones = windows.sums[(k - 1) % 2], windows.sums[k % 2], windows.used[1, k]
    counts, forecasts = tables.counts, tables.forecasts
    n_points, length, v = len(ones), lowest.shape[1], windows.values[k - 1]
    depth, is_last, tried, least = n_points // length, k == len(windows.values), 0, np.inf
    for start in range(n_points):
        if windows.excess[k - 1, start] < least:
            least = windows.excess[k - 1, start]
    for start in range(n_points):
        a, b, so_far = (
            windows.used[0, k - 1, start],
            windows.used[1, k - 1, start],
            windows.excess[k - 1, start],
        )
        if a < 0 or so_far > least + margin:
            continue
        sum0, sum1, share = before[0, start], before[1, start], before[2, start]
        for row in range(length):
            size = windows.corners[k] + row - length // 2 - a - b
            first, last = 0, depth - 1
            if not is_last:
                # the number of ones with the value nearest to v, and one more or less
                near = int(b + v * size + 0.5) - lowest[k, row]
                if near > 1:
                    first = near - 1
                if near + 1 < last:
                    last = near + 1
            for end in range(row * depth + first, row * depth + last + 1):
                # where no corner may be, the ones are fewer than any
                s = ones[end] - b
                if s < 0 or s > size:
                    continue
                tried += 1
                total = so_far - (now[2, end] - share)
                if size > 0:
                    value = s / size
                    # a look into a table leaves few values to search
                    cell = int(value * CELLS)
                    g = count_between(tables.values, value, tables.below[cell], tables.below[cell + 1])
                    total += transport(
                        counts[0, g], forecasts[0, g], a, a + size - s, sum0, now[0, end], value
                    )
                    if total >= excess[end]:
                        continue
                    total += transport(counts[1, g], forecasts[1, g], b, b + s, sum1, now[1, end], value)
                if total < excess[end]:
                    excess[end] = total
                    came_from[end] = start
    return tried


@uncounted
def transport(
    below: float, sum_below: float, start: int, end: int, sum_start: float, sum_end: float, value: float
) -> float:
    """Sum of |forecast - value| over the rounds start..end-1 of one outcome.

    `below` of all forecasts are at most `value`; sum_* sum that many smallest forecasts.
    """
    if below <= start:
        return (sum_end - sum_start) - value * (end - start)
    if below >= end:
        return value * (end - start) - (sum_end - sum_start)
    return value * (2 * below - start - end) - (2.0 * sum_below - sum_start - sum_end)


MARGINS = (1.0, 10.0, np.inf)
"""Corners whose path is dearer by this than the best one to their window are dropped, if a path is left."""

REACHES = (4, 12, 36, 108)
"""A corner may move so many rounds along the curve: first few, then more."""

LEAST_SHARE_CLOSED = 0.03
"""A pass that closes less than this share of the gap is followed by one with wider windows."""

NARROWEST = 2
"""The least reach of a pass."""

WINDOW_POINT_WORK = 4
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
    tables: SearchTables, lower: float, curve: Curve, work_limit: float, tolerance: float
) -> tuple[Levels | None, float, float]:
    """Local search from a curve: its best level sets (None without a path), their distance, and the work.

    The distance is that of `distance_by_sums`, since no pass looks at every forecast. The search stops when
    the distance is within `tolerance` of the lower bound, when another pass could exceed the work (level sets
    tried, and points of windows), or when the widest windows bring no gain.
    """
    best, distance, work = None, np.inf, 0.0
    # the share of the level sets in the windows that is really tried, as the first pass shows
    tried_share = 1.0
    for reach in REACHES:
        while True:
            most = windows_work(curve, reach)
            if best is not None and work + tried_share * most > work_limit:
                return best, distance, work
            # a long curve gets narrower windows, so that the work suffices
            narrowed = max(NARROWEST, int(reach * math.sqrt(min(1.0, work_limit / most))))
            path, tried = _pass(tables, _with_fillers(curve), narrowed, work_limit - work)
            work += tried
            if path is None and work > work_limit and best is None and narrowed > NARROWEST:
                # the narrowest windows get as much work again
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
            if gain <= LEAST_SHARE_CLOSED * (distance - lower):
                break
    return best, distance, work


def windows_work(curve: Curve, reach: int) -> float:
    """The most that a pass through windows of this reach can cost, points to set up and level sets to try."""
    length, depth = 2 * reach + 1, 2 * ACROSS + 1
    return 2.0 * len(curve.values) * length * depth * (WINDOW_POINT_WORK + length)


def _with_fillers(curve: Curve) -> Curve:
    """The curve with an empty level set between any two, which can take rounds that fit neither of them."""
    if len(curve.values) == 1:
        return curve
    twice = np.repeat(np.arange(len(curve.rounds)), 2)[1:-1]
    values = np.empty(2 * len(curve.values) - 1)
    values[::2] = curve.values
    values[1::2] = (curve.values[1:] + curve.values[:-1]) / 2
    return Curve(curve.rounds[twice], curve.ones[twice], values)


def _pass(tables: SearchTables, curve: Curve, reach: int, work_limit: float) -> tuple[Ints | None, float]:
    """The cheapest path through the windows of this reach, None if there is none, and the work."""
    values = curve.values
    directions = np.concatenate([values[:1], (values[1:] + values[:-1]) / 2, values[-1:]])
    shifts = np.arange(-reach, reach + 1)
    lowest = np.rint(curve.ones[:, None] + directions[:, None] * shifts).astype(np.int64) - ACROSS
    work = 0.0
    for margin in MARGINS:
        work += WINDOW_POINT_WORK * lowest.size * (2 * ACROSS + 1)
        if work > work_limit:
            break
        most = int(min(work_limit - work, 2**62))
        path, tried = search_windows(tables.outcomes, curve.rounds, values, lowest, margin, most)
        work += tried
        if path is not None:
            return path, work
    return None, work
