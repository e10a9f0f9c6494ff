"""Half of a network's predictions fit, the other half tests: what each method makes of it."""

from __future__ import annotations

import time
from functools import cache
from typing import NamedTuple

import numpy as np
from sklearn.model_selection import GridSearchCV

from onlinecal.measures.decision.errors import decision_loss_gap
from onlinecal.measures.decision.losses import residuals
from onlinecal.recalibration import (
    DecisionRecalibrator,
    DirichletCalibration,
    TemperatureScaling,
    TopLabelIsotonic,
    gaussian_losses,
)
from tests import DATA

NETWORKS = {
    "LeNet CIFAR-10": DATA / "lenet-5-cifar-10.npz",
    "WideResNet CIFAR-10": DATA / "wideresnet-16-4-cifar-10.npz",
    "DenseNet CIFAR-100": DATA / "densenet-bc-100-cifar-100.npz",
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


def halves(path):
    """Fitting table and labels, test table and labels, by a permutation with seed 0."""
    with np.load(path) as data:
        table, labels = data["predictions"].astype(float), data["ground_truth"].ravel().astype(int)
    table /= table.sum(axis=1, keepdims=True)
    order = np.random.default_rng(0).permutation(len(labels))
    fit, test = order[: len(order) // 2], order[len(order) // 2 :]
    return table[fit], labels[fit], table[test], labels[test]


def quality(path, method, n_actions):
    """Fit a method on the first half and measure it on the second."""
    mapped, seconds = mapped_half(path, method, n_actions if method == "decision" else None)
    theirs = halves(path)[3]
    gaps = decision_loss_gap(mapped, theirs, gaussian_losses(n_actions, mapped.shape[1]))
    return Quality(
        float(gaps.mean()),
        float(gaps.max()),
        float((mapped.argmax(axis=1) == theirs).mean()),
        float((residuals(mapped, theirs) ** 2).sum(axis=1).mean()),
        seconds,
    )


@cache
def mapped_half(path, method, n_actions):
    """What a method makes of the second half, and the processor's seconds of its fit."""
    table, labels, fresh, _ = halves(path)
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
