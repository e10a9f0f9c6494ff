"""RecalibratedClassifierCV among scikit-learn's tools, and DataFrames through every recalibrator."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from joblib import parallel_config
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_wine, make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, ShuffleSplit, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import estimator_checks_generator
from threadpoolctl import threadpool_limits

from onlinecal import LpRecalibrator, RecalibratedClassifierCV
from onlinecal.recalibration import TemperatureScaling

pytestmark = [
    pytest.mark.filterwarnings("ignore::onlinecal.recalibration.SampleSizeWarning"),
    pytest.mark.filterwarnings("ignore::onlinecal.LabelWarning"),
]
X, NUMBERS = load_wine(return_X_y=True)
Y = np.array(["red", "white", "rose"])[NUMBERS]
SCORES = make_pipeline(StandardScaler(), LinearSVC())


@pytest.fixture(autouse=True)
def small_tables():
    """Threads of BLAS would mostly wait for each other, new processes take longer than all the rest."""
    with threadpool_limits(1), parallel_config("threading"):
        yield


def by_checks_of(estimator):
    pairs = [*estimator_checks_generator(estimator)]
    names = [getattr(check, "func", check).__name__ for _, check in pairs]
    return pytest.mark.parametrize(("estimator", "check"), pairs, ids=names)


@by_checks_of(RecalibratedClassifierCV(GaussianNB(), cv=2))
@pytest.mark.filterwarnings("ignore")
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.slow
@by_checks_of(
    RecalibratedClassifierCV(
        LinearSVC(random_state=0), recalibrator=TemperatureScaling(), cv=2, ensemble=False
    )
)
@pytest.mark.filterwarnings("ignore")
def test_checks_of_scikit_learn_by_scores(estimator, check):
    check(estimator)


@pytest.mark.parametrize("ensemble", [True, False])
@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("classifier", [GaussianNB(), SCORES])
def test_temperature_scaling_is_that_of_scikit_learns_calibrated_classifier(classifier, binary, ensemble):
    rows, labels = (X[NUMBERS < 2], NUMBERS[NUMBERS < 2]) if binary else (X, NUMBERS)
    theirs = CalibratedClassifierCV(classifier, method="temperature", ensemble=ensemble)
    try:
        theirs.fit(rows, labels)
    except ValueError:
        pytest.skip("this scikit-learn has no temperature scaling")
    ours = RecalibratedClassifierCV(classifier, recalibrator=TemperatureScaling(), ensemble=ensemble).fit(
        rows, labels
    )
    assert len(ours.calibrated_classifiers_) == (5 if ensemble else 1)
    # theirs takes scores (-s, s) of two classes, ours (0, s): the same map, with another temperature
    assert np.abs(ours.predict_proba(rows) - theirs.predict_proba(rows)).max() < 2e-3


def test_it_is_searched_in_a_pipeline_and_lowers_the_loss_of_rows_held_out():
    inner = RecalibratedClassifierCV(
        GaussianNB(), recalibrator=LpRecalibrator(n_levels=5, tolerance=0.02), cv=3
    )
    grid = {"recalibratedclassifiercv__recalibrator__n_levels": [2, 6]}
    search = GridSearchCV(make_pipeline(StandardScaler(), inner), grid, scoring="neg_log_loss", cv=3)
    own, ours = (
        log_loss(Y, cross_val_predict(model, X, Y, cv=3, method="predict_proba"))
        for model in (GaussianNB(), search)
    )
    assert ours < own


def test_texts_frames_jobs_and_copies_change_nothing():
    model = RecalibratedClassifierCV(GaussianNB(), recalibrator=TemperatureScaling(), cv=3)
    expected = model.fit(X, np.array([0, 2, 1])[NUMBERS]).predict_proba(X)
    names = [f"x{i}" for i in range(X.shape[1])]
    for frame in (pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names)):
        model = clone(model).set_params(n_jobs=2).fit(frame, Y)
        assert model.classes_.tolist() == ["red", "rose", "white"]
        assert model.feature_names_in_.tolist() == names
        for twin in (model, pickle.loads(pickle.dumps(model)), clone(model).fit(frame, pd.Series(Y))):
            # frames lie otherwise in memory, sums differ by rounding, and the best temperature with them
            assert np.abs(twin.predict_proba(frame) - expected).max() < 1e-7
    for pair in model.calibrated_classifiers_:
        assert pair.recalibrator.classes_.tolist() == ["red", "rose", "white"]


class Recorder(ClassifierMixin, BaseEstimator):
    """Keeps what it was fitted on; a recalibrator and a classifier, with neither names nor skill."""

    def fit(self, X, y, sample_weight=None, tags=None):
        self.seen_ = np.asarray(X), np.asarray(y), sample_weight, tags
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.full((len(X), len(self.classes_)), 1.0 / len(self.classes_))


def test_weights_and_other_arguments_reach_their_rows():
    weights, tags = np.arange(len(Y)) + 1.0, np.arange(len(Y))
    model = RecalibratedClassifierCV(
        Recorder(), recalibrator=Recorder(), cv=KFold(3, shuffle=True, random_state=0)
    )
    model.fit(X, Y, sample_weight=weights, tags=tags)
    for pair, (train, test) in zip(model.calibrated_classifiers_, model.cv.split(X), strict=True):
        rows, labels, given, told = pair.estimator.seen_
        assert (rows == X[train]).all()
        assert (labels == Y[train]).all()
        assert (given == weights[train]).all()
        assert (told == tags[train]).all()
        _, numbers, given, told = pair.recalibrator.seen_
        assert (model.classes_[numbers] == Y[test]).all()
        assert (given == weights[test]).all()
        assert told is None
    model = RecalibratedClassifierCV(Recorder(), recalibrator=Recorder(), cv=3, ensemble=False).fit(
        X, Y, weights
    )
    assert sorted(model.calibrated_classifiers_[0].recalibrator.seen_[2]) == weights.tolist()
    with sklearn.config_context(enable_metadata_routing=True):
        inner = Recorder().set_fit_request(sample_weight=False, tags=True)
        outer = Recorder().set_fit_request(sample_weight=True, tags=False)
        model = RecalibratedClassifierCV(inner, recalibrator=outer, cv=GroupKFold(3))
        model.fit(X, Y, sample_weight=weights, tags=tags, groups=tags % 3)
        (pair, *_) = model.calibrated_classifiers_
        assert pair.estimator.seen_[2] is None
        assert len(set(pair.estimator.seen_[3] % 3)) == 2
        assert pair.recalibrator.seen_[2] is not None
        RecalibratedClassifierCV(GaussianNB().set_fit_request(sample_weight=True)).fit(X, Y)


class Unweighted(Recorder):
    def fit(self, X, y):
        return super().fit(X, y)


def made_of(estimator, recalibrator=None):
    return RecalibratedClassifierCV(estimator, recalibrator=recalibrator)


def test_who_takes_no_weights_and_that_there_are_fewer_folds_is_said():
    weights, rare = np.ones(len(Y)), np.where(np.arange(len(Y)) % 60 == 0, "rare", "often")
    for model, labels, message in (
        ((KNeighborsClassifier(), Recorder()), Y, "estimator KNeighborsClassifier takes no sample_weight"),
        ((GaussianNB(), Unweighted()), Y, "recalibrator Unweighted takes no sample_weight"),
        ((GaussianNB(),), rare, r"cv=5 becomes 3: there are 3 rows of class 'rare'"),
    ):
        with pytest.warns(UserWarning, match=message) as caught:
            fitted = made_of(*model).fit(X, labels, sample_weight=weights)
        assert {warned.filename for warned in caught if warned.category is UserWarning} == {__file__}
    assert len(fitted.calibrated_classifiers_) == 3


def test_a_frozen_classifier_is_asked_about_all_rows():
    frozen = FrozenEstimator(GaussianNB().fit(X[::2], Y[::2]))
    rows, labels = X[1::2], Y[1::2]
    model = RecalibratedClassifierCV(frozen, recalibrator=TemperatureScaling()).fit(rows, labels)
    (pair,) = model.calibrated_classifiers_
    assert pair.estimator is frozen
    alone = TemperatureScaling().fit(frozen.predict_proba(rows), np.searchsorted(frozen.classes_, labels))
    assert (model.predict_proba(X) == alone.predict_proba(frozen.predict_proba(X))).all()
    # a class that it knows, and that does not come
    some = labels != "red"
    assert RecalibratedClassifierCV(frozen).fit(rows[some], labels[some]).classes_.tolist() == sorted(set(Y))


def test_folds_may_lack_a_class_or_rows():
    order = np.argsort(NUMBERS, kind="stable")
    table = RecalibratedClassifierCV(GaussianNB(), cv=KFold(3)).fit(X[order], Y[order]).predict_proba(X)
    assert table.shape == (len(Y), 3)
    assert np.allclose(table.sum(axis=1), 1.0)
    some = ShuffleSplit(2, test_size=0.3, random_state=0)
    for ensemble in (True, False):
        told = [
            RecalibratedClassifierCV(GaussianNB(), cv=cv, ensemble=ensemble).fit(X, Y).predict_proba(X)
            for cv in (some, list(some.split(X)))
        ]
        assert (told[0] == told[1]).all()


def test_scores_of_any_size_keep_what_they_say():
    rows, labels = make_classification(600, n_informative=5, random_state=0)
    rows = 1e4 * rows
    huge, small = (SGDClassifier(random_state=0).fit(rows[:200], labels[:200]) for _ in range(2))
    small.coef_, small.intercept_ = small.coef_ * 1e-9, small.intercept_ * 1e-9
    assert np.abs(huge.decision_function(rows)).max() > 1e4
    answers, others = (
        RecalibratedClassifierCV(FrozenEstimator(one))
        .fit(rows[200:400], labels[200:400])
        .predict_proba(rows[400:])
        for one in (huge, small)
    )
    assert np.abs(answers - others).max() < 0.01
    assert log_loss(labels[400:], answers) < 0.6


def test_shares_of_neighbours_that_are_zero_are_less_than_one_neighbour():
    rows, labels = make_classification(1000, n_informative=5, flip_y=0.1, random_state=0)
    ours = RecalibratedClassifierCV(KNeighborsClassifier(10), recalibrator=TemperatureScaling())
    theirs = CalibratedClassifierCV(KNeighborsClassifier(10))
    losses = [
        log_loss(labels[500:], one.fit(rows[:500], labels[:500]).predict_proba(rows[500:]))
        for one in (ours, theirs)
    ]
    assert {pair.reading for pair in ours.calibrated_classifiers_} == {0.05}
    assert losses[0] < 1.02 * losses[1]


class Crooked(Recorder):
    def predict_proba(self, X):
        table = super().predict_proba(X)
        table[1] *= 1.1
        return table


@pytest.mark.parametrize(
    ("settings", "labels", "message"),
    [
        ({"estimator": StandardScaler()}, Y, "estimator must be a classifier .* got StandardScaler"),
        ({"recalibrator": StandardScaler()}, Y, "recalibrator must have fit and predict_proba, got Standard"),
        ({"cv": "prefit"}, Y, r"cv must be .* got 'prefit': .*FrozenEstimator\(classifier\)"),
        ({"ensemble": "yes"}, Y, "ensemble must be True, False or 'auto', got 'yes'"),
        ({}, np.where(np.arange(len(Y)) < 1, "rare", "often"), "cv=5 needs at least 2 .* 1 of class 'rare'"),
        ({}, np.full(len(Y), "same"), "y must have labels of at least two classes, got one class: 'same'"),
        ({"estimator": FrozenEstimator(GaussianNB().fit(X, Y))}, NUMBERS, "labels that the frozen .* got 0"),
        (
            {"estimator": Crooked()},
            Y,
            r"Crooked.predict_proba must sum to 1 in every row, got 1\.1.* at row 1",
        ),
        (
            {"estimator": SVC(decision_function_shape="ovo")},
            np.arange(len(Y)) % 4,
            "column for each of the 4",
        ),
        (
            {"cv": [(np.arange(9), [])]},
            Y,
            "cv must have rows in both parts, .* of every fold, got 9 and 0 in fold 0",
        ),
        *(({"cv": cv}, Y, f"cv must be a whole number of at least 2, got {cv}") for cv in (0, 1, -5, True)),
        *(
            (
                {"cv": cv},
                Y,
                f"cv must be .* pairs .* of row numbers from 0 to {len(Y) - 1}, got",
            )
            for cv in ((1, 2), [(range(9), ["a"])], [(np.arange(9), [len(Y)])], [(range(9),)])
        ),
        ({"cv": []}, Y, "cv must have at least one fold"),
    ],
)
def test_what_cannot_be_is_named(settings, labels, message):
    with pytest.raises(ValueError, match=message):
        RecalibratedClassifierCV(**{"estimator": GaussianNB(), **settings}).fit(X, labels)


TABLE = np.random.default_rng(0).dirichlet([1.0, 1.0, 1.0], 200)
NAMES = ["cat", "dog", "fox"]
LABELS = np.array(NAMES)[(TABLE.cumsum(axis=1) < np.random.default_rng(1).random((200, 1))).sum(axis=1)]
EXPECTED = TemperatureScaling(classes=NAMES).fit(TABLE, LABELS).predict_proba(TABLE)


@pytest.mark.parametrize("frame", [pd.DataFrame(TABLE, columns=NAMES), pl.DataFrame(TABLE, schema=NAMES)])
def test_frames_name_their_classes_and_come_out_named(frame):
    model = TemperatureScaling().fit(frame, LABELS)
    assert model.classes_.tolist() == model.get_feature_names_out().tolist() == NAMES
    for kind, made in (("pandas", pd.DataFrame), ("polars", pl.DataFrame), ("default", np.ndarray)):
        out = model.set_output(transform=kind).transform(frame)
        assert isinstance(out, made)
        assert (np.asarray(out) == EXPECTED).all()
        assert kind == "default" or list(out.columns) == NAMES
        assert isinstance(model.predict_proba(frame), np.ndarray)
    with pytest.raises(ValueError, match=r"one of the classes .*, got 'cow' at row"):
        TemperatureScaling().fit(frame, np.where(LABELS == "dog", "cow", LABELS))
    numbers = TemperatureScaling().fit(frame, np.searchsorted(NAMES, LABELS))
    assert numbers.classes_.tolist() == [0, 1, 2]
    assert numbers.get_feature_names_out().tolist() == NAMES


def test_labels_may_be_one_hot():
    hot = pd.get_dummies(pd.Series(LABELS))
    for given in (hot.to_numpy(float).tolist(), hot[["fox", "cat", "dog"]], pl.from_pandas(hot)):
        model = TemperatureScaling(classes=NAMES).fit(TABLE, given)
        assert (model.predict_proba(TABLE) == EXPECTED).all()
    for bad, message in (
        (np.ones((200, 2)), r"y must have shape \(n,\), or one-hot \(n, 3\), got \(200, 2\)"),
        (
            np.where(np.arange(200)[:, None] == 7, 1, hot),
            r"a single 1, and 0 elsewhere, in every row, got .* at row 7",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            TemperatureScaling().fit(TABLE, bad)
