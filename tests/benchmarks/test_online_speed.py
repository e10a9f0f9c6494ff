"""What is learnt online, as ratios: replays, duels, one event, several classes, hints, wrappers."""

import math

import numpy as np
import pytest
from river import dummy, linear_model

from onlinecal import (
    AlmostOneStepAhead,
    CalibratedClassifier,
    SimplexAlmostOneStepAhead,
    adversaries,
    recalibrate_stream,
)
from onlinecal.simulations.games.duel import play
from tests.benchmarks.conftest import sort_million

ROUNDS, DUEL_ROUNDS, EVENTS = 10**7, 10**6, 10**5
RNG = np.random.default_rng
STREAMS = {
    "fair coins": lambda n: RNG(0).integers(0, 2, n, dtype=np.uint8),
    "drift": lambda n: (RNG(0).random(n) < np.linspace(0, 1, n)).astype(np.uint8),
    "alternating": lambda n: (np.arange(n) % 2).astype(np.uint8),
    "constant": lambda n: np.ones(n, np.uint8),
}


def settings_of(grid, rounds):
    """Of a forecaster on this grid: the uniform and the graded one need to know T."""
    return {"horizon": rounds, "grid": grid} if grid in ("uniform", "graded") else {"grid": grid}


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize(
    ("grid", "rounds", "against", "at_most"),
    [
        ("uniform", ROUNDS, "cumsum", 5),
        ("adaptive", ROUNDS, "cumsum", 9),
        ("graded", 3 * 10**6, "uniform", 1.3),
        ("nested", 3 * 10**6, "uniform", 1.3),
    ],
)
def test_replay_against_cumsum_and_the_uniform_grid(compare, kind, grid, rounds, against, at_most):
    """What is found in a table takes as long, wherever its points are; some rounds more at a doubling."""
    outcomes, settings = STREAMS[kind](rounds), settings_of(grid, rounds)
    floats = outcomes.astype(float)
    AlmostOneStepAhead(**settings).replay(outcomes[:10])

    def replay(forecaster):
        forecaster.replay(outcomes)
        assert forecaster.certificate <= math.sqrt(3 * rounds) or against == "uniform"

    def baseline():
        if against == "cumsum":
            np.cumsum(floats)
        else:
            AlmostOneStepAhead(**settings_of("uniform", rounds)).replay(outcomes)

    setup = lambda: (AlmostOneStepAhead(**settings),)  # noqa: E731
    compare(replay, baseline, at_most, rounds=7 if against == "cumsum" else 25, setup=setup)


def one_by_one(learner, rounds):
    for x, y in rounds:
        learner.predict_proba_one(x)
        learner.learn_one(x, y)


def uniform():
    return AlmostOneStepAhead(**settings_of("uniform", EVENTS))


@pytest.mark.parametrize(
    ("kind", "settings", "other", "at_most"),
    [
        *(
            (kind, settings, dummy.PriorClassifier, 1.5)
            for kind in ("fair coins", "drift", "constant")
            for settings in ({}, {"horizon": EVENTS}, {"grid": "nested"})
        ),
        *(("fair coins", settings_of(grid, EVENTS), uniform, 1.1) for grid in ("graded", "nested")),
    ],
)
def test_one_event_against_others(compare, kind, settings, other, at_most):
    rounds = [({}, bool(y)) for y in STREAMS[kind](EVENTS)]
    one_by_one(AlmostOneStepAhead(**settings), rounds)
    compare(
        lambda forecaster: one_by_one(forecaster, rounds),
        lambda: one_by_one(other(), rounds),
        at_most,
        rounds=10,
        setup=lambda: (AlmostOneStepAhead(**settings),),
    )


HINTS = {
    "uniform": lambda: RNG(0).random(ROUNDS),
    "beta": lambda: RNG(0).beta(2, 5, ROUNDS),
    "constant .3": lambda: np.full(ROUNDS, 0.3),
}


@pytest.mark.parametrize("chance", HINTS)
@pytest.mark.parametrize("report", ["midpoint", "hint"])
@pytest.mark.parametrize("grid", ["uniform", "adaptive"])
def test_replay_with_honest_hints_against_the_same_without(compare, chance, report, grid):
    hints = HINTS[chance]()
    outcomes = (RNG(1).random(ROUNDS) < hints).astype(np.uint8)
    settings = settings_of(grid, ROUNDS) | {"slack": 1.0 if report == "hint" else 0.5, "report": report}
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
    floats = RNG(0).random(DUEL_ROUNDS)

    def players():
        forecaster = AlmostOneStepAhead(**settings_of(grid, DUEL_ROUNDS))
        return forecaster, adversaries.create(adversary, DUEL_ROUNDS, seed=1)

    play(*players(), DUEL_ROUNDS)
    compare(
        lambda forecaster, opponent: play(forecaster, opponent, DUEL_ROUNDS),
        lambda: np.cumsum(floats),
        18,
        rounds=15,
        setup=players,
    )


SIMPLEX_ROUNDS = 10**6


def drifting(k):
    rng = RNG(0)
    parts = (rng.choice(k, 50, p=rng.dirichlet(np.ones(k))) for _ in range(SIMPLEX_ROUNDS // 50))
    return np.concatenate([*parts])


# a binary round takes some 9 ns where a round of three classes is to take .4 us
@pytest.mark.parametrize(("k", "m", "at_most"), [(2, 1000, 60), (3, 100, 60), (4, 30, 120), (8, 4, 180)])
def test_simplex_replay_against_the_binary_one(compare, k, m, at_most):
    outcomes, binary = drifting(k), drifting(2)
    SimplexAlmostOneStepAhead(k, n_cells=m).replay(outcomes[:10])
    compare(
        lambda forecaster: forecaster.replay(outcomes),
        lambda: AlmostOneStepAhead(n_cells=1000).replay(binary),
        at_most,
        rounds=3,
        setup=lambda: (SimplexAlmostOneStepAhead(k, n_cells=m),),
    )


def hinted_stream(kind):
    """Hints (T, 3) and outcomes: chances that wander or jump and are true, or jump and say nothing."""
    rng, t = RNG(1), np.arange(SIMPLEX_ROUNDS // 10)[:, None]
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


@pytest.mark.parametrize("settings", [{}, {"n_buckets": 10}], ids=["plain", "ten buckets"])
@pytest.mark.parametrize("build", [linear_model.LogisticRegression, dummy.PriorClassifier])
def test_the_wrapper_against_the_prior_classifier(compare, build, settings):
    a, y = RNG(0).random((2, EVENTS))
    rounds = [({"a": one}, other < 0.4) for one, other in zip(a.tolist(), y.tolist(), strict=True)]
    one_by_one(CalibratedClassifier(build(), **settings), rounds)
    compare(
        lambda: one_by_one(CalibratedClassifier(build(), **settings), rounds),
        lambda: one_by_one(dummy.PriorClassifier(), rounds),
        6 if settings else 4,
        less=lambda: one_by_one(build(), rounds),
    )


@pytest.mark.parametrize(("late", "n_groups", "at_most"), [(0, 1, 30), (100, 1, 34), (0, 20_000, 120)])
def test_a_million_rows_of_a_column(compare, late, n_groups, at_most):
    p, u = RNG(0).random((2, 10**6))
    y, settled_at = u < p**1.5, np.arange(10**6) // (late + 1) * (late + 1) + late
    groups = RNG(1).integers(0, n_groups, 10**6) if n_groups > 1 else None
    recalibrate_stream(p[:300], y[:300])
    compare(
        lambda: recalibrate_stream(p, y, settled_at=settled_at, groups=groups),
        sort_million,
        at_most,
        rounds=2,
    )
