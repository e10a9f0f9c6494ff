"""The decision paper's experiments: what a row of a figure says is what the library says of those rows."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

from onlinecal.cli.recalibrating.reading import Part
from onlinecal.measures.decision.errors import decision_loss_gap
from onlinecal.measures.decision.losses import decision_losses, loss_norms
from onlinecal.recalibration.classical.temperature import TemperatureScaling
from onlinecal.recalibration.decision.losses import gaussian_losses
from onlinecal.recalibration.decision.recalibrator import DecisionRecalibrator
from simulations.experiments import (
    DRIFTS,
    NEVER,
    Experiment,
    chance_score,
    class_counts,
    class_order,
    counts,
    halves,
    made_up_table,
    play,
    restricted,
    score,
    step_stops,
)
from simulations.plots.experiments import FIGURES

LOSSES = 40


@pytest.fixture(scope="module")
def small():
    return Experiment(made_up_table(500, 3), n_rounds=3, n_splits=2, n_losses=LOSSES)


@pytest.fixture(scope="module")
def played(small):
    """Every experiment on a small table, as a frame."""
    return {
        name: pl.DataFrame([row for rows in play(name, small) for row in rows], infer_schema_length=None)
        for name in ("steps", "actions", "classes", "drift")
    }


def only(frame, **which):
    (row,) = frame.filter(**which).to_dicts()
    return row


def agree(row, table, labels, losses):
    gaps = decision_loss_gap(table, labels, losses)
    true = decision_losses(table, labels, losses).true / loss_norms(losses)
    assert row["mean_gap"] == pytest.approx(gaps.mean(), abs=1e-9)
    assert row["worst_gap"] == pytest.approx(gaps.max(), abs=1e-9)
    assert row["loss"] == pytest.approx(true.mean(), abs=1e-9)


def test_steps_are_those_of_the_algorithms_on_fitted_and_on_tested_rows(small, played):
    both = halves(small, 1)
    losses = gaussian_losses(3, 3, LOSSES)
    common = {"epsilon": NEVER, "max_rounds": 3, "seed": 1, "share": 1.0, "keep": 0.0}
    paper = DecisionRecalibrator.as_in_paper(3, start="temperature", **common).fit(*both.fit)
    begun = TemperatureScaling().fit(*both.fit)
    house = DecisionRecalibrator(3, n_folds=0, **common).fit(*both.fit)
    for part, (P, y) in (("fit", both.fit), ("test", both.test)):
        mine = played["steps"].filter(split=1, part=part)
        agree(only(mine, method="none"), P, y, losses)
        agree(only(mine, method="full steps", step=0), begun.predict_proba(P), y, losses)
        agree(only(mine, method="full steps", step=3), paper.predict_proba(P), y, losses)
        agree(only(mine, method="shrunk steps", step=3), house.predict_proba(P), y, losses)
    assert set(played["steps"].filter(method="Dirichlet")["part"]) == {"fit", "test"}
    assert played["steps"]["kept"].is_between(0, 3).all()


def test_the_folds_stop_on_the_curve_that_is_drawn(small, played):
    both = halves(small, 0)
    kept = DecisionRecalibrator(3, NEVER, max_rounds=3, seed=0, share=1.0, keep=0.0).fit(*both.fit)
    row = only(played["steps"], split=0, part="test", method="shrunk steps", step=kept.n_rounds_)
    assert row["kept"] == kept.n_rounds_
    agree(row, kept.predict_proba(both.test[0]), both.test[1], gaussian_losses(3, 3, LOSSES))


def test_actions_and_classes_count_up_to_all_of_them(small, played):
    both = halves(small, 0)
    assert sorted(set(played["actions"]["count"])) == [1, 2, 3]
    assert sorted(set(played["classes"]["count"])) == [2, 3]
    for k in (1, 3):
        model = DecisionRecalibrator(k, seed=0).fit(*both.fit)
        row = only(played["actions"], split=0, method="decision", count=k)
        agree(row, model.predict_proba(both.test[0]), both.test[1], gaussian_losses(k, 3, LOSSES))
    pairs = played["classes"].filter(count=2)
    assert set(pairs["n_fit"] + pairs["n_test"]) < set(range(200, 500))
    assert set(played["classes"].filter(count=3)["n_fit"]) == {250}


def test_drift_leaves_the_recalibrators_as_they_were_fitted_on_clean_rows(small, played):
    both = halves(small, 0)
    losses = gaussian_losses(3, 3, LOSSES)
    frame = played["drift"].filter(split=0)
    begun = TemperatureScaling().fit(*both.fit)
    for name, kind in DRIFTS.items():
        clean = frame.filter(drift=name, severity=kind.clean)
        agree(only(clean, method="none"), *both.test, losses)
        agree(only(clean, method="temperature"), begun.predict_proba(both.test[0]), both.test[1], losses)
    doubled = begun.predict_proba(DRIFTS["temperature"].corrupt(*both.test, 2.0, None)[0])
    row = only(frame, drift="temperature", severity=2.0, method="temperature")
    agree(row, doubled, both.test[1], losses)


def test_a_label_shift_reaches_its_ratio_and_keeps_rows_whole():
    rng = np.random.default_rng(1)
    labels = np.repeat(np.arange(4), 500)
    table = np.column_stack([np.arange(2000), labels]).astype(float)
    for ratio in (1.0, 8.0):
        rows, y = DRIFTS["label shift"].corrupt(np.tile(table, 2), labels, ratio, rng)
        assert len(rows) == 2000
        assert (rows[:, 1] == y).all()
        found = np.bincount(y, minlength=4)
        assert found.max() / found.min() == pytest.approx(ratio, rel=0.02)
    weights = np.sort(found / found.min())
    assert weights == pytest.approx([1.0, 2.0, 4.0, 8.0], rel=0.02)


def test_noise_grows_along_one_direction_and_a_factor_changes_no_answer():
    table, labels = made_up_table(200, 4).probabilities, np.zeros(200, int)
    noisy = [
        np.log(DRIFTS["noise"].corrupt(table, labels, size, np.random.default_rng(5))[0]) - np.log(table)
        for size in (1.0, 2.0)
    ]
    centred = [one - one.mean(axis=1, keepdims=True) for one in noisy]
    inner = table.min(axis=1) > 1e-6  # elsewhere the floor of the logarithm shows
    assert centred[1][inner] == pytest.approx(2.0 * centred[0][inner], abs=1e-4)
    raised, same = DRIFTS["temperature"].corrupt(table, labels, 2.0, None)
    assert (raised.argmax(axis=1) == table.argmax(axis=1)).all()
    assert raised == pytest.approx(table**2 / (table**2).sum(axis=1, keepdims=True), abs=1e-9)
    assert same is labels


def test_some_classes_keep_their_rows_and_proportions():
    table = np.array([[0.2, 0.3, 0.5], [0.0, 1.0, 0.0], [0.6, 0.1, 0.3], [0.1, 0.2, 0.7]])
    part, labels = restricted(table, np.array([2, 0, 0, 1]), np.array([2, 0]))
    assert labels.tolist() == [0, 1, 1]
    assert part == pytest.approx(np.array([[5 / 7, 2 / 7], [0.5, 0.5], [1 / 3, 2 / 3]]))


def test_classes_with_too_few_rows_are_left_out_before_anything_is_fitted():
    probabilities = np.full((60, 3), 1 / 3)
    labels = np.repeat([0, 1, 2], [52, 5, 3])
    table = Part("rare", np.arange(len(labels)), probabilities, labels, ("a", "b", "c"))
    orders = [class_order(Experiment(table), split)[:2].tolist() for split in range(5)]
    assert any(0 not in order for order in orders)  # then two classes have at most 8 rows
    assert class_counts(Experiment(table)) == [3]
    assert class_counts(Experiment(table, test_share=0.9)) == []
    assert class_counts(Experiment(made_up_table(300, 3))) == [2, 3]


def test_counts_and_stops_end_where_they_must():
    assert counts(1, 10) == list(range(1, 11))
    assert counts(2, 100) == [2, 5, 10, 20, 50, 100]
    assert counts(2, 43) == [2, 5, 10, 20, 43]
    assert step_stops(9) == [*range(10)]
    assert step_stops(32)[-5:] == [16, 20, 24, 28, 32]


def test_perfect_probabilities_show_the_gap_that_chance_makes():
    rng = np.random.default_rng(2)
    truth = rng.dirichlet([1.0, 1.0, 1.0], 4000)
    losses = gaussian_losses(3, 3, 100)
    expected = np.mean([chance_score(truth, losses, seed)["mean_gap"] for seed in range(15)])
    drawn = [(truth.cumsum(axis=1) < rng.random((4000, 1))).sum(axis=1) for _ in range(60)]
    seen = [score(truth, labels, losses)["mean_gap"] for labels in drawn]
    # both are means of sixty draws
    assert abs(expected - np.mean(seen)) < 4 * np.std(seen) * math.sqrt(2 / 60)
    assert expected < 0.01 < score(truth[::-1], drawn[0], losses)["mean_gap"]


def test_figures_show_means_and_spans_over_splits_and_losses_beside_the_same_splits(played):
    frame = played["drift"]
    drawn = FIGURES["drift"].prepare(frame)
    chosen = {"drift": "noise", "severity": 1.0, "method": "Dirichlet"}
    both = frame.filter(**chosen).sort("split")
    none = frame.filter(**{**chosen, "method": "none"}).sort("split")
    change = both["loss"] - none["loss"]
    row = only(drawn, **chosen, measure="loss_change")
    assert row["mean"] == pytest.approx(change.mean())
    assert (row["low"], row["high"]) == pytest.approx((change.min(), change.max()))
    assert row["n_splits"] == 2
    assert drawn.filter(method="none", measure="loss_change")["mean"].abs().max() == 0.0
    assert len(FIGURES["drift"].draw(drawn).axes) == 9
    for name in ("actions", "classes"):
        table = FIGURES[name].prepare(played[name])
        assert table["what"][0] == name
        assert len(FIGURES[name].draw(table).axes) == 2
    staged = FIGURES["steps"].prepare(played["steps"])
    row = only(staged, part="fit", step=2, method="full steps", measure="loss_change")
    fitted = played["steps"].filter(part="fit")
    moved = fitted.filter(method="full steps", step=2)["loss"] - fitted.filter(method="none")["loss"]
    assert row["mean"] == pytest.approx(moved.mean())
    assert len(FIGURES["steps"].draw(staged).axes) == 3
