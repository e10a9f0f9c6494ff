"""The rates of the baselines in games of some length, and what their certificates are worth."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adversaries
from onlinecal import calibration_distance, expected_calibration_error
from onlinecal.forecasters.baselines import (
    ConstantForecaster,
    DriftCorrectedHalf,
    FosterForecaster,
    FosterHartForecaster,
    FosterVohraForecaster,
    LinearOptimisationForecaster,
    MinimaxForecaster,
    PowerOfTwoChoices,
    RunningMean,
)
from simulations.games.duel import play
from tests.forecasters.baselines.games import (
    BASELINES,
    DETERMINISTIC,
    RANDOMISED,
    book,
    in_the_interpreter,
    parameters,
)
from tests.forecasters.configurations import sequences
from tests.properties import examples

TOLERANCE = 1e-9
OPPONENTS = ["coin", "linear-drift", "threshold", "certificate-greedy", "bias-builder"]
MORE_OPPONENTS = ["boundary-hugger", "certificate-greedy:depth=3", "early-stopped-coin", "threshold-sweep"]
named = {"ids": lambda value: getattr(value, "__name__", None)}


@settings(max_examples=examples(50), deadline=None)
@given(st.sampled_from(BASELINES), st.sampled_from([1, 2, 5]), sequences(longest=20))
def test_the_exact_distance_is_below_the_certificate(kind, m, outcomes):
    forecaster = kind(**parameters(kind, m))
    answers = forecaster.replay(outcomes)
    distance = calibration_distance(answers, outcomes, method="exact").exact
    assert distance <= forecaster.certificate + TOLERANCE
    error = expected_calibration_error(answers, outcomes, normalize=False)
    if kind is RunningMean:
        assert forecaster.certificate == pytest.approx(np.abs(answers - outcomes).sum())
        assert error <= forecaster.certificate + TOLERANCE
    else:
        assert forecaster.certificate == pytest.approx(error)


@pytest.mark.parametrize("kind", [*DETERMINISTIC, PowerOfTwoChoices], **named)
def test_every_sequence_of_eight_keeps_the_certificate(kind):
    for outcomes in adversaries.all_sequences(8):
        forecaster = kind(**parameters(kind, 2))
        _, charged, memory = in_the_interpreter(forecaster, outcomes)
        certificate = forecaster.rules.certificate(memory)
        assert calibration_distance(charged, outcomes, method="exact").exact <= certificate + TOLERANCE


def average_ece(kind, opponent, rounds, seeds, **given):
    total = 0.0
    for seed in range(seeds):
        forecaster = kind(horizon=rounds, seed=seed, **given)
        play(forecaster, adversaries.create(opponent, rounds, seed), rounds)
        total += forecaster.certificate
    return total / seeds


BOUNDED = [FosterForecaster, FosterHartForecaster, LinearOptimisationForecaster, MinimaxForecaster]


@pytest.mark.parametrize("opponent", OPPONENTS)
@pytest.mark.parametrize("kind", BOUNDED, **named)
def test_while_draws_are_hidden_the_average_ece_is_within_the_bound(kind, opponent):
    for rounds in (1000, 8000):
        assert average_ece(kind, opponent, rounds, 4) <= kind(horizon=rounds).expected_ece(rounds)


@pytest.mark.slow
@pytest.mark.parametrize("opponent", OPPONENTS + MORE_OPPONENTS)
@pytest.mark.parametrize("kind", [*BOUNDED, FosterVohraForecaster], **named)
def test_the_average_ece_is_of_order_two_thirds(kind, opponent):
    for rounds in (1000, 4000, 20_000):
        seeds = 3 if kind is FosterVohraForecaster else 20
        average = average_ece(kind, opponent, rounds, seeds)
        assert average <= kind(horizon=rounds).expected_ece(rounds)
        assert average <= 1.5 * rounds ** (2 / 3)


@pytest.mark.parametrize("opponent", ["coin", "threshold"])
def test_the_internal_regret_of_foster_vohra_grows_like_the_square_root(opponent):
    m = 8
    for rounds in (500, 2000):
        worst = []
        for seed in range(4):
            forecaster = FosterVohraForecaster(n_cells=m, seed=seed)
            play(forecaster, adversaries.create(opponent, rounds, seed), rounds)
            values, counts, ones = book(forecaster.memory)
            v, w = values[:, None], values[None, :]
            worst.append((counts[:, None] * (v**2 - w**2) - 2 * ones[:, None] * (v - w)).max())
        assert np.mean(worst) <= np.sqrt(m * rounds)


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


def distances(build, rounds, seeds):
    """Distance to calibration against fair coins, seed by seed: upper ends of narrow brackets."""
    found = []
    for seed in range(seeds):
        outcomes = np.random.default_rng([7, seed]).integers(0, 2, rounds, dtype=np.uint8)
        bracket = calibration_distance(build(rounds).replay(outcomes), outcomes, budget=0.05)
        assert bracket.lower >= 0.9 * bracket.upper - 1.0
        found.append(bracket.upper)
    return np.array(found)


def exponent(build, seeds=16, lengths=(10**3, 10**4, 10**5)):
    """The slope of the mean distance over the seeds in logarithms, and its standard error."""
    found = [distances(build, rounds, seeds) for rounds in lengths]
    logs = np.log(lengths)
    share = (logs - logs.mean()) / ((logs - logs.mean()) ** 2).sum()
    slope = sum(s * np.log(d.mean()) for s, d in zip(share, found, strict=True))
    variance = sum(s**2 * d.var(ddof=1) / len(d) / d.mean() ** 2 for s, d in zip(share, found, strict=True))
    return slope, np.sqrt(variance)


def test_against_coins_the_corrected_half_has_exponent_a_third_and_the_constant_a_half():
    slope, error = exponent(DriftCorrectedHalf)
    assert slope <= 1 / 3 + 2 * error
    slope, error = exponent(lambda rounds: ConstantForecaster())
    assert abs(slope - 1 / 2) <= 2 * error


def test_against_coins_the_default_correction_costs_at_most_what_is_proven():
    for rounds in (10**3, 10**4, 10**5):
        step = 0.5 * rounds ** (-1 / 3)
        bound = 2 * rounds * step**2 + 2 * step * np.sqrt(rounds) + (0.25 + step**2) / (2 * step) + 1
        assert distances(DriftCorrectedHalf, rounds, 8).mean() <= bound
        assert bound <= 1.6 * rounds ** (1 / 3)


@pytest.mark.parametrize("step", [0.2, 0.05, 0.01])
def test_against_coins_the_accumulated_error_is_of_order_one_over_epsilon(step):
    rounds, means = 200_000, []
    for seed in range(12):
        outcomes = np.random.default_rng([8, seed]).integers(0, 2, rounds)
        accumulated = np.abs(np.cumsum(DriftCorrectedHalf(epsilon=step).replay(outcomes) - outcomes))
        means.append(accumulated.mean())
        assert accumulated.max() <= np.log(rounds) / step
    error = np.std(means, ddof=1) / np.sqrt(len(means))
    assert np.mean(means) <= (0.25 + step**2) / (2 * step) + 2 * error


def test_the_drift_of_the_correction_is_exact_over_long_games():
    forecaster = DriftCorrectedHalf(epsilon=0.1)
    outcomes = np.random.default_rng(9).integers(0, 2, 3000)
    total, forecasts = 0, forecaster.replay(outcomes)
    for p, y in zip(forecasts, outcomes, strict=True):
        assert p == (0.5 if total == 0 else 0.4 if total > 0 else 0.6)
        total += round(10 * p) - 10 * int(y)


@pytest.mark.parametrize("bias", [0.5, 0.8])
def test_without_drift_the_running_mean_is_within_the_square_root(bias):
    for rounds in (1000, 30_000):
        outcomes = np.random.default_rng(1).random(rounds) < bias
        forecasts = RunningMean().replay(outcomes)
        assert calibration_distance(forecasts, outcomes, budget=0.1).upper <= 2 * np.sqrt(rounds)


def test_answered_at_once_the_running_mean_and_the_constant_are_of_order_t_away():
    rounds = 2000
    duel = play(RunningMean(), adversaries.create("blocks:length=1000"), rounds)
    assert calibration_distance(duel.forecasts, duel.outcomes, budget=0.1).lower >= rounds / 10
    forecasts = ConstantForecaster().replay(np.ones(rounds))
    assert calibration_distance(forecasts, np.ones(rounds)).exact == pytest.approx(rounds / 2)
