"""Smooth calibration error: the largest bias that a 1-Lipschitz weight function of the forecast can pick up.

Unlike the expected calibration error it does not jump when forecasts move a little, and it is within a factor
of two of the lower distance to calibration on either side.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from onlinecal.measures.counts import Counts, Floats, Ints, check_counts, count_rounds


def smooth_calibration_error(forecasts: ArrayLike, outcomes: ArrayLike, normalize: bool = False) -> float:
    """The largest sum of w(forecast) (outcome - forecast) over 1-Lipschitz w from [0, 1] to [-1, 1].

    Exact, in time O(T log T).

    Parameters
    ----------
    forecasts
        Probabilities, shape (T,).
    outcomes
        0/1 or boolean, shape (T,).
    normalize
        False: the sum over rounds. True: divided by T.

    Returns
    -------
    float
        At least half, and at most twice, the lower distance to calibration.

    Raises
    ------
    ValueError
        Bad forecasts or outcomes; the message names the argument, the value and its row.

    References
    ----------
    Kakade & Foster, "Deterministic calibration and Nash equilibrium" (2008); Blasiok, Gopalan, Hu & Nakkiran,
    "A unifying theory of distance from calibration" (2023).

    Examples
    --------
    >>> round(smooth_calibration_error([0.2, 0.8, 0.6, 0.6], [0, 1, 1, 0], normalize=True), 12)
    0.06

    """
    counts, _, _ = count_rounds(forecasts, outcomes)
    error = smooth_error_of_counts(counts)
    return error / counts.n_rounds if normalize else error


def smooth_calibration_error_from_counts(
    values: ArrayLike, zeros: ArrayLike, ones: ArrayLike, normalize: bool = False
) -> float:
    """`smooth_calibration_error` of a history given as counts.

    Parameters
    ----------
    values
        Forecast values, shape (K,), in any order; repeated ones are added up.
    zeros, ones
        Rounds with that forecast and outcome 0, respectively 1; whole numbers, shape (K,).
    normalize
        False: the sum over rounds. True: divided by T.

    Raises
    ------
    ValueError
        Bad values or counts.

    """
    counts = check_counts(values, zeros, ones)
    error = smooth_error_of_counts(counts)
    return error / counts.n_rounds if normalize else error


def smooth_calibration_witness(forecasts: ArrayLike, outcomes: ArrayLike) -> tuple[Floats, Floats]:
    """The weight function that attains the smooth calibration error.

    Parameters
    ----------
    forecasts, outcomes
        As for `smooth_calibration_error`.

    Returns
    -------
    values, weights
        The distinct forecasts, increasing, and w there; each of shape (K,). Linear in between, w is
        1-Lipschitz.

    Examples
    --------
    >>> smooth_calibration_witness([0.2, 0.4], [1, 1])[1]
    array([1., 1.])

    """
    counts, _, _ = count_rounds(forecasts, outcomes)
    return counts.values, best_weights(counts.values, -counts.biases)


def smooth_error_of_counts(counts: Counts) -> float:
    """The smooth calibration error of a counted history, a sum."""
    gains = -counts.biases
    # w = 0 is allowed, so rounding alone cannot make the error negative
    return max(0.0, math.fsum(gains * best_weights(counts.values, gains)))


def best_weights(values: Floats, gains: Floats) -> Floats:
    """Weights w in [-1, 1] with the largest sum of gains * w and |w_i - w_j| <= |values_i - values_j|; (K,).

    Dynamic programming from left to right: V_i(w), the best sum up to value i with w_i = w, is concave and
    piecewise linear. Write it as the place x(s) where its slope is s + C_i, with C_i the sum of the gains so
    far: adding gains_i w then leaves x as it is. Moving on by a gap lets w change by as much, which moves
    x(s) down by the gap where the slope is positive, up where it is negative, and no further than -1 and 1.
    So x only ever drops at the known places s = -C_i; a move adds twice the gap to the drop at the present
    one and takes a gap each off the first and the last drops, so that all drops together stay 2.

    V_i is maximal between the two ends of the drop at -C_i. On the way back each weight is the point of that
    interval nearest to the weight after it.
    """
    totals = np.concatenate([np.zeros(1), np.cumsum(gains)])
    _, drop = np.unique(-totals, return_inverse=True)
    first, last = maximal_intervals(np.diff(values), drop.astype(np.int64))
    weights = np.empty(len(values))
    nearest_weights(np.diff(values), first, last, weights)
    return weights


@njit(cache=True)
def add_to(tree: Floats, leaf: int, amount: float) -> None:
    """Set a leaf of a sum tree to its value plus an amount; node k has the children 2k and 2k+1."""
    node = len(tree) // 2 + leaf
    tree[node] += amount
    while node > 1:
        node //= 2
        tree[node] = tree[2 * node] + tree[2 * node + 1]


@njit(cache=True)
def take_from_end(tree: Floats, side: int, amount: float) -> None:
    """Take an amount off the leaves, from the first one on (side 0) or from the last one on (side 1)."""
    n_leaves = len(tree) // 2
    while amount > 0.0 and tree[1] > 0.0:
        node = 1
        while node < n_leaves:
            node = 2 * node + side
            if tree[node] == 0.0:
                node ^= 1
        taken = min(amount, tree[node])
        add_to(tree, node - n_leaves, -taken)
        amount -= taken


@njit(cache=True)
def sum_before(tree: Floats, leaf: int) -> float:
    """Sum of the leaves before one."""
    node = len(tree) // 2 + leaf
    total = 0.0
    while node > 1:
        if node % 2 == 1:
            total += tree[node - 1]
        node //= 2
    return total


@njit(cache=True)
def maximal_intervals(gaps: Floats, drop: Ints) -> tuple[Floats, Floats]:
    """Where each V_i is maximal: two arrays (K,).

    gaps (K-1,) between values; drop (K+1,) int64, the rank of -C_i among all, from C_0 = 0 on.
    """
    n = len(drop) - 1
    n_leaves = 1
    while n_leaves < drop.max() + 1:
        n_leaves *= 2
    tree = np.zeros(2 * n_leaves)
    add_to(tree, drop[0], 2.0)
    first, last = np.empty(n), np.empty(n)
    for i in range(n):
        here = drop[i + 1]
        last[i] = 1.0 - sum_before(tree, here)
        first[i] = last[i] - tree[n_leaves + here]
        if i < n - 1:
            add_to(tree, here, 2.0 * gaps[i])
            take_from_end(tree, 0, gaps[i])
            take_from_end(tree, 1, gaps[i])
    return first, last


@njit(cache=True)
def nearest_weights(gaps: Floats, first: Floats, last: Floats, weights: Floats) -> None:
    """Fill in the weights from the last to the first: nearest in each interval, at most a gap apart."""
    n = len(weights)
    following, gap = 0.0, 2.0
    for i in range(n - 1, -1, -1):
        wanted = min(max(following, first[i]), last[i])
        following = min(max(wanted, following - gap, -1.0), following + gap, 1.0)
        weights[i] = following
        if i > 0:
            gap = gaps[i - 1]
