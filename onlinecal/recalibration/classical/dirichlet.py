"""Dirichlet calibration: multinomial logistic regression on log-probabilities."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV, KFold

from onlinecal.measures.scores import class_scores
from onlinecal.recalibration.classical.linear import best_linear, softmax_of_logs
from onlinecal.recalibration.classical.temperature import best_factor, columns_of
from onlinecal.recalibration.probability_recalibrator import Floats, Ints, ProbabilityRecalibrator
from onlinecal.recalibration.weights import Weights, counts_of
from onlinecal.validation import check_number

PENALTIES = (0.01, 1.0, 100.0, 10_000.0)
"""Off the diagonal; the best log loss on three folds of the fitted rows decides."""
PULLED_INTERCEPT = 0.1
"""Of the pull on factors: logarithms of probabilities are some times as large as 1."""


class DirichletCalibration(ProbabilityRecalibrator):
    """softmax(W log p + b), with penalties on what lies off W's diagonal and on b.

    The log loss per row plus `off_diagonal` times the average square of W's off-diagonal entries plus
    `intercept` times the average square of b (ODIR). Convex; solved from the identity by
    scipy: up to 20 classes with second derivatives, for more without, by L-BFGS-B, which ends less near to
    the minimum.

    With few rows for so many numbers `pull` holds the map near temperature scaling: to the sum of log losses
    it adds pull/2 (W_cd - beta [c = d])^2 for each number of W, beta being the temperature's exponent, and a
    tenth of pull/2 b_c^2: a normal prior of variance 1/pull.

    Parameters
    ----------
    off_diagonal, intercept
        Weights of the two penalties, not negative.
    max_iterations
        Of L-BFGS-B, for more than 20 classes.
    classes
        The labels that the columns stand for; None: 0..C-1.
    pull
        How strongly numbers are pulled to those of temperature scaling, not negative.

    Attributes
    ----------
    coef_
        W, shape (C, C).
    intercept_
        b, shape (C,).

    References
    ----------
    Kull, Perello-Nieto, Kangsepp, Song & Flach, "Beyond temperature scaling" (2019), section 3.
    """

    def __init__(
        self,
        off_diagonal: float = 0.01,
        intercept: float = 0.01,
        max_iterations: int = 500,
        classes: Sequence[Hashable] | None = None,
        pull: float = 0.0,
    ) -> None:
        self.off_diagonal = off_diagonal
        self.intercept = intercept
        self.max_iterations = max_iterations
        self.classes = classes
        self.pull = pull

    def _check_parameters(self) -> None:
        for name in ("off_diagonal", "intercept", "pull"):
            check_number(getattr(self, name), name, 0.0, math.inf, "[)", "a number of at least 0")

    def _learn(self, table: Floats, labels: Ints, weights: Weights) -> None:
        k, columns, counts = table.shape[1], columns_of(table), counts_of(table, weights)
        beta = best_factor(columns, labels, counts) if self.pull else 1.0
        start = np.concatenate([beta * np.eye(k), np.zeros((k, 1))], axis=1)
        ridge = np.full_like(start, 2.0 * self.off_diagonal / (k * (k - 1)))
        ridge[np.arange(k), np.arange(k)], ridge[:, k] = 0.0, 2.0 * self.intercept / k
        ridge[:, :k] += self.pull / counts.sum()
        ridge[:, k] += PULLED_INTERCEPT * self.pull / counts.sum()
        found = best_linear(columns, labels, counts, start, ridge, self.max_iterations)
        self.coef_, self.intercept_ = np.ascontiguousarray(found[:, :k]), found[:, k].copy()

    def _map(self, table: Floats) -> Floats:
        return softmax_of_logs(table, self.coef_, self.intercept_)


def chosen_dirichlet(seed: int = 0) -> GridSearchCV:
    """Dirichlet calibration that chooses its penalty on three folds."""
    folds = KFold(3, shuffle=True, random_state=seed)
    return GridSearchCV(DirichletCalibration(), {"off_diagonal": PENALTIES}, scoring=_log_loss, cv=folds)


def _log_loss(model: Any, table: Floats, labels: Ints) -> float:
    """Minus the log loss, also of rows that lack a class."""
    return -class_scores(model.predict_proba(table), labels).log_loss
