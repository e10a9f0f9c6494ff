"""River's metrics of the probability of one event, and what they share."""

from __future__ import annotations

import math
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Any

from river import metrics, stats

from onlinecal.measures import CalibrationMonitor, Interval
from onlinecal.measures.counts import CRUMB, Tallies, not_counted
from onlinecal.measures.scores import (
    cumulative_error_of_counts,
    expected_error_of_counts,
    two_bin_error_of_counts,
)
from onlinecal.validation import check_count, check_probability, known_outcome, share_of

ROUNDING = 1e-9
"""By so much a model's probability may lie outside [0, 1]: normalising leaves such crumbs."""


class ProbabilityMetric(metrics.base.BinaryMetric):
    """A metric of the probability of one event; subclasses say how a round counts, and how to forget it.

    Parameters
    ----------
    pos_val
        The event is that this label comes; all other labels count as the other outcome. With a boolean, as by
        default, labels must be 0, 1, False or True, or numbers between: shares, ties, rates.
    top_label
        True: the event is that the answer's most probable label comes (of several, the first one), whatever
        the labels are.

    Notes
    -----
    `update` and `revert` take a label and an answer: the probability itself, or a dictionary of labels and
    probabilities, in which a missing label has probability 0, as for `river.metrics.LogLoss`. With
    `top_label` the answer must be a dictionary; an empty one is no forecast, and such a round is not counted.

    They raise ValueError, and change nothing, when the probability is not a number in [0, 1], when the weight
    is not a finite one of at least 0, or when a label cannot be told to be the positive one or not. `get`
    raises ValueError when two other labels have come or been answered, and the positive one neither: then it
    is misspelt, or there is nothing to say about it yet.
    What is printed of the metric says so instead.
    """

    _fmt = ".6f"
    bigger_is_better = False
    requires_labels = False

    def __init__(self, pos_val: Any = True, top_label: bool = False) -> None:
        if not isinstance(top_label, bool):
            raise ValueError(f"top_label must be False or True, got {top_label!r}")
        if top_label and pos_val is not True:
            raise ValueError(f"pos_val and top_label exclude each other, got pos_val={pos_val!r}")
        super().__init__(pos_val=pos_val)
        self.top_label = top_label
        # whether the positive label has come or been answered, and up to two labels that are not it
        self._met = top_label or isinstance(pos_val, bool)
        self._others: tuple[Any, ...] = ()

    def update(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
        """Count one round."""
        if self._announced(y_pred):
            self._count(*self._read(y_true, y_pred), self._weight(w))
            if not self._met:
                self._meet((y_true, *(y_pred if isinstance(y_pred, Mapping) else ())))

    def revert(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
        """Take back one round that was counted, as rolling windows do."""
        if self._announced(y_pred):
            self._uncount(*self._read(y_true, y_pred), self._weight(w))

    def get(self) -> float:
        """The average over rounds; ValueError while it would speak of a label that nobody has named."""
        self._check_met()
        return self._average()

    def __repr__(self) -> str:
        # river shows metrics while a stream is on its way: a rare label that is still to come must not end it
        if self._is_unmet:
            return f"{type(self).__name__}: none yet, pos_val={self.pos_val!r} has not come"
        return super().__repr__()

    @abstractmethod
    def _count(self, forecast: float, outcome: float, w: float) -> None:
        """Count a forecast and its outcome, w times."""

    @abstractmethod
    def _uncount(self, forecast: float, outcome: float, w: float) -> None:
        """Undo `_count`."""

    @abstractmethod
    def _average(self) -> float:
        """The average over the rounds counted."""

    def _weight(self, w: float) -> float:
        """A weight; a whole number as one, so that counts of whole rounds stay whole."""
        if not 0.0 <= w < math.inf:
            raise ValueError(f"w must be a finite number of at least 0, got {w!r}")
        return int(w) if w == int(w) else w

    def _announced(self, y_pred: Any) -> bool:
        return not (self.top_label and isinstance(y_pred, Mapping) and not y_pred)

    def _read(self, y_true: Any, y_pred: Any) -> tuple[float, float]:
        labels = y_pred if isinstance(y_pred, Mapping) else None
        positive, is_boolean = self.pos_val, isinstance(self.pos_val, bool) and not self.top_label
        if self.top_label:
            if labels is None:
                raise ValueError(f"y_pred must be a dictionary of labels for top_label=True, got {y_pred!r}")
            positive = max(labels, key=lambda label: _probability(labels[label]))
        for label in labels or () if is_boolean else ():
            if known_outcome(label) is None:
                raise ValueError(self._strange("y_pred", label))
        p = _probability(y_pred if labels is None else labels.get(positive, 0.0))
        if not is_boolean:
            return p, int(y_true == positive)
        try:
            share = share_of(y_true)
        except ValueError:
            raise ValueError(self._strange("y_true", y_true)) from None
        return p, share if positive else 1.0 - share

    def _strange(self, name: str, label: Any) -> str:
        kind = type(self).__name__
        return (
            f"{name} has the label {label!r}, and the positive one of labels other than 0, 1, False and "
            f"True must be named: {kind}(pos_val={label!r}), say; or {kind}(top_label=True), whether the "
            "answer's most probable label comes"
        )

    def _meet(self, labels: Iterable[Any]) -> None:
        for label in labels:
            if label == self.pos_val:
                self._met, self._others = True, ()
                return
            if len(self._others) < 2 and label not in self._others:
                self._others = (*self._others, label)

    @property
    def _is_unmet(self) -> bool:
        return not self._met and len(self._others) > 1

    def _check_met(self) -> None:
        if self._is_unmet:
            first, second = self._others
            raise ValueError(
                f"pos_val={self.pos_val!r} has not come, and no answer has named it, though {first!r} and "
                f"{second!r} have: name one of the labels there are, or ask again once it has come"
            )


def _probability(p: Any) -> float:
    if isinstance(p, float) and -ROUNDING <= p <= 1.0 + ROUNDING:
        p = min(max(p, 0.0), 1.0)
    return check_probability(p, "y_pred")


class Brier(ProbabilityMetric):
    """Mean squared error of the probability.

    `get()` is the average of (p - y)^2 over rounds; 0 before the first.

    Parameters
    ----------
    pos_val
        The label whose probability is looked at; labels other than 0, 1, False and True must be named.
    top_label
        True: the probability of the answer's most probable label is looked at, for any number of labels.

    Examples
    --------
    >>> from onlinecal.metrics import Brier
    >>> metric = Brier()
    >>> for y, p in [(True, 0.9), (False, 0.1), (False, 0.5)]:
    ...     metric.update(y, {False: 1 - p, True: p})
    >>> metric
    Brier: 0.09

    References
    ----------
    Brier (1950), verification of forecasts expressed in terms of probability.
    """

    def __init__(self, pos_val: Any = True, top_label: bool = False) -> None:
        super().__init__(pos_val, top_label)
        self._mean = stats.Mean()

    def _count(self, forecast: float, outcome: float, w: float) -> None:
        self._mean.update((forecast - outcome) ** 2, w)

    def _uncount(self, forecast: float, outcome: float, w: float) -> None:
        self._mean.revert((forecast - outcome) ** 2, w)

    def _average(self) -> float:
        return float(self._mean.get())


class CountedMetric(ProbabilityMetric):
    """A metric of rounds that are counted by their forecast.

    Subclasses say which measure it is. It is computed when it is asked for, and again only after more rounds.
    """

    def __init__(self, pos_val: Any = True, top_label: bool = False) -> None:
        super().__init__(pos_val, top_label)
        self._tallies: Any = Tallies()
        self._found: Any = None

    def _count(self, forecast: float, outcome: float, w: float) -> None:
        self._tallies._count(forecast, outcome, w)
        self._found = None

    def _uncount(self, forecast: float, outcome: float, w: float) -> None:
        self._tallies._revert(forecast, outcome, w)
        self._found = None

    @abstractmethod
    def _measure(self) -> Any:
        """The measure of the rounds counted, a sum; a bracket is an average already."""

    @property
    def _measured(self) -> Any:
        if self._found is None:
            self._found = self._measure()
        return self._found

    def _average(self) -> float:
        return float(self._measured) / float(self._tallies.n_rounds) if self._tallies.n_rounds else 0.0


class BinSums:
    """Rounds by equal-width bins of forecasts: of each bin their number, and the sum of their biases."""

    def __init__(self, bins: int) -> None:
        self.n_rounds = 0.0
        self._edges = [i / bins for i in range(bins)]
        self._sums: dict[int, list[float]] = {}

    def _count(self, forecast: float, outcome: float, times: float) -> None:
        sums = self._sums.setdefault(bisect_right(self._edges, forecast) - 1, [0.0, 0.0])
        sums[0] += times
        sums[1] += times * (forecast - outcome)
        self.n_rounds += times

    def _revert(self, forecast: float, outcome: float, times: float) -> None:
        place = bisect_right(self._edges, forecast) - 1
        rounds, _ = self._sums.get(place, (0.0, 0.0))
        if rounds < times * (1.0 - CRUMB):
            raise not_counted(forecast, outcome)
        self._count(forecast, outcome, -times)
        if self._sums[place][0] <= CRUMB * times:
            del self._sums[place]

    @property
    def error(self) -> float:
        """The sum of the bins' biases in size."""
        return math.fsum(abs(bias) for _, bias in self._sums.values())


class ECE(CountedMetric):
    """Expected calibration error: bias of each level set, as `onlinecal.expected_calibration_error` has it.

    `get()` is the average over rounds (the sum divided by the rounds); 0 before the first.

    Parameters
    ----------
    bins
        None: rounds with exactly the same forecast are a level set; memory grows with the number of different
        forecasts. A number B: the bins [i/B, (i+1)/B) are, the last one closed; memory is B counts.
    pos_val, top_label
        As for `Brier`.

    Examples
    --------
    >>> from onlinecal.metrics import ECE
    >>> metric, binned = ECE(), ECE(bins=10)
    >>> for y, p in [(True, 0.82), (False, 0.82), (True, 0.84)]:
    ...     metric.update(y, p)
    ...     binned.update(y, p)
    >>> metric
    ECE: 0.266667
    >>> binned
    ECE: 0.16

    References
    ----------
    Foster and Vohra (1998), asymptotic calibration; Naeini, Cooper and Hauskrecht (2015) for bins.
    """

    def __init__(self, bins: int | None = None, pos_val: Any = True, top_label: bool = False) -> None:
        super().__init__(pos_val, top_label)
        self.bins = bins
        if bins is not None:
            self._tallies = BinSums(check_count(bins, "bins"))

    def _measure(self) -> float:
        return self._tallies.error if self.bins else expected_error_of_counts(self._tallies.counts())


class CumulativeCalibration(CountedMetric):
    """The largest bias over any interval of forecasts, as `onlinecal.cumulative_calibration_error` has it.

    `get()` is the average over rounds; 0 before the first. Memory grows with the number of different
    forecasts.

    Parameters
    ----------
    pos_val, top_label
        As for `Brier`.

    Examples
    --------
    >>> from onlinecal.metrics import CumulativeCalibration
    >>> metric = CumulativeCalibration()
    >>> for y, p in [(False, 0.2), (True, 0.2), (False, 0.7), (True, 0.7)]:
    ...     metric.update(y, p)
    >>> metric
    CumulativeCalibration: 0.15
    """

    def _measure(self) -> float:
        return cumulative_error_of_counts(self._tallies.counts())


class TwoBinCalibration(CountedMetric):
    """A measure that honest forecasts make small, as `onlinecal.measures.two_bin_error` has it.

    `get()` is in [0, 1], the square of an average over rounds; 0 before the first. Memory grows with the
    number of different forecasts.

    Parameters
    ----------
    pos_val, top_label
        As for `Brier`.

    Examples
    --------
    >>> from onlinecal.metrics import TwoBinCalibration
    >>> metric = TwoBinCalibration()
    >>> for y, p in [(True, 0.5), (True, 0.5)]:
    ...     metric.update(y, p)
    >>> metric
    TwoBinCalibration: 0.25
    """

    def _measure(self) -> float:
        return two_bin_error_of_counts(self._tallies.counts())


class MonitoredMetric(CountedMetric):
    """A metric with a lower and an upper end, in bounded memory; `get()` is the upper end, an average."""

    def __init__(self, resolution: int = 2000, pos_val: Any = True, top_label: bool = False) -> None:
        super().__init__(pos_val, top_label)
        self.resolution = resolution
        self._tallies = CalibrationMonitor(resolution)

    @property
    def interval(self) -> Interval:
        """Where the measure lies, lower and upper end proven; averages over rounds.

        Raises ValueError as `get` does.
        """
        self._check_met()
        return self._measured

    def _average(self) -> float:
        return float(self._measured.upper)


class SmoothCalibration(MonitoredMetric):
    """Smooth calibration error: the largest bias that a 1-Lipschitz weight of the forecast can pick up.

    `get()` is the average over rounds, exact while there are at most `resolution` different forecasts, and an
    upper bound after that (`interval` then has both ends). A round of weight w counts as w rounds.

    Parameters
    ----------
    resolution
        How many different forecasts are counted exactly; more are counted on a grid as fine as that.
    pos_val, top_label
        As for `Brier`.

    Examples
    --------
    >>> from onlinecal.metrics import SmoothCalibration
    >>> metric = SmoothCalibration()
    >>> for y, p in [(False, 0.2), (True, 0.8), (True, 0.6), (False, 0.6)]:
    ...     metric.update(y, p)
    >>> metric
    SmoothCalibration: 0.06

    References
    ----------
    Kakade and Foster (2008); Blasiok, Gopalan, Hu and Nakkiran (2023).
    """

    def _measure(self) -> Interval:
        return self._tallies.smooth_calibration_error()


class CalibrationDistance(MonitoredMetric):
    """Distance to calibration: how far forecasts must move, on average, to be perfectly calibrated.

    `get()` is the upper end of the bracket, an average over rounds: the stream is at most so far from
    calibrated. `interval` has both ends. Counting a round is cheap; asking for the number takes as long as
    `budget` allows. A round of weight w counts as w rounds, a whole number of them.

    Parameters
    ----------
    resolution
        How many different forecasts are counted exactly; more are counted on a grid as fine as that, and
        the bracket is widened by how far they were moved.
    budget
        Effort for the bracket; 1 takes up to three seconds.
    pos_val, top_label
        As for `Brier`.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, naive_bayes
    >>> from onlinecal.metrics import Brier, CalibrationDistance
    >>> distance = CalibrationDistance(budget=0.1)
    >>> evaluate.progressive_val_score(
    ...     datasets.Phishing(), naive_bayes.GaussianNB(), distance + Brier() + metrics.Accuracy()
    ... )
    CalibrationDistance: 0.034552
    Brier: 0.096412
    Accuracy: 88.47%
    >>> 0.0 < distance.interval.lower <= distance.get()
    True

    References
    ----------
    Blasiok, Gopalan, Hu and Nakkiran (2023), a unifying theory of distance from calibration.
    """

    def __init__(
        self, resolution: int = 2000, budget: float = 1.0, pos_val: Any = True, top_label: bool = False
    ) -> None:
        if not budget > 0:
            raise ValueError(f"budget must be positive, got {budget!r}")
        super().__init__(resolution, pos_val, top_label)
        self.budget = budget

    def _weight(self, w: float) -> float:
        times = super()._weight(w)
        if times != int(times):
            raise ValueError(f"w must be a whole number, since the distance is of whole rounds, got {w!r}")
        return times

    def _measure(self) -> Interval:
        return self._tallies.calibration_distance(normalize=True, budget=self.budget)
