"""Algorithm 2 against its plain form, and the lemmas of its paper, on estimates from all rows."""

import math
from fractions import Fraction
from itertools import chain

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onlinecal import LpRecalibrator, lp_calibration_error
from onlinecal.measures.lp.level_sets import count_level_sets, levels_of
from onlinecal.recalibration.flooring import project_rows
from onlinecal.recalibration.lp.algorithm import MovingGroups, round_bound, run
from onlinecal.recalibration.lp.recalibrator import LevelSetMap
from onlinecal.recalibration.lp.statistics import PoolCounts, Statistics, plug_in_statistics, rho
from onlinecal.reference import multiclass_calibration, projected
from tests.properties import examples
from tests.recalibration.lp.source import source


def played(table, labels, n_levels, tolerance, p=2.0, with_means=False):
    statistics = plug_in_statistics(table, labels, n_levels, 2 * tolerance, with_means)
    return statistics, run(statistics, n_levels, tolerance, p)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.floats(-2, 3), min_size=1, max_size=12))
# rounding moves points in and out
@example([1.0 - 1e-16, 1e-22, 3e-18, 1e-17, 5e-17, 2e-16])
def test_the_projection_is_the_nearest_point_of_the_simplex(values):
    z = np.array(values)
    found = project_rows(z[None])[0]
    assert found == pytest.approx(projected(z), abs=1e-12)
    assert found.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("with_means", [False, True])
@pytest.mark.parametrize(
    ("k", "n_levels", "tolerance"),
    [
        (2, 6, 0.01),
        (3, 4, 0.003),
        (5, 3, 0.004),
        (4, 7, 0.004),
        pytest.param(4, 12, 0.002, marks=pytest.mark.slow),
    ],
)
def test_the_algorithm_is_the_papers(k, n_levels, tolerance, with_means):
    promised, labels = source(1000, k, seed=with_means)
    # of a prime: none is so near to an edge of a level set that the allowance for rounding moves it
    parts = np.rint(promised * 997).astype(int)
    parts[:, 0] += 997 - parts.sum(axis=1)
    rows, table = [[Fraction(part, 997) for part in row] for row in parts.tolist()], parts / 997
    statistics, outcome = played(table, labels, n_levels, tolerance, with_means=with_means)
    history, names = outcome.history, {tuple(v): b for b, v in enumerate(statistics.levels.tolist())}
    norms: list[float] = []
    moves = iter(zip(history.group.tolist(), history.class_number.tolist(), strict=True))
    group_of = {b: frozenset([v]) for v, b in names.items()}

    def the_same(errors):
        """The group and class that were corrected in the fit; of errors equal up to rounding any may be."""
        assert sorted(names[v] for S in errors for v in S) == list(range(len(names)))
        norms.append(math.hypot(*chain(*errors.values())))
        name, j = next(moves)
        (S,) = [S for S in errors if group_of[name] <= S]
        assert errors[S][j] >= max(map(max, errors.values())) - 1e-12
        return S, j

    start = (lambda v: [Fraction(q) for q in statistics.means[names[v]]]) if with_means else None
    calibrated = multiclass_calibration(
        rows, labels.tolist(), n_levels=n_levels, tolerance=tolerance, start=start, select=the_same
    )
    assert len(calibrated.steps) == len(history.group) > 0
    assert len(calibrated.pred) == len(outcome.predictions)
    for number, name in enumerate(outcome.group_names.tolist()):
        (S,) = [S for S in calibrated.pred if group_of[name] <= S]
        assert sorted(names[v] for v in S) == np.flatnonzero(outcome.group_of_bin == number).tolist()
        assert outcome.predictions[number] == pytest.approx(np.array(calibrated.pred[S], float), abs=1e-12)
    for step, merged_with in zip(calibrated.steps, history.merged_with.tolist(), strict=True):
        assert (step.other is None) == (merged_with < 0)
        assert step.other is None or group_of[merged_with] <= step.other
    assert (history.stage_two[history.merged_with < 0] == 0).all()
    assert np.diff(history.squared_error) == pytest.approx(history.stage_one + history.stage_two, abs=1e-12)
    assert history.error[:-1] == pytest.approx(norms, abs=1e-12)
    bare = LevelSetMap(statistics.levels, outcome.predictions[outcome.group_of_bin], n_levels, shift=False)
    expected = np.array([calibrated.h(row) for row in rows], float)
    assert bare(table) == pytest.approx(expected, abs=1e-12)
    inside = [tuple(v) in names for v in levels_of(table, n_levels).tolist()]
    square = ((expected - np.eye(k)[labels])[inside] ** 2).sum() / len(table)
    assert history.squared_error[-1] == pytest.approx(square, abs=1e-12)


@settings(max_examples=examples(40), deadline=None)
@given(
    k=st.integers(2, 6),
    n_levels=st.integers(1, 9),
    tolerance=st.sampled_from([0.001, 0.004, 0.02, 0.08]),
    concentration=st.sampled_from([0.1, 0.5, 3.0]),
    favour=st.sampled_from([0.0, 0.3, 0.9]),
    seed=st.integers(0, 10**6),
)
def test_the_lemmas_hold_on_the_rows_of_the_fit(k, n_levels, tolerance, concentration, favour, seed):
    table, labels = source(500, k, seed, concentration, favour)
    statistics, outcome = played(table, labels, n_levels, tolerance)
    history, beta = outcome.history, 2 * tolerance
    rounds = len(history.group)
    assert outcome.finished
    # Lemma 14
    assert rounds <= round_bound(beta, n_levels)
    assert round_bound(beta, math.ceil(1 / beta)) <= (9 + 36 * beta * math.log2(36 / beta)) / beta**2
    # Lemma 12, where estimates are exact: the drop is at least the squared error over the mass
    assert (history.stage_one <= -(tolerance**2)).all()
    # Lemma 11: a merge costs at most 4/n_levels of the mass that moves
    assert (history.stage_two <= 4 / n_levels + 1e-6).all()
    assert history.stage_two.sum() <= 4 / n_levels * math.log2(36 / beta) + 1e-6
    assert np.diff(history.squared_error) == pytest.approx(history.stage_one + history.stage_two, abs=1e-12)
    # every group ends with small errors, and its own level set
    for number in range(len(outcome.predictions)):
        bins = outcome.group_of_bin == number
        mass = statistics.pools.masses[0][bins].sum() / 500
        ones = statistics.pools.labels[0][bins].sum(axis=0) / 500
        assert np.abs(mass * outcome.predictions[number] - ones).max() <= tolerance + 1e-12
    ends = levels_of(outcome.predictions, n_levels)
    assert len(np.unique(ends, axis=0)) == len(ends) <= count_level_sets(n_levels, k)
    assert outcome.predictions.sum(axis=1) == pytest.approx(1.0)


def test_groups_of_one_size_in_M_never_overlap():
    """Lemma 9 needs the events that one pool is asked about to be disjoint."""
    table, labels = source(4000, 3, 1)
    _, outcome = played(table, labels, 12, 0.0002)
    children = outcome.node_children
    members = []
    for first, second in children.tolist():
        members.append({len(members)} if first < 0 else members[first] | members[second])
    assert (children[:, 0] >= 0).sum() > 20
    for size in {len(bins) for bins in members}:
        assert size & (size - 1) == 0
        same = [bins for bins in members if len(bins) == size]
        assert len(set().union(*same)) == size * len(same)


def test_an_even_merge_takes_the_other_groups_prediction():
    """Two level sets of equal mass, the first moves into the second's: the paper's <= decides."""
    table = np.repeat([[0.9, 0.1], [0.1, 0.9]], 10, axis=0)
    _, outcome = played(table, np.ones(20, dtype=int), 2, 0.01)
    assert outcome.history.merged_with.tolist()[0] == 1
    # (.75, .25) moves to (.375, .625); the other one stands at (.25, .75)
    assert outcome.history.squared_error[1] == pytest.approx(2 * 0.25**2)
    assert outcome.group_of_bin.tolist() == [0, 0]


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
    error = lp_calibration_error(mapped, labels, p, n_bins=model.n_levels_)
    assert error <= model.fitted_error_bound_ + 1e-9
    assert model.fitted_error_bound_ <= epsilon
    hot = np.eye(k)[labels]
    rise = ((mapped - hot) ** 2).sum(axis=1).mean() - ((table - hot) ** 2).sum(axis=1).mean()
    assert rise <= 4 / math.ceil(1 / model.beta_) * (1 + math.log2(36 / model.beta_)) + 1e-9
    coarse = LpRecalibrator.as_in_paper(p, n_levels=3, tolerance=0.02).fit(table, labels)
    error = lp_calibration_error(coarse.predict_proba(table), labels, p, n_bins=3)
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


@pytest.fixture(scope="module")
def numbered():
    """A model of labels that are numbers."""
    return LpRecalibrator(n_levels=4, tolerance=0.01).fit(*source(400, 3))


@pytest.mark.parametrize(
    "classes", [["cat", "dog", "eel"], [10, 20, 30], [("a", 1), ("a", 2), None], [False, "no", 1.5]]
)
def test_labels_of_any_kind(classes, numbered):
    (table, numbers), expected = source(400, 3), numbered
    labels = [classes[number] for number in numbers]
    model = LpRecalibrator(n_levels=4, tolerance=0.01, classes=classes).fit(table, labels)
    assert list(model.classes_) == classes
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
        ({"epsilon": 0.0}, [0, 1], "epsilon must be"),
        ({"delta": 1.0}, [0, 1], "delta must be"),
        ({"random_state": -1}, [0, 1], "random_state must be"),
        ({"start": "warm"}, [0, 1], "start must be one of .*, got 'warm'"),
        ({"share": 1.5}, [0, 1], r"share must be None or a number from 0 to 1, got 1\.5"),
        ({"keep": 1.0}, [0, 1], r"keep must be a number of at least 0 and below 1, got 1\.0"),
        ({"limit": 1.0}, [0, 1], r"limit must be None or a number above 1, got 1\.0"),
        ({"cv": -1}, [0, 1], "cv must be .*, got -1"),
        ({"cv": 1}, [0, 1], "cv must be 0 or at least 2, got 1"),
        ({"classes": ["a"]}, ["a", "a"], "classes must name the 2 columns of X, got 1 of them"),
        ({"classes": ["a", "a"]}, ["a", "a"], "classes must differ, got 'a' twice"),
        ({"classes": ["a", "b"]}, ["a", "c"], r"y must be one of the classes \['a', 'b'\], got 'c' at row 1"),
        ({"classes": ["a", "b"]}, 3, "y must be a column, got 3"),
    ],
)
def test_bad_parameters_are_named(parameters, labels, message):
    with pytest.raises(ValueError, match=message):
        LpRecalibrator(**parameters).fit([[0.5, 0.5], [0.2, 0.8]], labels)


@pytest.mark.parametrize(("n", "tolerance"), [(8, 0.25), (300, 0.01), (30_000, 0.005)])
def test_errors_of_three_rows_are_left_alone(n, tolerance):
    rng = np.random.default_rng(0)
    table, labels = rng.dirichlet(np.ones(3), n), rng.integers(0, 3, n)
    model = LpRecalibrator(p=np.inf, epsilon=0.01, cv=0).fit(table, labels)
    assert model.tolerance_ == pytest.approx(tolerance)
    assert LpRecalibrator.as_in_paper(np.inf, 0.01)._settings_for(3, n).beta == 0.01


def test_a_node_of_twice_as_many_bins_is_estimated_from_the_next_pool():
    masses = np.arange(12.0).reshape(3, 4)
    labels, rows, no_noise = (
        np.stack([masses, 2 * masses], axis=2),
        np.array([100.0, 200.0, 400.0]),
        np.empty(0),
    )
    pools = PoolCounts(masses, labels, rows, 2 * rows, no_noise, np.empty((0, 2)), np.zeros(3), np.zeros(3))
    groups = MovingGroups(Statistics(np.array([[0, 4], [1, 3], [2, 2], [3, 1]]), None, pools), 4)
    for bins, pool in (([2], 0), ([0, 1], 1), ([0, 1, 2, 3], 2)):
        mass, of_labels = groups.estimates[groups._new_node(bins, (-1, -1))]
        assert mass == masses[pool, bins].sum() / rows[pool]
        assert np.array_equal(of_labels, labels[pool, bins].sum(axis=0) / (2 * rows[pool]))
