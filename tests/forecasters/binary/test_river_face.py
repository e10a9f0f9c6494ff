"""The river face: official checks, labels of every kind, copies that go on identically, clear refusals."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from river import checks, datasets, evaluate, metrics

from onlinecal import AlmostOneStepAhead, OneStepAhead

LEARNERS = [
    AlmostOneStepAhead(),
    AlmostOneStepAhead(horizon=1000),
    AlmostOneStepAhead(window=100),
    AlmostOneStepAhead(grid="nested", rule="sign", report="lower"),
    OneStepAhead(),
    OneStepAhead(n_cells=30, rule="sign"),
]


@pytest.mark.parametrize(
    ("learner", "check"),
    [
        pytest.param(learner, check, id=f"{type(learner).__name__}{i}-{check.__name__}")
        for i, learner in enumerate(LEARNERS)
        for check in checks.yield_checks(learner)
    ],
)
def test_river_checks(learner, check):
    check(learner.clone())


@pytest.mark.parametrize(
    "labels",
    [
        [True, False, True],
        [1, 0, 1],
        [np.True_, np.False_, np.True_],
        list(np.array([1, 0, 1])),
        [1.0, 0.0, 1.0],
    ],
)
def test_labels_of_every_kind_mean_the_same(labels):
    plain, other = AlmostOneStepAhead(), AlmostOneStepAhead()
    for y, label in zip([True, False, True], labels, strict=True):
        plain.learn_one({}, y)
        other.learn_one({}, label)
    assert other.predict_proba_one({}) == plain.predict_proba_one({})
    assert other.memory.tolist() == plain.memory.tolist()


@pytest.mark.parametrize("label", [2, -1, "yes", None, 0.5, float("nan"), [1], np.array([0, 1])])
def test_a_bad_label_is_named_and_learnt_by_no_one(label):
    learner = AlmostOneStepAhead()
    with pytest.raises(ValueError, match="y must be 0, 1, False or True, got"):
        learner.learn_one({}, label)
    assert learner.n_rounds == 0


@pytest.mark.parametrize("config", [{}, {"horizon": 500}, {"grid": "nested"}])
@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda f: pickle.loads(pickle.dumps(f))])
def test_a_copy_taken_mid_stream_goes_on_identically(config, duplicate):
    rng = np.random.default_rng(0)
    learner = AlmostOneStepAhead(**config)
    learner.replay(rng.integers(0, 2, 300))
    twin = duplicate(learner)
    rest = rng.integers(0, 2, 300)
    assert twin.replay(rest).tolist() == learner.replay(rest).tolist()
    assert twin.certificate == learner.certificate


def test_clone_starts_afresh_with_the_same_parameters():
    learner = AlmostOneStepAhead(slack=1.0, report="hint", grid="nested")
    learner.replay([0, 1, 1])
    clone = learner.clone()
    assert clone.n_rounds == 0
    assert clone._get_params() == learner._get_params()


def test_it_plugs_into_progressive_validation():
    metric = evaluate.progressive_val_score(datasets.Phishing(), AlmostOneStepAhead(), metrics.LogLoss())
    assert metric.get() < 0.70


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"horizon": 0}, "horizon must be a whole number of at least 1, got 0"),
        ({"horizon": -5}, "horizon"),
        ({"horizon": 2.5}, "horizon"),
        ({"n_cells": 0}, "n_cells"),
        ({"n_cells": True}, "n_cells"),
        ({"grid": "square"}, "grid must be one of auto, uniform, nested, adaptive, got 'square'"),
        ({"rule": "fair"}, "rule must be one of"),
        ({"report": "middle"}, "report must be one of"),
        ({"slack": 0.4}, "slack must be a number from 0.5"),
        ({"slack": float("nan")}, "slack"),
        ({"slack": float("inf")}, "slack"),
        ({"slack": "1"}, "slack"),
        ({"grid": "uniform"}, "needs a horizon or n_cells"),
        ({"grid": "adaptive", "n_cells": 5}, "fixes a uniform grid"),
    ],
)
def test_bad_parameters_are_refused_by_name(parameters, message):
    with pytest.raises(ValueError, match=message):
        AlmostOneStepAhead(**parameters)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([],), "outcomes is empty"),
        (([0, 1, 2],), "outcomes must be 0/1 or boolean, got 2 at row 2"),
        (([[0, 1]],), "one-dimensional"),
        (([0, 1], [0.5]), "same length"),
        (([0, 1], [0.5, 1.5]), r"hints must lie in \[0, 1\], got 1.5 at row 1"),
        (([0, 1], [0.5, float("nan")]), "hints"),
        ((["a", "b"],), "outcomes"),
    ],
)
def test_bad_sequences_are_refused_before_anything_is_played(arguments, message):
    forecaster = AlmostOneStepAhead()
    with pytest.raises(ValueError, match=message):
        forecaster.replay(*arguments)
    assert forecaster.n_rounds == 0
