"""Classwise, confidence and top-label errors, and the largest conditional one, against loops over rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal.measures import (
    classwise_calibration_error,
    confidence_calibration_error,
    expected_calibration_error,
    linf_conditional_error,
    lp_calibration_error,
    top_label_calibration_error,
)
from tests.properties import examples

EVENTS = [classwise_calibration_error, confidence_calibration_error, top_label_calibration_error]


@st.composite
def tables(draw):
    """Rows on a grid of 1/8, so that level sets and ties are many and all sums exact, and labels."""
    n, k = draw(st.integers(1, 30)), draw(st.integers(2, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return rng.multinomial(8, np.full(k, 1 / k), n) / 8, rng.integers(0, k, n)


def by_sets(rows):
    """Sum over keys of |sum of biases|; rows are (key, bias)."""
    sums: dict[object, float] = {}
    for key, bias in rows:
        sums[key] = sums.get(key, 0.0) + bias
    return sum(map(abs, sums.values()))


def bin_of(v, bins):
    return v if bins is None else min(int(v * bins), bins - 1)


@settings(max_examples=examples(100), deadline=None)
@given(tables(), st.sampled_from([None, 1, 2, 4, 16]))
def test_the_three_errors_are_those_of_loops_over_rows(table, bins):
    p, y = table
    n, k = p.shape
    top = [max(range(k), key=lambda j: row[j]) for row in p]
    classwise = by_sets(
        ((j, bin_of(p[i, j], bins)), p[i, j] - (y[i] == j)) for i in range(n) for j in range(k)
    )
    confident = [(bin_of(p[i].max(), bins), p[i].max() - (y[i] == top[i])) for i in range(n)]
    expected = [
        classwise,
        by_sets(confident),
        by_sets(((t, key), bias) for t, (key, bias) in zip(top, confident, strict=True)),
    ]
    for error, value in zip(EVENTS, expected, strict=True):
        assert error(p, y, bins, normalize=False) == pytest.approx(value, abs=1e-12)
        assert error(p, y, bins, normalize=True) == pytest.approx(value / n, abs=1e-12)
    assert expected[1] <= expected[2] + 1e-12


@settings(max_examples=examples(100), deadline=None)
@given(tables(), st.sampled_from([1, 2, 3, 8]), st.integers(1, 4))
def test_the_largest_conditional_error_is_that_of_a_loop_over_level_sets(table, n_levels, min_rows):
    p, y = table
    sets: dict[tuple, list[int]] = {}
    for i, row in enumerate(p):
        sets.setdefault(tuple(np.floor(row * n_levels + 1e-9).tolist()), []).append(i)
    expected = max(
        (
            abs(np.mean([p[i, j] - (y[i] == j) for i in rows]))
            for rows in sets.values()
            if len(rows) >= min_rows
            for j in range(p.shape[1])
        ),
        default=0.0,
    )
    assert linf_conditional_error(p, y, n_levels, min_rows) == pytest.approx(expected, abs=1e-12)
    weighted, largest = lp_calibration_error(p, y, np.inf, n_levels), linf_conditional_error(p, y, n_levels)
    smallest = min(map(len, sets.values()))
    assert weighted - 1e-12 <= largest <= weighted * len(p) / smallest + 1e-12


def test_classes_with_soft_labels_have_the_errors_of_their_shares():
    rng = np.random.default_rng(5)
    p = np.array([[0.5, 0.25, 0.25], [0.25, 0.25, 0.5]])[rng.integers(0, 2, 40)]
    y, labels = rng.dirichlet(np.ones(3), 40), rng.integers(0, 3, 40)
    shares = [expected_calibration_error(p[:, j], y[:, j]) for j in range(3)]
    assert classwise_calibration_error(p, y) == pytest.approx(sum(shares))
    assert classwise_calibration_error(p, np.eye(3)[labels]) == classwise_calibration_error(p, labels)
    for measure in EVENTS[1:]:
        with pytest.raises(ValueError, match="labels must be one-dimensional"):
            measure(p, y)
    # a row that exceeds one by rounding is taken
    assert [error([[1.0 + 1e-7, 0.0]], [0]) for error in EVENTS] == [0.0, 0.0, 0.0]
