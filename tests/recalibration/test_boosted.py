"""BoostedRecalibrator, as in the paper and by default: rounds, what holds at the end, weights, tables."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder
from sklearn.tree import DecisionTreeRegressor

from onlinecal import BoostedRecalibrator
from onlinecal.measures import functional_multicalibration_error
from onlinecal.recalibration.boosted import ANSWER_SHARE, LONGEST_ANSWER, BoostedRows, LinearRound, odds_after
from tests.properties import examples


def table(seed, n=150):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    truth = 1 / (1 + np.exp(-X @ rng.normal(0, 2, 2) - rng.normal() * X[:, 0] * X[:, 1]))
    y = rng.random(n) < truth if rng.random() < 0.7 else truth
    return X, y.astype(float), rng.random(n)


def worst_functions(model, X, y, initial, bound):
    """Affine h with h^2 <= bound: the worst directions of the violation, and random ones."""
    f = model.predict_proba(X, initial)
    phi = np.column_stack([np.ones(len(X)), X])
    form = np.zeros((3, 3))
    for v in np.unique(f):
        inside = f == v
        c = (phi[inside] * (y - v)[inside, None]).mean(axis=0)
        form += inside.mean() * np.outer(c, c)
    whitened = np.linalg.cholesky(np.linalg.inv(phi.T @ phi))
    _, directions = np.linalg.eigh(whitened.T @ form @ whitened)
    weights = np.column_stack([whitened @ directions, np.random.default_rng(0).normal(size=(3, 40))])
    h = phi @ weights
    return f, h * (bound**0.5 / np.abs(h).max(axis=0))


@settings(deadline=None, max_examples=examples(30))
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.5, 0.2, 0.05, 0.01]),
    st.sampled_from([0.3, 1.0, 4.0]),
    st.booleans(),
)
def test_least_squares_halts_in_time_and_is_multicalibrated(seed, alpha, bound, given_start):
    X, y, start = table(seed)
    initial = start if given_start else None
    model = BoostedRecalibrator.as_in_paper(LinearRegression(), alpha, bound, min_rows=1).fit(X, y, initial)
    assert model.n_rounds_ <= model.max_rounds_ <= 1 + 2 * bound / alpha
    assert model.n_rounds_ <= 3 + bound / (2 * alpha)
    if alpha <= bound / 2:
        assert model.n_rounds_ <= 2 * bound / alpha
    errors = np.array([found.squared_error for found in model.rounds_])
    falls = -np.diff(errors)
    assert (falls[:-1] >= alpha / (2 * bound)).all()
    assert falls[-1] < alpha / (2 * bound)
    f, h = worst_functions(model, X, y, initial, bound)
    *_, last = stages = list(model.staged_predict_proba(X, initial))
    assert (last == f).all()
    assert [np.mean((stage - y) ** 2) for stage in stages] == pytest.approx(errors[:-1])
    assert errors[-2] == pytest.approx(model.squared_error_)
    assert (functional_multicalibration_error(f, y, h) <= alpha + 1e-9).all()
    assert model.skipped_mass_ == 0.0
    assert model.violation_bound_ <= alpha + 1e-12


@settings(deadline=None, max_examples=examples(30))
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.3, 0.1, 0.03]),
    st.sampled_from([1, 2, 5, 20]),
    st.sampled_from([None, 1, 4, 10]),
)
def test_small_level_sets_and_coarse_grids_promise_less_and_keep_it(seed, alpha, min_rows, n_levels):
    X, y, start = table(seed)
    model = BoostedRecalibrator.as_in_paper(LinearRegression(), alpha, min_rows=min_rows, n_levels=n_levels)
    f, h = worst_functions(model.fit(X, y, start), X, y, start, 1.0)
    values, counts = np.unique(f, return_counts=True)
    assert n_levels in (None, model.n_levels_)
    assert model.rounds_[-1].n_level_sets == len(values)
    assert model.rounds_[-1].n_skipped == (counts < min_rows).sum()
    assert model.skipped_mass_ == pytest.approx(counts[counts < min_rows].sum() / len(y))
    assert model.violation_bound_ == pytest.approx(alpha / 2 + 1 / model.n_levels_ + model.skipped_mass_)
    # on one level all are 0 or 1, which is meant
    meant = np.clip(f, 1e-15, 1 - 1e-15)
    assert (functional_multicalibration_error(meant, y, h) <= model.violation_bound_ + 1e-9).all()
    if model.n_rounds_ == 1:
        assert (f == np.floor(start * model.n_levels_ + 0.5) / model.n_levels_).all()


@pytest.mark.parametrize(
    ("twelfths", "learns_weakly"),
    [([1, 2, 5, 8, 11], True), ([2, 2, 6, 6, 9], True), ([9, 4, 1, 4, 9], False)],
)
def test_it_reaches_the_bayes_predictor_under_weak_learning_only(twelfths, learns_weakly):
    """Five points with exact frequencies, of 12 rows each: no line beats a constant in a valley."""
    x, y = np.repeat(np.arange(5.0), 12), np.concatenate([np.arange(12) < t for t in twelfths]).astype(float)
    model = BoostedRecalibrator.as_in_paper(LinearRegression(), alpha=0.0002, min_rows=1)
    lines, squares = x[:, None], np.column_stack([x, (x - 2) ** 2])
    assert (np.ptp(model.fit(lines, y).predict_proba(lines)) > 0.0) == learns_weakly
    for table in (lines, squares) if learns_weakly else (squares,):
        found = model.fit(table, y).predict_proba(table)
        assert found[::12] == pytest.approx(np.array(twelfths) / 12, abs=0.02)


def test_held_out_rows_take_rounds_back():
    X, y, start = table(8, 600)
    model = BoostedRecalibrator.as_in_paper(
        DecisionTreeRegressor(random_state=0), 0.01, min_rows=1, validation_fraction=0.5
    )
    model.fit(X, y, start)
    held = [found.validation_error for found in model.rounds_[:-1]]
    assert model.n_kept_ == int(np.argmin(held)) < len(held) - 1
    assert model.violation_bound_ == 1.0
    aside = np.zeros(600, bool)
    aside[np.random.default_rng(0).permutation(600)[:300]] = True
    error = np.mean((model.predict_proba(X, start)[aside] - y[aside]) ** 2)
    assert error == pytest.approx(min(held))
    assert model.squared_error_ == model.rounds_[model.n_kept_].squared_error


class Recorder(BaseEstimator):
    """A regressor that answers beyond [0, 1]."""

    def fit(self, X, y):
        self.mean_ = float(np.mean(y))
        return self

    def predict(self, X):
        return np.where(np.asarray(X)[:, 0] > 0, 7.0, -3.0)


def test_answers_beyond_the_range_are_clipped():
    X = np.array([[1.0], [1.0], [-1.0], [-1.0]])
    model = BoostedRecalibrator.as_in_paper(Recorder(), alpha=0.5, min_rows=1).fit(X, [1, 1, 0, 0])
    assert model.predict_proba(X).tolist() == [1, 1, 0, 0]


def test_classifiers_regressors_and_functions_may_give_the_start():
    X, y, _ = table(3, 400)
    y = (y > 0.5).astype(int)
    classifier, line = LogisticRegression().fit(X, y), LinearRegression().fit(X, y)
    start = classifier.predict_proba(X)[:, 1]
    by_array = BoostedRecalibrator.as_in_paper(alpha=0.02).fit(X, y, start)
    expected = by_array.predict_proba(X, start)
    for asked in (classifier, lambda rows: classifier.predict_proba(rows)[:, 1]):
        model = BoostedRecalibrator.as_in_paper(alpha=0.02).fit(X, y, asked)
        assert (model.predict_proba(X) == expected).all()
    assert BoostedRecalibrator.as_in_paper(alpha=0.02).fit(X, y, line).predict_proba(X).max() <= 1.0
    with pytest.raises(ValueError, match="initial must be given, got None"):
        by_array.predict_proba(X)
    by_series = BoostedRecalibrator.as_in_paper(alpha=0.02).fit(X, y, pd.Series(start))
    with pytest.raises(ValueError, match="initial must be given, got None"):
        by_series.predict_proba(X)
    with pytest.raises(ValueError, match=r"initial must be left out, got \[0.5, 0.5\]: fit was given none"):
        BoostedRecalibrator.as_in_paper(alpha=0.02).fit(X, y).predict_proba(X[:2], [0.5, 0.5])


@pytest.mark.parametrize(
    "kind", [pd.DataFrame, pl.DataFrame, lambda columns: np.array(list(columns.values())).T]
)
def test_texts_are_refused_in_columns_that_had_none(kind):
    X, y, _ = table(3, 200)
    fitted = BoostedRecalibrator(cv=2).fit(kind({"a": X[:, 0], "b": X[:, 1]}), y)
    with pytest.raises(ValueError, match=r"X must hold no texts in column .*, got .*'0.5' at row"):
        fitted.predict_proba(kind({"a": [0.5, 0.5], "b": ["0.5", "0.25"]}))
    if kind is not pl.DataFrame:
        fitted.predict_proba(kind({"a": np.array([0.5, 0.25], object), "b": [1, 2]}))


def test_a_column_that_had_texts_may_have_others():
    X, y = pd.DataFrame({"a": np.arange(200) % 2, "b": ["x", "y"] * 100}), np.arange(200) % 2
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    model = BoostedRecalibrator(make_pipeline(encoder, LinearRegression()), cv=2)
    assert model.fit(X, y).predict_proba(X.assign(b="z")).shape == (200,)


BAD = [
    ({"step": "level sets", "alpha": 0}, "alpha must be a number above 0 and at most 1, got 0"),
    ({"step": "level sets", "alpha": 1e-7}, "bound/alpha must be at most 524288"),
    ({"step": "level sets", "validation_fraction": -0.1}, "validation_fraction must be a number in .* -0.1"),
    ({"alpha": 0.01}, "alpha needs step='level sets', .* got 0.01 with step='log-odds'"),
    ({"n_levels": 9}, "n_levels needs step='level sets'"),
    ({"validation_fraction": 0.2}, "validation_fraction needs step='level sets'"),
    ({"validation_fraction": 1.0}, r"validation_fraction must be a number in \[0, 1\), got 1.0"),
    ({"alpha": 0.0}, "alpha needs step='level sets', .* got 0.0 with step='log-odds'"),
    ({"min_rows": 0}, "min_rows needs step='level sets'"),
    (
        {"step": "level sets", "start": "platt"},
        "start needs step='log-odds', got 'platt' with step='level sets'",
    ),
    ({"step": "level sets", "cv": 5}, "cv needs step='log-odds', got 5 with step='level sets'"),
    ({"step": "odds"}, "step must be one of log-odds, level sets, got 'odds'"),
    ({"start": "odds"}, "start must be one of auto, none"),
]


@pytest.mark.parametrize(("parameters", "message"), BAD)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        BoostedRecalibrator(**parameters).fit([[0.0], [1.0]], [0, 1])


def rows(n, seed, right=False):
    """Features, forecasts that know one of them (or all), outcomes."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=n), rng.integers(18, 80, n), rng.random(n)])
    z = X[:, 0] + np.where(X[:, 1] > 60, -1.5, 0.3)
    truth = 1 / (1 + np.exp(-z))
    y = (rng.random(n) < truth).astype(int)
    return X, truth if right else 1 / (1 + np.exp(-1.5 * X[:, 0])), y


def log_loss(p, y):
    return -np.log(np.where(y == 1, p, 1 - p)).mean()


@pytest.mark.parametrize("n", [60, 300])
def test_forecasts_that_are_right_are_left_alone(n):
    X, p, y = rows(n, n, right=True)
    model = BoostedRecalibrator().fit(X, y, p)
    assert model.n_kept_ == 0
    assert (model.predict_proba(X, p) == p).all()


def test_what_is_wrong_is_mended_on_fresh_rows():
    X, p, y = rows(1500, 1)
    Z, q, fresh = rows(5000, 2)
    model = BoostedRecalibrator().fit(X, y, p)
    after = model.predict_proba(Z, q)
    assert log_loss(after, fresh) < 0.93 * log_loss(q, fresh)
    assert np.mean((after - fresh) ** 2) < 0.92 * np.mean((q - fresh) ** 2)
    old = Z[:, 1] > 60
    assert abs(after[old].mean() - fresh[old].mean()) < 0.3 * abs(q[old].mean() - fresh[old].mean())
    assert 1 <= model.n_kept_ < model.n_rounds_ == len(model.held_out_) - 1 <= model.max_rounds_
    stages = list(model.staged_predict_proba(X, p))
    assert [np.mean((stage - y) ** 2) for stage in stages] == pytest.approx(
        [one.squared_error for one in model.rounds_]
    )
    assert model.squared_error_ == model.rounds_[-1].squared_error


def test_what_is_wrong_in_one_of_few_groups_is_found_by_few_columns():
    """Of 1,500 rows the gain is some 6 in log loss: more than 8 columns reach by chance, less than 1,500."""
    rng = np.random.default_rng(3)
    group = rng.integers(0, 8, 1500)
    p = rng.uniform(0.2, 0.8, 1500)
    y = rng.random(1500) < np.where(group == 0, p - 0.13, p)
    model = BoostedRecalibrator().fit(group[:, None] == np.arange(8), y, p)
    assert model.n_kept_ >= 1
    gain = 1500 * (model.held_out_[0] - model.held_out_.min())
    assert np.log(2 * 9) < gain < np.log(2 * 1500)


def test_every_kind_of_table():
    X, p, y = rows(200, 3)
    linear = BoostedRecalibrator(LinearRound(), cv=2)
    expected = linear.fit(X, y, p).predict_proba(X, p)
    for frame in (pd.DataFrame(X, columns=list("abc")), pl.DataFrame(X, schema=list("abc"))):
        model = linear.fit(frame, y, p)
        assert (model.predict_proba(frame, p) == expected).all()
        assert model.feature_names_in_.tolist() == list("abc")
        with pytest.raises(ValueError, match="must be in the same order as they were in fit"):
            model.predict_proba(pd.DataFrame(X, columns=list("bac")), p)
    sparse = linear.fit(csr_matrix(X), y, p).predict_proba(csr_matrix(X), p)
    assert sparse == pytest.approx(expected, abs=0.05)
    alone = linear.fit(X, y)
    assert alone.start_.kind == "none"
    assert log_loss(alone.predict_proba(X), y) < log_loss(np.full(200, y.mean()), y)
    shares = linear.fit(X, 0.2 + 0.5 * y, p)
    assert 0 < shares.predict_proba(X, p).min() < shares.predict_proba(X, p).max() < 1
    frame = pl.DataFrame({"age": [40, 50], "job": ["cook", "smith"]})
    for texts in (frame, [[1, "cook"], [2, "smith"]]):
        with pytest.raises(
            ValueError, match="X must hold numbers, could not convert string to float: 'cook'"
        ):
            BoostedRecalibrator().fit(texts, [0, 1])


@pytest.mark.parametrize("regressor", ["tree", 3, [LinearRegression()], LinearRegression, BaseEstimator()])
@pytest.mark.parametrize("step", ["log-odds", "level sets"])
def test_what_is_no_regressor_is_named(regressor, step):
    X, p, y = rows(20, 3)
    with pytest.raises(ValueError, match=r"regressor must be an object with fit, .*, got \S"):
        BoostedRecalibrator(regressor, step=step).fit(X, y, p)


def test_the_paper_has_steps_of_its_own_alone():
    assert BoostedRecalibrator.as_in_paper(step="level sets", start="auto").step == "level sets"
    with pytest.raises(ValueError, match=r"step must be left out, .*, got 'log-odds': for other steps make"):
        BoostedRecalibrator.as_in_paper(step="log-odds")


def test_another_fit_with_the_other_step_leaves_nothing_of_the_one_before():
    X, p, y = rows(200, 3)
    model = BoostedRecalibrator(LinearRegression(), cv=2).fit(X, y, p)
    assert model.held_out_ is not None
    assert model.n_levels_ is model.skipped_mass_ is None
    model.set_params(step="level sets", alpha=0.1, cv=None).fit(X, y, p)
    assert model.start_ is model.held_out_ is None
    assert model.n_levels_ == 20
    model.set_params(step="log-odds", alpha=None).fit(X, y, p)
    assert model.n_levels_ is model.skipped_mass_ is None


def test_without_a_model_of_the_initial_forecasts_there_is_no_score():
    X, p, y = rows(100, 3)
    model = BoostedRecalibrator(LinearRegression(), cv=2).fit(X, y, p)
    with pytest.raises(ValueError, match="fit was given an array as initial: compute -numpy"):
        model.score(X, y)
    assert model.fit(X, y, lambda X: np.full(len(X), 0.5)).score(X, y) < 0.0
    with pytest.raises(NotFittedError):
        BoostedRecalibrator().score(X, y)


@pytest.mark.parametrize("regressor", [LinearRegression(), KNeighborsRegressor(30)])
def test_other_regressors_with_weights_or_without(regressor):
    X, p, y = rows(500, 5)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    model = BoostedRecalibrator(regressor, cv=2).fit(X, y, p)
    assert model.n_kept_ >= 1
    assert log_loss(model.predict_proba(X, p), y) < log_loss(p, y)


def test_weights():
    X, p, y = rows(300, 6)
    weights = np.random.default_rng(0).integers(0, 4, 300)
    rows_of = np.repeat(np.arange(300), weights)
    plain = BoostedRecalibrator.as_in_paper(LinearRegression(), 0.02)
    weighted = plain.fit(X, y, p, sample_weight=weights).predict_proba(X, p)
    assert (plain.fit(X[rows_of], y[rows_of], p[rows_of]).predict_proba(X, p) == weighted).all()
    ones = BoostedRecalibrator(cv=2).fit(X, y, p, np.ones(300)).predict_proba(X, p)
    assert (ones == BoostedRecalibrator(cv=2).fit(X, y, p).predict_proba(X, p)).all()
    # rows without weight are not looked at
    wrong = np.where(np.arange(300) < 150, 1 - y, y)
    half = BoostedRecalibrator(cv=2).fit(X, wrong, p, np.arange(300) >= 150).predict_proba(X, p)
    assert (half == BoostedRecalibrator(cv=2).fit(X[150:], y[150:], p[150:]).predict_proba(X, p)).all()
    with pytest.raises(ValueError, match="must be whole numbers with step='level sets', got 0"):
        plain.fit(X, y, p, np.full(300, 0.5))
    with pytest.raises(
        ValueError, match="must be whole numbers with a regressor whose fit takes no sample_weight, got 0"
    ):
        BoostedRecalibrator(KNeighborsRegressor()).fit(X, y, p, np.full(300, 0.5))
    with pytest.raises(ValueError, match="sample_weight must be at least 0 and finite, got -1"):
        BoostedRecalibrator().fit(X, y, p, np.where(np.arange(300) == 2, -1, 1))


def test_a_score_counts_rows_by_their_weights_and_refuses_bad_ones():
    X, y, _ = table(0)
    model = BoostedRecalibrator(LinearRegression(), cv=2).fit(X, y)
    twice = np.where(np.arange(len(y)) < 50, 2, 1)
    repeated = np.concatenate([np.arange(len(y)), np.arange(50)])
    assert model.score(X, y, twice) == pytest.approx(model.score(X[repeated], y[repeated]))
    for weights, words in ((-twice, "at least 0 and finite, got -2"), (twice[1:], "for each of 150 rows")):
        with pytest.raises(ValueError, match=f"sample_weight must .*{words}"):
            model.score(X, y, weights)


def test_rounds_are_linear_first_and_then_trees():
    X, p, y = rows(3000, 8)
    model = BoostedRecalibrator(cv=3).fit(X, y, p)
    kinds = [type(one).__name__ for one in model._kept]
    assert kinds == sorted(kinds, key=["LinearRound", "DecisionTreeRegressor"].index)
    assert len(set(kinds)) == 2  # a slope with age, and its step at 60
    assert len(model.held_out_) == model.n_rounds_ + 1 <= model.max_rounds_ + 1 == 121
    # missing values, and features far from those that were fitted
    Z = np.where(np.arange(X.size).reshape(X.shape) % 7 == 0, np.nan, X)
    assert np.isfinite(BoostedRecalibrator(cv=3).fit(Z[::5], y[::5], p[::5]).predict_proba(Z, p)).all()
    far = np.where(np.arange(3) == 1, 1e12, X)
    assert (
        model.predict_proba(far, p) == model.predict_proba(np.where(np.arange(3) == 1, X[:, 1].max(), X), p)
    ).all()


def test_of_many_rows_some_are_fitted(monkeypatch):
    X, p, y = rows(600, 7)
    monkeypatch.setattr("onlinecal.recalibration.boosted.MOST_FITTED_ROWS", 400)
    some = np.sort(np.random.default_rng(3).choice(600, 400, replace=False))
    weights = np.where(np.arange(600) % 2, 1.0, 2.0)
    model = BoostedRecalibrator(cv=2, random_state=3).fit(X, y, p, weights)
    assert model.held_out_ == pytest.approx(
        BoostedRecalibrator(cv=2, random_state=3).fit(X[some], y[some], p[some], weights[some]).held_out_
    )


def test_sure_forecasts_ask_for_no_step_beyond_what_the_least_variance_allows():
    """A Newton step is (y - f)/(f (1 - f)): near 0 and 1 of any length, for one mistaken row."""

    class Recorder(LinearRegression):
        def fit(self, X, y, sample_weight=None):
            Recorder.seen = y, sample_weight
            return super().fit(X, y, sample_weight)

    y, weights, odds = np.array([1.0, 0.0, 1.0]), np.array([1.0, 2.0, 3.0]), np.array([-9.0, 9.0, 0.0])
    part = BoostedRows(np.zeros((3, 1)), y, weights, odds)
    part.fitted(Recorder())
    steps, given = Recorder.seen
    # a row of weight w is w rows, so that leaves of trees count them
    assert steps == pytest.approx([1 / 0.02, -1 / 0.02, -1 / 0.02, 2.0, 2.0, 2.0], rel=1e-3)
    assert given == pytest.approx([0.02, 0.02, 0.02, 0.25, 0.25, 0.25])


def test_no_answer_moves_a_row_farther_than_the_longest():
    class Far(BaseEstimator):
        def predict(self, X):
            return np.array([1e6, -1e6, 1.0])

    moved = odds_after(Far(), np.zeros((3, 1)), np.zeros(3))
    assert moved == pytest.approx(
        [ANSWER_SHARE * LONGEST_ANSWER, -ANSWER_SHARE * LONGEST_ANSWER, ANSWER_SHARE]
    )


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[1.0, 2.0], [3.0]], "equal length, got a ragged one, with 2 values at row 0 and 1 value at row 1"),
        ([[1.0], 2.0], "equal length, got a ragged one, with 1 value at row 0 and a single value at row 1"),
        ([1.0, 2.0], "not empty, got shape (2,): for one feature give numpy.reshape(X, (-1, 1))"),
    ],
)
def test_what_is_no_table_of_features_is_refused_with_its_row(X, message):
    with pytest.raises(ValueError, match=f"^X must be .*{re.escape(message)}$"):
        BoostedRecalibrator().fit(X, [0, 1])
