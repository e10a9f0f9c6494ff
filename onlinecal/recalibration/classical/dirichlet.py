"""Dirichlet calibration: multinomial logistic regression on log-probabilities."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.model_selection import GridSearchCV, KFold

from onlinecal.measures.scores import class_scores
from onlinecal.pieces import as_doubles
from onlinecal.recalibration.classical.newton import LinearRows, LocalRows, best_linear, softmax_of_logs
from onlinecal.recalibration.classical.temperature import FLOOR, best_factor_of_logs
from onlinecal.recalibration.probability_recalibrator import Floats, Ints, ProbabilityRecalibrator
from onlinecal.recalibration.weights import Weights, mean, weighted
from onlinecal.validation import check_number

PENALTIES = (0.01, 1.0, 100.0, 10_000.0)
"""Off the diagonal; the best log loss on three folds of the fitted rows decides."""

MOST_NEWTON_CLASSES = 20
"""Time of a step of Newton's method grows like classes^4, of one of L-BFGS-B like classes^2."""


PULLED_INTERCEPT = 0.1
"""Of the pull on factors: logarithms of probabilities are some times as large as 1."""


class DirichletCalibration(ProbabilityRecalibrator):
    """softmax(W log p + b), with penalties on what lies off W's diagonal and on b.

    The log loss per row plus `off_diagonal` times the average square of W's off-diagonal entries plus
    `intercept` times the average square of b (ODIR). Convex; solved from the identity: up to
    20 classes by Newton's method, with the same bits on every processor; for more by scipy's L-BFGS-B. That
    calls BLAS and ends where the gradient is small, so probabilities can differ from one machine to another.

    With few rows for so many numbers `pull` holds the map near temperature scaling: to the sum of log losses
    it adds pull/2 (W_cd - beta [c = d])^2 for each number of W, beta being the temperature's exponent, and a
    tenth of pull/2 b_c^2: a normal prior of variance 1/pull.

    Parameters
    ----------
    off_diagonal, intercept
        Weights of the two penalties, not negative.
    max_iterations
        Of L-BFGS-B.
    classes
        The labels that the columns stand for; None: 0..C-1.
    pull
        How strongly numbers are pulled to those of temperature scaling, not negative; up to 20 classes.

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

    any_precision = True
    fixed_order_ = False
    """Of models of more classes, or pickled before sums were the same on every processor."""
    # of models pickled before there was this
    pull = 0.0

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
        k = table.shape[1]
        if k <= MOST_NEWTON_CLASSES:
            rows = LocalRows.of(table, labels, weights)
            beta = best_factor_of_logs(rows.logs, labels, rows.counts) if self.pull else 1.0
            self._learn_rows(rows, k, beta)
            return
        if self.pull:
            raise ValueError(
                f"pull must be 0 with more than {MOST_NEWTON_CLASSES} classes, got {self.pull!r}"
            )
        self.fixed_order_ = False
        start = np.concatenate([np.eye(k), np.zeros((k, 1))], axis=1)
        logs = np.log(as_doubles(table) + FLOOR)

        def loss(flat: Floats) -> tuple[float, Floats]:
            value, slope = penalised_loss(
                flat.reshape(start.shape), logs, labels, self.off_diagonal, self.intercept, weights
            )
            return value, slope.ravel()

        end = minimize(
            loss, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": self.max_iterations}
        )
        found = end.x.reshape(start.shape)
        self.coef_, self.intercept_ = found[:, :-1], found[:, -1]

    def _learn_rows(self, rows: LinearRows, n_classes: int, beta: float = 1.0) -> None:
        """By Newton's method, from rows that may be anywhere; beta is their temperature's, for a pull."""
        k = n_classes
        start = np.concatenate([beta * np.eye(k), np.zeros((k, 1))], axis=1)
        ridge = np.full_like(start, 2.0 * self.off_diagonal / (k * (k - 1)))
        ridge[np.arange(k), np.arange(k)], ridge[:, k] = 0.0, 2.0 * self.intercept / k
        ridge[:, :k] += self.pull / rows.weight
        ridge[:, k] += PULLED_INTERCEPT * self.pull / rows.weight
        found = best_linear(rows, start, ridge)
        self.coef_, self.intercept_ = np.ascontiguousarray(found[:, :k]), found[:, k].copy()
        self.fixed_order_ = True

    def _map(self, table: Floats) -> Floats:
        if self.fixed_order_:
            return softmax_of_logs(table, self.coef_, self.intercept_)
        return softmax(np.log(table + FLOOR) @ self.coef_.T + self.intercept_, axis=1)


def penalised_loss(
    parameters: Floats,
    logs: Floats,
    labels: Ints,
    off_diagonal: float,
    intercept: float,
    sample_weight: Weights = None,
) -> tuple[float, Floats]:
    """The objective and its gradient; parameters (C, C + 1): W and, last, b; logs (n, C)."""
    n, k = logs.shape
    weights, offsets = parameters[:, :-1], parameters[:, -1]
    scores = logs @ weights.T + offsets
    rows = np.arange(n)
    outside = weights * (1.0 - np.eye(k))
    pairs = k * (k - 1)
    value = (
        -mean(log_softmax(scores, axis=1)[rows, labels], sample_weight)
        + off_diagonal * (outside**2).sum() / pairs
        + intercept * (offsets**2).mean()
    )
    excess = softmax(scores, axis=1)
    excess[rows, labels] -= 1.0
    excess = weighted(excess, sample_weight)
    slope = np.empty_like(parameters)
    slope[:, :-1] = excess.T @ logs / n + 2.0 * off_diagonal * outside / pairs
    slope[:, -1] = excess.mean(axis=0) + 2.0 * intercept * offsets / k
    return float(value), slope


def chosen_dirichlet(seed: int = 0) -> GridSearchCV:
    """Dirichlet calibration that chooses its penalty on three folds."""
    folds = KFold(3, shuffle=True, random_state=seed)
    return GridSearchCV(DirichletCalibration(), {"off_diagonal": PENALTIES}, scoring=_log_loss, cv=folds)


def _log_loss(model: Any, table: Floats, labels: Ints) -> float:
    """Minus the log loss, also of rows that lack a class."""
    return -class_scores(model.predict_proba(table), labels).log_loss
