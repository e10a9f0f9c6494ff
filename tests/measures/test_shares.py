"""Outcomes in [0, 1]: every measure against brute force, brackets that hold, and what is refused."""

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
    smooth_calibration_witness,
)
from onlinecal.measures.distance.bracket import rounded_outcomes
from onlinecal.measures.summary import all_errors
from onlinecal.metrics import ECE, Brier, CalibrationDistance, SmoothCalibration
from tests.measures.distance.reference import distance_by_set_partitions
from tests.properties import examples

QUARTERS = [0.0, 0.25, 0.5, 0.75, 1.0]
histories = (
    st.integers(1, 7)
    .flatmap(
        lambda n: st.tuples(
            *(st.lists(st.sampled_from(values), min_size=n, max_size=n) for values in (QUARTERS, QUARTERS))
        )
    )
    .map(lambda pair: (np.array(pair[0]), np.array(pair[1])))
)


@settings(max_examples=examples(60), deadline=None)
@given(histories)
def test_both_ends_of_the_bracket_hold_and_the_witness_attains_the_upper(history):
    p, y = history
    truth, found = distance_by_set_partitions(p, y), calibration_distance(p, y)
    assert found.lower - 1e-9 <= truth <= found.upper + 1e-9
    assert np.abs(p - found.witness).sum() == pytest.approx(found.upper)
    assert is_perfectly_calibrated(found.witness, y)
    smooth, lower = smooth_calibration_error(p, y, normalize=False), lower_calibration_distance(p, y)
    assert smooth / 2 <= lower.upper + 1e-9
    assert lower.lower <= min(2 * smooth, truth) + 1e-9
    assert truth <= expected_calibration_error(p, y, normalize=False) + 1e-9
    shares = [(y + 0.25 * (y < 1)), np.round(y)]
    for other in shares:
        assert abs(distance_by_set_partitions(p, other) - truth) <= np.abs(y - other).sum() + 1e-9


@settings(max_examples=examples(40), deadline=None)
@given(histories)
def test_smooth_and_expected_errors_are_those_of_the_biases(history):
    p, y = history
    values, weights = smooth_calibration_witness(p, y)
    assert (np.abs(np.diff(weights)) <= np.diff(values) + 1e-12).all()
    assert (np.interp(p, values, weights) * (y - p)).mean() == pytest.approx(smooth_calibration_error(p, y))
    biases = [abs((p - y)[p == v].sum()) for v in np.unique(p)]
    assert expected_calibration_error(p, y, normalize=False) == pytest.approx(sum(biases))
    assert expected_calibration_error(p, y, bins=1, normalize=False) == pytest.approx(abs((p - y).sum()))


def test_no_multiple_of_the_smooth_error_bounds_the_distance():
    p, y = np.tile([0.49, 0.51], 500), np.full(1000, 0.5)
    found = calibration_distance(p, y)
    assert found.upper == pytest.approx(0.01 * 1000)
    assert smooth_calibration_error(p, y, normalize=False) <= 0.01**2 * 1000 + 1e-9


def test_whole_outcomes_are_measured_as_ever_whatever_their_type():
    rng = np.random.default_rng(0)
    p, y = rng.integers(0, 9, 200) / 8, rng.integers(0, 2, 200)
    for measure in (smooth_calibration_error, expected_calibration_error):
        assert measure(p, y) == measure(p, y.astype(float)) == measure(p, y.astype(bool))
    assert (
        calibration_distance(p, y.astype(float), "exact").exact == calibration_distance(p, y, "exact").exact
    )


def test_ties_are_rounded_up_and_down_in_turns_along_the_forecasts():
    p, y = np.array([0.1, 0.9, 0.4, 0.2, 0.6]), np.array([0.5, 0.5, 0.7, 0.5, 0.5])
    whole, off = rounded_outcomes(p, y)
    assert whole.tolist() == [1, 0, 1, 0, 1]
    assert off == pytest.approx(4 * 0.5 + 0.3)


def test_one_tie_hardly_widens_the_bracket():
    rng = np.random.default_rng(1)
    p = rng.integers(0, 21, 2000) / 20
    y = (rng.random(2000) < p).astype(float)
    y[7] = 0.5
    found = calibration_distance(p, y)
    assert 0.0 <= found.upper - found.lower <= 1.0 + 0.05 * found.upper


def test_the_exact_distance_and_what_is_no_share_are_refused():
    with pytest.raises(ValueError, match=r"method must be 'auto' or 'bracket' .* NP-hard"):
        calibration_distance([0.5, 0.5], [0.5, 1], "exact")
    for measure in (calibration_distance, smooth_calibration_error, lower_calibration_distance):
        with pytest.raises(ValueError, match=r"outcomes must be .* got 1.2 at row 1"):
            measure([0.5, 0.5], [0.5, 1.2])


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(QUARTERS), st.sampled_from(QUARTERS)), min_size=1, max_size=40))
def test_monitor_and_metrics_agree_with_the_functions_and_forget(rounds):
    p, y = np.array(rounds).T
    monitor, many = CalibrationMonitor(), CalibrationMonitor()
    for one in rounds:
        monitor.update(*one)
    many.update_many(p, y)
    smooth = smooth_calibration_error(p, y, normalize=False)
    assert monitor.n_rounds == many.n_rounds == len(p)
    assert monitor.smooth_calibration_error(normalize=False).upper == pytest.approx(smooth, abs=1e-9)
    assert many.smooth_calibration_error(normalize=False).upper == pytest.approx(smooth, abs=1e-9)
    found, bracket = calibration_distance(p, y), monitor.calibration_distance()
    assert bracket.lower <= found.upper + 1e-9
    assert found.lower <= bracket.upper + 1e-9
    expected = {
        Brier(): np.mean((p - y) ** 2),
        ECE(): expected_calibration_error(p, y, normalize=True),
        ECE(bins=3): expected_calibration_error(p, y, 3, normalize=True),
        SmoothCalibration(): smooth / len(p),
        CalibrationDistance(): bracket.upper / len(p),
    }
    for metric, value in expected.items():
        for forecast, outcome in [*rounds, (0.3, 0.1), (0.3, 0.7)]:
            metric.update(outcome, forecast)
        metric.revert(0.7, 0.3)
        metric.revert(0.1, 0.3)
        assert metric.get() == pytest.approx(value, abs=1e-9)
        if getattr(metric, "bins", None) is None and not isinstance(metric, Brier):
            with pytest.raises(ValueError, match="this round was not counted"):
                metric.revert(0.5, 0.111)
    opposite = Brier(pos_val=False)
    opposite.update(0.25, {True: 0.4, False: 0.6})
    assert opposite.get() == pytest.approx((0.6 - 0.75) ** 2)


def test_the_summary_breaks_no_bound():
    rng = np.random.default_rng(3)
    p = rng.random(400).round(2)
    for y in (rng.random(400), rng.integers(0, 3, 400) / 2, np.clip(p + rng.normal(0, 0.1, 400), 0, 1)):
        errors, witness = all_errors("p", p, y, budget=0.1, bins=10)
        assert errors.broken_bounds() == []
        assert is_perfectly_calibrated(witness, y)
        assert errors.brier_constant == pytest.approx(400 * y.var())
