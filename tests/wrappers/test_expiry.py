"""Labels that never come, in wrappers: forecasts are given up, or settled by silence, when they are due."""

import pickle
from datetime import datetime, timedelta

import numpy as np
import pytest
from river import metrics
from river.evaluate import progressive_val_score

from onlinecal import CalibratedClassifier, LabelWarning, recalibrate_stream
from tests.wrappers.scripted import Said

ROWS = 300


class Learning(Said):
    """Notes what it learns."""

    def __init__(self):
        self.learnt = []

    def learn_one(self, x, y):
        self.learnt.append((x["t"], y))


def reports(rounds=ROWS, seed=0):
    """Probabilities, and outcomes with delays of those that are reported."""
    rng = np.random.default_rng(seed)
    p = rng.random(rounds)
    return p, rng.random(rounds) < p / 2, rng.integers(0, 15, rounds)


def played(model, p, happened, delays, tell):
    """What a model answers to rows of which only ones are told, by features or by tokens."""
    said, due = [], {}
    for t, chance in enumerate(p.tolist()):
        x = {"p": chance, "t": t}
        if tell == "tokens":
            asked = model.forecast(x)
            said.append(asked.answer[True])
        else:
            asked = x if tell == "objects" else dict(x)
            said.append(model.predict_proba_one(x)[True])
        if happened[t]:
            due.setdefault(t + delays[t], []).append(asked)
        for each in due.pop(t, ()):
            (model.observe if tell == "tokens" else model.learn_one)(each, True)
    return np.array(said)


@pytest.mark.filterwarnings("ignore:the recalibrated probabilities:onlinecal.LabelWarning")
@pytest.mark.parametrize("tell", ["tokens", "objects", "features"])
@pytest.mark.parametrize("absent", [False, True])
def test_silence_settles_forecasts_as_in_a_column(tell, absent):
    p, happened, delays = reports()
    model = CalibratedClassifier(Learning(), classes=[False, True], expire_after=20, expire_as=absent)
    said = played(model, p, happened, delays, tell)
    outcomes, at = np.where(happened, 1.0, np.nan), np.arange(ROWS) + delays
    # what would be told after the last row is not told
    outcomes[at >= ROWS] = np.nan
    result = recalibrate_stream(p, outcomes, at, due=20, absent=int(absent))
    assert np.array_equal(said, result.probabilities)
    assert model.n_rounds == result.report().n_rounds == ROWS - 21
    assert model.n_expired == result.report().n_absent
    assert model.certificate == result.certificate[-1]
    assert model.n_open == 21
    assert model.classifier.learnt == [(t, bool(happened[t]) or absent) for t in range(ROWS - 21)]
    copy = pickle.loads(pickle.dumps(model))
    x = {"p": 0.5, "t": ROWS}
    assert copy.predict_proba_one(x) == model.predict_proba_one(x)


def test_river_evaluates_with_delays_and_moments():
    p, happened, _ = reports()
    start = datetime(2024, 1, 1)
    rows = [
        ({"p": chance, "day": start + timedelta(days=t)}, bool(y))
        for t, (chance, y) in enumerate(zip(p.tolist(), happened, strict=True))
    ]
    by_number = CalibratedClassifier(Said(), expire_after=20, expire_as=False, classes=[False, True])
    by_day = CalibratedClassifier(
        Said(), classes=[False, True], expire_after=timedelta(days=20), expire_as=False, moment="day"
    )
    by_function = by_day.clone({"moment": lambda x: x["day"]})
    for model in (by_number, by_day, by_function):
        when = {} if model is by_number else {"moment": "day"}
        delay = 20 if model is by_number else timedelta(days=20)
        progressive_val_score(iter(rows), model, metrics.LogLoss(), delay=delay, **when)
        # all labels came in time
        assert model.n_expired == model.n_unmatched == 0
        assert model.certificate == by_number.certificate
    late = by_day.clone()
    with pytest.warns(LabelWarning, match="a label came for features that no forecast waits for"):
        progressive_val_score(iter(rows), late, metrics.LogLoss(), moment="day", delay=timedelta(days=30))
    assert late.n_expired == ROWS - 21
    assert late.n_unmatched == ROWS - 21


def test_forecasts_that_expire_are_given_up_where_silence_says_nothing():
    p, happened, delays = reports()
    model = CalibratedClassifier(Learning(), classes=[False, True], expire_after=20)
    with pytest.warns(LabelWarning, match="forecasts have none: if only what happened .* expire_as="):
        said = played(model, p, happened, delays, "tokens")
    assert model.n_rounds + model.n_expired + model.n_open == ROWS
    assert model.n_open <= 21
    assert {y for _, y in model.classifier.learnt} == {True}
    assert said[-100:].mean() > 0.8
    token = model.forecast({"p": 0.5, "t": ROWS})
    for t in range(ROWS + 1, ROWS + 22):
        model.forecast({"p": 0.5, "t": t})
    with pytest.raises(ValueError, match="has been settled before"):
        model.observe(token, True)


@pytest.mark.parametrize("how", ["withdrawn", "waiting"])
def test_reports_of_one_kind_beside_silence_are_warned_of_once(how, recwarn):
    p, happened, _ = reports()
    model = CalibratedClassifier(Said(), classes=[False, True])
    for t, chance in enumerate(p.tolist()):
        token = model.forecast({"p": chance, "t": t})
        if happened[t]:
            model.observe(token, True)
        elif how == "withdrawn":
            model.withdraw(token)
    assert len([each for each in recwarn if "if only what happened" in str(each.message)]) == 1


def test_labels_that_are_merely_late_or_rare_are_not_warned_of(recwarn):
    p, happened, _ = reports()
    for happens in (happened, np.arange(ROWS) > 200):
        model = CalibratedClassifier(Said(), classes=[False, True])
        tokens = [model.forecast({"p": chance}) for chance in p[:50].tolist()]
        for t, chance in enumerate(p[50:].tolist()):
            tokens.append(model.forecast({"p": chance}))
            model.observe(tokens[t], bool(happens[t]))
    assert not recwarn.list


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"expire_as": False}, "expire_as says nothing without expire_after, got False"),
        ({"moment": "day"}, "moment says nothing without expire_after, got 'day'"),
        ({"expire_after": 0}, "expire_after must be a whole number of at least 1, got 0"),
        ({"expire_after": timedelta(1)}, "expire_after must be a whole number"),
        ({"expire_after": -1.0, "moment": "day"}, "expire_after must be a span above 0, .* got -1.0"),
        (
            {"expire_after": 5, "moment": 3},
            "moment must be the name of a feature, or a function of all, got 3",
        ),
        ({"expire_after": 5, "expire_as": "no"}, r"expire_as must be one of the classes .* got 'no'"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        CalibratedClassifier(Said(), classes=[False, True], **given)


def test_features_without_a_moment_are_refused_and_nothing_changes():
    model = CalibratedClassifier(Said(), expire_after=timedelta(days=1), moment="day")
    model.predict_proba_one({"p": 0.3, "day": datetime(2024, 1, 1)})
    for x in ({"p": 0.3}, {"p": 0.3, "day": 5}):
        with pytest.raises(ValueError, match="x must have a moment, 'day', in units of expire_after"):
            model.predict_proba_one(x)
    assert model.n_open == 1
