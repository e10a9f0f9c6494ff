"""Multinomial logistic regression on log-probabilities, to the same bits on every processor.

The score of class c is a linear function of what c sees: its own log-probability and 1 (vector scaling), or
the log-probabilities of all classes and 1 (Dirichlet calibration). The log loss of the softmax is convex, so
Newton's steps, halved while they do not lower it, end at its minimum. Sums run in one order (see
`onlinecal.measures.fixed_order`).
"""

from __future__ import annotations

import math

import numpy as np

from onlinecal.compiling import compiled
from onlinecal.measures.fixed_order import Floats, by_columns, exponential, logarithm, product, soften
from onlinecal.recalibration.classical.temperature import fill_logs
from onlinecal.recalibration.probability_recalibrator import Ints
from onlinecal.recalibration.weights import Weights

MOST_STEPS = 100
MOST_HALVINGS = 40
NEGLIGIBLE = 1e-14
"""What a step promises to lower the log loss by, where steps end."""
TINY = 1e-3
"""The least ridge, in rows: without it, rows that can be told apart have no minimum, nor has a common offset
of all classes a value."""


def best_linear(table: Floats, labels: Ints, weights: Weights, centre: Floats, ridge: Floats) -> Floats:
    """The parameters (C, m) of the least log loss plus sum of ridge/2 (parameter - centre)^2.

    Of a table (n, C), from the centre; m = 2: factor of the class's own log-probability and offset, or
    m = C + 1: factors of all and offset.
    """
    logs = np.empty(table.shape)
    fill_logs(np.ascontiguousarray(table), logs)
    counts = np.ones(len(table)) if weights is None else weights
    ridge = ridge + TINY / counts.sum()
    size = centre.size
    found, loss = centre, _loss(logs, labels, counts, centre)
    slope, curve = np.empty(size), np.empty((size, size))
    for _ in range(MOST_STEPS):
        _fill_derivatives(logs, labels, counts, found, slope, curve)
        slope += (ridge * (found - centre)).ravel()
        curve[np.arange(size), np.arange(size)] += ridge.ravel()
        step = _solved(curve, slope).reshape(centre.shape)
        promised = float((step.ravel() * slope).sum())
        if not promised > NEGLIGIBLE:
            break
        length = 1.0
        for _ in range(MOST_HALVINGS):
            tried = found - length * step
            now = _loss(logs, labels, counts, tried) + float((ridge * (tried - centre) ** 2).sum()) / 2.0
            if now <= loss - 1e-4 * length * promised:
                break
            length /= 2.0
        else:
            break
        found, loss = tried, now
    return found


def softmax_of_logs(table: Floats, factors: Floats, offsets: Floats) -> Floats:
    """softmax(factors * log p + offsets) of each row, shape (n, C); factors (C,), or a matrix (C, C)."""
    columns = by_columns(table)
    fill_logs(columns, columns)
    scores = columns * factors[:, None] if factors.ndim == 1 else product(factors, columns)
    scores += offsets[:, None]
    soften(scores)
    return np.ascontiguousarray(scores.T)


@compiled
def _fill_scores(logs: Floats, parameters: Floats, scores: Floats) -> float:
    """The classes' scores of one row of log-probabilities, and the largest of them."""
    k, m = parameters.shape
    for c in range(k):
        score = parameters[c, m - 1]
        if m == 2:
            score += parameters[c, 0] * logs[c]
        else:
            for d in range(k):
                score += parameters[c, d] * logs[d]
        scores[c] = score
    return scores.max()


@compiled
def _loss(logs: Floats, labels: Ints, weights: Floats, parameters: Floats) -> float:
    """The average log loss of the softmax of the scores."""
    scores = np.empty(parameters.shape[0])
    loss = 0.0
    rows = 0.0
    for i in range(logs.shape[0]):
        largest = _fill_scores(logs[i], parameters, scores)
        total = 0.0
        for score in scores:
            total += exponential(score - largest)
        loss += weights[i] * (logarithm(total) + largest - scores[labels[i]])
        rows += weights[i]
    return loss / rows


@compiled
def _fill_derivatives(
    logs: Floats, labels: Ints, weights: Floats, parameters: Floats, slope: Floats, curve: Floats
) -> None:
    """Gradient, and the lower half of the matrix of second derivatives, of the average log loss.

    With s the softmax and x_c what class c sees, a row adds (s_c - y_c) x_c to the gradient; to the second
    derivatives s_c x_c x_c' in the block of c, less the product of all s_c x_c with themselves.
    """
    k, m = parameters.shape
    shares = np.empty(k)
    seen = np.ones(m)
    moved = np.empty(k * m)
    slope[:] = 0.0
    curve[:] = 0.0
    rows = 0.0
    for i in range(logs.shape[0]):
        largest = _fill_scores(logs[i], parameters, shares)
        total = 0.0
        for c in range(k):
            shares[c] = exponential(shares[c] - largest)
            total += shares[c]
        if m > 2:
            seen[:k] = logs[i]
        for c in range(k):
            if m == 2:
                seen[0] = logs[i, c]
            share = shares[c] / total
            excess = share - 1.0 if labels[i] == c else share
            for a in range(m):
                at = c * m + a
                moved[at] = share * seen[a]
                slope[at] += weights[i] * excess * seen[a]
                weight = weights[i] * moved[at]
                row = curve[at]
                for b in range(a + 1):
                    row[c * m + b] += weight * seen[b]
        for at in range(k * m):
            weight = weights[i] * moved[at]
            row = curve[at]
            for other in range(at + 1):
                row[other] -= weight * moved[other]
        rows += weights[i]
    slope /= rows
    curve /= rows


@compiled
def _solved(curve: Floats, slope: Floats) -> Floats:
    """The solution x of curve x = slope, by Cholesky; the lower half of `curve` is overwritten.

    A pivot that rounding has made 0 or less leaves its number where it is.
    """
    size = slope.shape[0]
    found = slope.copy()
    for i in range(size):
        for j in range(i):
            rest = curve[i, j]
            for c in range(j):
                rest -= curve[i, c] * curve[j, c]
            curve[i, j] = rest / curve[j, j]
        pivot = curve[i, i]
        for c in range(i):
            pivot -= curve[i, c] * curve[i, c]
        curve[i, i] = math.sqrt(pivot) if pivot > 0.0 else math.inf
        rest = found[i]
        for c in range(i):
            rest -= curve[i, c] * found[c]
        found[i] = rest / curve[i, i]
    for i in range(size - 1, -1, -1):
        rest = found[i]
        for c in range(i + 1, size):
            rest -= curve[c, i] * found[c]
        found[i] = rest / curve[i, i]
    return found
