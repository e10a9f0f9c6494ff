"""Decision recalibration of real networks beside the baselines: half fit, half test, seed 0, 500 losses."""

from __future__ import annotations

import time
from functools import cache
from typing import NamedTuple

import pytest
from sklearn.model_selection import GridSearchCV

from onlinecal.measures.decision.errors import decision_loss_gap
from onlinecal.measures.decision.partitions import residuals
from onlinecal.recalibration import (
    DecisionRecalibrator,
    DirichletCalibration,
    TemperatureScaling,
    TopLabelIsotonic,
    gaussian_losses,
)
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
