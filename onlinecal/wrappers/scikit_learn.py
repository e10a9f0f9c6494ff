"""The face that scikit-learn knows: classes_, partial_fit and predict_proba of whole tables.

The face adds no state to the wrapper. `predict_proba` opens a round for each row, as `predict_proba_one`
does, and `partial_fit` settles them. Classes are declared once, by the first `partial_fit` at the latest: the
wrapper is then made anew with them, so nothing can have been learnt before.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from onlinecal.forecasters.simplex.input import plain
from onlinecal.tables.frames import as_array
from onlinecal.wrappers.batches import BatchClassifier, check_frame
from onlinecal.wrappers.labels import Label, Labels


class ScikitLearnFace(BatchClassifier):
    """A wrapper that can also be asked and taught in the words of scikit-learn."""

    classes: Sequence[Label] | None
    n_rounds: int
    n_unmatched: int
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
        labels = list(self._labels.known)
        array = np.array(labels)
        # labels of several kinds, and tuples, would become texts and a table
        return array if array.tolist() == labels else np.fromiter(labels, object, len(labels))

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
        table, before = as_table(X), dict(self.__dict__)
        if classes is not None:
            self._declare(tuple(map(plain, classes)))
        elif self.classes is None:
            raise ValueError("classes must be given at the first call of partial_fit, got None")
        try:
            self._learn_batch(table, y)
        except ValueError:
            if not (self.n_rounds or self.n_unmatched):
                self.__dict__ = before  # nothing has been declared either
            raise
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Forecast all rows, shape (n, k), columns in the order of `classes_`.

        Parameters
        ----------
        X
            Features, shape (n, d), as of `partial_fit`. Each forecast waits for its label, see `learn_one`.

        Raises NotFittedError while no classes are declared, ValueError if X is no such table.
        """
        n_classes = len(self.classes_)
        answers = self._answers_of(as_table(X))
        rows = [[answer.get(label, 0.0) for label in self._labels.known] for answer in answers]
        return np.array(rows).reshape(-1, n_classes)

    def _declare(self, classes: tuple[Label, ...]) -> None:
        if self.classes is not None:
            if set(classes) != set(self._labels.known):
                raise ValueError(
                    f"classes must be {list(self._labels.known)}, as before, got {list(classes)}"
                )
        elif self.n_rounds or self._labels.known:
            raise ValueError(f"classes must be given before the first label, got {list(classes)} after it")
        else:
            parameters = {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}
            self.__init__(**{**parameters, "classes": list(classes)})  # type: ignore[misc]


def as_table(X: Any) -> Any:
    """A DataFrame as it is, anything else as an array of shape (n, d); ValueError if it has no rows."""
    if hasattr(X, "columns"):
        return check_frame(X)
    table = as_array(X, "X", "a table", "a table with rows of equal length")
    if table.ndim != 2 or not len(table):
        raise ValueError(f"X must be two-dimensional, (rows, features), got shape {table.shape}")
    return table
