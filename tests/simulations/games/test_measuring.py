"""The line of a table: its figures agree with their definitions, and broken bounds are named."""

from copy import deepcopy

import msgspec
import numpy as np
import pytest

import adversaries
from onlinecal import calibration_distance, expected_calibration_error
from onlinecal.measures.distance.levels import is_perfectly_calibrated
from simulations.games import players
from simulations.games.duel import play
from simulations.games.measuring import measure_recorded, play_and_measure


@pytest.fixture(scope="module")
def game():
    return play_and_measure(players.create("balanced"), adversaries.create("coin:bias=0.8", 300, 2), 300)


def test_figures_agree_with_their_definitions(game):
    one, p, y = game.measured, game.forecasts, game.outcomes
    assert one.ece == expected_calibration_error(p, y, normalize=False)
    assert one.distance_lower <= calibration_distance(p, y, "exact").exact + 1e-9
    assert one.distance_upper >= calibration_distance(p, y, "exact").exact - 1e-9
    assert one.brier == pytest.approx(((p - y) ** 2).sum())
    assert one.brier_constant == pytest.approx(((y.mean() - y) ** 2).sum())
    assert one.regret == one.brier - one.brier_constant
    assert (one.rounds, one.ones, one.seed) == (300, y.sum(), 2)


def test_every_bound_held_and_the_witness_is_calibrated_and_as_far_as_the_upper_end(game):
    one = game.measured
    assert one.broken_bounds() == []
    assert one.distance_upper <= one.certificate <= one.guarantee <= one.bound
    assert is_perfectly_calibrated(game.witness, game.outcomes)
    assert np.abs(game.witness - game.forecasts).sum() == pytest.approx(one.distance_upper)


@pytest.mark.parametrize(
    "field,value,words",
    [
        ("brier", 1e6, "Brier regret"),
        ("distance_upper", 1e6, "distance to calibration 1e"),
        ("certificate", 1e6, "certificate 1e"),
        ("guarantee", 1e6, "guarantee 1e"),
    ],
)
def test_broken_bounds_are_named(game, field, value, words):
    broken = msgspec.structs.replace(game.measured, **{field: value}).broken_bounds()
    assert len(broken) == 1
    assert broken[0].startswith(words)


def test_recorded_forecasts_have_no_promise_to_break():
    game = measure_recorded(np.array([0.9, 0.9]), np.array([0, 1], np.uint8), "model", "stream")
    assert game.measured.certificate is None
    assert game.measured.broken_bounds() == []
    assert game.measured.distance_upper == pytest.approx(0.8)


@pytest.mark.parametrize("spec", ["balanced:window=100", "adaptive:slack=1,report=hint,window=100"])
def test_a_window_is_of_the_last_rounds_of_the_game(spec):
    """As for a forecaster that learns the same rounds one by one, also where some were learnt before."""
    hints = np.random.default_rng(1).random(300)
    adversary = adversaries.create("threshold", 300)
    game = play_and_measure(players.create(spec), adversary, 300, hints=hints)
    plain = players.create(spec).build(300, hinted=True)
    for hint, outcome in zip(hints, game.outcomes, strict=True):
        plain.observe(plain.forecast(hint=hint), int(outcome))
    one = game.measured
    assert (one.window, one.window_certificate, one.window_guarantee) == (
        100,
        plain.window_certificate,
        plain.window_guarantee,
    )
    last = calibration_distance(game.forecasts[-100:], game.outcomes[-100:], "exact").exact
    assert last <= one.window_certificate < one.certificate
    assert (one.window_guarantee is None) == spec.startswith("adaptive")
    assert one.broken_bounds() == []
    if one.window_guarantee is not None:
        broken = msgspec.structs.replace(one, window_certificate=one.window_guarantee + 1).broken_bounds()
        assert [line.split(" >")[0].rsplit(" ", 1)[0] for line in broken] == ["window certificate"]
    twin = deepcopy(plain)
    twin.replay(play(plain, adversaries.create("coin:bias=0.9"), 200).outcomes)
    assert plain.n_rounds == 500
    assert plain.window_certificate == twin.window_certificate != one.window_certificate
