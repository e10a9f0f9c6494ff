"""Fits of smooth maps end at the least log loss; tables of many rows are fitted as those of few."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.base import clone

from onlinecal import (
    DecisionRecalibrator,
    GroupRecalibrator,
    LpRecalibrator,
    decision_calibration_error,
)
from onlinecal.arrays import PIECE_NUMBERS
from onlinecal.measures.scores import event_costs
from onlinecal.recalibration import (
    DirichletCalibration,
    TemperatureScaling,
    VectorScaling,
    starting,
)
from onlinecal.recalibration.classical import linear, temperature
from onlinecal.recalibration.classical.linear import LEAST_RIDGE, LOSS_GAP
from onlinecal.recalibration.classical.temperature import ADDED_BEFORE_LOG, best_sigmoid, logarithms
from onlinecal.recalibration.decision import rounds
from onlinecal.recalibration.groups import start as starts
from onlinecal.recalibration.groups.patches import EventRows
from onlinecal.recalibration.probability_recalibrator import squared_error
from onlinecal.recalibration.starting import started


def weighted_source(n, k, seed=0):
    """Probabilities that are too sure by another factor in each class, labels and weights."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.linspace(0.3, 1.0, k), n)
    labels = (truth.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    table = (truth + 1e-9) ** np.linspace(1.2, 2.5, k)
    return table / table.sum(axis=1, keepdims=True), labels, rng.random(n) + 0.5


SMOOTH = {
    "temperature": TemperatureScaling(),
    "vector": VectorScaling(),
    "Dirichlet": DirichletCalibration(off_diagonal=0.3, intercept=0.2),
    "pulled": DirichletCalibration(off_diagonal=0.0, intercept=0.0, pull=7.0),
}


def matrix_of(model):
    """Of four classes: coefficients and offsets, shape (4, 5)."""
    if isinstance(model, TemperatureScaling):
        return model.inverse_temperature_ * np.eye(4, 5)
    if isinstance(model, VectorScaling):
        return np.c_[np.diag(model.factors_), model.offsets_]
    return np.c_[model.coef_, model.intercept_]


@pytest.mark.parametrize("pieces", [False, True])
@pytest.mark.parametrize("kind", SMOOTH)
def test_a_fit_ends_at_the_least_penalised_log_loss(monkeypatch, kind, pieces):
    table, labels, weights = weighted_source(400, 4, seed=5)
    if pieces:
        for module in (linear, temperature):
            monkeypatch.setattr(module, "PIECE_NUMBERS", 300)
    logs, n = np.log(table + ADDED_BEFORE_LOG), weights.sum()
    ridge, centre = np.full((4, 5), LEAST_RIDGE / n), np.eye(4, 5)
    if kind == "Dirichlet":
        ridge[:, :4] += (1.0 - np.eye(4)) * 2 * 0.3 / 12
        ridge[:, 4] += 2 * 0.2 / 4
    if kind == "pulled":
        ridge += np.array([7.0, 7.0, 7.0, 7.0, 0.7]) / n
        centre = TemperatureScaling().fit(table, labels, weights).inverse_temperature_ * centre
    free = np.ones((4, 5), bool) if kind in ("Dirichlet", "pulled") else np.eye(4, 5, dtype=bool)
    free[:, 4] = True

    def loss(parameters):
        scores = log_softmax(logs @ parameters[:, :4].T + parameters[:, 4], axis=1)
        penalty = (ridge / 2 * free * (parameters - centre) ** 2).sum() if kind != "temperature" else 0.0
        return penalty - np.average(scores[np.arange(400), labels], weights=weights)

    def flat(parameters):
        whole = np.zeros((4, 5))
        whole[free] = parameters
        return loss(whole)

    if kind == "temperature":
        other = minimize(lambda beta: loss(beta[0] * np.eye(4, 5)), [1.0], method="BFGS").fun
    else:
        other = minimize(flat, centre[free], method="BFGS", options={"gtol": 1e-7}).fun
    assert loss(matrix_of(SMOOTH[kind].fit(table, labels, weights))) <= other + LOSS_GAP


@pytest.mark.parametrize("misled", [False, True])
@pytest.mark.parametrize("kind", SMOOTH)
def test_searches_that_begin_with_a_sample_end_where_others_do(monkeypatch, kind, misled):
    table, labels, weights = weighted_source(6000, 4)
    whole = SMOOTH[kind].fit(table, labels, weights).predict_proba(table)
    args = logarithms(table[:, 0]), (labels == 0).astype(np.uint8), weights, np.array([0, 1, 2]), 1.0
    sigmoid = best_sigmoid(*args)
    # a sample that misleads: in each of its rows the most probable class comes
    rows = np.flatnonzero(table.argmax(axis=1) == labels)[:400] if misled else np.arange(400) * 15
    for module, name in (
        (linear, "MOST_CURVED_ROWS"),
        (temperature, "SAMPLE_SIZE"),
        (temperature, "MOST_CURVED_ROWS"),
    ):
        monkeypatch.setattr(module, name, 400)
        monkeypatch.setattr(module, "sampled_rows", lambda *_: rows)
    found = SMOOTH[kind].fit(table, labels, weights).predict_proba(table)
    np.testing.assert_allclose(found, whole, atol=1e-6)
    np.testing.assert_allclose(best_sigmoid(*args), sigmoid, atol=1e-5)


@pytest.mark.parametrize("kind", SMOOTH)
def test_rows_told_apart_leave_numbers_finite_and_are_mapped_as_they_would_be_alone(kind):
    apart, numbers = np.full((9, 3), 0.1) + 0.7 * np.eye(3)[np.arange(9) % 3], np.arange(9) % 3
    answers = SMOOTH[kind].fit(apart, numbers).predict_proba(apart)
    assert np.isfinite(answers).all()
    assert answers[np.arange(9), numbers].min() > 0.9
    table, labels, _ = weighted_source(300, 5)
    model = SMOOTH[kind].fit(table, labels)
    together = model.predict_proba(table)
    assert all(np.array_equal(model.predict_proba(table[i : i + 1])[0], together[i]) for i in range(20))


def source(n, k, seed=0):
    return weighted_source(n, k, seed)[:2]


@pytest.mark.parametrize("start", ["temperature", "none", "isotonic"])
def test_float32_is_read_where_it_lies_and_says_the_same(tmp_path, start):
    table, labels = source(9000, 40)
    assert table.size > PIECE_NUMBERS
    single = table.astype(np.float32)
    np.save(tmp_path / "table.npy", single)
    on_disk = np.load(tmp_path / "table.npy", mmap_mode="r")
    model = LpRecalibrator(start=start, share=0.7, epsilon=0.05, n_levels=3)
    models = [clone(model).fit(one, labels) for one in (single.astype(float), on_disk)]
    doubles, singles = (one.predict_proba(single) for one in models)
    assert models[0].n_rounds_ == models[1].n_rounds_ > 0
    np.testing.assert_array_equal(singles, doubles)
    np.testing.assert_array_equal(models[0].predict_proba(single.astype(float)), doubles)


def test_of_many_rows_some_decide_the_share_and_all_have_to_allow_it(monkeypatch):
    monkeypatch.setattr(starting, "MOST_FOLDED_ROWS", 500)
    monkeypatch.setattr(starting, "MOST_DECIDING", 1000)
    table, labels = source(5000, 3, seed=3)
    wrong = (table[:, 1] > 0.7) & (np.random.default_rng(5).random(5000) < 0.5)
    labels[wrong] = 2
    of_thirds = LpRecalibrator(epsilon=0.05, n_levels=3)
    model = clone(of_thirds).fit(table, labels)
    assert model.share_ > 0.0
    ones, begun = np.ones(5000), started(model.start_, table)
    assert squared_error(model.predict_proba(table), labels, ones) < squared_error(begun, labels, ones)
    # a correction that would help rows like those of the sample, and none of the others
    rises = starting.squared_rises

    def against(parts, *given):
        parts = list(parts)
        found = rises(parts, *given)
        some = sum(len(part.labels) for part in parts) < 5000
        return found if some else found._replace(means=np.abs(found.means) + 1.0)

    monkeypatch.setattr(starting, "squared_rises", against)
    assert clone(of_thirds).fit(table, labels).share_ == 0.0


@pytest.mark.parametrize("partition", ["soft", "hard"])
@pytest.mark.parametrize(("k", "n_actions", "epsilon", "room"), [(3, 2, 0.03, 1.1), (2, 3, 0.02, 1.0)])
def test_rounds_that_search_some_rows_take_what_they_promise_off_all(
    monkeypatch, k, n_actions, epsilon, room, partition
):
    """Of two classes they end exactly below the tolerance."""
    table, labels = source(3000 if k == 3 else 1500, k, seed=6)
    monkeypatch.setattr(rounds, "MOST_SEARCHED", 600 if k == 3 else 100)
    model = DecisionRecalibrator.as_in_paper(n_actions, epsilon, partition=partition).fit(table, labels)
    assert model.reached_
    assert 0 < model.n_rounds_ <= 2 / epsilon**2
    falls = -np.diff(model.history_["squared_error"])
    assert (falls >= model.history_["error"][:-1] ** 2 - 1e-12).all()
    left = decision_calibration_error(model.predict_proba(table), labels, n_actions, random_state=1)
    assert left <= room * epsilon < decision_calibration_error(table, labels, n_actions)


def test_of_many_rows_one_fold_says_how_many_patches_groups_need(monkeypatch):
    rng = np.random.default_rng(8)
    p, members = rng.beta(2, 4, 6000), rng.random((6000, 4)) < 0.4
    truth = np.clip(p + 0.2 * members[:, 0] - 0.15 * members[:, 1], 0.01, 0.99)
    y = (rng.random(6000) < truth).astype(np.uint8)
    assert len(starts.fold_parts(EventRows(p, y, members, np.ones(6000)), 3, 0)) == 3
    monkeypatch.setattr(starts, "MOST_FOLDED_GROUP_ROWS", 1000)
    (inside, held, _), *others = starts.fold_parts(EventRows(p, y, members, np.ones(6000)), 3, 0)
    assert (len(inside.p), len(held.p), others) == (4000, 2000, [])
    found = event_costs(GroupRecalibrator().fit(p, y, members).predict_proba(p, members), y).mean()
    raw, best = event_costs(p, y).mean(), event_costs(truth, y).mean()
    assert found - best < 0.2 * (raw - best)
