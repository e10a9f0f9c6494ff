"""What can be wrapped; what the wrappers refuse, or warn of: models, settings, labels, answers."""

import warnings

import numpy as np
import pytest
from river import (
    anomaly,
    cluster,
    compat,
    compose,
    datasets,
    linear_model,
    multiclass,
    multioutput,
    naive_bayes,
    optim,
    preprocessing,
)
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import SGDClassifier
from sklearn.svm import LinearSVC

from onlinecal import (
    BinnedMean,
    CalibratedClassifier,
    DecisionCalibratedClassifier,
    GroupCalibratedClassifier,
    LabelWarning,
    LpCalibratedClassifier,
    PlattScaling,
)
from tests.estimators import learn
from tests.wrappers.scripted import Said, Scripted


@pytest.mark.parametrize(
    "wrap",
    [
        CalibratedClassifier,
        PlattScaling,
        LpCalibratedClassifier,
        lambda model: GroupCalibratedClassifier(model, ["a"]),
    ],
)
def test_a_weight_that_would_reach_the_model_alone_is_refused_and_nothing_is_learnt(wrap):
    model = wrap(linear_model.LogisticRegression())
    model.predict_proba_one({"a": 1.0})
    with pytest.raises(ValueError, match=r"w must be left out, got 2\.0: only the wrapped model would learn"):
        model.learn_one({"a": 1.0}, True, w=2.0)
    assert model.predict_proba_one({"a": 1.0}) == wrap(linear_model.LogisticRegression()).predict_proba_one(
        {"a": 1.0}
    )
    model.learn_one({"a": 1.0}, True, w=np.int64(1))


@pytest.mark.parametrize(
    ("wrap", "settings", "message"),
    [
        (CalibratedClassifier, {"slack": 0.4}, r"slack must be a number from 0\.5 to 1000, got 0\.4"),
        (CalibratedClassifier, {"n_buckets": 0}, "n_buckets must be a whole number of at least 1, got 0"),
        (
            CalibratedClassifier,
            {"n_buckets": "AUTO"},
            "n_buckets must be .* at least 1 or 'auto', got 'AUTO'",
        ),
        (CalibratedClassifier, {"horizon": 0}, "horizon must be a whole number of at least 1, got 0"),
        (CalibratedClassifier, {"most_waiting": 0}, "most_waiting must be a whole number of at least 1"),
        (
            CalibratedClassifier,
            {"strategy": "simples"},
            "strategy must be one of auto, binary, simplex, top-label, classwise, tree, got 'simples'",
        ),
        (CalibratedClassifier, {"strategy": "simplex", "window": 10}, "simplex"),
        (CalibratedClassifier, {"n_buckets": "auto", "window": 10}, "window=10 does not go with n_buckets"),
        (CalibratedClassifier, {"window": 1.5}, "window must be a whole number"),
        (BinnedMean, {"n_bins": 0}, "n_bins must be a whole number of at least 1, got 0"),
        (PlattScaling, {"optimizer": optim.SGD}, "optimizer must be a river optimizer"),
        (PlattScaling, {"optimizer": 0.05}, "optimizer must be a river optimizer"),
    ],
)
def test_bad_settings_are_refused(wrap, settings, message):
    with pytest.raises(ValueError, match=message):
        wrap(Said(), **settings)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        *[(share, "between 0 and 1 go with AlmostOneStepAhead") for share in (0.7, np.float32(0.5))],
        *[
            (soft, "soft labels go with SimplexAlmostOneStepAhead")
            for soft in ({"a": 0.5, "b": 0.5}, [0.5, 0.5], np.array([0.5, 0.5]))
        ],
    ],
)
@pytest.mark.parametrize("settings", [{}, {"strategy": "binary"}, {"classes": ["a", "b"]}])
def test_shares_and_soft_labels_are_refused_with_what_takes_them(y, message, settings):
    model = CalibratedClassifier(Said(), **settings)
    with pytest.raises(ValueError, match=f"y must be a class label, got .* {message}"):
        model.learn_one({"p": 0.5}, y)
    assert model.n_rounds == 0
    # whole numbers are labels, whatever their type
    model.learn_one({"p": 0.5}, "a" if "classes" in settings else 2.0)


@pytest.mark.parametrize("strategy", ["simplex", "classwise", "top-label", "tree"])
def test_an_answer_that_does_not_sum_to_one_is_warned_of_once(strategy):
    model, odd = CalibratedClassifier(Scripted(), strategy=strategy), {"u": 0.9, "v": 0.3, "w": 0.3}
    for t, label in enumerate("uvwuvw"):
        x = {"answer": {"u": np.float32(0.5), "v": np.float32(0.3), "w": np.float32(0.2)}, "t": t}
        model.predict_proba_one(x)
        model.learn_one(x, label)
    with pytest.warns(LabelWarning, match=r"classifier .* sum to 1\.5: they are divided by that") as warned:
        model.predict_proba_one({"answer": odd})
    assert warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict_proba_one({"answer": odd, "t": 1})


WRAPPERS = {
    "CalibratedClassifier": CalibratedClassifier,
    "DecisionCalibratedClassifier": DecisionCalibratedClassifier,
    "GroupCalibratedClassifier": lambda model: GroupCalibratedClassifier(model, ["g"]),
    "LpCalibratedClassifier": LpCalibratedClassifier,
    "PlattScaling": PlattScaling,
    "BinnedMean": BinnedMean,
}
REFUSED = {
    "a regressor": (linear_model.LinearRegression(), "got LinearRegression, a regressor"),
    "a class": (
        naive_bayes.GaussianNB,
        r"must be a model, got the class GaussianNB: write GaussianNB\(\.\.\.\)",
    ),
    "a class that is none of river's": (dict, "must be a model, got the class dict"),
    "scikit-learn": (
        SGDClassifier(loss="log_loss"),
        r"got SGDClassifier of scikit-learn: wrap river\.compat\.convert_sklearn_to_river\(model, classes=",
    ),
    "scikit-learn, all at once": (
        RandomForestClassifier(),
        r"cannot learn online .* with a recalibrator",
    ),
    "scikit-learn, no probabilities": (LinearSVC(), "no probabilities"),
    "a transformer": (preprocessing.StandardScaler(), "StandardScaler, a transformer: end the pipeline"),
    "a pipeline to a regressor": (
        preprocessing.StandardScaler() | linear_model.LinearRegression(),
        "a pipeline that ends in LinearRegression, a regressor",
    ),
    "a pipeline to a transformer": (
        compose.Pipeline(preprocessing.StandardScaler(), preprocessing.MinMaxScaler()),
        "a pipeline that ends in MinMaxScaler, a transformer",
    ),
    "an empty pipeline": (compose.Pipeline(), "an empty pipeline"),
    "an anomaly detector": (anomaly.HalfSpaceTrees(), "HalfSpaceTrees, an anomaly detector"),
    "a clusterer": (cluster.KMeans(), "must be a river classifier, got KMeans"),
    "several labels at once": (
        multioutput.ClassifierChain(linear_model.LogisticRegression()),
        "several labels at once",
    ),
    "no probabilities": (
        multiclass.OneVsOneClassifier(linear_model.LogisticRegression()),
        "must answer with probabilities, got OneVsOneClassifier, which only names labels",
    ),
    "nothing": (None, "must be a river classifier, got NoneType"),
    "a name": ("logistic", "must be a river classifier, got str"),
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_no_classifier_is_refused_when_the_wrapper_is_made(wrapper, kind):
    model, text = REFUSED[kind]
    with pytest.raises(ValueError, match=f"^classifier must .*{text.removeprefix('must ')}"):
        WRAPPERS[wrapper](model)


class Own:
    """Has what is needed, and is none of river's."""

    def learn_one(self, x, y):
        pass

    def predict_proba_one(self, x):
        return {False: 0.25, True: 0.75}


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize(
    "model",
    [
        preprocessing.StandardScaler() | linear_model.LogisticRegression(),
        preprocessing.StandardScaler() | BinnedMean(linear_model.LogisticRegression()),
        multiclass.OneVsRestClassifier(linear_model.LogisticRegression()),
        compat.convert_sklearn_to_river(SGDClassifier(loss="log_loss"), classes=[False, True]),
        Own(),
    ],
    ids=["pipeline", "pipeline to a wrapper", "one against the rest", "converted", "own"],
)
def test_whatever_answers_with_probabilities_can_be_wrapped(wrapper, model):
    wrapped = WRAPPERS[wrapper](model)
    for t in range(3):
        wrapped.predict_proba_one({"g": 1.0})
        wrapped.learn_one({"g": 1.0}, t == 1)
    assert sum(wrapped.predict_proba_one({"g": 1.0}).values()) == pytest.approx(1.0)


def test_wrappers_work_on_either_side_of_a_pipeline():
    inside = preprocessing.StandardScaler() | CalibratedClassifier(linear_model.LogisticRegression())
    outside = CalibratedClassifier(
        compose.Pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression())
    )
    rounds = list(datasets.Phishing().take(400))
    assert learn(inside, rounds)[-1].keys() == learn(outside, rounds)[-1].keys()
    assert inside[-1].certificate <= inside[-1].guarantee
