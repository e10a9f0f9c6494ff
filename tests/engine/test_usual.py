"""Plain events accepted together: nothing differs from events that are judged one by one."""

import logging
import random

import msgspec
import pytest

from onlinecal.engine import (
    Engine,
    EngineConfig,
    KeyConfig,
    Match,
    Outcome,
    Query,
    Rejected,
    Withdraw,
    encode_lines,
    judge,
)
from tests.engine.scripts import states_of

CONFIG = EngineConfig(
    KeyConfig(),
    (
        Match("plain*", KeyConfig(steering=False, alarm=False)),
        Match("brief*", KeyConfig(expire_after=30.0, alarm=0.5)),
        Match("grid*", KeyConfig(n_cells=3, report="hint")),
        Match("long*", KeyConfig(horizon=50, slack=1.0)),
        Match("windows*", KeyConfig(window=20, lanes=2)),
    ),
)


@pytest.fixture(autouse=True)
def unlogged(monkeypatch):
    """Alarms that are raised here use up nothing of what is logged a minute."""
    monkeypatch.setattr(logging.getLogger("onlinecal.engine"), "disabled", True)


def one_by_one(engine, events, monkeypatch):
    """The answers of an engine that judges every event by all the rules."""
    with monkeypatch.context() as patched:
        patched.setattr(judge, "FEW_EVENTS", 10**9)
        return engine.handle(events)


def random_events(rng, asked, count):
    """Events of some keys, most plain, some not; `asked` lists the ids so far, and grows."""
    for _ in range(count):
        time = rng.choice([None, float(len(asked)), len(asked) - 3.0, len(asked)])
        if rng.random() < 0.5 or not asked:
            id = f"q{len(asked)}" if rng.random() < 0.97 or not asked else rng.choice(asked)
            asked.append(id)
            key = rng.choice(["", "plain", "brief", "grid", "long", "windows"]) + rng.choice("aaab")
            yield Query(id, key, rng.choice([None, 1.0, 0.0, -0.0, *(rng.random() for _ in range(8))]), time)
        elif rng.random() < 0.05:
            yield Withdraw(rng.choice(asked[-20:]), time=time)
        else:
            value = rng.choice([0, 1, 1, 1, 1, 1, True, 0.0, rng.choice([0, 0.25, 2, "x"])])
            yield Outcome(rng.choice(asked[-20:]), value, rng.choice([None] * 9 + ["a"]), time)


def mostly_plain(rng, asked, waiting, count, odd):
    """Events of which a part is odd: repeats, unknown ids, other keys and kinds of keys, withdrawals."""
    for t in range(count):
        key = rng.choice("abcdefg") + str(rng.randrange(9))
        if rng.random() < odd:
            for one in random_events(rng, asked, 1):
                yield one
                if rng.random() < 0.3:
                    # of an id to come
                    yield Outcome(f"q{len(asked) + rng.randrange(3)}", 1)
        elif rng.random() < 0.55 or not waiting:
            # longer and longer, some not of ASCII
            number = len(asked)
            asked.append(f"{number}" + rng.choice(["", "", "\u00e9", "x" * (number // 20)]))
            waiting.append((asked[-1], key))
            hint, time = rng.choice([None, rng.random(), rng.random()]), rng.choice([None, t / 8])
            yield Query(asked[-1], key, hint, time)
        else:
            id, key = waiting.pop(rng.randrange(len(waiting)))
            value = rng.randrange(2) if rng.random() > odd else rng.random()
            yield Outcome(id, value, rng.choice([None, None, key]), rng.choice([None, t / 4]))
            if rng.random() < odd:
                yield rng.choice([Outcome(id, 1), Withdraw(id), Query(id, key), Outcome(id, 0, key)])


def assert_same(first, *others):
    """Engines with the same events differ in nothing that follows from them."""
    for other in others:
        for table in ("keys", "queries", "closings"):
            rows = f"SELECT * FROM {table}"
            assert other._ledger.rows(rows) == first._ledger.rows(rows)
        assert other._book.reliability.dump() == first._book.reliability.dump()
        assert states_of(other) == states_of(first)
        assert other.total() == first.total()


@pytest.mark.parametrize("odd, seed", [(0.0, 0), (0.01, 1), (0.1, 2), (1.0, 3), (1.0, 4), (1.0, 5)])
def test_events_together_and_lines_are_answered_as_events_one_by_one(tmp_path, odd, seed, monkeypatch):
    rng, asked, waiting, accepted = random.Random(seed), [], [], 0
    few = {"hot_keys": rng.choice([1, 4, 100]), "window": rng.choice([0, 60, 10_000])}
    lines = Engine(tmp_path / "lines.db", CONFIG, **few)
    together, apart = Engine(tmp_path / "together.db", CONFIG), Engine(tmp_path / "apart.db", CONFIG)
    for size in (1, 20, 600, 3, 5, 60, 900, 40, 300):
        batch = list(mostly_plain(rng, asked, waiting, size, odd))
        wanted = one_by_one(apart, batch, monkeypatch)
        assert together.handle(batch) == wanted
        assert lines.handle_lines(msgspec.json.Encoder().encode_lines(batch)) == encode_lines(wanted)
        accepted += sum(type(one) is not Rejected for one in wanted)
        for engine in (lines, together):
            assert sorted(map(repr, engine._book.raised)) == sorted(map(repr, apart._book.raised))
        # nothing is left of what is gone
        book = lines._book
        assert len(book.keys) <= few["hot_keys"]
        assert len(book.ids) - len(book._free) == lines.in_memory()[1]
        if rng.random() < 0.2:
            lines._ledger.close()
            lines = Engine(tmp_path / "lines.db", **few)
    assert accepted > 500
    assert_same(lines, together, apart)


def test_most_plain_events_are_accepted_together(tmp_path, monkeypatch):
    rng, single = random.Random(0), []
    monkeypatch.setattr(judge.Batch, "_one_by_one", lambda self, start, end: single.append(end - start))
    with Engine(tmp_path / "ledger.db") as engine:
        engine.handle(list(mostly_plain(rng, [], [], 500, 0.0)))
        assert sum(single) == 0


def test_keys_that_were_used_longest_ago_leave_first():
    engine = Engine(hot_keys=3)
    for i in range(30):
        engine.handle([Query(f"q{i}", f"k{i}", 0.3), Outcome(f"q{i}", 1)])
    assert [*engine._book.keys] == ["k27", "k28", "k29"]
