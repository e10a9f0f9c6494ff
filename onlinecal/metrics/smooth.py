"""Smooth calibration error of a stream."""

from __future__ import annotations

from typing import Any

from onlinecal.measures import Interval
from onlinecal.metrics.monitored import MonitoredMetric


class SmoothCalibration(MonitoredMetric):
    """Smooth calibration error: the largest bias that a 1-Lipschitz weight of the forecast can pick up.

    `get()` is the average over rounds, exact while there are at most `resolution` different forecasts, and an
    upper bound after that (`interval` then has both ends).

    Parameters
    ----------
    resolution
        How many different forecasts are counted exactly; more are counted on a grid as fine as that.
    pos_val
        The label whose probability is looked at; labels other than 0, 1, False and True must be named.
    top_label
        True: the probability of the answer's most probable label is looked at, for any number of labels.

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

    def __init__(self, resolution: int = 2000, pos_val: Any = True, top_label: bool = False) -> None:
        super().__init__(resolution, pos_val, top_label)

    def _measure(self) -> Interval:
        return self._monitor.smooth_calibration_error(normalize=True)
