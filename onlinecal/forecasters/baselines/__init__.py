"""Forecasters to compare with: simple ones, and those of the literature.

Randomised ones draw from a seeded generator. Their rates hold while the adversary does not see the draw.
Names are loaded when they are first asked for.

What each forecasts for a seed is in the corpus (`tests/corpus`), and may change only where that is meant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onlinecal.lazy import lazy_names

# The imports under TYPE_CHECKING are the package's public list; `lazy_names` reads them at run time. Each
# stands as `name as name`, and nothing else may stand there.
if TYPE_CHECKING:
    from onlinecal.forecasters.baselines.grid import (
        FosterForecaster as FosterForecaster,
        FosterHartForecaster as FosterHartForecaster,
        FosterVohraForecaster as FosterVohraForecaster,
        LinearOptimisationForecaster as LinearOptimisationForecaster,
        MinimaxForecaster as MinimaxForecaster,
        PowerOfTwoChoices as PowerOfTwoChoices,
    )
    from onlinecal.forecasters.baselines.mixing import Baseline as Baseline
    from onlinecal.forecasters.baselines.simple import (
        ConstantForecaster as ConstantForecaster,
        DriftCorrectedHalf as DriftCorrectedHalf,
        RunningMean as RunningMean,
        UCalibratedForecaster as UCalibratedForecaster,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
