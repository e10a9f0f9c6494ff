"""Any river regressor: mean forecasts, or chances of thresholds, with a certified distance to calibration.

A round is opened when a forecast is asked for: each forecaster issues a token, and the tokens stand in
`_here`. The round waits and comes back as `LateRounds` says. Its target settles every token, once
(`_settle`), or every token is withdrawn (`_give_up`). So at any time each forecaster has the same number of
open tokens, one for each round that is open or waits. `CalibratedDistribution` keeps with them what the model
said, since that says something else once it has learnt. Its `_errors` are `_latest` in order: `_note` writes
both.

`_read` refuses targets outside [low, high], or that are not finite, before anything is charged. A hint is
half a count more than the share of errors (`_hint`), which is part of answers, as the putting in order is.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

from river import base, linear_model
from river.conf import Interval

from onlinecal.forecasters import AlmostOneStepAhead
from onlinecal.forecasters.binary.choice import check_slack
from onlinecal.forecasters.tokens import BinaryForecast
from onlinecal.validation import check_count, check_finite, check_increasing, check_open_unit
from onlinecal.wrappers.late_labels import MOST_WAITING, LateRounds
from onlinecal.wrappers.models import check_model

Announced = tuple[list[BinaryForecast], float | None]
"""A round: the forecast of each event, and the model's forecast or None."""


class RegressorWrapper(LateRounds[Announced], base.Wrapper, base.Regressor):
    """A regressor around a regressor, with so many forecasters, each of which follows a hint."""

    def __init__(
        self, regressor: base.Regressor, slack: float, horizon: int | None, most_waiting: int, number: int
    ) -> None:
        advice = ": it must answer with numbers by predict_one, and learn by learn_one"
        check_model(regressor, "regressor", base.Regressor, "predict_one", advice)
        check_slack(slack)
        if horizon is not None:
            horizon = check_count(horizon, "horizon")
        super().__init__(most_waiting)
        self.regressor, self.slack, self.horizon = regressor, slack, horizon
        self._forecasters = [
            AlmostOneStepAhead(horizon=horizon, slack=slack, report="hint", hints=True) for _ in range(number)
        ]

    @property
    def _wrapped_model(self) -> base.Regressor:
        return self.regressor

    def _begin(self, x: Any) -> None:
        """Open a round of these features; if it is open already, its last forecast is given up."""
        self._open(x)
        if self._here is not None:
            self._give_up(self._here)

    def _taken(self) -> Announced:
        """The round that is here, which is settled now."""
        assert self._here is not None
        announced, self._here = self._here, None
        return announced

    def _give_up(self, forecast: Announced) -> None:
        for forecaster, token in zip(self._forecasters, forecast[0], strict=True):
            forecaster.withdraw(token)

    def _teach(self, x: Any, y: Any, kwargs: dict[str, Any]) -> None:
        self.regressor.learn_one(x, y, **kwargs)


def finite(value: Any) -> float | None:
    """A number as a float; None if it is no finite number."""
    try:
        number = float(value) if isinstance(value, Real) else math.nan
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def forecast_of(regressor: base.Regressor, x: Any, kwargs: Mapping[str, Any]) -> float | None:
    """A model's forecast; None while it has no finite one. ValueError for an answer that is no number.

    A model that is asked for an interval is asked again for the forecast inside it.
    """
    answer = regressor.predict_one(x, **kwargs)
    if isinstance(answer, Interval):
        point_only = {name: value for name, value in kwargs.items() if name != "with_interval"}
        answer = regressor.predict_one(x, **point_only)
    if getattr(answer, "ndim", None) == 0:  # an array of one number
        answer = answer.item()
    if answer is not None and not isinstance(answer, Real):
        raise ValueError(f"regressor must answer with a number, or None while it has none, got {answer!r}")
    return finite(answer)


class CalibratedRegressor(RegressorWrapper):
    """Wrap a river regressor of a bounded target: its forecasts stay right on average, under any drift.

    Calibrated means: of the rounds with forecast v the targets have the mean v. The model's forecast, moved
    into [low, high], is the hint. The rule of `AlmostOneStepAhead` answers with the forecast nearest to the
    hint that keeps the distance to calibration bounded, whatever targets come. A round's hint is made before
    the model learns its target.

    Parameters
    ----------
    regressor
        The model to wrap; pipelines are welcome. Where it has no finite forecast the middle of low and high
        is the hint.
    low, high
        All targets lie from low to high, in the targets' units; both are finite, and low is below high.
        Another target is refused with ValueError when it comes.
    slack
        How far forecast minus target, divided by high - low and added up over the rounds with the same
        forecast, may be from 0: more slack follows the model more closely, for a weaker guarantee. From 0.5
        to 1000.
    horizon
        How many rounds will be played, if known, at least 1: the guarantee is then smaller. More rounds may
        follow.
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

    Raises
    ------
    ValueError
        For a bad parameter; the message names it and the value.

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
        *,
        slack: float = 1.0,
        horizon: int | None = None,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        super().__init__(regressor, slack, horizon, most_waiting, 1)
        if not check_finite(low, "low") < check_finite(high, "high"):
            raise ValueError(f"low must be below high={high!r}, got {low!r}")
        check_finite(float(high) - float(low), "high - low")
        self.low, self.high = low, high

    _asks = "predict_one"

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"regressor": linear_model.LinearRegression(), "low": -1000.0, "high": 1000.0}

    def predict_one(self, x: Any, **kwargs: Any) -> float:
        """The calibrated forecast of the target's mean for the features x, from `low` to `high`.

        Asking opens a round, which the target of equal features settles in `learn_one`. Asking about the very
        same object again, with nothing else asked in between, answers for the same round anew: the last
        answer counts. Nothing is learnt. Keywords go to the wrapped model; with `with_interval=True` the
        model is asked once more, without it, for its single forecast. A model that answers None, or NaN,
        counts as if it had said the middle of `low` and `high`. Raises ValueError if the model answers with
        something else that is no number.
        """
        raw = forecast_of(self.regressor, x, kwargs)
        width = self.high - self.low
        hint = 0.5 if raw is None else (min(max(raw, self.low), self.high) - self.low) / width
        self._begin(x)
        token = self._forecasters[0].forecast(hint)
        self._here = [token], None
        return min(self.low + width * token.probability, float(self.high))

    def _read(self, y: Any) -> float:
        target = finite(y)
        if target is None or not self.low <= target <= self.high:
            raise ValueError(f"y must be a number from low={self.low:g} to high={self.high:g}, got {y!r}")
        return target

    def _settle(self, read: float) -> None:
        (token,), _ = self._taken()
        self._forecasters[0].observe(token, (read - self.low) / (self.high - self.low))

    @property
    def certificate(self) -> float:
        """A proven upper bound on the distance to calibration so far, in units of the target.

        It is a sum over the settled rounds. Divided by `n_rounds` it bounds by how much, on average, the
        forecasts would have to be moved to be calibrated.
        """
        return self._forecasters[0].certificate * (self.high - self.low)

    @property
    def guarantee(self) -> float:
        """What `certificate` cannot exceed, whatever the targets, in their units: a sum over settled rounds.

        With a `horizon` that is still to come it is the bound at the horizon.
        """
        return self._forecasters[0].guarantee * (self.high - self.low)


class CalibratedDistribution(RegressorWrapper):
    """Wrap a river regressor: calibrated probabilities that the target is at most q, for thresholds q.

    Each threshold is an event with a forecaster of its own. What it follows, its hint, is the share of the
    model's latest errors (target minus forecast) with which the target would be at most q. The forecasts are
    sorted before they are given, so they are a distribution function; by how much this moves each of them is
    counted in its certificate.

    Parameters
    ----------
    regressor
        The model to wrap; pipelines are welcome. Its targets may be any finite numbers.
    thresholds
        Increasing finite numbers, at least one, in the target's units: a list, an array or a Series.
    slack
        How far forecast minus outcome (1 if the target is at most q, else 0), added up over the rounds with
        the same forecast, may be from 0: more slack follows the hints more closely, for a weaker guarantee.
        From 0.5 to 1000.
    horizon
        How many rounds will be played, if known, at least 1: the guarantees are then smaller. More rounds may
        follow.
    window
        How many of the model's latest errors make the hints, at least 1.
    most_waiting
        How many forecasts may wait for their targets, of up to 1 KB for each threshold; beyond that the
        oldest are given up.

    Attributes
    ----------
    regressor, thresholds, slack, horizon, window, most_waiting
        As given, the thresholds as a tuple.
    n_rounds
        Settled rounds.
    n_unmatched
        Targets that came without their forecast.

    Raises
    ------
    ValueError
        For a bad parameter; the message names it and the value.

    Notes
    -----
    Sorting the forecasts never raises the sum of their squared errors over the thresholds, in any round.
    There is no bound beforehand on how far it may move one threshold's forecast: `moved` says how far it did,
    and that is added to both `certificates` and `guarantees`.

    Late targets find their forecasts by tokens (`forecast`, `observe`), or in `learn_one` by equal features,
    the oldest first: it is assumed that targets of equal features come in the order of their forecasts, none
    of them missing. From targets without a forecast the hints learn the error that the model makes now.

    Examples
    --------
    >>> from river import datasets, linear_model, preprocessing
    >>> from onlinecal import CalibratedDistribution
    >>> model = preprocessing.StandardScaler() | linear_model.LinearRegression(intercept_lr=0.1)
    >>> model = CalibratedDistribution(model, thresholds=[38, 40, 42])
    >>> for x, y in datasets.TrumpApproval():
    ...     chances = model.predict_distribution_one(x)
    ...     model.learn_one(x, y)
    >>> list(chances), list(chances.values()) == sorted(chances.values())
    ([38, 40, 42], True)
    >>> all(bound / model.n_rounds < 0.1 for bound in model.certificates.values())
    True

    References
    ----------
    docs/theory.md, section 11, has the proofs. Chernozhukov, Fernandez-Val and Galichon (2010), "Quantile and
    probability curves without crossing", for putting in order.
    """

    def __init__(
        self,
        regressor: base.Regressor,
        thresholds: Iterable[float],
        *,
        slack: float = 1.0,
        horizon: int | None = None,
        window: int = 1000,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        # read once: an iterator can be read no more often, and a Series is indexed by labels
        self.thresholds = tuple(check_increasing(thresholds, "thresholds"))
        super().__init__(regressor, slack, horizon, most_waiting, len(self.thresholds))
        self.window = check_count(window, "window")
        self._moved = [0.0] * len(self.thresholds)
        self._latest: deque[float] = deque()
        """The latest errors of the model's forecasts, at most `window`, as they came."""
        self._errors: list[float] = []
        """The same errors, sorted."""

    _asks = "predict_distribution_one"

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"regressor": linear_model.LinearRegression(), "thresholds": [-10.0, 0.0, 10.0]}

    def predict_one(self, x: Any, **kwargs: Any) -> float:
        """The wrapped model's own forecast for the features x, as it is: a number, or what else it answers.

        No round is opened, nothing is learnt, and no certificate speaks of it. Keywords go to the model.
        """
        return self.regressor.predict_one(x, **kwargs)

    def predict_distribution_one(self, x: Any, **kwargs: Any) -> dict[float, float]:
        """By threshold q, in increasing order, the probability that the target of x is at most q.

        The probabilities never decrease from one threshold to the next.

        Asking opens a round, which the target of equal features settles in `learn_one`. Asking about the very
        same object again, with nothing else asked in between, answers for the same round anew: the last
        answer counts. Nothing is learnt. Keywords go to the wrapped model. Where the model answers None, or
        NaN, all hints are 1/2. Raises ValueError if it answers with something else that is no number.
        """
        mean = forecast_of(self.regressor, x, kwargs)
        self._begin(x)
        hints = (self._hint(q, mean) for q in self.thresholds)
        pairs = zip(self._forecasters, hints, strict=True)
        tokens = [forecaster.forecast(hint) for forecaster, hint in pairs]
        self._here = tokens, mean
        return dict(zip(self.thresholds, sorted(token.probability for token in tokens), strict=True))

    def quantile_one(self, x: Any, level: float) -> float:
        """The least threshold q such that the target of x is at most q with probability `level` or more.

        It is inf if no threshold is large enough. `predict_distribution_one(x)` is called, which opens a
        round, to be settled by the target: another one than that of `forecast(x)`, and with an equal x that
        is not the very same object another one at each call. Raises ValueError unless 0 < level < 1, and if
        the model answers with something that is neither a number nor None.
        """
        check_open_unit(level, "level")
        chances = self.predict_distribution_one(x)
        place = bisect_left(list(chances.values()), level)
        return self.thresholds[place] if place < len(self.thresholds) else math.inf

    def _read(self, y: Any) -> float:
        target = finite(y)
        if target is None:
            raise ValueError(f"y must be a finite number, got {y!r}")
        return target

    def _settle(self, read: float) -> None:
        tokens, mean = self._taken()
        chances = sorted(token.probability for token in tokens)
        for i, (forecaster, token) in enumerate(zip(self._forecasters, tokens, strict=True)):
            forecaster.observe(token, read <= self.thresholds[i])
            self._moved[i] += abs(chances[i] - token.probability)
        self._note(read, mean)

    def _says(self, x: Any) -> float | None:
        return forecast_of(self.regressor, x, {})

    def _learn_alone(self, said: float | None, read: float) -> None:
        self._note(read, said)

    @property
    def certificates(self) -> dict[float, float]:
        """By threshold, a proven upper bound on the distance to calibration of its probabilities so far.

        Each is a sum over the settled rounds, and includes how far sorting moved the forecasts (`moved`).
        """
        return self._with_moved(forecaster.certificate for forecaster in self._forecasters)

    @property
    def guarantees(self) -> dict[float, float]:
        """By threshold, what its entry of `certificates` cannot exceed, whatever the targets.

        Each is a sum over the settled rounds, with a `horizon` that is still to come the bound at the
        horizon. How far sorting has moved the forecasts so far (`moved`) is added as it is: nothing bounds
        that beforehand.
        """
        return self._with_moved(forecaster.guarantee for forecaster in self._forecasters)

    @property
    def moved(self) -> dict[float, float]:
        """By threshold, how far sorting moved its forecasts: absolute differences of probabilities, added up.

        Each is a sum over the settled rounds.
        """
        return dict(zip(self.thresholds, self._moved, strict=True))

    def _with_moved(self, bounds: Iterable[float]) -> dict[float, float]:
        """Bounds on the forecasts as bounds on what was given in their place, by threshold."""
        parts = zip(self.thresholds, bounds, self._moved, strict=True)
        return {threshold: bound + moved for threshold, bound, moved in parts}

    def _hint(self, threshold: float, mean: float | None) -> float:
        """The share of the latest errors that would keep the target at most the threshold."""
        if mean is None:
            return 0.5
        return (bisect_right(self._errors, threshold - mean) + 0.5) / (len(self._errors) + 1.0)

    def _note(self, target: float, mean: float | None) -> None:
        """Keep the error of the model's forecast, if there is one."""
        if mean is None:
            return
        self._latest.append(target - mean)
        insort(self._errors, target - mean)
        if len(self._latest) > self.window:
            del self._errors[bisect_left(self._errors, self._latest.popleft())]
