"""Theorem 7 is tight: what bias-lifter reaches, and each number of the proof that it does so in the limit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from adversaries import create
from adversaries.kinds.adaptive import best_bias
from onlinecal import AlmostOneStepAhead, calibration_distance
from simulations.games.duel import play


def lifted(rounds):
    forecaster = AlmostOneStepAhead(horizon=rounds)
    game = play(forecaster, create("bias-lifter", rounds), rounds)
    return forecaster, game.forecasts, game.outcomes


@pytest.mark.parametrize(
    ("rounds", "share"), [(10**4, 0.912), (10**5, 0.948), (10**6, 0.970), (10**7, 0.982)]
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


def dirichlet(j, m, most):
    """The least q <= Q with a fraction p/q within 1/(q (Q + 1)) of j/m, in whole numbers."""
    return next(q for q in range(1, most + 1) if abs(q * j - m * round(q * j / m)) * (most + 1) <= m)


@pytest.mark.parametrize("m", [40, 41, 97, 100, 360, 499])
def test_no_point_misses_more_than_the_proof_says(m):
    most, high = math.isqrt(m - 1) + 1, m // 2
    worst = rounds = 0.0
    for j in range(1, m):
        q = dirichlet(j, m, most)
        allowed = min(j / m, 3 / q + most / m)
        if j * 2 * math.sqrt(m) < m:
            allowed = j / m
        # every bias with which the point may be the lower end: it accepts 0 then
        missing = charges_most = 0.0
        for start in range(-high, high - j + 1):
            aim, bias, ones, charges, upper = best_bias(m, j, start), start, 0, 0, False
            while not (upper and bias >= aim):
                if upper:
                    bias, ones = bias - (m - j), ones + 1
                    upper = bias + j >= m - high
                else:
                    bias += j
                    upper = bias + j > high
                charges += 1
            assert abs(bias) <= high
            missing = max(missing, 0.5 - (bias - ones) / m)
            charges_most = max(charges_most, charges)
        assert missing <= allowed + 1e-12
        assert charges_most <= max(4 * math.sqrt(m) + 1, m / j + 1)
        worst, rounds = worst + missing, rounds + charges_most
    climb = 0.5 * (1 + math.log(m))
    assert worst <= 6 * m * (1 + math.log(most)) / (most + 1) + 4 * most + 0.25
    assert rounds + m * climb <= (m - 1) ** 2
