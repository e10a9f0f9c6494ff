"""Fitted exponents: right on power laws, with honest errors, and what theory says on the games themselves."""

import math

import numpy as np
import polars as pl
import pytest
from scipy.stats import linregress

from simulations.sweeps.results import LEAST, fit, rates_table

ROUNDS = np.array([300, 1000, 3000, 10_000])


def games(errors, seeds, rounds=ROUNDS):
    """rounds, seeds, errors of every game, from a function of T and seed."""
    T, seed = (grid.ravel() for grid in np.meshgrid(rounds, seeds))
    return T, seed, np.array([errors(t, s) for t, s in zip(T, seed, strict=True)])


def test_a_power_law_is_found_exactly():
    exponent, error = fit(*games(lambda T, seed: 3.0 * seed * T**0.4, [1, 2, 3]))
    assert exponent == pytest.approx(0.4)
    assert error == pytest.approx(0.0, abs=1e-12)


def test_the_error_over_seeds_is_that_of_the_mean_of_their_slopes():
    slopes = {1: 0.30, 2: 0.50, 3: 0.55}
    exponent, error = fit(*games(lambda T, seed: 2.0 * T ** slopes[seed], list(slopes)))
    assert exponent == pytest.approx(0.45)
    assert error == pytest.approx(np.std(list(slopes.values()), ddof=1) / math.sqrt(3))


def test_residuals_count_where_seeds_say_too_little():
    wiggle = dict(zip(ROUNDS, [1.0, 1.3, 0.9, 1.1], strict=True))
    line = linregress(np.log(ROUNDS), [math.log(2 * T**0.5 * wiggle[T]) for T in ROUNDS])
    for seeds in ([1], [1, 2, 3]):
        exponent, error = fit(*games(lambda T, seed: 2.0 * T**0.5 * wiggle[T], seeds))
        assert exponent == pytest.approx(line.slope)
        assert error == pytest.approx(line.stderr)


def test_what_stays_below_half_a_round_does_not_grow():
    exponent, error = fit(*games(lambda T, seed: LEAST * T / 10_001, [1]))
    assert exponent == pytest.approx(0.0, abs=1e-12)
    assert error == pytest.approx(0.0, abs=1e-12)
    assert fit([10, 100], [1, 1], [0.0, 0.0]).exponent == 0.0


def test_one_seed_and_two_rounds_have_no_error_and_one_round_has_no_rate():
    assert fit([100, 10_000], [1, 1], [10.0, 1000.0]) == (pytest.approx(1.0), None)
    assert fit([100, 100], [1, 2], [10.0, 11.0]) is None
    assert fit([100, 1000], [1, 2], [10.0, 11.0]) is None


def test_a_seed_that_has_not_finished_counts_with_what_it_has():
    T, seed, errors = games(lambda T, seed: T**0.5, [1, 2])
    assert fit(T[:-1], seed[:-1], errors[:-1]).exponent == pytest.approx(0.5)


def test_the_table_has_a_row_per_pair_and_measure():
    T, seed, errors = games(lambda T, seed: 2 * T**0.5 + seed, [1, 2])
    results = pl.DataFrame(
        {
            "forecaster": "sign", "adversary": "coin", "rounds": T, "seed": seed,
            "distance_upper": errors, "ece": 0.5 * T, "certificate": pl.Series([None] * len(T)),
            "regret": errors - 1000.0,
        }
    )  # fmt: skip
    table = rates_table(results)
    assert table["measure"].to_list() == ["distance", "ece", "regret"]
    distance, ece, regret = table.to_dicts()
    # below zero the constant forecast does worse: nothing grows
    assert (regret["exponent"], regret["nominal"]) == (0.0, 0.5)
    assert ece["exponent"] == pytest.approx(1.0)
    assert ece["constant"] == pytest.approx(0.5 * 10_000 ** (1 / 3))
    assert distance["constant"] == pytest.approx((2 * math.sqrt(300) + 2) / math.sqrt(300))
    assert (distance["n_seeds"], distance["n_rounds"], distance["most_rounds"]) == (2, 4, 10_000)
    single = rates_table(results.filter(pl.col("rounds") == 300))
    assert single.is_empty()
    assert single.columns == table.columns
