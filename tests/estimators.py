"""Every public estimator, found by walking the packages: settings to try, what it is fed, what it refuses."""

from __future__ import annotations

import copy
import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from river import datasets, linear_model, naive_bayes, preprocessing, tree
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeRegressor

import onlinecal
from onlinecal import CalibrationAlarm
from onlinecal import forecasters as f
from onlinecal import metrics as m
from onlinecal import recalibration as r
from onlinecal import wrappers as w
from onlinecal.measures import CalibrationMonitor

NAN, INF = float("nan"), float("inf")
Refusal = tuple[str, tuple[Any, ...], str]
"""A method, its arguments, and what the ValueError says: the argument and the value."""

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
    classes = dict.fromkeys(one for one in public if isinstance(one, type) and one not in BASES)
    return [one for one in classes if any(hasattr(one, verb) for verb in ("learn_one", "update", "fit"))]


def learn(model: Any, rounds: Any) -> list[Any]:
    answers = []
    for x, y in rounds:
        answers.append(model.predict_proba_one(x))
        model.learn_one(x, y)
    return answers


def regress(model: Any, rounds: Any) -> list[Any]:
    ask = getattr(model, "predict_distribution_one", model.predict_one)
    answers = []
    for x, y in rounds:
        answers.append(ask(x))
        model.learn_one(x, y)
    return answers


def update(metric: Any, rounds: Any) -> list[Any]:
    for y, p in rounds:
        metric.update(y, p)
    return [metric.get()]


def count(monitor: Any, rounds: Any) -> list[Any]:
    for y, p in rounds:
        monitor.update(p, y)
    return [monitor.calibration_distance(), monitor.smooth_calibration_error(), monitor.n_rounds]


def watch(alarm: Any, rounds: Any) -> list[Any]:
    for y, p in rounds:
        alarm.update(p, y)
    return [alarm.statistic, alarm.e_value, alarm.p_value, alarm.finding, alarm.n_alarms]


def predictions(model: Any, rows: Any) -> list[Any]:
    answer = model.predict_proba if hasattr(model, "predict_proba") else model.predict
    return answer(rows[0], *rows[2:]).tolist()


def fit(model: Any, rows: Any) -> list[Any]:
    return predictions(model.fit(*rows), rows)


PHISHING = list(datasets.Phishing().take(240))
SEGMENTS = list(datasets.ImageSegments().take(240))
APPROVAL = list(datasets.TrumpApproval().take(240))
RNG = np.random.default_rng(0)
GAMES = [(bool(RNG.random() < p), p) for p in RNG.integers(0, 21, 60) / 20]
TABLE, LABELS = RNG.dirichlet(np.full(3, 0.6), 200), RNG.integers(0, 3, 200)
LABELS = np.where(RNG.random(200) < 0.6, TABLE.argmax(axis=1), LABELS)
FORECASTS, MEMBERS = RNG.random(200), RNG.random((200, 2)) < 0.5
OUTCOMES = (RNG.random(200) < 0.5 * FORECASTS + 0.3 * MEMBERS[:, 0]).astype(int)

NO_OUTCOMES: list[Refusal] = [
    *(
        ("learn_one", ({}, y), "y must be 0, 1, False or True, got")
        for y in (2, -1, "yes", None, 1.2, NAN, [1], np.array([0, 1]))
    ),
    ("replay", ([],), "outcomes is empty"),
    ("replay", ([0, 1, 2],), "outcomes must be 0/1 or boolean, got 2 at row 2"),
    ("replay", ([[0, 1]],), "outcomes must be one-dimensional"),
    ("replay", (["a"],), "outcomes must be 0/1"),
]
NO_SHARES: list[Refusal] = [
    *(
        ("learn_one", ({}, y), r"y must be a number in \[0, 1\], False or True, got")
        for y in (2, -1, 1.2, "yes", "0.5", None, NAN, [1], np.array([0, 1]))
    ),
    ("replay", ([],), "outcomes is empty"),
    ("replay", ([0, 0.5, 1.2],), r"outcomes must be numbers in \[0, 1\] or boolean, got 1.2 at row 2"),
    ("replay", ([0, NAN],), "outcomes must be .* got nan at row 1"),
    ("replay", ([[0, 1]],), "outcomes must be one-dimensional"),
    ("replay", (["a"],), "outcomes at row 0 must be .* got 'a'"),
]
NO_HINTS: list[Refusal] = [
    ("replay", ([0, 1], [0.5]), "same length"),
    ("replay", ([0, 1], [0.5, 1.5]), r"hints must lie in \[0, 1\], got 1.5 at row 1"),
    ("replay", ([0, 1], [0.5, NAN]), "hints must lie in .* got nan at row 1"),
]
NO_CLASSES: list[Refusal] = [
    *(("learn_one", ({}, y), "y must be .*, got") for y in (None, NAN, INF, [1], {}, np.array([0, 1]))),
    ("replay", ([],), "outcomes is empty"),
    ("replay", ("012",), "outcomes must be a flat sequence of class labels, got '012'"),
    ("replay", (5,), "outcomes must be a flat sequence"),
    ("replay", (np.zeros((2, 2), int),), "one-dimensional"),
]
NO_VECTORS: list[Refusal] = [
    ("replay", ([0, 1, [2]],), r"outcomes must be one of the classes .*, got \[2\] at row 2"),
    ("replay", ([0, 1], [[0.5, 0.5, 0.0]]), "same length"),
    ("replay", ([0, 1], [0.5, 0.5]), r"hints must have shape \(2, 3\), got \(2,\)"),
    ("replay", ([0, 1], [[0.5, 0.5, 0], [0.5, 0.6, 0]]), "hints must be numbers in .* at row 1"),
    ("replay", ([0], [[0.5, NAN, 0.5]]), "hints must be numbers"),
    ("replay", ([0], [["a", "b", "c"]]), "hints must be numbers"),
]
NO_ANSWERS: list[Refusal] = [
    *(
        ("update", (True, answer), r"y_pred must be a number in \[0, 1\], got")
        for bad in (NAN, 1.5, -0.1, "high", None)
        for answer in (bad, {True: bad})
    ),
    *(("update", (y, 0.5), "y_true has the label") for y in (2, NAN, None, "yes", [1])),
    *(("update", (True, 0.5, weight), "w must be") for weight in (NAN, -1, INF)),
]
NO_ROUNDS: list[Refusal] = [
    ("update", (1.5, 0), "forecast must be a number in .* got 1.5"),
    ("update", (NAN, 0), "forecast must be a number in .* got nan"),
    ("update", (0.5, 2), "outcome must be .* got 2"),
    ("update_many", ([0.5, 2.0], [0, 1]), "forecasts must lie in .* got 2.0 at row 1"),
    ("update_many", ([0.5, 0.5], [0, 3]), "outcomes must be .* got 3 at row 1"),
]
NO_WATCH: list[Refusal] = [
    (name, given, message.replace("forecast ", "p ").replace("outcome ", "y "))
    for name, given, message in NO_ROUNDS
]
NO_LABELS: list[Refusal] = [
    ("learn_one", ({}, y), r"y must be a (hashable )?class label, got") for y in (None, NAN, INF, [1])
]
NO_TARGETS: list[Refusal] = [
    ("learn_one", ({}, y), "y must be a .*number.*, got") for y in (None, NAN, INF, "1", [1], 10**400)
]
HALVES = [[0.5, 0.5], [0.2, 0.8]]
NO_TABLES: list[Refusal] = [
    ("fit", ([[0.5, 0.6], [0.5, 0.5]], [0, 1]), r"P must sum to 1 in every row, got 1\.1 at row 0"),
    ("fit", ([[0.5, 0.5], [INF, 0.5]], [0, 1]), "P must lie in .* got inf at row 1"),
    ("fit", ([[0.5, 0.5], [NAN, 0.5]], [0, 1]), "P must lie in .* got nan at row 1"),
    ("fit", ([[1.0], [1.0]], [0, 0]), "P must have at least 2 columns, got 1"),
    ("fit", (HALVES, [0, 2]), r"y must be class numbers 0\.\.1, got 2 at row 1"),
    ("fit", (HALVES, [0]), "P and y must have the same length, got 2 and 1"),
    ("predict_proba", ([[0.5, 0.5]],), "X has 2 features, but .* is expecting 3 features"),
    ("predict_proba", ([[0.5, 0.5, 0.5]],), "P must sum to 1"),
]
ALL = [[1], [1]]
NO_GROUPS: list[Refusal] = [
    ("fit", ([0.1, 1.2], [0, 1], ALL), r"p must lie in \[0, 1\], got 1.2 at row 1"),
    ("fit", ([0.1, NAN], [0, 1], ALL), r"p must lie in \[0, 1\], got nan at row 1"),
    ("fit", ([0.1, 0.2], [0, 2], ALL), "y must be 0/1 or boolean, got 2 at row 1"),
    ("fit", ([0.1, 0.2], [0], ALL), "p and y must have the same length, got 2 and 1"),
    ("fit", ([0.1, 0.2], [0, 1], [[1]]), "groups must have a row for each of the 2 forecasts, got 1"),
    ("fit", ([0.1, 0.2], [0, 1], [[1], [3]]), "groups must be boolean or 0/1, got .*3.* at row 1, group 0"),
    ("fit", ([], [], []), "p is empty"),
    ("predict", ([0.5], [[1]]), "groups must have the 2 columns of fit, got 1"),
]
LINE = [[0.0], [1.0]]
NO_FEATURES: list[Refusal] = [
    ("fit", (LINE, [0, 2]), r"y must lie in \[0, 1\], got 2.0 at row 1"),
    ("fit", (LINE, [0]), "X and y must have the same length, got 2 and 1"),
    ("fit", ([0.0, 1.0], [0, 1]), "X must be two-dimensional"),
    ("fit", ([[0.0], [1.0, 2.0]], [0, 1]), "X must be a table with rows of equal length"),
    ("fit", (np.empty((0, 3)), [0, 1]), "X is empty"),
    ("fit", (LINE, [0, 1], [0.5]), "initial must have a forecast for each of the 2 rows, got 1"),
    ("fit", (LINE, [0, 1], [0.5, 1.5]), r"initial must lie in \[0, 1\], got 1.5 at row 1"),
    ("fit", (LINE, [0, 1], lambda X: [0.5, NAN]), r"initial must lie in \[0, 1\], got nan at row 1"),
]

NO_CLASSIFIED: list[Refusal] = [
    ("fit", (TABLE, np.zeros(200)), r"y must have labels of at least two classes, got one class: 0\.0"),
    ("fit", (TABLE, np.arange(200) == 7), "cv=5 needs at least 5 rows of every class, got 1 of class True"),
    ("fit", (TABLE, np.zeros((200, 2))), "y should be a 1d array"),
    ("fit", (TABLE, LABELS, np.ones(3)), "y and sample_weight must have the same length, got 200 and 3"),
    ("fit", (TABLE, LABELS[:9]), "inconsistent numbers of samples"),
    ("fit", (np.where(TABLE > 0.9, NAN, TABLE), LABELS), "contains NaN"),
    ("predict_proba", (HALVES,), "X has 2 features, but .* is expecting 3 features"),
]

linear = linear_model.LinearRegression
logistic, bayes = linear_model.LogisticRegression, naive_bayes.GaussianNB
LEVELS = {"n_levels": 5, "first_fit": 20}
CELLS = {"horizon": 200, "n_cells": 6}
SETTINGS: dict[type, list[dict[str, Any]]] = {
    f.AlmostOneStepAhead: [
        {},
        {"horizon": 1000},
        {"window": 100},
        {"grid": "nested", "rule": "sign", "report": "lower"},
        {"slack": 1.0, "report": "hint", "grid": "nested"},
    ],
    f.OneStepAhead: [{}, {"n_cells": 30, "rule": "sign"}],
    f.ConstantForecaster: [{}],
    f.RunningMean: [{}],
    f.DriftCorrectedHalf: [{}],
    f.FosterForecaster: [CELLS, {"horizon": 200}],
    f.FosterHartForecaster: [CELLS, {"horizon": 200}],
    f.FosterVohraForecaster: [CELLS, {"horizon": 200}],
    f.LinearOptimisationForecaster: [CELLS, {"horizon": 200}],
    f.MinimaxForecaster: [CELLS, {"horizon": 200}],
    f.PowerOfTwoChoices: [CELLS, {"horizon": 200}],
    f.SimplexAlmostOneStepAhead: [
        {},
        {"horizon": 1000},
        {"n_cells": 4, "slack": 1.5},
        {"n_classes": 3},
        {"n_classes": 3, "grid": "adaptive"},
    ],
    w.CalibratedClassifier: [
        {"classifier": logistic()},
        {"classifier": bayes()},
        {"classifier": tree.HoeffdingTreeClassifier()},
        {"classifier": preprocessing.StandardScaler() | logistic()},
        {"classifier": logistic(), "n_buckets": 4, "slack": 2.0},
        {"classifier": logistic(), "n_buckets": 2, "window": 50},
        {"classifier": bayes(), "strategy": "simplex"},
        {"classifier": bayes(), "strategy": "top-label"},
        {"classifier": bayes(), "strategy": "classwise"},
        {"classifier": bayes(), "strategy": "tree"},
        {"classifier": w.BinnedMean(logistic())},
        {"classifier": SGDClassifier(loss="log_loss", random_state=0), "classes": [False, True]},
    ],
    w.PlattScaling: [{"classifier": logistic()}, {"classifier": preprocessing.StandardScaler() | logistic()}],
    w.BinnedMean: [{"classifier": logistic()}, {"classifier": tree.HoeffdingTreeClassifier()}],
    w.DecisionCalibratedClassifier: [
        {"classifier": logistic(), "first_fit": 60},
        {"classifier": logistic(), "first_fit": 60, "memory": "reservoir", "capacity": 100},
    ],
    w.GroupCalibratedClassifier: [
        {"classifier": logistic(), "groups": {"any": bool}, "scheme": "atoms"},
        {"classifier": logistic(), "groups": {"any": bool}, "scheme": "shared"},
    ],
    # shifts of naive Bayes' 1e-57 are not alike to six digits, which river's checks ask for
    w.LpCalibratedClassifier: [
        {"classifier": logistic(), "within": "shift", **LEVELS},
        {"classifier": bayes(), **LEVELS},
    ],
    w.CalibratedRegressor: [
        {"regressor": preprocessing.StandardScaler() | linear(), "high": 100.0},
        {"regressor": linear(), "low": -1000.0, "high": 1000.0, "slack": 0.5, "horizon": 200},
    ],
    w.CalibratedDistribution: [
        {"regressor": tree.HoeffdingTreeRegressor(), "thresholds": [38, 40, 42], "window": 20},
        {"regressor": linear(), "thresholds": (0.0,), "slack": 0.5, "horizon": 200},
    ],
    m.Brier: [{}, {"top_label": False, "pos_val": True}],
    m.ECE: [{}, {"bins": 15}],
    m.SmoothCalibration: [{}],
    m.CalibrationDistance: [{"budget": 0.05}],
    r.AveragedCalibration: [{}, {"recalibrators": [r.TemperatureScaling(), r.TopLabelIsotonic()]}],
    r.RecalibratedClassifierCV: [
        {"estimator": GaussianNB()},
        {"estimator": GaussianNB(), "recalibrator": r.TemperatureScaling(), "ensemble": False},
    ],
    CalibrationMonitor: [{}, {"resolution": 3}],
    CalibrationAlarm: [{}, {"alpha": 0.3}],
    r.LpRecalibrator: [{"n_levels": 4, "tolerance": 0.01}, {"n_levels": 4, "within": "shift", "p": 4}],
    r.DecisionRecalibrator: [{"n_actions": 2, "max_rounds": 3, "n_folds": 2}],
    r.TemperatureScaling: [{}],
    r.DirichletCalibration: [{}],
    r.TopLabelIsotonic: [{}],
    r.GroupRecalibrator: [{"alpha": 0.002, "patch": "shift", "n_levels": 20}, {"alpha": 0.01}],
    r.BoostedRecalibrator: [
        {"regressor": DecisionTreeRegressor(max_depth=2, random_state=0), "alpha": 0.02, "bound": 0.5}
    ],
}
"""For each public estimator the settings that every claim is tried on."""


def fed(kind: type, settings: dict[str, Any]) -> tuple[Callable[[Any, Any], list[Any]], Any, list[Refusal]]:
    """How an estimator is played, what it is fed, and what it refuses."""
    if kind in (w.CalibratedRegressor, w.CalibratedDistribution):
        beyond = [("learn_one", ({}, 1001), "y must be a number from low=.* got 1001")]
        return regress, APPROVAL, [*NO_TARGETS, *(beyond if kind is w.CalibratedRegressor else [])]
    if kind is CalibrationMonitor:
        return count, GAMES, NO_ROUNDS
    if kind is CalibrationAlarm:
        return watch, GAMES, NO_WATCH
    if kind.__module__.startswith("onlinecal.metrics"):
        return update, GAMES, NO_ANSWERS
    if kind is r.GroupRecalibrator:
        return fit, (FORECASTS, OUTCOMES, MEMBERS), NO_GROUPS
    if kind is r.RecalibratedClassifierCV:
        return fit, (TABLE, LABELS), NO_CLASSIFIED
    if kind is r.BoostedRecalibrator:
        return fit, (MEMBERS.astype(float), OUTCOMES), NO_FEATURES
    if kind.__module__.startswith("onlinecal.recalibration"):
        return fit, (TABLE, LABELS), NO_TABLES
    if kind is f.SimplexAlmostOneStepAhead:
        if "n_classes" in settings:
            return learn, [({}, label) for label in LABELS.tolist()], [*NO_CLASSES, *NO_VECTORS]
        return learn, SEGMENTS, NO_CLASSES
    if kind.__module__.startswith("onlinecal.wrappers"):
        return learn, SEGMENTS if "strategy" in settings else PHISHING, NO_LABELS
    if kind is f.AlmostOneStepAhead:
        return learn, PHISHING, [*NO_SHARES, *NO_HINTS]
    return learn, PHISHING, NO_SHARES if kind is f.OneStepAhead else NO_OUTCOMES


def examples() -> Iterator[tuple[str, Example]]:
    """An example a setting, with its name."""
    for kind, configs in SETTINGS.items():
        for number, settings in enumerate(configs):
            play, given, refused = fed(kind, settings)
            if play is fit:
                first, rest = (tuple(part[rows] for part in given) for rows in (np.s_[:100], np.s_[100:]))
            else:
                first, rest = given[: len(given) // 2], given[len(given) // 2 :]
            build = lambda kind=kind, settings=settings: kind(**copy.deepcopy(settings))  # noqa: E731
            yield f"{kind.__name__}-{number}", Example(build, play, first, rest, refused, settings)


EXAMPLES = dict(examples())
