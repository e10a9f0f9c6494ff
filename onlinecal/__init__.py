"""Calibrated forecasting on live streams, with a proof that runs along.

Names are loaded when they are first asked for, so that importing the package stays cheap.
"""

from __future__ import annotations

from onlinecal.lazy import lazy_names
from onlinecal.moved import find_old_names

__version__ = "0.1.0"

_HOME = {
    "AlmostOneStepAhead": "onlinecal.forecasters",
    "OneStepAhead": "onlinecal.forecasters",
    "SimplexAlmostOneStepAhead": "onlinecal.forecasters",
    "BinnedMean": "onlinecal.wrappers",
    "CalibratedClassifier": "onlinecal.wrappers",
    "DecisionCalibratedClassifier": "onlinecal.wrappers",
    "GroupCalibratedClassifier": "onlinecal.wrappers",
    "LpCalibratedClassifier": "onlinecal.wrappers",
    "PlattScaling": "onlinecal.wrappers",
    "BoostedRecalibrator": "onlinecal.recalibration",
    "DecisionRecalibrator": "onlinecal.recalibration",
    "GroupRecalibrator": "onlinecal.recalibration",
    "LpRecalibrator": "onlinecal.recalibration",
    "calibration_distance": "onlinecal.measures",
    "calibration_distance_from_counts": "onlinecal.measures",
    "classwise_calibration_error": "onlinecal.measures",
    "confidence_calibration_error": "onlinecal.measures",
    "decision_calibration_error": "onlinecal.measures",
    "decision_loss_gap": "onlinecal.measures",
    "expected_calibration_error": "onlinecal.measures",
    "linf_conditional_error": "onlinecal.measures",
    "lower_calibration_distance": "onlinecal.measures",
    "lp_calibration_error": "onlinecal.measures",
    "multiclass_calibration_distance": "onlinecal.measures",
    "multicalibration_error": "onlinecal.measures",
    "smooth_calibration_error": "onlinecal.measures",
    "top_label_calibration_error": "onlinecal.measures",
    "CalibrationMonitor": "onlinecal.measures",
    "LabelWarning": "onlinecal.remarks",
}

__all__ = ["__version__", *_HOME]

find_old_names()
__getattr__, __dir__ = lazy_names(__name__, _HOME)
