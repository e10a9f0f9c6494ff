"""States with a right checksum that no engine wrote: refused, or played on without a crash or a hang."""

import random
import signal
import struct
import zlib
from contextlib import suppress
from functools import partial

import msgspec
import numpy as np
import pytest

from onlinecal.engine import EngineConfig, KeyConfig, Outcome, Query, Settled
from onlinecal.engine.keys.storing import STORING, SUM, StoredBinaryKey, with_checksum
from onlinecal.engine.turns import KeyTurns
from tests.engine.fault_tools import in_child

CONFIGS = {
    "uniform": KeyConfig(horizon=60, report="hint", expire_after=50.0),
    "dyadic": KeyConfig(),
    "lanes": KeyConfig(report="hint", slack=1.0, lanes=2),
    "window": KeyConfig(window=30),
    "simplex": KeyConfig(kind="simplex", slack=1.0, report="hint"),
    "fixed": KeyConfig(kind="simplex", classes=("a", "b", "c"), horizon=50, lanes=2),
    "lp": KeyConfig(kind="lp", first_fit=10, tolerance=0.1, fading=0.9),
}
ODD = -1, 0, 1, 2, 7, 255, 1 << 16, 1 << 28, (1 << 31) - 1, 1 << 40, (1 << 61) + 5, (1 << 63) - 1, -(1 << 63)
ODD_FLOATS = *map(float, ODD), 0.5, 1e-300, 1e99, float("inf"), float("nan")
OTHERS = None, -1, 0.5, float("nan"), "", "1/0", "9" * 50, "1e999999999", [], [0], [1 << 60, 1], {}, b"x"
PATIENCE = 20.0
"""Seconds for one state."""
encode, decode = msgspec.msgpack.encode, msgspec.msgpack.decode


def turn(rng, config, first, rounds=12):
    """Events of a key: hints and none, late outcomes, soft labels."""
    classes = None if config.kind == "binary" else "abc"
    for i in range(first, first + rounds):
        hint = rng.choice([None, rng.random()])
        yield Query(
            f"q{i}", "k", hint if classes is None or hint is None else {"a": hint, "b": 1.0 - hint}, float(i)
        )
        for waiting in rng.sample(range(max(0, i - 5), i + 1), min(2, i + 1)):
            value = rng.randrange(2) if classes is None else rng.choice(classes)
            if rng.random() < 0.1 and config.kind != "lp":
                value = 0.25 if classes is None else {"a": 0.25, "b": 0.75}
            yield Outcome(f"q{waiting}", value)


def odd(rng, value):
    """Another value of nearly the same form: one thing in it, however deep, is changed."""
    if isinstance(value, (list, dict)) and value and rng.random() < 0.95:
        place = rng.choice(list(value) if isinstance(value, dict) else range(len(value)))
        value[place] = odd(rng, value[place])
        return value
    if isinstance(value, bytes) and value:
        with suppress(msgspec.DecodeError):
            inside = decode(value)
            if isinstance(inside, list) and encode(inside) == value:
                return encode(odd(rng, inside))
        with suppress(zlib.error):
            return zlib.compress(odd_words(rng, zlib.decompress(value)))
        return odd_words(rng, value)
    if isinstance(value, int) and rng.random() < 0.8:
        return rng.choice([*ODD, value + 1, value - 1, -value])
    return rng.choice([*ODD_FLOATS, *OTHERS])


def odd_words(rng, data):
    """Bytes with one of their words, or one byte, changed; or cut."""
    data = bytearray(data)
    if len(data) > 16:
        # many stand behind one byte, and what matters most stands in front
        start = rng.randrange(2) + 8 * rng.randrange(min(len(data) // 8 - 1, rng.choice([24, 1 << 30])))
        data[start : start + 8] = odd_word(rng)
    if rng.random() < 0.2:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data[: rng.randrange(len(data))] if rng.random() < 0.05 else data)


def odd_word(rng):
    """Eight bytes of an integer or of a float."""
    kind, values = rng.choice([("<q", ODD), ("<d", ODD_FLOATS)])
    return struct.pack(kind, rng.choice(values))


def crafted(rng, data):
    """A key's bytes with a state that was changed, under a right checksum."""
    kept = decode(data[1:])
    state = decode(kept[2][SUM:])
    # the format stands first
    place = rng.randrange(1, len(state))
    if len(state) == len(StoredBinaryKey.__struct_fields__) and rng.random() < 0.6:
        words, place = np.empty(state[4], np.int64), 5
        STORING.unpack(np.frombuffer(state[5], np.uint8), words)
        # what matters most stands in front
        at = rng.randrange(min(len(words), rng.choice([12, 60, 1 << 30])))
        flipped = struct.pack("<q", int(words[at]) ^ 1 << rng.randrange(63))
        words[at] = struct.unpack("<q", rng.choice([odd_word(rng), flipped]))[0]
        ends, out = np.array([len(words)]), np.empty(10 * len(words), np.uint8)
        STORING.pack(words, ends, out)
        state[5] = out[: ends[0]].tobytes()
    if place != 5 or rng.random() < 0.1:
        state[place] = odd(rng, state[place])
    kept[2] = with_checksum(encode(state))
    return data[:1] + encode(kept)


def tried(seed, count, told):
    """Try states, and tell which one it is; in the end how many were refused and how many were played on."""
    refused = played = 0
    for kind, config in CONFIGS.items():
        step, rng = KeyTurns(EngineConfig(config), 100), random.Random(f"{seed} {kind}")
        sound = [step("k", None, turn(rng, config, 0, 5 + 40 * i))[0] for i in range(3)]
        for i in range(count):
            told.write_text(f"{kind} {i}")
            signal.setitimer(signal.ITIMER_REAL, PATIENCE)
            try:
                data = step("k", crafted(rng, rng.choice(sound)), turn(rng, config, 200))[0]
                step("k", data, turn(rng, config, 300))
                played += 1
            except Exception:
                refused += 1
            signal.setitimer(signal.ITIMER_REAL, 0.0)
    told.write_text(f"{refused} {played}")


@pytest.mark.parametrize(
    "seed, count",
    [(0, 20), *(pytest.param(*more, marks=pytest.mark.slow) for more in ((0, 100), (1, 5_000)))],
)
def test_crafted_states_neither_crash_nor_hang(tmp_path, seed, count):
    told = tmp_path / "told"
    # one that crashes or takes too long ends the copy of this process by a signal
    assert in_child(partial(tried, seed, count, told)) == 0, told.read_text()
    refused, played = map(int, told.read_text().split())
    assert min(refused, played) > count


def test_a_turn_on_a_state_that_cannot_be_leaves_nothing_behind():
    step = KeyTurns(EngineConfig(KeyConfig(horizon=50)), 10)
    data, _ = step("k", None, [Query("a", "k"), Query("b", "k"), Outcome("a", 1)])
    kept = decode(data[1:])
    stored = decode(kept[2][SUM:])
    # an open forecast less than the words tell of
    stored[3] = []
    kept[2] = with_checksum(encode(stored))
    for bad in (data[:1] + encode(kept), b""):
        with pytest.raises(ValueError, match="the state of key 'k'"):
            step("k", bad, [Outcome("b", 1)])
        assert step("k", data, [Outcome("b", 1)])[1] == [Settled("b")]


def test_a_key_with_more_lanes_than_it_may_have_is_refused():
    two, one = (KeyTurns(EngineConfig(KeyConfig(horizon=50, lanes=lanes)), 10) for lanes in (2, 1))
    data, other = (step("k", None, [Query("a", "k"), Query("b", "k")])[0] for step in (two, one))
    # as if it were of the other's configuration
    kept = [decode(other[1:])[0], *decode(data[1:])[1:]]
    with pytest.raises(ValueError, match="its lanes cannot be"):
        one("k", data[:1] + encode(kept), [])
