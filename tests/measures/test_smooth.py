from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.optimize import linprog

from onlinecal.measures import (
    smooth_calibration_error,
    smooth_calibration_error_from_counts,
    smooth_calibration_witness,
)
from onlinecal.measures.counts import count_rounds
from onlinecal.measures.smooth import maximal_intervals
from tests.measures.distance.reference import histories
from tests.properties import examples


def smooth_error_by_linear_program(p, y):
    counts, _, _ = count_rounds(p, y)
    n = len(counts.values)
    gaps, i = np.diff(counts.values), np.arange(n - 1)
    rise = np.zeros((n - 1, n))
    rise[i, i], rise[i, i + 1] = -1, 1
    answer = linprog(counts.biases, A_ub=np.vstack([rise, -rise]), b_ub=np.tile(gaps, 2), bounds=(-1, 1))
    return -answer.fun


def test_the_example_of_the_design():
    assert smooth_calibration_error([0.2, 0.8, 0.6, 0.6], [0, 1, 1, 0], normalize=True) == pytest.approx(0.06)


@pytest.mark.parametrize("grid", [3, 30, 10**9])
def test_it_equals_the_linear_program(grid):
    rng = np.random.default_rng(grid)
    for _ in range(120):
        n_rounds = rng.integers(1, 40)
        p, y = rng.integers(0, grid + 1, n_rounds) / grid, rng.integers(0, 2, n_rounds)
        expected = smooth_error_by_linear_program(p, y)
        assert smooth_calibration_error(p, y) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=examples(100), deadline=None)
@given(histories(40))
def test_the_witness_is_lipschitz_and_attains_the_error(history):
    p, y = history
    values, weights = smooth_calibration_witness(p, y)
    assert (np.abs(weights) <= 1).all()
    assert (np.abs(np.diff(weights)) <= np.diff(values) + 1e-15).all()
    attained = sum(np.interp(v, values, weights) * (o - v) for v, o in zip(p, y, strict=True))
    assert attained == pytest.approx(smooth_calibration_error(p, y), abs=1e-9)


def test_counts_give_the_same_error():
    p, y = [0.2, 0.2, 0.7, 0.7, 0.7], [1, 0, 1, 1, 0]
    counted = smooth_calibration_error_from_counts([0.7, 0.2, 0.7], [1, 1, 0], [1, 1, 1])
    assert counted == smooth_calibration_error(p, y)
    mean = smooth_calibration_error_from_counts([0.7, 0.2], [1, 1], [2, 1], normalize=True)
    assert mean == pytest.approx(counted / 5)


def test_a_calibrated_history_has_no_smooth_error():
    assert smooth_calibration_error([0.5, 0.5, 0.0, 1.0], [0, 1, 0, 1]) == 0.0


def test_long_alternating_histories_stay_exact():
    rng = np.random.default_rng(6)
    p = np.sort(rng.random(600))
    y = np.arange(600) % 2
    assert smooth_calibration_error(p, y) == pytest.approx(smooth_error_by_linear_program(p, y), abs=1e-9)


def test_the_compiled_sweep_agrees_with_plain_python():
    rng = np.random.default_rng(7)
    gains = rng.normal(size=50)
    totals = np.concatenate([[0.0], np.cumsum(gains)])
    arguments = (rng.random(49) / 10, np.unique(-totals, return_inverse=True)[1].astype(np.int64))
    for compiled, plain in zip(
        maximal_intervals(*arguments), maximal_intervals.py_func(*arguments), strict=True
    ):
        np.testing.assert_array_equal(compiled, plain)


def test_bad_input_is_refused_by_name():
    with pytest.raises(ValueError, match=r"forecasts.*1.5 at row 0"):
        smooth_calibration_error([1.5], [1])
    with pytest.raises(ValueError, match="zeros"):
        smooth_calibration_error_from_counts([0.5], [-1], [1])
