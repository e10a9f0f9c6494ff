"""Forecasters that play online: forecast first, outcome second.

Names are loaded when they are first asked for.

A forecaster is a class that holds one flat array, and functions that play on it (`rules`). Names and
signatures are kept in `tests/corpus/surface.txt`, and what all of them forecast in the corpus beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onlinecal.lazy import lazy_names

# The imports under TYPE_CHECKING are the package's public list; `lazy_names` reads them at run time. Each
# stands as `name as name`, and nothing else may stand there.
if TYPE_CHECKING:
    from onlinecal.forecasters.baselines import (
        Baseline as Baseline,
        ConstantForecaster as ConstantForecaster,
        DriftCorrectedHalf as DriftCorrectedHalf,
        FosterForecaster as FosterForecaster,
        FosterHartForecaster as FosterHartForecaster,
        FosterVohraForecaster as FosterVohraForecaster,
        LinearOptimisationForecaster as LinearOptimisationForecaster,
        MinimaxForecaster as MinimaxForecaster,
        PowerOfTwoChoices as PowerOfTwoChoices,
        RunningMean as RunningMean,
        UCalibratedForecaster as UCalibratedForecaster,
    )
    from onlinecal.forecasters.binary.almost_one_step_ahead import (
        AlmostOneStepAhead as AlmostOneStepAhead,
        OneStepAhead as OneStepAhead,
    )
    from onlinecal.forecasters.binary.grid import LookAhead as LookAhead
    from onlinecal.forecasters.simplex.almost_one_step_ahead import (
        SimplexAlmostOneStepAhead as SimplexAlmostOneStepAhead,
        SimplexLookAhead as SimplexLookAhead,
    )
    from onlinecal.forecasters.tokens import BinaryForecast as BinaryForecast
    from onlinecal.forecasters.tokens import SimplexForecast as SimplexForecast
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
