"""Multicalibration by regression, for all groups that a learner can find.

In the paper's algorithm a regressor is fitted to every level set, round by round, until that gains nothing
more. By default one regressor a round is fitted to all rows, with the log odds of the forecast as a further
column. Its answers are added to the log odds, so that what the predictor knew stays, and held-out rows decide
how many rounds there are.

`fit` alone writes. `_kept` is what `predict` plays on new rows: for each kept round a fitted regressor or,
with level sets, one for each level. They are not changed after the fit, and their order, that in which they
were fitted, may not change. `rounds_` is a record of errors, a `BoostingRound` each, and no forecast depends
on it. While a fit goes on, `BoostedRows.odds` holds the log odds after the rounds so far; `boost_log_odds`
alone writes it, and takes rounds back by putting the odds of the best round there.

ANSWER_SHARE, LONGEST_ANSWER, `away_from_ends` and `grid_level` are used by `predict_proba`, too: a
change of one changes the forecasts of models that were fitted and pickled before. The other numbers decide
what is fitted. `fit` checks what it is given before it learns, but features it leaves to the regressor.
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
from onlinecal.measures.counts import check_weights
from onlinecal.measures.groups import grid_level
from onlinecal.recalibration.folds import DIGITS, Dealt, first_rows, same_rows, sums
from onlinecal.recalibration.groups.patches import EVENT_STARTS, EventRows, EventStart, log_odds, odds_losses
from onlinecal.recalibration.groups.start import (
    FoldParts,
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
from onlinecal.tables.frames import ragged, unmasked
from onlinecal.texts import shown
from onlinecal.threads import one_thread
from onlinecal.validation import (
    check_choice,
    check_count,
    check_number,
    check_positive,
    check_share,
)

BoostingStep = Literal["log-odds", "level sets"]
BOOSTING_STEPS: tuple[BoostingStep, ...] = get_args(BoostingStep)

DEFAULT_ALPHA, DEFAULT_BOUND = 0.01, 1.0
MIN_ROWS = 20
"""The fewest rows, by default, of a level set that is fitted, and of a leaf of the default trees."""
MOST_GRID_LEVELS = 1 << 20
DEEP_ROWS = 1_000
"""With at least this many rows trees have depth 5, which left less error on 2,650 rows, and more on 300."""
MOST_COLUMNS = 500
"""With more features than this ridge regression is left out by default: its time grows like their square."""
RIDGE_PENALTY = 10.0
"""The penalty of ridge regression on columns of variance 1: as if this many more rows had answers of 0."""
LOG_ODDS_COLUMN = "log odds of the forecast"
ANSWER_SHARE = 0.3
"""This part of each answer is added to the log odds."""
LEAST_VARIANCE = 0.02
"""f (1 - f) counts as at least this, so that a leaf of sure forecasts cannot make a step of any length."""
LONGEST_ANSWER = 4.0
"""Answers are clipped to lengths of at most this."""
ROUNDS_WITHOUT_LOWER_LOSS, MOST_BOOSTING_ROUNDS = 5, 60
"""A search ends after this many rounds without a lower held-out loss, or this many rounds in all."""
MOST_FITTED_ROWS = 500_000
"""At most this many rows, drawn at random, are fitted: a tree of eight leaves needs no more."""


class BoostedRecalibrator(BaseEstimator):
    """Mend a fixed model's probabilities wherever a regressor finds from features that they are wrong.

    The probabilities are those of `initial`, an argument of `fit`. By default a smooth map of them comes
    first. In each round the regressor is then fitted to outcome minus forecast, in units of log odds, with
    the log odds of the forecast as a further feature. 0.3 times its answers are added to the log odds, so
    that what the model knew stays. Rows that are held out, fold by fold, decide which map is taken, and how
    many rounds: only what lowers their log loss by more than chance would. Of more than 500,000 rows these
    steps fit only so many, drawn at random. Nothing is proved of the result.

    `BoostedRecalibrator.as_in_paper(regressor, alpha)` plays the paper's algorithm, regression-multicalibrate
    (`step="level sets"`). Forecasts are rounded to the grid 0, 1/m, ..., 1, and the rows of one grid point
    are a level set. In each round a regressor is fitted to the outcomes of every level set by itself, and its
    answers, rounded, are the next forecasts. When a round lowers the mean squared error by less than alpha/(2
    bound), the forecasts before it are the result.

    What is proved of it: let the regressor minimise the squared error over a class H of functions of the
    features that is closed under affine maps, as least squares with an intercept does. Then for every h in H
    with h^2 <= bound the sum over forecasts v of P(f = v) E[h(x) (y - v) | f = v]^2, with f the result, is at
    most `violation_bound_` on the rows of `fit` (it is called the violation of h, and
    `functional_multicalibration_error` measures it). With any other regressor rounds come to an end, and none
    that is kept raises the squared error, but violations have no bound.

    Parameters are checked by `fit`, and not before.

    Parameters
    ----------
    regressor
        An object with fit(X, y) and predict(X) that scikit-learn can clone, as its regressors; a clone is
        fitted in every round, or to every level set. None: ridge regression, if there are at most 500
        features, for as many rounds as pay, and then a regression tree of depth 3 (of depth 5 from 1,000 rows
        on), with at least 20 rows a leaf. On level sets it is one tree of depth 3.
    alpha, bound, min_rows, n_levels, validation_fraction
        These are for level sets only; with steps on log odds `fit` refuses them (ValueError). alpha: the
        violation that may remain, in (0, 1]; None: 0.01. bound: the bound on h^2, positive; None: 1.
        min_rows: level sets with fewer rows keep their value, since a regressor would only learn them by
        heart; None: 20. n_levels: m; None: 2 bound/alpha, rounded up. Fewer levels hold more rows each, which
        is better for fresh data, but the promise is weaker. validation_fraction: the share of the rows to
        hold out, in [0, 1). Rounds after the lowest squared error on them are taken back; then nothing is
        promised of violations.
    random_state
        A whole number from 0. It chooses the held-out rows, and the rows to fit if there are too many.
    step
        "log-odds": the default above. "level sets": the paper's algorithm.
    start
        The map that comes first, for steps on log odds only; with level sets there is none, and `fit` refuses
        all but "auto" and "none" (ValueError). "temperature": log odds are multiplied by a number; "platt":
        another number is added, too; "beta": ln p and ln(1 - p) have factors of their own; "isotonic":
        isotonic regression; "none": no map; "auto": of none, temperature, platt and beta the one with the
        least held-out log loss. A map is taken only if it lowers the log loss of held-out rows.
    cv
        The number of folds that are held out in turn, at least 2, for steps on log odds only; with level sets
        `fit` refuses it (ValueError). None: 10, from 5,000 rows on 5 and from 200,000 on 3.

    Attributes
    ----------
    n_kept_, n_rounds_, max_rounds_
        How many rounds make the result, how many were tried (those of ridge regression that were taken back
        do not count), and how many can be tried at most. With level sets there can be 1 plus (2 bound/alpha)
        times the mean squared error before the first round.
    start_, held_out_
        With steps on log odds: the map that was taken, a `StartMap`, and the mean log loss of held-out rows
        after 0, 1, ... rounds, an array without the rounds of ridge regression that were taken back; None if
        no rows could be held out. With level sets both are None.
    rounds_
        A list of `BoostingRound`: the first is of the forecasts before any round, the others of the rounds
        that were kept; with level sets of all that were tried.
    squared_error_
        Mean squared error of the result on the rows of `fit` that were not held out.
    n_levels_, skipped_mass_
        With level sets: m, and the share of the rows that are in level sets of the result with fewer than
        min_rows rows. With steps on log odds both are None.
    violation_bound_
        With level sets alpha/2 + bound/m + bound skipped_mass_, which is at most alpha if m is the default
        and nothing is skipped. If held-out rows took rounds back it is `bound`, which holds for any
        forecasts; with steps on log odds it is 1.
    n_features_in_, feature_names_in_
        The number of features, and, if X was a data frame with names that are texts, their names.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((5000, 2))
    >>> y = rng.random(5000) < 0.2 + 0.6 * X[:, 0]
    >>> model = BoostedRecalibrator(LinearRegression()).fit(X, y)
    >>> model.predict_proba([[0.0, 0.5], [1.0, 0.5]]).round(1)
    array([0.2, 0.8])
    >>> plain = BoostedRecalibrator.as_in_paper(LinearRegression(), alpha=0.02).fit(X, y)
    >>> plain.predict_proba([[0.0, 0.5], [1.0, 0.5]]).round(1)
    array([0.2, 0.8])

    References
    ----------
    Globus-Harris, Harrison, Kearns, Roth and Sorrell (2023), "Multicalibration as boosting for regression".
    The proof with its constants is in docs/theory-tables.md.
    """

    start_: StartMap | None
    held_out_: Floats | None
    n_levels_: int | None
    skipped_mass_: float | None
    rounds_: list[BoostingRound]

    def __init__(
        self,
        regressor: Any = None,
        *,
        alpha: float | None = None,
        bound: float | None = None,
        min_rows: int | None = None,
        n_levels: int | None = None,
        validation_fraction: float = 0.0,
        random_state: int = 0,
        step: BoostingStep = "log-odds",
        start: EventStart = "auto",
        cv: int | None = None,
    ) -> None:
        self.regressor = regressor
        self.alpha = alpha
        self.bound = bound
        self.min_rows = min_rows
        self.n_levels = n_levels
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.step = step
        self.start = start
        self.cv = cv

    @classmethod
    def as_in_paper(
        cls, regressor: Any = None, alpha: float = 0.01, bound: float = 1.0, **parameters: Any
    ) -> BoostedRecalibrator:
        """A new, unfitted recalibrator that plays the paper's algorithm, regression-multicalibrate.

        It is the class with `step="level sets"`: in each round a regressor is fitted for every forecast, to
        the rows that have it, and no smooth map comes before. `regressor`, `alpha` and `bound` are parameters
        of the class, and `parameters` are its further parameters by name. `fit` checks them, and has to
        follow; another `step` is refused here (ValueError).
        """
        if (step := parameters.pop("step", "level sets")) != "level sets":
            raise ValueError(
                f"step must be left out, since as_in_paper sets step='level sets', got {step!r}: for other "
                "steps make a BoostedRecalibrator(step=...)"
            )
        return cls(regressor, alpha=alpha, bound=bound, step="level sets", **{"start": "none", **parameters})

    def fit(
        self, X: Any, y: ArrayLike, initial: Any = None, sample_weight: ArrayLike | None = None
    ) -> BoostedRecalibrator:
        """Fit the map and the boosting rounds, and forget an earlier fit. Returns this recalibrator.

        Parameters
        ----------
        X
            Features, an array or data frame of shape (n, d), as the regressor wants them.
        y
            Outcomes, real numbers in [0, 1] or boolean, shape (n,).
        initial
            The model whose probabilities of outcome 1 are mended. A fitted classifier of two classes, a
            fitted regressor (its answers are clipped to [0, 1]), or a function of X that returns
            probabilities, shape (n,): `predict_proba` asks it again about other rows. An array of
            probabilities, shape (n,): then `predict_proba` must be given one for its rows, too, and `score`
            cannot be used. None: the mean outcome for every row.
        sample_weight
            For how many rows each row counts, shape (n,), at least 0. Weights must be whole numbers with
            level sets, and with a regressor whose `fit` takes no weights, which is given rows several times.
            None: each counts once.

        Raises
        ------
        ValueError
            For a bad parameter of the class, and bad X, y, initial or sample_weight; the error names argument
            and value.

        Warns
        -----
        LabelWarning
            If y is always the same.
        SampleSizeWarning
            If there are fewer than two different rows for each fold, or several weights have a sum below 2.
        """
        self.random_state = check_count(self.random_state, "random_state", least=0)
        self._check_step()
        if self.regressor is not None:
            check_regressor(self.regressor)
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
            has_fit_parameter(regressor, "sample_weight") for regressor in regressors
        ):
            repeats(
                weights,
                "step='level sets'"
                if self.step == "level sets"
                else "a regressor whose fit takes no sample_weight",
            )
        X, outcomes, forecasts, weights = merged(X, outcomes, forecasts, weights)
        learn = self._learn_log_odds if self.step == "log-odds" else self._learn_level_sets
        learn(regressors, X, outcomes, forecasts, weights)
        validate_data(self, X, skip_check_array=True)
        is_asked = isinstance(start, float) or callable(start) or hasattr(start, "predict")
        self._initial = start if is_asked else None
        self._has_texts = [first_text(column) is not None for column in columns_in(X)]
        return self

    def _check_step(self) -> None:
        """Refuse parameters of the other step, also those that are 0."""
        check_choice(self.step, BOOSTING_STEPS, "step")
        check_choice(self.start, EVENT_STARTS, "start")
        if self.cv is not None:
            self.cv = check_count(self.cv, "cv", least=2)
        check_number(self.validation_fraction, "validation_fraction", 0.0, 1.0, "[)", "a number in [0, 1)")
        if self.step == "log-odds":
            remedy = "step='level sets', which BoostedRecalibrator.as_in_paper sets"
            given = {name: getattr(self, name) for name in ("alpha", "bound", "min_rows", "n_levels")}
            given["validation_fraction"] = self.validation_fraction or None
        else:
            remedy = "step='log-odds'"
            given = {"start": None if self.start in ("auto", "none") else self.start, "cv": self.cv}
        for name, value in given.items():
            if value is not None:
                raise ValueError(
                    f"{name} needs {remedy}, got {value!r} with step={self.step!r}: leave it out, or set the "
                    "step"
                )

    def _learn_level_sets(self, regressors: list[Any], X: Any, y: Floats, p: Floats, weights: Floats) -> None:
        alpha = DEFAULT_ALPHA if self.alpha is None else check_share(self.alpha, "alpha")
        bound = DEFAULT_BOUND if self.bound is None else check_positive(self.bound, "bound")
        min_rows = MIN_ROWS if self.min_rows is None else check_count(self.min_rows, "min_rows")
        if self.n_levels is not None:
            m = check_count(self.n_levels, "n_levels", most=MOST_GRID_LEVELS)
        elif 2.0 * bound / alpha > MOST_GRID_LEVELS:
            raise ValueError(
                f"bound/alpha must be at most {MOST_GRID_LEVELS // 2}, got {bound!r}/{alpha!r}: give a "
                "larger alpha, or n_levels"
            )
        else:
            m = max(math.ceil(2.0 * bound / alpha - 1e-9), 1)
        held, least = np.zeros(len(y), bool), alpha / (2.0 * bound)
        rows = np.arange(len(y))
        if self.validation_fraction:
            sets = same_rows(X, np.round(p, DIGITS))
            dealt = aside(sets, y, weights, self.validation_fraction, self.random_state)
            rows, weights, held = dealt.rows, dealt.weights, dealt.fold == 1
        if (weights != 1.0).any():
            copies = np.repeat(np.arange(len(rows)), repeats(weights, "level sets"))
            rows, held = rows[copies], held[copies]
        if len(rows) != len(y) or (rows[1:] < rows[:-1]).any():
            X, y, p = _safe_indexing(X, rows), y[rows], p[rows]
        rounds, made = boost_level_sets(regressors[-1], X, y, grid_level(p, m), held, m, min_rows, least)
        self.n_levels_, self.rounds_, self.n_rounds_ = m, rounds, len(rounds) - 1
        self.max_rounds_ = 1 + math.floor(rounds[0].squared_error / least + 1e-9)
        held_errors = [boosting_round.validation_error for boosting_round in rounds[:-1]]
        self.n_kept_ = int(np.argmin(held_errors)) if held.any() else len(made)
        self.squared_error_ = rounds[self.n_kept_].squared_error
        self.skipped_mass_ = rounds[self.n_kept_ + 1].skipped_mass
        self.violation_bound_ = bound
        if self.n_kept_ == len(made):
            self.violation_bound_ *= least + 1.0 / m + self.skipped_mass_
        self._kept: list[Any] = made[: self.n_kept_]
        self.start_ = self.held_out_ = None

    def _learn_log_odds(self, regressors: list[Any], X: Any, y: Floats, p: Floats, weights: Floats) -> None:
        if len(y) > MOST_FITTED_ROWS:
            some = np.sort(
                np.random.default_rng(self.random_state).choice(len(y), MOST_FITTED_ROWS, replace=False)
            )
            X, y, p, weights = _safe_indexing(X, some), y[some], p[some], weights[some]
        n_folds = self.cv or default_folds(float(weights.sum()))
        self._edge, self._least = nearest_ends(p, float(weights.sum()))
        rows = EventRows(self._inside(p), y, np.zeros((len(y), 0), np.uint8), weights)
        kind: EventStart = "none"
        dealt = dealt_rows(same_rows(X, np.round(p, DIGITS)), y, weights, n_folds, self.random_state)
        if dealt is not None and np.ptp(p) > 0.0:
            kind, _ = best_start(halves(rows, dealt), self.start, self._least)
        self.start_ = StartMap(kind).fit(rows.p, rows.y, weights)
        whole = BoostedRows(X, y, weights, log_odds(self.start_(rows.p, self._least)))
        self._kept, self.held_out_ = [], None
        if dealt is not None:
            self._kept, self.held_out_ = boost_log_odds(regressors, whole, dealt)
        self.n_kept_, self.max_rounds_ = len(self._kept), MOST_BOOSTING_ROUNDS * len(regressors)
        self.violation_bound_ = 1.0
        self.n_levels_ = self.skipped_mass_ = None
        self.n_rounds_ = 0 if self.held_out_ is None else len(self.held_out_) - 1
        self.rounds_ = [
            BoostingRound(float(np.average((stage - y) ** 2, weights=weights)), 1, 0, 0.0, math.nan)
            for stage in self._stages(X, rows.p)
        ]
        self.squared_error_ = self.rounds_[-1].squared_error

    def _inside(self, p: Floats) -> Floats:
        return np.clip(p, self._edge, 1.0 - self._edge)

    def _stages(self, X: Any, p: Floats) -> Iterator[Floats]:
        """Forecasts after the start, and after each round on log odds, for forecasts p inside (0, 1)."""
        assert self.start_ is not None
        started = self.start_(p, self._least)
        yield started
        odds = log_odds(started)
        for model in self._kept:
            odds = odds_after(model, X, odds)
            yield away_from_ends(expit(odds), started, self._least)

    def predict_proba(self, X: Any, initial: Any = None) -> Floats:
        """The recalibrated probabilities of outcome 1, for the rows of X, shape (n,).

        X has features in the columns of `fit`, shape (n, d). `initial` are the probabilities to mend of these
        rows, shape (n,), or a model that is asked for them. None: the `initial` of `fit` is asked; if that
        was an array, probabilities must be given here, and if `fit` was given None they must not.

        With level sets, answers are on the grid 0, 1/m, ..., 1. A row keeps its value in a round in which no
        regressor was fitted at this value, since too few rows of `fit` had it. Raises ValueError for bad X,
        as texts in a column that had none in `fit`, or bad initial; NotFittedError before `fit`.
        """
        *_, last = self.staged_predict_proba(X, initial)
        return last

    def staged_predict_proba(self, X: Any, initial: Any = None) -> Iterator[Floats]:
        """An iterator over the forecasts before any round and after each: n_kept_ + 1 arrays of shape (n,).

        The first are those after the smooth map or, with level sets, rounded to the grid. The last are those
        of `predict_proba`, which describes `X`, `initial` and errors. Errors are raised when the first array
        is asked for.
        """
        check_is_fitted(self, "rounds_")
        X = unmasked(X)
        n, _ = check_features(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        refuse_texts(X, self._has_texts)
        check_initial(self, initial)
        forecasts = initial_forecasts(self._initial if initial is None else initial, X, n)
        if self.start_ is not None:
            yield from self._stages(X, self._inside(forecasts))
            return
        m = self.n_levels_
        assert m is not None
        level = grid_level(forecasts, m)
        yield level / m
        for models in self._kept:
            level = levels_after(models, X, level, m)
            yield level / m

    def score(self, X: Any, y: ArrayLike, sample_weight: Any = None) -> float:
        """Minus the mean squared error of the recalibrated probabilities: the greater the better, at most 0.

        X has features, shape (n, d), and y outcomes in [0, 1], shape (n,). `sample_weight` says for how many
        rows each counts, shape (n,), at least 0; None: for one. Raises ValueError for bad X, y or
        sample_weight, and if `fit` was given an array as `initial`, since the model has no forecasts for X
        then; NotFittedError before `fit`.
        """
        check_is_fitted(self, "rounds_")
        if self._initial is None:
            raise ValueError(
                "score has no forecasts for X, since fit was given an array as initial: compute "
                "-numpy.mean((model.predict_proba(X, initial) - y) ** 2), or give fit a model as initial"
            )
        forecasts, outcomes = self.predict_proba(X), check_probabilities(y, "y")
        check_same_length(forecasts, outcomes, "X and y")
        weights = check_weights(sample_weight, len(outcomes), X, "X")
        return -float(np.average((forecasts - outcomes) ** 2, weights=weights))


def check_regressor(regressor: Any) -> None:
    """ValueError for what scikit-learn cannot clone, as a class, or what has no fit and predict."""
    try:
        can = all(hasattr(clone(regressor), name) for name in ("fit", "predict"))
    except TypeError:
        can = False
    if not can:
        raise ValueError(
            "regressor must be an object with fit, predict and get_params, as regressors of scikit-learn, "
            f"got {shown(regressor)}"
        )


def check_features(X: Any) -> tuple[int, int]:
    """The numbers of rows and columns of a table; what it contains is left to the regressor."""
    try:
        shape = tuple(getattr(X, "shape", None) or np.asarray(X).shape)
    except ValueError as error:
        raise ValueError(f"X must be a table with rows of equal length, got {ragged(X)}") from error
    if len(shape) != 2 or 0 in shape:
        hint = ": for one feature give numpy.reshape(X, (-1, 1))" if len(shape) == 1 else ""
        raise ValueError(
            f"X must be two-dimensional, (rows, features), and not empty, got shape {shape}{hint}"
        )
    return int(shape[0]), int(shape[1])


def columns_in(X: Any) -> Iterator[Any]:
    """The columns of a table, in their order, each with a type; of a sparse one, which has no texts, none."""
    if hasattr(X, "tocsr"):
        return iter(())
    if hasattr(X, "iloc"):
        return (X.iloc[:, place] for place in range(X.shape[1]))
    if hasattr(X, "get_columns"):
        return iter(X.get_columns())
    return iter((X if hasattr(X, "dtype") else np.asarray(X, object)).T)


def first_text(column: Any) -> tuple[int, Any] | None:
    """The first row of a column with a text, and the text; None if there is none."""
    kind = column.dtype
    if kind.is_numeric() if isinstance(kind, pl.DataType) else kind.kind in "biufcmM":
        return None
    values = enumerate(column)
    return next(((row, value) for row, value in values if isinstance(value, (str, bytes))), None)


def refuse_texts(X: Any, has_texts: list[bool]) -> None:
    """ValueError for texts in a column that had none; most regressors would read some of them as numbers."""
    for place, (column, may_have) in enumerate(zip(columns_in(X), has_texts, strict=False)):
        if not may_have and (found := first_text(column)) is not None:
            row, text = found
            name = column.name if hasattr(column, "name") else place
            got = shown(text.tolist() if isinstance(text, np.generic) else text)
            raise ValueError(
                f"X must hold no texts in column {name!r}, as it held none in fit, got {got} at row "
                f"{row}: give numbers"
            )


def check_initial(model: BoostedRecalibrator, initial: Any) -> None:
    """ValueError unless a fitted model is given forecasts to mend where it has none, and none else."""
    if model._initial is None and initial is None:
        raise ValueError(
            "initial must be given, got None: fit was given forecasts, so give those of these rows, too"
        )
    if isinstance(model._initial, float) and initial is not None:
        raise ValueError(
            f"initial must be left out, got {shown(initial)}: fit was given none, and began with the mean "
            "outcome for every row"
        )


def merged(X: Any, y: Floats, p: Floats, weights: Floats) -> tuple[Any, Floats, Floats, Floats]:
    """Rows of positive weight; those equal in all, the outcome too, become one of their total weight."""
    inside = np.flatnonzero(weights)
    same = same_rows(_safe_indexing(X, inside) if len(inside) < len(y) else X, p[inside], y[inside])
    some = inside[first_rows(same)]
    if len(some) == len(y):
        return X, y, p, weights
    return _safe_indexing(X, some), y[some], p[some], sums(same, weights[inside])


def default_regressors(X: Any, step: BoostingStep, n_rows: float) -> list[Any]:
    """A linear regressor and then a shallow tree, for features that are numbers; ValueError for others.

    On level sets it is the tree alone. Its depth depends on the number of rows, the sum of their weights.
    """
    try:
        if not hasattr(X, "tocsr"):
            np.asarray(X, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"X must hold numbers, {error}: encode it (sklearn.preprocessing.OrdinalEncoder), "
            "or give a regressor that takes X as it is"
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
            raise ValueError(
                f"initial must be a classifier of two classes, got probabilities of shape {table.shape}"
            )
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
    """Ridge regression on standardised columns that does not extrapolate; missing values become means."""

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
            self.ridge_ = Ridge(RIDGE_PENALTY).fit(centred / self.spread_, y, sample_weight=sample_weight)
        return self

    def predict(self, X: Any) -> Floats:
        """Answers, shape (n,); features beyond the fitted range count as its end."""
        table = _dense(X)
        centred = np.clip(np.where(np.isnan(table), 0.0, table - self.means_), self.low_, self.high_)
        with one_thread():
            return np.asarray(self.ridge_.predict(centred / self.spread_))


def _dense(X: Any) -> Floats:
    # in another layout sums over columns would have other last bits
    return np.ascontiguousarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)


class BoostedRows:
    """Rows on their way through rounds: features, outcomes, weights, and log odds after the last round."""

    def __init__(self, X: Any, y: Floats, weights: Floats, odds: Floats) -> None:
        self.X, self.y, self.weights, self.odds = X, y, weights, odds

    def take(self, rows: Ints, weights: Floats) -> BoostedRows:
        """Some of the rows, with these weights."""
        return BoostedRows(_safe_indexing(self.X, rows), self.y[rows], weights, self.odds[rows])

    def fitted(self, regressor: Any) -> Any:
        """A clone of the regressor, fitted to these rows' Newton steps, or to four times their gradient.

        A regressor that takes no weights is fitted to the gradient and is given a row of weight w w times.
        One that takes weights is given up to MIN_ROWS rows that share the weight, since trees count the rows
        of a leaf.
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
        """How often each row is given to a regressor, and the numbers of the rows, each as often."""
        copies = np.clip(np.rint(self.weights), 1.0, most).astype(np.int64)
        return copies, np.repeat(np.arange(len(copies)), copies)


def odds_after(model: Any, X: Any, odds: Floats) -> Floats:
    """Log odds after a round, shape (n,)."""
    answers = answers_of(model, with_column(X, odds))
    return np.asarray(odds + ANSWER_SHARE * np.clip(answers, -LONGEST_ANSWER, LONGEST_ANSWER))


def answers_of(model: Any, X: Any) -> Floats:
    """The answers of a fitted regressor, shape (n,); ValueError if one is not finite."""
    answers = np.asarray(model.predict(X), dtype=np.float64).reshape(-1)
    if not np.isfinite(answers).all():
        bad = answers[~np.isfinite(answers)][0]
        raise ValueError(
            f"regressor must answer finite numbers, got {bad} from {type(model).__name__}: has X values that "
            "are missing or infinite?"
        )
    return answers


def with_column(X: Any, odds: Floats) -> Any:
    """The features with the log odds of the forecast as a further column, as a frame or an array."""
    if hasattr(X, "with_columns"):
        return X.with_columns(pl.Series(LOG_ODDS_COLUMN, odds))
    if hasattr(X, "assign"):
        # scikit-learn takes names only if all of them are texts
        return X.set_axis([str(name) for name in X.columns], axis=1).assign(**{LOG_ODDS_COLUMN: odds})
    if hasattr(X, "tocsr"):
        return hstack([X, csr_matrix(odds[:, None])], format="csr")
    return np.column_stack([np.asarray(X), odds])


def halves(rows: EventRows, dealt: Dealt) -> list[FoldParts]:
    """For each fold the rows outside of it, and the rows inside, which are held out."""
    whole = rows.take(dealt.rows)._replace(weights=dealt.weights)
    folds = (dealt.fold == k for k in range(dealt.n_folds))
    return [FoldParts(whole.take(~held), whole.take(held), dealt.blocks[held]) for held in folds]


def boost_log_odds(regressors: list[Any], whole: BoostedRows, dealt: Dealt) -> tuple[list[Any], Floats]:
    """The fitted regressors of the rounds that held-out rows allow, and held-out mean log loss by round.

    The kinds of regressors follow each other. Rounds of a kind are played until none of the last
    ROUNDS_WITHOUT_LOWER_LOSS had the least held-out log loss, and are kept up to that one; none is kept if
    the least loss is not below the first by more than chance explains.
    """
    folds = [dealt.fold == k for k in range(dealt.n_folds)]
    parts = [
        tuple(whole.take(dealt.rows[some], dealt.weights[some]) for some in (~held, held)) for held in folds
    ]
    counts = np.concatenate([dealt.weights[held] for held in folds])
    blocks = np.concatenate([dealt.blocks[held] for held in folds])

    def held_losses() -> Floats:
        return np.concatenate([odds_losses(held.odds, held.y) for _, held in parts])

    # a regressor may follow any column, also the forecast's, upwards or downwards
    tried = 2 * (check_features(whole.X)[1] + 1)
    models: list[Any] = []
    curve: list[float] = []
    for regressor in regressors:
        begun = at_best = [(inside.odds, held.odds) for inside, held in parts]
        losses, best = [held_losses()], 0
        while len(losses) - 1 < min(best + ROUNDS_WITHOUT_LOWER_LOSS, MOST_BOOSTING_ROUNDS):
            for inside, held in parts:
                model = inside.fitted(regressor)
                inside.odds, held.odds = (odds_after(model, part.X, part.odds) for part in (inside, held))
            losses.append(held_losses())
            if (counts * losses[-1]).sum() < (counts * losses[best]).sum():
                best, at_best = len(losses) - 1, [(inside.odds, held.odds) for inside, held in parts]
        curve = [*curve[: len(models)], *(float((counts * row_losses).sum()) for row_losses in losses)]
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
    """What one round of a `BoostedRecalibrator` did; round 0 is the forecasts before any round.

    Attributes
    ----------
    squared_error
        Mean squared error after the round on the rows of `fit`; with level sets on those that are not held
        out. Round 0: of the initial forecasts, which are rounded with level sets, and mapped by the smooth
        map with steps on log odds.
    n_level_sets
        With level sets: how many different forecasts there were before the round, 0 for round 0. With steps
        on log odds: always 1.
    n_skipped, skipped_mass
        With level sets: how many of them had too few rows for the regressor, so that these kept their value,
        and the share of the fitted rows that are in them. With steps on log odds: both 0.
    validation_error
        With level sets: mean squared error on the held-out rows after the round; NaN if none are held out.
        With steps on log odds: always NaN, since the recalibrator has the held-out losses in `held_out_`.
    """

    squared_error: float
    n_level_sets: int
    n_skipped: int
    skipped_mass: float
    validation_error: float


def boost_level_sets(
    regressor: Any, X: Any, y: Floats, level: Ints, held: Bools, m: int, min_rows: int, least: float
) -> tuple[list[BoostingRound], list[Models]]:
    """Rounds until one lowers the mean squared error by less than `least`; the models of all but the last.

    X, outcomes y (n,) and levels (n,) are those of all rows; on the rows `held` errors are only measured.
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
    """The levels after a round; rows at a level without a model stay there."""
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
