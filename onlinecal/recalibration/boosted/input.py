"""What BoostedRecalibrator is handed: features of any kind, and the predictor it starts from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeRegressor

from onlinecal.recalibration.boosted.linear import MOST_COLUMNS, LinearRound
from onlinecal.recalibration.labels import column_names
from onlinecal.validation import check_probabilities


def check_features(X: Any) -> tuple[int, int]:
    """The shape of a table, its rows and its columns; its contents are the regressor's affair."""
    shape = getattr(X, "shape", None)
    if shape is None:
        try:
            shape = np.asarray(X).shape
        except ValueError as error:
            raise ValueError("X must be a table with rows of equal length, got a ragged one") from error
    if len(shape) != 2:
        raise ValueError(f"X must be two-dimensional, (rounds, features), got shape {tuple(shape)}")
    if 0 in shape:
        raise ValueError(f"X is empty, its shape is {tuple(shape)}")
    return int(shape[0]), int(shape[1])


def default_regressors(X: Any) -> list[Any]:
    """A linear regressor, then a shallow tree, for features that are numbers; ValueError for others."""
    _check_numbers(X)
    tree = DecisionTreeRegressor(max_depth=3, min_samples_leaf=20, random_state=0)
    return [LinearRound(), tree] if check_features(X)[1] <= MOST_COLUMNS else [tree]


def _check_numbers(X: Any) -> None:
    if hasattr(X, "tocsr"):
        return
    table, names = np.asarray(X), column_names(X)
    if table.dtype.kind in "biuf":
        return
    for place, column in enumerate(table.T):
        try:
            column.astype(np.float64)
        except (TypeError, ValueError):
            row, value = next(one for one in enumerate(column.tolist()) if not _is_number(one[1]))
            name = place if names is None else names[place]
            raise ValueError(
                f"X must hold numbers, got {value!r} in column {name!r} at row {row}: encode it "
                "(sklearn.preprocessing.OrdinalEncoder), or give a regressor that takes it"
            ) from None


def _is_number(value: Any) -> bool:
    try:
        float(np.nan if value is None else value)
    except (TypeError, ValueError):
        return False
    return True


def initial_forecasts(initial: Any, X: Any, n_rows: int) -> NDArray[np.float64]:
    """The initial predictor's probabilities for the rows of X, shape (n_rows,).

    A number, an array, a classifier of two classes, a regressor (its answers are clipped to [0, 1]), or a
    function.
    """
    if isinstance(initial, float):
        return np.full(n_rows, initial)
    if hasattr(initial, "predict_proba"):
        table = np.asarray(initial.predict_proba(X))
        if table.ndim != 2 or table.shape[1] != 2:
            raise ValueError(f"initial must be a classifier of two classes, it answers shape {table.shape}")
        answer: Any = table[:, 1]
    elif hasattr(initial, "predict"):
        answer = np.asarray(initial.predict(X), dtype=np.float64)
        answer = np.where(np.isfinite(answer), np.clip(answer, 0.0, 1.0), answer)
    else:
        answer = initial(X) if callable(initial) else initial
    forecasts = check_probabilities(answer, "initial")
    if len(forecasts) != n_rows:
        raise ValueError(f"initial must have a forecast for each of the {n_rows} rows, got {len(forecasts)}")
    return forecasts
