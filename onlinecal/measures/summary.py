"""The measures of one history together: what a command, a sweep and an evaluation say of it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats
from onlinecal.measures.distance.calibration_distance import CalibrationDistance, calibration_distance
from onlinecal.measures.distance.fractional.relaxation import lower_calibration_distance
from onlinecal.measures.scores import (
    best_constant_brier,
    brier_decomposition,
    brier_score,
    cross_entropy,
    expected_calibration_error,
)
from onlinecal.measures.smooth import smooth_calibration_error

Outcomes = NDArray[np.uint8] | Floats
"""0 and 1, or float64 where some lie between."""


@dataclass(frozen=True, eq=False)
class Summary:
    """What is measured of every history; errors are sums over rounds.

    Attributes
    ----------
    rounds, ones
        T, and how many outcomes were 1; the sum of the outcomes, if some lie between 0 and 1.
    ece
        Expected calibration error, grouped by exact forecast.
    distance
        Where the distance to calibration lies, with its witness.
    brier, brier_constant
        Sum of (p - y)^2 of the forecasts, and of the best constant forecast in hindsight.
    """

    rounds: int
    ones: float
    ece: float
    distance: CalibrationDistance
    brier: float
    brier_constant: float


def summarize(
    forecasts: Floats,
    outcomes: Outcomes,
    *,
    look_ahead: Floats | None = None,
    budget: float = 1.0,
    rtol: float = 0.0,
) -> Summary:
    """Measure a history, shapes (T,); look_ahead, budget and rtol as for `calibration_distance`."""
    distance = calibration_distance(forecasts, outcomes, look_ahead=look_ahead, budget=budget, rtol=rtol)
    are_whole = outcomes.dtype.kind != "f"
    ones = int(outcomes.sum(dtype=np.int64)) if are_whole else math.fsum(outcomes)
    rounds = len(outcomes)
    ece = expected_calibration_error(forecasts, outcomes)
    brier = brier_score(forecasts, outcomes)
    constant = (
        best_constant_brier(rounds, ones)
        if are_whole
        else brier_score(np.full(rounds, ones / rounds), outcomes)
    )
    return Summary(rounds, ones, ece, distance, brier, constant)


@dataclass(frozen=True)
class Errors:
    """How one column of forecasts did. All errors are sums over rounds; divide by `rounds` for averages.

    Attributes
    ----------
    forecast
        The column's name.
    rounds, ones
        T, and how many outcomes were 1; the sum of the outcomes, if some lie between 0 and 1.
    ece, ece_bins
        Expected calibration error by exact value, and in equal-width bins.
    smooth
        Smooth calibration error.
    lower_distance_low, lower_distance_high
        Where the lower distance to calibration lies.
    distance_low, distance_high
        Where the distance to calibration lies; the two are equal when it is known exactly.
    brier, brier_constant
        Sum of (p - y)^2 of the forecasts, and of the best constant forecast in hindsight.
    miscalibration, discrimination
        Of `brier_decomposition`: brier = miscalibration - discrimination + brier_constant.
    log_loss, log_loss_constant
        Sum of -log of what was given to the outcomes, by the forecasts and by the best constant.

    """

    forecast: str
    rounds: int
    ones: float
    ece: float
    ece_bins: float
    smooth: float
    lower_distance_low: float
    lower_distance_high: float
    distance_low: float
    distance_high: float
    brier: float
    brier_constant: float
    miscalibration: float
    discrimination: float
    log_loss: float
    log_loss_constant: float

    @property
    def averages(self) -> Errors:
        """The same per round."""
        kept = ("forecast", "rounds", "ones")
        return Errors(
            **{name: value if name in kept else value / self.rounds for name, value in asdict(self).items()}
        )

    def broken_bounds(self) -> list[str]:
        """Every inequality between the measures that does not hold, in words; empty if all is well."""
        lower, distance = "lower distance", "distance to calibration"
        chain: list[tuple[str, float | None, str, float | None]] = [
            ("½ smCE", self.smooth / 2, lower, self.lower_distance_high),
            (lower, self.lower_distance_low, "2 smCE", 2 * self.smooth),
            (lower, self.lower_distance_low, distance, self.distance_high),
            (distance, self.distance_low, "ECE", self.ece),
            ("ECE in bins", self.ece_bins, "ECE", self.ece),
            ("Brier regret", self.brier - self.brier_constant, f"2 × {distance}", 2 * self.distance_high),
        ]
        return [f"BROKEN: {text} ({self.forecast})" for text in unkept(chain, self.rounds)]


def all_errors(
    forecast: str, forecasts: Floats, outcomes: Outcomes, *, budget: float, bins: int
) -> tuple[Errors, Floats]:
    """Every measure of a column of forecasts, and the witness of its distance; inf makes that exact."""
    one = summarize(forecasts, outcomes, budget=budget)
    lower = lower_calibration_distance(forecasts, outcomes)
    parts = brier_decomposition(forecasts, outcomes)
    errors = Errors(
        forecast=forecast,
        rounds=one.rounds,
        ones=one.ones,
        ece=one.ece,
        ece_bins=expected_calibration_error(forecasts, outcomes, bins),
        smooth=smooth_calibration_error(forecasts, outcomes),
        lower_distance_low=lower.lower,
        lower_distance_high=lower.upper,
        distance_low=one.distance.lower,
        distance_high=one.distance.upper,
        brier=one.brier,
        brier_constant=one.brier_constant,
        miscalibration=parts.miscalibration,
        discrimination=parts.discrimination,
        log_loss=cross_entropy(forecasts, outcomes),
        log_loss_constant=cross_entropy(np.full(one.rounds, one.ones / one.rounds), outcomes),
    )
    return errors, one.distance.witness


def unkept(inequalities: Iterable[tuple[str, float | None, str, float | None]], rounds: int) -> list[str]:
    """In words, each (name, value, name of what it may not exceed, its value) that does not hold.

    The values are sums of so many rounded terms; None stands for what is not known.
    """
    slack = 1e-9 * rounds + 1e-9
    return [
        f"{small} {low:.6g} > {large} {high:.6g}"
        for small, low, large, high in inequalities
        if low is not None and high is not None and low > high + slack
    ]
