"""Forecasters to compare with: simple ones, and those of the literature.

Randomised ones draw from a seeded generator. Their rates hold while the adversary does not see the draw.
Names are loaded when they are first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onlinecal.lazy import lazy_names

if TYPE_CHECKING:
    from onlinecal.forecasters.baselines.baseline import Baseline as Baseline
    from onlinecal.forecasters.baselines.internal_regret import FosterVohraForecaster as FosterVohraForecaster
    from onlinecal.forecasters.baselines.linear_optimisation import (
        LinearOptimisationForecaster as LinearOptimisationForecaster,
    )
    from onlinecal.forecasters.baselines.minimax import MinimaxForecaster as MinimaxForecaster
    from onlinecal.forecasters.baselines.neighbours import (
        FosterForecaster as FosterForecaster,
        FosterHartForecaster as FosterHartForecaster,
        PowerOfTwoChoices as PowerOfTwoChoices,
    )
    from onlinecal.forecasters.baselines.perturbed import UCalibratedForecaster as UCalibratedForecaster
    from onlinecal.forecasters.baselines.simple import (
        ConstantForecaster as ConstantForecaster,
        DriftCorrectedHalf as DriftCorrectedHalf,
        RunningMean as RunningMean,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
