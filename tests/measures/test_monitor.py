from __future__ import annotations

import numpy as np
import pytest

from onlinecal.measures import CalibrationMonitor, calibration_distance, smooth_calibration_error
from tests.measures.distance.reference import look_ahead_run


def test_on_a_grid_the_monitor_loses_nothing():
    p, y, _ = look_ahead_run(lambda t, v: int(t % 5 < 2), 400, 20)
    monitor = CalibrationMonitor()
    for forecast, outcome in zip(p, y, strict=True):
        monitor.update(forecast, outcome)
    answer, whole = monitor.calibration_distance(), calibration_distance(p, y, "bracket")
    assert (answer.lower, answer.upper) == (whole.lower, whole.upper)
    assert monitor.smooth_calibration_error().upper == pytest.approx(smooth_calibration_error(p, y))
    assert monitor.moved == 0.0
    assert monitor.n_rounds == 400


def test_memory_is_bounded_and_what_it_costs_widens_the_bracket():
    rng = np.random.default_rng(0)
    p = rng.random(300)
    y = rng.random(300) < p**2
    monitor = CalibrationMonitor(resolution=20)
    monitor.update_many(p, y)
    assert len(monitor.counts().values) <= 2 * 20 + 1
    assert 0 < monitor.moved <= 300 / 40
    exact = calibration_distance(p, y, "exact").exact
    answer = monitor.calibration_distance()
    assert answer.lower <= exact <= answer.upper
    assert answer.upper - answer.lower <= 2 * monitor.moved + 0.5
    smooth = monitor.smooth_calibration_error()
    assert smooth.lower <= smooth_calibration_error(p, y) <= smooth.upper


def test_rounds_one_by_one_or_many_at_once_are_the_same():
    rng = np.random.default_rng(1)
    p, y = rng.integers(0, 60, 500) / 59, rng.integers(0, 2, 500)
    one, many = CalibrationMonitor(resolution=10), CalibrationMonitor(resolution=10)
    for forecast, outcome in zip(p, y, strict=True):
        one.update(forecast, outcome)
    many.update_many(p[:200], y[:200])
    many.update_many(p[200:], y[200:])
    for name in ("values", "zeros", "ones"):
        np.testing.assert_array_equal(getattr(one.counts(), name), getattr(many.counts(), name))
    assert one.moved == pytest.approx(many.moved)


def test_it_answers_before_the_first_round_and_between_rounds():
    monitor = CalibrationMonitor()
    assert monitor.calibration_distance().upper == 0.0
    assert monitor.smooth_calibration_error().upper == 0.0
    monitor.update(0.25, True)
    assert monitor.calibration_distance().upper == 0.75
    monitor.update(0.75, 0)
    assert monitor.calibration_distance(normalize=True).upper == pytest.approx(0.25)


def test_a_bad_resolution_is_refused():
    with pytest.raises(ValueError, match="resolution"):
        CalibrationMonitor(resolution=0)
