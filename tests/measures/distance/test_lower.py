"""The lower distance: both ends meet, as many values as allowed, and never above the distance."""

import numpy as np
import pytest

from onlinecal.measures import (
    calibration_distance,
    lower_calibration_distance,
    lower_calibration_distance_from_counts,
)
from onlinecal.measures.distance.fractional.interior import solve_program
from onlinecal.measures.distance.fractional.relaxation import violations
from tests.measures.distance.reference import look_ahead_run


def histories(n_rounds, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.random(n_rounds)
    yield p, rng.random(n_rounds) < p
    yield p, rng.random(n_rounds) < 0.7 * p
    for cell in (0.01, 0.05, 0.1):
        grid = np.round(p / cell) * cell
        yield grid, rng.random(n_rounds) < grid
    yield look_ahead_run(lambda t, v: int(rng.random() < 0.5), n_rounds, 20)[:2]


def attained(answer, p, y):
    """What it costs to move the rounds to the fractional history, outcome by outcome along the line."""
    total = 0.0
    for label in (0, 1):
        held = answer.masses * np.abs(1 - label - answer.values)
        places = np.unique(np.concatenate([answer.values, p]))
        moved = np.bincount(np.searchsorted(places, p[y == label]), minlength=len(places)).astype(float)
        moved -= np.bincount(np.searchsorted(places, answer.values), held, minlength=len(places))
        assert moved.sum() == pytest.approx(0, abs=1e-9)
        total += float(np.abs(np.cumsum(moved)[:-1]) @ np.diff(places))
    return total


@pytest.mark.parametrize("n_rounds", [2, 20, 150, pytest.param(300, marks=pytest.mark.slow)])
def test_both_ends_meet_and_the_history_attains_them(n_rounds):
    for p, y in histories(n_rounds):
        answer = lower_calibration_distance(p, y)
        assert 0 <= answer.upper - answer.lower <= 2e-8 * n_rounds
        assert attained(answer, np.asarray(p), np.asarray(y)) == pytest.approx(answer.upper, abs=1e-8)
        assert answer.upper <= calibration_distance(p, y, method="bracket").upper + 1e-12 * n_rounds
        assert (np.diff(answer.values) > 0).all()


def test_a_value_between_two_forecasts_is_found():
    """Both rounds go to 1/2, a value that no forecast has."""
    answer = lower_calibration_distance([0.0, 0.7], [1, 0])
    assert answer.lower == pytest.approx(0.7, abs=1e-6)
    assert answer.upper == pytest.approx(0.7, abs=1e-12)
    assert answer.upper <= 0.7 + 1e-13
    assert calibration_distance([0.0, 0.7], [1, 0]).exact == pytest.approx(0.7)


def test_upper_ends_are_never_above_the_distance():
    rng = np.random.default_rng(5)
    for _ in range(75):
        n = int(rng.integers(2, 7))
        p, y = np.round(rng.random(n), int(rng.integers(1, 4))), rng.integers(0, 2, n)
        assert (
            lower_calibration_distance(p, y).upper <= calibration_distance(p, y, method="exact").exact + 1e-12
        )


@pytest.mark.parametrize("many", [False, True])
def test_no_more_values_are_used_than_allowed_and_more_of_them_narrow_the_ends(many):
    """Of distinct forecasts, the gap falls with the square of their number; of few it closes."""
    rng = np.random.default_rng(6)
    p = rng.random(3000) if many else rng.integers(0, 21, 3000) / 20
    y = rng.random(3000) < p
    gaps = []
    for n_nodes in (2, 3, 10, 30, 100, 300, 1000):
        answer = lower_calibration_distance(p, y, n_nodes=n_nodes)
        assert len(answer.values) <= n_nodes
        gaps.append(answer.upper - answer.lower)
    assert (np.diff(gaps) <= 1e-9).all()
    assert gaps[-1] <= gaps[2] / 100
    closed = lower_calibration_distance(p, y)
    assert closed.upper - closed.lower <= 1e-5


def test_counts_with_many_rounds_close_as_well():
    values = np.arange(11) / 10
    rng = np.random.default_rng(7)
    rounds = rng.integers(10**8, 10**9, 11)
    ones = rng.binomial(rounds, np.clip(values + 0.02, 0, 1))
    answer = lower_calibration_distance_from_counts(values, rounds - ones, ones, normalize=True)
    assert 0 <= answer.upper - answer.lower <= 1e-9


@pytest.mark.parametrize("few", [False, True])
def test_the_program_is_solved_as_well_as_a_general_solver_does(few):
    from scipy.optimize import linprog

    rng = np.random.default_rng(8)
    nodes = np.unique(np.concatenate([[0.0, 1.0], rng.random(60)]))
    zeros, ones = rng.random((2, len(nodes))) * (rng.random((2, len(nodes))) < 0.7)
    n, gaps = len(nodes), np.diff(nodes)
    rise = np.diff(np.eye(n), axis=0)
    none = np.zeros_like(rise)
    lipschitz = [np.hstack(pair) for pair in ((rise, none), (-rise, none), (none, rise), (none, -rise))]
    signs = np.hstack([np.diag(1 - nodes), np.diag(nodes)])
    general = linprog(
        -np.concatenate([zeros, ones]),
        A_ub=np.vstack([signs, *lipschitz]),
        b_ub=np.concatenate([np.zeros(n), np.tile(gaps, 4)]),
        bounds=(None, None),
    )
    u0, u1, masses = solve_program(nodes, zeros, ones, few=few)
    assert zeros @ u0 + ones @ u1 == pytest.approx(-general.fun, abs=1e-5 if few else 1e-12)
    assert masses @ nodes == pytest.approx(ones.sum(), abs=1e-9)
    filled = (masses > 1e-9 * masses.sum()).sum()
    assert filled < n if few else filled <= n


def test_the_constraint_is_largest_where_it_is_said_to_be():
    """Between valleys, against a fine grid of each gap."""
    rng = np.random.default_rng(9)
    for _ in range(100):
        nodes = np.sort(np.concatenate([[0.0, 1.0], rng.random(3)]))
        u0, u1 = (np.min(u + np.abs(nodes[:, None] - nodes), axis=1) for u in rng.normal(0.0, 0.3, (2, 5)))
        _, largest = violations(nodes, u0, u1)
        for k in range(4):
            x = np.linspace(nodes[k], nodes[k + 1], 4001)
            v0, v1 = (np.maximum(u[k] - x + nodes[k], u[k + 1] - nodes[k + 1] + x) for u in (u0, u1))
            constraint = (1 - x) * v0 + x * v1
            inside = largest[k] if largest[k] != 0.0 else -np.inf
            assert max(constraint[0], constraint[-1], inside) == pytest.approx(constraint.max(), abs=1e-6)
