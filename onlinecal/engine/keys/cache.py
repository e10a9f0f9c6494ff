"""The keys in memory: loaded from the ledger when they are needed, put back when they are cold.

Every change goes through `ask` and `close`, so that this is where it is known which forecasts are open, which
states the ledger does not have yet, and which key was used last.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.engine.config import EngineConfig
from onlinecal.engine.keys.arena import Arena
from onlinecal.engine.keys.lanes import Issued
from onlinecal.engine.keys.own_states import is_own, note_own
from onlinecal.engine.keys.packed_players import Packed, apart
from onlinecal.engine.keys.state import RESERVE, KeyState
from onlinecal.engine.keys.stored_key import Summary
from onlinecal.engine.keys.totals import Totals
from onlinecal.engine.ledger.ledger import Ledger
from onlinecal.engine.ledger.records import Logged, Snapshot, StateRow
from onlinecal.engine.settings import Settings, all_settings
from onlinecal.engine.watch.key_watch import Raised
from onlinecal.engine.watch.reliability import Reliability

PER_KEY, PER_OPEN = 1_000, 900
"""Bytes that a packed key takes beside what is packed, and each of its open forecasts."""


class KeyCache:
    """Key states by name; `open` has the ids of their open forecasts.

    `settings` are the configurations at work, by their place; `given_up` are the ids of the forecasts that
    expired since the keys last took their steps, with the names of their keys; `touched` are the keys that
    something happened to since; `dirty` those that the ledger lacks, with the first event that it does.
    `live` are the keys that can take steps, the one used last at the end; `packed` all others, with how many
    bytes each takes, in the order in which they were packed, and `packed_bytes` their sum.
    `raised` are alarms, with the names of their keys, that nobody has been told of yet; `reliability` is kept
    from `start_watching` on, of the forecasts in `settled`.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self.settings = all_settings(config)
        self._arenas = [one.arena for one in self.settings.values() if one.arena is not None]
        self.states: dict[str, KeyState] = {}
        self.live: dict[KeyState, None] = {}
        self.packed: dict[KeyState, int] = {}
        self.packed_bytes = 0
        self.open: dict[str, KeyState] = {}
        self.dirty: dict[KeyState, int] = {}
        self.touched: dict[KeyState, None] = {}
        self.given_up: dict[str, str] = {}
        self.totals: Totals | None = None
        self.reliability: Reliability | None = None
        self.settled: list[tuple[Issued, Any]] = []
        self.raised: list[tuple[str, Raised]] = []

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
        self.live[state] = None
        return state

    def load(self, snapshots: Iterable[Snapshot]) -> None:
        """Take in the states of cold keys; ValueError for one that is in memory, which is newer."""
        loaded = list[KeyState]()
        for one in snapshots:
            if one.name in self.states:
                raise ValueError(f"key {one.name!r} is in memory and in what was loaded: two keys, one name")
            mark = self.settings[one.config].mark
            state = self._state_of(one, one.state is not None and is_own(one.number, mark, one.state))
            if state.packed is None:
                state.move_in()
            self.states[one.name] = state
            self.live[state] = None
            if state.open:
                self.open.update(dict.fromkeys(state.open, state))
            loaded.append(state)
        self.wake(loaded)
        if self.totals is not None:
            for state in loaded:
                self.totals.loaded(state)

    def wake(self, states: Iterable[KeyState]) -> None:
        """Let keys that are packed take steps again."""
        for arena in self._arenas:
            there = [state for state in states if state.packed is not None and state.arena is arena]
            if not there:
                continue
            players = arena.unpack([state.packed for state in there])  # type: ignore[misc]
            for state, player in zip(there, players, strict=True):
                state.player, state.packed, state.usual = (
                    player,
                    None,
                    state.settings.usual and not state.spent,
                )
                arena.names[player] = state.name
                self.packed_bytes -= self.packed.pop(state, 0)
                self.live[state] = None

    def pack(self, states: list[KeyState]) -> None:
        """Keep keys as bytes that are not used; those that cannot be packed leave the memory."""
        for arena in self._arenas:
            there = [state for state in states if state.arena is arena]
            if not there:
                continue
            players = [state.player for state in there]
            for state, packed in zip(there, arena.packed(players), strict=True):
                state.player, state.packed, state.usual = -1, packed, False
                n = len(state.open)
                if not n:
                    # one that has held something is never small again
                    state.open = {}
                self.packed[state] = size = len(packed) + PER_KEY + PER_OPEN * n
                self.packed_bytes += size
                del self.live[state]
            arena.let_go(players)

    def _state_of(self, one: Snapshot, trusted: bool = False) -> KeyState:
        return KeyState(one.name, one.number, self.settings[one.config], one.state, one.upto, trusted)

    def dumped_anew(self, one: Snapshot) -> bytes:
        """A state as it is written today."""
        return self._state_of(one).dump()

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
        self.live.pop(state, None)
        self.packed_bytes -= self.packed.pop(state, 0)
        self.dirty.pop(state, None)
        for id in state.open:
            del self.open[id]
        if self.totals is not None:
            self.totals.dropped(state)
        if state.arena is not None:
            state.arena.open.free += [issued.cell for issued in state.open.values()]
            if state.packed is None:
                state.arena.let_go([state.player])

    def fetch(self, names: Iterable[str], ledger: Ledger) -> None:
        """Load those of the keys that are cold; keys that the ledger does not know stay unknown."""
        cold = [name for name in names if name not in self.states]
        if cold:
            snapshots = ledger.keys_named(cold)
            with ledger.content_errors():
                self.load(snapshots)

    def ask(self, state: KeyState, id: str, number: int, hint: Any, time: float | None) -> Issued:
        """Issue a forecast of a key that is not full."""
        if state.packed is not None:
            self.wake([state])
        self._give_up(state, state.expire(time))
        issued = state.ask(id, number, hint, time)
        self.open[id] = state
        self._touch(state, number)
        return issued

    def close(self, state: KeyState, issued: Issued, number: int, value: Any, time: float | None) -> None:
        """Settle or withdraw a forecast; ValueError, and nothing changed, if the class is one too many."""
        if state.packed is not None:
            self.wake([state])
        self._give_up(state, state.close(issued, value, time, number))
        del self.open[issued.id]
        if value is not None and self.reliability is not None:
            self.settled.append((issued, value))
        self._touch(state, number)

    def apply(self, state: KeyState, event: Logged) -> Issued:
        """What the log says has happened to a key, once more; checked, since the log may be damaged."""
        kind = state.settings.kind
        if event.closes:
            issued = state.open[event.id]
            value = None if event.value is None else kind.outcome_of(event.value)
            self.close(state, issued, event.number, value, event.time)
            return issued
        return self.ask(state, event.id, event.number, kind.hint_of(event.value), event.time)

    def _give_up(self, state: KeyState, expired: list[Issued]) -> None:
        for issued in expired:
            del self.open[issued.id]
            self.given_up[issued.id] = state.name

    def by_arena(self, states: list[KeyState]) -> list[tuple[Arena, NDArray[np.int64]]]:
        """The arenas in which keys live, and the places of their keys among these."""
        if len(self._arenas) == 1:
            return [(self._arenas[0], np.arange(len(states)))]
        number = {arena: i for i, arena in enumerate(self._arenas)}
        where = np.array([number[state.arena] for state in states])  # type: ignore[index]
        return [(self._arenas[i], np.flatnonzero(where == i)) for i in np.unique(where).tolist()]

    def _touch(self, state: KeyState, number: int) -> None:
        self.touched[state] = None
        self.dirty.setdefault(state, number)

    def run(self) -> None:
        """Let every key that has steps to take take them; it was used last then."""
        longest = max((arena.run() for arena in self._arenas), default=0)
        for arena in self._arenas:
            self.raised += arena.raised
            arena.raised.clear()
        live = self.live
        for state in self.touched:
            # to the end
            del live[state]
            live[state] = None
            if state.arena is None or longest > RESERVE:
                state.run()
                if state.watch is not None and state.watch.raised:
                    self.raised += ((state.name, one) for one in state.watch.raised)
                    state.watch.raised.clear()
        if self.totals is not None:
            self.totals.touched(self.touched)
        if self.reliability is not None:
            self.reliability.add(self.settled)
            self.settled.clear()
        self.touched.clear()
        self.given_up.clear()

    def due(self, upto: int, window: int, most: int, most_packed: int) -> list[StateRow]:
        """The states to write, which hold everything up to `upto`.

        Those that the ledger has lacked for more than `window` events, and those that leave the memory: of
        the coldest beyond `most` those that cannot be packed, and the packed ones that have been so longest,
        beyond so many bytes of them.
        """
        cold = list(islice(self.live, max(0, len(self.live) - most)))
        self.pack(cold)
        gone = [state for state in cold if state.packed is None]
        too_much = self.packed_bytes - most_packed
        for state, size in self.packed.items():
            if too_much <= 0:
                break
            too_much -= size
            gone.append(state)
        due = [state for state in gone if self.dirty.pop(state, None) is not None]
        while self.dirty:
            state, since = next(iter(self.dirty.items()))
            if since > upto - window:
                break
            del self.dirty[state]
            due.append(state)
        rows = self._rows_of(due, upto)
        for state in gone:
            self.drop(state)
        return rows

    def _rows_of(self, states: list[KeyState], upto: int) -> list[StateRow]:
        """What the ledger keeps of states."""
        if not states:
            return []
        held: dict[KeyState, Packed] = {}
        for arena in self._arenas:
            there = [state for state in states if state.arena is arena and state.packed is None]
            packed = arena.packed([state.player for state in there])
            held.update(zip(there, map(apart, packed), strict=True))
        rows = []
        for state in states:
            player = held.get(state) or (state.held() if state.arena is not None else None)
            data = state.dump(player)
            note_own(state.number, state.settings.mark, data)
            rows.append((state.number, upto, state.written(player), data))
        return rows

    def tail(self, upto: int) -> int:
        """The number up to which the ledger's states hold everything, once `due` has been written."""
        return next(iter(self.dirty.values())) - 1 if self.dirty else upto


def row_of(state: KeyState, upto: int) -> StateRow:
    """What the ledger keeps of a state."""
    return state.number, upto, state.written(), state.dump()
