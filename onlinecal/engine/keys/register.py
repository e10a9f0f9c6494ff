"""Where the open forecasts of usual keys are written down, in arrays: no Python object is made of any.

A key that is met in a batch of many events takes a *seat* here. Its open forecasts are *entries* from then
on, found by their ids; `KeyState.open` makes objects of them when something unusual asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from onlinecal.arrays import Ints
from onlinecal.engine.columns.columns import (
    SEED,
    WORD,
    find_texts,
    forget_texts,
    joined,
    put_texts,
    with_room,
)
from onlinecal.engine.keys.entries import Entries
from onlinecal.engine.keys.judging import (
    ARENA,
    COLUMNS,
    DIRTY,
    EXPECTED,
    GONE,
    NUMBER,
    OPEN,
    PLACE,
    PLAYER,
    STEERED,
    TAKEN,
    WAITING,
    Events,
    Judged,
    enter_one,
    judge,
    look_up,
)  # fmt: skip
from onlinecal.engine.keys.lanes import Issued
from onlinecal.engine.keys.room import Stack, grown, longer, taken

if TYPE_CHECKING:
    from onlinecal.engine.keys.seated import Seated
    from onlinecal.engine.keys.state import KeyState


class Register(Entries):
    """Seats and entries.

    `states` are the keys by seat, None for one that is free; `expected` the names of those that are kept for
    keys whose first events are to be judged; `playing` is how many seats have players.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seats = Stack()
        self.states: list[KeyState | None] = []
        self.playing = 0
        self.expected: dict[int, str] = {}
        self._left: list[int] = []

    def seat(self, states: list[KeyState]) -> None:
        """Give keys seats that live in arenas, are usual and have none; open forecasts become entries."""
        if not states:
            return
        waiting = [one for state in states for one in state.open.values()]
        counts = [state.waiting for state in states]
        seats = self._take_seats([state.name for state in states])
        self.book.clocks[seats] = [np.nan if state.clock is None else state.clock for state in states]
        self.book.seats[seats, STEERED] = [state.steered for state in states]
        self.settle(states, seats, [state.player for state in states])
        entries = self._take_entries([one.id for one in waiting])
        self.book.entries[entries, PLACE] = [one.cell for one in waiting]
        owners = np.repeat(seats, counts).tolist()
        for one, entry, seat in zip(waiting, entries.tolist(), owners, strict=True):
            time = np.nan if one.time is None else one.time
            enter_one(self.book, seat, entry, one.number, time)

    def expect(self, names: list[str], steered: list[bool]) -> None:
        """Keep seats for keys whose first events are to be judged; `steered` as in the book."""
        seats = self._take_seats(names)
        self.book.clocks[seats] = np.nan
        self.book.seats[seats, STEERED] = steered
        self.expected.update(zip(seats.tolist(), names, strict=True))

    def seat_kept_for(self, name: str) -> int:
        """The seat that was kept for a new key, -1 if none was."""
        if not self.expected or not name.isascii():
            return -1
        found = np.empty(1, np.int64)
        find_texts(self.book.names, *joined([name]), SEED, found)
        return int(found[0]) if int(found[0]) in self.expected else -1

    def settle(self, states: list[KeyState], seats: Ints, players: Sequence[int] | Ints) -> None:
        """Let keys, which have no open forecasts to themselves, have seats and players."""
        rows = self.book.seats
        rows[seats, PLAYER], self.playing = players, self.playing + len(players)
        rows[seats, NUMBER] = [state.number for state in states]
        rows[seats, ARENA] = [state.arena.number for state in states]  # type: ignore[union-attr]
        known, expected = self.states, self.expected
        for state, seat in zip(states, seats.tolist(), strict=True):
            state.register, state.seat, known[seat] = self, seat, state
            if expected:
                expected.pop(seat, None)

    def plays(self, seat: int, arena: int, player: int) -> bool:
        """Whether a player of an arena is that of the key in this seat."""
        rows = self.book.seats
        return seat < len(rows) and rows[seat, PLAYER] == player and rows[seat, ARENA] == arena

    def name_of(self, seat: int) -> str:
        """The name of the key there."""
        state = self.states[seat]
        assert state is not None
        return state.name

    def clean(self, states: Iterable[KeyState]) -> None:
        """The ledger will lack nothing of these keys."""
        self.book.seats[[state.seat for state in states if state.seat >= 0], DIRTY] = 0

    def leave(self, state: Seated) -> list[Issued]:
        """Take a key's seat away; its open forecasts, as they were."""
        waiting = list(state.open.values())
        seat = state.seat
        entries, _ = self.entries_of(np.array([seat]))
        self.book.entries[entries, OPEN] = 0
        self._closed.append(entries)
        # of what was judged before in this batch it is known whose it was
        forget_texts(self.book.names, np.array([seat]))
        self.book.seats[seat, [PLAYER, WAITING]] = GONE, 0
        self.playing -= 1
        self._left.append(seat)
        state.seat = -1
        return waiting

    def dismiss(self, seats: Ints) -> Ints:
        """Forget keys, and their open forecasts; the places of these."""
        rows, (entries, _) = self.book.seats, self.entries_of(seats)
        forget_texts(self.book.ids, entries)
        forget_texts(self.book.names, seats)
        self.playing -= len(seats)
        rows[seats, PLAYER], rows[seats, WAITING] = GONE, 0
        for seat in seats.tolist():
            self.states[seat] = None
        self.entries.free += entries.tolist()
        self.seats.free += seats.tolist()
        return self.book.entries[entries, PLACE]

    def _take_seats(self, names: list[str]) -> Ints:
        width = -(-max(map(len, names)) // WORD)
        while len(self.seats.free) < len(names) or width > self.book.names.words.shape[1]:
            size = self.seats.size if len(self.seats.free) >= len(names) else grown(self.seats.size)
            self.book = self.book._replace(
                names=with_room(self.book.names, size, width),
                seats=longer(self.book.seats, size), clocks=longer(self.book.clocks, size),
            )  # fmt: skip
            self.book.seats[self.seats.size :, PLAYER] = GONE
            self.states += [None] * (size - len(self.states))
            self.seats.grow(size)
        seats = np.array(taken(self.seats.free, len(names)))
        self.book.seats[seats] = EXPECTED, 0, -1, -1, *[0] * (COLUMNS - 4)
        put_texts(self.book.names, *joined(names), SEED, seats)
        return seats

    def forget(self) -> None:
        """Let go of what was closed since, of seats that were left, and of those that were kept in vain."""
        self._forget_closed()
        if self.expected:
            seats = list(self.expected)
            forget_texts(self.book.names, np.array(seats))
            self.book.seats[seats, PLAYER] = GONE
            self._left += seats
            self.expected.clear()
        for seat in self._left:
            self.states[seat] = None
        self.seats.free += self._left
        self._left = []

    def look_up(self, events: Events) -> Judged:
        """What is known of the events of a batch beforehand."""
        n = len(events.kinds)
        seats, entries = np.full((2, n), -1)
        judged = Judged(seats, entries, np.zeros(n, np.int64), np.empty((3, n), np.int64))
        self.look_again(events, judged)
        return judged

    def look_again(self, events: Events, judged: Judged) -> None:
        """The same of those that are not known, when there are more seats."""
        look_up(self.book, events, judged, SEED)

    def judge(self, events: Events, judged: Judged, start: int, number: int, asks: int, width: int) -> Ints:
        """Judge events from one on, as the first one after a number; how far it came (the progress).

        There are up to so many queries, with ids of so many words.
        """
        self._room_for_entries(asks, width)
        free = np.array(self.entries.free[: -asks - 1 : -1], np.int64)
        progress = np.array([start, number, 0, 0, 0, 0])
        judge(self.book, events, judged, free, progress, SEED)
        if progress[TAKEN]:
            del self.entries.free[-int(progress[TAKEN]) :]
        return progress
