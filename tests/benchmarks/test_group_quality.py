"""Recalibration for groups, on rows that were not fitted, beside doing nothing and other methods."""

from __future__ import annotations

import time
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from sklearn.isotonic import IsotonicRegression

from onlinecal import BoostedRecalibrator, GroupRecalibrator
from onlinecal.measures.groups import group_mean_error
from onlinecal.recalibration.groups.maker import GroupMaker
from tests.networks import predictions

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


class Quality(NamedTuple):
    """On rows that were not fitted: losses, the greatest bias of a group's mean; seconds of the fit."""

    log_loss: float
    brier: float
    worst: float
    seconds: float


def network(name):
    """The top label of a network, whether it is right; the groups are the labels."""
    table, labels = predictions(NETWORKS[name])
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


def halves(name, n, seed):
    """The rows to fit and others, or None where there are not so many."""
    if name in LOANS:
        return loans(name, n, seed), loans(name, 20_000, seed + 1000)
    rows = network(name)
    if n > len(rows.p) // 2:
        return None
    order = np.random.default_rng(seed).permutation(len(rows.p))
    fit, test = order[:n], order[len(order) // 2 :]
    return tuple(Rows(rows.p[part], rows.y[part], rows.columns.iloc[part]) for part in (fit, test))


def nothing(fit, test):
    """The forecasts as they come."""
    return test.p


def isotonic(fit, test):
    """Isotonic regression, which knows no groups."""
    return IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(fit.p, fit.y).predict(test.p)


def groups(fit, test):
    """GroupRecalibrator()."""
    return GroupRecalibrator().fit(fit.p, fit.y, fit.columns).predict(test.p, test.columns)


def plain(fit, test):
    """Shift patches until all groups are within .001, on ten levels, without held-out rows."""
    model = GroupRecalibrator.as_in_paper(0.001, "shift", n_levels=10)
    return model.fit(fit.p, fit.y, fit.columns).predict(test.p, test.columns)


def boosted(fit, test):
    """BoostedRecalibrator(), from the same columns as indicators."""
    X = pd.get_dummies(fit.columns)
    Z = pd.get_dummies(test.columns).reindex(columns=X.columns, fill_value=False)
    model = BoostedRecalibrator().fit(X.to_numpy(float), fit.y, fit.p)
    return model.predict(Z.to_numpy(float), test.p)


def mcgrad(fit, test):
    """MCGrad with its defaults, where it is installed."""
    from mcgrad.methods import MCGrad

    names = list(fit.columns)
    tables = [rows.columns.assign(p=rows.p, y=rows.y) for rows in (fit, test)]
    model = MCGrad().fit(tables[0], "p", "y", categorical_feature_column_names=names)
    return model.predict(tables[1], "p", categorical_feature_column_names=names)


METHODS = {
    "nothing": nothing,
    "isotonic": isotonic,
    "as in the paper, shift": plain,
    "MCGrad": mcgrad,
    "BoostedRecalibrator": boosted,
    "GroupRecalibrator": groups,
}


def quality(method, name, n):
    """Means over the splits; None without rows."""
    found = []
    for seed in range(SPLITS):
        parts = halves(name, n, seed)
        if parts is None:
            return None
        fit, test = parts
        start = time.process_time()
        q = METHODS[method](fit, test)
        seconds = time.process_time() - start
        right = np.clip(np.where(test.y == 1, q, 1 - q), 1e-15, None)
        members = GroupMaker().fit(test.columns, len(q))
        worst = np.abs(group_mean_error(q, test.y, members)).max()
        found.append((-np.log(right).mean(), np.mean((q - test.y) ** 2), worst, seconds))
    return Quality(*np.mean(found, axis=0).tolist())


def check_targets(before, after, n, right):
    """The promises of docs/recalibrate-groups.md."""
    assert after.log_loss <= 1.002 * before.log_loss
    assert after.brier <= 1.002 * before.brier
    if not right and n >= 500:
        assert after.worst < 0.75 * before.worst


@pytest.fixture(scope="module", autouse=True)
def heading(note):
    note(
        f"means of {SPLITS} splits        {'rows':>6s}  {'method':24s} {'log loss':>9s} {'Brier':>8s} "
        f"{'worst group':>11s} {'fit, s':>7s}"
    )


@pytest.mark.filterwarnings("ignore::onlinecal.LabelWarning")
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", [*NETWORKS, *LOANS])
def test_group_targets(note, name, n):
    results = {
        method: quality(method, name, n) for method in METHODS if method != "MCGrad" or find_spec("mcgrad")
    }
    if results["nothing"] is None:
        pytest.skip(f"{name} has no {n} rows here")
    for method, found in results.items():
        note(
            f"{name:24s} {n:6,d}  {method:24s} {found.log_loss:9.4f} {found.brier:8.4f} {found.worst:11.4f} "
            f"{found.seconds:7.2f}"
        )
    for method in ("GroupRecalibrator", "BoostedRecalibrator"):
        check_targets(results["nothing"], results[method], n, name == LOANS[2])
