"""Whole weights are repeated rows; only their proportions count in an average; what is refused."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal import measures as m
from tests.properties import examples

pytestmark = pytest.mark.usefixtures("errors_only")
N = 60


def level_set_report(*args, **more):
    """The averages of the report, without its order among equals."""
    lines = [
        (one.error, one.share, one.forecast, one.frequency) for one in m.lp_calibration_report(*args, **more)
    ]
    return sorted(np.round(lines, 9).ravel())


def group_report(*args, **more):
    report = m.multicalibration_report(*args, **more)
    averages = ("mass", "forecast", "outcome", "squared_error", "violation", "worst_violation")
    return [row[name] for row in report.rows() for name in averages]


OF_EVENTS = {
    "expected": m.expected_calibration_error,
    "expected, bins": partial(m.expected_calibration_error, n_bins=4),
    "cumulative": lambda *args, **more: m.cumulative_calibration_error(*args, **more).error,
    "two-bin": m.two_bin_error,
    "smooth": m.smooth_calibration_error,
    "witness": lambda *args, **more: np.concatenate(m.smooth_calibration_witness(*args, **more)),
    "Brier": lambda *args, **more: list(vars(m.brier_decomposition(*args, **more)).values()),
}
OF_TABLES = {
    "classwise": m.classwise_calibration_error,
    "confidence": partial(m.confidence_calibration_error, n_bins=4),
    "top label": partial(m.top_label_calibration_error, n_bins=4),
    "l_1": partial(m.lp_calibration_error, p=1, n_bins=3),
    "l_2": partial(m.lp_calibration_error, n_bins=3),
    "l_2, report": partial(level_set_report, n_bins=3, top=99),
    "l_inf given a level set": partial(m.linf_conditional_error, n_bins=3, min_rows=4),
}
OF_GROUPS = {
    "mean": m.group_mean_error,
    "multicalibration": partial(m.multicalibration_error, n_bins=3),
    "report": partial(group_report, n_bins=3),
    "functions": m.functional_multicalibration_error,
    "functions, levels": partial(m.functional_multicalibration_error, n_bins=3),
}
MEASURES = OF_EVENTS | OF_TABLES | OF_GROUPS


def rows_of(name, seed=0):
    """Arguments of a measure, each with N rows."""
    rng = np.random.default_rng(seed)
    if name in OF_TABLES:
        table = rng.multinomial(4, [0.5, 0.3, 0.2], N) / 4
        return table, rng.integers(0, 3, N)
    p, y = rng.integers(0, 9, N) / 8, rng.integers(0, 2, N)
    return (p, y, rng.random((N, 2)) < 0.6) if name in OF_GROUPS else (p, y)


@pytest.mark.parametrize("name", MEASURES)
@settings(max_examples=examples(15), deadline=None)
@given(st.lists(st.integers(0, 3), min_size=N, max_size=N).filter(any), st.integers(0, 9))
def test_whole_weights_are_repeated_rows_and_averages_do_not_know_their_unit(name, weights, seed):
    measure, rows = MEASURES[name], rows_of(name, seed)
    found = measure(*rows, sample_weight=weights)
    repeated = measure(*(np.repeat(part, weights, axis=0) for part in rows))
    assert found == pytest.approx(repeated, abs=1e-12, nan_ok=True)
    if name != "l_inf given a level set":
        halves = measure(*rows, sample_weight=np.array(weights) / 2)
        assert halves == pytest.approx(found, abs=1e-12, nan_ok=True)


def test_soft_outcomes_may_have_weights_and_sums_are_of_weights():
    p, y, w = np.array([0.25, 0.25, 0.5]), np.array([0.5, 0.0, 1.0]), np.array([2.0, 0.5, 0.25])
    bias = abs((w * (p - y))[:2].sum()) + 0.125
    assert m.expected_calibration_error(p, y, normalize=False, sample_weight=w) == pytest.approx(bias)
    assert m.expected_calibration_error(p, y, sample_weight=w) == pytest.approx(bias / 2.75)
    brier = m.brier_decomposition(p, y, normalize=False, sample_weight=w).brier
    assert brier == pytest.approx((w * (p - y) ** 2).sum())


def test_reports_count_rows_as_often_as_their_weights_say():
    p, y, w = np.array([0.25, 0.25, 0.5]), np.array([0, 1, 1]), np.array([2.0, 0.5, 0.0])
    report = m.multicalibration_report(p, y, np.ones((3, 1), bool), sample_weight=w)
    assert (report.n_rounds, report.lines[0].count, report.lines[0].worst.count) == (2.5, 2.5, 2.5)
    again = [np.repeat(each, [4, 1, 0], axis=0) for each in (p, y, np.ones((3, 1), bool))]
    doubled = m.multicalibration_report(p, y, np.ones((3, 1), bool), sample_weight=2 * w)
    assert doubled.lines[0].noise == pytest.approx(m.multicalibration_report(*again).lines[0].noise)
    (first, _) = m.lp_calibration_report(np.c_[1 - p, p], y, sample_weight=2 * w)
    assert (first.n_rows, first.forecast, first.frequency) == (5, 0.75, 0.8)


@pytest.mark.parametrize("name", MEASURES)
def test_bad_weights_are_named(name):
    for weights, message in (
        (np.ones(N - 1), f"sample_weight must have a weight for each of {N} rows, got {N - 1}"),
        (np.r_[np.ones(N - 1), -1.0], f"sample_weight must be at least 0 .* got -1.0 at row {N - 1}"),
        (np.zeros(N), "sample_weight must be positive for some row"),
    ):
        with pytest.raises(ValueError, match=message):
            MEASURES[name](*rows_of(name), sample_weight=weights)
