"""Vector scaling: a factor and an offset for the logarithm of each class's probability."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from onlinecal.recalibration.classical.temperature import FLOOR
from onlinecal.recalibration.probability_recalibrator import Floats, Ints, ProbabilityRecalibrator
from onlinecal.recalibration.weights import Weights, mean


class VectorScaling(ProbabilityRecalibrator):
    """softmax(w log p + b), a factor and an offset per class, of the least log loss.

    scipy's L-BFGS-B ends where the gradient is small, so last digits differ from one machine to another.

    Parameters
    ----------
    classes
        The labels that the columns stand for; None: 0..C-1.

    Attributes
    ----------
    factors_, offsets_
        w and b, each of shape (C,).

    References
    ----------
    Guo, Pleiss, Sun & Weinberger, "On calibration of modern neural networks" (2017).
    """

    def _learn(self, table: Floats, labels: Ints, weights: Weights) -> None:
        logs = np.log(table + FLOOR)
        rows = np.arange(len(table))

        def log_loss(both: Floats) -> tuple[float, Floats]:
            w, b = np.split(both, 2)
            scores = w * logs + b
            excess = softmax(scores, axis=1)
            excess[rows, labels] -= 1.0
            slope = np.concatenate([mean(excess * logs, weights), mean(excess, weights)])
            return -float(mean(log_softmax(scores, axis=1)[rows, labels], weights)), slope

        k = table.shape[1]
        start = np.repeat([1.0, 0.0], k)
        end = minimize(log_loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 500})
        self.factors_, self.offsets_ = np.split(end.x, 2)

    def _map(self, table: Floats) -> Floats:
        return softmax(self.factors_ * np.log(table + FLOOR) + self.offsets_, axis=1)
