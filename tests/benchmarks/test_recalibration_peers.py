"""Recalibrators beside those of other packages, on the same halves: quality and seconds, in one run.

netcal, MCGrad and multicalibration are no dependencies: what is not installed is named and left out. For all

    pip install netcal mcgrad multicalibration
    python -m pytest -m speed -n 0 tests/benchmarks/test_recalibration_peers.py
"""

from __future__ import annotations

import importlib
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from onlinecal import (
    BoostedRecalibrator,
    DecisionRecalibrator,
    GroupRecalibrator,
    LpRecalibrator,
    RecalibratedClassifierCV,
)
from onlinecal.measures import classwise_calibration_error, decision_loss_gap, lp_calibration_error
from onlinecal.measures.groups import group_mean_error, multicalibration_error
from onlinecal.measures.scores import class_scores, event_scores
from onlinecal.recalibration import AveragedCalibration, TemperatureScaling
from onlinecal.recalibration.classical.linear import VectorScaling, chosen_dirichlet
from tests import DATA

NETWORKS = ("wideresnet-16-4-cifar-10", "lenet-5-cifar-10", "densenet-bc-100-cifar-100")
BINS = 15
SPLITS = 10
"""Of groups."""
SLOW_CLASSES = 20
"""More classes than this take some peers minutes."""


class Told(ClassifierMixin, BaseEstimator):
    """A classifier whose features are its probabilities: how scikit-learn's methods are given a table."""

    def fit(self, X: Any, y: Any) -> Told:
        self.classes_ = np.arange(np.shape(X)[1])
        return self

    def predict_proba(self, X: Any) -> Any:
        return X

    def predict(self, X: Any) -> Any:
        return X.argmax(axis=1)

    def __sklearn_is_fitted__(self) -> bool:
        return True


def ours(make: Callable[[], Any]) -> Callable[..., Any]:
    return lambda P, y, Q: make().fit(P, y).predict_proba(Q)


def by_scikit_learn(method: str) -> Callable[..., Any]:
    def mapped(P: Any, y: Any, Q: Any) -> Any:
        frozen = FrozenEstimator(Told().fit(P, y))
        return CalibratedClassifierCV(frozen, method=method).fit(P, y).predict_proba(Q)

    return mapped


def by_netcal(module: str, name: str) -> Callable[..., Any]:
    def mapped(P: Any, y: Any, Q: Any) -> Any:
        model = getattr(importlib.import_module(f"netcal.{module}"), name)()
        model.fit(P, y)
        return model.transform(Q)

    return mapped


PEERS: dict[str, Callable[..., Any]] = {
    "none": lambda P, y, Q: Q,
    "temperature, scikit-learn": by_scikit_learn("temperature"),
    "isotonic, scikit-learn": by_scikit_learn("isotonic"),
    "sigmoid, scikit-learn": by_scikit_learn("sigmoid"),
    "temperature, netcal": by_netcal("scaling", "TemperatureScaling"),
    "vector, netcal": by_netcal("scaling", "LogisticCalibration"),
    "beta, netcal": by_netcal("scaling", "BetaCalibration"),
    "histogram, netcal": by_netcal("binning", "HistogramBinning"),
    "isotonic, netcal": by_netcal("binning", "IsotonicRegression"),
    "temperature, here": ours(TemperatureScaling),
    "vector, here": ours(VectorScaling),
    "Dirichlet, here": ours(chosen_dirichlet),
}
"""The usual methods. The package dirichletcal needs an older numpy: its method is the one here."""
OURS = {
    "AveragedCalibration()": ours(AveragedCalibration),
    "LpRecalibrator()": ours(LpRecalibrator),
    "DecisionRecalibrator()": ours(DecisionRecalibrator),
}
SLOW = {"beta, netcal", "vector, netcal", "Dirichlet, here"}


def timed(mapped: Callable[..., Any], *rows: Any) -> tuple[Any, float]:
    """What a method makes of new rows, and the processor's seconds; None where a package is missing."""
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        start = time.process_time()
        try:
            answers = mapped(*rows)
        except ModuleNotFoundError:
            return None, 0.0
        return np.asarray(answers), time.process_time() - start


def network(name: str, seed: int = 0) -> tuple[Any, Any, Any, Any]:
    """A half to fit and a half to measure: tables and labels."""
    path = DATA / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"{path.name} is not here")
    with np.load(path) as data:
        P, y = data["predictions"].astype(float), data["ground_truth"].ravel().astype(np.int64)
    P /= P.sum(axis=1, keepdims=True)
    fit, test = np.split(np.random.default_rng(seed).permutation(len(y)), 2)
    return P[fit], y[fit], P[test], y[test]


def missing(names: tuple[str, ...]) -> str:
    return ", ".join(name for name in names if importlib.util.find_spec(name) is None)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", NETWORKS)
def test_tables_of_networks(note, name):
    P, y, Q, z = network(name)
    k = P.shape[1]
    losses = np.random.default_rng(0).standard_normal((500, 2, k))
    note("")
    note(
        f"{name:27s} {'log loss':>8s} {'Brier':>7s} {'accuracy':>8s} {'classwise':>9s} {'top label':>9s} "
        f"{'l_2':>7s} {'gap':>7s} {'seconds':>7s}"
    )
    found = {}
    for method, mapped in {**PEERS, **OURS}.items():
        if k > SLOW_CLASSES and method in SLOW:
            continue
        table, seconds = timed(mapped, P, y, Q)
        if table is None:
            continue
        # float32 and isotonic maps miss the sum 1
        table = np.clip(table, 0.0, 1.0) / np.clip(table, 0.0, 1.0).sum(axis=1, keepdims=True)
        scores = class_scores(table, z)
        found[method] = scores
        classwise = classwise_calibration_error(table, z, BINS, normalize=True)
        lp = lp_calibration_error(table, z, p=2, n_levels=5)
        gap = decision_loss_gap(table, z, losses).mean()
        note(
            f"{method:27s} {scores.log_loss:8.4f} {scores.brier:7.4f} {scores.accuracy:8.4f} "
            f"{classwise:9.4f} {scores.ece:9.4f} {lp:7.4f} {gap:7.4f} {seconds:7.1f}"
        )
    left = missing(("netcal",))
    if left or k > SLOW_CLASSES:
        note(f"left out: {left or ''}{f' {sorted(SLOW)}, minutes' if k > SLOW_CLASSES else ''}")
    best = found["temperature, here"]
    assert found["AveragedCalibration()"].log_loss <= 1.005 * best.log_loss
    assert found["AveragedCalibration()"].brier <= 1.005 * best.brier


def by_mcgrad(p: Any, y: Any, top: Any, q: Any, new: Any) -> Any:
    methods = importlib.import_module("mcgrad.methods")
    named = {"categorical_feature_column_names": ["top"]}
    frames = [pd.DataFrame({"p": one, "top": labels.astype(str)}) for one, labels in ((p, top), (q, new))]
    model = methods.MCGrad().fit(frames[0].assign(y=y), "p", "y", **named)
    return model.predict(frames[1], "p", **named)


def by_multicalibration(p: Any, y: Any, top: Any, q: Any, new: Any) -> Any:
    """Hebert-Johnson, Kim, Reingold & Rothblum's algorithm, with the settings of its package's example."""
    model = importlib.import_module("multicalibration").MulticalibrationPredictor("HKRR")
    parts = [[np.flatnonzero(labels == one).tolist() for one in np.unique(top)] for labels in (top, new)]
    settings = {"alpha": 0.1, "lambda": 0.1, "max_iter": 100, "randomized": True, "use_oracle": False}
    np.random.seed(0)  # noqa: NPY002, the package draws from it
    model.fit(p, y, parts[0], settings)
    return model.predict(q, parts[1])


def by_boosting(p: Any, y: Any, top: Any, q: Any, new: Any) -> Any:
    known = np.unique(top)
    return BoostedRecalibrator().fit(top[:, None] == known, y, p).predict(new[:, None] == known, q)


def by_groups(p: Any, y: Any, top: Any, q: Any, new: Any) -> Any:
    known = np.unique(top)
    return GroupRecalibrator().fit(p, y, top[:, None] == known).predict(q, new[:, None] == known)


GROUPED: dict[str, Callable[..., Any]] = {
    "none": lambda p, y, top, q, new: q,
    "MCGrad": by_mcgrad,
    "multicalibration (HKRR)": by_multicalibration,
    "BoostedRecalibrator()": by_boosting,
    "GroupRecalibrator()": by_groups,
}


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", NETWORKS[:2])
def test_groups_of_networks(note, name):
    """Is the top label right? The groups are the labels: means of ten splits into halves.

    One split says little of the worst group: each has some 500 rows to fit and as many to measure, so that
    its mean is uncertain by .02 or .03. `behind` is the mean of differences to MCGrad, split by split, and
    its standard error.
    """
    found: dict[str, list[Any]] = {}
    for seed in range(SPLITS):
        P, y, Q, z = network(name, seed)
        top, new = P.argmax(axis=1), Q.argmax(axis=1)
        right, members = (new == z).astype(np.uint8), new[:, None] == np.unique(top)
        for method, mapped in GROUPED.items():
            q, seconds = timed(mapped, P.max(axis=1), (top == y).astype(int), top, Q.max(axis=1), new)
            if q is None:
                continue
            q = np.clip(q, 0.0, 1.0)
            scores = event_scores(q, right)
            biases = group_mean_error(q, right, members)
            violation = multicalibration_error(q, right, members, 10).max()
            each = (scores.log_loss, scores.brier, violation, np.abs(biases).max(), seconds)
            found.setdefault(method, []).append(each)
    note("")
    head = f"{name:27s} {'log loss':>8s} {'Brier':>7s} {'K2':>8s} {'group mean':>10s}"
    note(f"{head} {'behind':>15s} {'seconds':>7s}")
    worst = {method: np.array(each)[:, 3] for method, each in found.items()}
    for method, each in found.items():
        loss, brier, violation, bias, seconds = np.mean(each, axis=0)
        text = ""
        if "MCGrad" in found and method != "MCGrad":
            behind = worst[method] - worst["MCGrad"]
            error = behind.std(ddof=1) / SPLITS**0.5
            text = f"{behind.mean():+.4f} ±{error:.4f}"
            if method.endswith("()"):
                assert behind.mean() <= 2.0 * error
                assert loss <= 1.005 * np.mean(found["MCGrad"], axis=0)[0]
        note(
            f"{method:27s} {loss:8.4f} {brier:7.4f} {violation:8.5f} {bias:10.4f} {text:>15s} {seconds:7.1f}"
        )
    if left := missing(("mcgrad", "multicalibration")):
        note(f"left out: {left}")


CLASSIFIERS = {
    "naive Bayes": GaussianNB(),
    "random forest": RandomForestClassifier(random_state=0),
    "support vectors": make_pipeline(StandardScaler(), SVC()),
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression()),
}
LOADERS = {"cancer": load_breast_cancer, "digits": load_digits, "wine": load_wine}


@pytest.mark.timeout(3600)
def test_classifiers_of_scikit_learn(note):
    """Means of three splits into halves."""
    note("")
    methods: dict[str, Callable[[Any], Any]] = {
        "sigmoid": CalibratedClassifierCV,
        "isotonic": lambda model: CalibratedClassifierCV(model, method="isotonic"),
        "temperature": lambda model: CalibratedClassifierCV(model, method="temperature"),
        "RecalibratedClassifierCV": RecalibratedClassifierCV,
        "its ensemble=False": lambda model: RecalibratedClassifierCV(model, ensemble=False),
        "its Lp": lambda model: RecalibratedClassifierCV(model, LpRecalibrator()),
    }
    note(f"{'log loss / Brier':33s}" + "".join(f"{method:>26s}" for method in methods))
    every = []
    for data, load in LOADERS.items():
        X, y = load(return_X_y=True)
        splits = [*StratifiedShuffleSplit(3, test_size=0.5, random_state=0).split(X, y)]
        for called, model in CLASSIFIERS.items():
            means = []
            for make in methods.values():
                mapped = ours(partial(make, model))
                tables = [timed(mapped, X[fit], y[fit], X[test])[0] for fit, test in splits]
                each = [class_scores(table, y[test]) for table, (_, test) in zip(tables, splits, strict=True)]
                means.append(np.mean(each, axis=0)[[1, 0]])
            every.append(means)
            note(f"{data:10s} {called:22s}" + "".join(f"{a:17.4f} / {b:.4f}" for a, b in means))
    loss, brier = np.mean(every, axis=0).T
    note(f"{'mean':33s}" + "".join(f"{a:17.4f} / {b:.4f}" for a, b in zip(loss, brier, strict=True)))
    assert loss[3] < loss[:3].min()
    assert brier[3] < brier[:3].min()
