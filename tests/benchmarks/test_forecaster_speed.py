"""Replay and duels against numpy.cumsum, one event against river's cheapest classifier."""

from __future__ import annotations

import math

import numpy as np
import pytest
from river import dummy

import adversaries
from onlinecal import AlmostOneStepAhead
from simulations.games.duel import play

ROUNDS = 10**7
DUEL_ROUNDS = 10**6


def stream(kind, rounds=ROUNDS):
    rng = np.random.default_rng(0)
    return {
        "fair coins": lambda: rng.integers(0, 2, rounds, dtype=np.uint8),
        "drift": lambda: (rng.random(rounds) < np.linspace(0, 1, rounds)).astype(np.uint8),
        "alternating": lambda: (np.arange(rounds) % 2).astype(np.uint8),
        "constant": lambda: np.ones(rounds, np.uint8),
    }[kind]()


@pytest.mark.parametrize("kind", ["fair coins", "drift", "alternating", "constant"])
@pytest.mark.parametrize("grid", ["uniform", "adaptive"])
def test_replay_against_cumsum(compare, kind, grid):
    outcomes = stream(kind)
    floats = outcomes.astype(float)
    horizon = ROUNDS if grid == "uniform" else None
    AlmostOneStepAhead(horizon=horizon).replay(outcomes[:10])

    def replay(forecaster):
        forecaster.replay(outcomes)
        assert forecaster.certificate <= math.sqrt(3 * ROUNDS)

    target = "at most 4" if grid == "uniform" else "none stated"
    compare(
        replay,
        lambda: np.cumsum(floats),
        target,
        setup=lambda: (AlmostOneStepAhead(horizon=horizon, grid=grid),),
    )


@pytest.mark.parametrize("chance", ["uniform", "beta", "constant .3"])
@pytest.mark.parametrize("report", ["midpoint", "hint"])
@pytest.mark.parametrize("grid", ["uniform", "adaptive"])
def test_replay_with_honest_hints_against_the_same_without(compare, chance, report, grid):
    rng = np.random.default_rng(0)
    hints = {
        "uniform": lambda: rng.random(ROUNDS),
        "beta": lambda: rng.beta(2, 5, ROUNDS),
        "constant .3": lambda: np.full(ROUNDS, 0.3),
    }[chance]()
    outcomes = (rng.random(ROUNDS) < hints).astype(np.uint8)
    settings = {
        "horizon": ROUNDS if grid == "uniform" else None,
        "slack": 1.0 if report == "hint" else 0.5,
        "report": report,
    }
    AlmostOneStepAhead(**settings, hints=True).replay(outcomes[:10], hints[:10])
    compare(
        lambda forecaster: forecaster.replay(outcomes, hints),
        lambda: AlmostOneStepAhead(**{**settings, "report": "midpoint"}).replay(outcomes),
        "at most 4",
        rounds=1,
        setup=lambda: (AlmostOneStepAhead(**settings, hints=True),),
    )


@pytest.mark.parametrize(
    "adversary",
    ["coin", "threshold", "markov", "bias-builder", "early-stopped-coin", "certificate-greedy"],
)
@pytest.mark.parametrize("grid", ["uniform", "nested", "adaptive"])
def test_duel_against_cumsum(compare, adversary, grid):
    floats = np.random.default_rng(0).random(DUEL_ROUNDS)
    horizon = DUEL_ROUNDS if grid == "uniform" else None

    def players():
        forecaster = AlmostOneStepAhead(horizon=horizon, grid=grid)
        return forecaster, adversaries.create(adversary, DUEL_ROUNDS, seed=1)

    play(*players(), DUEL_ROUNDS)
    compare(
        lambda forecaster, opponent: play(forecaster, opponent, DUEL_ROUNDS),
        lambda: np.cumsum(floats),
        "at most 12",
        setup=players,
    )


@pytest.mark.parametrize("kind", ["fair coins", "drift", "constant"])
@pytest.mark.parametrize("config", [{}, {"horizon": 10**5}, {"grid": "nested"}], ids=str)
def test_one_event_against_the_prior_classifier(compare, kind, config):
    labels = [bool(y) for y in stream(kind, 10**5)]
    x = {}

    def pairs(learner):
        for y in labels:
            learner.predict_proba_one(x)
            learner.learn_one(x, y)

    pairs(AlmostOneStepAhead(**config))
    compare(
        pairs,
        lambda: pairs(dummy.PriorClassifier()),
        "at most 1",
        setup=lambda: (AlmostOneStepAhead(**config),),
    )
