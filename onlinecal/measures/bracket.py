"""A certified bracket of the distance to calibration for histories of any length, closed where it can be.

1. The relaxation proves a lower end.
2. Calibrated sequences near it, and from pooling, give an upper end.
3. Searches below growing cutoffs raise the lower end, and end with the exact distance if one arrives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from onlinecal.measures.counts import Counts, Floats
from onlinecal.measures.levels import Levels, distance_to
from onlinecal.measures.pooling import pooled_levels
from onlinecal.measures.pruned import rounding_noise, search_below
from onlinecal.measures.relaxation import ROUNDING, Relaxation, relax
from onlinecal.measures.rounding import Curve, curve_of_levels, curve_of_masses, round_near

NODES = 1500
"""Nodes of the relaxation at effort 1; the solver's time is about linear in them."""

MAX_NODES = 4000

CUT_LOSS = 0.02
"""What the relaxation may lose between its nodes before more nodes are worth their time."""

ROUNDING_WORK = 1.5e7
"""Level sets tried while rounding, at effort 1: about a third of a second."""

SEARCH_WORK = 1.5e8
"""Lattice points looked at in the searches, at effort 1: about a third of a second."""

SEARCH_ROUNDS = 50_000
"""Longer histories are not searched: the lattice is too large for a cutoff that would show."""

WORK_GROWTH = 3.0
"""From one cutoff to the next, as far as the last two tell; usually work grows like cutoff^2.5."""


@dataclass(frozen=True, eq=False)
class Bracket:
    """lower <= distance <= upper, both proven, and level sets that attain the upper end."""

    lower: float
    upper: float
    is_exact: bool
    levels: Levels


def bracket(counts: Counts, starts: list[Levels], effort: float, rtol: float = 0.0) -> Bracket:
    """Bracket the distance, from calibrated sequences known beforehand; effort inf goes on to the end.

    It stops early when upper - lower <= rtol * upper.
    """
    relaxation = relax(counts, relaxation_nodes(counts, NODES * effort))
    levels, upper = _nearby_levels(counts, relaxation, starts, effort, rtol)
    lower = min(relaxation.lower, upper)
    # the deduction for rounding errors alone must not keep a distance from being called exact
    if upper - relaxation.lower <= 2.0 * ROUNDING * counts.n_rounds:
        return Bracket(upper, upper, True, levels)
    if counts.n_rounds > SEARCH_ROUNDS and effort < np.inf:
        return Bracket(lower, upper, False, levels)
    work_left = SEARCH_WORK * effort
    noise = rounding_noise(counts.n_rounds)
    cutoff = (upper - lower) / 16.0
    growth, last_work = 1.5, 0
    while upper - lower > rtol * upper:
        cutoff = min(cutoff, upper - relaxation.lower + noise)
        search = search_below(counts, relaxation, cutoff, work_left)
        work_left -= search.work
        if search.levels is not None:
            upper = distance_to(counts, search.levels)
            return Bracket(upper, upper, True, search.levels)
        if not search.complete:
            break
        lower = max(lower, min(upper, relaxation.lower + cutoff - noise))
        if last_work:
            power = math.log(max(search.work / last_work, 1.01)) / math.log(growth)
            growth = min(8.0, max(1.3, WORK_GROWTH ** (1.0 / power)))
        cutoff, last_work = cutoff * growth, search.work
    return Bracket(lower, upper, False, levels)


def relaxation_nodes(counts: Counts, limit: float) -> Floats:
    """About `limit` nodes: the forecasts (quantiles if there are too many) and cuts of the wider gaps.

    Between nodes at distance d the relaxation can lose d^2/2 a round; gaps are cut until it is CUT_LOSS in all.
    """
    limit = int(min(MAX_NODES, max(64, limit)))
    values = counts.values
    if len(values) > limit:
        ranks = np.cumsum(counts.zeros + counts.ones)
        wanted = np.linspace(0, ranks[-1], limit)
        values = np.unique(values[np.minimum(np.searchsorted(ranks, wanted), len(values) - 1)])
    nodes = np.union1d(values, [0.0, 1.0])
    gaps = np.diff(nodes)
    density = math.sqrt(counts.n_rounds / (2.0 * CUT_LOSS))
    while True:
        cuts = np.maximum(1, np.ceil(gaps * density)).astype(np.int64)
        if cuts.sum() <= max(limit, 1.5 * len(gaps)):
            break
        density /= 1.2
    starts = np.repeat(nodes[:-1], cuts)
    step = np.arange(cuts.sum()) - np.repeat(np.cumsum(cuts) - cuts, cuts)
    return np.unique(np.append(starts + step * np.repeat(gaps / cuts, cuts), 1.0))


def _nearby_levels(
    counts: Counts, relaxation: Relaxation, starts: list[Levels], effort: float, rtol: float
) -> tuple[Levels, float]:
    """The best of the starts, the pooled sequence, and local searches from the relaxation and from these."""
    starts = [*starts, pooled_levels(counts)]
    distances = [distance_to(counts, levels) for levels in starts]
    first = int(np.argmin(distances))
    best, upper = starts[first], distances[first]
    work_left = ROUNDING_WORK * min(effort, 20.0)
    curves: list[Curve] = [curve_of_masses(counts, relaxation.nodes, relaxation.masses)]
    tolerance = max(rtol * relaxation.lower, 2.0 * ROUNDING * counts.n_rounds)
    for k in range(2):
        if upper - relaxation.lower <= tolerance:
            break
        if k == 1:
            curves.append(curve_of_levels(starts[first]))
        levels, distance, work = round_near(counts, relaxation, curves[k], work_left, tolerance)
        work_left -= work
        improved = levels is not None and distance < upper
        if improved and levels is not None:
            best, upper = levels, distance
        # the start itself is worth polishing only if it is better than what the relaxation led to
        if improved or work_left <= 0:
            break
    return best, upper
