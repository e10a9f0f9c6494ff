"""Multicalibration by regression, for all groups that a learner can find.

As in the paper every level set is handed to a regressor until that gains nothing more. By default one
regressor a round is fitted to all rows and told the level: the log odds of the forecast are a further column.
What it answers is added to the log odds, so what the predictor knew stays; how many rounds there are is what
held-out rows say.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix, hstack
from scipy.special import expit
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

from onlinecal.arrays import Bools, Floats, Ints
from onlinecal.measures.groups import grid_level
from onlinecal.recalibration.folds import DIGITS, Dealt, first_rows, same_rows, sums
from onlinecal.recalibration.groups.patches import STARTS, Rows, Start, log_odds, odds_losses
from onlinecal.recalibration.groups.start import (
    Halves,
    StartMap,
    aside,
    away_from_ends,
    best_start,
    dealt_rows,
    default_folds,
    lowers,
    nearest_ends,
)
from onlinecal.recalibration.probability_recalibrator import repeats, row_weights
from onlinecal.remarks import outcome_remarks, warn_of
from onlinecal.tables.columns import check_probabilities, check_same_index, check_same_length
from onlinecal.tables.frames import unmasked
from onlinecal.threads import one_thread
from onlinecal.validation import (
    check_choice,
    check_count,
    check_number,
    check_positive,
    check_share,
)

Step = Literal["log-odds", "level sets"]
STEPS: tuple[Step, ...] = get_args(Step)

ALPHA, BOUND, MIN_ROWS, MOST_LEVELS = 0.01, 1.0, 20, 1 << 20
DEEP_ROWS = 1_000
"""From so many rows on trees have depth 5, which left less error on 2,650 rows, and more on 300."""
MOST_COLUMNS = 500
"""Of more features ridge regression is left out by default: its time grows like their square."""
PENALTY = 10.0
"""Of columns of variance 1: as if so many rows had answers of 0."""
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


class BoostedRecalibrator(RegressorMixin, BaseEstimator):
    """Mend a fixed model's probabilities wherever a regressor finds from features that they are wrong.

    A smooth map of the forecasts comes first. In each round the regressor is fitted to what is left of the
    outcomes, with the log odds of the forecast as a further column, and a share of its answers is added to
    the log odds: what the predictor knew stays. Which map, and how many rounds, is decided by rows that are
    held out, fold by fold; what does not lower their log loss by more than chance would is not done. Of more
    than 500,000 rows so many, drawn at random, are fitted.

    `BoostedRecalibrator.as_in_paper(regressor, alpha)` is regression-multicalibrate (`step="level sets"`):
    forecasts are rounded to the grid 0, 1/m, ..., 1 with m = ceil(2 bound/alpha), the regressor is fitted on
    every level set by itself, and its answers, rounded, are the next forecasts. When a round lowers the mean
    squared error by less than alpha/(2 bound), the forecasts before it are the result. If the regressor
    minimises the squared error over a class H that is closed under affine maps (as least squares with an
    intercept does), that is multicalibrated for H on the rows of `fit`: K2(f, h) is at most
    `violation_bound_` for every h in H with h^2 <= bound; that is alpha unless level sets were skipped. Any
    other regressor is a heuristic: it halts, and no round that is kept raises the squared error. Of the
    default nothing is proved.

    Parameters
    ----------
    regressor
        Anything with fit(X, y) and predict(X); cloned for every round or level set. None: ridge regression of
        up to 500 features, for as many rounds as pay, and then a regression tree of depth 3, from 1,000 rows
        on 5, with at least 20 rows a leaf; on level sets one of depth 3 alone.
    alpha, bound, min_rows, n_levels, validation_fraction
        Of level sets alone. The violation that may remain, in (0, 1], None: 0.01. The bound on h^2,
        positive. Level sets with fewer rows than min_rows keep their value: a regressor would only learn
        them by heart. m: fewer levels hold more rows each, which fresh data rewards; the promise is then
        weaker. Share of the rows to hold out, in [0, 1): the rounds after the lowest squared error on them
        are not kept; what is left may then violate alpha, and nothing is promised.
    seed
        Chooses the held-out rows, and those of many that are fitted.
    step
        "log-odds" or "level sets".
    start, n_folds
        As of `GroupRecalibrator`; of steps on log odds alone. At least 2 folds; None: 10, from 5,000 rows on
        5 and from 200,000 on 3.

    Attributes
    ----------
    n_kept_, n_rounds_, max_rounds_
        Rounds that make the result, rounds tried, and how many there can be. Of level sets 1 + 2 bound/alpha
        times the squared error of round 0; with a class that contains the constants and no level set skipped,
        also at most 3 + bound/(2 alpha).
    start_, held_out_
        Of steps on log odds: the map, a `StartMap`, and the mean log loss of held-out rows by round, from 0;
        rounds of ridge regression that were not kept are left out of it.
    rounds_
        One `BoostingRound` for each round, the forecasts before them first. Of level sets also the last one,
        which was not kept.
    squared_error_
        Mean squared error of the result on the rows of `fit` that were not held out.
    n_levels_, skipped_mass_
        Of level sets: m, and the rows' share in level sets of the result that are too small.
    violation_bound_
        alpha/2 + bound/m + bound skipped_mass_, at most alpha when m is the default and nothing is skipped;
        `bound`, which holds for any forecasts, when held-out rows took rounds back; 1 of steps on log odds.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((5000, 2))
    >>> y = rng.random(5000) < 0.2 + 0.6 * X[:, 0]
    >>> model = BoostedRecalibrator(LinearRegression()).fit(X, y)
    >>> model.predict([[0.0, 0.5], [1.0, 0.5]]).round(1)
    array([0.2, 0.8])
    >>> plain = BoostedRecalibrator.as_in_paper(LinearRegression(), alpha=0.02).fit(X, y)
    >>> plain.predict([[0.0, 0.5], [1.0, 0.5]]).round(1)
    array([0.2, 0.8])

    References
    ----------
    Globus-Harris, Harrison, Kearns, Roth and Sorrell (2023), "Multicalibration as boosting for regression".
    The proof with its constants is in docs/theory-tables.md.
    """

    start_: StartMap | None
    rounds_: list[BoostingRound]

    def __init__(
        self,
        regressor: Any = None,
        alpha: float | None = None,
        bound: float | None = None,
        min_rows: int | None = None,
        n_levels: int | None = None,
        validation_fraction: float = 0.0,
        seed: int = 0,
        step: Step = "log-odds",
        start: Start = "auto",
        n_folds: int | None = None,
    ) -> None:
        self.regressor = regressor
        self.alpha = alpha
        self.bound = bound
        self.min_rows = min_rows
        self.n_levels = n_levels
        self.validation_fraction = validation_fraction
        self.seed = seed
        self.step = step
        self.start = start
        self.n_folds = n_folds

    @classmethod
    def as_in_paper(
        cls, regressor: Any = None, alpha: float = 0.01, bound: float = 1.0, **parameters: Any
    ) -> BoostedRecalibrator:
        """Regression-multicalibrate, level set by level set; further parameters are those of the class."""
        return cls(regressor, alpha, bound, **{"step": "level sets", "start": "none", **parameters})

    def fit(
        self, X: Any, y: ArrayLike, initial: Any = None, sample_weight: ArrayLike | None = None
    ) -> BoostedRecalibrator:
        """Boost for as long as it pays.

        Parameters
        ----------
        X
            Features, an array or data frame of shape (n, d), as the regressor wants them.
        y
            Outcomes, real numbers in [0, 1] or boolean, shape (n,).
        initial
            The predictor to start from. None: the mean outcome. A fitted classifier of two classes or
            regressor, or a function of X that returns shape (n,): asked again in `predict`. An array of
            shape (n,): `predict` must then be given one for its rows.
        sample_weight
            For how many rows each counts, shape (n,), at least 0; whole numbers with level sets, and with a
            regressor whose `fit` takes no weights, which is then given as many rows. None: each for one.

        Raises
        ------
        ValueError
            A bad parameter, bad X, y, initial or sample_weight: names the argument and the value.

        Warns
        -----
        LabelWarning
            y is always the same.
        """
        self.seed = check_count(self.seed, "seed", least=0)
        check_choice(self.step, STEPS, "step")
        check_choice(self.start, STARTS, "start")
        if self.n_folds is not None:
            self.n_folds = check_count(self.n_folds, "n_folds", least=2)
        check_same_index(X, y, "X and y")
        X = unmasked(X)
        outcomes = check_probabilities(y, "y")
        n, _ = check_features(X)
        if n != len(outcomes):
            raise ValueError(f"X and y must have the same length, got {n} and {len(outcomes)}")
        weights = row_weights(sample_weight, n, X, "X")
        warn_of(outcome_remarks(outcomes, outcome="y"))
        start: Any = float(np.average(outcomes, weights=weights)) if initial is None else initial
        forecasts = initial_forecasts(start, X, n)
        n_rows = float(weights.sum())
        regressors = default_regressors(X, self.step, n_rows) if self.regressor is None else [self.regressor]
        if self.step == "level sets" or not all(
            has_fit_parameter(one, "sample_weight") for one in regressors
        ):
            repeats(
                weights, "level sets" if self.step == "level sets" else "a regressor whose fit takes none"
            )
        X, outcomes, forecasts, weights = merged(X, outcomes, forecasts, weights)
        learn = self._learn_log_odds if self.step == "log-odds" else self._learn_level_sets
        learn(regressors, X, outcomes, forecasts, weights)
        validate_data(self, X, skip_check_array=True)
        self._initial = None if isinstance(start, np.ndarray | list | tuple) else start
        return self

    def _learn_level_sets(self, regressors: list[Any], X: Any, y: Floats, p: Floats, weights: Floats) -> None:
        alpha = ALPHA if self.alpha is None else check_share(self.alpha, "alpha")
        bound = BOUND if self.bound is None else check_positive(self.bound, "bound")
        min_rows = MIN_ROWS if self.min_rows is None else check_count(self.min_rows, "min_rows")
        if self.n_levels is not None:
            m = check_count(self.n_levels, "n_levels", most=MOST_LEVELS)
        elif 2.0 * bound / alpha > MOST_LEVELS:
            raise ValueError(f"bound/alpha must be at most {MOST_LEVELS // 2}, got {bound!r}/{alpha!r}")
        else:
            m = max(math.ceil(2.0 * bound / alpha - 1e-9), 1)
        held, least = np.zeros(len(y), bool), alpha / (2.0 * bound)
        rows = np.arange(len(y))
        if check_number(
            self.validation_fraction, "validation_fraction", 0.0, 1.0, "[)", "a number in [0, 1)"
        ):
            sets = same_rows(X, np.round(p, DIGITS))
            dealt = aside(sets, y, weights, self.validation_fraction, self.seed)
            rows, weights, held = dealt.rows, dealt.weights, dealt.fold == 1
        if (weights != 1.0).any():
            copies = np.repeat(np.arange(len(rows)), repeats(weights, "level sets"))
            rows, held = rows[copies], held[copies]
        if len(rows) != len(y) or (rows[1:] < rows[:-1]).any():
            X, y, p = _safe_indexing(X, rows), y[rows], p[rows]
        rounds, made = boost_level_sets(regressors[-1], X, y, grid_level(p, m), held, m, min_rows, least)
        self.n_levels_, self.rounds_, self.n_rounds_ = m, rounds, len(rounds) - 1
        self.max_rounds_ = 1 + math.floor(rounds[0].squared_error / least + 1e-9)
        held_errors = [found.validation_error for found in rounds[:-1]]
        self.n_kept_ = int(np.argmin(held_errors)) if held.any() else len(made)
        self.squared_error_ = rounds[self.n_kept_].squared_error
        self.skipped_mass_ = rounds[self.n_kept_ + 1].skipped_mass
        self.violation_bound_ = bound
        if self.n_kept_ == len(made):
            self.violation_bound_ *= least + 1.0 / m + self.skipped_mass_
        self._kept: list[Any] = made[: self.n_kept_]
        self.start_ = None

    def _learn_log_odds(self, regressors: list[Any], X: Any, y: Floats, p: Floats, weights: Floats) -> None:
        for name in ("alpha", "bound", "min_rows", "n_levels", "validation_fraction"):
            if value := getattr(self, name):
                raise ValueError(
                    f"{name} goes with step='level sets', as of BoostedRecalibrator.as_in_paper, "
                    f"got {value!r} with step='log-odds'"
                )
        if len(y) > MOST_ROWS:
            some = np.sort(np.random.default_rng(self.seed).choice(len(y), MOST_ROWS, replace=False))
            X, y, p, weights = _safe_indexing(X, some), y[some], p[some], weights[some]
        n_folds = self.n_folds or default_folds(float(weights.sum()))
        self._edge, self._least = nearest_ends(p, float(weights.sum()))
        rows = Rows(self._inside(p), y, np.zeros((len(y), 0), np.uint8), weights)
        kind: Start = "none"
        dealt = dealt_rows(same_rows(X, np.round(p, DIGITS)), y, weights, n_folds, self.seed)
        if dealt is not None and np.ptp(p) > 0.0:
            kind, _ = best_start(halves(rows, dealt), self.start, self._least)
        self.start_ = StartMap(kind).fit(rows.p, rows.y, weights)
        whole = Part(X, y, weights, log_odds(self.start_(rows.p, self._least)))
        self._kept, self.held_out_ = [], None
        if dealt is not None:
            self._kept, self.held_out_ = boost_log_odds(regressors, whole, dealt)
        self.n_kept_, self.max_rounds_, self.violation_bound_ = len(self._kept), MOST * len(regressors), 1.0
        self.n_rounds_ = 0 if self.held_out_ is None else len(self.held_out_) - 1
        self.rounds_ = [
            BoostingRound(float(np.average((stage - y) ** 2, weights=weights)), 1, 0, 0.0, math.nan)
            for stage in self._stages(X, rows.p)
        ]
        self.squared_error_ = self.rounds_[-1].squared_error

    def _inside(self, p: Floats) -> Floats:
        return np.clip(p, self._edge, 1.0 - self._edge)

    def _stages(self, X: Any, p: Floats) -> Iterator[Floats]:
        """Forecasts p inside (0, 1), mapped, and after each round on log odds."""
        assert self.start_ is not None
        started = self.start_(p, self._least)
        yield started
        odds = log_odds(started)
        for model in self._kept:
            odds = odds_after(model, X, odds)
            yield away_from_ends(expit(odds), started, self._least)

    def predict(self, X: Any, initial: Any = None) -> Floats:
        """The result's forecasts for other rows, shape (n,).

        X has shape (n, d); `initial`, shape (n,), are their initial forecasts when `fit` was given
        forecasts. With level sets, answers are on the grid: a row at a level that no row of `fit` had in
        that round, or that was skipped, stays there. Raises ValueError for bad X or initial, NotFittedError
        before `fit`.
        """
        *_, last = self.staged_predict(X, initial)
        return last

    def staged_predict(self, X: Any, initial: Any = None) -> Iterator[Floats]:
        """The forecasts at the start and after each round that is kept: n_kept_ + 1 arrays of shape (n,).

        `X` and `initial` and errors as of `predict`.
        """
        check_is_fitted(self, "rounds_")
        X = unmasked(X)
        n, _ = check_features(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        start = self._initial if initial is None else initial
        if start is None:
            raise ValueError("initial is needed: fit was given forecasts, not a predictor")
        forecasts = initial_forecasts(start, X, n)
        if self.start_ is not None:
            yield from self._stages(X, self._inside(forecasts))
            return
        level = grid_level(forecasts, self.n_levels_)
        yield level / self.n_levels_
        for models in self._kept:
            level = levels_after(models, X, level, self.n_levels_)
            yield level / self.n_levels_

    def score(self, X: Any, y: ArrayLike, sample_weight: Any = None) -> float:
        """Minus the mean squared error of `predict`: the greater the better, at most 0."""
        forecasts, outcomes = self.predict(X), check_probabilities(y, "y")
        check_same_length(forecasts, outcomes, "X and y")
        return -float(np.average((forecasts - outcomes) ** 2, weights=sample_weight))


def check_features(X: Any) -> tuple[int, int]:
    """The shape of a table, its rows and its columns; its contents are the regressor's affair."""
    try:
        shape = tuple(getattr(X, "shape", None) or np.asarray(X).shape)
    except ValueError as error:
        raise ValueError("X must be a table with rows of equal length, got a ragged one") from error
    if len(shape) != 2 or 0 in shape:
        raise ValueError(f"X must be two-dimensional, (rounds, features), and not empty, got shape {shape}")
    return int(shape[0]), int(shape[1])


def merged(X: Any, y: Floats, p: Floats, weights: Floats) -> tuple[Any, Floats, Floats, Floats]:
    """Rows without those of weight 0; equal ones, outcome and all, as one with the sum of their weights."""
    inside = np.flatnonzero(weights)
    same = same_rows(_safe_indexing(X, inside) if len(inside) < len(y) else X, p[inside], y[inside])
    some = inside[first_rows(same)]
    if len(some) == len(y):
        return X, y, p, weights
    return _safe_indexing(X, some), y[some], p[some], sums(same, weights[inside])


def default_regressors(X: Any, step: Step, n_rows: float) -> list[Any]:
    """A linear regressor, then a shallow tree, for features that are numbers; ValueError for others.

    On level sets the tree alone. How deep it is depends on the number of rows, the sum of their weights.
    """
    try:
        if not hasattr(X, "tocsr"):
            np.asarray(X, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"X must hold numbers, {error}: encode it (sklearn.preprocessing.OrdinalEncoder), "
            "or give a regressor that takes it"
        ) from None
    _, n_columns = check_features(X)
    deep = step == "log-odds" and n_rows >= DEEP_ROWS
    tree = DecisionTreeRegressor(max_depth=5 if deep else 3, min_samples_leaf=MIN_ROWS, random_state=0)
    return [LinearRound(), tree] if n_columns <= MOST_COLUMNS and step == "log-odds" else [tree]


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


class LinearRound(RegressorMixin, BaseEstimator):
    """Ridge regression on standardised columns, missing values at their means; it does not extrapolate."""

    def fit(self, X: Any, y: Floats, sample_weight: Floats | None = None) -> LinearRound:
        """Learn from features (n, d), answers (n,) and weights (n,)."""
        table = _dense(X)
        known = ~np.isnan(table)
        weights = known * (np.ones(len(table)) if sample_weight is None else sample_weight)[:, None]
        total = np.maximum(weights.sum(axis=0), 1e-12)
        self.means_ = (weights * np.where(known, table, 0.0)).sum(axis=0) / total
        centred = np.where(known, table - self.means_, 0.0)
        self.low_, self.high_ = centred.min(axis=0), centred.max(axis=0)
        spread = np.sqrt((weights * centred**2).sum(axis=0) / total)
        self.spread_ = np.where(spread > 0.0, spread, 1.0)
        with one_thread():
            self.ridge_ = Ridge(PENALTY).fit(centred / self.spread_, y, sample_weight=sample_weight)
        return self

    def predict(self, X: Any) -> Floats:
        """Answers, shape (n,); features beyond the fitted range count as its end."""
        table = _dense(X)
        centred = np.clip(np.where(np.isnan(table), 0.0, table - self.means_), self.low_, self.high_)
        with one_thread():
            return np.asarray(self.ridge_.predict(centred / self.spread_))


def _dense(X: Any) -> Floats:
    # sums over columns have other last bits in another layout
    return np.ascontiguousarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)


class Part:
    """Some rows on their way through rounds: features, outcomes, weights, and log odds so far."""

    def __init__(self, X: Any, y: Floats, weights: Floats, odds: Floats) -> None:
        self.X, self.y, self.weights, self.odds = X, y, weights, odds

    def take(self, rows: Ints, weights: Floats) -> Part:
        """Some of the rows, with these weights."""
        return Part(_safe_indexing(self.X, rows), self.y[rows], weights, self.odds[rows])

    def fitted(self, regressor: Any) -> Any:
        """A copy of the regressor, fitted to these rows' Newton steps, or to four times their gradient.

        A row of weight w is w rows for a regressor without weights. For another it is up to MIN_ROWS rows
        that share its weight: trees count the rows of a leaf, and these are then as many as weights say.
        """
        f = expit(self.odds)
        table = with_column(self.X, self.odds)
        if not has_fit_parameter(regressor, "sample_weight"):
            copies, rows = self._copies(np.inf)
            return clone(regressor).fit(
                _safe_indexing(table, rows) if copies.max() > 1 else table, (4.0 * (self.y - f))[rows]
            )
        copies, rows = self._copies(MIN_ROWS)
        variance = np.maximum(f * (1.0 - f), LEAST_VARIANCE)
        weights = self.weights * variance / copies
        if copies.max() > 1:
            table = _safe_indexing(table, rows)
        return clone(regressor).fit(table, ((self.y - f) / variance)[rows], sample_weight=weights[rows])

    def _copies(self, most: float) -> tuple[Ints, Ints]:
        """How often each row is given to a regressor, and which rows these are."""
        copies = np.clip(np.rint(self.weights), 1.0, most).astype(np.int64)
        return copies, np.repeat(np.arange(len(copies)), copies)


def odds_after(model: Any, X: Any, odds: Floats) -> Floats:
    """Log odds after a round, shape (n,)."""
    answers = answers_of(model, with_column(X, odds))
    return np.asarray(odds + RATE * np.clip(answers, -LONGEST, LONGEST))


def answers_of(model: Any, X: Any) -> Floats:
    """What a fitted regressor answers, shape (n,); ValueError unless that is finite."""
    answers = np.asarray(model.predict(X), dtype=np.float64).reshape(-1)
    if not np.isfinite(answers).all():
        raise ValueError(f"regressor must answer finite numbers, got {answers[~np.isfinite(answers)][0]}")
    return answers


def with_column(X: Any, odds: Floats) -> Any:
    """The features and the log odds of the forecast: a frame stays one, all else becomes an array."""
    if hasattr(X, "with_columns"):
        return X.with_columns(pl.Series(COLUMN, odds))
    if hasattr(X, "assign"):
        # scikit-learn takes names that are all texts, or all none
        return X.set_axis([str(name) for name in X.columns], axis=1).assign(**{COLUMN: odds})
    if hasattr(X, "tocsr"):
        return hstack([X, csr_matrix(odds[:, None])], format="csr")
    return np.column_stack([np.asarray(X), odds])


def halves(rows: Rows, dealt: Dealt) -> list[Halves]:
    """Of each fold the rows outside and those inside, which are held out."""
    whole = rows.take(dealt.rows)._replace(weights=dealt.weights)
    folds = (dealt.fold == k for k in range(dealt.n_folds))
    return [Halves(whole.take(~held), whole.take(held), dealt.blocks[held]) for held in folds]


def boost_log_odds(regressors: list[Any], whole: Part, dealt: Dealt) -> tuple[list[Any], Floats]:
    """The fitted regressors of the rounds that held-out rows allow, and their mean log loss by round, from 0.

    One kind of regressor after the other; of each, rounds are played until none of the last five had the
    least held-out log loss. If that is not below the first by more than chance would have it, none is kept.
    """
    folds = [dealt.fold == k for k in range(dealt.n_folds)]
    parts = [
        tuple(whole.take(dealt.rows[some], dealt.weights[some]) for some in (~held, held)) for held in folds
    ]
    counts, blocks = (np.concatenate([one[held] for held in folds]) for one in (dealt.weights, dealt.blocks))

    def held_losses() -> Floats:
        return np.concatenate([odds_losses(held.odds, held.y) for _, held in parts])

    # answers may follow any column, the forecast's too, up or down
    tried = 2 * (check_features(whole.X)[1] + 1)
    models: list[Any] = []
    curve: list[float] = []
    for regressor in regressors:
        begun = at_best = [(inside.odds, held.odds) for inside, held in parts]
        losses, best = [held_losses()], 0
        while len(losses) - 1 < min(best + PATIENCE, MOST):
            for inside, held in parts:
                model = inside.fitted(regressor)
                inside.odds, held.odds = (odds_after(model, one.X, one.odds) for one in (inside, held))
            losses.append(held_losses())
            if (counts * losses[-1]).sum() < (counts * losses[best]).sum():
                best, at_best = len(losses) - 1, [(inside.odds, held.odds) for inside, held in parts]
        curve = [*curve[: len(models)], *(float((counts * one).sum()) for one in losses)]
        if not lowers(losses[0] - losses[best], counts, blocks, "log-odds", tried):
            best, at_best = 0, begun
        for (inside, held), odds in zip(parts, at_best, strict=True):
            inside.odds, held.odds = odds
        for _ in range(best):
            models.append(whole.fitted(regressor))
            whole.odds = odds_after(models[-1], whole.X, whole.odds)
    return models, np.array(curve) / whole.weights.sum()


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


def boost_level_sets(
    regressor: Any, X: Any, y: Floats, level: Ints, held: Bools, m: int, min_rows: int, least: float
) -> tuple[list[BoostingRound], list[Models]]:
    """Rounds until one lowers the mean squared error by less than `least`, and the models of all but that.

    X, outcomes y (n,) and levels (n,) are those of all rows; the rows `held` are only watched.
    """
    inside = np.flatnonzero(~held)
    fitted = _safe_indexing(X, inside) if held.any() else X
    rounds = [BoostingRound(_error(level[~held], m, y[~held]), 0, 0, 0.0, _error(level[held], m, y[held]))]
    made: list[Models] = []
    while True:
        sets = dict(_level_sets(level[inside]))
        models = {
            i: clone(regressor).fit(_safe_indexing(fitted, rows), y[inside[rows]])
            for i, rows in sets.items()
            if len(rows) >= min_rows
        }
        skipped = [len(rows) for i, rows in sets.items() if i not in models]
        level = levels_after(models, X, level, m)
        errors = _error(level[~held], m, y[~held]), _error(level[held], m, y[held])
        mass = sum(skipped) / len(inside)
        rounds.append(BoostingRound(errors[0], len(sets), len(skipped), mass, errors[1]))
        if rounds[-2].squared_error - errors[0] < least:
            return rounds, made
        made.append(models)


def levels_after(models: Models, X: Any, level: Ints, m: int) -> Ints:
    """The levels after a round: rows at a level without a model stay there."""
    after = level.copy()
    for i, rows in _level_sets(level):
        if i in models:
            answers = answers_of(models[i], _safe_indexing(X, rows))
            after[rows] = grid_level(np.clip(answers, 0.0, 1.0), m)
    return after


def _level_sets(level: Ints) -> Iterator[tuple[int, Ints]]:
    """Each level in use and its rows."""
    order = np.argsort(level, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(level[order])) + 1):
        yield int(level[rows[0]]), rows


def _error(level: Ints, m: int, y: Floats) -> float:
    """Mean squared error; NaN without rows."""
    return float(np.mean((level / m - y) ** 2)) if len(y) else math.nan
