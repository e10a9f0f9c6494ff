"""What the compiled pass writes of keys in an arena: the bytes that a key outside writes of itself."""

import msgspec
import pytest

from onlinecal.engine import Outcome, Query
from onlinecal.engine.keys.packing import SUM
from onlinecal.engine.keys.writing import ARRAY, BIN, TEXT, put_array, put_float, put_int, put_sized
from tests.engine.keys.test_packed_players import CONFIGS, played

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


@pytest.mark.parametrize("hot", [100, 2])
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_a_key_writes_the_same_inside_and_outside(config, hot):
    engine = played(config, hot_keys=hot)
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
        keys.wake([state])
        assert state.dump() == data
        if state.seat >= 0:
            keys._out_of_seat(state)
        assert (state.dump(), state.written()) == (data, summary)
        state.move_out()
        assert (state.dump(), state.written()) == (data, summary)
