"""Folds, classifiers' responses to the rows held out, and pairs of a classifier and a map."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.utils import _safe_indexing

from onlinecal.arrays import Floats
from onlinecal.validation import ROW_TOLERANCE, check_probability_rows


def enough_folds(cv: Any, y: Labels) -> Any:
    """A number of folds, no more than there are rows of the rarest class; anything else as it is."""
    if cv is not None and not isinstance(cv, (int, np.integer)):
        return cv
    folds = 5 if cv is None else int(cv)
    known, counts = np.unique(y, return_counts=True)
    fewest, rarest = int(counts.min()), known.tolist()[counts.argmin()]
    if folds <= max(fewest, 1):
        return folds
    if fewest < 2:
        raise ValueError(
            f"cv={folds} needs at least 2 rows of every class, got 1 of class {rarest!r}: take a splitter"
        )
    warnings.warn(
        f"cv={folds} becomes {fewest}: there are {fewest} rows of class {rarest!r}", UserWarning, stacklevel=4
    )
    return fewest


WIDEST = 25.0
"""The range of scores in a row that probabilities can hold: exp(-25) is above what is added to a probability
before its logarithm is taken."""
ROUNDING = 1e-3
"""Rows of `predict_proba` that miss the sum 1 by less, and by more than the project takes for 1, are divided
by their sum: they were rounded, to float16 or a few digits."""


class Reading(NamedTuple):
    """What makes probabilities of a classifier's answers that lose nothing in their logarithms.

    Attributes
    ----------
    scale
        What scores are multiplied by: below 1 where their range is beyond that of probabilities.
    least
        What a probability is raised to. A share of neighbours or trees that is 0 may stand for anything below
        the smallest one that comes: half of that.
    """

    scale: float
    least: float


class Response(NamedTuple):
    """A classifier's answers for rows of X, a column for each of C known classes.

    Attributes
    ----------
    values
        Shape (n, C): probabilities; or scores, -inf for a class that the classifier does not know.
    are_scores
        Which of the two.
    """

    values: Floats
    are_scores: bool

    def reading(self) -> Reading:
        """How to read these answers, and later ones of the same classifier, as probabilities."""
        if not self.are_scores:
            positive = self.values[self.values > 0.0]
            return Reading(1.0, positive.min() / 2.0 if positive.size < self.values.size else 0.0)
        known = np.where(np.isfinite(self.values), self.values, np.nan)
        widest = float(np.nanmax(np.nanmax(known, axis=1) - np.nanmin(known, axis=1)))
        return Reading(min(1.0, WIDEST / widest) if widest > 0.0 else 1.0, 0.0)

    def probabilities(self, reading: Reading) -> Floats:
        """Shape (n, C), rows with sum 1; of scores the softmax: the logistic function, for two classes."""
        if self.are_scores:
            return softmax(reading.scale * self.values, axis=1)
        table = np.maximum(self.values, reading.least)
        return np.where(
            (table == self.values).all(axis=1, keepdims=True), table, table / table.sum(axis=1)[:, None]
        )


def has_response(estimator: Any) -> bool:
    """Whether a classifier can be asked at all."""
    return hasattr(estimator, "predict_proba") or hasattr(estimator, "decision_function")


def response(estimator: Any, X: Any, classes: NDArray[Any]) -> Response:
    """What a fitted classifier answers; probabilities if it has them.

    Raises
    ------
    ValueError
        Rows that are no probabilities, or scores that are not one per class.
    """
    name = type(estimator).__name__
    own = np.asarray(estimator.classes_)
    places = np.searchsorted(classes, own)
    if hasattr(estimator, "predict_proba"):
        table = np.asarray(estimator.predict_proba(X), dtype=np.float64)
        _check_columns(table, own, f"{name}.predict_proba")
        sums = table.sum(axis=1, keepdims=True)
        missed = np.abs(sums - 1.0)
        rounded = (missed > ROW_TOLERANCE) & (missed < ROUNDING)
        table = np.divide(table, sums, out=table.copy(), where=rounded)
        values = np.zeros((len(table), len(classes)))
        values[:, places] = check_probability_rows(table, f"{name}.predict_proba")
        return Response(values, False)
    scores = np.asarray(estimator.decision_function(X), dtype=np.float64)
    if scores.ndim == 1 or scores.shape[1] == 1:
        # the logistic function of a score is the softmax of 0 and the score
        scores = np.column_stack([np.zeros(len(scores)), scores])
    _check_columns(scores, own, f"{name}.decision_function")
    if not np.isfinite(scores).all():
        row = int(np.argmin(np.isfinite(scores).all(axis=1)))
        raise ValueError(f"{name}.decision_function must be finite, got {scores[row].tolist()} at row {row}")
    values = np.full((len(scores), len(classes)), -np.inf)
    values[:, places] = scores
    return Response(values, True)


def _check_columns(table: Floats, classes: NDArray[Any], name: str) -> None:
    if table.ndim != 2 or table.shape[1] != len(classes):
        raise ValueError(
            f"{name} must have a column for each of the {len(classes)} classes, got shape {table.shape}"
        )


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
