"""River wrappers around a classifier."""

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
