"""Calibrated forecasting on live streams, with a proof that runs along.

Names are loaded when they are first asked for, so that importing the package stays cheap.

The public names with their signatures are kept in `tests/corpus/surface.txt`, and a test compares them: who
takes a name away, or changes a signature, writes that file anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onlinecal.lazy import lazy_names

# The imports under TYPE_CHECKING are the package's public list; `lazy_names` reads them at run time. Each
# stands as `name as name`, and nothing else may stand there.
if TYPE_CHECKING:
    from onlinecal import (
        adversaries as adversaries,
        alarms as alarms,
        datasets as datasets,
        engine as engine,
        forecasters as forecasters,
        measures as measures,
        metrics as metrics,
        plots as plots,
        recalibration as recalibration,
        reference as reference,
        simulations as simulations,
        wrappers as wrappers,
    )
    from onlinecal.alarms import CalibrationAlarm as CalibrationAlarm
    from onlinecal.forecasters import (
        AlmostOneStepAhead as AlmostOneStepAhead,
        OneStepAhead as OneStepAhead,
        SimplexAlmostOneStepAhead as SimplexAlmostOneStepAhead,
    )
    from onlinecal.measures import (
        ThresholdCosts as ThresholdCosts,
        CalibrationMonitor as CalibrationMonitor,
        brier_decomposition as brier_decomposition,
        calibration_distance as calibration_distance,
        calibration_distance_from_counts as calibration_distance_from_counts,
        chance_level as chance_level,
        classwise_calibration_error as classwise_calibration_error,
        confidence_calibration_error as confidence_calibration_error,
        cumulative_calibration_error as cumulative_calibration_error,
        decision_calibration_error as decision_calibration_error,
        decision_loss_gap as decision_loss_gap,
        expected_calibration_error as expected_calibration_error,
        linf_conditional_error as linf_conditional_error,
        lower_calibration_distance as lower_calibration_distance,
        lp_calibration_error as lp_calibration_error,
        multicalibration_error as multicalibration_error,
        multiclass_calibration_distance as multiclass_calibration_distance,
        smooth_calibration_error as smooth_calibration_error,
        threshold_costs as threshold_costs,
        top_label_calibration_error as top_label_calibration_error,
        two_bin_error as two_bin_error,
    )
    from onlinecal.recalibration import (
        BoostedRecalibrator as BoostedRecalibrator,
        DecisionRecalibrator as DecisionRecalibrator,
        GroupRecalibrator as GroupRecalibrator,
        LpRecalibrator as LpRecalibrator,
        RecalibratedClassifierCV as RecalibratedClassifierCV,
    )
    from onlinecal.remarks import (
        GuaranteeWarning as GuaranteeWarning,
        LabelWarning as LabelWarning,
    )
    from onlinecal.version import __version__ as __version__
    from onlinecal.wrappers import (
        BinnedMean as BinnedMean,
        CalibratedClassifier as CalibratedClassifier,
        CalibratedDistribution as CalibratedDistribution,
        CalibratedRegressor as CalibratedRegressor,
        CombinedClassifier as CombinedClassifier,
        CombinedForecasts as CombinedForecasts,
        DecisionCalibratedClassifier as DecisionCalibratedClassifier,
        GroupCalibratedClassifier as GroupCalibratedClassifier,
        LpCalibratedClassifier as LpCalibratedClassifier,
        OnlineRecalibratedClassifier as OnlineRecalibratedClassifier,
        PlattScaling as PlattScaling,
        RecalibratedStream as RecalibratedStream,
        combine_forecasts as combine_forecasts,
        recalibrate_stream as recalibrate_stream,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
