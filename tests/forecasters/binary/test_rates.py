"""How the self-tuning grid grows, and that no forecaster with a horizon can be promised less (Theorem 19)."""

import math

import numpy as np
import pytest

from adversaries import create
from adversaries.kinds.adaptive import best_bias
from onlinecal import AlmostOneStepAhead, calibration_distance
from simulations.games.duel import play

ROUNDS = (10**4, 10**5, 10**6, 10**7)


def certificates(outcomes, rounds):
    forecaster = AlmostOneStepAhead()
    values, start = [], 0
    for t in rounds:
        forecaster.replay(outcomes[start:t])
        values.append(forecaster.certificate)
        start = t
    return values


def test_on_coins_the_certificate_grows_with_an_exponent_of_at_most_042():
    values = [
        certificates(np.random.default_rng(seed).integers(0, 2, ROUNDS[-1], dtype=np.uint8), ROUNDS)
        for seed in range(3)
    ]
    exponent = np.polyfit(np.log(ROUNDS), np.log(np.mean(values, axis=0)), 1)[0]
    assert exponent <= 0.42


@pytest.mark.parametrize(
    "kind", ["coins then blocks", "constant then drift", "alternating then change points"]
)
def test_a_world_that_turns_nasty_half_way_stays_below_the_guarantee(kind):
    half = 200_000
    rng = np.random.default_rng(7)
    benign, nasty = {
        "coins then blocks": (rng.random(half) < 0.5, np.arange(half) // 700 % 2 == 1),
        "constant then drift": (np.ones(half, bool), rng.random(half) < np.linspace(0, 1, half)),
        "alternating then change points": (
            np.arange(half) % 2 == 1,
            rng.random(half) < np.repeat(rng.random(half // 1000), 1000),
        ),
    }[kind]
    forecaster = AlmostOneStepAhead()
    for part in np.array_split(np.concatenate([benign, nasty]), 400):
        forecaster.replay(part)
        assert forecaster.certificate <= forecaster.guarantee <= np.sqrt(3 * forecaster.n_rounds)


@pytest.mark.parametrize("bias", [0.5, 0.3, 0.9])
def test_on_coins_it_beats_the_nested_grid(bias):
    outcomes = np.random.default_rng(3).random(10**5) < bias
    adaptive, nested = AlmostOneStepAhead(grid="adaptive"), AlmostOneStepAhead(grid="nested")
    adaptive.replay(outcomes)
    nested.replay(outcomes)
    assert adaptive.certificate < 0.8 * nested.certificate


def lifted(rounds):
    forecaster = AlmostOneStepAhead(horizon=rounds, grid="uniform")
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
