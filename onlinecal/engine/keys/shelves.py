"""Which keys in memory can take steps, and which are packed: those with seats by arrays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from onlinecal.engine.columns.texts import WORD
from onlinecal.engine.config import EngineConfig
from onlinecal.engine.keys.arena import Arena
from onlinecal.engine.keys.entries import Open
from onlinecal.engine.keys.judging import ARENA, PLAYER, SIZE, USED, WAITING
from onlinecal.engine.keys.own_states import note_own
from onlinecal.engine.keys.packing_room import TOGETHER
from onlinecal.engine.keys.register import Register
from onlinecal.engine.keys.state import KeyState
from onlinecal.engine.keys.storing import dump_together
from onlinecal.engine.ledger.records import StateRow
from onlinecal.engine.settings import Settings, all_settings

PER_KEY, PER_OPEN = 2_000, 1_000
"""Bytes that a packed key takes beside what is packed, and each of its open forecasts, as measured."""

Ints = NDArray[np.int64]


class Shelves:
    """Key states by name; `open` has the ids of their open forecasts, `register` those of keys with seats.

    `settings` are the configurations at work, by their place.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self.settings: dict[int, Settings] = all_settings(config)
        self._arenas = [one.arena for one in self.settings.values() if one.arena is not None]
        self.register = Register()
        for number, arena in enumerate(self._arenas):
            arena.number, arena.register = number, self.register
        self.states: dict[str, KeyState] = {}
        self.open = Open(self.register)
        # of keys without seats: those that can take steps, and the others, with the bytes that each takes
        self._live: dict[KeyState, None] = {}
        self._packed: dict[KeyState, int] = {}
        self._bytes = 0

    @property
    def live(self) -> list[KeyState]:
        """The keys that can take steps."""
        return [*self._live, *self._seated(np.flatnonzero(self.register.book.seats[:, PLAYER] >= 0))]

    @property
    def packed(self) -> dict[KeyState, int]:
        """All others, with how many bytes each takes, those that were used last at the end."""
        seats = self._packed_seats()
        sizes = self.register.book.seats[seats, SIZE].tolist()
        return {**self._packed, **dict(zip(self._seated(seats), sizes, strict=True))}

    @property
    def packed_bytes(self) -> int:
        """Their sum."""
        return self._bytes + self.register.packed_bytes

    def _seated(self, seats: Ints) -> list[KeyState]:
        states = self.register.states
        return [states[seat] for seat in seats.tolist()]

    def _packed_seats(self) -> Ints:
        """Those used longest ago first."""
        rows = self.register.book.seats
        seats = np.flatnonzero(rows[:, SIZE])
        return seats[np.argsort(rows[seats, USED], kind="stable")]

    def take_seats(self, states: list[KeyState]) -> None:
        """Give seats to usual keys that can take steps."""
        for state in states:
            del self._live[state]
            for id in state.open:
                del self.open.own[id]
        self.register.seat(states)

    def take_seat(self, state: KeyState, seat: int) -> None:
        """Let a new key have the seat that was kept for it."""
        del self._live[state]
        self.register.settle([state], np.array([seat]), [state.player])

    def wake(self, states: Iterable[KeyState]) -> None:
        """Let keys that are packed take steps again."""
        asleep = [state for state in states if state.is_packed]
        seats = [state.seat for state in asleep if state.seat >= 0]
        if seats:
            self.wake_seats(np.array(seats))
        for arena, there in self._without_seats(asleep):
            players = arena.unpack([state.packed for state in there])  # type: ignore[misc]
            for state, player in zip(there, players, strict=True):
                state.player, state.packed = player, None
                state.usual = state.settings.usual and not state.spent
                arena.names[player] = state.name
                self._bytes -= self._packed.pop(state, 0)
                self._live[state] = None

    def wake_seats(self, seats: Ints) -> None:
        """The same for keys with seats, which are packed."""
        for arena, which in self.arenas_of(seats):
            mine = seats[which]
            players = arena.fetch(*self.register.stored(mine))
            self.register.play(mine, players)
            arena.owners[players] = mine

    def pack(self, states: list[KeyState]) -> None:
        """Keep keys as bytes that are not used; those that cannot be packed leave the memory."""
        seats = [state.seat for state in states if state.seat >= 0]
        if seats:
            self.pack_seats(np.array(seats))
        for arena, there in self._without_seats(states):
            players = [state.player for state in there]
            for state, packed in zip(there, arena.packed(players), strict=True):
                state.player, state.packed, state.usual = -1, packed, False
                n = len(state.open)
                if not n:
                    # one that has held something is never small again
                    state.open = {}
                self._packed[state] = size = len(packed) + PER_KEY + PER_OPEN * n
                self._bytes += size
                del self._live[state]
            arena.let_go(players)

    def pack_seats(self, seats: Ints) -> None:
        """The same for keys with seats."""
        for arena, which in self.arenas_of(seats):
            mine, rows = seats[which], self.register.book.seats
            players = rows[mine, PLAYER]
            stored = arena.store(players)
            sizes = WORD * stored[:, 1] + PER_KEY + PER_OPEN * rows[mine, WAITING]
            self.register.put_aside(mine, stored, sizes)
            arena.let_go(players.tolist())

    def pack_coldest(self, most: int) -> list[KeyState]:
        """Pack the keys that were not used for longest, but for so many; those that cannot be packed."""
        too_many = len(self._live) + self.register.playing - most
        if too_many <= 0:
            return []
        own = list(self._live)
        rows = self.register.book.seats
        seats = np.flatnonzero(rows[:, PLAYER] >= 0)
        used = np.fromiter(map(attrgetter("used"), own), np.int64, len(own))
        cold = np.argsort(np.concatenate([used, rows[seats, USED]]), kind="stable")[:too_many]
        seats = seats[cold[cold >= len(own)] - len(own)]
        if len(seats):
            self.pack_seats(seats)
        states = [own[i] for i in cold[cold < len(own)].tolist()]
        self.pack(states)
        return [state for state in states if not state.is_packed]

    def packed_beyond(self, most: int) -> list[KeyState]:
        """The packed keys that have been so longest, whose going leaves at most so many bytes of others."""
        too_much, gone = self.packed_bytes - most, list[KeyState]()
        if too_much <= 0:
            return gone
        for state, size in self._packed.items():
            if too_much <= 0:
                return gone
            too_much -= size
            gone.append(state)
        if too_much > 0:
            seats = self._packed_seats()
            sums = np.cumsum(self.register.book.seats[seats, SIZE])
            gone += self._seated(seats[: np.searchsorted(sums, too_much) + 1])
        return gone

    def _rows_of(self, states: list[KeyState], upto: int) -> list[StateRow]:
        """What the ledger keeps of states."""
        if not states:
            return []
        rows, apart = list[StateRow](), defaultdict[tuple[Arena | None, bool], list[KeyState]](list)
        for state in states:
            apart[state.arena, state.seat >= 0].append(state)
        for (arena, _), there in apart.items():
            for start in range(0, len(there), TOGETHER):
                some = there[start : start + TOGETHER]
                if arena is None:
                    dumped = [(one.dump(), one.written()) for one in some]
                else:
                    dumped = dump_together(arena, some)
                for state, (data, summary) in zip(some, dumped, strict=True):
                    note_own(state.number, state.settings.mark, data)
                    rows.append((state.number, upto, summary, data))
        return rows

    def begin_steering(self, seats: Ints) -> None:
        """Keys with seats have their first hint."""
        for state in self._seated(seats):
            state.steered = True
        for arena, which in self.arenas_of(seats):
            arena.begin_steering_together(self.register.book.seats[seats[which], PLAYER])

    def _without_seats(self, states: list[KeyState]) -> Iterator[tuple[Arena, list[KeyState]]]:
        """The arenas in which keys without seats live, with these."""
        for arena in self._arenas:
            there = [state for state in states if state.arena is arena and state.seat < 0]
            if there:
                yield arena, there

    def arenas_of(self, seats: Ints) -> list[tuple[Arena, Ints]]:
        """The arenas in which keys with seats live, and the places of their keys among these."""
        if len(self._arenas) == 1:
            return [(self._arenas[0], np.arange(len(seats)))]
        return self._parts(self.register.book.seats[seats, ARENA])

    def _parts(self, where: Ints) -> list[tuple[Arena, Ints]]:
        return [(self._arenas[i], np.flatnonzero(where == i)) for i in np.unique(where).tolist()]
