"""Answers mapped for decisions, or in l_p, by fits now and then: memory, drift, late classes."""

import numpy as np
import pytest
from river import datasets, naive_bayes

from onlinecal import (
    DecisionCalibratedClassifier,
    LpCalibratedClassifier,
    LpRecalibrator,
    lp_calibration_error,
)
from onlinecal.measures.decision.errors import decision_loss_gap
from onlinecal.recalibration.decision.losses import gaussian_losses
from onlinecal.recalibration.lp.online import LevelSetCounts
from tests.estimators import learn
from tests.wrappers.scripted import Told


def stream_of(n, seed=0):
    rng = np.random.default_rng(seed)
    for truth in rng.dirichlet([1, 1, 1], n):
        sure = truth**3 / (truth**3).sum()
        yield dict(zip("abc", sure.tolist(), strict=True)), "abc"[int(rng.choice(3, p=truth))]


def test_fits_come_at_doubling_times_go_on_from_each_other_and_close_the_gap():
    model = DecisionCalibratedClassifier(Told(), n_actions=2, capacity=800)
    rounds = list(stream_of(1700))
    answers = learn(model, rounds)
    assert model.n_fits == 4  # after 200, 400, 800, 1600
    assert answers[:200] == [x for x, _ in rounds[:200]]
    assert all(abs(sum(answer.values()) - 1) < 1e-9 for answer in answers)
    assert model.gaps().mean() < 0.4 * model.gaps(raw=True).mean()
    first = DecisionCalibratedClassifier(Told(), n_actions=2, capacity=800)
    learn(first, rounds[:200])
    assert model.recalibrator.n_rounds_ > first.recalibrator.n_rounds_
    for mine, theirs in zip(model.recalibrator.rounds_, first.recalibrator.rounds_, strict=False):
        assert np.array_equal(mine.step, theirs.step)


def test_it_can_be_fitted_at_any_time():
    model = DecisionCalibratedClassifier(Told())
    model.recalibrate()
    assert model.n_fits == 0
    learn(model, stream_of(50))
    model.recalibrate()
    assert (model.n_fits, model.n_rounds) == (1, 50)
    learn(model, stream_of(200))
    assert model.n_fits == 2


def test_the_newest_labels_are_answered_before_they_are_learnt():
    model = DecisionCalibratedClassifier(Told(), n_recent=100, labels="abc")
    rounds = list(stream_of(300))
    answers = learn(model, rounds)
    losses = gaussian_losses(3, 3, 20)
    table = np.array([[answer[k] for k in "abc"] for answer in answers[-100:]])
    numbers = ["abc".index(y) for _, y in rounds[-100:]]
    assert np.allclose(model.gaps(losses), decision_loss_gap(table, numbers, losses))


@pytest.mark.parametrize("memory", ["window", "reservoir"])
def test_memory_is_bounded_and_repeats_with_the_seed(memory):
    one, two = (DecisionCalibratedClassifier(Told(), memory=memory, capacity=50, seed=3) for _ in range(2))
    rounds = list(stream_of(500))
    assert learn(one, rounds) == learn(two, rounds)
    assert len(one._kept) < 100
    if memory == "reservoir":
        ages = [next(i for i, (x, _) in enumerate(rounds) if x == answer) for answer, _ in one._kept]
        assert min(ages) < 100
        assert max(ages) > 400


def test_a_label_that_comes_later_keeps_its_probability_until_the_next_fit():
    model = DecisionCalibratedClassifier(Told(), first_fit=100)
    learn(model, list(stream_of(100)))
    answer = model.predict_proba_one({"a": 0.5, "b": 0.2, "c": 0.1, "d": 0.2})
    assert answer["d"] == pytest.approx(0.2)
    assert sum(answer.values()) == pytest.approx(1)
    for x, y in list(stream_of(100, seed=1)):
        x = {**{k: 0.9 * p for k, p in x.items()}, "d": 0.1}
        model.learn_one(x, y)
    assert model.recalibrator.n_features_in_ == 4
    assert set(model.predict_proba_one({"a": 1.0})) == set("abcd")


def test_a_real_stream_and_a_clinics_own_loss():
    loss = np.array([[[0.0, 1.0], [0.3, 0.1]]])
    model = DecisionCalibratedClassifier(naive_bayes.GaussianNB(), losses=loss, labels=[False, True])
    learn(model, datasets.Phishing())
    assert model.gaps()[0] < model.gaps(raw=True)[0]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"memory": "endless"}, "memory must be one of window, reservoir, got 'endless'"),
        ({"capacity": 5}, "capacity must be at least 10, got 5"),
        ({"first_fit": 0}, "first_fit must be a whole number of at least 1, got 0"),
        ({"n_actions": 0}, "n_actions"),
    ],
)
def test_bad_parameters_of_the_wrapper_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        DecisionCalibratedClassifier(Told(), **parameters)


def test_nothing_is_known_before_the_first_label():
    model = DecisionCalibratedClassifier(naive_bayes.GaussianNB())
    assert model.predict_proba_one({"x": 1.0}) == {}
    assert model.gaps().shape == (0,)


pytestmark = pytest.mark.filterwarnings("ignore::onlinecal.recalibration.SampleSizeWarning")


def stream(n, seed=0, favour=0.4):
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(3, 0.4), n)
    labels = (truth.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=2)
    table = (1 - favour) * truth
    table[:, 0] += favour
    return table, labels


def told(row):
    return dict(zip("abc", row.tolist(), strict=True))


def learnt(model, table, labels):
    for row, label in zip(table, labels.tolist(), strict=True):
        model.predict_proba_one(told(row))
        model.learn_one(told(row), "abc"[label])
    return model


def answers(model, table):
    return np.array([[model.predict_proba_one(told(row))[c] for c in "abc"] for row in table])


@pytest.mark.parametrize("within", ["constant", "shift"])
def test_on_the_same_rounds_the_map_is_that_of_the_batch(within):
    table, labels = stream(1600)
    model = learnt(LpCalibratedClassifier(Told(), n_levels=4, within=within), table, labels)
    assert (model.n_rounds, model.n_fits) == (1600, 5)
    batch = LpRecalibrator.as_in_paper(n_levels=4, within=within).fit(table, labels)
    assert answers(model, table[:200]) == pytest.approx(batch.predict_proba(table[:200]), abs=1e-9)
    assert model.recalibrator.n_rounds_ == batch.n_rounds_


def test_the_error_falls_on_later_rounds():
    table, labels = stream(6000)
    model = learnt(LpCalibratedClassifier(Told(), n_levels=4), table[:4000], labels[:4000])
    mapped = answers(model, table[4000:])
    before = lp_calibration_error(table[4000:], labels[4000:], 2, 4)
    assert lp_calibration_error(mapped, labels[4000:], 2, 4) < before / 3
    assert mapped.sum(axis=1) == pytest.approx(1.0)


@pytest.mark.parametrize("forgetting", [{"window": 1600}, {"fading": 0.998}])
def test_forgetting_follows_a_change_that_remembering_does_not(forgetting):
    first, first_labels = stream(5000, 1, 0.6)
    second, second_labels = stream(3000, 2, 0.0)
    errors = []
    for options in ({}, forgetting):
        model = LpCalibratedClassifier(Told(), n_levels=4, **options)
        learnt(model, first, first_labels)
        learnt(model, second[:2500], second_labels[:2500])
        fresh, labels = stream(4000, 3, 0.0)
        errors.append(lp_calibration_error(answers(model, fresh), labels, 2, 4))
    assert errors[1] < 0.5 * errors[0]


@pytest.mark.parametrize("forgetting", [{}, {"window": 400}, {"fading": 0.99}])
def test_memory_is_bounded_by_the_capacity(forgetting):
    rng = np.random.default_rng(0)
    model = LpCalibratedClassifier(Told(), n_levels=50, tolerance=0.2, **forgetting)
    table = rng.dirichlet([1.0, 1.0, 1.0], 2000)
    learnt(model, table, rng.integers(0, 3, 2000))
    assert len(model._online.counts) <= 8
    assert all(len(counts.entries) <= 60 for counts in model._online.counts)


@pytest.mark.parametrize("fading", [None, 0.97])
def test_heavy_level_sets_are_kept_and_counted_nearly_in_full(fading):
    rng = np.random.default_rng(1)
    counts = LevelSetCounts(20, fading=fading)
    exact = {}
    weight = 1.0
    for _ in range(4000):
        number = int(rng.integers(0, 2)) if rng.random() < 0.3 else int(rng.integers(2, 3000))
        key = ((number, 1),)
        counts.add(key, {0: 1.0}, 0)
        exact[key] = exact.get(key, 0.0) + weight
        if fading is not None:
            weight /= fading
    total = sum(exact.values())
    assert len(counts.entries) <= 20
    scale = total / counts.totals[0]
    for number in (0, 1):
        missed = exact[((number, 1),)] - scale * counts.entries[((number, 1),)].weights[0]
        assert -1e-9 * total <= missed <= total / 21
    assert counts.rounds == pytest.approx(4000 if fading is None else 1 / (1 - fading) * fading, rel=0.1)


def test_weights_that_grow_for_ever_are_scaled_back():
    counts = LevelSetCounts(3, fading=0.5)
    for _ in range(3000):
        counts.add(((0, 1),), {0: 1.0}, 0)
    assert counts.entries[((0, 1),)].weights[0] < 1e101
    assert counts.rounds == pytest.approx(1.0)


def test_pools_on_a_stream():
    table, labels = stream(3000)
    build = lambda: LpCalibratedClassifier(  # noqa: E731
        Told(), n_levels=2, tolerance=0.1, estimation="pools", seed=3
    )
    first, second = learnt(build(), table, labels), learnt(build(), table, labels)
    assert (answers(first, table[:50]) == answers(second, table[:50])).all()
    pools = first._online.counts[0].totals
    assert len(pools) == 1 + 2 * len(first.recalibrator.sample_complexity_.pools)
    assert sum(pools) == 3000


def test_a_class_that_turns_up_late():
    model = LpCalibratedClassifier(Told(), n_levels=4, first_fit=20)
    for i in range(100):
        x = {"a": 0.9, "b": 0.1}
        model.learn_one(x, "ab"[i % 2])
    late = model.predict_proba_one({"a": 0.9, "b": 0.05, "z": 0.05})
    assert list(late) == ["a", "b", "z"]
    assert sum(late.values()) == pytest.approx(1.0)
    assert late["a"] == pytest.approx(0.5, abs=0.05)
    for _ in range(400):
        model.learn_one({"a": 0.9, "b": 0.05, "z": 0.05}, "z")
    assert model.predict_proba_one({"a": 0.9, "b": 0.1})["z"] > 0.6


def test_before_any_label_and_with_odd_answers():
    model = LpCalibratedClassifier(Told(), n_levels=4)
    assert model.predict_proba_one({}) == {}
    assert model.predict_proba_one({"a": float("nan"), "b": -1.0}) == {"a": 0.5, "b": 0.5}
    model.learn_one({}, "a")
    model.recalibrate()
    assert sum(model.predict_proba_one({}).values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"epsilon": 2}, "epsilon must be a number between 0 and 1, got 2"),
        ({"first_fit": 0}, "first_fit must be a whole number"),
        ({"window": 5}, "window must be a whole number of at least 8, got 5"),
        ({"fading": 1.0}, r"fading must be a number between 0 and 1, got 1\.0"),
        ({"fading": 0.9, "window": 80}, "window and fading exclude each other, got 80 and 0.9"),
        ({"within": "shift", "estimation": "pools"}, "within='shift' needs"),
    ],
)
def test_bad_parameters_of_the_lp_wrapper_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        LpCalibratedClassifier(Told(), **parameters)
