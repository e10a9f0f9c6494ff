"""The base class of recalibrators of tables, in scikit-learn's conventions, and checks of their arguments.

Labels become class numbers, and a row of weight w counts as w equal rows. `fit` checks all it is given before
it sets any fitted attribute; subclasses only say how to learn from checked rows and how to map them.

What always holds of a recalibrator: parameters keep their values (`fit` may make a count of numpy one of
Python); attributes that end in an underscore are written by a fit, or by `load`; and `predict_proba`,
`transform` and `predict` change nothing. A fit that is refused, fails or is interrupted leaves a recalibrator
as it was before: `fit` puts its attributes back, so `_learn` sets attributes and changes none in place.

`_fit_checked` is for recalibrators inside of others: its rows were checked outside, and nothing is put back.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from onlinecal.arrays import Floats, Ints, as_doubles, by_pieces, pieces
from onlinecal.measures.counts import check_weights
from onlinecal.measures.decision.losses import residuals
from onlinecal.recalibration.folds import SampleSizeWarning
from onlinecal.remarks import label_remarks, warn_of
from onlinecal.tables.columns import (
    check_labels,
    check_outcomes,
    check_probabilities,
    check_probability_rows,
    check_same_index,
    check_same_length,
    refuse,
)
from onlinecal.tables.formats import twice
from onlinecal.tables.frames import as_array, names_of, objects_of
from onlinecal.texts import shown

FEWEST_ROWS = 2
"""The fewest rows from which anything can be learnt: smaller sums of weights of several rows get a remark."""


def number_labels(
    labels: ArrayLike, n_classes: int, classes: Sequence[Hashable] | None
) -> tuple[Ints, NDArray[Any]]:
    """Labels as class numbers, shape (n,), and the classes, shape (k,).

    Labels may be one-hot, shape (n, k), with columns in the order of the classes; the columns of a DataFrame
    may also be named by the classes, in any order.

    Raises
    ------
    ValueError
        If there are not n_classes classes, a class is named twice, a label is not a class, or a row is not
        one-hot.
    """
    if classes is None:
        if (numbered := _from_one_hot(labels, np.arange(n_classes))) is not None:
            return numbered, np.arange(n_classes)
        hint = ": name the columns of X with classes=, or give X as a data frame"
        return check_labels(labels, n_classes, "y", hint), np.arange(n_classes)
    if not isinstance(classes, Iterable):
        raise ValueError(f"classes must be the labels of the columns of X, in a list, got {shown(classes)}")
    listed = list(classes)
    known = np.empty(len(listed), dtype=object)
    known[:] = listed
    if len(known) != n_classes:
        raise ValueError(f"classes must name the {n_classes} columns of X, got {len(known)} of them")
    numbers = {label: number for number, label in enumerate(known)}
    if len(numbers) != n_classes:
        twice = next(label for number, label in enumerate(known) if numbers[label] != number)
        raise ValueError(f"classes must differ, got {twice!r} twice")
    if (numbered := _from_one_hot(labels, known)) is not None:
        return numbered, _plain(known)
    values = objects_of(labels, "y")
    numbered = np.empty(len(values), dtype=np.int64)
    for row, label in enumerate(values):
        try:
            numbered[row] = numbers[label]
        except (KeyError, TypeError):
            wanted = shown(known.tolist())
            raise ValueError(f"y must be one of the classes {wanted}, got {label!r} at row {row}") from None
    if not len(numbered):
        raise ValueError("y is empty: give at least one label")
    return numbered, _plain(known)


def _plain(known: NDArray[Any]) -> NDArray[Any]:
    """Classes as an array of numbers or texts if that keeps each label as it is, else as objects."""
    if all(isinstance(label, (bool, int, float, str, np.generic)) for label in known):
        plain = np.array(known.tolist())
        # numpy turns values of several types into one type, which changes labels
        return plain if plain.tolist() == known.tolist() else known
    return known


def classes_of(table: Any, labels: Any, classes: Sequence[Hashable] | None) -> Sequence[Hashable] | None:
    """The given classes or, if None, the names of the table's columns, if the labels are such names.

    Columns of one-hot labels may be these names, too. If only some of several texts are, it is the names all
    the same, so that an error names the others. If columns have no names, or two the same, or labels are
    something else, it is None: then labels are class numbers.
    """
    names = names_of(table)
    if classes is not None or names is None or len(set(names)) != len(names):
        return classes
    label_columns = names_of(labels)
    if label_columns is not None and set(label_columns) == set(names):
        return names
    try:
        values = set(objects_of(labels, "y"))
    except (TypeError, ValueError):
        return None
    # if only some texts are names of columns, they are taken as classes, so that an error names the others
    strays = any(isinstance(value, str) for value in values) and not values.isdisjoint(names)
    return names if values <= set(names) or strays else None


def event_rows(X: Any, y: Any) -> tuple[Floats, NDArray[np.uint8]]:
    """Forecasts of an event and its outcomes, both (n,), from two columns or a table of two classes.

    In a table (n, 2) the second class is the event, and y has labels as in `number_labels`.
    """
    check_same_index(X, y, "X and y")
    forecasts = event_column(X)
    if _is_table(X):
        outcomes = number_labels(y, 2, classes_of(X, y, None))[0].astype(np.uint8)
    else:
        outcomes = check_outcomes(y, "y")
    check_same_length(forecasts, outcomes, "X and y")
    return forecasts, outcomes


def event_column(X: Any, name: str = "X") -> Floats:
    """Forecasts of an event, (n,): the column itself, or the second column of a table of two classes."""
    if _is_table(X):
        return np.ascontiguousarray(check_probability_rows(X, name)[:, 1])
    return check_probabilities(X, name)


def in_shape_of(X: Any, forecasts: Floats) -> Floats:
    """Forecasts of an event (n,), as a table (n, 2) if X is one of two classes."""
    return np.column_stack([1.0 - forecasts, forecasts]) if _is_table(X) else forecasts


def _is_table(X: Any) -> bool:
    shape = tuple(getattr(X, "shape", ()))
    return len(shape) == 2 and shape[1] == 2


def _from_one_hot(labels: Any, known: NDArray[Any]) -> Ints | None:
    """Class numbers from a one-hot table (n, k); None if labels are not a table of several columns."""
    names = names_of(labels)
    if names is None and any(isinstance(label, tuple) for label in known):
        return None
    try:
        table = as_array(labels, "y")
    except ValueError:
        return None
    if table.ndim != 2 or table.shape[1] < 2:
        return None
    if table.shape[1] != len(known):
        raise ValueError(f"y must have shape (n,), or one-hot (n, {len(known)}), got {table.shape}")
    ones = table == 1
    bad = ~(ones | (table == 0)).all(axis=1) | (ones.sum(axis=1) != 1)
    refuse(bad, table, "y must have a single 1, and 0 elsewhere, in every row")
    if names is not None and set(names) == set(known.tolist()):
        order = [names.index(label) for label in known.tolist()]
        ones = ones[:, order]
    return ones.argmax(axis=1)


def row_weights(values: ArrayLike | None, n_rows: int, beside: Any, name: str) -> Floats:
    """Weights as `check_weights` returns them; a warning says if those of several rows have a sum below 2.

    In other libraries weights may have the sum 1. Here they count rows, and from one row next to nothing can
    be learnt.
    """
    weights = check_weights(values, n_rows, beside, name)
    total = float(weights.sum())
    if total < FEWEST_ROWS <= np.count_nonzero(weights):
        remark = (
            f"sample_weight has the sum {total:.4g} over {n_rows:,} rows, which count as so many rows only"
        )
        warn_of([f"{remark}: multiply it by {n_rows:,} / sum to count all rows"], SampleSizeWarning)
    return weights


def repeats(weights: Floats, name: str) -> Ints:
    """Weights as numbers of rows; ValueError for one that is not whole says that `name` needs whole ones."""
    whole = np.rint(weights)
    if (whole != weights).any():
        row = int(np.argmax(whole != weights))
        raise ValueError(f"sample_weight must be whole numbers with {name}, got {weights[row]} at row {row}")
    return whole.astype(np.int64)


def weighted(values: Floats, weights: Floats) -> Floats:
    """Rows times their weights, scaled to average 1, shape (n, C): their plain mean is the weighted mean."""
    return values * (weights * (len(weights) / weights.sum()))[:, None]


def squared_error(table: NDArray[np.floating], labels: Ints, weights: Floats) -> float:
    """The sum over rows and classes of (p - y)^2."""
    total = 0.0
    for rows in pieces(table):
        squares = (residuals(as_doubles(table[rows]), labels[rows]) ** 2).sum(axis=1)
        total += float((squares * weights[rows]).sum())
    return total


class ProbabilityRecalibrator(TransformerMixin, ClassifierMixin, BaseEstimator):
    """A map that is fitted to a table of probabilities and its labels, and then maps other tables.

    Tables are arrays, lists or DataFrames of pandas or polars. Subclasses say how to learn and how to map.
    Their parameter `classes` has the labels of the columns, any hashables; None stands for the names of a
    DataFrame's columns if the labels are such names, else for 0..C-1. A fitted map has `classes_` (C,),
    `n_features_in_`, and `feature_names_in_` if the columns have names. `predict_proba` returns arrays;
    `transform` returns DataFrames after `set_output(transform="pandas")` or "polars".
    """

    def __init__(self, classes: Sequence[Hashable] | None = None) -> None:
        self.classes = classes

    @abstractmethod
    def _learn(self, table: Floats, labels: Ints, weights: Floats) -> None:
        """Learn from a checked table (n, C), class numbers (n,) and positive weights (n,).

        The table holds floats of any precision.
        """

    @abstractmethod
    def _map(self, table: Floats) -> Floats:
        """Map rows of a checked table, doubles (n, C); the answer to a row does not depend on the others."""

    def _check_parameters(self) -> None:
        """Refuse bad parameters."""

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the map from probabilities, shape (n, C), and labels, shape (n,). Returns this object.

        An earlier fit is forgotten (but a `DecisionRecalibrator` with warm_start=True goes on from it). If an
        error is raised, this object stays as it was.

        Parameters
        ----------
        X
            Probabilities of the C classes, at least 2, in columns; every row sums to 1 within 1e-6.
        y
            The label of each row, one of the labels of the columns: of `classes`, of the names of a data
            frame's columns, or else of 0..C-1. Or one-hot, shape (n, C).
        sample_weight
            Shape (n,), not negative: a row of weight w counts as w equal rows, a row of weight 0 is left out.
            None: each row counts once.

        Raises
        ------
        ValueError
            For a bad table, label, weight or parameter; the message names it and the value. For fewer rows
            than the parameters need.

        Warns
        -----
        LabelWarning
            If a class never comes, or X agrees with y less than by chance.
        SampleSizeWarning
            If the sum of several weights is below 2, if there are fewer than two different rows for each
            fold, or fewer rows than a guarantee of the class needs.
        """
        if len(getattr(X, "shape", ())) == 1 and len(getattr(y, "shape", ())) == 2:
            raise ValueError("X must be a table and y a column, got them the other way round: swap them")
        check_same_index(X, y, "X and y")
        if repeated := twice(names_of(X) or []):
            raise ValueError(
                f"X must have different names, got two columns {min(map(str, repeated))!r}: rename one"
            )
        table = check_probability_rows(X, "X", keep_single=True)
        if table.shape[1] < 2:
            raise ValueError(
                f"X must have at least 2 columns, got {table.shape[1]}: for two classes give "
                "numpy.column_stack([1 - X, X])"
            )
        labels, known = number_labels(y, table.shape[1], classes_of(X, y, self.classes))
        check_same_length(table, labels, "X and y")
        weights = row_weights(sample_weight, len(table), X, "X")
        if (inside := weights > 0.0).sum() < len(table):
            table, labels, weights = table[inside], labels[inside], weights[inside]
        before = dict(vars(self))
        try:
            self._check_parameters()
            warn_of(label_remarks(table, labels, known, "y"))
            self._learn(table, labels, weights)
            self.classes_ = known
            validate_data(self, X, skip_check_array=True)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _fit_checked(self, table: Floats, labels: Ints, weights: Floats) -> Self:
        """Learn as a part of another recalibrator, which has checked these rows; the classes are 0..C-1."""
        self._check_parameters()
        self._learn(table, labels, weights)
        self.n_features_in_, self.classes_ = table.shape[1], np.arange(table.shape[1])
        return self

    def _check_table(self, X: ArrayLike) -> Floats:
        """A checked table for a fitted map."""
        check_is_fitted(self, "n_features_in_")
        table = check_probability_rows(X, "X", keep_single=True)
        validate_data(self, X, reset=False, skip_check_array=True)
        return table

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Recalibrated probabilities, a new array of shape (n, C), rows with sum 1.

        X has probabilities of the same classes in the same columns, shape (n, C), rows with sum 1.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If X is no table of probabilities, or has another number, order or names of columns than in `fit`.
        """
        return self._mapped(self._check_table(X))

    def _mapped(self, table: Floats) -> Floats:
        """Map a checked table (n, C) of any precision, piece by piece."""
        return by_pieces(self._map, table)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The label with the largest recalibrated probability of each row of X, shape (n,).

        Labels are those of `classes_`; of equal probabilities the first column counts. X, probabilities of
        shape (n, C), and errors are those of `predict_proba`.
        """
        # first, since it says whether there was a fit
        top = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[top]

    def transform(self, X: ArrayLike) -> Floats:
        """The recalibrated probabilities of the rows X, as `predict_proba` gives them, for pipelines.

        X and the answer have shape (n, C). The answer is an array, or after `set_output(transform="pandas")`
        or "polars" a data frame with the columns of `get_feature_names_out`. Errors are those of
        `predict_proba`.
        """
        return self.predict_proba(X)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """The names of the C columns that `transform` answers with: texts, an array of objects, shape (C,).

        They are the names of the columns that `fit` was given or, if these had none, the classes as texts,
        such as '0' and '1'. `input_features` changes nothing: scikit-learn wants that it can be given. Raises
        NotFittedError before `fit`.
        """
        check_is_fitted(self, "n_features_in_")
        names = getattr(self, "feature_names_in_", [str(label) for label in self.classes_])
        return np.asarray(names, dtype=object)
