"""Where players that are packed stand, as words in one array: no object is made of any.

Each has a room of its size, rounded up. Rooms that were left are kept in lists by their size, each with the
place of the next one in its first word, and are given away before new ones are made.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.compiling import compiled
from onlinecal.compiling.borrowed import borrowed
from onlinecal.forecasters.binary.cells import inlined

Ints = NDArray[np.int64]

FINE, LARGE = 16, 1024
"""Sizes are rounded up to multiples of the first, beyond the second to powers of two."""
FIRST = 1 << 23
"""Words that there is room for at first; those that nobody has written take no memory."""


class Rooms(NamedTuple):
    """The `words`; by size, the first room that was `left`, -1 for none; how many words are `used`, (1,)."""

    words: Ints
    left: Ints
    used: Ints


@inlined
def lent_rooms(rooms: Any) -> Any:
    """The same rooms, to loops that count no references to their arrays."""
    return Rooms(borrowed(rooms.words), borrowed(rooms.left), borrowed(rooms.used))


@inlined
def rounded(size: int) -> tuple[int, int]:
    """How large a room for so many words is, and which list it belongs to."""
    if size <= LARGE:
        which = (size + FINE - 1) // FINE
        return FINE * which, which
    room, which = LARGE, LARGE // FINE
    while room < size:
        room, which = 2 * room, which + 1
    return room, which


@inlined
def take_room(rooms: Any, size: int) -> int:
    """Where there is room for so many words; -1 if there is none."""
    room, which = rounded(size)
    start = rooms.left[which]
    if start >= 0:
        rooms.left[which] = rooms.words[start]
        return start
    start = rooms.used[0]
    if start + room > len(rooms.words):
        return -1
    rooms.used[0] += room
    return start


@compiled
def leave_rooms(rooms: Rooms, starts: Ints, sizes: Ints) -> None:
    """Give back the rooms for so many words that start there."""
    for i in range(len(starts)):
        _, which = rounded(sizes[i])
        rooms.words[starts[i]] = rooms.left[which]
        rooms.left[which] = starts[i]


class Attic:
    """Rooms for packed players."""

    def __init__(self) -> None:
        self.rooms = Rooms(np.empty(0, np.int64), np.full(LARGE // FINE + 64, -1), np.zeros(1, np.int64))

    def grow(self, more: int) -> None:
        """Have room for so many words more."""
        old = self.rooms.words
        words = np.empty(max(FIRST, 2 * len(old), len(old) + 2 * more), np.int64)
        used = int(self.rooms.used[0])
        words[:used] = old[:used]
        self.rooms = self.rooms._replace(words=words)

    def read(self, start: int, size: int) -> bytes:
        """So many words."""
        return self.rooms.words[start : start + size].tobytes()

    def leave(self, starts: Ints, sizes: Ints) -> None:
        """Give back the rooms for so many words that start there."""
        leave_rooms(self.rooms, starts, sizes)
