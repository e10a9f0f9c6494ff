"""The book has the keys in memory and their open forecasts. It loads keys from the ledger when they are
needed.

An open forecast has a number, its *entry*, until it is closed. Every forecast is opened and closed through
the book, so the book knows which ones are open, and which states the ledger does not have yet. The judge
itself writes the numbers of new keys, and has classes made known by `ClassKey.admit`.

Calls come in this order, for each batch: `create`, `ask`, `close` and `accept` note what the judge accepts;
`play` lets the keys take these steps; `answers`, `key_numbers` and `query_numbers` may be asked for then; and
`release` ends the batch. `due` comes after that. `drop` is for keys that have no steps to take. Where the log
is replayed, `replay` stands in place of `ask` and `close`. A book has no lock: the engine's mutex keeps
threads apart, and turns, checks, archives and reports use books of their own, each in one thread.

What always holds between two batches:

- No step is waiting, and every entry is either open or free. `ids[open[id]]` is `id`.
- A key is in `dirty` exactly if its DIRTY is not 0, and `dirty` is in the order of DIRTY.
- The keys in memory are what their events come to, and have no traces of where batches began and ended.

An entry that was closed is not free before `release`, so that within a batch it still says whose it was. The
states of keys outlive the book, and beside them `early`, `reliability` and what is parked, which the engine
writes to the ledger. Entries, rows of arrays and their order are never saved, so they may change freely, but
for the order in which a key's open forecasts were asked for.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterable
from itertools import compress, takewhile
from math import nan
from typing import Any

import msgspec
import numpy as np

from onlinecal.compiling import without_garbage_collection
from onlinecal.engine.columns import QUERY, Columns
from onlinecal.engine.config import EngineConfig
from onlinecal.engine.keys.key import RESERVED_ROUNDS, ClassKey, Key, StoredClassKey
from onlinecal.engine.keys.key_arrays import KeyArrays
from onlinecal.engine.keys.lanes import ClassForecast
from onlinecal.engine.keys.playing import (
    ACCEPTING,
    ASKED,
    DIRTY,
    EXPIRED,
    GIVEN_UP,
    KEY,
    LAST_EVENT,
    NEW,
    NUMBER,
    OWNER,
    PLAIN,
    UNNAMED,
    WAITING,
    EventTable,
    Steps,
    note_closing,
    note_query,
)
from onlinecal.engine.keys.storing import StoredBinaryKey, checked_state
from onlinecal.engine.ledger.file import REPAIR_ADVICE
from onlinecal.engine.ledger.ledger import Ledger
from onlinecal.engine.ledger.schema import Logged, Snapshot, StateRow
from onlinecal.engine.parking import Parking
from onlinecal.engine.settings import KeySettings, all_settings
from onlinecal.engine.watch.key_watch import Summary
from onlinecal.engine.watch.reliability import Reliability
from onlinecal.engine.watch.totals import Totals
from onlinecal.restoring import CHANGED, DAMAGED, require
from onlinecal.version import check_format

FIRST_ENTRIES = 64
"""How many open forecasts there is room for at first. This and the next number cost memory or time only."""
DUMPED_TOGETHER = 256
"""How many states are made in one call, which needs room for the largest that each can be."""


class Book:
    """Keys by name, and open forecasts by id.

    Attributes
    ----------
    settings
        The configurations, prepared, by their place.
    keys, first_lanes
        The keys in memory and their first lanes, by name; that of the empty name is UNNAMED.
    open
        The entries of open forecasts, by id.
    arrays
        What keys and open forecasts consist of; keys of several classes have most of it in `ClassKey`.
    ids
        The ids of open forecasts, by entry.
    dirty
        The keys whose state in the ledger lacks events, in the order of the first event that it lacks.
    totals, reliability
        Sums over all keys, which the engine puts here at the first request; reliability, from
        `start_watching` on. None where nobody asks, as in turns.
    given_up
        The ids of forecasts that have expired since `release`, and the names of their keys.
    early
        How many outcomes had a time before that of their query: clocks differ. Who made the book begins it
        with what the ledger or its archives have counted.
    parking
        The outcomes that came before their queries, and wait for them. The engine and turns put it here.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self.arrays: KeyArrays[Key] = KeyArrays()
        self.settings: dict[int, KeySettings] = all_settings(config)
        self.keys: dict[str, Key] = {}
        self.first_lanes: dict[str, int] = {"": UNNAMED}
        self.open: dict[str, int] = {}
        self.ids: list[str] = []
        self.dirty: dict[Key, None] = {}
        self.totals: Totals | None = None
        self.reliability: Reliability | None = None
        self.early = 0
        self.parking = Parking(config.park)
        self._free: list[int] = []
        self._forget_steps()

    def start_watching(self, reliability: bytes | None, number: int) -> None:
        """Count reliability, from what the ledger has of it; alarms of the replay are not reported again."""
        self.reliability = Reliability(number) if reliability is None else Reliability.load(reliability)
        self.arrays.raised.clear()

    # -- keys

    def settings_for(self, name: str) -> KeySettings:
        """The settings of a new key with this name."""
        return self.settings[self.config._place_for(name)]

    def create(self, name: str, number: int, settings: KeySettings) -> Key:
        """Make a key before its first event; its number is NEW until an event of it is accepted."""
        key = (Key if settings.is_binary else ClassKey)(name, number, settings, self.arrays)
        self.keys[name], self.first_lanes[name] = key, key.first_lane
        return key

    def load(self, snapshots: Iterable[Snapshot]) -> None:
        """Load keys; ValueError for one that is in memory already, or whose state is damaged."""
        loaded = []
        for snapshot in snapshots:
            if snapshot.name in self.keys:
                raise ValueError(
                    f"two keys have the name {snapshot.name!r}: the ledger is damaged. {REPAIR_ADVICE}"
                )
            loaded.append(self._loaded(snapshot))
        if self.totals is not None and loaded:
            self.totals.loaded(loaded)

    def _loaded(self, snapshot: Snapshot) -> Key:
        name, settings = snapshot.name, self.settings[snapshot.config]
        if snapshot.state is None:
            key = self.create(name, snapshot.number, settings)
            key.upto = snapshot.upto
            return key
        data = checked_state(name, snapshot.state)
        # the first byte says that this is an array; its first value, the format, has one byte
        check_format(f"the state of key {name!r}", int.from_bytes(data[1:2]))
        kind = Key if settings.is_binary else ClassKey
        key = kind(name, snapshot.number, settings, self.arrays, snapshot.upto)
        try:
            with without_garbage_collection():
                entries = self._fill_in(key, data)
        except Exception as error:
            self.arrays.let_go([key.first_lane])
            why = str(error).replace(DAMAGED, "").replace(CHANGED, "")
            if isinstance(error, msgspec.MsgspecError):
                why = "its bytes were changed"
            raise ValueError(f"the state of key {name!r} is damaged: {why}. {REPAIR_ADVICE}") from error
        self.keys[name], self.first_lanes[name] = key, key.first_lane
        self.open.update(entries)
        return key

    def _fill_in(self, key: Key, data: memoryview) -> dict[str, int]:
        """Fill in a key from its state; returns the entries of its open forecasts, to be put into `open`."""
        stored = (_classes if isinstance(key, ClassKey) else _binary).decode(data)
        ids = [forecast.id for forecast in stored.open] if isinstance(stored, StoredClassKey) else stored.ids
        require(len(set(ids)) == len(ids), "its open forecasts")
        self._make_free(len(ids))
        entries = [self._free.pop() for _ in ids]
        try:
            numbers, times = key.load(stored, entries)
        except BaseException:
            self._free += entries
            raise
        state, first_lane = self.arrays.state, key.first_lane
        state.clocks[first_lane] = nan if stored.clock is None else stored.clock
        state.fields[first_lane, EXPIRED], state.fields[first_lane, WAITING] = stored.expired, len(ids)
        state.open[entries, OWNER], state.open[entries, NUMBER] = first_lane, numbers
        state.times[entries] = times
        for id, entry, number, time in zip(ids, entries, numbers, times, strict=True):
            self.ids[entry] = id
            key.remember(time if time == time else None, number, entry)
        return dict(zip(ids, entries, strict=True))

    def fetch(self, names: Iterable[str], ledger: Ledger) -> None:
        """Load those of the keys that are not in memory, if the ledger knows them."""
        cold = [name for name in names if name not in self.keys]
        if cold:
            snapshots = ledger.keys_named(cold)
            with ledger.content_errors():
                self.load(snapshots)

    def summary(self, name: str, config: int, written: Summary, ledger: Ledger) -> Summary:
        """What there is to know of a key: as it is in memory, else as it is written.

        What is written lacks the bounds on windows; a key with a window is loaded for them.
        """
        key = self.keys.get(name)
        if key is None and self.config._at(config).window is None:
            return written
        if key is None:
            other = Book(self.config)
            with ledger.content_errors():
                other.fetch([name], ledger)
                key = other.keys[name]
        return key.summary()

    def drop(self, keys: Iterable[Key]) -> None:
        """Remove keys from memory; they must have no steps to take."""
        keys = list(keys)
        if self.totals is not None:
            # a key without an accepted event has no number, and was never there
            self.totals.dropped([key for key in keys if key.number != NEW])
        first_lanes = []
        for key in keys:
            entries = key.entries()
            for entry in entries:
                # in a ledger that was changed by hand, two forecasts may have one id
                if self.open.get(self.ids[entry]) == entry:
                    del self.open[self.ids[entry]]
            self._free += entries
            del self.keys[key.name], self.first_lanes[key.name]
            self.dirty.pop(key, None)
            first_lanes.append(key.first_lane)
        self.arrays.let_go(first_lanes)

    # -- events

    def _make_free(self, number: int) -> None:
        while len(self._free) < number:
            held = len(self.ids)
            size = max(FIRST_ENTRIES, 2 * held)
            self.arrays.make_room_for(size)
            self.ids += [""] * (size - held)
            self._free += range(size - 1, held - 1, -1)

    def owner(self, entry: int) -> Key:
        """The key of an open forecast, or of one that was closed since `release`."""
        return self.arrays.key_of(self.arrays.state.open[entry, OWNER])

    def key_numbers(self, entries: list[int]) -> list[int]:
        """The numbers of the keys of these forecasts."""
        state = self.arrays.state
        numbers: list[int] = state.fields[state.open[entries, OWNER], KEY].tolist()
        return numbers

    def query_numbers(self, entries: list[int]) -> list[int]:
        """The numbers of the queries of these forecasts."""
        numbers: list[int] = self.arrays.state.open[entries, NUMBER].tolist()
        return numbers

    def asked_at(self, entry: int) -> float:
        """When a forecast was asked for; NaN if neither its query nor its key had a time."""
        return float(self.arrays.state.times[entry])

    def waits(self, entry: int, number: int) -> bool:
        """Whether the forecast of the query with this number is open, under this entry."""
        asked = self.arrays.state.open[entry, NUMBER]
        return bool(asked == number) and self.open.get(self.ids[entry]) == entry

    def ask(self, key: Key, id: str, number: int, hint: Any, time: float | None) -> int:
        """Note an accepted query of a key that is not full; returns its entry. `play` makes the forecast."""
        if key.times:
            self._expire(key, time, number)
        self._make_free(1)
        entry, state = self._free.pop(), self.arrays.state
        self.open[id], self.ids[entry] = entry, id
        places, at = (state.fields, state.clocks, state.open, state.times), nan if time is None else time
        if note_query(*places, key.first_lane, entry, number, at):
            self.dirty[key] = None
        asked = key.clock if time is None else time
        key.remember(asked, number, entry)
        if isinstance(key, ClassKey):
            self._asked[entry] = forecast = ClassForecast(id, number, asked, hint, 0)
            key.ask(entry, forecast)
            self._touched[key] = None
        else:
            self._add_step(entry, ASKED, number, nan if hint is None else hint)
        return entry

    def close(self, entry: int, number: int, value: Any, time: float | None) -> None:
        """Note an accepted outcome, or with the value None a withdrawal; `number` is that of the event."""
        key = self.owner(entry)
        if value is not None and time is not None and time < self.asked_at(entry):
            self.early += 1
        del self.open[self.ids[entry]]
        self._closed_entries.append(entry)
        state, at = self.arrays.state, nan if time is None else time
        if note_closing(state.fields, state.clocks, key.first_lane, number, at):
            self.dirty[key] = None
        if isinstance(key, ClassKey):
            forecast = key.close(entry, value, number)
            if value is not None:
                self._settled.append((forecast, value))
            self._touched[key] = None
        else:
            self._add_step(entry, GIVEN_UP if value is None else value, number)
        if key.times:
            self._expire(key, time, number)

    def _add_step(self, entry: int, outcome: float, number: int, hint: float = nan) -> None:
        self._entries.append(entry)
        self._outcomes.append(outcome)
        self._numbers.append(number)
        self._hints.append(hint)

    def _expire(self, key: Key, time: float | None, number: int) -> None:
        """Let a key's clock go on to the time of the event with this number, and close what expires."""
        for entry in key.expire(time, self.waits):
            id = self.ids[entry]
            del self.open[id]
            self.given_up[id] = key.name
            self._closed_entries.append(entry)
            if isinstance(key, ClassKey):
                key.close(entry, None, 0)
                self._touched[key] = None
            else:
                self._add_step(entry, key.settings.expires_as, number)

    def accept(
        self, table: EventTable, columns: Columns, start: int, number: int
    ) -> tuple[int, int, list[Key]]:
        """Accept plain events from `start` on, numbered from `number + 1` on, up to one that is not plain.

        Returns that event, the number of the last one accepted, and the keys that had their first event.
        """
        n_asks = int(np.count_nonzero(table.kinds[start:] == QUERY))
        self._make_free(n_asks)
        free = np.array(self._free[: -n_asks - 1 : -1], np.int64)
        changed, progress = np.empty((2, len(table.kinds)), np.int64), np.array([start, number, 0, 0, 0])
        ACCEPTING.accept(table, self.arrays.state, free, changed, progress)
        end, last, taken, dirtied, begun = progress.tolist()
        if taken:
            del self._free[-taken:]
        entries, asks = table.at[start:end], table.kinds[start:end] == QUERY
        came_before = table.times[start:end] < self.arrays.state.times[entries]
        self.early += int(np.count_nonzero(came_before & ~asks))
        some = columns.ids[start:end]
        opened, ids = entries[asks].tolist(), list(compress(some, asks.tolist()))
        for_each(self.ids.__setitem__, opened, ids)
        self.open.update(zip(ids, opened, strict=True))
        for_each(self.open.__delitem__, compress(some, (~asks).tolist()))
        self._entries.frombytes(entries.tobytes())
        self._numbers.frombytes(table.numbers[start:end].tobytes())
        self._outcomes.frombytes(np.where(asks, ASKED, columns.values[start:end]).tobytes())
        self._hints.frombytes(np.where(asks, columns.hints[start:end], nan).tobytes())
        self._closed_entries += entries[~asks].tolist()
        keys = self.arrays.keys
        self.dirty.update((keys[first_lane], None) for first_lane in changed[0, :dirtied].tolist())
        return end, last, [keys[first_lane] for first_lane in changed[1, :begun].tolist()]

    def replay(self, key: Key, event: Logged) -> int:
        """Repeat an event of the log; returns the entry of its forecast.

        Raises ValueError for an event that cannot have happened, since the log may be damaged.
        """
        kind = key.settings.kind
        if not event.closes:
            return self.ask(key, event.id, event.number, kind.hint_of(event.value), event.time)
        entry = self.open.get(event.id, -1)
        if entry < 0 or self.owner(entry) is not key:
            raise ValueError(
                f"event {event.number} closes forecast {event.id!r} of key {key.name!r}, but that forecast "
                f"is not open: the ledger is damaged. {REPAIR_ADVICE}"
            )
        value = None if event.value is None else kind.outcome_of(event.value)
        if value is not None and isinstance(key, ClassKey):
            key.admit(entry, value)
        self.close(entry, event.number, value, event.time)
        return entry

    def play(self) -> None:
        """Let all keys take the steps that were noted. Raises ValueError if integers bear no more rounds."""
        longest = self._play_binary() if self._entries else 0
        for key in self._touched:
            key.run()
        if self.reliability is not None:
            self.reliability.add(self._settled)
        if self.totals is not None or longest > RESERVED_ROUNDS:
            self._note_touched(longest)

    def _play_binary(self) -> int:
        entries, numbers = np.frombuffer(self._entries, np.int64), np.frombuffer(self._numbers, np.int64)
        outcomes = np.frombuffer(self._outcomes)
        longest = self.arrays.run(Steps(entries, outcomes, np.frombuffer(self._hints), numbers))
        if self.reliability is not None and max(self._outcomes) >= 0.0:
            has_outcome, state = outcomes >= 0.0, self.arrays.state
            settled = entries[has_outcome]
            self.reliability.add_events(state.forecasts[settled], state.hints[settled], outcomes[has_outcome])
        return longest

    def _note_touched(self, longest: int) -> None:
        """Tell `totals` of the keys that had events, and find those whose integers are spent."""
        first_lanes = self.arrays.state.open[np.frombuffer(self._entries, np.int64), OWNER]
        touched = list(map(self.arrays.key_of, np.unique(first_lanes).tolist()))
        for key in touched if longest > RESERVED_ROUNDS else ():
            key.spent = self.arrays.is_spent(key.first_lane, RESERVED_ROUNDS)
            self.arrays.state.fields[key.first_lane, PLAIN] &= not key.spent
        if self.totals is not None:
            self.totals.touched([*touched, *self._touched])

    def answers(self, entries: list[int]) -> tuple[list[Any], list[float]]:
        """Probabilities and certificates of forecasts asked for since `release`, after `play`."""
        state, of_classes = self.arrays.state, self._asked
        probabilities: list[Any] = state.forecasts[entries].tolist()
        certificates: list[float] = state.certificates[entries].tolist()
        for place, entry in enumerate(entries) if of_classes else ():
            if entry in of_classes:
                forecast = of_classes[entry]
                probabilities[place], certificates[place] = forecast.probability, forecast.certificate
        return probabilities, certificates

    def release(self) -> None:
        """Forget the steps that were taken, and the forecasts that were closed; `answers` ends here."""
        self._free += self._closed_entries
        self._forget_steps()

    def _forget_steps(self) -> None:
        self._closed_entries: list[int] = []
        self._asked: dict[int, ClassForecast] = {}
        self._touched: dict[ClassKey, None] = {}
        self._settled: list[tuple[ClassForecast, Any]] = []
        self.given_up: dict[str, str] = {}
        # numpy reads these arrays without a copy
        self._entries, self._numbers = array("q"), array("q")
        self._outcomes, self._hints = array("d"), array("d")

    # -- states

    def due(self, upto: int, window: int, most: int) -> list[StateRow]:
        """The states to write, which hold all events up to `upto`.

        A state is due if the ledger has lacked it for `window` events. If there are more than `most` keys,
        those that were not used for longest are due, too, and leave the memory.
        """
        gone, fields = self._coldest(most), self.arrays.state.fields
        late = takewhile(lambda key: fields[key.first_lane, DIRTY] <= upto - window, self.dirty)
        due = list(dict.fromkeys([*(key for key in gone if fields[key.first_lane, DIRTY]), *late]))
        rows = self.rows_of(due, upto)
        for key in due:
            fields[key.first_lane, DIRTY] = 0
            del self.dirty[key]
        if gone:
            self.drop(gone)
        return rows

    def tail(self, upto: int) -> int:
        """The number up to which the ledger's states hold all events, once `due` has been written."""
        if not self.dirty:
            return upto
        return int(self.arrays.state.fields[next(iter(self.dirty)).first_lane, DIRTY]) - 1

    def _coldest(self, most: int) -> list[Key]:
        """If there are more than `most` keys, those that were not used for longest, and some more."""
        too_many = len(self.keys) - most
        if too_many <= 0:
            return []
        keys = list(self.keys.values())
        used = self.arrays.state.fields[[key.first_lane for key in keys], LAST_EVENT]
        return [keys[i] for i in np.argsort(used, kind="stable")[: too_many + most // 8].tolist()]

    def rows_of(self, keys: list[Key], upto: int) -> list[StateRow]:
        """The rows of the table `states` for these keys."""
        rows: list[StateRow] = []
        binary: dict[KeySettings, list[Key]] = {}
        for key in keys:
            if isinstance(key, ClassKey):
                rows.append((key.number, upto, key.written(), key.dump(self.ids)))
            else:
                binary.setdefault(key.settings, []).append(key)
        for same in binary.values():
            for start in range(0, len(same), DUMPED_TOGETHER):
                some = same[start : start + DUMPED_TOGETHER]
                stored = zip(some, self.arrays.written(some), self.arrays.dump(some, self.ids), strict=True)
                rows += [(key.number, upto, summary, data) for key, summary, data in stored]
        return rows


def for_each(do: Callable[..., object], *values: Iterable[Any]) -> None:
    """Call a function for each value, or for each row of several, without a loop in Python."""
    deque(map(do, *values), maxlen=0)


_binary, _classes = msgspec.msgpack.Decoder(StoredBinaryKey), msgspec.msgpack.Decoder(StoredClassKey)
