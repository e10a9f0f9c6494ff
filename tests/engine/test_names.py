"""Names that cannot be: they are refused before they reach the ledger, and touch nothing of other names."""

import pytest

from onlinecal.engine import Engine, EngineConfig, Outcome, Query, Rejected, Withdraw
from onlinecal.engine.ledger.schema import Snapshot
from onlinecal.engine.turns import KeyTurns
from tests.engine.scripts import assert_sound

BAD = ("oslo\0", "oslo\0x", "\0", "", "oslo\ud800", "\udfffoslo", "o" * 201, "o" * 70_000)
"""SQLite cuts text at a NUL, in JSON too: to it, the first is `oslo`."""


@pytest.mark.parametrize("bad", BAD, ids=range(len(BAD)))
def test_names_that_cannot_be_leave_no_trace_on_those_they_resemble(folder, bad):
    # the last answer shows all that went before
    events = [Query("open", "oslo")]
    for i in range(12):
        events += [Query(f"oslo{i}", "oslo"), Outcome(f"oslo{i}", i % 3 > 0)]
    events += [Outcome("open", 0), Query("last", "oslo")]
    with Engine() as clean:
        wanted = clean.handle(events)
    wrong = [Query("fresh", bad), Outcome("open", 1, bad), Withdraw("open", bad)]
    for id in (bad, f"{bad[:4]}0\0", "open\0"):
        wrong += [Query(id, "oslo"), Outcome(id, 1), Withdraw(id), Outcome(id, 0, "oslo")]
    engine, answers = Engine(folder / "ledger.db"), []
    for event in events:
        answers += engine.handle([event])
        assert engine.summary(bad) is None
        for one in wrong:
            assert isinstance(engine.handle([one])[0], Rejected)
    assert answers == wanted
    # as after a kill: what the log says must come to the same forecasts
    engine._ledger.close()
    assert_sound(folder / "ledger.db")
    with Engine(folder / "ledger.db") as engine:
        assert engine.handle(events) == wanted
    # nor does a turn of a key with that name keep anything
    data, answers = KeyTurns(EngineConfig(), 10)(bad, None, [Query("a", bad), Outcome("a", 1)])
    assert (data, [answer.reason for answer in answers]) == (None, ["invalid", "unknown"])


def test_names_that_can_be_are_told_apart():
    names = ["oslo", " oslo", "OSLO", "o\u0301slo", "\ufeffoslo", "oslo\x1b[2J", "\U0010ffff", '"', "\\"]
    with Engine(hot_keys=1, window=0) as engine:
        for i, name in enumerate(names):
            for j in range(i + 1):
                engine.handle([Query(f"{name}{j}", name), Outcome(f"{name}{j}", 1)])
        assert [engine.summary(name).rounds for name in names] == list(range(1, len(names) + 1))


def test_a_hot_key_is_never_loaded_over():
    with Engine() as engine:
        engine.query("a", "oslo")
        key = engine._book.keys["oslo"]
        with pytest.raises(ValueError, match="'oslo' is in memory"):
            engine._book.load([Snapshot(1, "oslo", -1, 0, None)])
        assert engine._book.keys["oslo"] is key
