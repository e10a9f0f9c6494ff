"""From a fractional calibrated sequence to a real one: shortest paths through windows near a curve.

The relaxation's level sets, laid end to end, are a convex curve from (0, 0) to (T, n1) in the plane of
(rounds used, ones used). A calibrated sequence is a path of lattice points. Moving a corner along the curve
costs next to nothing, since it passes rounds between neighbouring values; moving it across costs more. So
each corner gets a window that is long along the curve and narrow across it, and dynamic programming finds the
cheapest path through the windows. Its corners are the middles of the next windows. This local search stops
when nothing is gained.

Tables and curves never change; each pass makes a new path, and `round_near` keeps the best level sets so far.
A window's arrays belong to one pass: `look_up_window` fills in `inside` and `sums`, then `try_level_sets`
lowers `excess` and notes `came_from`. Those of `inside` and `sums` are shared by every second window, so a
window may be read until the next but one is looked up. Whatever the path, the level sets at its corners are
calibrated, so only how near they come may change.
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
from onlinecal.measures.distance.levels import Levels, count_up_to, distance_by_sums, make_levels

ACROSS = 4
"""A corner may move so many ones across the curve."""

OutcomeTable = tuple[Floats, Ints, Floats, Floats, Floats]
"""For one outcome: forecasts (K,), prefix counts and sums (K+1,), potentials (K,), their sums (K+1,)."""


class SearchTables(NamedTuple):
    """Tables that all passes use: prefix sums of a history, and the tables of both outcomes."""

    sums: PrefixSums
    zeros: OutcomeTable
    ones: OutcomeTable


def search_tables(counts: Counts, sums: PrefixSums, relaxation: Relaxation) -> SearchTables:
    """The tables of a history and its relaxation, in one pass over the forecasts."""
    values = counts.values
    u0, u1 = (relaxation.potential(outcome, values) for outcome in (0, 1))
    return SearchTables(
        sums,
        (values, sums.zeros, sums.zero_sums, u0, prefix(counts.zeros * u0)),
        (values, sums.ones, sums.one_sums, u1, prefix(counts.ones * u1)),
    )


class CornerWindow(NamedTuple):
    """Where a corner may be: at corner + i - reach rounds and lowest[i] + j ones, i in 0..2 reach.

    `inside` says which of these points exist, (2 reach + 1, depth). `sums` has for each of them the sums of
    the first zeros and of the first ones, and the share of the bound, (3, ...). `excess` is the least excess
    of paths that end there.
    """

    corner: int
    lowest: Ints
    inside: Any
    sums: Floats
    excess: Floats


@dataclass(frozen=True, eq=False)
class Curve:
    """Corners (rounds used, ones used) from (0, 0) to (T, n1), each (L+1,), and values between them, (L,)."""

    rounds: Ints
    ones: Ints
    values: Floats


@uncounted
def first_rounds(side: OutcomeTable, count: int) -> tuple[float, float]:
    """Sums of the forecasts, and of the potentials, of the first so many rounds of one outcome."""
    values, counts, sums, potential, lifts = side
    whole = count_up_to(counts, count) - 1
    if whole == len(values):
        whole -= 1
    rest = count - counts[whole]
    return sums[whole] + rest * values[whole], lifts[whole] + rest * potential[whole]


@uncounted
def transport(
    side: OutcomeTable, start: int, end: int, sum_start: float, sum_end: float, value: float, place: int
) -> float:
    """Sum of |forecast - value| over the rounds start..end-1 of one outcome.

    `place` forecast values are at most `value`; sum_* sum that many smallest forecasts.
    """
    below, sum_below = side[1][place], side[2][place]
    if below <= start:
        return (sum_end - sum_start) - value * (end - start)
    if below >= end:
        return value * (end - start) - (sum_end - sum_start)
    return value * (2 * below - start - end) - (2.0 * sum_below - sum_start - sum_end)


@uncounted
def look_up_window(zeros: OutcomeTable, ones: OutcomeTable, window: CornerWindow, fixed: bool) -> None:
    """Fill in which points of a window exist, their sums of first zeros and ones, and share of the bound."""
    inside, sums = window.inside, window.sums
    n0, n1, length, depth = zeros[1][-1], ones[1][-1], inside.shape[0], inside.shape[1]
    reach, across = length // 2, depth // 2
    for i in range(length):
        for j in range(depth):
            b = window.lowest[i] + j
            a = window.corner + i - reach - b
            fixed_elsewhere = fixed and (i != reach or j != across)
            inside[i, j] = 0 <= a <= n0 and 0 <= b <= n1 and not fixed_elsewhere
            if inside[i, j]:
                sum0, lift0 = first_rounds(zeros, a)
                sum1, lift1 = first_rounds(ones, b)
                sums[0, i, j], sums[1, i, j], sums[2, i, j] = sum0, sum1, lift0 + lift1


@uncounted
def try_level_sets(
    zeros: OutcomeTable,
    ones: OutcomeTable,
    old: CornerWindow,
    new: CornerWindow,
    v: float,
    is_last: bool,
    margin: float,
    came_from: Any,
) -> int:
    """Extend the paths that end in a window to the next one, and say how many level sets were tried.

    Level sets have values near v.
    """
    length, depth = old.excess.shape
    reach, tried, least = length // 2, 0, np.inf
    for i in range(length):
        for j in range(depth):
            if old.excess[i, j] < least:
                least = old.excess[i, j]
    for i in range(length):
        for j in range(depth):
            if not old.inside[i, j] or old.excess[i, j] > least + margin:
                continue
            n, b = old.corner + i - reach, old.lowest[i] + j
            a = n - b
            for i2 in range(length):
                size = new.corner + i2 - reach - n
                if size < 0:
                    continue
                # the number of ones with the value nearest to v, and one more or less; any for the last
                # corner
                j_near = int(np.floor(b + v * size + 0.5)) - new.lowest[i2]
                j_first, j_last = j_near - 1, j_near + 1
                if is_last or j_first < 0:
                    j_first = 0
                if is_last or j_last >= depth:
                    j_last = depth - 1
                for j2 in range(j_first, j_last + 1):
                    s = new.lowest[i2] + j2 - b
                    if not new.inside[i2, j2] or s < 0 or s > size:
                        continue
                    tried += 1
                    total = old.excess[i, j] - (new.sums[2, i2, j2] - old.sums[2, i, j])
                    if size > 0:
                        value = s / size
                        g = count_up_to(zeros[0], value)
                        end = a + size - s
                        total += transport(zeros, a, end, old.sums[0, i, j], new.sums[0, i2, j2], value, g)
                        if total >= new.excess[i2, j2]:
                            continue
                        end = b + s
                        total += transport(ones, b, end, old.sums[1, i, j], new.sums[1, i2, j2], value, g)
                    if total < new.excess[i2, j2]:
                        new.excess[i2, j2] = total
                        came_from[i2, j2] = i * depth + j
    return tried


def search_windows(
    zeros: OutcomeTable,
    ones: OutcomeTable,
    corners: Ints,
    level_values: Floats,
    lowest: Ints,
    margin: float,
    most: int,
) -> tuple[Ints, int]:
    """Cheapest path with one corner in each window, (L+1, 2) of (rounds, ones), and the level sets tried.

    Window k, k = 0..L, holds the points of corners[k] + i - reach rounds and lowest[k, i] + j ones, i in
    0..2 reach, j in 0..2 across; the first and last corner are fixed. The path is -1 throughout if there is
    none or more than `most` level sets would be tried.
    """
    n_levels, length, depth = len(level_values), lowest.shape[1], 2 * ACROSS + 1
    # made outside of kernels, since numba compiles the making of arrays slowly
    excess = np.full((n_levels + 1, length, depth), np.inf)
    came_from = np.full((n_levels + 1, length, depth), -1, np.int32)
    # the arrays of two windows, which are used in turns
    sums, inside = np.zeros((2, 3, length, depth)), np.zeros((2, length, depth), np.bool_)
    path = np.full((n_levels + 1, 2), -1)
    room = excess, came_from, sums, inside
    return path, fill_path(zeros, ones, corners, level_values, lowest, margin, most, room, path)


@compiled
def fill_path(
    zeros: OutcomeTable,
    ones: OutcomeTable,
    corners: Ints,
    level_values: Floats,
    lowest: Ints,
    margin: float,
    most: int,
    room: Any,
    path: Ints,
) -> int:
    """Fill in the path of `search_windows`, and say how many level sets were tried; `room` is to work in."""
    excess, came_from, sums, inside = room
    n_levels, length, depth = len(level_values), lowest.shape[1], excess.shape[2]
    i, j, tried = length // 2, depth // 2, 0
    old = CornerWindow(corners[0], lowest[0], inside[0], sums[0], excess[0])
    look_up_window(zeros, ones, old, True)
    excess[0, i, j] = 0.0
    for k in range(1, n_levels + 1):
        new, is_last = (
            CornerWindow(corners[k], lowest[k], inside[k % 2], sums[k % 2], excess[k]),
            k == n_levels,
        )
        look_up_window(zeros, ones, new, is_last)
        value = level_values[k - 1]
        tried += try_level_sets(zeros, ones, old, new, value, is_last, margin, came_from[k])
        if tried > most:
            break
        old = new
    if excess[n_levels, i, j] == np.inf:
        return tried
    for k in range(n_levels, -1, -1):
        path[k, 0], path[k, 1] = corners[k] + i - length // 2, lowest[k, i] + j
        if k > 0:
            i, j = came_from[k, i, j] // depth, came_from[k, i, j] % depth
    return tried


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
        path, tried = search_windows(*tables[1:], curve.rounds, values, lowest, margin, most)
        work += tried
        if path[-1, 0] >= 0:
            return path, work
    return None, work
