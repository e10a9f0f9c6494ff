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
    """Names and arrays: what is the same on every processor, measures that search and sum."""
    table, labels = draw(300, 5)
    losses = gaussian_losses(3, 5, 40)
    yield "error", decision_calibration_error(table, labels, 3)
    yield "error, few rows", decision_calibration_error(table[:8], labels[:8], 2, "hard")
    yield "gaps", decision_loss_gap(table, labels, losses)
    yield "losses", np.array(decision_losses(table, labels, losses))
    yield "loss set", loss_set_gaps(table, labels, losses[:5])
    yield "decisions", bayes_decisions(table, losses)
    yield from counting()


def counting():
    """Of these what counts, sums and sorting decide, also in fits."""
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
    yield "multicalibration", multicalibration_error(forecasts, outcomes, groups)
    yield "boosted", BoostedRecalibrator.as_in_paper(alpha=0.02).fit(table, outcomes).predict(table)


def fits():
    """Names and arrays: what is the same in every process of one machine, all other fits."""
    table, labels = draw(300, 5)
    for name, model in {
        "default": DecisionRecalibrator(3, max_rounds=4),
        "hard": DecisionRecalibrator(2, partition="hard", n_folds=0, max_rounds=2),
        "as in the paper": DecisionRecalibrator.as_in_paper(3, 0.15),
        "temperature": TemperatureScaling(),
        "vector": VectorScaling(),
        "Dirichlet": DirichletCalibration(),
        "lp": LpRecalibrator(),
        "isotonic, then lp": LpRecalibrator(start="isotonic", share=0.7, limit=2.0),
    }.items():
        yield name, model.fit(table, labels).predict_proba(table)
    forecasts, outcomes, groups = table[:, 0], labels == 0, table[:, 1:] > 0.2
    grouped = GroupRecalibrator(0.002, n_folds=2).fit(forecasts, outcomes, groups)
    yield "groups", grouped.predict(forecasts, groups)
    yield "boosted", BoostedRecalibrator(n_folds=2).fit(table, outcomes, forecasts).predict(table, forecasts)


def digests(part):
    """One line a result: the beginning of the SHA-256 of its bytes, and its name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, values in {"measures": measures, "counting": counting, "fits": fits}[part]():
            array = np.ascontiguousarray(values, dtype=np.float64)
            yield f"{hashlib.sha256(array.tobytes()).hexdigest()[:16]}  {name}"


if __name__ == "__main__":
    print(*digests(sys.argv[1]), sep="\n")
