"""A bracket of the distance to calibration where outcomes lie between 0 and 1: shares, ties, rates.

The distance itself is NP-hard to find then (Qiao, 2026): rounds of one outcome can be dealt in order, but
here nearly every round has an outcome of its own. Both ends are proven all the same.

- From below: an outcome y as 1 - y of a round with outcome 0 and y of one with outcome 1. The parts may part,
  so their lower distance is at most the distance.
- From above: the best pooling of neighbouring forecasts, and level sets of other calibrated sequences, each
  set moved to the mean of its outcomes.
- From both sides: outcomes rounded to 0 and 1. That changes the distance by at most what was rounded off.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats
from onlinecal.measures.counts import Counts, prefix_sums
from onlinecal.measures.distance.fractional.relaxation import ROUNDING, relax, relaxation_nodes
from onlinecal.measures.distance.levels import group_means
from onlinecal.measures.distance.pooling import pooling

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
