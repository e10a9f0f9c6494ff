"""Labels that come late, out of order, or never: the certificate speaks of the very forecasts answered."""

import copy
import gc
import pickle
import tracemalloc
import warnings
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal import CalibratedClassifier, LabelWarning, calibration_distance
from onlinecal.wrappers import GroupCalibratedClassifier, WrappedForecast
from onlinecal.wrappers.expiry import DatedForecasts
from onlinecal.wrappers.waiting import NOTHING, WaitingForecasts, features_key
from tests.properties import examples
from tests.wrappers.scripted import Round, Said, Scripted, coins, distance, played

WRAPPERS = {
    "classifier": CalibratedClassifier,
    "atoms": lambda model, **most: GroupCalibratedClassifier(model, ["a"], **most),
    "shared": lambda model, **most: GroupCalibratedClassifier(model, {"any": bool}, scheme="shared", **most),
}
by_each = pytest.mark.parametrize("build", WRAPPERS.values(), ids=WRAPPERS)


def counts(model):
    return model.n_rounds, model.n_unmatched, model.n_open


@pytest.mark.parametrize("delay", [0, 1, 20])
def test_a_delay_costs_the_guarantee_what_the_theorem_says_and_no_more(delay):
    late, prompt = (CalibratedClassifier(Said(), horizon=300) for _ in range(2))
    played(late, coins(300), delay)
    played(prompt, coins(300))
    # the sum of max(v, 1 - v) over the inner points, for an even number of cells
    cells = int(np.ceil(np.sqrt(300)))
    assert late.guarantee == pytest.approx(prompt.guarantee + delay * (0.75 * cells - 1))


def test_a_token_that_was_given_up_brings_a_label_without_its_forecast():
    model = CalibratedClassifier(Said(), most_waiting=1)
    tokens = [model.forecast({"p": 0.5}) for _ in range(3)]
    with pytest.warns(LabelWarning, match="1 were given up, since more than most_waiting=1 waited"):
        model.observe(tokens[0], True)
    model.withdraw(tokens[1])
    model.observe(tokens[2], True)
    assert counts(model) == (1, 1, 0)


@by_each
def test_what_is_certified_of_a_token_is_of_its_own_round_and_opens_none(build):
    model = build(Said())
    first = model.forecast({"p": 0.3, "a": 1})
    for token in (first, pickle.loads(pickle.dumps(first))):
        assert model.certified_proba_one(token) == {True: first.answer[True]}
    assert model.n_open == 1
    second = model.forecast({"p": 0.3, "a": 1})
    model.observe(second, True)
    for token in (first, second):
        with pytest.raises(ValueError, match=f"x must be features, .* serial={token.serial}: ask"):
            model.certified_proba_one(token)
    assert counts(model) == (1, 0, 1)


@by_each
def test_labels_whose_forecasts_were_given_up_settle_nothing(build, recwarn):
    # the truth turns round while the labels are out: a fresh forecast would be another than the one given
    count, lag, most, rng = 1500, 500, 150, np.random.default_rng(0)
    rounds = [
        ({"p": q, "t": t}, bool(rng.random() < (q if t // lag % 2 else 1 - q)))
        for t, q in enumerate(rng.choice([0.1, 0.9], count).tolist())
    ]
    model, given = build(Said(), most_waiting=most), []
    for t, (x, _) in enumerate(rounds):
        given.append(model.predict_proba_one(x)[True])
        if t >= lag:
            model.learn_one(*rounds[t - lag])
            assert model.n_rounds == 0
    for x, y in rounds[-lag:]:
        model.learn_one(x, y)
    silent, warned = recwarn
    assert "100 forecasts wait for their labels, and no label has come yet" in str(silent.message)
    assert "were given up, since more than most_waiting=150 waited" in str(warned.message)
    assert warned.filename == __file__
    # the newest are those that still waited
    kept = model.n_rounds
    assert (kept in (most, most + 1), model.n_unmatched) == (True, count - kept)
    p, y = np.array(given[-kept:]), np.array([y for _, y in rounds[-kept:]], dtype=float)
    assert calibration_distance(p, y).upper <= model.certificate + 1e-9 <= model.guarantee + 2e-9


class Telling(Scripted):
    """Answers True with the probability that it was told last, whatever the features."""

    p = 0.5

    def predict_proba_one(self, x):
        return {False: 1.0 - self.p, True: self.p}


@pytest.mark.parametrize("by_tokens", [True, False])
@by_each
def test_tokens_tell_equal_features_apart_else_the_order_of_forecasts_does(build, by_tokens):
    model, given = build(Telling()), []
    for _ in range(100):
        asked = []
        for p in (0.1, 0.9):
            model.classifier.p = p
            asked.append(model.forecast({}) if by_tokens else model.predict_proba_one({}))
        # the labels come in the other order
        for one, y in zip(reversed(asked), (True, False), strict=True):
            if by_tokens:
                model.observe(one, y)
            else:
                model.learn_one({}, y)
            given.append(((one.answer if by_tokens else one)[True], float(y)))
    p, y = np.array(given).T
    assert counts(model) == (200, 0, 0)
    # what is assumed without tokens, and that it matters: the certificate is one of pairs that never were
    pairs = y if by_tokens else 1 - y
    assert calibration_distance(p, pairs).upper <= model.certificate + 1e-9 <= model.guarantee + 2e-9
    assert by_tokens or model.certificate < calibration_distance(p, y).lower


@settings(max_examples=examples(40), deadline=None)
@given(
    flips=st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=40),
    n_labels=st.sampled_from([2, 3]),
    seed=st.integers(0, 99),
)
def test_tokens_features_and_withdrawn_forecasts_in_any_order(flips, n_labels, seed):
    rng = np.random.default_rng(seed)
    model = CalibratedClassifier(Said(), classes=[False, True, "none"][:n_labels])
    waiting, given = [], []
    for p, y in flips:
        x = {"p": p}
        if rng.random() < 0.5:
            asked = model.forecast(x)
        else:
            asked = x | {"t": len(given) + len(waiting)}
            model.predict_proba_one(asked)
        waiting.append((asked, model.certified_proba_one(asked), y))
        while waiting and rng.random() < 0.4:
            asked, forecasts, y = waiting.pop(rng.integers(len(waiting)))
            if isinstance(asked, WrappedForecast):
                asked = pickle.loads(pickle.dumps(asked))
                if rng.random() < 0.3:
                    model.withdraw(asked)
                    continue
                model.observe(asked, y)
            else:
                model.learn_one(dict(asked), y)
            given.append(Round({}, forecasts, y))
    assert (model.n_rounds, model.n_open) == (len(given), len(waiting))
    if given:
        assert distance(given) <= model.certificate + 1e-9 <= model.guarantee + 2e-9


def test_what_is_no_open_token_is_refused_and_nothing_is_learnt():
    model, other = CalibratedClassifier(Said()), CalibratedClassifier(Said())
    token, foreign = model.forecast({"p": 0.5}), other.forecast({"p": 0.5})
    before = pickle.dumps(model)
    for give in (lambda wrong: model.observe(wrong, True), model.withdraw):
        with pytest.raises(ValueError, match=r"must be a WrappedForecast that .* issued, got float"):
            give(0.5)
        with pytest.raises(ValueError, match="forecast 0 was issued by another forecaster"):
            give(foreign)
    with pytest.raises(ValueError, match="y must be a class label"):
        model.observe(token, 0.5)
    assert pickle.dumps(model) == before
    for one in (copy.deepcopy(model), model):
        one.observe(token, True)
        with pytest.raises(ValueError, match="forecast 0 has been settled, withdrawn or expired before"):
            one.observe(token, True)
        assert one.n_rounds == 1


@pytest.mark.filterwarnings("ignore:a label came for features:onlinecal.LabelWarning")
@pytest.mark.parametrize("window", [None, 20])
@pytest.mark.parametrize("strategy", ["binary", "classwise", "simplex", "top-label", "tree"])
def test_rows_that_are_learnt_without_being_asked_about_warm_up_and_are_no_rounds(strategy, window):
    labels, rng = list("ab" if strategy == "binary" else "abc"), np.random.default_rng(3)

    def rounds(count):
        for t, said in enumerate(rng.dirichlet(np.ones(len(labels)), count)):
            # the model names the wrong label
            yield {"answer": tuple(zip(labels, said.tolist(), strict=True)), "t": t}, labels[said.argmin()]

    warm, cold = (
        CalibratedClassifier(Scripted(), strategy=strategy, window=window, classes=labels) for _ in range(2)
    )
    for x, y in rounds(500):
        warm.learn_one(x, y)
    assert (warm.n_rounds, warm.n_unmatched, warm.certificate) == (0, 500, 0)
    assert warm.guarantee == cold.guarantee
    errors, record = {warm: [], cold: []}, []
    for x, y in rounds(60):
        for model in (cold, warm):
            answer = model.predict_proba_one(x)
            errors[model].append((1 - answer[y]) ** 2)
            forecasts = model.certified_proba_one(x)
            model.learn_one(x, y)
        record.append(Round(answer, forecasts, y))
        warm.learn_one({**x, "t": -1}, y)
    assert np.mean(errors[warm]) < np.mean(errors[cold])
    assert counts(warm) == (60, 560, 0)
    assert distance(record) <= warm.certificate <= warm.guarantee
    if window is not None and strategy != "tree":
        assert distance(record[-window:]) <= warm.window_certificate <= warm.window_guarantee


def test_what_a_waiting_forecast_takes():
    names = list("abcdefghij")
    table = np.random.default_rng(0).dirichlet(np.ones(10), 400).tolist()
    ten = [{"answer": tuple(zip(names, row, strict=True)), "t": t} for t, row in enumerate(table)]
    for classifier, classes, questions, most in (
        (Said(), [False, True], [x for x, _ in coins(400)], 1100),
        (Scripted(), names, ten, 3400),
    ):
        # the interpreter keeps tuples for later use: a first time leaves as many as the second one finds
        for _ in range(2):
            model = CalibratedClassifier(classifier, classes=classes)
            played(model, [(x, classes[0]) for x in questions[:50]])
            tracemalloc.start()
            for x in questions[200:]:
                model.predict_proba_one(x)
            size, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        assert size / 200 < 1.25 * most


def test_of_equal_features_the_oldest_forecast_is_settled_first_or_the_last_if_it_is_asked_for():
    waiting = DatedForecasts(WrappedForecast, 9)
    for forecast in "abc":
        waiting.add({"x": 1}, forecast)
    assert waiting.note_label({"x": 1}, "late", {}, last=True)
    assert waiting.find({"x": 1}) == (0, "a")
    waiting.remove(0)
    taken = [waiting.take_oldest() for _ in range(2)]
    assert [(due.forecast, due.label) for due in taken] == [("b", NOTHING), ("c", "late")]


class Unhashable:
    """Equal to all of its kind."""

    __hash__ = None

    def __eq__(self, other):
        return isinstance(other, Unhashable)


def test_features_that_cannot_be_hashed_are_known_by_identity_and_copies_of_others_by_what_is_in_them():
    alone = [{"p": 0.4, "words": Unhashable()} for _ in range(20)]
    with_parts = [{"p": 0.4, "t": [t, {"u": {t}}], "v": np.arange(t), 7: (t, [])} for t in range(20)]
    for rows, again in ((alone, alone), (with_parts, copy.deepcopy(with_parts))):
        model = CalibratedClassifier(Said())
        for x in rows:
            model.predict_proba_one(x)
        for t, x in reversed(list(enumerate(again))):
            model.learn_one(x, bool(t % 2))
        assert counts(model) == (20, 0, 0)
    apart = [[1], (1,), {1}, {1: 1}, np.array([1]), np.array([[1]]), 1, [[1]]]
    assert len({features_key({"a": value}) for value in apart}) == len(apart)


def test_features_that_cannot_be_hashed_are_kept_while_they_wait_so_no_other_is_taken_for_them():
    class Features(dict):
        """That can be referred to weakly."""

    waiting, x = WaitingForecasts(WrappedForecast, 9), Features(words=Unhashable())
    waiting.add(x, "forecast")
    known = weakref.ref(x)
    assert waiting.find(Features(words=Unhashable())) == (None, None)
    del x
    gc.collect(1)
    assert waiting.find(known()) == (0, "forecast")
    waiting.remove(0)
    gc.collect(1)
    assert known() is None


def test_projections_of_a_label_that_comes_later_are_told_how_many_forecasts_were_open():
    model = CalibratedClassifier(Scripted(), strategy="classwise")
    rows = [{"answer": {"a": 0.5, "b": 0.5}, "t": t} for t in range(8)]
    for x in rows:
        model.predict_proba_one(x)
    for x in rows[1:]:
        model.learn_one(dict(x), "ab"[x["t"] % 2])
    model.predict_proba_one({"answer": {"a": 0.4, "b": 0.4, "c": 0.2}})
    model.learn_one(dict(rows[0]), "b")
    assert {label: one._late for label, one in model._plan.current.projections.items()} == dict.fromkeys(
        "abc", 7
    )


def test_labels_before_anything_was_forecast_are_learnt_without_a_warning():
    model = CalibratedClassifier(Said())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for t in range(5):
            model.learn_one({"p": 0.5, "t": t}, t % 2 == 0)
    assert counts(model) == (0, 5, 0)
    model.predict_proba_one({"p": 0.5, "t": 9})
    with pytest.warns(LabelWarning, match="no forecast waits for"):
        model.learn_one({"p": 0.5, "t": 8}, True)
