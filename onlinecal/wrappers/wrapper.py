"""What all wrappers share, and what can be wrapped: classifiers that give probabilities, regressors.

What a wrapper's strategies prove together: their distances add up (Fact 4 of docs/theory.md).

One stream of (hint, outcome) turned into calibrated forecasts, some of which wait for their outcome.
"""

from __future__ import annotations

import math
import sys
from numbers import Real
from typing import Any

from river import base, linear_model
from river.compose import Pipeline

from onlinecal.elementary import in_turn
from onlinecal.forecasters import AlmostOneStepAhead
from onlinecal.forecasters.tokens import Forecast
from onlinecal.wrappers.labels import Label, Labels
from onlinecal.wrappers.mini_batches import MiniBatches
from onlinecal.wrappers.strategies.strategy import Bounded, Strategy


class ClassifierWrapper(base.Wrapper, MiniBatches):
    """A classifier around a classifier; ValueError if it cannot be wrapped, see `check_classifier`."""

    def __init__(self, classifier: base.Classifier) -> None:
        check_classifier(classifier)
        self.classifier = classifier

    @property
    def _wrapped_model(self) -> base.Classifier:
        return self.classifier

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"classifier": linear_model.LogisticRegression()}

    def raw_proba_one(self, x: Any) -> dict[Label, float]:
        """The wrapped model's own answer."""
        return self.classifier.predict_proba_one(x)


class RegressorWrapper(base.Wrapper, base.Regressor):
    """A regressor around a regressor; ValueError if it cannot be wrapped, see `check_regressor`."""

    def __init__(self, regressor: base.Regressor) -> None:
        check_regressor(regressor)
        self.regressor = regressor

    @property
    def _wrapped_model(self) -> base.Regressor:
        return self.regressor


def check_classifier(model: Any) -> None:
    """ValueError, saying what to do, unless the model answers with probabilities of labels and learns online.

    A model that is none of river's will do if it has `predict_proba_one` and `learn_one`.
    """
    last, end = _last_step(model, "classifier")
    if is_of_scikit_learn(last):
        raise ValueError(f"classifier must be a river classifier, got {end} of scikit-learn: {_advice(last)}")
    asks = "predict_proba_one", "learn_one"
    if isinstance(last, base.Classifier):
        if type(last).predict_proba_one is base.Classifier.predict_proba_one:
            raise ValueError(f"classifier must answer with probabilities, got {end}, which only names labels")
    elif isinstance(last, base.Base) or not all(callable(getattr(last, ask, None)) for ask in asks):
        raise ValueError(f"classifier must be a river classifier, got {end}{_kind(last)}")


def check_regressor(model: Any) -> None:
    """ValueError unless the model forecasts a number and learns online, or is a pipeline that ends in one.

    A model that is none of river's will do if it has `predict_one` and `learn_one`.
    """
    last, end = _last_step(model, "regressor")
    if isinstance(last, base.Regressor):
        return
    asks = "predict_one", "learn_one"
    if isinstance(last, base.Base) or not all(callable(getattr(last, ask, None)) for ask in asks):
        raise ValueError(f"regressor must be a river regressor, got {end}")


def _last_step(model: Any, role: str) -> tuple[Any, str]:
    """The model, or the one that a pipeline ends in, and what to call it; ValueError if there is none."""
    name = getattr(model, "__name__", type(model).__name__)
    if isinstance(model, type):
        raise ValueError(f"{role} must be a model, got the class {name}: write {name}(...)")
    last = model
    while isinstance(last, Pipeline):
        if not last.steps:
            raise ValueError(f"{role} must be a river {role}, got an empty pipeline: end it in one")
        last = list(last.steps.values())[-1]
    return last, name if last is model else f"a pipeline that ends in {type(last).__name__}"


def _kind(model: Any) -> str:
    """What river calls it, where that helps."""
    kinds = (
        (base.Regressor, ", a regressor: its forecasts are no probabilities of labels"),
        (base.Transformer, ", a transformer: end the pipeline in a classifier"),
        (base.AnomalyDetector, ", an anomaly detector: its scores are no probabilities of labels"),
        (base.MultiLabelClassifier, ", which answers with several labels at once: wrap a classifier of one"),
    )
    return next((text for kind, text in kinds if isinstance(model, kind)), "")


def is_of_scikit_learn(model: Any) -> bool:
    """Whether a model is one of scikit-learn's, and none of river's."""
    module = sys.modules.get("sklearn.base")
    return module is not None and isinstance(model, module.BaseEstimator) and not isinstance(model, base.Base)


def _advice(model: Any) -> str:
    if hasattr(model, "predict_proba") and hasattr(model, "partial_fit"):
        return (
            "wrap river.compat.convert_sklearn_to_river(model, classes=[...]); "
            "CalibratedClassifier does so itself if it is given classes=[...]"
        )
    if hasattr(model, "predict_proba"):
        return "it cannot learn online (no partial_fit); recalibrate its probabilities with a recalibrator"
    return "it answers with no probabilities (no predict_proba)"


class Certified:
    """The certificates and guarantees of all strategies by which rounds were played.

    They are of the probabilities that were given, each with the label that settled it, in the norm of the
    strategy: "binary" of the positive label's probability, "top-label" of the greatest probability of each
    answer; "simplex" of all labels together, summed over these, "classwise" of each label's probability,
    summed over the labels; "tree" summed over its nodes. Where labels are discovered several strategies may
    have played, and their distances add up; once one of them sums over the labels, so do rounds with one or
    two labels known.
    """

    window: int | None = None
    _strategies: dict[str, Strategy]
    _labels: Labels
    _is_over_labels = False

    @property
    def certificate(self) -> float:
        """A proven upper bound on the distance to calibration so far, a sum over the settled rounds.

        It is one of the forecasts that were given, with their labels: labels without a forecast are no
        rounds. "simplex" and "classwise" sum over the labels, too, and "tree" over its nodes; `certificates`
        has those of "classwise" one by one.
        """
        return in_turn(part.certificate for part in self._parts())

    @property
    def guarantee(self) -> float:
        """What the certificate cannot exceed, whatever the labels.

        How far "classwise" and "top-label" moved their forecasts to make an answer is in it as it was so far.
        """
        return in_turn(part.guarantee for part in self._parts())

    @property
    def window_certificate(self) -> float | None:
        """A proven upper bound on the distance of the last `window` settled rounds, as `certificate` sums it.

        None without a window.
        """
        if self.window is None:
            return None
        return in_turn(part.window_certificate for part in self._parts())

    @property
    def window_guarantee(self) -> float | None:
        """What the distance of ANY `window` consecutive settled rounds cannot exceed, as `guarantee` has it.

        None without a window.
        """
        if self.window is None:
            return None
        return in_turn(part.window_guarantee for part in self._parts())

    def _parts(self) -> list[Bounded]:
        return [
            part
            for strategy in self._strategies.values()
            for part in (strategy.over_labels(self._labels) if self._is_over_labels else strategy.bounded())
        ]


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
