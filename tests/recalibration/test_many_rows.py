"""Fits of smooth maps end at the least log loss; tables of many rows are fitted as those of few."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.special import log_softmax
from sklearn.base import clone

from onlinecal import (
    DecisionRecalibrator,
    GroupRecalibrator,
    LpRecalibrator,
    decision_calibration_error,
    decision_loss_gap,
)
from onlinecal.arrays import ENTRIES
from onlinecal.measures.scores import event_costs
from onlinecal.recalibration import (
    DirichletCalibration,
    TemperatureScaling,
    VectorScaling,
    gaussian_losses,
    starting,
)
from onlinecal.recalibration.classical import linear, temperature
from onlinecal.recalibration.classical.linear import GAP, TINY, LinearLoss
from onlinecal.recalibration.classical.temperature import FLOOR, best_sigmoid, columns_of, logarithms
from onlinecal.recalibration.decision import rounds
from onlinecal.recalibration.groups import start as starts
from onlinecal.recalibration.groups.patches import Rows
from onlinecal.recalibration.probability_recalibrator import squared_error
from onlinecal.recalibration.starting import started


def weighted_source(n, k, seed=0):
    """Probabilities that are too sure by another factor in each class, labels and weights."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.linspace(0.3, 1.0, k), n)
    labels = (truth.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    table = (truth + 1e-9) ** np.linspace(1.2, 2.5, k)
    return table / table.sum(axis=1, keepdims=True), labels, rng.random(n) + 0.5


def sigmoids(n):
    rng = np.random.default_rng(2)
    p = rng.beta(1, 3, n)
    return p, (rng.random(n) < p**0.8).astype(np.uint8), rng.random(n)


def losses():
    table, labels, weights = weighted_source(300, 3)
    for m in (2, 4):
        centre = np.eye(3, m)
        yield LinearLoss(columns_of(table), labels, weights, centre, np.full((3, m), 0.01)), centre.size


def test_derivatives_are_those_of_finite_differences():
    for loss, size in losses():
        at = np.random.default_rng(1).standard_normal(size)
        assert np.allclose(
            loss.value(at)[1], approx_fprime(at, lambda x, loss=loss: loss.value(x)[0]), atol=1e-5
        )
        bent = approx_fprime(at, lambda x, loss=loss: loss.value(x)[1])
        assert np.allclose(loss.curve(at), bent, atol=1e-5)


@pytest.mark.parametrize("pieces", [False, True])
@pytest.mark.parametrize("kind", ["temperature", "vector", "Dirichlet"])
def test_a_fit_ends_at_the_least_penalised_log_loss(monkeypatch, kind, pieces):
    table, labels, weights = weighted_source(400, 4, seed=5)
    if pieces:
        for module in (linear, temperature):
            monkeypatch.setattr(module, "ENTRIES", 300)
    logs, n = np.log(table + FLOOR), weights.sum()
    ridge, centre = np.full((4, 5), TINY / n), np.eye(4, 5)
    ridge[:, :4] += (1.0 - np.eye(4)) * 2 * 0.3 / 12
    ridge[:, 4] += 2 * 0.2 / 4
    free = {"temperature": np.eye(4, 5), "vector": np.eye(4, 5), "Dirichlet": np.ones((4, 5))}[kind]
    free[:, 4] = kind != "temperature"

    def loss(parameters):
        scores = log_softmax(logs @ parameters[:, :4].T + parameters[:, 4], axis=1)
        pull = {"temperature": 0.0, "vector": TINY / n, "Dirichlet": ridge}[kind]
        return (
            -np.average(scores[np.arange(400), labels], weights=weights)
            + (pull / 2 * free * (parameters - centre) ** 2).sum()
        )

    if kind == "temperature":
        model = TemperatureScaling().fit(table, labels, weights)
        found = model.inverse_temperature_ * np.eye(4, 5)
        other = minimize(lambda beta: loss(beta[0] * np.eye(4, 5)), [1.0], method="BFGS").fun
    else:
        if kind == "vector":
            model = VectorScaling().fit(table, labels, weights)
            found = np.c_[np.diag(model.factors_), model.offsets_]
        else:
            model = DirichletCalibration(0.3, 0.2).fit(table, labels, weights)
            found = np.c_[model.coef_, model.intercept_]
        at = free.astype(bool)

        def flat(parameters):
            whole = np.zeros((4, 5))
            whole[at] = parameters
            return loss(whole)

        other = minimize(flat, centre[at], method="BFGS", options={"gtol": 1e-7}).fun
    assert loss(found) <= other + GAP


@pytest.mark.parametrize("misled", [False, True])
@pytest.mark.parametrize("model", [TemperatureScaling(), VectorScaling(), DirichletCalibration()])
def test_searches_that_begin_with_a_sample_end_where_others_do(monkeypatch, model, misled):
    table, labels, weights = weighted_source(6000, 4)
    whole = model.fit(table, labels, weights).predict_proba(table)
    # a sample that misleads: in each of its rows the most probable class comes
    rows = np.flatnonzero(table.argmax(axis=1) == labels)[:400] if misled else np.arange(400) * 15
    for module, name in ((linear, "CURVED"), (temperature, "SAMPLED")):
        monkeypatch.setattr(module, name, 400)
        monkeypatch.setattr(module, "sampled_rows", lambda *_: rows)
    np.testing.assert_allclose(model.fit(table, labels, weights).predict_proba(table), whole, atol=1e-6)


def test_a_sigmoid_begins_with_a_sample_too(monkeypatch):
    p, y, weights = sigmoids(6000)
    args = logarithms(p), y, weights, np.array([0, 1, 2]), 1.0
    whole = best_sigmoid(*args)
    monkeypatch.setattr(temperature, "CURVED", 400)
    np.testing.assert_allclose(best_sigmoid(*args), whole, atol=1e-5)


def test_few_passes_over_all_rows_follow_the_search_of_a_sample(monkeypatch):
    table, labels, weights = weighted_source(60_000, 6)
    passes = []

    class Counted(LinearLoss):
        def value(self, flat):
            passes.append(len(self.labels))
            return super().value(flat)

    monkeypatch.setattr(linear, "LinearLoss", Counted)
    VectorScaling().fit(table, labels, weights)
    assert 0 < passes.count(60_000) <= 12


def test_rows_that_can_be_told_apart_leave_numbers_finite():
    table, labels = np.full((9, 3), 0.1) + 0.7 * np.eye(3)[np.arange(9) % 3], np.arange(9) % 3
    for model in (TemperatureScaling(), VectorScaling(), DirichletCalibration()):
        answers = model.fit(table, labels).predict_proba(table)
        assert np.isfinite(answers).all()
        assert answers[np.arange(9), labels].min() > 0.99


def test_of_many_classes_a_fit_is_no_worse_than_where_it_began():
    table, labels, _ = weighted_source(500, 25)
    model = DirichletCalibration(pull=10.0).fit(table, labels)
    at = np.arange(500), labels
    tempered = TemperatureScaling().fit(table, labels).predict_proba(table)
    assert np.log(model.predict_proba(table)[at]).mean() > np.log(tempered[at]).mean()


def test_a_row_is_mapped_as_it_would_be_alone():
    table, labels, _ = weighted_source(300, 5)
    for model in (TemperatureScaling(), VectorScaling(), DirichletCalibration()):
        together = model.fit(table, labels).predict_proba(table)
        assert all(np.array_equal(model.predict_proba(table[i : i + 1])[0], together[i]) for i in range(20))


def source(n, k, seed=0):
    return weighted_source(n, k, seed)[:2]


@pytest.mark.parametrize("start", ["temperature", "none", "isotonic"])
def test_float32_is_read_where_it_lies_and_says_the_same(tmp_path, start):
    table, labels = source(9000, 40)
    assert table.size > ENTRIES
    single = table.astype(np.float32)
    np.save(tmp_path / "table.npy", single)
    on_disk = np.load(tmp_path / "table.npy", mmap_mode="r")
    model = LpRecalibrator(start=start, share=0.7)
    models = [clone(model).fit(one, labels) for one in (single.astype(float), on_disk)]
    doubles, singles = (one.predict_proba(single) for one in models)
    assert models[0].n_rounds_ == models[1].n_rounds_ > 0
    np.testing.assert_array_equal(singles, doubles)
    np.testing.assert_array_equal(models[0].predict_proba(single.astype(float)), doubles)


def test_of_many_rows_some_decide_the_share_and_all_have_to_allow_it(monkeypatch):
    monkeypatch.setattr(starting, "MANY", 500)
    monkeypatch.setattr(starting, "MOST_DECIDING", 1000)
    table, labels = source(5000, 3, seed=3)
    wrong = (table[:, 1] > 0.7) & (np.random.default_rng(5).random(5000) < 0.5)
    labels[wrong] = 2
    model = LpRecalibrator().fit(table, labels)
    assert model.share_ > 0.0
    ones, begun = np.ones(5000), started(model.start_, table)
    assert squared_error(model.predict_proba(table), labels, ones) < squared_error(begun, labels, ones)
    # a correction that would help rows like those of the sample, and none of the others
    rises = starting.squared_rises

    def against(*given):
        found = rises(*given)
        return found if found.rows < 5000 else found._replace(means=np.abs(found.means) + 1.0)

    monkeypatch.setattr(starting, "squared_rises", against)
    assert LpRecalibrator().fit(table, labels).share_ == 0.0


@pytest.mark.parametrize("partition", ["soft", "hard"])
def test_rounds_that_search_some_rows_take_what_they_promise_off_all(monkeypatch, partition):
    table, labels = source(3000, 3, seed=6)
    monkeypatch.setattr(rounds, "MOST_SEARCHED", 600)
    model = DecisionRecalibrator.as_in_paper(2, 0.03, partition=partition).fit(table, labels)
    assert model.reached_
    assert 0 < model.n_rounds_ <= 2 / 0.03**2
    falls = -np.diff(model.history_["squared_error"])
    assert (falls >= model.history_["error"][:-1] ** 2 - 1e-12).all()
    left = decision_calibration_error(model.predict_proba(table), labels, 2, seed=1)
    assert left < 1.1 * 0.03 < decision_calibration_error(table, labels, 2)


@pytest.mark.parametrize("partition", ["soft", "hard"])
def test_two_classes_of_many_rows_end_exactly_below_the_tolerance(monkeypatch, partition):
    table, labels = source(1500, 2, seed=6)
    monkeypatch.setattr(rounds, "MOST_SEARCHED", 100)
    model = DecisionRecalibrator.as_in_paper(3, 0.02, partition=partition).fit(table, labels)
    assert model.reached_
    assert decision_calibration_error(model.predict_proba(table), labels, 3) <= 0.02
    assert decision_calibration_error(table, labels, 3) > 0.02


def test_a_search_of_some_rows_and_one_fold_keep_the_gain_for_decisions(monkeypatch):
    table, labels = source(12_000, 4, seed=7)
    fit, fresh = slice(0, 6000), slice(6000, None)
    losses = gaussian_losses(2, 4, 300, seed=9)

    def gap():
        model = DecisionRecalibrator(start="temperature").fit(table[fit], labels[fit])
        return decision_loss_gap(model.predict_proba(table[fresh]), labels[fresh], losses).mean()

    raw, whole = decision_loss_gap(table[fresh], labels[fresh], losses).mean(), gap()
    monkeypatch.setattr(rounds, "MOST_SEARCHED", 1000)
    monkeypatch.setattr(starting, "MANY", 3000)
    monkeypatch.setattr(starting, "MOST_DECIDING", 5000)
    some = gap()
    assert max(whole, some) < 0.15 * raw


def test_of_many_rows_one_fold_says_how_many_patches_groups_need(monkeypatch):
    rng = np.random.default_rng(8)
    p, members = rng.beta(2, 4, 12_000), rng.random((12_000, 4)) < 0.4
    truth = np.clip(p + 0.2 * members[:, 0] - 0.15 * members[:, 1], 0.01, 0.99)
    y = (rng.random(12_000) < truth).astype(np.uint8)
    fit, fresh = slice(0, 6000), slice(6000, None)

    def loss():
        model = GroupRecalibrator().fit(p[fit], y[fit], members[fit])
        return event_costs(model.predict(p[fresh], members[fresh]), y[fresh]).mean()

    assert len(starts.fold_parts(Rows(p, y, members, np.ones(len(p))), 3, 0)) == 3
    by_all = loss()
    monkeypatch.setattr(starts, "MANY", 1000)
    (inside, held), *others = starts.fold_parts(Rows(p, y, members, np.ones(len(p))), 3, 0)
    assert (len(inside.p), len(held.p), others) == (8000, 4000, [])
    raw, best = event_costs(p[fresh], y[fresh]).mean(), event_costs(truth[fresh], y[fresh]).mean()
    assert max(by_all, loss()) - best < 0.2 * (raw - best)
