"""Other packages beside this one, on the same rows: quality and seconds of recalibrators and of streams.

They are no dependencies: what is not installed is named and left out. For all

    pip install netcal mcgrad mapie venn-abers
    python -m pytest -m speed -n 0 tests/benchmarks/test_recalibration_peers.py
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import expit, logit
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
    CalibratedClassifier,
    DecisionRecalibrator,
    LpRecalibrator,
    RecalibratedClassifierCV,
    calibration_distance,
    classwise_calibration_error,
    datasets,
    recalibrate_stream,
)
from onlinecal.measures.scores import class_scores, event_scores
from onlinecal.recalibration import AveragedCalibration, TemperatureScaling
from onlinecal.recalibration.classical.linear import ChosenDirichlet, VectorScaling
from tests.benchmarks.conftest import timed
from tests.benchmarks.test_group_quality import Rows, mcgrad
from tests.networks import Told, halves
from tests.wrappers.scripted import Said

PACKAGES = ("netcal", "mcgrad", "mapie", "venn_abers")
NETWORKS = ("wideresnet-16-4-cifar-10", "lenet-5-cifar-10", "densenet-bc-100-cifar-100")
BINS = 15
SLOW_CLASSES = 20
"""More classes than this take some peers minutes."""


def played(mapped: Callable[..., Any], *rows: Any) -> tuple[float, Any]:
    """The processor's seconds, and what a method makes of new rows; None where a package is missing."""
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        try:
            spent, answers = timed(partial(mapped, *rows))
        except ModuleNotFoundError:
            return 0.0, None
        return spent, np.asarray(answers)


@pytest.fixture(scope="module", autouse=True)
def missing(note):
    yield
    note(f"left out: {[name for name in PACKAGES if importlib.util.find_spec(name) is None]}")


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


def by_venn_abers(P: Any, y: Any, Q: Any) -> Any:
    calibrator = importlib.import_module("venn_abers").VennAbersCalibrator()
    return calibrator.predict_proba(p_cal=P, y_cal=np.asarray(y, int), p_test=Q)


def by_mapie(P: Any, y: Any, Q: Any) -> Any:
    """The top label's probability is MAPIE's; it has none for the others, which share the rest as before."""
    module = importlib.import_module("mapie.calibration")
    model = module.TopLabelCalibrator(Told().fit(P, y), calibrator="isotonic", cv="prefit")
    best, table, rows = Q.argmax(axis=1), Q.copy(), np.arange(len(Q))
    p = np.nan_to_num(model.fit(P, y).predict_proba(Q)[rows, best], nan=0.0)
    table[rows, best] = 0.0
    table *= ((1.0 - p) / np.maximum(table.sum(axis=1), 1e-12))[:, None]
    table[rows, best] = p
    return table


METHODS: dict[str, Callable[..., Any]] = {
    "none": lambda P, y, Q: Q,
    "temperature, scikit-learn": by_scikit_learn("temperature"),
    "isotonic, scikit-learn": by_scikit_learn("isotonic"),
    "sigmoid, scikit-learn": by_scikit_learn("sigmoid"),
    "temperature, netcal": by_netcal("scaling", "TemperatureScaling"),
    "vector, netcal": by_netcal("scaling", "LogisticCalibration"),
    "beta, netcal": by_netcal("scaling", "BetaCalibration"),
    "histogram, netcal": by_netcal("binning", "HistogramBinning"),
    "Venn-Abers": by_venn_abers,
    "top label, MAPIE": by_mapie,
    "temperature, here": ours(TemperatureScaling),
    "vector, here": ours(VectorScaling),
    "Dirichlet, here": ours(ChosenDirichlet),
    "AveragedCalibration()": ours(AveragedCalibration),
    "LpRecalibrator()": ours(LpRecalibrator),
    "DecisionRecalibrator()": ours(DecisionRecalibrator),
}
"""The package dirichletcal needs an older numpy: its method is the one here."""
SLOW = {"beta, netcal", "vector, netcal", "Venn-Abers", "top label, MAPIE", "Dirichlet, here"}


@pytest.mark.parametrize("name", NETWORKS)
def test_tables(note, name):
    P, y, Q, z = halves(name)
    note(f"{name:27s} {'log loss':>8s} {'Brier':>7s} {'accuracy':>8s} {'top label':>9s} {'classwise':>9s}")
    found = {}
    for method, mapped in METHODS.items():
        if P.shape[1] > SLOW_CLASSES and method in SLOW:
            continue
        spent, table = played(mapped, P, y, Q)
        if table is None:
            continue
        # float32 and isotonic maps miss the sum 1
        table = np.clip(table, 0.0, 1.0) / np.clip(table, 0.0, 1.0).sum(axis=1, keepdims=True)
        scores = found[method] = class_scores(table, z)
        note(
            f"{method:27s} {scores.log_loss:8.4f} {scores.brier:7.4f} {scores.accuracy:8.4f} "
            f"{scores.ece:9.4f} {classwise_calibration_error(table, z, n_bins=BINS):9.4f} {spent:7.1f} s"
        )
    best, average = found["temperature, here"], found["AveragedCalibration()"]
    assert average.log_loss <= 1.005 * best.log_loss
    assert average.brier <= 1.005 * best.brier


CLASSIFIERS = {
    "naive Bayes": GaussianNB(),
    "random forest": RandomForestClassifier(random_state=0),
    "support vectors": make_pipeline(StandardScaler(), SVC()),
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression()),
}
LOADERS = {"cancer": load_breast_cancer, "digits": load_digits, "wine": load_wine}
WRAPPED: dict[str, Callable[[Any], Any]] = {
    **{method: partial(CalibratedClassifierCV, method=method) for method in ("sigmoid", "isotonic")},
    "temperature": partial(CalibratedClassifierCV, method="temperature"),
    "RecalibratedClassifierCV": RecalibratedClassifierCV,
    "its ensemble=False": partial(RecalibratedClassifierCV, ensemble=False),
    "its Lp": partial(RecalibratedClassifierCV, recalibrator=LpRecalibrator()),
}


def test_classifiers_of_scikit_learn(note):
    """Means of three splits into halves: log loss and Brier score of each method."""
    every = []
    for data, load in LOADERS.items():
        X, y = load(return_X_y=True)
        splits = [*StratifiedShuffleSplit(3, test_size=0.5, random_state=0).split(X, y)]
        for called, model in CLASSIFIERS.items():
            means = []
            for method, make in WRAPPED.items():
                mapped = ours(partial(make, model))
                tables = [played(mapped, X[fit], y[fit], X[test])[1] for fit, test in splits]
                each = [class_scores(table, y[test]) for table, (_, test) in zip(tables, splits, strict=True)]
                means.append(np.mean(each, axis=0)[[1, 0]])
                note(f"{data:10s} {called:22s} {method:26s} {means[-1][0]:.4f} {means[-1][1]:.4f}")
            every.append(means)
    for method, scores in zip(WRAPPED, np.mean(every, axis=0), strict=True):
        note(f"mean {method:26s} {scores[0]:.4f} {scores[1]:.4f}")
    means = np.mean(every, axis=0)
    assert (means[3] < means[:3].min(axis=0)).all()


EVERY, WINDOW, FIRST = 500, 2000, 100
"""Batch methods on streams: fitted anew so often, to so many rows, once there are so many."""
T = 8000


def of_two(mapped: Callable[..., Any]) -> Callable[..., Any]:
    """A method that answers with the second column alone."""

    def both(P: Any, y: Any, Q: Any) -> Any:
        q = np.ravel(mapped(P[:, 1], y, Q[:, 1]))
        return np.stack([1.0 - q, q], axis=1)

    return both


def by_mcgrad(p: Any, y: Any, q: Any) -> Any:
    rows, new = (pd.DataFrame({"p": one, "all": "all"}) for one in (p, q))
    return mcgrad(Rows(rows["p"], y, rows[["all"]]), Rows(new["p"], None, new[["all"]]))


class Stream:
    """Probabilities, and outcomes (T,), or a rule that reads the forecasts; days if they are late."""

    def __init__(self, p: Any, outcomes: Any, days: Any = None) -> None:
        self.p, self.days, self.rule = p, days, outcomes if callable(outcomes) else None
        self.y = np.zeros(len(p), int) if self.rule else np.asarray(outcomes, int)

    def settle(self, rows: slice, q: Any) -> Any:
        """What comes of these rows, once they are forecast."""
        if self.rule:
            self.y[rows] = self.rule(np.asarray(q))
        return self.y[rows]

    def known(self, row: int) -> int:
        """How many rows are settled when this one is forecast."""
        return row if self.days is None else int(np.searchsorted(self.days, self.days[row]))


def refitted(mapped: Callable[..., Any], every: int = EVERY, window: int = WINDOW) -> Callable[..., Any]:
    """A batch method, used online by fitting it again and again."""

    def play(stream: Stream) -> Any:
        q, n = np.array(stream.p, float), len(stream.p)
        cuts = [0, FIRST, *range(every, n, every), n]
        for begin, end in pairwise(cuts):
            rows, past = slice(begin, end), slice(max(0, stream.known(begin) - window), stream.known(begin))
            if begin and 0 < stream.y[past].sum() < past.stop - past.start:
                two = [np.stack([1.0 - one, one], axis=1) for one in (stream.p[past], stream.p[rows])]
                q[rows] = np.clip(np.asarray(mapped(two[0], stream.y[past], two[1]))[:, 1], 0.0, 1.0)
            stream.settle(rows, q[rows])
        return q

    return play


def by_gradient(stream: Stream, rate: float = 0.01) -> Any:
    """Online Platt scaling by one step of gradient descent a round, as proposed to river in its PR 1988."""
    logits = logit(np.clip(stream.p, 1e-6, 1 - 1e-6))
    slope, offset, learnt, q = 1.0, 0.0, 0, np.empty(len(logits))
    for t, z in enumerate(logits):
        while learnt < stream.known(t):
            error = expit(slope * logits[learnt] + offset) - stream.y[learnt]
            slope, offset = slope - rate * error * logits[learnt], offset - rate * error
            learnt += 1
        q[t] = expit(slope * z + offset)
        stream.settle(slice(t, t + 1), q[t : t + 1])
    return q


def here(stream: Stream) -> Any:
    """`recalibrate_stream`; row by row, which is the same, where outcomes depend on the forecasts."""
    if not stream.rule:
        when = {} if stream.days is None else {"settled_at": stream.days, "times": stream.days}
        return recalibrate_stream(stream.p, stream.y, **when).probabilities
    model, q = CalibratedClassifier(Said(), classes=[False, True]), np.empty(len(stream.p))
    for t, p in enumerate(stream.p.tolist()):
        q[t] = model.predict_proba_one({"p": p})[True]
        model.learn_one({"p": p}, bool(stream.settle(slice(t, t + 1), q[t : t + 1])[0]))
    return q


def as_it_came(stream: Stream) -> Any:
    stream.settle(slice(None), stream.p)
    return stream.p


ONLINE: dict[str, Callable[[Stream], Any]] = {
    "as it came": as_it_came,
    "online Platt, proposed to river": by_gradient,
    "sigmoid, scikit-learn": refitted(by_scikit_learn("sigmoid")),
    "isotonic, scikit-learn": refitted(by_scikit_learn("isotonic")),
    "Venn-Abers": refitted(by_venn_abers),
    "beta, netcal": refitted(of_two(by_netcal("scaling", "BetaCalibration")), 2000, T),
    "MCGrad": refitted(of_two(by_mcgrad), 2000, T),
    "onlinecal": here,
}
"""Beta calibration of netcal and MCGrad take seconds a fit: every 2,000 rows, to all there are."""


def streams() -> dict[str, Callable[[], Stream]]:
    rng = np.random.default_rng(0)
    p, u = rng.random(T), rng.random(T)
    slopes = np.where(np.arange(T) < T // 2, 0.5, 2.0)
    rare = 0.05 * rng.beta(0.5, 4.0, 5 * T)
    odds, came = 8 * rare / (1 - rare), rng.random(5 * T) < rare
    games = pl.read_csv(datasets.NBAGames().path, try_parse_dates=True)
    days = games["date"].to_physical().to_numpy()
    return {
        "honest": lambda: Stream(p, u < p),
        "too sure, above 1/2 only": lambda: Stream(p, u < np.where(p < 0.5, p, 0.4 + 0.2 * p)),
        "half way another world": lambda: Stream(p, u < expit(slopes * logit(p))),
        "rare, odds 8 times too high": lambda: Stream(odds / (1 + odds), came),
        "NBA, settled by day": lambda: Stream(games["forecast"].to_numpy(), games["home_won"], days),
        "outcomes that read the forecast": lambda: Stream(p, lambda q: q < 0.5),
    }


def test_streams(note):
    for name, make in streams().items():
        note(f"{name:34s} {'Brier':>8s} {'log loss':>8s} {'distance':>8s} {'window':>8s} {'seconds':>8s}")
        found = {}
        for method, play in ONLINE.items():
            stream = make()
            spent, q = played(play, stream)
            if q is None:
                continue
            scores = event_scores(q, stream.y.astype(np.uint8))
            far = calibration_distance(q, stream.y, normalize=True, budget=0.1).upper
            off = max(abs((q - stream.y)[at : at + 1000].mean()) for at in range(0, len(q) - 999, 1000))
            found[method] = (scores.brier, far)
            note(
                f"{method:34s} {scores.brier:8.4f} {scores.log_loss:8.4f} {far:8.4f} {off:8.4f} {spent:8.2f}"
            )
        assert found["onlinecal"][0] <= 1.01 * min(brier for brier, _ in found.values()), name
    # the last of them
    assert found["onlinecal"][1] < 0.05, "outcomes that read the forecast"
