"""The worst case is that of brute force: every sequence, replayed and measured one by one."""

import json
import math

import msgspec
import numpy as np
import polars as pl
import pytest

from adversaries import all_sequences
from onlinecal.measures import calibration_distance, expected_calibration_error
from simulations.games import players
from simulations.plots import games as picture
from simulations.worst.enumeration import WorstGame, _worse, enumerate_games, replay
from simulations.worst.enumeration import _Best as Best

T = 7


def brute_force(spec, rounds, measure="distance", draws=1, seed=0, built_for=None):
    """The largest error, the mean one, and the errors of all sequences in binary order."""
    player = players.create(spec)
    errors = []
    for row in all_sequences(rounds):
        sequence = "".join(map(str, row))
        one = []
        for draw in range(draws):
            forecasts = replay(player, sequence, seed + draw, built_for)
            if measure == "ece":
                one.append(expected_calibration_error(forecasts, row))
            else:
                one.append(calibration_distance(forecasts, row, method="exact").exact)
        errors.append(np.mean(one))
    return np.array(errors)


@pytest.mark.parametrize("spec", ["sign", "balanced:slack=1", "adaptive", "running-mean", "two-choices"])
def test_the_worst_of_every_length_is_that_of_brute_force(spec):
    found = enumerate_games(spec, T)
    for game in found.games:
        errors = brute_force(spec, game.rounds)
        stopped = brute_force(spec, game.rounds, built_for=T)
        assert game.error == pytest.approx(errors.max(), abs=1e-10)
        assert game.mean == pytest.approx(errors.mean(), abs=1e-10)
        assert game.stopped == pytest.approx(stopped.max(), abs=1e-10)
        assert int(game.sequence, 2) == int(np.argmax(errors >= errors.max() - 1e-10))


def test_a_table_that_outgrows_its_memory_is_no_obstacle():
    errors = brute_force("adaptive", 8)
    assert enumerate_games("adaptive", 8).longest.error == pytest.approx(errors.max(), abs=1e-10)


def test_ece_by_brute_force():
    for spec in ("balanced", "running-mean"):
        errors = brute_force(spec, T, "ece")
        longest = enumerate_games(spec, T, measure="ece").longest
        assert longest.error == pytest.approx(errors.max(), abs=1e-10)
        assert longest.mean == pytest.approx(errors.mean(), abs=1e-10)
        assert longest.bound is None


def test_randomised_forecasters_are_averaged_over_their_draws():
    found = enumerate_games("foster", 5, draws=3, seed=2)
    errors = brute_force("foster", 5, draws=3, seed=2)
    assert found.draws == 3
    assert found.longest.error == pytest.approx(errors.max(), abs=1e-10)
    assert found.longest.mean == pytest.approx(errors.mean(), abs=1e-10)
    assert enumerate_games("balanced", 2, draws=3).draws == 1


@pytest.mark.parametrize(
    "spec", ["sign", "balanced", "nested", "adaptive", "one-step-ahead", "adaptive:slack=1,report=lower"]
)
def test_no_game_of_any_length_exceeds_what_was_proven(spec):
    found = enumerate_games(spec, 12)
    assert found.broken_bounds() == []
    assert all(game.error <= game.bound + 1e-11 for game in found.games)


def test_the_worst_case_of_the_grids_at_twelve_rounds():
    worst = {spec: enumerate_games(spec, 12).longest for spec in ("sign", "balanced", "adaptive")}
    assert worst["sign"].error == pytest.approx(4.0)
    assert worst["sign"].sequence == "011111111111"
    assert worst["balanced"].over_root < 0.75
    assert worst["adaptive"].error == pytest.approx(3.25)


def test_processes_change_nothing():
    alone = enumerate_games("sign", 9)
    assert enumerate_games("sign", 9, jobs=2) == alone
    assert alone.stops_matter
    assert not enumerate_games("adaptive", 9).stops_matter


def test_progress_reaches_the_end():
    told = []
    enumerate_games("constant", 8, progress=lambda done, every: told.append((done, every)))
    assert told[-1][0] == told[-1][1] == len(told)


def test_of_equally_bad_sequences_the_first_is_named_whoever_finds_it():
    early, late = Best(1.0, "010", 3.0), Best(1.0 + 1e-13, "110", 4.0)
    assert _worse(early, late) == _worse(late, early) == Best(1.0, "010", 7.0)
    assert _worse(early, Best(1.5, "110", 4.0)).sequence == "110"


def test_broken_bounds_are_named():
    found = enumerate_games("balanced", 3)
    over = WorstGame(3, "111", 9.0, 1.0, math.sqrt(3), 9.0)
    assert "distance 9 > bound 1.73" in type(found)("balanced", "distance", 1, 0, (over,)).broken_bounds()[0]


@pytest.mark.parametrize(
    "arguments,message",
    [
        ({"rounds": 25}, "rounds must be .*25"),
        ({"rounds": 0}, "rounds must be .*0"),
        ({"rounds": 3, "measure": "brier"}, "measure must be one of"),
        ({"rounds": 3, "draws": 0}, "draws must be"),
    ],
)
def test_bad_requests_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        enumerate_games("balanced", **arguments)


def test_the_picture_shows_the_worst_game_and_how_it_is_repaired():
    found = enumerate_games("adaptive", 9)
    table = picture.prepare_worst(found)
    assert table.height == 9
    assert "".join(map(str, table["outcome"])) == found.longest.sequence
    moved = (table["forecast"] - table["witness"]).abs().sum()
    assert moved == pytest.approx(table["worst"][-1]) == pytest.approx(found.longest.error)
    assert (table["worst"] <= table["bound"]).all()
    figure = picture.draw_worst(table)
    assert len(figure.axes) == 2
    without_bound = picture.prepare_worst(enumerate_games("foster", 2, draws=2, measure="ece"))
    assert without_bound["bound"].dtype == pl.Float64
    picture.draw_worst(without_bound)


def test_records_can_be_written():
    record = json.loads(msgspec.json.encode(enumerate_games("sign", 4).record()))
    assert [game["rounds"] for game in record["games"]] == [1, 2, 3, 4]
    assert record["games"][-1]["over_root"] == pytest.approx(1.25)
