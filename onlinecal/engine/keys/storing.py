"""Binary keys as they are stored: all that a key is made of as one row of words, and these in few bytes.

A word is an integer of 64 bits. Integers are small, so they are written with their sign at the end; floats
are often round, so they are written from their last byte on. Of each word only the bytes up to its last one
that is not 0 are kept: half a byte says how many.

The words of a key: how many lanes it has, how many open forecasts, and whether it is steered. Of each lane
how late its labels were, how long its memory is, how many rounds its window holds, then memory and rounds.
What steering knows, as a difference to a new one; the account; and the open forecasts, the oldest first.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from onlinecal.arrays import Bytes, Floats, Ints
from onlinecal.compiling import compiled, kernel_part
from onlinecal.compiling.instructions import borrowed
from onlinecal.engine.keys.playing import (
    AFTER,
    BY,
    CELL,
    FIRST,
    HINTED,
    LATE,
    LENGTH,
    LOWER,
    NEXT_LANE,
    NUMBER,
    OPEN,
    ROW,
    START,
    TABLE,
    TABLE_LENGTH,
    Players,
)
from onlinecal.engine.watch.account import SIZE as ACCOUNT
from onlinecal.engine.watch.account import TICKET as STAKES
from onlinecal.forecasters.binary.grids.dyadic_search import END
from onlinecal.forecasters.binary.soundness import require
from onlinecal.forecasters.binary.windowing.windows import ENTRY, HELD, RING, ROOM
from onlinecal.forecasters.binary.windowing.windows import FIRST as OLDEST
from onlinecal.steering.binary import CURVES, FEATURES, TICKET
from onlinecal.steering.trust import SIZE, new_steering

NEW = new_steering().view(np.int64)
# what the last event left in the places of ticket, features and knots is written anew before it is read
COUNTS = np.full(SIZE, -1)
COUNTS[:TICKET] = COUNTS[FEATURES:CURVES] = 0
SUM = 4
"""Bytes of the checksum in front of a state."""
HEADER, PER_LANE, PER_OPEN = 3, 3, 9
"""Words at the front of a key, of a lane, and of an open forecast."""


class StoredBinary(Struct, array_like=True):
    """A binary key's state; the number of its format comes first.

    `ids` are those of its open forecasts; `words` are so many, packed.
    """

    format: int
    clock: float | None
    expired: int
    ids: list[str]
    length: int
    words: bytes


@kernel_part
def signed(number: int) -> int:
    """An integer as a word: its sign comes last."""
    return (number << 1) ^ (number >> 63)


@kernel_part
def turned(bits: int) -> int:
    """A float's bits as a word: the first byte becomes the last."""
    found: Any = 0
    for byte in range(0, 64, 8):
        found |= ((bits >> byte) & 255) << (56 - byte)
    return found


@compiled
def most_words(players: Players, which: Ints) -> int:
    """So many words are enough for these keys; they are given by their first lanes."""
    fields, found = players.fields, 0
    for player in which:
        found += HEADER + SIZE + ACCOUNT
        lane = player
        while lane >= 0:
            found += PER_LANE + fields[lane, LENGTH] + fields[lane, TABLE_LENGTH]
            found += fields[lane, OPEN] * (PER_OPEN + TICKET + STAKES)
            lane = fields[lane, NEXT_LANE]
    return found


@kernel_part
def gather_lanes(players: Any, player: int, out: Any, at: int) -> int:
    """The words of a key's lanes; where they end."""
    heap, fields, lane = players.heap, players.fields, player
    while lane >= 0:
        start, table, rounds = fields[lane, START], fields[lane, TABLE], 0
        length = heap[start + END]
        if fields[lane, TABLE_LENGTH] > 0:
            rounds = heap[table + HELD]
        out[at], out[at + 1], out[at + 2] = signed(fields[lane, LATE]), signed(length), signed(rounds)
        at += PER_LANE
        for j in range(start, start + length):
            out[at] = signed(heap[j])
            at += 1
        for i in range(rounds):
            place = heap[table + OLDEST] + i
            if place >= heap[table + ROOM]:
                place -= heap[table + ROOM]
            for j in range(ENTRY):
                out[at] = signed(heap[table + RING + ENTRY * place + j])
                at += 1
        lane = fields[lane, NEXT_LANE]
    return at


@kernel_part
def gather_open(players: Any, bits: Any, player: int, entry: int, betting: bool, out: Any, at: int) -> int:
    """The words of an open forecast; where they end. `bits` are the floats of `Players`, as integers."""
    kept, place, lane = players.open, 0, player
    while lane != kept[entry, BY]:
        place += 1
        lane = players.fields[lane, NEXT_LANE]
    out[at] = signed(place)
    for j, field in enumerate((NUMBER, LOWER, CELL, HINTED)):
        out[at + 1 + j] = signed(kept[entry, field])
    forecasts, certificates, hints, times, tickets, stakes = bits
    out[at + 5], out[at + 6] = turned(forecasts[entry]), turned(certificates[entry])
    out[at + 7], out[at + 8] = turned(hints[entry]), turned(times[entry])
    at += PER_OPEN
    if kept[entry, HINTED] != 0:
        for j in range(TICKET):
            out[at] = turned(tickets[entry, j])
            at += 1
    if betting:
        for j in range(STAKES):
            out[at] = turned(np.int64(stakes[entry, j]) << 32)
            at += 1
    return at


@compiled
def gather(
    players: Players, which: Ints, betting: bool, out: Ints, ends: Ints, entries: Ints, open_ends: Ints
) -> None:
    """The words of keys one behind the other, and their open `entries`; `ends` are where each one's end."""
    fields, kept, at, found = players.fields, players.open, 0, 0
    learnt, sums = players.steering.view(np.int64), players.accounts.view(np.int64)
    bits = (
        players.forecasts.view(np.int64), players.certificates.view(np.int64), players.hints.view(np.int64),
        players.times.view(np.int64), players.tickets.view(np.int64), players.stakes.view(np.int32),
    )  # fmt: skip
    for k in range(len(which)):
        player = which[k]
        row, head = fields[player, ROW], at
        at = gather_lanes(players, player, out, at + HEADER)
        if row >= 0:
            for j in range(SIZE):
                out[at] = turned((learnt[row, j] ^ NEW[j]) & COUNTS[j])
                at += 1
        for j in range(ACCOUNT):
            out[at] = turned(sums[player, j])
            at += 1
        entry, first = fields[player, FIRST], found
        while entry >= 0:
            at = gather_open(players, bits, player, entry, betting, out, at)
            entries[found] = entry
            found += 1
            entry = kept[entry, AFTER]
        lanes, lane = 0, player
        while lane >= 0:
            lanes += 1
            lane = fields[lane, NEXT_LANE]
        out[head], out[head + 1], out[head + 2] = signed(lanes), signed(found - first), signed(int(row >= 0))
        ends[k], open_ends[k] = at, found


@compiled
def pack(words: Ints, ends: Ints, out: Bytes) -> None:
    """Words in few bytes, those of each key by themselves; `ends` become where the bytes end."""
    words, out, at, first = borrowed(words), borrowed(out), 0, 0
    for k in range(len(ends)):
        last = ends[k]
        for i in range(first, last):
            size: Any = 8
            while size > 0 and (words[i] >> (8 * size - 8)) & 255 == 0:
                size -= 1
            if (i - first) & 1 == 0:
                sizes = at
                out[at] = size
                at += 1
            else:
                out[sizes] |= size << 4
            for byte in range(size):
                out[at] = (words[i] >> (8 * byte)) & 255
                at += 1
        first, ends[k] = last, at


@compiled
def unpack(data: Bytes, words: Ints) -> bool:
    """Fill in the words that were packed; whether there are exactly so many."""
    at, end = 0, len(data)
    sizes: Any = 0
    for i in range(len(words)):
        if i & 1 == 0:
            if at == end:
                return False
            sizes = np.int64(data[at])
            at += 1
        size = sizes & 15
        sizes >>= 4
        if size > 8 or at + size > end:
            return False
        word: Any = 0
        for byte in range(size):
            word |= np.int64(data[at + byte]) << (8 * byte)
        words[i] = word
        at += size
    return at == end


class Words:
    """The words of a state, read one after the other; ValueError where there are no more."""

    def __init__(self, stored: StoredBinary) -> None:
        # two words take a byte at least
        require(0 <= stored.length <= 2 * len(stored.words), "its length")
        self._words, self._at = np.empty(stored.length, np.int64), 0
        require(unpack(np.frombuffer(stored.words, np.uint8), self._words), "its length")

    def _take(self, number: int) -> Ints:
        start, self._at = self._at, self._at + number
        require(number >= 0 and self._at <= len(self._words), "its length")
        return self._words[start : self._at]

    def ints(self, number: int) -> Ints:
        """The next ones, as integers."""
        words = self._take(number)
        return ((words >> 1) & ((1 << 63) - 1)) ^ -(words & 1)

    def floats(self, number: int) -> Floats:
        """The next ones, as floats."""
        return self._take(number).byteswap().view(np.float64)

    def bits(self, number: int) -> Ints:
        """The next ones, as the bits of floats."""
        return self._take(number).byteswap()

    def end(self) -> None:
        """ValueError unless all were read."""
        require(self._at == len(self._words), "its length")


class StoredLane(NamedTuple):
    """A lane: how late its labels were at most, its memory, and the rounds in its window, (n, 4)."""

    late: int
    memory: Ints
    rounds: Ints


class StoredOpen(NamedTuple):
    """The open forecasts of a key, the oldest first; `lanes` are their lanes by number, the rest as in
    `Players`.

    `cells` are lower ends and steps, (n, 2); `tickets` are those of the hinted ones.
    """

    lanes: Ints
    numbers: Ints
    cells: Ints
    hinted: NDArray[np.bool_]
    forecasts: Floats
    certificates: Floats
    hints: Floats
    times: Floats
    tickets: Floats
    stakes: NDArray[np.float32]


class Parts(NamedTuple):
    """What a state is made of; `steering` is None where hints are not steered, or there was none yet."""

    lanes: list[StoredLane]
    steering: Floats | None
    account: Floats
    open: StoredOpen


def parts_of(stored: StoredBinary, betting: bool) -> Parts:
    """The parts of a state; ValueError if it has others."""
    words = Words(stored)
    n_lanes, n_open, steered = words.ints(HEADER).tolist()
    lanes = []
    for _ in range(n_lanes):
        late, length, rounds = words.ints(PER_LANE).tolist()
        memory = words.ints(length)
        lanes.append(StoredLane(late, memory, words.ints(ENTRY * rounds).reshape(-1, ENTRY)))
    steering = None
    if steered:
        steering = ((words.bits(SIZE) & COUNTS) ^ NEW).view(np.float64)
    account = words.floats(ACCOUNT)
    require(n_open == len(stored.ids), "its open forecasts")
    ints, floats = np.empty((n_open, 5), np.int64), np.empty((n_open, 4))
    tickets, stakes = [], np.zeros((n_open, STAKES), np.float32)
    for i in range(n_open):
        ints[i], floats[i] = words.ints(5), words.floats(4)
        if ints[i, 4]:
            tickets.append(words.floats(TICKET))
        if betting:
            stakes[i] = (words.bits(STAKES) >> 32).astype(np.int32).view(np.float32)
    words.end()
    hinted, held = ints[:, 4] != 0, np.array(tickets).reshape(-1, TICKET)
    forecasts, certificates, hints, times = floats.T
    told = StoredOpen(
        ints[:, 0], ints[:, 1], ints[:, 2:4], hinted, forecasts, certificates, hints, times, held, stakes
    )
    return Parts(lanes, steering, account, told)


def account_in(stored: StoredBinary) -> Floats:
    """The account in a state; ValueError if there is none."""
    words = Words(stored)
    n_lanes, _, steered = words.ints(HEADER).tolist()
    for _ in range(n_lanes):
        _, length, rounds = words.ints(PER_LANE).tolist()
        words.ints(length + ENTRY * rounds)
    words.ints(SIZE if steered else 0)
    return words.floats(ACCOUNT)


def with_sum(data: bytes | memoryview) -> bytes:
    """The bytes behind their checksum: compiled code must never run on what a disk has made of a state."""
    return sum_of(data) + data


def sum_of(data: bytes | memoryview) -> bytes:
    """The checksum of some bytes."""
    return crc32(data).to_bytes(SUM, "little")


@contextmanager
def garbage_left_alone() -> Iterator[None]:
    """No look for garbage: what a state is made of is none, and would be looked at again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def pack_floats(floats: NDArray[Any]) -> bytes:
    """Bits that say which floats are not 0, and these."""
    kept = floats.view(f"i{floats.itemsize}") != 0
    return np.packbits(kept).tobytes() + floats[kept].tobytes()


def unpack_floats(data: bytes, kind: str, number: int) -> tuple[NDArray[Any], bytes]:
    """So many floats that were packed, and what is behind them; ValueError if that cannot be."""
    width, start = int(kind[-1]), (number + 7) // 8
    require(len(data) >= start, "the number of its floats")
    kept = np.unpackbits(np.frombuffer(data[:start], np.uint8))[:number].view(np.bool_)
    end = start + width * int(kept.sum())
    require(len(data) >= end, "the number of its floats")
    floats = np.zeros(number, kind)
    floats[kept] = np.frombuffer(data[start:end], kind)
    return floats, data[end:]
