"""States as they are stored, of keys that live in an arena: many are written in one compiled pass.

What is written is MessagePack, byte by byte as `StoredKey` and its kin are encoded; only the checksum is
left to be put in front.
"""

from __future__ import annotations

from itertools import accumulate, chain, pairwise
from math import nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.compiling import compiled, kernel_part
from onlinecal.compiling.borrowed import borrowed
from onlinecal.engine.columns.answering import put
from onlinecal.engine.keys.lanes import Issued
from onlinecal.engine.keys.packed_players import (
    ACCOUNT_BITS,
    ACCOUNT_BYTES,
    COUNTED,
    FRONT,
    HEAD,
    LATE,
    LEARNT,
    STEERING_BITS,
    TABLE,
    WIDTH,
    pack_one,
)
from onlinecal.engine.keys.playing import Players
from onlinecal.engine.keys.steering import BITS, SPARSE
from onlinecal.engine.keys.stored_key import STEERED, VERSION, WATCHED
from onlinecal.engine.watch.account import TICKET as STAKES
from onlinecal.steering.binary import TICKET

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]

PER_KEY, PER_OPEN = 64, 96 + 8 * TICKET + 5 * STAKES
"""Bytes of a key that stand in no word of its player, at most, and of an open forecast, but for its id."""

NIL, FLOAT, BIN, UINT, INT, TEXT, ARRAY = 0xC0, 0xCB, 0xC4, 0xCC, 0xD0, 0xD9, 0xDC
"""MessagePack's marks: of the four below the first of several, by the size of what follows."""
SHORT_TEXT, SHORT_ARRAY = 0xA0, 0x90
"""Of what is so short that its length stands in the mark."""
SPARSE_MARK = SPARSE[0]


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
def put_account(
    stakes: Any, told: Any, first: int, last: int, data: Any, at: int, counted: int, out: Any, end: int
) -> int:
    """An account, which begins there in the data, with stakes, if there are any: as `StoredWatch` is."""
    bits, made = (stakes.shape[1] * (last - first) + 7) // 8, 0
    for i in range(first, last):
        for j in range(stakes.shape[1]):
            made += stakes[told.places[i], j] != 0
    size = ACCOUNT_BYTES + 8 * counted + bits + 4 * made
    # what the struct and its bytes begin with, and the nil that it ends with
    around = 4 if size < 256 else 5 if size < 65536 else 7
    end = put_sized(out, end, BIN, size + around, 0)
    end = put_array(out, end, 2)
    end = put_sized(out, end, BIN, size, 0)
    end = put(out, end, data, at, at + ACCOUNT_BYTES)
    floats = at + 8 * ACCOUNT_BITS
    end = put(out, end, data, floats, floats + 8 * counted)
    begin, where = end, 0
    end += bits
    for j in range(begin, end):
        out[j] = 0
    for i in range(first, last):
        for j in range(stakes.shape[1]):
            stake = stakes[told.places[i], j]
            if stake != 0:
                out[begin + where // 8] |= 128 >> (where & 7)
                for byte in range(4):
                    out[end + byte] = (stake >> (8 * byte)) & 255
                end += 4
            where += 1
    out[end] = NIL
    return end + 1


@kernel_part
def put_key(
    players: Any, tickets: Any, stakes: Any, words: Any, data: Any, at: int, told: Any, first: int, last: int,
    clock: float, expired: int, out: Any, end: int,
) -> int:  # fmt: skip
    """A key, whose player is packed there in the words, the `data` in bytes, and its open forecasts."""
    width, table, learnt, counted = (
        words[at + WIDTH],
        words[at + TABLE],
        words[at + LEARNT],
        words[at + COUNTED],
    )
    watched, steered = counted >= 0, learnt >= 0
    end = put_array(out, end, 8 if watched else 7 if steered else 6)
    end = put_int(out, end, WATCHED if watched else STEERED if steered else VERSION)
    end = put_float(out, end, clock)
    end = put_int(out, end, expired)
    end = put_int(out, put_array(out, end, 1), words[at + LATE])
    start = 8 * (at + HEAD)
    size = 8 * FRONT + width * table
    end = put_sized(out, put_array(out, end, 1), BIN, 1 + size, 0)
    out[end] = width
    end = put(out, end + 1, data, start, start + size)
    end = put_array(out, end, last - first)
    hinted: Any = 0
    for i in range(first, last):
        end = put_told(players, told, i, out, end)
        hinted += np.int64(players.hinted[told.places[i]])
    start += (size + 7) // 8 * 8
    if steered:
        end = put_sized(out, end, BIN, 1 + BITS + 8 * (learnt + TICKET * hinted), 0)
        out[end] = SPARSE_MARK
        end = put(out, end + 1, data, start, start + BITS)
        start += 8 * STEERING_BITS
        end = put(out, end, data, start, start + 8 * learnt)
        start += 8 * learnt
        for i in range(first, last):
            if players.hinted[told.places[i]]:
                end = put(out, end, tickets, 8 * TICKET * told.places[i], 8 * TICKET * (told.places[i] + 1))
    elif watched:
        out[end] = NIL
        end += 1
    if watched:
        end = put_account(stakes, told, first, last, data, start, counted, out, end)
    return end


@compiled
def write_states(
    players: Players, which: Ints, watched: bool, new: Ints, kept: Ints, scratch: Ints, words: Ints,
    starts: Ints, told: Told, clocks: Floats, expired: Ints, betting: bool, out: Bytes, heads: Ints,
    ends: Ints,
) -> None:  # fmt: skip
    """Write the states of keys one behind the other into `out`, which has room; `ends` are where they end.

    `which` are their players, as `pack_players` takes them with what follows, and `scratch` has room for any;
    -1 for one that is packed in `words` from its start on. `clocks` are NaN before the first time. `betting`
    is whether stakes are kept. `heads`, (keys, HEAD + FRONT), becomes how each packed player begins.
    """
    accounts, out, data = players.accounts.view(np.int64), borrowed(out), borrowed(words.view(np.uint8))
    own, stakes = borrowed(scratch.view(np.uint8)), players.stakes.view(np.int32)[:, : STAKES * betting]
    tickets = borrowed(players.tickets.ravel().view(np.uint8))
    first, end = 0, 0
    for k in range(len(which)):
        player, at, last = which[k], starts[k], told.ends[k]
        if player >= 0:
            pack_one(players, player, watched, new, kept, accounts, scratch, 0)
            at = 0
        source, its_bytes = (scratch, own) if player >= 0 else (words, data)
        end = put_key(
            players,
            tickets,
            stakes,
            source,
            its_bytes,
            at,
            told,
            first,
            last,
            clocks[k],
            expired[k],
            out,
            end,
        )
        for j in range(HEAD + FRONT):
            heads[k, j] = source[at + j]
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
