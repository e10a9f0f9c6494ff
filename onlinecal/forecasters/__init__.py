"""Forecasters that play online: forecast first, outcome second.

Those to compare with (`baselines`) are loaded when they are first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onlinecal.forecasters.binary.almost_one_step_ahead import AlmostOneStepAhead
from onlinecal.forecasters.binary.one_step_ahead import OneStepAhead
from onlinecal.forecasters.simplex.almost_one_step_ahead import SimplexAlmostOneStepAhead
from onlinecal.forecasters.simplex.tokens import SimplexForecast
from onlinecal.forecasters.tokens import Forecast
from onlinecal.lazy import lazy_names

if TYPE_CHECKING:
    from onlinecal.forecasters.baselines import (
        Baseline,
        ConstantForecaster,
        DriftCorrectedHalf,
        FosterForecaster,
        FosterHartForecaster,
        FosterVohraForecaster,
        LinearOptimisationForecaster,
        MinimaxForecaster,
        PowerOfTwoChoices,
        RunningMean,
    )

__all__ = [
    "AlmostOneStepAhead",
    "Baseline",
    "ConstantForecaster",
    "DriftCorrectedHalf",
    "Forecast",
    "FosterForecaster",
    "FosterHartForecaster",
    "FosterVohraForecaster",
    "LinearOptimisationForecaster",
    "MinimaxForecaster",
    "OneStepAhead",
    "PowerOfTwoChoices",
    "RunningMean",
    "SimplexAlmostOneStepAhead",
    "SimplexForecast",
]

__getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(__all__, ".baselines"))
