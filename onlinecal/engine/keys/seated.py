"""A key's clock and its open forecasts: its own, or, of a key with a seat, rows of the register's arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from onlinecal.engine.keys.judging import ASKED, PLACE, PLAYER, SPENT, STEERED, WAITING
from onlinecal.engine.keys.lanes import Issued
from onlinecal.engine.keys.waiting import Waiting

if TYPE_CHECKING:
    from onlinecal.engine.keys.arena import Arena
    from onlinecal.engine.keys.register import Register


class Seated(Waiting):
    """What a key waits for, wherever it is written down; `seat` is -1 without one."""

    __slots__ = (
        "_clock",
        "_open",
        "_player",
        "_spent",
        "_usual",
        "arena",
        "register",
        "seat",
        "steered",
    )

    register: Register
    seat: int
    name: str
    arena: Arena | None
    steered: bool
    _open: dict[str, Issued]
    _clock: float | None
    _player: int
    _spent: bool
    _usual: bool

    @property
    def open(self) -> dict[str, Issued]:
        """The forecasts that wait, by id, the oldest first; with a seat a copy, as of the last run."""
        if self.seat < 0:
            return self._open
        assert self.arena is not None
        [waiting] = self.register.open_of(np.array([self.seat]), self.arena.state)
        return {one.id: one for one in waiting}

    @open.setter
    def open(self, waiting: dict[str, Issued]) -> None:
        self._open = waiting

    @property
    def clock(self) -> float | None:
        """The latest time, None before the first."""
        if self.seat < 0:
            return self._clock
        time = float(self.register.book.clocks[self.seat])
        return time if time == time else None

    @clock.setter
    def clock(self, time: float | None) -> None:
        if self.seat < 0:
            self._clock = time
        elif time is not None:
            self.register.book.clocks[self.seat] = time

    @property
    def player(self) -> int:
        """Its player, of a key that lives in an arena."""
        return self._player if self.seat < 0 else int(self.register.book.seats[self.seat][PLAYER])

    @player.setter
    def player(self, player: int) -> None:
        self._player = player

    @property
    def spent(self) -> bool:
        """Whether its memory bears no more rounds, as of the last run."""
        return self._spent if self.seat < 0 else bool(self.register.book.seats[self.seat][SPENT])

    @spent.setter
    def spent(self, spent: bool) -> None:
        if self.seat < 0:
            self._spent = spent
        else:
            self.register.book.seats[self.seat][SPENT] = spent

    @property
    def usual(self) -> bool:
        """Whether it plays in an arena, and no accounts are kept but those of the arena."""
        return self._usual if self.seat < 0 else not self.spent

    @usual.setter
    def usual(self, usual: bool) -> None:
        self._usual = usual

    @property
    def waiting(self) -> int:
        """How many forecasts wait."""
        return len(self._open) if self.seat < 0 else int(self.register.book.seats[self.seat][WAITING])

    @property
    def oldest(self) -> int | None:
        """The number of the oldest query that waits."""
        if self.seat < 0:
            return next(iter(self._open.values())).number if self._open else None
        return self.register.oldest(self.seat)

    def waits_for(self, id: str) -> Issued:
        """An open forecast; of a key with a seat a copy without what was answered."""
        if self.seat < 0:
            return self._open[id]
        book, entry = self.register.book, self.register.find(id)
        number, place = book.entries[entry, [ASKED, PLACE]].tolist()
        time = float(book.times[entry])
        return Issued(id, number, time if time == time else None, None, 0, cell=place)

    def _wait_for(self, issued: Issued) -> None:
        if self.seat < 0:
            self._open[issued.id] = issued
        else:
            self.register.add(self.seat, issued)

    def _wait_no_longer(self, id: str) -> None:
        if self.seat < 0:
            del self._open[id]
        else:
            self.register.close(id)

    def leave_seat(self) -> None:
        """Keep to itself what it waits for, as of the last run, and who plays."""
        kept = self.clock, self.player, self.spent, self.usual
        self._open = {one.id: one for one in self.register.leave(self)}
        self._clock, self._player, self._spent, self._usual = kept

    def tell_register(self) -> None:
        """Its hints are steered."""
        if self.seat >= 0:
            self.register.book.seats[self.seat][STEERED] = 1
