"""Distance to calibration of a stream."""

from __future__ import annotations

from typing import Any

from onlinecal.measures import Interval
from onlinecal.metrics.monitored import MonitoredMetric


class CalibrationDistance(MonitoredMetric):
    """Distance to calibration: how far forecasts must move, on average, to be perfectly calibrated.

    `get()` is the upper end of the bracket, an average over rounds: the stream is at most so far from
    calibrated. `interval` has both ends. Counting a round is cheap; asking for the number takes as long as
    `budget` allows.

    Parameters
    ----------
    resolution
        How many different forecasts are counted exactly; more are counted on a grid as fine as that, and
        the bracket is widened by how far they were moved.
    budget
        Effort for the bracket; 1 is about a second at most.
    pos_val
        The label whose probability is looked at; labels other than 0, 1, False and True must be named.
    top_label
        True: the probability of the answer's most probable label is looked at, for any number of labels.

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

    def _measure(self) -> Interval:
        return self._monitor.calibration_distance(normalize=True, budget=self.budget)
