"""The report that follows a hint stays in the announced cell, and the certificate pays for it."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal import SimplexAlmostOneStepAhead
from onlinecal.forecasters.simplex.guarantees import reach
from onlinecal.forecasters.simplex.machine.cells import write_cell
from onlinecal.forecasters.simplex.machine.memory import certificate
from onlinecal.forecasters.simplex.machine.report import NEAR_ENOUGH, move_inside
from onlinecal.forecasters.simplex.machine.rules import RULES
from onlinecal.forecasters.simplex.machine.table import HERE, MOVED, OTHER, SLAB, units


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


@pytest.mark.parametrize(
    "settings_",
    [{"n_classes": 3, "n_cells": 9}, {"n_classes": 5, "n_cells": 11}, {"n_classes": 4, "slack": 1.0}],
)
def test_replay_follows_hints_as_tokens_do(settings_):
    outcomes, hints = game(settings_["n_classes"], 400, 5)
    by_hand = SimplexAlmostOneStepAhead(**settings_, report="hint", hints=True)
    replayed = SimplexAlmostOneStepAhead(**settings_, report="hint", hints=True)
    forecasts, charged = replayed.replay(outcomes, hints, return_look_ahead=True)
    for t, y in enumerate(outcomes.tolist()):
        token = by_hand.forecast(hints[t])
        assert token.vector == tuple(forecasts[t])
        by_hand.observe(token, y)
    assert by_hand.certificate == replayed.certificate
    assert np.abs(forecasts - charged).sum() <= replayed.certificate
    assert replayed.certificate <= replayed.guarantee


def test_following_is_nearer_to_the_hints():
    outcomes, hints = game(3, 3000, 1)
    away = {}
    for report in ("barycentre", "hint"):
        forecaster = SimplexAlmostOneStepAhead(3, horizon=3000, slack=1.0, report=report, hints=True)
        away[report] = np.abs(forecaster.replay(outcomes, hints) - hints).sum(axis=1).mean()
    assert away["hint"] < 0.7 * away["barycentre"]


def test_the_interpreter_moves_as_the_compiled_code_does():
    forecaster = SimplexAlmostOneStepAhead(5, n_cells=7, report="hint", hints=True)
    outcomes, hints = game(5, 50, 3)
    for y, hint in zip(outcomes.tolist(), hints, strict=True):
        token = forecaster.forecast(hint)
        frame = frame_of_cell(forecaster, token.cell)
        vector = [0.0] * 5
        move_inside(forecaster.memory.tolist(), frame, hint.tolist(), vector)
        assert vector == pytest.approx(list(token.vector), rel=1e-13, abs=1e-15)
        forecaster.observe(token, y)


def frame_of_cell(forecaster, cell):
    """Where the memory holds that cell."""
    memory, found = forecaster.memory, np.empty(len(cell.numbers), np.int32)
    for frame in (int(memory[place]) for place in (HERE, OTHER, SLAB)):
        write_cell(memory, frame, found)
        if found.tobytes() == cell.data:
            return frame
    raise AssertionError("no frame holds the cell")


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
