"""River wrappers around a classifier or a regressor, loaded when they are first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onlinecal.lazy import lazy_names

if TYPE_CHECKING:
    from onlinecal.wrappers.calibrated_classifier import CalibratedClassifier as CalibratedClassifier
    from onlinecal.wrappers.calibrated_distribution import CalibratedDistribution as CalibratedDistribution
    from onlinecal.wrappers.calibrated_regressor import CalibratedRegressor as CalibratedRegressor
    from onlinecal.wrappers.decision_calibrated_classifier import (
        DecisionCalibratedClassifier as DecisionCalibratedClassifier,
    )
    from onlinecal.wrappers.group_calibrated_classifier import (
        GroupCalibratedClassifier as GroupCalibratedClassifier,
    )
    from onlinecal.wrappers.late_labels import WrappedForecast as WrappedForecast
    from onlinecal.wrappers.lp_calibrated_classifier import LpCalibratedClassifier as LpCalibratedClassifier
    from onlinecal.wrappers.maps import BinnedMean as BinnedMean
    from onlinecal.wrappers.maps import PlattScaling as PlattScaling
    from onlinecal.wrappers.stream import (
        RecalibratedStream as RecalibratedStream,
        StreamReport as StreamReport,
        recalibrate_stream as recalibrate_stream,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
