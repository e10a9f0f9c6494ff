"""A classifier of scikit-learn that learns in batches, with probabilities that are recalibrated online.

The state is the fitted classifier and the flat array of a `SteeredTable`. The first batch changes the
classifier alone, and each later one changes both. Asking works on a copy of the array, and changes nothing.
`fit` makes both anew, in an object of its own, so that a `fit` that is refused leaves all as it was. Pickles
keep the array as it is, in the layout of `steering.binary` or `steering.vector`. The order within a batch is
part of answers: all rows are asked about, the classifier learns, and then the map learns row by row.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import _safe_indexing, column_or_1d, get_tags, indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from onlinecal.arrays import Floats, Ints
from onlinecal.remarks import warn_of
from onlinecal.restoring import Restored
from onlinecal.steering import binary, vector
from onlinecal.tables.columns import refuse
from onlinecal.tables.frames import as_array, missing_in, unmasked
from onlinecal.texts import shown
from onlinecal.validation import check_count

LabelArray = NDArray[Any]


class OnlineRecalibratedClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """A classifier that learns in batches, and whose probabilities are recalibrated as it learns.

    The classifier first forecasts each batch. A map of its probabilities to better ones learns from these
    forecasts and the labels that came. Then the classifier learns the batch. The map is the one by which
    `CalibratedClassifier` corrects probabilities before it makes them calibrated.

    Nothing is proven of the answers: there is no certificate. Where you need one, wrap a model of river in
    `CalibratedClassifier`, or give the probabilities that a model had for each batch before it learnt it to
    `recalibrate_stream`.

    Parameters
    ----------
    estimator
        A classifier of scikit-learn with `partial_fit` and `predict_proba`, as
        `SGDClassifier(loss="log_loss")` or `GaussianNB()`. A clone of it is fitted; it stays as it is.
    batch_size
        How many rows `fit` takes as a batch, at least 1, in their order; the last batch may have fewer. It is
        checked by `fit`, and `partial_fit` does not look at it.

    Attributes
    ----------
    classes_
        The sorted labels, shape (k,).
    estimator_
        The classifier that has learnt all rows so far.
    n_features_in_, feature_names_in_
        How many features the first batch had, and what they were called, if they had names.

    Notes
    -----
    The answer to a row is what the map makes of the classifier's probabilities by what has been learnt so
    far. It does not depend on the other rows that are asked about, and asking changes nothing.

    No row of a batch is forecast with the labels of that batch. So put rows that share an outcome, as the
    minutes of a match do, into one batch: it then does not leak into their forecasts.

    `fit` goes through the rows once. A classifier that wants many passes, as SGDClassifier may, is better
    recalibrated by `RecalibratedClassifierCV`, unless the world drifts.

    There are no weights: the map counts each row as one outcome. Leave rows out, or repeat them.

    References
    ----------
    docs/theory.md, Theorems 17c and 17e, for what the map loses at most on the batches that it learns from.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.metrics import log_loss
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from onlinecal import OnlineRecalibratedClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = OnlineRecalibratedClassifier(GaussianNB()).fit(X[:900], y[:900])
    >>> plain, better = model.estimator_.predict_proba(X[900:]), model.predict_proba(X[900:])
    >>> log_loss(y[900:], better) < 0.5 * log_loss(y[900:], plain)
    True
    """

    def __init__(self, estimator: Any, *, batch_size: int = 32) -> None:
        self.estimator = estimator
        self.batch_size = batch_size

    def fit(self, X: Any, y: Any, **fit_params: Any) -> Self:
        """Forget all that was learnt, and learn n rows once, in batches of `batch_size`. Returns this object.

        If it raises, this object stays as it was before the call.

        Parameters
        ----------
        X, y
            Features, shape (n, d), as the wrapped classifier takes them; labels, shape (n,), numbers or
            texts.
        fit_params
            Nothing else is taken; any keyword, `sample_weight` too, raises ValueError.

        Raises
        ------
        ValueError
            For a bad `estimator` or `batch_size`, any keyword, missing labels or labels of fewer than two
            classes, and what the wrapped classifier refuses with it.

        Warns
        -----
        UserWarning
            If all rows are one batch, so that the map has learnt nothing: no row was forecast before it was
            learnt.
        """
        check_count(self.batch_size, "batch_size")
        X, y = self._checked(X, y, fit_params)
        classes = class_array(y, "y")
        fresh = type(self)(**self.get_params(deep=False))
        for start in range(0, len(y), self.batch_size):
            rows = slice(start, start + self.batch_size)
            fresh._learn(_safe_indexing(X, rows), y[rows], classes)
        self.__dict__.pop("feature_names_in_", None)
        self.__dict__ |= fresh.__dict__
        if len(y) <= self.batch_size:
            text = f"with batch_size={self.batch_size} the {len(y)} rows are one batch: no probability was "
            warn_of([text + "recalibrated, since the classifier forecast none of them"], UserWarning)
        return self

    def partial_fit(self, X: Any, y: Any, classes: ArrayLike | None = None, **fit_params: Any) -> Self:
        """Learn a batch of n rows, and keep what was learnt before. Returns this object.

        The wrapped classifier forecasts the batch and learns it; then the map learns from these forecasts and
        the labels. From the first batch only the classifier learns, since it could forecast nothing before.

        Parameters
        ----------
        X, y
            Features, shape (n, d), as the wrapped classifier takes them; labels, shape (n,), numbers or
            texts.
        classes
            All k >= 2 labels there will be, in any order. It is needed at the first call, unless `fit` came
            before; later it may be None, or the same labels again.
        fit_params
            Nothing else is taken; any keyword, `sample_weight` too, raises ValueError.

        Raises
        ------
        ValueError
            Classes are missing at the first call, or others than before; y holds a label that is not among
            them; there is any keyword; the estimator cannot be used; or it refuses the batch with ValueError.
            Nothing has been learnt then.
        """
        X, y = self._checked(X, y, fit_params)
        if classes is None and not hasattr(self, "classes_"):
            raise ValueError(
                "classes must be given at the first call of partial_fit, got None: name all labels that may "
                "come"
            )
        declared = self.classes_ if classes is None else class_array(classes, "classes")
        known = getattr(self, "classes_", declared)
        if not np.array_equal(declared, known):
            raise ValueError(
                f"classes must be {known.tolist()}, as before, got {declared.tolist()}: leave them out, or "
                "begin with a new classifier"
            )
        self._learn(X, y, declared)
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Recalibrated probabilities of the classes for n rows of features X, shape (n, d).

        They are float64 of shape (n, k), each row with sum 1, with columns in the order of `classes_`. Each
        row is answered by itself. Nothing is learnt, and there is no certificate. Raises NotFittedError
        before the first batch was learnt, and ValueError for rows that the wrapped classifier refuses with
        it.
        """
        check_is_fitted(self, "estimator_")
        said = self._raw_proba(X)
        return self._map.answers(said)

    def predict(self, X: Any) -> LabelArray:
        """The label with the largest recalibrated probability for each of n rows of features X, shape (n,).

        Of equal probabilities the label that comes first in `classes_` is taken. Nothing is learnt. Raises
        NotFittedError before the first batch was learnt, and ValueError for rows that the wrapped classifier
        refuses with it.
        """
        top = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[top]

    def _checked(self, X: Any, y: Any, fit_params: Mapping[str, Any]) -> tuple[Any, LabelArray]:
        """Features and labels of as many rows; ValueError for bad ones, and for a bad estimator."""
        for name in fit_params:
            why = "rows are learnt by X and y alone, and classes are named in partial_fit"
            if name == "sample_weight":
                why = "the map counts each row as one outcome. Leave rows out, or repeat them"
            raise ValueError(f"{name} must be left out: {why}")
        name = type(self.estimator).__name__
        learns = all(hasattr(self.estimator, method) for method in ("partial_fit", "predict_proba"))
        # a frozen one passes every method on, and its clone is itself
        if not learns or isinstance(self.estimator, FrozenEstimator):
            raise ValueError(
                f"estimator must be a classifier with partial_fit and predict_proba, got {name}: of a "
                "pipeline give the last step, and put the others in front of this one; SGDClassifier has "
                "predict_proba with loss='log_loss'; RecalibratedClassifierCV needs no partial_fit"
            )
        check_classification_targets(y)
        X, labels = unmasked(X), as_array(y, "y")
        refuse(missing_in(labels), labels, "y must have a label in every row")
        X, y = indexable(X, y)
        return X, column_or_1d(y, warn=True)

    def _learn(self, X: Any, y: LabelArray, classes: LabelArray) -> None:
        """Learn a batch: ask the classifier about it, then let the classifier learn it, then the map.

        The first batch makes the classifier and the map, and only the classifier learns it.
        """
        strange = ~np.isin(y, classes)
        refuse(strange, y, f"y must be one of the classes {classes.tolist()}")
        if not hasattr(self, "estimator_"):
            model = clone(self.estimator).partial_fit(X, y, classes=classes)
            validate_data(self, X, reset=True, skip_check_array=True)
            self.estimator_, self.classes_, self._map = model, classes, SteeredTable(len(classes))
            return
        said = self._raw_proba(X)
        # what the classifier refuses leaves the map as it was
        self.estimator_.partial_fit(X, y, classes=classes)
        self._map.learn(said, np.searchsorted(classes, y))

    def _raw_proba(self, X: Any) -> Floats:
        """The classifier's own probabilities, shape (n, k); ValueError unless these are its classes."""
        table = np.ascontiguousarray(self.estimator_.predict_proba(X), np.float64)
        # after the classifier, whose errors say more
        validate_data(self, X, reset=False, skip_check_array=True)
        own = np.asarray(getattr(self.estimator_, "classes_", self.classes_))
        if table.shape[1:] != self.classes_.shape or not np.array_equal(own, self.classes_):
            raise ValueError(
                f"estimator must answer with a column for each of the classes {self.classes_.tolist()}, got "
                f"shape {table.shape} for the classes {own.tolist()}: its predict_proba must keep to the "
                "classes that its partial_fit was given"
            )
        return table

    def __setstate__(self, state: dict[str, Any]) -> None:
        # scikit-learn's stochastic gradient writes to coefficients without asking whether it may, which ends
        # the process where they are a file; a copy has memory of its own
        own = {"estimator_": copy.deepcopy(state["estimator_"])} if "estimator_" in state else {}
        super().__setstate__(state | own)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        own_tags = get_tags(self.estimator).input_tags
        tags.input_tags.sparse, tags.input_tags.allow_nan = own_tags.sparse, own_tags.allow_nan
        return tags


class SteeredTable(Restored):
    """The steered map of rows of k probabilities, which learns batch by batch."""

    def __init__(self, n_classes: int) -> None:
        self._is_binary = n_classes == 2
        self._state = binary.new_steering() if self._is_binary else vector.new_vector_steering(n_classes)
        self._ticket_length = binary.TICKET if self._is_binary else vector.shared_of(n_classes)

    def answers(self, table: Floats) -> Floats:
        """What would be made of each row, shape (n, k), if it were the next one; nothing is changed."""
        answers, state = np.empty_like(table), np.empty_like(self._state)
        for row, answer in zip(table, answers, strict=True):
            np.copyto(state, self._state)
            self._steer(state, row, answer)
        return answers

    def learn(self, table: Floats, numbers: Ints) -> None:
        """Learn which classes came, by number, shape (n,), after all rows, (n, k), were asked about."""
        state, answer = self._state, np.empty(table.shape[1])
        tickets = np.empty((len(table), self._ticket_length))
        for row, ticket in zip(table, tickets, strict=True):
            self._steer(state, row, answer)
            ticket[:] = state[: self._ticket_length]
        for ticket, number in zip(tickets, numbers.tolist(), strict=True):
            state[: self._ticket_length] = ticket
            if self._is_binary:
                binary.ALONE.learn_outcome(state, number)
            else:
                vector.learn_label(state, number)

    def _steer(self, state: Floats, row: Floats, answer: Floats) -> None:
        """Write what is made of a row; its ticket is left in the state."""
        if self._is_binary:
            p = binary.ALONE.hint_of(state, float(row[1]))
            answer[0], answer[1] = 1.0 - p, p
        else:
            vector.hint(state, row, answer)


def class_array(labels: Any, name: str) -> LabelArray:
    """The different labels in order, at least two; ValueError if there is no order, or one label alone."""
    try:
        classes: LabelArray = np.unique(np.asarray(labels))
    except TypeError as error:
        raise ValueError(
            f"{name} must be all numbers, or all texts, since they are sorted, got {shown(list(labels))}"
        ) from error
    if len(classes) < 2:
        held = f"one class: {classes.tolist()[0]!r}" if len(classes) else "none"
        raise ValueError(f"{name} must have labels of at least two classes, got {held}")
    return classes
