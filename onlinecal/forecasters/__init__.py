"""Forecasters that play online: forecast first, outcome second."""

from onlinecal.forecasters.almost_one_step_ahead import AlmostOneStepAhead
from onlinecal.forecasters.one_step_ahead import OneStepAhead
from onlinecal.forecasters.simplex_almost_one_step_ahead import SimplexAlmostOneStepAhead
from onlinecal.forecasters.simplex_tokens import SimplexForecast
from onlinecal.forecasters.tokens import Forecast

__all__ = ["AlmostOneStepAhead", "Forecast", "OneStepAhead", "SimplexAlmostOneStepAhead", "SimplexForecast"]
