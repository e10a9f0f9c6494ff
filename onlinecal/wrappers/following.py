"""One stream of (hint, outcome) turned into calibrated forecasts, some of which wait for their outcome."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

from onlinecal.forecasters import AlmostOneStepAhead
from onlinecal.forecasters.tokens import Forecast


class Following:
    """The calibrated forecast nearest to a hint.

    Parameters
    ----------
    slack, horizon
        As in AlmostOneStepAhead.

    Attributes
    ----------
    forecaster
        Makes the forecasts.
    token
        The forecast that was asked for last, while it is here.
    """

    def __init__(self, slack: float, horizon: int | None) -> None:
        self.forecaster = AlmostOneStepAhead(horizon=horizon, slack=slack, report="hint", hints=True)
        self.token: Forecast | None = None

    def ask(self, hint: float) -> float:
        """Issue a forecast; an earlier one that was neither settled nor taken is given up."""
        if self.token is not None:
            self.forecaster.withdraw(self.token)
        self.token = self.forecaster.forecast(hint)
        return self.token.probability

    def take(self) -> Forecast:
        """Hand out the forecast that is here, to wait or to be settled."""
        assert self.token is not None
        token, self.token = self.token, None
        return token


def finite(value: Any) -> float | None:
    """A model's forecast, or a target, as a float; None if it is no finite number."""
    try:
        number = float(value) if isinstance(value, Real) else math.nan
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
