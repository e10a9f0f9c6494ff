"""A digest of every number that recalibrators and decision measures find on small tables: one line each.

Run as a program under different settings of the processor, BLAS and threads, it must print the same lines.
"""

from __future__ import annotations

import hashlib
import warnings

import numpy as np

from onlinecal import (
    BoostedRecalibrator,
    DecisionRecalibrator,
    GroupRecalibrator,
    LpRecalibrator,
    decision_calibration_error,
    decision_loss_gap,
    multicalibration_error,
)
from onlinecal.measures.decision import bayes_decisions, decision_losses, loss_set_gaps
from onlinecal.recalibration import TemperatureScaling, TopLabelIsotonic, gaussian_losses


def draw(n_rows, n_classes):
    """Probabilities that are too sure, without functions that processors compute differently."""
    rng = np.random.default_rng(n_classes)
    truth = rng.random((n_rows, n_classes)) ** 2 + 0.05
    truth /= truth.sum(axis=1, keepdims=True)
    labels = (truth.cumsum(axis=1) < rng.random((n_rows, 1))).sum(axis=1)
    table = truth * truth
    table[:, 0] += 0.2
    return table / table.sum(axis=1, keepdims=True), labels


def found():
    """Names and arrays, in a fixed order."""
    table, labels = draw(600, 5)
    losses = gaussian_losses(3, 5, 40)
    for name, model in {
        "decision": DecisionRecalibrator(3),
        "decision, hard": DecisionRecalibrator(3, partition="hard", n_folds=2, max_rounds=6),
        "decision, as in the paper": DecisionRecalibrator.as_in_paper(3, 0.05),
        "decision, given losses": DecisionRecalibrator(losses=losses),
        "temperature": TemperatureScaling(),
        "top label": TopLabelIsotonic(),
        "lp": LpRecalibrator(p=3.0, n_levels=4, tolerance=0.01),
        "lp, shifts": LpRecalibrator(n_levels=3, tolerance=0.004, within="shift"),
    }.items():
        yield name, model.fit(table, labels).predict_proba(table)
        if name.startswith("decision"):
            yield f"{name}: history", np.array(model.history_.tolist())
    for kind in ("soft", "hard"):
        yield f"error, {kind}", decision_calibration_error(table, labels, 3, kind)
    yield "error, few rows", decision_calibration_error(table[:10], labels[:10], 3, "hard")
    yield "gaps", decision_loss_gap(table, labels, losses)
    yield "losses", np.array(decision_losses(table, labels, losses))
    yield "loss set", loss_set_gaps(table, labels, losses[:5])
    yield "decisions", bayes_decisions(table, losses)
    forecasts, outcomes = table[:, 0], labels == 0
    groups = table[:, 1:] > 0.2
    for patch in ("value", "shift"):
        model = GroupRecalibrator(0.002, patch, n_levels=20).fit(forecasts, outcomes, groups)
        yield f"groups, {patch}", model.predict(forecasts, groups)
    yield "multicalibration", multicalibration_error(forecasts, outcomes, groups)
    yield "boosted", BoostedRecalibrator(alpha=0.02).fit(table, outcomes).predict(table)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name, values in found():
        array = np.ascontiguousarray(values, dtype=np.float64)
        print(f"{hashlib.sha256(array.tobytes()).hexdigest()[:16]}  {name}")
