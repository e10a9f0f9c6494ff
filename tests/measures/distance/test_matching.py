"""The distance as a cheapest matching of the rounds to the atoms of a calibrated sequence, both chosen."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.optimize import linear_sum_assignment

from onlinecal.measures import calibration_distance
from tests.measures.distance.reference import histories
from tests.properties import examples


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
    assert calibration_distance(p, y, "exact").exact == pytest.approx(best, abs=1e-10)


@settings(max_examples=examples(60), deadline=None)
@given(histories(30))
def test_label_by_label_the_cheapest_matching_is_the_monotone_one(history):
    p, y = np.array(history[0]), np.array(history[1])
    witness = calibration_distance(p, y, "exact").witness
    for label in (0, 1):
        forecasts, slots = p[y == label], witness[y == label]
        monotone = np.abs(np.sort(forecasts) - np.sort(slots)).sum()
        assert matching(forecasts, slots) == pytest.approx(monotone, abs=1e-10)
        # the witness deals its atoms out in that order
        assert np.abs(forecasts - slots).sum() == pytest.approx(monotone, abs=1e-10)
