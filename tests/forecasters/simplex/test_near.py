"""Which cell is played near a hint: its own, dealt out as its vertices accept, or one that is soon found."""

from __future__ import annotations

import copy
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal import SimplexAlmostOneStepAhead
from onlinecal.forecasters.simplex.machine.compiled import MACHINE
from onlinecal.forecasters.simplex.machine.memory import new_memory
from onlinecal.forecasters.simplex.machine.rules import begin
from onlinecal.forecasters.simplex.machine.table import (
    FOLLOWS,
    LAST,
    LEFT,
    PIVOTS,
    PLACE,
    RECORDS,
    WIDTH,
    capacity,
)
from tests.forecasters.simplex.play import NO_CELL, biases_of, interpret, outcomes_of, replay, vertices_of
from tests.properties import examples

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
    MACHINE.begin(memory)
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
    MACHINE.begin(memory)
    hints = rng.dirichlet(np.full(k, 0.3), 100)
    for t, y in enumerate(outcomes_of("drift", k, 100, seed)):
        forecast = np.empty(k)
        frame = MACHINE.issue(memory, hints[t], forecast, NO_CELL)
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
