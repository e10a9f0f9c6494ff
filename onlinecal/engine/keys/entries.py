"""Open forecasts of keys with seats, by id, in rows of arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from onlinecal.arrays import Ints
from onlinecal.compiling import at_once
from onlinecal.engine.columns.columns import (
    SEED,
    WORD,
    find_texts,
    forget_texts,
    joined,
    no_texts,
    optional,
    put_texts,
    with_room,
)
from onlinecal.engine.keys.judging import (
    ASKED,
    COLUMNS,
    FIRST,
    OPEN,
    PLACE,
    SEAT,
    WAITING,
    Book,
    close_one,
    enter_one,
    waiting_of,
)
from onlinecal.engine.keys.lanes import Issued
from onlinecal.engine.keys.playing import Players
from onlinecal.engine.keys.room import Stack, grown, longer, taken
from onlinecal.engine.keys.writing import Told

if TYPE_CHECKING:
    from onlinecal.engine.keys.register import Register
    from onlinecal.engine.keys.state import KeyState


_find, _put, _enter, _close = map(at_once, (find_texts, put_texts, enter_one, close_one))


class Entries:
    """The entries of a book; those that were closed are known until they are forgotten, with their batch."""

    def __init__(self) -> None:
        self.entries = Stack()
        self._closed: list[Ints] = []
        seats, entries = np.zeros((0, COLUMNS), np.int64), np.zeros((0, 6), np.int64)
        self.book = Book(no_texts(), seats, np.empty(0), no_texts(), entries, np.empty(0))

    def _room_for_entries(self, number: int, width: int) -> None:
        """See to it that so many entries are free, for ids of so many words."""
        ids = self.book.ids
        while len(self.entries.free) < number or width > ids.words.shape[1]:
            enough = len(self.entries.free) >= number
            size = self.entries.size if enough else grown(self.entries.size)
            ids = with_room(ids, size, width)
            entries, times = longer(self.book.entries, size), longer(self.book.times, size)
            self.book = self.book._replace(ids=ids, entries=entries, times=times)
            self.entries.grow(size)

    def _take_entries(self, ids: list[str]) -> Ints:
        self._room_for_entries(len(ids), -(-max(map(len, ids), default=1) // WORD))
        entries = np.array(taken(self.entries.free, len(ids)), np.int64)
        _put(self.book.ids, *joined(ids), SEED, entries)
        return entries

    def hold(self, id: str) -> None:
        """Let nobody ask under an id that was asked for in this batch, by a key without seat."""
        entries = self._take_entries([id])
        self.book.entries[entries] = -1, 0, 0, -1, -1, 0
        self._closed.append(entries)

    def find(self, id: Any) -> int:
        """The entry of an id, -1 if none waits."""
        if not self.entries.size or type(id) is not str or not id.isascii() or "\0" in id:
            return -1
        found = np.empty(1, np.int64)
        _find(self.book.ids, *joined([id]), SEED, found)
        entry = int(found[0])
        return entry if entry >= 0 and self.book.entries[entry, OPEN] else -1

    def add(self, seat: int, issued: Issued) -> None:
        """A key's forecast is asked for; its `cell` is its place."""
        entries = self._take_entries([issued.id])
        self.book.entries[entries, PLACE] = issued.cell
        time = np.nan if issued.time is None else issued.time
        _enter(self.book, seat, int(entries[0]), issued.number, time)

    def close(self, id: str) -> None:
        """A forecast waits no longer. Its id is known until `forget`."""
        entry = self.find(id)
        _close(self.book, entry)
        self._closed.append(np.array([entry]))

    def entries_of(self, seats: Ints) -> tuple[Ints, list[int]]:
        """The entries of keys, the oldest first, key after key, and where each one's end."""
        ends = np.cumsum(self.book.seats[seats, WAITING])
        found = np.empty(ends[-1], np.int64)
        waiting_of(self.book, seats, found)
        return found, ends.tolist()

    def open_of(self, seats: Ints, players: Players) -> list[list[Issued]]:
        """The open forecasts of keys in one arena, the oldest first, as objects."""
        entries, ends = self.entries_of(seats)
        numbers, places = self.book.entries[entries][:, [ASKED, PLACE]].T
        told = players.forecasts[places], players.certificates[places]
        times, hints = optional(self.book.times[entries]), optional(players.hints[places])
        columns = times, hints, repeat(0), *(one.tolist() for one in (*told, places))
        found = list(map(Issued, self.ids_of(entries), numbers.tolist(), *columns))
        return [found[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def told(self, seats: Ints) -> Told:
        """The same as columns."""
        entries, ends = self.entries_of(seats)
        words = self.book.ids.words[entries]
        data = words.view(np.uint8)
        starts = np.arange(len(entries)) * data.shape[1]
        spans = np.column_stack([starts, starts + np.count_nonzero(data, axis=1)])
        places = self.book.entries[entries, PLACE]
        return Told(data.ravel(), spans, self.book.times[entries], places, np.array(ends))

    def waiting(self) -> int:
        """How many forecasts are open."""
        return self.entries.size - len(self.entries.free) - sum(map(len, self._closed))

    def ids_of(self, entries: Ints) -> list[str]:
        """The texts of ids."""
        words = self.book.ids.words[entries]
        data, size = words.tobytes(), WORD * words.shape[1]
        return [data[at : at + size].rstrip(b"\0").decode() for at in range(0, len(data), size)]

    def oldest(self, seat: int) -> int | None:
        """The number of a key's oldest query that waits."""
        entry = self.book.seats[seat, FIRST]
        return None if entry < 0 else int(self.book.entries[entry, ASKED])

    def _forget_closed(self) -> None:
        if self._closed:
            entries = np.concatenate(self._closed)
            forget_texts(self.book.ids, entries)
            self.entries.free += entries.tolist()
            self._closed.clear()

    def close_together(self, entries: Ints) -> None:
        """Forget these, too, when the batch is done."""
        self._closed.append(entries)


class Open(Mapping[str, "KeyState"]):
    """The keys of all open forecasts, by id: `own` are those of keys without seat."""

    def __init__(self, register: Register) -> None:
        self.own: dict[str, KeyState] = {}
        self._register = register

    def get(self, id: Any, default: Any = None) -> Any:
        """The key, if the forecast is open."""
        state = self.own.get(id)
        if state is not None:
            return state
        entry = self._register.find(id)
        return default if entry < 0 else self._register.states[self._register.book.entries[entry, SEAT]]

    def __getitem__(self, id: str) -> KeyState:
        state: KeyState | None = self.get(id)
        if state is None:
            raise KeyError(id)
        return state

    def __contains__(self, id: object) -> bool:
        return id in self.own or self._register.find(id) >= 0

    def __iter__(self) -> Iterator[str]:
        yield from self.own
        entries = self._register.book.entries
        used = np.ones(len(entries), np.bool_)
        used[self._register.entries.free] = False
        yield from self._register.ids_of(np.flatnonzero(used & (entries[:, OPEN] > 0)))

    def __len__(self) -> int:
        return len(self.own) + self._register.waiting()
