"""What a key of several classes may take at most: classes that it discovers, and bytes of its state."""

import time

import msgspec
import pytest

from onlinecal.engine import Engine, EngineConfig, Forecast, KeyConfig, Outcome, Query, Rejected, Settled
from onlinecal.engine.keys import lanes
from onlinecal.engine.keys.storing import SUM
from tests.engine.one_key import OneKey, settings_of


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
    assert told[1].detail.endswith("are 4 classes, more than the 3 that a key may discover (most_classes)")
    assert told[2].detail == "hint has 4 labels, more than the 3 that a key may discover (most_classes)"


def test_a_refusal_of_many_labels_does_not_look_at_them():
    # keys of the object that are no labels would be found at the first look
    value = dict.fromkeys(range(10**6), 1.0)
    kind = settings_of(KeyConfig(kind="simplex")).kind
    begin = time.process_time()
    with pytest.raises(ValueError, match="value has 1,000,000 labels, more than the 100 that a key may"):
        kind.outcome_of(value)
    assert time.process_time() - begin < 0.01


@pytest.mark.parametrize("k", [1, 2, 5, 100])
def test_an_open_forecast_keeps_small_integers_for_each_class(k):
    labels = [f"c{i}" for i in range(k)]
    state = OneKey(KeyConfig(kind="simplex", classes=tuple(labels)))
    issued = state.ask("q", 1, even(k), None)
    state.run()
    assert len(state.key.open[issued.entry].cell) == 4 * (3 * k + 1)
    stored = msgspec.msgpack.decode(state.dump()[SUM:])
    assert len(msgspec.msgpack.encode(stored[5])) < 64 + 50 * k


@pytest.mark.parametrize("kind", ["simplex", "lp"])
def test_a_state_of_as_many_bytes_as_it_may_have_takes_no_queries(kind, monkeypatch):
    monkeypatch.setattr(lanes, "MOST_BYTES", 60_000)
    config, n = KeyConfig(kind=kind), 0
    with Engine(None, EngineConfig(config)) as engine:
        engine.handle([Query("q", "k"), Outcome("q", "c0")])
        while isinstance(told := engine.handle([Query(f"q{n}", "k", even(10))])[0], Forecast):
            n += 1
        assert told.reason == "full"
        assert 5 < n < 200
        data = engine._book.keys["k"].dump(engine._book.ids)
        assert len(data) < 60_000
        again = OneKey(config, data)
        assert again.key.is_full_at(None, again.book.waits)
        engine.handle([Outcome(f"q{i}", "c0") for i in range(n // 2)])
        assert isinstance(engine.handle([Query("again", "k")])[0], Forecast)
