"""Vector scaling: a factor and an offset for the logarithm of each class's probability."""

from __future__ import annotations

import numpy as np

from onlinecal.recalibration.classical.linear import best_linear, softmax_of_logs
from onlinecal.recalibration.classical.temperature import columns_of
from onlinecal.recalibration.probability_recalibrator import Floats, Ints, ProbabilityRecalibrator
from onlinecal.recalibration.weights import Weights, counts_of


class VectorScaling(ProbabilityRecalibrator):
    """softmax(w log p + b), a factor and an offset per class, of the least log loss.

    A ridge of a thousandth of a row, .001/n times half the squares of w - 1 and b, keeps numbers finite where
    rows can be told apart.

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
        centre = np.tile([1.0, 0.0], (table.shape[1], 1))
        rows = columns_of(table), labels, counts_of(table, weights)
        found = best_linear(*rows, centre, np.zeros_like(centre))
        self.factors_, self.offsets_ = np.ascontiguousarray(found.T)

    def _map(self, table: Floats) -> Floats:
        return softmax_of_logs(table, self.factors_, self.offsets_)
