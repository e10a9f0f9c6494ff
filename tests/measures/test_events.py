"""Errors of forecasts of one event: by equal forecasts or bins, the smooth one, and a stream's monitor."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.stats import norm

from onlinecal.measures import (
    CalibrationMonitor,
    calibration_distance,
    classwise_calibration_error,
    confidence_calibration_error,
    cumulative_calibration_error,
    expected_calibration_error,
    linf_conditional_error,
    lp_calibration_error,
    smooth_calibration_error,
    smooth_calibration_error_from_counts,
    smooth_calibration_witness,
    top_label_calibration_error,
    two_bin_error,
)
from onlinecal.measures.counts import count_shares
from onlinecal.measures.ranges import chance_of_range
from tests.measures.distance.reference import histories, look_ahead_run
from tests.properties import examples

PARTS = st.sampled_from([1.0, 0.5, 0.25])
"""Outcomes are 0 and 1, or 0 and a share."""


def in_parts(history, part):
    """Forecasts, parts of outcomes, and the part: 1 where all forecasts are 0 or 1, as others are refused."""
    p, y = history
    part = part if any(0.0 < v < 1.0 for v in p) else 1.0
    return p, (part * np.array(y)).tolist(), part


@given(histories(12), PARTS, st.sampled_from([None, 1, 3, 6, 100]))
@example(([0.285, 0.29], [0, 1]), 1.0, 100)
@example(([-0.0, 0.0], [0, 1]), 1.0, None)
def test_it_sums_absolute_biases_over_equal_forecasts_or_bins(history, part, n_bins):
    """A forecast on an edge belongs to the bin that it opens, 0.29 to 29/100; the last bin is closed."""
    p, y, _ = in_parts(history, part)
    sets = [v if n_bins is None else max(i for i in range(n_bins) if i / n_bins <= v) for v in p]
    rounds = list(zip(sets, p, y, strict=True))
    expected = sum(abs(math.fsum(v - o for at, v, o in rounds if at == u)) for u in set(sets))
    assert expected_calibration_error(p, y, n_bins=n_bins, normalize=False) == pytest.approx(
        expected, abs=1e-12
    )
    assert expected_calibration_error(p, y, n_bins=n_bins) == pytest.approx(expected / len(p), abs=1e-12)
    # tied forecasts leave no rounding error
    assert expected_calibration_error([0.1] * 10, [1] + [0] * 9) == 0.0


@given(histories(9))
def test_the_cumulative_error_is_the_largest_bias_over_an_interval_of_forecasts(history):
    p, y = np.array(history[0]), np.array(history[1])
    ends = [*sorted(set(p)), 2.0]
    largest = max(
        abs(math.fsum((p - y)[(p >= low) & (p < high)]))
        for i, low in enumerate(ends)
        for high in ends[i + 1 :]
    )
    found = cumulative_calibration_error(p, y, normalize=False)
    assert found.error == pytest.approx(largest, abs=1e-12)
    assert cumulative_calibration_error(p, y).error == pytest.approx(largest / len(p), abs=1e-12)
    # forecasts that are certain are right, or cannot be calibrated
    certain = [cumulative_calibration_error([0.0, 1.0], y).p_value for y in ([0, 1], [1, 1])]
    assert certain == [1.0, 0.0]


def test_the_p_value_of_the_cumulative_error_is_that_of_calibrated_forecasts():
    rng = np.random.default_rng(0)
    p = rng.random((400, 2_000))
    y = rng.random(p.shape) < p
    found = np.array([cumulative_calibration_error(*row).p_value for row in zip(p, y, strict=True)])
    for level in (0.02, 0.1, 0.3, 0.6, 0.9):
        assert np.mean(found <= level) == pytest.approx(level, abs=4 * math.sqrt(level * (1 - level) / 400))
    assert cumulative_calibration_error(p[0], p[0] > 0.5).p_value < 1e-6
    # far in the tail only the first term of a series counts: twice the chance that a path gets as far
    assert chance_of_range(6.0) == pytest.approx(8.0 * norm.sf(6.0), rel=1e-9)
    assert [chance_of_range(size) for size in (0.0, 1e-3, np.nextafter(1.0, 0))] == [
        1.0, 1.0, pytest.approx(chance_of_range(1.0))
    ]  # fmt: skip


@given(histories(9))
def test_the_two_bin_error_is_the_mean_over_all_edges(history):
    p, y = np.array(history[0]), np.array(history[1])
    ends = np.array([0.0, *sorted(set(p)), 1.0])
    # between two neighbouring forecasts all edges part the rounds in the same way
    edges = (ends[1:] + ends[:-1]) / 2
    squares = [np.sum((p - y)[p < q]) ** 2 + np.sum((p - y)[p >= q]) ** 2 for q in edges]
    expected = float(np.dot(np.diff(ends), squares)) / len(p) ** 2
    assert two_bin_error(p, y) == pytest.approx(expected, abs=1e-12)


def test_no_forecasts_have_a_smaller_mean_of_the_two_bin_error_than_the_chances():
    chances, grid = np.array([0.2, 0.2, 0.6]), np.arange(6) / 5
    outcomes = np.array(list(product((0, 1), repeat=3)))
    weights = np.prod(np.where(outcomes == 1, chances, 1.0 - chances), axis=1)

    def mean(measure, p):
        return sum(w * measure(np.array(p), y) for w, y in zip(weights, outcomes, strict=True))

    honest = mean(two_bin_error, chances)
    assert honest == pytest.approx(np.sum(chances * (1 - chances)) / 9, rel=1e-12)
    others = {p: mean(two_bin_error, p) for p in product(grid.tolist(), repeat=3)}
    assert min(others.values()) >= honest - 1e-12
    # as small are those that are calibrated, if coarser, as .2, .4, .4, and no others
    for p, value in others.items():
        biases = [abs(np.sum((np.array(p) - chances)[np.array(p) == v])) for v in set(p)]
        assert (value < honest + 1e-9) == (max(biases) < 1e-9)
    # the expected calibration error rewards forecasts that are wrong on purpose
    assert mean(expected_calibration_error, (0.3, 0.3, 0.3)) < mean(expected_calibration_error, chances)


def smooth_error_by_linear_program(p, y):
    counts, _, _ = count_shares(p, y)
    n = len(counts.values)
    gaps, i = np.diff(counts.values), np.arange(n - 1)
    rise = np.zeros((n - 1, n))
    rise[i, i], rise[i, i + 1] = -1, 1
    answer = linprog(counts.biases, A_ub=np.vstack([rise, -rise]), b_ub=np.tile(gaps, 2), bounds=(-1, 1))
    return -answer.fun


def histories_for_the_linear_program(each):
    """Short ones, on coarse and fine grids, and a long one whose outcomes alternate."""
    rng = np.random.default_rng(6)
    for grid in np.repeat([3, 30, 10**9], each):
        n_rounds = rng.integers(1, 40)
        yield rng.integers(0, grid + 1, n_rounds) / grid, rng.integers(0, 2, n_rounds)
    yield np.sort(rng.random(600)), np.arange(600) % 2


@pytest.mark.parametrize("each", [40, pytest.param(120, marks=pytest.mark.slow)])
def test_it_equals_the_linear_program(each):
    for p, y in histories_for_the_linear_program(each):
        expected = smooth_error_by_linear_program(p, y)
        assert smooth_calibration_error(p, y, normalize=False) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=examples(100), deadline=None)
@given(histories(40), PARTS)
def test_the_witness_is_lipschitz_and_attains_the_error(history, part):
    p, y, part = in_parts(history, part)
    values, weights = smooth_calibration_witness(p, y)
    assert (np.abs(weights) <= 1).all()
    assert (np.abs(np.diff(weights)) <= np.diff(values) + 1e-15).all()
    attained = sum(np.interp(v, values, weights) * (o - v) for v, o in zip(p, y, strict=True))
    assert attained == pytest.approx(smooth_calibration_error(p, y, normalize=False), abs=1e-9)
    if part == 1.0:
        counts, _, _ = count_shares(p, y)
        counted = smooth_calibration_error_from_counts(counts.values, counts.zeros, counts.ones)
        assert counted == pytest.approx(smooth_calibration_error(p, y), abs=1e-12)


def test_on_a_grid_the_monitor_loses_nothing():
    p, y, _ = look_ahead_run(lambda t, v: int(t % 5 < 2), 400, 20)
    monitor = CalibrationMonitor()
    assert monitor.calibration_distance().upper == monitor.smooth_calibration_error().upper == 0.0
    for options, wrong in (
        ({"budget": 0}, "budget must be a positive number"),
        ({"rtol": -1}, "rtol must be"),
    ):
        with pytest.raises(ValueError, match=wrong):
            monitor.calibration_distance(**options)
    for t, (forecast, outcome) in enumerate(zip(p, y, strict=True)):
        monitor.update(forecast, outcome)
        if t in (0, 1, 399):
            answer = monitor.calibration_distance()
            whole = calibration_distance(p[: t + 1], y[: t + 1], method="bracket")
            assert (answer.lower, answer.upper) == (whole.lower, whole.upper)
            assert monitor.calibration_distance(normalize=True).upper == pytest.approx(whole.upper / (t + 1))
    assert monitor.smooth_calibration_error().upper == pytest.approx(smooth_calibration_error(p, y))
    assert (monitor.moved, monitor.n_rounds) == (0.0, 400)


def test_memory_is_bounded_and_what_it_costs_widens_the_bracket():
    rng = np.random.default_rng(0)
    p = rng.random(300)
    y = rng.random(300) < p**2
    monitor, one = CalibrationMonitor(n_bins=20), CalibrationMonitor(n_bins=20)
    monitor.update_many(p[:100], y[:100])
    monitor.update_many(p[100:], y[100:])
    assert len(monitor.counts().values) <= 2 * 20 + 1
    assert 0 < monitor.moved <= 300 / 40
    exact = calibration_distance(p, y, method="exact").exact
    answer = monitor.calibration_distance()
    assert answer.lower <= exact <= answer.upper
    assert answer.upper - answer.lower <= 2 * monitor.moved + 0.5
    smooth = monitor.smooth_calibration_error()
    assert smooth.lower <= smooth_calibration_error(p, y) <= smooth.upper
    # rounds one by one or many at once are the same
    for forecast, outcome in zip(p, y, strict=True):
        one.update(forecast, outcome)
    for name in ("values", "zeros", "ones"):
        np.testing.assert_array_equal(getattr(one.counts(), name), getattr(monitor.counts(), name))
    assert one.moved == pytest.approx(monitor.moved)


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


def bin_of(v, n_bins):
    return v if n_bins is None else min(int(v * n_bins), n_bins - 1)


@settings(max_examples=examples(100), deadline=None)
@given(tables(), st.sampled_from([None, 1, 2, 4, 16]))
def test_the_three_errors_are_those_of_loops_over_rows(table, n_bins):
    p, y = table
    n, k = p.shape
    top = [max(range(k), key=lambda j: row[j]) for row in p]
    classwise = by_sets(
        ((j, bin_of(p[i, j], n_bins)), p[i, j] - (y[i] == j)) for i in range(n) for j in range(k)
    )
    confident = [(bin_of(p[i].max(), n_bins), p[i].max() - (y[i] == top[i])) for i in range(n)]
    expected = [
        classwise,
        by_sets(confident),
        by_sets(((t, key), bias) for t, (key, bias) in zip(top, confident, strict=True)),
    ]
    for error, value in zip(EVENTS, expected, strict=True):
        assert error(p, y, n_bins=n_bins, normalize=False) == pytest.approx(value, abs=1e-12)
        assert error(p, y, n_bins=n_bins, normalize=True) == pytest.approx(value / n, abs=1e-12)
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
    assert linf_conditional_error(p, y, n_bins=n_levels, min_rows=min_rows) == pytest.approx(
        expected, abs=1e-12
    )
    weighted, largest = (
        lp_calibration_error(p, y, np.inf, n_bins=n_levels),
        linf_conditional_error(p, y, n_bins=n_levels),
    )
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
        with pytest.raises(
            ValueError, match=r"labels must be one-dimensional, .*, of one-hot rows numpy.argmax"
        ):
            measure(p, y)
    # a row that exceeds one by rounding is taken
    assert [error([[1.0 + 1e-7, 0.0]], [0]) for error in EVENTS] == [0.0, 0.0, 0.0]
