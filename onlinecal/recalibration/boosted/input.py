"""What boosting is given: settings, features, forecasts to start from, and regressors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor
from threadpoolctl import threadpool_limits

from onlinecal.arrays import Floats
from onlinecal.recalibration.groups.start import STARTS
from onlinecal.recalibration.labels import column_names
from onlinecal.validation import (
    check_choice,
    check_count,
    check_number,
    check_positive,
    check_probabilities,
    check_share,
)

if TYPE_CHECKING:
    from onlinecal.recalibration.boosted.recalibrator import BoostedRecalibrator

Step = Literal["log-odds", "level sets"]
STEPS: tuple[Step, ...] = get_args(Step)

ALPHA, BOUND, MIN_ROWS = 0.01, 1.0, 20


class Settings(NamedTuple):
    """m, what a round must gain, the bound on h^2, the least rows of a level set; folds or None."""

    n_levels: int
    least: float
    bound: float
    min_rows: int
    n_folds: int | None


def settings_of(model: BoostedRecalibrator) -> Settings:
    """Check all parameters, and fill in those that are None."""
    check_count(model.seed, "seed", least=0)
    check_choice(model.step, STEPS, "step")
    check_choice(model.start, STARTS, "start")
    folds = None if model.n_folds is None else check_count(model.n_folds, "n_folds", least=2)
    if model.step == "log-odds":
        for name in ("alpha", "bound", "min_rows", "n_levels", "validation_fraction"):
            if getattr(model, name):
                raise ValueError(
                    f"{name} goes with step='level sets', as of BoostedRecalibrator.as_in_paper, "
                    f"got {getattr(model, name)!r} with step='log-odds'"
                )
        return Settings(0, 0.0, 1.0, 0, folds)
    alpha = ALPHA if model.alpha is None else check_share(model.alpha, "alpha")
    bound = BOUND if model.bound is None else check_positive(model.bound, "bound")
    least = MIN_ROWS if model.min_rows is None else check_count(model.min_rows, "min_rows")
    check_number(model.validation_fraction, "validation_fraction", 0.0, 1.0, "[)", "a number in [0, 1)")
    if model.n_levels is not None:
        m = check_count(model.n_levels, "n_levels", most=1 << 20)
    else:
        m = max(math.ceil(2.0 * bound / alpha - 1e-9), 1)
    if m > 1 << 20:
        raise ValueError(f"bound/alpha must be at most {1 << 19}, got {bound!r}/{alpha!r}")
    return Settings(m, alpha / (2.0 * bound), bound, least, folds)


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


MOST_COLUMNS = 500
"""Of more features the default leaves it out: its time grows like their square."""
PENALTY = 10.0
"""Of columns of variance 1: as if so many rows had answers of 0."""


class LinearRound(RegressorMixin, BaseEstimator):
    """Ridge regression on standardised columns, missing values at their means; it does not extrapolate."""

    def fit(self, X: Any, y: Floats, sample_weight: Floats | None = None) -> LinearRound:
        """Learn from features (n, d), answers (n,) and weights (n,)."""
        table = _dense(X)
        known = ~np.isnan(table)
        weights = known * (np.ones(len(table)) if sample_weight is None else sample_weight)[:, None]
        total = np.maximum(weights.sum(axis=0), 1e-12)
        filled = np.where(known, table, 0.0)
        self.means_ = (weights * filled).sum(axis=0) / total
        centred = np.where(known, table - self.means_, 0.0)
        self.low_, self.high_ = centred.min(axis=0), centred.max(axis=0)
        spread = np.sqrt((weights * centred**2).sum(axis=0) / total)
        self.spread_ = np.where(spread > 0.0, spread, 1.0)
        with threadpool_limits(1, "blas"):
            self.ridge_ = Ridge(PENALTY).fit(centred / self.spread_, y, sample_weight=sample_weight)
        return self

    def predict(self, X: Any) -> Floats:
        """Answers, shape (n,); features beyond the fitted range count as its end."""
        table = _dense(X)
        centred = np.clip(np.where(np.isnan(table), 0.0, table - self.means_), self.low_, self.high_)
        with threadpool_limits(1, "blas"):
            return np.asarray(self.ridge_.predict(centred / self.spread_))


def _dense(X: Any) -> Floats:
    # sums over columns have other last bits in another layout
    return np.ascontiguousarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
