"""Batches are forecast before any of their rows is learnt, as rows with late labels; scikit-learn's face."""

import copy
import pickle
from functools import partial

import numpy as np
import polars as pl
import pytest
from river import linear_model, naive_bayes, preprocessing, tree
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import SGDClassifier

from onlinecal import CalibratedClassifier, LabelWarning, recalibrate_stream
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
        ((X.iloc[:0], Y[:0]), "X is empty"),
        ((X.to_numpy(), Y), "X must be a pandas or polars DataFrame, got ndarray"),
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


def arrays(labels):
    """Arrays of features, one for each label, and labels that these tell about."""
    rng = np.random.default_rng(1)
    for X in rng.normal(size=(20, 25, len(labels))):
        yield X, np.array(labels)[(X + rng.gumbel(size=X.shape)).argmax(axis=1)]


@pytest.mark.parametrize("labels", [["up", "down"], [1, 2, 3], [True, False]])
def test_an_estimator_of_scikit_learn_is_calibrated_as_the_columns_that_it_says(labels):
    plain = SGDClassifier(loss="log_loss", random_state=0)
    model = CalibratedClassifier(SGDClassifier(loss="log_loss", random_state=0), classes=labels)
    raw, answers, came, order = [], [], [], np.argsort(np.argsort(labels))
    for X, y in arrays(labels):
        told = model.classifier.predict_proba_many(X)
        raw.append(np.array([[answer[label] for label in labels] for answer in told]))
        again = model.classifier.predict_proba_many(pd.DataFrame(X))
        assert np.allclose(*([list(one.values()) for one in each] for each in (again, told)))
        assert np.allclose(raw[-1], plain.predict_proba(X)[:, order] if came else 1 / len(labels))
        answers.append(model.predict_proba(X))
        model.partial_fit(X, y)
        plain.partial_fit(X, y, classes=labels)
        came += map(labels.index, y.tolist())
    assert model.classes_.tolist() == labels
    result = recalibrate_stream(np.concatenate(raw), came, settled_at=np.arange(500) // 25 * 25 + 24)
    assert np.array_equal(np.concatenate(answers), result.probabilities)
    assert (model.certificate, model.guarantee) == (result.certificate[-1], result.guarantee)
    fresh = model.clone()
    assert fresh.n_rounds == 0
    with pytest.raises(NotFittedError):
        fresh.classifier.estimator.predict_proba(X)


@pytest.mark.parametrize("labels", [[1, "one"], [("a", 1), ("b", 2)], [b"no", b"yes"]], ids=str)
def test_columns_are_of_the_declared_classes_whatever_their_kind(labels):
    model = CalibratedClassifier(naive_bayes.GaussianNB(), classes=labels)
    X, numbers = next(arrays([0, 1]))
    model.partial_fit(X, [labels[number] for number in numbers])
    assert model.classes_.tolist() == labels
    assert np.allclose(model.predict_proba(X).sum(axis=1), 1.0)
    rows = [model.predict_proba_one(dict(enumerate(x))) for x in X.tolist()]
    assert np.array_equal(model.predict_proba(X), [[row[label] for label in labels] for row in rows])


def test_classes_that_scikit_learn_cannot_order_are_refused():
    with pytest.raises(ValueError, match="classes must be numbers, or texts, that scikit-learn can put in"):
        CalibratedClassifier(SGDClassifier(loss="log_loss"), classes=[1, "one"])


def test_partial_fit_declares_the_classes_at_its_first_call():
    model = CalibratedClassifier(naive_bayes.GaussianNB(), slack=1.0)
    X, y = next(arrays(["a", "b"]))
    with pytest.raises(NotFittedError, match="does not know its classes"):
        model.predict_proba(X)
    for classes, message in ((None, "must be given at the first call"), (["a"], "must hold at least 2")):
        with pytest.raises(ValueError, match=f"classes {message}"):
            model.partial_fit(X, y, classes=classes)
    with pytest.raises(ValueError, match="y at row 24 must be one of the classes"):
        model.partial_fit(X, [*y[:24], "c"], classes=["a", "b"])
    assert model.classes is None
    assert model.partial_fit(X, y, classes=np.array(["a", "b"])) is model
    assert (model.classes, model.slack, model.n_rounds, model.n_unmatched) == (["a", "b"], 1.0, 0, 25)
    assert model.predict_proba(X).shape == (25, 2)
    before = pickle.dumps(model)
    for rows, labels, classes, message in (
        (X, y, ["a", "c"], r"classes must be \['a', 'b'\], as before, got \['a', 'c'\]"),
        (X, [*y[:24], "c"], None, "y at row 24 must be one of the classes"),
        (X[0], y, None, r"X must be two-dimensional, .* got shape \(2,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            model.partial_fit(rows, labels, classes=classes)
    assert pickle.dumps(model) == before
    late = CalibratedClassifier(naive_bayes.GaussianNB())
    late.learn_one({"x": 1.0}, "a")
    with pytest.raises(ValueError, match="classes must be given before the first label"):
        late.partial_fit(X, y, classes=["a", "b"])
