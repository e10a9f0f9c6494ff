"""BoostedRecalibrator as in the paper: rounds, what holds at the end, when that is Bayes-optimal."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.tree import DecisionTreeRegressor

from onlinecal import BoostedRecalibrator
from onlinecal.measures import functional_multicalibration_error
from tests.properties import examples


def table(seed, n=150):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    truth = 1 / (1 + np.exp(-X @ rng.normal(0, 2, 2) - rng.normal() * X[:, 0] * X[:, 1]))
    y = rng.random(n) < truth if rng.random() < 0.7 else truth
    return X, y.astype(float), rng.random(n)


def worst_functions(model, X, y, initial, bound):
    """Affine h with h^2 <= bound: the worst directions of the violation, and random ones."""
    f = model.predict(X, initial)
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
    f, h = worst_functions(model, X, y, start if given_start else np.full(len(y), y.mean()), bound)
    assert np.mean((f - y) ** 2) == pytest.approx(model.squared_error_) == pytest.approx(errors[-2])
    assert (functional_multicalibration_error(f, y, h) <= alpha + 1e-9).all()
    assert model.skipped_mass_ == 0.0
    assert model.violation_bound_ <= alpha + 1e-12


@settings(deadline=None, max_examples=examples(25))
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.3, 0.1, 0.03]), st.sampled_from([2, 5, 20]))
def test_small_level_sets_keep_their_value_and_are_owned_up_to(seed, alpha, min_rows):
    X, y, start = table(seed)
    model = BoostedRecalibrator.as_in_paper(LinearRegression(), alpha, min_rows=min_rows).fit(X, y, start)
    f, h = worst_functions(model, X, y, start, 1.0)
    values, counts = np.unique(f, return_counts=True)
    assert model.rounds_[-1].n_level_sets == len(values)
    assert model.rounds_[-1].n_skipped == (counts < min_rows).sum()
    assert model.skipped_mass_ == pytest.approx(counts[counts < min_rows].sum() / len(y))
    assert model.violation_bound_ == pytest.approx(alpha / 2 + 1 / model.n_levels_ + model.skipped_mass_)
    assert (functional_multicalibration_error(f, y, h) <= model.violation_bound_ + 1e-9).all()
    if model.n_rounds_ == 1:
        rounded = np.floor(start * model.n_levels_ + 0.5) / model.n_levels_
        assert (f == rounded).all()


def test_a_level_set_below_the_minimum_is_not_learnt_by_heart():
    X, y = np.arange(10.0)[:, None], np.resize([0.0, 1.0], 10)
    start = np.arange(10) / 10
    model = BoostedRecalibrator.as_in_paper(DecisionTreeRegressor(), alpha=0.01, min_rows=2).fit(X, y, start)
    assert (model.predict(X, start) == start).all()
    assert model.skipped_mass_ == 1.0
    learnt = BoostedRecalibrator.as_in_paper(DecisionTreeRegressor(), alpha=0.01, min_rows=1).fit(X, y, start)
    assert learnt.squared_error_ == 0.0


@pytest.mark.parametrize("name", ["rising", "steps"])
def test_it_reaches_the_bayes_predictor_under_weak_learning(name):
    x, y = domain(TRUTHS[name])
    model = BoostedRecalibrator.as_in_paper(LinearRegression(), alpha=0.0002, min_rows=1).fit(x[:, None], y)
    assert model.predict(np.arange(5)[:, None]) == pytest.approx(TRUTHS[name], abs=0.02)


def test_it_can_stop_short_of_it_without():
    x, y = domain(TRUTHS["valley"])
    model = BoostedRecalibrator.as_in_paper(LinearRegression(), alpha=0.0002, min_rows=1).fit(x[:, None], y)
    assert np.ptp(model.predict(np.arange(5)[:, None])) == 0.0
    square = np.column_stack([x, (x - 2) ** 2])
    model.fit(square, y)
    points = np.column_stack([np.arange(5), (np.arange(5) - 2) ** 2])
    assert model.predict(points) == pytest.approx(TRUTHS["valley"], abs=0.02)


def test_trees_repair_a_hidden_group_on_fresh_rows():
    rng = np.random.default_rng(0)

    def rows(n):
        age = rng.integers(18, 80, n)
        X = pd.DataFrame({"score": rng.normal(size=n), "age": age, "noise": rng.random(n)})
        z = X["score"] + np.where(X["age"] > 65, -2.5, 0.2)
        return X, (rng.random(n) < 1 / (1 + np.exp(-z))).astype(int)

    X, y = rows(20_000)
    base = LogisticRegression().fit(X[["score"]], y)

    def blind(frame):
        return base.predict_proba(frame[["score"]])[:, 1]

    model = BoostedRecalibrator.as_in_paper(alpha=0.005, n_levels=20, validation_fraction=0.25)
    model.fit(X, y, blind)
    assert 1 <= model.n_kept_ < model.n_rounds_ <= model.max_rounds_
    fresh, outcome = rows(20_000)
    old = (fresh["age"] > 65).to_numpy()
    before, after = blind(fresh), model.predict(fresh)
    assert abs(before[old].mean() - outcome[old].mean()) > 0.1
    assert abs(after[old].mean() - outcome[old].mean()) < 0.02
    assert np.mean((after - outcome)[old] ** 2) < np.mean((before - outcome)[old] ** 2) - 0.05
    assert np.mean((after - outcome)[~old] ** 2) < np.mean((before - outcome)[~old] ** 2)
    assert model.score(fresh, outcome) == pytest.approx(-np.mean((after - outcome) ** 2))


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
    error = np.mean((model.predict(X, start)[aside] - y[aside]) ** 2)
    assert error == pytest.approx(min(held))
    assert model.squared_error_ == model.rounds_[model.n_kept_].squared_error


@settings(deadline=None, max_examples=examples(20))
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 4, 10]))
def test_coarse_grids_promise_less_and_keep_it(seed, n_levels):
    X, y, start = table(seed)
    model = BoostedRecalibrator.as_in_paper(LinearRegression(), 0.02, min_rows=1, n_levels=n_levels)
    model.fit(X, y, start)
    f, h = worst_functions(model, X, y, start, 1.0)
    assert model.violation_bound_ == pytest.approx(0.01 + 1 / n_levels)
    assert (functional_multicalibration_error(f, y, h) <= model.violation_bound_ + 1e-9).all()


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
    assert model.predict(X).tolist() == [1, 1, 0, 0]


def test_classifiers_and_regressors_may_give_the_start():
    X, y, _ = table(3, 400)
    y = (y > 0.5).astype(int)
    classifier = LogisticRegression().fit(X, y)
    start = classifier.predict_proba(X)[:, 1]
    by_array = BoostedRecalibrator.as_in_paper(alpha=0.02).fit(X, y, start)
    expected = by_array.predict(X, start)
    assert (BoostedRecalibrator.as_in_paper(alpha=0.02).fit(X, y, classifier).predict(X) == expected).all()
    line = LinearRegression().fit(X, y)
    assert BoostedRecalibrator.as_in_paper(alpha=0.02).fit(X, y, line).predict(X).max() <= 1.0
    with pytest.raises(ValueError, match="initial is needed"):
        by_array.predict(X)


def test_stages_are_the_rounds_that_were_kept():
    X, y, _ = table(6, 800)
    model = BoostedRecalibrator.as_in_paper(alpha=0.02, min_rows=1).fit(X, y)
    stages = list(model.staged_predict(X))
    assert len(stages) == model.n_kept_ + 1 > 1
    assert (stages[-1] == model.predict(X)).all()
    errors = [round_.squared_error for round_ in model.rounds_[: len(stages)]]
    assert [np.mean((stage - y) ** 2) for stage in stages] == pytest.approx(errors, abs=1e-12)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": 0}, "alpha must be a number above 0 and at most 1, got 0"),
        ({"bound": 0.0}, "bound must be a positive number, got 0.0"),
        ({"alpha": 1e-7}, "bound/alpha must be at most 524288"),
        ({"n_levels": 0}, "n_levels must be a whole number of at least 1, got 0"),
        ({"validation_fraction": -0.1}, "validation_fraction must be a number in .* got -0.1"),
        ({"min_rows": 0}, "min_rows must be a whole number of at least 1, got 0"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        BoostedRecalibrator.as_in_paper(**parameters).fit([[0.0], [1.0]], [0, 1])


def partitions(items):
    """All set partitions of a list."""
    if not items:
        yield []
        return
    first, *rest = items
    for partition in partitions(rest):
        for k, block in enumerate(partition):
            yield [*partition[:k], [first, *block], *partition[k + 1 :]]
        yield [[first], *partition]


def domain(truth):
    """A finite domain with exact frequencies: 12 rows a point, of which 12 truth have outcome 1."""
    x = np.repeat(np.arange(len(truth)), 12)
    y = np.concatenate([np.arange(12) < round(12 * t) for t in truth]).astype(float)
    return x, y


def calibrated_predictors(truth):
    """Every calibrated predictor on the domain: the mean of the truth on each block of a partition."""
    for partition in partitions(list(range(len(truth)))):
        f = np.empty(len(truth))
        for block in partition:
            f[block] = np.mean(np.asarray(truth)[block])
        yield f


def violations(f, truth, functions):
    x, y = domain(truth)
    values = np.column_stack([np.asarray(h, float)[x] for h in functions])
    return functional_multicalibration_error(np.round(f, 12)[x], y, values)


def learns_weakly(truth, functions):
    """Whether on every set where the truth varies some affine image of a function beats constants."""
    truth = np.asarray(truth)
    for chosen in product([False, True], repeat=len(truth)):
        inside = np.array(chosen)
        if inside.any() and np.ptp(truth[inside]) > 0:
            part = truth[inside] - truth[inside].mean()
            if all(abs(np.dot(np.asarray(h)[inside], part)) < 1e-12 for h in functions):
                return False
    return True


TRUTHS = {
    "rising": [1 / 12, 2 / 12, 5 / 12, 8 / 12, 11 / 12],
    "steps": [2 / 12, 2 / 12, 6 / 12, 6 / 12, 9 / 12],
    "valley": [9 / 12, 4 / 12, 1 / 12, 4 / 12, 9 / 12],
}


@pytest.mark.parametrize("name", TRUTHS)
@pytest.mark.parametrize("degree", [1, 2, 4])
def test_multicalibrated_means_bayes_optimal_exactly_under_weak_learning(name, degree):
    truth = np.array(TRUTHS[name])
    functions = [np.arange(5.0) ** k for k in range(1, degree + 1)]
    others = [
        f
        for f in calibrated_predictors(truth)
        if np.abs(f - truth).max() > 1e-9 and violations(f, truth, functions).max() < 1e-12
    ]
    assert violations(truth, truth, functions).max() < 1e-12  # the Bayes predictor always is
    assert (not others) == learns_weakly(truth, functions)
