"""Every public estimator, found by walking the packages, with settings to try."""

from __future__ import annotations

import copy
import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from river import linear_model, naive_bayes, preprocessing, tree
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeRegressor

import onlinecal
from onlinecal import CalibrationAlarm
from onlinecal import forecasters as f
from onlinecal import metrics as m
from onlinecal import recalibration as r
from onlinecal import wrappers as w
from onlinecal.alarms import DistributionAlarm
from onlinecal.measures import CalibrationMonitor
from tests import fed
from tests.fed import Refusal

BASES = {f.Baseline: "what one's own baselines are made from"}
"""Public classes with a method that learns, and no estimators: why."""


@dataclass
class Example:
    """An estimator with some settings."""

    build: Callable[[], Any]
    play: Callable[[Any, Any], list[Any]]
    """Feeds it rounds, or rows; what it answered."""
    first: Any
    rest: Any
    refused: list[Refusal]
    settings: dict[str, Any] = field(default_factory=dict)


def public_estimators() -> list[type]:
    """Classes that learn, update or fit, of all packages that say what is public."""
    packages = [info.name for info in pkgutil.walk_packages(onlinecal.__path__, "onlinecal.") if info.ispkg]
    modules = [onlinecal, *map(importlib.import_module, packages)]
    public = [getattr(module, name) for module in modules for name in getattr(module, "__all__", ())]
    # a dict has an `update`, too, and learns nothing
    classes = dict.fromkeys(
        one for one in public if isinstance(one, type) and one not in BASES and not issubclass(one, dict)
    )
    return [one for one in classes if any(hasattr(one, verb) for verb in ("learn_one", "update", "fit"))]


def asker(model: Any) -> Callable[[Any], Any]:
    """The method that says most of what a model forecasts."""
    verbs = "predict_proba_one", "predict_distribution_one", "predict_one"
    return next(getattr(model, verb) for verb in verbs if hasattr(model, verb))


def learn(model: Any, rounds: Any) -> list[Any]:
    ask, answers = asker(model), []
    for x, y in rounds:
        answers.append(ask(x))
        model.learn_one(x, y)
    return answers


def updated(*told: str) -> Callable[[Any, Any], list[Any]]:
    """Updates with every round; what these attributes and methods say in the end."""

    def play(model: Any, rounds: Any) -> list[Any]:
        for one in rounds:
            model.update(*one)
        found = [getattr(model, name) for name in told]
        return [one() if callable(one) else one for one in found]

    return play


def predictions(model: Any, rows: Any) -> list[Any]:
    answer = model.predict_proba if hasattr(model, "predict_proba") else model.predict
    return answer(rows[0], *rows[2:]).tolist()


def fit(model: Any, rows: Any) -> list[Any]:
    return predictions(model.fit(*rows), rows)


def in_batches(model: Any, rows: Any) -> list[Any]:
    """Learns ten rows at a time, each time after it was asked about them, unless they are the first."""
    (X, y), answers = rows, []
    for start in range(0, len(y), 10):
        batch = slice(start, start + 10)
        if hasattr(model, "classes_"):
            answers.append(model.predict_proba(X[batch]).tolist())
        model.partial_fit(X[batch], y[batch], classes=[0, 1, 2])
    return answers


linear = linear_model.LinearRegression
logistic, bayes = linear_model.LogisticRegression, naive_bayes.GaussianNB


def scaled(model: Any = None) -> Any:
    return preprocessing.StandardScaler() | (logistic() if model is None else model)


def several() -> Any:
    """For several labels, and quick."""
    return scaled(linear_model.SoftmaxRegression())


LEVELS = {"n_levels": 5, "first_fit": 20}
WITH_CELLS = [{"horizon": 200, "n_cells": 6}, {"horizon": 200}]
SETTINGS: dict[type, list[dict[str, Any]]] = {
    f.AlmostOneStepAhead: [
        {},
        {"window": 100},
        {"grid": "nested", "rule": "sign", "report": "lower"},
        {"slack": 1.0, "grid": "nested", "hints": True},
        {"hints": True},
    ],
    f.OneStepAhead: [{"n_cells": 30, "rule": "sign"}],
    f.ConstantForecaster: [{}],
    f.RunningMean: [{}],
    f.DriftCorrectedHalf: [{}],
    f.FosterForecaster: WITH_CELLS,
    f.FosterHartForecaster: WITH_CELLS,
    f.FosterVohraForecaster: WITH_CELLS,
    f.LinearOptimisationForecaster: WITH_CELLS,
    f.MinimaxForecaster: WITH_CELLS,
    f.UCalibratedForecaster: [{}, {"horizon": 200, "rate": 0.3}],
    f.PowerOfTwoChoices: WITH_CELLS,
    f.SimplexAlmostOneStepAhead: [
        {},
        {"n_classes": 3},
        {"n_classes": 3, "grid": "adaptive"},
        {"n_classes": 3, "window": 100, "hints": True},
        {"hints": True},
    ],
    w.CalibratedClassifier: [
        {"classifier": several()},
        {"classifier": scaled()},
        {"classifier": logistic(), "n_buckets": 2, "window": 50},
        *(
            {"classifier": several(), "strategy": one}
            for one in ("simplex", "top-label", "classwise", "tree")
        ),
        {"classifier": bayes(), "expire_after": 5, "classes": [False, True], "prior": (0.5, 0.3)},
        {"classifier": w.BinnedMean(logistic())},
    ],
    w.OnlineRecalibratedClassifier: [
        {"estimator": GaussianNB(), "batch_size": 10},
        {"estimator": SGDClassifier(loss="log_loss", random_state=0)},
    ],
    w.CombinedClassifier: [{"classifiers": [scaled(), bayes(), logistic()], "slack": 1.0}],
    w.PlattScaling: [{"classifier": scaled()}],
    w.BinnedMean: [{"classifier": tree.HoeffdingTreeClassifier(leaf_prediction="mc")}],
    w.DecisionCalibratedClassifier: [
        {"classifier": logistic(), "first_fit": 78, "capacity": 120},
        {
            "classifier": logistic(),
            "first_fit": 78,
            "memory": "reservoir",
            "capacity": 100,
            "losses": [[[0.0, 1.0], [0.3, 0.1]]],
            "classes": [False, True],
        },
    ],
    w.GroupCalibratedClassifier: [
        {"classifier": logistic(), "groups": {"any": bool}, "scheme": scheme}
        for scheme in ("atoms", "shared")
    ],
    # shifts of naive Bayes' 1e-57 are not alike to six digits, which river's checks ask for
    w.LpCalibratedClassifier: [
        {"classifier": logistic(), "within": "shift", **LEVELS},
        {"classifier": bayes(), **LEVELS},
    ],
    w.CalibratedRegressor: [
        {"regressor": scaled(linear()), "high": 100.0},
        {"regressor": linear(), "low": -1000.0, "high": 1000.0, "slack": 0.5, "horizon": 200},
    ],
    w.CalibratedDistribution: [
        {"regressor": tree.HoeffdingTreeRegressor(), "thresholds": [38, 40, 42], "window": 20},
        {"regressor": linear(), "thresholds": (0.0,), "slack": 0.5, "horizon": 200},
    ],
    m.Brier: [{}, {"top_label": False, "pos_val": True}],
    m.ECE: [{}, {"n_bins": 15}],
    m.CumulativeCalibration: [{}],
    m.TwoBinCalibration: [{}],
    m.SmoothCalibration: [{}],
    m.CalibrationDistance: [{"budget": 0.05}],
    CalibrationMonitor: [{}, {"n_bins": 3}],
    CalibrationAlarm: [{}, {"alpha": 0.3}],
    DistributionAlarm: [{}, {"alpha": 0.3}],
    r.LpRecalibrator: [{"n_levels": 4, "tolerance": 0.01}, {"n_levels": 4, "share": 1.0, "p": 4}],
    r.DecisionRecalibrator: [{"n_actions": 2, "max_rounds": 3, "cv": 2}],
    r.TemperatureScaling: [{}],
    r.DirichletCalibration: [{}],
    r.TopLabelIsotonic: [{}],
    r.AveragedCalibration: [{}, {"recalibrators": [r.TemperatureScaling(), r.TopLabelIsotonic()]}],
    r.RecalibratedClassifierCV: [
        {"estimator": GaussianNB()},
        {"estimator": GaussianNB(), "recalibrator": r.TemperatureScaling(), "ensemble": False},
    ],
    r.VectorScaling: [{}],
    r.PerClassIsotonic: [{}],
    r.BetaCalibration: [{}],
    r.GroupRecalibrator: [{}, {"alpha": 0.002, "patch": "shift", "n_levels": 20, "cv": 0}],
    r.BoostedRecalibrator: [
        {"regressor": DecisionTreeRegressor(max_depth=2, random_state=0), "cv": 2},
        {"step": "level sets", "alpha": 0.02, "bound": 0.5},
    ],
}
"""For each public estimator the settings that every claim is tried on."""


def way_of(
    kind: type, settings: dict[str, Any]
) -> tuple[Callable[[Any, Any], list[Any]], Any, list[Refusal]]:
    """How an estimator is played, what it is given, and what it refuses."""
    if kind in (w.CalibratedRegressor, w.CalibratedDistribution):
        beyond = [("learn_one", ({}, 1001), "y must be a number from low=.* got 1001")]
        return learn, fed.APPROVAL, fed.NO_TARGETS + (beyond if kind is w.CalibratedRegressor else [])
    if kind is CalibrationMonitor:
        told = "calibration_distance", "smooth_calibration_error", "n_rounds"
        return updated(*told), fed.FORECAST_GAMES, fed.NO_ROUNDS
    if kind is CalibrationAlarm:
        told = "statistic", "e_value", "p_value", "finding", "n_alarms"
        return updated(*told), fed.FORECAST_GAMES, fed.NO_WATCH
    if kind is DistributionAlarm:
        told = "statistic", "direction", "change_point", "n_alarms"
        return updated(*told), fed.TARGETS, fed.NO_TARGET
    if kind.__module__.startswith("onlinecal.metrics"):
        return updated("get"), fed.GAMES, fed.NO_ANSWERS
    if kind is r.GroupRecalibrator:
        return fit, (fed.FORECASTS, fed.OUTCOMES, fed.MEMBERS), fed.NO_GROUPS
    if kind is r.RecalibratedClassifierCV:
        return fit, (fed.TABLE, fed.LABELS), fed.NO_CLASSIFIED
    if kind is w.OnlineRecalibratedClassifier:
        return in_batches, (fed.TABLE, fed.LABELS), fed.NO_BATCHES
    if kind is r.BoostedRecalibrator:
        return fit, (fed.MEMBERS.astype(float), fed.OUTCOMES), fed.NO_FEATURES
    if kind.__module__.startswith("onlinecal.recalibration"):
        return fit, (fed.TABLE, fed.LABELS), fed.NO_TABLES
    if kind is f.SimplexAlmostOneStepAhead:
        if "n_classes" in settings:
            vectors = fed.NO_VECTORS if settings.get("hints") else fed.UNEXPECTED
            return learn, [({}, label) for label in fed.LABELS.tolist()], fed.NO_CLASSES + vectors
        return learn, fed.SEGMENTS, fed.NO_CLASSES
    if kind.__module__.startswith("onlinecal.wrappers"):
        return learn, fed.SEGMENTS if "strategy" in settings else fed.PHISHING, fed.NO_LABELS
    if kind is f.AlmostOneStepAhead:
        hints = fed.NO_HINTS if settings.get("hints") else fed.UNEXPECTED
        return learn, fed.PHISHING, fed.NO_SHARES + hints
    return learn, fed.PHISHING, fed.NO_SHARES if kind is f.OneStepAhead else fed.NO_OUTCOMES


def examples() -> Iterator[tuple[str, Example]]:
    """An example a setting, with its name."""
    for kind, configs in SETTINGS.items():
        for number, settings in enumerate(configs):
            play, rounds, refused = way_of(kind, settings)
            if play in (fit, in_batches):
                first, rest = (tuple(part[rows] for part in rounds) for rows in (np.s_[:100], np.s_[100:]))
            else:
                first, rest = rounds[: len(rounds) // 2], rounds[len(rounds) // 2 :]
            build = lambda kind=kind, settings=settings: kind(**copy.deepcopy(settings))  # noqa: E731
            yield f"{kind.__name__}-{number}", Example(build, play, first, rest, refused, settings)


EXAMPLES = dict(examples())
