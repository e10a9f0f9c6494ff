"""Players as words: what an arena holds of keys, packed closely and taken up again, many in a compiled call.

Packed, a player is a head and the parts of its state: its memory, the front as it is and the table in
integers as narrow as it allows; what was learnt of hints where it is not what a new one knows, behind bits
that say where (none if its hints are not steered); and so its account (none if nobody watches it). All of it
stands in words of 8 bytes, and becomes what is stored by being cut (`apart`). Its open forecasts keep their
places.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.compiling import compiled, kernel_part
from onlinecal.compiling.ahead import fetch_all
from onlinecal.compiling.borrowed import borrowed
from onlinecal.engine.keys.attic import Rooms, lent_rooms, take_room
from onlinecal.engine.keys.packing import HEAD as FRONT
from onlinecal.engine.keys.playing import AHEAD, MOST_FETCHED, Players
from onlinecal.engine.keys.steering import BITS, SPARSE
from onlinecal.engine.watch.account import SIZE as ACCOUNT
from onlinecal.forecasters.binary.cells import FORMAT, certificate, inlined
from onlinecal.forecasters.binary.grids.dyadic_accounts import FORMAT_DYADIC
from onlinecal.forecasters.binary.grids.dyadic_search import END
from onlinecal.steering.trust import SIZE

Ints = NDArray[np.int64]

WIDTH, TABLE, LEARNT, COUNTED, OPEN, LATE, WORTH = range(7)
"""The head: the bytes of an integer of the table, and how many there are; of how many floats the steering and
the account consist, -1 if there is none; the counts of the player; its certificate."""
HEAD = 7
STEERING_BITS, ACCOUNT_BITS = (SIZE + 63) // 64, (ACCOUNT + 63) // 64
FEW = 64
"""Integers of the smallest memory that can grow."""
ROOM = HEAD + FRONT + 1 + STEERING_BITS + SIZE + ACCOUNT_BITS + ACCOUNT + 1
"""So many words a player takes at most, but for its table."""
ZEROS, ONES = np.zeros(ACCOUNT, np.int64), np.full(ACCOUNT, -1)
SPACE, ROWS = 1, 2
"""What taking up players can lack: room in the heap, rows of steering."""


@inlined
def put_changed(out: Any, at: int, words: Any, new: Any, kept: Any, n: int) -> int:
    """Write bits that say which of n words are other than new where they are kept (-1), and these; how many.

    Words are looked at by eights, in most of which nothing has changed.
    """
    end: Any = at + (n + 63) // 64
    start = end
    for first in range(0, n, 64):
        bits: Any = 0
        for eight in range(first, min(n, first + 64), 8):
            differ: Any = np.int64(eight + 8 > n)
            if eight + 8 <= n:
                for i in range(eight, eight + 8):
                    differ |= (words[i] ^ new[i]) & kept[i]
            if differ == 0:
                continue
            for i in range(eight, min(n, eight + 8)):
                changed = np.int64((words[i] ^ new[i]) & kept[i] != 0)
                # in each byte the highest bit comes first
                bits |= changed << ((i & 56) + 7 - (i & 7))
                out[end] = words[i]
                end += changed
        out[at + first // 64] = bits
    return end - start


@inlined
def take_changed(data: Any, at: int, words: Any, new: Any, n: int) -> None:
    """Take up the words that were written so."""
    place = at + (n + 63) // 64
    for i in range(n):
        words[i] = new[i]
    for first in range(0, n, 64):
        bits = data[at + first // 64]
        for eight in range(first, min(n, first + 64), 8):
            if bits >> (eight & 56) & 255:
                for i in range(eight, min(n, eight + 8)):
                    if bits >> ((i & 56) + 7 - (i & 7)) & 1:
                        words[i] = data[place]
                        place += 1


@kernel_part
def pack_one(
    players: Any, player: int, watched: bool, new: Any, kept: Any, accounts: Any, out: Any, at: int
) -> int:
    """Pack a player into `out`, which has room from a place on; where it ends. The rest as `pack_players`."""
    heap, places, rows, counts = players.heap, players.places, players.rows, players.counts
    steering = players.steering.view(np.int64)
    start, length = places[player, 0], places[player, 1]
    memory = borrowed(heap[start : start + length])
    if memory[FORMAT] == FORMAT_DYADIC:
        length = memory[END]
    most: Any = 0
    for j in range(FRONT, length):
        most = max(most, memory[j] ^ (memory[j] >> 63))
    width = 1
    while width < 8 and most >= 1 << (8 * width - 1):
        width *= 2
    out[at + WIDTH] = width
    out[at + TABLE] = length - FRONT
    out[at + LEARNT] = out[at + COUNTED] = -1
    out[at + OPEN] = counts[player, 0]
    out[at + LATE] = counts[player, 1]
    out[at + WORTH] = np.float64(certificate(memory)).view(np.int64)
    end: Any = at + HEAD
    for j in range(FRONT):
        out[end + j] = memory[j]
    end += FRONT
    each = 8 // width
    for j in range(FRONT, length, each):
        word: Any = 0
        for i in range(min(each, length - j)):
            part = memory[j + i]
            if width < 8:
                part &= (1 << (8 * width)) - 1
            word |= part << (8 * width * i)
        out[end] = word
        end += 1
    if rows[player] >= 0:
        n = put_changed(out, end, borrowed(steering[rows[player]]), new, kept, SIZE)
        out[at + LEARNT] = n
        end += STEERING_BITS + n
    if watched:
        n = put_changed(out, end, borrowed(accounts[player]), ZEROS, ONES, ACCOUNT)
        out[at + COUNTED] = n
        end += ACCOUNT_BITS + n
    return end


@compiled
def pack_players(
    players: Players, which: Ints, watched: bool, new: Ints, kept: Ints, out: Ints, ends: Ints
) -> None:
    """Pack some players one after the other into `out`, which has room; `ends` are where each one ends.

    `new` are the words of steering that has learnt nothing, `kept` -1 for those that count, else 0, both
    (`trust.SIZE`,).
    """
    accounts, at = players.accounts.view(np.int64), 0
    for k in range(len(which)):
        ends[k] = at = pack_one(players, which[k], watched, new, kept, accounts, out, at)


@compiled
def store_players(
    players: Players, which: Ints, watched: bool, new: Ints, kept: Ints, out: Ints, attic: Rooms, found: Ints
) -> None:
    """Pack some players into an attic until it is full; `out` has room for any of them.

    `found`, (players, 2), is where each one is, -1 for those that are not there, and how many words it has.
    """
    accounts, room = players.accounts.view(np.int64), lent_rooms(attic)
    learnt, sums = borrowed(players.steering.ravel()), borrowed(players.accounts.ravel())
    for k in range(len(which)):
        if k + AHEAD < len(which):
            coming = which[k + AHEAD]
            fetch_all(players.heap, players.places[coming, 0], min(players.places[coming, 1], MOST_FETCHED))
            fetch_all(learnt, max(players.rows[coming], 0) * SIZE, SIZE)
            fetch_all(sums, coming * ACCOUNT, ACCOUNT)
        size = pack_one(players, which[k], watched, new, kept, accounts, out, 0)
        found[k, 0] = start = take_room(room, size)
        found[k, 1] = size
        if start < 0:
            return
        for j in range(size):
            room.words[start + j] = out[j]


@compiled
def unpack_players(
    players: Players, data: Ints, starts: Ints, which: Ints, free: Ints, new: Ints, progress: Ints
) -> int:
    """Let players be what was packed, from `progress[0]` on; what the next one lacks, 0 if all are there.

    `free` are rows of steering; `progress[1]` is how much of the heap is in use, `progress[2]` how many rows
    were taken, `progress[3]` what room is lacking. A player that has enough of the heap keeps it.
    """
    heap, places, rows, counts = players.heap, players.places, players.rows, players.counts
    steering, accounts = players.steering.view(np.int64), players.accounts.view(np.int64)
    lent_data = borrowed(data)
    while progress[0] < len(which):
        player, at = which[progress[0]], starts[progress[0]]
        if progress[0] + AHEAD < len(which):
            fetch_all(lent_data, starts[progress[0] + AHEAD], MOST_FETCHED)
        place = at + HEAD
        used = FRONT + data[at + TABLE]
        least = most = used
        if data[place + FORMAT] == FORMAT_DYADIC:
            least = FEW
            while least <= used + 1:
                least *= 2
            most = 2 * least
        if data[at + LEARNT] >= 0 and progress[2] >= len(free):
            return ROWS
        if not least <= places[player, 1] <= most:
            if progress[1] + least > len(heap):
                progress[3] = least
                return SPACE
            places[player, 0] = progress[1]
            places[player, 1] = least
            progress[1] += least
        start, length = places[player, 0], places[player, 1]
        for j in range(FRONT):
            heap[start + j] = data[place + j]
        place += FRONT
        width = data[at + WIDTH]
        each, spare = 8 // width, 64 - 8 * width
        for j in range(start + FRONT, start + used, each):
            word = data[place]
            for i in range(min(each, start + used - j)):
                heap[j + i] = word >> (8 * width * i) << spare >> spare
            place += 1
        for j in range(start + used, start + length):
            heap[j] = 0
        rows[player] = -1
        if data[at + LEARNT] >= 0:
            rows[player] = free[progress[2]]
            progress[2] += 1
            take_changed(data, place, borrowed(steering[rows[player]]), new, SIZE)
            place += STEERING_BITS + data[at + LEARNT]
        if data[at + COUNTED] >= 0:
            take_changed(data, place, borrowed(accounts[player]), ZEROS, ACCOUNT)
        else:
            for j in range(ACCOUNT):
                accounts[player, j] = 0
        counts[player, 0] = data[at + OPEN]
        counts[player, 1] = data[at + LATE]
        progress[0] += 1
    return 0


def heads_of(packed: bytes) -> Ints:
    """How a packed player begins, (1, HEAD + FRONT)."""
    return np.frombuffer(packed, np.int64, HEAD + FRONT)[None]


class Packed(NamedTuple):
    """A packed player: parts as `packing.pack`, `steering.sparse` and `pack_floats` have them."""

    lane: bytes
    steering: bytes | None
    account: bytes | None
    late: int


def apart(data: bytes) -> Packed:
    """What a packed player consists of."""
    width, table, learnt, counted, _, late, _ = _head.unpack_from(data)
    end = _WORD * (HEAD + FRONT) + width * table
    lane = b"%c%b" % (width, data[_WORD * HEAD : end])
    end += -end % _WORD
    steering = account = None
    if learnt >= 0:
        start, end = end, end + _WORD * (STEERING_BITS + learnt)
        floats = data[end - _WORD * learnt : end]
        steering = b"%b%b%b" % (SPARSE, data[start : start + BITS], floats)
    if counted >= 0:
        start, end = end, end + _WORD * (ACCOUNT_BITS + counted)
        account = data[start : start + ACCOUNT_BYTES] + data[end - _WORD * counted : end]
    return Packed(lane, steering, account, late)


def together(lane: bytes, steering: bytes | None, account: bytes | None, waiting: int, late: int) -> bytes:
    """A packed player of these parts, whose certificate is not looked at."""
    width, learnt, counted = lane[0], -1, -1
    parts = [lane[1:], bytes(-(len(lane) - 1) % _WORD)]
    if steering is not None:
        learnt = (len(steering) - 1 - BITS) // _WORD
        parts += steering[1 : 1 + BITS], bytes(-BITS % _WORD), steering[1 + BITS :]
    if account is not None:
        counted = (len(account) - ACCOUNT_BYTES) // _WORD
        parts += account[:ACCOUNT_BYTES], bytes(-ACCOUNT_BYTES % _WORD), account[ACCOUNT_BYTES:]
    table = (len(lane) - 1 - _WORD * FRONT) // width
    return b"".join((_head.pack(width, table, learnt, counted, waiting, late, 0.0), *parts))


ACCOUNT_BYTES = (ACCOUNT + 7) // 8
"""Bytes of the bits in front of an account that is stored."""
_WORD = 8
_head = Struct("<6qd")
