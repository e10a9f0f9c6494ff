"""What is learnt online, as ratios: replays, duels, one event, several classes, hints, wrappers."""

import math

import numpy as np
import pytest
from river import dummy, linear_model

import adversaries
from onlinecal import AlmostOneStepAhead, CalibratedClassifier, SimplexAlmostOneStepAhead, recalibrate_stream
from simulations.games.duel import play
from tests.benchmarks.conftest import sort_million

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

    compare(
        replay,
        lambda: np.cumsum(floats),
        {"uniform": 5, "adaptive": 9}[grid],
        setup=lambda: (AlmostOneStepAhead(horizon=horizon, grid=grid),),
    )


@pytest.mark.parametrize("kind", ["fair coins", "drift", "alternating", "constant"])
@pytest.mark.parametrize("grid", ["graded", "nested"])
def test_replay_on_uneven_grids_against_the_uniform_one(compare, kind, grid):
    """What is found in a table takes as long, wherever its points are; some rounds more at a doubling."""
    outcomes = stream(kind, 3 * 10**6)
    known = {"horizon": len(outcomes)}
    settings = known if grid == "graded" else {}
    AlmostOneStepAhead(grid=grid, **settings).replay(outcomes[:10])
    compare(
        lambda forecaster: forecaster.replay(outcomes),
        lambda: AlmostOneStepAhead(grid="uniform", **known).replay(outcomes),
        rounds=25,
        setup=lambda: (AlmostOneStepAhead(grid=grid, **settings),),
        at_most=1.3,
    )


@pytest.mark.parametrize("grid", ["graded", "nested"])
def test_one_event_on_uneven_grids_against_one_on_the_uniform_one(compare, grid):
    labels = [bool(y) for y in stream("fair coins", 10**5)]

    def pairs(learner):
        for y in labels:
            learner.predict_proba_one({})
            learner.learn_one({}, y)

    settings = {"horizon": 10**5} if grid == "graded" else {}
    pairs(AlmostOneStepAhead(grid=grid, **settings))
    compare(
        pairs,
        lambda: pairs(AlmostOneStepAhead(grid="uniform", horizon=10**5)),
        rounds=10,
        setup=lambda: (AlmostOneStepAhead(grid=grid, **settings),),
        at_most=1.1,
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
        6,
        rounds=3,
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
        18,
        rounds=15,
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
        1.5,
        setup=lambda: (AlmostOneStepAhead(**config),),
    )


SIMPLEX_ROUNDS = 10**6


def drifting(k):
    rng = np.random.default_rng(0)
    return np.concatenate(
        [rng.choice(k, 50, p=rng.dirichlet(np.ones(k))) for _ in range(SIMPLEX_ROUNDS // 50)]
    )


@pytest.mark.parametrize(("k", "m"), [(2, 1000), (3, 100), (4, 30), (8, 4)])
def test_simplex_replay_against_the_binary_one(compare, k, m):
    outcomes, binary = drifting(k), drifting(2)
    SimplexAlmostOneStepAhead(k, n_cells=m).replay(outcomes[:10])
    compare(
        lambda forecaster: forecaster.replay(outcomes),
        lambda: AlmostOneStepAhead(n_cells=1000).replay(binary),
        # a binary round takes some 9 ns where a round of three classes is to take .4 us
        {2: 60, 3: 60, 4: 120, 8: 180}[k],
        rounds=3,
        setup=lambda: (SimplexAlmostOneStepAhead(k, n_cells=m),),
    )


def hinted_stream(kind):
    """Hints (T, 3) and outcomes: chances that wander or jump and are true, or jump and say nothing."""
    rng, t = np.random.default_rng(1), np.arange(SIMPLEX_ROUNDS // 10)[:, None]
    jumping = rng.dirichlet(np.ones(3), len(t))
    wandering = 1.2 + np.sin(t / np.array([5000, 3777, 2911]) + np.arange(3))
    wandering /= wandering.sum(axis=1, keepdims=True)
    hints = wandering if kind == "wandering" else jumping
    chances = rng.dirichlet(np.ones(3), len(t)) if kind == "false" else hints
    return hints, (rng.random((len(t), 1)) > chances.cumsum(axis=1)[:, :-1]).sum(axis=1)


@pytest.mark.parametrize("slack", [None, 1.0])
@pytest.mark.parametrize("kind", ["wandering", "jumping", "false"])
def test_hints_against_none(compare, kind, slack):
    outcomes, (hints, hinted_outcomes) = drifting(3)[: SIMPLEX_ROUNDS // 10], hinted_stream(kind)
    SimplexAlmostOneStepAhead(3, n_cells=100, slack=slack, hints=True).replay(outcomes[:9], hints[:9])
    compare(
        lambda forecaster: forecaster.replay(hinted_outcomes, hints),
        lambda: SimplexAlmostOneStepAhead(3, n_cells=100).replay(outcomes),
        6,
        setup=lambda: (SimplexAlmostOneStepAhead(3, n_cells=100, slack=slack, hints=True),),
    )


MODELS = {
    "LogisticRegression": linear_model.LogisticRegression,
    "PriorClassifier": dummy.PriorClassifier,
}


def coins(count=100_000):
    rng = np.random.default_rng(0)
    return [
        ({"a": a}, bool(y)) for a, y in zip(rng.random(count).tolist(), rng.random(count) < 0.4, strict=True)
    ]


COINS = coins()


def wrapped_pairs(model):
    for x, y in COINS:
        model.predict_proba_one(x)
        model.learn_one(x, y)


@pytest.mark.parametrize("settings", [{}, {"n_buckets": 10}], ids=["plain", "ten buckets"])
@pytest.mark.parametrize("name", MODELS)
def test_the_wrapper_against_the_prior_classifier(compare, name, settings):
    build = MODELS[name]
    wrapped_pairs(CalibratedClassifier(build(), **settings))
    compare(
        lambda: wrapped_pairs(CalibratedClassifier(build(), **settings)),
        lambda: wrapped_pairs(dummy.PriorClassifier()),
        6 if settings else 4,
        less=lambda: wrapped_pairs(build()),
    )


@pytest.mark.parametrize(("late", "n_groups", "at_most"), [(0, 1, 100), (100, 1, 100), (0, 20_000, 300)])
def test_a_million_rows_of_a_column(compare, late, n_groups, at_most):
    rng = np.random.default_rng(0)
    p = rng.random(10**6)
    y, settled_at = rng.random(10**6) < p**1.5, np.arange(10**6) // (late + 1) * (late + 1) + late
    groups = rng.integers(0, n_groups, 10**6) if n_groups > 1 else None
    recalibrate_stream(p[:300], y[:300])
    compare(lambda: recalibrate_stream(p, y, settled_at, groups=groups), sort_million, at_most, rounds=2)
