"""Recalibration for groups, on rows that were not fitted, beside doing nothing and other methods."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from sklearn.isotonic import IsotonicRegression

from onlinecal import BoostedRecalibrator, GroupRecalibrator
from onlinecal.measures.groups import group_mean_error
from onlinecal.measures.scores import event_scores
from onlinecal.recalibration.groups.maker import GroupMaker
from tests.benchmarks.conftest import timed
from tests.networks import halves

SIZES = (100, 250, 500, 2_500, 15_000)
"""Rows that are fitted."""
SPLITS = 5
NETWORKS = {"LeNet": "lenet-5-cifar-10", "WideResNet": "wideresnet-16-4-cifar-10"}
LOANS = ("loans, groups unknown", "loans, too sure", "loans, right")


class Rows(NamedTuple):
    """Forecasts, outcomes, columns of groups."""

    p: Any
    y: Any
    columns: pd.DataFrame


def top_labels(table, labels):
    """The top label of a network, whether it is right; the groups are the labels."""
    top = table.argmax(axis=1)
    return Rows(table.max(axis=1), (top == labels).astype(int), pd.DataFrame({"label": top.astype(str)}))


def loans(name, n, seed):
    """A table like one of credit, whose truth is known: age, region, sex, job, and a score."""
    rng = np.random.default_rng([seed, n])
    age, sex = rng.integers(0, 4, n), rng.integers(0, 2, n)
    region = rng.choice(6, n, p=[0.3, 0.25, 0.2, 0.12, 0.08, 0.05])
    job = rng.choice(4, n, p=[0.5, 0.3, 0.15, 0.05])
    score = rng.normal(0, 1.3, n)
    z = score - 0.9 + np.array([0.9, 0.2, -0.3, -0.5])[age] + np.array([0, 0.3, -0.3, 0.6, -0.8, 1.0])[region]
    z += (
        0.8 * ((sex == 1) & (age == 0)) - 0.7 * ((sex == 0) & (job == 1)) + np.array([0, 0.2, -0.6, 1.2])[job]
    )
    said = {LOANS[0]: 0.9 * score - 0.65, LOANS[1]: 1.8 * z, LOANS[2]: z}[name]
    y = (rng.random(n) < 1 / (1 + np.exp(-z))).astype(int)
    columns = pd.DataFrame({"age": age, "region": region, "sex": sex, "job": job}).astype(str)
    return Rows(1 / (1 + np.exp(-said)), y, columns)


def split(name, n, seed):
    """The rows to fit and others; a skip where there are not so many."""
    if name in LOANS:
        return loans(name, n, seed), loans(name, 20_000, seed + 1000)
    P, y, Q, z = halves(NETWORKS[name], seed)
    if n > len(y):
        pytest.skip(f"{name} has no {n} rows here")
    return top_labels(P[:n], y[:n]), top_labels(Q, z)


def isotonic(fit, test):
    """Isotonic regression, which knows no groups."""
    return IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(fit.p, fit.y).predict(test.p)


def grouped(model):
    return lambda fit, test: model.fit(fit.p, fit.y, fit.columns).predict_proba(test.p, test.columns)


def boosted(fit, test):
    """BoostedRecalibrator(), from the same columns as indicators."""
    X = pd.get_dummies(fit.columns)
    Z = pd.get_dummies(test.columns).reindex(columns=X.columns, fill_value=False)
    model = BoostedRecalibrator().fit(X.to_numpy(float), fit.y, fit.p)
    return model.predict_proba(Z.to_numpy(float), test.p)


def mcgrad(fit, test):
    """MCGrad with its defaults, where it is installed."""
    named = {"categorical_feature_column_names": list(fit.columns.columns)}
    model = import_module("mcgrad.methods").MCGrad()
    model.fit(fit.columns.assign(p=fit.p, y=fit.y), "p", "y", **named)
    return model.predict(test.columns.assign(p=test.p), "p", **named)


METHODS = {
    "nothing": lambda fit, test: test.p,
    "isotonic": isotonic,
    "as in the paper, shift": grouped(GroupRecalibrator.as_in_paper(0.001, "shift", n_levels=10)),
    "BoostedRecalibrator": boosted,
    "GroupRecalibrator": grouped(GroupRecalibrator()),
}
if find_spec("mcgrad"):
    METHODS["MCGrad"] = mcgrad


@pytest.mark.filterwarnings("ignore::onlinecal.LabelWarning")
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", [*NETWORKS, *LOANS])
def test_group_targets(note, name, n):
    """The promises of docs/recalibrate-groups.md, on log loss, Brier score and the worst group."""
    found = {method: [] for method in METHODS}
    for seed in range(SPLITS):
        fit, test = split(name, n, seed)
        members = GroupMaker().fit(test.columns, len(test.y))
        for method, mapped in METHODS.items():
            spent, q = timed(lambda mapped=mapped, rows=(fit, test): mapped(*rows))
            scores, worst = event_scores(q, test.y), np.abs(group_mean_error(q, test.y, members)).max()
            found[method].append((scores.log_loss, scores.brier, worst, spent))
    means = {method: np.mean(each, axis=0) for method, each in found.items()}
    for method, (loss, brier, worst, spent) in means.items():
        note(f"{name:24s} {n:6,d}  {method:24s} {loss:9.4f} {brier:8.4f} {worst:11.4f} {spent:7.2f} s")
    before = means["nothing"]
    for method in ("GroupRecalibrator", "BoostedRecalibrator"):
        after = means[method]
        assert (after[:2] <= 1.002 * before[:2]).all()
        if name != LOANS[2] and n >= 500:
            assert after[2] < 0.75 * before[2]
        if "MCGrad" in found and name in NETWORKS and n == SIZES[-2]:
            behind = np.array(found[method])[:, 2] - np.array(found["MCGrad"])[:, 2]
            assert behind.mean() <= 2.0 * behind.std(ddof=1) / SPLITS**0.5
            assert after[0] <= 1.005 * means["MCGrad"][0]
