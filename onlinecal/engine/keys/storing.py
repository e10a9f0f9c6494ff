"""How binary keys are stored: a key becomes a row of words, and the words are packed into few bytes.

A word is an integer of 64 bits. Most integers are small, so a word has their sign in its last bit. Most
floats are round, so a word has their bytes in reverse order. The bytes of a word above its last one that is
not 0 are left out; half a byte says how many remain.

The words of a key are these. First, how many lanes it has, how many open forecasts, and whether its hints are
steered. Then for each lane how late its labels were, how long its memory is, how many rounds its window
holds, the memory, and the rounds. Then the state of steering, as its difference from a new one; the account;
and the open forecasts, the oldest first.

This order is a saved format: `gather_lanes`, `gather_open` and `gather` write it, `read_lanes`,
`KeyArrays.load` and `account_in` read it. So are the fields of `StoredBinaryKey`, the checksum in front, and
all numbers inside: of memories, steering (also a new one, since differences from it are stored) and accounts.
So are `pack` and `unpack`, and `pack_floats` and `unpack_floats`, by which keys of several classes store
their accounts. Whoever changes one of them raises STATE_FORMAT. Equal histories give equal bytes, since
nothing is written that depends on rows, entries or batches.

Nothing here has a state, but for a `WordReader`, which is used for one key. Compiled code checks no bounds:
whoever calls `gather` gives it as many words as `most_words` says, and `pack` nine bytes for each word and
one more for each key (`KeyArrays.dump`). `unpack` does check, since its bytes come from a disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar
from zlib import crc32

import numpy as np
from msgspec import Struct
from numba import types
from numpy.typing import NDArray

from onlinecal.arrays import Bytes, Floats, Ints
from onlinecal.compiling import Address, Entry, interpreted_first, kernel_part
from onlinecal.compiling.instructions import borrowed
from onlinecal.engine.keys.playing import (
    AFTER,
    CELL_LOWER,
    CELL_WIDTH,
    HINTED,
    INTS,
    LANE_TYPES,
    LATE,
    LENGTH,
    MADE_BY,
    NEXT_LANE,
    NUMBER,
    OLDEST_OPEN,
    OPEN,
    START,
    STEERING_ROW,
    WINDOW,
    WINDOW_LENGTH,
    LaneArrays,
)
from onlinecal.engine.ledger.file import REPAIR_ADVICE
from onlinecal.engine.watch.account import ACCOUNT_SIZE, N_STAKES
from onlinecal.forecasters.binary.cells import END
from onlinecal.forecasters.binary.windows import ENTRY_LENGTH, HELD, OLDEST, RING, RING_LENGTH
from onlinecal.restoring import require
from onlinecal.steering.binary import CURVES, FEATURES, TICKET
from onlinecal.steering.trust import SIZE, new_steering

NEW_STEERING = new_steering().view(np.int64)
# the places of ticket, features and knots are not stored: they are written anew before they are read
STORED_BITS = np.full(SIZE, -1)
STORED_BITS[:TICKET] = STORED_BITS[FEATURES:CURVES] = 0
SUM = 4
"""How many bytes the checksum in front of a state has."""
HEADER, PER_LANE, PER_OPEN = 3, 3, 9
"""How many words come first of a key, of a lane, and of an open forecast."""


class StoredBinaryKey(Struct, array_like=True):
    """A binary key's state; the number of its format comes first.

    `ids` are those of its open forecasts; `words` are `length` words, packed.
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
    word: Any = 0
    for byte in range(0, 64, 8):
        word |= ((bits >> byte) & 255) << (56 - byte)
    return word


def most_words(arrays: LaneArrays, which: Ints) -> int:
    """How many words these keys take at most; they are given by their first lanes."""
    fields, words = arrays.fields, 0
    for first_lane in which:
        words += HEADER + SIZE + ACCOUNT_SIZE
        lane = first_lane
        while lane >= 0:
            words += PER_LANE + fields[lane, LENGTH] + fields[lane, WINDOW_LENGTH]
            words += fields[lane, OPEN] * (PER_OPEN + TICKET + N_STAKES)
            lane = fields[lane, NEXT_LANE]
    return words


@kernel_part
def gather_lanes(arrays: Any, first_lane: int, out: Any, at: int) -> int:
    """Write the words of a key's lanes; returns where they end."""
    heap, fields, lane = arrays.heap, arrays.fields, first_lane
    while lane >= 0:
        start, table, rounds = fields[lane, START], fields[lane, WINDOW], 0
        length = heap[start + END]
        if fields[lane, WINDOW_LENGTH] > 0:
            rounds = heap[table + HELD]
        out[at], out[at + 1], out[at + 2] = signed(fields[lane, LATE]), signed(length), signed(rounds)
        at += PER_LANE
        for j in range(start, start + length):
            out[at] = signed(heap[j])
            at += 1
        for i in range(rounds):
            place = heap[table + OLDEST] + i
            if place >= heap[table + RING_LENGTH]:
                place -= heap[table + RING_LENGTH]
            for j in range(ENTRY_LENGTH):
                out[at] = signed(heap[table + RING + ENTRY_LENGTH * place + j])
                at += 1
        lane = fields[lane, NEXT_LANE]
    return at


@kernel_part
def gather_open(arrays: Any, bits: Any, first_lane: int, entry: int, betting: bool, out: Any, at: int) -> int:
    """Write the words of an open forecast, whose floats `bits` has as integers; returns where they end."""
    opened, place, lane = arrays.open, 0, first_lane
    while lane != opened[entry, MADE_BY]:
        place += 1
        lane = arrays.fields[lane, NEXT_LANE]
    out[at] = signed(place)
    for j, field in enumerate((NUMBER, CELL_LOWER, CELL_WIDTH, HINTED)):
        out[at + 1 + j] = signed(opened[entry, field])
    forecasts, certificates, hints, times, tickets, stakes = bits
    out[at + 5], out[at + 6] = turned(forecasts[entry]), turned(certificates[entry])
    out[at + 7], out[at + 8] = turned(hints[entry]), turned(times[entry])
    at += PER_OPEN
    if opened[entry, HINTED] != 0:
        for j in range(TICKET):
            out[at] = turned(tickets[entry, j])
            at += 1
    if betting:
        for j in range(N_STAKES):
            out[at] = turned(np.int64(stakes[entry, j]) << 32)
            at += 1
    return at


def gather(
    arrays: LaneArrays, which: Ints, betting: bool, out: Ints, ends: Ints, entries: Ints, open_ends: Ints
) -> None:
    """Write the words of keys one behind the other, and the `entries` of their open forecasts.

    `ends` and `open_ends` become where the words and the entries of each key end.
    """
    fields, opened, at, n_open = arrays.fields, arrays.open, 0, 0
    learnt, sums = arrays.steering.view(np.int64), arrays.accounts.view(np.int64)
    bits = (
        arrays.forecasts.view(np.int64), arrays.certificates.view(np.int64), arrays.hints.view(np.int64),
        arrays.times.view(np.int64), arrays.tickets.view(np.int64), arrays.stakes.view(np.int32),
    )  # fmt: skip
    for k in range(len(which)):
        first_lane = which[k]
        row, head = fields[first_lane, STEERING_ROW], at
        at = gather_lanes(arrays, first_lane, out, at + HEADER)
        if row >= 0:
            for j in range(SIZE):
                out[at] = turned((learnt[row, j] ^ NEW_STEERING[j]) & STORED_BITS[j])
                at += 1
        for j in range(ACCOUNT_SIZE):
            out[at] = turned(sums[first_lane, j])
            at += 1
        entry, first = fields[first_lane, OLDEST_OPEN], n_open
        while entry >= 0:
            at = gather_open(arrays, bits, first_lane, entry, betting, out, at)
            entries[n_open] = entry
            n_open += 1
            entry = opened[entry, AFTER]
        lanes, lane = 0, first_lane
        while lane >= 0:
            lanes += 1
            lane = fields[lane, NEXT_LANE]
        out[head], out[head + 1], out[head + 2] = signed(lanes), signed(n_open - first), signed(int(row >= 0))
        ends[k], open_ends[k] = at, n_open


def pack(words: Ints, ends: Ints, out: Bytes) -> None:
    """Pack the words of each key into few bytes; `ends`, of its words, become the ends of its bytes."""
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


def unpack(data: Bytes, words: Ints) -> bool:
    """Fill `words` from packed bytes; returns whether there are exactly so many."""
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


class Storing:
    """The functions above, as entry points that are interpreted first."""

    most_words: ClassVar[Callable[[LaneArrays, Ints], int]]
    gather: ClassVar[Callable[[LaneArrays, Ints, bool, Ints, Ints, Ints, Ints], None]]
    pack: ClassVar[Callable[[Ints, Ints, Bytes], None]]
    unpack: ClassVar[Callable[[Bytes, Ints], bool]]


STORING = interpreted_first(
    Storing,
    Address(__name__, "STORING"),
    most_words=Entry(most_words, 0, (LANE_TYPES, INTS), seconds=1e-5, rows=lambda arrays, which: len(which)),
    gather=Entry(
        gather,
        0,
        (LANE_TYPES, INTS, types.boolean, INTS, INTS, INTS, INTS),
        seconds=3e-3,
        rows=lambda arrays, which, *_: len(which),
        views=False,
    ),
    pack=Entry(
        pack, 0, (INTS, INTS, types.uint8[::1]), seconds=3e-6, rows=lambda words, *_: len(words), views=False
    ),
    unpack=Entry(unpack, 0, seconds=3e-6, rows=lambda data, words: len(words), views=False),
)
"""The interpreter takes some milliseconds for the state of a key."""


class WordReader:
    """The words of a state, read one after the other; ValueError where there are no more."""

    def __init__(self, stored: StoredBinaryKey) -> None:
        # two words take a byte at least
        require(0 <= stored.length <= 2 * len(stored.words), "its length")
        self._words, self._at = np.empty(stored.length, np.int64), 0
        require(STORING.unpack(np.frombuffer(stored.words, np.uint8), self._words), "its length")

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

    def steering(self) -> Floats:
        """A state of steering, (SIZE,)."""
        return ((self._take(SIZE).byteswap() & STORED_BITS) ^ NEW_STEERING).view(np.float64)

    def stakes(self) -> NDArray[np.float32]:
        """The stakes on a forecast, (N_STAKES,)."""
        return (self._take(N_STAKES).byteswap() >> 32).astype(np.int32).view(np.float32)

    def end(self) -> None:
        """ValueError unless all were read."""
        require(self._at == len(self._words), "its length")


def read_lanes(words: WordReader) -> tuple[list[tuple[int, Ints, Ints]], int, bool]:
    """The lanes that come first, how many forecasts are open, and whether hints are steered.

    Of a lane: how late its labels were at most, its memory, and the rounds in its window, (n, ENTRY_LENGTH).
    """
    n_lanes, n_open, steered = words.ints(HEADER).tolist()
    lanes = []
    for _ in range(n_lanes):
        late, length, rounds = words.ints(PER_LANE).tolist()
        lanes.append((late, words.ints(length), words.ints(ENTRY_LENGTH * rounds).reshape(-1, ENTRY_LENGTH)))
    return lanes, n_open, bool(steered)


def account_in(stored: StoredBinaryKey) -> Floats:
    """The account in a stored key; ValueError if there is none."""
    words = WordReader(stored)
    *_, steered = read_lanes(words)
    words.ints(SIZE if steered else 0)
    return words.floats(ACCOUNT_SIZE)


def with_checksum(data: bytes | memoryview) -> bytes:
    """The bytes behind their checksum: compiled code must never run on a state that a disk has damaged."""
    return checksum_of(data) + data


def checksum_of(data: bytes | memoryview) -> bytes:
    """The checksum of some bytes."""
    return crc32(data).to_bytes(SUM, "little")


def checked_state(key: str, state: bytes) -> memoryview:
    """A key's state without its checksum; ValueError if they do not agree."""
    data = memoryview(state)[SUM:]
    if state[:SUM] != checksum_of(data):
        raise ValueError(f"the state of key {key!r} is damaged: its bytes were changed. {REPAIR_ADVICE}")
    return data


def pack_floats(floats: NDArray[Any]) -> bytes:
    """One bit for each float that says whether it is not 0, followed by the floats that are not 0."""
    opened = floats.view(f"i{floats.itemsize}") != 0
    return np.packbits(opened).tobytes() + floats[opened].tobytes()


def unpack_floats(data: bytes, kind: str, number: int) -> tuple[NDArray[Any], bytes]:
    """Unpack so many floats; returns them and the bytes that follow. ValueError if bytes are missing."""
    width, start = int(kind[-1]), (number + 7) // 8
    require(len(data) >= start, "the number of its floats")
    opened = np.unpackbits(np.frombuffer(data[:start], np.uint8))[:number].view(np.bool_)
    end = start + width * int(opened.sum())
    require(len(data) >= end, "the number of its floats")
    floats = np.zeros(number, kind)
    floats[opened] = np.frombuffer(data[start:end], kind)
    return floats, data[end:]
