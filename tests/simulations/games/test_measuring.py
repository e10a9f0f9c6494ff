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


def test_figures_agree_with_their_definitions_and_every_bound_held(game):
    one, p, y = game.measured, game.forecasts, game.outcomes
    assert one.ece == expected_calibration_error(p, y, normalize=False)
    exact = calibration_distance(p, y, "exact").exact
    assert one.distance_lower - 1e-9 <= exact <= one.distance_upper + 1e-9
    assert one.brier == pytest.approx(((p - y) ** 2).sum())
    assert one.brier_constant == pytest.approx(((y.mean() - y) ** 2).sum())
    assert one.regret == one.brier - one.brier_constant
    assert (one.rounds, one.ones, one.seed, one.broken_bounds()) == (300, y.sum(), 2, [])
    assert one.distance_upper <= one.certificate <= one.guarantee <= one.bound
    assert is_perfectly_calibrated(game.witness, y)
    assert np.abs(game.witness - p).sum() == pytest.approx(one.distance_upper)
    recorded = measure_recorded(np.array([0.9, 0.9]), np.array([0, 1], np.uint8), "model", "stream").measured
    assert (recorded.certificate, recorded.broken_bounds()) == (None, [])
    assert recorded.distance_upper == pytest.approx(0.8)


def test_broken_bounds_are_named(game):
    names = {"brier": "Brier regret", "distance_upper": "distance to calibration"}
    for field in ("brier", "distance_upper", "certificate", "guarantee"):
        (broken,) = msgspec.structs.replace(game.measured, **{field: 1e6}).broken_bounds()
        assert broken.startswith(names.get(field, field))


@pytest.mark.parametrize("spec", ["balanced:window=100", "adaptive:slack=1,report=hint,window=100"])
def test_a_window_is_of_the_last_rounds_of_the_game(spec):
    """As for a forecaster that learns the same rounds one by one, also where some were learnt before."""
    hints, player = np.random.default_rng(1).random(300), players.create(spec)
    game = play_and_measure(player, adversaries.create("threshold", 300), 300, hints=hints)
    plain, one = player.build(300, hinted=True), game.measured
    for hint, outcome in zip(hints, game.outcomes, strict=True):
        plain.observe(plain.forecast(hint=hint), int(outcome))
    kept = one.window, one.window_certificate, one.window_guarantee
    assert kept == (100, plain.window_certificate, plain.window_guarantee)
    last = calibration_distance(game.forecasts[-100:], game.outcomes[-100:], "exact").exact
    assert last <= one.window_certificate < one.certificate
    assert one.broken_bounds() == []
    assert (one.window_guarantee is None) == spec.startswith("adaptive")
    if one.window_guarantee is not None:
        (broken,) = msgspec.structs.replace(one, window_certificate=one.window_guarantee + 1).broken_bounds()
        assert broken.startswith("window certificate")
    twin = deepcopy(plain)
    twin.replay(play(plain, adversaries.create("coin:bias=0.9"), 200).outcomes)
    assert plain.n_rounds == 500
    assert plain.window_certificate == twin.window_certificate != one.window_certificate
