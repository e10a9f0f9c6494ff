"""LpRecalibrator as scikit-learn's users expect it: parameters, tables, labels, refusals."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal import LpRecalibrator, lp_calibration_error
from onlinecal.recalibration.lp.recalibrator import LevelSetMap
from onlinecal.recalibration.lp.statistics import rho
from tests.properties import examples
from tests.recalibration.lp.reference import source

pytestmark = pytest.mark.filterwarnings("ignore::onlinecal.recalibration.SampleSizeWarning")


@settings(max_examples=examples(60), deadline=None)
@given(
    k=st.integers(2, 5),
    n=st.integers(1, 120),
    p=st.sampled_from([1.5, 2, 4, math.inf]),
    epsilon=st.sampled_from([0.05, 0.2, 0.6]),
    seed=st.integers(0, 10**6),
)
def test_the_error_on_the_rows_of_the_fit_is_at_most_epsilon(k, n, p, epsilon, seed):
    """Lemma 15, where estimates are exact; and the squared error of Lemmas 11 to 13."""
    table, labels = source(n, k, seed)
    model = LpRecalibrator.as_in_paper(p, epsilon).fit(table, labels)
    mapped = model.predict_proba(table)
    error = lp_calibration_error(mapped, labels, p, model.n_levels_)
    assert error <= model.fitted_error_bound_ + 1e-9
    assert model.fitted_error_bound_ <= epsilon
    hot = np.eye(k)[labels]
    rise = ((mapped - hot) ** 2).sum(axis=1).mean() - ((table - hot) ** 2).sum(axis=1).mean()
    assert rise <= 4 / math.ceil(1 / model.beta_) * (1 + math.log2(36 / model.beta_)) + 1e-9
    coarse = LpRecalibrator.as_in_paper(p, n_levels=3, tolerance=0.02).fit(table, labels)
    error = lp_calibration_error(coarse.predict_proba(table), labels, p, 3)
    assert error <= coarse.fitted_error_bound_ + 1e-9


@settings(max_examples=examples(40), deadline=None)
@given(n=st.integers(1, 200), k=st.integers(2, 6), levels=st.integers(1, 6), seed=st.integers(0, 10**6))
def test_shifts_cost_squared_error_by_merges_only(n, k, levels, seed):
    table, labels = source(n, k, seed)
    model = LpRecalibrator.as_in_paper(n_levels=levels, tolerance=0.01, within="shift").fit(table, labels)
    mapped = model.predict_proba(table)
    assert mapped.sum(axis=1) == pytest.approx(1.0)
    assert (mapped >= 0).all()
    hot = np.eye(k)[labels]

    def rise(answers):
        return ((answers - hot) ** 2).sum(axis=1).mean() - ((table - hot) ** 2).sum(axis=1).mean()

    bare = LevelSetMap(model.map_.levels, model.map_.values, levels, shift=True)
    merges = (model.history_.stage_one + model.history_.stage_two).sum()
    assert rise(bare(table)) <= merges + 1e-9
    # and by the floor: the squared error is convex, that of the uniform distribution 1 - 1/k
    assert rise(mapped) <= rise(bare(table)) + (1 - 1 / k) / (n + 1) + 1e-12


def test_rows_of_level_sets_get_their_groups_prediction_or_their_own_where_there_is_no_group():
    table, labels = source(300, 3)
    seldom = np.array([[0.0, 0.05, 0.95], [0.12, 0.88, 0.0]])
    fitted = LpRecalibrator.as_in_paper(n_levels=4, tolerance=0.01).fit(table, labels)
    ends = fitted.predict_proba(fitted.level_sets_ + (1 - fitted.level_sets_.sum(axis=1, keepdims=True)) / 3)
    assert (ends == fitted.predictions_[fitted.group_of_level_set_]).all()
    assert fitted.predict_proba(seldom) == pytest.approx(rho(np.array([[0, 0, 3], [0, 3, 0]]), 4))
    shifted = LpRecalibrator.as_in_paper(n_levels=4, tolerance=0.01, within="shift").fit(table, labels)
    assert (shifted.predict_proba(seldom) == seldom).all()
    every = np.concatenate([table, seldom])
    for model in (fitted, shifted):
        assert (model.map_(every) == [model.map_.one(row) for row in every]).all()


@pytest.mark.parametrize(
    "classes", [["cat", "dog", "eel"], [10, 20, 30], [("a", 1), ("a", 2), None], [False, "no", 1.5]]
)
def test_labels_of_any_kind(classes):
    table, numbers = source(400, 3)
    labels = [classes[number] for number in numbers]
    model = LpRecalibrator(n_levels=4, tolerance=0.01, classes=classes).fit(table, labels)
    assert list(model.classes_) == classes
    expected = LpRecalibrator(n_levels=4, tolerance=0.01).fit(table, numbers)
    assert (model.predict_proba(table) == expected.predict_proba(table)).all()
    assert list(model.predict(table[:20])) == [classes[number] for number in expected.predict(table[:20])]


@pytest.mark.parametrize(
    ("parameters", "labels", "message"),
    [
        ({"p": 1}, [0, 1], "p must be a number above 1, or inf, got 1"),
        ({"tolerance": -0.1}, [0, 1], r"tolerance must be a number between 0 and 1, got -0\.1"),
        ({"estimation": "all"}, [0, 1], "estimation must be one of plug-in, pools, got 'all'"),
        ({"within": "bin"}, [0, 1], "within must be one of constant, shift, got 'bin'"),
        ({"within": "shift", "estimation": "pools"}, [0, 1], "within='shift' needs estimation='plug-in'"),
        ({"least_rows": -1}, [0, 1], "least_rows must be a number of at least 0, got -1"),
        ({"classes": ["a"]}, ["a", "a"], "classes must name the 2 columns of P, got 1 of them"),
        ({"classes": ["a", "a"]}, ["a", "a"], "classes must differ, got 'a' twice"),
        ({"classes": ["a", "b"]}, ["a", "c"], "y must be one of the classes, got 'c' at row 1"),
        ({"classes": ["a", "b"]}, 3, "y must be a sequence of labels, got 3"),
    ],
)
def test_bad_parameters_are_named(parameters, labels, message):
    with pytest.raises(ValueError, match=message):
        LpRecalibrator(**parameters).fit([[0.5, 0.5], [0.2, 0.8]], labels)


@pytest.mark.parametrize(("n", "tolerance"), [(8, 0.25), (300, 0.01), (30_000, 0.005)])
def test_errors_of_three_rows_are_left_alone(n, tolerance):
    rng = np.random.default_rng(0)
    table, labels = rng.dirichlet(np.ones(3), n), rng.integers(0, 3, n)
    model = LpRecalibrator(p=np.inf, epsilon=0.01, n_folds=0).fit(table, labels)
    assert model.tolerance_ == pytest.approx(tolerance)
    assert LpRecalibrator.as_in_paper(np.inf, 0.01).settings_for(3, n).beta == 0.01
