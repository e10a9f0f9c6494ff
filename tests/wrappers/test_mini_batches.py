"""Batches are forecast before any of their rows is learnt, as rows with late labels."""

import copy
import pickle
from functools import partial

import numpy as np
import polars as pl
import pytest
from river import linear_model, naive_bayes, preprocessing, tree

from onlinecal import CalibratedClassifier, LabelWarning
from onlinecal.wrappers import (
    BinnedMean,
    DecisionCalibratedClassifier,
    GroupCalibratedClassifier,
    LpCalibratedClassifier,
    PlattScaling,
)
from onlinecal.wrappers.batches import learns_many

pd = pytest.importorskip("pandas")
pytestmark = pytest.mark.filterwarnings("ignore:the recalibrated probabilities:onlinecal.LabelWarning")

WRAPPERS = {
    "auto": CalibratedClassifier,
    "simplex": lambda model: CalibratedClassifier(model, strategy="simplex"),
    "top-label": lambda model: CalibratedClassifier(model, strategy="top-label", window=50),
    "Platt": PlattScaling,
    "bins": BinnedMean,
    "decision": lambda model: DecisionCalibratedClassifier(model, first_fit=60),
    "group": lambda model: GroupCalibratedClassifier(model, groups={"any": bool}),
    "lp": lambda model: LpCalibratedClassifier(model, n_levels=5, first_fit=60),
}


def batches(count=6, rows=15, labels=("no", "yes", "maybe")):
    """Frames of features, with missing values and rows twice, and Series of labels."""
    rng, k = np.random.default_rng(0), len(labels)
    for number in range(count):
        X = pd.DataFrame(rng.normal(size=(rows, 2)), columns=["a", "b"], index=np.arange(rows) + 100 * number)
        X.iloc[3] = X.iloc[2]
        X.iloc[5, 0] = np.nan
        places = (X["a"].fillna(0.0) + rng.normal(size=rows) + 1.5).clip(0, k - 0.5).astype(int)
        yield X, pd.Series(np.array(labels, dtype=object)[places], index=X.index)


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
def test_a_batch_is_many_rows_with_late_labels(wrap, library):
    many, one = (wrap(tree.HoeffdingTreeClassifier()) for _ in range(2))
    for X, y in batches():
        given, rows = (X if library == "pandas" else pl.DataFrame(X.to_dict("list"))), X.to_dict("records")
        chosen = list(copy.deepcopy(many).predict_many(given))
        answers = many.predict_proba_many(given)
        expected = [one.predict_proba_one(x) for x in rows]
        assert isinstance(answers, type(given))
        said = answers.to_dict("records") if library == "pandas" else answers.to_dicts()
        # a frame of polars without columns has no rows
        for answer, row in zip(expected, said or [{}] * len(rows), strict=True):
            assert {label: row[label] for label in answer} == answer
        assert chosen == [max(answer, key=answer.get) if answer else None for answer in expected]
        assert library == "polars" or answers.index.equals(X.index)
        many.learn_many(given, y if library == "pandas" else y.tolist())
        for x, label in zip(rows, y, strict=True):
            one.learn_one(x, label)
    for what in ("n_rounds", "n_open", "certificate", "guarantee"):
        assert getattr(many, what, 0) == getattr(one, what, 0)


def test_a_model_is_asked_and_taught_by_its_own_methods():
    inner, calls = naive_bayes.BernoulliNB(), []
    for name in ("learn_one", "learn_many", "predict_proba_one", "predict_proba_many"):
        method = getattr(inner, name)
        setattr(inner, name, lambda *given, name=name, method=method: calls.append(name) or method(*given))
    model = CalibratedClassifier(inner)
    for X, y in batches(labels=("no", "yes")):
        model.predict_proba_many(X)
        model.learn_many(X, list(y))
    # steering learns what the model says to rows that nobody asked about, before the batch is learnt
    with pytest.warns(LabelWarning, match="a label came for features that no forecast waits for"):
        model.learn_many(X, y)
    assert calls == ["predict_proba_many", "learn_many"] * 7
    # the first answers were empty
    assert (model.n_rounds, model.n_unmatched) == (5 * 15, 2 * 15)


def test_pipelines_are_asked_at_once_if_all_their_steps_can_be():
    scaler, logistic = preprocessing.StandardScaler(), linear_model.LogisticRegression()
    assert learns_many(scaler | logistic, X)
    assert not learns_many((scaler.clone() + preprocessing.MinMaxScaler()) | logistic, X)
    assert not learns_many(scaler | tree.HoeffdingTreeClassifier(), X)


X, Y = next(batches(labels=(False, True)))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((X, Y[:3]), "X and y must have the same length, got 15 and 3"),
        ((X, "yes"), "X and y must have the same length, got 15 and 1"),
        ((X, [*Y[:14], None]), "y at row 14 must be .*, got None"),
        ((X, [*Y[:14], 2]), r"y at row 14 must be one of the classes \[False, True\], got 2"),
        ((X, [*Y[:14], 0.3]), "y at row 14 must be a class label, got 0.3"),
        ((X, Y.to_frame("came")), r"y must be a column of labels, .*DataFrame of shape \(15, 1\): give one"),
        ((X, dict.fromkeys(range(15), True)), "y must be a column of labels, .* give list.* of its values"),
        ((X, iter(Y)), "y must be a column of labels, .* which is read once"),
        ((X.iloc[:0], Y[:0]), "X is empty"),
        ((X.to_numpy(), Y), "X must be a pandas or polars DataFrame, got ndarray"),
        ((pl.LazyFrame({"a": [1.0]}), Y), "X must be a pandas or polars DataFrame, got a LazyFrame: collect"),
    ],
)
@pytest.mark.parametrize(
    "build", [CalibratedClassifier, partial(GroupCalibratedClassifier, groups=["a"])], ids=["one", "groups"]
)
def test_bad_batches_are_refused_before_anything_is_learnt(build, given, message):
    model = build(naive_bayes.GaussianNB(), classes=[False, True])
    model.predict_proba_many(X)
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=message):
        model.learn_many(*given)
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("build", [CalibratedClassifier, LpCalibratedClassifier, PlattScaling])
def test_a_weight_of_a_batch_is_refused_before_the_model_learns(build):
    model = build(linear_model.LogisticRegression())
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=r"w must be left out, got 2\.0"):
        model.learn_many(X, Y, w=2.0)
    assert pickle.dumps(model) == before
