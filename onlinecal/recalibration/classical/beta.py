"""Beta calibration of every class against the rest."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from onlinecal.arrays import Floats, Ints
from onlinecal.pieces import as_doubles
from onlinecal.recalibration.classical.temperature import FLOOR
from onlinecal.recalibration.probability_recalibrator import ProbabilityRecalibrator
from onlinecal.recalibration.weights import Weights, mean, total_weight


class BetaCalibration(ProbabilityRecalibrator):
    """A beta map for each class against the rest, then rows are divided by their sums.

    log(q/(1 - q)) = a log p - b log(1 - p) + c with a, b >= 0, of the least log loss; the identity is
    a = b = 1, c = 0. Labels are mixed with one half at the weight of one row, (n y + 1/2)/(n + 1): without
    that a class that never comes, or that p tells without an error, would have no finite solution.

    Parameters
    ----------
    classes
        The labels that the columns stand for; None: 0..C-1.

    Attributes
    ----------
    coef_
        a, b and c of each class, shape (C, 3).

    References
    ----------
    Kull, Silva Filho & Flach, "Beta calibration" (2017).

    Examples
    --------
    Three in four answers are right, and all are sure:

    >>> model = BetaCalibration().fit([[0.99, 0.01]] * 400, [0, 0, 0, 1] * 100)
    >>> model.predict_proba([[0.99, 0.01]]).round(2)
    array([[0.75, 0.25]])
    """

    def _learn(self, table: Floats, labels: Ints, weights: Weights) -> None:
        table = as_doubles(table)
        n = total_weight(table, weights)
        self.coef_ = np.array(
            [
                _beta_map(column, (n * (labels == number) + 0.5) / (n + 1.0), weights)
                for number, column in enumerate(table.T)
            ]
        )

    def _map(self, table: Floats) -> Floats:
        raised = np.column_stack(
            [expit((_features(p) * abc).sum(axis=1)) for p, abc in zip(table.T, self.coef_, strict=True)]
        )
        # far below the least double expit is 0: such a row says nothing
        raised += FLOOR
        return raised / raised.sum(axis=1, keepdims=True)


def _features(p: Floats) -> Floats:
    """log p, -log(1 - p) and 1: shape (n, 3)."""
    return np.column_stack([np.log(p + FLOOR), -np.log(1.0 - p + FLOOR), np.ones(len(p))])


def _beta_map(p: Floats, targets: Floats, weights: Weights) -> Floats:
    """a, b and c of one class's probabilities (n,), targets in (0, 1), shape (n,)."""
    features = _features(p)

    def log_loss(abc: Floats) -> tuple[float, Floats]:
        scores = features @ abc
        excess = expit(scores) - targets
        return float(mean(np.logaddexp(0, scores) - targets * scores, weights)), mean(
            features * excess[:, None], weights
        )

    bounds = [(0.0, None), (0.0, None), (None, None)]
    end = minimize(log_loss, np.array([1.0, 1.0, 0.0]), jac=True, method="L-BFGS-B", bounds=bounds)
    return np.asarray(end.x)
