"""The l_p calibration error, of a history and running, against its definition; level sets, intervals."""

from itertools import pairwise, product
from math import comb, inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from onlinecal import lp_calibration_error
from onlinecal.measures import lp_calibration_interval, lp_calibration_report
from onlinecal.measures.lp import level_sets
from onlinecal.measures.lp.level_sets import (
    RunningLpError,
    count_level_sets,
    levels_of,
    norm,
    norm_of_pair,
    number_level_sets,
)
from onlinecal.recalibration.lp.online import level_set_of
from onlinecal.recalibration.lp.statistics import rho
from tests.properties import examples

ORDERS = (1, 1.5, 2, 4, inf)


def definition(table, labels, p, n_levels):
    """Definition 6, level set by level set, in plain Python."""
    n, k = np.shape(table)
    sums = {}
    for row, label in zip(np.asarray(table, float), labels, strict=True):
        key = tuple(np.floor(row * n_levels + 1e-7 * n_levels).astype(int))
        sums[key] = sums.get(key, np.zeros(k)) + row - np.eye(k)[label]
    errors = np.abs(np.concatenate(list(sums.values()))) / n
    return errors.max() if p == inf else (errors**p).sum() ** (1 / p)


def drawn(n, k, seed=0):
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.full(k, 0.5), n)
    return table, rng.integers(0, k, n)


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(2, 40), st.integers(1, 12), st.integers(1, 150), st.integers(0, 2**32 - 1), st.booleans())
def test_the_error_is_its_definition_falls_with_p_and_stays_below_the_bound(k, n_levels, n, seed, coarse):
    rng = np.random.default_rng(seed)
    table, labels = drawn(n, k, seed)
    if coarse:
        table = rng.multinomial(6, np.full(k, 1 / k), n) / 6
    errors = [lp_calibration_error(table, labels, p, n_bins=n_levels) for p in ORDERS]
    assert errors == pytest.approx(
        [definition(table, labels, p, n_levels) for p in ORDERS], rel=1e-9, abs=1e-15
    )
    assert all(later <= earlier + 1e-12 for earlier, later in pairwise(errors))
    assert all(error <= 2 ** (1 / p) + 1e-12 for error, p in zip(errors, ORDERS, strict=True))


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("n_levels", [1, 2, 3, 5])
def test_the_number_of_level_sets(k, n_levels):
    """Every rounding of a probability vector, met on a grid fine enough to meet them all."""
    fine = k * n_levels
    met = {
        tuple(x * n_levels // fine for x in counts)
        for counts in product(range(fine + 1), repeat=k)
        if sum(counts) == fine
    }
    assert len(met) == count_level_sets(n_levels, k)
    assert (len(met) == comb(n_levels + k, k)) == (n_levels < k)


def test_a_value_a_rounding_below_a_multiple_is_that_multiple():
    def levels(values, n_levels):
        return levels_of(np.array(values, float)[:, None], n_levels).ravel().tolist()

    below = 1.0 - 0.9
    assert below < 0.1
    assert 0.29 * 100 < 29
    values = [0.29, 0.3, below, 0.1 * 3, 1 - 0.7, np.float32(0.7), 0.7 - 1e-8, 0.7 - 1e-6]
    assert levels(values, 100) == [29, 30, 10, 30, 30, 70, 70, 69]
    assert levels(np.arange(1001) / 1000, 1000) == list(range(1001))
    assert levels((np.arange(1001) / 1000).astype(np.float32), 1000) == list(range(1001))
    # on fine grids at most a quarter of a level is allowed for
    assert levels([0.5, 0.5 - 1e-8, 0.5 - 3e-8], 10**7) == [5 * 10**6, 5 * 10**6, 5 * 10**6 - 1]


@pytest.mark.parametrize("k", [2, 5, 2000])
@pytest.mark.parametrize("n_levels", [1, 7, 10**4, 10**8])
def test_the_nearest_distribution_of_a_level_set_is_in_it(k, n_levels):
    rng = np.random.default_rng(0)
    table = rng.dirichlet(np.full(k, 0.3), 50)
    table[0] = 1.0 / k
    levels = levels_of(table, n_levels)
    nearest = rho(levels, n_levels)
    assert nearest.sum(axis=1) == pytest.approx(1.0)
    assert (levels_of(nearest, n_levels) == levels).all()
    assert (nearest - levels / n_levels).max() < 1 / n_levels


def test_many_level_sets_are_all_told_apart_and_numbered_in_order_of_appearance():
    table, _ = drawn(20_000, 6, seed=3)
    numbers, first_rows = number_level_sets(table, 20)
    _, first, expected = np.unique(levels_of(table, 20), axis=0, return_index=True, return_inverse=True)
    np.testing.assert_array_equal(first_rows, np.sort(first))
    np.testing.assert_array_equal(first_rows[numbers], first[expected.ravel()])


def test_norms_do_not_overflow_or_vanish():
    assert norm(np.array([3e-200, 4e-200]), 2.0) == pytest.approx(5e-200)
    assert norm(np.full(8, 0.5), 3.0) == pytest.approx(1.0)
    assert norm(np.zeros(3), 2.0) == 0.0
    assert norm(np.array([-3.0, 2.0]), inf) == 3.0
    assert norm_of_pair(3e-200, 4e-200, 2.0) == pytest.approx(5e-200)
    assert norm_of_pair(0.0, 0.2, 50.0) == 0.2


def test_the_report_splits_the_error_into_its_parts():
    table, labels = drawn(400, 3)
    parts = lp_calibration_report(table, labels, 2, n_bins=4, top=10**6)
    sizes = np.abs([part.error for part in parts])
    assert np.sqrt((sizes**2).sum()) == pytest.approx(lp_calibration_error(table, labels, 2, n_bins=4))
    assert sum(part.share for part in parts) == pytest.approx(1.0)
    assert (np.diff(sizes) <= 0).all()
    first = parts[0]
    inside = (levels_of(table, 4) == np.round(first.level_set * 4)).all(axis=1)
    assert first.n_rows == inside.sum()
    assert first.forecast == pytest.approx(table[inside, first.class_number].mean())
    assert first.frequency == pytest.approx((labels[inside] == first.class_number).mean())
    assert first.error == pytest.approx((first.forecast - first.frequency) * first.n_rows / 400)
    shorter = lp_calibration_report(table, labels, 2, n_bins=4, top=5)
    assert [(part.class_number, part.error) for part in shorter] == [
        (part.class_number, part.error) for part in parts[:5]
    ]
    assert lp_calibration_report(table, labels, inf, n_bins=4, top=1)[0].share == 1.0
    assert lp_calibration_report([[0.5, 0.5]] * 2, [0, 1], 2, n_bins=10) == []


@pytest.mark.parametrize(("p", "weighed"), [(1.5, True), (2, False), (inf, True)])
def test_intervals_hold_the_truth_of_a_known_source(p, weighed):
    """Two forecasts, each true with another probability: the error of the source is known.

    Weights make up for a source in which the first of them comes three times as often as it should, or are as
    they come, whatever the rows are.
    """
    forecasts, truth = np.array([[0.75, 0.25], [0.25, 0.75]]), np.array([0.25, 0.625])
    expected = norm(np.repeat(np.abs(forecasts[:, 1] - truth) / 2, 2), float(p))
    rng = np.random.default_rng(5)
    held = {"normal": 0, "proven": 0}
    for seed in range(60):
        for method in held:
            uneven = weighed and method == "normal"
            which = (rng.random(400) < (0.25 if uneven else 0.5)).astype(int)
            labels = (rng.random(400) < truth[which]).astype(int)
            weights = np.where(which == 1, 3.0, 1.0) if uneven else rng.integers(1, 4, 400)
            interval = lp_calibration_interval(
                forecasts[which], labels, p, n_bins=4, method=method, n_resamples=200, random_state=seed,
                sample_weight=weights if weighed else None,
            )  # fmt: skip
            assert 0 <= interval.lower <= interval.upper
            held[method] += interval.lower <= expected <= interval.upper
    assert held["proven"] == 60
    assert held["normal"] >= 55


@pytest.mark.parametrize(
    ("n", "frequency", "forecast"),
    [(20, 0.05, 0.02), (50, 0.05, 0.02), (200, 0.005, 0.02), (20, 0.5, 0.5), (5, 0.3, 0.5), (100, 0.9, 0.99)],
)
def test_the_normal_interval_of_one_level_set_holds_the_truth_as_often_as_it_says(n, frequency, forecast):
    """Summed over all counts of events, each with its chance: no event at all is the most usual of some."""
    truth, held = abs(frequency - forecast) * 2**0.5, 0.0
    for ones in range(n + 1):
        chance = binom.pmf(ones, n, frequency)
        if chance < 1e-4:
            continue
        table, labels = np.tile([1 - forecast, forecast], (n, 1)), (np.arange(n) < ones).astype(int)
        found = lp_calibration_interval(table, labels, n_resamples=200)
        assert found.lower < found.upper
        held += chance * (found.lower <= truth <= found.upper)
    assert held >= 0.935


@pytest.mark.parametrize(
    ("classes", "n_levels", "bend"), [(2, 10, 1.0), (2, 100, 1.0), (2, 10, 2.0), (5, 5, 1.5)]
)
def test_the_normal_interval_of_many_level_sets_holds_the_truth_as_often_as_it_says(classes, n_levels, bend):
    """Forecasts that are right, which every estimate finds wrong by chance, and forecasts that are not."""
    rng = np.random.default_rng(0)
    forecasts = rng.dirichlet(np.ones(classes), 60)
    truth = forecasts**bend / (forecasts**bend).sum(axis=1, keepdims=True)
    numbers, first = number_level_sets(forecasts, n_levels)
    biases = np.zeros((len(first), classes))
    np.add.at(biases, numbers, (forecasts - truth) / 60)
    expected, held = float(np.sqrt((biases**2).sum())), 0
    for seed in range(60):
        rows = rng.integers(0, 60, 300)
        labels = (truth[rows].cumsum(axis=1)[:, :-1] < rng.random((300, 1))).sum(axis=1)
        found = lp_calibration_interval(
            forecasts[rows], labels, 2, n_bins=n_levels, n_resamples=100, random_state=seed
        )
        held += found.lower <= expected <= found.upper
    assert held >= 55


@pytest.mark.parametrize("method", ["normal", "proven"])
def test_an_interval_leaves_out_rows_without_weight_and_does_not_know_the_unit_of_weights(method):
    """A row that counts twice is drawn once: the interval of two such rows is narrower."""
    table, labels = drawn(200, 3)
    weights = np.random.default_rng(2).integers(0, 3, 200)

    def found(rows, w):
        told = {"method": method, "n_resamples": 50, "sample_weight": w}
        found = lp_calibration_interval(table[rows], labels[rows], 1.5, n_bins=4, **told)
        return np.array([found.lower, found.upper])

    everyone, kept, twice = np.arange(200), np.flatnonzero(weights == 2), np.repeat(np.arange(200), weights)
    one = found(everyone, weights)
    assert one == pytest.approx(found(everyone, weights / 8), rel=1e-12)
    assert found(everyone, weights == 2) == pytest.approx(found(kept, None), rel=1e-12)
    repeated = found(twice, None)
    assert np.ptp(one) > 1.05 * np.ptp(repeated)


@pytest.mark.parametrize("weight", [1.0, 5.0])
def test_no_exchanged_row_moves_the_error_by_more_than_the_proven_interval_allows(weight):
    """Two large level sets, pulled apart: a row that goes from one to the other moves nearly 4^(1/p)/n."""
    surely, nearly = [1.0, 0.0], [0.95, 0.05]
    labels = np.array([1] * 20 + [0] * 400 + [1])
    there = np.array([surely] * 20 + [nearly] * 401)
    moved = np.array([surely] * 20 + [nearly] * 400 + [surely])
    weights = np.array([1.0] * 420 + [weight])
    shares = weights / weights.sum()
    told = {"p": 2, "n_bins": 10, "sample_weight": weights}
    before, after = (lp_calibration_error(rows, labels, **told) for rows in (there, moved))
    upper = lp_calibration_interval(there, labels, method="proven", confidence=0.5, **told).upper
    allowed = (upper - before) / np.sqrt(np.log(2 / 0.5) / 2 * (shares**2).sum())
    assert 1.88 < abs(after - before) / shares[-1] <= allowed == pytest.approx(2.0)


@pytest.mark.parametrize("p", [1.0, 1.3, 1.9, 2.0, 5.0])
@pytest.mark.parametrize("weighed", [False, True])
def test_the_proven_interval_takes_off_what_chance_adds(p, weighed):
    """Below 2, E|sum of s (X - E X)|^p <= 2 sum of s^p E|X - E X|^p, of at most 2^p |X|^p, at most 2.

    From 2 on, the l2 norm is larger, whose mean square is at most 2 sum of s^2.
    """
    table, labels, n = np.tile([1.0, 0.0], (40_000, 1)), np.ones(40_000, int), 40_000
    weights = np.tile([1.0, 2.0], 20_000) if weighed else np.ones(n)
    shares = weights / weights.sum()
    error = lp_calibration_error(table, labels, p, n_bins=4)
    found = lp_calibration_interval(
        table,
        labels,
        p,
        n_bins=4,
        method="proven",
        confidence=0.9,
        sample_weight=weights if weighed else None,
    )
    largest = max(4 ** (1 / p), 2 ** (1 / p) * (1 + 4 ** (1 / p - 1)))
    spread = largest * np.sqrt(np.log(20) / 2 * (shares**2).sum())
    below_two = (2 * (shares**p).sum() * 2**p * 2) ** (1 / p)
    allowed = below_two if p < 2 else np.sqrt(2 * (shares**2).sum())
    assert found.lower == pytest.approx(max(0.0, error - spread - allowed), abs=1e-12)
    assert (found.lower > 0.0) == (p > 1.0)
    assert found.upper == pytest.approx(2 ** (1 / p))


def settled(table, labels, p, n_levels):
    error = RunningLpError(p)
    for row, label in zip(table, labels.tolist(), strict=True):
        error.add(level_set_of(row, n_levels), dict(enumerate(row.tolist())), label)
    return error


@given(
    st.integers(0, 2**32 - 1), st.integers(1, 120), st.integers(2, 5), st.sampled_from([1.0, 2.0, 7.5, 100.0])
)
def test_it_is_the_error_of_the_history_and_never_below_it(seed, rounds, k, p):
    rng = np.random.default_rng(seed)
    table = rng.multinomial(20, rng.dirichlet(np.full(k, 0.5), rounds)) / 20
    labels, n_levels = rng.integers(0, k, rounds), int(rng.integers(1, 12))
    exact = rounds * lp_calibration_error(table, labels, p, n_bins=n_levels)
    assert exact <= settled(table, labels, p, n_levels).value + 1e-13 <= exact + 1e-9 * rounds + 1e-12


def test_level_sets_beyond_the_room_are_bounded(monkeypatch):
    monkeypatch.setattr(level_sets, "MOST_LEVEL_SETS", 5)
    table, labels = drawn(300, 3)
    error = settled(table, labels, 2.0, 4)
    assert len(error.biases) == 5
    exact = 300 * lp_calibration_error(table, labels, 2, n_bins=4)
    assert exact < error.value <= exact + 2.0 * error.rest + 1e-6
    # a round that is only counted may cost two: the whole probability on one class, and another one came
    monkeypatch.setattr(level_sets, "MOST_LEVEL_SETS", 1)
    running = RunningLpError(1.0)
    running.add(((0, 10),), {0: 1.0}, 0)
    for rounds in (1, 2, 3):
        running.add(((1, 10),), {1: 1.0}, 0)
        assert running.rest == rounds
        assert 2.0 * rounds <= running.value <= 2.0 * rounds + 1e-6


@pytest.mark.parametrize("p", [1.0, 2.0, 5.0])
def test_no_deterministic_forecaster_can_promise_less_than_a_share_of_all_rounds(p):
    # of two classes on an even number of levels the one comes that is promised at most a half
    rng, rounds, n_levels = np.random.default_rng(1), 500, 4
    first = rng.random(rounds)
    first[:50] = 0.5 - 5e-8
    table = np.column_stack([first, 1.0 - first])
    labels = (levels_of(table, n_levels)[:, 0] >= n_levels // 2).astype(int)
    least = (0.5 - 1e-7) * 2.0 ** (1.0 / p) * (2.0 * n_levels + 1.0) ** (1.0 / p - 1.0)
    assert lp_calibration_error(table, labels, p, n_bins=n_levels) >= least
