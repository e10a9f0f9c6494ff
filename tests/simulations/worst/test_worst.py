"""The worst case by brute force over every sequence, and the least worst by games on a grid."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal.adversaries import all_sequences
from onlinecal.measures import calibration_distance, expected_calibration_error
from onlinecal.simulations.games import players
from onlinecal.simulations.plots import games as picture
from onlinecal.simulations.worst import minimax
from onlinecal.simulations.worst.enumeration import Enumeration, WorstGame, _worse, enumerate_games, replay
from onlinecal.simulations.worst.enumeration import _Best as Best
from onlinecal.simulations.worst.minimax import (
    GameRelaxation,
    calibrated_sequences,
    least_worst,
    stored,
    worst_distance,
)
from tests.commands import record, run


def brute_force(spec, rounds, measure="distance", draws=1, seed=0):
    """The largest error, the mean one, and the errors of all sequences in binary order."""
    player = players.create(spec)
    errors = []
    for row in all_sequences(rounds):
        sequence = "".join(map(str, row))
        one = []
        for draw in range(draws):
            forecasts = replay(player, sequence, seed + draw)
            if measure == "ece":
                one.append(expected_calibration_error(forecasts, row, normalize=False))
            else:
                one.append(calibration_distance(forecasts, row, method="exact").exact)
        errors.append(np.mean(one))
    return np.array(errors)


@pytest.mark.parametrize(
    "spec, rounds, how",
    [
        ("paper", 6, {}),
        ("balanced:slack=1", 6, {}),
        ("adaptive", 8, {}),  # its table outgrows its memory
        ("running-mean", 6, {}),
        pytest.param("two-choices", 6, {}, marks=pytest.mark.slow),
        ("balanced", 6, {"measure": "ece"}),
        ("running-mean", 5, {"measure": "ece"}),
        ("foster", 5, {"draws": 3, "seed": 2}),
    ],
)
def test_the_worst_of_every_length_is_that_of_brute_force(spec, rounds, how):
    for game in enumerate_games(spec, rounds, **how).games:
        errors = brute_force(spec, game.rounds, **how)
        assert game.error == pytest.approx(errors.max(), abs=1e-10)
        assert game.mean == pytest.approx(errors.mean(), abs=1e-10)
        assert int(game.sequence, 2) == int(np.argmax(errors >= errors.max() - 1e-10))
        assert game.bound is None or "measure" not in how


@pytest.mark.parametrize(
    "spec, error",
    [
        ("paper", 4.0), ("balanced", None), ("nested", None), ("adaptive", 3.25), ("one-step-ahead", None),
        ("adaptive:slack=1,report=lower", None),
    ],
)  # fmt: skip
def test_no_game_of_any_length_exceeds_what_was_proven(spec, error):
    found = enumerate_games(spec, 12)
    assert found.broken_bounds() == []
    assert all(game.error <= game.bound + 1e-11 for game in found.games)
    assert error is None or found.longest.error == pytest.approx(error)
    assert spec != "paper" or found.longest.sequence == "0" + "1" * 11
    assert spec != "balanced" or found.longest.over_root < 0.75


@pytest.mark.slow
def test_processes_change_nothing_and_progress_reaches_the_end():
    told = []
    alone = enumerate_games("paper", 9, progress=lambda done, every: told.append((done, every)))
    assert told[-1][0] == told[-1][1] == len(told)
    assert enumerate_games("paper", 9, jobs=2) == alone


def test_of_equally_bad_sequences_the_first_is_named_whoever_finds_it():
    early, late = Best(1.0, "010", 3.0), Best(1.0 + 1e-13, "110", 4.0)
    assert _worse(early, late) == _worse(late, early) == Best(1.0, "010", 7.0)
    assert _worse(early, Best(1.5, "110", 4.0)).sequence == "110"
    over = WorstGame(3, "111", 9.0, 1.0, math.sqrt(3))
    (line,) = Enumeration("balanced", "distance", 1, 0, (over,)).broken_bounds()
    assert line == "BROKEN: distance 9 > bound 1.73205 (balanced, 111)"


def test_the_picture_shows_the_worst_game_and_how_it_is_repaired():
    found = enumerate_games("adaptive", 9)
    table = picture.prepare_worst(found)
    assert "".join(map(str, table["outcome"])) == found.longest.sequence
    moved = (table["forecast"] - table["witness"]).abs().sum()
    assert moved == pytest.approx(table["worst"][-1]) == pytest.approx(found.longest.error)
    assert (table["worst"] <= table["bound"]).all()
    assert len(picture.draw_worst(table).axes) == 2
    without_bound = picture.prepare_worst(enumerate_games("foster", 2, draws=2, measure="ece"))
    assert without_bound["bound"].dtype == pl.Float64
    picture.draw_worst(without_bound)


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


@pytest.mark.parametrize("T", VALUES)
def test_the_bounds_meet(T):
    found = least_worst(T)
    assert found.is_closed
    assert found.lower <= found.upper == VALUES[T] == worst_distance(found.forecaster, T)
    # nobody is below: ours, with whatever number of cells, nor any of the baselines
    ours = [f"balanced:cells={m}" for m in range(1, T + 2)]
    for spec in ("adaptive", "nested", "paper", "running-mean", *ours):
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
    rng, honest = np.random.default_rng(1), minimax.linprog

    def sloppy(*arguments):
        found = honest(*arguments)
        prices, mixing = found.ineqlin.marginals, found.eqlin.marginals
        found.ineqlin.marginals = prices * rng.uniform(0.5, 1.5, prices.shape)
        found.eqlin.marginals = mixing + rng.normal(0, 0.05, mixing.shape)
        return found

    monkeypatch.setattr(minimax, "linprog", sloppy)
    game = GameRelaxation(4)
    for _ in range(20):
        assert game.solve(game.everything, 1.0).bound <= 0.75


def test_the_search_stops_where_it_is_told_to():
    found = least_worst(6, most_nodes=3)
    assert found.nodes <= 5
    assert 0.84 < found.lower < 0.898
    assert found.upper == Fraction(167, 186)
    with pytest.raises(ValueError, match="most_nodes"):
        least_worst(3, most_nodes=0)


@pytest.mark.parametrize("T", [6, *(pytest.param(T, marks=pytest.mark.slow) for T in (7, 8))])
def test_the_stored_forecasters_are_as_good_as_the_page_says(T):
    worst, forecaster = stored(T)
    assert worst_distance(forecaster, T) == worst
    assert float(worst) <= {6: 0.8979, 7: 0.9549, 8: 1.0148}[T]
    assert all(forecaster[tuple(1 - y for y in past)] == 1 - p for past, p in forecaster.items())
    # none is stored where the search finds the value
    assert stored(5) is None


def test_the_command(tmp_path):
    games = record("worst", "--minimax", "--rounds", 3)["games"]
    assert [game["upper"] for game in games] == ["1/2", "1/2", "2/3"]
    assert games[2]["worst"] == pytest.approx(1.25)
    shown = run("worst", "--forecaster", "paper", "--rounds", 6, "--jobs", 1).stdout
    assert "worst of 64 games of 6 rounds: 011111, distance 2.3333 = 0.9526 √T" in shown
    found = record("worst", "--forecaster", "adaptive", "--rounds", 5, "--jobs", 1, "--out", tmp_path)
    assert (found["games"][-1]["rounds"], found["broken"]) == (5, [])
    assert json.loads((tmp_path / "worst.json").read_text())["games"] == found["games"]
    assert {path.suffix for path in tmp_path.glob("worst.*")} == {".json", ".png", ".svg", ".csv"}
    drawn = ("--forecaster", "foster", "--draws", 2, "--measure", "ece")
    shown = run("worst", *drawn, "--rounds", 3, "--jobs", 1).stdout
    assert "Every error is a mean over 2 sequences of draws." in shown
