"""Minima of convex losses over many rows, by scipy.

Of few rows a trust region with second derivatives finds the minimum. Of many rows that of a sample is found
first; in coordinates in which the sample's second derivatives are the identity, L-BFGS then goes on with the
loss and the gradient of all rows, and needs few passes.

What is promised, with second derivatives: an average loss within GAP of the least one. On one machine the
same rows give the same bytes; on another last digits differ, since BLAS and exponentials differ there.
"""

from __future__ import annotations

from typing import Protocol, Self

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from onlinecal.arrays import Floats

CURVED = 20_000
"""Rows whose second derivatives are computed; of more, a sample of so many is."""
MOST_CURVED = 420
"""Parameters with second derivatives; to compute and solve them takes time like the third power of these."""
GAP = 1e-9
"""An average loss, in nats, is at most so much above the least one, or above as large a part of it."""
FLAT = 1e-8
"""The length of a gradient, per row, where a search ends."""
MOST_STEPS = 200
MOST_FROM_SAMPLE = 30
"""Steps by a sample's second derivatives; if they lead nowhere, those of all rows are asked for."""


class ConvexLoss(Protocol):
    """A convex average over rows, of parameters in a flat array (m,)."""

    def value(self, parameters: Floats) -> tuple[float, Floats]:
        """The loss and its gradient (m,)."""

    def curve(self, parameters: Floats) -> Floats:
        """The second derivatives (m, m)."""

    def sample(self) -> Self | None:
        """The same of CURVED rows, drawn at random; None if there are no more than these."""


def least(loss: ConvexLoss, begin: Floats, most: int = MOST_STEPS) -> Floats:
    """The parameters (m,) of the least loss, searched for from `begin`.

    Of more than MOST_CURVED parameters by at most so many steps, without second derivatives.
    """
    # threads that wait for each other take a hundred times as long over products of so little
    with threadpool_limits(1, "blas"):
        if len(begin) <= MOST_CURVED:
            return _least(loss, begin)
        options = {"gtol": FLAT, "ftol": 1e-15, "maxiter": most}
        return np.asarray(minimize(loss.value, begin, jac=True, method="L-BFGS-B", options=options).x)


def _least(loss: ConvexLoss, begin: Floats) -> Floats:
    if (sample := loss.sample()) is not None:
        begin = _least(sample, begin)
        root = cholesky(sample.curve(begin), lower=True)

        def moved(step: Floats) -> tuple[float, Floats]:
            value, slope = loss.value(begin + solve_triangular(root, step, lower=True, trans=1))
            return value, solve_triangular(root, slope, lower=True)

        options = {"gtol": FLAT, "ftol": 0.0, "maxiter": MOST_FROM_SAMPLE}
        end = minimize(moved, np.zeros_like(begin), jac=True, method="L-BFGS-B", options=options)
        begin = begin + solve_triangular(root, end.x, lower=True, trans=1)
        if end.success:
            return np.asarray(begin)
    options = {"gtol": FLAT, "maxiter": MOST_STEPS}
    end = minimize(loss.value, begin, jac=True, hess=loss.curve, method="trust-exact", options=options)
    return np.asarray(end.x)
