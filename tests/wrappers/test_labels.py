"""Labels are those that came, whatever a model calls them: none is made up, and no skill is lost."""

import math
import random
from collections import Counter
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd
import pytest
from river import active, base, linear_model

from onlinecal import (
    BinnedMean,
    CalibratedClassifier,
    CombinedClassifier,
    DecisionCalibratedClassifier,
    GroupCalibratedClassifier,
    LpCalibratedClassifier,
    PlattScaling,
)
from onlinecal.remarks import LabelWarning
from onlinecal.wrappers.strategies.choice import STRATEGIES
from tests.wrappers.scripted import Scripted, Told

WRAPPERS = {
    "calibrated": CalibratedClassifier,
    "classwise": lambda model: CalibratedClassifier(model, strategy="classwise"),
    "top-label": lambda model: CalibratedClassifier(model, strategy="top-label"),
    "simplex": lambda model: CalibratedClassifier(model, strategy="simplex"),
    "tree": lambda model: CalibratedClassifier(model, strategy="tree"),
    "atoms": lambda model: GroupCalibratedClassifier(model, {"any": bool}),
    "shared": lambda model: GroupCalibratedClassifier(model, {"any": bool}, scheme="shared"),
    "combined": lambda model: CombinedClassifier([model, model.clone()]),
    "lp": LpCalibratedClassifier,
    # fitted once in a stream of these tests: that is what takes long
    "decisions": lambda model: DecisionCalibratedClassifier(model, first_fit=200, n_actions=2),
    "platt": PlattScaling,
    "bins": BinnedMean,
    "bins inside": lambda model: CalibratedClassifier(BinnedMean(model)),
}
FITTED_TWICE = {"fitted twice": lambda model: DecisionCalibratedClassifier(model, first_fit=100)}
each_wrapper = pytest.mark.parametrize(
    "wrap",
    [
        *(pytest.param(wrap, id=name) for name, wrap in WRAPPERS.items()),
        *(pytest.param(wrap, id=name, marks=pytest.mark.slow) for name, wrap in FITTED_TWICE.items()),
    ],
)


class Grade(IntEnum):
    """Has no member 1."""

    POOR = 0
    GOOD = 2


SIDES = [(-1, 1), (1, 2), (0, 2), (0, 1), (-1.0, 1.0), (-3, -2), (-1, 0), (Decimal(-1), Decimal(1))]
NUMBERS = [*SIDES, (0, 5), (-2.0, 0.0), (Fraction(1, 3), Decimal(2)), (Grade.POOR, Grade.GOOD)]
PAIRS = [*NUMBERS, ("no", "yes"), tuple(np.array([1, 2], "m8[ns]"))]


OF_EACH_KIND = {
    *map(repr, [(-1, 1), (1, 2), (-1, 0), (0, 5), (Grade.POOR, Grade.GOOD), ("no", "yes"), (1, 2, 3)])
}
"""Pairs on either side of 0, above it, below it and wide; numbers of another kind, texts, three labels."""


def named(labels):
    """Labels as names of tests show them."""
    return ", ".join(map(str, labels))


def is_slow(name, labels):
    return name in FITTED_TWICE or (name != "calibrated" and repr(labels) not in OF_EACH_KIND)


def each_wrapper_with(*several):
    """All labels with one wrapper, some of each kind with the others: all read labels by the same code."""
    return pytest.mark.parametrize(
        ("wrap", "labels"),
        [
            pytest.param(
                wrap,
                labels,
                id=f"{name}-{named(labels)}",
                marks=pytest.mark.slow if is_slow(name, labels) else (),
            )
            for name, wrap in {**WRAPPERS, **FITTED_TWICE}.items()
            for labels in several
        ],
    )


def each_wrapper_with_each_label_first(*pairs):
    """The same with one label or the other as the first; by default one of both with each pair, in turn."""
    return pytest.mark.parametrize(
        ("wrap", "labels", "first"),
        [
            pytest.param(
                wrap,
                labels,
                first,
                id=f"{name}-{named(labels)}-{first}",
                marks=pytest.mark.slow if is_slow(name, labels) or (number + turn + first) % 2 else (),
            )
            for number, (name, wrap) in enumerate({**WRAPPERS, **FITTED_TWICE}.items())
            for turn, labels in enumerate(pairs)
            for first in (0, 1)
        ],
    )


class Sides(base.Classifier):
    """Answers False and True, whatever the labels are called, as river's linear models do."""

    def learn_one(self, x, y):
        pass

    def predict_proba_one(self, x):
        return {False: 1.0 - x["p"], True: x["p"]}


class Texts(base.Classifier):
    """Calls labels by their texts, as river's naive Bayes after batches."""

    def learn_one(self, x, y):
        pass

    def predict_proba_one(self, x):
        return {"False": 1.0 - x["p"], "True": x["p"]}


class Shares(base.Classifier):
    """Answers with the labels that came, by their shares where the feature has this sign."""

    _multiclass = True

    def __init__(self):
        self.counts = Counter(), Counter()

    def learn_one(self, x, y):
        self.counts[x["a"] > 0][y] += 1

    def predict_proba_one(self, x):
        here = self.counts[x["a"] > 0]
        return {label: count / here.total() for label, count in here.items()}


def drawn(labels, first, count=300):
    """Features with the chance of the second label, and labels, of which that one comes first."""
    draw = random.Random(1)
    rounds = [({"p": p, "t": t}, labels[draw.random() < p]) for t in range(count) for p in [draw.random()]]
    return [({"p": 0.5, "t": -1}, first), *rounds]


def squared_errors(model, rounds, label):
    """Of the probabilities of a label, in sum; and the last answer."""
    total = 0.0
    for x, y in rounds:
        answer = model.predict_proba_one(x)
        model.learn_one(x, y)
        total += (answer.get(label, 0.0) - (y == label)) ** 2
    return total, answer


@cache
def errors_of_booleans(wrap, first):
    """Those of a model that calls the labels what they are."""
    total, _ = squared_errors(wrap(Sides()), drawn((False, True), bool(first)), True)
    return total


@each_wrapper_with(*PAIRS, (1, 2, 3), (0, 1, 2))
def test_only_labels_that_came_are_named_in_any_order(wrap, labels):
    if wrap is WRAPPERS["combined"] and len(labels) > 2:
        pytest.skip("it is for two labels")
    draw = random.Random(0)
    rounds = [
        ({"a": place + draw.gauss(0, 1)}, labels[place]) for place in draw.choices(range(len(labels)), k=150)
    ]
    found = []
    for place in range(len(labels)):
        model = wrap(Shares())
        first = [*labels[place:], *labels[:place]]
        _, answer = squared_errors(model, [*(({"a": 0.0}, label) for label in first), *rounds], labels[0])
        assert set(answer) == set(labels)
        assert math.isclose(sum(answer.values()), 1.0)
        strategy, guarantee = getattr(model, "current_strategy", None), getattr(model, "guarantee", 0.0)
        found.append((strategy, pytest.approx(guarantee, rel=0.1)))
    assert all(one[0] == found[0][0] for one in found)
    assert all(one[1].expected == found[0][1] for one in found)


@each_wrapper_with_each_label_first(*SIDES)
def test_answers_of_false_and_true_keep_their_skill(wrap, labels, first):
    rounds = drawn(labels, labels[first])
    ours, answer = squared_errors(wrap(Sides()), rounds, labels[1])
    assert set(answer) == set(labels)
    # as where the model names the labels: until both have come there may be nothing to forecast
    assert ours <= 1.05 * errors_of_booleans(wrap, first)
    raw = sum((x["p"] - (y == labels[1])) ** 2 for x, y in rounds)
    if wrap not in (WRAPPERS["shared"], WRAPPERS["atoms"]):
        # Theorem 17c has 3/2 log(T + 6) for the steered hints; what is charged comes on top
        assert ours <= raw + 1.5 * math.log(len(rounds) + 6) + 0.02 * len(rounds)


class OneSide(Sides):
    """Answers False or True alone."""

    def predict_proba_one(self, x):
        side = x["t"] % 2 == 0
        return {side: super().predict_proba_one(x)[side]}


@pytest.mark.parametrize("labels", [*NUMBERS, (False, True)], ids=named)
@pytest.mark.parametrize("is_declared", [False, True])
def test_false_or_true_alone_stands_for_its_side(labels, is_declared):
    """Whatever it equals: True equals the smaller one of 1 and 2, False the greater one of -1 and 0."""
    for classes in (labels, labels[::-1]) if is_declared else (None,):
        one, both = (CalibratedClassifier(inside(), classes=classes) for inside in (OneSide, Sides))
        for x, y in [({"p": 0.5, "t": -2}, labels[0]), *drawn(labels, labels[1], 40)]:
            if one.n_rounds + one.n_unmatched > 1:
                assert one.predict_proba_one(x) == pytest.approx(both.predict_proba_one(x))
            one.learn_one(x, y)
            both.learn_one(x, y)


@pytest.mark.parametrize(
    "y", [pd.NaT, pd.NA, Decimal("nan"), Decimal("inf"), np.datetime64("NaT"), (math.nan, 1)], ids=str
)
@each_wrapper
def test_what_says_missing_is_no_label(wrap, y):
    model = wrap(Sides())
    with pytest.raises(ValueError, match="y must be a class label, neither missing nor infinite, got"):
        model.learn_one({"p": 0.5, "t": 0}, y)
    assert model.predict_proba_one({"p": 0.5, "t": 0}) == wrap(Sides()).predict_proba_one({"p": 0.5, "t": 0})


@each_wrapper
def test_labels_are_known_by_their_texts_where_that_is_unambiguous(wrap):
    texts, answer = squared_errors(wrap(Texts()), drawn((False, True), True), True)
    assert texts == pytest.approx(errors_of_booleans(wrap, 1), rel=0.05)
    assert set(answer) == {False, True}


def test_what_a_model_calls_a_label_in_two_ways_is_one_probability():
    model = CalibratedClassifier(Scripted(), classes=[False, True])
    both = {"answer": ((True, 0.3), ("True", 0.4), ("False", 0.3)), "t": 0}
    assert model._labels.named(dict(both["answer"])) == pytest.approx({True: 0.7, False: 0.3})


def test_a_model_that_names_none_of_the_labels_is_remarked_on():
    model = CalibratedClassifier(Sides())
    model.learn_one({"p": 0.5, "t": 0}, "no")
    with pytest.warns(LabelWarning, match="classifier answers with the labels False, True, and none of them"):
        model.learn_one({"p": 0.5, "t": 1}, "yes")
    # and is taken to say nothing
    assert model.predict_proba_one({"p": 0.9}) == model.predict_proba_one({"p": 0.1})


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_before_any_label_binary_answers_take_up_false_and_true_alone(strategy):
    is_binary = strategy in ("auto", "binary")
    for answer, names in (({"a": 0.3}, {"a"}), ({"a": 0.3, "b": 0.7}, {"a", "b"}), ({}, set())):
        model = CalibratedClassifier(Told(), strategy=strategy)
        assert set(model.predict_proba_one(answer)) == (set() if is_binary else names)
        assert model.n_open == 1
    said = CalibratedClassifier(Told(), strategy=strategy).predict_proba_one({True: 0.3})
    assert set(said) == ({False, True} if is_binary else {True})


def test_declared_labels_are_the_only_ones():
    model = CalibratedClassifier(Scripted(), classes=["a", "b", "c"])
    answer = model.predict_proba_one({"answer": {"a": 0.2, "d": 0.7, "b": 0.1}})
    assert set(answer) == {"a", "b", "c"}
    # of declared numbers the second is the positive one, and True is still the greater one
    model = CalibratedClassifier(Sides(), classes=[2, 1])
    for x, y in drawn((1, 2), 1, 300):
        answer = model.predict_proba_one(x)
        model.learn_one(x, y)
    assert list(model.certified_proba_one({"p": 0.9})) == [1]
    assert model.predict_proba_one({"p": 0.9})[2] > 0.6


@pytest.mark.parametrize(
    "build",
    [CombinedClassifier, lambda models, **two: GroupCalibratedClassifier(models[0], {"any": bool}, **two)],
)
def test_two_classes_may_be_declared(build):
    model = build([Sides(), Sides()], classes=["no", "yes"])
    assert set(model.predict_proba_one({"p": 0.5})) == {"no", "yes"}
    assert list(model.certified_proba_one({"p": 0.5})) == ["yes"]
    with pytest.raises(ValueError, match=r"y must be one of the .*'no', 'yes'.* got 'perhaps'"):
        model.learn_one({"p": 0.5}, "perhaps")
    with pytest.raises(ValueError, match="classes must hold 2 class labels, got 3"):
        build([Sides(), Sides()], classes=["a", "b", "c"])


class Refusing(Scripted):
    """Learns no label "a" of some rounds, at first."""

    refused = frozenset({3, 4, 9})

    def learn_one(self, x, y):
        if y == "a" and x["t"] in self.refused:
            raise KeyError(y)


@each_wrapper
def test_a_model_that_cannot_learn_leaves_everything_as_it_was(wrap):
    model, one = wrap(Refusing()), {"answer": (("a", 0.5), ("b", 0.5)), "t": 0}
    for t in range(3):
        model.predict_proba_one({**one, "t": t})
        model.learn_one({**one, "t": t}, "ab"[t % 2])
    x, waiting = {**one, "t": 3}, {**one, "t": 4}
    model.predict_proba_one(waiting)
    answer = model.predict_proba_one(x)
    before = [getattr(model, name, None) for name in ("n_rounds", "n_open", "n_unmatched", "certificate")]
    for features in (x, dict(waiting), {**one, "t": 9}):
        with pytest.raises(KeyError, match="a"):
            model.learn_one(features, "a")
    assert [
        getattr(model, name, None) for name in ("n_rounds", "n_open", "n_unmatched", "certificate")
    ] == before
    assert model.predict_proba_one(x) == answer
    model.learn_one(x, "b")
    model.learn_one(dict(waiting), "b")
    assert getattr(model, "n_open", 0) == 0


@pytest.mark.parametrize("said", [None, ({True: 1.0}, True), 0.5, [0.5, 0.5], "yes"], ids=str)
@each_wrapper
def test_answers_that_are_no_mappings_are_refused(wrap, said):
    class Other(Scripted):
        def predict_proba_one(self, x):
            return said

    with pytest.raises(ValueError, match=r"classifier(s\[0\])? must answer with a dict .* EntropySampler"):
        wrap(Other()).predict_proba_one({"t": 0})


def test_a_sampler_of_active_learning_goes_around_the_wrapper():
    sampler = active.EntropySampler(linear_model.LogisticRegression(), seed=1)
    with pytest.raises(ValueError, match="wrap the classifier inside"):
        CalibratedClassifier(sampler).predict_proba_one({"p": 0.5})
    around = active.EntropySampler(CalibratedClassifier(linear_model.LogisticRegression()), seed=1)
    for x, y in drawn((False, True), True, 50):
        _, is_asked_for = around.predict_proba_one(x)
        if is_asked_for:
            around.learn_one(x, y)
    assert around.classifier.n_rounds > 0
