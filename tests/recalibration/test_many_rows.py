"""Tables of many rows: pieces, samples that searches begin with, float32; the answers are those without."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from onlinecal import (
    DecisionRecalibrator,
    GroupRecalibrator,
    LpRecalibrator,
    decision_calibration_error,
    decision_loss_gap,
)
from onlinecal.arrays import ENTRIES
from onlinecal.recalibration import (
    gaussian_losses,
    starting,
)
from onlinecal.recalibration.decision import rounds
from onlinecal.recalibration.groups import start as starts
from onlinecal.recalibration.groups.start import Rows, log_losses
from onlinecal.recalibration.lp import recalibrator
from onlinecal.recalibration.probability_recalibrator import squared_error
from onlinecal.recalibration.starting import started


def source(n, k, seed=0):
    """Probabilities that are too sure by another factor in each class, and labels."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.linspace(0.3, 1.0, k), n)
    labels = (truth.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    table = (truth + 1e-9) ** np.linspace(1.2, 2.5, k)
    return table / table.sum(axis=1, keepdims=True), labels


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
    assert squared_error(model.predict_proba(table), labels, None) < squared_error(
        started(model.start_, table), labels, None
    )
    # a correction that would help rows like those of the sample, and none of the others
    monkeypatch.setattr(recalibrator, "moments_of", lambda *_: correcting_moments(1.0))
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
        return log_losses(model.predict(p[fresh], members[fresh]), y[fresh]).mean()

    assert len(starts.fold_parts(Rows(p, y, members, np.ones(len(p))), 3, 0)) == 3
    by_all = loss()
    monkeypatch.setattr(starts, "MANY", 1000)
    (inside, held), *others = starts.fold_parts(Rows(p, y, members, np.ones(len(p))), 3, 0)
    assert (len(inside.p), len(held.p), others) == (8000, 4000, [])
    raw, best = log_losses(p[fresh], y[fresh]).mean(), log_losses(truth[fresh], y[fresh]).mean()
    assert max(by_all, loss()) - best < 0.2 * (raw - best)


def correcting_moments(cross):
    """Of a correction against which all rows speak."""
    from onlinecal.recalibration.starting import Moments

    return Moments(10.0, np.array([cross, 1.0, 1.0, 1.0, 1.0]))
