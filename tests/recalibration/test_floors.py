"""No recalibrator of several classes gives a label probability 0, and what that costs its guarantee."""

from __future__ import annotations

import numpy as np
import pytest

from onlinecal import DecisionRecalibrator, LpRecalibrator, decision_calibration_error, decision_loss_gap
from onlinecal.recalibration import TemperatureScaling, TopLabelIsotonic, gaussian_losses


def source(n=400, n_classes=4, seed=0):
    """Probabilities that are far too sure, so that corrections run into the faces of the simplex."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.ones(n_classes), n)
    labels = (truth.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    table = truth**6 + 0.02 * np.eye(n_classes)[0]
    return table / table.sum(axis=1, keepdims=True), labels


MODELS = {
    "decision": DecisionRecalibrator(2),
    "decision, full steps": DecisionRecalibrator(3, 0.1, start="none", step="full", n_folds=0, keep=0),
    "lp": LpRecalibrator.as_in_paper(n_levels=3, tolerance=0.002, within="shift"),
    "temperature": TemperatureScaling(),
    "top label": TopLabelIsotonic(),
}


@pytest.mark.filterwarnings("ignore::onlinecal.recalibration.SampleSizeWarning")
@pytest.mark.parametrize("name", MODELS)
def test_no_label_gets_probability_0(name):
    table, labels = source()
    answers = MODELS[name].fit(table[:300], labels[:300]).predict_proba(table)
    assert answers.min() > 0
    assert np.abs(answers.sum(axis=1) - 1).max() < 1e-12
    if name == "decision, full steps":
        assert answers.min() >= MODELS[name].floor_ == 1 / (4 * 301)


@pytest.mark.parametrize("given", [False, True])
def test_a_floor_costs_the_guarantee_one_row_at_most(given):
    table, labels = source(60)
    losses = gaussian_losses(2, 4, 30) if given else None
    plain = {"epsilon": 0.05, "losses": losses}
    bare = DecisionRecalibrator.as_in_paper(2, **plain).fit(table, labels)
    model = DecisionRecalibrator.as_in_paper(2, floor=True, **plain).fit(table, labels)
    assert model.reached_
    assert bare.predict_proba(table).min() == 0
    answers = model.predict_proba(table)
    allowed = 0.05 + np.sqrt(1 - 1 / 4) / 61
    if given:
        assert decision_loss_gap(answers, labels, losses).max() <= allowed
    else:
        assert np.array_equal(answers, (1 - 4 * model.floor_) * bare.predict_proba(table) + model.floor_)
        # linear scores of the floored rows are linear scores of the rows: regions are the same
        left = decision_calibration_error(bare.predict_proba(table), labels, 2, "hard")
        found = decision_calibration_error(answers, labels, 2, "hard")
        assert found <= left + np.sqrt(1 - 1 / 4) / 61 + 1e-9
