"""What can be wrapped; what the wrappers refuse, or warn of: models, settings, labels, answers."""

from datetime import timedelta
from functools import partial

import numpy as np
import polars as pl
import pytest
from river import (
    anomaly,
    compat,
    compose,
    linear_model,
    multiclass,
    multioutput,
    naive_bayes,
    optim,
    preprocessing,
)
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import SGDClassifier

from onlinecal import (
    BinnedMean,
    CalibratedClassifier,
    CombinedClassifier,
    DecisionCalibratedClassifier,
    GroupCalibratedClassifier,
    LpCalibratedClassifier,
    PlattScaling,
)
from onlinecal.wrappers.groups import EVERYONE
from tests.ids import short
from tests.wrappers.scripted import Said, Scripted

WRAPPERS = {
    "CalibratedClassifier": CalibratedClassifier,
    "DecisionCalibratedClassifier": DecisionCalibratedClassifier,
    "GroupCalibratedClassifier": lambda model: GroupCalibratedClassifier(model, ["g"]),
    "LpCalibratedClassifier": LpCalibratedClassifier,
    "PlattScaling": PlattScaling,
    "BinnedMean": BinnedMean,
}
each = pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
linear, logistic = linear_model.LinearRegression, linear_model.LogisticRegression

BAD_SETTINGS = {
    CalibratedClassifier: [
        ({"slack": 0.4}, r"slack must be a number from 0\.5 to 1000, got 0\.4"),
        ({"n_buckets": 0}, "n_buckets must be a whole number of at least 1, got 0"),
        ({"n_buckets": "auto"}, "n_buckets must be a whole number of at least 1, got 'auto'"),
        ({"horizon": 0}, "horizon must be a whole number of at least 1, got 0"),
        (
            {"strategy": "simples"},
            "must be one of auto, binary, simplex, top-label, classwise, tree, got 'sim",
        ),
        ({"most_waiting": 0}, "most_waiting must be a whole number of at least 1, got 0"),
        ({"strategy": "simplex", "window": 10}, "simplex"),
        *(({"window": window}, "window") for window in (0, 1.5, "10")),
        *(({"classes": classes}, "classes .*must") for classes in (["a"], ["a", "a"], "ab", [None, 1])),
        ({"expire_as": False}, "expire_as=False needs expire_after"),
        ({"moment": "day"}, "moment='day' needs expire_after"),
        (
            {"expire_after": timedelta(1)},
            "expire_after=.* needs moment=, the name of the feature that says when",
        ),
        ({"expire_after": -1.0, "moment": "day"}, "expire_after must be a span above 0, .* got -1.0"),
        (
            {"expire_after": 5, "moment": 3},
            "moment must be the name of a feature, or a function of all features, got 3",
        ),
        (
            {"expire_after": 5, "expire_as": "no", "classes": [False, True]},
            r"expire_as must be one of the classes .* got 'no'",
        ),
    ],
    GroupCalibratedClassifier: [
        ({"groups": []}, "groups is empty"),
        ({"groups": 3}, "groups must be a dict of names and functions of x, or a list of .*, got 3"),
        ({"groups": {"a": 3}}, "groups must map names, as texts, to functions of x, got 'a': 3"),
        ({"groups": {EVERYONE: bool}}, "groups must have other names than 'everyone', which stands"),
        ({"groups": ["a"], "scheme": "x"}, "scheme must be one of atoms, shared, got 'x'"),
        (
            {"groups": ["a"], "horizon": 9},
            "n_atoms must be given where groups are names of features and there is a horizon",
        ),
    ],
    DecisionCalibratedClassifier: [
        ({"memory": "endless"}, "memory must be one of window, reservoir, got 'endless'"),
        ({"capacity": 5}, "capacity must be a whole number of at least 10, got 5"),
        ({"first_fit": 0}, "first_fit must be a whole number of at least 10, got 0"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"seed": "one"}, "seed must be a whole number of at least 0, got 'one'"),
        *(({"classes": classes}, "classes .*must") for classes in (["a", "a"], "ab", [None, 1], [[1]], 5)),
    ],
    LpCalibratedClassifier: [
        ({"epsilon": 2}, "epsilon must be a number between 0 and 1, got 2"),
        ({"window": 5}, "window must be a whole number of at least 8, got 5"),
        ({"fading": 1.0}, r"fading must be a number between 0 and 1, got 1\.0"),
        ({"fading": 0.9, "window": 80}, "window and fading exclude each other, got 80 and 0.9: leave"),
        ({"within": "shift", "estimation": "pools"}, "within='shift' needs"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
    ],
    BinnedMean: [({"n_bins": 0}, "n_bins must be a whole number of at least 1, got 0")],
    PlattScaling: [({"optimizer": optim.SGD}, "optimizer must be a river optimizer")],
}
BAD = [
    *((partial(kind, **one), message) for kind, found in BAD_SETTINGS.items() for one, message in found),
    (lambda model: CombinedClassifier([model]), "classifiers must be of at least 2 models, got 1"),
    (lambda model: CombinedClassifier("ab"), "classifiers must be a list of river classifiers, got str"),
    (lambda model: CombinedClassifier([model, linear()]), r"classifiers\[1\] must be a river"),
    (lambda model: CombinedClassifier([model] * 2), "different objects, got the same at places 0 and 1"),
]


@pytest.mark.parametrize(("make", "message"), BAD)
def test_bad_settings_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make(Said())


REFUSED = [
    (linear(), "got LinearRegression: it must answer with probabilities"),
    (naive_bayes.GaussianNB, r"must be a model, got the class GaussianNB: write GaussianNB\(\.\.\.\)"),
    (
        SGDClassifier(),
        r"got SGDClassifier: .* river\.compat\.convert_sklearn_to_river\(SGDClassifier\(\.\.\.\), ",
    ),
    (
        compat.SKL2RiverClassifier(SGDClassifier(loss="log_loss"), ["up", "down"]),
        r"must be converted from scikit-learn with classes in order, .* Write classes=\['down', 'up'\]",
    ),
    (RandomForestClassifier(), "got RandomForestClassifier: .* learn online"),
    (preprocessing.StandardScaler() | linear(), "a pipeline that ends in LinearRegression"),
    (compose.Pipeline(), "a pipeline that ends in NoneType"),
    (anomaly.HalfSpaceTrees(), "got HalfSpaceTrees"),
    (multioutput.ClassifierChain(logistic()), "got ClassifierChain"),
    (multiclass.OneVsOneClassifier(logistic()), "got OneVsOneClassifier: it must answer with probabilities"),
    (None, "must be a river classifier, got NoneType"),
]


@each
@pytest.mark.parametrize(("model", "text"), REFUSED, ids=[short(text) for _, text in REFUSED])
def test_what_is_no_classifier_is_refused(wrap, model, text):
    with pytest.raises(ValueError, match=f"^classifier must .*{text.removeprefix('must ')}"):
        wrap(model)


class Own:
    """Has what is needed, and is none of river's."""

    def learn_one(self, x, y):
        pass

    def predict_proba_one(self, x):
        return {False: 0.25, True: 0.75}


@each
@pytest.mark.parametrize(
    "build",
    [
        lambda: preprocessing.StandardScaler() | BinnedMean(logistic()),
        lambda: multiclass.OneVsRestClassifier(logistic()),
        lambda: compat.convert_sklearn_to_river(SGDClassifier(loss="log_loss"), classes=[False, True]),
        Own,
    ],
    ids=["to a wrapper", "against the rest", "converted", "own"],
)
def test_whatever_has_probabilities_can_be_wrapped(wrap, build):
    inside = build()
    model, x = wrap(inside), {"v": 3, "g": 1}
    assert model.classifier is inside
    for t in range(30):
        model.predict_proba_one({"v": t % 7, "g": t % 2})
        model.learn_one({"v": t % 7, "g": t % 2}, t % 3 == 0)
    assert model.raw_proba_one(x) == inside.predict_proba_one(x)
    assert sum(model.predict_proba_one(x).values()) == pytest.approx(1.0)


@each
def test_a_weight_that_would_reach_the_model_alone_is_refused(wrap):
    model = wrap(logistic())
    model.predict_proba_one({"a": 1.0})
    with pytest.raises(ValueError, match=r"w must be left out, got 2\.0: only the wrapped model would learn"):
        model.learn_one({"a": 1.0}, True, w=2.0)
    assert model.predict_proba_one({"a": 1.0}) == wrap(logistic()).predict_proba_one({"a": 1.0})
    model.learn_one({"a": 1.0}, True, w=np.int64(1))


SHARES = [0.7, np.float64(0.25), np.float32(0.5)]
SOFT = [{"a": 0.5, "b": 0.5}, [0.5, 0.5], np.array([0.5, 0.5])]
TAKES_THEM = {"AlmostOneStepAhead": SHARES, "SimplexAlmostOneStepAhead": SOFT}


@pytest.mark.parametrize("classes", [None, ["a", "b"]])
@pytest.mark.parametrize("takes", TAKES_THEM)
def test_shares_and_soft_labels_are_refused_with_what_takes_them(takes, classes):
    model = CalibratedClassifier(Scripted(), classes=classes)
    for y in TAKES_THEM[takes]:
        with pytest.raises(ValueError, match=rf"y must be a class label, got .* {takes}, "):
            model.learn_one({"answer": {"a": 0.5, "b": 0.5}}, y)
    assert (model.n_rounds, model.n_unmatched) == (0, 0)
    # nor are they kept until silence is over
    model = CalibratedClassifier(Scripted(), classes=classes, expire_after=2, expire_as="b")
    model.predict_proba_one({"answer": {"a": 0.5, "b": 0.5}})
    for y in TAKES_THEM[takes]:
        with pytest.raises(ValueError, match="y must be a class label"):
            model.learn_one({"answer": {"a": 0.5, "b": 0.5}}, y)
    # whole numbers are labels, whatever their type
    CalibratedClassifier(Scripted()).learn_one({"answer": {}}, 2.0)


@each
def test_every_wrapper_refuses_shares_and_soft_labels_and_learns_nothing(wrap):
    model = wrap(logistic())
    x = {"a": 1.0}
    before = model.predict_proba_one(x)
    for y in (0.3, {"a": 0.5, "b": 0.5}):
        with pytest.raises(ValueError, match=r"y must be a class label, got .*: models learn from labels"):
            model.learn_one(x, y)
    with pytest.raises(ValueError, match=r"y at row 1 must be a class label, got 0\.3"):
        model.learn_many(pl.DataFrame([x, x]), [True, 0.3])
    assert model.predict_proba_one(x) == before == wrap(logistic()).predict_proba_one(x)


def test_labels_that_were_not_declared_are_refused_and_nothing_changes():
    model = CalibratedClassifier(Scripted(), classes=["no", "yes"])
    x = {"answer": {"no": 0.9, "yes": 0.1}}
    # known before the first round
    assert set(model.predict_proba_one(x)) == {"no", "yes"}
    assert set(model.certified_proba_one(x)) == {"yes"}
    with pytest.raises(ValueError, match=r"y must be one of the classes \['no', 'yes'\], got 'maybe'"):
        model.learn_one(x, "maybe")
    assert (model.certificate, model.n_rounds, model.n_open) == (0.0, 0, 1)


@pytest.mark.parametrize("wrap", [WRAPPERS["CalibratedClassifier"], WRAPPERS["GroupCalibratedClassifier"]])
def test_a_text_for_the_other_label_alone_is_refused_as_no_probability(wrap):
    model = wrap(Scripted())
    lives(model, {False: 0.4, True: 0.6})
    model.learn_one({"g": 1, "answer": {False: 0.4}}, False)
    with pytest.raises(ValueError, match=r"classifier must answer with numbers as .* got {False:"):
        model.predict_proba_one({"g": 1, "answer": {False: "0.4"}})


def lives(model, answer):
    """Three rounds of a model that answers the same."""
    for _ in range(3):
        x = {"g": 1, "answer": answer}
        model.predict_proba_one(x)
        model.learn_one(x, True)


@pytest.mark.parametrize("said", [None, "0.5"])
@pytest.mark.parametrize(
    "wrap",
    [*WRAPPERS.values(), lambda model: CombinedClassifier([model, Scripted()])],
    ids=[*WRAPPERS, "two"],
)
def test_a_model_whose_probabilities_are_none_is_refused_in_words(wrap, said):
    with pytest.raises(
        ValueError, match=rf"classifier(s\[0\])? must answer with numbers as probabilities, got {said!r}"
    ):
        lives(wrap(Scripted()), {False: said, True: said})


def test_probabilities_of_several_labels_that_are_none_are_refused_in_words():
    model = CalibratedClassifier(Scripted(), classes=["a", "b", "c"])
    with pytest.raises(ValueError, match=r"classifier must answer with numbers .*, got \{'a': 'much'"):
        model.predict_proba_one({"answer": {"a": "much", "b": 0.5, "c": 0.1}})
