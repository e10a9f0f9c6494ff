"""States as they are stored, of keys that live in an arena: many are written in one compiled pass.

What is written is MessagePack, byte by byte as `StoredKey` and its kin are encoded; only the checksum is
left to be put in front.
"""

from __future__ import annotations

from itertools import accumulate, chain, pairwise
from math import nan
from typing import Any, NamedTuple

import numpy as np

from onlinecal.arrays import Bytes, Floats, Ints
from onlinecal.compiling import compiled, kernel_part
from onlinecal.compiling.instructions import borrowed
from onlinecal.engine.columns.columns import put
from onlinecal.engine.keys.lanes import Issued
from onlinecal.engine.keys.packing import HEAD
from onlinecal.engine.keys.playing import Players
from onlinecal.engine.keys.steering import BITS
from onlinecal.engine.watch.account import SIZE as ACCOUNT
from onlinecal.engine.watch.account import TICKET as STAKES
from onlinecal.forecasters.binary.cells import FORMAT, certificate
from onlinecal.forecasters.binary.grids.dyadic_accounts import FORMAT_DYADIC
from onlinecal.forecasters.binary.grids.dyadic_search import END
from onlinecal.steering.binary import TICKET
from onlinecal.steering.trust import SIZE
from onlinecal.version import STATE_FORMAT

ACCOUNT_BYTES = (ACCOUNT + 7) // 8
"""Bytes that say which floats of an account are kept."""
PER_KEY = 64 + BITS + 8 * SIZE + ACCOUNT_BYTES + 8 * ACCOUNT
PER_OPEN = 96 + 8 * TICKET + 5 * STAKES
"""Bytes of a key besides its memory, at most, and of an open forecast besides its id."""
ZEROS, ONES = np.zeros(ACCOUNT, np.int64), np.full(ACCOUNT, -1)

NIL, FLOAT, BIN, UINT, INT, TEXT, ARRAY = 0xC0, 0xCB, 0xC4, 0xCC, 0xD0, 0xD9, 0xDC
"""MessagePack's marks: of the four below the first of several, by the size of what follows."""
SHORT_TEXT, SHORT_ARRAY = 0xA0, 0x90
"""Of what is so short that its length stands in the mark."""


class Told(NamedTuple):
    """The open forecasts of keys, one key after the other, the oldest first.

    Attributes
    ----------
    data, spans
        The bytes of their ids, and where each one's begin and end, (open, 2).
    times
        When they were asked for, NaN if that is not known, (open,).
    places
        Where the arena keeps the rest, (open,).
    ends
        Where each key's end, (keys,).
    """

    data: Bytes
    spans: Ints
    times: Floats
    places: Ints
    ends: Ints


@kernel_part
def put_bytes(out: Any, at: int, number: int, size: int) -> int:
    """A number in 1 << size bytes, the highest first; where they end."""
    for shift in range((8 << size) - 8, -1, -8):
        out[at] = (number >> shift) & 255
        at += 1
    return at


@kernel_part
def put_sized(out: Any, at: int, mark: int, number: int, least: int) -> int:
    """A mark by the size of a number, and this, from 1 << least bytes on; where that ends."""
    size = least
    while size < 3 and number >> (8 << size) != 0:
        size += 1
    out[at] = mark + size - least
    return put_bytes(out, at + 1, number, size)


@kernel_part
def put_int(out: Any, at: int, number: int) -> int:
    """An integer."""
    if -32 <= number < 128:
        out[at] = number & 255
        return at + 1
    if number >= 0:
        return put_sized(out, at, UINT, number, 0)
    size: Any = 0
    while number < -1 << ((8 << size) - 1):
        size += 1
    out[at] = INT + size
    return put_bytes(out, at + 1, number, size)


@kernel_part
def put_float(out: Any, at: int, number: float) -> int:
    """A float, nil for NaN."""
    if number != number:
        out[at] = NIL
        return at + 1
    out[at] = FLOAT
    return put_bytes(out, at + 1, np.float64(number).view(np.int64), 3)


@kernel_part
def put_array(out: Any, at: int, number: int) -> int:
    """The mark of an array of so many."""
    if number < 16:
        out[at] = SHORT_ARRAY + number
        return at + 1
    return put_sized(out, at, ARRAY, number, 1)


@kernel_part
def put_told(players: Any, told: Any, i: int, out: Any, at: int) -> int:
    """An open forecast as `Issued` is encoded."""
    place, start, end = told.places[i], told.spans[i, 0], told.spans[i, 1]
    at = put_array(out, at, 8)
    if end - start < 32:
        out[at] = SHORT_TEXT + end - start
        at += 1
    else:
        at = put_sized(out, at, TEXT, end - start, 0)
    at = put(out, at, told.data, start, end)
    at = put_int(out, at, players.numbers[place])
    at = put_float(out, at, told.times[i])
    at = put_float(out, at, players.hints[place])
    # the lane
    at = put_int(out, at, 0)
    at = put_float(out, at, players.forecasts[place])
    at = put_float(out, at, players.certificates[place])
    at = put_array(out, at, 2)
    at = put_int(out, at, players.cells[place, 0])
    return put_int(out, at, players.cells[place, 1])


@kernel_part
def put_memory(heap: Any, data: Any, start: int, length: int, out: Any, at: int) -> int:
    """A memory that starts there in the heap, `data` in bytes: as `packing.pack` has it."""
    most: Any = 0
    for j in range(start + HEAD, start + length):
        most = max(most, heap[j] ^ (heap[j] >> 63))
    width = 1
    while width < 8 and most >= 1 << (8 * width - 1):
        width *= 2
    at = put_sized(out, at, BIN, 1 + 8 * HEAD + width * (length - HEAD), 0)
    out[at] = width
    at = put(out, at + 1, data, 8 * start, 8 * (start + HEAD))
    for j in range(start + HEAD, start + length):
        at = put(out, at, data, 8 * j, 8 * j + width)
    return at


@kernel_part
def count_changed(words: Any, start: int, new: Any, kept: Any) -> int:
    """How many words from `start` on are other than new where they are kept (-1)."""
    found: Any = 0
    for i in range(len(new)):
        found += np.int64((words[start + i] ^ new[i]) & kept[i] != 0)
    return found


@kernel_part
def put_changed(words: Any, data: Any, start: int, new: Any, kept: Any, out: Any, at: int) -> int:
    """Bits that say which words these are, `data` in bytes, and the words."""
    end = at + (len(new) + 7) // 8
    for first in range(0, len(new), 8):
        bits: Any = 0
        for i in range(first, min(len(new), first + 8)):
            if (words[start + i] ^ new[i]) & kept[i] != 0:
                bits |= 128 >> (i & 7)
                end = put(out, end, data, 8 * (start + i), 8 * (start + i) + 8)
        out[at + first // 8] = bits
    return end


@kernel_part
def put_stakes(stakes: Any, told: Any, first: int, last: int, out: Any, at: int) -> int:
    """The stakes on open forecasts, as `pack_floats` has them."""
    end, where = at + (stakes.shape[1] * (last - first) + 7) // 8, 0
    for j in range(at, end):
        out[j] = 0
    for i in range(first, last):
        for j in range(stakes.shape[1]):
            stake = stakes[told.places[i], j]
            if stake != 0:
                out[at + where // 8] |= 128 >> (where & 7)
                for byte in range(4):
                    out[end + byte] = (stake >> (8 * byte)) & 255
                end += 4
            where += 1
    return end


@kernel_part
def put_account(
    words: Any, data: Any, start: int, stakes: Any, told: Any, first: int, last: int, out: Any, at: int
) -> int:
    """An account that starts there, `data` in bytes, with the stakes: as `StoredWatch` is."""
    made: Any = 0
    for i in range(first, last):
        for j in range(stakes.shape[1]):
            made += np.int64(stakes[told.places[i], j] != 0)
    bits = (stakes.shape[1] * (last - first) + 7) // 8
    size = ACCOUNT_BYTES + 8 * count_changed(words, start, ZEROS, ONES) + bits + 4 * made
    # what the struct and its bytes begin with, and the nil that it ends with
    around = 4 if size < 256 else 5 if size < 65536 else 7
    at = put_sized(out, at, BIN, size + around, 0)
    at = put_array(out, at, 2)
    at = put_sized(out, at, BIN, size, 0)
    at = put_changed(words, data, start, ZEROS, ONES, out, at)
    at = put_stakes(stakes, told, first, last, out, at)
    out[at] = NIL
    return at + 1


@compiled
def write_states(
    players: Players, which: Ints, new: Ints, kept: Ints, told: Told, clocks: Floats, expired: Ints,
    betting: bool, out: Bytes, certificates: Floats, ends: Ints,
) -> None:  # fmt: skip
    """Write the states of keys one behind the other into `out`, which has room; `ends` are where they end.

    `which` are their players. `new` are the words of steering that has learnt nothing, `kept` -1 for those
    that count, else 0, both (`trust.SIZE`,). `clocks` are NaN before the first time. `betting` is whether
    stakes are kept. `certificates` becomes those of the keys.
    """
    out, heap, counts, rows = borrowed(out), borrowed(players.heap), players.counts, players.rows
    memories = borrowed(players.heap.view(np.uint8))
    stakes = players.stakes.view(np.int32)[:, : STAKES * betting]
    learnt, sums = borrowed(players.steering.ravel()), borrowed(players.accounts.ravel())
    learnt_words, learnt_bytes = borrowed(learnt.view(np.int64)), borrowed(learnt.view(np.uint8))
    sums_words, sums_bytes = borrowed(sums.view(np.int64)), borrowed(sums.view(np.uint8))
    tickets = borrowed(players.tickets.ravel().view(np.uint8))
    first, end = 0, 0
    for k in range(len(which)):
        player, last = which[k], told.ends[k]
        start, length = players.places[player, 0], players.places[player, 1]
        memory = borrowed(heap[start : start + length])
        if memory[FORMAT] == FORMAT_DYADIC:
            length = memory[END]
        certificates[k] = certificate(memory)
        end = put_array(out, end, 8)
        end = put_int(out, end, STATE_FORMAT)
        end = put_float(out, end, clocks[k])
        end = put_int(out, end, expired[k])
        end = put_int(out, put_array(out, end, 1), counts[player, 1])
        end = put_memory(heap, memories, start, length, out, put_array(out, end, 1))
        end = put_array(out, end, last - first)
        hinted: Any = 0
        for i in range(first, last):
            end = put_told(players, told, i, out, end)
            hinted += np.int64(players.hinted[told.places[i]])
        if rows[player] >= 0:
            at = SIZE * rows[player]
            changed = count_changed(learnt_words, at, new, kept)
            end = put_sized(out, end, BIN, BITS + 8 * (changed + TICKET * hinted), 0)
            end = put_changed(learnt_words, learnt_bytes, at, new, kept, out, end)
            for i in range(first, last):
                if players.hinted[told.places[i]]:
                    place = 8 * TICKET * told.places[i]
                    end = put(out, end, tickets, place, place + 8 * TICKET)
        else:
            out[end] = NIL
            end += 1
        end = put_account(sums_words, sums_bytes, ACCOUNT * player, stakes, told, first, last, out, end)
        ends[k] = end
        first = last


def told_by(waiting: list[list[Issued]]) -> Told:
    """Open forecasts of keys as objects, whose cells are places."""
    listed = list(chain.from_iterable(waiting))
    ids = [one.id.encode() for one in listed]
    ends = list(accumulate(map(len, ids), initial=0))
    return Told(
        np.frombuffer(bytearray(b"".join(ids)), np.uint8),
        np.array(list(pairwise(ends)), np.int64).reshape(-1, 2),
        np.array([nan if one.time is None else one.time for one in listed], np.float64),
        np.array([one.cell for one in listed], np.int64),
        np.array(list(accumulate(map(len, waiting)))),
    )
