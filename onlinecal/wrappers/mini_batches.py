"""Whole batches of rows through a wrapper, as river's mini-batch methods have it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from river import base
from river.compose import Pipeline, TransformerUnion

from onlinecal.forecasters.simplex.input import check_label
from onlinecal.wrappers.labels import Label, plain

Row = dict[Any, Any]


class MiniBatches(base.MiniBatchClassifier):
    """The mini-batch methods of a classifier that has those for one row, around a `classifier`."""

    classifier: base.Classifier

    def predict_proba_many(self, X: Any, **kwargs: Any) -> Any:
        """Forecast all rows before any of them is learnt.

        The same as `predict_proba_one` of one row after the other, but that the wrapped model is asked by its
        own `predict_proba_many` if it has one (and X is of pandas).

        Parameters
        ----------
        X
            Features, a pandas or polars DataFrame with n rows, at least one.

        Returns
        -------
        A DataFrame of the same kind, with n rows (and the index of X), and a column for each label known so
        far; polars calls it by the label's text.

        Raises
        ------
        ValueError
            X is no such table. Nothing has been asked then.
        """
        answers = self._answers_of(check_frame(X), **kwargs)
        labels = list(dict.fromkeys(label for answer in answers for label in answer))
        return frame_like(X, {label: [answer.get(label, 0.0) for answer in answers] for label in labels})

    def predict_many(self, X: Any, **kwargs: Any) -> Any:
        """The most probable label of each row, a pandas Series with the index of X or a polars Series.

        Rows that get an empty answer have none. X and errors are those of `predict_proba_many`.
        """
        answers = self._answers_of(check_frame(X), **kwargs)
        return labels_like(X, [max(one, key=one.__getitem__) if one else None for one in answers])

    def learn_many(self, X: Any, y: Any, **kwargs: Any) -> None:
        """Settle the forecasts made for these rows, then let the model learn them.

        Rows are settled one after the other, each as a late label is. Then the wrapped model learns by its
        own `learn_many`; if it has none (or X is of polars), it learns each row as that is settled.

        Parameters
        ----------
        X
            Features, a pandas or polars DataFrame with n rows, at least one.
        y
            n labels: a Series, an array or a list.

        Raises
        ------
        ValueError
            X is no such table, or y holds another number of labels or something that is no label. Nothing has
            been learnt then.
        """
        self._learn_batch(check_frame(X), y, **kwargs)

    def _learn_batch(self, X: Any, y: Any, **kwargs: Any) -> None:
        rows = rows_of(X)
        labels = [plain(label) for label in y] if hasattr(y, "__len__") and not isinstance(y, str) else [y]
        if len(labels) != len(rows):
            raise ValueError(f"X and y must have the same length, got {len(rows)} and {len(labels)}")
        for row, label in enumerate(labels):
            self._check_label(label, f"y at row {row}")
        with self._asked_at_once(X, rows) as model:
            for x, label in zip(rows, labels, strict=True):
                self.learn_one(x, label, **kwargs)
        if model is not None:
            model.learn_many(X, labels_like(X, labels), **kwargs)

    def _answers_of(self, X: Any, **kwargs: Any) -> list[dict[Label, float]]:
        """What `predict_proba_one` says to each row."""
        rows = rows_of(X)
        with self._asked_at_once(X, rows):
            return [self.predict_proba_one(x, **kwargs) for x in rows]

    @contextmanager
    def _asked_at_once(self, X: Any, rows: list[Row]) -> Iterator[Any]:
        """Ask the wrapped model about the batch, not the rows, if it knows batches: it, or None if not."""
        model = self.classifier
        if type(X).__module__.startswith("polars") or not learns_many(model, X):
            yield None
            return
        self.classifier = Asked(model, X, rows)
        try:
            yield model
        finally:
            self.classifier = model

    def _check_label(self, label: Any, name: str) -> None:
        """Refuse what `learn_one` would refuse."""
        check_label(label, name)

    def _unit_test_skips(self) -> set[str]:
        # many models learn a batch otherwise than its rows, and some name labels in another order: of ties
        # the first wins
        return {"check_learn_many_matches_learn_one", "check_predict_many_matches_predict_one"}


class Asked:
    """Stands for a model while a wrapper goes through a batch: all its rows are asked about at once."""

    def __init__(self, model: Any, X: Any, rows: list[Row]) -> None:
        self._model, self._X, self._rows = model, X, rows
        self._answers: dict[int, dict[Label, float]] = {}

    def predict_proba_one(self, x: Row, **kwargs: Any) -> dict[Label, float]:
        """What the model says to a row of the batch."""
        if not self._answers:
            said = self._model.predict_proba_many(self._X, **kwargs)
            said = said if isinstance(said, list) else rows_of(said)
            self._answers = {id(row): answer for row, answer in zip(self._rows, said, strict=True)}
        return self._answers[id(x)]

    def learn_one(self, x: Row, y: Label, **kwargs: Any) -> None:
        """Nothing: the model learns the batch afterwards."""


def learns_many(model: Any, X: Any = None) -> bool:
    """Whether a model can be asked about batches like this, and learns them: arrays few can."""
    if isinstance(X, np.ndarray):
        return getattr(model, "takes_arrays", False)
    if isinstance(model, Pipeline):
        *steps, last = model.steps.values()
        return all(map(_transforms_many, steps)) and learns_many(last)
    answers = getattr(type(model), "predict_proba_many", base.MiniBatchClassifier.predict_proba_many)
    return answers is not base.MiniBatchClassifier.predict_proba_many and hasattr(model, "learn_many")


def _transforms_many(step: Any) -> bool:
    if isinstance(step, TransformerUnion):
        return all(map(_transforms_many, step.transformers.values()))
    if isinstance(step, Pipeline):
        return all(map(_transforms_many, step.steps.values()))
    return hasattr(step, "transform_many")


def check_frame(X: Any) -> Any:
    """X itself, if it is a pandas or polars DataFrame with rows."""
    if type(X).__module__.partition(".")[0] not in ("pandas", "polars") or not hasattr(X, "columns"):
        raise ValueError(f"X must be a pandas or polars DataFrame, got {type(X).__name__}")
    if not len(X):
        raise ValueError("X is empty")
    return X


def rows_of(X: Any) -> list[Row]:
    """The rows of a DataFrame, or of an array of shape (n, d), as dictionaries of features."""
    if isinstance(X, np.ndarray):
        return [dict(enumerate(row)) for row in X.tolist()]
    rows: list[Row] = X.to_dict("records") if _of_pandas(X) else X.to_dicts()
    # one NaN for all: rows with NaNs of their own would never equal their copies
    missing = [name for name in X.columns if any(map(_is_nan, X[name]))]
    for row in rows if missing else ():
        row.update((name, math.nan) for name in missing if _is_nan(row[name]))
    return rows


def frame_like(X: Any, columns: dict[Label, list[float]]) -> Any:
    """A table of the same kind as X, with its index if it has one; columns of polars are called by texts."""
    if _of_pandas(X):
        import pandas as pd

        return pd.DataFrame(columns, index=X.index, columns=list(columns), dtype=float)
    import polars as pl

    return pl.DataFrame({str(label): values for label, values in columns.items()})


def labels_like(X: Any, labels: list[Label]) -> Any:
    """Labels as a Series of the same kind as X, with its index if it has one; of an array as they are."""
    if isinstance(X, np.ndarray):
        return labels
    if _of_pandas(X):
        import pandas as pd

        return pd.Series(labels, index=X.index)
    import polars as pl

    return pl.Series(labels)


def _of_pandas(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] == "pandas"


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
