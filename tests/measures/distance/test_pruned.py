from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal.measures import calibration_distance
from onlinecal.measures.counts import count_rounds
from onlinecal.measures.distance.bracket import bracket
from onlinecal.measures.distance.exact import first_fractions, next_fraction, search_below
from onlinecal.measures.distance.fractional.relaxation import relax, relaxation_nodes
from onlinecal.measures.distance.levels import conditional_means, distance_to, exact_levels, primitive_steps
from tests.measures.distance.reference import histories, look_ahead_run
from tests.properties import examples


def counted(p, y):
    counts, _, _ = count_rounds(p, y)
    return counts, relax(counts, relaxation_nodes(counts, 300))


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


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(one, marks=pytest.mark.slow) for one in (2, 3))])
def test_pruned_and_plain_lattice_agree_on_longer_histories(seed):
    for p, y in streams(150 + 50 * seed, seed):
        counts, relaxation = counted(p, y)
        distance = distance_to(counts, exact_levels(counts))
        assert calibration_distance(p, y, "exact").exact == pytest.approx(distance, abs=1e-9)
        excess = distance - relaxation.lower
        for cutoff, is_below in ((0.5 * excess, False), (0.98 * excess, False), (1.02 * excess + 1e-9, True)):
            search = search_below(counts, relaxation, cutoff, np.inf)
            assert search.complete
            if is_below:
                assert distance_to(counts, search.levels) == pytest.approx(distance, abs=1e-9)
            elif excess > 1e-6:
                assert search.levels is None


def test_no_effort_makes_a_bracket_wrong():
    for p, y in streams(150, 9):
        counts, _, _ = count_rounds(p, y)
        distance = distance_to(counts, exact_levels(counts))
        for effort in (0.001, 0.01, 0.1, 1.0, np.inf):
            found = bracket(counts, [conditional_means(counts)], effort)
            assert found.lower <= distance + 1e-9
            assert distance <= found.upper + 1e-9
            assert found.upper == pytest.approx(distance_to(counts, found.levels))
            if found.is_exact:
                assert found.upper == pytest.approx(distance, abs=1e-9)
        assert found.is_exact


def test_a_relative_tolerance_ends_the_work_early():
    p, y = next(streams(500, 2))
    rough = calibration_distance(p, y, "bracket", rtol=0.5)
    assert rough.upper - rough.lower <= 0.5 * rough.upper
    assert rough.exact is None
    assert calibration_distance(p, y, "exact", rtol=0.5).exact is not None


def test_fractions_of_all_bins_are_the_primitive_steps_in_order():
    order, n_bins, seen = 23, 8, []
    for k in range(n_bins):
        s, size, next_s, next_size = first_fractions(k, n_bins, order)
        while s <= size and (s * n_bins < (k + 1) * size or k == n_bins - 1):
            seen.append((size - s, s))
            s, size, next_s, next_size = next_fraction(s, size, next_s, next_size, order)
    expected = [tuple(step) for step in primitive_steps(order, order).tolist() if sum(step) <= order]
    assert seen == expected
