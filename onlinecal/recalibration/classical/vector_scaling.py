"""Vector scaling: a factor and an offset for the logarithm of each class's probability."""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from onlinecal.recalibration.classical.newton import LinearRows, LocalRows, best_linear, softmax_of_logs
from onlinecal.recalibration.classical.temperature import FLOOR
from onlinecal.recalibration.probability_recalibrator import Floats, Ints, ProbabilityRecalibrator
from onlinecal.recalibration.weights import Weights


class VectorScaling(ProbabilityRecalibrator):
    """softmax(w log p + b), a factor and an offset per class, of the least log loss.

    Newton's method finds it, with the same bits on every processor. A ridge of a thousandth of a row,
    .001/n times half the squares of w - 1 and b, keeps numbers finite where rows can be told apart.

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

    any_precision = True
    fixed_order_ = False
    """Of models that were pickled before sums and exponentials were the same on every processor."""

    def _learn(self, table: Floats, labels: Ints, weights: Weights) -> None:
        self._learn_rows(LocalRows.of(table, labels, weights), table.shape[1])

    def _learn_rows(self, rows: LinearRows, n_classes: int) -> None:
        """The same from rows that may be anywhere."""
        centre = np.tile([1.0, 0.0], (n_classes, 1))
        found = best_linear(rows, centre, np.zeros_like(centre))
        self.factors_, self.offsets_ = np.ascontiguousarray(found.T)
        self.fixed_order_ = True

    def _map(self, table: Floats) -> Floats:
        if self.fixed_order_:
            return softmax_of_logs(table, self.factors_, self.offsets_)
        return softmax(self.factors_ * np.log(table + FLOOR) + self.offsets_, axis=1)
