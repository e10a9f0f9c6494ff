"""Labels that never come, in wrappers: forecasts are given up, or settled by silence, when they are due."""

import pickle
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from river import metrics
from river.evaluate import progressive_val_score

from onlinecal import CalibratedClassifier, LabelWarning, recalibrate_stream
from tests.wrappers.scripted import Said

ROWS = 300
rng = np.random.default_rng(0)
P = rng.random(ROWS)
HAPPENED, DELAYS = rng.random(ROWS) < P / 2, rng.integers(0, 15, ROWS)
"""What was forecast, and outcomes with delays of those that are reported."""
QUESTIONS = [{"p": chance, "t": t} for t, chance in enumerate(P.tolist())]


class Learning(Said):
    """Notes what it learns."""

    def __init__(self):
        self.learnt = []

    def learn_one(self, x, y):
        self.learnt.append((x["t"], y))


def played(model, tell):
    """What a model answers to rows of which only ones are told, by features or by tokens."""
    said, due = [], {}
    for t, x in enumerate(QUESTIONS):
        if tell == "tokens":
            asked = model.forecast(x)
            said.append(asked.answer[True])
        else:
            asked = x if tell == "objects" else dict(x)
            said.append(model.predict_proba_one(x)[True])
        if HAPPENED[t]:
            due.setdefault(t + DELAYS[t], []).append(asked)
        for each in due.pop(t, ()):
            (model.observe if tell == "tokens" else model.learn_one)(each, True)
    return np.array(said)


@pytest.mark.filterwarnings("ignore:the recalibrated probabilities:onlinecal.LabelWarning")
@pytest.mark.parametrize("tell", ["tokens", "objects", "features"])
@pytest.mark.parametrize("absent", [False, True])
def test_silence_settles_forecasts_as_in_a_column(tell, absent):
    model = CalibratedClassifier(Learning(), classes=[False, True], expire_after=20, expire_as=absent)
    said = played(model, tell)
    outcomes, at = np.where(HAPPENED, 1.0, np.nan), np.arange(ROWS) + DELAYS
    # what would be told after the last row is not told
    outcomes[at >= ROWS] = np.nan
    result = recalibrate_stream(P, outcomes, settled_at=at, due=20, absent=int(absent))
    assert np.array_equal(said, result.probabilities)
    assert model.n_rounds == result.report().n_rounds == ROWS - 21
    assert (model.n_expired, model.n_open) == (result.report().n_absent, 21)
    assert model.certificate == result.certificate[-1]
    assert model.classifier.learnt == [(t, bool(HAPPENED[t]) or absent) for t in range(ROWS - 21)]
    copy, x = pickle.loads(pickle.dumps(model)), {"p": 0.5, "t": ROWS}
    assert copy.predict_proba_one(x) == model.predict_proba_one(x)


def test_a_moment_that_is_not_a_number_does_not_stop_the_clock():
    model = CalibratedClassifier(Said(), expire_after=2, moment="t")
    with pytest.raises(ValueError, match=r"x must have a moment, its feature 't', .* got NaN"):
        model.predict_proba_one({"p": 0.5, "t": float("nan")})
    for t in range(5):
        model.predict_proba_one({"p": 0.5, "t": t})
    assert (model.n_open, model.n_expired) == (3, 2)


def test_river_evaluates_with_delays_and_moments():
    start, days = datetime(2024, 1, 1), timedelta(days=20)
    rows = [
        ({"p": x["p"], "day": start + timedelta(days=x["t"])}, bool(y))
        for x, y in zip(QUESTIONS, HAPPENED, strict=True)
    ]
    by_number = CalibratedClassifier(Said(), expire_after=20, expire_as=False, classes=[False, True])
    by_day = by_number.clone({"expire_after": days, "moment": "day"})
    by_function = by_day.clone({"moment": lambda x: x["day"]})
    progressive_val_score(iter(rows), by_number, metrics.LogLoss(), delay=20)
    for model in (by_day, by_function):
        progressive_val_score(iter(rows), model, metrics.LogLoss(), delay=days, moment="day")
        # all labels came in time
        assert model.n_expired == model.n_unmatched == by_number.n_expired == by_number.n_unmatched == 0
        assert model.certificate == by_number.certificate
    late = by_day.clone()
    with pytest.warns(LabelWarning, match="a label came for features that no forecast waits for"):
        progressive_val_score(iter(rows), late, metrics.LogLoss(), moment="day", delay=timedelta(days=30))
    assert late.n_expired == late.n_unmatched == ROWS - 21
    for x in ({"p": 0.3}, {"p": 0.3, "day": 5}):
        with pytest.raises(
            ValueError,
            match=r"x must have a moment, its feature 'day', in units of .* got (none|one of type int)",
        ):
            late.predict_proba_one(x)
    with pytest.raises(
        ValueError, match=r"like the one before, a datetime, .* all have a zone or all have none"
    ):
        late.predict_proba_one({"p": 0.3, "day": datetime(2025, 1, 1, tzinfo=UTC)})
    assert late.n_open == 21


def test_forecasts_that_expire_are_given_up_where_silence_says_nothing():
    model = CalibratedClassifier(Learning(), classes=[False, True], expire_after=20)
    with pytest.warns(LabelWarning, match="forecasts have none: if only what happened .* expire_as="):
        said = played(model, "tokens")
    assert model.n_rounds + model.n_expired + model.n_open == ROWS
    assert model.n_open <= 21
    assert {y for _, y in model.classifier.learnt} == {True}
    assert said[-100:].mean() > 0.8
    token, *_ = [model.forecast(x) for x in QUESTIONS[:22]]
    with pytest.raises(ValueError, match="has been settled, withdrawn or expired before"):
        model.observe(token, True)


@pytest.mark.parametrize("how", ["withdrawn", "waiting", "late", "rare"])
def test_reports_of_one_kind_beside_silence_are_warned_of_once_and_late_or_rare_ones_are_not(how, recwarn):
    model, tokens = CalibratedClassifier(Said(), classes=[False, True]), []
    for t, x in enumerate(QUESTIONS):
        tokens.append(model.forecast(x))
        if how in ("late", "rare"):
            if t >= 50:
                model.observe(tokens[t - 50], bool(HAPPENED[t - 50] if how == "late" else t > 250))
        elif HAPPENED[t]:
            model.observe(tokens[t], True)
        elif how == "withdrawn":
            model.withdraw(tokens[t])
    assert len(recwarn) == (how in ("withdrawn", "waiting"))
    assert all("if only what happened" in str(each.message) for each in recwarn)
