"""Every way to the distance against rational arithmetic, on histories that floats find hard."""

import numpy as np
import pytest

from onlinecal.measures import (
    calibration_distance,
    calibration_distance_from_counts,
    lower_calibration_distance,
)
from onlinecal.measures.counts import count_shares
from onlinecal.measures.distance import narrowing
from onlinecal.measures.distance.levels import conditional_means
from tests.measures.distance.reference import assert_calibrated_at, awkward_histories, distance_by_rationals

ERROR = 1e-14
"""Of a round: what floats may lose."""


@pytest.mark.parametrize(
    ("seed", "how_many", "most_rounds"),
    [(0, 150, 9), pytest.param(1, 10_000, 14, marks=pytest.mark.slow)],
)
def test_every_way_to_the_distance_agrees_with_rational_arithmetic(monkeypatch, seed, how_many, most_rounds):
    """The plain lattice, the lattice of the steps that the relaxation leaves, and the searches."""
    monkeypatch.setattr(narrowing, "SMALL_LATTICE", -1)
    tiny = narrowing.TINY_LATTICE
    for p, y in awkward_histories(seed, how_many, most_rounds):
        right = distance_by_rationals(p, y)
        monkeypatch.setattr(narrowing, "TINY_LATTICE", tiny)
        answer = calibration_distance(p, y, method="exact")
        assert abs(answer.exact - right) <= ERROR * len(p)
        assert_calibrated_at(answer, p, y)
        monkeypatch.setattr(narrowing, "TINY_LATTICE", -1)
        counts, _, _ = count_shares(p, y)
        for plain in (True, False):
            found = narrowing.bracket(counts, [conditional_means(counts)], np.inf, plain=plain)
            assert found.is_exact
            assert abs(found.upper - right) <= ERROR * len(p)
        lower = lower_calibration_distance(p, y)
        assert lower.lower <= right + ERROR * len(p)
        assert lower.upper <= right + 1e-7


def test_counts_are_as_many_rounds():
    rng = np.random.default_rng(2)
    for p, _ in awkward_histories(3, 30, 4):
        values = np.unique(p)
        zeros, ones = rng.integers(0, 4, (2, len(values)))
        zeros[0] += 1
        both = [np.repeat(values, zeros), np.repeat(values, ones)]
        right = distance_by_rationals(np.concatenate(both), np.repeat([0, 1], [len(part) for part in both]))
        answer = calibration_distance_from_counts(values, zeros, ones, method="exact")
        assert abs(answer.exact - right) <= ERROR * (zeros + ones).sum()
