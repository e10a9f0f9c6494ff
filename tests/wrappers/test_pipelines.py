"""Wrappers in pipelines and ensembles, with rows that nobody asked about, and without labels."""

import math
import random
import warnings
from datetime import timedelta

import pandas as pd
import pytest
from river import compose, datasets, ensemble, linear_model, preprocessing

from onlinecal import (
    BinnedMean,
    CalibratedClassifier,
    CalibratedRegressor,
    CombinedClassifier,
    GroupCalibratedClassifier,
    LpCalibratedClassifier,
    PlattScaling,
)
from onlinecal.remarks import LabelWarning
from tests.wrappers.scripted import Said


def logistic():
    return linear_model.LogisticRegression()


LATE = {
    "classifier": lambda: CalibratedClassifier(logistic()),
    "groups": lambda: GroupCalibratedClassifier(logistic(), {"any": bool}),
    "combined": lambda: CombinedClassifier([logistic(), logistic()]),
    "regressor": lambda: CalibratedRegressor(linear_model.LinearRegression(), 0.0, 1.0),
}


def silent():
    return CalibratedClassifier(logistic(), expire_after=10, expire_as=False)


each_late = pytest.mark.parametrize("build", LATE.values(), ids=LATE)


def rounds(count, seed=0):
    draw = random.Random(seed)
    return [({"p": draw.random(), "t": t}, draw.random() < 0.5) for t in range(count)]


def ask(model, x):
    return model.predict_one(x) if isinstance(model, CalibratedRegressor) else model.predict_proba_one(x)


def play(model, stream):
    for x, y in stream:
        ask(model, x)
        model.learn_one(x, y)


def ask_all(model, stream, times=1):
    for x, _ in stream:
        for _ in range(times):
            ask(model, x)


@pytest.mark.filterwarnings("ignore::onlinecal.LabelWarning")
@pytest.mark.parametrize("build", [*LATE.values(), silent], ids=[*LATE, "silence"])
def test_a_scaler_in_front_is_refused_at_the_second_label(build):
    wrapper = build()
    with pytest.raises(ValueError, match=r"around the whole pipeline: \w+\(scaler \| model\)"):
        play(preprocessing.StandardScaler() | wrapper, datasets.Phishing())
    assert (wrapper.n_rounds, wrapper.n_unmatched) <= (1, 1)


def play_batches(model, batches):
    for some in batches:
        X, y = pd.DataFrame([x for x, _ in some]), pd.Series([y for _, y in some])
        model.predict_proba_many(X)
        model.learn_many(X, y)


@pytest.mark.filterwarnings("ignore::onlinecal.LabelWarning")
def test_a_scaler_in_front_is_refused_at_the_second_batch():
    model = preprocessing.StandardScaler() | CalibratedClassifier(logistic())
    with pytest.raises(ValueError, match="something in front of this wrapper, such as a scaler"):
        play_batches(model, [rounds(5), rounds(5, 1), rounds(5, 2)])


def test_what_leaves_features_as_they_were_may_stand_in_front():
    model = compose.Select("p") | preprocessing.Binarizer(0.5) | CalibratedClassifier(logistic())
    for x, y in rounds(60):
        model.predict_proba_one(x)
        model.learn_one(x, y)
    assert (model["CalibratedClassifier"].n_rounds, model["CalibratedClassifier"].n_unmatched) == (60, 0)


@pytest.mark.filterwarnings("ignore::onlinecal.LabelWarning")
@each_late
def test_rows_that_nobody_asked_about_are_learnt(build):
    """Before the stream, in runs within it, before a look at what was just learnt, and by name."""
    model, (early, run, looked, *rest) = build(), (rounds(20, seed) for seed in range(6))
    for x, y in early:
        model.learn_one(x, y)
    for t, (x, y) in enumerate(run):
        if t % 10 == 0:
            ask(model, {"p": 0.5, "t": -t})
        model.learn_one(x, y)
    for x, y in looked:
        model.learn_one(x, y)
        ask(model, x)
    n_unmatched = model.n_unmatched
    for (x, y), (asked, came) in zip(*rest[:2], strict=True):
        ask(model, asked)
        model.warm_up(x, y)
        model.learn_one(asked, came)
    assert (model.n_rounds, n_unmatched, model.n_unmatched) == (20, 60, 80)


@pytest.mark.filterwarnings("ignore::onlinecal.LabelWarning")
@each_late
def test_who_looks_again_and_again_at_the_same_features_is_not_refused(build):
    model = build()
    for x, y in rounds(20):
        ask(model, {"p": 0.5, "t": -1})
        model.learn_one(x, y)
    assert (model.n_rounds, model.n_unmatched) == (0, 20)


@pytest.mark.parametrize(
    "model",
    [
        CalibratedClassifier(Said()),
        GroupCalibratedClassifier(Said(), {"any": bool}),
        CombinedClassifier([Said(), Said()]),
        CalibratedRegressor(compose.Select("p") | linear_model.LinearRegression(), 0.0, 1.0),
    ],
    ids=LATE,
)
def test_a_nan_that_equals_no_other_is_named_as_the_cause(model):
    """None, and the very object, are found again."""
    for t, (_, y) in enumerate(rounds(20)):
        x = {"p": 0.5, "t": t, "a": [math.nan, None][t % 2]}
        ask(model, x)
        model.learn_one(dict(x) if x["a"] is None else x, y)
    assert (model.n_unmatched, model.n_rounds) == (0, 20)
    apart = [({"p": 0.5, "t": t, "a": float("nan")}, {"p": 0.5, "t": t, "a": float("nan")}) for t in range(9)]
    with pytest.warns(LabelWarning, match="with equal features .a NaN equals no other: None does"):
        settle_apart(model, apart)
    assert (model.n_unmatched, model.n_rounds) == (9, 20)


def settle_apart(model, pairs):
    for asked, came in pairs:
        ask(model, asked)
        model.learn_one(came, True)


@pytest.mark.filterwarnings("ignore::onlinecal.LabelWarning")
@each_late
def test_labels_of_forecasts_that_were_given_up_are_not_refused(build):
    model, stream = build(), rounds(60)
    model.most_waiting = model._waiting._most = 5
    for t, (x, _) in enumerate(stream):
        ask(model, x)
        if t >= 20:
            model.learn_one(*stream[t - 20])
    assert (model.n_rounds, model.n_unmatched) == (0, 40)


@pytest.mark.parametrize("kind", [ensemble.BaggingClassifier, ensemble.LeveragingBaggingClassifier])
def test_ensembles_of_wrappers_are_told_to_go_inside(kind):
    model = kind(CalibratedClassifier(logistic()), n_models=3, seed=1)
    with pytest.warns(LabelWarning, match=r"CalibratedClassifier\(BaggingClassifier\(model\)\)") as caught:
        play(model, rounds(60))
    assert all("once more for a round that it has settled" in str(one.message) for one in caught)
    around = CalibratedClassifier(kind(logistic(), n_models=3, seed=1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        play(around, rounds(60))
    assert around.n_rounds + around.n_unmatched == 60


@each_late
def test_questions_without_any_label_are_remarked_on_once(build):
    model = build()
    with pytest.warns(LabelWarning, match="100 forecasts wait for their labels, and no label") as caught:
        ask_all(model, rounds(400), times=2)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    # to ask twice about the same features is one question
    assert model.n_open == 400
    # labels that come late are the usual case
    late = build()
    late.warm_up(*rounds(1)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ask_all(late, rounds(400))


def test_messages_carry_no_features():
    secret = "do not log me"
    model = CalibratedClassifier(Said(), expire_after=timedelta(days=1), moment="day")
    for x in ({"p": 0.5, "name": secret}, {"p": 0.5, "name": secret, "day": secret}):
        with pytest.raises(ValueError, match="x must have a moment, its feature 'day'") as error:
            model.predict_proba_one(x)
        assert secret not in str(error.value)
    model = CalibratedClassifier(Said())
    token = model.forecast({"p": 0.5, "name": secret})
    model.observe(token, True)
    with pytest.raises(ValueError, match="settled, withdrawn or expired before") as error:
        model.observe(token, True)
    assert secret not in str(error.value)
    with pytest.raises(ValueError, match=r"must be a WrappedForecast .* issued, got dict") as error:
        model.observe(token.features, True)
    assert secret not in str(error.value)
    with pytest.raises(ValueError, match="needs moment=, the name of the feature that says when"):
        CalibratedClassifier(Said(), expire_after=timedelta(days=1))


class Heeding(Said):
    """Notes the keywords that it is given."""

    def __init__(self):
        self.heard = []

    def predict_proba_one(self, x, **keywords):
        self.heard.append(("asked", keywords))
        return super().predict_proba_one(x)

    def learn_one(self, x, y, **keywords):
        self.heard.append(("told", keywords))


@pytest.mark.parametrize(
    "build",
    [
        CalibratedClassifier,
        lambda model: GroupCalibratedClassifier(model, {"any": bool}),
        lambda model: CombinedClassifier([model, Heeding()]),
        PlattScaling,
        BinnedMean,
        LpCalibratedClassifier,
    ],
    ids=["calibrated", "groups", "combined", "Platt", "binned", "lp"],
)
def test_keywords_are_for_the_wrapped_model(build):
    model = Heeding()
    wrapper, x = build(model), {"p": 0.3}
    wrapper.predict_proba_one(x, n=1)
    wrapper.learn_one(x, True, n=2)
    if hasattr(wrapper, "observe"):
        wrapper.observe(wrapper.forecast(x, n=3), False, n=4)
        wrapper.warm_up(x, True, n=5)
    heard = [("asked", 1), ("told", 2), ("asked", 3), ("told", 4), ("told", 5)]
    # some ask once more of their own while they learn
    found = [(what, *keywords.values()) for what, keywords in model.heard if keywords]
    assert found == heard[: 5 if hasattr(wrapper, "observe") else 2]
