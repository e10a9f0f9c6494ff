"""Each oblivious adversary plays what its definition makes of the draws, for all rounds at once."""

from __future__ import annotations

import numpy as np
import pytest

from onlinecal.adversaries import create

T = 2000
GAPS = np.array([1 / 2, 1 / 4, 3 / 4, 1 / 8, 5 / 8, 3 / 8, 7 / 8])
"""Each falls into the largest gap that those before it leave."""

DEFINITIONS = {
    "coin": lambda t, u: u < 0.5,
    "coin:bias=0": lambda t, u: t < 0,
    "coin:bias=1": lambda t, u: t >= 0,
    "constant": lambda t, u: t < 0,
    "constant:value=1": lambda t, u: t >= 0,
    "alternating": lambda t, u: t % 2,
    "alternating:period=3": lambda t, u: t % 3 == 2,
    "blocks:length=3": lambda t, u: t // 3 % 2,
    "linear-drift": lambda t, u: u < np.minimum(t / (T - 1), 1.0),
    # after the horizon the last bias stays
    "linear-drift:start=0.9,end=0.1": lambda t, u: u < 0.9 - 0.8 * np.minimum(t / (T - 1), 1.0),
    "sinusoidal-drift": lambda t, u: u < 0.5 + 0.4 * np.sin(2 * np.pi * t / 1000),
    "sinusoidal-drift:period=37.5,amplitude=0.3,centre=0.4": lambda t, u: (
        u < 0.4 + 0.3 * np.sin(t * np.pi / 18.75)
    ),
    "flip": lambda t, u: u < np.where(t < T / 2, 0.8, 0.2),
    "flip:bias=0.3": lambda t, u: u < np.where(t < T / 2, 0.3, 0.7),
    "epochs:number=7": lambda t, u: u < GAPS[np.minimum(t * 7 // T, 6)],
    "epochs:number=1": lambda t, u: u < 0.5,
}


@pytest.mark.parametrize("spec", DEFINITIONS)
def test_the_outcomes_are_those_of_the_definition(spec):
    rounds = 3 * T
    outcomes = create(spec, horizon=T, seed=7).outcomes(rounds)
    draws = np.random.default_rng(7).random(rounds)
    assert outcomes.tolist() == DEFINITIONS[spec](np.arange(rounds), draws).astype(int).tolist()


def test_a_flip_half_way_through_an_odd_horizon_comes_after_the_smaller_half():
    assert create("flip:bias=1", horizon=5).outcomes().tolist() == [1, 1, 0, 0, 0]


@pytest.mark.parametrize("horizon, changes", [(100, 10), (101, 7), (20, 19), (50, 0)])
def test_change_points_change_exactly_as_often_as_asked(horizon, changes):
    (phase,) = create(f"change-points:changes={changes}", horizon=horizon).phases
    biases = []
    for t, u in enumerate(np.random.default_rng(4).random(horizon)):
        phase.step(phase.state, t, 0.5, 0.0, 0.0, u)
        biases.append(phase.state[3])
    moves = np.flatnonzero(np.diff(biases)) + 1
    assert len(moves) == changes
    lengths = np.diff([0, *moves, horizon])
    assert lengths.max() - lengths.min() <= 1


def test_change_points_draw_a_uniform_bias_and_keep_to_it():
    spacing, segments, biases = 100, 1000, []
    adversary = create(f"change-points:spacing={spacing}", seed=5)
    (phase,), draws = adversary.phases, np.random.default_rng(5).random(spacing * segments)
    for t in range(0, spacing * segments, spacing):
        phase.step(phase.state, t, 0.5, 0.0, 0.0, draws[t])
        biases.append(phase.state[3])
    assert np.abs(np.sort(biases) - (np.arange(segments) + 0.5) / segments).max() < 1.63 / np.sqrt(segments)
    errors = adversary.outcomes(spacing * segments).reshape(segments, spacing) - np.array(biases)[:, None]
    assert np.abs(errors.mean(axis=1)).max() < 5 * np.sqrt(0.25 / spacing)
    # the draw that gave a bias tells nothing of the first outcome under it
    assert abs(errors[:, 0].mean()) < 4 * np.sqrt(1 / 6 / segments)
    assert abs(np.corrcoef(errors[:, 0], biases)[0, 1]) < 4 / np.sqrt(segments)


@pytest.mark.parametrize("stay", [0.0, 0.3, 0.9, 1.0])
def test_a_markov_chain_stays_where_the_draw_says_and_begins_with_a_fair_coin(stay):
    for seed in range(4):
        outcomes = create(f"markov:stay={stay}", seed=seed).outcomes(T)
        draws = np.random.default_rng(seed).random(T)
        # a first round that "stays" plays 0
        assert outcomes[0] == (draws[0] >= 0.5)
        assert ((outcomes[1:] == outcomes[:-1]) == (draws[1:] < stay)).all()
