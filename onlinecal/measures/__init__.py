"""How far from calibrated: one notion a file, pure functions on arrays."""

from __future__ import annotations

from onlinecal.measures.distance import (
    CalibrationDistance,
    calibration_distance,
    calibration_distance_from_counts,
)
from onlinecal.measures.expected import expected_calibration_error
from onlinecal.measures.levels import is_perfectly_calibrated

__all__ = [
    "CalibrationDistance",
    "calibration_distance",
    "calibration_distance_from_counts",
    "expected_calibration_error",
    "is_perfectly_calibrated",
]
