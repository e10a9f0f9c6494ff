"""The defining property of each oblivious adversary."""

from __future__ import annotations

import numpy as np
import pytest

from adversaries import create

T = 20_000


def draws(seed, T=T):
    return np.random.default_rng(seed).random(T)


@pytest.mark.parametrize("bias", [0.0, 0.2, 0.5, 1.0])
def test_a_coin_shows_ones_as_often_as_its_bias_says(bias):
    outcomes = create(f"coin:bias={bias}", seed=1).outcomes(T)
    assert (outcomes == (draws(1) < bias)).all()
    assert abs(outcomes.mean() - bias) <= 4 * np.sqrt(bias * (1 - bias) / T)


@pytest.mark.parametrize("value", [0, 1])
def test_constant_never_changes(value):
    assert (create(f"constant:value={value}").outcomes(50) == value).all()


def test_alternating_ends_every_period_with_a_one():
    assert create("alternating").outcomes(6).tolist() == [0, 1, 0, 1, 0, 1]
    assert create("alternating:period=3").outcomes(7).tolist() == [0, 0, 1, 0, 0, 1, 0]


def test_blocks_are_runs_of_the_given_length():
    assert create("blocks:length=3").outcomes(10).tolist() == [0, 0, 0, 1, 1, 1, 0, 0, 0, 1]


def test_linear_drift_goes_from_start_to_end_and_stays_there():
    adversary = create("linear-drift:start=0.9,end=0.1", horizon=T, seed=2)
    outcomes = adversary.outcomes(2 * T)
    bias = 0.9 - 0.8 * np.arange(T) / (T - 1)
    assert (outcomes[:T] == (draws(2) < bias)).mean() > 0.9999
    tenths = outcomes[:T].reshape(10, -1).mean(axis=1)
    assert np.abs(tenths - bias.reshape(10, -1).mean(axis=1)).max() < 0.05
    assert abs(outcomes[T:].mean() - 0.1) < 0.02


def test_linear_drift_starts_and_ends_exactly():
    for seed in range(20):
        outcomes = create("linear-drift", horizon=7, seed=seed).outcomes()
        assert outcomes[0] == 0
        assert outcomes[-1] == 1


def test_sinusoidal_drift_swings_around_its_centre():
    outcomes = create("sinusoidal-drift:period=400,amplitude=0.3,centre=0.4", seed=3).outcomes(400 * 100)
    profile = outcomes.reshape(100, 8, 50).mean(axis=(0, 2))
    expected = 0.4 + 0.3 * np.sin(2 * np.pi * np.arange(400) / 400)
    assert np.abs(profile - expected.reshape(8, 50).mean(axis=1)).max() < 0.03
    assert abs(outcomes.mean() - 0.4) < 0.01


@pytest.mark.parametrize("T, changes", [(100, 10), (101, 7), (20, 19), (50, 0)])
def test_change_points_change_exactly_as_often_as_asked(T, changes):
    (phase,) = create(f"change-points:changes={changes}", horizon=T).phases
    biases = []
    for t, u in enumerate(draws(4, T)):
        phase.step(phase.state, t, 0.5, 0.0, 0.0, u)
        biases.append(phase.state[3])
    moves = np.flatnonzero(np.diff(biases)) + 1
    assert len(moves) == changes
    lengths = np.diff([0, *moves, T])
    assert lengths.max() - lengths.min() <= 1


def test_change_points_draw_a_uniform_bias_and_keep_to_it():
    spacing, segments = 400, 2000
    (phase,) = create(f"change-points:spacing={spacing}").phases
    uniforms = draws(5, spacing * segments)
    outcomes = create(f"change-points:spacing={spacing}", seed=5).outcomes(spacing * segments)
    biases = []
    for t in range(0, spacing * segments, spacing):
        phase.step(phase.state, t, 0.5, 0.0, 0.0, uniforms[t])
        biases.append(phase.state[3])
    biases = np.array(biases)
    quantiles = (np.arange(segments) + 0.5) / segments
    assert np.abs(np.sort(biases) - quantiles).max() < 1.63 / np.sqrt(segments)
    by_segment = outcomes.reshape(segments, spacing)
    errors = by_segment.mean(axis=1) - biases
    assert np.abs(errors).max() < 5 * np.sqrt(0.25 / spacing)
    first_errors = by_segment[:, 0] - biases
    assert abs(first_errors.mean()) < 4 * np.sqrt(1 / 6 / segments)
    assert abs(np.corrcoef(first_errors, biases)[0, 1]) < 4 / np.sqrt(segments)


def test_flip_is_a_coin_and_then_its_opposite():
    outcomes = create("flip:bias=0.75", horizon=T, seed=6).outcomes()
    two_coins = create("two-phase:first=coin:bias=0.75,second=coin:bias=0.25", horizon=T, seed=6).outcomes()
    assert (outcomes == two_coins).all()
    assert abs(outcomes[: T // 2].mean() - 0.75) < 0.02
    assert abs(outcomes[T // 2 :].mean() - 0.25) < 0.02


@pytest.mark.parametrize("stay", [0.0, 0.3, 0.95, 1.0])
def test_a_markov_chain_stays_as_often_as_it_should(stay):
    outcomes = create(f"markov:stay={stay}", seed=7).outcomes(T)
    stays = outcomes[1:] == outcomes[:-1]
    assert abs(stays.mean() - stay) <= 4 * np.sqrt(stay * (1 - stay) / T)


def test_a_markov_chain_begins_with_a_fair_coin():
    first = [create("markov:stay=1", seed=seed).outcome() for seed in range(400)]
    assert abs(np.mean(first) - 0.5) < 0.1
