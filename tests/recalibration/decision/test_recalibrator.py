"""DecisionRecalibrator: rounds, what they promise, saved models, compressed predictors, tables of losses."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from onlinecal import DecisionRecalibrator, decision_calibration_error, decision_loss_gap, reference
from onlinecal.measures.decision.losses import Partition, bayes_decisions, residuals
from onlinecal.measures.scores import class_brier
from onlinecal.recalibration.decision.losses import LossTable, gaussian_losses
from onlinecal.recalibration.decision.rounds import HeldOut, WorstOfGivenLosses, full_step, shrunk_step
from onlinecal.recalibration.flooring import floored
from onlinecal.tables import keeping
from onlinecal.version import STATE_FORMAT
from tests.recalibration.test_starting import source as drawn


def source(n, n_classes=3, seed=0):
    return drawn(n, n_classes, seed, power=3.0)


CONFIGURATIONS = {
    "default": DecisionRecalibrator(n_actions=2, start="temperature"),
    "soft": DecisionRecalibrator.as_in_paper(2, 0.07),
    "hard": DecisionRecalibrator.as_in_paper(2, 0.07, partition="hard"),
    "given losses": DecisionRecalibrator.as_in_paper(epsilon=0.005, losses=gaussian_losses(2, 3, 20)),
}


@cache
def fitted_as(name):
    """A model, its table and labels: fitted once, and only read."""
    table, labels = source(300)
    return CONFIGURATIONS[name].fit(table, labels), table, labels


@pytest.fixture(params=CONFIGURATIONS)
def fitted(request):
    return fitted_as(request.param)


@pytest.mark.parametrize(
    ("partition", "n_actions", "epsilon"),
    [("soft", 2, 0.1), ("hard", 3, 0.12)]
    + [pytest.param(name, 2, 0.05, marks=pytest.mark.slow) for name in ("soft", "hard")],
)
def test_the_plain_algorithm_reaches_its_tolerance_within_the_proven_rounds(partition, n_actions, epsilon):
    table, labels = source(250)
    model = DecisionRecalibrator.as_in_paper(n_actions, epsilon, partition=partition).fit(table, labels)
    assert model.reached_
    assert model.n_rounds_ <= 2 / epsilon**2 <= n_actions / epsilon**2
    assert (model.history_["error"][:-1] > epsilon).all()
    # each round takes at least the square of what it found, by which there are so few
    falls = -np.diff(model.history_["squared_error"])
    assert (falls >= model.history_["error"][:-1] ** 2 - 1e-12).all()
    left = decision_calibration_error(
        model.predict_proba(table), labels, n_actions, partition="hard", random_state=1
    )
    # a search from other starts may find a little more
    assert left < 1.1 * epsilon < decision_calibration_error(table, labels, n_actions)


def test_rounds_are_replayed_as_in_the_fit_and_never_raise_the_squared_error_of_its_rows(fitted):
    model, table, labels = fitted
    *_, last = staged = list(model.staged_predict_proba(table))
    stages = [(stage - model.floor_) / (1 - 3 * model.floor_) for stage in staged]
    errors = np.array([class_brier(stage, labels) for stage in stages])
    assert len(errors) == model.n_rounds_ + 1 > 1
    assert (np.diff(errors) <= 1e-12).all()
    assert errors[0] <= class_brier(table, labels)
    assert np.allclose(errors, model.history_["squared_error"])
    assert np.array_equal(model.predict_proba(table), last)
    assert np.abs(last.sum(axis=1) - 1).max() < 1e-12
    assert last.min() >= model.floor_
    assert (model.floor_ > 0) == (model.step == "shrunk")
    assert model.history_["accuracy"][-1] == (model.predict(table) == labels).mean()
    assert np.allclose(model.predict_proba(table[::2]), last[::2], atol=1e-12)


@pytest.mark.parametrize("partition", ["soft", "hard"])
def test_rounds_are_those_of_the_papers_algorithms_on_the_same_partitions(partition):
    """The search is the recalibrator's own, and at the end the whole simplex, on which nothing is left."""
    model, table, labels = fitted_as(partition)
    played = {"soft": reference.soft_decision_calibration, "hard": reference.hard_decision_calibration}
    # limits of soft partitions are hard ones
    found = [(one.partition.hard, one.partition.weights.tolist()) for one in model.rounds_]
    partitions = [(reference.hard if hard else reference.soft)(w) for hard, w in found]
    whole = reference.soft([[0.0] * 3] * 2)
    left = iter([*partitions, whole])
    calibrated = played[partition](table.tolist(), labels.tolist(), lambda p, wrong: next(left), 0.07)
    assert [b for b, _ in calibrated.rounds] == partitions != []
    mapped = np.array([calibrated.predict(row) for row in table.tolist()])
    # weights of softmaxes are so large that the last bits of a sum grow
    assert mapped == pytest.approx(model.predict_proba(table), abs=1e-12 if partition == "hard" else 1e-9)
    for (_, d), one in zip(calibrated.rounds, model.rounds_, strict=True):
        assert np.array(d) == pytest.approx(one.step, abs=1e-9)


def test_given_losses_all_end_below_the_tolerance():
    table, labels = source(600)
    for losses in (gaussian_losses(3, 3, 40), gaussian_losses(3, 3, 1)[0]):
        model = DecisionRecalibrator.as_in_paper(epsilon=0.01, losses=losses).fit(table, labels)
        assert decision_loss_gap(model.predict_proba(table), labels, losses).max() <= 0.01
        assert decision_loss_gap(table, labels, losses).max() > 0.01 or losses.ndim == 2


def test_fresh_rows_gain_overfitting_is_held_back_and_what_is_right_nearly_left_alone():
    table, labels = source(3000, n_classes=5)
    fit, fresh = slice(0, 1000), slice(1000, None)
    losses = gaussian_losses(4, 5, 300, random_state=9)

    def gap(model):
        mapped = model.fit(table[fit], labels[fit]).predict_proba(table[fresh])
        return decision_loss_gap(mapped, labels[fresh], losses).mean()

    cautious = gap(DecisionRecalibrator(n_actions=4))
    assert cautious < 0.3 * decision_loss_gap(table[fresh], labels[fresh], losses).mean()
    assert cautious < gap(DecisionRecalibrator.as_in_paper(4, max_rounds=30))
    rng = np.random.default_rng(3)
    truth = rng.dirichlet(np.ones(4), 2000)
    came = (truth.cumsum(axis=1) < rng.random((2000, 1))).sum(axis=1)
    moved = DecisionRecalibrator(n_actions=3).fit(truth, came).predict_proba(truth) - truth
    assert np.abs(moved).mean() < 0.01


def test_full_steps_solve_the_least_squares_problem_even_when_regions_coincide():
    rng = np.random.default_rng(4)
    table, labels = source(50)
    members = Partition(rng.standard_normal((2, 3)), hard=False)(table)
    error = -residuals(table, labels)
    step = full_step(members, error)
    assert np.allclose(step, np.linalg.lstsq(members, error, rcond=None)[0])
    doubled = np.concatenate([members, members], axis=1) / 2
    assert np.allclose(doubled @ full_step(doubled, error), members @ step)
    hard = Partition(rng.standard_normal((3, 3)), hard=True)(table)
    means = [error[hard[:, a] == 1].mean(axis=0) if hard[:, a].any() else np.zeros(3) for a in range(3)]
    assert np.allclose(full_step(hard, error), means)


@pytest.mark.parametrize("signal", [0.0, 0.05, 0.2, 1.0])
def test_shrunk_steps_keep_signal_and_drop_noise(signal):
    """Of n rows, m of them fresh, a part s of what is seen is no noise: n s/(m + (n - m) s) is kept."""
    n, m, members = 400, 100, np.ones((400, 1))
    for seed in range(20):
        error = np.random.default_rng(seed).standard_normal((n, 20)) + signal
        found = shrunk_step(members, error, np.arange(m), 1.0) / full_step(members, error)
        fresh = error[:m]
        noise = (fresh**2).sum(axis=1).mean() / m
        part = max(0.0, 1.0 - noise / (fresh.mean(axis=0) ** 2).sum())
        assert found == pytest.approx(n * part / (m + (n - m) * part))


def wrong_by(forecasts, labels):
    """The mean distance of forecasts of three classes to the shares of the labels that came with them."""
    wrong = 0.0
    for forecast in np.unique(forecasts, axis=0):
        here = (forecasts == forecast).all(axis=1)
        wrong += here.mean() * np.linalg.norm(forecast - np.eye(3)[labels[here]].mean(axis=0))
    return wrong


def test_compressed_predictors_keep_every_decision_and_are_distribution_calibrated(fitted):
    model, table, labels = fitted
    probabilities = model.predict_proba(table)
    for loss in gaussian_losses(2, 3, 30):
        small = model.compress(loss)
        forecasts = small.predict_proba(probabilities)
        assert np.array_equal(bayes_decisions(forecasts, loss), bayes_decisions(probabilities, loss))
        assert len(np.unique(forecasts, axis=0)) <= 2
        assert small.masses.sum() == pytest.approx(1)
        # what each forecast is wrong by is the mean error on the loss's region
        wrong = wrong_by(forecasts, labels)
        regions = Partition(-loss, hard=True)(probabilities)
        bias = regions.T @ residuals(probabilities, labels) / len(labels)
        assert wrong == pytest.approx(np.linalg.norm(bias, axis=1).sum())
        if model.losses is None and model.step == "full":
            assert wrong <= model.epsilon * (1 + 1e-9)
    with pytest.raises(ValueError, match="loss must be one table"):
        model.compress(np.zeros((1, 2, 3)))


def test_saved_models_map_to_the_same_bits(fitted, tmp_path):
    model, table, _ = fitted
    path = tmp_path / "model.npz"
    model.save(path)
    back = DecisionRecalibrator.load(path)
    assert np.array_equal(back.predict_proba(table), model.predict_proba(table))
    for name in model.history_.dtype.names:
        assert np.array_equal(back.history_[name], model.history_[name], equal_nan=True)
    for name, value in model.get_params().items():
        assert np.array_equal(back.get_params()[name], value), name
    with np.load(path, allow_pickle=False) as file:
        assert all(file[name].dtype.kind in "biufU" for name in file.files)
    loss = gaussian_losses(2, 3, 1)[0]
    small, same = model.compress(loss), back.compress(loss, table)
    assert np.allclose(same.predictions, small.predictions, equal_nan=True)
    with pytest.raises(ValueError, match="X must be given"):
        back.compress(loss)


def test_names_of_columns_and_labels_are_saved_too(tmp_path):
    table, labels = source(100)
    frame = pd.DataFrame(table, columns=["cat", "dog", "eel"])
    model = DecisionRecalibrator(classes=["c", "d", "e"], cv=2, max_rounds=2)
    model.fit(frame, np.array(["c", "d", "e"])[labels]).save(tmp_path / "named")
    back = DecisionRecalibrator.load(tmp_path / "named")
    assert back.predict(frame).tolist() == model.predict(frame).tolist()
    with pytest.raises(ValueError, match="must be in the same order as they were in fit"):
        back.predict_proba(frame[["dog", "cat", "eel"]])
    DecisionRecalibrator.as_in_paper(epsilon=5.0).fit(table, labels).save(tmp_path / "no rounds")
    assert np.array_equal(DecisionRecalibrator.load(tmp_path / "no rounds").predict_proba(table), table)


def test_files_of_something_else_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "other.npz"

    def assert_refused(message):
        with pytest.raises(ValueError, match=message):
            DecisionRecalibrator.load(path)

    np.savez(path, a=np.zeros(2))
    assert_refused("not a file of a decision recalibrator")
    for found, age in ((3, "an older"), (STATE_FORMAT + 1, "a newer")):
        monkeypatch.setattr(keeping, "STATE_FORMAT", found)
        keeping.keep(path, "a decision recalibrator", {})
        assert_refused(f"has format {found}, which {age} onlinecal wrote")
    path.write_text("no arrays")
    assert_refused("not a file of a decision recalibrator")
    with pytest.raises(NotFittedError):
        DecisionRecalibrator().save(path)


def test_warm_starts_add_rounds():
    table, labels = source(400)
    model = DecisionRecalibrator(n_actions=2, cv=0, max_rounds=2, warm_start=True).fit(table, labels)
    first, beta = model.rounds_, model.inverse_temperature_
    more, their = source(800, seed=1)
    model.fit(more, their)
    assert model.n_rounds_ == 4
    assert model.rounds_[:2] == first
    assert model.inverse_temperature_ == beta
    model.fit(*source(400, n_classes=4))
    assert model.n_rounds_ == 2


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_actions": 0}, "n_actions must be a whole number of at least 1, got 0"),
        ({"partition": "firm"}, "partition must be one of soft, hard, got 'firm'"),
        ({"start": "warm"}, "start must be one of auto, temperature, vector, .*, none, got 'warm'"),
        ({"share": -0.1}, r"share must be None or a number from 0 to 1, got -0\.1"),
        ({"limit": 0.5}, r"limit must be None or a number above 1, got 0\.5"),
        ({"step": "long"}, "step must be one of shrunk, full, got 'long'"),
        ({"cv": 1}, "cv must be 0 or at least 2, got 1"),
        ({"losses": np.zeros((1, 2, 5))}, "losses must have a column for each of 3 classes, got 5"),
        ({}, "at least 10 rows with cv=5, got 3"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        DecisionRecalibrator(**parameters).fit(*source(50 if parameters else 3))


@pytest.mark.parametrize(
    "names", [{"actions": ("#no", "yes")}, {"classes": (" well", "ill")}, {"classes": (0, 1)}]
)
def test_names_that_a_file_would_not_give_back_are_refused(tmp_path, names):
    with pytest.raises(ValueError, match="or read_csv would not give them back, got"):
        LossTable([[0.0, 1.0], [1.0, 0.0]], **names).write_csv(tmp_path / "losses.csv")
    assert list(tmp_path.iterdir()) == []


def test_loss_tables_decide_tell_and_travel_as_csv(tmp_path):
    clinic = LossTable([[0.2, 0.2, 0.3], [0.0, 1.0, 2.0]], ("treat", "wait"), ("well", "ill", "worse, or so"))
    table, labels = source(200)
    assert clinic.gap(table, labels) == decision_loss_gap(table, labels, clinic.values)[0]
    predicted, true = clinic.losses(table, labels)
    assert abs(predicted - true) / np.sqrt(5) == pytest.approx(clinic.gap(table, labels))
    clinic.write_csv(tmp_path / "clinic.csv")
    back = LossTable.read_csv(tmp_path / "clinic.csv")
    assert np.array_equal(back.values, clinic.values)
    assert (back.actions, back.classes) == (clinic.actions, clinic.classes)
    assert LossTable(np.zeros((2, 2))).actions == ("action 0", "action 1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("action,well,ill\ntreat,0.2,high\n", "line 2: losses must be finite numbers, got 'high'"),
        ("action,well,ill\ntreat,0.2\n", "line 2: must have 2 losses, one a class, got 1"),
        ("action,well,ill\n# nothing yet\n", "one line of losses below it, got 1 line in all"),
        ("# costs\naction,well,well\ntreat,1,2\n", "line 2: classes must differ, got 'well' twice"),
        ("action,well,ill\ntreat,1,2\n treat ,1,2\n", "line 3: actions must differ, got 'treat' twice"),
        ('action,"well\nindeed",ill\ntreat,1,high\n', "line 3: losses must be finite numbers, got 'high'"),
        ("action,well,ill\nm\xe9decin,1,2\n", "line 2: must be UTF-8, got bytes that are not"),
    ],
)
def test_bad_loss_files_are_named_by_line(tmp_path, text, message):
    path = tmp_path / "losses.csv"
    path.write_text(text, "latin-1")
    with pytest.raises(ValueError, match=message) as refused:
        LossTable.read_csv(path)
    assert str(refused.value).startswith(str(path))


def test_given_losses_are_corrected_on_the_regions_of_the_forecasts_that_are_given_out():
    rng = np.random.default_rng(0)
    table, labels, losses = rng.dirichlet(np.ones(3), 500), rng.integers(0, 3, 500), gaussian_losses(3, 3, 4)
    for loss in losses:
        found = WorstOfGivenLosses(loss[None], 0.05)(table, residuals(table, labels), 0.0, rng)
        decisions = found.partition(table).argmax(axis=1)
        assert np.array_equal(decisions, bayes_decisions(floored(table, 0.05), loss))
        assert not np.array_equal(decisions, bayes_decisions(table, loss))
        gap = abs((loss[decisions] * residuals(table, labels)).sum(axis=1).mean())
        assert found.error == pytest.approx(gap / np.linalg.norm(loss, axis=1).max())


def test_rounds_that_raise_the_held_out_squared_error_are_not_kept():
    held_out = HeldOut(np.array([0.04, 0.03, 0.01, 0.02]), np.array([0.30, 0.29, 0.31, 0.30]))
    assert held_out.best == 3
