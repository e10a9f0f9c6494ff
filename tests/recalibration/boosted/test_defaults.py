"""The defaults of boosting: rounds on log odds, as many as held-out rows allow; weights."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_matrix
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsRegressor

from onlinecal import BoostedRecalibrator


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
    assert (model.predict(X, p) == p).all()


def test_what_is_wrong_is_mended_on_fresh_rows():
    X, p, y = rows(1500, 1)
    Z, q, fresh = rows(5000, 2)
    model = BoostedRecalibrator().fit(X, y, p)
    after = model.predict(Z, q)
    assert log_loss(after, fresh) < 0.93 * log_loss(q, fresh)
    assert np.mean((after - fresh) ** 2) < 0.92 * np.mean((q - fresh) ** 2)
    old = Z[:, 1] > 60
    assert abs(after[old].mean() - fresh[old].mean()) < 0.3 * abs(q[old].mean() - fresh[old].mean())
    assert 1 <= model.n_kept_ < model.n_rounds_ == len(model.held_out_) - 1 <= model.max_rounds_
    stages = list(model.staged_predict(X, p))
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


def test_every_kind_of_start_and_of_table():
    X, p, y = rows(400, 3)
    base = LogisticRegression().fit(X[:, :1], y)
    start = base.predict_proba(X[:, :1])[:, 1]
    given = BoostedRecalibrator(n_folds=2).fit(X, y, start)
    expected = given.predict(X, start)
    for frame in (pd.DataFrame(X, columns=list("abc")), pl.DataFrame(X, schema=list("abc"))):
        model = BoostedRecalibrator(n_folds=2).fit(frame, y, start)
        assert (model.predict(frame, start) == expected).all()
        assert model.feature_names_in_.tolist() == list("abc")
        with pytest.raises(ValueError, match="must be in the same order as they were in fit"):
            model.predict(pd.DataFrame(X, columns=list("bac")), start)
    sparse = BoostedRecalibrator(n_folds=2).fit(csr_matrix(X), y, start).predict(csr_matrix(X), start)
    assert sparse == pytest.approx(expected, abs=0.05)
    asked = BoostedRecalibrator(n_folds=2).fit(X, y, lambda table: base.predict_proba(table[:, :1])[:, 1])
    assert (asked.predict(X) == expected).all()
    alone = BoostedRecalibrator(n_folds=2).fit(X, y)
    assert alone.start_.kind == "none"
    assert log_loss(alone.predict(X), y) < log_loss(np.full(400, y.mean()), y)
    shares = BoostedRecalibrator(n_folds=3).fit(X, 0.2 + 0.5 * y, p)
    assert 0 < shares.predict(X, p).min() < shares.predict(X, p).max() < 1


@pytest.mark.parametrize("regressor", [LinearRegression(), KNeighborsRegressor(30)])
def test_other_regressors_with_weights_or_without(regressor):
    X, p, y = rows(1500, 5)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    model = BoostedRecalibrator(regressor, n_folds=2).fit(X, y, p)
    assert model.n_kept_ >= 1
    assert log_loss(model.predict(X, p), y) < log_loss(p, y)


def test_weights():
    X, p, y = rows(300, 6)
    weights = np.random.default_rng(0).integers(0, 4, 300)
    rows_of = np.repeat(np.arange(300), weights)
    plain = BoostedRecalibrator.as_in_paper(LinearRegression(), 0.02)
    weighted = plain.fit(X, y, p, sample_weight=weights).predict(X, p)
    assert (plain.fit(X[rows_of], y[rows_of], p[rows_of]).predict(X, p) == weighted).all()
    ones = BoostedRecalibrator(n_folds=2).fit(X, y, p, np.ones(300)).predict(X, p)
    assert (ones == BoostedRecalibrator(n_folds=2).fit(X, y, p).predict(X, p)).all()
    # rows without weight are not looked at
    wrong = np.where(np.arange(300) < 150, 1 - y, y)
    half = BoostedRecalibrator(n_folds=2).fit(X, wrong, p, np.arange(300) >= 150).predict(X, p)
    assert (half == BoostedRecalibrator(n_folds=2).fit(X[150:], y[150:], p[150:]).predict(X, p)).all()
    with pytest.raises(ValueError, match="must be whole numbers with level sets, got 0"):
        plain.fit(X, y, p, np.full(300, 0.5))
    with pytest.raises(ValueError, match="sample_weight must be None with a regressor whose fit takes none"):
        BoostedRecalibrator(KNeighborsRegressor()).fit(X, y, p, np.ones(300))
    with pytest.raises(ValueError, match="sample_weight must be at least 0 and finite, got -1"):
        BoostedRecalibrator().fit(X, y, p, np.where(np.arange(300) == 2, -1, 1))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": 0.01}, "alpha goes with step='level sets', .* got 0.01 with step='log-odds'"),
        ({"n_levels": 9}, "n_levels goes with step='level sets'"),
        ({"validation_fraction": 0.2}, "validation_fraction goes with step='level sets'"),
        ({"step": "odds"}, "step must be one of log-odds, level sets, got 'odds'"),
        ({"start": "odds"}, "start must be one of auto, none"),
        ({"n_folds": 1}, "n_folds must be a whole number of at least 2, got 1"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        BoostedRecalibrator(**parameters).fit([[0.0], [1.0]], [0, 1])


def test_features_that_are_texts_are_named():
    frame = pd.DataFrame({"age": [40, 50], "job": ["cook", "smith"]})
    for table in (frame, pl.from_pandas(frame)):
        with pytest.raises(
            ValueError, match="X must hold numbers, got 'cook' in column 'job' at row 0: encode"
        ):
            BoostedRecalibrator().fit(table, [0, 1])
    with pytest.raises(ValueError, match="got 'cook' in column 1 at row 0"):
        BoostedRecalibrator().fit([[1, "cook"], [2, "smith"]], [0, 1])
    BoostedRecalibrator().fit(np.array([[1, 0.5], [None, 2]], dtype=object), [0, 1])


def test_rounds_are_linear_first_and_then_trees():
    X, p, y = rows(3000, 8)
    model = BoostedRecalibrator(n_folds=3).fit(X, y, p)
    kinds = [type(one).__name__ for one in model._kept]
    assert kinds == sorted(kinds, key=["LinearRound", "DecisionTreeRegressor"].index)
    assert len(set(kinds)) == 2  # a slope with age, and its step at 60
    assert len(model.held_out_) == model.n_rounds_ + 1 <= model.max_rounds_ + 1 == 121
    # missing values, and features far from those that were fitted
    Z = np.where(np.arange(X.size).reshape(X.shape) % 7 == 0, np.nan, X)
    holes = BoostedRecalibrator(n_folds=3).fit(Z, y, p)
    assert np.isfinite(holes.predict(Z, p)).all()
    far = np.where(np.arange(3) == 1, 1e12, X)
    assert (model.predict(far, p) == model.predict(np.where(np.arange(3) == 1, X[:, 1].max(), X), p)).all()


def test_of_many_rows_some_are_fitted(monkeypatch):
    X, p, y = rows(2000, 7)
    monkeypatch.setattr("onlinecal.recalibration.boosted.recalibrator.MOST_ROWS", 500)
    some = np.sort(np.random.default_rng(3).choice(2000, 500, replace=False))
    weights = np.where(np.arange(2000) % 2, 1.0, 2.0)
    model = BoostedRecalibrator(n_folds=2, seed=3).fit(X, y, p, weights)
    assert model.held_out_ == pytest.approx(
        BoostedRecalibrator(n_folds=2, seed=3).fit(X[some], y[some], p[some], weights[some]).held_out_
    )


def test_one_row_is_enough():
    with pytest.warns(UserWarning, match="y is 1 in all 1 rounds"):
        model = BoostedRecalibrator().fit([[0.0]], [1], [0.3])
    assert model.predict([[0.0]], [0.3]).tolist() == [0.3]
