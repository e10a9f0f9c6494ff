"""Multicalibration by regression: every level set is handed to a regressor until that gains nothing more."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.validation import check_is_fitted, validate_data

from onlinecal.measures.groups.multicalibration import grid_level
from onlinecal.recalibration.boosted.input import check_features, initial_forecasts
from onlinecal.recalibration.boosted.rounds import BoostingRound, boost, play
from onlinecal.recalibration.groups.held_out import held_out_rows
from onlinecal.remarks import outcome_remarks, warn_of
from onlinecal.validation import (
    check_count,
    check_positive,
    check_probabilities,
    check_same_length,
    check_share,
)

Floats = NDArray[np.float64]


class BoostedRecalibrator(RegressorMixin, BaseEstimator):
    """Regression-multicalibrate: fit a regressor on each level set, round, repeat.

    Forecasts are rounded to the grid 0, 1/m, ..., 1 with m = ceil(2 bound/alpha). In each round the regressor
    is fitted on every level set by itself and its answers, rounded, are the next forecasts. When a round
    lowers the mean squared error by less than alpha/(2 bound), the forecasts before it are the result.

    If the regressor minimises the squared error over a class H that is closed under affine maps (as least
    squares with an intercept does), the result is multicalibrated for H on the rows of `fit`: K2(f, h) is at
    most `violation_bound_` for every h in H with h^2 <= bound; that is alpha unless level sets were skipped.
    Any other regressor is a heuristic: it halts, and no round that is kept raises the squared error.

    Parameters
    ----------
    regressor
        Anything with fit(X, y) and predict(X); cloned for every level set. None: a regression tree of depth 3
        with at least 20 rows a leaf.
    alpha
        The violation that may remain, in (0, 1].
    bound
        The bound on h^2, positive.
    min_rows
        Level sets with fewer rows keep their value: a regressor would only learn them by heart. 1 skips none.
    n_levels
        m. Fewer levels hold more rows each, which fresh data rewards; the promise is then weaker.
    validation_fraction
        Share of the rows to hold out, in [0, 1): the rounds after the lowest squared error on them are not
        kept. What is left may then violate alpha, and nothing is promised.
    seed
        Chooses the held-out rows.

    Attributes
    ----------
    n_levels_
        m.
    rounds_
        One `BoostingRound` for each round tried, the initial forecasts first. The last one was not kept.
    n_kept_
        Rounds that make the result: all tried but the last, unless held-out rows spoke against them.
    n_rounds_, max_rounds_
        Rounds tried, T, and how many there can be: 1 + 2 bound/alpha times the squared error of round 0. With
        a class that contains the constants and no level set skipped, also at most 3 + bound/(2 alpha).
    squared_error_
        Mean squared error of the result on the rows of `fit` that were not held out.
    skipped_mass_
        Their share in level sets of the result that are too small.
    violation_bound_
        alpha/2 + bound/m + bound skipped_mass_, at most alpha when m is the default and nothing is skipped;
        `bound`, which holds for any forecasts, when held-out rows took rounds back.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((5000, 2))
    >>> y = rng.random(5000) < 0.2 + 0.6 * X[:, 0]
    >>> model = BoostedRecalibrator(LinearRegression(), alpha=0.02).fit(X, y)
    >>> model.predict([[0.0, 0.5], [1.0, 0.5]]).round(1)
    array([0.2, 0.8])

    References
    ----------
    Globus-Harris, Harrison, Kearns, Roth and Sorrell (2023), "Multicalibration as boosting for regression".
    The proof with its constants is in docs/recalibrate-groups.md.
    """

    rounds_: list[BoostingRound]

    def __init__(
        self,
        regressor: Any = None,
        alpha: float = 0.01,
        bound: float = 1.0,
        min_rows: int = 20,
        n_levels: int | None = None,
        validation_fraction: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.regressor = regressor
        self.alpha = alpha
        self.bound = bound
        self.min_rows = min_rows
        self.n_levels = n_levels
        self.validation_fraction = validation_fraction
        self.seed = seed

    def fit(self, X: Any, y: ArrayLike, initial: Any = None) -> BoostedRecalibrator:
        """Boost until a round gains less than alpha/(2 bound).

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

        Raises
        ------
        ValueError
            A bad parameter, bad X, y or initial: names the argument and the value.

        Warns
        -----
        LabelWarning
            y is always the same.
        """
        m = self._check_parameters()
        outcomes = check_probabilities(y, "y")
        n = check_features(X)
        if n != len(outcomes):
            raise ValueError(f"X and y must have the same length, got {n} and {len(outcomes)}")
        warn_of(outcome_remarks(outcomes, outcome="y"))
        start: Any = float(outcomes.mean()) if initial is None else initial
        forecasts = initial_forecasts(start, X, n)
        regressor = self.regressor if self.regressor is not None else default_regressor()
        held = held_out_rows(n, self.validation_fraction, self.seed)
        least = self.alpha / (2.0 * self.bound)
        rounds, made = boost(regressor, X, outcomes, grid_level(forecasts, m), held, m, self.min_rows, least)
        validate_data(self, X, skip_check_array=True)
        self.n_levels_, self.rounds_, self.n_rounds_ = m, rounds, len(rounds) - 1
        self.max_rounds_ = 1 + math.floor(rounds[0].squared_error / least + 1e-9)
        held_errors = [found.validation_error for found in rounds[:-1]]
        self.n_kept_ = int(np.argmin(held_errors)) if held.any() else len(made)
        self.squared_error_ = rounds[self.n_kept_].squared_error
        self.skipped_mass_ = rounds[self.n_kept_ + 1].skipped_mass
        self.violation_bound_ = float(self.bound)
        if self.n_kept_ == len(made):
            self.violation_bound_ *= least + 1.0 / m + self.skipped_mass_
        self._kept = made[: self.n_kept_]
        self._initial = None if isinstance(start, np.ndarray | list | tuple) else start
        return self

    def predict(self, X: Any, initial: Any = None) -> Floats:
        """The result's forecasts for other rows, on the grid, shape (n,).

        A row at a level that no row of `fit` had in that round, or that was skipped, stays there.

        Parameters
        ----------
        X
            Features, shape (n, d).
        initial
            The initial forecasts of these rows, shape (n,), when `fit` was given forecasts.

        Raises
        ------
        ValueError
            Bad X or initial. NotFittedError before `fit`.

        """
        *_, last = self.staged_predict(X, initial)
        return last

    def staged_predict(self, X: Any, initial: Any = None) -> Iterator[Floats]:
        """The forecasts at the start and after each round that is kept: n_kept_ + 1 arrays of shape (n,).

        Arguments and errors as of `predict`.
        """
        check_is_fitted(self, "rounds_")
        n = check_features(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        start = self._initial if initial is None else initial
        if start is None:
            raise ValueError("initial is needed: fit was given forecasts, not a predictor")
        level = grid_level(initial_forecasts(start, X, n), self.n_levels_)
        yield level / self.n_levels_
        for models in self._kept:
            level = play(models, X, level, self.n_levels_)
            yield level / self.n_levels_

    def score(self, X: Any, y: ArrayLike, sample_weight: Any = None) -> float:
        """Minus the mean squared error of `predict`: the greater the better, at most 0."""
        forecasts, outcomes = self.predict(X), check_probabilities(y, "y")
        check_same_length(forecasts, outcomes, "X and y")
        return -float(np.average((forecasts - outcomes) ** 2, weights=sample_weight))

    def _check_parameters(self) -> int:
        alpha = check_share(self.alpha, "alpha")
        bound = check_positive(self.bound, "bound")
        check_count(self.min_rows, "min_rows")
        if self.n_levels is not None:
            return check_count(self.n_levels, "n_levels", most=1 << 20)
        m = max(math.ceil(2.0 * bound / alpha - 1e-9), 1)
        if m > 1 << 20:
            raise ValueError(f"bound/alpha must be at most {1 << 19}, got {self.bound!r}/{self.alpha!r}")
        return m


def default_regressor() -> DecisionTreeRegressor:
    """A shallow regression tree."""
    return DecisionTreeRegressor(max_depth=3, min_samples_leaf=20, random_state=0)
