"""How far from calibrated: one notion a file, pure functions on arrays.

Names are loaded when they are first asked for: a measure that needs compiled kernels or a solver loads them
only when it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onlinecal.measures.distance import (
        CalibrationDistance,
        calibration_distance,
        calibration_distance_from_counts,
    )
    from onlinecal.measures.expected import expected_calibration_error
    from onlinecal.measures.levels import is_perfectly_calibrated
    from onlinecal.measures.lower import (
        LowerCalibrationDistance,
        lower_calibration_distance,
        lower_calibration_distance_from_counts,
    )
    from onlinecal.measures.monitor import CalibrationMonitor, Interval
    from onlinecal.measures.multiclass_distance import (
        MulticlassDistance,
        multiclass_calibration_distance,
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
    "LowerCalibrationDistance",
    "MulticlassDistance",
    "calibration_distance",
    "calibration_distance_from_counts",
    "expected_calibration_error",
    "is_perfectly_calibrated",
    "lower_calibration_distance",
    "lower_calibration_distance_from_counts",
    "multiclass_calibration_distance",
    "smooth_calibration_error",
    "smooth_calibration_error_from_counts",
    "smooth_calibration_witness",
]

_HOME = {
    "CalibrationDistance": "distance",
    "CalibrationMonitor": "monitor",
    "Interval": "monitor",
    "LowerCalibrationDistance": "lower",
    "MulticlassDistance": "multiclass_distance",
    "calibration_distance": "distance",
    "calibration_distance_from_counts": "distance",
    "expected_calibration_error": "expected",
    "is_perfectly_calibrated": "levels",
    "lower_calibration_distance": "lower",
    "lower_calibration_distance_from_counts": "lower",
    "multiclass_calibration_distance": "multiclass_distance",
    "smooth_calibration_error": "smooth",
    "smooth_calibration_error_from_counts": "smooth",
    "smooth_calibration_witness": "smooth",
}


def __getattr__(name: str) -> Any:
    try:
        home = _HOME[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
