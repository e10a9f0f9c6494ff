"""A certified bracket of the distance to calibration for histories of any length, closed where it can be.

1. The relaxation proves a lower end.
2. Calibrated sequences near it, and from pooling, give an upper end.
3. Searches below growing cutoffs raise the lower end, and end with the exact distance if one arrives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from onlinecal.measures.counts import Counts, PrefixSums, prefix_sums
from onlinecal.measures.distance.exact import rounding_noise, search_below
from onlinecal.measures.distance.fractional.relaxation import (
    LEAST_NODES,
    ROUNDING,
    Relaxation,
    fractional_masses,
    one_way_bound,
    relax,
    relaxation_nodes,
)
from onlinecal.measures.distance.fractional.rounding import (
    curve_of_levels,
    curve_of_masses,
    round_near,
    search_tables,
)
from onlinecal.measures.distance.levels import Levels, distance_by_sums, distance_to
from onlinecal.measures.distance.pooling import MAX_CUTS, pooled_levels

NODES = 1500
"""Nodes of the relaxation at effort 1, growing with its square root; the solver's time can be quadratic."""

LEAST_CUTS = 100
"""Fewest places at which pooling may cut the line, however small the effort."""

ROUNDING_WORK = 2.5e7
"""Level sets tried while rounding, at effort 1: about three quarters of a second."""

MAX_ROUNDING_EFFORT = 10.0
"""More effort than that goes into the searches only."""

SEARCH_WORK = 2e8
"""Lattice points looked at in the searches, at effort 1: about half a second."""

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

    It stops early when upper - lower <= rtol * upper. Whatever the effort, it takes a fixed number of passes
    over the history, a small cut of the line and a small relaxation.
    """
    # the deduction for rounding errors alone must not keep a distance from being called exact
    rounding = 2.0 * ROUNDING * counts.n_rounds
    sums = prefix_sums(counts)
    size = math.sqrt(effort)
    known = [*starts, pooled_levels(counts, sums, int(min(MAX_CUTS, max(LEAST_CUTS, MAX_CUTS * size))))]
    levels = known[int(np.argmin([distance_by_sums(sums, one) for one in known]))]
    upper = distance_to(counts, levels)
    if upper - one_way_bound(counts) <= rounding:
        return Bracket(upper, upper, True, levels)
    relaxation = relax(counts, relaxation_nodes(counts, NODES * size))
    tolerance = max(rtol * relaxation.lower, rounding)
    if upper - relaxation.lower > tolerance:
        found = _improved(counts, sums, relaxation, levels, effort, tolerance)
        distance = distance_to(counts, found)
        if distance < upper:
            levels, upper = found, distance
    if upper - relaxation.lower <= rounding:
        return Bracket(upper, upper, True, levels)
    lower = min(relaxation.lower, upper)
    if counts.n_rounds > SEARCH_ROUNDS and effort < np.inf:
        return Bracket(lower, upper, False, levels)
    return _searched(counts, relaxation, levels, upper, SEARCH_WORK * effort, rtol)


def _searched(
    counts: Counts, relaxation: Relaxation, levels: Levels, upper: float, work_left: float, rtol: float
) -> Bracket:
    """The lower end raised by searches below growing cutoffs, until one arrives or the work is spent."""
    lower = min(relaxation.lower, upper)
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
    return Bracket(lower, upper, lower >= upper, levels)


def _improved(
    counts: Counts, sums: PrefixSums, relaxation: Relaxation, levels: Levels, effort: float, tolerance: float
) -> Levels:
    """The best calibrated sequence found: a quick look near several curves, then the other work on one."""
    work_left = ROUNDING_WORK * min(effort, MAX_ROUNDING_EFFORT)
    tables = search_tables(counts, sums, relaxation)
    upper = distance_by_sums(sums, levels)
    n_coarser = _coarser_cells(counts, NODES * math.sqrt(effort))
    quick = work_left / 10.0 if n_coarser else work_left
    # the relaxation's own curve first; the coarser ones are computed only if it does not do
    for n_cells in (0, *n_coarser):
        if upper - relaxation.lower <= tolerance:
            return levels
        nodes, masses = relaxation.nodes, relaxation.masses
        if n_cells:
            nodes, masses = fractional_masses(counts, np.linspace(0.0, 1.0, n_cells + 1))
        curve = curve_of_masses(counts, nodes, masses)
        found, distance, work = round_near(tables, relaxation.lower, curve, quick, tolerance)
        work_left -= work
        if found is not None and distance < upper:
            levels, upper = found, distance
    if work_left > 0.0:
        curve = curve_of_levels(levels)
        found, distance, _ = round_near(tables, relaxation.lower, curve, work_left, tolerance)
        if found is not None and distance < upper:
            levels = found
    return levels


def _coarser_cells(counts: Counts, most: float) -> list[int]:
    """Sizes of coarser relaxations worth a look, at most so many cells; for many distinct forecasts.

    Every value costs something when it is made real, so fewer values can make a better sequence.
    """
    root = math.sqrt(counts.n_rounds)
    if len(counts.values) <= 2.0 * root:
        return []
    most = max(LEAST_NODES, min(NODES, most))
    return sorted({int(min(most, max(1, factor * root))) for factor in (3.0, 1.5, 0.5)}, reverse=True)
