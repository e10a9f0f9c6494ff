"""The models that are evaluated, by name, and the ways to recalibrate them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from river import base, linear_model, multiclass, naive_bayes, preprocessing, tree

from onlinecal import BinnedMean, CalibratedClassifier, PlattScaling
from onlinecal.catalogue import did_you_mean
from onlinecal.wrappers.strategies.buckets import Buckets
from onlinecal.wrappers.strategies.catalogue import StrategyName

BASE, CALIBRATED = "base", "calibrated"


class Recorded(base.Classifier):
    """A model that said everything beforehand: its forecasts of True come as the feature "forecast"."""

    def learn_one(self, x: Any, y: Any) -> None:
        """Nothing is learnt."""

    def predict_proba_one(self, x: Any) -> dict[bool, float]:
        """The recorded forecast."""
        p = x["forecast"]
        return {False: 1.0 - p, True: p}


MODELS: dict[str, Callable[[], base.Classifier]] = {
    "logistic": lambda: preprocessing.StandardScaler() | linear_model.LogisticRegression(),
    "bayes": naive_bayes.GaussianNB,
    "tree": tree.HoeffdingTreeClassifier,
}
"""Models that learn from features."""


def create(name: str, is_multiclass: bool = False) -> base.Classifier:
    """A fresh model by its name; ValueError lists the known ones.

    Models that know two labels only are asked one against the rest where there are more.
    """
    if name not in MODELS:
        raise ValueError(f"unknown model {name!r}{did_you_mean(name, MODELS)}")
    model = MODELS[name]()
    return model if model._multiclass or not is_multiclass else multiclass.OneVsRestClassifier(model)


def methods(
    slack: float | None, n_buckets: Buckets, is_multiclass: bool = False
) -> dict[str, Callable[[base.Classifier], base.Classifier]]:
    """The model itself and its three recalibrations, by the names they have in tables.

    With more than two labels the event is that the top label is right, and that is what is calibrated.
    Raises ValueError for a slack or a number of buckets that CalibratedClassifier does not take.
    """
    strategy: StrategyName = "top-label" if is_multiclass else "auto"
    CalibratedClassifier(Recorded(), slack=slack, n_buckets=n_buckets)
    return {
        BASE: lambda model: model,
        "Platt": PlattScaling,
        "mean": BinnedMean,
        CALIBRATED: lambda model: CalibratedClassifier(
            model, slack=slack, n_buckets=n_buckets, strategy=strategy
        ),
    }
