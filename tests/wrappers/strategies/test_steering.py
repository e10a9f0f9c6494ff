"""Steering keeps its bounds, buckets pay, and a long stream stays small."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal.wrappers.strategies import steering
from onlinecal.wrappers.strategies.projection import Projection
from onlinecal.wrappers.strategies.steering import ANSWERS, COUNTS, INTERCEPT, N_BINS, SLOPE, SUMS, WEIGHTS

PROBABILITIES = st.floats(0, 1)


def steered(rounds):
    """Squared errors of the mixture, shape (T,), and of the three maps, shape (T, 3)."""
    state = steering.new_steering()
    mixed, maps = [], []
    for p, outcome in rounds:
        mixed.append((steering.steer(state, p) - outcome) ** 2)
        maps.append((state[ANSWERS : ANSWERS + 3] - outcome) ** 2)
        steering.learn(state, outcome)
    return np.array(mixed), np.array(maps).reshape(-1, 3)


def best_with_changes(maps, price):
    """The least sum of squared errors of any sequence of maps, with a price for every change."""
    totals = np.zeros(3)
    for losses in maps:
        totals = np.minimum(totals, totals.min() + price) + losses
    return totals.min()


def check_regret(rounds):
    mixed, maps = steered(rounds)
    count = len(rounds)
    allowed = math.log(3.0) / 2.0 + math.log(count + 1.0) / 2.0
    assert mixed.sum() <= maps.sum(0).min() + allowed + 1e-9
    assert mixed.sum() <= best_with_changes(maps, math.log(3.0 * count + 3.0) / 2.0) + allowed + 1e-9


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(PROBABILITIES, st.integers(0, 1)), min_size=1, max_size=120))
def test_regret_to_the_best_map_on_every_sequence(rounds):
    check_regret(rounds)


@pytest.mark.parametrize("changes", [0, 1, 5])
@pytest.mark.parametrize("kind", ["raw", "flipped", "folded", "random"])
def test_regret_on_worlds_that_change(kind, changes):
    rng = np.random.default_rng(changes)
    rounds = []
    for t in range(4000):
        p = rng.random()
        truth = {"raw": p, "flipped": 1 - p, "folded": p if p < 0.7 else 0.3, "random": rng.random()}[kind]
        if (t * (changes + 1) // 4000) % 2:
            truth = 1.0 - truth
        rounds.append((p, int(rng.random() < truth)))
    check_regret(rounds)


@pytest.mark.parametrize("seed", range(3))
def test_regret_against_an_opponent_who_plays_on_the_mixture(seed):
    """Each outcome is the one that costs the mixture more than the map that leads."""
    rng = np.random.default_rng(seed)
    state, rounds, totals = steering.new_steering(), [], np.zeros(3)
    for _ in range(1500):
        p = float(rng.choice([0.2, 0.5, 0.9]))
        mixed = steering.steer(state, p)
        answers = state[ANSWERS : ANSWERS + 3].copy()
        leader = answers[int(np.argmin(totals))]
        outcome = max((0, 1), key=lambda y: (mixed - y) ** 2 - (leader - y) ** 2)
        totals += (answers - outcome) ** 2
        steering.learn(state, outcome)
        rounds.append((p, outcome))
    check_regret(rounds)


def test_the_share_that_lets_a_map_come_back_is_needed():
    """After a flip the mixture follows the map that was wrong before: the bound with changes is not idle."""
    rng = np.random.default_rng(0)
    rounds = []
    for t in range(6000):
        p = rng.random()
        rounds.append((p, int(rng.random() < (p if t < 3000 else 0.5))))
    mixed, maps = steered(rounds)
    assert mixed.sum() < maps.sum(0).min() + 1.0
    assert mixed[:3000].sum() < maps[:3000].sum(0).min() + 5.0
    assert mixed[3000:].sum() < maps[3000:].sum(0).min() + 5.0


@settings(max_examples=300, deadline=None)
@given(
    p=PROBABILITIES,
    weights=st.lists(st.floats(1e-6, 1.0), min_size=3, max_size=3),
    slope=st.floats(-5, 5),
    intercept=st.floats(-5, 5),
    mean=PROBABILITIES,
)
def test_no_outcome_costs_the_mixture_more_than_the_pooled_loss(p, weights, slope, intercept, mean):
    state = steering.new_steering()
    state[WEIGHTS : WEIGHTS + 3] = np.array(weights) / sum(weights)
    state[SLOPE], state[INTERCEPT] = slope, intercept
    state[SUMS : SUMS + N_BINS] = 1000.0 * mean
    state[COUNTS : COUNTS + N_BINS] = 1000.0
    mixed = steering.steer(state, p)
    assert 0.0 <= mixed <= 1.0
    for outcome in (0, 1):
        assert (mixed - outcome) ** 2 <= steering.pooled_loss(state, outcome) + 1e-12


@pytest.mark.parametrize("kind", ["folded", "drift", "adversary"])
@pytest.mark.parametrize("n_buckets", [1, 8])
def test_brier_score_within_twice_the_certificate_of_the_best_constant_per_bucket(kind, n_buckets):
    rng = np.random.default_rng(7)
    projection = Projection(1.0, n_buckets, None)
    forecasts, outcomes, buckets = [], [], []
    for t in range(5000):
        raw = rng.random()
        p = projection.ask(raw)
        truth = {"folded": raw if raw < 0.7 else 0.3, "drift": raw * t / 5000, "adversary": float(p < 0.5)}
        outcome = int(rng.random() < truth[kind])
        buckets.append(projection.ticket().bucket)
        projection.settle(outcome)
        forecasts.append(p)
        outcomes.append(outcome)
    p, y, b = np.array(forecasts), np.array(outcomes), np.array(buckets)
    best = sum(((y[b == k] - y[b == k].mean()) ** 2).sum() for k in np.unique(b))
    assert len(np.unique(b)) >= min(n_buckets, 2)
    assert ((p - y) ** 2).sum() <= best + 2.0 * projection.certificate
    assert projection.certificate <= projection.guarantee


@pytest.mark.parametrize("rounds", [100_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["honest", "drift", "adversary"])
def test_memory_grows_like_the_root_of_the_rounds(kind, rounds):
    rng = np.random.default_rng(0)
    projection = Projection(1.0, 1, None)
    raws, draws = rng.random(rounds).tolist(), rng.random(rounds).tolist()
    for t, (raw, u) in enumerate(zip(raws, draws, strict=True)):
        p = projection.ask(raw)
        truth = raw if kind == "honest" else t / rounds if kind == "drift" else float(p < raw)
        projection.settle(int(u < truth))
    (table,) = projection.tables
    inner = len(table.look_ahead.points) - 2
    assert 0 < inner <= 4.25 * math.sqrt(rounds) + 1
    # two integers a point, at most doubled by growing, and a header
    assert table.memory.size <= 4 * (inner + 2) + 200
    assert projection.certificate <= projection.guarantee


def test_without_a_compiler_the_interpreter_gives_the_same_answers():
    code = """
from river import naive_bayes
from onlinecal import CalibratedClassifier
model = CalibratedClassifier(naive_bayes.GaussianNB())
for t in range(60):
    answer = model.predict_proba_one({"x": t % 5})
    model.learn_one({"x": t % 5}, t % 3 == 0)
print(answer, model.certificate)
"""
    told = [
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"NUMBA_DISABLE_JIT": disabled},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for disabled in "01"
    ]
    assert told[0] == told[1] != ""
