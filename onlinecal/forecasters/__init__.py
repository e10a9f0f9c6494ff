"""Forecasters that play online: forecast first, outcome second.

Those to compare with (`baselines`) are loaded when they are first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from onlinecal.forecasters.almost_one_step_ahead import AlmostOneStepAhead
from onlinecal.forecasters.one_step_ahead import OneStepAhead
from onlinecal.forecasters.simplex_almost_one_step_ahead import SimplexAlmostOneStepAhead
from onlinecal.forecasters.simplex_tokens import SimplexForecast
from onlinecal.forecasters.tokens import Forecast

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


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.baselines"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
