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

from onlinecal.compiling import compiled
from onlinecal.engine.keys.packing import HEAD as FRONT
from onlinecal.engine.keys.playing import Players
from onlinecal.engine.keys.steering import BITS, SPARSE
from onlinecal.engine.watch.account import SIZE as ACCOUNT
from onlinecal.forecasters.binary.cells import FORMAT, ROUNDS, certificate, inlined
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
SPACE, ROWS = 1, 2
"""What taking up players can lack: room in the heap, rows of steering."""


@inlined
def put_changed(out: Any, at: int, words: Any, new: Any, kept: Any, n: int) -> int:
    """Write bits that say which of n words are other than new and kept, and these; how many they are."""
    end: Any = at + (n + 63) // 64
    start = end
    for first in range(0, n, 64):
        bits: Any = 0
        for i in range(first, min(n, first + 64)):
            changed = np.int64(words[i] != new[i]) & np.int64(kept[i])
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
    for first in range(0, n, 64):
        bits = data[at + first // 64]
        for i in range(first, min(n, first + 64)):
            changed = bits >> ((i & 56) + 7 - (i & 7)) & 1
            words[i] = data[place] if changed else new[i]
            place += changed


@compiled
def pack_players(
    players: Players, which: Ints, watched: bool, new: Ints, kept: Any, out: Ints, ends: Ints
) -> None:
    """Pack some players one after the other into `out`, which has room; `ends` are where each one ends.

    `new` are the words of steering that has learnt nothing, `kept` whether they count, both (`trust.SIZE`,).
    """
    heap, places, rows, counts = players.heap, players.places, players.rows, players.counts
    steering, accounts = players.steering.view(np.int64), players.accounts.view(np.int64)
    zeros, ones = np.zeros(ACCOUNT, np.int64), np.ones(ACCOUNT, np.bool_)
    worth = np.empty(1)
    at = 0
    for k in range(len(which)):
        player = which[k]
        start, length = places[player, 0], places[player, 1]
        memory = heap[start : start + length]
        if memory[FORMAT] == FORMAT_DYADIC:
            length = memory[END]
        most = 0
        for j in range(FRONT, length):
            most = max(most, memory[j] ^ (memory[j] >> 63))
        width = 1
        while width < 8 and most >= 1 << (8 * width - 1):
            width *= 2
        worth[0] = certificate(memory)
        out[at + WIDTH] = width
        out[at + TABLE] = length - FRONT
        out[at + LEARNT] = out[at + COUNTED] = -1
        out[at + OPEN] = counts[player, 0]
        out[at + LATE] = counts[player, 1]
        out[at + WORTH] = worth.view(np.int64)[0]
        end = at + HEAD
        for j in range(FRONT):
            out[end + j] = memory[j]
        end += FRONT
        each = 8 // width
        for j in range(FRONT, length, each):
            word = 0
            for i in range(min(each, length - j)):
                part = memory[j + i]
                if width < 8:
                    part &= (1 << (8 * width)) - 1
                word |= part << (8 * width * i)
            out[end] = word
            end += 1
        if rows[player] >= 0:
            n = put_changed(out, end, steering[rows[player]], new, kept, SIZE)
            out[at + LEARNT] = n
            end += STEERING_BITS + n
        if watched:
            n = put_changed(out, end, accounts[player], zeros, ones, ACCOUNT)
            out[at + COUNTED] = n
            end += ACCOUNT_BITS + n
        ends[k] = at = end


@compiled
def unpack_players(
    players: Players, data: Ints, starts: Ints, which: Ints, free: Ints, new: Ints, progress: Ints
) -> int:
    """Let players be what was packed, from `progress[0]` on; what the next one lacks, 0 if all are there.

    `free` are rows of steering; `progress[1]` is how much of the heap is in use, `progress[2]` how many rows
    were taken. A player that has enough of the heap keeps it.
    """
    heap, places, rows, counts = players.heap, players.places, players.rows, players.counts
    steering, accounts = players.steering.view(np.int64), players.accounts.view(np.int64)
    zeros = np.zeros(ACCOUNT, np.int64)
    while progress[0] < len(which):
        player, at = which[progress[0]], starts[progress[0]]
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
            take_changed(data, place, steering[rows[player]], new, SIZE)
            place += STEERING_BITS + data[at + LEARNT]
        if data[at + COUNTED] >= 0:
            take_changed(data, place, accounts[player], zeros, ACCOUNT)
        else:
            for j in range(ACCOUNT):
                accounts[player, j] = 0
        counts[player, 0] = data[at + OPEN]
        counts[player, 1] = data[at + LATE]
        progress[0] += 1
    return 0


class Packed(NamedTuple):
    """A packed player, taken apart: parts as `packing.pack`, `steering.sparse` and `pack_floats` have them.

    `certificate` is 0 of what `together` made.
    """

    lane: bytes
    steering: bytes | None
    account: bytes | None
    late: int
    rounds: int
    certificate: float


def apart(data: bytes) -> Packed:
    """What a packed player consists of."""
    width, table, learnt, counted, _, late, worth = _head.unpack_from(data)
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
    start = _WORD * (HEAD + ROUNDS)
    return Packed(lane, steering, account, late, int.from_bytes(data[start : start + _WORD], "little"), worth)


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
