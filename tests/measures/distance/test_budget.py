"""The pruned search against the plain lattice, and what a budget pays for, in steps."""

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
from onlinecal.measures.counts import count_shares, prefix_sums
from onlinecal.measures.distance import lattice, levels, narrowing
from onlinecal.measures.distance.exact import search_below
from onlinecal.measures.distance.fractional import interior, lower, relaxation, rounding
from onlinecal.measures.distance.fractional.relaxation import (
    feasible_potentials,
    few_masses,
    one_way_bound,
    potential_bound,
    relax,
)
from onlinecal.measures.distance.fractional.rounding import (
    curve_of_masses,
    round_near,
    search_tables,
)
from onlinecal.measures.distance.lattice import (
    exact_levels,
    primitive_steps,
)
from onlinecal.measures.distance.levels import (
    conditional_means,
    distance_by_sums,
    distance_to,
    first_fractions,
    next_fraction,
)
from onlinecal.measures.distance.one_way import one_way_levels
from onlinecal.measures.distance.pooling import pooled_levels
from tests.measures.distance.reference import histories, look_ahead_run
from tests.properties import examples

BUDGET = 0.05


def long_histories():
    rng = np.random.default_rng(0)
    p = rng.random(60_000)
    return {
        "honest": (p, rng.random(60_000) < p),
        "on the wrong side": (0.5 + (p - 0.5) * 1e-3, p < 0.5),
        "reversed": (p, p < 0.5),
        "alternating": (np.sort(p), np.arange(60_000) % 2),
    }


def watched(monkeypatch, module, name):
    """Every answer of a function, as they come."""
    answers, original = [], getattr(module, name)

    def watcher(*arguments, **options):
        answers.append(original(*arguments, **options))
        return answers[-1]

    monkeypatch.setattr(module, name, watcher)
    return answers


@pytest.mark.parametrize("name", long_histories())
def test_a_small_budget_is_kept_by_every_stage(monkeypatch, name):
    looks = watched(monkeypatch, levels, "_transport")
    solved = watched(monkeypatch, relaxation, "solve_program")
    passes = watched(monkeypatch, rounding, "search_windows")
    p, y = long_histories()[name]
    answer = calibration_distance(p, y, budget=BUDGET)
    assert 0 < answer.lower <= answer.upper
    # the whole history is looked at a fixed number of times: either outcome, at the start and at the end
    assert len(looks) <= 4
    # linear programs of a size that the budget sets
    nodes = [len(masses) for _, _, masses in solved]
    assert max(nodes) <= narrowing.nodes_allowed(BUDGET) + narrowing.FINE_CELLS + 1
    assert len(nodes) <= relaxation.MOST_CUTS + 4
    most = max(narrowing.ROUNDING_WORK * BUDGET, narrowing.LEAST_WORK)
    assert sum(tried for _, tried in passes) <= 2 * most * (len(nodes) + 1)


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_solver_that_is_stopped_early_still_proves_a_bound(monkeypatch, steps):
    """What the solver gives is a suggestion: any of it becomes a bound that holds."""
    solve = interior.take_steps
    monkeypatch.setattr(interior, "take_steps", lambda program: solve.py_func(program) if steps else 0)
    monkeypatch.setattr(interior, "MOST_INTERIOR_STEPS", steps)
    rng = np.random.default_rng(3)
    p, y = rng.integers(0, 9, 60) / 8, rng.integers(0, 2, 60)
    answer = lower_calibration_distance(p, y)
    assert 0 <= answer.lower <= calibration_distance(p, y, method="exact").exact
    assert answer.lower <= answer.upper


@settings(max_examples=examples(60), deadline=None)
@given(histories(40))
def test_the_distance_by_sums_is_the_distance(history):
    counts, _, _ = count_shares(*history)
    sums = prefix_sums(counts)
    for found in (conditional_means(counts), pooled_levels(sums), pooled_levels(sums, 4)):
        assert distance_by_sums(sums, found) == pytest.approx(distance_to(counts, found), abs=1e-11)


def counted(p, y):
    counts, _, _ = count_shares(p, y)
    return counts, relax(counts, 300)


def streams(n_rounds, seed):
    rng = np.random.default_rng(seed)
    p = rng.random(n_rounds)
    yield p, rng.random(n_rounds) < p
    yield p, rng.random(n_rounds) < 0.5
    yield np.round(p, 1), rng.random(n_rounds) < p**2
    yield rng.integers(1, 3, n_rounds) / 3, rng.random(n_rounds) < 0.5
    m = int(np.ceil(n_rounds**0.5))
    yield look_ahead_run(
        lambda t, v: int(rng.random() < 0.5 + 0.45 * np.sin(20 * t / n_rounds)), n_rounds, m
    )[:2]
    yield look_ahead_run(lambda t, v: int(v < rng.random()), n_rounds, m)[:2]


@settings(max_examples=examples(60), deadline=None)
@given(histories(40), st.floats(0.0, 1.2))
def test_a_search_finds_the_distance_exactly_when_it_is_below_the_cutoff(history, share):
    counts, relaxation = counted(*history)
    distance = distance_to(counts, exact_levels(counts))
    cutoff = share * (distance - relaxation.lower)
    search = search_below(counts, relaxation, cutoff, np.inf)
    assert search.complete
    if search.levels is None:
        assert distance >= relaxation.lower + cutoff - 1e-9
    else:
        assert distance_to(counts, search.levels) == pytest.approx(distance, abs=1e-9)


@pytest.mark.parametrize("outcome", [0, 1])
def test_rounds_of_one_outcome_are_one_level_set_at_once(outcome, monkeypatch):
    monkeypatch.setattr(lattice, "path_costs", None)
    p = np.random.default_rng(0).random(5000)
    found = calibration_distance(p, np.full(5000, outcome))
    assert found.exact == pytest.approx(np.abs(p - outcome).sum(), rel=1e-12)


@pytest.mark.parametrize("too_high", [True, False])
@pytest.mark.parametrize("n_rounds, bias", [(1000, 0.06), (20_000, 0.02)])
def test_a_bias_that_all_forecasts_share_is_the_distance_without_a_relaxation(
    n_rounds, bias, too_high, monkeypatch
):
    monkeypatch.setattr(narrowing, "relax", None)
    monkeypatch.setattr(lower, "relax", None)
    rng = np.random.default_rng(2)
    p = rng.random(n_rounds)
    y = rng.random(n_rounds) < p - bias
    p, y = (p, y) if too_high else (1 - p, ~y)
    found = calibration_distance(p, y, method="bracket")
    assert found.exact == pytest.approx(abs((p - y).sum()), rel=1e-12)
    assert (found.witness <= p).all() if too_high else (found.witness >= p).all()
    parts = lower_calibration_distance(p, y)
    assert parts.lower == pytest.approx(found.exact, rel=1e-12)
    assert parts.upper == found.exact


@settings(max_examples=examples(100), deadline=None)
@given(histories(40))
def test_one_way_levels_move_all_rounds_one_way_or_are_not_found(history):
    counts, _ = counted(*history)
    found = one_way_levels(counts)
    if found is not None:
        levels, distance = found
        assert (levels.zeros.sum(), levels.ones.sum()) == (counts.n_zeros, counts.n_ones)
        assert distance == distance_to(counts, levels) == pytest.approx(one_way_bound(counts), abs=1e-12)


@settings(max_examples=examples(60), deadline=None)
@given(histories(40), st.sampled_from([1e-12, 0.01, 1.0]))
def test_points_that_cost_more_than_the_distance_are_not_needed(history, spare):
    counts, _ = counted(*history)
    levels = exact_levels(counts)
    pruned = exact_levels(counts, most=distance_to(counts, levels) + spare)
    assert (pruned.zeros.tolist(), pruned.ones.tolist()) == (levels.zeros.tolist(), levels.ones.tolist())


@pytest.mark.parametrize("seed", [0, *(pytest.param(one, marks=pytest.mark.slow) for one in (1, 2, 3))])
def test_pruned_and_plain_lattice_agree_and_no_effort_makes_a_bracket_wrong(seed):
    """On histories too long for brute force."""
    for p, y in streams(100 + 60 * seed, seed):
        counts, relaxation = counted(p, y)
        distance = distance_to(counts, exact_levels(counts))
        assert calibration_distance(p, y, method="exact").exact == pytest.approx(distance, abs=1e-9)
        excess = distance - relaxation.lower
        for cutoff, is_below in ((0.5 * excess, False), (0.98 * excess, False), (1.02 * excess + 1e-9, True)):
            search = search_below(counts, relaxation, cutoff, np.inf)
            assert search.complete
            if is_below:
                assert distance_to(counts, search.levels) == pytest.approx(distance, abs=1e-9)
            elif excess > 1e-6:
                assert search.levels is None
        for effort in (0.001, 0.1, np.inf):
            found = narrowing.bracket(counts, [conditional_means(counts)], effort)
            assert found.lower - 1e-9 <= distance <= found.upper + 1e-9
            assert found.upper == pytest.approx(distance_to(counts, found.levels))
            assert not found.is_exact or found.lower == pytest.approx(found.upper, abs=1e-9)
        assert found.is_exact
        # a relative tolerance ends the work early
        rough = calibration_distance(p, y, method="bracket", rtol=0.5)
        assert rough.upper - rough.lower <= 0.5 * rough.upper + 1e-9


def test_fractions_of_all_bins_are_the_primitive_steps_in_order():
    order, n_bins, seen = 23, 8, []
    for k in range(n_bins):
        s, size, next_s, next_size = first_fractions(k, n_bins, order)
        while s <= size and (s * n_bins < (k + 1) * size or k == n_bins - 1):
            seen.append((size - s, s))
            s, size, next_s, next_size = next_fraction(s, size, next_s, next_size, order)
    expected = [tuple(step) for step in primitive_steps(order, order).tolist() if sum(step) <= order]
    assert seen == expected


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
    counts, _, _ = count_shares(p, y)
    assert potential_bound(counts, nodes, u0, u1) <= calibration_distance(p, y, method="exact").exact + 1e-9


@settings(max_examples=examples(60), deadline=None)
@given(histories(40))
def test_lower_distance_is_below_the_distance_and_within_a_factor_of_two_of_the_smooth_error(history):
    p, y = history
    answer = lower_calibration_distance(p, y)
    assert answer.lower <= answer.upper
    assert answer.upper - answer.lower <= 1e-5
    assert answer.lower <= calibration_distance(p, y, method="exact").exact + 1e-9
    assert answer.masses.min() >= 0
    assert answer.masses.sum() == pytest.approx(len(p))
    assert answer.values @ answer.masses == pytest.approx(sum(y))
    counts, _, _ = count_shares(p, y)
    assert one_way_bound(counts) <= answer.upper
    smooth = smooth_calibration_error(p, y, normalize=False)
    assert smooth / 2 <= answer.upper + 1e-9
    assert answer.lower <= 2 * smooth + 1e-9
    assert lower_calibration_distance(p, y, normalize=True).upper == pytest.approx(answer.upper / len(p))
    counted = lower_calibration_distance_from_counts(counts.values, counts.zeros, counts.ones)
    assert (counted.lower, counted.upper) == (answer.lower, answer.upper)


def test_pooling_finds_the_best_cut_of_the_line():
    rng = np.random.default_rng(2)
    for _ in range(20):
        p, y = rng.integers(0, 7, 12) / 6, rng.integers(0, 2, 12)
        counts, _, _ = count_shares(p, y)
        k = len(counts.values)
        best = np.inf
        for cuts in range(2 ** (k - 1)):
            group = np.cumsum([0] + [cuts >> i & 1 for i in range(k - 1)])
            zeros, ones = np.bincount(group, counts.zeros), np.bincount(group, counts.ones)
            means = (ones / (zeros + ones))[group]
            best = min(best, float((counts.zeros + counts.ones) @ np.abs(counts.values - means)))
        # dealing the rounds of a level set out in sorted order can only be cheaper
        assert distance_to(counts, pooled_levels(prefix_sums(counts))) <= best + 1e-9


def test_rounding_near_the_relaxation_comes_close_to_it():
    p, y, _ = look_ahead_run(lambda t, v: int(v < 0.5 + 0.4 * np.sin(t / 300)), 10_000, 100)
    counts, _, _ = count_shares(p, y)
    relaxation = relax(counts, 1000)
    curve = curve_of_masses(counts, relaxation.nodes, few_masses(counts, relaxation.nodes))
    tables = search_tables(counts, prefix_sums(counts), relaxation)
    quick, quick_distance, _ = round_near(tables, relaxation.lower, curve, 1e5, 0.0)
    _, distance, work = round_near(tables, relaxation.lower, curve, 2e7, 0.0)
    assert quick_distance == pytest.approx(distance_to(counts, quick), abs=1e-9)
    assert relaxation.lower <= distance <= quick_distance
    assert distance <= 1.1 * relaxation.lower
    assert distance < 0.2 * distance_to(counts, conditional_means(counts))
    assert work > 0
