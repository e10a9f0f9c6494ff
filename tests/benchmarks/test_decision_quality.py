"""Recalibrated tables of real networks on rows not fitted: for decisions, and called with their defaults."""

from __future__ import annotations

import time
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from onlinecal import DecisionRecalibrator, LpRecalibrator, decision_loss_gap, lp_calibration_error
from onlinecal.measures.decision.losses import residuals
from onlinecal.measures.scores import class_scores
from onlinecal.recalibration import (
    DirichletCalibration,
    TemperatureScaling,
    TopLabelIsotonic,
    VectorScaling,
    gaussian_losses,
)
from onlinecal.recalibration.classical.linear import chosen_dirichlet
from tests.networks import halves

NETWORKS = {
    "LeNet CIFAR-10": "lenet-5-cifar-10",
    "WideResNet CIFAR-10": "wideresnet-16-4-cifar-10",
    "DenseNet CIFAR-100": "densenet-bc-100-cifar-100",
}
PENALTIES = (0.01, 1.0, 100.0, 10_000.0)
"""Of Dirichlet calibration; the best log loss on three folds of the fitting half decides."""
METHODS = ("uncalibrated", "temperature", "Dirichlet", "top-label", "decision")


class Quality(NamedTuple):
    """Gaps over 500 losses, accuracy and squared error on the test half; processor seconds of the fit."""

    mean_gap: float
    worst_gap: float
    accuracy: float
    squared_error: float
    seconds: float


def quality(network, method, n_actions):
    """Fit a method on the first half and measure it on the second."""
    mapped, seconds = mapped_half(network, method, n_actions if method == "decision" else None)
    theirs = halves(network)[3]
    gaps = decision_loss_gap(mapped, theirs, gaussian_losses(n_actions, mapped.shape[1]))
    return Quality(
        float(gaps.mean()),
        float(gaps.max()),
        float((mapped.argmax(axis=1) == theirs).mean()),
        float((residuals(mapped, theirs) ** 2).sum(axis=1).mean()),
        seconds,
    )


@cache
def mapped_half(network, method, n_actions):
    """What a method makes of the second half, and the processor's seconds of its fit."""
    table, labels, fresh, _ = halves(network)
    if method == "uncalibrated":
        return fresh, 0.0
    models = {
        "temperature": TemperatureScaling(),
        "Dirichlet": GridSearchCV(
            DirichletCalibration(), {"off_diagonal": PENALTIES}, scoring="neg_log_loss", cv=3
        ),
        "top-label": TopLabelIsotonic(),
        "decision": DecisionRecalibrator(n_actions),
    }
    start = time.process_time()
    model = models[method].fit(table, labels)
    return model.predict_proba(fresh), time.process_time() - start


def check_targets(raw, temperature, ours):
    """The promises of docs/recalibrate-decisions.md."""
    assert ours.mean_gap <= 0.4 * raw.mean_gap
    assert ours.mean_gap < temperature.mean_gap
    assert ours.worst_gap <= 0.5 * raw.worst_gap
    assert ours.accuracy >= raw.accuracy - 0.003
    assert ours.squared_error <= raw.squared_error


@pytest.fixture(scope="module", autouse=True)
def heading(note):
    note(
        f"{'network':20s} K  {'method':13s} {'mean gap':>9s} {'worst gap':>9s} {'accuracy':>9s} "
        f"{'squared error':>13s} {'fit, s':>7s}"
    )


@pytest.mark.parametrize("n_actions", [2, 3, 5])
@pytest.mark.parametrize("network", NETWORKS)
def test_decision_targets_on_real_networks(note, network, n_actions):
    results = {method: quality(NETWORKS[network], method, n_actions) for method in METHODS}
    for method, (mean, worst, accuracy, squared, seconds) in results.items():
        note(
            f"{network:20s} {n_actions}  {method:13s} {mean:9.5f} {worst:9.5f} {accuracy:9.4f} "
            f"{squared:13.5f} {seconds:7.2f}"
        )
    check_targets(results["uncalibrated"], results["temperature"], results["decision"])


SPLITS = range(5)
FEW_CLASSES = 20
"""With more, Dirichlet calibration takes some minutes a split."""
MODELS = {
    "as it is": lambda: None,
    "temperature": TemperatureScaling,
    "vector": VectorScaling,
    "Dirichlet": chosen_dirichlet,
    "LpRecalibrator()": LpRecalibrator,
    "DecisionRecalibrator()": DecisionRecalibrator,
}


class Scores(NamedTuple):
    log_loss: float
    brier: float
    accuracy: float
    error: float
    gap: float


def scored(table, labels, losses):
    scores = class_scores(table, labels)
    gap = decision_loss_gap(table, labels, losses).mean()
    error = lp_calibration_error(table, labels, 2, 5)
    return Scores(scores.log_loss, scores.brier, scores.accuracy, error, float(gap))


def mean_scores(network):
    found = {name: [] for name in MODELS}
    for split in SPLITS:
        P, y, Q, z = halves(network, split)
        losses = gaussian_losses(2, P.shape[1])
        for name, make in MODELS.items():
            if name == "Dirichlet" and P.shape[1] > FEW_CLASSES:
                continue
            model = make()
            mapped = Q if model is None else model.fit(P, y).predict_proba(Q)
            found[name].append(scored(mapped, z, losses))
    return {name: Scores(*np.mean(each, axis=0)) for name, each in found.items() if each}


@pytest.fixture(scope="module", autouse=True)
def heading_of_defaults(note):
    note("| network | method | log loss | Brier score | accuracy | Err_2, λ = 5 | mean gap |")
    note("|---|---|---|---|---|---|---|")


@pytest.mark.parametrize("network", NETWORKS)
def test_defaults_cost_no_skill(note, network):
    found = mean_scores(NETWORKS[network])
    for name, (log_loss, brier, accuracy, error, gap) in found.items():
        figures = f"{log_loss:.4f} | {brier:.4f} | {accuracy:.4f} | {error:.4f} | {gap:.5f}"
        note(f"| {network} | {name} | {figures} |")
    temperature = found["temperature"]
    for name in ("LpRecalibrator()", "DecisionRecalibrator()"):
        ours = found[name]
        assert ours.log_loss <= 1.005 * min(peer.log_loss for peer in found.values())
        assert ours.log_loss <= temperature.log_loss
        assert ours.brier <= temperature.brier
        assert ours.accuracy >= temperature.accuracy - 0.003
        assert ours.error <= temperature.error
        assert ours.gap <= temperature.gap


SMALL = {
    "naive Bayes": GaussianNB(),
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)),
    "random forest": RandomForestClassifier(50, random_state=0),
}


@pytest.mark.parametrize("load", [load_digits, load_wine, load_iris, load_breast_cancer])
@pytest.mark.parametrize("classifier", SMALL)
def test_defaults_cost_small_tables_next_to_nothing(note, classifier, load):
    X, y = load(return_X_y=True)
    order = np.random.default_rng(1).permutation(len(y))
    X, y = X[order], y[order]
    table = cross_val_predict(SMALL[classifier], X, y, method="predict_proba", cv=4)
    table /= table.sum(axis=1, keepdims=True)
    for kind in (LpRecalibrator, DecisionRecalibrator):
        losses = []
        for split in SPLITS:
            fit, test = np.array_split(np.random.default_rng(split).permutation(len(y)), 2)
            mapped = kind().fit(table[fit], y[fit]).predict_proba(table[test])
            losses.append([class_scores(each, y[test]).log_loss for each in (table[test], mapped)])
        own, ours = np.mean(losses, axis=0)
        note(f"{load.__name__:20s} {classifier:20s} {kind.__name__:20s} log loss {own:.4f} -> {ours:.4f}")
        assert ours <= own + 0.01
