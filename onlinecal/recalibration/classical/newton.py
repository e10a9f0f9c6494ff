"""Multinomial logistic regression on log-probabilities, to the same bits on every processor.

The score of class c is a linear function of what c sees: its own log-probability and 1 (vector scaling), or
the log-probabilities of all classes and 1 (Dirichlet calibration). The log loss of the softmax is convex, so
Newton's steps, halved while they do not lower it, end at its minimum. Sums run in one order (see
`onlinecal.measures.fixed_order`).

Second derivatives are what takes time. Of many rows a sample has them: steps then lead from the sample's
minimum, found in the same way, to that of all rows, whose loss and gradient are always those of all. What
gradients differed by from step to step corrects the sample's derivatives (BFGS), and the end is the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from onlinecal.compiling import compiled
from onlinecal.measures.fixed_order import Floats, by_columns, product, soften
from onlinecal.pieces import SAMPLED, sampled_rows
from onlinecal.recalibration.classical.linear_sums import fill_curve, fill_slope
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
        loss, rows = fill_slope(self.logs, self.labels, self.counts, parameters, slope)
        return LinearSums(loss, slope, rows)

    def curve(self, parameters: Floats) -> Floats:
        """The lower half of the second derivatives of the average log loss, shape (C m, C m)."""
        curve = np.empty((parameters.size, parameters.size))
        fill_curve(self.logs, self.counts, parameters, curve)
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
        step_at = Secants(_with_ridge(sample.curve(begin), ridge)).step
        found, is_minimum = _descended(rows, step_at, begin, centre, ridge, MOST_SAMPLED)
        if is_minimum:
            return found

    def newton(parameters: Floats, slope: Floats) -> Floats:
        return _solved(_with_ridge(rows.curve(parameters), ridge), slope)

    return _descended(rows, newton, centre, centre, ridge, MOST_STEPS)[0]


class Secants:
    """Steps by the inverse of second derivatives somewhere else, corrected by the gradients met: BFGS.

    Nocedal & Wright, "Numerical Optimization" (2006), algorithm 7.4, with all steps in memory.
    """

    def __init__(self, curve: Floats) -> None:
        self.curve = curve
        self.before: tuple[Floats, Floats] | None = None
        self.pairs: list[tuple[Floats, Floats, float]] = []

    def step(self, parameters: Floats, slope: Floats) -> Floats:
        """What to take off the parameters."""
        if self.before is not None:
            moved, bent = parameters.ravel() - self.before[0], slope - self.before[1]
            # the loss is convex; by rounding alone it may not be
            if (along := float((moved * bent).sum())) > 0.0:
                self.pairs.append((moved, bent, along))
        self.before = parameters.ravel(), slope
        step, taken = slope.copy(), []
        for moved, bent, along in reversed(self.pairs):
            taken.append(float((moved * step).sum()) / along)
            step -= taken[-1] * bent
        step = _solved(self.curve.copy(), step)
        for (moved, bent, along), much in zip(self.pairs, reversed(taken), strict=True):
            step += (much - float((bent * step).sum()) / along) * moved
        return step


def _with_ridge(curve: Floats, ridge: Floats) -> Floats:
    at = np.arange(ridge.size)
    curve[at, at] += ridge.ravel()
    return curve


def _descended(
    rows: LinearRows,
    step_at: Callable[[Floats, Floats], Floats],
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
        step = step_at(found, slope).reshape(centre.shape)
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
