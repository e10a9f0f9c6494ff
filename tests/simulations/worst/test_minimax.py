"""The least worst case: sequences and distances by brute force, the value by games on a grid."""

from __future__ import annotations

import json
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal import calibration_distance
from simulations.worst.enumeration import enumerate_games
from simulations.worst.minimax import Relaxation, calibrated_sequences, least_worst, stored, worst_distance
from tests.commands import run

VALUES = {1: Fraction(1, 2), 2: Fraction(1, 2), 3: Fraction(2, 3), 4: Fraction(3, 4), 5: Fraction(5, 6)}


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 1)), min_size=1, max_size=6))
@settings(deadline=None)
def test_the_distance_is_that_to_the_nearest_of_the_calibrated_sequences(rounds):
    p, y = map(np.array, zip(*rounds, strict=True))
    sequences = calibrated_sequences(tuple(y.tolist())) / np.lcm.reduce(np.arange(1, len(y) + 1))
    for q in sequences:
        for value in np.unique(q):
            assert y[q == value].mean() == pytest.approx(value)
    distance = calibration_distance(p, y, method="exact").exact
    assert np.abs(sequences - p).sum(axis=1).min() == pytest.approx(distance, abs=1e-12)


def test_the_worst_distance_of_a_forecaster_is_that_of_brute_force():
    rng = np.random.default_rng(0)
    T = 5
    forecaster = {
        history: Fraction(int(rng.integers(0, 8)), 7)
        for t in range(T)
        for history in product((0, 1), repeat=t)
    }
    distances = []
    for outcomes in product((0, 1), repeat=T):
        p = [float(forecaster[outcomes[:t]]) for t in range(T)]
        distances.append(calibration_distance(p, outcomes, method="exact").exact)
    assert float(worst_distance(forecaster, T)) == pytest.approx(max(distances), abs=1e-12)


@pytest.mark.parametrize("T", VALUES)
def test_the_bounds_meet(T):
    found = least_worst(T)
    assert found.is_closed
    assert found.upper == VALUES[T] == worst_distance(found.forecaster, T)
    assert found.lower <= found.upper
    # nobody is below: ours, with whatever number of cells, nor any of the baselines
    for spec in [
        "adaptive",
        "nested",
        "sign",
        "running-mean",
        *(f"balanced:cells={m}" for m in range(1, T + 2)),
    ]:
        assert enumerate_games(spec, T).longest.error >= found.lower


@pytest.mark.parametrize(("T", "steps"), [(2, 4), (3, 6), (4, 4)])
def test_the_value_by_a_game_on_a_grid(T, steps):
    """Whoever may say multiples of 1/n only has a worst case between the value and T/(2n) above it."""
    unit = np.lcm.reduce(np.arange(1, T + 1))
    sequences = {y: calibrated_sequences(y) * (steps / unit) for y in product((0, 1), repeat=T)}

    @cache
    def value(said, outcomes):
        if len(said) == T:
            return np.abs(sequences[outcomes] - np.array(said)).sum(axis=1).min() / steps
        return min(max(value((*said, p), (*outcomes, y)) for y in (0, 1)) for p in range(steps + 1))

    on_grid = value((), ())
    found = least_worst(T)
    assert found.lower - 1e-9 <= on_grid <= found.upper + T / (2 * steps) + 1e-9
    # these grids have an optimal forecaster
    assert on_grid == pytest.approx(float(found.upper))


def test_a_bound_is_proven_by_whatever_multipliers_the_solver_gives(monkeypatch):
    from simulations.worst import minimax

    rng, honest = np.random.default_rng(1), minimax.linprog

    def sloppy(*arguments):
        found = honest(*arguments)
        found.ineqlin.marginals = found.ineqlin.marginals * rng.uniform(
            0.5, 1.5, found.ineqlin.marginals.shape
        )
        found.eqlin.marginals = found.eqlin.marginals + rng.normal(0, 0.05, found.eqlin.marginals.shape)
        return found

    monkeypatch.setattr(minimax, "linprog", sloppy)
    game = Relaxation(4)
    for _ in range(20):
        node = game.solve(game.everything, 1.0)
        assert node.bound <= 0.75


def test_the_search_stops_where_it_is_told_to():
    found = least_worst(6, most_nodes=3)
    assert found.nodes <= 5
    assert 0.84 < found.lower < 0.898
    assert found.upper == Fraction(167, 186)


@pytest.mark.parametrize("T", [6, 7, pytest.param(8, marks=pytest.mark.slow)])
def test_the_stored_forecasters_are_as_good_as_the_page_says(T):
    worst, forecaster = stored(T)
    assert worst_distance(forecaster, T) == worst
    assert float(worst) <= {6: 0.8979, 7: 0.9549, 8: 1.0148}[T]
    assert all(forecaster[tuple(1 - y for y in past)] == 1 - p for past, p in forecaster.items())


def test_none_is_stored_where_the_search_finds_the_value():
    assert stored(5) is None


def test_the_command():
    answer = run("worst", "--minimax", "--rounds", 3, "--json")
    assert answer.exit_code == 0
    games = json.loads(answer.stdout)["games"]
    assert [game["upper"] for game in games] == ["1/2", "1/2", "2/3"]
    assert games[2]["worst"] == pytest.approx(1.25)
    table = run("worst", "--minimax", "--rounds", 3, "--forecaster", "balanced:cells=3").stdout
    assert "2/3" in table
    assert "1.25" in table


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--rounds", 9], "rounds must be at most 8, got 9"),
        (["--rounds", 3, "--plot"], "--minimax is about the distance, and has no picture"),
        (["--rounds", 3, "--measure", "ece"], "--minimax is about the distance"),
    ],
)
def test_wrong_requests(arguments, words):
    answer = run("worst", "--minimax", *arguments)
    assert answer.exit_code != 0
    assert words in str(answer.exception) + answer.output
