"""Scores of probabilities that every method is compared by; averages over rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onlinecal.measures import confidence_calibration_error, expected_calibration_error

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BINS = 15
CLIP = 1e-15
"""Probabilities are kept this far from 0 in the log loss."""

CLASS_MEASURES = ("Brier score", "log loss", "accuracy", f"top-label ECE ({BINS} bins)")
EVENT_MEASURES = ("Brier score", "log loss", f"ECE ({BINS} bins)")


def class_scores(probabilities: Floats, labels: Ints) -> dict[str, float | None]:
    """`CLASS_MEASURES` of probabilities (n, k) and labels (n,); the Brier score is a sum over classes."""
    rows = np.arange(len(labels))
    errors = probabilities.copy()
    errors[rows, labels] -= 1.0
    given = np.clip(probabilities[rows, labels], CLIP, None)
    values = (
        float((errors**2).sum(axis=1).mean()),
        float(-np.log(given).mean()),
        float((probabilities.argmax(axis=1) == labels).mean()),
        confidence_calibration_error(probabilities, labels, BINS, normalize=True),
    )
    return dict(zip(CLASS_MEASURES, values, strict=True))


def event_scores(forecasts: Floats, outcomes: NDArray[np.uint8]) -> dict[str, float | None]:
    """`EVENT_MEASURES` of forecasts of one event, both of shape (n,)."""
    given = np.where(outcomes == 1, forecasts, 1.0 - forecasts)
    values = (
        float(((forecasts - outcomes) ** 2).mean()),
        float(-np.log(np.clip(given, CLIP, None)).mean()),
        expected_calibration_error(forecasts, outcomes, BINS, normalize=True),
    )
    return dict(zip(EVENT_MEASURES, values, strict=True))
