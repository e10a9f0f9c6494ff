"""The defining property of the adversaries that play in epochs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adversaries import create


@given(
    st.lists(st.floats(0.0, 1.0), min_size=1, max_size=300),
    st.integers(0, 100),
    st.sampled_from([None, 1, 2, 3]),
    st.sampled_from([0.25, 0.5, 0.8]),
)
def test_bisection_moves_the_truth_to_where_the_forecasts_cannot_be_paid_back(
    forecasts, seed, depth, exponent
):
    T = len(forecasts)
    length = max(round(T**exponent), 1)
    settings = f"exponent={exponent}" + (f",depth={depth}" if depth else "")
    adversary = create(f"bisection:{settings}", horizon=T, seed=seed)
    uniforms = np.random.default_rng(seed).random(T)
    low, high = 0.0, 1.0
    for epoch, first in enumerate(range(0, T, length)):
        if depth and epoch % depth == 0:
            low, high = 0.0, 1.0
        middle = (low + high) / 2
        bias = 0.0
        for t in range(first, min(first + length, T)):
            outcome = adversary.outcome(forecasts[t])
            assert outcome == int(uniforms[t] < middle)
            bias += outcome - forecasts[t]
        low, high = (middle, high) if bias > 0 else (low, middle)


def test_bisection_runs_away_from_a_constant_forecast_that_is_too_low():
    T = 10_000
    adversary = create("bisection", horizon=T, seed=1)
    outcomes = np.array([adversary.outcome(0.1) for _ in range(T)])
    length = round(T**0.8)
    shares = [outcomes[first : first + length].mean() for first in range(0, T, length)]
    expected = [1 - 0.5 ** (j + 1) for j in range(len(shares))]
    assert np.abs(np.subtract(shares, expected)).max() < 4 * 0.5 / np.sqrt(T - 6 * length)


def test_an_epoch_lasts_at_least_one_round_and_at_most_the_game():
    (shortest,) = create("bisection:scale=0", horizon=50).phases
    (longest,) = create("bisection:scale=1e300", horizon=50).phases
    assert (shortest.state[0], longest.state[0]) == (1.0, 50.0)


def test_the_truths_of_epochs_fall_into_the_largest_gaps():
    (phase,) = create("epochs:number=7", horizon=70).phases
    assert phase.state[2:].tolist() == [1 / 2, 1 / 4, 3 / 4, 1 / 8, 5 / 8, 3 / 8, 7 / 8]


@pytest.mark.parametrize("number", [1, 3, 15, 40])
def test_each_epoch_is_a_coin_with_its_own_truth(number):
    T = number * 2000
    outcomes = create(f"epochs:number={number}", horizon=T, seed=3).outcomes()
    (phase,) = create(f"epochs:number={number}", horizon=T).phases
    shares = outcomes.reshape(number, -1).mean(axis=1)
    assert np.abs(shares - phase.state[2:]).max() < 4.5 * 0.5 / np.sqrt(2000)
    assert (outcomes == (np.random.default_rng(3).random(T) < phase.state[2:].repeat(2000))).all()


def test_after_the_last_epoch_its_coin_goes_on():
    outcomes = create("epochs:number=3", horizon=30, seed=4).outcomes(3000)
    assert abs(outcomes[30:].mean() - 0.75) < 0.04
