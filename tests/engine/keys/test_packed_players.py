"""Players as bytes: the parts are what states are stored as, and nothing is lost on the way."""

import random
from itertools import pairwise

import numpy as np
import pytest

from onlinecal.engine import Engine, EngineConfig, KeyConfig, Outcome, Query
from onlinecal.engine.keys import attic
from onlinecal.engine.keys.lanes import BinaryLane
from onlinecal.engine.keys.packed_players import apart, heads_of, together
from onlinecal.engine.keys.packing import HEAD, pack, pack_floats, unpack
from onlinecal.engine.keys.steering import sparse

CONFIGS = {
    "default": KeyConfig(),
    "grid": KeyConfig(horizon=500),
    "silent": KeyConfig(alarm=False),
    "own hints": KeyConfig(steering=False),
}


def played(config, keys=9, rounds=60, **few):
    """An engine in memory whose keys have settled some rounds, with hints or without, and have some open."""
    rng = random.Random(1)
    engine = Engine(config=EngineConfig(config), **few)
    for t in range(rounds):
        queries = [
            Query(f"{k}.{t}", f"k{k}", rng.random() if k % 3 else None) for k in range(keys) if t < 9 * k
        ]
        engine.handle(queries)
        engine.handle([Outcome(one.id, rng.randrange(2)) for one in queries if rng.random() < 0.9])
    return engine


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_the_parts_are_those_that_are_stored(config):
    engine = played(config)
    [arena] = engine._keys._arenas
    for state in engine._keys.states.values():
        [packed] = arena.packed([state.player])
        held, row = apart(packed), int(arena.state.rows[state.player])
        assert len(packed) % 8 == 0
        memory = arena.model.machine.rules.in_use(arena.memory(state.player))
        assert held.lane == pack(memory)
        assert held.steering == (sparse(arena.state.steering[[row]])[0] if row >= 0 else None)
        assert held.account == pack_floats(arena.state.accounts[state.player])
        assert held.late == arena.late(state.player)
        lane = BinaryLane(arena.model, memory)
        assert arena.figures(heads_of(packed)) == [(lane.rounds, lane.certificate, lane.promise(held.late))]
        again = together(held.lane, held.steering, held.account, len(state.open), held.late)
        assert apart(again) == held


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_what_is_taken_up_again_is_what_was_packed(config):
    engine = played(config)
    [arena] = engine._keys._arenas
    players = [state.player for state in engine._keys.states.values()]
    packed = arena.packed(players)
    # some that are gone leave longer memories and steering behind
    arena.let_go(arena.unpack(packed[::-1]))
    others = arena.unpack(packed)
    assert not {*others} & {*players}
    assert arena.packed(others) == packed
    assert arena.packed(players) == packed


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_what_comes_from_the_attic_is_what_was_packed(config, monkeypatch):
    monkeypatch.setattr(attic, "FIRST", 1)
    engine = played(config)
    [arena] = engine._keys._arenas
    players = np.array([state.player for state in engine._keys.states.values()])
    packed = arena.packed(players.tolist())
    stored = arena.store(players)
    assert [arena.attic.read(*one) for one in stored.tolist()] == packed
    again = arena.fetch(*stored[::-1].T)
    assert arena.packed(again.tolist()) == packed[::-1]
    # who goes in again finds the rooms that were left
    used = int(arena.attic.rooms.used[0])
    stored = arena.store(again)
    assert sorted(len(arena.attic.read(*one)) for one in stored.tolist()) == sorted(map(len, packed))
    assert int(arena.attic.rooms.used[0]) == used


def test_rooms_never_overlap():
    rng = random.Random(5)
    rooms = attic.Rooms(np.empty(1 << 16, np.int64), np.full(attic.LARGE, -1), np.zeros(1, np.int64))
    held: dict[int, int] = {}
    for _ in range(3_000):
        size = rng.choice([rng.randint(1, 200), rng.randint(1, 5_000)])
        start = attic.take_room(rooms, size)
        if start < 0 or (held and rng.random() < 0.5):
            gone = rng.sample(sorted(held), len(held) // 2)
            attic.leave_rooms(
                rooms, np.array(gone, np.int64), np.array([held.pop(one) for one in gone], np.int64)
            )
        if start >= 0:
            rooms.words[start : start + size] = size
            held[start] = size
        assert all((rooms.words[at : at + n] == n).all() for at, n in held.items())
    spans = sorted(held.items())
    assert all(at + n <= after for (at, n), (after, _) in pairwise(spans))


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("sign", [1, -1])
def test_tables_are_packed_as_narrowly_as_they_allow(width, sign):
    engine = played(KeyConfig(horizon=500), keys=2, rounds=30)
    [arena] = engine._keys._arenas
    player = engine._keys.states["k1"].player
    most = (1 << (8 * width - 1)) - (sign > 0)
    arena.memory(player)[HEAD:] = np.linspace(0, 100, len(arena.memory(player)) - HEAD).astype(int)
    arena.memory(player)[HEAD + 3] = sign * most
    [packed] = arena.packed([player])
    assert apart(packed).lane == pack(arena.memory(player))
    assert apart(packed).lane[0] == width
    [other] = arena.unpack([packed])
    assert (arena.memory(other) == unpack(apart(packed).lane)).all()


def test_packed_keys_take_no_more_than_they_may_and_the_oldest_leave_first():
    engine = Engine(hot_keys=3, packed_bytes=30_000)
    for i in range(30):
        engine.handle([Query(f"q{i}", f"k{i}", 0.3), Outcome(f"q{i}", 1)])
    keys = engine._keys
    assert [state.name for state in keys.live] == ["k27", "k28", "k29"]
    assert 5 < len(keys.packed) < 20
    assert [state.name for state in keys.packed] == [f"k{i}" for i in range(27 - len(keys.packed), 27)]
    assert len(keys.states) == 3 + len(keys.packed)
    assert 26_000 < keys.packed_bytes == sum(keys.packed.values()) <= 30_000
    with pytest.raises(ValueError, match="packed_bytes must be a whole number of at least 0, got -1"):
        Engine(packed_bytes=-1)


def test_packed_keys_say_what_live_ones_say():
    live, packed = (played(KeyConfig(), hot_keys=hot, packed_bytes=1 << 20) for hot in (100, 1))
    assert len(packed._keys.packed) == 7
    for i in range(9):
        assert packed.summary(f"k{i}") == live.summary(f"k{i}")
    assert packed.total() == live.total()
    states = [{one.name: one.dump() for one in engine._keys.states.values()} for engine in (live, packed)]
    assert states[0] == states[1]
