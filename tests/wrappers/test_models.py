"""What cannot be wrapped is refused when the wrapper is made, with what to do; pipelines can be wrapped."""

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
    LpCalibratedClassifier,
    PlattScaling,
)
from tests.estimators import learn

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
