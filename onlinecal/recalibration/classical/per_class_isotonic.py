"""Isotonic regression of every class against the rest."""

from __future__ import annotations

import numpy as np
from sklearn.isotonic import IsotonicRegression

from onlinecal.pieces import as_doubles
from onlinecal.recalibration.flooring import floored
from onlinecal.recalibration.probability_recalibrator import Floats, Ints, ProbabilityRecalibrator
from onlinecal.recalibration.weights import Weights


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
