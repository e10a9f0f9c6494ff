"""A fitted classifier and the map that its probabilities go through: how both are fitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from onlinecal.measures.fixed_order import Floats
from onlinecal.recalibration.cross_validated.responses import Reading, Response, response

Labels = NDArray[Any]
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class RecalibratedPair:
    """A classifier and what its probabilities go through.

    Attributes
    ----------
    estimator, recalibrator
        Both fitted.
    classes
        The columns, shape (C,).
    reading
        How the classifier's answers are read: the scale of decision scores, the least probability.
    """

    estimator: Any
    recalibrator: Any
    classes: Labels
    reading: Reading

    def predict_proba(self, X: Any) -> Floats:
        """Recalibrated probabilities, shape (n, C)."""
        given = response(self.estimator, X, self.classes).probabilities(self.reading)
        answers = np.asarray(self.recalibrator.predict_proba(given))
        if answers.shape != given.shape:
            kind = type(self.recalibrator).__name__
            raise ValueError(f"recalibrator {kind} answers with shape {answers.shape} to {given.shape}")
        return answers


def fit_and_ask(
    estimator: Any, X: Any, y: Labels, train: Rows, test: Rows, params: dict[str, Any], classes: Labels
) -> tuple[Any, Response]:
    """A classifier fitted to some rows, and what it answers for others."""
    estimator.fit(_safe_indexing(X, train), y[train], **params)
    return estimator, response(estimator, _safe_indexing(X, test), classes)


def recalibrated(
    estimator: Any, model: Any, answer: Response, y: Labels, params: dict[str, Any], classes: Labels
) -> RecalibratedPair:
    """A classifier with a map fitted to its answers for rows with these labels."""
    reading = answer.reading()
    labels = y
    if names_columns(model):
        model.set_params(classes=classes.tolist())
    else:
        labels = np.searchsorted(classes, y)
    model.fit(answer.probabilities(reading), labels, **params)
    return RecalibratedPair(estimator, model, classes, reading)


def names_columns(model: Any) -> bool:
    """Whether a recalibrator has the parameter `classes`; without it, it gets class numbers."""
    return "classes" in model.get_params(deep=False)
