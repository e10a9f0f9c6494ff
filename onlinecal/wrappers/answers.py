"""From single forecasts to answers that sum to 1."""

from __future__ import annotations

from onlinecal.recalibration.spread import spread_rest
from onlinecal.wrappers.labels import Label


def spread_top(masses: dict[Label, float], best: Label, p: float) -> dict[Label, float]:
    """The probability p for the best label, the rest shared by the others as `spread_rest` does.

    NaN counts as no mass, and values are moved into [0, 1].
    """
    others = {label: min(max(0.0, mass), 1.0) for label, mass in masses.items() if label != best}
    return {best: p, **dict(zip(others, spread_rest(list(others.values()), p), strict=True))}


def normalised(masses: dict[Label, float]) -> dict[Label, float]:
    """Non-negative masses divided by their sum; equal shares if all are zero."""
    total = sum(masses.values())
    if total <= 0.0:
        return {label: 1.0 / len(masses) for label in masses}
    return {label: mass / total for label, mass in masses.items()}
