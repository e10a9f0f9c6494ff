"""The bounds of docs/theory-simplex.md for the forecaster as users have it."""

import math
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal import SimplexAlmostOneStepAhead
from onlinecal.forecasters.simplex.guarantees import (
    bias_bound,
    cells_for,
    last_rounds,
    level_at,
    nested_distance,
    radius,
    reach,
    uniform_guarantee,
)
from onlinecal.forecasters.simplex.machine.memory import certificate
from onlinecal.forecasters.simplex.machine.table import SCALE
from tests.forecasters.simplex.play import chase, outcomes_of, ready
from tests.measures.distance.reference import distance_by_set_partitions
from tests.properties import examples

TOLERANCE = 1e-9


def as_numbers(forecaster, outcomes):
    return [forecaster.classes.index(y) for y in outcomes]


CONFIGS = [
    {"n_classes": 3, "n_cells": 2},
    {"n_classes": 3, "horizon": 6},
    {"n_classes": 3},
    {"n_classes": 4, "n_cells": 3},
    {"n_cells": 3},
    {"horizon": 6},
    {},
    {"slack": 1.0, "n_cells": 2},
]


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_on_all_sequences_distance_is_below_certificate_below_guarantee(config):
    for length in (1, 3, 5):
        for played in product(range(3), repeat=length):
            forecaster = SimplexAlmostOneStepAhead(**config)
            forecasts = forecaster.replay(list(played))
            distance = distance_by_set_partitions(
                forecasts, np.eye(forecasts.shape[1])[as_numbers(forecaster, played)]
            )
            assert distance <= forecaster.certificate + TOLERANCE
            assert forecaster.certificate <= forecaster.guarantee + TOLERANCE


@settings(max_examples=examples(60), deadline=None)
@given(
    st.sampled_from([*CONFIGS, {"n_classes": 5}, {"horizon": 500}, {"n_classes": 6, "horizon": 500}]),
    st.sampled_from(["coins", "drift", "turns"]),
    st.integers(1, 500),
    st.integers(0, 2**32 - 1),
)
def test_the_certificate_is_what_it_says_and_below_the_guarantee(config, kind, rounds, seed):
    outcomes = outcomes_of(kind, 3, rounds, seed)
    forecaster = SimplexAlmostOneStepAhead(**config)
    forecasts, charged = forecaster.replay(outcomes, return_look_ahead=True)
    numbers = as_numbers(forecaster, outcomes.tolist())
    moved = np.abs(forecasts - charged).sum()
    if forecaster.n_classes is None:
        moved += 1.0
    spread = {}
    for x, number in zip(charged, numbers, strict=True):
        spread[tuple(x)] = spread.get(tuple(x), 0.0) + x - np.eye(len(x))[number]
    bias = sum(np.abs(total).sum() for total in spread.values())
    assert forecaster.certificate == pytest.approx(moved + bias, abs=1e-6)
    assert forecaster.certificate <= forecaster.guarantee + TOLERANCE
    points, biases = forecaster.look_ahead
    assert {tuple(x) for x in points} >= set(spread)
    assert np.abs(biases).sum() == pytest.approx(bias, abs=1e-6)


@pytest.mark.parametrize("k", [2, 3, 4, 6, 10])
@pytest.mark.parametrize("kind", ["least", "flip", "any"])
def test_no_adversary_breaks_the_guarantee(k, kind):
    for m in (1, 2, 5):
        memory = ready(k, m)
        chase(memory, 600, kind)
        assert certificate(memory) <= uniform_guarantee(600, k, m) + TOLERANCE


@pytest.mark.parametrize("discovered", [False, True])
@pytest.mark.parametrize("horizon", [None, 400])
def test_nor_the_guarantee_that_holds_at_all_times(discovered, horizon):
    """The least likely class comes; if classes are discovered, a new one now and then."""
    forecaster = SimplexAlmostOneStepAhead(None if discovered else 4, horizon=horizon)
    for t in range(1500):
        forecast = forecaster.predict_proba_one({})
        y = min(forecast, key=forecast.get) if forecast else 0
        if discovered and t in (0, 5, 150, 700):
            y = f"new at {t}"
        forecaster.learn_one({}, y)
        assert forecaster.certificate <= forecaster.guarantee + TOLERANCE


@pytest.mark.parametrize("follows", [False, True], ids=["barycentre", "hint"])
@pytest.mark.parametrize("slack", [None, 1.0, 3.5])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 6, 8, 11, 20])
def test_the_horizon_chooses_the_grid_with_the_smallest_guarantee(k, slack, follows):
    biases = [bias_bound(k, m, slack) for m in range(1, 300)]
    prices = [reach(k, m, follows) / m for m in range(1, 300)]
    for horizon in (1, 2, 7, 50, 999, 20000, 10**7):
        worth = [horizon * price + bias for price, bias in zip(prices, biases, strict=True)]
        dyadic = [worth[(1 << i) - 1] for i in range(9)]
        best, best_power = worth.index(min(worth)) + 1, 1 << dyadic.index(min(dyadic))
        if best < 299:
            assert cells_for(horizon, k, slack, follows=follows) == best
        if best_power < 256:
            assert cells_for(horizon, k, slack, dyadic=True, follows=follows) == best_power


def test_a_horizon_helps_reports_that_follow_hints_too():
    assert SimplexAlmostOneStepAhead(4, horizon=10**6, report="hint", hints=True).guarantee < 135_131


def test_the_guarantee_with_two_classes_is_twice_the_binary_one():
    for horizon in (1, 10, 100, 10**4, 10**6):
        m = math.isqrt(horizon - 1) + 1
        assert uniform_guarantee(horizon, 2, m) == Fraction(horizon, m) + m - 1
        assert uniform_guarantee(horizon, 2, cells_for(horizon, 2)) <= 2 * math.sqrt(horizon)


@pytest.mark.parametrize("rule", [(None, False), (None, True), (1.0, True)], ids=str)
@pytest.mark.parametrize("k", [2, 3, 4, 5, 8])
def test_without_a_horizon_it_costs_less_than_twice_as_much(k, rule):
    """At every time up to 10^7: at most twice the best guarantee that a horizon could have bought."""
    slack, follows = rule
    ends = last_rounds(k, slack, follows)
    rounds = {*np.geomspace(1, 10**7, 200).astype(int).tolist()}
    rounds |= {end + shift for end in ends if end < 10**7 for shift in (0, 1) if end + shift}
    for t in sorted(rounds):
        level = level_at(t, k, slack, follows)[0]
        anytime = nested_distance(1, t, k, slack, follows) + bias_bound(k, 1 << level, slack)
        best = cells_for(t, k, slack, follows=follows)
        assert anytime <= 2 * uniform_guarantee(t, k, best, slack, follows)


def test_with_two_classes_the_nested_grids_are_those_of_the_binary_forecaster():
    assert last_rounds(2)[:12] == tuple((4 << (2 * level)) // 3 for level in range(12))


@pytest.mark.parametrize("k", [2, 3, 4, 6])
def test_the_schedules_constant_tends_to_the_one_proved(k):
    level = {2: 14, 3: 12, 4: 11, 6: 11}[k]
    t = last_rounds(k)[level - 1] + 1
    anytime = nested_distance(1, t, k) + bias_bound(k, 1 << level)
    ratio = anytime / uniform_guarantee(t, k, cells_for(t, k))
    assert float(ratio) == pytest.approx(((2**k - 1) / (2 ** (k - 1) - 1)) ** ((k - 1) / k), rel=0.02)


def test_the_grid_of_a_round_does_not_grow_coarser():
    for k in (2, 3, 5, 9):
        ends = last_rounds(k)
        assert list(ends) == sorted(ends)
        assert level_at(ends[3], k) == (3, ends[3])
        assert level_at(ends[3] + 1, k)[0] > 3


def test_old_points_keep_their_biases_when_the_grid_doubles():
    forecaster = SimplexAlmostOneStepAhead(3)
    forecaster.replay(outcomes_of("coins", 3, last_rounds(3)[2], 0))
    before = {tuple(x): b.tolist() for x, b in zip(*forecaster.look_ahead, strict=True)}
    scale = forecaster.memory[SCALE]
    forecaster.predict_proba_one({})
    assert forecaster.memory[SCALE] == 2 * scale
    assert {tuple(x): b.tolist() for x, b in zip(*forecaster.look_ahead, strict=True)} == before


@pytest.mark.parametrize("k", [3, 5])
def test_lp_certificates_fall_with_p_and_start_at_the_certificate(k):
    forecaster = SimplexAlmostOneStepAhead(k, n_cells=30)
    forecaster.replay(outcomes_of("drift", k, 4000, 2))
    values = [forecaster.lp_certificate(p) for p in (1, 1.5, 2, 4, 50, math.inf)]
    assert values[0] == pytest.approx(forecaster.certificate / 4000)
    assert values == sorted(values, reverse=True)
    points, biases = forecaster.look_ahead
    moved = forecaster.certificate - np.abs(biases).sum()
    for p in (1.5, 2, 4):
        error = (np.abs(biases) ** p).sum() ** (1 / p)
        assert forecaster.lp_certificate(p) == pytest.approx((moved + error) / 4000)
        assert error <= (k * len(points)) ** (1 / p)
    assert forecaster.lp_certificate(math.inf) == pytest.approx((moved + np.abs(biases).max()) / 4000)
    assert SimplexAlmostOneStepAhead(3).lp_certificate(2) == 0.0


def test_the_radius_over_m_is_convex_so_that_the_search_is_right():
    for k in range(2, 25):
        prices = [radius(k, m) / m for m in range(1, 60)]
        steps = [b - a for a, b in pairwise(prices)]
        assert steps == sorted(steps)


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(2, 5), st.sampled_from([1.0, 2.0]), st.integers(0, 2**32 - 1))
def test_with_hints_and_slack_biases_stay_above_minus_the_slack(k, slack, seed):
    rng = np.random.default_rng(seed)
    forecaster = SimplexAlmostOneStepAhead(k, n_cells=4, slack=slack, hints=True)
    hints = rng.dirichlet(np.full(k, 0.3), 300)
    forecaster.replay(rng.integers(0, k, 300), hints)
    biases = forecaster.look_ahead.biases
    assert biases.min() >= -slack
    assert forecaster.certificate <= forecaster.guarantee + TOLERANCE


@pytest.mark.parametrize("late", [1, 5])
@pytest.mark.parametrize("newcomers", [1, 2, 4])
def test_late_labels_cost_what_theorem_15_says_of_new_classes(newcomers, late):
    """Where no point has a bias (m = 1) it is 2 D (2 a + 1) in all, D labels being late and a classes new."""

    def played(n_open):
        forecaster = SimplexAlmostOneStepAhead(n_cells=1)
        for y in range(newcomers):
            tokens = [forecaster.forecast() for _ in range(n_open + 1)]
            for token in tokens[1:]:
                forecaster.withdraw(token)
            forecaster.observe(tokens[0], y)
        return forecaster

    in_time, behind = played(0), played(late)
    assert in_time.guarantee == pytest.approx(2 * newcomers, abs=1e-6)
    assert behind.guarantee - in_time.guarantee == pytest.approx(2 * late * (2 * newcomers + 1), abs=1e-6)
    assert behind.certificate == in_time.certificate
