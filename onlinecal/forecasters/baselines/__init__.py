"""Forecasters to compare with: simple ones, and those of the literature.

Randomised ones draw from a seeded generator. Their rates hold while the adversary does not see the draw.
"""

from onlinecal.forecasters.baselines.baseline import Baseline
from onlinecal.forecasters.baselines.internal_regret import FosterVohraForecaster
from onlinecal.forecasters.baselines.linear_optimisation import LinearOptimisationForecaster
from onlinecal.forecasters.baselines.minimax import MinimaxForecaster
from onlinecal.forecasters.baselines.neighbours import (
    FosterForecaster,
    FosterHartForecaster,
    PowerOfTwoChoices,
)
from onlinecal.forecasters.baselines.simple import ConstantForecaster, DriftCorrectedHalf, RunningMean

__all__ = [
    "Baseline",
    "ConstantForecaster",
    "DriftCorrectedHalf",
    "FosterForecaster",
    "FosterHartForecaster",
    "FosterVohraForecaster",
    "LinearOptimisationForecaster",
    "MinimaxForecaster",
    "PowerOfTwoChoices",
    "RunningMean",
]
