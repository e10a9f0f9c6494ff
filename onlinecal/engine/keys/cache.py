"""The keys in memory: loaded from the ledger when they are needed, put back when they are cold.

Every change goes through `ask` and `close`, so that this is where it is known which forecasts are open, which
states the ledger does not have yet, and which key was used last.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import groupby, takewhile
from operator import attrgetter
from typing import Any

import numpy as np

from onlinecal.arrays import Ints
from onlinecal.engine.config import EngineConfig
from onlinecal.engine.keys.arena import Arena
from onlinecal.engine.keys.entries import Open
from onlinecal.engine.keys.judging import ARENA, DIRTY, PLAYER, USED
from onlinecal.engine.keys.lanes import Issued
from onlinecal.engine.keys.register import Register
from onlinecal.engine.keys.settled import Rounds, Settled
from onlinecal.engine.keys.state import KeyState
from onlinecal.engine.keys.stored_key import Summary
from onlinecal.engine.keys.storing import RESERVE, dump_together
from onlinecal.engine.keys.totals import Totals
from onlinecal.engine.ledger.ledger import Ledger
from onlinecal.engine.ledger.schema import Logged, Snapshot, StateRow
from onlinecal.engine.settings import Settings, all_settings
from onlinecal.engine.watch.key_watch import Raised
from onlinecal.engine.watch.reliability import Reliability

TOGETHER = 256
"""States that are written in one call: for each there is room for the most that it can take."""


class KeyCache:
    """Key states by name, from the ledger and back to it.

    `settings` are the configurations at work, by their place; `open` has the ids of open forecasts,
    `register` those of keys with seats.
    `given_up` are the ids of the forecasts that expired since the keys last took their steps, with the names
    of their keys; `touched` are the keys that something happened to since; `dirty` those that the ledger
    lacks, with the first event that it does.
    `raised` are alarms, with the names of their keys, that nobody has been told of yet; `reliability` is kept
    from `start_watching` on, of the forecasts in `settled`, with their outcomes, or many together.
    While there are `few` events at a time keys go without seats: one event costs less so.
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
        self.dirty: dict[KeyState, int] = {}
        self.touched: dict[KeyState, None] = {}
        self.given_up: dict[str, str] = {}
        self.totals: Totals | None = None
        self.reliability: Reliability | None = None
        self.settled = Settled()
        self.raised: list[tuple[str, Raised]] = []
        self._longest = 0
        self.few = False

    def start_watching(self, reliability: bytes | None, number: int) -> None:
        """Go on from what the ledger knows of reliability, if anything; what was replayed is no news."""
        self.reliability = Reliability(number)
        if reliability is not None:
            # nothing depends on what is damaged here: it begins anew
            with suppress(ValueError, TypeError):
                self.reliability = Reliability.load(reliability)
        self.raised.clear()

    def settings_for(self, name: str) -> tuple[int, Settings]:
        """What a key gets that was never met before, and its place in the configuration."""
        place = self.config.place_for(name)
        return place, self.settings[place]

    def create(self, name: str, number: int, settings: Settings) -> KeyState:
        """A key's state before its first event."""
        self.states[name] = state = KeyState.newcomer(name, number, settings)
        state.move_in()
        return state

    def take_seats(self, states: list[KeyState]) -> None:
        """Give seats to usual keys."""
        for state in states:
            for id in state.open:
                del self.open.own[id]
        self.register.seat(states)

    def take_seat(self, state: KeyState, seat: int) -> None:
        """Let a new key have the seat that was kept for it."""
        self.register.settle([state], np.array([seat]), [state.player])

    def create_seated(self, names: list[str], places: list[int], seats: Ints, number: int) -> None:
        """New keys, with numbers from one on and places in the configuration, in the seats kept for them."""
        start = 0
        for place, same in groupby(places):
            end = start + len(list(same))
            settings, these, mine = self.settings[place], names[start:end], seats[start:end]
            assert settings.arena is not None
            players = settings.arena.new_players(len(these))
            states = KeyState.newcomers(these, number + start, settings)
            self.register.settle(states, mine, players)
            settings.arena.owners[players] = mine
            self.states.update(zip(these, states, strict=True))
            start = end

    def load(self, snapshots: Iterable[Snapshot]) -> None:
        """Take in the states of cold keys; ValueError for one that is in memory, which is newer."""
        loaded = list[KeyState]()
        for one in snapshots:
            if one.name in self.states:
                raise ValueError(f"key {one.name!r} is in memory and in what was loaded: two keys, one name")
            state = self._state_of(one)
            state.move_in()
            self.states[one.name] = state
            if state.open:
                self.open.own.update(dict.fromkeys(state.open, state))
            loaded.append(state)
        if self.totals is not None:
            for state in loaded:
                self.totals.loaded(state)

    def _state_of(self, one: Snapshot) -> KeyState:
        return KeyState(one.name, one.number, self.settings[one.config], one.state, one.upto)

    def cold_summary(self, name: str, config: int, written: Summary, ledger: Ledger) -> Summary:
        """What is written of a cold key; with the bounds on its window, if it keeps one, out of its state."""
        if self.config.at(config).window is None:
            return written
        with ledger.content_errors():
            [summary] = [self._state_of(one).summary() for one in ledger.keys_named([name])]
        return summary

    def drop(self, state: KeyState) -> None:
        """Forget a key that has no steps to take."""
        del self.states[state.name]
        self.dirty.pop(state, None)
        if self.totals is not None:
            self.totals.dropped(state)
        self.unseat(state)
        for id in state.open:
            self.open.own.pop(id, None)
        if state.arena is not None:
            state.arena.open.free += [issued.cell for issued in state.open.values()]
            state.arena.let_go(np.array([state.player]))

    def unseat(self, state: KeyState) -> None:
        """Take away the seat, if any, of a key that has no steps to take."""
        if state.seat >= 0:
            state.leave_seat()
            # it may be back before anything runs
            self.register.forget()

    def _drop_all(self, states: list[KeyState]) -> None:
        """Forget keys of which the ledger lacks nothing."""
        seats = np.array([state.seat for state in states if state.seat >= 0], np.int64)
        for state in states:
            if state.seat < 0:
                self.drop(state)
                continue
            del self.states[state.name]
            if self.totals is not None:
                self.totals.dropped(state)
            state.seat, state.open = -1, {}
        for arena, which in self.arenas_of(seats) if len(seats) else ():
            mine = seats[which]
            arena.let_go(self.register.book.seats[mine, PLAYER])
            arena.open.free += self.register.dismiss(mine).tolist()

    def fetch(self, names: Iterable[str], ledger: Ledger) -> None:
        """Load those of the keys that are cold; keys that the ledger does not know stay unknown."""
        cold = [name for name in names if name not in self.states]
        if cold:
            snapshots = ledger.keys_named(cold)
            with ledger.content_errors():
                self.load(snapshots)

    def ask(self, state: KeyState, id: str, number: int, hint: Any, time: float | None) -> Issued:
        """Issue a forecast of a key that is not full."""
        self._give_up(state, state.expire(time))
        if state.seat >= 0 and (self.few or not id.isascii()):
            self._out_of_seat(state)
        issued = state.ask(id, number, hint, time)
        if state.seat < 0:
            self.open.own[id] = state
        self._touch(state, number)
        return issued

    def close(self, state: KeyState, issued: Issued, number: int, value: Any, time: float | None) -> None:
        """Settle or withdraw a forecast; ValueError, and nothing changed, if the class is one too many."""
        if state.seat >= 0 and (self.few or type(value) is float):
            issued = self._out_of_seat(state)[issued.id]
        seated = state.seat >= 0
        self._give_up(state, state.close(issued, value, time, number))
        if not seated:
            del self.open.own[issued.id]
        if value is not None and self.reliability is not None:
            if seated:
                assert state.arena is not None
                places, values = np.array([issued.cell]), np.array([value], np.float64)
                self.settled.add_rounds(Rounds([(state.arena, np.array([0]))], places, values))
            else:
                self.settled.add(issued, value)
        self._touch(state, number)

    def _out_of_seat(self, state: KeyState) -> dict[str, Issued]:
        """Take a key's seat away; its open forecasts."""
        assert state.arena is not None
        state.arena.run()
        state.leave_seat()
        state.arena.names[state.player] = state.name
        self.open.own.update(dict.fromkeys(state.open, state))
        return state.open

    def apply(self, state: KeyState, event: Logged) -> Issued:
        """What the log says has happened to a key, once more; checked, since the log may be damaged."""
        kind = state.settings.kind
        if event.closes:
            issued = state.waits_for(event.id)
            value = None if event.value is None else kind.outcome_of(event.value)
            self.close(state, issued, event.number, value, event.time)
            return issued
        return self.ask(state, event.id, event.number, kind.hint_of(event.value), event.time)

    def _give_up(self, state: KeyState, expired: list[Issued]) -> None:
        for issued in expired:
            del self.open.own[issued.id]
            self.given_up[issued.id] = state.name

    def touch_seats(self, seats: Ints) -> None:
        """Something has happened to keys with seats."""
        if self.totals is not None or self._longest > RESERVE:
            states = [self.register.states[seat] for seat in np.unique(seats).tolist()]
            self.touched.update(dict.fromkeys(states))

    def _touch(self, state: KeyState, number: int) -> None:
        self.touched[state] = None
        self.dirty.setdefault(state, number)
        if state.seat < 0:
            state.used = number
        else:
            row = self.register.book.seats[state.seat]
            row[USED] = number
            row[DIRTY] = row[DIRTY] or number

    def run(self, collect: Callable[[], None] | None = None) -> None:
        """Let every key that has steps to take take them; `collect` keeps what came of seats' steps."""
        self._longest = max((arena.run() for arena in self._arenas), default=0)
        if collect is not None:
            collect()
        for arena in self._arenas:
            self.raised += arena.raised
            arena.raised.clear()
        for state in self.touched:
            if state.arena is None or self._longest > RESERVE:
                state.run()
                if state.watch is not None and state.watch.raised:
                    self.raised += ((state.name, one) for one in state.watch.raised)
                    state.watch.raised.clear()
        if self.totals is not None:
            self.totals.touched(self.touched)
        self.settled.count(self.reliability)
        self.register.forget()
        for arena in self._arenas:
            arena.free_places()
        self.touched.clear()
        self.given_up.clear()

    def due(self, upto: int, window: int, most: int) -> list[StateRow]:
        """The states to write, which hold everything up to `upto`.

        Those that the ledger has lacked for more than `window` events, and those of the coldest keys beyond
        `most`, which leave the memory.
        """
        gone = self._coldest(most)
        due = [state for state in gone if self.dirty.pop(state, None) is not None]
        if self.dirty and next(iter(self.dirty.values())) <= upto - window:
            # looked through once: to find its beginning a dictionary passes all entries that it has lost
            late = takewhile(lambda item: item[1] <= upto - window, self.dirty.items())
            behind = [state for state, _ in late]
            for state in behind:
                del self.dirty[state]
            due += behind
        if due:
            self.register.clean(due)
        rows = self._rows_of(due, upto)
        if gone:
            self._drop_all(gone)
        return rows

    def tail(self, upto: int) -> int:
        """The number up to which the ledger's states hold everything, once `due` has been written."""
        return next(iter(self.dirty.values())) - 1 if self.dirty else upto

    def _coldest(self, most: int) -> list[KeyState]:
        """The keys that were not used for longest, but for so many."""
        too_many = len(self.states) - most
        if too_many <= 0:
            return []
        rows, known = self.register.book.seats, self.register.states
        own: list[KeyState] = []
        if self.register.playing < len(self.states):
            own = [state for state in self.states.values() if state.seat < 0]
        seats = np.flatnonzero(rows[:, PLAYER] >= 0)
        used = np.fromiter(map(attrgetter("used"), own), np.int64, len(own))
        cold = np.argsort(np.concatenate([used, rows[seats, USED]]), kind="stable")[:too_many].tolist()
        return [own[i] if i < len(own) else known[seats[i - len(own)]] for i in cold]

    def _rows_of(self, states: list[KeyState], upto: int) -> list[StateRow]:
        """What the ledger keeps of states."""
        rows, apart = list[StateRow](), defaultdict[tuple[Arena | None, bool], list[KeyState]](list)
        for state in states:
            apart[state.arena, state.seat >= 0].append(state)
        for (arena, _), there in apart.items():
            if arena is None:
                rows += [row_of(state, upto) for state in there]
                continue
            for start in range(0, len(there), TOGETHER):
                some = there[start : start + TOGETHER]
                for state, (data, summary) in zip(some, dump_together(arena, some), strict=True):
                    rows.append((state.number, upto, summary, data))
        return rows

    def begin_steering(self, seats: Ints) -> None:
        """Keys with seats have their first hint."""
        for seat in seats.tolist():
            self.register.states[seat].steered = True
        for arena, which in self.arenas_of(seats):
            arena.begin_steering_together(self.register.book.seats[seats[which], PLAYER])

    def arenas_of(self, seats: Ints) -> list[tuple[Arena, Ints]]:
        """The arenas in which keys with seats live, and the places of their keys among these."""
        if len(self._arenas) == 1:
            return [(self._arenas[0], np.arange(len(seats)))]
        where = self.register.book.seats[seats, ARENA]
        return [(self._arenas[i], np.flatnonzero(where == i)) for i in np.unique(where).tolist()]


def row_of(state: KeyState, upto: int) -> StateRow:
    """What the ledger keeps of a state."""
    return state.number, upto, state.written(), state.dump()
