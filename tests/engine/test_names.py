"""Names that cannot be: they are refused before they reach the ledger, and touch nothing of other names."""

import pytest

from onlinecal.engine import Engine, EngineConfig, Outcome, Query, Rejected, Withdraw
from onlinecal.engine.ledger.schema import Snapshot
from onlinecal.engine.turns import KeyTurns
from tests.engine.scripts import assert_sound

BAD = ("oslo\0", "oslo\0x", "\0", "", "oslo\ud800", "\udfffoslo", "o" * 201, "o" * 70_000)
"""SQLite cuts text at a NUL, in JSON too: to it, the first is `oslo`."""

FINE = (
    "oslo", "oslo\x1b[2J", "oslo\x9b", "oslo\u202e", " oslo", "OSLO", "o\u0301slo", "\ufeffoslo",
    "\U0010ffff", '"', "\\",
)  # fmt: skip


def history():
    """Events of a key with a forecast that stays open, and the last of which shows all that went before."""
    events = [Query("open", "oslo")]
    for i in range(12):
        events += [Query(f"oslo{i}", "oslo"), Outcome(f"oslo{i}", i % 3 > 0)]
    return [*events, Outcome("open", 0), Query("last", "oslo")]


def bad_events(name):
    """Every kind of event with a name that cannot be, where a name can stand."""
    yield Query("fresh", name)
    yield Query("other", "bergen", None)
    for id in (name, f"{name[:4]}0\0", "open\0"):
        yield from (Query(id, "oslo"), Outcome(id, 1), Withdraw(id), Outcome(id, 0, "oslo"))
    yield from (Outcome("open", 1, name), Withdraw("open", name))


@pytest.mark.parametrize("bad", BAD, ids=range(len(BAD)))
def test_names_that_cannot_be_leave_no_trace_on_those_they_resemble(folder, bad):
    events = history()
    with Engine(folder / "clean.db") as clean:
        wanted = clean.handle(events)
    engine = Engine(folder / "ledger.db")
    answers = []
    for event in events:
        answers += engine.handle([event])
        assert engine.summary(bad) is None
        engine.handle([Query("other", "bergen")])
        for one in bad_events(bad):
            [refused] = engine.handle([one])
            assert isinstance(refused, Rejected) == (one.id != "other")
    assert answers == wanted
    assert engine.summary("oslo").rounds == 13
    # as after a kill: what the log says must come to the same forecasts
    engine._ledger.close()
    assert_sound(folder / "ledger.db")
    with Engine(folder / "ledger.db") as engine:
        assert engine.handle(events) == wanted
    # nor does a turn of a key with that name keep anything
    data, answers = KeyTurns(EngineConfig(), 10)(bad, None, [Query("a", bad), Outcome("a", 1)])
    assert (data, [answer.reason for answer in answers]) == (None, ["invalid", "unknown"])


def test_names_that_can_be_are_told_apart(folder):
    with Engine(folder / "ledger.db", hot_keys=1, window=0) as engine:
        for i, name in enumerate(FINE):
            for j in range(i + 1):
                engine.handle([Query(f"{name}{j}", name), Outcome(f"{name}{j}", 1)])
        for i, name in enumerate(FINE):
            assert engine.summary(name).rounds == i + 1
            assert engine.query(f"{name}0", name).key == name
    assert_sound(folder / "ledger.db")


def test_a_hot_key_is_never_loaded_over():
    with Engine() as engine:
        engine.handle(history())
        book, key = engine._book, engine._book.keys["oslo"]
        with pytest.raises(ValueError, match="'oslo' is in memory"):
            book.load([Snapshot(1, "oslo", -1, 0, None)])
        assert book.keys["oslo"] is key
