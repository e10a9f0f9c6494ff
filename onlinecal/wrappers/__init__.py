"""River wrappers around a classifier or a regressor, loaded when they are first asked for.

Nothing here has a state. The names are public: code and pickles of users refer to them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onlinecal.lazy import lazy_names

# The imports under TYPE_CHECKING are the package's public list; `lazy_names` reads them at run time. Each
# stands as `name as name`, and nothing else may stand there.
if TYPE_CHECKING:
    from onlinecal.wrappers.calibrated_classifier import CalibratedClassifier as CalibratedClassifier
    from onlinecal.wrappers.columns.reports import StreamReport as StreamReport
    from onlinecal.wrappers.combine import (
        CombinedForecasts as CombinedForecasts,
        CombinedReport as CombinedReport,
        CombinedClassifier as CombinedClassifier,
        combine_forecasts as combine_forecasts,
    )
    from onlinecal.wrappers.groups import GroupCalibratedClassifier as GroupCalibratedClassifier
    from onlinecal.wrappers.late_labels import WrappedForecast as WrappedForecast
    from onlinecal.wrappers.maps import (
        BinnedMean as BinnedMean,
        DecisionCalibratedClassifier as DecisionCalibratedClassifier,
        LpCalibratedClassifier as LpCalibratedClassifier,
        PlattScaling as PlattScaling,
    )
    from onlinecal.wrappers.online_recalibrated_classifier import (
        OnlineRecalibratedClassifier as OnlineRecalibratedClassifier,
    )
    from onlinecal.wrappers.regressors import (
        CalibratedDistribution as CalibratedDistribution,
        CalibratedRegressor as CalibratedRegressor,
    )
    from onlinecal.wrappers.stream import (
        RecalibratedStream as RecalibratedStream,
        recalibrate_stream as recalibrate_stream,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
