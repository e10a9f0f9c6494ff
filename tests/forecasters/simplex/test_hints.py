"""Hints: the cell that is played near one, how far labels lean, and the report that follows it."""

import copy
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal import SimplexAlmostOneStepAhead
from onlinecal.forecasters.simplex.guarantees import reach
from onlinecal.forecasters.simplex.machine import memory as layout
from onlinecal.forecasters.simplex.machine import rules as machine
from onlinecal.forecasters.simplex.machine.cells import NEAR_ENOUGH
from onlinecal.forecasters.simplex.machine.memory import certificate, new_memory
from onlinecal.forecasters.simplex.machine.rules import RULES
from tests.forecasters.simplex.play import NO_CELL, biases_of, outcomes_of, replay, vertices_of
from tests.forecasters.simplex.reference import every_cell
from tests.properties import examples

TOLERANCE = 1e-9


def honest(k, rounds, seed=0):
    """A good model's probabilities, and labels drawn from them."""
    rng = np.random.default_rng(seed)
    hints = rng.dirichlet(np.full(k, 0.5), rounds)
    return hints, np.minimum((hints.cumsum(1) < rng.random(rounds)[:, None]).sum(1), k - 1)


def brier(q, labels):
    return ((q - np.eye(q.shape[1])[labels]) ** 2).sum(1).mean()


@pytest.mark.parametrize("k", [2, 3, 5])
def test_the_first_round_without_a_hint_is_near_equal_probabilities(k):
    forecaster = SimplexAlmostOneStepAhead(k, horizon=1000, hints=True)
    forecaster.forecast(np.eye(k)[0])
    m = int(forecaster.memory[layout.SCALE])
    assert np.abs(np.array(forecaster.forecast().vector) - 1 / k).sum() <= 2 * k / m


@pytest.mark.parametrize("k", [3, 4])
def test_hints_of_a_good_model_are_not_ruined(k):
    """Within 2 % of their Brier score; barycentres without slack lose a quarter."""
    hints, labels = honest(k, 4000)
    followed = SimplexAlmostOneStepAhead(k, hints=True).replay(labels, hints)
    unslacked = SimplexAlmostOneStepAhead(k, report="barycentre", hints=True).replay(labels, hints)
    assert brier(followed, labels) <= 1.02 * brier(hints, labels)
    assert brier(unslacked, labels) >= 1.25 * brier(hints, labels)


def regions_of(memory, k):
    """What is remembered, one region a row."""
    behind = int(memory[layout.RECORDS]) + int(layout.capacity(memory)) * int(memory[layout.WIDTH])
    return memory[behind:].reshape(-1, layout.REGION_SUMS + 2 * k)


def false_hints(k, rounds, seed=0):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(k), rounds), rng.integers(0, k, rounds)


@settings(max_examples=examples(40), deadline=None)
@given(st.sampled_from([(2, 9), (3, 8), (4, 5), (6, 2)]), st.floats(1.0, 4.0), st.integers(0, 2**32 - 1))
def test_every_vertex_accepts_its_label_and_the_best_cell_is_the_hints_own(size, slack, seed):
    """A charge must not take a bias below -slack: of the labels dealt out, and of those that walks find."""
    (k, m), rng = size, np.random.default_rng(seed)
    memory = new_memory(k, m, 1, slack, growing=True, report=layout.FOLLOWS, room=1 << 10)
    machine.make_ready(memory)
    hints = rng.dirichlet(np.full(k, 0.3), 100)
    for t, y in enumerate(outcomes_of("drift", k, 100, seed)):
        forecast = np.empty(k)
        frame = machine.issue(memory, hints[t], forecast, NO_CELL, 1)
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


def test_hints_that_have_nothing_to_do_with_the_outcomes_are_not_walked_from_every_time():
    hints, outcomes = false_hints(3, 30_000)
    forecaster = SimplexAlmostOneStepAhead(3, n_cells=100, slack=1.0, hints=True)
    forecaster.replay(outcomes, hints)
    assert forecaster.certificate <= forecaster.guarantee
    # more than 80 a round, if each walk began at its hint
    assert forecaster.memory[layout.PIVOTS] < 20 * len(outcomes)


def test_asked_again_it_says_the_same_and_copies_go_on():
    hints, outcomes = false_hints(3, 1500)
    once, often = (SimplexAlmostOneStepAhead(3, n_cells=60, slack=1.0, hints=True) for _ in range(2))
    for t in range(1500):
        if t % 700 == 0:
            often = copy.deepcopy(often)
        said = [often.forecast(hints[t]) for _ in range(1 + t % 3)]
        for other in said[1:]:
            assert other.vector == said[0].vector
            often.withdraw(other)
        often.observe(said[0], int(outcomes[t]))
        once.observe(once.forecast(hints[t]), int(outcomes[t]))
    # how many were open at once is all that differs
    assert once.certificate == often.certificate


@pytest.mark.parametrize(
    ("part", "value"), [(layout.REGION_SUMS, -1), (layout.REGION_SUMS, 1 << 40), (layout.RECALLS_LEFT, -1)]
)
def test_damaged_regions_are_refused(part, value):
    hints, outcomes = false_hints(3, 3000)
    forecaster = SimplexAlmostOneStepAhead(3, n_cells=60, slack=1.0, hints=True)
    forecaster.replay(outcomes, hints)
    rows = regions_of(forecaster.memory, 3)
    rows[np.flatnonzero(rows[:, layout.LAST_BEGUN])[0], part] = value
    with pytest.raises(ValueError, match="its regions"):
        copy.deepcopy(forecaster)


@pytest.mark.parametrize(("k", "m"), [(2, 3), (3, 1), (3, 4), (4, 1), (4, 3), (5, 1), (5, 3)])
def test_the_reach_is_the_largest_distance_between_vertices_of_a_cell(k, m):
    cells = (np.array([*cell]) for cell in every_cell(k, m))
    widest = max(np.abs(cell[:, None] - cell).sum(axis=2).max() for cell in cells)
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
    hints, outcomes = honest(k, 30, seed)
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
    hints, outcomes = honest(k, 300, k)
    forecaster = SimplexAlmostOneStepAhead(k, n_cells=m, slack=1.0, report="hint", hints=True)
    least = math.inf
    for y, hint in zip(outcomes.tolist(), hints, strict=True):
        token, before = forecaster.forecast(hint), int(forecaster.memory[layout.MOVED])
        forecaster.observe(token, y)
        booked = Fraction(int(forecaster.memory[layout.MOVED]) - before, int(layout.units(forecaster.memory)))
        vertex = [Fraction(x, token.cell.scale) for x in token.cell.vertices[y].tolist()]
        exact = sum(abs(Fraction(p) - x) for p, x in zip(token.vector, vertex, strict=True))
        assert booked - exact >= -(k + 2) * Fraction(1, 2**51)
        least = min(least, booked - exact)
    # what is rounded up is less than a unit
    assert least <= Fraction(1, int(layout.units(forecaster.memory)))


@pytest.mark.parametrize("report", ["barycentre", "hint"])
def test_rises_are_those_of_the_certificate_with_and_without_hints(report):
    forecaster = SimplexAlmostOneStepAhead(4, n_cells=7, slack=1.0, report=report, hints=True)
    hints, outcomes = honest(4, 40, 11)
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


@pytest.mark.parametrize("way", ["events", "replay", "soft"])
def test_what_is_announced_is_a_distribution_whatever_the_sum_of_the_hint(way):
    forecaster = SimplexAlmostOneStepAhead(3, n_cells=1, slack=2.0, report="hint", hints=True)
    if way == "replay":
        forecasts = forecaster.replay([0] * 1000, [UNEVEN] * 1000)
    elif way == "soft":
        forecasts = forecaster.replay([[1.0, 0.0, 9e-7]] * 1000, [UNEVEN] * 1000)
    else:
        forecasts = [forecaster.forecast(hint).vector for hint in (UNEVEN, dict(enumerate(UNEVEN)))]
    assert np.abs(np.sum(forecasts, axis=1) - 1.0).max() < 1e-15
    assert np.asarray(forecasts)[0, 1] == pytest.approx(9e-7 / (1.0 + 9e-7), rel=1e-9)
    assert forecaster.certificate <= forecaster.guarantee


def test_a_hint_whose_sum_is_one_up_to_rounding_is_announced_as_it_is():
    hint = [0.3, 0.6, 0.1]
    forecaster = SimplexAlmostOneStepAhead(3, n_cells=1, slack=2.0, report="hint", hints=True)
    assert 0.3 + 0.6 + 0.1 != 1.0
    assert forecaster.forecast(hint).hint == tuple(hint)
