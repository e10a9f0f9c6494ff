"""Multinomial logistic regression on log-probabilities, to the same bits on every processor.

The score of class c is a linear function of what c sees: its own log-probability and 1 (vector scaling), or
the log-probabilities of all classes and 1 (Dirichlet calibration). The log loss of the softmax is convex, so
Newton's steps, halved while they do not lower it, end at its minimum. Sums run in one order (see
`onlinecal.measures.fixed_order`).

Second derivatives are what takes time. Of many rows a sample has them: steps then lead from the sample's
minimum, found in the same way, to that of all rows, whose loss and gradient are always those of all. Each
step takes some hundredth of what the one before promised, or less, and the end is the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from onlinecal.compiling import compiled
from onlinecal.measures.fixed_order import BLOCK, Floats, by_columns, exponential, logarithm, product, soften
from onlinecal.pieces import SAMPLED, sampled_rows
from onlinecal.recalibration.classical.temperature import fill_logs, logs_of
from onlinecal.recalibration.probability_recalibrator import Ints
from onlinecal.recalibration.weights import Weights, counts_of

MOST_STEPS = 100
CURVED = 20_000
"""So many rows, of which the search of a sample begins with another one."""
MOST_SAMPLED = 30
"""Steps with a sample's second derivatives; then all rows are asked for theirs."""
MOST_HALVINGS = 40
NEGLIGIBLE = 1e-14
"""What a step promises to lower the log loss by, where steps end."""
ROUNDING = 1e-13
"""Of a loss: by so much it may have risen for the order of its sum alone."""
TOGETHER = 4
"""Rows whose second derivatives are added to the sum at once: it is read and written less often."""
TINY = 1e-3
"""The least ridge, in rows: without it, rows that can be told apart have no minimum, nor has a common offset
of all classes a value."""


class LinearSums(NamedTuple):
    """Sums over rows of given parameters: log loss, its gradient (C m,), weights."""

    loss: float
    slope: Floats
    rows: float


class LinearRows(Protocol):
    """Rows that linear scores are fitted to, wherever they are."""

    from_sample: bool
    """Whether there are so many that the search begins with a sample."""
    weight: float
    """Of all of them."""

    def sums(self, parameters: Floats) -> LinearSums:
        """Of all rows, for parameters (C, m)."""

    def curve(self, parameters: Floats) -> Floats:
        """The lower half of the second derivatives of the average log loss, shape (C m, C m)."""

    def sample(self) -> LinearRows:
        """Some of the rows, at random."""


class LocalRows:
    """Rows of log-probabilities (n, C), labels and weights, in memory."""

    def __init__(self, logs: Floats, labels: Ints, counts: Floats) -> None:
        self.logs, self.labels, self.counts = logs, labels, counts
        self._size = next((size for size in (SAMPLED, CURVED) if len(logs) > size), 0)
        self.from_sample, self.weight = self._size > 0, float(counts.sum())

    @classmethod
    def of(cls, table: Floats, labels: Ints, weights: Weights = None) -> LocalRows:
        """Rows of probabilities (n, C)."""
        return cls(logs_of(table), labels, counts_of(table, weights))

    def sums(self, parameters: Floats) -> LinearSums:
        """Of all rows, for parameters (C, m)."""
        slope = np.empty(parameters.size)
        loss, rows = _fill_slope(self.logs, self.labels, self.counts, parameters, slope)
        return LinearSums(loss, slope, rows)

    def curve(self, parameters: Floats) -> Floats:
        """The lower half of the second derivatives of the average log loss, shape (C m, C m)."""
        curve = np.empty((parameters.size, parameters.size))
        _fill_curve(self.logs, self.counts, parameters, curve)
        return curve

    def sample(self) -> LocalRows:
        """Some of the rows, at random."""
        rows = sampled_rows(len(self.logs), self._size)
        return LocalRows(self.logs[rows], self.labels[rows], self.counts[rows])


def best_linear(rows: LinearRows, centre: Floats, ridge: Floats) -> Floats:
    """The parameters (C, m) of the least log loss plus sum of ridge/2 (parameter - centre)^2.

    From the centre; m = 2: factor of the class's own log-probability and offset, or m = C + 1: factors of all
    and offset. The ridge is at least TINY.
    """
    return best_of_rows(rows, centre, ridge + TINY / rows.weight)


def best_of_rows(rows: LinearRows, centre: Floats, ridge: Floats) -> Floats:
    """The same for any parameters, and with the ridge as it is."""
    if rows.from_sample:
        sample = rows.sample()
        begin = best_of_rows(sample, centre, ridge)
        curve = sample.curve(begin)
        found, is_minimum = _descended(rows, lambda _: curve, begin, centre, ridge, MOST_SAMPLED)
        if is_minimum:
            return found
    return _descended(rows, rows.curve, centre, centre, ridge, MOST_STEPS)[0]


def _descended(
    rows: LinearRows,
    curve_at: Callable[[Floats], Floats],
    begin: Floats,
    centre: Floats,
    ridge: Floats,
    most: int,
) -> tuple[Floats, bool]:
    """Where steps from `begin` end, and whether no more is to be gained there."""

    def penalised(parameters: Floats) -> tuple[float, Floats]:
        sums = rows.sums(parameters)
        pull = ridge * (parameters - centre)
        loss = sums.loss / sums.rows + float((pull * (parameters - centre)).sum()) / 2.0
        return loss, sums.slope / sums.rows + pull.ravel()

    found, (loss, slope) = begin, penalised(begin)
    for _ in range(most):
        curve = curve_at(found).copy()
        curve[np.arange(slope.size), np.arange(slope.size)] += ridge.ravel()
        step = _solved(curve, slope).reshape(centre.shape)
        promised = float((step.ravel() * slope).sum())
        if not promised > NEGLIGIBLE:
            return (found - step if promised > 0.0 else found), True
        length = 1.0
        for _ in range(MOST_HALVINGS):
            tried = found - length * step
            now, then = penalised(tried)
            if now <= loss - 1e-4 * length * promised + ROUNDING * abs(loss):
                break
            length /= 2.0
        else:
            return found, False
        found, loss, slope = tried, now, then
    return found, False


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
    if m == 2:
        for c in range(k):
            scores[c] = parameters[c, 1] + parameters[c, 0] * logs[c]
    else:
        for c in range(k):
            score = parameters[c, k]
            for d in range(k):
                score += parameters[c, d] * logs[d]
            scores[c] = score
    largest = scores[0]
    for c in range(1, k):
        largest = max(largest, scores[c])
    return largest


@compiled
def _fill_slope(logs: Floats, labels: Ints, weights: Floats, parameters: Floats, slope: Floats) -> Any:
    """Sums of the log losses of the softmax of the scores, of their gradients, into `slope`, and of weights.

    Rows are summed by blocks, blocks among themselves: rounding then grows with neither.
    """
    k, m = parameters.shape
    shares, part = np.empty(k), np.empty((k, m))
    loss, rows = 0.0, 0.0
    for at in range(k * m):
        slope[at] = 0.0
    for start in range(0, logs.shape[0], BLOCK):
        lost, counted = 0.0, 0.0
        part[:] = 0.0
        for i in range(start, min(start + BLOCK, logs.shape[0])):
            weight = weights[i]
            largest = _fill_scores(logs[i], parameters, shares)
            own = shares[labels[i]]
            for c in range(k):
                shares[c] = exponential(shares[c] - largest)
            total = 0.0
            for share in shares:
                total += share
            lost += weight * (logarithm(total) + largest - own)
            counted += weight
            scale = weight / total
            for c in range(k):
                shares[c] *= scale
            shares[labels[i]] -= weight
            for c in range(k):
                part[c, m - 1] += shares[c]
            if m == 2:
                for c in range(k):
                    part[c, 0] += shares[c] * logs[i, c]
                continue
            for c in range(k):
                for d in range(k):
                    part[c, d] += shares[c] * logs[i, d]
        loss += lost
        rows += counted
        for at in range(k * m):
            slope[at] += part[at // m, at % m]
    return loss, rows


@compiled
def _fill_curve(logs: Floats, weights: Floats, parameters: Floats, curve: Floats) -> None:
    """The lower half of the matrix of second derivatives of the average log loss.

    With s the softmax and x_c what class c sees, a row adds s_c x_c x_c' in the block of c, less the product
    of all s_c x_c with themselves.
    """
    k, m = parameters.shape
    shares, counts = np.empty(k), np.empty(TOGETHER)
    seen, moved = np.ones((TOGETHER, k * m)), np.empty((TOGETHER, k * m))
    curve[:] = 0.0
    rows = 0.0
    for start in range(0, logs.shape[0], TOGETHER):
        for place in range(TOGETHER):
            # behind the last row the last again, which counts for nothing
            i = min(start + place, logs.shape[0] - 1)
            counts[place] = weights[i] if start + place == i else 0.0
            rows += counts[place]
            largest = _fill_scores(logs[i], parameters, shares)
            total = 0.0
            for c in range(k):
                shares[c] = exponential(shares[c] - largest)
                total += shares[c]
            for c in range(k):
                share = shares[c] / total
                for a in range(m - 1):
                    log = logs[i, c] if m == 2 else logs[i, a]
                    seen[place, c * m + a] = log
                    moved[place, c * m + a] = share * log
                moved[place, c * m + m - 1] = share
        first, second, third, fourth = moved[0], moved[1], moved[2], moved[3]
        for at in range(k * m):
            row = curve[at]
            u, v = counts[0] * first[at], counts[1] * second[at]
            w, x = counts[2] * third[at], counts[3] * fourth[at]
            for other in range(at + 1):
                row[other] -= (u * first[other] + v * second[other]) + (w * third[other] + x * fourth[other])
            for other in range(at - at % m, at + 1):
                row[other] += (u * seen[0, other] + v * seen[1, other]) + (
                    w * seen[2, other] + x * seen[3, other]
                )
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
