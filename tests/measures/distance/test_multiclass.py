"""The multiclass bracket holds the truth, and its witness is calibrated."""

from collections import defaultdict
from fractions import Fraction
from itertools import islice

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linprog

from onlinecal import SimplexAlmostOneStepAhead, calibration_distance
from onlinecal.measures import multiclass_calibration_distance
from onlinecal.measures.distance.classes import prices, search
from onlinecal.measures.distance.classes.groupings import class_frequencies, equal_rows, merged
from onlinecal.measures.distance.classes.potentials import (
    MOST_MESH_CLASSES,
    Triangulation,
    best_potentials,
    repaired,
)
from onlinecal.measures.distance.classes.search import improvements, rounds_of
from onlinecal.measures.distance.classes.sweep import neighbours_of
from onlinecal.measures.distance.multiclass import drawn
from tests.measures.distance.reference import distance_by_set_partitions
from tests.properties import examples


@st.composite
def games(draw):
    """Short histories: forecasts in tenths, three or four classes."""
    k, rounds = draw(st.integers(2, 4)), draw(st.integers(1, 6))
    cuts = draw(arrays(np.int64, (rounds, k - 1), elements=st.integers(0, 10)))
    cuts = np.sort(cuts, axis=1)
    edges = np.hstack([np.zeros((rounds, 1)), cuts, np.full((rounds, 1), 10)])
    return np.diff(edges, axis=1) / 10, draw(arrays(np.int64, rounds, elements=st.integers(0, k - 1)))


def assert_is_calibrated(found, p, y):
    """In rationals: the witness of every level set is the float next to its class frequencies."""
    sets = defaultdict(list)
    for vector, label in zip(found.witness.tolist(), y.tolist(), strict=True):
        sets[tuple(vector)].append(label)
    for vector, labels in sets.items():
        assert vector == tuple(float(Fraction(labels.count(c), len(labels))) for c in range(len(vector)))
    assert np.abs(p - found.witness).sum() == pytest.approx(found.upper, abs=1e-12)


SLOW = np.array([[2, 7, 0, 1], [0, 6, 1, 3], [1, 0, 3, 6], [1, 1, 1, 7]]) / 10, np.array([1, 2, 0, 2])
"""The solver did not end on this one, while whole numbers had no bounds."""


@given(games())
@settings(deadline=None, max_examples=examples(25))
@example(SLOW)
def test_of_few_rounds_the_distance_is_exact_and_within_the_bracket(game):
    p, y = game
    truth = distance_by_set_partitions(p, np.eye(p.shape[1])[y])
    found = multiclass_calibration_distance(p, y, method="exact")
    assert found.exact == pytest.approx(truth, abs=1e-6)
    assert found.lower == found.upper == found.exact
    assert_is_calibrated(found, p, y)
    bracket = multiclass_calibration_distance(p, y, method="bracket")
    assert bracket.lower <= truth + 1e-9
    assert bracket.upper >= truth - 1e-9
    assert_is_calibrated(bracket, p, y)


@pytest.mark.parametrize("k", [3, 4, 5])
def test_any_potentials_are_a_bound_once_repaired(k):
    """Potentials from nowhere, made large enough to break every inequality."""
    rng = np.random.default_rng(k)
    mesh = Triangulation(k, 3)
    for _ in range(20):
        found = repaired(mesh, rng.normal(size=mesh.points.shape) * rng.choice([0.1, 1.0]))
        v, w = rng.dirichlet(np.ones(k), (2, 300))
        assert (np.abs(found.at(v) - found.at(w)).max(axis=1) <= np.abs(v - w).sum(axis=1) + 1e-12).all()
        assert ((v * found.at(v)).sum(axis=1) <= 1e-12).all()


def test_the_relaxation_is_nearly_solved():
    """Against HiGHS, on the same inequalities."""
    rng = np.random.default_rng(5)
    p, y = rng.dirichlet(np.ones(3), 60), rng.integers(0, 3, 60)
    mesh = Triangulation(3, 6)
    slopes, n = np.kron(mesh.slopes.toarray(), np.eye(3)), len(mesh.points)
    (a, b), grid = mesh.pairs.T, mesh.points / mesh.m
    signs = np.zeros((len(a), n, 3))
    for sign, left, right in zip(signs, a, b, strict=True):
        sign[left] += grid[right]
        sign[right] += grid[left]
    places, shares = mesh.corners(p)
    gain = np.zeros((n, 3))
    np.add.at(gain, (places, y[:, None]), shares)
    table = np.concatenate([slopes, -slopes, signs.reshape(len(a), -1)])
    limits = np.append(np.full(2 * len(slopes), 2 / mesh.m), np.zeros(len(a)))
    best = -linprog(-gain.ravel(), table, limits, bounds=(None, None)).fun
    assert 0.995 * best <= best_potentials(mesh, p, y, 1e9).bound(p, y) <= best + 1e-6


@pytest.mark.parametrize("factor", [1.5, 2.2, 99.0])
def test_prices_of_rounds_are_a_bound(factor, monkeypatch):
    """Where all level sets are looked at one by one, and where most are seen as parts, on a grid and off."""
    monkeypatch.setattr(prices, "SIZE_FACTOR", factor)
    rng, reached = np.random.default_rng(int(factor)), []
    for grid in (True, False, True, False):
        p, y = rng.dirichlet(np.ones(3), 7), rng.integers(0, 3, 7)
        if grid:
            p = rng.multinomial(6, p[0], 7) / 6
        found = prices.best_prices(p, y, np.zeros((7, 3)), 1e9)
        truth = distance_by_set_partitions(p, np.eye(p.shape[1])[y])
        assert found.bound <= truth + 1e-9
        reached.append(found.bound / truth)
        assert sorted(prices.plan_of(found, y)) <= [len(found.kinds.values) - 1] * 7
    assert np.mean(reached) > (0.85 if factor > 9 else 0.2)


@pytest.mark.parametrize(
    ("better", "most", "mix", "share"),
    [(improvements, 5, [0.5, 0.3, 0.2], 0.98), (search.better_pairs, None, [0.4, 0.3, 0.2, 0.1], 0.7)],
)
def test_paths_and_pairs_only_improve(better, most, mix, share):
    rng, k = np.random.default_rng(6), len(mix)
    p, y = rng.multinomial(8, mix, 400) / 8, rng.integers(0, k, 400)
    rounds = rounds_of(p, y)
    costs = [np.abs(p - class_frequencies(y, rounds.value, k)).sum()]
    for _, group in islice(better(rounds, rounds.value), most):
        costs.append(np.abs(p - class_frequencies(y, group, k)).sum())
    assert (np.diff(costs) <= 1e-9).all()
    assert costs[-1] < share * costs[0]


def test_a_path_along_strips_has_short_steps_whatever_the_directions():
    def step(order):
        return np.abs(np.diff(means[order], axis=0)).sum(axis=1).mean()

    for seed in range(6):
        rng = np.random.default_rng(seed)
        means = rng.dirichlet(np.ones(3), 400)
        path = search._along_strips(means, rng)
        assert sorted(path) == list(range(400))
        assert step(path) < 0.1 * step(np.arange(400))


def test_two_level_sets_are_shared_out_as_well_as_can_be(monkeypatch):
    """Against all ways to cut the rounds in two, where all numbers of rounds are tried."""
    monkeypatch.setattr(search, "MOST_SHARED", (400,))
    rng = np.random.default_rng(8)
    for _ in range(20):
        p, y = rng.multinomial(5, [0.5, 0.3, 0.2], 6) / 5, rng.integers(0, 3, 6)
        start = np.append([0, 1], rng.integers(0, 2, 4))
        *_, (_, group) = search.better_pairs(rounds_of(p, y), start)
        cuts = np.array(list(np.ndindex(*[2] * 6)))
        costs = [np.abs(p - class_frequencies(y, cut, 3)).sum() for cut in cuts]
        reached = np.abs(p - class_frequencies(y, group, 3)).sum()
        assert reached == pytest.approx(min(costs), abs=1e-12)


def test_level_sets_of_equal_means_are_not_paired_with_themselves(monkeypatch):
    """In the interpreter, which does not let the kernel write where there is no room."""
    monkeypatch.setattr(search, "share_out", search.share_out.py_func)
    p, start = np.random.default_rng(10).dirichlet(np.ones(3), 8), np.array([0, 0, 0, 0, 0, 1, 2, 3])
    for _, group in search.better_pairs(rounds_of(p, np.zeros(8, np.int64)), start):
        assert sorted(group) == sorted(start)


def test_neighbours_are_the_nearest_others_of_equal_points_too():
    rng = np.random.default_rng(0)
    for n, distinct in ((2, 1), (7, 3), (40, 1), (40, 2), (40, 40)):
        points = rng.dirichlet(np.ones(3), distinct)[rng.integers(0, distinct, n)]
        away = np.abs(points[:, None] - points).sum(axis=2) + np.diag(np.full(n, np.inf))
        near = neighbours_of(points, 5)
        assert (np.diff(np.sort(near)) > 0).all()
        nearest = np.sort(away)[:, : min(5, n - 1)]
        assert np.take_along_axis(away, near, axis=1) == pytest.approx(nearest, abs=1e-12)


def test_the_bracket_of_a_game_is_narrow():
    """Of the forecaster for several classes, whose level sets by themselves are three times too far."""
    forecaster = SimplexAlmostOneStepAhead(n_classes=3, horizon=300)
    rng = np.random.default_rng(0)
    y = rng.choice(3, 300, p=[0.5, 0.3, 0.2])
    p = forecaster.replay(y)
    found = multiclass_calibration_distance(p, y)
    assert found.upper < 1.3 * found.lower
    assert_is_calibrated(found, p, y)


def test_two_classes_are_twice_the_binary_distance():
    rng = np.random.default_rng(3)
    p, y = rng.random(40).round(1), rng.integers(0, 2, 40)
    found = multiclass_calibration_distance(np.column_stack([1 - p, p]), y, budget=1.0)
    exact = calibration_distance(p, y, method="exact").exact
    assert found.lower == pytest.approx(2 * exact, rel=1e-9)
    assert found.upper == pytest.approx(2 * exact, rel=1e-9)
    p = rng.random(5_000)
    y = (rng.random(5_000) < p).astype(int)
    found, half = (
        multiclass_calibration_distance(np.c_[1 - p, p], y, budget=0.01),
        calibration_distance(p, y, budget=0.01),
    )
    assert half.lower < half.upper
    assert (found.lower, found.upper) == pytest.approx((2 * half.lower, 2 * half.upper), rel=1e-9)


def test_events_of_two_classes_raise_the_lower_end():
    # each of the first two classes comes as often as it is forecast; either of both always comes in 2 of 5
    counts = {(3, 3): (2, 2, 3, 3), (1, 1): (2, 2, 3, 3), (3, 1): (4, 0, 3, 3), (1, 3): (0, 4, 3, 3)}
    rows = [
        ([a, b, (10 - a - b) / 2, (10 - a - b) / 2], label)
        for (a, b), came in counts.items()
        for label in np.repeat(range(4), came)
    ]
    p, y = (np.array(column) for column in zip(*rows, strict=True))
    found = multiclass_calibration_distance(p / 10, y, method="bracket")
    assert 3.0 - 1e-9 < found.lower < found.upper


def test_of_more_classes_than_a_mesh_has_prices_are_those_of_each_class():
    k, rng = MOST_MESH_CLASSES + 1, np.random.default_rng(3)
    p, y = rng.multinomial(6, np.full(k, 1 / k), 60) / 6, rng.integers(0, k, 60)
    found = multiclass_calibration_distance(p, y, method="bracket", budget=0.1)
    assert_is_calibrated(found, p, y)
    assert 0.0 < found.lower < found.upper
    assert found.upper < np.abs(p - class_frequencies(y, np.zeros(60, np.int64), k)).sum()


def test_a_look_ahead_is_a_witness_that_little_work_does_not_find():
    rng = np.random.default_rng(4)
    p, y = rng.dirichlet(np.ones(3), 80), rng.integers(0, 3, 80)
    found = multiclass_calibration_distance(p, y)
    plain = multiclass_calibration_distance(p, y, budget=1e-4)
    guided = multiclass_calibration_distance(p, y, look_ahead=found.witness, budget=1e-4)
    assert guided.upper <= found.upper + 1e-9 < plain.upper
    assert guided.lower == plain.lower
    average = multiclass_calibration_distance(p, y, look_ahead=found.witness, budget=1e-4, normalize=True)
    assert average.upper == pytest.approx(guided.upper / 80)
    assert average.lower == pytest.approx(guided.lower / 80)


def test_long_brackets_say_how_far_they_are(capsys, monkeypatch):
    rng = np.random.default_rng(0)
    p, y, shares = rng.dirichlet(np.ones(3), 40), rng.integers(0, 3, 40), []
    multiclass_calibration_distance(p, y, method="bracket", progress=shares.append)
    assert capsys.readouterr().err == ""
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    monkeypatch.setattr("onlinecal.arrays.SECONDS_BEFORE_TOLD", 0.0)
    multiclass_calibration_distance(p, y, method="bracket")
    first, *others = capsys.readouterr().err.splitlines()
    assert first.startswith("onlinecal: bracket of the distance of 40 rounds of 3 classes: ")
    assert first.endswith(" % done; budget=0.02 in place of 0.2 would be a tenth of the work")
    assert all(line.endswith("0 % done") for line in others)


@pytest.mark.parametrize(("k", "seed"), [(2, 0), (3, 1), (4, 3)])
def test_brackets_of_soft_labels_hold_the_best_grouping_and_are_met_by_their_witness(k, seed):
    rng = np.random.default_rng(seed)
    p, y = rng.dirichlet(np.ones(k), 6), rng.dirichlet(np.ones(k), 6)
    found = multiclass_calibration_distance(p, y)
    assert found.lower <= distance_by_set_partitions(p, y) + 1e-12 <= found.upper + 2e-12
    assert found.upper == pytest.approx(np.abs(p - found.witness).sum())
    for vector in np.unique(found.witness, axis=0):
        of_set = (found.witness == vector).all(axis=1)
        assert y[of_set].mean(axis=0) == pytest.approx(vector, abs=1e-12)
    assert multiclass_calibration_distance(p, p).upper == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("k", [2, 3])
def test_the_lower_end_of_soft_labels_is_below_what_certificates_prove(k):
    rng = np.random.default_rng(k)
    y = rng.dirichlet(np.full(k, 0.5), 80)
    forecaster = SimplexAlmostOneStepAhead(k, horizon=80)
    found = multiclass_calibration_distance(forecaster.replay(y), y)
    assert 0.0 < found.lower <= forecaster.certificate
    # those of one class each are bracketed as labels whose rounds may part
    p, labels = rng.dirichlet(np.ones(k), 30), rng.integers(0, k, 30)
    whole, soft = (
        multiclass_calibration_distance(p, one, method="bracket") for one in (labels, np.eye(k)[labels])
    )
    assert 0.0 < soft.lower <= whole.upper + 1e-9
    assert whole.lower <= soft.upper + 1e-9


def test_drawn_labels_keep_up_with_the_shares_and_merging_brings_groups_nearer():
    rng = np.random.default_rng(11)
    p, y = rng.multinomial(6, [0.5, 0.3, 0.2], 120) / 6, rng.dirichlet(np.ones(3), 120)
    labels, order = drawn(p, y), np.lexsort(p.T[::-1])
    behind = np.cumsum(y[order] - np.eye(3)[labels[order]], axis=0)
    assert (np.abs(behind) < 2.0).all()
    groups = equal_rows(p)
    fewer = merged(p, labels, groups)
    apart, together = (np.abs(p - class_frequencies(labels, one, 3)).sum() for one in (groups, fewer))
    assert together < apart
    assert fewer.max() < groups.max()
    # groups that are merged were so as a whole
    assert len(np.unique(np.column_stack([groups, fewer]), axis=0)) == groups.max() + 1


def test_what_has_no_answer_is_refused_before_the_work():
    rng = np.random.default_rng(0)
    p, y, told = rng.dirichlet(np.ones(3), 500), rng.integers(0, 3, 500), []
    with pytest.raises(ValueError, match=r", got .exact. with 500: .* some 2e.09 variables"):
        multiclass_calibration_distance(p, y, method="exact", budget=1e9, progress=told.append)
    with pytest.raises(ValueError, match="normalize must be True or False, got 'no'"):
        multiclass_calibration_distance(p, y, normalize="no", budget=1e9, progress=told.append)
    assert not told
