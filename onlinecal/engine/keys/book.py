"""The book of keys and of their open forecasts: loaded from the ledger when they are needed, put back when cold.

An open forecast has a number here, its *entry*, until it is closed. Every change goes through `ask`, `close` and
`expire`, so that this is where it is known which forecasts are open and which states the ledger does not have yet.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from contextlib import suppress
from itertools import takewhile
from math import inf, nan
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np

from onlinecal.engine.config import EngineConfig
from onlinecal.engine.keys.binary_key import BinaryKey
from onlinecal.engine.keys.class_key import ClassKey
from onlinecal.engine.keys.key import NEVER, RESERVE, Key
from onlinecal.engine.keys.lanes import Issued
from onlinecal.engine.keys.packing import SUM, garbage_left_alone, sum_of
from onlinecal.engine.keys.players import BinaryPlayers
from onlinecal.engine.keys.playing import ASKS, GONE, Steps
from onlinecal.engine.keys.storing import StoredBinary, parts_of
from onlinecal.engine.keys.stored_key import StoredKey, Summary
from onlinecal.engine.keys.totals import Totals
from onlinecal.engine.ledger.ledger import Ledger
from onlinecal.engine.ledger.schema import Logged, Snapshot, StateRow
from onlinecal.engine.settings import Settings, all_settings
from onlinecal.engine.watch.key_watch import Raised
from onlinecal.engine.watch.reliability import Reliability
from onlinecal.forecasters.binary.soundness import require
from onlinecal.version import check_format

FEW = 64
"""Open forecasts that there is room for at first."""
TOGETHER = 256
"""States that are written in one call: for each there is room for the most that it can take."""


class Book:
    """Keys by name, and open forecasts by id.

    Attributes
    ----------
    settings
        The configurations at work, by their place.
    keys
        Those in memory.
    open
        The entries of open forecasts, by id.
    ids, owners, numbers, times
        Of entries: the forecast's id, its key, the number of its query, and when it was asked for, None if neither
        the query nor the key had a time.
    dirty
        The keys that the ledger lacks something of, in the order of the first event that it lacks.
    totals, reliability
        Kept from the first question on, and from `start_watching` on.
    raised
        Alarms, with the names of their keys, that nobody has been told of yet.
    given_up
        The ids of forecasts that expired since `release`, with the names of their keys.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self.players = BinaryPlayers()
        self.settings: dict[int, Settings] = all_settings(config, self.players)
        self.keys: dict[str, Key] = {}
        self.open: dict[str, int] = {}
        self.ids: list[str] = []
        self.owners: list[Any] = []
        self.numbers: list[int] = []
        self.times: list[float | None] = []
        self.dirty: dict[Key, None] = {}
        self.totals: Totals | None = None
        self.reliability: Reliability | None = None
        self.raised: list[tuple[str, Raised]] = []
        self._free: list[int] = []
        self._issued: dict[int, Issued] = {}
        self._newcomers: dict[Settings, list[BinaryKey]] = {}
        self._forget_steps()

    def start_watching(self, reliability: bytes | None, number: int) -> None:
        """Go on from what the ledger knows of reliability, if anything; what was replayed is no news."""
        self.reliability = Reliability(number)
        if reliability is not None:
            # nothing depends on what is damaged here: it begins anew
            with suppress(ValueError, TypeError):
                self.reliability = Reliability.load(reliability)
        self.raised.clear()

    # -- keys

    def settings_for(self, name: str) -> tuple[int, Settings]:
        """What a key gets that was never met before, and its place in the configuration."""
        place = self.config.place_for(name)
        return place, self.settings[place]

    def create(self, name: str, number: int, settings: Settings) -> Key:
        """A key before its first event."""
        key: Key
        if settings.is_binary:
            key = BinaryKey(name, number, settings)
            self._newcomers.setdefault(settings, []).append(key)
        else:
            key = ClassKey(name, number, settings)
        self.keys[name] = key
        return key

    def load(self, snapshots: Iterable[Snapshot]) -> None:
        """Take in cold keys; ValueError for one that is in memory, which is newer, or whose state is damaged."""
        loaded = []
        for one in snapshots:
            if one.name in self.keys:
                raise ValueError(f"key {one.name!r} is in memory and in what was loaded: two keys, one name")
            loaded.append(self._loaded(one))
        self._begin_all()
        if self.totals is not None:
            for key in loaded:
                self.totals.loaded(key)

    def _loaded(self, snapshot: Snapshot) -> Key:
        name, data, settings = snapshot.name, snapshot.state, self.settings[snapshot.config]
        if data is None:
            key = self.create(name, snapshot.number, settings)
            key.upto = snapshot.upto
            return key
        if data[:SUM] != sum_of(memoryview(data)[SUM:]):
            raise ValueError(f"the state of key {name!r} is damaged: repair the ledger, it is made anew")
        # the array's first value, which is below 128, is one byte
        check_format(f"the state of key {name!r}", int.from_bytes(data[SUM + 1 : SUM + 2]))
        kind = BinaryKey if settings.is_binary else ClassKey
        key = kind(name, snapshot.number, settings, snapshot.upto)
        try:
            with garbage_left_alone():
                entries = self._take(key, memoryview(data)[SUM:])
        except Exception as error:
            raise ValueError(f"the state of key {name!r} makes no sense: {error}") from error
        self.keys[name] = key
        for id, entry in entries.items():
            self.open[id] = entry
        return key

    def _take(self, key: Key, data: memoryview) -> dict[str, int]:
        """Fill in a key's state; the entries of its open forecasts, which are not entered yet."""
        stored: StoredBinary | StoredKey
        if isinstance(key, BinaryKey):
            stored = _binary.decode(data)
            parts = parts_of(stored, key.settings.threshold < inf)
            ids, numbers, times = stored.ids, parts.open.numbers.tolist(), parts.open.times.tolist()
        else:
            stored = _classes.decode(data)
            ids, numbers = [one.id for one in stored.open], [one.number for one in stored.open]
            times = [nan if one.time is None else one.time for one in stored.open]
        require(len(set(ids)) == len(ids), "its open forecasts")
        key.clock, key.expired, key.waiting = stored.clock, stored.expired, len(ids)
        entries = [self._take_entry() for _ in ids]
        try:
            if isinstance(key, BinaryKey):
                self.players.load(key, parts, entries)
            else:
                assert isinstance(key, ClassKey) and isinstance(stored, StoredKey)
                key.load(stored, entries)
                self._issued.update(key.open)
        except BaseException:
            self._free += entries
            raise
        for id, entry, number, time in zip(ids, entries, numbers, times, strict=True):
            self.ids[entry], self.owners[entry], self.numbers[entry] = id, key, number
            self.times[entry] = time if time == time else None
            key.remember(self.times[entry], number, entry)
        return dict(zip(ids, entries, strict=True))

    def fetch(self, names: Iterable[str], ledger: Ledger) -> None:
        """Load those of the keys that are cold; keys that the ledger does not know stay unknown."""
        cold = [name for name in names if name not in self.keys]
        if cold:
            snapshots = ledger.keys_named(cold)
            with ledger.content_errors():
                self.load(snapshots)

    def summary_of(self, snapshot: Snapshot) -> Summary:
        """What there is to know of a cold key, out of its state."""
        other = Book(self.config)
        other.load([snapshot])
        return other.keys[snapshot.name].summary()

    def cold_summary(self, name: str, config: int, written: Summary, ledger: Ledger) -> Summary:
        """What is written of a cold key; with the bounds on its window, if it keeps one, out of its state."""
        if self.config.at(config).window is None:
            return written
        with ledger.content_errors():
            [summary] = [self.summary_of(one) for one in ledger.keys_named([name])]
        return summary

    def drop(self, keys: Iterable[Key]) -> None:
        """Forget keys that have no steps to take."""
        players = []
        for key in keys:
            entries = key.entries()
            for entry in entries:
                del self.open[self.ids[entry]]
                self.owners[entry] = None
                self._issued.pop(entry, None)
            self._free += entries
            del self.keys[key.name]
            self.dirty.pop(key, None)
            if self.totals is not None:
                self.totals.dropped(key)
            if isinstance(key, BinaryKey):
                players.append(key.player)
        self.players.let_go(players)

    # -- events

    def _take_entry(self) -> int:
        """A number for a forecast that will be open."""
        if not self._free:
            held = len(self.ids)
            size = max(FEW, 2 * held)
            self.players.make_room_for(size)
            self.ids += [""] * (size - held)
            self.owners += [None] * (size - held)
            self.numbers += [0] * (size - held)
            self.times += [None] * (size - held)
            self._free += range(size - 1, held - 1, -1)
        return self._free.pop()

    def waits(self, entry: int, number: int) -> bool:
        """Whether the forecast of the query with this number is open, under this entry."""
        return self.numbers[entry] == number and self.open.get(self.ids[entry]) == entry

    def ask(self, key: Key, id: str, number: int, hint: Any, time: float | None) -> int:
        """A forecast is asked for, of a key that is not full; its entry. Its answer is there after `play`."""
        if key.times:
            self._expire(key, time)
        free = self._free
        entry = free.pop() if free else self._take_entry()
        self.open[id], self.ids[entry], self.owners[entry], self.numbers[entry] = entry, id, key, number
        key.waiting += 1
        self._note(key, number, time)
        asked = key.clock if time is None else time
        self.times[entry] = asked
        if key.settings.patience < NEVER:
            key.remember(asked, number, entry)
        if type(key) is ClassKey:
            self._issued[entry] = issued = Issued(id, number, asked, hint, 0)
            key.ask(entry, issued)
            self._touched[key] = None
        else:
            self._step(entry, ASKS, number)
            self._hints.append(nan if hint is None else hint)
        return entry

    def close(self, entry: int, number: int, value: Any, time: float | None) -> None:
        """A forecast has its outcome, which its key admits, or will have none if that is None.

        `number` is that of the event.
        """
        key = self.owners[entry]
        del self.open[self.ids[entry]]
        self._left.append(entry)
        key.waiting -= 1
        self._note(key, number, time)
        if type(key) is ClassKey:
            issued = key.close(entry, value, number)
            if value is not None:
                self._settled.append((issued, value))
            self._touched[key] = None
        else:
            self._step(entry, GONE if value is None else value, number)
        if key.times:
            self._expire(key, time)

    def _note(self, key: Key, number: int, time: float | None) -> None:
        """Something happens to a key."""
        key.used = number
        if not key.dirty:
            key.dirty, self.dirty[key] = number, None
        if time is not None and (key.clock is None or time > key.clock):
            key.clock = time

    def _step(self, entry: int, outcome: float, number: int) -> None:
        self._entries.append(entry)
        self._outcomes.append(outcome)
        self._numbers.append(number)

    def _expire(self, key: Key, time: float | None) -> None:
        """Let a key's clock go on; forecasts whose time is over by then are given up."""
        for entry in key.expire(time, self.waits):
            id = self.ids[entry]
            del self.open[id]
            self.given_up[id] = key.name
            self._left.append(entry)
            if isinstance(key, ClassKey):
                key.close(entry, None, 0)
                self._touched[key] = None
            else:
                self._step(entry, GONE, 0)

    def replay(self, key: Key, event: Logged) -> int:
        """What the log says has happened to a key, once more; the entry of a query, or of what was closed.

        Raises ValueError for what cannot have happened, since the log may be damaged.
        """
        kind = key.settings.kind
        if not event.closes:
            return self.ask(key, event.id, event.number, kind.hint_of(event.value), event.time)
        entry = self.open.get(event.id, -1)
        if entry < 0 or self.owners[entry] is not key:
            raise ValueError(f"forecast {event.id!r} of key {key.name!r} is closed, but it is not open")
        value = None if event.value is None else kind.outcome_of(event.value)
        if value is not None and isinstance(key, ClassKey):
            key.admit(entry, value)
        self.close(entry, event.number, value, event.time)
        return entry

    def play(self) -> None:
        """Let all keys take the steps that were noted. Raises ValueError if integers bear no more."""
        self._begin_all()
        longest = self._play_binary() if self._entries else 0
        for key in self._touched:
            key.run()
            if key.watch.raised:
                self.raised += ((key.name, one) for one in key.watch.raised)
                key.watch.raised.clear()
        if self.reliability is not None:
            self.reliability.add(self._settled)
        if self.totals is not None or longest > RESERVE:
            self._look_at(longest)

    def _play_binary(self) -> int:
        entries, numbers = np.frombuffer(self._entries, np.int64), np.frombuffer(self._numbers, np.int64)
        outcomes, hints = np.frombuffer(self._outcomes), np.empty(len(self._entries))
        asks, owners, times = outcomes == ASKS, self.owners, self.times
        hints[asks] = self._hints
        asked = entries[asks].tolist()
        asking = np.array([owners[entry].player for entry in asked], np.int64)
        when = np.array([times[entry] for entry in asked], np.float64)
        longest = self.players.run(Steps(entries, outcomes, hints, numbers), asking, when)
        if self.reliability is not None:
            told, state = outcomes >= 0.0, self.players.state
            settled = entries[told]
            if len(settled):
                self.reliability.add_events(state.forecasts[settled], state.hints[settled], outcomes[told])
        self.raised += self.players.raised
        self.players.raised.clear()
        return longest

    def _look_at(self, longest: int) -> None:
        """Take note of the keys that something happened to."""
        touched = dict.fromkeys(self.owners[entry] for entry in self._entries)
        if longest > RESERVE:
            for key in touched:
                key.spent = self.players.is_spent(key.player, RESERVE)
        if self.totals is not None:
            self.totals.touched([*touched, *self._touched])

    def answers(self, entries: list[int]) -> tuple[list[Any], list[float]]:
        """Probabilities and certificates of forecasts, after `play` and before `release`."""
        state, issued = self.players.state, self._issued
        probabilities: list[Any] = state.forecasts[entries].tolist()
        certificates: list[float] = state.certificates[entries].tolist()
        for place, entry in enumerate(entries) if issued else ():
            if entry in issued:
                probabilities[place], certificates[place] = issued[entry].probability, issued[entry].certificate
        return probabilities, certificates

    def release(self) -> None:
        """Forget the steps that were taken, and what was closed: nobody will ask what was answered there."""
        for entry in self._left:
            self.owners[entry] = None
            self._issued.pop(entry, None)
        self._free += self._left
        self._forget_steps()

    def _forget_steps(self) -> None:
        self._left: list[int] = []
        self._touched: dict[ClassKey, None] = {}
        self._settled: list[tuple[Issued, Any]] = []
        self.given_up: dict[str, str] = {}
        # arrays that numpy reads as they are
        self._entries, self._numbers = array("q"), array("q")
        self._outcomes, self._hints = array("d"), array("d")

    def _begin_all(self) -> None:
        """Give new keys their players."""
        for keys in self._newcomers.values():
            self.players.begin(keys)
        self._newcomers.clear()

    # -- states

    def due(self, upto: int, window: int, most: int) -> list[StateRow]:
        """The states to write, which hold everything up to `upto`.

        Those that the ledger has lacked for more than `window` events, and those of the coldest keys beyond
        `most`, which leave the memory.
        """
        gone = self._coldest(most)
        due = [key for key in gone if key.dirty]
        late = takewhile(lambda key: key.dirty <= upto - window, self.dirty)
        going = set(gone)
        due += [key for key in late if key not in going]
        rows = self.rows_of(due, upto)
        for key in due:
            key.dirty = 0
            del self.dirty[key]
        if gone:
            self.drop(gone)
        return rows

    def tail(self, upto: int) -> int:
        """The number up to which the ledger's states hold everything, once `due` has been written."""
        return next(iter(self.dirty)).dirty - 1 if self.dirty else upto

    def _coldest(self, most: int) -> list[Key]:
        """Keys that were not used for longest, where there are too many: an eighth more than these."""
        too_many = len(self.keys) - most
        if too_many <= 0:
            return []
        by_use = sorted(self.keys.values(), key=attrgetter("used"))
        return by_use[: too_many + most // 8]

    def rows_of(self, keys: list[Key], upto: int) -> list[StateRow]:
        """What the ledger keeps of keys."""
        rows: list[StateRow] = []
        binary: dict[Settings, list[BinaryKey]] = {}
        for key in keys:
            if isinstance(key, BinaryKey):
                binary.setdefault(key.settings, []).append(key)
            else:
                rows.append((key.number, upto, key.written(), key.dump(self.ids)))
        for same in binary.values():
            for start in range(0, len(same), TOGETHER):
                some = same[start : start + TOGETHER]
                for key, data in zip(some, self.players.dump(some, self.ids), strict=True):
                    rows.append((key.number, upto, key.written(), data))
        return rows


_binary, _classes = msgspec.msgpack.Decoder(StoredBinary), msgspec.msgpack.Decoder(StoredKey)
