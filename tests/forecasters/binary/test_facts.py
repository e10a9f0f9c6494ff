"""The general facts of docs/theory.md: the threshold world, Brier scores, unions, the size of the table."""

import math
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal import AlmostOneStepAhead, calibration_distance

history = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 1)), min_size=1, max_size=40)


def test_the_brier_score_is_within_the_bound_of_every_map_on_all_short_histories():
    values = np.linspace(0.0, 1.0, 5)
    tight = 0.0
    for places in combinations_with_replacement(range(5), 4):
        used, place = np.unique(values[list(places)], return_inverse=True)
        maps = np.array(list(product(values, repeat=len(used))))
        slopes = np.abs(np.diff(maps, axis=1)) / np.diff(used)
        steepest = slopes.max(axis=1, initial=0.0)
        for outcomes in product((0, 1), repeat=4):
            p, y = used[place], np.array(outcomes)
            regrets = np.sum((p - y) ** 2) - np.sum((maps[:, place] - y) ** 2, axis=1)
            distance = calibration_distance(p, y, method="exact").exact
            assert (regrets <= 2.0 * (1.0 + steepest) * distance + 1e-12).all()
            if distance > 0:
                tight = max(tight, float((regrets / (2.0 * (1.0 + steepest) * distance)).max()))
    # the claim has something to lose
    assert tight > 0.6


@given(history, history)
@settings(deadline=None)
def test_the_distance_of_a_union_is_at_most_the_sum(first, second):
    def distance(rounds):
        p, y = np.array(rounds, dtype=float).T
        return calibration_distance(p, y.astype(int), method="exact").exact

    assert distance(first + second) <= distance(first) + distance(second) + 1e-9


ANSWERS = {
    "coins of the hint": lambda t, token: int((t * 0.6180339887) % 1.0 < token.hint),
    "against the forecast": lambda t, token: int(token.probability < 0.5),
    "against the hint": lambda t, token: int(token.hint < 0.5),
}


@pytest.mark.parametrize("answers", ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("values", [None, 2])
def test_with_hint_buckets_the_brier_score_is_near_that_of_the_hints(answers, values):
    rounds, hints = 2000, np.random.default_rng(3).random(2000)
    buckets = round((rounds / 4) ** (1 / 3))
    used, hints = values or buckets, hints if values is None else np.where(hints < 0.5, 0.51, 1.0)
    bucket, p, y = np.minimum((hints * buckets).astype(int), buckets - 1), np.empty(rounds), np.empty(rounds)
    m = math.isqrt((rounds - 1) // used) + 1
    tables = [AlmostOneStepAhead(n_cells=m, hints=True) for _ in range(buckets)]
    for t, (place, hint) in enumerate(zip(bucket.tolist(), hints.tolist(), strict=True)):
        token = tables[place].forecast(hint)
        p[t], y[t] = token.probability, answers(t, token)
        tables[place].observe(token, y[t])
    means = np.bincount(bucket, y, buckets) / np.maximum(np.bincount(bucket, minlength=buckets), 1)
    score, slip = np.sum((p - y) ** 2), 2 * math.sqrt(used * rounds) + 1e-9
    assert score <= np.sum((means[bucket] - y) ** 2) + slip
    assert score <= np.sum((hints - y) ** 2) + (rounds / (2 * buckets) if values is None else 0.0) + slip


def test_no_multiple_of_the_distance_bounds_the_regret_against_every_map():
    for small in (0.1, 0.01, 0.001):
        p, y = np.tile([0.5 - small, 0.5 + small], 10), np.tile([1, 0], 10)
        # the best map gives each forecast its own outcome, and is never wrong
        assert np.sum((p - y) ** 2) == pytest.approx(20 * (0.5 + small) ** 2)
        assert calibration_distance(p, y).upper <= 20 * small + 1e-12
