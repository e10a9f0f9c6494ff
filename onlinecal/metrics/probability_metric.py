"""Metrics of the probability of one event, in river's conventions, and their base classes.

A metric checks a round before it counts it, so a refused round changes nothing; `revert` undoes `update`.

`update` and `revert` are the only calls that change an answer. They change what a subclass counts (`_count`,
`_uncount`), and `update` also which labels were met, which `revert` does not take back. `get` and `interval`
write `_cached`, where a measure that was computed is kept until the next round. Rounds may be reverted in any
order. What was not counted is refused; `Brier`, which keeps a mean alone, only refuses more rounds than it
has. Tallies are those of `measures/counts.py`; `BinSums` here has the same methods. Pickles alone keep a
metric.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

from river import metrics, stats

from onlinecal.measures import CalibrationMonitor, Interval
from onlinecal.measures.counts import LEAST_PART, Tallies, not_counted
from onlinecal.measures.distance.narrowing import check_effort
from onlinecal.measures.scores import (
    cumulative_error_of_counts,
    expected_error_of_counts,
    two_bin_error_of_counts,
)
from onlinecal.validation import check_count, check_flag, check_probability, known_outcome, share_of

PROBABILITY_TOLERANCE = 1e-9
"""A model's probability may lie this far outside [0, 1], since normalising leaves rounding errors."""


class ProbabilityMetric(metrics.base.BinaryMetric):
    """A metric of the probability of one event; subclasses say how to count a round, and how to uncount it.

    Parameters
    ----------
    pos_val
        The event is that this label comes; all other labels count as the other outcome. With a boolean, as by
        default, labels must be 0, 1, False or True, or numbers between them, such as shares, ties and rates.
    top_label
        True: the event is that the answer's most probable label comes, whatever the labels are. If several
        are most probable it is the first one.

    Notes
    -----
    `update` and `revert` take a label and an answer: the probability itself, or a dictionary of labels and
    probabilities, in which a missing label has probability 0, as for `river.metrics.LogLoss`. With
    `top_label` the answer must be a dictionary; an empty one is no forecast, and such a round is not counted.

    They raise ValueError, and change nothing, if the probability is not a number in [0, 1], if the weight is
    not finite or below 0, or if a label cannot be told to be the positive one or not. `get` raises ValueError
    if two other labels have come or been answered, but never the positive one: then it is misspelt, or there
    is nothing to say about it yet. The printed metric says so without an error.
    """

    _fmt = ".6f"
    bigger_is_better = False
    requires_labels = False

    def __init__(self, pos_val: Any = True, top_label: bool = False) -> None:
        if check_flag(top_label, "top_label") and pos_val is not True:
            raise ValueError(
                f"pos_val and top_label exclude each other, got pos_val={pos_val!r} and True: leave out one"
            )
        super().__init__(pos_val=pos_val)
        self.top_label = top_label
        # whether the positive label has come or been answered, and up to two labels that are not it
        self._met = top_label or isinstance(pos_val, bool)
        self._others: tuple[Any, ...] = ()

    def update(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
        """Count one round: the label that came, `y_true`, and the answer, with the weight `w`, at least 0.

        `y_pred` is the probability of the positive label, `pos_val`, or a dict of probabilities by label, in
        which a label that is missing has the probability 0. With top_label=True it must be a dict, and an
        empty one is not counted. `y_true` is 0, 1, False, True or a number between where `pos_val` is True or
        False, and else any label. A round of weight w counts as w rounds. Raises ValueError, and counts
        nothing, for any other answer, label or weight; `CalibrationDistance` takes whole weights alone.
        """
        if self._announced(y_pred):
            self._count(*self._read(y_true, y_pred), self._weight(w))
            if not self._met:
                self._meet((y_true, *(y_pred if isinstance(y_pred, Mapping) else ())))

    def revert(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
        """Take back a round that `update` counted with the same `y_true`, `y_pred` and `w`, in any order.

        Raises ValueError, and changes nothing, for what `update` refuses, and for a round that was not
        counted. `Brier`, which keeps a mean alone, notices that only if more weight is taken back than it
        has; metrics with `n_bins` so in each bin, where they have put forecasts into bins.
        """
        if self._announced(y_pred):
            self._uncount(*self._read(y_true, y_pred), self._weight(w))

    def get(self) -> float:
        """The measure of all rounds counted so far, a float; 0.0 before the first.

        It is an average over rounds, by their weights, but for two: that of `TwoBinCalibration` is the square
        of an average, and that of `CalibrationDistance(normalize=False)` a sum over rounds. Metrics but
        `Brier` work it out when asked, and keep it until the next round. Raises ValueError if the label
        `pos_val` was named and has neither come nor been answered, while two others have.
        """
        self._check_met()
        return self._average()

    def __repr__(self) -> str:
        # river prints metrics during a stream: a rare label that has not come yet must not end the stream
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
        """A checked weight, as an int if it is whole, so that counts of whole rounds stay whole."""
        if not isinstance(w, Real) or not 0.0 <= w < math.inf:
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
                raise ValueError(self._strange("y_pred must have the labels 0, 1, False and True", label))
        p = _probability(y_pred if labels is None else labels.get(positive, 0.0))
        if not is_boolean:
            return p, int(y_true == positive)
        try:
            share = share_of(y_true)
        except ValueError:
            wanted = "y_true must be 0, 1, False, True or a number between"
            raise ValueError(self._strange(wanted, y_true)) from None
        return p, share if positive else 1.0 - share

    def _strange(self, wanted: str, label: Any) -> str:
        if label is None or (isinstance(label, float) and math.isnan(label)):
            return f"{wanted}, got {label!r}: leave out rounds whose label is missing"
        kind = type(self).__name__
        return (
            f"{wanted}, got {label!r}: name the positive label, as in {kind}(pos_val={label!r}), or measure "
            f"the answer's most probable label with {kind}(top_label=True)"
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
                f"pos_val must be a label that comes, got {self.pos_val!r}, which neither came nor "
                f"was answered, while {first!r} and {second!r} were: name one of these, or ask again "
                "once it has come"
            )


def _probability(p: Any) -> float:
    if isinstance(p, float) and -PROBABILITY_TOLERANCE <= p <= 1.0 + PROBABILITY_TOLERANCE:
        p = min(max(p, 0.0), 1.0)
    return check_probability(p, "y_pred")


class Brier(ProbabilityMetric):
    """Mean squared error of the probability.

    `get()` is the average over rounds of (p - y)^2, with the probability p and y 1 if the label came, else 0;
    it is 0.0 before the first.

    Parameters
    ----------
    pos_val
        The label whose probability is measured; labels other than 0, 1, False and True must be named. With
        True or False, outcomes may also be numbers between 0 and 1.
    top_label
        True: the probability of the answer's most probable label, of equal ones the first, is measured; the
        event is that this label comes. There may be any number of labels; leave `pos_val` out.

    Raises
    ------
    ValueError
        For a bad parameter, or both parameters together; the message names it and the value.

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

    def __init__(self, *, pos_val: Any = True, top_label: bool = False) -> None:
        super().__init__(pos_val, top_label)
        self._mean = stats.Mean()

    def _count(self, forecast: float, outcome: float, w: float) -> None:
        if w:
            self._mean.update((forecast - outcome) ** 2, w)

    def _uncount(self, forecast: float, outcome: float, w: float) -> None:
        left, least = self._mean.n - w, LEAST_PART * w
        if left < -least:
            raise not_counted(forecast, outcome)
        if left > least:
            self._mean.revert((forecast - outcome) ** 2, w)
        else:
            # the sum of the weights may miss 0 by rounding, and the mean would then be divided by that
            self._mean = stats.Mean()

    def _average(self) -> float:
        return float(self._mean.get())


class CountedMetric(ProbabilityMetric):
    """A metric of rounds that are counted by their forecast.

    Subclasses say which measure it is. The measure is computed when it is asked for, and is kept until the
    next round.
    """

    def __init__(self, pos_val: Any = True, top_label: bool = False) -> None:
        super().__init__(pos_val, top_label)
        self._tallies: Any = Tallies()
        self._cached: Any = None

    def _count(self, forecast: float, outcome: float, w: float) -> None:
        self._tallies._count(forecast, outcome, w)
        self._cached = None

    def _uncount(self, forecast: float, outcome: float, w: float) -> None:
        self._tallies._revert(forecast, outcome, w)
        self._cached = None

    @abstractmethod
    def _measure(self) -> Any:
        """The measure of the rounds counted: a sum, or an interval of averages."""

    @property
    def _measured(self) -> Any:
        if self._cached is None:
            self._cached = self._measure()
        return self._cached

    def _average(self) -> float:
        return float(self._measured) / float(self._tallies.n_rounds) if self._tallies.n_rounds else 0.0


class BinSums:
    """Rounds by equal-width bins of forecasts: how many each bin has, and the sum of their biases."""

    def __init__(self, n_bins: int) -> None:
        self.n_rounds = 0.0
        self._edges = [i / n_bins for i in range(n_bins)]
        self._sums: dict[int, list[float]] = {}

    def _count(self, forecast: float, outcome: float, times: float) -> None:
        sums = self._sums.setdefault(bisect_right(self._edges, forecast) - 1, [0.0, 0.0])
        sums[0] += times
        sums[1] += times * (forecast - outcome)
        self.n_rounds += times

    def _revert(self, forecast: float, outcome: float, times: float) -> None:
        place = bisect_right(self._edges, forecast) - 1
        rounds, _ = self._sums.get(place, (0.0, 0.0))
        if rounds < times * (1.0 - LEAST_PART):
            raise not_counted(forecast, outcome)
        self._count(forecast, outcome, -times)
        if self._sums[place][0] <= LEAST_PART * times:
            del self._sums[place]

    @property
    def error(self) -> float:
        """The sum of the absolute biases of all bins."""
        return math.fsum(abs(bias) for _, bias in self._sums.values())


class ECE(CountedMetric):
    """Expected calibration error, as `onlinecal.expected_calibration_error`: the biases of all level sets.

    A level set is all rounds with the same forecast, or with forecasts in one bin. `get()` is the sum over
    level sets of |sum of (forecast - outcome)|, divided by the number of rounds, a round of weight w counting
    as w; it is 0.0 before the first.

    Parameters
    ----------
    n_bins
        None: rounds with exactly the same forecast are a level set; memory grows with the number of different
        forecasts. A number B: the level sets are the bins [i/B, (i+1)/B), of which the last one is closed;
        memory is B counts.
    pos_val
        The label whose probability is measured; labels other than 0, 1, False and True must be named. With
        True or False, outcomes may also be numbers between 0 and 1.
    top_label
        True: the probability of the answer's most probable label, of equal ones the first, is measured; the
        event is that this label comes. There may be any number of labels; leave `pos_val` out.

    Raises
    ------
    ValueError
        For a bad parameter; the message names it and the value.

    Examples
    --------
    >>> from onlinecal.metrics import ECE
    >>> metric, binned = ECE(), ECE(n_bins=10)
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

    def __init__(self, *, n_bins: int | None = None, pos_val: Any = True, top_label: bool = False) -> None:
        super().__init__(pos_val, top_label)
        self.n_bins = n_bins
        if n_bins is not None:
            self._tallies = BinSums(check_count(n_bins, "n_bins"))

    def _measure(self) -> float:
        return self._tallies.error if self.n_bins else expected_error_of_counts(self._tallies.counts())


class CumulativeCalibration(CountedMetric):
    """The largest bias over any interval of forecasts, as in `onlinecal.cumulative_calibration_error`.

    `get()` is the largest |sum of (forecast - outcome)| over the rounds whose forecasts lie in one interval,
    divided by the number of all rounds, a round of weight w counting as w; it is 0.0 before the first. Memory
    grows with the number of different forecasts.

    Parameters
    ----------
    pos_val
        The label whose probability is measured; labels other than 0, 1, False and True must be named. With
        True or False, outcomes may also be numbers between 0 and 1.
    top_label
        True: the probability of the answer's most probable label, of equal ones the first, is measured; the
        event is that this label comes. There may be any number of labels; leave `pos_val` out.

    Raises
    ------
    ValueError
        For a bad parameter; the message names it and the value.

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
    """The squared biases of forecasts below and above an edge, as in `onlinecal.two_bin_error`.

    For an edge in [0, 1] the biases of the forecasts below it and of those above, each the sum of (forecast -
    outcome) divided by the number of all rounds (a round of weight w counts as w), are squared and added up.
    `get()` is the mean of that over all edges, in [0, 1], in the unit of a squared average; it is 0.0 before
    the first round. Of independent outcomes no forecasts have a smaller mean than their true chances. Memory
    grows with the number of different forecasts.

    Parameters
    ----------
    pos_val
        The label whose probability is measured; labels other than 0, 1, False and True must be named. With
        True or False, outcomes may also be numbers between 0 and 1.
    top_label
        True: the probability of the answer's most probable label, of equal ones the first, is measured; the
        event is that this label comes. There may be any number of labels; leave `pos_val` out.

    Raises
    ------
    ValueError
        For a bad parameter; the message names it and the value.

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

    def __init__(self, n_bins: int = 2000, pos_val: Any = True, top_label: bool = False) -> None:
        super().__init__(pos_val, top_label)
        self.n_bins = n_bins
        self._tallies = CalibrationMonitor(n_bins)

    @property
    def interval(self) -> Interval:
        """Proven lower and upper ends of the measure, an Interval of two floats; (0, 0) before any round.

        They are in the unit of `get()`, an average over rounds or with normalize=False a sum, and `get()` is
        the upper one. They are worked out when asked for, and kept until the next round. Raises ValueError if
        the label `pos_val` was named and has neither come nor been answered, while two others have.
        """
        self._check_met()
        return self._measured

    def _average(self) -> float:
        return float(self._measured.upper)


class SmoothCalibration(MonitoredMetric):
    """Smooth calibration error: the largest bias that a smooth weight of the forecast can pick up.

    `get()` is the largest average over rounds of w(p) (y - p), over weights w in [-1, 1] that change by at
    most |p - p'| from p to p'. It is exact while there are at most `n_bins` different forecasts, and an upper
    bound after that (`interval` then has both ends); 0.0 before the first round. A round of weight w counts
    as w rounds.

    Parameters
    ----------
    n_bins
        How many different forecasts are counted exactly, at least 1; more are counted at multiples of
        1/n_bins.
    pos_val
        The label whose probability is measured; labels other than 0, 1, False and True must be named. With
        True or False, outcomes may also be numbers between 0 and 1.
    top_label
        True: the probability of the answer's most probable label, of equal ones the first, is measured; the
        event is that this label comes. There may be any number of labels; leave `pos_val` out.

    Raises
    ------
    ValueError
        For a bad parameter; the message names it and the value.

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

    `get()` is the upper end of a bracket of it, an average over rounds: the forecasts so far are at most that
    far from calibrated. With normalize=False it is a sum over rounds. It is 0.0 before the first round.
    `interval` has both ends. Counting a round is cheap; asking for the number takes as long as `budget`
    allows. A round of weight w counts as w rounds, so w must be a whole number.

    Parameters
    ----------
    n_bins
        How many different forecasts are counted exactly, at least 1; more are counted at multiples of
        1/n_bins, and the bracket is widened by how far they were moved.
    budget
        The effort for the bracket, a number above 0, as of `onlinecal.calibration_distance`: 1 takes up to
        three seconds, and more effort takes longer and may bring the ends nearer to each other.
    normalize
        True: an average over rounds, as river's metrics are. False: a sum, as certificates are.
    pos_val
        The label whose probability is measured; labels other than 0, 1, False and True must be named. With
        True or False, outcomes may also be numbers between 0 and 1.
    top_label
        True: the probability of the answer's most probable label, of equal ones the first, is measured; the
        event is that this label comes. There may be any number of labels; leave `pos_val` out.

    Raises
    ------
    ValueError
        For a bad parameter; the message names it and the value.

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
        self,
        *,
        n_bins: int = 2000,
        budget: float = 1.0,
        normalize: bool = True,
        pos_val: Any = True,
        top_label: bool = False,
    ) -> None:
        check_effort(budget)
        super().__init__(n_bins, pos_val, top_label)
        self.budget, self.normalize = budget, check_flag(normalize, "normalize")

    def _weight(self, w: float) -> float:
        times = super()._weight(w)
        if times != int(times):
            raise ValueError(f"w must be a whole number, since the distance is of whole rounds, got {w!r}")
        return times

    def _measure(self) -> Interval:
        return self._tallies.calibration_distance(normalize=self.normalize, budget=self.budget)
