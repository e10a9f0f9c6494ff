"""LpCalibratedClassifier: bounded memory, the batch result on the same rounds, drift, late classes."""

from __future__ import annotations

import numpy as np
import pytest
from river import base, datasets, naive_bayes

from onlinecal import LpCalibratedClassifier, LpRecalibrator, lp_calibration_error
from onlinecal.recalibration.lp.online import LevelSetCounts

pytestmark = pytest.mark.filterwarnings("ignore::onlinecal.recalibration.SampleSizeWarning")


class Told(base.Classifier):
    """Answers with what the features say."""

    def predict_proba_one(self, x, **kwargs):
        return dict(x)

    def learn_one(self, x, y):
        pass


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


def test_a_real_stream_gets_better():
    raw, ours, labels = [], [], []
    base_model = naive_bayes.GaussianNB()
    model = LpCalibratedClassifier(base_model, n_levels=5, epsilon=0.05, within="shift")
    for x, y in datasets.ImageSegments():
        answer = model.predict_proba_one(x)
        if len(model._columns) == 7 and len(model.raw_proba_one(x)) == 7:
            names = list(model._columns)
            plain_answer = model.raw_proba_one(x)
            raw.append([plain_answer[name] for name in names])
            ours.append([answer[name] for name in names])
            labels.append(names.index(y))
        model.learn_one(x, y)
    raw, ours = (np.array(rows) / np.sum(rows, axis=1, keepdims=True) for rows in (raw, ours))
    hot = np.eye(7)[labels]
    assert lp_calibration_error(ours, labels, 2, 5) < lp_calibration_error(raw, labels, 2, 5)
    assert ((ours - hot) ** 2).sum() < ((raw - hot) ** 2).sum()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"epsilon": 2}, "epsilon must be a number between 0 and 1, got 2"),
        ({"p": 1}, "p must be a number above 1"),
        ({"first_fit": 0}, "first_fit must be a whole number"),
        ({"window": 5}, "window must be a whole number of at least 8, got 5"),
        ({"fading": 1.0}, r"fading must be a number between 0 and 1, got 1\.0"),
        ({"fading": 0.9, "window": 80}, "window and fading exclude each other, got 80 and 0.9"),
        ({"within": "shift", "estimation": "pools"}, "within='shift' needs"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        LpCalibratedClassifier(Told(), **parameters)
