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
    ("settings", "message"),
    [
        ({"slack": 0.4}, r"slack must be a number from 0\.5 to 1000, got 0\.4"),
        ({"n_buckets": 0}, "n_buckets must be a whole number of at least 1, got 0"),
        ({"horizon": 0}, "horizon must be a whole number of at least 1, got 0"),
        (
            {"strategy": "simples"},
            "strategy must be one of auto, binary, simplex, top-label, classwise, tree, got 'simples'",
        ),
    ],
    ids=str,
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        CalibratedClassifier(Said(), **settings)


def test_bad_bins_are_refused():
    with pytest.raises(ValueError, match="n_bins must be a whole number of at least 1, got 0"):
        BinnedMean(Said(), n_bins=0)


@pytest.mark.parametrize("share", [0.7, np.float64(0.25), np.float32(0.5)])
@pytest.mark.parametrize("strategy", ["auto", "binary"])
def test_shares_are_refused_with_what_takes_them(share, strategy):
    model = CalibratedClassifier(Said(), strategy=strategy)
    with pytest.raises(ValueError, match=r"y must be .*, got .* between 0 and 1 go with AlmostOneStepAhead"):
        model.learn_one({"p": 0.5}, share)
    assert model.n_rounds == 0
    # whole numbers are labels, whatever their type
    model.learn_one({"p": 0.5}, 2.0)


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


@pytest.mark.parametrize("soft", [{"a": 0.5, "b": 0.5}, [0.5, 0.5], np.array([0.5, 0.5])])
def test_soft_labels_are_refused_with_what_takes_them(soft):
    model = CalibratedClassifier(Scripted(), classes=["a", "b"])
    with pytest.raises(
        ValueError, match=r"y must be a class label, .* soft labels go with SimplexAlmostOneStepAhead"
    ):
        model.learn_one({"answer": {"a": 0.5, "b": 0.5}}, soft)
    assert model.n_rounds == 0


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


@pytest.mark.parametrize("bad", [optim.SGD, 0.05])
def test_platts_optimizer_is_an_object(bad):
    with pytest.raises(ValueError, match="optimizer must be a river optimizer"):
        PlattScaling(naive_bayes.GaussianNB(), bad)


@pytest.mark.parametrize("build", WRAPPERS.values(), ids=WRAPPERS)
def test_the_answer_of_the_wrapped_model_can_be_had(build):
    inside = naive_bayes.GaussianNB()
    model = build(inside)
    for place in range(30):
        model.learn_one({"v": place % 7, "g": place % 2}, place % 3 == 0)
    x = {"v": 3, "g": 1}
    assert model.raw_proba_one(x) == inside.predict_proba_one(x)
    assert sum(model.predict_proba_one(x).values()) == pytest.approx(1.0)


def test_wrappers_work_on_either_side_of_a_pipeline():
    inside = preprocessing.StandardScaler() | CalibratedClassifier(linear_model.LogisticRegression())
    outside = CalibratedClassifier(
        compose.Pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression())
    )
    rounds = list(datasets.Phishing().take(400))
    assert learn(inside, rounds)[-1].keys() == learn(outside, rounds)[-1].keys()
    assert inside[-1].certificate <= inside[-1].guarantee
