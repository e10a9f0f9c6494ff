"""A row of weight w counts as w rows; no label gets probability 0, and what that costs."""

import numpy as np
import pytest

from onlinecal import DecisionRecalibrator, LpRecalibrator, decision_calibration_error, decision_loss_gap
from onlinecal.recalibration import (
    BetaCalibration,
    DirichletCalibration,
    PerClassIsotonic,
    TemperatureScaling,
    TopLabelIsotonic,
    VectorScaling,
    gaussian_losses,
)
from tests.recalibration.test_starting import source

WEIGHTED = {
    "temperature": TemperatureScaling(),
    "vector": VectorScaling(),
    "Dirichlet": DirichletCalibration(),
    "isotonic": PerClassIsotonic(),
    "top label": TopLabelIsotonic(),
    "beta": BetaCalibration(),
    "lp": LpRecalibrator(start="temperature", share=1.0),
    "lp, constant": LpRecalibrator.as_in_paper(n_levels=3, tolerance=0.01),
    "decision, as in the paper": DecisionRecalibrator.as_in_paper(2, 0.02, partition="hard", max_rounds=1),
    "decision, soft": DecisionRecalibrator.as_in_paper(2, 0.02, max_rounds=2),
    "decision, given losses": DecisionRecalibrator.as_in_paper(losses=1.0 - np.eye(4), max_rounds=3),
}
CHOSEN = {"lp, folds": LpRecalibrator(), "decision, folds": DecisionRecalibrator(2, max_rounds=2, n_folds=2)}

pytestmark = pytest.mark.filterwarnings("ignore::onlinecal.recalibration.SampleSizeWarning")


@pytest.mark.parametrize("name", [*WEIGHTED, *CHOSEN])
def test_whole_weights_are_repeated_rows_and_rows_of_weight_0_are_left_out(name):
    table, labels = source(150)
    model = (WEIGHTED | CHOSEN)[name]
    plain = model.fit(table[:100], labels[:100]).predict_proba(table)
    ones = np.repeat([1.0, 0.0], [100, 50])
    assert np.abs(model.fit(table, labels, ones).predict_proba(table) - plain).max() < 1e-6
    if name in CHOSEN:
        return
    weights = np.random.default_rng(0).integers(0, 4, 150)
    repeated = model.fit(np.repeat(table, weights, axis=0), np.repeat(labels, weights))
    expected = repeated.predict_proba(table)
    # scipy's optimiser ends near its minimum, not at it
    close = 1e-3 if name in ("vector", "Dirichlet", "beta") else 1e-7
    assert np.abs(model.fit(table, labels, weights).predict_proba(table) - expected).max() < close
    assert np.abs(model.fit(table, labels).predict_proba(table) - expected).max() > close


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -1.0, 1.0], r"sample_weight must be at least 0 and finite, got -1\.0 at row 1"),
        ([1.0, np.nan, 1.0], "sample_weight must be at least 0 and finite, got nan at row 1"),
        ([1.0, 1.0], "sample_weight must have a weight for each of 3 rows, got 2"),
        ([0, 0, 0], "sample_weight must be positive for some row, got 0 for all"),
        (["a", "b", "c"], "sample_weight must be numbers, got 'a'"),
    ],
)
def test_bad_weights_are_named(weights, message):
    with pytest.raises(ValueError, match=message):
        TemperatureScaling().fit(np.full((3, 2), 0.5), [0, 1, 1], weights)


def sure_source(n):
    """Probabilities that are far too sure, so that corrections run into the faces of the simplex."""
    table, labels = source(n, power=6.0)
    table = table + 0.02 * np.eye(4)[0]
    return table / table.sum(axis=1, keepdims=True), labels


MODELS = {
    "decision": DecisionRecalibrator(2),
    "decision, full steps": DecisionRecalibrator(3, 0.1, start="none", step="full", n_folds=0, keep=0),
    "lp": LpRecalibrator.as_in_paper(n_levels=3, tolerance=0.002, within="shift"),
    "temperature": TemperatureScaling(),
    "top label": TopLabelIsotonic(),
}


@pytest.mark.parametrize("name", MODELS)
def test_no_label_gets_probability_0(name):
    table, labels = sure_source(400)
    answers = MODELS[name].fit(table[:300], labels[:300]).predict_proba(table)
    assert answers.min() > 0
    assert np.abs(answers.sum(axis=1) - 1).max() < 1e-12
    if name == "decision, full steps":
        assert answers.min() >= MODELS[name].floor_ == 1 / (4 * 301)


@pytest.mark.parametrize("given", [False, True])
def test_a_floor_costs_the_guarantee_one_row_at_most(given):
    table, labels = sure_source(60)
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
