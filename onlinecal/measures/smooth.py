"""Smooth calibration error: the largest bias that a 1-Lipschitz weight function of the forecast can pick up.

Unlike the expected calibration error it does not jump when forecasts move a little. It is at least half and
at most twice the lower distance to calibration.

Nothing is kept between calls; kernels write only the arrays that they are given to fill. Values must
increase, as those of `Counts` do. The error is exact, so how it is found may change, but for its last bits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import compiled, uncounted
from onlinecal.measures.counts import Counts, check_counts, count_shares, prefix
from onlinecal.validation import check_flag


def smooth_calibration_error(
    forecasts: ArrayLike,
    outcomes: ArrayLike,
    *,
    normalize: bool = True,
    sample_weight: ArrayLike | None = None,
) -> float:
    """The bias under the worst smooth weight: the largest average of w(p) (y - p) over smooth weights w.

    w is any function of the forecast p with values in [-1, 1] that changes by at most as much as p; y is the
    outcome.

    The error is exact, and takes time O(T log T).

    Parameters
    ----------
    forecasts
        Probabilities, shape (T,).
    outcomes
        0/1, boolean, or any numbers in [0, 1], shape (T,).
    normalize
        True: the average over rounds. False: the sum over rounds.
    sample_weight
        For how many rounds each counts, shape (T,), at least 0; None: for one.

    Returns
    -------
    float
        At least half, and at most twice, the lower distance to calibration per round, as
        `lower_calibration_distance` finds it. It is also at most twice the distance to calibration.

    Raises
    ------
    ValueError
        Bad forecasts, outcomes or sample_weight; the message names the argument, the value and its row.

    References
    ----------
    Kakade & Foster, "Deterministic calibration and Nash equilibrium" (2008); Blasiok, Gopalan, Hu & Nakkiran,
    "A unifying theory of distance from calibration" (2023).

    Examples
    --------
    >>> round(smooth_calibration_error([0.2, 0.8, 0.6, 0.6], [0, 1, 1, 0]), 12)
    0.06
    """
    return _error(count_shares(forecasts, outcomes, sample_weight)[0], normalize)


def smooth_calibration_error_from_counts(
    values: ArrayLike, zeros: ArrayLike, ones: ArrayLike, *, normalize: bool = True
) -> float:
    """The smooth calibration error of rounds given as counts, exact, as `smooth_calibration_error` has it.

    It is the largest average over rounds of w(p) (y - p), forecast p and outcome y, over functions w with
    values in [-1, 1] that change by at most as much as p.

    Parameters
    ----------
    values
        Forecast values, shape (K,), in any order; repeated ones are added up.
    zeros, ones
        How many rounds have that forecast and outcome 0, respectively 1; whole numbers from 0, shape (K,).
    normalize
        True: the average over rounds. False: the sum over rounds.

    Returns
    -------
    float
        At least 0, and at most 1 if it is an average.

    Raises
    ------
    ValueError
        Values outside [0, 1], counts that are negative or not whole, lengths that differ, or no round at all.
    """
    return _error(check_counts(values, zeros, ones), normalize)


def _error(counts: Counts, normalize: bool) -> float:
    error = smooth_error_of_counts(counts)
    return error / counts.total if check_flag(normalize, "normalize") else error


def smooth_calibration_witness(
    forecasts: ArrayLike, outcomes: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> tuple[Floats, Floats]:
    """The weights w with which the average of w(forecast) (outcome - forecast) is as large as it can be.

    That average over rounds is the `smooth_calibration_error`; w is any function with values in [-1, 1] that
    changes by at most as much as the forecast.

    Parameters
    ----------
    forecasts
        Probabilities, shape (T,).
    outcomes
        0/1, boolean, or any numbers in [0, 1], shape (T,).
    sample_weight
        For how many rounds each counts, shape (T,), at least 0; None: for one.

    Returns
    -------
    values, weights
        The distinct forecasts, increasing, and w at each of them; both of shape (K,). w is large where
        outcomes are 1 more often than was forecast, and small, down to -1, where they are so less often;
        since it is smooth, neighbouring forecasts decide its sign, too.

    Raises
    ------
    ValueError
        Bad forecasts, outcomes or sample_weight; the message names the argument, the value and its row.

    Examples
    --------
    >>> smooth_calibration_witness([0.2, 0.4], [1, 1])[1]
    array([1., 1.])
    """
    counts, _, _ = count_shares(forecasts, outcomes, sample_weight)
    return counts.values, best_weights(counts.values, -counts.biases)


def smooth_error_of_counts(counts: Counts) -> float:
    """The smooth calibration error of a counted history, a sum."""
    gains = -counts.biases
    # w = 0 is allowed, so rounding alone cannot make the error negative
    return max(0.0, float(np.sum(gains * best_weights(counts.values, gains))))


def best_weights(values: Floats, gains: Floats) -> Floats:
    """Weights w in [-1, 1] with the largest sum of gains * w and |w_i - w_j| <= |values_i - values_j|; (K,).

    Dynamic programming from left to right: V_i(w), the best sum up to value i with w_i = w, is concave and
    piecewise linear. Write it as the place x(s) where its slope is s + C_i, with C_i the sum of the gains so
    far: adding gains_i w then leaves x as it is. The next value is a gap away, so w may change by the gap.
    This moves x(s) down by the gap where the slope is positive, up where it is negative, and no further than
    -1 and 1. So x only drops at the known places s = -C_i. A move adds twice the gap to the drop at the
    present place and takes a gap off the first and the last drops, so that the sum of all drops stays 2.

    V_i is maximal between the two ends of the drop at -C_i. On the way back each weight is the point of that
    interval nearest to the weight after it.
    """
    _, drop = np.unique(-prefix(gains), return_inverse=True)
    n_drops = int(drop.max()) + 1
    first, last, weights = np.empty((3, len(values)))
    # made outside of kernels, since numba compiles the making of arrays slowly
    sizes, sums, filled = np.zeros(n_drops), np.zeros(n_drops + 1), np.zeros(n_drops + 1)
    # the weights before the first value may be anything in [-1, 1], and after the last one no gap counts
    gaps = np.concatenate([[1.0], np.diff(values), [0.0]])
    fill_weights(gaps, drop.astype(np.int64), sizes, sums, filled, first, last, weights)
    return weights


@compiled
def fill_weights(
    gaps: Floats,
    drop: Ints,
    sizes: Floats,
    sums: Floats,
    filled: Floats,
    first: Floats,
    last: Floats,
    weights: Floats,
) -> None:
    """Fill in the first and the last weight at which each V_i is maximal, and then the weights, (K,) each.

    gaps (K+1,) are those after each value, with 1 before all and 0 after them; drop (K+1,) int64 is the rank
    of -C_i among all, from C_0 = 0 on. The sizes of drops are kept by rank, (D,) for D ranks, with a Fenwick
    tree of their sums and one that counts those above zero, (D+1,) each: zeros at first.
    """
    n_filled = 0.0
    for i in range(len(drop)):
        here, gap = drop[i], gaps[i]
        if i > 0:
            last[i - 1] = 1.0 - sum_before(sums, here)
            first[i - 1] = last[i - 1] - sizes[here]
        if gap > 0.0:
            n_filled += add_to(sizes, sums, filled, here, 2.0 * gap)
        if i == 0:
            continue
        for side in range(2):
            left = gap
            while left > 0.0 and n_filled > 0.0:
                end = place_of(filled, side * (n_filled - 1.0))
                taken = sizes[end]
                if taken > left:
                    taken = left
                n_filled += add_to(sizes, sums, filled, end, -taken)
                left -= taken
    # on the way back each weight is the one of its interval that is nearest to the next weight
    following, gap = 0.0, 2.0
    for i in range(len(weights) - 1, -1, -1):
        wanted = clipped(following, first[i], last[i])
        following = clipped(clipped(wanted, following - gap, following + gap), -1.0, 1.0)
        weights[i] = following
        gap = gaps[i]


@uncounted
def add_to(sizes: Floats, sums: Floats, filled: Floats, place: int, amount: float) -> float:
    """Add an amount at a place, and say by how much the number of filled places changes."""
    change, node = 0.0, place + 1
    if sizes[place] == 0.0:
        change = 1.0
    sizes[place] += amount
    if sizes[place] == 0.0:
        change = -1.0
    while node < len(sums):
        sums[node] += amount
        if change != 0.0:
            filled[node] += change
        node += node & -node
    return change


@uncounted
def sum_before(sums: Floats, place: int) -> float:
    """Sum of the amounts before a place."""
    total, node = 0.0, place
    while node > 0:
        total += sums[node]
        node &= node - 1
    return total


@uncounted
def place_of(filled: Floats, before: float) -> int:
    """The filled place with so many filled ones before it, in a Fenwick tree that has a 1 for each."""
    node, step = 0, 1
    while 2 * step < len(filled):
        step *= 2
    while step > 0:
        if node + step < len(filled) and filled[node + step] <= before:
            node += step
            before -= filled[node]
        step >>= 1
    return node


@uncounted
def clipped(x: float, low: float, high: float) -> float:
    """The number from low to high that is nearest to x; high, if it is less than low."""
    if x < low:
        x = low
    if x > high:
        x = high
    return x
