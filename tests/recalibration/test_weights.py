"""A row of weight w counts as w equal rows, one of weight 0 is left out: of every recalibrator there is."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from onlinecal import recalibration
from onlinecal.recalibration import (
    AveragedCalibration,
    BoostedRecalibrator,
    DecisionRecalibrator,
    GroupRecalibrator,
    LpRecalibrator,
    RecalibratedClassifierCV,
    SampleSizeWarning,
)
from onlinecal.recalibration.folds import deal, divided, same_rows, single_rows
from onlinecal.recalibration.probability_recalibrator import ProbabilityRecalibrator

pytestmark = pytest.mark.filterwarnings(
    "ignore::onlinecal.recalibration.SampleSizeWarning", "ignore::onlinecal.LabelWarning"
)


def of_table(model, p, y, X, w):
    return model.fit(np.column_stack([1 - p, p]), y, sample_weight=w)


def of_groups(model, p, y, X, w):
    return model.fit(p, y, X > 0.5, sample_weight=w)


def of_features(model, p, y, X, w):
    return model.fit(X, y, initial=p, sample_weight=w)


def of_classifier(model, p, y, X, w):
    return model.fit(np.column_stack([p, X]), y, sample_weight=w)


ASKED = {
    of_table: lambda model, p, X: model.predict_proba(np.column_stack([1 - p, p]))[:, 1],
    of_groups: lambda model, p, X: model.predict_proba(p, X > 0.5),
    of_features: lambda model, p, X: model.predict_proba(X, initial=p),
    of_classifier: lambda model, p, X: model.predict_proba(np.column_stack([p, X]))[:, 1],
}
OTHERS = {GroupRecalibrator: (of_groups, {}), BoostedRecalibrator: (of_features, {"cv": 3})}


def everyone():
    """Every public recalibrator, and some with settings that take other ways; with few folds, for speed."""
    for name in recalibration.__all__:
        kind = getattr(recalibration, name)
        if isinstance(kind, type) and issubclass(kind, ProbabilityRecalibrator):
            yield kind(), of_table
        elif kind in OTHERS:
            fit, settings = OTHERS[kind]
            yield kind(**settings), fit
    yield LpRecalibrator(start="dirichlet"), of_table
    yield LpRecalibrator(start="none", n_levels=10, p=1.5), of_table
    yield DecisionRecalibrator(partition="hard", step="full", cv=3), of_table
    for patch in ("value", "shift", "unrounded", "unrounded shift"):
        yield GroupRecalibrator(patch=patch), of_groups
    yield GroupRecalibrator(patch="value", validation_fraction=0.3), of_groups
    yield BoostedRecalibrator(KNeighborsRegressor(), cv=2), of_features
    tree = DecisionTreeRegressor(max_depth=3, random_state=0)
    yield BoostedRecalibrator(tree, step="level sets", validation_fraction=0.3, min_rows=5), of_features
    yield RecalibratedClassifierCV(LogisticRegression(), cv=3), of_classifier


WITH_ALL_FOLDS = [
    (BoostedRecalibrator(), of_features),
    (BoostedRecalibrator(KNeighborsRegressor()), of_features),
    (RecalibratedClassifierCV(LogisticRegression()), of_classifier),
]
"""Those that `everyone` has with few folds, as users have them."""


def params(slow=()):
    """The cases of a test: of these classes those with other settings than the class had before are slow.

    Those that hold rows out in another way are not.
    """
    known = set()
    for number, (model, fit) in enumerate(everyone()):
        kind, holds_out = type(model), getattr(model, "validation_fraction", None)
        marks = pytest.mark.slow if issubclass(kind, slow) and kind in known and not holds_out else ()
        known.add(kind)
        yield pytest.param(model, fit, id=f"{kind.__name__}-{number}", marks=marks)
    yield from (pytest.param(*one, marks=pytest.mark.slow) for one in WITH_ALL_FOLDS)


def test_every_recalibrator_is_found():
    public = {name for name in recalibration.__all__ if name.endswith(("Recalibrator", "CV", "ion", "ing"))}
    found = {type(model).__name__ for model, _ in everyone()}
    others = {name for name in public if not hasattr(getattr(recalibration, name), "fit")}
    assert public - others <= found | {"PerClassIsotonic", "TopLabelIsotonic"}
    assert {"PerClassIsotonic", "TopLabelIsotonic", "LpRecalibrator", "RecalibratedClassifierCV"} <= found


def rows(n, seed, values=None):
    """Forecasts that are too high, in one group more so; of few values if they are named."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (n, 2)).astype(float)
    p = rng.beta(1.0, 1.0, n).clip(0.01, 0.99) if values is None else rng.choice(values, n)
    if values is None:
        X = np.column_stack([X[:, 0], rng.random(n)])
    return p, (rng.random(n) < p ** (1.5 + X[:, 0])).astype(int), X


FEW_VALUES = np.arange(1, 10) / 10


@pytest.mark.parametrize(
    ("model", "fit", "values"),
    [
        pytest.param(*one.values, values, id=f"{one.id}-{name}", marks=one.marks)
        for name, values in (("many", None), ("few", FEW_VALUES))
        for one in params(slow=(object,) if name == "few" else ())
    ],
)
def test_weights_repeats_and_rows_left_out_agree(model, fit, values, request):
    p, y, X = rows(160 if values is None else 300, 0, values)
    w = np.random.default_rng(1).integers(0, 4, len(p))
    q, _, Z = rows(50, 2, values)
    again = np.repeat(np.arange(len(p)), w)
    order = np.flatnonzero(w)

    def answers(some, weights):
        return ASKED[fit](fit(model, p[some], y[some], X[some], weights), q, Z)

    weighted, repeated = answers(slice(None), w), answers(again, None)
    if values is None or request.node.get_closest_marker("slow"):
        assert answers(order, w[order]) == pytest.approx(weighted, abs=1e-9)
    if fit is of_classifier and values is not None:
        # rows that are there once are dealt with equal shares of the classes, parts of weights at random
        assert np.abs(repeated - weighted).mean() < 0.04
    else:
        assert repeated == pytest.approx(weighted, abs=1e-4)


@pytest.mark.parametrize(("model", "fit"), list(params(slow=(GroupRecalibrator, LpRecalibrator))))
def test_copies_of_calibrated_rows_tear_nothing_apart(model, fit):
    """Folds that see what they are tested on find every label's noise in it worth learning."""
    if fit is of_classifier:
        # a classifier that learns rows by heart
        model = RecalibratedClassifierCV(DecisionTreeClassifier(random_state=0))
    rng, times = np.random.default_rng(3), 3
    p, X = rng.uniform(0.02, 0.98, 250), rng.random((250, 2))
    y = (rng.random(250) < p).astype(int)
    q, Z = rng.uniform(0.02, 0.98, 500), rng.random((500, 2))
    once, more, weighted = (
        np.mean((ASKED[fit](fit(model, *map(take, (p, y, X)), w), q, Z) - q) ** 2)
        for take, w in (
            (lambda a: a, None),
            (lambda a: np.repeat(a, times, axis=0), None),
            (lambda a: a, np.full(250, times)),
        )
    )
    assert max(more, weighted) <= 0.004 + 1.5 * once


FEW = [
    (AveragedCalibration(), of_table, 0.011),
    (LpRecalibrator(), of_table, 0.003),
    (DecisionRecalibrator(), of_table, 0.003),
    (GroupRecalibrator(), of_groups, 0.003),
    (BoostedRecalibrator(), of_features, 0.003),
]


@pytest.mark.parametrize(("model", "fit", "most"), FEW, ids=[type(one[0]).__name__ for one in FEW])
@pytest.mark.parametrize("by_weights", [True, False])
def test_of_few_forecasts_their_errors_are_learnt(model, fit, most, by_weights):
    """Ten forecasts of 1,000 rows each: held out whole, none would be known when it is asked for."""
    p = np.linspace(0.05, 0.95, 10)
    ones = np.round(1000 * p**2)
    said, y, w = np.repeat(p, 2), np.tile([0, 1], 10), np.column_stack([1000 - ones, ones]).ravel()
    X = np.ones((20, 1))
    if not by_weights:
        again = np.repeat(np.arange(20), w.astype(int))
        said, y, X, w = said[again], y[again], X[again], None
    found = ASKED[fit](fit(model, said, y, X, w), p, np.ones((10, 1)))
    assert np.abs(found - p**2).max() < most


@pytest.mark.parametrize("model", [LpRecalibrator(), DecisionRecalibrator()])
def test_one_forecast_is_learnt_and_a_remark_says_how(model):
    with pytest.warns(
        SampleSizeWarning, match="1 different rows are fewer than two for each of 5 folds: equal"
    ):
        model.fit([[0.5, 0.5]] * 600, np.arange(600) % 4 == 0)
    assert model.predict_proba([[0.5, 0.5]])[0] == pytest.approx([0.75, 0.25], abs=0.01)


def test_with_few_rows_a_remark_says_that_none_is_held_out():
    table = np.random.default_rng(0).dirichlet([1, 1], 6)
    with pytest.warns(SampleSizeWarning, match="6 different rows are fewer .* none is held out"):
        LpRecalibrator().fit(table, [0, 1, 0, 1, 0, 1], sample_weight=[9] * 6)


@pytest.mark.parametrize(("model", "fit"), [(LpRecalibrator(), of_table), (GroupRecalibrator(), of_groups)])
def test_weights_of_sum_one_are_remarked_on_because_they_count_as_one_row(model, fit):
    p, y = np.arange(1, 41) / 41, np.arange(40) % 2
    with pytest.warns(
        SampleSizeWarning, match=r"sample_weight has the sum 1 over 40 rows.*multiply it by 40 / sum"
    ):
        fit(model, p, y, p, np.full(40, 1 / 40))


def test_weights_count_rows_where_there_must_be_so_many():
    table, y = np.random.default_rng(0).dirichlet([1, 1], 6), [0, 1, 0, 1, 0, 1]
    with pytest.raises(ValueError, match="at least 10 rows with cv=5, got 6"):
        DecisionRecalibrator().fit(table, y)
    with pytest.raises(ValueError, match=r"at least 10 rows with cv=5, got 9 \(the sum of the weights\)"):
        DecisionRecalibrator().fit(table, y, sample_weight=[1.5] * 6)
    assert DecisionRecalibrator().fit(table, y, sample_weight=[2] * 6).n_features_in_ == 2


def test_equal_rows_are_found_in_whatever_holds_them():
    numbers = np.array([[0.0, 1.5], [2.0, np.nan], [-0.0, 1.5], [2.0, np.nan], [3.0, 0.0]])
    texts = pd.DataFrame({"a": ["x", "y", "x", "y", None], "b": numbers[:, 0]})
    same = [0, 1, 0, 1, 2]
    assert same_rows(numbers).tolist() == same
    assert same_rows(texts).tolist() == same_rows(pl.from_pandas(texts)).tolist() == same
    assert same_rows(texts.to_numpy()).tolist() == same
    assert same_rows(pa.table(texts)).tolist() == same
    assert same_rows([[1, 2], [1], [1, 2]]).tolist() == [0, 1, 2]
    assert same_rows(csr_matrix(np.nan_to_num(numbers))).tolist() == same
    assert same_rows(numbers, [0, 0, 1, 0, 0]).tolist() == [0, 1, 2, 1, 3]
    assert same_rows(np.array([0.1, 0.1 + 1e-9]), digits=6).tolist() == [0, 0]
    # of many rows, too, as numpy tells them apart
    table = np.random.default_rng(0).integers(0, 2, (4000, 9)).astype(np.uint8)
    _, first, place = np.unique(table, axis=0, return_index=True, return_inverse=True)
    assert same_rows(table).tolist() == np.argsort(np.argsort(first))[place.ravel()].tolist()


def test_folds_hold_equal_rows_whole_and_the_rows_of_few_forecasts_one_by_one():
    rng = np.random.default_rng(0)
    # 100 forecasts of three rows each, and one of 200
    sets = np.append(np.repeat(np.arange(100), 3), np.full(200, 100))
    labels, weights = rng.integers(0, 2, 500), np.ones(500)
    assert single_rows(sets, labels, weights, 5).tolist() == [False] * 300 + [True] * 200
    dealt = deal(sets, labels, weights, 5, lambda _, first: np.arange(len(first)) % 5, 0)
    folds = [np.unique(dealt.fold[sets[dealt.rows] == one]) for one in range(101)]
    assert [len(one) for one in folds] == [1] * 100 + [5]
    assert (dealt.n_sets, dealt.n_dealt) == (101, 300)
    # one observation has the weight of a set that is whole, and at most 1 if its row is divided
    heavy = np.where(sets < 100, 3.0, 2.5)
    dealt = deal(sets, labels, heavy, 5, lambda _, first: np.arange(len(first)) % 5, 0)
    assert (
        dealt.blocks.tolist()
        == np.where(sets[dealt.rows] < 100, 3.0, np.minimum(dealt.weights, 1.0)).tolist()
    )
    # copies of one observation have one label, and then a set is dealt whole whatever its weight
    assert not single_rows(sets[:300], np.repeat(labels[:100], 3), 50 * weights[:300], 5).any()
    # where all rows are there fifty times, that many are one
    assert not single_rows(sets[:300], labels[:300], 50 * weights[:300], 5).any()
    # the parts of a weight are those of its rows, and of a last one that counts for the rest
    parts = divided(np.array([1000.0, 2.5, 0.25]), np.array([0.5, 0.3, 0.2]), rng)
    assert parts.sum(axis=1) == pytest.approx([1000, 2.5, 0.25])
    assert parts[0] == pytest.approx([500, 300, 200], abs=60)
    assert (parts[2] > 0).sum() == 1
    # however few they are, each fold has its share
    for seed in range(20):
        few = divided(np.array([6.0, 4.0]), np.full(5, 0.2), np.random.default_rng(seed))
        assert few.sum(axis=0).tolist() == [2.0] * 5
    many = divided(np.array([3e9, 1e300]), np.array([0.5, 0.5]), rng)
    assert many[:, 0] == pytest.approx([1.5e9, 5e299], rel=1e-3)
