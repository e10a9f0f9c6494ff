"""The rates of the baselines in games of some length, and what their certificates are worth."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal import adversaries, calibration_distance, expected_calibration_error
from onlinecal.forecasters import baselines
from onlinecal.simulations.games.duel import play
from tests.forecasters.baselines.games import BASELINES, DETERMINISTIC, RANDOMISED, parameters
from tests.forecasters.configurations import sequences
from tests.properties import examples

TOLERANCE = 1e-9
OPPONENTS = ["coin", "linear-drift", "threshold", "certificate-greedy", "bias-builder"]
named = {"ids": lambda value: getattr(value, "__name__", None)}


@settings(max_examples=examples(50), deadline=None)
@given(st.sampled_from(BASELINES), st.sampled_from([1, 2, 5]), sequences(longest=20))
def test_the_exact_distance_is_below_the_certificate(kind, m, outcomes):
    forecaster = kind(**parameters(kind, m))
    answers = forecaster.replay(outcomes)
    distance = calibration_distance(answers, outcomes, method="exact").exact
    assert distance <= forecaster.certificate + TOLERANCE
    error = expected_calibration_error(answers, outcomes, normalize=False)
    if kind is baselines.RunningMean:
        assert forecaster.certificate == pytest.approx(np.abs(answers - outcomes).sum())
        assert error <= forecaster.certificate + TOLERANCE
    else:
        assert forecaster.certificate == pytest.approx(error)


@pytest.mark.parametrize("opponent", OPPONENTS)
@pytest.mark.parametrize("kind", RANDOMISED, **named)
@pytest.mark.parametrize("longest", [1000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_hidden_draws_have_a_small_average_ece(kind, opponent, longest):
    for rounds in {1000, longest}:
        found = []
        for seed in range(3 if kind is baselines.FosterVohraForecaster or longest == 1000 else 20):
            forecaster = kind(horizon=rounds, seed=seed)
            play(forecaster, adversaries.create(opponent, rounds, seed=seed), rounds)
            found.append(forecaster.certificate)
        assert np.mean(found) <= min(forecaster.expected_ece(rounds), 1.5 * rounds ** (2 / 3))


@pytest.mark.parametrize("kind", BASELINES, **named)
def test_the_threshold_makes_every_error_count_unless_a_draw_is_hidden(kind):
    rounds = 1000
    forecaster = kind(**(parameters(kind) | ({} if kind in DETERMINISTIC else {"horizon": rounds})))
    duel = play(forecaster, adversaries.create("threshold"), rounds, draw="seen")
    error = expected_calibration_error(duel.forecasts, duel.outcomes, normalize=False)
    assert error == pytest.approx(np.abs(duel.forecasts - duel.outcomes).sum())
    assert error >= rounds / 2
    if kind in RANDOMISED:
        hidden = kind(horizon=rounds)
        play(hidden, adversaries.create("threshold"), rounds)
        assert hidden.certificate < rounds / 4


@pytest.mark.parametrize("most", [10**4, pytest.param(10**5, marks=pytest.mark.slow)])
def test_against_coins_the_default_correction_costs_at_most_what_is_proven(most):
    for rounds in (10**3, most):
        step, found = 0.5 * rounds ** (-1 / 3), []
        bound = 2 * rounds * step**2 + 2 * step * np.sqrt(rounds) + (0.25 + step**2) / (2 * step) + 1
        for seed in range(6):
            outcomes = np.random.default_rng([7, seed]).integers(0, 2, rounds, dtype=np.uint8)
            forecasts = baselines.DriftCorrectedHalf(rounds).replay(outcomes)
            found.append(calibration_distance(forecasts, outcomes, budget=0.05).upper)
        assert np.mean(found) <= bound <= 1.6 * rounds ** (1 / 3)


@pytest.mark.parametrize("step", [0.2, 0.01])
def test_against_coins_the_accumulated_error_is_of_order_one_over_epsilon(step):
    rounds, means = 200_000, []
    for seed in range(8):
        outcomes = np.random.default_rng([8, seed]).integers(0, 2, rounds)
        accumulated = np.abs(
            np.cumsum(baselines.DriftCorrectedHalf(epsilon=step).replay(outcomes) - outcomes)
        )
        means.append(accumulated.mean())
        assert accumulated.max() <= np.log(rounds) / step
    error = np.std(means, ddof=1) / np.sqrt(len(means))
    assert np.mean(means) <= (0.25 + step**2) / (2 * step) + 2 * error


def test_the_drift_of_the_correction_is_exact_over_long_games():
    outcomes, total = np.random.default_rng(9).integers(0, 2, 3000), 0
    for p, y in zip(baselines.DriftCorrectedHalf(epsilon=0.1).replay(outcomes), outcomes, strict=True):
        assert p == (0.5 if total == 0 else 0.4 if total > 0 else 0.6)
        total += round(10 * p) - 10 * int(y)


def test_running_mean_and_constant_are_near_where_nothing_drifts_and_of_order_t_away_if_answered():
    rounds = 2000
    outcomes = np.random.default_rng(1).random(15 * rounds) < 0.8
    forecasts = baselines.RunningMean().replay(outcomes)
    assert calibration_distance(forecasts, outcomes, budget=0.1).upper <= 2 * np.sqrt(15 * rounds)
    drift = np.repeat([0, 1], rounds // 2)
    for forecaster in (baselines.RunningMean(), baselines.UCalibratedForecaster(rounds)):
        assert calibration_distance(forecaster.replay(drift), drift, budget=0.1).lower >= rounds / 10
    forecasts = baselines.ConstantForecaster().replay(np.ones(rounds))
    assert calibration_distance(forecasts, np.ones(rounds)).exact == pytest.approx(rounds / 2)
