"""How far from calibrated: one notion a file, pure functions on arrays.

Names are loaded when they are first asked for: a measure that needs compiled kernels or a solver loads them
only when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onlinecal.lazy import lazy_names

if TYPE_CHECKING:
    from onlinecal.measures.decision.errors import (
        bayes_decisions,
        decision_calibration_error,
        decision_loss_gap,
        decision_losses,
        loss_set_gaps,
    )
    from onlinecal.measures.decision.width import confidence_width
    from onlinecal.measures.distance.calibration_distance import (
        CalibrationDistance,
        calibration_distance,
        calibration_distance_from_counts,
    )
    from onlinecal.measures.distance.levels import is_perfectly_calibrated
    from onlinecal.measures.distance.lower import (
        LowerCalibrationDistance,
        lower_calibration_distance,
        lower_calibration_distance_from_counts,
    )
    from onlinecal.measures.distance.multiclass import (
        MulticlassDistance,
        multiclass_calibration_distance,
    )
    from onlinecal.measures.expected import expected_calibration_error
    from onlinecal.measures.groups.multicalibration import (
        functional_multicalibration_error,
        group_mean_error,
        multicalibration_error,
    )
    from onlinecal.measures.groups.report import MulticalibrationReport, multicalibration_report
    from onlinecal.measures.lp.conditional import linf_conditional_error
    from onlinecal.measures.lp.errors import (
        LevelSetError,
        lp_calibration_error,
        lp_calibration_report,
    )
    from onlinecal.measures.lp.interval import lp_calibration_interval
    from onlinecal.measures.monitor import CalibrationMonitor, Interval
    from onlinecal.measures.multiclass_events import (
        classwise_calibration_error,
        confidence_calibration_error,
        top_label_calibration_error,
    )
    from onlinecal.measures.smooth import (
        smooth_calibration_error,
        smooth_calibration_error_from_counts,
        smooth_calibration_witness,
    )

__all__ = [
    "CalibrationDistance",
    "CalibrationMonitor",
    "Interval",
    "LevelSetError",
    "LowerCalibrationDistance",
    "MulticalibrationReport",
    "MulticlassDistance",
    "bayes_decisions",
    "calibration_distance",
    "calibration_distance_from_counts",
    "classwise_calibration_error",
    "confidence_calibration_error",
    "confidence_width",
    "decision_calibration_error",
    "decision_loss_gap",
    "decision_losses",
    "expected_calibration_error",
    "functional_multicalibration_error",
    "group_mean_error",
    "is_perfectly_calibrated",
    "linf_conditional_error",
    "loss_set_gaps",
    "lower_calibration_distance",
    "lower_calibration_distance_from_counts",
    "lp_calibration_error",
    "lp_calibration_interval",
    "lp_calibration_report",
    "multicalibration_error",
    "multicalibration_report",
    "multiclass_calibration_distance",
    "smooth_calibration_error",
    "smooth_calibration_error_from_counts",
    "smooth_calibration_witness",
    "top_label_calibration_error",
]

_HOME = {
    "CalibrationDistance": ".distance.calibration_distance",
    "CalibrationMonitor": ".monitor",
    "Interval": ".monitor",
    "LevelSetError": ".lp.errors",
    "LowerCalibrationDistance": ".distance.lower",
    "MulticalibrationReport": ".groups.report",
    "MulticlassDistance": ".distance.multiclass",
    "calibration_distance": ".distance.calibration_distance",
    "calibration_distance_from_counts": ".distance.calibration_distance",
    "bayes_decisions": ".decision.errors",
    "classwise_calibration_error": ".multiclass_events",
    "confidence_calibration_error": ".multiclass_events",
    "confidence_width": ".decision.width",
    "decision_calibration_error": ".decision.errors",
    "decision_loss_gap": ".decision.errors",
    "decision_losses": ".decision.errors",
    "expected_calibration_error": ".expected",
    "functional_multicalibration_error": ".groups.multicalibration",
    "group_mean_error": ".groups.multicalibration",
    "is_perfectly_calibrated": ".distance.levels",
    "linf_conditional_error": ".lp.conditional",
    "loss_set_gaps": ".decision.errors",
    "lower_calibration_distance": ".distance.lower",
    "lower_calibration_distance_from_counts": ".distance.lower",
    "multicalibration_error": ".groups.multicalibration",
    "multicalibration_report": ".groups.report",
    "multiclass_calibration_distance": ".distance.multiclass",
    "lp_calibration_error": ".lp.errors",
    "lp_calibration_interval": ".lp.interval",
    "lp_calibration_report": ".lp.errors",
    "smooth_calibration_error": ".smooth",
    "smooth_calibration_error_from_counts": ".smooth",
    "smooth_calibration_witness": ".smooth",
    "top_label_calibration_error": ".multiclass_events",
}


__getattr__, __dir__ = lazy_names(__name__, _HOME)
