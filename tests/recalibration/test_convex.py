"""Fits of smooth maps: how near to the least log loss they end, and that many rows end where few do."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.special import log_softmax

from onlinecal.recalibration import DirichletCalibration, TemperatureScaling, VectorScaling
from onlinecal.recalibration.classical import linear, temperature
from onlinecal.recalibration.classical.linear import GAP, TINY, LinearLoss
from onlinecal.recalibration.classical.temperature import FLOOR, columns_of
from onlinecal.recalibration.groups import start
from onlinecal.recalibration.groups.start import SigmoidLoss, best_sigmoid


def source(n, k, seed=0):
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
    table, labels, weights = source(300, 3)
    for m in (2, 4):
        centre = np.eye(3, m)
        yield LinearLoss(columns_of(table), labels, weights, centre, np.full((3, m), 0.01)), centre.size
    p, y, weights = sigmoids(300)
    features = np.column_stack([np.log(p), -np.log(1.0 - p), np.ones(len(p))])
    yield SigmoidLoss(features, np.zeros(len(p)), y.astype(float), weights, np.array([1.0, 1.0, 0.0])), 3


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
    table, labels, weights = source(400, 4, seed=5)
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
    table, labels, weights = source(6000, 4)
    whole = model.fit(table, labels, weights).predict_proba(table)
    # a sample that misleads: in each of its rows the most probable class comes
    rows = np.flatnonzero(table.argmax(axis=1) == labels)[:400] if misled else np.arange(400) * 15
    for module, name in ((linear, "CURVED"), (temperature, "SAMPLED")):
        monkeypatch.setattr(module, name, 400)
        monkeypatch.setattr(module, "sampled_rows", lambda *_: rows)
    np.testing.assert_allclose(model.fit(table, labels, weights).predict_proba(table), whole, atol=1e-6)


def test_a_sigmoid_begins_with_a_sample_too(monkeypatch):
    args = *sigmoids(6000), np.array([0, 1, 2])
    whole = best_sigmoid(*args)
    monkeypatch.setattr(start, "CURVED", 400)
    np.testing.assert_allclose(best_sigmoid(*args), whole, atol=1e-5)


def test_few_passes_over_all_rows_follow_the_search_of_a_sample(monkeypatch):
    table, labels, weights = source(60_000, 6)
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
    table, labels, _ = source(500, 25)
    model = DirichletCalibration(pull=10.0).fit(table, labels)
    at = np.arange(500), labels
    tempered = TemperatureScaling().fit(table, labels).predict_proba(table)
    assert np.log(model.predict_proba(table)[at]).mean() > np.log(tempered[at]).mean()


def test_a_row_is_mapped_as_it_would_be_alone():
    table, labels, _ = source(300, 5)
    for model in (TemperatureScaling(), VectorScaling(), DirichletCalibration()):
        together = model.fit(table, labels).predict_proba(table)
        assert all(np.array_equal(model.predict_proba(table[i : i + 1])[0], together[i]) for i in range(20))
