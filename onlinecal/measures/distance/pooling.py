"""Calibrated sequences by pooling neighbouring forecasts: the best cut of the line into intervals.

All rounds with a forecast in one interval go to one level set, whatever their outcome. It is what binning
does, with the cuts chosen by dynamic programming. A good start where forecasts are biased all in one
direction, and where there are many distinct ones.

A bracket of the distance to calibration where outcomes lie between 0 and 1: shares, ties, rates.

The distance itself is NP-hard to find then (Qiao, 2026): rounds of one outcome can be dealt in order, but
here nearly every round has an outcome of its own. Both ends are proven all the same.

- From below: an outcome y as 1 - y of a round with outcome 0 and y of one with outcome 1. The parts may part,
  so their lower distance is at most the distance.
- From above: the best pooling of neighbouring forecasts, and level sets of other calibrated sequences, each
  set moved to the mean of its outcomes.
- From both sides: outcomes rounded to 0 and 1. That changes the distance by at most what was rounded off.

What kernels of measures share, written as loops: numpy's functions take numba long to compile.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import compiled, kernel_part
from onlinecal.measures.counts import Counts, PrefixSums, prefix_sums
from onlinecal.measures.distance.fractional.relaxation import ROUNDING, relax, relaxation_nodes
from onlinecal.measures.distance.levels import Levels, group_means, make_levels

MAX_CUTS = 700
"""Places at which to cut; more forecasts than that are first joined to groups of about equal size."""


def pooled_levels(counts: Counts, sums: PrefixSums | None = None, max_cuts: int = MAX_CUTS) -> Levels:
    """Level sets of the cheapest cut of the forecasts into intervals; its time grows like max_cuts^2."""
    sums = sums or prefix_sums(counts)
    kept = pooling(sums, max_cuts)
    return make_levels(np.diff(sums.zeros[kept]), np.diff(sums.ones[kept]))


def pooling(sums: PrefixSums, max_cuts: int = MAX_CUTS) -> Ints:
    """Numbers of forecasts to the left of the cheapest cuts, increasing, from 0 to K."""
    cuts = np.arange(len(sums.zeros))
    if len(cuts) > max_cuts:
        wanted = np.linspace(0, sums.zeros[-1] + sums.ones[-1], max_cuts)
        cuts = np.unique(np.append(np.searchsorted(sums.zeros + sums.ones, wanted[:-1]), len(cuts) - 1))
    # one kind of arrays, so that the kernel is compiled once: floats hold all these numbers exactly
    zeros, ones = sums.zeros.astype(np.float64), sums.ones.astype(np.float64)
    return best_cuts(sums.values, zeros, ones, sums.zero_sums, sums.one_sums, cuts)


@compiled
def best_cuts(values: Floats, zeros: Floats, ones: Floats, sums0: Floats, sums1: Floats, cuts: Ints) -> Ints:
    """Which of the cuts to keep, the first and last among them, for the cheapest level sets.

    values (K,): forecasts; zeros, ones (K+1,) float64 prefix counts, sums0, sums1 prefix sums of forecasts;
    cuts (C,): increasing numbers of forecasts to the left, from 0 to K.
    """
    n = len(cuts)
    cost = infinite(n)
    came_from = np.zeros(n, dtype=np.int64)
    cost[0] = 0.0
    for i in range(1, n):
        end = cuts[i]
        for h in range(i):
            start = cuts[h]
            s = ones[end] - ones[start]
            v = s / (zeros[end] - zeros[start] + s)
            g = min(max(count_up_to(values, v), start), end)
            moved_up = v * (zeros[g] - zeros[start] + ones[g] - ones[start])
            moved_up -= sums0[g] - sums0[start] + sums1[g] - sums1[start]
            moved_down = sums0[end] - sums0[g] + sums1[end] - sums1[g]
            moved_down -= v * (zeros[end] - zeros[g] + ones[end] - ones[g])
            total = cost[h] + moved_up + moved_down
            if total < cost[i]:
                cost[i] = total
                came_from[i] = h
    n_kept = 1
    i = n - 1
    while i > 0:
        i = came_from[i]
        n_kept += 1
    kept = np.empty(n_kept, dtype=np.int64)
    i = n - 1
    for k in range(n_kept - 1, -1, -1):
        kept[k] = cuts[i]
        i = came_from[i]
    return kept


NODES = 1500
"""Nodes of the relaxation at effort 1, growing with its square root."""

Groups = NDArray[np.intp]
"""A number for each round, the same within a level set."""


def share_bounds(counts: Counts, effort: float) -> tuple[float, float, Groups]:
    """Lower and upper end from counts alone, and the groups (K,) of forecast values that attain the upper."""
    relaxation = relax(counts, relaxation_nodes(counts, NODES * math.sqrt(effort)))
    cuts = pooling(prefix_sums(counts))
    pooled = np.repeat(np.arange(len(cuts) - 1), np.diff(cuts))
    alone = np.arange(len(counts.values))
    costs = [_cost_of_counts(counts, groups) for groups in (pooled, alone)]
    upper = min(costs)
    return min(relaxation.lower, upper), upper, (pooled, alone)[costs.index(upper)]


def sequence_of(outcomes: Floats, groups: Groups) -> Floats:
    """The calibrated sequence with these level sets, (T,): each round at the mean outcome of its group.

    Groups whose means are the same float are one level set; its mean, that of all their rounds, is theirs up
    to rounding.
    """
    while True:
        values = group_means(outcomes, groups)
        _, joined = np.unique(values, return_inverse=True)
        if joined.max() == groups.max():
            return values[groups]
        groups = joined[groups]


def rounded_outcomes(forecasts: Floats, outcomes: Floats) -> tuple[NDArray[np.uint8], float]:
    """Outcomes rounded to 0 and 1, (T,), and what was rounded off in all; ties go up and down in turns."""
    whole = (outcomes > 0.5).astype(np.uint8)
    ties = np.flatnonzero(outcomes == 0.5)
    whole[ties[np.argsort(forecasts[ties], kind="stable")][::2]] = 1
    return whole, math.fsum(np.abs(outcomes - whole))


def deduction(n_rounds: int) -> float:
    """More than the rounding errors of both ends: a bracket as narrow as that is closed."""
    return 2.0 * ROUNDING * n_rounds


def _cost_of_counts(counts: Counts, groups: Groups) -> float:
    rounds = counts.zeros + counts.ones
    means = np.bincount(groups, weights=counts.ones) / np.bincount(groups, weights=rounds)
    return math.fsum(rounds * np.abs(counts.values - means[groups]))


@kernel_part
def infinite(size: int) -> Floats:
    """An array of so many infinities."""
    array = np.empty(size)
    for i in range(size):
        array[i] = np.inf
    return array


@kernel_part
def count_up_to(ascending: Any, value: float) -> int:
    """How many numbers of an ascending array are at most `value`."""
    first, last = 0, len(ascending)
    while first < last:
        middle = (first + last) >> 1
        if ascending[middle] <= value:
            first = middle + 1
        else:
            last = middle
    return first
