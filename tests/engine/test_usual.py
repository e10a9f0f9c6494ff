"""Keys in an arena and events judged in a loop: nothing differs from keys that keep all to themselves."""

from __future__ import annotations

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
)
from onlinecal.engine.columns.columns import EventColumns
from tests.engine.scripts import states_of

CONFIG = EngineConfig(
    KeyConfig(),
    (
        Match("plain*", KeyConfig(steering=False, alarm=False)),
        Match("brief*", KeyConfig(expire_after=30.0, alarm=0.5)),
        Match("grid*", KeyConfig(n_cells=3, report="hint")),
        Match("long*", KeyConfig(horizon=50, slack=1.0)),
    ),
)


@pytest.fixture(autouse=True)
def unlogged(monkeypatch):
    """Alarms that are raised here use up nothing of what is logged a minute."""
    monkeypatch.setattr(logging.getLogger("onlinecal.engine"), "disabled", True)


def alone(engine):
    """The same engine, with every key for itself."""
    for settings in engine._keys.settings.values():
        settings.arena, settings.usual = None, False
    engine._keys._arenas.clear()
    return engine


def one_by_one(engine):
    """The same engine, with every event judged for itself."""
    engine._judge_really = engine._judge

    def judge(columns):
        batch = engine._judge_really(columns)
        batch.judge_all = lambda: batch._one_by_one(0, len(columns))
        return batch

    engine._judge = judge
    return engine


def random_events(rng, asked, count):
    """Events of some keys, most as usual, some not; `asked` lists the ids so far, and grows."""
    for _ in range(count):
        time = rng.choice([None, float(len(asked)), len(asked) - 3.0, len(asked)])
        if rng.random() < 0.5 or not asked:
            id = f"q{len(asked)}" if rng.random() < 0.97 or not asked else rng.choice(asked)
            asked.append(id)
            key = rng.choice(["", "plain", "brief", "grid", "long"]) + rng.choice("aaab")
            yield Query(id, key, rng.choice([None, 1.0, 0.0, -0.0, *(rng.random() for _ in range(8))]), time)
        elif rng.random() < 0.05:
            yield Withdraw(rng.choice(asked[-20:]), time=time)
        else:
            value = rng.choice([0, 1, 1, 1, 1, 1, True, 0.0, rng.choice([0, 0.25, 2, "x"])])
            yield Outcome(rng.choice(asked[-20:]), value, rng.choice([None] * 9 + ["a"]), time)


@pytest.mark.parametrize("seed", range(4))
def test_answers_states_and_alarms_are_those_of_keys_for_themselves(tmp_path, seed):
    rng, asked = random.Random(seed), []
    few = {"hot_keys": rng.choice([1, 4, 100]), "window": rng.choice([0, 60, 10_000])}
    together = Engine(tmp_path / "together.db", CONFIG, **few)
    apart = one_by_one(alone(Engine(tmp_path / "apart.db", CONFIG, **few)))
    for _ in range(25):
        batch = list(random_events(rng, asked, rng.choice([1, 5, 60, 300])))
        assert together.handle(batch) == apart.handle(batch)
        assert sorted(map(repr, together._keys.raised)) == sorted(map(repr, apart._keys.raised))
        if rng.random() < 0.2:
            together._ledger.close()
            together = Engine(tmp_path / "together.db", **few)
    assert together._keys.reliability.dump() == apart._keys.reliability.dump()
    assert states_of(together) == states_of(apart)
    assert together.total() == apart.total()


def mostly_usual(rng, asked, waiting, count, odd):
    """Lines of which a part is odd: repeats, unknown ids, other keys and kinds of keys, withdrawals."""
    for t in range(count):
        key = rng.choice("abcdefg") + str(rng.randrange(9))
        if rng.random() < odd:
            yield from random_lines(rng, asked, 1)
        elif rng.random() < 0.55 or not waiting:
            asked.append(f"q{len(asked)}")
            waiting.append((asked[-1], key))
            hint, time = rng.choice([None, rng.random(), rng.random()]), rng.choice([None, t / 8])
            yield Query(asked[-1], key, hint, time)
        else:
            id, key = waiting.pop(rng.randrange(len(waiting)))
            yield Outcome(id, rng.randrange(2), rng.choice([None, None, key]), rng.choice([None, t / 4]))
            if rng.random() < odd:
                yield rng.choice([Outcome(id, 1), Withdraw(id), Query(id, key), Outcome(id, 0, key)])


def random_lines(rng, asked, count):
    """Random events, some of them about ids to come."""
    for one in random_events(rng, asked, count):
        yield one
        if rng.random() < 0.3:
            yield Outcome(f"q{len(asked) + rng.randrange(3)}", 1)


def written(engine):
    """The log and the keys, row by row."""
    return [engine._ledger.rows(f"SELECT * FROM {table}") for table in ("keys", "queries", "closings")]


@pytest.mark.parametrize("odd", [0.0, 0.01, 0.1])
def test_events_judged_together_are_judged_as_one_by_one(tmp_path, odd):
    rng, asked, waiting = random.Random(int(100 * odd)), [], []
    lines = Engine(tmp_path / "lines.db", CONFIG, hot_keys=40)
    together = Engine(tmp_path / "together.db", CONFIG)
    apart = one_by_one(Engine(tmp_path / "apart.db", CONFIG))
    judged = 0
    for size in (1, 20, 600, 3, 900, 40, 900):
        batch = list(mostly_usual(rng, asked, waiting, size, odd))
        wanted = apart.handle(batch)
        assert together.handle(batch) == wanted
        data = msgspec.json.Encoder().encode_lines(batch)
        assert lines.handle_lines(data) == encode_lines(wanted)
        assert written(lines) == written(together) == written(apart)
        judged += sum(type(one) is not Rejected for one in wanted)
    assert judged > 1_500
    assert states_of(lines) == states_of(together) == states_of(apart)
    assert lines._keys.reliability.dump() == apart._keys.reliability.dump()
    assert lines.total() == together.total() == apart.total()


def test_most_usual_events_are_judged_together(tmp_path):
    rng = random.Random(0)
    with Engine(tmp_path / "ledger.db") as engine:
        for _ in range(3):
            asked, waiting = [], []
            batch = engine._answer(EventColumns(list(mostly_usual(rng, asked, waiting, 500, 0.0))), ())
            alone = sum(one is not None for one in batch.judged)
            # the second time all ids have been there before
            assert alone == (0 if engine.total().events <= 500 else 500)


def unusual_turn(rng, id, key):
    """What may come between events of a key that are as usual."""
    return rng.choice(
        [
            [Outcome(id, 0.5)],
            [Withdraw(id)],
            [Outcome(id, 0.5), Query(id, key), Outcome(id, 1)],
            [Query(id, key), Query(id, key, 0.5), Outcome(id, 1, "other")],
            [Query(id + "é", key), Outcome(id + "é", 1), Outcome(id, 1), Query(id + "é", key)],
        ]
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_key_has_a_seat_or_leaves_it_whatever_is_unusual(tmp_path, seed):
    rng, waiting, number = random.Random(seed), [], 0
    few = {"hot_keys": 6, "window": 100}
    seated = Engine(tmp_path / "seated.db", CONFIG, **few)
    apart = one_by_one(Engine(tmp_path / "apart.db", CONFIG, **few))
    moved, left = 0, 0
    for size in (1, 60, 200, 4, 200, 200, 30):
        batch = []
        while len(batch) < size:
            if rng.random() < 0.5 or not waiting:
                number += 1
                # longer and longer
                id, key = f"{number}" + "x" * rng.choice([0, number // 8]), f"k{rng.randrange(20)}"
                waiting.append((id, key))
                batch.append(Query(id, key, rng.choice([None, 0.5, rng.random()])))
            else:
                id, key = waiting.pop(rng.randrange(len(waiting)))
                batch += unusual_turn(rng, id, key) if rng.random() < 0.1 else [Outcome(id, rng.randrange(2))]
        assert seated.handle(batch) == apart.handle(batch)
        keys = seated._keys
        assert keys.states.keys() == apart._keys.states.keys()
        assert set(keys.open) == set(apart._keys.open)
        assert sum(len(state.open) for state in keys.states.values()) == len(keys.open)
        moved += sum(state.seat >= 0 for state in keys.states.values())
        left += sum(state.seat < 0 for state in keys.states.values())
        assert len(keys.states) <= 6
    assert moved > 10
    assert left > 0
    assert states_of(seated) == states_of(apart)
    assert written(seated) == written(apart)
    assert seated._keys.reliability.dump() == apart._keys.reliability.dump()
    assert seated.total() == apart.total()


def test_many_keys_and_rounds_move_about_in_the_arena(tmp_path):
    rng, waiting = random.Random(1), []
    with Engine(tmp_path / "ledger.db", hot_keys=30, window=500) as engine:
        other = alone(Engine(None))
        for i in range(12):
            batch = []
            for j in range(400):
                batch.append(Query(f"{i}.{j}", f"k{rng.randrange(90)}", round(rng.random(), 2)))
                waiting.append(batch[-1].id)
                if len(waiting) > 150:
                    batch.append(Outcome(waiting.pop(rng.randrange(150)), rng.randrange(2)))
            assert engine.handle(batch) == other.handle(batch)
        [arena] = engine._keys._arenas
        keys = engine._keys
        assert len(keys.states) == 30
        assert arena.open.size - len(arena.open.free) == engine.in_memory()[1]
        assert len(arena.state.heap) < 100_000
