"""How far from calibrated: one notion a file, pure functions on arrays.

Names are loaded when they are first asked for: a measure that needs compiled kernels or a solver loads them
only when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onlinecal.lazy import lazy_names

if TYPE_CHECKING:
    from onlinecal.measures.decision import (
        bayes_decisions,
        decision_calibration_error,
        decision_loss_gap,
        decision_losses,
        loss_set_gaps,
    )
    from onlinecal.measures.decision_width import confidence_width
    from onlinecal.measures.distance import (
        CalibrationDistance,
        calibration_distance,
        calibration_distance_from_counts,
    )
    from onlinecal.measures.expected import expected_calibration_error
    from onlinecal.measures.group_report import MulticalibrationReport, multicalibration_report
    from onlinecal.measures.levels import is_perfectly_calibrated
    from onlinecal.measures.lower import (
        LowerCalibrationDistance,
        lower_calibration_distance,
        lower_calibration_distance_from_counts,
    )
    from onlinecal.measures.monitor import CalibrationMonitor, Interval
    from onlinecal.measures.multicalibration import (
        functional_multicalibration_error,
        group_mean_error,
        multicalibration_error,
    )
    from onlinecal.measures.multiclass import (
        LevelSetError,
        lp_calibration_error,
        lp_calibration_report,
    )
    from onlinecal.measures.multiclass_conditional import linf_conditional_error
    from onlinecal.measures.multiclass_distance import (
        MulticlassDistance,
        multiclass_calibration_distance,
    )
    from onlinecal.measures.multiclass_events import (
        classwise_calibration_error,
        confidence_calibration_error,
        top_label_calibration_error,
    )
    from onlinecal.measures.multiclass_interval import lp_calibration_interval
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
    "CalibrationDistance": ".distance",
    "CalibrationMonitor": ".monitor",
    "Interval": ".monitor",
    "LevelSetError": ".multiclass",
    "LowerCalibrationDistance": ".lower",
    "MulticalibrationReport": ".group_report",
    "MulticlassDistance": ".multiclass_distance",
    "calibration_distance": ".distance",
    "calibration_distance_from_counts": ".distance",
    "bayes_decisions": ".decision",
    "classwise_calibration_error": ".multiclass_events",
    "confidence_calibration_error": ".multiclass_events",
    "confidence_width": ".decision_width",
    "decision_calibration_error": ".decision",
    "decision_loss_gap": ".decision",
    "decision_losses": ".decision",
    "expected_calibration_error": ".expected",
    "functional_multicalibration_error": ".multicalibration",
    "group_mean_error": ".multicalibration",
    "is_perfectly_calibrated": ".levels",
    "linf_conditional_error": ".multiclass_conditional",
    "loss_set_gaps": ".decision",
    "lower_calibration_distance": ".lower",
    "lower_calibration_distance_from_counts": ".lower",
    "multicalibration_error": ".multicalibration",
    "multicalibration_report": ".group_report",
    "multiclass_calibration_distance": ".multiclass_distance",
    "lp_calibration_error": ".multiclass",
    "lp_calibration_interval": ".multiclass_interval",
    "lp_calibration_report": ".multiclass",
    "smooth_calibration_error": ".smooth",
    "smooth_calibration_error_from_counts": ".smooth",
    "smooth_calibration_witness": ".smooth",
    "top_label_calibration_error": ".multiclass_events",
}


__getattr__, __dir__ = lazy_names(__name__, _HOME)
