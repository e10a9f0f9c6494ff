"""The book of keys and of their open forecasts: loaded from the ledger when they are needed, put back when
cold.

An open forecast has a number here, its *entry*, until it is closed. Every change goes through `ask`, `close`
and `expire`, so that this is where it is known which forecasts are open and which states the ledger does not
have yet.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import compress, takewhile
from math import inf, nan
from typing import Any

import msgspec
import numpy as np

from onlinecal.compiling import at_once
from onlinecal.engine.columns.columns import Columns
from onlinecal.engine.columns.scanning import QUERY
from onlinecal.engine.config import EngineConfig
from onlinecal.engine.keys.accepting import UNNAMED, Table, accept
from onlinecal.engine.keys.binary_key import BinaryKey
from onlinecal.engine.keys.class_key import ClassKey, StoredKey
from onlinecal.engine.keys.key import RESERVE, Key, Summary
from onlinecal.engine.keys.lanes import Issued
from onlinecal.engine.keys.players import KeyArrays
from onlinecal.engine.keys.playing import (
    ASKS,
    DIRTY,
    EXPIRED,
    GONE,
    KEY,
    NUMBER,
    OWNER,
    PLAIN,
    USED,
    WAITING,
    Steps,
)
from onlinecal.engine.keys.storing import SUM, StoredBinary, garbage_left_alone, parts_of, sum_of
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
    keys, players
        Those in memory, and their players; UNNAMED is that of no name.
    open
        The entries of open forecasts, by id.
    arrays
        What keys and open forecasts consist of, but for the keys of several classes.
    ids
        Those of open forecasts, by entry.
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
        self.arrays = KeyArrays()
        self.settings: dict[int, Settings] = all_settings(config, self.arrays)
        self.keys: dict[str, Key] = {}
        self.players: dict[str, int] = {"": UNNAMED}
        self.open: dict[str, int] = {}
        self.ids: list[str] = []
        self.dirty: dict[Key, None] = {}
        self.totals: Totals | None = None
        self.reliability: Reliability | None = None
        self.raised: list[tuple[str, Raised]] = []
        self._free: list[int] = []
        self._accept = at_once(accept)
        self._issued: dict[int, Issued] = {}
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

    def settings_for(self, name: str) -> Settings:
        """What a key gets that was never met before."""
        return self.settings[self.config.place_for(name)]

    def create(self, name: str, number: int, settings: Settings) -> Key:
        """A key before its first event; its number is 0 until something was accepted of it."""
        key = (BinaryKey if settings.is_binary else ClassKey)(name, number, settings)
        self.keys[name], self.players[name] = key, key.player
        return key

    def load(self, snapshots: Iterable[Snapshot]) -> None:
        """Take in cold keys; ValueError for one that is in memory, or whose state is damaged."""
        loaded = []
        for one in snapshots:
            if one.name in self.keys:
                raise ValueError(f"key {one.name!r} is in memory and in what was loaded: two keys, one name")
            loaded.append(self._loaded(one))
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
            self.arrays.let_go([key.player])
            raise ValueError(f"the state of key {name!r} makes no sense: {error}") from error
        self.keys[name], self.players[name] = key, key.player
        self.open.update(entries)
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
        self._make_free(len(ids))
        entries = [self._free.pop() for _ in ids]
        try:
            if isinstance(key, BinaryKey):
                self.arrays.load(key, parts, entries)
            else:
                assert isinstance(key, ClassKey)
                assert isinstance(stored, StoredKey)
                key.load(stored, entries)
                self._issued.update(key.open)
        except BaseException:
            self._free += entries
            raise
        state, player = self.arrays.state, key.player
        state.clocks[player] = nan if stored.clock is None else stored.clock
        state.fields[player, EXPIRED], state.fields[player, WAITING] = stored.expired, len(ids)
        if entries:
            state.open[entries, OWNER], state.open[entries, NUMBER] = player, numbers
            state.times[entries] = times
        for id, entry, number, time in zip(ids, entries, numbers, times, strict=True):
            self.ids[entry] = id
            key.remember(time if time == time else None, number, entry)
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
                # of a ledger that was changed by hand, two may have one id
                if self.open.get(self.ids[entry]) == entry:
                    del self.open[self.ids[entry]]
                self._issued.pop(entry, None)
            self._free += entries
            del self.keys[key.name], self.players[key.name]
            self.dirty.pop(key, None)
            if self.totals is not None:
                self.totals.dropped(key)
            players.append(key.player)
        self.arrays.let_go(players)

    # -- events

    def _make_free(self, number: int) -> None:
        """See to it that so many entries are free."""
        while len(self._free) < number:
            held = len(self.ids)
            size = max(FEW, 2 * held)
            self.arrays.make_room_for(size)
            self.ids += [""] * (size - held)
            self._free += range(size - 1, held - 1, -1)

    def owner(self, entry: int) -> Key:
        """The key of an open forecast, or of one that was closed since `release`."""
        key = self.arrays.keys[self.arrays.state.open[entry, OWNER]]
        assert key is not None
        return key

    def key_numbers(self, entries: list[int]) -> list[int]:
        """The numbers of the keys of such forecasts."""
        state = self.arrays.state
        found: list[int] = state.fields[state.open[entries, OWNER], KEY].tolist()
        return found

    def query_numbers(self, entries: list[int]) -> list[int]:
        """The numbers of their queries."""
        found: list[int] = self.arrays.state.open[entries, NUMBER].tolist()
        return found

    def asked_at(self, entry: int) -> float | None:
        """When it was asked for; None if neither the query nor the key had a time."""
        time = float(self.arrays.state.times[entry])
        return time if time == time else None

    def waits(self, entry: int, number: int) -> bool:
        """Whether the forecast of the query with this number is open, under this entry."""
        asked = self.arrays.state.open[entry, NUMBER]
        return bool(asked == number) and self.open.get(self.ids[entry]) == entry

    def ask(self, key: Key, id: str, number: int, hint: Any, time: float | None) -> int:
        """A forecast is asked for, of a key that is not full; its entry. Its answer is there after `play`."""
        if key.times:
            self._expire(key, time, number)
        self._make_free(1)
        entry, state = self._free.pop(), self.arrays.state
        self.open[id], self.ids[entry] = entry, id
        state.open[entry, OWNER], state.open[entry, NUMBER] = key.player, number
        state.fields[key.player, WAITING] += 1
        self._note(key, number, time)
        asked = key.clock if time is None else time
        state.times[entry] = nan if asked is None else asked
        key.remember(asked, number, entry)
        if isinstance(key, ClassKey):
            self._issued[entry] = issued = Issued(id, number, asked, hint, 0)
            key.ask(entry, issued)
            self._touched[key] = None
        else:
            self._step(entry, ASKS, number, nan if hint is None else hint)
        return entry

    def close(self, entry: int, number: int, value: Any, time: float | None) -> None:
        """A forecast has its outcome, which its key admits, or will have none if that is None.

        `number` is that of the event.
        """
        key = self.owner(entry)
        del self.open[self.ids[entry]]
        self._left.append(entry)
        self.arrays.state.fields[key.player, WAITING] -= 1
        self._note(key, number, time)
        if isinstance(key, ClassKey):
            issued = key.close(entry, value, number)
            if value is not None:
                self._settled.append((issued, value))
            self._touched[key] = None
        else:
            self._step(entry, GONE if value is None else value, number)
        if key.times:
            self._expire(key, time, number)

    def _note(self, key: Key, number: int, time: float | None) -> None:
        """Something happens to a key."""
        state, player = self.arrays.state, key.player
        state.fields[player, USED] = number
        if not state.fields[player, DIRTY]:
            state.fields[player, DIRTY], self.dirty[key] = number, None
        if time is not None and not time <= state.clocks[player]:
            state.clocks[player] = time

    def _step(self, entry: int, outcome: float, number: int, hint: float = nan) -> None:
        self._entries.append(entry)
        self._outcomes.append(outcome)
        self._numbers.append(number)
        self._hints.append(hint)

    def _expire(self, key: Key, time: float | None, number: int) -> None:
        """Let a key's clock go on, with the event of this number; what has waited too long expires."""
        for entry in key.expire(time, self.waits):
            id = self.ids[entry]
            del self.open[id]
            self.given_up[id] = key.name
            self._left.append(entry)
            if isinstance(key, ClassKey):
                key.close(entry, None, 0)
                self._touched[key] = None
            else:
                self._step(entry, key.settings.expires_as, number)

    def accept(self, table: Table, columns: Columns, start: int, number: int) -> tuple[int, int, list[Key]]:
        """Accept plain events from one on, as the first one after a number.

        The next event, the number of the last one accepted, and the keys that had their first event.
        """
        n_asks = int(np.count_nonzero(table.kinds[start:] == QUERY))
        self._make_free(n_asks)
        free = np.array(self._free[: -n_asks - 1 : -1], np.int64)
        found, progress = np.empty((2, len(table.kinds)), np.int64), np.array([start, number, 0, 0, 0])
        self._accept(table, self.arrays.state, free, found, progress)
        end, last, taken, dirtied, begun = progress.tolist()
        if taken:
            del self._free[-taken:]
        entries, asks = table.at[start:end], table.kinds[start:end] == QUERY
        some = columns.ids[start:end]
        opened, ids = entries[asks].tolist(), list(compress(some, asks.tolist()))
        for_each(self.ids.__setitem__, opened, ids)
        self.open.update(zip(ids, opened, strict=True))
        for_each(self.open.__delitem__, compress(some, (~asks).tolist()))
        self._entries.frombytes(entries.tobytes())
        self._numbers.frombytes(table.numbers[start:end].tobytes())
        self._outcomes.frombytes(np.where(asks, ASKS, columns.values[start:end]).tobytes())
        self._hints.frombytes(np.where(asks, columns.hints[start:end], nan).tobytes())
        self._left += entries[~asks].tolist()
        keys = self.arrays.keys
        self.dirty.update((keys[player], None) for player in found[0, :dirtied].tolist())
        return end, last, [keys[player] for player in found[1, :begun].tolist()]

    def replay(self, key: Key, event: Logged) -> int:
        """What the log says has happened to a key, once more; the entry of a query, or of what was closed.

        Raises ValueError for what cannot have happened, since the log may be damaged.
        """
        kind = key.settings.kind
        if not event.closes:
            return self.ask(key, event.id, event.number, kind.hint_of(event.value), event.time)
        entry = self.open.get(event.id, -1)
        if entry < 0 or self.owner(entry) is not key:
            raise ValueError(f"forecast {event.id!r} of key {key.name!r} is closed, but it is not open")
        value = None if event.value is None else kind.outcome_of(event.value)
        if value is not None and isinstance(key, ClassKey):
            key.admit(entry, value)
        self.close(entry, event.number, value, event.time)
        return entry

    def play(self) -> None:
        """Let all keys take the steps that were noted. Raises ValueError if integers bear no more."""
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
        outcomes = np.frombuffer(self._outcomes)
        longest = self.arrays.run(Steps(entries, outcomes, np.frombuffer(self._hints), numbers))
        if self.reliability is not None and max(self._outcomes) >= 0.0:
            told, state = outcomes >= 0.0, self.arrays.state
            settled = entries[told]
            self.reliability.add_events(state.forecasts[settled], state.hints[settled], outcomes[told])
        self.raised += self.arrays.raised
        self.arrays.raised.clear()
        return longest

    def _look_at(self, longest: int) -> None:
        """Take note of the keys that something happened to."""
        players = self.arrays.state.open[np.frombuffer(self._entries, np.int64), OWNER]
        touched = [self.arrays.keys[player] for player in np.unique(players).tolist()]
        for key in touched if longest > RESERVE else ():
            assert key is not None
            key.spent = self.arrays.is_spent(key.player, RESERVE)
            self.arrays.state.fields[key.player, PLAIN] &= not key.spent
        if self.totals is not None:
            self.totals.touched([*touched, *self._touched])

    def answers(self, entries: list[int]) -> tuple[list[Any], list[float]]:
        """Probabilities and certificates of forecasts, after `play` and before `release`."""
        state, issued = self.arrays.state, self._issued
        probabilities: list[Any] = state.forecasts[entries].tolist()
        certificates: list[float] = state.certificates[entries].tolist()
        for place, entry in enumerate(entries) if issued else ():
            if entry in issued:
                probabilities[place], certificates[place] = (
                    issued[entry].probability,
                    issued[entry].certificate,
                )
        return probabilities, certificates

    def release(self) -> None:
        """Forget the steps that were taken, and what was closed: nobody will ask what was answered there."""
        for entry in self._left if self._issued else ():
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

    # -- states

    def due(self, upto: int, window: int, most: int) -> list[StateRow]:
        """The states to write, which hold everything up to `upto`.

        Those that the ledger has lacked for more than `window` events, and those of the coldest keys beyond
        `most`, which leave the memory.
        """
        gone, fields = self._coldest(most), self.arrays.state.fields
        late = takewhile(lambda key: fields[key.player, DIRTY] <= upto - window, self.dirty)
        due = list(dict.fromkeys([*(key for key in gone if fields[key.player, DIRTY]), *late]))
        rows = self.rows_of(due, upto)
        for key in due:
            fields[key.player, DIRTY] = 0
            del self.dirty[key]
        if gone:
            self.drop(gone)
        return rows

    def tail(self, upto: int) -> int:
        """The number up to which the ledger's states hold everything, once `due` has been written."""
        if not self.dirty:
            return upto
        return int(self.arrays.state.fields[next(iter(self.dirty)).player, DIRTY]) - 1

    def _coldest(self, most: int) -> list[Key]:
        """Keys that were not used for longest, where there are too many: an eighth more than these."""
        too_many = len(self.keys) - most
        if too_many <= 0:
            return []
        keys = list(self.keys.values())
        used = self.arrays.state.fields[[key.player for key in keys], USED]
        return [keys[i] for i in np.argsort(used, kind="stable")[: too_many + most // 8].tolist()]

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
                told = zip(some, self.arrays.written(some), self.arrays.dump(some, self.ids), strict=True)
                rows += [(key.number, upto, summary, data) for key, summary, data in told]
        return rows


def for_each(do: Callable[..., object], *values: Iterable[Any]) -> None:
    """Call something for each value, or for each row of several, without a loop in Python."""
    deque(map(do, *values), maxlen=0)


_binary, _classes = msgspec.msgpack.Decoder(StoredBinary), msgspec.msgpack.Decoder(StoredKey)
