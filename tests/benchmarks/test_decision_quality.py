"""Recalibrated tables of real networks on rows not fitted: for decisions, and called with their defaults."""

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
from onlinecal.recalibration.classical.linear import ChosenDirichlet
from tests.networks import halves

NETWORKS = ("lenet-5-cifar-10", "wideresnet-16-4-cifar-10", "densenet-bc-100-cifar-100")
SPLITS = range(5)
FEW_CLASSES = 20
"""With more, Dirichlet calibration takes some minutes a split."""


class Scores(NamedTuple):
    """Of a half that was not fitted: scores, Err_2 on 5 levels, mean and worst gap over 500 losses."""

    log_loss: float
    brier: float
    accuracy: float
    error: float
    gap: float
    worst_gap: float


def mean_scores(network, models, n_actions, splits):
    """By model, None for the table as it is."""
    found = {}
    for split in splits:
        P, y, Q, z = halves(network, split)
        for name, make in models.items():
            if name == "Dirichlet" and P.shape[1] > FEW_CLASSES:
                continue
            model = make()
            mapped = Q if model is None else model.fit(P, y).predict_proba(Q)
            scores, gaps = (
                class_scores(mapped, z),
                decision_loss_gap(mapped, z, gaussian_losses(n_actions, P.shape[1])),
            )
            error = lp_calibration_error(mapped, z, 2, n_bins=5)
            each = (scores.log_loss, scores.brier, scores.accuracy, error, gaps.mean(), gaps.max())
            found.setdefault(name, []).append(each)
    return {name: Scores(*np.mean(each, axis=0).tolist()) for name, each in found.items()}


def told(note, network, n_actions, found):
    for name, scores in found.items():
        figures = "  ".join(f"{what} {value:.5f}" for what, value in scores._asdict().items())
        note(f"{network:26s} K = {n_actions}  {name:22s} {figures}")


@pytest.mark.parametrize("n_actions", [2, 3, 5])
@pytest.mark.parametrize("network", NETWORKS)
def test_decision_targets_on_real_networks(note, network, n_actions):
    """The promises of docs/recalibrate-decisions.md."""
    models = {"none": lambda: None, "temperature": TemperatureScaling}
    models["decision"] = lambda: DecisionRecalibrator(n_actions=n_actions)
    found = mean_scores(network, models, n_actions, range(1))
    told(note, network, n_actions, found)
    raw, temperature, ours = found.values()
    assert ours.gap <= 0.4 * raw.gap
    assert ours.gap < temperature.gap
    assert ours.worst_gap <= 0.5 * raw.worst_gap
    assert ours.accuracy >= raw.accuracy - 0.003
    assert ours.brier <= raw.brier


MODELS = {
    "none": lambda: None,
    "temperature": TemperatureScaling,
    "vector": VectorScaling,
    "Dirichlet": ChosenDirichlet,
    "LpRecalibrator()": LpRecalibrator,
    "DecisionRecalibrator()": DecisionRecalibrator,
}


@pytest.mark.parametrize("network", NETWORKS)
def test_defaults_cost_no_skill(note, network):
    found = mean_scores(network, MODELS, 2, SPLITS)
    told(note, network, 2, found)
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
