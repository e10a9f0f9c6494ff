"""Multicalibration by regression: every level set is handed to a regressor until that gains nothing more."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted, validate_data

from onlinecal.arrays import Floats
from onlinecal.measures.counts import check_weights
from onlinecal.measures.groups import grid_level
from onlinecal.recalibration.boosted.rounds import (
    MOST,
    MOST_ROWS,
    BoostingRound,
    Settings,
    Step,
    boost,
    boost_log_odds,
    check_features,
    default_regressors,
    initial_forecasts,
    play,
    play_round,
    settings_of,
)
from onlinecal.recalibration.groups.patches import Rows, Start, log_odds
from onlinecal.recalibration.groups.start import (
    StartMap,
    away_from_ends,
    best_start,
    default_folds,
    fold_parts,
    held_out_rows,
    nearest_ends,
)
from onlinecal.recalibration.probability_recalibrator import repeats
from onlinecal.remarks import outcome_remarks, warn_of
from onlinecal.validation import check_probabilities, check_same_index, check_same_length


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
            For how many rows each counts, shape (n,), at least 0; whole numbers with level sets. With steps
            on log odds the regressor's `fit` must take it too. None: each for one.

        Raises
        ------
        ValueError
            A bad parameter, bad X, y, initial or sample_weight: names the argument and the value.

        Warns
        -----
        LabelWarning
            y is always the same.
        """
        settings = settings_of(self)
        check_same_index(X, y, "X and y")
        outcomes = check_probabilities(y, "y")
        n, _ = check_features(X)
        if n != len(outcomes):
            raise ValueError(f"X and y must have the same length, got {n} and {len(outcomes)}")
        weights = check_weights(sample_weight, n)
        warn_of(outcome_remarks(outcomes, outcome="y"))
        start: Any = float(np.average(outcomes, weights=weights)) if initial is None else initial
        forecasts = initial_forecasts(start, X, n)
        regressors = default_regressors(X, self.step) if self.regressor is None else [self.regressor]
        learn = self._learn_log_odds if self.step == "log-odds" else self._learn_level_sets
        learn(regressors, X, outcomes, forecasts, weights, settings)
        validate_data(self, X, skip_check_array=True)
        self._initial = None if isinstance(start, np.ndarray | list | tuple) else start
        return self

    def _learn_level_sets(
        self, regressors: list[Any], X: Any, y: Floats, p: Floats, weights: Floats, settings: Settings
    ) -> None:
        if (weights != 1.0).any():
            rows = np.repeat(np.arange(len(y)), repeats(weights, "level sets"))
            X, y, p = _safe_indexing(X, rows), y[rows], p[rows]
        m, least, bound = settings.n_levels, settings.least, settings.bound
        held = held_out_rows(len(y), self.validation_fraction, self.seed)
        rounds, made = boost(regressors[-1], X, y, grid_level(p, m), held, m, settings.min_rows, least)
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

    def _learn_log_odds(
        self, regressors: list[Any], X: Any, y: Floats, p: Floats, weights: Floats, settings: Settings
    ) -> None:
        some = np.flatnonzero(weights)
        if len(some) > MOST_ROWS:
            some = some[np.sort(np.random.default_rng(self.seed).choice(len(some), MOST_ROWS, replace=False))]
        if len(some) < len(y):
            X, y, p, weights = _safe_indexing(X, some), y[some], p[some], weights[some]
        n_folds = min(settings.n_folds or default_folds(len(y)), len(y))
        self._edge, self._least = nearest_ends(p, float(weights.sum()))
        rows = Rows(self._inside(p), y, np.zeros((len(y), 0), np.uint8), weights)
        kind: Start = "none"
        if n_folds > 1 and np.ptp(p) > 0.0:
            kind, _ = best_start(fold_parts(rows, n_folds, self.seed), self.start, self._least)
        self.start_ = StartMap(kind).fit(rows.p, rows.y, weights)
        odds = log_odds(self.start_(rows.p, self._least))
        self._kept, self.held_out_ = [], None
        if n_folds > 1:
            self._kept, self.held_out_ = boost_log_odds(regressors, X, y, weights, odds, n_folds, self.seed)
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
            odds = play_round(model, X, odds)
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
            level = play(models, X, level, self.n_levels_)
            yield level / self.n_levels_

    def score(self, X: Any, y: ArrayLike, sample_weight: Any = None) -> float:
        """Minus the mean squared error of `predict`: the greater the better, at most 0."""
        forecasts, outcomes = self.predict(X), check_probabilities(y, "y")
        check_same_length(forecasts, outcomes, "X and y")
        return -float(np.average((forecasts - outcomes) ** 2, weights=sample_weight))
