"""The relaxation of the distance: potentials, bounds, and the witness that is rounded from it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal.measures import (
    calibration_distance,
    lower_calibration_distance,
    lower_calibration_distance_from_counts,
    smooth_calibration_error,
)
from onlinecal.measures.counts import count_rounds, prefix_sums
from onlinecal.measures.distance.bracket import pooled_levels
from onlinecal.measures.distance.fractional.relaxation import (
    feasible_potentials,
    one_way_bound,
    potential_bound,
    relax,
    relaxation_nodes,
)
from onlinecal.measures.distance.fractional.rounding import (
    curve_of_masses,
    round_near,
    search_tables,
)
from onlinecal.measures.distance.levels import conditional_means, distance_to
from tests.measures.distance.reference import histories, look_ahead_run
from tests.properties import examples


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 30))
def test_any_potentials_are_made_feasible_on_the_whole_line(seed, n_nodes):
    rng = np.random.default_rng(seed)
    nodes = np.unique(np.concatenate([[0.0, 1.0], rng.random(n_nodes)]))
    u0, u1 = feasible_potentials(nodes, rng.normal(0, 0.3, len(nodes)), rng.normal(0, 0.3, len(nodes)))
    x = np.linspace(0, 1, 5001)
    v0, v1 = np.interp(x, nodes, u0), np.interp(x, nodes, u1)
    assert ((1 - x) * v0 + x * v1).max() <= 1e-14
    for u in (u0, u1):
        assert (np.abs(np.diff(u)) <= np.diff(nodes) + 1e-15).all()
    # whatever they are, they prove a bound
    p, y = rng.integers(0, 9, 30) / 8, rng.integers(0, 2, 30)
    counts, _, _ = count_rounds(p, y)
    assert potential_bound(counts, nodes, u0, u1) <= calibration_distance(p, y, "exact").exact + 1e-9


@settings(max_examples=examples(60), deadline=None)
@given(histories(40))
def test_lower_distance_is_below_the_distance_and_within_a_factor_of_two_of_the_smooth_error(history):
    p, y = history
    answer = lower_calibration_distance(p, y)
    assert answer.lower <= answer.upper
    assert answer.upper - answer.lower <= 0.05
    assert answer.lower <= calibration_distance(p, y, "exact").exact + 1e-9
    assert answer.masses.min() >= 0
    assert answer.masses.sum() == pytest.approx(len(p))
    assert answer.values @ answer.masses == pytest.approx(sum(y))
    counts, _, _ = count_rounds(p, y)
    assert one_way_bound(counts) <= answer.upper
    smooth = smooth_calibration_error(p, y, normalize=False)
    assert smooth / 2 <= answer.upper + 1e-9
    assert answer.lower <= 2 * smooth + 1e-9
    assert lower_calibration_distance(p, y, normalize=True).upper == pytest.approx(answer.upper / len(p))
    counted = lower_calibration_distance_from_counts(counts.values, counts.zeros, counts.ones)
    assert (counted.lower, counted.upper) == (answer.lower, answer.upper)
    rough = lower_calibration_distance(p, y, n_nodes=8)
    assert rough.upper - rough.lower >= answer.upper - answer.lower - 1e-9


def test_pooling_finds_the_best_cut_of_the_line():
    rng = np.random.default_rng(2)
    for _ in range(20):
        p, y = rng.integers(0, 7, 12) / 6, rng.integers(0, 2, 12)
        counts, _, _ = count_rounds(p, y)
        k = len(counts.values)
        best = np.inf
        for cuts in range(2 ** (k - 1)):
            group = np.cumsum([0] + [cuts >> i & 1 for i in range(k - 1)])
            zeros, ones = np.bincount(group, counts.zeros), np.bincount(group, counts.ones)
            means = (ones / (zeros + ones))[group]
            best = min(best, float((counts.zeros + counts.ones) @ np.abs(counts.values - means)))
        # dealing the rounds of a level set out in sorted order can only be cheaper
        assert distance_to(counts, pooled_levels(counts)) <= best + 1e-9


def test_rounding_near_the_relaxation_comes_close_to_it():
    p, y, _ = look_ahead_run(lambda t, v: int(v < 0.5 + 0.4 * np.sin(t / 300)), 10_000, 100)
    counts, _, _ = count_rounds(p, y)
    relaxation = relax(counts, relaxation_nodes(counts, 1000))
    curve = curve_of_masses(counts, relaxation.nodes, relaxation.masses)
    tables = search_tables(counts, prefix_sums(counts), relaxation)
    quick, quick_distance, _ = round_near(tables, relaxation.lower, curve, 1e5, 0.0)
    _, distance, work = round_near(tables, relaxation.lower, curve, 2e7, 0.0)
    assert quick_distance == pytest.approx(distance_to(counts, quick), abs=1e-9)
    assert relaxation.lower <= distance <= quick_distance
    assert distance <= 1.1 * relaxation.lower
    assert distance < 0.2 * distance_to(counts, conditional_means(counts))
    assert work > 0
