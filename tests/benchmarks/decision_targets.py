"""Half of a network's predictions fit, the other half tests: what each method makes of it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from onlinecal.measures.decision import decision_loss_gap
from onlinecal.measures.decision_partitions import residuals
from onlinecal.recalibration import (
    DecisionRecalibrator,
    DirichletCalibration,
    TemperatureScaling,
    TopLabelIsotonic,
    gaussian_losses,
)

DATA = Path(__file__).parents[3] / "shared" / "data"
NETWORKS = {
    "LeNet CIFAR-10": DATA / "lenet-5-cifar-10.npz",
    "WideResNet CIFAR-10": DATA / "wideresnet-16-4-cifar-10.npz",
    "DenseNet CIFAR-100": DATA / "densenet-bc-100-cifar-100.npz",
}
METHODS = ("uncalibrated", "temperature", "Dirichlet", "top-label", "decision")


class Quality(NamedTuple):
    """On the test half: gaps over 500 losses, accuracy and squared error; and the seconds of the fit."""

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
    table, labels, fresh, theirs = halves(path)
    models = {
        "temperature": TemperatureScaling,
        "Dirichlet": DirichletCalibration,
        "top-label": TopLabelIsotonic,
        "decision": lambda: DecisionRecalibrator(n_actions),
    }
    start = time.perf_counter()
    if method != "uncalibrated":
        fresh_after = models[method]().fit(table, labels)
    seconds = time.perf_counter() - start
    mapped = fresh if method == "uncalibrated" else fresh_after.predict_proba(fresh)
    gaps = decision_loss_gap(mapped, theirs, gaussian_losses(n_actions, table.shape[1]))
    return Quality(
        float(gaps.mean()),
        float(gaps.max()),
        float((mapped.argmax(axis=1) == theirs).mean()),
        float((residuals(mapped, theirs) ** 2).sum(axis=1).mean()),
        seconds,
    )


def check_targets(raw, temperature, ours):
    """The promises of docs/recalibrate-decisions.md."""
    assert ours.mean_gap <= 0.4 * raw.mean_gap
    assert ours.mean_gap < temperature.mean_gap
    assert ours.worst_gap <= 0.5 * raw.worst_gap
    assert ours.accuracy >= raw.accuracy - 0.003
    assert ours.squared_error <= raw.squared_error
