"""Rows that count several times, or in part: sample weights of the fits on tables of probabilities.

A row of weight w counts as w equal rows. None stands for rows that count once each.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinecal.arrays import Floats
from onlinecal.measures.decision.losses import residuals
from onlinecal.pieces import as_doubles, pieces
from onlinecal.validation import check_vector

Weights = NDArray[np.float64] | None


def check_weights(values: ArrayLike | None, n_rows: int) -> Weights:
    """Weights of shape (n,), finite and not negative, one of them positive, as float64; None is passed on.

    Raises
    ------
    ValueError
        Anything else; the message names the value and its row.
    """
    if values is None:
        return None
    array = check_vector(values, "sample_weight")
    if array.dtype.kind not in "iufb":
        raise ValueError(f"sample_weight must be numbers, got {array.tolist()[0]!r}")
    weights = array.astype(np.float64)
    if len(weights) != n_rows:
        raise ValueError(f"sample_weight must have a weight for each of {n_rows} rows, got {len(weights)}")
    bad = ~(np.isfinite(weights) & (weights >= 0.0))
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(
            f"sample_weight must be at least 0 and finite, got {float(weights[row])!r} at row {row}"
        )
    if not weights.any():
        raise ValueError("sample_weight must be positive for some row, got 0 for all")
    return weights


def repeats(weights: Floats, name: str) -> NDArray[np.int64]:
    """Weights as numbers of rows; ValueError for one that is not whole, as `name` needs them."""
    whole = np.rint(weights)
    if (whole != weights).any():
        row = int(np.argmax(whole != weights))
        raise ValueError(f"sample_weight must be whole numbers with {name}, got {weights[row]} at row {row}")
    return whole.astype(np.int64)


def total_weight(rows: NDArray[np.generic], weights: Weights) -> float:
    """How many rows these count as."""
    return float(len(rows)) if weights is None else float(weights.sum())


def part(weights: Weights, rows: NDArray[np.generic]) -> Weights:
    """The weights of some rows."""
    return None if weights is None else weights[rows]


def mean(values: Floats, weights: Weights) -> Floats:
    """The average over the first axis."""
    if weights is None:
        return np.asarray(values.mean(axis=0))
    shape = (-1, *(1,) * (values.ndim - 1))
    return np.asarray((values * weights.reshape(shape)).sum(axis=0) / weights.sum())


def weighted(values: Floats, weights: Weights) -> Floats:
    """Rows times their weights, shape (n, C), of average weight 1: plain averages are then weighted ones."""
    return values if weights is None else values * (weights * (len(weights) / weights.sum()))[:, None]


def squared_error(table: NDArray[np.floating], labels: NDArray[np.int64], weights: Weights) -> float:
    """The sum over rows and classes of (p - y)^2."""
    total = 0.0
    for rows in pieces(table):
        squares = residuals(as_doubles(table[rows]), labels[rows]) ** 2
        total += float(squares.sum() if weights is None else (squares.sum(axis=1) * weights[rows]).sum())
    return total


def counts_of(rows: NDArray[np.generic], weights: Weights) -> Floats:
    """For how many rows each counts, shape (n,)."""
    return np.ones(len(rows)) if weights is None else weights
