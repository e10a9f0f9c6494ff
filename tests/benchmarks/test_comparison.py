"""The tables of docs/comparison.md: other packages on streams and on tables, in one command.

None of them is a dependency: what is not installed is named and left out. For all

    pip install netcal mcgrad multicalibration mapie venn-abers relplot
    python -m pytest -m speed -n 0 tests/benchmarks/test_comparison.py
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

from onlinecal import (
    CalibratedClassifier,
    calibration_distance,
    classwise_calibration_error,
    datasets,
    recalibrate_stream,
    smooth_calibration_error,
)
from onlinecal.measures.scores import class_scores, event_scores
from tests.benchmarks.conftest import seconds
from tests.benchmarks.test_recalibration_peers import (
    OURS,
    PEERS,
    Told,
    by_mcgrad,
    by_netcal,
    by_scikit_learn,
    missing,
    timed,
)
from tests.networks import halves

PACKAGES = ("netcal", "mcgrad", "mapie", "venn_abers", "relplot")
EVERY, WINDOW, FIRST = 500, 2000, 100
"""Batch methods on streams: fitted anew so often, to so many rows, once there are so many."""
T = 8000


def by_venn_abers(P: Any, y: Any, Q: Any) -> Any:
    calibrator = importlib.import_module("venn_abers").VennAbersCalibrator()
    return calibrator.predict_proba(p_cal=P, y_cal=np.asarray(y, int), p_test=Q)


def by_mapie(P: Any, y: Any, Q: Any) -> Any:
    """The top label's probability is MAPIE's; it has none for the others, which share the rest as before."""
    module = importlib.import_module("mapie.calibration")
    top = (
        module.TopLabelCalibrator(Told().fit(P, y), calibrator="isotonic", cv="prefit")
        .fit(P, y)
        .predict_proba(Q)
    )
    best, table = Q.argmax(axis=1), Q.copy()
    rows = np.arange(len(Q))
    p = np.nan_to_num(top[rows, best], nan=0.0)
    table[rows, best] = 0.0
    table *= ((1.0 - p) / np.maximum(table.sum(axis=1), 1e-12))[:, None]
    table[rows, best] = p
    return table


def by_mcgrad_alone(P: Any, y: Any, Q: Any) -> Any:
    q = by_mcgrad(P[:, 1], y, np.zeros(len(P), int), Q[:, 1], np.zeros(len(Q), int))
    return np.stack([1.0 - q, q], axis=1)


def by_netcal_of_two(P: Any, y: Any, Q: Any) -> Any:
    q = np.ravel(by_netcal("scaling", "BetaCalibration")(P[:, 1], y, Q[:, 1]))
    return np.stack([1.0 - q, q], axis=1)


class Stream:
    """Probabilities, and outcomes (T,), or a rule that reads the forecasts; days if they are late."""

    def __init__(self, p: Any, outcomes: Any, days: Any = None) -> None:
        self.p, self.days, self.late = p, days, days is not None
        self.reads = callable(outcomes)
        self.y = np.zeros(len(p), int) if self.reads else np.asarray(outcomes, int)
        self.rule = outcomes

    def settle(self, rows: slice, q: Any) -> Any:
        """What comes of these rows, once they are forecast."""
        if self.reads:
            self.y[rows] = self.rule(np.asarray(q))
        return self.y[rows]

    def known(self, row: int) -> int:
        """How many rows are settled when this one is forecast."""
        return int(np.searchsorted(self.days, self.days[row])) if self.late else row


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
    logits = np.log(np.clip(stream.p, 1e-6, 1 - 1e-6) / (1 - np.clip(stream.p, 1e-6, 1 - 1e-6)))
    slope, offset, learnt, q = 1.0, 0.0, 0, np.empty(len(logits))
    for t, z in enumerate(logits):
        while learnt < stream.known(t):
            error = 1 / (1 + np.exp(-slope * logits[learnt] - offset)) - stream.y[learnt]
            slope, offset = slope - rate * error * logits[learnt], offset - rate * error
            learnt += 1
        q[t] = 1 / (1 + np.exp(-slope * z - offset))
        stream.settle(slice(t, t + 1), q[t : t + 1])
    return q


class Hints:
    """A river classifier that says what its features say."""

    def predict_proba_one(self, x: Any) -> dict[bool, float]:
        return {False: 1.0 - x["p"], True: x["p"]}

    def learn_one(self, x: Any, y: Any) -> None:
        pass


def here(stream: Stream) -> Any:
    """`recalibrate_stream`; row by row, which is the same, where outcomes depend on the forecasts."""
    if not stream.reads:
        when = {"settled_at": stream.days, "times": stream.days} if stream.late else {}
        return recalibrate_stream(stream.p, stream.y, **when).probabilities
    model, q = CalibratedClassifier(Hints(), classes=[False, True]), np.empty(len(stream.p))
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
    "beta, netcal": refitted(by_netcal_of_two, 2000, T),
    "MCGrad": refitted(by_mcgrad_alone, 2000, T),
    "onlinecal": here,
}
"""Beta calibration of netcal and MCGrad take seconds a fit: every 2,000 rows, to all there are."""


def logistic(z: Any) -> Any:
    return 1 / (1 + np.exp(-z))


def streams() -> dict[str, Callable[[], Stream]]:
    rng = np.random.default_rng(0)
    p, u = rng.random(T), rng.random(T)
    logits = np.log(p / (1 - p))
    slopes = np.where(np.arange(T) < T // 2, 0.5, 2.0)
    rare = 0.05 * rng.beta(0.5, 4.0, 5 * T)
    odds, came = 8 * rare / (1 - rare), rng.random(5 * T) < rare
    games = pl.read_csv(datasets.NBAGames().path, try_parse_dates=True)
    days = games["date"].to_physical().to_numpy()
    return {
        "honest": lambda: Stream(p, u < p),
        "too sure, above 1/2 only": lambda: Stream(p, u < np.where(p < 0.5, p, 0.4 + 0.2 * p)),
        "half way another world": lambda: Stream(p, u < logistic(slopes * logits)),
        "rare, odds 8 times too high": lambda: Stream(odds / (1 + odds), came),
        "NBA, settled by day": lambda: Stream(games["forecast"].to_numpy(), games["home_won"], days),
        "outcomes that read the forecast": lambda: Stream(p, lambda q: q < 0.5),
    }


@pytest.mark.timeout(3600)
def test_streams(note):
    found = {}
    for name, make in streams().items():
        note("")
        note(f"{name:34s} {'Brier':>8s} {'log loss':>8s} {'distance':>8s} {'window':>8s} {'seconds':>8s}")
        for method, play in ONLINE.items():
            stream = make()
            q, spent = timed(play, stream)
            if q is None:
                continue
            scores = event_scores(q, stream.y.astype(np.uint8))
            far = calibration_distance(q, stream.y, normalize=True, budget=0.1).upper
            off = max(abs((q - stream.y)[at : at + 1000].mean()) for at in range(0, len(q) - 999, 1000))
            found[name, method] = (scores.brier, far)
            note(
                f"{method:34s} {scores.brier:8.4f} {scores.log_loss:8.4f} {far:8.4f} {off:8.4f} {spent:8.2f}"
            )
    note(f"left out: {missing(PACKAGES) or 'nothing'}")
    for name in streams():
        briers = [score for (where, _), (score, _) in found.items() if where == name]
        assert found[name, "onlinecal"][0] <= 1.01 * min(briers), name
    assert found["outcomes that read the forecast", "onlinecal"][1] < 0.05


def digits() -> tuple[Any, Any, Any, Any]:
    """The table of docs/tutorials/network.md: one half to fit, one to measure."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(y))
    X, y = X[order] / 16 + 0.3 * rng.standard_normal(X.shape), y[order]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MLPClassifier(64, max_iter=400, random_state=0).fit(X[:600], y[:600])
    P, labels = model.predict_proba(X[600:]), y[600:].astype(np.int64)
    half = len(labels) // 2
    return P[:half], labels[:half], P[half:], labels[half:]


TABLES = {
    "digits, a small network": digits,
    "CIFAR-10, WideResNet": partial(halves, "wideresnet-16-4-cifar-10"),
}
BESIDE = {"Venn-Abers": by_venn_abers, "top label, MAPIE": by_mapie}


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", TABLES)
def test_tables(note, name):
    P, y, Q, z = TABLES[name]()
    note("")
    note(f"{name:34s} {'log loss':>8s} {'Brier':>8s} {'classwise':>9s} {'top label':>9s} {'seconds':>8s}")
    for method, mapped in {**PEERS, **BESIDE, **OURS}.items():
        table, spent = timed(mapped, P, y, Q)
        if table is None:
            continue
        table = np.clip(table, 0.0, 1.0) / np.clip(table, 0.0, 1.0).sum(axis=1, keepdims=True)
        scores = class_scores(table, z)
        apart = classwise_calibration_error(table, z, 15, normalize=True)
        note(
            f"{method:34s} {scores.log_loss:8.4f} {scores.brier:8.4f} {apart:9.4f} {scores.ece:9.4f} "
            f"{spent:8.2f}"
        )


def test_measures(note):
    """relplot's smooth ECE and the smooth calibration error here are two measures; seconds and values."""
    games = pl.read_csv(datasets.NBAGames().path)
    p, y = games["forecast"].to_numpy(), games["home_won"].to_numpy()
    calls = {
        "smooth calibration error, here": lambda: smooth_calibration_error(p, y, normalize=True),
        "distance to calibration, here": lambda: calibration_distance(p, y, normalize=True).upper,
    }
    if not missing(("relplot",)):
        calls["smooth ECE, relplot"] = lambda: importlib.import_module("relplot").smECE(p, y)
    note("")
    for name, call in calls.items():
        call()
        spent = seconds(call)
        note(f"{name:34s} {call():8.4f} {spent:8.3f} s")
