"""Outcomes that are distributions over the classes: Theorem 22 and Facts 23, 24 of docs/theory-simplex.md."""

import pickle
import re
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal import AlmostOneStepAhead, SimplexAlmostOneStepAhead
from onlinecal.forecasters.simplex import input as reading
from onlinecal.forecasters.simplex.guarantees import bias_formula
from onlinecal.forecasters.simplex.input import MOST_PARTS, weights_of
from onlinecal.forecasters.simplex.machine.memory import BALANCE, MOVED, SCALE, STEP, units
from onlinecal.forecasters.simplex.machine.rules import IN_PARTS, RULES, lay_out, settle_parts
from onlinecal.forecasters.simplex.run import SimplexRun, allowance
from tests.forecasters.simplex.play import lattice, outcomes_of, parts_of, ready_list, soft_labels, worth
from tests.parts import part_of
from tests.properties import examples, one_in

TOLERANCE = 1e-9


def witness_of(settled):
    """What a calibrated division of the rounds costs, from where their parts were charged.

    Each part goes there, and on to the mean of the outcomes that were charged to the same point.
    """
    outcomes = {}
    for point, weight, outcome, _ in (part for _, parts in settled for part in parts):
        outcomes.setdefault(point, []).append((weight, outcome))
    means = {
        point: sum(w * y for w, y in own) / sum(w for w, _ in own) for point, own in outcomes.items() if point
    }
    return sum(
        weight * np.abs(np.array(token.vector) - means.get(point, outcome)).sum()
        for token, parts in settled
        for point, weight, outcome, _ in parts
    )


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


LATTICES = [(2, 4, 3), (3, 2, 3), (4, 2, 2)]


@pytest.mark.parametrize(("sizes", "config"), one_in(3, LATTICES, CONFIGS))
def test_on_all_sequences_of_a_lattice_biases_keep_their_bounds(sizes, config):
    k, n, length = sizes
    h = 1 / (2 * k - 2)
    for played in product(lattice(k, n), repeat=length):
        forecaster = SimplexAlmostOneStepAhead(k, **config)
        settled = []
        for y in played:
            token = forecaster.forecast()
            forecaster.observe(token, y)
            settled.append((token, parts_of(token, y)))
        assert forecaster.certificate <= forecaster.guarantee + TOLERANCE
        _, biases = forecaster.look_ahead
        assert (np.abs(biases) <= (1 - h if "slack" not in config else k) + TOLERANCE).all()
        assert witness_of(settled) <= forecaster.certificate + TOLERANCE
        assert forecaster.certificate == pytest.approx(worth([parts for _, parts in settled]), abs=1e-6)


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


def test_a_round_in_parts_costs_its_share_of_each_distance_rounded_up():
    k, parts, rng, left_over = 3, 7, np.random.default_rng(4), set()
    memory, forecast = ready_list(k, 4 * parts, 1.0, step=parts, report=1), [0.0] * 3
    for _ in range(60):
        weights = rng.multinomial(parts, [0.6, 0.3, 0.1]).tolist()
        frame = RULES.announce(memory, rng.dirichlet(np.ones(k)).tolist(), forecast)
        points, distances = [0] * (k * k + k), [0] * (2 * k + 1)
        way = lay_out(memory, frame, forecast, k, memory[STEP], weights, parts, points, distances)
        due, before = sum(w * d for w, d in zip(weights, distances[:k], strict=True)), memory[MOVED]
        settle_parts(memory, [], points, distances, weights, parts, way, 0.0, False)
        if way == IN_PARTS:
            left_over.add(parts * (memory[MOVED] - before) - due)
    assert len(left_over) > 2
    assert left_over <= set(range(parts))


@pytest.mark.parametrize("config", CONFIGS)
def test_single_classes_are_played_as_labels(config):
    """Also one that is a class once it is rounded: but for the rounding, which is counted."""
    numbers = outcomes_of("drift", 4, 300, 1)
    labels, rows, tokens, nearly = (SimplexAlmostOneStepAhead(4, **config) for _ in range(4))
    forecasts, near = labels.replay(numbers), (1 - 1e-9) * np.eye(4)[numbers] + 1e-9 / 4
    assert np.array_equal(rows.replay(np.eye(4)[numbers]), forecasts)
    assert np.array_equal(nearly.replay(near), forecasts)
    for y in np.eye(4)[numbers]:
        tokens.observe(tokens.forecast(), dict(enumerate(y.tolist())))
    for one in (rows, tokens):
        assert (one.certificate, one.guarantee) == (labels.certificate, labels.guarantee)
        assert np.array_equal(one.look_ahead.biases, labels.look_ahead.biases)
    # each round's is rounded up to the unit of distances, on one cell a side 1/(k parts)
    parts = part_of(nearly, SimplexRun).parts
    assert 0 < nearly.certificate - labels.certificate < 300 * (3e-9 + 1 / (4 * parts))
    assert np.array_equal(nearly.look_ahead.biases, labels.look_ahead.biases)


@pytest.mark.parametrize("outcome", ["c", {"c": 1.0}, {"a": 0.25, "c": 0.75}])
def test_the_account_of_a_grid_that_tunes_itself_is_spared_the_distance_to_new_classes(outcome):
    forecaster = SimplexAlmostOneStepAhead(grid="adaptive")
    forecaster.observe(forecaster.forecast(), {"a": 0.5, "b": 0.5})
    assert forecaster.memory[BALANCE] == pytest.approx(allowance(2) * units(forecaster.memory), rel=1e-8)
    forecaster.observe(forecaster.forecast(), outcome)
    memory, k = forecaster.memory, len(forecaster.classes)
    assert k == 3
    assert memory[BALANCE] == pytest.approx(allowance(k) * units(memory), rel=1e-8)


def test_a_soft_label_changes_nothing_but_the_units_and_the_guarantee_by_what_the_theorem_says():
    forecaster = SimplexAlmostOneStepAhead(3, n_cells=8)
    forecaster.replay(outcomes_of("drift", 3, 200, 5))
    before, certificate = forecaster.look_ahead, forecaster.certificate
    forecast = forecaster.predict_proba_one({})
    run = part_of(forecaster, SimplexRun)
    run.divide(3)
    run.check()
    assert forecaster.predict_proba_one({}) == forecast
    assert forecaster.certificate == certificate
    assert all(np.array_equal(a, b) for a, b in zip(before, forecaster.look_ahead, strict=True))
    assert int(forecaster.memory[SCALE]) == 8 * MOST_PARTS
    distance = 200 * (4 / 3 / 8 + 3 / MOST_PARTS + 2.0**-28)
    assert forecaster.guarantee == pytest.approx(distance + float(bias_formula(3, 8)), rel=1e-12)


@pytest.mark.parametrize("wrong", [1 << 17, 3, 0, 2.0])
def test_units_that_cannot_be_are_refused(wrong):
    forecaster = SimplexAlmostOneStepAhead(3)
    forecaster.replay(soft_labels(3, 60, 9))
    part_of(forecaster, SimplexRun).parts = wrong
    with pytest.raises(ValueError, match=r"parts|grid"):
        pickle.loads(pickle.dumps(forecaster))


WRONG = {
    "sum to 1": ([0.5, 0.4, 0.2], [0.5, 0.7, -0.2], [0.5, float("nan"), 0.5], {0: 0.5}, {}),
    "3 probabilities": ([0.5, 0.5], [[0.5, 0.3, 0.2]]),
    r"sum to 1, got \['": ({0: "much"}, np.array(["a", "b", "c"])),
    r"sum to 1, got \[None, 0.5, 0.0\]": ({0: None, 1: 0.5},),
    "hail": ({0: 0.5, "hail": 0.5},),
}


@pytest.mark.parametrize(("message", "outcome"), [(words, one) for words in WRONG for one in WRONG[words]])
def test_what_is_no_distribution_is_refused(message, outcome):
    forecaster = SimplexAlmostOneStepAhead(3)
    forecaster.replay(soft_labels(3, 50, 2))
    token, memory = forecaster.forecast(), forecaster.memory.copy()
    for act, arguments, name in [
        (forecaster.learn_one, ({}, outcome), "y"),
        (forecaster.observe, (token, outcome), "outcome"),
        (forecaster.replay, ([0, outcome],), "outcomes .* at row 1"),
    ]:
        with pytest.raises(ValueError, match=message) as caught:
            act(*arguments)
        assert re.search(name, str(caught.value))
        assert str(caught.value).count(" row ") == name.count(" row ")
        assert np.array_equal(forecaster.memory, memory)
        assert forecaster.n_open == 1


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
    vectors = np.where(vectors.sum(axis=1, keepdims=True) > 0, vectors, 1.0)
    vectors /= vectors.sum(axis=1, keepdims=True)
    parts = 1 << bits
    weights, rounded = weights_of(vectors, parts)
    assert (weights.sum(axis=1) == parts).all()
    assert (weights >= 0).all()
    assert not weights[vectors == 0].any()
    assert rounded == pytest.approx(np.abs(vectors - weights / parts).sum(axis=1), abs=1e-12)
    assert (rounded <= (k - 1) / parts + 1e-9).all()
    alone, apart = weights_of(vectors[0], parts)
    assert (alone.tolist(), apart) == (weights[0].tolist(), rounded[0])


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


ROOMY = [
    *({}, {"hints": True}, {"grid": "adaptive"}, {"horizon": 1000}, {"horizon": 10**7, "hints": True}),
    *({"horizon": 10**9}, {"horizon": 10**9, "slack": 2.0}, {"n_cells": 10_000, "hints": True}),
]


@pytest.mark.filterwarnings("ignore::onlinecal.GuaranteeWarning")
@pytest.mark.parametrize(("settings", "k"), one_in(2, ROOMY, [2, 3, 4, 7, 30]))
def test_a_first_soft_label_leaves_as_much_room_as_a_later_one(settings, k):
    first, behind = (SimplexAlmostOneStepAhead(**settings) for _ in range(2))
    for label in range(k):
        behind.learn_one({}, label)
    for one in (first, behind):
        one.learn_one({}, dict.fromkeys(range(k), 1 / k))
    if "horizon" in settings or "n_cells" in settings:
        assert first._run.most_open == behind._run.most_open > 30
    else:
        # the grid is another one by then
        assert min(first._run.most_open, behind._run.most_open) >= 1000
    assert first.certificate <= first.guarantee


@pytest.mark.parametrize("nearly_one", [np.nextafter(1.0, 0.0), 1.0 - 1e-15, 1.0 - 5e-7, 1.0])
def test_an_only_class_whose_weight_is_one_up_to_rounding_is_the_label(nearly_one):
    known = {"a": 0, "b": 1, "c": 2}
    for outcome in ([0.0, nearly_one, 0.0], {"b": nearly_one}):
        assert reading.outcome_of(outcome, known, True, "outcome") == "b"
    assert reading.outcome_of({"d": nearly_one}, known, False, "outcome") == "d"
    table = reading.outcomes_of(np.array([[0.0, 0.0, nearly_one], [nearly_one, 0.0, 0.0]]), known, True)
    assert (table.numbers.tolist(), len(table.vectors)) == ([2, 0], 0)
    rows = reading.outcomes_of([{"c": nearly_one}, "a"], known, True)
    assert (rows.numbers.tolist(), len(rows.vectors)) == ([2, 0], 0)
    # a second class keeps its share, and the sum is one
    mixed = reading.outcome_of([nearly_one / 4, 0.0, nearly_one * 3 / 4], known, True, "outcome")
    assert mixed.vector.tolist() == [0.25, 0.0, 0.75]


def test_a_table_of_soft_labels_needs_known_classes():
    with pytest.raises(
        ValueError, match=r"while no class is known, got shape \(3, 3\): name the classes first"
    ):
        SimplexAlmostOneStepAhead().replay(np.eye(3))
    forecaster = SimplexAlmostOneStepAhead()
    forecaster.replay([{"a": 0.5, "b": 0.5}])
    assert forecaster.replay(np.eye(2)).shape == (2, 2)
    with pytest.raises(ValueError, match=r"soft labels over the 2 known classes, got shape \(3, 3\)"):
        forecaster.replay(np.eye(3))
