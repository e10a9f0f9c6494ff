"""How far the l_p calibration error of a sample may be from that of its source."""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import compiled
from onlinecal.measures.lp.errors import checked, lp_calibration_error
from onlinecal.measures.lp.level_sets import norm, number_level_sets
from onlinecal.measures.monitor import Interval
from onlinecal.validation import check_choice, check_count, check_open_unit

Method = Literal["bootstrap", "proven"]
METHODS: tuple[Method, ...] = get_args(Method)


def lp_calibration_interval(
    probabilities: ArrayLike,
    labels: ArrayLike,
    p: float = 2,
    n_levels: int = 10,
    method: Method = "bootstrap",
    confidence: float = 0.95,
    n_resamples: int = 1000,
    seed: int = 0,
) -> Interval:
    """A confidence interval for the l_p calibration error of the source that the rows were drawn from.

    Parameters
    ----------
    probabilities, labels, p, n_levels
        As for `lp_calibration_error`; the rows are taken to be independent.
    method
        "bootstrap": rows are drawn anew n_resamples times; the interval turns the spread of the resampled
        errors round the sample's own (the basic bootstrap), which also takes off the amount by which chance
        makes every estimate too large. Narrow, and right for many rows in each level set that matters.
        "proven": holds for every source and any number of rows; wide, about 4 sqrt(1/n) for p = 2.
    confidence
        How often the interval is to hold the truth, between 0 and 1.
    n_resamples, seed
        For the bootstrap; the same seed gives the same interval. Memory D k for D level sets met.

    Returns
    -------
    Interval
        lower <= upper, averages over rows, at least 0.

    Raises
    ------
    ValueError
        As `lp_calibration_error`, and for a bad method, confidence or n_resamples.

    Notes
    -----
    The error is the norm of the mean of n independent vectors X = (f - y) placed at their level set, whose
    l1 norm is at most 2 and whose entries are at most 1, so |X|_p^p <= 2. Exchanging one row moves the norm
    by at most c/n with c = 4^(1/p) for two different level sets and
    c = 2^(1/p) (1 + n_levels^(1/p - 1)) within one, where forecasts differ by at most 1/n_levels. Bounded
    differences then keep it within c sqrt(ln(2/(1 - confidence)) / (2n)) of its mean. The mean is above the
    truth by at most sqrt(2/n) for p >= 2 (the l_p norm is below the l2 norm, whose mean square is the sum of
    variances), and by at most (2^(p+2) n^(1-p))^(1/p) for p < 2 (von Bahr and Esseen, class by class).

    References
    ----------
    McDiarmid, "On the method of bounded differences" (1989); von Bahr & Esseen (1965); Efron & Tibshirani,
    "An Introduction to the Bootstrap" (1993), chapter 13.
    """
    check_choice(method, METHODS, "method")
    check_open_unit(confidence, "confidence")
    check_count(n_resamples, "n_resamples")
    table, classes, p, n_levels = checked(probabilities, labels, p, n_levels)
    error = lp_calibration_error(table, classes, p, n_levels)
    n = len(table)
    missed = 1.0 - float(confidence)
    if method == "proven":
        spread = _largest_change(p, n_levels) * math.sqrt(math.log(2.0 / missed) / (2 * n))
        largest = 2.0 ** (1.0 / p)
        return Interval(max(0.0, error - spread - _bias(p, n)), min(largest, error + spread))
    numbers, first_rows = number_level_sets(table, n_levels)
    rng = np.random.default_rng(seed)
    sums = np.empty((len(first_rows), table.shape[1]))
    drawn = np.array(
        [
            _weighted_error(table, classes, numbers, np.bincount(rng.integers(0, n, n), minlength=n), p, sums)
            for _ in range(n_resamples)
        ]
    )
    low, high = np.quantile(drawn, [missed / 2, 1.0 - missed / 2])
    return Interval(max(0.0, 2 * error - float(high)), max(0.0, 2 * error - float(low)))


def _largest_change(p: float, n_levels: int) -> float:
    """n times the most that one row can move the error."""
    return max(4.0 ** (1.0 / p), 2.0 ** (1.0 / p) * (1.0 + float(n_levels) ** (1.0 / p - 1.0)))


def _bias(p: float, n: int) -> float:
    """The most by which the mean of the sample's error exceeds the source's."""
    if p >= 2:
        return math.sqrt(2.0 / n)
    return float((2.0 ** (p + 2) * n ** (1.0 - p)) ** (1.0 / p))


@compiled
def _weighted_error(
    table: Floats, labels: Ints, numbers: Ints, weights: Ints, p: float, sums: Floats
) -> float:
    """The error of rows repeated `weights` times; `sums`, shape (D, k), is written over."""
    sums[:] = 0.0
    for i in range(table.shape[0]):
        if weights[i] > 0:
            for j in range(table.shape[1]):
                sums[numbers[i], j] += weights[i] * table[i, j]
            sums[numbers[i], labels[i]] -= weights[i]
    return norm(sums.ravel(), p) / table.shape[0]
