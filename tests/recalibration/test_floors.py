"""No recalibrator of several classes gives a label probability 0, and what that costs its guarantee."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax

from onlinecal import DecisionRecalibrator, LpRecalibrator, decision_calibration_error, decision_loss_gap
from onlinecal.recalibration import TemperatureScaling, TopLabelIsotonic, gaussian_losses
from onlinecal.recalibration.simplex_projection import project_rows

HERE = Path(__file__).parent


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


def test_the_squared_error_to_floored_labels_never_rises():
    table, labels = source()
    model = DecisionRecalibrator(2, start="temperature", share=1, keep=0).fit(table, labels)
    assert model.n_rounds_ > 0
    stages = [*model.staged_predict_proba(table)]
    assert np.array_equal(stages[-1], model.predict_proba(table))
    shrunk = 1 - 4 * model.floor_
    corners = shrunk * np.eye(4)[labels] + model.floor_
    errors = np.array([((stage - corners) ** 2).sum(axis=1).mean() for stage in stages])
    assert (np.diff(errors) <= 1e-12).all()
    assert np.allclose(errors, shrunk**2 * model.history_["squared_error"])
    assert (model.predict(table) == stages[-1].argmax(axis=1)).all()


def as_in_version_1(model, table):
    """What version 1 did with these rounds, in its own words."""
    table = softmax(model.inverse_temperature_ * np.log(table + 1e-12), axis=1)
    for each in model.rounds_:
        scores = table @ each.partition.weights.T
        best = np.eye(len(each.step))[scores.argmax(axis=1)]
        members = best if each.partition.hard else softmax(scores, axis=1)
        table = project_rows(table + members @ each.step)
    return table


def test_models_of_version_1_forecast_to_the_same_bits(tmp_path):
    table = source(200, n_classes=3)[0]
    old = DecisionRecalibrator.load(HERE / "decision" / "decision_recalibrator_1.npz")
    assert [each.partition.hard for each in old.rounds_] == [True, False, False]
    assert old.floor is False
    expected = as_in_version_1(old, table)
    assert np.array_equal(old.predict_proba(table), expected)
    old.save(tmp_path / "again.npz")
    assert np.array_equal(DecisionRecalibrator.load(tmp_path / "again.npz").predict_proba(table), expected)
    # what a pickle of version 1 holds: none of the attributes that came later
    later = ("floor", "floor_", "fixed_order_", "share", "share_", "keep", "keep_", "limit", "limit_")
    for name in later:
        del old.__dict__[name]
    old.__dict__["inverse_temperature_"] = old.__dict__.pop("start_").inverse_temperature_
    back = pickle.loads(pickle.dumps(old))
    assert np.array_equal(back.predict_proba(table), expected)
    assert back.get_params()["floor"] is False
    scaling = TemperatureScaling().fit(*source(200, n_classes=3))
    del scaling.fixed_order_
    tempered = softmax(scaling.inverse_temperature_ * np.log(table + 1e-12), axis=1)
    assert np.array_equal(scaling.predict_proba(table), tempered)
