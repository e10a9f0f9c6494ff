"""Temperature scaling: one exponent for all probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from onlinecal.compiling import compiled
from onlinecal.measures.fixed_order import BLOCK, by_columns, exponential, logarithm, soften
from onlinecal.pieces import SAMPLED, as_doubles, pieces, sampled_rows
from onlinecal.recalibration.probability_recalibrator import Floats, Ints, ProbabilityRecalibrator
from onlinecal.recalibration.weights import Weights, counts_of

FLOOR = 1e-12
"""Added to probabilities before their logarithm, as scikit-learn does."""

LARGEST_LOG = 10.0
CLOSE = 1e-9
MOST_STEPS = 200

Slopes = Callable[[float], tuple[float, float]]
"""beta -> first and second derivative of the log loss, sums over rows."""


class TemperatureScaling(ProbabilityRecalibrator):
    """p_c becomes proportional to p_c^beta, with the beta of the least log loss.

    The same map as scikit-learn's CalibratedClassifierCV(method="temperature") around these probabilities;
    that one needs every class among the labels, this one does not.

    Parameters
    ----------
    classes
        The labels that the columns stand for; None: 0..C-1.

    Attributes
    ----------
    inverse_temperature_
        beta, from exp(-10) to exp(10); below 1 for overconfident probabilities.

    References
    ----------
    Guo, Pleiss, Sun & Weinberger, "On calibration of modern neural networks" (2017).

    Examples
    --------
    Three in four answers are right, and all are sure:

    >>> model = TemperatureScaling().fit([[0.99, 0.01]] * 4, [0, 0, 0, 1])
    >>> model.predict_proba([[0.99, 0.01], [0.01, 0.99]]).round(3)
    array([[0.75, 0.25],
           [0.25, 0.75]])
    """

    any_precision = True
    fixed_order_ = False
    """Of models that were pickled before exponentials were the same on every processor."""

    def _learn(self, table: Floats, labels: Ints, weights: Weights) -> None:
        self.inverse_temperature_ = best_inverse_temperature(table, labels, weights)
        self.fixed_order_ = True

    def _map(self, table: Floats) -> Floats:
        temper = tempered if self.fixed_order_ else tempered_by_numpy
        return temper(table, self.inverse_temperature_)


def temperature_start(inverse_temperature: float, n_classes: int, fixed_order: bool) -> TemperatureScaling:
    """A scaling that is known, not fitted."""
    model = TemperatureScaling()
    model.inverse_temperature_, model.fixed_order_ = inverse_temperature, fixed_order
    model.n_features_in_, model.classes_ = n_classes, np.arange(n_classes)
    return model


def best_inverse_temperature(table: Floats, labels: Ints, weights: Weights = None) -> float:
    """The beta of the least log loss, in [exp(-10), exp(10)], to nine digits."""
    return best_factor_of_logs(logs_of(table), labels, counts_of(table, weights))


def best_factor_of_logs(logs: Floats, labels: Ints, counts: Floats) -> float:
    """The same from log-probabilities (n, C), and for how many rows each counts."""
    sample = None
    if len(logs) > SAMPLED:
        rows = sampled_rows(len(logs))
        sample = slopes_of(logs[rows], labels[rows], counts[rows])
    return best_factor(slopes_of(logs, labels, counts), sample)


def slopes_of(logs: Floats, labels: Ints, counts: Floats) -> Slopes:
    """The log loss's derivatives on rows of log-probabilities (n, C)."""
    return lambda beta: _log_loss_slopes(logs, labels, counts, beta)


def best_factor(slopes: Slopes, sample: Slopes | None = None) -> float:
    """The beta in [exp(-10), exp(10)] where the log loss is least, by Newton's method between bounds.

    The loss is convex in beta. `sample` has the derivatives on some of the rows: the search begins at their
    minimum. Where a step leads out of the bounds, or is not half the one before, the bounds' geometric mean
    is tried.
    """
    low, high = exponential(-LARGEST_LOG), exponential(LARGEST_LOG)
    beta = 1.0
    if sample is not None:
        beta = best_factor(sample)
    if sample is None or not low < beta < high:
        for end, side in ((low, 1.0), (high, -1.0)):
            if side * slopes(end)[0] >= 0.0:
                return float(end)
        beta = min(max(beta, 2.0 * low), high / 2.0)
    before = math.inf
    for _ in range(MOST_STEPS):
        slope, curve = slopes(beta)
        low, high = (low, beta) if slope > 0.0 else (beta, high)
        tried = beta - slope / curve if curve > 0.0 else math.inf
        if not (low <= tried <= high and abs(tried - beta) <= before / 2.0):
            tried = math.sqrt(low * high)
        before = abs(tried - beta)
        beta = tried
        if before <= CLOSE * beta:
            break
    return float(beta)


def tempered(table: Floats, inverse_temperature: float) -> Floats:
    """Rows proportional to p^beta, shape (n, C)."""
    columns = by_columns(table)
    fill_logs(columns, columns)
    columns *= inverse_temperature
    soften(columns)
    return np.ascontiguousarray(columns.T)


def tempered_by_numpy(table: Floats, inverse_temperature: float) -> Floats:
    """The same to rounding, to the bits of models from before `tempered` was fixed."""
    return softmax(inverse_temperature * np.log(table + FLOOR), axis=1)


def logs_of(table: NDArray[Any]) -> Floats:
    """log(p + FLOOR) of a table (n, C) of floats of any precision."""
    logs = np.empty(table.shape)
    for rows in pieces(table):
        fill_logs(as_doubles(table[rows]), logs[rows])
    return logs


@compiled
def fill_logs(table: Floats, logs: Floats) -> None:
    """log(p + FLOOR), into `logs` of the same shape; may be the table itself."""
    for i in range(table.shape[0]):
        for j in range(table.shape[1]):
            logs[i, j] = logarithm(table[i, j] + FLOOR)


@compiled
def _log_loss_slopes(logs: Floats, labels: Ints, weights: Floats, beta: float) -> tuple[float, float]:
    """The sum over rows of minus the logarithm of the label's share of exp(beta logs), derived twice.

    Rows are summed by blocks, as in `newton`.
    """
    shares = np.empty(logs.shape[1])
    first, second = 0.0, 0.0
    for start in range(0, logs.shape[0], BLOCK):
        slopes, curves = 0.0, 0.0
        for i in range(start, min(start + BLOCK, logs.shape[0])):
            row = logs[i]
            largest = row[0]
            for c in range(1, row.shape[0]):
                largest = max(largest, row[c])
            for c in range(row.shape[0]):
                shares[c] = exponential(beta * (row[c] - largest))
            total, mean, square = 0.0, 0.0, 0.0
            for c in range(row.shape[0]):
                # how far below the largest: these are summed without cancellation
                below = row[c] - largest
                total += shares[c]
                mean += shares[c] * below
                square += shares[c] * below * below
            mean /= total
            slopes += weights[i] * (mean - (row[labels[i]] - largest))
            curves += weights[i] * (square / total - mean * mean)
        first += slopes
        second += curves
    return first, second
