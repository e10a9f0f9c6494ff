"""Outcomes that are distributions over the classes: Theorem 22 and Facts 23, 24 of docs/theory-simplex.md."""

import copy
import pickle
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal import AlmostOneStepAhead, SimplexAlmostOneStepAhead
from onlinecal.forecasters.simplex.biases import bias_formula
from onlinecal.forecasters.simplex.machine import soft
from onlinecal.forecasters.simplex.machine.compiled import SOFT_MACHINE
from onlinecal.forecasters.simplex.machine.memory import new_memory
from onlinecal.forecasters.simplex.machine.rules import RULES
from onlinecal.forecasters.simplex.machine.table import SCALE
from onlinecal.forecasters.simplex.machine.windows import NO_WINDOW
from onlinecal.forecasters.simplex.soft_labels import MOST_PARTS, certain, weights_of
from tests.forecasters.simplex.play import lattice, outcomes_of, ready_list
from tests.properties import examples

TOLERANCE = 1e-9


def soft_labels(k, rounds, seed, concentration=0.7):
    """Distributions that drift, some of them single classes."""
    rng = np.random.default_rng(seed)
    labels = rng.dirichlet(np.full(k, concentration), rounds)
    labels[:: 1 + seed % 5] = np.eye(k)[outcomes_of("drift", k, rounds, seed)][:: 1 + seed % 5]
    return labels


def witness_of(settled):
    """A calibrated division of the rounds, from (token, soft label): its cost, and the largest bias in it.

    Each part goes where it was charged, and from there to the mean of its point's outcomes.
    """
    parts = []
    for token, y in settled:
        p, scale = np.array(token.vector), token.cell.scale
        vertices = np.array(token.cell.vertices) / scale
        weights = np.linalg.solve(vertices.T, y) if abs(np.linalg.det(vertices)) > 1e-12 else np.array([-1.0])
        if certain(y) is None and weights.min() >= -1e-12:
            parts.append((tuple(y), 1.0, y, p))
        else:
            parts += [(tuple(vertices[j]), y[j], np.eye(len(y))[j], p) for j in np.flatnonzero(y)]
    points = {point for point, *_ in parts}
    means = {}
    for point in points:
        own = [(w, outcome) for at, w, outcome, _ in parts if at == point]
        means[point] = sum(w * outcome for w, outcome in own) / sum(w for w, _ in own)
    return sum(w * np.abs(p - means[at]).sum() for at, w, _, p in parts)


pytestmark = pytest.mark.filterwarnings("ignore::onlinecal.remarks.GuaranteeWarning")
CONFIGS = [
    {"n_cells": 1},
    {"n_cells": 2},
    {"n_cells": 5},
    {"horizon": 6},
    {},
    {"grid": "adaptive"},
    {"slack": 1.0, "n_cells": 2},
]


@pytest.mark.parametrize("config", CONFIGS, ids=str)
@pytest.mark.parametrize(
    ("k", "n", "length"),
    [
        (2, 4, 3),
        (3, 2, 3),
        (4, 2, 2),
        *(
            pytest.param(*longer, marks=pytest.mark.slow)
            for longer in [(2, 4, 4), (3, 2, 4), (3, 3, 3), (4, 2, 3)]
        ),
    ],
)
def test_on_all_sequences_of_a_lattice_biases_keep_their_bounds(config, k, n, length):
    h = 1 / (2 * k - 2)
    for played in product(lattice(k, n), repeat=length):
        forecaster = SimplexAlmostOneStepAhead(k, **config)
        settled = []
        for y in played:
            settled.append((forecaster.forecast(), y))
            forecaster.observe(settled[-1][0], y)
        assert forecaster.certificate <= forecaster.guarantee + TOLERANCE
        _, biases = forecaster.look_ahead
        assert (np.abs(biases) <= (1 - h if "slack" not in config else k) + TOLERANCE).all()
        if k > 2:
            assert witness_of(settled) <= forecaster.certificate + TOLERANCE


@settings(max_examples=examples(60), deadline=None)
@given(
    st.integers(2, 6),
    st.sampled_from([*CONFIGS, {"horizon": 400}, {"slack": 2.0}]),
    st.booleans(),
    st.integers(1, 300),
    st.integers(0, 2**32 - 1),
)
def test_a_replay_plays_as_round_by_round_and_the_bounds_hold(k, config, hinted, rounds, seed):
    labels = soft_labels(k, rounds, seed)
    hints = np.random.default_rng(seed).dirichlet(np.ones(k), rounds) if hinted else None
    whole, single = (SimplexAlmostOneStepAhead(k, **config, hints=hinted) for _ in range(2))
    forecasts = whole.replay(labels, hints)
    assert whole.certificate <= whole.guarantee + TOLERANCE
    for t, y in enumerate(labels):
        if hinted:
            token = single.forecast(hints[t])
            assert list(token.vector) == forecasts[t].tolist()
            single.observe(token, y)
        else:
            assert list(single.predict_proba_one({}).values()) == forecasts[t].tolist()
            single.learn_one({}, y)
        assert single.certificate <= single.guarantee + TOLERANCE
    assert single.certificate == whole.certificate
    assert all(np.array_equal(a, b) for a, b in zip(single.look_ahead, whole.look_ahead, strict=True))
    mixed = [int(y.argmax()) if y.max() == 1.0 else dict(enumerate(y.tolist())) for y in labels]
    of_list = SimplexAlmostOneStepAhead(k, **config, hints=hinted)
    assert np.array_equal(of_list.replay(mixed, hints), forecasts)
    assert of_list.certificate == whole.certificate
    whole._run.check()
    expected = whole.replay(labels)
    for one in (copy.deepcopy(single), pickle.loads(pickle.dumps(single))):
        assert np.array_equal(one.replay(labels), expected)
        assert (one.certificate, one.guarantee) == (whole.certificate, whole.guarantee)


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(2, 7), st.integers(1, 9), st.integers(1, 120), st.booleans(), st.integers(0, 2**32 - 1))
def test_compiled_code_and_the_interpreter_agree_bit_for_bit(k, m, rounds, hinted, seed):
    parts = 1 << 12
    weights, rounded = weights_of(soft_labels(k, rounds, seed), parts)
    hints = np.random.default_rng(seed).dirichlet(np.ones(k), rounds) if hinted else np.empty((0, 0))
    compiled = new_memory(k, m * parts, parts, 1.0, 1 << 10)
    plain = ready_list(k, m * parts, 1.0, 1 << 10, parts)
    compiled[:] = plain
    forecasts = np.empty((rounds, k))
    assert SOFT_MACHINE.replay(compiled, NO_WINDOW, weights, rounded, parts, hints, forecasts, 0) == rounds
    for t, row in enumerate(weights.tolist()):
        forecast, points, distances = [0.0] * k, [0] * (k * k + k), [0] * (k + 1)
        frame = RULES.announce(plain, hints[t] if hinted else [], forecast)
        way = soft.lay_out(plain, frame, forecast, row, parts, points, distances)
        soft.settle_parts(plain, [], points, distances, row, parts, way, float(rounded[t]), [0] * k)
        assert forecasts[t].tolist() == forecast
    assert compiled.tolist() == plain


@pytest.mark.parametrize("m", [1, 2, 7, 16])
def test_with_two_classes_it_is_the_binary_forecaster(m):
    """Whole rounds, charged to the same points: every distance is twice that of one probability."""
    rng = np.random.default_rng(m)
    shares = rng.integers(0, 65, 3000) / 64 * (rng.random(3000) < 0.8)
    binary = AlmostOneStepAhead(n_cells=m, slack=0.5)
    several = SimplexAlmostOneStepAhead(2, n_cells=m)
    forecasts = several.replay(np.column_stack([1 - shares, shares]))
    assert forecasts[:, 1] == pytest.approx(binary.replay(shares), abs=1e-12)
    assert several.certificate == pytest.approx(2 * binary.certificate, rel=1e-9)


@settings(max_examples=examples(40), deadline=None)
@given(
    st.sampled_from([{}, {"n_cells": 4}, {"horizon": 300}, {"n_classes": 4}, {"n_classes": 4, "n_cells": 3}]),
    st.integers(1, 150),
    st.integers(1, 9),
    st.integers(0, 2**32 - 1),
)
def test_late_labels_and_classes_that_are_discovered(config, rounds, most_open, seed):
    rng = np.random.default_rng(seed)
    forecaster, waiting, settled = SimplexAlmostOneStepAhead(**config, hints=True), [], []

    def settle():
        token, y = waiting.pop(rng.integers(len(waiting)))
        forecaster.observe(token, y)
        settled.append((token, y))
        assert forecaster.certificate <= forecaster.guarantee + TOLERANCE

    for y in soft_labels(4, rounds, seed, 0.3):
        if len(waiting) == most_open:
            settle()
        outcome = {c: p for c, p in enumerate(y.tolist()) if p > 0.05}
        total = sum(outcome.values())
        k = len(forecaster.classes)
        hint = rng.dirichlet(np.ones(k)) if k and rng.random() < 0.5 else None
        waiting.append((forecaster.forecast(hint), {c: p / total for c, p in outcome.items()}))
    while waiting:
        settle()
    assert forecaster.n_rounds == rounds
    biases = forecaster.look_ahead.biases
    assert np.abs(biases.sum(axis=1)).max() < 1e-9
    forecaster._run.check()


def test_single_classes_are_played_as_labels():
    numbers = outcomes_of("drift", 4, 500, 1)
    for config in CONFIGS:
        as_labels, as_rows = (SimplexAlmostOneStepAhead(4, **config) for _ in range(2))
        assert np.array_equal(as_labels.replay(numbers), as_rows.replay(np.eye(4)[numbers]))
        assert np.array_equal(as_labels.memory, as_rows.memory)
        assert as_labels.guarantee == as_rows.guarantee


def test_a_soft_label_changes_nothing_but_the_units_and_the_guarantee_by_what_the_theorem_says():
    forecaster = SimplexAlmostOneStepAhead(3, n_cells=8)
    forecaster.replay(outcomes_of("drift", 3, 200, 5))
    before, certificate = forecaster.look_ahead, forecaster.certificate
    forecast, (cell, _) = forecaster.predict_proba_one({}), forecaster._run.announce(np.empty(0))
    forecaster._run.divide(3)
    forecaster._run.check()
    assert forecaster.predict_proba_one({}) == forecast
    now, _ = forecaster._run.announce(np.empty(0))
    assert np.array_equal(np.array(now.vertices), np.array(cell.vertices) * MOST_PARTS)
    assert forecaster.certificate == certificate
    assert all(np.array_equal(a, b) for a, b in zip(before, forecaster.look_ahead, strict=True))
    assert int(forecaster.memory[SCALE]) == 8 * MOST_PARTS
    distance = 200 * (4 / 3 / 8 + 3 / MOST_PARTS + 2.0**-28)
    assert forecaster.guarantee == pytest.approx(distance + float(bias_formula(3, 8)), rel=1e-12)


@pytest.mark.parametrize("wrong", [1 << 17, 3, 0, 2.0])
def test_units_that_cannot_be_are_refused(wrong):
    forecaster = SimplexAlmostOneStepAhead(3)
    forecaster.replay(soft_labels(3, 60, 9))
    state = pickle.loads(pickle.dumps(forecaster._run.__dict__))
    with pytest.raises(ValueError, match=r"parts|grid"):
        forecaster._run.__setstate__({**state, "parts": wrong})


WRONG = [
    ([0.5, 0.4, 0.2], "sum to 1"),
    ([0.5, 0.7, -0.2], "sum to 1"),
    ([0.5, 0.5], "3 probabilities"),
    ([[0.5, 0.3, 0.2]], "3 probabilities"),
    ([0.5, float("nan"), 0.5], "sum to 1"),
    ({0: 0.5, "hail": 0.5}, "hail"),
    ({0: 0.5}, "sum to 1"),
    ({}, "sum to 1"),
    ({0: "much"}, "numbers"),
    (np.array(["a", "b", "c"]), "numbers"),
]


@pytest.mark.parametrize(("outcome", "message"), WRONG, ids=str)
def test_what_is_no_distribution_is_refused_and_nothing_changes(outcome, message):
    forecaster = SimplexAlmostOneStepAhead(3)
    forecaster.replay(soft_labels(3, 50, 2))
    token, memory = forecaster.forecast(), forecaster.memory.copy()
    for act, name in [
        (lambda: forecaster.learn_one({}, outcome), "y"),
        (lambda: forecaster.observe(token, outcome), "outcome"),
        (lambda: forecaster.replay([0, outcome]), "outcomes"),
    ]:
        with pytest.raises(ValueError, match=message) as caught:
            act()
        assert name in str(caught.value)
        assert np.array_equal(forecaster.memory, memory)
        assert forecaster.n_open == 1
    with pytest.raises(ValueError, match="at row 1"):
        forecaster.replay([0, outcome])


def test_what_goes_with_soft_labels_is_said():
    with pytest.raises(ValueError, match="return_look_ahead"):
        SimplexAlmostOneStepAhead(3).replay(lattice(3, 2), return_look_ahead=True)
    with pytest.raises(ValueError, match="no class is known"):
        SimplexAlmostOneStepAhead().learn_one({}, [0.5, 0.5])
    with pytest.raises(ValueError, match="n_cells"):
        SimplexAlmostOneStepAhead(20, n_cells=1 << 20).learn_one({}, [0.05] * 20)
    discovering = SimplexAlmostOneStepAhead()
    discovering.learn_one({}, {"sun": 0.7, "rain": 0.3, "hail": 0.0})
    assert discovering.classes == ["sun", "rain"]


@settings(max_examples=examples(200), deadline=None)
@given(st.integers(1, 9), st.integers(0, 16), st.integers(0, 2**32 - 1))
def test_weights_are_whole_add_up_and_are_near(k, bits, seed):
    rng = np.random.default_rng(seed)
    vectors = rng.dirichlet(np.full(k, rng.choice([0.02, 0.3, 5.0])), 20) * (rng.random((20, k)) < 0.7)
    vectors = vectors[vectors.sum(axis=1) > 0]
    vectors /= vectors.sum(axis=1, keepdims=True)
    if not len(vectors):
        return
    parts = 1 << bits
    weights, rounded = weights_of(vectors, parts)
    assert (weights.sum(axis=1) == parts).all()
    assert (weights >= 0).all()
    assert not weights[vectors == 0].any()
    assert rounded == pytest.approx(np.abs(vectors - weights / parts).sum(axis=1), abs=1e-12)
    assert (rounded <= (k - 1) / parts + 1e-9).all()
    for vector, row, far in zip(vectors, weights, rounded, strict=True):
        alone, apart = weights_of(vector, parts)
        assert alone.tolist() == row.tolist()
        assert apart == far


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(3, 5), st.integers(1, 200), st.integers(0, 2**32 - 1), st.floats(0.2, 2.0))
def test_what_the_certificate_is_worth(k, rounds, seed, width):
    """Fact 24: against Lipschitz witnesses, and the biases of boxes with a random shift."""
    rng = np.random.default_rng(seed)
    labels, forecaster = soft_labels(k, rounds, seed), SimplexAlmostOneStepAhead(k, n_cells=3)
    p = forecaster.replay(labels)
    anchors, heights = rng.dirichlet(np.ones(k), (k, 6)), rng.uniform(-1, 1, (k, 6))
    apart = np.abs(p[:, None, None, :] - anchors).sum(axis=-1)
    u = np.clip((heights + apart).min(axis=-1), -1, 1)
    assert (u * (p - labels)).sum() <= 3 * forecaster.certificate + TOLERANCE
    biases = []
    for shift in (np.arange(64) + rng.random()) / 64 * width:
        boxes = {}
        for row, bias in zip(np.floor((p + shift) / width), p - labels, strict=True):
            boxes[tuple(row)] = boxes.get(tuple(row), 0.0) + bias
        biases.append(sum(np.abs(bias).sum() for bias in boxes.values()))
    assert np.mean(biases) <= forecaster.certificate * (1 + 4 / width) + TOLERANCE
