"""Measures of how far forecasts are from calibrated: pure functions on arrays, a file for each notion.

Of the names here `CalibrationMonitor` alone has a state, the rounds that it was given. Names are loaded when
they are first asked for: a measure that needs compiled kernels or a solver loads them only when it is used.
Names and signatures are kept in `tests/corpus/surface.txt`, and answers in the corpus beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onlinecal.lazy import lazy_names

# The imports under TYPE_CHECKING are the package's public list; `lazy_names` reads them at run time. Each
# stands as `name as name`, and nothing else may stand there.
if TYPE_CHECKING:
    from onlinecal.measures.counts import Counts as Counts
    from onlinecal.measures.decision.errors import (
        decision_calibration_error as decision_calibration_error,
        decision_loss_gap as decision_loss_gap,
        loss_set_gaps as loss_set_gaps,
    )
    from onlinecal.measures.decision.losses import (
        bayes_decisions as bayes_decisions,
        confidence_width as confidence_width,
        decision_losses as decision_losses,
    )
    from onlinecal.measures.decision.threshold import (
        ThresholdCosts as ThresholdCosts,
        threshold_costs as threshold_costs,
    )
    from onlinecal.measures.distance.bracket import (
        CalibrationMonitor as CalibrationMonitor,
        Interval as Interval,
    )
    from onlinecal.measures.distance.calibration_distance import (
        DistanceBracket as DistanceBracket,
        calibration_distance as calibration_distance,
        calibration_distance_from_counts as calibration_distance_from_counts,
    )
    from onlinecal.measures.distance.fractional.lower import (
        LowerCalibrationDistance as LowerCalibrationDistance,
        lower_calibration_distance as lower_calibration_distance,
        lower_calibration_distance_from_counts as lower_calibration_distance_from_counts,
    )
    from onlinecal.measures.distance.levels import is_perfectly_calibrated as is_perfectly_calibrated
    from onlinecal.measures.distance.multiclass import (
        MulticlassDistance as MulticlassDistance,
        multiclass_calibration_distance as multiclass_calibration_distance,
    )
    from onlinecal.measures.groups import (
        GroupLine as GroupLine,
        MulticalibrationReport as MulticalibrationReport,
        functional_multicalibration_error as functional_multicalibration_error,
        group_mean_error as group_mean_error,
        multicalibration_error as multicalibration_error,
        multicalibration_report as multicalibration_report,
    )
    from onlinecal.measures.lp.errors import (
        LevelSetError as LevelSetError,
        linf_conditional_error as linf_conditional_error,
        lp_calibration_error as lp_calibration_error,
        lp_calibration_interval as lp_calibration_interval,
        lp_calibration_report as lp_calibration_report,
    )
    from onlinecal.measures.scores import (
        BrierDecomposition as BrierDecomposition,
        CumulativeCalibrationError as CumulativeCalibrationError,
        brier_decomposition as brier_decomposition,
        classwise_calibration_error as classwise_calibration_error,
        confidence_calibration_error as confidence_calibration_error,
        cumulative_calibration_error as cumulative_calibration_error,
        expected_calibration_error as expected_calibration_error,
        top_label_calibration_error as top_label_calibration_error,
        two_bin_error as two_bin_error,
    )
    from onlinecal.measures.smooth import (
        smooth_calibration_error as smooth_calibration_error,
        smooth_calibration_error_from_counts as smooth_calibration_error_from_counts,
        smooth_calibration_witness as smooth_calibration_witness,
    )
    from onlinecal.measures.summary import ChanceLevel as ChanceLevel, chance_level as chance_level
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
