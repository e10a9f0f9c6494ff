"""A digest of every number that recalibrators and decision measures find on small tables: one line each.

Its argument is "measures", which must print the same lines under any settings of the processor, BLAS and
threads ("counting": those that need no compiler), or "fits", the same with any number of threads.
"""

import hashlib
import sys
import warnings

import numpy as np

from onlinecal import (
    BoostedRecalibrator,
    DecisionRecalibrator,
    GroupRecalibrator,
    LpRecalibrator,
    decision_calibration_error,
    decision_loss_gap,
    lp_calibration_error,
    multicalibration_error,
)
from onlinecal.measures.decision.errors import loss_set_gaps
from onlinecal.measures.decision.losses import bayes_decisions, decision_losses
from onlinecal.recalibration import (
    DirichletCalibration,
    TemperatureScaling,
    TopLabelIsotonic,
    VectorScaling,
    gaussian_losses,
)


def draw(n_rows, n_classes):
    """Probabilities that are too sure, made without functions that processors compute differently."""
    rng = np.random.default_rng(n_classes)
    truth = rng.random((n_rows, n_classes)) ** 2 + 0.05
    truth /= truth.sum(axis=1, keepdims=True)
    labels = (truth.cumsum(axis=1) < rng.random((n_rows, 1))).sum(axis=1)
    table = truth * truth
    table[:, 0] += 0.2
    return table / table.sum(axis=1, keepdims=True), labels


def measures():
    """What is the same on every processor: measures that search and sum."""
    table, labels = draw(300, 5)
    losses = gaussian_losses(3, 5, 40)
    yield decision_calibration_error(table, labels, 3)
    yield decision_calibration_error(table[:8], labels[:8], 2, "hard")
    yield decision_loss_gap(table, labels, losses)
    yield np.array(decision_losses(table, labels, losses))
    yield loss_set_gaps(table, labels, losses[:5])
    yield bayes_decisions(table, losses)
    yield from counting()


def counting():
    """Of these what counts, sums and sorting decide, also in fits."""
    table, labels = draw(200, 4)
    yield TopLabelIsotonic().fit(table, labels).predict_proba(table)
    for settings in (
        {"p": np.inf, "n_levels": 4, "tolerance": 0.01},
        {"n_levels": 3, "tolerance": 0.004, "within": "shift"},
    ):
        model = LpRecalibrator.as_in_paper(**settings).fit(table, labels)
        yield model.predict_proba(table)
        yield model.history_.squared_error
    yield lp_calibration_error(table, labels, 2, 4)
    forecasts, outcomes = table[:, 0], labels == 0
    groups = table[:, 1:] > 0.2
    for patch in ("value", "shift"):
        model = GroupRecalibrator.as_in_paper(0.002, patch, n_levels=20).fit(forecasts, outcomes, groups)
        yield model.predict(forecasts, groups)
    yield multicalibration_error(forecasts, outcomes, groups)
    yield BoostedRecalibrator.as_in_paper(alpha=0.02).fit(table, outcomes).predict(table)


def fits():
    """What is the same in every process of one machine: all other fits."""
    table, labels = draw(300, 5)
    for model in (
        DecisionRecalibrator(3, max_rounds=4),
        DecisionRecalibrator(2, partition="hard", n_folds=0, max_rounds=2),
        DecisionRecalibrator.as_in_paper(3, 0.15),
        TemperatureScaling(),
        VectorScaling(),
        DirichletCalibration(),
        LpRecalibrator(),
        LpRecalibrator(start="isotonic", share=0.7, limit=2.0),
    ):
        yield model.fit(table, labels).predict_proba(table)
    forecasts, outcomes, groups = table[:, 0], labels == 0, table[:, 1:] > 0.2
    grouped = GroupRecalibrator(0.002, n_folds=2).fit(forecasts, outcomes, groups)
    yield grouped.predict(forecasts, groups)
    yield BoostedRecalibrator(n_folds=2).fit(table, outcomes, forecasts).predict(table, forecasts)


def digests(part):
    """One line a result: its number, and the beginning of the SHA-256 of its bytes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, values in enumerate({"measures": measures, "counting": counting, "fits": fits}[part]()):
            array = np.ascontiguousarray(values, dtype=np.float64)
            yield f"{part} {number}: {hashlib.sha256(array.tobytes()).hexdigest()[:16]}"


if __name__ == "__main__":
    print(*digests(sys.argv[1]), sep="\n")
