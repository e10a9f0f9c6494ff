"""Rounds of boosting for multicalibration: what they are given, and level sets and trees that they fit.

Rounds of boosting on log odds: one regressor a round for all rows, which sees the forecast as a feature.

Where the paper fits a regressor to every level set, one regressor is told the level: the log odds of the
forecast are a further column. What it answers is added to the log odds, so what the predictor knew stays;
how many rounds there are is what held-out rows say.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import has_fit_parameter
from threadpoolctl import threadpool_limits

from onlinecal.arrays import Floats, Ints
from onlinecal.measures.groups import grid_level
from onlinecal.recalibration.groups.patches import LOG_ODDS, STARTS
from onlinecal.recalibration.groups.start import lowers, numbered_folds
from onlinecal.recalibration.probability_recalibrator import column_names
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


def default_regressors(X: Any, step: Step) -> list[Any]:
    """A linear regressor, then a shallow tree, for features that are numbers; ValueError for others.

    On level sets the tree alone.
    """
    _check_numbers(X)
    n_rows, n_columns = check_features(X)
    deep = step == "log-odds" and n_rows >= DEEP_ROWS
    tree = DecisionTreeRegressor(max_depth=5 if deep else 3, min_samples_leaf=20, random_state=0)
    return [LinearRound(), tree] if n_columns <= MOST_COLUMNS and step == "log-odds" else [tree]


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


DEEP_ROWS = 1_000
"""From so many rows on trees have depth 5: depth 3 left 12 % more squared error on Bananas' 2,650 rows, depth
5 left 6 % more on 300 rows of two moons."""
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


COLUMN = "log odds of the forecast"
RATE = 0.3
"""Of each answer, so much is added."""
LEAST_VARIANCE = 0.02
"""f (1 - f) is taken for no less, so that a leaf of sure forecasts does not make a step of any length."""
LONGEST = 4.0
"""An answer is cut to this length."""
PATIENCE, MOST = 5, 60
"""Rounds without a new least held-out loss that end the search, and rounds at most."""

MOST_ROWS = 500_000
"""So many rows, drawn at random, are fitted of more: a tree of eight leaves needs no more to find them."""


class Part:
    """Some rows on their way through rounds: features, outcomes, weights, and log odds so far."""

    def __init__(self, X: Any, y: Floats, weights: Floats, odds: Floats) -> None:
        self.X, self.y, self.weights, self.odds = X, y, weights, odds

    def take(self, some: Any) -> Part:
        """Some of the rows."""
        rows = np.flatnonzero(some)
        return Part(_safe_indexing(self.X, rows), self.y[rows], self.weights[rows], self.odds[rows])

    def fitted(self, regressor: Any) -> Any:
        """A copy of the regressor, fitted to these rows' Newton steps, or to four times their gradient."""
        f = expit(self.odds)
        table = with_column(self.X, self.odds)
        if not has_fit_parameter(regressor, "sample_weight"):
            return clone(regressor).fit(table, 4.0 * (self.y - f))
        variance = np.maximum(f * (1.0 - f), LEAST_VARIANCE)
        return clone(regressor).fit(table, (self.y - f) / variance, sample_weight=self.weights * variance)

    def move(self, model: Any) -> None:
        """Play a round."""
        self.odds = play_round(model, self.X, self.odds)

    def losses(self) -> Floats:
        """The log loss of each row, times its weight."""
        return np.asarray(self.weights * LOG_ODDS.loss(self.odds, self.y))


def play_round(model: Any, X: Any, odds: Floats) -> Floats:
    """Log odds after a round, shape (n,)."""
    answers = np.asarray(model.predict(with_column(X, odds)), dtype=np.float64).reshape(-1)
    if not np.isfinite(answers).all():
        raise ValueError(f"regressor must answer finite numbers, got {answers[~np.isfinite(answers)][0]}")
    return np.asarray(odds + RATE * np.clip(answers, -LONGEST, LONGEST))


def with_column(X: Any, odds: Floats) -> Any:
    """The features and the log odds of the forecast: a frame stays one, all else becomes an array."""
    if hasattr(X, "with_columns"):
        import polars as pl

        return X.with_columns(pl.Series(COLUMN, odds))
    if hasattr(X, "assign"):
        return X.assign(**{COLUMN: odds})
    if hasattr(X, "tocsr"):
        from scipy.sparse import csr_matrix, hstack

        return hstack([X, csr_matrix(odds[:, None])], format="csr")
    return np.column_stack([np.asarray(X), odds])


def boost_log_odds(
    regressors: list[Any], X: Any, y: Floats, weights: Floats, odds: Floats, n_folds: int, seed: int
) -> tuple[list[Any], Floats]:
    """The fitted regressors of the rounds that held-out rows allow, and their mean log loss by round, from 0.

    One kind of regressor after the other; of each, rounds are played until none of the last five had the
    least held-out log loss. If that is not below the first by more than chance would have it, none is kept.
    """
    refused = [one for one in regressors if not has_fit_parameter(one, "sample_weight")]
    if refused and (weights != 1.0).any():
        raise ValueError(f"sample_weight must be None with a regressor whose fit takes none, {refused[0]!r}")
    whole = Part(X, y, weights, odds)
    models: list[Any] = []
    fold = numbered_folds(y, n_folds, seed)
    parts = [(whole.take(fold != k), whole.take(fold == k)) for k in range(n_folds)]
    # answers may follow any column, the forecast's too, up or down
    tried = 2 * (check_features(X)[1] + 1)
    curve: list[float] = []
    for regressor in regressors:
        begun = [(inside.odds, held.odds) for inside, held in parts]
        losses, best, at_best = [_held_losses(parts)], 0, begun
        while len(losses) - 1 < min(best + PATIENCE, MOST):
            for inside, held in parts:
                model = inside.fitted(regressor)
                inside.move(model)
                held.move(model)
            losses.append(_held_losses(parts))
            if losses[-1].sum() < losses[best].sum():
                best, at_best = len(losses) - 1, [(inside.odds, held.odds) for inside, held in parts]
        curve = [*curve[: len(models)], *(float(one.sum()) for one in losses)]
        if not lowers(losses[best], losses[0], "log-odds", tried):
            best, at_best = 0, begun
        for (inside, held), (inner, outer) in zip(parts, at_best, strict=True):
            inside.odds, held.odds = inner, outer
        for _ in range(best):
            models.append(whole.fitted(regressor))
            whole.move(models[-1])
    return models, np.array(curve) / whole.weights.sum()


def _held_losses(parts: list[tuple[Part, Part]]) -> Floats:
    return np.concatenate([held.losses() for _, held in parts])


Models = dict[int, Any]
"""The fitted regressor of each level set that was large enough."""


class BoostingRound(NamedTuple):
    """One round of the history.

    Attributes
    ----------
    squared_error
        Mean squared error on the rows of `fit` after the round; round 0 is the rounded initial predictor.
    n_level_sets
        How many level sets the round found.
    n_skipped, skipped_mass
        Level sets that were too small for the regressor and kept their value, and their share of the rows.
    validation_error
        Mean squared error on the held-out rows after the round; NaN when none are held out.

    """

    squared_error: float
    n_level_sets: int
    n_skipped: int
    skipped_mass: float
    validation_error: float


def boost(
    regressor: Any,
    X: Any,
    y: Floats,
    level: Ints,
    held: NDArray[np.bool_],
    m: int,
    min_rows: int,
    least: float,
) -> tuple[list[BoostingRound], list[Models]]:
    """Play rounds until one lowers the mean squared error by less than `least`.

    X, outcomes y (n,) and levels (n,) are those of all rows; the rows `held` are only watched. All rounds
    that were tried, and the models of those that gained enough, which is all but the last.
    """
    some = bool(held.any())
    inside, outside = np.flatnonzero(~held), np.flatnonzero(held)
    rows, aside = (_safe_indexing(X, inside), _safe_indexing(X, outside)) if some else (X, None)
    level, watched, y_in, y_held = level[~held], level[held], y[~held], y[held]
    rounds = [BoostingRound(_error(level, m, y_in), 0, 0, 0.0, _error(watched, m, y_held))]
    made: list[Models] = []
    while True:
        models, skipped, mass = _fit(regressor, rows, y_in, level, min_rows)
        after = play(models, rows, level, m)
        if some:
            watched = play(models, aside, watched, m)
        errors = _error(after, m, y_in), _error(watched, m, y_held)
        rounds.append(BoostingRound(errors[0], len(np.unique(level)), skipped, mass, errors[1]))
        if rounds[-2].squared_error - errors[0] < least:
            return rounds, made
        made.append(models)
        level = after


def play(models: Models, X: Any, level: Ints, m: int) -> Ints:
    """The levels after a round: rows at a level without a model stay there."""
    after = level.copy()
    for i, rows in _level_sets(level):
        if i in models:
            after[rows] = _answer(models[i], _safe_indexing(X, rows), m)
    return after


def _fit(regressor: Any, X: Any, y: Floats, level: Ints, min_rows: int) -> tuple[Models, int, float]:
    """Fit every level set that is large enough: the models; how many are not, and their share of the rows."""
    sets = list(_level_sets(level))
    models = {
        i: clone(regressor).fit(_safe_indexing(X, rows), y[rows]) for i, rows in sets if len(rows) >= min_rows
    }
    skipped = [len(rows) for i, rows in sets if i not in models]
    return models, len(skipped), sum(skipped) / len(y)


def _level_sets(level: Ints) -> Iterator[tuple[int, Ints]]:
    """Each level in use and its rows."""
    order = np.argsort(level, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(level[order])) + 1):
        yield int(level[rows[0]]), rows


def _answer(model: Any, X: Any, m: int) -> Ints:
    """A model's answers, clipped and rounded to levels."""
    answers = np.asarray(model.predict(X), dtype=np.float64).reshape(-1)
    if not np.isfinite(answers).all():
        raise ValueError(f"regressor must answer finite numbers, got {answers[~np.isfinite(answers)][0]}")
    return grid_level(np.clip(answers, 0.0, 1.0), m)


def _error(level: Ints, m: int, y: Floats) -> float:
    """Mean squared error; NaN without rows."""
    return float(np.mean((level / m - y) ** 2)) if len(y) else math.nan
