"""The scikit-learn face of a map from class probabilities to class probabilities."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from onlinecal.arrays import Floats, Ints
from onlinecal.pieces import by_pieces
from onlinecal.recalibration.labels import Weights, check_weights, classes_of, number_labels
from onlinecal.remarks import label_remarks, warn_of
from onlinecal.validation import check_probability_rows, check_same_length


class ProbabilityRecalibrator(TransformerMixin, ClassifierMixin, BaseEstimator):
    """Fit on a table of probabilities and labels, map tables of probabilities.

    Tables are arrays, lists or DataFrames of pandas or polars. Subclasses have a parameter `classes` (labels
    of the columns, any hashables; None: the names of a DataFrame's columns if the labels are such names, else
    0..C-1) and say how to learn and how to map. Fitted: `classes_` (C,), `n_features_in_`, and
    `feature_names_in_` if columns have names. `predict_proba` answers with arrays, `transform` after
    `set_output(transform="pandas")` or "polars" with DataFrames.
    """

    def __init__(self, classes: Sequence[Hashable] | None = None) -> None:
        self.classes = classes

    @abstractmethod
    def _learn(self, table: Floats, labels: Ints, weights: Weights) -> None:
        """Learn from a checked table (n, C), class numbers (n,) and positive weights (n,), if any.

        The table is of floats of any precision.
        """

    @abstractmethod
    def _map(self, table: Floats) -> Floats:
        """Map some rows of a checked table, doubles (n, C), each as it would be without the others."""

    def _check_parameters(self) -> None:
        """Refuse bad parameters."""

    def fit(self, P: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the map from probabilities, shape (n, C), and labels, shape (n,).

        Parameters
        ----------
        P, y
            Probabilities of the classes, rows with sum 1, and what came.
        sample_weight
            Shape (n,), not negative: a row of weight w counts as w equal rows, one of weight 0 is left out.
            None: each counts once.

        Raises
        ------
        ValueError
            A bad table, label, weight or parameter; the message names it and the value.

        Warns
        -----
        LabelWarning
            A class never comes, or P agrees with y less than by chance.
        """
        table = check_probability_rows(P, "P", keep_single=True)
        if table.shape[1] < 2:
            raise ValueError(f"P must have at least 2 columns, got {table.shape[1]}")
        labels, known = number_labels(y, table.shape[1], classes_of(P, y, self.classes))
        check_same_length(table, labels, "P and y")
        weights = check_weights(sample_weight, len(table))
        if weights is not None:
            inside = weights > 0.0
            table, labels, weights = table[inside], labels[inside], weights[inside]
        self._check_parameters()
        warn_of(label_remarks(table, labels, known, "y"))
        self._learn(table, labels, weights)
        self.classes_ = known
        validate_data(self, P, skip_check_array=True)
        return self

    def _fit_checked(self, table: Floats, labels: Ints, weights: Weights) -> Self:
        """Learn as a part of another recalibrator, which has checked these rows; classes are numbers."""
        self._check_parameters()
        self._learn(table, labels, weights)
        self.n_features_in_, self.classes_ = table.shape[1], np.arange(table.shape[1])
        return self

    def _check_table(self, P: ArrayLike) -> Floats:
        """A table for a fitted map."""
        check_is_fitted(self, "n_features_in_")
        table = check_probability_rows(P, "P", keep_single=True)
        validate_data(self, P, reset=False, skip_check_array=True)
        return table

    def predict_proba(self, P: ArrayLike) -> Floats:
        """Recalibrated probabilities, shape (n, C), rows with sum 1.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            A bad table, or one with other columns than in `fit`.
        """
        return self._mapped(self._check_table(P))

    def _mapped(self, table: Floats) -> Floats:
        """Map a checked table (n, C) of any precision, piece by piece."""
        return by_pieces(self._map, table)

    def predict(self, P: ArrayLike) -> NDArray[Any]:
        """The label with the largest recalibrated probability, shape (n,); ties: the first column."""
        return self.classes_[np.argmax(self.predict_proba(P), axis=1)]

    def transform(self, P: ArrayLike) -> Floats:
        """The same as `predict_proba`, (n, C), as a step of a pipeline and in the form of `set_output`."""
        return self.predict_proba(P)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the columns of `transform`, shape (C,): those of the fitted table, else the classes."""
        check_is_fitted(self, "n_features_in_")
        names = getattr(self, "feature_names_in_", [str(label) for label in self.classes_])
        return np.asarray(names, dtype=object)
