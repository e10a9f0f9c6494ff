"""Any river regressor of a bounded target, with mean forecasts whose distance to calibration is certified."""

from __future__ import annotations

from typing import Any

from river import base, linear_model

from onlinecal.forecasters.binary.grid import check_slack
from onlinecal.forecasters.tokens import Forecast
from onlinecal.validation import check_count, check_finite
from onlinecal.wrappers.late_labels import MOST_WAITING, NOTHING, LateRounds
from onlinecal.wrappers.wrapper import Following, RegressorWrapper, finite


class CalibratedRegressor(LateRounds[Forecast], RegressorWrapper):
    """Wrap a river regressor of a bounded target: its forecasts stay right on average, under any drift.

    Calibrated means: of the rounds with forecast v the targets have the mean v. The model's forecast, moved
    into [low, high], is the hint; Almost-One-Step-Ahead answers with the nearest forecast that keeps the
    distance to calibration bounded, whatever targets come. The hint is always read before the model learns.

    Parameters
    ----------
    regressor
        The model to wrap; pipelines are welcome. Where it has no finite forecast the middle is the hint.
    low, high
        Between them lie all targets, in their own units.
    slack
        How far a grid point's bias may grow, as a share of high - low: more slack follows the model more
        closely, for a weaker guarantee. At least 0.5.
    horizon
        How many rounds will be played, if known.
    most_waiting
        How many forecasts may wait for their targets, of 1 KB each; beyond that the oldest are given up.

    Attributes
    ----------
    regressor, low, high, slack, horizon, most_waiting
        As given.
    n_rounds
        Settled rounds.
    n_unmatched
        Targets that came without their forecast.

    Notes
    -----
    Certificate and guarantee speak of forecasts that were given, each with the target that settled it. Late
    targets find their forecasts by tokens, `forecast` and `observe`; or, in `learn_one`, by equal features:
    the last forecast if it was for the very same object, else the oldest that waits. It is then assumed that
    targets of equal features come in the order of their forecasts, none of them missing. The guarantee
    includes what the largest number of forecasts open at once may cost. The target of features that nobody
    asked about, or whose forecast was given up, is counted in `n_unmatched`, the model learns it, and it
    settles nothing.

    Examples
    --------
    >>> from river import datasets, linear_model, preprocessing
    >>> from onlinecal import CalibratedRegressor
    >>> model = preprocessing.StandardScaler() | linear_model.LinearRegression(intercept_lr=0.1)
    >>> model = CalibratedRegressor(model, low=0, high=100)
    >>> for x, y in datasets.TrumpApproval():
    ...     forecast = model.predict_one(x)
    ...     model.learn_one(x, y)
    >>> model.n_rounds
    1001
    >>> model.certificate / model.n_rounds < 2  # at most 2 percentage points from calibrated, proven
    True

    References
    ----------
    docs/shares.md; docs/theory.md, the section on outcomes in [0, 1].
    """

    def __init__(
        self,
        regressor: base.Regressor,
        low: float = 0.0,
        high: float = 1.0,
        slack: float = 1.0,
        horizon: int | None = None,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        RegressorWrapper.__init__(self, regressor)
        if not check_finite(low, "low") < check_finite(high, "high"):
            raise ValueError(f"low must be below high={high!r}, got {low!r}")
        check_finite(float(high) - float(low), "high - low")
        check_slack(slack)
        if horizon is not None:
            check_count(horizon, "horizon")
        LateRounds.__init__(self, most_waiting)
        self.low = low
        self.high = high
        self.slack = slack
        self.horizon = horizon
        self._following = Following(slack, horizon)

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"regressor": linear_model.LinearRegression(), "low": -1000.0, "high": 1000.0}

    def raw_predict_one(self, x: Any) -> float:
        """The wrapped model's own forecast."""
        return self.regressor.predict_one(x)

    def predict_one(self, x: Any, **kwargs: Any) -> float:
        """The calibrated forecast of the target's mean, in [low, high]."""
        raw = finite(self.regressor.predict_one(x, **kwargs))
        if x is not self._features:
            if self._features is not NOTHING:
                self._make_way()
            self._features = x
        width = self.high - self.low
        hint = 0.5 if raw is None else (min(max(raw, self.low), self.high) - self.low) / width
        return min(self.low + width * self._following.ask(hint), float(self.high))

    def _learn(self, asked: Any, x: Any, y: Any, kwargs: dict[str, Any]) -> None:
        target = finite(y)
        if target is None or not self.low <= target <= self.high:
            raise ValueError(f"y must be a number from low={self.low:g} to high={self.high:g}, got {y!r}")
        forecast = self._due(asked)
        if forecast is not None:
            self._following.forecaster.observe(forecast, (target - self.low) / (self.high - self.low))
            self.n_rounds += 1
        self.regressor.learn_one(x, y, **kwargs)

    @property
    def certificate(self) -> float:
        """A proven upper bound on the distance to calibration so far, in units of the target.

        A sum over the settled rounds: divided by `n_rounds`, how far forecasts are from right on average.
        """
        return self._following.forecaster.certificate * (self.high - self.low)

    @property
    def guarantee(self) -> float:
        """What the certificate cannot exceed, whatever the targets, in their units."""
        return self._following.forecaster.guarantee * (self.high - self.low)

    def _answer_to(self, x: Any, **kwargs: Any) -> float:
        return self.predict_one(x, **kwargs)

    def _hand_out(self) -> Forecast:
        return self._following.take()

    def _give_up(self, forecast: Forecast) -> None:
        self._following.forecaster.withdraw(forecast)
