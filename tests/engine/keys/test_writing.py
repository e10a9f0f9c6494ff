"""What the compiled pass writes of keys in an arena: the bytes that a key outside writes of itself."""

import random

import msgspec
import numpy as np
import pytest

from onlinecal.engine import Engine, EngineConfig, KeyConfig, Outcome, Query
from onlinecal.engine.keys.packing import HEAD, SUM, pack
from onlinecal.engine.keys.writing import (
    ARRAY,
    BIN,
    TEXT,
    put_array,
    put_float,
    put_int,
    put_memory,
    put_sized,
)

CONFIGS = {
    "default": KeyConfig(),
    "grid": KeyConfig(horizon=500),
    "silent": KeyConfig(alarm=False),
    "own hints": KeyConfig(steering=False),
}
EDGES = [0, 1, 31, 32, 127, 128, 255, 256, 65_535, 65_536, 2**31, 2**32 - 1, 2**32, 2**53, 2**63 - 1]


def written(put, *given):
    out = [0] * 16
    return bytes(out[: put(out, 0, *given)])


@pytest.mark.parametrize("number", [*EDGES, *(-one for one in EDGES), -33, -129, -32_769, -(2**31) - 1])
def test_integers_are_as_short_as_they_can_be(number):
    assert written(put_int, number) == msgspec.msgpack.encode(number)


def test_lengths_are_as_short_as_they_can_be():
    for number in (1, 15, 16, 17, 65_535, 65_536):
        whole = msgspec.msgpack.encode([None] * number)
        assert written(put_array, number) == whole[: len(whole) - number]
        whole = msgspec.msgpack.encode(bytes(number))
        assert written(put_sized, BIN, number, 0) == whole[: len(whole) - number]
    for number in (32, 255, 256, 65_535, 65_536):
        whole = msgspec.msgpack.encode("x" * number)
        assert written(put_sized, TEXT, number, 0) == whole[: len(whole) - number]
    assert written(put_sized, ARRAY, 3, 1) == b"\xdc\0\3"
    assert written(put_float, float("nan")) == msgspec.msgpack.encode(None)
    for number in (0.0, -0.0, 1.5, -1e-300, 5e-324, 1.7e308):
        assert written(put_float, number) == msgspec.msgpack.encode(number)


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("sign", [1, -1])
def test_tables_are_written_as_narrowly_as_they_allow(width, sign):
    memory = np.arange(40)
    memory[HEAD + 3] = sign * ((1 << (8 * width - 1)) - (sign > 0))
    out = [0] * 500
    end = put_memory(memory, memory.view(np.uint8), 0, len(memory), out, 0)
    assert bytes(out[:end]) == msgspec.msgpack.encode(pack(memory))
    assert pack(memory)[0] == width


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
def test_a_key_writes_the_same_inside_and_outside(config):
    engine = played(config)
    # ids of all lengths, some of them of more than ASCII; keys that nothing was settled of
    ids = ["x" * 31, "x" * 32, "y" * 200, "\N{HONEYBEE}" * 63, "\N{HONEYBEE}" * 200]
    engine.handle([Query(one, f"k{i + 4}", i / 5, float(i)) for i, one in enumerate(ids)])
    engine.handle([Query(f"new{i}", f"new{i // 20}", 0.5 if i % 3 else None) for i in range(40)])
    engine.handle([Outcome("new3", 1), Outcome("new30", None), Outcome("x" * 32, 0)])
    keys = engine._keys
    states = list(keys.states.values())
    assert {state.seat >= 0 for state in states} == {True, False}
    rows = {row[0]: row[2:] for row in keys._rows_of(states, 1)}
    for state in states:
        data, summary = state.dump(), state.written()
        assert msgspec.msgpack.encode(msgspec.msgpack.decode(data[SUM:])) == data[SUM:]
        assert rows[state.number] == (summary, data)
        if state.seat >= 0:
            keys._out_of_seat(state)
        assert (state.dump(), state.written()) == (data, summary)
        state.move_out()
        assert (state.dump(), state.written()) == (data, summary)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_keys_that_come_back_from_the_ledger_are_as_they_were(config):
    hot, cold = played(config), played(config, hot_keys=2)
    assert len(cold._keys.states) == 2
    for i in range(9):
        assert cold.summary(f"k{i}") == hot.summary(f"k{i}")
    assert cold.total() == hot.total()
    cold._keys.fetch([f"k{i}" for i in range(9)], cold._ledger)
    states = [{one.name: one.dump() for one in engine._keys.states.values()} for engine in (hot, cold)]
    assert states[0] == states[1]


def test_keys_that_were_used_longest_ago_leave_first():
    engine = Engine(hot_keys=3)
    for i in range(30):
        engine.handle([Query(f"q{i}", f"k{i}", 0.3), Outcome(f"q{i}", 1)])
    assert [*engine._keys.states] == ["k27", "k28", "k29"]
