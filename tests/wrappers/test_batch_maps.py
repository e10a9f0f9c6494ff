"""Answers mapped for decisions, or in l_p, by fits now and then: memory, drift, late classes."""

import math
from itertools import islice

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
from onlinecal.recalibration.lp.online import LevelSetCounts, OnlineLp, statistics_of
from tests.estimators import learn
from tests.parts import part_of
from tests.wrappers.scripted import Told

pytestmark = pytest.mark.filterwarnings("ignore::onlinecal.recalibration.SampleSizeWarning")


def stream(n, seed=0, favour=0.4):
    """Tables that favour the first of three classes, and the labels' numbers."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(3, 0.4), n)
    labels = (truth.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=2)
    table = (1 - favour) * truth
    table[:, 0] += favour
    return table, labels


def told(row):
    return dict(zip("abc", row.tolist(), strict=True))


def rounds_of(n, seed=0, favour=0.4):
    """The same as rounds."""
    table, labels = stream(n, seed, favour)
    return [(told(row), "abc"[label]) for row, label in zip(table, labels.tolist(), strict=True)]


def answers(model, table):
    return np.array([[model.predict_proba_one(told(row))[c] for c in "abc"] for row in table])


def test_fits_come_at_doubling_times_go_on_from_each_other_and_close_the_gap():
    settings = {"n_actions": 2, "capacity": 250, "first_fit": 100}
    model, first = (DecisionCalibratedClassifier(Told(), **settings) for _ in range(2))
    rounds = rounds_of(425)
    given = learn(model, rounds)
    assert model.n_fits == 3  # after 100, 200, 400
    assert given[:100] == [x for x, _ in rounds[:100]]
    assert all(abs(sum(answer.values()) - 1) < 1e-9 for answer in given)
    assert model.gaps().mean() < 0.4 * model.gaps(raw=True).mean()
    learn(first, rounds[:100])
    assert model.recalibrator.n_rounds_ > first.recalibrator.n_rounds_
    for mine, theirs in zip(model.recalibrator.rounds_, first.recalibrator.rounds_, strict=False):
        assert np.array_equal(mine.step, theirs.step)


@pytest.mark.usefixtures("few_corrections")
def test_it_can_be_fitted_at_any_time():
    model = DecisionCalibratedClassifier(naive_bayes.GaussianNB())
    assert model.predict_proba_one({"x": 1.0}) == {}
    assert model.gaps().shape == (0,)
    model = DecisionCalibratedClassifier(Told())
    model.recalibrate()
    assert model.n_fits == 0
    learn(model, rounds_of(50))
    model.recalibrate()
    assert (model.n_fits, model.n_rounds) == (1, 50)
    learn(model, rounds_of(200))
    assert model.n_fits == 2


@pytest.mark.filterwarnings("error")
def test_fewer_than_ten_labels_are_refused_in_words_of_the_wrapper():
    model = DecisionCalibratedClassifier(Told())
    learn(model, rounds_of(9))
    with pytest.raises(
        ValueError, match="at least 10 labels must have been learnt before recalibrate, got 9"
    ):
        model.recalibrate()
    assert (model.n_fits, model.recalibrator) == (0, None)


@pytest.mark.parametrize(
    ("losses", "told"), [([1.0, 2.0], "got shape \\(2,\\)"), ([[0.0, math.nan]], "finite, got nan")]
)
def test_tables_of_losses_are_checked_before_the_first_label(losses, told):
    with pytest.raises(ValueError, match=f"losses must be .*{told}"):
        DecisionCalibratedClassifier(Told(), losses=losses)


def test_booleans_named_before_any_label_sum_to_1_as_other_names_do():
    model = LpCalibratedClassifier(Told())
    for answer, wanted in (({True: 0.3}, {True: 1.0}), ({False: 0.5, True: 1.5}, {False: 0.25, True: 0.75})):
        assert model.predict_proba_one(answer) == wanted
    assert LpCalibratedClassifier(Told()).predict_proba_one({"a": 0.3}) == {"a": 1.0}


@pytest.mark.usefixtures("few_corrections")
@pytest.mark.parametrize("n_before", [0, 50])
def test_losses_for_other_classes_are_refused_and_the_last_fit_stays(n_before):
    model = DecisionCalibratedClassifier(Told(), first_fit=500)
    learn(model, [({"a": 0.4, "b": 0.6}, "ab"[t % 2]) for t in range(50)])
    if n_before:
        model.recalibrate()
    x, fitted, model.losses = {"a": 0.3, "b": 0.7}, model.recalibrator, [[0.0, 1.0, 1.0]]
    if n_before:
        fitted.losses = model.losses
    answer = model.predict_proba_one(x)
    with pytest.raises(ValueError, match="losses must have a column for each of 2 classes, got 3"):
        model.recalibrate()
    assert model.n_fits == bool(n_before)
    assert model.recalibrator is fitted
    assert model.predict_proba_one(x) == answer


@pytest.mark.usefixtures("few_corrections")
def test_the_newest_labels_are_answered_before_they_are_learnt():
    model, rounds = DecisionCalibratedClassifier(Told(), n_recent=100, classes=[*"abc"]), rounds_of(300)
    given = learn(model, rounds)
    losses = gaussian_losses(3, 3, 20)
    table = np.array([[answer[k] for k in "abc"] for answer in given[-100:]])
    numbers = ["abc".index(y) for _, y in rounds[-100:]]
    assert np.allclose(model.gaps(losses), decision_loss_gap(table, numbers, losses))
    usual = gaussian_losses(2, 3, 100, model.seed)
    assert np.allclose(model.gaps(), decision_loss_gap(table, numbers, usual))


@pytest.mark.usefixtures("few_corrections")
@pytest.mark.parametrize("memory", ["window", "reservoir"])
def test_memory_is_bounded_and_repeats_with_the_seed(memory):
    settings = {"memory": memory, "capacity": 50, "seed": 3, "n_actions": 2}
    one, two = (DecisionCalibratedClassifier(Told(), **settings) for _ in range(2))
    rounds = rounds_of(500)
    assert learn(one, rounds) == learn(two, rounds)
    assert len(one._kept) < 100
    if memory == "reservoir":
        ages = [next(i for i, (x, _) in enumerate(rounds) if x == answer) for answer, _ in one._kept]
        assert min(ages) < 100 < 400 < max(ages)
        assert np.mean(ages) == pytest.approx(250, abs=75)


@pytest.mark.usefixtures("few_corrections")
def test_a_label_that_comes_later_keeps_its_probability_until_the_next_fit():
    model = DecisionCalibratedClassifier(Told(), first_fit=100)
    learn(model, rounds_of(100))
    assert model.n_fits == 1
    answer = model.predict_proba_one({"a": 0.5, "b": 0.2, "c": 0.1, "d": 0.2})
    assert answer["d"] == pytest.approx(0.2)
    assert sum(answer.values()) == pytest.approx(1)
    learn(model, [({**{k: 0.9 * p for k, p in x.items()}, "d": 0.1}, y) for x, y in rounds_of(100, 1)])
    assert model.recalibrator.n_features_in_ == 4
    assert set(model.predict_proba_one({"a": 1.0})) == set("abcd")


def test_a_real_stream_and_a_clinics_own_loss():
    loss = np.array([[[0.0, 1.0], [0.3, 0.1]]])
    model = DecisionCalibratedClassifier(naive_bayes.GaussianNB(), losses=loss, classes=[False, True])
    learn(model, islice(datasets.Phishing(), 500))
    assert model.gaps()[0] < model.gaps(raw=True)[0]


@pytest.mark.parametrize("within", ["constant", "shift"])
def test_on_the_same_rounds_the_map_is_that_of_the_batch(within):
    table, labels = stream(1600)
    model = LpCalibratedClassifier(Told(), n_levels=4, within=within)
    learn(model, rounds_of(1600))
    assert (model.n_rounds, model.n_fits) == (1600, 5)
    batch = LpRecalibrator.as_in_paper(n_levels=4, within=within).fit(table, labels)
    assert answers(model, table[:200]) == pytest.approx(batch.predict_proba(table[:200]), abs=1e-9)
    assert model.recalibrator.n_rounds_ == batch.n_rounds_


def test_forgetting_follows_a_change_that_remembering_does_not():
    fresh, labels = stream(2000, 3, 0.0)
    errors = []
    for options in ({}, {"window": 500}, {"fading": 0.994}):
        model = LpCalibratedClassifier(Told(), n_levels=4, **options)
        learn(model, rounds_of(1600, 1, 0.6))
        learn(model, rounds_of(1000, 2, 0.0))
        errors.append(lp_calibration_error(answers(model, fresh), labels, 2, n_bins=4))
    assert max(errors[1:]) < 0.5 * errors[0]


@pytest.mark.parametrize("forgetting", [{}, {"window": 400}, {"fading": 0.99}])
def test_memory_is_bounded_by_the_capacity(forgetting):
    rng = np.random.default_rng(0)
    model = LpCalibratedClassifier(Told(), n_levels=50, tolerance=0.2, **forgetting)
    learn(model, [(told(row), "abc"[rng.integers(3)]) for row in rng.dirichlet(np.ones(3), 2000)])
    kept = part_of(model, OnlineLp).counts
    assert len(kept) <= 8
    assert all(len(counts.entries) <= 60 for counts in kept)


@pytest.mark.parametrize("fading", [None, 0.97])
def test_heavy_level_sets_are_kept_and_counted_nearly_in_full(fading):
    rng, exact, weight = np.random.default_rng(1), np.zeros(3000), 1.0
    counts = LevelSetCounts(20, fading=fading)
    for _ in range(4000):
        number = int(rng.integers(0, 2)) if rng.random() < 0.3 else int(rng.integers(2, 3000))
        counts.add(((number, 1),), {0: 1.0}, 0)
        exact[number] += weight
        weight /= fading or 1.0
    total = exact.sum()
    assert len(counts.entries) <= 20
    scale = total / counts.totals[0]
    for number in (0, 1):
        missed = exact[number] - scale * counts.entries[((number, 1),)].weights[0]
        assert -1e-9 * total <= missed <= total / 21
    assert counts.rounds == pytest.approx(4000 if fading is None else 1 / (1 - fading) * fading, rel=0.1)


def test_weights_that_grow_for_ever_are_scaled_back():
    counts = LevelSetCounts(3, fading=0.5)
    for _ in range(3000):
        counts.add(((0, 1),), {0: 1.0}, 0)
    assert counts.entries[((0, 1),)].weights[0] < 1e101
    assert counts.rounds == pytest.approx(1.0)


def test_pools_on_a_stream():
    settings = {"n_levels": 2, "tolerance": 0.1, "estimation": "pools", "seed": 3}
    first, second = (LpCalibratedClassifier(Told(), **settings) for _ in range(2))
    assert learn(first, rounds_of(3000)) == learn(second, rounds_of(3000))
    pools = part_of(first, OnlineLp).counts[0].totals
    assert len(pools) == 1 + 2 * len(first.recalibrator.sample_complexity_.pools)
    assert sum(pools) == 3000


@pytest.mark.parametrize("build", [LpCalibratedClassifier, DecisionCalibratedClassifier])
@pytest.mark.parametrize("nonsense", [math.nan, math.inf, -math.inf, -3.0, 7.0])
def test_nonsense_of_a_model_becomes_a_distribution(build, nonsense):
    model = build(Told(), first_fit=20)
    learn(model, [({"a": 0.9, "b": 0.1}, "ab"[i % 2]) for i in range(30)])
    for answer in ({"a": nonsense, "b": 0.4}, {"a": nonsense, "b": nonsense}, {"a": 0.5, "z": nonsense}):
        said = model.predict_proba_one(answer)
        assert sum(said.values()) == pytest.approx(1.0)
        assert min(said.values()) >= 0.0


def test_a_class_that_turns_up_late():
    model = LpCalibratedClassifier(Told(), n_levels=4, first_fit=20)
    assert model.predict_proba_one({}) == {}
    assert model.predict_proba_one({"a": float("nan"), "b": -1.0}) == {"a": 0.5, "b": 0.5}
    learn(model, [({"a": 0.9, "b": 0.1}, "ab"[i % 2]) for i in range(100)])
    late = model.predict_proba_one({"a": 0.9, "b": 0.05, "z": 0.05})
    assert list(late) == ["a", "b", "z"]
    assert sum(late.values()) == pytest.approx(1.0)
    assert late["a"] == pytest.approx(0.5, abs=0.05)
    learn(model, [({"a": 0.9, "b": 0.05, "z": 0.05}, "z")] * 400)
    assert model.predict_proba_one({"a": 0.9, "b": 0.1})["z"] > 0.6


class Knowing(Told):
    """Says the label that it has learnt last, with certainty."""

    last = "a"

    def learn_one(self, x, y):
        self.last = y

    def predict_proba_one(self, x):
        return {label: float(label == self.last) for label in "ab"}


@pytest.mark.filterwarnings("ignore::onlinecal.LabelWarning")
@pytest.mark.parametrize("build", [LpCalibratedClassifier, DecisionCalibratedClassifier])
def test_what_is_kept_of_a_round_was_said_before_its_label_was_learnt(build):
    """Labels that take turns make each answer wrong, and those after learning right."""
    model = build(Knowing(), first_fit=40)
    learn(model, [({}, "ab"[(i + 1) % 2]) for i in range(60)])
    assert model.predict_proba_one({})[model.classifier.last] < 0.6


@pytest.mark.usefixtures("few_corrections")
def test_a_label_that_the_model_never_names_has_a_probability_from_the_first_fit_on():
    model = DecisionCalibratedClassifier(Told(), first_fit=30)
    learn(model, [({"a": 0.6, "b": 0.4}, "abz"[i % 3]) for i in range(30)])
    assert model.recalibrator.n_features_in_ == 3
    assert model.predict_proba_one({"a": 0.6, "b": 0.4})["z"] > 0.0


def test_the_unit_of_weights_changes_no_statistics():
    rng, counts = np.random.default_rng(0), LevelSetCounts(20)
    for level, label in zip(rng.integers(0, 8, 60).tolist(), rng.integers(0, 2, 60).tolist(), strict=True):
        counts.add(((0, level),), {0: level / 8, 1: 1.0 - level / 8}, label)
    asked = 2, 0.6, True, 0, 0.1
    before = repr(statistics_of([counts], *asked))
    counts._scale(4.0)
    assert repr(statistics_of([counts], *asked)) == before
