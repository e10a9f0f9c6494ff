"""Keys in an arena and events judged in a loop: nothing differs from keys that keep all to themselves."""

from __future__ import annotations

import logging
import random

import pytest

from onlinecal.engine import Engine, EngineConfig, KeyConfig, Match, Outcome, Query, Withdraw
from onlinecal.engine.keys.own_states import is_own, note_own
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
    few["packed_bytes"] = rng.choice([0, 6_000, 1 << 20])
    together = Engine(tmp_path / "together.db", CONFIG, **few)
    apart = alone(Engine(tmp_path / "apart.db", CONFIG, **few))
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
        assert (len(keys.live), len(keys.packed), len(keys.states)) == (30, 60, 90)
        assert keys.packed_bytes == sum(keys.packed.values())
        assert arena.open.size - len(arena.open.free) == engine.in_memory()[1]
        assert len(arena.state.heap) < 100_000


def test_only_what_was_written_last_is_known_again():
    note_own("k", b"mark", b"one")
    assert is_own("k", b"mark", b"one")
    assert not is_own("k", b"other", b"one")
    note_own("k", b"mark", b"two")
    assert not is_own("k", b"mark", b"one")
