"""The decision paper's experiments: a row of a figure says what the library says of those rows; the verb."""

from __future__ import annotations

import json
import math

import numpy as np
import polars as pl
import pytest

from onlinecal.measures.decision.errors import decision_loss_gap
from onlinecal.measures.decision.losses import decision_losses, loss_norms
from onlinecal.recalibration.classical.temperature import TemperatureScaling
from onlinecal.recalibration.decision.losses import gaussian_losses
from onlinecal.recalibration.decision.recalibrator import DecisionRecalibrator
from onlinecal.simulations import experiments
from onlinecal.simulations.cli import experiment
from onlinecal.simulations.plots.experiments import EXPERIMENT_FIGURES
from onlinecal.tables.classes import Part
from tests.commands import run

LOSSES = 40


@pytest.fixture(scope="module")
def small():
    return experiments.Experiment(experiments.made_up_table(300, 3), n_rounds=3, n_splits=2, n_losses=LOSSES)


@pytest.fixture(scope="module")
def played(small):
    """Every experiment on a small table, as a frame."""
    found = {}
    for name in ("steps", "actions", "classes", "drift"):
        rows = [row for rows in experiments.play(name, small) for row in rows]
        found[name] = pl.DataFrame(rows, infer_schema_length=None)
    return found


def only(frame, **which):
    (row,) = frame.filter(**which).to_dicts()
    return row


def agree(row, table, labels, losses):
    gaps = decision_loss_gap(table, labels, losses)
    true = decision_losses(table, labels, losses).true / loss_norms(losses)
    found = [row[name] for name in ("mean_gap", "worst_gap", "loss")]
    assert found == pytest.approx([gaps.mean(), gaps.max(), true.mean()], abs=1e-9)


def test_steps_are_those_of_the_algorithms_on_fitted_and_on_tested_rows(small, played):
    both, losses = experiments.halves(small, 1), gaussian_losses(3, 3, LOSSES)
    common = {"epsilon": experiments.NEVER, "max_rounds": 3, "random_state": 1, "share": 1.0, "keep": 0.0}
    begun = TemperatureScaling().fit(*both.fit)
    paper = DecisionRecalibrator.as_in_paper(3, start="temperature", **common).fit(*both.fit)
    house = DecisionRecalibrator(n_actions=3, cv=0, **common).fit(*both.fit)
    for part, (P, y) in (("fit", both.fit), ("test", both.test)):
        mine = played["steps"].filter(split=1, part=part)
        agree(only(mine, method="none"), P, y, losses)
        agree(only(mine, method="full steps", step=0), begun.predict_proba(P), y, losses)
        agree(only(mine, method="full steps", step=3), paper.predict_proba(P), y, losses)
        agree(only(mine, method="shrunk steps", step=3), house.predict_proba(P), y, losses)
    assert set(played["steps"].filter(method="Dirichlet")["part"]) == {"fit", "test"}
    # the folds stop on the curve that is drawn
    both = experiments.halves(small, 0)
    kept = DecisionRecalibrator(n_actions=3, **common | {"random_state": 0}).fit(*both.fit)
    row = only(played["steps"], split=0, part="test", method="shrunk steps", step=kept.n_rounds_)
    assert row["kept"] == kept.n_rounds_
    agree(row, kept.predict_proba(both.test[0]), both.test[1], losses)


def test_actions_and_classes_count_up_to_all_of_them(small, played):
    both = experiments.halves(small, 0)
    assert sorted(set(played["actions"]["count"])) == [1, 2, 3]
    assert sorted(set(played["classes"]["count"])) == [2, 3]
    for k in (1, 3):
        model = DecisionRecalibrator(n_actions=k, random_state=0).fit(*both.fit)
        row = only(played["actions"], split=0, method="decision", count=k)
        agree(row, model.predict_proba(both.test[0]), both.test[1], gaussian_losses(k, 3, LOSSES))
    pairs = played["classes"].filter(count=2)
    assert set(pairs["n_fit"] + pairs["n_test"]) < set(range(120, 300))
    assert set(played["classes"].filter(count=3)["n_fit"]) == {150}
    for found, expected in (
        (experiments.counts(1, 10), [*range(1, 11)]),
        (experiments.counts(2, 43), [2, 5, 10, 20, 43]),
        (experiments.step_stops(9), [*range(10)]),
        (experiments.step_stops(32)[-5:], [16, 20, 24, 28, 32]),
    ):
        assert found == expected


def test_drift_leaves_the_recalibrators_as_they_were_fitted_on_clean_rows(small, played):
    both, losses = experiments.halves(small, 0), gaussian_losses(3, 3, LOSSES)
    (P, y), frame = both.test, played["drift"].filter(split=0)
    begun = TemperatureScaling().fit(*both.fit)
    for name, kind in experiments.DRIFTS.items():
        clean = frame.filter(drift=name, severity=kind.clean)
        agree(only(clean, method="none"), P, y, losses)
        agree(only(clean, method="temperature"), begun.predict_proba(P), y, losses)
    doubled = begun.predict_proba(experiments.DRIFTS["temperature"].corrupt(P, y, 2.0, None)[0])
    agree(only(frame, drift="temperature", severity=2.0, method="temperature"), doubled, y, losses)


def test_a_label_shift_reaches_its_ratio_and_keeps_rows_whole():
    labels = np.repeat(np.arange(4), 500)
    table = np.column_stack([np.arange(2000), labels]).astype(float)
    for ratio, weights in ((1.0, [1, 1, 1, 1]), (8.0, [1, 2, 4, 8])):
        rows, y = experiments.DRIFTS["label shift"].corrupt(
            np.tile(table, 2), labels, ratio, np.random.default_rng(1)
        )
        assert len(rows) == 2000
        assert (rows[:, 1] == y).all()
        found = np.sort(np.bincount(y, minlength=4))
        assert found / found[0] == pytest.approx(np.array(weights, float), rel=0.02)


def test_noise_grows_along_one_direction_and_a_factor_changes_no_answer():
    table, labels = experiments.made_up_table(200, 4).probabilities, np.zeros(200, int)
    moves = []
    for size in (1.0, 2.0):
        noisy, _ = experiments.DRIFTS["noise"].corrupt(table, labels, size, np.random.default_rng(5))
        moved = np.log(noisy) - np.log(table)
        moves.append(moved - moved.mean(axis=1, keepdims=True))
    inner = table.min(axis=1) > 1e-6  # elsewhere the floor of the logarithm shows
    assert moves[1][inner] == pytest.approx(2.0 * moves[0][inner], abs=1e-4)
    raised, same = experiments.DRIFTS["temperature"].corrupt(table, labels, 2.0, None)
    assert raised == pytest.approx(table**2 / (table**2).sum(axis=1, keepdims=True), abs=1e-9)
    assert same is labels


def test_classes_with_too_few_rows_are_left_out_before_anything_is_fitted_and_the_others_stay_whole():
    labels = np.repeat([0, 1, 2], [52, 5, 3])
    table = Part("rare", np.arange(60), np.full((60, 3), 1 / 3), labels, ("a", "b", "c"))
    rare, usual = (experiments.Experiment(one) for one in (table, experiments.made_up_table(300, 3)))
    orders = [experiments.class_order(rare, split)[:2].tolist() for split in range(5)]
    assert any(0 not in order for order in orders)  # then two classes have at most 8 rows
    assert experiments.class_counts(rare) == [3]
    assert experiments.class_counts(usual) == [2, 3]
    rows = np.array([[0.2, 0.3, 0.5], [0.0, 1.0, 0.0], [0.6, 0.1, 0.3], [0.1, 0.2, 0.7]])
    part, labels = experiments.restricted(rows, np.array([2, 0, 0, 1]), np.array([2, 0]))
    assert labels.tolist() == [0, 1, 1]
    assert part == pytest.approx(np.array([[5 / 7, 2 / 7], [0.5, 0.5], [1 / 3, 2 / 3]]))


def test_perfect_probabilities_show_the_gap_that_chance_makes():
    rng, losses = np.random.default_rng(2), gaussian_losses(3, 3, 40)
    truth = rng.dirichlet([1.0, 1.0, 1.0], 4000)
    expected = np.mean([experiments.chance_score(truth, losses, seed)["mean_gap"] for seed in range(10)])
    drawn = [(truth.cumsum(axis=1) < rng.random((4000, 1))).sum(axis=1) for _ in range(40)]
    seen = [experiments.score(truth, labels, losses)["mean_gap"] for labels in drawn]
    # both are means of forty draws
    assert abs(expected - np.mean(seen)) < 4 * np.std(seen) * math.sqrt(2 / 40)
    assert expected < 0.01 < experiments.score(truth[::-1], drawn[0], losses)["mean_gap"]


def test_figures_show_means_and_spans_over_splits_and_losses_beside_the_same_splits(played):
    frame = played["drift"].filter(drift="noise", severity=1.0).sort("split")
    change = frame.filter(method="Dirichlet")["loss"] - frame.filter(method="none")["loss"]
    drawn = EXPERIMENT_FIGURES["drift"].prepare(played["drift"]).filter(measure="loss_change")
    row = only(drawn, drift="noise", severity=1.0, method="Dirichlet")
    assert (row["mean"], row["n_splits"]) == (pytest.approx(change.mean()), 2)
    assert (row["low"], row["high"]) == pytest.approx((change.min(), change.max()))
    assert drawn.filter(method="none")["mean"].abs().max() == 0.0
    fitted = played["steps"].filter(part="fit")
    moved = fitted.filter(method="full steps", step=2)["loss"] - fitted.filter(method="none")["loss"]
    staged = EXPERIMENT_FIGURES["steps"].prepare(played["steps"])
    row = only(staged, part="fit", step=2, method="full steps", measure="loss_change")
    assert row["mean"] == pytest.approx(moved.mean())
    for name, panels in (("drift", 9), ("actions", 2), ("classes", 2), ("steps", 3)):
        figure = EXPERIMENT_FIGURES[name]
        assert len(figure.draw(figure.prepare(played[name])).axes) == panels


SMALL = ("--splits", 2, "--losses", 10, "--rounds", 2, "--jobs", 1, "--out")


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    path, data = tmp_path_factory.mktemp("nets") / "net.npz", experiments.made_up_table(200, 3)
    np.savez(path, predictions=data.probabilities, ground_truth=data.labels)
    return path


def test_a_picture_comes_with_its_numbers_and_those_of_every_split(net, tmp_path):
    assert tuple(experiments.EXPERIMENTS) == experiment.FIGURE_NAMES
    answer = run("experiment", net, "--figure", "steps", "--actions", 2, *SMALL, tmp_path, "--json")
    assert "steps: splits finished: 2 of 2" in answer.stderr
    files = {"steps.png", "steps.svg", "steps.csv", "steps-splits.csv"}
    assert {path.name for path in tmp_path.iterdir()} == files
    told = json.loads(answer.stdout)
    assert str(tmp_path / "steps.png") in told["files"]
    every = pl.read_csv(tmp_path / "steps-splits.csv", infer_schema_length=None)
    assert set(every["split"]) == {0, 1}
    drawn = pl.read_csv(tmp_path / "steps.csv", infer_schema_length=None)
    assert len(told["figures"]["steps"]) == drawn.height
    mine = every.filter(method=experiments.AS_GIVEN, part="test")["mean_gap"]
    row = only(drawn, method=experiments.AS_GIVEN, part="test", measure="mean_gap")
    assert (row["low"], row["mean"], row["high"]) == pytest.approx((mine.min(), mine.mean(), mine.max()))


def test_an_interrupt_keeps_the_pictures_that_are_finished(net, tmp_path, monkeypatch):
    def stop(experiment, split):
        raise KeyboardInterrupt

    monkeypatch.setitem(experiments.EXPERIMENTS, "drift", stop)
    answer = run("experiment", net, "--figure", "steps", "--figure", "drift", *SMALL, tmp_path)
    assert answer.exit_code == 130
    assert "interrupted: 1 of 2 pictures are finished" in answer.stderr
    assert {path.stem for path in tmp_path.glob("*.png")} == {"steps"}
