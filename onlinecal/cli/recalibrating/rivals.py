"""The usual recalibrations, to compare with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.isotonic import IsotonicRegression
from sklearn.model_selection import GridSearchCV, KFold

from onlinecal.cli.recalibrating.scores import class_scores
from onlinecal.recalibration.classical.dirichlet import DirichletCalibration
from onlinecal.recalibration.classical.temperature import FLOOR, TemperatureScaling
from onlinecal.recalibration.classical.top_label import TopLabelIsotonic
from onlinecal.recalibration.probability_recalibrator import ProbabilityRecalibrator

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PENALTIES = (0.01, 1.0, 100.0, 10_000.0)
"""Of Dirichlet calibration; the best log loss on three folds of the fitted rows decides."""


class VectorScaling(ProbabilityRecalibrator):
    """softmax(w log p + b), a factor and an offset per class, of the least log loss (Guo et al., 2017)."""

    def __init__(self, classes: Any = None) -> None:
        self.classes = classes

    def _learn(self, table: Floats, labels: Ints) -> None:
        logs = np.log(table + FLOOR)
        rows = np.arange(len(table))

        def log_loss(both: Floats) -> tuple[float, Floats]:
            w, b = np.split(both, 2)
            scores = w * logs + b
            excess = softmax(scores, axis=1)
            excess[rows, labels] -= 1.0
            slope = np.concatenate([(excess * logs).mean(axis=0), excess.mean(axis=0)])
            return -float(log_softmax(scores, axis=1)[rows, labels].mean()), slope

        k = table.shape[1]
        start = np.repeat([1.0, 0.0], k)
        end = minimize(log_loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 500})
        self.factors_, self.offsets_ = np.split(end.x, 2)

    def _map(self, table: Floats) -> Floats:
        return softmax(self.factors_ * np.log(table + FLOOR) + self.offsets_, axis=1)


class PerClassIsotonic(ProbabilityRecalibrator):
    """An isotonic regression for each class against the rest, then rows are divided by their sums.

    What scikit-learn's CalibratedClassifierCV(method="isotonic") does to probabilities; rows whose sum is 0
    become uniform.
    """

    def __init__(self, classes: Any = None) -> None:
        self.classes = classes

    def _learn(self, table: Floats, labels: Ints) -> None:
        self.curves_ = [
            IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(column, labels == number)
            for number, column in enumerate(table.T)
        ]

    def _map(self, table: Floats) -> Floats:
        raised = np.column_stack(
            [curve.predict(column) for curve, column in zip(self.curves_, table.T, strict=True)]
        )
        sums = raised.sum(axis=1, keepdims=True)
        equal = np.full_like(raised, 1.0 / raised.shape[1])
        return np.divide(raised, sums, out=equal, where=sums > 0.0)


def rivals() -> dict[str, ProbabilityRecalibrator]:
    """Unfitted rivals by the names they have in reports."""
    return {
        "temperature": TemperatureScaling(),
        "isotonic per class": PerClassIsotonic(),
        "isotonic top label": TopLabelIsotonic(),
    }


def _log_loss(model: Any, table: Floats, labels: Ints) -> float:
    """Minus the log loss, also of rows that lack a class."""
    value = class_scores(model.predict_proba(table), labels)["log loss"]
    assert value is not None
    return -value


def chosen_dirichlet(seed: int = 0) -> GridSearchCV:
    """Dirichlet calibration that chooses its penalty on three folds."""
    folds = KFold(3, shuffle=True, random_state=seed)
    return GridSearchCV(DirichletCalibration(), {"off_diagonal": PENALTIES}, scoring=_log_loss, cv=folds)
