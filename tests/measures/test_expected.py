from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given

from onlinecal.measures import expected_calibration_error
from tests.measures.distance.reference import histories


@given(histories(12))
def test_it_sums_absolute_biases_over_equal_forecasts(history):
    p, y = history
    expected = sum(abs(math.fsum(v - o for v, o in zip(p, y, strict=True) if v == u)) for u in set(p))
    assert expected_calibration_error(p, y) == pytest.approx(expected, abs=1e-12)
    assert expected_calibration_error(p, y, normalize=True) == pytest.approx(expected / len(p), abs=1e-12)


def test_bins_add_biases_up_and_close_the_last_one():
    p, y = [0.1, 0.3, 0.5, 1.0], [1, 0, 1, 1]
    assert expected_calibration_error(p, y, bins=2) == pytest.approx(abs(0.1 + 0.3 - 1) + abs(1.5 - 2))
    assert expected_calibration_error(p, y, bins=1) == pytest.approx(abs(1.9 - 3))


def test_a_forecast_on_a_bin_edge_belongs_to_the_bin_it_opens():
    # 0.29 * 100 is 28.999999999999996
    assert expected_calibration_error([0.285, 0.29], [0, 1], bins=100) == pytest.approx(0.285 + 0.71)


def test_tied_forecasts_leave_no_rounding_error():
    assert expected_calibration_error([0.1] * 10, [1] + [0] * 9) == 0.0


def test_negative_zero_is_zero():
    assert expected_calibration_error([-0.0, 0.0], [0, 0]) == 0.0


@pytest.mark.parametrize(
    ("p", "y", "message"),
    [
        ([0.5, math.nan], [0, 1], "forecasts.*nan at row 1"),
        ([0.5, 1.5], [0, 1], "forecasts.*1.5 at row 1"),
        ([0.5], [0, 1], "forecasts and outcomes.*1 and 2"),
        ([], [], "forecasts is empty"),
        ([0.5, 0.5], [0, 2], "outcomes.*2 at row 1"),
        ([[0.5]], [0], "forecasts must be one-dimensional"),
    ],
)
def test_bad_histories_are_refused_by_name(p, y, message):
    with pytest.raises(ValueError, match=message):
        expected_calibration_error(p, y)


@pytest.mark.parametrize("bins", [0, -1, 1.5, True, "ten"])
def test_bad_bins_are_refused(bins):
    with pytest.raises(ValueError, match="bins must be"):
        expected_calibration_error([0.5], [1], bins=bins)


def test_numpy_whole_numbers_are_welcome_as_bins():
    assert expected_calibration_error([0.5], [1], bins=np.int64(3)) == 0.5
