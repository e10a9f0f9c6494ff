"""The Brier score."""

from __future__ import annotations

from typing import Any

from river import stats

from onlinecal.metrics.probability_metric import ProbabilityMetric


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
