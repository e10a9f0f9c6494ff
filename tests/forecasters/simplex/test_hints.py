"""Hints: the cell that is played near one, how far labels lean, and the report that follows it."""

import copy
import itertools
import math
import pickle
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adversaries import create_multiclass
from onlinecal import SimplexAlmostOneStepAhead
from onlinecal.forecasters.simplex.guarantees import reach
from onlinecal.forecasters.simplex.machine import compiled as machine
from onlinecal.forecasters.simplex.machine.cells import NEAR_ENOUGH
from onlinecal.forecasters.simplex.machine.memory import certificate, new_memory
from onlinecal.forecasters.simplex.machine.rules import RULES, begin
from onlinecal.forecasters.simplex.machine.table import (
    FOLLOWS,
    LAST,
    LEFT,
    MOVED,
    PIVOTS,
    PLACE,
    RECORDS,
    SCALE,
    WIDTH,
    capacity,
    units,
)
from simulations.games import duel
from tests.forecasters.simplex.play import (
    NO_CELL,
    biases_of,
    interpret,
    outcomes_of,
    ready,
    replay,
    vertices_of,
)
from tests.properties import examples


def announced(memory, hint):
    forecast = np.empty(len(hint))
    return machine.issue(memory, hint, forecast, NO_CELL), forecast


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(2, 8), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_where_every_label_may_lean_the_cell_nearest_to_the_hint_is_announced(k, m, seed):
    """Of the upward cells, as long as nothing has been charged: within the rounding error of one cell."""
    hint = np.random.default_rng(seed).dirichlet(np.full(k, 0.5))
    _, forecast = announced(ready(k, m, slack=1.0), hint)
    assert np.abs(forecast - hint).sum() <= (k / 2 + 2) / m


def test_more_slack_brings_the_forecasts_closer_to_a_good_model():
    k, rounds, rng = 4, 4000, np.random.default_rng(2)
    truth = rng.dirichlet(np.full(k, 0.7), rounds)
    outcomes = [int(rng.choice(k, p=p)) for p in truth]
    gaps = []
    for slack in (None, 1.0, 2.0, 4.0):
        forecaster = SimplexAlmostOneStepAhead(k, n_cells=8, slack=slack, report="barycentre", hints=True)
        forecasts = forecaster.replay(outcomes, truth)
        gaps.append(np.abs(forecasts - truth).sum(axis=1).mean())
        assert forecaster.certificate <= forecaster.guarantee
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[2] < 0.25 * gaps[0]


CONFIGS = [
    {"n_classes": 3},
    {"n_classes": 4, "horizon": 400},
    {"n_classes": 3, "n_cells": 9},
    {"n_classes": 3, "slack": 1.5},
    {"n_classes": 3, "grid": "adaptive"},
    {"n_classes": 3, "report": "barycentre"},
    {},
    {"horizon": 400},
]


def honest(k, rounds, seed=0):
    """A good model's probabilities, and labels drawn from them."""
    rng = np.random.default_rng(seed)
    hints = rng.dirichlet(np.full(k, 0.5), rounds)
    return hints, np.minimum((hints.cumsum(1) < rng.random(rounds)[:, None]).sum(1), k - 1)


def brier(q, labels):
    return ((q - np.eye(q.shape[1])[labels]) ** 2).sum(1).mean()


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_rounds_with_hints_and_without_may_be_mixed(config):
    hints, labels = honest(config.get("n_classes", 3), 600)
    forecaster, rng = SimplexAlmostOneStepAhead(**config, hints=True), np.random.default_rng(1)
    for t, y in enumerate(labels.tolist()):
        known = forecaster.classes
        if not known or rng.random() < 0.4:
            forecast = forecaster.predict_proba_one({})
            if t % 2:
                forecaster.learn_one({}, y)
            else:
                token = forecaster.forecast()
                assert token.probabilities == forecast
                forecaster.observe(token, y)
        else:
            masses = hints[t][known]
            forecaster.observe(forecaster.forecast(masses / masses.sum()), y)
        assert forecaster.certificate <= forecaster.guarantee + 1e-9
        if t == 300:
            forecaster = pickle.loads(pickle.dumps(forecaster))


@pytest.mark.parametrize("k", [2, 3, 5])
def test_the_first_round_without_a_hint_is_near_equal_probabilities(k):
    forecaster = SimplexAlmostOneStepAhead(k, horizon=1000, hints=True)
    forecaster.forecast(np.eye(k)[0])
    m = int(forecaster.memory[SCALE])
    assert np.abs(np.array(forecaster.forecast().vector) - 1 / k).sum() <= 2 * k / m


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_without_hints_they_are_refused_in_words_and_nothing_happens(config):
    forecaster = SimplexAlmostOneStepAhead(**config)
    forecaster.replay([0, 1, 2])
    before, hint = forecaster.memory.tolist(), np.eye(len(forecaster.classes))[:1]
    for play in (lambda: forecaster.forecast(hint[0]), lambda: forecaster.replay([0], hint)):
        with pytest.raises(ValueError, match="make it with hints=True"):
            play()
    assert (forecaster.memory.tolist(), forecaster.n_open) == (before, 0)
    with pytest.raises(ValueError, match="make the forecaster with hints=True"):
        SimplexAlmostOneStepAhead(3, report="hint")


@pytest.mark.parametrize("k", [3, 4])
def test_hints_of_a_good_model_are_not_ruined(k):
    """Within 2 % of their Brier score; barycentres without slack lose a quarter."""
    hints, labels = honest(k, 4000)
    followed = SimplexAlmostOneStepAhead(k, hints=True).replay(labels, hints)
    unslacked = SimplexAlmostOneStepAhead(k, report="barycentre", hints=True).replay(labels, hints)
    assert brier(followed, labels) <= 1.02 * brier(hints, labels)
    assert brier(unslacked, labels) >= 1.25 * brier(hints, labels)


def test_a_named_report_and_a_slack_are_kept():
    hints, labels = honest(3, 200)
    narrow = SimplexAlmostOneStepAhead(3, slack=1.0, hints=True)
    named = SimplexAlmostOneStepAhead(3, slack=1.0, report="hint", hints=True)
    assert np.array_equal(narrow.replay(labels, hints), named.replay(labels, hints))
    assert narrow.guarantee == named.guarantee


TOLERANCE = 1e-9


def following(k, m, slack):
    return new_memory(k, m, 1, slack, 1 << 10, growing=True, report=FOLLOWS)


def regions_of(memory, k):
    """What is remembered, one region a row."""
    behind = int(memory[RECORDS]) + int(capacity(memory)) * int(memory[WIDTH])
    return memory[behind:].reshape(-1, PLACE + 2 * k)


def false_hints(k, rounds, seed=0):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(k), rounds), rng.integers(0, k, rounds)


@pytest.mark.parametrize(("k", "m", "slack"), [(2, 30, 1.0), (3, 24, 1.0), (3, 40, None), (5, 6, 1.5)])
def test_compiled_and_interpreted_agree_bit_for_bit(k, m, slack):
    hints, outcomes = false_hints(k, 1500)
    memory = following(k, m, slack)
    plain = memory.tolist()
    machine.begin(memory)
    begin(plain)
    forecasts, charged = replay(memory, outcomes, hints)
    told, _, points = interpret(plain, outcomes, hints)
    assert np.array_equal(forecasts, told)
    assert np.array_equal(charged, points)
    assert memory.tolist() == plain
    # some of these walks were long
    assert k == 2 or regions_of(memory, k)[:, LAST].any()


@settings(max_examples=examples(40), deadline=None)
@given(st.sampled_from([(2, 9), (3, 8), (4, 5), (6, 2)]), st.floats(1.0, 4.0), st.integers(0, 2**32 - 1))
def test_every_vertex_accepts_its_label_and_the_best_cell_is_the_hints_own(size, slack, seed):
    """A charge must not take a bias below -slack: of the labels dealt out, and of those that walks find."""
    (k, m), rng = size, np.random.default_rng(seed)
    memory = following(k, m, slack)
    machine.begin(memory)
    hints = rng.dirichlet(np.full(k, 0.3), 100)
    for t, y in enumerate(outcomes_of("drift", k, 100, seed)):
        forecast = np.empty(k)
        frame = machine.issue(memory, hints[t], forecast, NO_CELL)
        biases = biases_of(memory)
        cell = vertices_of(memory, frame)
        assert sorted(label for _, label in cell) == list(range(k))
        for x, label in cell:
            bias = biases.get(x, [0] * k)[label]
            assert x[label] > 0
            assert bias + x[label] - m >= -slack * m
        replay(memory, [y], hints[t : t + 1])
        if t == 0:
            assert np.abs(forecast - hints[0]).sum() <= k / m


@pytest.mark.parametrize("config", [{"n_cells": 3, "slack": 1.0}, {}])
def test_all_short_sequences(config):
    hints = np.random.default_rng(0).dirichlet(np.full(3, 0.3), 6)
    for played in product(range(3), repeat=6):
        forecaster = SimplexAlmostOneStepAhead(3, **config, hints=True)
        forecaster.replay(list(played), hints)
        assert forecaster.certificate <= forecaster.guarantee + TOLERANCE


def test_hints_that_have_nothing_to_do_with_the_outcomes_are_not_walked_from_every_time():
    hints, outcomes = false_hints(3, 30_000)
    forecaster = SimplexAlmostOneStepAhead(3, n_cells=100, slack=1.0, hints=True)
    forecaster.replay(outcomes, hints)
    assert forecaster.certificate <= forecaster.guarantee
    # more than 80 a round, if each walk began at its hint
    assert forecaster.memory[PIVOTS] < 20 * len(outcomes)


def test_asked_again_it_says_the_same_and_copies_go_on():
    hints, outcomes = false_hints(3, 1500)
    once, often = (SimplexAlmostOneStepAhead(3, n_cells=60, slack=1.0, hints=True) for _ in range(2))
    for t in range(1500):
        if t % 700 == 0:
            often = copy.deepcopy(often)
            often._run.check()
        said = [often.forecast(hints[t]) for _ in range(1 + t % 3)]
        for other in said[1:]:
            assert other.vector == said[0].vector
            often.withdraw(other)
        often.observe(said[0], int(outcomes[t]))
        once.observe(once.forecast(hints[t]), int(outcomes[t]))
    # how many were open at once is all that differs
    assert once.certificate == often.certificate


@pytest.mark.parametrize(("part", "value"), [(PLACE, -1), (PLACE, 1 << 40), (LEFT, -1)])
def test_damaged_regions_are_refused(part, value):
    hints, outcomes = false_hints(3, 3000)
    forecaster = SimplexAlmostOneStepAhead(3, n_cells=60, slack=1.0, hints=True)
    forecaster.replay(outcomes, hints)
    rows = regions_of(forecaster._run.memory, 3)
    rows[np.flatnonzero(rows[:, LAST])[0], part] = value
    with pytest.raises(ValueError, match="its regions"):
        forecaster._run.check()


def game(k, rounds, seed):
    rng = np.random.default_rng(seed)
    hints = rng.dirichlet(np.ones(k), rounds)
    outcomes = (rng.random((rounds, 1)) > np.cumsum(hints, axis=1)[:, :-1]).sum(axis=1)
    return outcomes, hints


def words(k, m):
    """Every cell of the grid: the words of k points in which each step moves a unit to the next class."""
    for first in itertools.product(range(m + 1), repeat=k):
        for steps in itertools.permutations(range(k), k - 1) if sum(first) == m else ():
            word = [np.array(first)]
            for c in steps:
                word.append(word[-1] + np.eye(k, dtype=int)[(c + 1) % k] - np.eye(k, dtype=int)[c])
            if min(point.min() for point in word) >= 0:
                yield word


@pytest.mark.parametrize(("k", "m"), [(2, 3), (3, 1), (3, 4), (4, 1), (4, 3), (5, 1), (5, 3)])
def test_the_reach_is_the_largest_distance_between_vertices_of_a_cell(k, m):
    widest = max(np.abs(a - b).sum() for word in words(k, m) for a, b in itertools.combinations(word, 2))
    assert widest == reach(k, m, follows=True)


def is_best(vector, hint, vertices):
    """Whether no point of the cell has an expected log loss that is less by more than a hair."""
    gains = (hint * vertices / np.maximum(vector, 1e-12)).sum(axis=1)
    return gains.max() <= 1.0 + NEAR_ENOUGH + 1e-9


@given(
    st.integers(2, 6),
    st.integers(1, 12),
    st.sampled_from([None, 1.0, 2.5]),
    st.integers(0, 10**6),
    st.booleans(),
)
@settings(deadline=None)
def test_the_report_is_the_best_of_its_cell(k, m, slack, seed, one_hot):
    forecaster = SimplexAlmostOneStepAhead(k, n_cells=m, slack=slack, report="hint", hints=True)
    outcomes, hints = game(k, 30, seed)
    hints = np.eye(k)[outcomes[::-1]] if one_hot else hints
    moved = 0.0
    for y, hint in zip(outcomes.tolist(), hints, strict=True):
        token = forecaster.forecast(hint)
        vector, vertices = np.array(token.vector), np.array(token.cell.vertices) / token.cell.scale
        inside = np.linalg.solve(vertices.T, vector)
        assert inside.min() >= -1e-9
        assert inside.sum() == pytest.approx(1.0)
        assert is_best(vector, hint, vertices)
        if np.linalg.solve(vertices.T, hint).min() >= 0:
            assert vector == pytest.approx(hint, abs=1e-12)
        way = np.abs(vector - vertices[y]).sum()
        assert way <= reach(k, m, follows=True) / m + 1e-9
        moved += way
        forecaster.observe(token, y)
    biases = np.abs(forecaster.look_ahead.biases).sum()
    assert moved + biases <= forecaster.certificate + 1e-9 <= moved + biases + 1e-6
    assert forecaster.certificate <= forecaster.guarantee


@pytest.mark.parametrize(("k", "m"), [(2, 7), (3, 49), (5, 11), (10, 3), (17, 13)])
def test_a_distance_in_floats_understates_a_round_by_no_more_than_is_proved(k, m):
    outcomes, hints = game(k, 300, k)
    forecaster = SimplexAlmostOneStepAhead(k, n_cells=m, slack=1.0, report="hint", hints=True)
    least = math.inf
    for y, hint in zip(outcomes.tolist(), hints, strict=True):
        token, before = forecaster.forecast(hint), int(forecaster.memory[MOVED])
        forecaster.observe(token, y)
        booked = Fraction(int(forecaster.memory[MOVED]) - before, int(units(forecaster.memory)))
        vertex = [Fraction(x, token.cell.scale) for x in token.cell.vertices[y].tolist()]
        exact = sum(abs(Fraction(p) - x) for p, x in zip(token.vector, vertex, strict=True))
        assert booked - exact >= -(k + 2) * Fraction(1, 2**51)
        least = min(least, booked - exact)
    # what is rounded up is less than a unit
    assert least <= Fraction(1, int(units(forecaster.memory)))


def test_an_unknown_report_is_named():
    with pytest.raises(ValueError, match="report must be one of barycentre, hint, got 'vertex'"):
        SimplexAlmostOneStepAhead(3, report="vertex")


@pytest.mark.parametrize("report", ["barycentre", "hint"])
def test_rises_are_those_of_the_certificate_with_and_without_hints(report):
    forecaster = SimplexAlmostOneStepAhead(4, n_cells=7, slack=1.0, report=report, hints=True)
    outcomes, hints = game(4, 40, 11)
    forecaster.replay(outcomes, hints)
    for hint in ([], hints[0].tolist(), hints[1].tolist()):
        memory, forecast, rising = forecaster.memory.tolist(), [0.0] * 4, [0.0] * 4
        frame = RULES.announce(memory, hint, forecast)
        RULES.certificate_rises(memory, frame, forecast, rising)
        before = certificate(memory)
        for outcome in range(4):
            settled = list(memory)
            RULES.settle(settled, frame, forecast, outcome)
            assert certificate(settled) - before == pytest.approx(rising[outcome], abs=1e-12)


UNEVEN = [0.0, 9e-7, 1.0]
"""A sum that is allowed to be off; it is no distribution."""


@pytest.mark.parametrize("way", ["events", "by label", "replay", "duel", "soft"])
def test_what_is_announced_is_a_distribution_whatever_the_sum_of_the_hint(way):
    settings_ = {"n_classes": 3, "n_cells": 1, "slack": 2.0, "report": "hint", "hints": True}
    forecaster, outcomes = SimplexAlmostOneStepAhead(**settings_), [0] * 1000
    if way == "replay":
        forecasts = forecaster.replay(outcomes, [UNEVEN] * 1000)
    elif way == "soft":
        forecasts = forecaster.replay([[1.0, 0.0, 9e-7]] * 1000, [UNEVEN] * 1000)
    elif way == "duel":
        forecaster, adversary = forecaster.new_run(), create_multiclass("least-likely", 3, 1000)
        forecasts = duel.play(forecaster, adversary, 1000, np.array([UNEVEN] * 1000)).forecasts
    else:
        hint = UNEVEN if way == "events" else dict(enumerate(UNEVEN))
        forecasts = []
        for y in outcomes:
            token = forecaster.forecast(hint)
            forecasts.append(token.vector)
            forecaster.observe(token, y)
    assert np.abs(np.sum(forecasts, axis=1) - 1.0).max() < 1e-15
    assert np.asarray(forecasts)[0, 1] == pytest.approx(9e-7 / (1.0 + 9e-7), rel=1e-9)
    assert forecaster.certificate <= forecaster.guarantee


def test_a_hint_whose_sum_is_one_up_to_rounding_is_announced_as_it_is():
    hint = [0.3, 0.6, 0.1]
    forecaster = SimplexAlmostOneStepAhead(3, n_cells=1, slack=2.0, report="hint", hints=True)
    assert 0.3 + 0.6 + 0.1 != 1.0
    assert forecaster.forecast(hint).hint == tuple(hint)
