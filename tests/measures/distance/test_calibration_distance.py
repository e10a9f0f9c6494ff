"""The exact distance against brute force and as a matching; brackets, witnesses, counts."""

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from onlinecal.measures import (
    calibration_distance,
    calibration_distance_from_counts,
    expected_calibration_error,
)
from tests.measures.distance.reference import (
    assert_calibrated_at,
    distance_by_set_partitions,
    histories,
    look_ahead_run,
)
from tests.properties import examples


@settings(max_examples=examples(60), deadline=None)
@given(histories(7))
def test_exact_equals_brute_force_over_set_partitions(history):
    p, y = history
    result = calibration_distance(p, y, method="exact")
    assert result.exact == pytest.approx(distance_by_set_partitions(p, y), abs=1e-10)
    assert_calibrated_at(result, p, y)


@settings(max_examples=examples(60), deadline=None)
@given(histories(40))
def test_the_bracket_contains_the_exact_distance(history):
    p, y = history
    exact = calibration_distance(p, y, method="exact").exact
    bracket = calibration_distance(p, y, method="bracket")
    assert bracket.lower <= exact + 1e-11
    assert exact <= bracket.upper + 1e-9
    assert bracket.exact is None or bracket.exact == pytest.approx(exact, abs=1e-9)
    assert_calibrated_at(bracket, p, y)
    assert bracket.upper <= expected_calibration_error(p, y, normalize=False) + 1e-9
    mean = calibration_distance(p, y, method="bracket", normalize=True)
    assert (mean.lower, mean.upper) == (bracket.lower / len(p), bracket.upper / len(p))


@settings(max_examples=examples(60), deadline=None)
@given(histories(20), st.randoms(use_true_random=False))
def test_the_distance_is_lipschitz_in_the_forecasts(history, random):
    p, y = history
    moved = [random.choice([v, random.random(), min(1.0, v + 0.01)]) for v in p]
    change = abs(
        calibration_distance(p, y, method="exact").exact
        - calibration_distance(moved, y, method="exact").exact
    )
    assert change <= math.fsum(abs(v - w) for v, w in zip(p, moved, strict=True)) + 1e-9


@pytest.mark.parametrize("method", ["exact", "bracket"])
def test_order_does_not_matter_nor_whether_rounds_are_counted(method):
    """Counts may come in any order and with repeats; a witness comes in the order of the input."""
    rng = np.random.default_rng(4)
    p, y = rng.integers(0, 6, 80) / 5, rng.integers(0, 2, 80)
    shuffle = rng.permutation(80)
    whole = calibration_distance(p, y, method=method)
    mixed = calibration_distance(p[shuffle], y[shuffle], method=method)
    assert whole.upper == pytest.approx(mixed.upper, abs=1e-12)
    assert_calibrated_at(mixed, p[shuffle], y[shuffle])
    values = np.arange(6) / 5
    zeros, ones = ([int(((p == v) & (y == label)).sum()) for v in values] for label in (0, 1))
    counted = calibration_distance_from_counts(
        [*values[::-1], 0.4, 0.9], [*zeros[::-1], 0, 0], [*ones[::-1], 0, 0], method=method
    )
    assert (counted.lower, counted.upper) == (whole.lower, whole.upper)
    order = np.repeat(np.tile([0, 1], 6), np.column_stack([zeros, ones]).ravel())
    assert_calibrated_at(counted, np.repeat(values, np.add(zeros, ones)), order)


def test_a_look_ahead_sequence_can_only_help():
    p, y, charged = look_ahead_run(lambda t, v: int(t % 3 == 0), 800, 29)
    plain = calibration_distance(p, y, method="bracket")
    helped = calibration_distance(p, y, method="bracket", look_ahead=charged)
    assert helped.upper <= plain.upper
    assert_calibrated_at(helped, p, y)


def test_more_rounds_than_floats_can_count_are_refused():
    """Each count is a whole float, their sum wraps to a negative number of rounds."""
    many = np.full(2000, 2**53 - 1)
    with pytest.raises(ValueError, match="zeros and ones must count fewer than 2\\*\\*53 rounds in all"):
        calibration_distance_from_counts(np.linspace(0, 1, 2000), many, many, method="bracket")


@cache
def atoms_of(n_zeros, n_ones, most=None):
    """Every multiset of atoms (r, s) with these sums, its members in decreasing order."""
    if n_zeros == n_ones == 0:
        return [()]
    return [
        ((r, s), *rest)
        for r in range(n_zeros + 1)
        for s in range(n_ones + 1)
        if (r, s) != (0, 0) and (most is None or (r, s) <= most)
        for rest in atoms_of(n_zeros - r, n_ones - s, (r, s))
    ]


def matching(forecasts, slots):
    cost = np.abs(np.subtract.outer(forecasts, slots))
    return float(cost[linear_sum_assignment(cost)].sum())


def slots_of(atoms, label):
    return np.array([s / (r + s) for r, s in atoms for _ in range((r, s)[label])])


@settings(max_examples=examples(60), deadline=None)
@given(histories(9))
def test_the_exact_distance_is_the_cheapest_matching_over_all_atoms(history):
    p, y = np.array(history[0]), np.array(history[1])
    rounds = p[y == 0], p[y == 1]
    best = min(
        sum(matching(rounds[label], slots_of(atoms, label)) for label in (0, 1))
        for atoms in atoms_of(len(rounds[0]), len(rounds[1]))
    )
    assert calibration_distance(p, y, method="exact").exact == pytest.approx(best, abs=1e-10)


@settings(max_examples=examples(60), deadline=None)
@given(histories(30))
def test_label_by_label_the_cheapest_matching_is_the_monotone_one(history):
    p, y = np.array(history[0]), np.array(history[1])
    witness = calibration_distance(p, y, method="exact").witness
    for label in (0, 1):
        forecasts, slots = p[y == label], witness[y == label]
        monotone = np.abs(np.sort(forecasts) - np.sort(slots)).sum()
        assert matching(forecasts, slots) == pytest.approx(monotone, abs=1e-10)
        # the witness deals its atoms out in that order
        assert np.abs(forecasts - slots).sum() == pytest.approx(monotone, abs=1e-10)
