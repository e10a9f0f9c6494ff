"""States that somebody made up, with a right checksum: run as a program, since what is tried may crash.

Prints the number of each before it is tried; in the end how many were refused and how many were played on.
"""

from __future__ import annotations

import copy
import pickle
import random
import sys
import zlib
from contextlib import suppress

import msgspec
import numpy as np

from onlinecal.engine import KeyConfig
from onlinecal.engine.keys.packing import HEAD, SUM, pack, pack_floats, unpack, unpack_floats, with_sum
from onlinecal.engine.keys.state import KeyState
from onlinecal.engine.keys.steering import BITS, SPARSE, unpacked_sparse
from onlinecal.engine.settings import Settings
from onlinecal.engine.watch.account import SIZE
from onlinecal.engine.watch.account import TICKET as STAKES
from onlinecal.forecasters.baselines import (
    FosterForecaster,
    FosterVohraForecaster,
    LinearOptimisationForecaster,
)
from onlinecal.steering.binary import TICKET

CONFIGS = {
    "uniform": KeyConfig(horizon=60, report="hint", expire_after=50.0),
    "dyadic": KeyConfig(report="hint", slack=1.0, lanes=2),
    "simplex": KeyConfig(kind="simplex", slack=1.0, report="hint"),
    "fixed": KeyConfig(kind="simplex", classes=("a", "b", "c"), horizon=50, lanes=2),
    "lp": KeyConfig(kind="lp", first_fit=10, tolerance=0.1, fading=0.9),
}
BASELINES = (FosterForecaster, FosterVohraForecaster, LinearOptimisationForecaster)
ODD = (
    -1,
    0,
    1,
    2,
    3,
    7,
    64,
    255,
    1 << 16,
    1 << 28,
    (1 << 31) - 1,
    1 << 40,
    (1 << 61) + 5,
    (1 << 63) - 1,
    -(1 << 63),
)
CLASSES = "abcd"


def play(state, rng, rounds, number=10_000):
    """Ask and settle, late and in another order, with hints and without."""
    simplex = state.settings.config.kind != "binary"
    classes = "abc" if state.settings.config.classes else CLASSES
    for i in range(rounds):
        hint = rng.choice([None, rng.random()])
        if hint is not None and simplex:
            hint = {"a": hint, "b": 1.0 - hint}
        if not state.is_full_at(float(i)):
            state.expire(float(i))
            state.ask(f"new{number + i}", number + i, hint, float(i))
        state.run()
        while len(state.open) > 4 or (state.open and rng.random() < 0.4):
            issued = rng.choice(list(state.open.values()))
            value = rng.choice(classes) if simplex else rng.randrange(2)
            if state.settings.config.kind == "simplex" and rng.random() < 0.2:
                value = dict(zip(rng.sample(classes, 2), (0.25, 0.75), strict=True))
            state.close(issued, value, None)
        state.run()
    state.summary()
    return state


def odd_number(rng, old):
    return rng.choice(
        [
            rng.choice(ODD),
            old + rng.choice([-1, 1]),
            -old,
            old * 2,
            old ^ (1 << rng.randrange(63)),
            rng.randrange(-100, 100),
        ]
    )


def within(number):
    return (int(number) + (1 << 63)) % (1 << 64) - (1 << 63)


def odd_memory(rng, memory):
    """A memory with some of its words changed, or with another length."""
    memory = memory.copy()
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        place = rng.randrange(min(len(memory), HEAD)) if rng.random() < 0.5 else rng.randrange(len(memory))
        memory[place] = within(odd_number(rng, int(memory[place])))
    if rng.random() < 0.1:
        memory = (
            memory[: rng.randrange(len(memory))] if rng.random() < 0.5 else np.append(memory, memory[-5:])
        )
    return memory


def odd_lane(rng, lane, kind):
    if kind in ("uniform", "dyadic"):
        return pack(odd_memory(rng, unpack(lane)))
    fields = msgspec.msgpack.decode(lane)
    if kind != "lp" and rng.random() < 0.75:
        memory = np.frombuffer(zlib.decompress(fields[1]), "<i8")
        fields[1] = zlib.compress(odd_memory(rng, memory).tobytes())
    else:
        odd_value(rng, fields)
    return msgspec.msgpack.encode(fields)


def odd_value(rng, values):
    """Change one value somewhere in nested lists and dicts."""
    places = list(values) if isinstance(values, dict) else range(len(values))
    if not places:
        return
    place = rng.choice(places)
    old = values[place]
    if isinstance(old, (list, dict)) and old and rng.random() < 0.9:
        odd_value(rng, old)
    elif isinstance(old, int) and rng.random() < 0.7:
        values[place] = max(-(1 << 63), min((1 << 64) - 1, odd_number(rng, old)))
    else:
        odd = [
            None,
            -1,
            0.5,
            float("nan"),
            float("inf"),
            "",
            "1/0",
            "9" * 50,
            "1e999999999",
            [],
            [0],
            [1 << 60, 1],
            {},
            b"x",
            old,
        ]
        values[place] = rng.choice(odd)


def odd_class_steering(rng, data):
    fields = msgspec.msgpack.decode(data)
    if rng.random() < 0.3:
        odd_value(rng, fields)
    else:
        fields[1] = odd_steering(rng, fields[1])
    return msgspec.msgpack.encode(fields)


def floats_of(data):
    """The floats of a key's steering and its tickets; compressed they are what older programs wrote."""
    changed = int(np.unpackbits(np.frombuffer(data, np.uint8, BITS, 1)).sum())
    state, tickets = unpacked_sparse(data, ((len(data) - 1 - BITS) // 8 - changed) // TICKET)
    return np.concatenate([state, tickets.ravel()])


def odd_steering(rng, data):
    if data[:1] == SPARSE:
        if rng.random() < 0.3:
            place = rng.randrange(len(data))
            return data[:place] + rng.randbytes(1) + data[place + rng.randrange(3) :]
        floats = floats_of(data)
    else:
        floats = np.frombuffer(zlib.decompress(data), "<f8").copy()
    for _ in range(rng.choice([1, 1, 2, 5])):
        place = rng.randrange(len(floats))
        odd = floats[place] + rng.choice([-1e-3, 1.0]), -floats[place], *map(float, ODD), 1e-300, 1e99, np.nan
        floats[place] = rng.choice(odd)
    if rng.random() < 0.1:
        floats = floats[: rng.randrange(len(floats))]
    return zlib.compress(floats.tobytes())


def odd_watch(rng, data, waiting):
    fields = msgspec.msgpack.decode(data)
    account, rest = unpack_floats(fields[0], "<f8", SIZE)
    stakes, _ = unpack_floats(rest, "<f4", STAKES * waiting)
    for numbers in (account, stakes):
        if len(numbers):
            odd = -1.0, 1e300, *map(float, ODD), np.nan, np.inf, 0.5
            with np.errstate(over="ignore"):
                numbers[rng.randrange(len(numbers))] = rng.choice(odd)
    if rng.random() < 0.1:
        stakes = stakes[: rng.randrange(1 + len(stakes))]
    fields[0] = pack_floats(account) + pack_floats(stakes)
    if rng.random() < 0.2:
        place = rng.randrange(len(fields[0]))
        fields[0] = fields[0][:place] + rng.randbytes(1) + fields[0][place + rng.randrange(3) :]
    if rng.random() < 0.2:
        odd_value(rng, fields)
    return msgspec.msgpack.encode(fields)


def odd_state(rng, data, kind):
    books = msgspec.msgpack.decode(data[SUM:])
    chance = rng.random()
    if rng.random() < 0.2:
        books[7] = odd_watch(rng, books[7], len(books[5]))
    elif books[6] is not None and rng.random() < 0.4:
        odd = odd_class_steering if kind in ("simplex", "fixed") else odd_steering
        books[6] = odd(rng, books[6])
    elif chance < 0.6:
        place = rng.randrange(len(books[4]))
        books[4][place] = odd_lane(rng, books[4][place], kind)
    elif chance < 0.8:
        odd_value(rng, books[5])
    else:
        odd_value(rng, books)
    return with_sum(msgspec.msgpack.encode(books))


def odd_pickle(rng, baseline):
    forecaster = baseline(horizon=200)
    forecaster.replay([rng.randrange(2) for _ in range(rng.randrange(1, 100))])
    state = copy.copy(forecaster.__dict__)
    memory = state["memory"] = forecaster.memory.copy()
    for _ in range(rng.choice([1, 2])):
        place = rng.randrange(min(len(memory), 20)) if rng.random() < 0.7 else rng.randrange(len(memory))
        memory[place] = rng.choice([*map(float, ODD), 0.5, float("nan"), float("inf"), -1e300])
    if rng.random() < 0.1:
        state["memory"] = memory[: rng.randrange(len(memory))]
    made = object.__new__(baseline)
    made.__dict__.update(state)
    return pickle.dumps(made)


def with_word(data, kind, place, word):
    """A state with one word of its first lane's memory replaced."""
    books = msgspec.msgpack.decode(data[SUM:])
    if kind in ("uniform", "dyadic"):
        memory = unpack(books[4][0]).copy()
        memory[place] = word
        books[4][0] = pack(memory)
    else:
        fields = msgspec.msgpack.decode(books[4][0])
        memory = np.frombuffer(zlib.decompress(fields[1]), "<i8").copy()
        memory[place] = word
        fields[1] = zlib.compress(memory.tobytes())
        books[4][0] = msgspec.msgpack.encode(fields)
    return with_sum(msgspec.msgpack.encode(books))


def crafted(kind, sound, seed, count):
    """Every word of the header with every odd value, then `count` states with anything changed anywhere."""
    for place in range(HEAD if kind != "lp" else 0):
        for word in ODD:
            yield with_word(sound[-1], kind, place, word)
    for i in range(count):
        rng = random.Random(f"{seed} {kind} {i}")
        yield odd_state(rng, rng.choice(sound), kind)


def tried(seed, count):
    refused = played = 0
    for kind, config in CONFIGS.items():
        settings, rng = Settings(config), random.Random(seed)
        sound = [
            play(KeyState("k", 1, settings), random.Random(i), 5 + 40 * i, number=1).dump() for i in range(4)
        ]
        for i, data in enumerate(crafted(kind, sound, seed, count)):
            print(kind, i, flush=True)
            try:
                state = KeyState("k", 1, settings, data)
            except ValueError:
                refused += 1
                continue
            played += 1
            # what is played on stays such that it can be loaded
            for part in range(2):
                state = KeyState("k", 1, settings, play(state, rng, 15, number=10_000 + 100 * part).dump())
    for i in range(count // 2):
        print("baseline", i, flush=True)
        rng = random.Random(f"{seed} baseline {i}")
        data = odd_pickle(rng, rng.choice(BASELINES))
        try:
            forecaster = pickle.loads(data)
        except ValueError:
            refused += 1
            continue
        played += 1
        # counts that are nearly full are as good as any, but refuse more
        with suppress(ValueError):
            forecaster.replay([rng.randrange(2) for _ in range(50)])
    print("refused", refused, "played", played)


if __name__ == "__main__":
    tried(sys.argv[1], int(sys.argv[2]))
