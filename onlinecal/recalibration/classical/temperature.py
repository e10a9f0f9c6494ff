"""Maps that learn few numbers or a curve: temperature scaling, beta calibration, isotonic regression.

Each maps a row by itself. Fitted numbers are those of the least log loss; curves are scikit-learn's.

A map is a few fitted numbers or curves (attributes that end in an underscore). A fit writes them. For a start
of another recalibrator `starting.py` then sets `floor_` of an isotonic one, and `decision/recalibrator.py`
sets all of one that it loads. To map changes nothing. Tables, labels and weights were checked by who calls
`fit` or `_fit_checked`.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import expit, softmax
from sklearn.isotonic import IsotonicRegression

from onlinecal.arrays import PIECE_NUMBERS, SAMPLE_SIZE, Floats, Ints, as_doubles, pieces, sampled_rows
from onlinecal.recalibration.flooring import floored, spread_rest
from onlinecal.recalibration.probability_recalibrator import ProbabilityRecalibrator
from onlinecal.threads import one_thread

ADDED_BEFORE_LOG = 1e-12
"""Added to probabilities before their logarithm, as scikit-learn does; part of what kept maps answer."""
LARGEST_LOG_BETA = 10.0
"""The exponent's logarithm is searched for between minus this and this."""
LOG_BETA_TOLERANCE = 1e-10
"""How exactly the logarithm of the exponent is found."""
SAMPLE_LOG_BETA_ERROR = 0.03
"""How far from a sample's value that of all rows is searched for before the whole range is searched."""

MOST_CURVED_ROWS = 20_000
"""The most rows of which second derivatives are computed; of more, a sample of this many begins the
search."""
FLAT_GRADIENT = 1e-8
"""A search ends where the gradient, per row, is no longer than this."""


class TemperatureScaling(ProbabilityRecalibrator):
    """Make rows surer or less sure by one number: p_c becomes proportional to p_c^beta.

    beta is the number with the least log loss on the fitted rows; rows are then divided by their sums.

    This is the map of scikit-learn's CalibratedClassifierCV(method="temperature") around these probabilities.
    It does not need every class among the labels, as scikit-learn's does.

    Parameters
    ----------
    classes
        The label of each column, in order; None: the names of a data frame's columns if the labels given to
        `fit` are such names, else 0..C-1.

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

    def _learn(self, table: Floats, labels: Ints, weights: Floats) -> None:
        self.inverse_temperature_ = best_factor(columns_of(table), labels, weights)

    def _map(self, table: Floats) -> Floats:
        return tempered(table, self.inverse_temperature_)


def tempered(table: Floats, inverse_temperature: float) -> Floats:
    """Rows proportional to p^beta, shape (n, C)."""
    return np.asarray(softmax(inverse_temperature * np.log(table + ADDED_BEFORE_LOG), axis=1))


def columns_of(table: Floats) -> Floats:
    """log(p + 1e-12) of a table (n, C) of floats of any precision, as columns (C, n)."""
    columns = np.empty(table.shape[::-1])
    for rows in pieces(table):
        columns[:, rows] = np.log(as_doubles(table[rows]).T + ADDED_BEFORE_LOG)
    return columns


def best_factor(columns: Floats, labels: Ints, counts: Floats) -> float:
    """The beta of the least log loss, in [exp(-10), exp(10)], to nine digits.

    `columns` holds log-probabilities, (C, n); `counts` says for how many rows each counts, (n,). The log loss
    is convex in beta, so that its slope changes its sign once. If there are many rows, a sample shows where
    to look.
    """

    @cache
    def slope(log_beta: float) -> float:
        return _slope(columns, labels, counts, math.exp(log_beta))

    low, high = -LARGEST_LOG_BETA, LARGEST_LOG_BETA
    if len(labels) > SAMPLE_SIZE:
        rows = sampled_rows(len(labels))
        near = math.log(best_factor(columns[:, rows], labels[rows], counts[rows]))
        ends = max(low, near - SAMPLE_LOG_BETA_ERROR), min(high, near + SAMPLE_LOG_BETA_ERROR)
        low, high = ends if slope(ends[0]) <= 0.0 <= slope(ends[1]) else (low, high)
    if slope(low) >= 0.0 or slope(high) <= 0.0:
        return math.exp(low if slope(low) >= 0.0 else high)
    return math.exp(brentq(slope, low, high, xtol=LOG_BETA_TOLERANCE))


def _slope(columns: Floats, labels: Ints, counts: Floats, beta: float) -> float:
    """The log loss's derivative by beta, a sum over rows."""
    total, size = 0.0, max(1, PIECE_NUMBERS // len(columns))
    for begin in range(0, len(labels), size):
        some = slice(begin, begin + size)
        logs, came = columns[:, some], labels[some]
        below = logs - logs.max(axis=0)
        shares = np.exp(beta * below)
        means = np.einsum("cn,cn->n", shares, below) / shares.sum(axis=0)
        total += float(((means - below[came, np.arange(len(came))]) * counts[some]).sum())
    return total


class BetaCalibration(ProbabilityRecalibrator):
    """Apply a beta map to each class's probability by itself, and then divide rows by their sums.

    For each class the map from p to q is log(q/(1 - q)) = a log p - b log(1 - p) + c, with the a, b >= 0 and
    c of the least log loss of "this class comes"; a = b = 1 and c = 0 change nothing. Outcomes y, 0 or 1,
    count as (n y + 1/2)/(n + 1) for n rows. Without that there would be no finite solution for a class that
    never comes, or that p predicts without an error.

    Parameters
    ----------
    classes
        The label of each column, in order; None: the names of a data frame's columns if the labels given to
        `fit` are such names, else 0..C-1.

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

    def _learn(self, table: Floats, labels: Ints, weights: Floats) -> None:
        n, free = weights.sum(), np.arange(3)
        self.coef_ = np.array(
            [
                best_sigmoid(logarithms(p), (n * (labels == c) + 0.5) / (n + 1.0), weights, free, 0.0, 0.0)
                for c, p in enumerate(as_doubles(table).T)
            ]
        )

    def _map(self, table: Floats) -> Floats:
        raised = np.column_stack(
            [expit((logarithms(p) * abc).sum(axis=1)) for p, abc in zip(table.T, self.coef_, strict=True)]
        )
        # expit underflows to 0 for very small log odds; a row with 0 for all classes becomes uniform
        raised += ADDED_BEFORE_LOG
        return raised / raised.sum(axis=1, keepdims=True)


def logarithms(p: Floats) -> Floats:
    """ln p, -ln(1 - p) and 1 for each probability, shape (n, 3); 1e-12 is added inside the logarithms."""
    logs = np.log(p + ADDED_BEFORE_LOG), -np.log(1.0 - p + ADDED_BEFORE_LOG)
    return np.column_stack([*logs, np.ones(len(p))])


def best_sigmoid(
    inputs: Floats, y: Floats, weights: Floats, shared: Ints, prior: float, least: float | None = None
) -> Floats:
    """The a, b, c for which the sigmoids of their products with `inputs`, (n, 3), have the least log loss.

    The search begins at the identity (1, 1, 0), and prior/2 times the squared distance to it is added to the
    loss. `shared` holds for each of the three the number of its unknown, or -1 if it stays as in the
    identity; coefficients with the same number are equal. Neither a nor b goes below `least`. If there are
    many rows, a sample shows where to begin. Outcomes y lie in [0, 1].
    """
    identity = np.array([1.0, 1.0, 0.0])
    unknown = (shared[:, None] == np.arange(shared.max() + 1)).astype(np.float64)
    fixed = np.where(shared < 0, identity, 0.0)
    # the first of the coefficients that share an unknown stands for all of them
    first = unknown.argmax(axis=0)
    centre = begin = identity[first]
    if len(inputs) > MOST_CURVED_ROWS:
        some = sampled_rows(len(inputs), MOST_CURVED_ROWS)
        begin = best_sigmoid(inputs[some], y[some], weights[some], shared, prior, least)[first]
    features, fixed_part, rows = inputs @ unknown, inputs @ fixed, float(weights.sum())

    def loss(x: Floats) -> tuple[float, Floats]:
        odds, away = features @ x + fixed_part, x - centre
        value = weights @ (np.logaddexp(0.0, odds) - y * odds) + prior / 2.0 * away @ away
        return float(value) / rows, (features.T @ (weights * (expit(odds) - y)) + prior * away) / rows

    bounds = [(least if coefficient < 2 else None, None) for coefficient in first.tolist()]
    with one_thread():
        options = {"gtol": FLAT_GRADIENT, "ftol": 0.0}
        end = minimize(loss, begin, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return np.asarray(fixed + unknown @ end.x)


class PerClassIsotonic(ProbabilityRecalibrator):
    """Apply an isotonic regression to each class's probability by itself, and then divide rows by their sums.

    For each class it is the non-decreasing map to the frequency of the class with the least squared error.
    This is what scikit-learn's CalibratedClassifierCV(method="isotonic") does to probabilities. Rows that
    would be 0 for all classes become 1/C for each.

    Parameters
    ----------
    classes
        The label of each column, in order; None: the names of a data frame's columns if the labels given to
        `fit` are such names, else 0..C-1.

    Attributes
    ----------
    curves_
        A list of scikit-learn's IsotonicRegression, one of each class.
    floor_
        The least probability of an answer: 0; but where this map is the `start` of another recalibrator, 1/(C
        (n + 1)) for n fitted rows.
    """

    floor_ = 0.0

    def _learn(self, table: Floats, labels: Ints, weights: Floats) -> None:
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
    """An unfitted isotonic regression from a probability to the frequency among rows that have it."""
    return IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")


class TopLabelIsotonic(ProbabilityRecalibrator):
    """Map each row's largest probability to how often it is right; the other classes share the rest.

    The largest probability, the confidence, is mapped by an isotonic regression, which is non-decreasing.

    The other classes keep their proportions (equal shares if all are zero), but none gets as much as the
    mapped confidence, so that the class on top stays on top. Only if that is below 1/C it cannot be the
    largest of C probabilities: then the proportions stand, and another class leads. Where the regression
    gives 0 or 1, some class would get exactly 0. So confidences stay between 1/(n + 1) and n/(n + 1) for n
    rows, which changes no other value of the regression.

    Parameters
    ----------
    classes
        The label of each column, in order; None: the names of a data frame's columns if the labels given to
        `fit` are such names, else 0..C-1.

    Attributes
    ----------
    curve_
        scikit-learn's IsotonicRegression from confidence to frequency.
    floor_
        The least confidence, 1/(n + 1); the largest is 1 less this.
    """

    def _learn(self, table: Floats, labels: Ints, weights: Floats) -> None:
        table = as_doubles(table)
        top = table.argmax(axis=1)
        self.floor_ = 1.0 / (weights.sum() + 1.0)
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
