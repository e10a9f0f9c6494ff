"""OnlineRecalibratedClassifier among scikit-learn's tools, and its map beside the one of the wrappers."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.datasets import load_wine
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from onlinecal import OnlineRecalibratedClassifier
from onlinecal.steering import binary
from onlinecal.steering.replaying import Schedule
from onlinecal.wrappers.strategies.projection import Projection
from onlinecal.wrappers.strategies.vectors import SteeredVectors

WINE, NUMBERS = load_wine(return_X_y=True)
SHUFFLED = np.random.default_rng(0).permutation(len(WINE))
WINE, NUMBERS = WINE[SHUFFLED], NUMBERS[SHUFFLED]
KINDS = np.array(["red", "white", "rose"])[NUMBERS]


def by_checks_of(estimator):
    pairs = [*estimator_checks_generator(OnlineRecalibratedClassifier(estimator, batch_size=10))]
    names = [getattr(check, "func", check).__name__ for _, check in pairs]
    return pytest.mark.parametrize(("estimator", "check"), pairs, ids=names)


@by_checks_of(GaussianNB())
@pytest.mark.filterwarnings("ignore")
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.slow
@by_checks_of(SGDClassifier(loss="log_loss", random_state=0))
@pytest.mark.filterwarnings("ignore")
def test_checks_of_scikit_learn_by_gradient(estimator, check):
    check(estimator)


def batches(k, count=40, size=25):
    """Features, and labels that these tell about."""
    rng = np.random.default_rng(1)
    for X in rng.normal(size=(count, size, k)):
        yield X, (X + rng.gumbel(size=X.shape)).argmax(axis=1)


BY_GRADIENT = SGDClassifier(loss="log_loss", eta0=5.0, random_state=0)


def played(k, estimator=BY_GRADIENT):
    """A classifier that has learnt the batches; what its model and what it said to all but the first."""
    model = OnlineRecalibratedClassifier(estimator)
    raw, answers, came = [], [], []
    for X, y in batches(k):
        if hasattr(model, "estimator_"):
            raw.append(model.estimator_.predict_proba(X))
            answers.append(model.predict_proba(X))
            came.append(y)
        model.partial_fit(X, y, classes=range(k))
    return model, *map(np.concatenate, (raw, answers, came))


@pytest.mark.parametrize("k", [2, 3])
def test_its_map_is_the_one_by_which_wrappers_steer_late_labels(k):
    model, raw, answers, came = played(k)
    rows = np.arange(len(came))
    schedule = Schedule(rows, rows // 25 * 25 + 25, np.ones(len(rows), np.bool_))
    if k == 2:
        steering = Projection(None, 1, None)
        steering.replay(raw[:, 1], came == 1, schedule)
        # in front is the ticket of a grid, which the map has none of
        own = slice(binary.TICKET_ALONE, binary.SIZE)
        assert np.array_equal(steering._state[own], model._map._state[own])
    else:
        steering = SteeredVectors()
        hints = steering.replay(raw, came, [0, 1, 2], schedule)
        assert np.array_equal(steering._state, model._map._state)
        # the first row of a batch is the next one that is asked about
        assert np.array_equal(hints[::25], answers[::25])
    assert np.allclose(answers.sum(axis=1), 1.0)
    assert log_loss(came, answers) < 0.95 * log_loss(came, raw)


def test_asking_changes_nothing_and_rows_are_answered_one_by_one():
    # this model's own probabilities are the same one by one, which those by a matrix product need not be
    model, *_ = played(2, GaussianNB())
    X, _ = next(batches(2))
    before = pickle.dumps(model)
    whole = model.predict_proba(X)
    alone = [model.predict_proba(X[[row]])[0] for row in reversed(range(len(X)))]
    assert np.array_equal(whole, alone[::-1])
    assert pickle.dumps(model) == before


def test_fit_starts_anew_and_goes_through_the_batches_in_order():
    once = OnlineRecalibratedClassifier(GaussianNB(), batch_size=20)
    for start in range(0, len(WINE), 20):
        rows = slice(start, start + 20)
        once.partial_fit(WINE[rows], KINDS[rows], classes=["rose", "white", "red"])
    assert once.classes_.tolist() == ["red", "rose", "white"]
    other = OnlineRecalibratedClassifier(GaussianNB(), batch_size=20).fit(WINE[:90, :3], NUMBERS[:90] > 0)
    frame = pd.DataFrame(WINE, columns=[f"x{column}" for column in range(WINE.shape[1])])
    for table in (WINE, frame, pl.DataFrame(frame.to_dict("list"))):
        answers = other.fit(table, KINDS).predict_proba(table)
        # columns of a DataFrame lie otherwise in memory, and are added up in another order
        assert np.allclose(answers, once.predict_proba(WINE), rtol=1e-9)
        assert hasattr(other, "feature_names_in_") == (table is not WINE)
    with pytest.raises(ValueError, match="feature names should match"):
        other.predict_proba(frame.rename(columns={"x0": "y0"}))


def test_in_pipelines_searches_and_cross_validation():
    inside = OnlineRecalibratedClassifier(SGDClassifier(loss="log_loss", random_state=0), batch_size=5)
    pipeline = make_pipeline(StandardScaler(), inside)
    assert is_classifier(pipeline)
    assert clone(inside).get_params()["estimator__alpha"] == 0.0001
    name = "onlinerecalibratedclassifier__"
    settings = [
        {f"{name}estimator__alpha": [alpha], f"{name}batch_size": [size]}
        for alpha, size in ((1e-4, 5), (1e-1, 50))
    ]
    search = GridSearchCV(pipeline, settings, scoring="neg_log_loss", cv=3).fit(WINE, KINDS)
    assert search.predict_proba(WINE).shape == (178, 3)
    answers = cross_val_predict(pipeline, WINE, KINDS, method="predict_proba", cv=3)
    assert log_loss(KINDS, answers) < 0.5
    assert (cross_val_predict(pipeline, WINE, KINDS, cv=3) == KINDS).mean() > 0.9


class Fewer(GaussianNB):
    """Keeps the probabilities of its last class for itself."""

    def predict_proba(self, X):
        return super().predict_proba(X)[:, :2]


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (SGDClassifier(), "got SGDClassifier: .* SGDClassifier has predict_proba with loss='log_loss'"),
        (make_pipeline(StandardScaler(), GaussianNB()), "got Pipeline: of a pipeline give the last step"),
        (FrozenEstimator(GaussianNB().fit(WINE, KINDS)), "got FrozenEstimator: .* RecalibratedClassifierCV"),
        (BaseEstimator(), "estimator must be a classifier with partial_fit and predict_proba"),
        (Fewer(), r"a column for each of the classes \['red', 'rose', 'white'\], got shape \(32, 2\)"),
    ],
    ids=["hinge", "pipeline", "frozen", "no classifier", "fewer columns"],
)
def test_what_cannot_be_recalibrated_is_refused(estimator, message):
    model = OnlineRecalibratedClassifier(estimator)
    with pytest.raises(ValueError, match=message):
        model.fit(WINE, KINDS)
    assert not hasattr(model, "classes_")


def test_weights_and_missing_classes_are_refused_and_a_single_batch_is_told():
    model = OnlineRecalibratedClassifier(GaussianNB())
    for learn in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match=r"sample_weight must be left out: .* counts each row as one"):
            learn(WINE, KINDS, sample_weight=np.ones(len(WINE)))
    with pytest.raises(ValueError, match="classes must be left out: rows are learnt by X and y alone"):
        model.fit(WINE, KINDS, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="classes must be given at the first call"):
        model.partial_fit(WINE, KINDS)
    with pytest.raises(ValueError, match="batch_size must be a whole number of at least 1, got 0"):
        clone(model).set_params(batch_size=0).fit(WINE, KINDS)
    with pytest.warns(UserWarning, match="with batch_size=200 the 178 rows are one batch"):
        model.set_params(batch_size=200).fit(WINE, KINDS)
