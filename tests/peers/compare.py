"""Our figures by a convention beside the package's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from onlinecal import (
    brier_decomposition,
    classwise_calibration_error,
    confidence_calibration_error,
    expected_calibration_error,
    top_label_calibration_error,
)
from onlinecal.measures.summary import package_figures

RECORD = Path(__file__).with_name("record.json")
TOLERANCE = 1e-6
ERRORS = {
    "confidence": confidence_calibration_error,
    "classwise": classwise_calibration_error,
    "top_label": top_label_calibration_error,
}


def ours(package: str, measure: str, given: dict[str, Any]) -> float:
    """What we give for an input by the convention of a package."""
    p, y, n_bins = np.array(given["forecasts"]), np.array(given["outcomes"]), given["bins"]
    if measure == "event":
        return expected_calibration_error(p, y, n_bins=n_bins, convention=package)
    if measure == "log_loss":
        loss = package_figures(package, p, y).log_loss
        assert loss is not None
        return loss
    if measure in ERRORS:
        rows, labels = given["probabilities"], given["labels"]
        return ERRORS[measure](rows, labels, n_bins=n_bins, convention=package)
    # the Brier score and its parts need no convention
    return float(getattr(brier_decomposition(p, y), measure))


def distance(first: float, second: float) -> float:
    """How far apart two figures are; two infinite ones are equal."""
    return 0.0 if first == second else abs(first - second)


def largest_differences(inputs: list[dict[str, Any]], answers: dict[str, Any]) -> dict[str, dict[str, float]]:
    """By package and measure, over all inputs."""
    found: dict[str, dict[str, float]] = {}
    for package, answer in answers.items():
        found[package] = {}
        for given, figures in zip(inputs, answer["figures"], strict=True):
            for measure, theirs in figures.items():
                apart = distance(ours(package, measure, given), theirs)
                found[package][measure] = max(found[package].get(measure, 0.0), apart)
    return found


def read_record() -> dict[str, Any]:
    """Inputs, and what each package says of them."""
    record: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
    return record
