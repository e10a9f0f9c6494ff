"""scikit-learn's face of a wrapper: `partial_fit` and `predict_proba`, around its estimators too."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from typing import Any, Protocol, Self

import numpy as np
import sklearn.base
from numpy.typing import NDArray
from river import base
from river.compat import SKL2RiverClassifier
from sklearn.exceptions import NotFittedError

from onlinecal.forecasters.simplex.input import class_of
from onlinecal.wrappers.labels import Label, Labels, plain
from onlinecal.wrappers.mini_batches import MiniBatches, check_frame
from onlinecal.wrappers.wrapper import is_of_scikit_learn


class Estimator(Protocol):
    """What an estimator of scikit-learn must have to be wrapped; no regressor has both."""

    def partial_fit(self, X: Any, y: Any, classes: Any = ..., /) -> Any:
        """Learn rows."""

    def predict_proba(self, X: Any, /) -> Any:
        """Probabilities of rows."""


class IncrementalClassifier(MiniBatches):
    """The methods that scikit-learn's users know, of a classifier whose `classes` are declared."""

    n_rounds: int
    classes: Sequence[Label] | None
    _labels: Labels

    @property
    def classes_(self) -> NDArray[Any]:
        """The declared classes, shape (k,), in the order of the columns of `predict_proba`.

        NotFittedError while none are declared.
        """
        if self.classes is None:
            raise NotFittedError(
                f"this {type(self).__name__} does not know its classes: give it classes=[...], or partial_fit"
            )
        return np.array(list(self._labels.known))

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Settle the forecasts made for these rows, then let the model learn them; itself.

        As `learn_many`.

        Parameters
        ----------
        X
            Features, shape (n, d): an array, or a DataFrame of pandas or polars.
        y
            n labels.
        classes
            All labels there are, k >= 2: at the first call, unless the wrapper was given them. Of two the
            second is the positive one.

        Raises
        ------
        ValueError
            X is no such table, y holds another number of labels or one that is no class, classes are missing
            or others than before. Nothing has been learnt then.
        """
        table = as_table(X)
        if classes is not None:
            self._declare(tuple(map(plain, classes)))
        elif self.classes is None:
            raise ValueError("classes must be given at the first call of partial_fit, got None")
        self._learn_batch(table, y)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Forecast all rows, shape (n, k), columns in the order of `classes_`.

        Parameters
        ----------
        X
            Features, shape (n, d), as of `partial_fit`. Each forecast waits for its label, see `learn_one`.

        Raises NotFittedError while no classes are declared, ValueError if X is no such table.
        """
        classes = self.classes_.tolist()
        answers = self._answers_of(as_table(X))
        return np.array([[answer.get(label, 0.0) for label in classes] for answer in answers])

    def _declare(self, classes: tuple[Label, ...]) -> None:
        if self.classes is not None:
            if set(classes) != set(self._labels.known):
                raise ValueError(
                    f"classes must be {list(self._labels.known)}, as before, got {list(classes)}"
                )
        elif self.n_rounds or self._labels.known:
            raise ValueError(f"classes must be given before the first label, got {list(classes)} after it")
        else:
            given = {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}
            self.__init__(**{**given, "classes": list(classes)})  # type: ignore[misc]

    def _check_label(self, label: Any, name: str) -> None:
        if self.classes is None:
            super()._check_label(label, name)
        else:
            class_of(label, self._labels.known, name)


class FromScikitLearn(SKL2RiverClassifier):
    """A scikit-learn classifier with `partial_fit`, as one of river; its clones are as yet unfitted."""

    takes_arrays = True

    def __init__(self, estimator: Any, classes: Sequence[Label]) -> None:
        super().__init__(sklearn.base.clone(estimator), sorted(classes))

    def predict_proba_many(self, X: Any) -> Any:
        """As river's, which in 0.26 takes texts alone for names of columns; of an array a list of answers."""
        if isinstance(X, np.ndarray):
            try:
                said = self.estimator.predict_proba(X).tolist()
            except NotFittedError:
                said = np.full((len(X), len(self.classes)), 1.0 / len(self.classes)).tolist()
            return [dict(zip(self.classes, row, strict=True)) for row in said]
        texts = copy.copy(self)
        texts.classes = [str(number) for number in range(len(self.classes))]
        return SKL2RiverClassifier.predict_proba_many(texts, X).set_axis(self.classes, axis=1)

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn a DataFrame or an array."""
        if isinstance(X, np.ndarray):
            self.estimator.partial_fit(X, y, classes=self.classes)
        else:
            super().learn_many(X, y)

    def clone(self, new_params: Any = None, include_attributes: bool = False) -> Any:
        """A new one with the same parameters."""
        if include_attributes:
            return super().clone(new_params, include_attributes)
        return type(self)(**{"estimator": self.estimator, "classes": self.classes, **(new_params or {})})


def for_river(classifier: Any, classes: Sequence[Label]) -> base.Classifier:
    """A classifier as river has them: one of scikit-learn is converted if its classes are declared."""
    learns = hasattr(classifier, "partial_fit") and hasattr(classifier, "predict_proba")
    if len(classes) and learns and is_of_scikit_learn(classifier):
        return FromScikitLearn(classifier, classes)
    return classifier


def as_table(X: Any) -> Any:
    """A DataFrame as it is, anything else as an array of shape (n, d); ValueError if it has no rows."""
    if hasattr(X, "columns"):
        return check_frame(X)
    table = np.asarray(X)
    if table.ndim != 2 or not len(table):
        raise ValueError(f"X must be two-dimensional, (rows, features), got shape {table.shape}")
    return table
