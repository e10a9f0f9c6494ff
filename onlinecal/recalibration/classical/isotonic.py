"""Isotonic calibration: of every class against the rest, or of the largest probability alone."""

from __future__ import annotations

import numpy as np
from sklearn.isotonic import IsotonicRegression

from onlinecal.arrays import Floats, Ints
from onlinecal.pieces import as_doubles
from onlinecal.recalibration.flooring import floored
from onlinecal.recalibration.probability_recalibrator import ProbabilityRecalibrator
from onlinecal.recalibration.simplex_projection import spread_rest
from onlinecal.recalibration.weights import Weights, total_weight


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


class TopLabelIsotonic(ProbabilityRecalibrator):
    """The largest probability goes through an isotonic regression of being right; the others share the rest.

    The others keep their proportions (equal shares if all are zero), but none gets as much as the confidence,
    so that the class on top stays on top. Only a confidence below 1/C cannot be the largest of C
    probabilities: then the proportions stand, and another class leads. Where the regression says 0 or 1, some
    class would get exactly 0: with n rows confidences stay between 1/(n + 1) and n/(n + 1), which changes no
    other value of the regression.

    Parameters
    ----------
    classes
        The labels that the columns stand for; None: 0..C-1.

    Attributes
    ----------
    curve_
        scikit-learn's IsotonicRegression from confidence to frequency.
    floor_
        The least confidence, 1/(n + 1); the largest is 1 less this.
    """

    def _learn(self, table: Floats, labels: Ints, weights: Weights) -> None:
        table = as_doubles(table)
        top = table.argmax(axis=1)
        self.floor_ = 1.0 / (total_weight(table, weights) + 1.0)
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
