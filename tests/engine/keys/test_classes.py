"""Keys of several classes: soft labels, what they may take at most, and recalibration under the l_p error."""

import time
from string import ascii_lowercase

import numpy as np
import pytest

from onlinecal import LpCalibratedClassifier, SimplexAlmostOneStepAhead, lp_calibration_error
from onlinecal.engine import (
    Engine,
    EngineConfig,
    Forecast,
    KeyConfig,
    Match,
    Outcome,
    Query,
    Rejected,
    Settled,
    check_ledger,
    repair_ledger,
)
from onlinecal.engine.keys import key as keys
from onlinecal.engine.keys.playing import LATE
from onlinecal.forecasters.simplex import guarantees
from tests.engine.fault_tools import changed
from tests.engine.one_key import OneKey
from tests.wrappers.scripted import Told
from tests.wrappers.test_batch_maps import stream, told

LABELS = ("a", "b", "c")


def test_a_label_that_reads_like_a_soft_one_is_a_label(tmp_path):
    text, soft = '{"a": 0.5, "b": 0.5}', {"a": 0.5, "b": 0.5}
    with Engine(tmp_path / "ledger", EngineConfig(KeyConfig(kind="simplex"))) as engine:
        engine.handle([Query("q", "k"), Outcome("q", text), Query("r", "k"), Outcome("r", soft)])
    with Engine(tmp_path / "ledger") as engine:
        given = ("q", text), ("r", soft), ("q", soft), ("r", text)
        again = engine.handle([Outcome(*one) for one in given])
        assert [type(one) for one in again] == [Settled, Settled, Rejected, Rejected]
        assert list(engine.query("s", "k").probability) == [text, "a", "b"]
    damage = "UPDATE closings SET value = x'7B22' WHERE typeof(value) = 'blob'"
    changed(tmp_path / "ledger", damage, with_sums=True)
    repaired = repair_ledger(tmp_path / "ledger", tmp_path / "again")
    assert ["cannot be read" in one for one in repaired.lost] == [True]


CONFIG = EngineConfig(
    KeyConfig(kind="simplex", classes=LABELS),
    (
        Match("binary", KeyConfig()),
        Match("lp", KeyConfig(kind="lp")),
        Match("fine", KeyConfig(kind="simplex", classes=tuple(ascii_lowercase), n_cells=1 << 18)),
    ),
)


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("sky", {}, "value must be a class label, or an object of probabilities, got {}"),
        ("sky", {"a": 0.5}, "value must be numbers in [0, 1] that sum to 1, got {'a': 0.5}: correct them"),
        ("sky", {"a": 1.5, "b": -0.5}, "that sum to 1, got {'a': 1.5, 'b': -0.5}"),
        (
            "sky",
            {"a": float("nan"), "b": 1.0},
            "that sum to 1, got {'a': nan, 'b': 1.0}",
        ),
        (
            "sky",
            {"a": "1"},
            "value must be an object with a number for each class, got '1' for 'a': write the",
        ),
        (
            "sky",
            {"d": 0.0, "a": 1.0},
            "must be one of the classes ['a', 'b', 'c'], got 'd'",
        ),
        ("sky", {7: 1.0}, "each label of value must be a class label, a text"),
        ("sky", [0.5, 0.5, 0.0], "a class label or an object of the classes' probabilities, got [0.5, 0.5,"),
        ("binary", {"0": 0.5, "1": 0.5}, "value must be"),
        ("lp", {"a": 1.0}, "kind 'lp', got {'a': 1.0}: soft labels go with kind 'simplex'"),
        ("fine", {"a": 0.5, "b": 0.5}, "too fine for soft labels over 26 classes"),
    ],
)
def test_what_is_no_soft_label_is_refused_and_leaves_no_trace(key, value, why):
    with Engine(None, CONFIG) as engine:
        engine.query("q", key)
        refused = engine.outcome("q", value)
        assert refused.reason in ("invalid", "malformed")
        assert why in refused.detail
        good = {"binary": 1, "sky": {"a": np.float64(0.25), "b": 0.75}}.get(key, "a")
        assert engine.outcome("q", good) == Settled("q")


@pytest.fixture
def bears_three(monkeypatch):
    """Integers that bear three classes on any grid: to find the true limits takes hundreds of classes."""
    monkeypatch.setattr(
        guarantees, "most_late", lambda k, scale, *settings: 1000 if k <= 3 or scale >= 1 << 8 else -1
    )


@pytest.mark.parametrize("most", [1, 3, 200])
def test_a_class_that_the_integers_do_not_bear_is_refused_and_the_key_goes_on(tmp_path, bears_three, most):
    given = [one for i in range(5) for one in (Query(f"q{i}", "k"), Outcome(f"q{i}", f"l{i}"))]
    given += [Query("soft", "k"), Outcome("soft", {"l0": 0.5, "l9": 0.5}), Outcome("soft", "l2")]
    with Engine(tmp_path / "ledger", EngineConfig(KeyConfig(kind="simplex"))) as engine:
        told = [one for i in range(0, len(given), most) for one in engine.handle(given[i : i + most])]
    refused = [one for one in told if isinstance(one, Rejected)]
    assert [one.id for one in refused] == ["q3", "q4", "soft"]
    assert all(
        "4 classes would overflow the forecaster's integers on a grid of" in one.detail for one in refused
    )
    assert told[-1] == Settled("soft")
    check_ledger(tmp_path / "ledger")


def test_a_forecaster_that_cannot_bear_a_class_is_as_it_was(bears_three):
    forecaster = SimplexAlmostOneStepAhead()
    for label in "abc":
        forecaster.learn_one({}, label)
    before = forecaster.predict_proba_one({}), forecaster.certificate, forecaster.guarantee
    for outcome in ("d", {"d": 0.5, "a": 0.5}):
        with pytest.raises(ValueError, match="4 classes would overflow"):
            forecaster.learn_one({}, outcome)
        assert before == (forecaster.predict_proba_one({}), forecaster.certificate, forecaster.guarantee)
        assert forecaster.classes == ["a", "b", "c"]


def even(n, first=0):
    return {f"c{i}": 1 / n for i in range(first, first + n)}


@pytest.mark.parametrize("kind", ["simplex", "lp"])
def test_more_classes_than_a_key_may_discover_are_refused_by_name(kind):
    with Engine(None, EngineConfig(KeyConfig(kind=kind, most_classes=3))) as engine:
        for i in range(3):
            assert engine.handle([Query(f"q{i}", "k"), Outcome(f"q{i}", f"c{i}")])[1] == Settled(f"q{i}")
        told = engine.handle(
            [Query("q", "k"), Outcome("q", "d"), Query("r", "k", even(4)), Outcome("q", "c0")]
        )
    assert [type(one) for one in told] == [Forecast, Rejected, Rejected, Settled]
    assert "would be 4 classes, and most_classes of the key is 3. Correct the label" in told[1].detail
    assert told[2].detail.startswith("hint must have at most 3 labels, most_classes of the key, got 4: name")


def test_a_refusal_of_many_labels_does_not_look_at_them():
    # keys of the object that are no labels would be found at the first look
    value = dict.fromkeys(range(10**6), 1.0)
    kind = OneKey(KeyConfig(kind="simplex")).key.settings.kind
    begin = time.process_time()
    with pytest.raises(ValueError, match=r"value must have at most 100 labels, .*, got 1,000,000"):
        kind.outcome_of(value)
    assert time.process_time() - begin < 0.01


@pytest.mark.parametrize("kind", ["simplex", "lp"])
def test_a_state_of_as_many_bytes_as_it_may_have_takes_no_queries(kind, monkeypatch):
    monkeypatch.setattr(keys, "MOST_STATE_BYTES", 60_000)
    config, n = KeyConfig(kind=kind), 0
    with Engine(None, EngineConfig(config)) as engine:
        engine.handle([Query("q", "k"), Outcome("q", "c0")])
        while isinstance(told := engine.handle([Query(f"q{n}", "k", even(10))])[0], Forecast):
            n += 1
        assert told.reason == "full"
        assert f"{n} open forecasts it may take more than 0.0572 MiB; settle or withdraw" in told.detail
        assert 5 < n < 200
        data = engine._book.keys["k"].dump(engine._book.ids)
        assert len(data) < 60_000
        again = OneKey(config, data)
        assert again.key.is_full_at(None, again.book.waits)
        engine.handle([Outcome(f"q{i}", "c0") for i in range(n // 2)])
        assert isinstance(engine.handle([Query("again", "k")])[0], Forecast)


def test_a_lane_keeps_how_many_others_were_open_at_most_when_it_was_asked():
    classes, binary, kept = KeyConfig(kind="simplex", lanes=2), KeyConfig(lanes=2), []
    said = {"classes": "a", "binary": 1}
    with Engine(None, EngineConfig(classes, (Match("binary", binary),))) as engine:

        def note():
            keys_of, arrays = engine._book.keys, engine._book.keys["binary"].arrays
            of_binary = arrays.state.fields[arrays.lanes_of(keys_of["binary"].first_lane), LATE].tolist()
            assert keys_of["classes"].late == of_binary
            kept.append(of_binary)

        for i in range(5):
            engine.handle([Query(f"{key}{i}", key) for key in said])
            note()
        # outcomes, and a query in a lane that was busier before, change nothing
        engine.handle([Outcome(f"{key}{i}", said[key]) for key in said for i in range(4)])
        engine.handle([Query(f"{key}5", key) for key in said])
        note()
    assert kept == [[0], [0, 0], [1, 0], [1, 1], [2, 1], [2, 1]]


def events_of(table, labels, late):
    """Each forecast is settled after so many more were asked for."""
    events = []
    for i in range(len(table) + late):
        if i < len(table):
            events.append(Query(f"q{i}", "k", hint=told(table[i])))
        if i >= late:
            events.append(Outcome(f"q{i - late}", "abc"[labels[i - late]]))
    return events


def played(path, config, events, size):
    """The forecasts of batches of that size, with a fresh engine for each."""
    found = []
    for start in range(0, len(events), size):
        with Engine(path, EngineConfig(config)) as engine:
            found += engine.handle(events[start : start + size])
            summary = engine.summary("k")
    return [each for each in found if isinstance(each, Forecast)], summary


@pytest.mark.parametrize("given", [{}, {"fading": 0.99, "n_levels": 4, "within": "constant"}])
def test_a_key_says_what_the_wrapper_says(tmp_path, given):
    table, labels = stream(500)
    config = KeyConfig(kind="lp", classes=("a", "b", "c"), first_fit=50, **given)
    found, _ = played(tmp_path / "l", config, events_of(table, labels, 0), 1_001)
    model = LpCalibratedClassifier(Told(), **{"n_levels": 5, "within": "shift", "first_fit": 50, **given})
    for row, label, forecast in zip(table, labels.tolist(), found, strict=True):
        assert model.predict_proba_one(told(row)) == forecast.probability
        model.learn_one(told(row), "abc"[label])
    assert model.n_fits >= 3


def test_late_labels_restarts_and_the_certificate(tmp_path):
    table, labels = stream(600)
    events, config = events_of(table, labels, 7), KeyConfig(kind="lp", first_fit=40)
    found, summary = played(tmp_path / "whole", config, events, len(events))
    assert played(tmp_path / "parts", config, events, 173) == (found, summary)
    said = np.array([[forecast.probability.get(label, 0.0) for label in "abc"] for forecast in found])
    # before a class is known nothing is said of it: those rounds are level sets of their own
    early = int(np.argmax(said.sum(axis=1) > 0.0)) + 20
    exact = (600 - early) * lp_calibration_error(said[early:], labels[early:], 2, n_bins=5)
    assert exact - 2.0 * early <= summary.certificate <= exact + 2.0 * early
    assert summary.certificate <= summary.guarantee == pytest.approx(600 * 2**0.5)
    assert summary.certificate < 0.5 * 600 * lp_calibration_error(table, labels, 2, n_bins=5)
