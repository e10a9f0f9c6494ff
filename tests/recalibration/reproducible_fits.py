"""A digest of every number that recalibrators and decision measures find on small tables: one line each.

Run as a program under other settings of the processor, BLAS and threads it must print the same lines. Its
argument is "decision" (floating point searches) or "counting" (searches over counts).
"""

from __future__ import annotations

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


def decision():
    """Names and arrays: what climbs, exponentials and linear scores decide."""
    table, labels = draw(300, 5)
    losses = gaussian_losses(3, 5, 40)
    for name, model in {
        "default": DecisionRecalibrator(3, max_rounds=4),
        "hard": DecisionRecalibrator(2, partition="hard", n_folds=0, max_rounds=2),
        "as in the paper": DecisionRecalibrator.as_in_paper(3, 0.15),
        "given losses": DecisionRecalibrator(losses=losses, max_rounds=4),
        "temperature": TemperatureScaling(),
        "vector": VectorScaling(),
        "Dirichlet": DirichletCalibration(),
        "lp": LpRecalibrator(),
        "isotonic, then lp": LpRecalibrator(start="isotonic", share=0.7, limit=2.0),
    }.items():
        yield name, model.fit(table, labels).predict_proba(table)
        if isinstance(model, DecisionRecalibrator):
            yield f"{name}: history", np.array(model.history_.tolist())
    yield "error", decision_calibration_error(table, labels, 3)
    yield "error, few rows", decision_calibration_error(table[:8], labels[:8], 2, "hard")
    yield "gaps", decision_loss_gap(table, labels, losses)
    yield "losses", np.array(decision_losses(table, labels, losses))
    yield "loss set", loss_set_gaps(table, labels, losses[:5])
    yield "decisions", bayes_decisions(table, losses)


def counting():
    """Names and arrays: what counts, sums and sorting decide."""
    table, labels = draw(200, 4)
    for name, model in {
        "top label": TopLabelIsotonic(),
        "lp": LpRecalibrator.as_in_paper(p=np.inf, n_levels=4, tolerance=0.01),
        "lp, shifts": LpRecalibrator.as_in_paper(n_levels=3, tolerance=0.004, within="shift"),
    }.items():
        yield name, model.fit(table, labels).predict_proba(table)
        if name.startswith("lp"):
            yield f"{name}: history", model.history_.squared_error
    yield "lp error", lp_calibration_error(table, labels, 2, 4)
    forecasts, outcomes = table[:, 0], labels == 0
    groups = table[:, 1:] > 0.2
    for patch in ("value", "shift"):
        model = GroupRecalibrator.as_in_paper(0.002, patch, n_levels=20).fit(forecasts, outcomes, groups)
        yield f"groups, {patch}", model.predict(forecasts, groups)
    grouped = GroupRecalibrator(0.002, n_folds=2).fit(forecasts, outcomes, groups)
    yield "groups, default", grouped.predict(forecasts, groups)
    started = BoostedRecalibrator(n_folds=2).fit(table, outcomes, forecasts)
    yield "boosted, default", started.predict(table, forecasts)
    yield "multicalibration", multicalibration_error(forecasts, outcomes, groups)
    yield "boosted", BoostedRecalibrator.as_in_paper(alpha=0.02).fit(table, outcomes).predict(table)


def digests(part):
    """One line a result: the beginning of the SHA-256 of its bytes, and its name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, values in {"decision": decision, "counting": counting}[part]():
            array = np.ascontiguousarray(values, dtype=np.float64)
            yield f"{hashlib.sha256(array.tobytes()).hexdigest()[:16]}  {name}"


if __name__ == "__main__":
    print(*digests(sys.argv[1]), sep="\n")
