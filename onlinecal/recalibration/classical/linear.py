"""Multinomial logistic regression on log-probabilities.

The score of class c is a linear function of what c sees: its own log-probability and 1 (vector scaling), or
the log-probabilities of all classes and 1 (Dirichlet calibration). The log loss of the softmax is convex.
"""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from onlinecal.measures.fixed_order import Floats, product
from onlinecal.pieces import ENTRIES, sampled_rows
from onlinecal.recalibration.classical.temperature import FLOOR
from onlinecal.recalibration.convex import CURVED, MOST_STEPS, least
from onlinecal.recalibration.probability_recalibrator import Ints

TINY = 1e-3
"""The least ridge, in rows: without it, rows that can be told apart have no minimum, nor has a common offset
of all classes a value."""


class LinearLoss:
    """The average log loss of rows, as a function of parameters (C, m), with a ridge about their centre.

    m = 2: factor of the class's own log-probability, and offset; m = C + 1: factors of all, and offset.
    Log-probabilities are columns (C, n).
    """

    def __init__(self, columns: Floats, labels: Ints, counts: Floats, centre: Floats, ridge: Floats) -> None:
        self.columns, self.labels, self.counts = columns, labels, counts
        self.centre, self.ridge = centre, ridge
        self.rows = float(counts.sum())

    def sample(self) -> LinearLoss | None:
        """The same of some rows."""
        if len(self.labels) <= CURVED:
            return None
        rows = sampled_rows(len(self.labels), CURVED)
        return LinearLoss(
            self.columns[:, rows], self.labels[rows], self.counts[rows], self.centre, self.ridge
        )

    def _shares(self, parameters: Floats, seen: Floats) -> tuple[Floats, Floats, Floats]:
        """Scores less the largest (C, n), their exponentials, and the sums of these (n,)."""
        factors, offsets = parameters[:, :-1], parameters[:, -1:]
        scores = factors * seen if factors.shape[1] == 1 else factors @ seen
        scores += offsets
        scores -= scores.max(axis=0)
        shares = np.exp(scores)
        return scores, shares, shares.sum(axis=0)

    def value(self, flat: Floats) -> tuple[float, Floats]:
        """The loss and its gradient, piece by piece."""
        k, m = self.centre.shape
        parameters, size = flat.reshape(k, m), max(1, ENTRIES // k)
        loss, slope = 0.0, np.zeros_like(parameters)
        for begin in range(0, len(self.labels), size):
            some = slice(begin, begin + size)
            seen, labels, counts = self.columns[:, some], self.labels[some], self.counts[some]
            scores, shares, sums = self._shares(parameters, seen)
            rows = np.arange(len(labels))
            loss += float(((np.log(sums) - scores[labels, rows]) * counts).sum())
            shares *= counts / sums
            shares[labels, rows] -= counts
            slope[:, -1] += shares.sum(axis=1)
            if m == 2:
                slope[:, 0] += np.einsum("cn,cn->c", shares, seen)
            else:
                slope[:, :k] += shares @ seen.T
        away = parameters - self.centre
        pull = self.ridge * away
        return loss / self.rows + float((pull * away).sum()) / 2.0, (slope / self.rows + pull).ravel()

    def curve(self, flat: Floats) -> Floats:
        """The second derivatives.

        With s the softmax and x_c what class c sees, a row adds s_c x_c x_c' in the block of c, less the
        product of all s_c x_c with themselves.
        """
        k, m = self.centre.shape
        parameters = flat.reshape(k, m)
        size = max(1, ENTRIES // (k * m))
        curve = np.zeros((k * m, k * m))
        for begin in range(0, len(self.labels), size):
            some = slice(begin, begin + size)
            seen, counts = self.columns[:, some], self.counts[some]
            _, shares, sums = self._shares(parameters, seen)
            shares /= sums
            ones = np.ones_like(counts)
            # what each class sees, (k, m, n), and the same times its share
            faced = [np.stack([own, ones]) for own in seen] if m == 2 else [np.vstack([seen, ones])] * k
            moved = np.concatenate([share * one for share, one in zip(shares, faced, strict=True)])
            moved *= np.sqrt(counts)
            curve -= moved @ moved.T
            for c in range(k):
                block = slice(c * m, (c + 1) * m)
                curve[block, block] += (faced[c] * (shares[c] * counts)) @ faced[c].T
        curve /= self.rows
        curve[np.diag_indices_from(curve)] += self.ridge.ravel()
        return curve


def best_linear(
    columns: Floats, labels: Ints, counts: Floats, centre: Floats, ridge: Floats, most: int = MOST_STEPS
) -> Floats:
    """The parameters (C, m) of the least log loss plus sum of ridge/2 (parameter - centre)^2.

    From the centre; columns of log-probabilities (C, n), and for how many rows each counts (n,). The ridge is
    at least TINY. `most`: see `least`.
    """
    loss = LinearLoss(columns, labels, counts, centre, ridge + TINY / float(counts.sum()))
    return least(loss, centre.ravel(), most).reshape(centre.shape)


def softmax_of_logs(table: Floats, factors: Floats, offsets: Floats) -> Floats:
    """softmax(factors * log p + offsets) of each row, shape (n, C); factors (C,), or a matrix (C, C).

    A row's answer does not depend on the rows beside it: BLAS would make it.
    """
    columns = np.log(table.T + FLOOR, order="C")
    scores = columns * factors[:, None] if factors.ndim == 1 else product(factors, columns)
    return np.ascontiguousarray(softmax(scores + offsets[:, None], axis=0).T)
