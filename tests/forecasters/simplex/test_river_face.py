"""The simplex forecaster's river face: official checks, labels of every kind, copies, clear refusals."""

import numpy as np
import pytest

from onlinecal import SimplexAlmostOneStepAhead
from tests.forecasters.simplex.play import outcomes_of


def test_before_any_class_is_known_it_says_nothing_and_with_one_it_is_sure():
    learner = SimplexAlmostOneStepAhead()
    assert learner.predict_proba_one({}) == {}
    assert learner.predict_one({}) is None
    assert learner.certificate == learner.guarantee == 0.0
    learner.learn_one({}, "a")
    assert learner.predict_proba_one({}) == {"a": 1.0}
    assert learner.certificate == 2.0
    learner.learn_one({}, "a")
    assert learner.certificate == 2.0
    learner.learn_one({}, "b")
    assert learner.certificate == 4.0
    assert learner.classes == ["a", "b"]
    assert sum(learner.predict_proba_one({}).values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "labels",
    [["a", "b", "c"], [0, 1, 2], [True, False], [2.5, -1.0], ["x", 3, False], [("a", 1), ("b", 2)]],
)
def test_labels_of_every_kind_are_classes(labels):
    numbers = outcomes_of("drift", len(labels), 300, 1).tolist()
    discovered, known = SimplexAlmostOneStepAhead(), SimplexAlmostOneStepAhead(labels=labels)
    for number in numbers:
        discovered.learn_one({}, labels[number])
        known.learn_one({}, labels[number])
    assert set(discovered.classes) == set(labels)
    assert set(known.predict_proba_one({})) == set(labels)
    replayed = SimplexAlmostOneStepAhead(labels=labels)
    replayed.replay([labels[number] for number in numbers])
    assert replayed.memory.tolist() == known.memory.tolist()


@pytest.mark.parametrize("kind", [np.int64, np.uint8, float, str, object])
def test_arrays_and_lists_are_the_same_sequence(kind):
    outcomes = outcomes_of("drift", 4, 500, 2).astype(kind)
    for config in ({}, {"labels": sorted(set(outcomes.tolist()))}):
        from_array, from_list = SimplexAlmostOneStepAhead(**config), SimplexAlmostOneStepAhead(**config)
        assert from_array.replay(outcomes).tolist() == from_list.replay(outcomes.tolist()).tolist()
        assert from_array.classes == from_list.classes


def test_replay_tokens_and_river_are_the_same_game():
    for config in ({}, {"n_classes": 4}, {"horizon": 700}, {"n_cells": 5}):
        outcomes = outcomes_of("drift", 4, 700, 3)
        replayed, river, tokens, pieces = (SimplexAlmostOneStepAhead(**config) for _ in range(4))
        forecasts = replayed.replay(outcomes)
        for y, row in zip(outcomes.tolist(), forecasts, strict=True):
            vector = dict(zip(replayed.classes, row.tolist(), strict=True))
            expected = {c: vector[c] for c in river.classes}
            assert river.predict_proba_one({}) == expected
            river.learn_one({}, y)
            token = tokens.forecast()
            assert token.probabilities == expected
            tokens.observe(token, y)
        for piece in np.split(outcomes, [1, 20, 400]):
            pieces.replay(piece)
        for other in (river, tokens, pieces):
            assert other.certificate == pytest.approx(replayed.certificate, rel=1e-12)
            assert other.predict_proba_one({}) == replayed.predict_proba_one({})
            assert other.guarantee == replayed.guarantee


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_classes": 0}, "n_classes must be a whole number of at least 1, got 0"),
        ({"n_classes": 5000}, "n_classes must be at most 1024, got 5000"),
        ({"n_cells": 0}, "n_cells"),
        ({"n_cells": 1 << 21}, "n_cells must be at most"),
        ({"horizon": -1}, "horizon"),
        ({"slack": 0.9}, "slack must be None or a number from 1 to 1000, got 0.9"),
        ({"n_classes": 3, "slack": 0.7}, "slack must be None or a number from 0.75"),
        ({"labels": []}, "labels must hold 1 to 1024 class labels, got 0"),
        ({"labels": "abc"}, "labels must be a list of class labels, got 'abc'"),
        ({"labels": {"a", "b"}}, "labels must be a list of class labels"),
        ({"labels": ["a", "b", "a"]}, "'a' twice"),
        ({"labels": [None]}, "labels must be a class label, got None"),
        ({"labels": [[1]]}, r"labels must be a hashable class label, got \[1\]"),
        ({"labels": ["a", "b"], "n_classes": 3}, "n_classes=3 does not go with 2 labels"),
    ],
)
def test_bad_parameters_are_refused_by_name(parameters, message):
    with pytest.raises(ValueError, match=message):
        SimplexAlmostOneStepAhead(**parameters)


def test_a_class_that_is_not_among_the_known_ones_is_refused():
    learner = SimplexAlmostOneStepAhead(labels=["a", "b"])
    before = learner.memory.tolist()
    with pytest.raises(ValueError, match=r"y must be one of the classes \['a', 'b'\], got 'c'"):
        learner.learn_one({}, "c")
    with pytest.raises(ValueError, match=r"outcomes must be one of the classes .*, got 'c' at row 2"):
        learner.replay(["a", "b", "c"])
    with pytest.raises(ValueError, match=r"outcomes must be one of the classes .*, got 'c' at row 1"):
        learner.replay(np.array(["a", "c", "c", "b"]))
    assert learner.memory.tolist() == before


@pytest.mark.parametrize("p", [0.5, 0, -1, float("nan"), "2", None, True])
def test_a_bad_p_is_refused(p):
    with pytest.raises(ValueError, match="p must be a number from 1, or inf"):
        SimplexAlmostOneStepAhead(3).lp_certificate(p)
