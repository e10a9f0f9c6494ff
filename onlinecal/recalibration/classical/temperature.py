"""Maps of few numbers: temperature scaling, beta calibration and isotonic regression."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import expit, softmax
from sklearn.isotonic import IsotonicRegression

from onlinecal.arrays import ENTRIES, SAMPLED, Floats, Ints, as_doubles, pieces, sampled_rows
from onlinecal.recalibration.flooring import floored, spread_rest
from onlinecal.recalibration.probability_recalibrator import (
    ProbabilityRecalibrator,
    Weights,
    counts_of,
    mean,
    total_weight,
)

FLOOR = 1e-12
"""Added to probabilities before their logarithm, as scikit-learn does."""
LARGEST_LOG = 10.0
CLOSE = 1e-10
"""To which the logarithm of the exponent is found."""
FIRST_STEP, FIRST_STEP_OF_SAMPLED = 0.25, 0.01
"""How far from where a search begins its other end is looked for first."""


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

    def _learn(self, table: Floats, labels: Ints, weights: Weights) -> None:
        self.inverse_temperature_ = best_factor(columns_of(table), labels, counts_of(table, weights))

    def _map(self, table: Floats) -> Floats:
        return tempered(table, self.inverse_temperature_)


def tempered(table: Floats, inverse_temperature: float) -> Floats:
    """Rows proportional to p^beta, shape (n, C)."""
    return np.asarray(softmax(inverse_temperature * np.log(table + FLOOR), axis=1))


def columns_of(table: Floats) -> Floats:
    """log(p + FLOOR) of a table (n, C) of floats of any precision, as columns (C, n)."""
    columns = np.empty(table.shape[::-1])
    for rows in pieces(table):
        columns[:, rows] = np.log(as_doubles(table[rows]).T + FLOOR)
    return columns


def best_factor(columns: Floats, labels: Ints, counts: Floats) -> float:
    """The beta of the least log loss, in [exp(-10), exp(10)], to nine digits.

    From log-probabilities as columns (C, n), labels, and for how many rows each counts. The log loss is
    convex in beta: its slope changes its sign once. Of many rows a sample says where to look.
    """
    begin, step = 0.0, FIRST_STEP
    if len(labels) > SAMPLED:
        rows = sampled_rows(len(labels))
        begin, step = _root(columns[:, rows], labels[rows], counts[rows], begin, step), FIRST_STEP_OF_SAMPLED
    return math.exp(_root(columns, labels, counts, begin, step))


def _root(columns: Floats, labels: Ints, counts: Floats, begin: float, step: float) -> float:
    """The logarithm of the best beta, from a guess; the end of the range if it is beyond."""
    met: dict[float, float] = {}

    def slope(log_beta: float) -> float:
        if log_beta not in met:
            met[log_beta] = _slope(columns, labels, counts, math.exp(log_beta))
        return met[log_beta]

    side = -1.0 if slope(begin) > 0.0 else 1.0
    here, there = begin, min(max(begin + side * step, -LARGEST_LOG), LARGEST_LOG)
    while side * slope(there) < 0.0:
        if abs(there) == LARGEST_LOG:
            return there
        step *= 2.0
        here, there = there, min(max(there + side * step, -LARGEST_LOG), LARGEST_LOG)
    return float(brentq(slope, here, there, xtol=CLOSE))


def _slope(columns: Floats, labels: Ints, counts: Floats, beta: float) -> float:
    """The log loss's derivative by beta, a sum over rows."""
    total, size = 0.0, max(1, ENTRIES // len(columns))
    for begin in range(0, len(labels), size):
        some = slice(begin, begin + size)
        logs, came = columns[:, some], labels[some]
        below = logs - logs.max(axis=0)
        shares = np.exp(beta * below)
        means = np.einsum("cn,cn->n", shares, below) / shares.sum(axis=0)
        total += float(((means - below[came, np.arange(len(came))]) * counts[some]).sum())
    return total


class BetaCalibration(ProbabilityRecalibrator):
    """A beta map for each class against the rest, then rows are divided by their sums.

    log(q/(1 - q)) = a log p - b log(1 - p) + c with a, b >= 0, of the least log loss; the identity is
    a = b = 1, c = 0. Labels are mixed with one half at the weight of one row, (n y + 1/2)/(n + 1): without
    that a class that never comes, or that p tells without an error, would have no finite solution.

    Parameters
    ----------
    classes
        The labels that the columns stand for; None: 0..C-1.

    Attributes
    ----------
    coef_
        a, b and c of each class, shape (C, 3).

    References
    ----------
    Kull, Silva Filho & Flach, "Beta calibration" (2017).

    Examples
    --------
    Three in four answers are right, and all are sure:

    >>> model = BetaCalibration().fit([[0.99, 0.01]] * 400, [0, 0, 0, 1] * 100)
    >>> model.predict_proba([[0.99, 0.01]]).round(2)
    array([[0.75, 0.25]])
    """

    def _learn(self, table: Floats, labels: Ints, weights: Weights) -> None:
        table = as_doubles(table)
        n = total_weight(table, weights)
        self.coef_ = np.array(
            [
                _beta_map(column, (n * (labels == number) + 0.5) / (n + 1.0), weights)
                for number, column in enumerate(table.T)
            ]
        )

    def _map(self, table: Floats) -> Floats:
        raised = np.column_stack(
            [expit((_features(p) * abc).sum(axis=1)) for p, abc in zip(table.T, self.coef_, strict=True)]
        )
        # far below the least double expit is 0: such a row says nothing
        raised += FLOOR
        return raised / raised.sum(axis=1, keepdims=True)


def _features(p: Floats) -> Floats:
    """log p, -log(1 - p) and 1: shape (n, 3)."""
    return np.column_stack([np.log(p + FLOOR), -np.log(1.0 - p + FLOOR), np.ones(len(p))])


def _beta_map(p: Floats, targets: Floats, weights: Weights) -> Floats:
    """a, b and c of one class's probabilities (n,), targets in (0, 1), shape (n,)."""
    features = _features(p)

    def log_loss(abc: Floats) -> tuple[float, Floats]:
        scores = features @ abc
        excess = expit(scores) - targets
        return float(mean(np.logaddexp(0, scores) - targets * scores, weights)), mean(
            features * excess[:, None], weights
        )

    bounds = [(0.0, None), (0.0, None), (None, None)]
    end = minimize(log_loss, np.array([1.0, 1.0, 0.0]), jac=True, method="L-BFGS-B", bounds=bounds)
    return np.asarray(end.x)


class PerClassIsotonic(ProbabilityRecalibrator):
    """An isotonic regression for each class against the rest, then rows are divided by their sums.

    What scikit-learn's CalibratedClassifierCV(method="isotonic") does to probabilities; rows whose sum is 0
    become uniform.

    Parameters
    ----------
    classes
        The labels that the columns stand for; None: 0..C-1.

    Attributes
    ----------
    curves_
        scikit-learn's IsotonicRegression of each class.
    floor_
        What a probability of 0 becomes: 0, as a start of other recalibrators 1/(C (n + 1)).
    """

    floor_ = 0.0

    def _learn(self, table: Floats, labels: Ints, weights: Weights) -> None:
        table = as_doubles(table)
        self.curves_ = [
            isotonic_curve().fit(column, labels == number, weights) for number, column in enumerate(table.T)
        ]

    def _map(self, table: Floats) -> Floats:
        raised = np.column_stack(
            [curve.predict(column) for curve, column in zip(self.curves_, table.T, strict=True)]
        )
        sums = raised.sum(axis=1, keepdims=True)
        equal = np.full_like(raised, 1.0 / raised.shape[1])
        return floored(np.divide(raised, sums, out=equal, where=sums > 0.0), self.floor_)


def isotonic_curve() -> IsotonicRegression:
    """From a probability to the frequency among rows that have it, unfitted."""
    return IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")


class TopLabelIsotonic(ProbabilityRecalibrator):
    """The largest probability goes through an isotonic regression of being right; the others share the rest.

    The others keep their proportions (equal shares if all are zero), but none gets as much as the confidence,
    so that the class on top stays on top. Only a confidence below 1/C cannot be the largest of C
    probabilities: then the proportions stand, and another class leads. Where the regression says 0 or 1, some
    class would get exactly 0: with n rows confidences stay between 1/(n + 1) and n/(n + 1), which changes no
    other value of the regression.

    Parameters
    ----------
    classes
        The labels that the columns stand for; None: 0..C-1.

    Attributes
    ----------
    curve_
        scikit-learn's IsotonicRegression from confidence to frequency.
    floor_
        The least confidence, 1/(n + 1); the largest is 1 less this.
    """

    def _learn(self, table: Floats, labels: Ints, weights: Weights) -> None:
        table = as_doubles(table)
        top = table.argmax(axis=1)
        self.floor_ = 1.0 / (total_weight(table, weights) + 1.0)
        self.curve_ = isotonic_curve().fit(table.max(axis=1), (top == labels).astype(float), weights)

    def _map(self, table: Floats) -> Floats:
        rows, top = np.arange(len(table)), table.argmax(axis=1)
        confidence = self.curve_.predict(table[rows, top]).clip(self.floor_, 1.0 - self.floor_)
        others = table.copy()
        others[rows, top] = 0.0
        left = others.sum(axis=1, keepdims=True)
        equal = np.full_like(table, 1.0 / (table.shape[1] - 1))
        equal[rows, top] = 0.0
        shares = np.divide(others, left, out=equal, where=left > 0.0)
        shares *= 1.0 - confidence[:, None]
        columns = np.arange(table.shape[1])
        for row in np.flatnonzero(shares.max(axis=1) >= confidence):
            rest = columns != top[row]
            shares[row, rest] = spread_rest(table[row, rest].tolist(), float(confidence[row]))
        shares[rows, top] = confidence
        return shares
