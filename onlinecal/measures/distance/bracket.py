"""A certified bracket of the distance to calibration, of a whole history or a running one.

With outcomes 0 and 1:

1. The relaxation proves a lower end.
2. Calibrated sequences near it, and from pooling, give an upper end.
3. Searches below growing cutoffs raise the lower end, and end with the exact distance if one arrives.

With outcomes between 0 and 1 (shares, ties, rates) the distance is NP-hard to find (Qiao, 2026): rounds of
one outcome can be dealt in order, but here nearly every round has an outcome of its own. Both ends of the
bracket are proven all the same.

- The lower end reads an outcome y as 1 - y of a round with outcome 0 and y of one with outcome 1. These two
  parts may be moved apart, so their lower distance is at most the distance.
- The upper end is the best pooling of neighbouring forecasts, or has level sets of other calibrated
  sequences, each moved to the mean of its outcomes.
- Both ends may come from outcomes rounded to 0 and 1. That changes the distance by at most the sum of what
  was rounded off.

A `CalibrationMonitor` is a `Tallies` that also answers. `update` and `update_many` write, and a metric that
owns one writes by what `Tallies` names. Its answers read, and are proven of all rounds that were counted,
those included that were counted at a neighbouring value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import SupportsFloat

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinecal.arrays import Floats
from onlinecal.html import Shown, Table, bracket_of
from onlinecal.measures.counts import Counts, Tallies, count_shares, prefix_sums
from onlinecal.measures.distance.fractional.relaxation import relax
from onlinecal.measures.distance.levels import conditional_means, group_means
from onlinecal.measures.distance.narrowing import bracket, check_effort, nodes_allowed
from onlinecal.measures.distance.pooling import pooling
from onlinecal.measures.smooth import smooth_error_of_counts
from onlinecal.validation import check_count, check_flag, check_probability, share_of

GroupNumbers = NDArray[np.intp]
"""A number for each round, the same within a level set."""


def share_bounds(counts: Counts, effort: float) -> tuple[float, float, GroupNumbers]:
    """Lower and upper end from counts alone, and the groups (K,) of forecast values that attain the upper."""
    relaxation = relax(counts, nodes_allowed(effort))
    cuts = pooling(prefix_sums(counts))
    pooled = np.repeat(np.arange(len(cuts) - 1), np.diff(cuts))
    alone = np.arange(len(counts.values))
    rounds, costs = counts.zeros + counts.ones, []
    for groups in (pooled, alone):
        means = np.bincount(groups, weights=counts.ones) / np.bincount(groups, weights=rounds)
        costs.append(math.fsum(rounds * np.abs(counts.values - means[groups])))
    upper = min(costs)
    return min(relaxation.lower, upper), upper, (pooled, alone)[costs.index(upper)]


def sequence_of(outcomes: Floats, groups: GroupNumbers) -> Floats:
    """The calibrated sequence with these level sets, (T,): each round at the mean outcome of its group.

    Groups whose means are the same float become one level set, whose mean differs from theirs by rounding
    alone.
    """
    while True:
        values = group_means(outcomes, groups)
        _, joined = np.unique(values, return_inverse=True)
        if joined.max() == groups.max():
            return values[groups]
        groups = joined[groups]


def rounded_outcomes(forecasts: Floats, outcomes: Floats) -> tuple[NDArray[np.uint8], float]:
    """Outcomes rounded to 0 and 1, (T,), and how far in all; ties are rounded up and down in turns."""
    whole = (outcomes > 0.5).astype(np.uint8)
    ties = np.flatnonzero(outcomes == 0.5)
    whole[ties[np.argsort(forecasts[ties], kind="stable")][::2]] = 1
    return whole, math.fsum(np.abs(outcomes - whole))


@dataclass(frozen=True)
class Interval(Shown):
    """Two ends, `lower` <= `upper`, between which a measure lies.

    They are proven bounds, but of `lp_calibration_interval` the ends of a confidence interval. Whether they
    are sums over rounds or averages is said by the function that was called.
    """

    lower: float
    upper: float

    def _shown(self) -> Table:
        return bracket_of(self, "lower ≤ measure ≤ upper")


class CalibrationMonitor(Tallies):
    """Counts forecasts with their outcomes as they come, and says how far from calibrated they are so far.

    Forecasts are counted by exact value while there are at most `n_bins` distinct ones: nothing is lost for a
    forecaster that uses a grid. Further values are counted at the nearest multiple of 1/n_bins. The sum of
    these moves is kept in `moved` and makes every answer, a lower and an upper bound, wider: the distance to
    calibration changes by no more than the forecasts do.

    Parameters
    ----------
    n_bins
        How many distinct forecasts are counted exactly, at least 1. At most twice as many values and one more
        are ever kept, so memory does not grow with the stream.

    Attributes
    ----------
    n_rounds
        The number of rounds counted.
    moved
        Sum over rounds of |forecast - the value it is counted at|.

    Raises
    ------
    ValueError
        For a bad parameter; the message names it and the value.

    Examples
    --------
    >>> monitor = CalibrationMonitor()
    >>> monitor.update_many([0.4, 0.6], [0, 1])
    >>> answer = monitor.calibration_distance()
    >>> round(answer.lower, 9), round(answer.upper, 9)
    (0.2, 0.2)
    """

    def __init__(self, n_bins: int = 2000) -> None:
        super().__init__(check_count(n_bins, "n_bins"))

    def update(self, forecast: float, outcome: SupportsFloat) -> None:
        """Count one round: a forecast in [0, 1], and its outcome: 0, 1, False, True, or any number between.

        Raises
        ------
        ValueError
            If forecast or outcome is no number in [0, 1]; nothing is counted then.
        """
        self._count(check_probability(forecast, "forecast"), share_of(outcome))

    def update_many(self, forecasts: ArrayLike, outcomes: ArrayLike) -> None:
        """Count T rounds, forecasts and outcomes of shape (T,), with the same result as one by one.

        With outcomes between 0 and 1 it is the same up to rounding. Raises ValueError, and counts nothing,
        for a forecast or an outcome outside [0, 1], for arrays that are empty or differ in length, and if
        forecasts are all 0 or 1 and outcomes are not: then the arguments look swapped.
        """
        counts, p, _ = count_shares(forecasts, outcomes)
        index = np.searchsorted(counts.values, p)
        # which values are still counted exactly depends on the order in which they first appear
        order = np.unique(index, return_index=True)[1].argsort()
        for k in order.tolist():
            zeros, ones = counts.zeros[k].item(), counts.ones[k].item()
            self._add(float(counts.values[k]), zeros, ones, round(zeros + ones))

    def calibration_distance(
        self, normalize: bool = False, *, budget: float = 1.0, rtol: float = 0.0
    ) -> Interval:
        """A lower and an upper bound on the distance to calibration of all rounds so far, 0 before the first.

        The distance is the least sum of |forecast - q| over sequences q in which each value is the frequency
        of ones among its rounds.

        Parameters
        ----------
        normalize
            False: sums over rounds. True: divided by the number of rounds.
        budget, rtol
            How much work is done to bring the bounds together: budget, a number above 0, takes some seconds
            at most if it is 1, and rtol, at least 0, ends the work as soon as upper - lower <= rtol * upper.
            They are of little use with outcomes between 0 and 1, of which only sums are kept: the upper bound
            is then the best pooling of neighbouring forecasts.

        Raises
        ------
        ValueError
            A bad budget or rtol.
        """
        check_effort(budget, rtol)
        check_flag(normalize, "normalize")
        if self.n_rounds == 0:
            return Interval(0.0, 0.0)
        counts = self.counts()
        if not counts.are_whole:
            lower, upper, _ = share_bounds(counts, budget)
            return self._widened(lower, upper, self.moved, normalize)
        ends = bracket(counts, [conditional_means(counts)], budget, rtol)
        return self._widened(ends.lower, ends.upper, self.moved, normalize)

    def smooth_calibration_error(self, normalize: bool = True) -> Interval:
        """A lower and an upper bound on the smooth calibration error of all rounds so far; 0 without rounds.

        The error is the largest average over rounds of w(forecast) (outcome - forecast), over functions w
        with values in [-1, 1] that change by at most as much as the forecast. With normalize=False it is a
        sum. Both bounds are the exact error as long as `moved` is 0, all forecasts being counted at their own
        value.
        """
        check_flag(normalize, "normalize")
        if self.n_rounds == 0:
            return Interval(0.0, 0.0)
        error = smooth_error_of_counts(self.counts())
        # w(p) (y - p) changes by at most |y - p| |w(p) - w(p')| + |w(p')| |p - p'|
        return self._widened(error, error, 2.0 * self.moved, normalize)

    def _widened(self, lower: float, upper: float, by: float, normalize: bool) -> Interval:
        scale = self.n_rounds if normalize else 1
        return Interval(max(0.0, lower - by) / scale, (upper + by) / scale)
