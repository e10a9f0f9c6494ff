"""How the self-tuning grid grows, and that no forecaster with a horizon can be promised less (Theorem 19)."""

import math

import numpy as np
import pytest

from onlinecal import AlmostOneStepAhead, calibration_distance
from onlinecal.adversaries import create
from onlinecal.simulations.games.duel import play

ROUNDS = (10**4, 10**5, 10**6)


def test_on_coins_the_certificate_grows_with_an_exponent_of_at_most_042():
    values = np.zeros(len(ROUNDS))
    for seed in range(3):
        coins = np.random.default_rng(seed).integers(0, 2, ROUNDS[-1], dtype=np.uint8)
        forecaster = AlmostOneStepAhead()
        for place, part in enumerate(np.split(coins, ROUNDS[:-1])):
            forecaster.replay(part)
            values[place] += forecaster.certificate
    assert np.polyfit(np.log(ROUNDS), np.log(values), 1)[0] <= 0.42


def lifted(rounds):
    forecaster = AlmostOneStepAhead(horizon=rounds, grid="uniform")
    game = play(forecaster, create("bias-lifter", rounds), rounds)
    return forecaster, game.forecasts, game.outcomes


@pytest.mark.parametrize(
    ("rounds", "share"), [(10**4, 0.912), (10**5, 0.948), pytest.param(10**6, 0.970, marks=pytest.mark.slow)]
)
def test_bias_lifter_comes_near_the_bound(rounds, share):
    forecaster, forecasts, outcomes = lifted(rounds)
    m, gained = int(forecaster.memory[1]), float(np.sum(forecasts - outcomes))
    assert gained == pytest.approx(
        rounds / (2 * m) + forecaster.look_ahead.biases.sum() - outcomes.sum() / m, abs=1e-6
    )
    assert share * math.sqrt(rounds) <= gained <= forecaster.certificate <= math.sqrt(rounds)
    assert gained >= math.sqrt(rounds) - math.sqrt(m) * (10 + 4 * math.log(m))


@pytest.mark.parametrize("rounds", [10, 100, 400, 1500])
def test_the_exact_distance_is_at_least_what_is_counted(rounds):
    forecaster, forecasts, outcomes = lifted(rounds)
    distance = calibration_distance(forecasts, outcomes.astype(int), method="exact").exact
    assert np.sum(forecasts - outcomes) - 1e-9 <= distance <= forecaster.certificate + 1e-9
    assert rounds < 100 or distance >= 0.7 * math.sqrt(rounds)
