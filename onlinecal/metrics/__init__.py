"""River metrics of calibration: they plug into `river.evaluate` and combine with `+`.

All of them take what a classifier's `predict_proba_one` answers, and `get()` is an average per round, so that
streams of different lengths can be compared; the functions in `onlinecal.measures` return sums by default.
"""

from onlinecal.metrics.brier import Brier
from onlinecal.metrics.distance import CalibrationDistance
from onlinecal.metrics.expected import ECE
from onlinecal.metrics.smooth import SmoothCalibration

__all__ = ["ECE", "Brier", "CalibrationDistance", "SmoothCalibration"]
