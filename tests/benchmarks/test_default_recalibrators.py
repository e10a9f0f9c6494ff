"""Recalibrators called with their defaults on held networks: half fits, half tests, the mean of five splits.

Err_2 is measured on 5 levels, the gap is the mean of 500 Gaussian losses with two actions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from onlinecal import DecisionRecalibrator, LpRecalibrator, decision_loss_gap, lp_calibration_error
from onlinecal.measures.scores import class_scores
from onlinecal.recalibration import TemperatureScaling, VectorScaling, gaussian_losses
from onlinecal.recalibration.classical.linear import chosen_dirichlet
from tests.benchmarks.test_decision_quality import NETWORKS
from tests.networks import halves

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


class Quality(NamedTuple):
    log_loss: float
    brier: float
    accuracy: float
    error: float
    gap: float


def quality(table, labels, losses):
    scores = class_scores(table, labels)
    gap = decision_loss_gap(table, labels, losses).mean()
    error = lp_calibration_error(table, labels, 2, 5)
    return Quality(scores.log_loss, scores.brier, scores.accuracy, error, float(gap))


def means(network):
    found = {name: [] for name in MODELS}
    for split in SPLITS:
        P, y, Q, z = halves(network, split)
        losses = gaussian_losses(2, P.shape[1])
        for name, make in MODELS.items():
            if name == "Dirichlet" and P.shape[1] > FEW_CLASSES:
                continue
            model = make()
            mapped = Q if model is None else model.fit(P, y).predict_proba(Q)
            found[name].append(quality(mapped, z, losses))
    return {name: Quality(*np.mean(each, axis=0)) for name, each in found.items() if each}


@pytest.fixture(scope="module", autouse=True)
def heading(note):
    note("| network | method | log loss | Brier score | accuracy | Err_2, λ = 5 | mean gap |")
    note("|---|---|---|---|---|---|---|")


@pytest.mark.parametrize("network", NETWORKS)
def test_defaults_cost_no_skill(note, network):
    found = means(NETWORKS[network])
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
