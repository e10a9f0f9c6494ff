"""The simplex forecaster's river face: labels of every kind, one game in all ways to play, clear refusals."""

import pickle

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onlinecal import SimplexAlmostOneStepAhead
from onlinecal.forecasters.simplex.input import over_known
from tests.forecasters.simplex.play import outcomes_of, soft_labels
from tests.properties import examples

pytestmark = pytest.mark.filterwarnings("ignore::onlinecal.remarks.GuaranteeWarning")


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


GAMES = [
    *({}, {"n_cells": 5}, {"horizon": 400}, {"grid": "adaptive"}, {"report": "hint"}),
    *({"n_classes": 4, **more} for more in ({}, {"n_cells": 1}, {"n_cells": 5}, {"horizon": 6})),
    *({"n_classes": 4, **more} for more in ({"grid": "adaptive"}, {"slack": 1.0, "n_cells": 2})),
    {"n_classes": 4, "window": 20, "report": "hint"},
]


@settings(max_examples=examples(150), deadline=None)
@given(
    st.sampled_from(GAMES),
    st.booleans(),
    st.booleans(),
    st.integers(1, 300),
    st.integers(0, 2**32 - 1),
)
# the memory grows in the round of a hint that is looked for from a place that is remembered
@example(config={"report": "hint"}, hinted=True, soft=True, rounds=106, seed=14555123)
def test_replays_tokens_river_pieces_and_copies_are_the_same_game(config, hinted, soft, rounds, seed):
    rng, hinted = np.random.default_rng(seed), hinted or config.get("report") == "hint"
    labels = soft_labels(4, rounds, seed) if soft else np.eye(4)[outcomes_of("drift", 4, rounds, seed)]
    whole, tokens, river, pieces, table = (
        SimplexAlmostOneStepAhead(**config, hints=hinted) for _ in range(5)
    )
    played = [int(y.argmax()) if y.max() == 1.0 else dict(enumerate(y.tolist())) for y in labels]
    first = SimplexAlmostOneStepAhead(**config, hints=hinted)
    first.replay(played)
    classes = first.classes
    hints = rng.dirichlet(np.ones(len(classes)), rounds) if hinted else None
    forecasts = whole.replay(played, hints)
    for t, (y, row) in enumerate(zip(played, forecasts, strict=True)):
        known = tokens.classes
        hint = over_known(hints[t], len(known)) if hinted and known else None
        token = tokens.forecast(hint)
        assert token.vector == tuple(row[: len(known)])
        assert not row[len(known) :].any()
        if not hinted:
            assert tuple(river.predict_proba_one({}).values()) == token.vector
            river.learn_one({}, y)
        tokens.observe(token, y)
        if t % 50 == 0:
            tokens = pickle.loads(pickle.dumps(tokens))
        assert tokens.certificate <= tokens.guarantee + 1e-9
    for start in range(0, rounds, 70):
        part = slice(start, start + 70)
        known = len(classes) if config.get("n_classes") else len({*pieces.classes, *seen(played[part])})
        pieces.replay(played[part], None if hints is None else over_known(hints[part], known))
    same = [tokens, pieces] if hinted else [tokens, pieces, river]
    if "n_classes" in config:
        assert np.array_equal(table.replay(labels, hints), forecasts)
        same.append(table)
    for other in same:
        assert other.classes == whole.classes
        assert other.certificate == pytest.approx(whole.certificate, abs=rounds * 2.0**-26)
        assert other.predict_proba_one({}) == whole.predict_proba_one({})
        assert other.guarantee == whole.guarantee


def seen(outcomes):
    """The classes in a sequence of labels and soft labels."""
    return {c for y in outcomes for c in (y if isinstance(y, dict) else [y])}


@pytest.mark.parametrize("kind", [np.uint8, float, str, object])
def test_arrays_and_lists_are_the_same_sequence(kind):
    outcomes = outcomes_of("drift", 4, 500, 2).astype(kind)
    for config in ({}, {"labels": sorted(set(outcomes.tolist()))}):
        from_array, from_list = SimplexAlmostOneStepAhead(**config), SimplexAlmostOneStepAhead(**config)
        assert from_array.replay(outcomes).tolist() == from_list.replay(outcomes.tolist()).tolist()
        assert from_array.classes == from_list.classes


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_classes": 5000}, "n_classes must be at most 1024, got 5000"),
        ({"n_cells": 1 << 21}, "n_cells must be at most"),
        ({"slack": 0.9}, "slack must be None or a number from 1 to 1000, got 0.9"),
        ({"n_classes": 3, "slack": 0.7}, "slack must be None or a number from 0.75"),
        ({"labels": []}, "labels must hold 1 to 1024 class labels, got 0"),
        ({"labels": "abc"}, "labels must be a list of class labels, got 'abc'"),
        ({"labels": {"a", "b"}}, "labels must be a list of class labels"),
        ({"labels": ["a", "b", "a"]}, "'a' twice"),
        (
            {"labels": [None]},
            "labels at place 0 must be a class label, neither missing nor infinite, got",
        ),
        ({"labels": ["a", [1]]}, r"labels at place 1 must be a hashable class label, .* tuple, got \[1\]"),
        ({"labels": ["a", "b"], "n_classes": 3}, "n_classes must be 2, the number of labels"),
        *(({"n_classes": 3, "window": w}, "window") for w in (0, 2.5, True, "10", (1 << 24) + 1)),
        ({"window": 9}, "window=9 needs n_classes or labels"),
        (
            {"n_classes": 3, "window": 9, "grid": "adaptive"},
            "does not go with window=9; leave",
        ),
        ({"grid": "adaptive", "horizon": 10}, "does not go with horizon=10; leave"),
        (
            {"grid": "adaptive", "n_cells": 4, "horizon": 9},
            "n_cells=4, horizon=9; leave out grid, or the rest",
        ),
        ({"grid": "fine"}, "grid must be one of nested, adaptive, got 'fine'"),
        ({"report": "vertex"}, "report must be one of barycentre, hint, got 'vertex'"),
        ({"n_classes": 3, "report": "hint"}, "make the forecaster with hints=True"),
    ],
)
def test_bad_parameters_are_refused_by_name(parameters, message):
    with pytest.raises(ValueError, match=message):
        SimplexAlmostOneStepAhead(**parameters)


def test_a_replay_that_is_refused_in_a_late_row_leaves_the_forecaster_as_it_was():
    # with soft labels 12 classes are more than the integers bear on so fine a grid with so much slack
    forecaster = SimplexAlmostOneStepAhead(n_cells=1 << 14, slack=1000.0)
    forecaster.replay([{"a": 0.5, "b": 0.5}, "a"])
    before, memory = forecaster.predict_proba_one({}), forecaster.memory.copy()
    with pytest.raises(ValueError, match="12 classes would overflow"):
        forecaster.replay(range(60))
    assert (forecaster.n_rounds, forecaster.classes) == (2, ["a", "b"])
    assert forecaster.predict_proba_one({}) == before
    assert np.array_equal(forecaster.memory, memory)
