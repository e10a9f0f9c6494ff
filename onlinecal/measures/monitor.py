"""A running bracket of the distance to calibration, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import SupportsFloat

import numpy as np
from numpy.typing import ArrayLike

from onlinecal.html import Shown, Table, bracket_of
from onlinecal.measures.counts import Counts, check_counts, count_shares
from onlinecal.measures.distance.bracket import bracket, share_bounds
from onlinecal.measures.distance.levels import conditional_means
from onlinecal.measures.smooth import smooth_error_of_counts
from onlinecal.validation import check_count, check_probability, share_of


@dataclass(frozen=True)
class Interval(Shown):
    """`lower` <= measure <= `upper`, both proven."""

    lower: float
    upper: float

    def _shown(self) -> Table:
        return bracket_of(self, "lower ≤ measure ≤ upper")


class CalibrationMonitor:
    """Counts a stream of settled forecasts and answers how far from calibrated it is, at any time.

    Forecasts are counted by exact value while there are at most `resolution` distinct ones: nothing is lost
    for a forecaster that uses a grid. Further values are counted at the nearest multiple of 1/resolution. How
    far they were moved in all is kept in `moved` and added to every bracket, since the distance to
    calibration changes by no more than the forecasts do.

    Parameters
    ----------
    resolution
        Distinct forecasts counted exactly; memory is at most twice as many counts and one.

    Attributes
    ----------
    n_rounds
        Rounds counted.
    moved
        Sum over rounds of |forecast - the value it is counted at|.

    Examples
    --------
    >>> monitor = CalibrationMonitor()
    >>> monitor.update_many([0.4, 0.6], [0, 1])
    >>> answer = monitor.calibration_distance()
    >>> round(answer.lower, 9), round(answer.upper, 9)
    (0.2, 0.2)

    """

    def __init__(self, resolution: int = 2000) -> None:
        self.resolution = check_count(resolution, "resolution")
        self.n_rounds = 0
        self.moved = 0.0
        self._tallies: dict[float, list[float]] = {}

    def update(self, forecast: float, outcome: SupportsFloat) -> None:
        """Count one round; the outcome is 0, 1, or any number between.

        Raises
        ------
        ValueError
            A forecast or an outcome outside [0, 1]; nothing is counted then.

        """
        p, y = check_probability(forecast, "forecast"), share_of(outcome)
        self._count(p, *parts(y))

    def update_many(self, forecasts: ArrayLike, outcomes: ArrayLike) -> None:
        """Count rounds, each array of shape (T,); in memory and bracket the same as one by one.

        With outcomes between 0 and 1 the same up to rounding.

        Raises
        ------
        ValueError
            Bad forecasts or outcomes; nothing is counted then.

        """
        counts, p, _ = count_shares(forecasts, outcomes)
        index = np.searchsorted(counts.values, p)
        # which values are still counted exactly depends on the order in which they first appear
        order = np.unique(index, return_index=True)[1].argsort()
        for k in order.tolist():
            self._count(float(counts.values[k]), counts.zeros[k].item(), counts.ones[k].item())

    def calibration_distance(
        self, normalize: bool = False, *, budget: float = 1.0, rtol: float = 0.0
    ) -> Interval:
        """A bracket of the distance to calibration of all rounds so far, (0, 0) before the first.

        Parameters
        ----------
        normalize
            False: sums over rounds. True: divided by the number of rounds.
        budget, rtol
            As for `onlinecal.measures.calibration_distance`. Of little use with outcomes between 0 and 1, of
            which sums are kept only: the upper end is that of the best pooling of neighbouring forecasts.

        """
        if self.n_rounds == 0:
            return Interval(0.0, 0.0)
        counts = self.counts()
        if not counts.are_whole:
            lower, upper, _ = share_bounds(counts, budget)
            return self._widened(lower, upper, self.moved, normalize)
        found = bracket(counts, [conditional_means(counts)], budget, rtol)
        return self._widened(found.lower, found.upper, self.moved, normalize)

    def smooth_calibration_error(self, normalize: bool = False) -> Interval:
        """A bracket of the smooth calibration error of all rounds so far, one point if nothing was moved."""
        if self.n_rounds == 0:
            return Interval(0.0, 0.0)
        error = smooth_error_of_counts(self.counts())
        # w(p) (y - p) changes by at most |y - p| |w(p) - w(p')| + |w(p')| |p - p'|
        return self._widened(error, error, 2.0 * self.moved, normalize)

    def counts(self) -> Counts:
        """The rounds so far, by the value they are counted at."""
        values = np.array(list(self._tallies))
        tallies = np.array(list(self._tallies.values())).reshape(-1, 2)
        if tallies.dtype.kind == "i":
            return check_counts(values, tallies[:, 0], tallies[:, 1])
        counted = np.flatnonzero(tallies.sum(axis=1) > 0.5)
        counted = counted[np.argsort(values[counted])]
        return Counts(values[counted], tallies[counted, 0], tallies[counted, 1])

    def _count(self, p: float, zeros: float, ones: float) -> None:
        rounds = round(zeros + ones)
        tally = self._tallies.get(p)
        if tally is None:
            value = p
            if len(self._tallies) >= self.resolution:
                value = round(p * self.resolution) / self.resolution
                self.moved += abs(p - value) * rounds
            tally = self._tallies.setdefault(value, [0, 0])
        tally[0] += zeros
        tally[1] += ones
        self.n_rounds += rounds

    def _widened(self, lower: float, upper: float, by: float, normalize: bool) -> Interval:
        scale = self.n_rounds if normalize else 1
        return Interval(max(0.0, lower - by) / scale, (upper + by) / scale)


def parts(outcome: float) -> tuple[float, float]:
    """How much of a round had the outcome 0, and how much 1: whole numbers if the outcome is one."""
    one = int(outcome) if outcome in (0.0, 1.0) else outcome
    return 1 - one, one
