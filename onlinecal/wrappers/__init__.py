"""River wrappers around a classifier, loaded when they are first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onlinecal.lazy import lazy_names

if TYPE_CHECKING:
    from onlinecal.wrappers.binned_mean import BinnedMean
    from onlinecal.wrappers.calibrated_classifier import CalibratedClassifier
    from onlinecal.wrappers.decision_calibrated_classifier import DecisionCalibratedClassifier
    from onlinecal.wrappers.group_calibrated_classifier import GroupCalibratedClassifier
    from onlinecal.wrappers.lp_calibrated_classifier import LpCalibratedClassifier
    from onlinecal.wrappers.platt_scaling import PlattScaling

__all__ = [
    "BinnedMean",
    "CalibratedClassifier",
    "DecisionCalibratedClassifier",
    "GroupCalibratedClassifier",
    "LpCalibratedClassifier",
    "PlattScaling",
]

_HOME = {
    "BinnedMean": ".binned_mean",
    "CalibratedClassifier": ".calibrated_classifier",
    "DecisionCalibratedClassifier": ".decision_calibrated_classifier",
    "GroupCalibratedClassifier": ".group_calibrated_classifier",
    "LpCalibratedClassifier": ".lp_calibrated_classifier",
    "PlattScaling": ".platt_scaling",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
