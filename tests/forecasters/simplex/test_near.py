"""Which cell is played near a hint: its own, dealt out as its vertices accept, or one that is soon found."""

from __future__ import annotations

import copy
import hashlib
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
    LAST,
    LEFT,
    PIVOTS,
    PLACE,
    RECALLING,
    RECORDS,
    REPORT,
    WIDTH,
    capacity,
)
from tests.forecasters.simplex.play import biases_of, interpret, outcomes_of, replay, vertices_of
from tests.properties import examples

TOLERANCE = 1e-9


def recalling(k, m, slack):
    return new_memory(k, m, 1, slack, 1 << 10, growing=True, report=RECALLING)


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
    memory = recalling(k, m, slack)
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
    memory = recalling(k, m, slack)
    MACHINE.begin(memory)
    hints = rng.dirichlet(np.full(k, 0.3), 100)
    for t, y in enumerate(outcomes_of("drift", k, 100, seed)):
        forecast = np.empty(k)
        frame = MACHINE.issue(memory, hints[t], forecast)
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
        forecaster = SimplexAlmostOneStepAhead(3, **config)
        forecaster.replay(list(played), hints)
        assert forecaster.certificate <= forecaster.guarantee + TOLERANCE


def test_hints_that_have_nothing_to_do_with_the_outcomes_are_not_walked_from_every_time():
    hints, outcomes = false_hints(3, 30_000)
    pivots = {}
    for edition in (4, 5):
        forecaster = SimplexAlmostOneStepAhead(3, n_cells=100, slack=1.0)
        forecaster._run = forecaster.new_run(edition)
        forecaster.replay(outcomes, hints)
        assert forecaster.certificate <= forecaster.guarantee
        pivots[edition] = forecaster.memory[PIVOTS] / len(outcomes)
    assert pivots[4] > 80
    assert pivots[5] < 20


def test_true_hints_leave_half_the_bias_and_nothing_else_changes():
    rng = np.random.default_rng(1)
    hints = rng.dirichlet(np.ones(3), 20_000)
    outcomes = (rng.random((len(hints), 1)) > hints.cumsum(axis=1)[:, :-1]).sum(axis=1)
    certificates, briers = [], []
    for edition in (4, 5):
        forecaster = SimplexAlmostOneStepAhead(3, n_cells=40)
        forecaster._run = forecaster.new_run(edition)
        forecasts = forecaster.replay(outcomes, hints)
        certificates.append(forecaster.certificate)
        briers.append(((forecasts - np.eye(3)[outcomes]) ** 2).sum(axis=1).mean())
    assert certificates[1] < 0.7 * certificates[0]
    assert briers[1] <= briers[0]


def test_asked_again_it_says_the_same_and_copies_go_on():
    hints, outcomes = false_hints(3, 1500)
    once, often = (SimplexAlmostOneStepAhead(3, n_cells=60, slack=1.0) for _ in range(2))
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


@pytest.mark.parametrize(("part", "value"), [(PLACE, -1), (PLACE, 1 << 40), (LEFT, -1), (LAST, 1 << 40)])
def test_damaged_regions_are_refused(part, value):
    hints, outcomes = false_hints(3, 3000)
    forecaster = SimplexAlmostOneStepAhead(3, n_cells=60, slack=1.0)
    forecaster.replay(outcomes, hints)
    rows = regions_of(forecaster._run.memory, 3)
    rows[np.flatnonzero(rows[:, LAST])[0], part] = value
    with pytest.raises(ValueError, match="its regions"):
        forecaster._run.check()


def test_what_began_before_goes_on_as_it_was():
    """By what edition 4 was before there was another one."""
    said = hashlib.sha256()
    for k, config in [
        (3, {"slack": 1.0}),
        (5, {}),
        (4, {"slack": 1.5, "report": "hint", "grid": "adaptive"}),
    ]:
        hints, outcomes = false_hints(k, 1000, k)
        forecaster = SimplexAlmostOneStepAhead(k, **config)
        forecaster._run = forecaster.new_run(4)
        forecaster.replay(outcomes, hints)
        assert forecaster.memory[REPORT] != RECALLING
        said.update(forecaster.memory.tobytes())
    assert said.hexdigest()[:16] == "441cbc4b10d6fc80"
