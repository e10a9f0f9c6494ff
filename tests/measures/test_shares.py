"""Outcomes in [0, 1]: distances against brute force, brackets that hold, monitor, metrics and summary."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal.measures import (
    CalibrationMonitor,
    calibration_distance,
    expected_calibration_error,
    is_perfectly_calibrated,
    lower_calibration_distance,
    smooth_calibration_error,
)
from onlinecal.measures.distance.bracket import rounded_outcomes
from onlinecal.measures.summary import all_errors
from onlinecal.metrics import ECE, Brier, CalibrationDistance, SmoothCalibration
from tests.measures.distance.reference import distance_by_set_partitions
from tests.properties import examples

QUARTERS = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])


def in_order(rounds):
    """Not what looks like outcomes first: forecasts that are all 0 or 1, and outcomes that are not."""
    p, y = (set(column) for column in zip(*rounds, strict=True))
    return not p <= {0.0, 1.0} or y <= {0.0, 1.0}


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(QUARTERS, QUARTERS), min_size=1, max_size=7).filter(in_order))
def test_both_ends_of_the_bracket_hold_and_the_witness_attains_the_upper(rounds):
    p, y = np.array(rounds).T
    truth, found = distance_by_set_partitions(p, y), calibration_distance(p, y)
    assert found.lower - 1e-9 <= truth <= found.upper + 1e-9
    assert np.abs(p - found.witness).sum() == pytest.approx(found.upper)
    assert is_perfectly_calibrated(found.witness, y)
    smooth, lower = smooth_calibration_error(p, y, normalize=False), lower_calibration_distance(p, y)
    assert smooth / 2 <= lower.upper + 1e-9
    assert lower.lower <= min(2 * smooth, truth) + 1e-9
    assert truth <= expected_calibration_error(p, y, normalize=False) + 1e-9
    for other in (y + 0.25 * (y < 1), np.round(y)):
        assert abs(distance_by_set_partitions(p, other) - truth) <= np.abs(y - other).sum() + 1e-9


def test_no_multiple_of_the_smooth_error_bounds_the_distance():
    p, y = np.tile([0.49, 0.51], 500), np.full(1000, 0.5)
    assert calibration_distance(p, y).upper == pytest.approx(0.01 * 1000)
    assert smooth_calibration_error(p, y, normalize=False) <= 0.01**2 * 1000 + 1e-9


def test_ties_are_rounded_up_and_down_in_turns_along_the_forecasts():
    p, y = np.array([0.1, 0.9, 0.4, 0.2, 0.6]), np.array([0.5, 0.5, 0.7, 0.5, 0.5])
    whole, off = rounded_outcomes(p, y)
    assert whole.tolist() == [1, 0, 1, 0, 1]
    assert off == pytest.approx(4 * 0.5 + 0.3)
    # one tie hardly widens the bracket, and whole outcomes are what they are, whatever their type
    rng = np.random.default_rng(1)
    p = rng.integers(0, 21, 2000) / 20
    y = rng.random(2000) < p
    tied = np.where(np.arange(2000) == 7, 0.5, y)
    found = calibration_distance(p, tied)
    assert 0.0 <= found.upper - found.lower <= 1.0 + 0.05 * found.upper
    exact = [calibration_distance(p[:200], one[:200], method="exact").exact for one in (y, y.astype(float))]
    assert exact[0] == exact[1]
    assert smooth_calibration_error(p, y) == smooth_calibration_error(p, y.astype(float))


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.tuples(QUARTERS, QUARTERS), min_size=1, max_size=40).filter(in_order))
def test_monitor_and_metrics_agree_with_the_functions_and_forget(rounds):
    p, y = np.array(rounds).T
    monitor, many = CalibrationMonitor(), CalibrationMonitor()
    for one in rounds:
        monitor.update(*one)
    many.update_many(p, y)
    smooth = smooth_calibration_error(p, y)
    for each in (monitor, many):
        assert each.smooth_calibration_error().upper == pytest.approx(smooth, abs=1e-9)
    found, bracket = calibration_distance(p, y), monitor.calibration_distance()
    assert bracket.lower <= found.upper + 1e-9
    assert found.lower <= bracket.upper + 1e-9
    expected = {
        Brier(): np.mean((p - y) ** 2),
        Brier(pos_val=False): np.mean((p + y - 1.0) ** 2),
        ECE(): expected_calibration_error(p, y),
        ECE(n_bins=3): expected_calibration_error(p, y, n_bins=3),
        SmoothCalibration(): smooth,
        CalibrationDistance(): bracket.upper / len(p),
    }
    for metric, value in expected.items():
        for forecast, outcome in [*rounds, (0.3, 0.1), (0.3, 0.7)]:
            metric.update(outcome, forecast)
        metric.revert(0.7, 0.3)
        metric.revert(0.1, 0.3)
        assert metric.get() == pytest.approx(value, abs=1e-9)


def test_the_summary_breaks_no_bound():
    rng = np.random.default_rng(3)
    p = rng.random(400).round(2)
    for y in (rng.random(400), rng.integers(0, 3, 400) / 2, np.clip(p + rng.normal(0, 0.1, 400), 0, 1)):
        errors, witness = all_errors("p", p, y, budget=0.1, n_bins=10)
        assert errors.broken_bounds() == []
        assert is_perfectly_calibrated(witness, y)
        assert errors.brier_constant == pytest.approx(400 * y.var())
