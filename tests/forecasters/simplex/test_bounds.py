"""The bounds of docs/theory-simplex.md for the forecaster as users have it."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from onlinecal import SimplexAlmostOneStepAhead
from onlinecal.forecasters.simplex import guarantees
from onlinecal.forecasters.simplex.machine.memory import certificate
from tests.forecasters.simplex.play import chase, outcomes_of, ready
from tests.measures.distance.reference import distance_by_set_partitions
from tests.properties import one_in

TOLERANCE = 1e-9


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


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("length", [1, 2, 4, pytest.param(5, marks=pytest.mark.slow)])
def test_distance_is_below_certificate_below_guarantee(length, config):
    """On all sequences."""
    for played in product(range(3), repeat=length):
        forecaster = SimplexAlmostOneStepAhead(**config)
        forecasts = forecaster.replay(list(played))
        numbers = [forecaster.classes.index(y) for y in played]
        distance = distance_by_set_partitions(forecasts, np.eye(forecasts.shape[1])[numbers])
        assert distance <= forecaster.certificate + TOLERANCE
        assert forecaster.certificate <= forecaster.guarantee + TOLERANCE


@pytest.mark.parametrize(("k", "kind"), one_in(2, [2, 3, 4, 6, 10], ["least", "flip", "any"]))
def test_no_adversary_breaks_the_guarantee(k, kind):
    for m in (1, 2, 5):
        memory = ready(k, m)
        chase(memory, 300, kind)
        assert certificate(memory) <= guarantees.uniform_guarantee(300, k, m) + TOLERANCE


RULES = [(None, False), (None, True), (1.0, False), (3.5, True), (1.0, True), (3.5, False)]


@pytest.mark.parametrize(("k", "rule"), one_in(3, [1, 2, 3, 5, 20], RULES))
def test_the_horizon_chooses_the_grid_with_the_smallest_guarantee(k, rule):
    slack, follows = rule
    biases = [guarantees.bias_bound(k, m, slack) for m in range(1, 300)]
    prices = [guarantees.reach(k, m, follows) / m for m in range(1, 300)]
    for horizon in (1, 2, 7, 50, 999, 20000, 10**7):
        worth = [horizon * price + bias for price, bias in zip(prices, biases, strict=True)]
        dyadic = [worth[(1 << i) - 1] for i in range(9)]
        best, best_power = worth.index(min(worth)) + 1, 1 << dyadic.index(min(dyadic))
        if best < 299:
            assert guarantees.cells_for(horizon, k, slack, follows=follows) == best
        if best_power < 256:
            assert guarantees.cells_for(horizon, k, slack, dyadic=True, follows=follows) == best_power


def test_the_guarantee_with_two_classes_is_twice_the_binary_one():
    for horizon in (1, 10, 100, 10**4, 10**6):
        m = math.isqrt(horizon - 1) + 1
        assert guarantees.uniform_guarantee(horizon, 2, m) == Fraction(horizon, m) + m - 1
        assert guarantees.uniform_guarantee(horizon, 2, guarantees.cells_for(horizon, 2)) <= 2 * math.sqrt(
            horizon
        )
    assert guarantees.last_rounds(2)[:12] == tuple((4 << (2 * level)) // 3 for level in range(12))


@pytest.mark.parametrize(
    ("k", "rule"), one_in(2, [2, 3, 4, 5, 8], [(None, False), (None, True), (1.0, True)])
)
def test_without_a_horizon_it_costs_less_than_twice_as_much(k, rule):
    """At every time up to 10^7: at most twice the best guarantee that a horizon could have bought."""
    slack, follows = rule
    ends = guarantees.last_rounds(k, slack, follows)
    rounds = {*np.geomspace(1, 10**7, 50).astype(int).tolist()}
    rounds |= {end + shift for end in ends if end < 10**7 for shift in (0, 1) if end + shift}
    for t in sorted(rounds):
        level = guarantees.level_at(t, k, slack, follows)[0]
        anytime = guarantees.nested_distance(1, t, k, slack, follows) + guarantees.bias_bound(
            k, 1 << level, slack
        )
        best = guarantees.cells_for(t, k, slack, follows=follows)
        assert anytime <= 2 * guarantees.uniform_guarantee(t, k, best, slack, follows)


@pytest.mark.parametrize("k", [2, 3, 4, 6])
def test_the_schedules_constant_tends_to_the_one_proved(k):
    level = {2: 14, 3: 12, 4: 11, 6: 11}[k]
    t = guarantees.last_rounds(k)[level - 1] + 1
    anytime = guarantees.nested_distance(1, t, k) + guarantees.bias_bound(k, 1 << level)
    ratio = anytime / guarantees.uniform_guarantee(t, k, guarantees.cells_for(t, k))
    assert float(ratio) == pytest.approx(((2**k - 1) / (2 ** (k - 1) - 1)) ** ((k - 1) / k), rel=0.02)


@pytest.mark.parametrize("k", [3, 5])
def test_lp_certificates_fall_with_p_and_start_at_the_certificate(k):
    forecaster = SimplexAlmostOneStepAhead(k, n_cells=30)
    forecaster.replay(outcomes_of("drift", k, 4000, 2))
    values = [forecaster.lp_certificate(p) for p in (1, 1.5, 2, 4, 50, math.inf)]
    assert values[0] == pytest.approx(forecaster.certificate)
    assert values == sorted(values, reverse=True)
    points, biases = forecaster.look_ahead
    moved = forecaster.certificate - np.abs(biases).sum()
    for p in (1.5, 2, 4):
        error = (np.abs(biases) ** p).sum() ** (1 / p)
        assert forecaster.lp_certificate(p, normalize=True) == pytest.approx((moved + error) / 4000)
        assert error <= (k * len(points)) ** (1 / p)
    assert forecaster.lp_certificate(math.inf) == pytest.approx(moved + np.abs(biases).max())
    assert SimplexAlmostOneStepAhead(3).lp_certificate(2) == 0.0
    with pytest.raises(ValueError, match=r"p must be a number from 1, or inf, got 0\.5"):
        forecaster.lp_certificate(0.5)


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


@pytest.mark.parametrize("k", [2, 3, 10, 100])
@pytest.mark.parametrize("scale", [1, 1 << 8, 1 << 16, 1 << 20])
@pytest.mark.parametrize(("slack", "grows"), [(None, False), (1.0, False), (3.5, False), (1.5, True)])
def test_so_many_late_labels_leave_the_products_of_labels_within_64_bits(k, scale, slack, grows):
    late = guarantees.most_late(k, scale, slack, grows)
    if late >= 0:
        now = guarantees.slack_at(late, slack, grows) or 1.0
        largest = 1.0 if (slack, late) == (None, 0) else (k - 1) * (now + late)
        assert 2 * k * scale**2 * (1 + largest) < 2**63
    if late > 100 and not grows:
        assert 2 * k * scale**2 * (1 + (k - 1) * 1.2 * late) > 2**62


@pytest.mark.parametrize(("k", "m", "slack", "late"), [(3, 7, 1.0, 4), (4, 5, None, 1), (5, 3, 2.5, 9)])
def test_late_labels_and_slack_cost_what_the_lemma_says(k, m, slack, late):
    """C(k, s) C(m - 1, s - 1) points have s classes, and biases that add up to 2 (s - 1) (c + D) at most."""
    total = Fraction(0)
    for s in range(2, min(k, m) + 1):
        c = 1 - Fraction(1, 2 * s - 2) if slack is None else Fraction(slack)
        total += math.comb(k, s) * math.comb(m - 1, s - 1) * 2 * (s - 1) * (c + late)
    assert guarantees.bias_bound(k, m, slack, late) == total
