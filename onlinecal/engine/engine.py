"""The event engine: forecasts for many keyed streams, with late labels and a durable ledger.

An engine has two parts. The *book* (`keys/book.py`) has the keys in memory. The *ledger* (`ledger/ledger.py`)
has everything on disk. A batch of events takes these steps, in `_handle`: a `Batch` (`judge.py`) names the
ids that it does not know; `_fetch` recalls them from the ledger, and loads their keys into the book; the
batch judges its events, and the keys play; `_write_states` commits all of it in one transaction; and only
then are there answers. Only the batch lets keys play, and at a start the replay of the log (`catch_up`).

What always holds between two calls, while `_is_sound`: the book is what the ledger's states and the log
behind them come to, and `_number` and `_keys_known` are the ledger's last numbers. A batch that raises leaves
`_is_sound` False. Then the next batch, or the next question about keys, makes the book anew from the ledger
(`_recover`); `flush` writes nothing before that. Whatever touches the book or the ledger holds `_mutex`, in
whichever thread it runs. A `ColdReading` touches neither: it has a connection of its own.

`hot_keys` and `states_behind` say how much is kept in memory, and how often states are written. They may
change at any time, and change no answer. Kept answers are numbered in their order. The numbers are those of
the outbox, and begin anew with 1 if it is empty at a start.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from math import inf
from pathlib import Path
from typing import Any, Self

import msgspec

from onlinecal.compiling import without_garbage_collection
from onlinecal.engine.columns import Columns, columns_of_events
from onlinecal.engine.config import EngineConfig
from onlinecal.engine.events import Answer, Incoming, Outcome, Query, Rejected, decode_lines, encode_lines
from onlinecal.engine.judge import Batch
from onlinecal.engine.keys.book import Book
from onlinecal.engine.ledger.archive import refuse_archived
from onlinecal.engine.ledger.ledger import Ledger
from onlinecal.engine.ledger.replay import agreed_config, catch_up
from onlinecal.engine.ledger.schema import InputPosition, Record, UndeliveredAnswers, partition_of
from onlinecal.engine.settings import all_settings
from onlinecal.engine.watch.key_watch import Summary
from onlinecal.engine.watch.overview import Activity, NamedSummary, Overview, TopicPosition, Total
from onlinecal.engine.watch.reliability import Reliability
from onlinecal.engine.watch.totals import Totals
from onlinecal.validation import check_count

HOT_KEYS = 50_000
STATES_BEHIND = 250_000
"""A state is written when the ledger has lacked it for so many events; a restart replays no more of them."""

KEYS_READ_TOGETHER, PAUSE_BETWEEN_KEYS = 64, 0.001
"""A thread that reads keys beside the engine pauses after so many, for so many seconds."""

Input = tuple[str | bytes, int] | tuple[str | bytes, int, bytes | None]


class ColdReading:
    """Reads the keys of a ledger that are not in memory, as they are when this begins.

    Parameters
    ----------
    path
        The ledger's file.
    loaded
        The names of the keys in memory.
    totals
        The sums over all keys that were begun.
    """

    def __init__(self, path: Path, loaded: frozenset[str], totals: Totals) -> None:
        self.totals, self._loaded = totals, loaded
        self._cold: Totals | None = None
        with ExitStack() as stack:
            self._ledger = stack.enter_context(closing(Ledger(path, read_only=True)))
            stack.enter_context(self._ledger.transaction("DEFERRED"))
            # the moment is that of the first read
            self._ledger.last_numbers()
            self._open = stack.pop_all()

    def read(self) -> Totals:
        """The sums over these keys; LedgerError if they cannot be read."""
        if self._cold is None:
            with self._open:
                self._cold = Totals((), self._lines())
        return self._cold

    def _lines(self) -> Iterator[NamedSummary]:
        for place, (name, _, summary) in enumerate(self._ledger.summaries()):
            if place % KEYS_READ_TOGETHER == 0:
                # the engine's thread needs the interpreter, too
                time.sleep(PAUSE_BETWEEN_KEYS)
            if name not in self._loaded:
                yield name, summary


class Engine:
    """Answers events, and keeps them in a ledger before it answers.

    Every batch is one transaction: when `handle` returns, all of it is on disk. When it raises LedgerError or
    ValueError, nothing of it is, and the engine goes on from what the ledger holds; an interrupt may come
    before the transaction or behind it. May be used from several threads.

    Parameters
    ----------
    ledger
        The ledger's file, made if there is none; None keeps everything in memory only.
    config
        What forecasters the keys get; None: what the ledger was made with, or the default.
    hot_keys
        How many keys stay in memory between batches, at least 0; others are read from the ledger when they
        are needed.
    states_behind
        How many events a state may be behind the log, at least 0; more means less writing and a longer
        restart.

    Raises
    ------
    LedgerError
        If the ledger cannot be opened, is damaged, in use by another writer, or was made by other rules.
        Later every method raises it if the ledger cannot be read, or after `close`.
    ValueError
        If the configuration is not the one that the ledger was made with (`max_jump` and `park` may differ),
        or an argument has a value that cannot be.

    Examples
    --------
    >>> from onlinecal.engine import Engine, Outcome, Query
    >>> engine = Engine()
    >>> monday, _ = engine.handle([Query("monday", "rain/oslo", hint=0.8), Query("tuesday", "rain/oslo")])
    >>> round(monday.probability, 2)
    0.8
    >>> engine.handle([Outcome("tuesday", 0), Outcome("monday", 1), Outcome("monday", 0)])[2].reason
    'settled'
    >>> engine.close()
    """

    def __init__(
        self,
        ledger: str | Path | None = None,
        config: EngineConfig | None = None,
        *,
        hot_keys: int = HOT_KEYS,
        states_behind: int = STATES_BEHIND,
    ) -> None:
        self._mutex, self._activity = threading.RLock(), Activity()
        self.hot_keys = check_count(hot_keys, "hot_keys", least=0)
        self.states_behind = check_count(states_behind, "states_behind", least=0)
        # numbers of the outbox: the last that was given, up to which all is delivered, up to which it is gone
        self._last_kept = self._delivered = self._gone = 0
        self._ends = dict[str, int]()
        self._trusts_events = False
        if config is not None:
            # check it before a file is made
            all_settings(config)
        self._ledger = Ledger(None if ledger is None else Path(ledger))
        try:
            self.config = agreed_config(self._ledger, config)
            self._start()
        except BaseException:
            self._ledger.close()
            raise

    def _start(self) -> None:
        self._book = Book(self.config)
        self._number, self._keys_known = self._ledger.last_numbers()
        # nothing is archived while there is a writer
        self._archived = self._ledger.checkpoint() > 0
        self._last_kept = max(self._last_kept, self._ledger.last_kept())
        self._is_sound = False
        for upto in catch_up(self._book, self._ledger):
            self._write_states(upto)
        self._book.start_watching(self._ledger.reliability(), self._number)
        self._book.early = self._ledger.early()
        self._book.parking = self._ledger.parking(self.config.park)
        if self._trusts_events:
            self._lift_limits()
        self._is_sound = True

    def _write_states(
        self,
        upto: int,
        batch: Batch | None = None,
        inputs: Iterable[Input] = (),
        behind: int | None = None,
        kept: Sequence[UndeliveredAnswers] = (),
    ) -> None:
        """Commit a batch, and the states that are due; and that answers were delivered."""
        book, behind = self._book, self.states_behind if behind is None else behind
        log, reliability = batch.rows() if batch else {}, book.reliability if batch else None
        book.release()
        states = book.due(upto, behind, self.hot_keys)
        delivered = self._delivered if self._delivered > self._gone else 0
        if batch or states or delivered:
            counted = None if reliability is None or reliability.is_written else reliability.dump()
            noted, after = [InputPosition(*place) for place in inputs], (self._number, self._keys_known)
            about: dict[str, Any] = {"tail": book.tail(upto), "early": book.early}
            if book.parking.has_changed:
                about["parked"] = msgspec.json.encode(book.parking.counts).decode()
            released = book.parking.released
            self._ledger.commit(
                log,
                states,
                about,
                after,
                inputs=noted,
                reliability=counted,
                released=released,
                kept=kept,
                delivered=delivered,
            )
            self._gone = max(self._gone, delivered)
            book.parking.forget_changes()
        if log:
            _, _, values, _ = log["closings"]
            self._activity.outcomes += len(values) - values.count(None)

    def handle(self, events: Iterable[Incoming | Rejected], *, inputs: Iterable[Input] = ()) -> list[Answer]:
        """Answer a batch of `events`, which are on disk when this returns.

        Returns a list with one answer for each event, in their order. An event with a value that cannot be is
        answered with a `Rejected`, and changes nothing. Refusals from `decode_lines` may be among the events,
        and are passed on. `inputs`, pairs (path, position) or triples (path, position, mark), say how far
        inputs were read, and are kept with the batch: see `InputPosition`. Raises LedgerError, and keeps
        nothing of the batch, if the ledger cannot be written; ValueError for anything that is no event.
        """
        columns = columns_of_events(events)
        # where nobody else holds the events, answers take their memory while it is in the processor's cache
        del events
        return self._handle(columns, inputs)[0].answers()

    def handle_and_keep(
        self,
        events: Iterable[Incoming | Rejected],
        pack: Callable[[list[Answer]], bytes],
        *,
        inputs: Iterable[Input] = (),
    ) -> UndeliveredAnswers:
        """Answer a batch as `handle` does, and keep the answers in the ledger until they are delivered.

        This is for programs that send answers on, and may be killed before these have arrived. `pack` makes
        bytes of the list of answers, one for each event. They are written in the transaction of their events,
        and are returned with their number, an `UndeliveredAnswers`. They are among `kept` until `delivered`
        is called with that number. `pack` is called before the transaction; if it raises, nothing of the
        batch is kept. `inputs` and errors are those of `handle`.
        """
        _, [kept] = self._handle(columns_of_events(events), inputs, pack)
        return kept

    def kept(self) -> list[UndeliveredAnswers]:
        """What `handle_and_keep` kept and is not known to have been delivered, the oldest first."""
        with self._mutex:
            return [kept for kept in self._ledger.outbox() if kept.number > self._delivered]

    def delivered(self, number: int) -> None:
        """Say that the kept answers have arrived, those of the batch with this `number` and all before it.

        They leave `kept` at once, and the file with the next transaction. Raises ValueError for a number
        below 0, or above that of the last batch that was kept.
        """
        with self._mutex:
            if not 0 <= number <= self._last_kept:
                raise ValueError(
                    f"number must be that of kept answers, from 0 to {self._last_kept}, got {number!r}"
                )
            self._delivered = max(self._delivered, number)

    def _handle(
        self,
        columns: Columns,
        inputs: Iterable[Input],
        pack: Callable[[list[Answer]], bytes] | None = None,
    ) -> tuple[Batch, list[UndeliveredAnswers]]:
        with self._mutex:
            self._recover()
            began = time.perf_counter()
            self._is_sound = False
            with without_garbage_collection():
                if self._archived:
                    refuse_archived(self._ledger, columns, self._book.open)
                batch = Batch(self._book, self._number, self._keys_known, columns)
                batch.judge(self._fetch(batch, columns))
                kept = (
                    [] if pack is None else [UndeliveredAnswers(self._last_kept + 1, pack(batch.answers()))]
                )
                self._write_states(batch.number, batch, inputs, kept=kept)
            self._number, self._keys_known = batch.number, batch.keys_known
            self._last_kept += len(kept)
            self._is_sound = True
            spent, book = time.perf_counter() - began, self._book
            self._activity.note(batch.refused(), spent, book.arrays.raised, book.parking.dropped)
            return batch, kept

    def trust_events(self) -> None:
        """From now on accept events of any time, whatever `max_jump`, and park no outcome.

        This is for replaying events that were accepted before: an outcome before its query is then rejected
        as "unknown". It holds until the engine is closed.
        """
        with self._mutex:
            self._trusts_events = True
            self._lift_limits()

    def _lift_limits(self) -> None:
        for settings in self._book.settings.values():
            settings.max_jump = inf
        self._book.parking.most = 0

    def _fetch(self, batch: Batch, columns: Columns) -> dict[str, Record]:
        """What the ledger knows of the ids of a batch; the keys that the batch needs are loaded."""
        ids, book = batch.unknown(), self._book
        records = self._ledger.recall(ids) if ids else {}
        if len(book.keys) < self._keys_known:
            cold = [name for name in columns.keys if name and name not in book.keys]
            cold += [record.key for record in records.values() if record.closed is None]
            book.fetch(dict.fromkeys(cold), self._ledger)
        return records

    def handle_lines(self, data: bytes, *, inputs: Iterable[Input] = ()) -> bytes:
        """Answer the events in `data`, complete lines of JSON in UTF-8, with one line of JSON for each.

        Returns bytes with as many lines, in their order. A line that is no event is answered as rejected.
        `inputs` and LedgerError are those of `handle`.
        """
        return encode_lines(self.handle(decode_lines(data), inputs=inputs))

    def query(
        self,
        id: str | int,
        key: str | int,
        hint: float | dict[str, float] | None = None,
        time: float | str | None = None,
    ) -> Answer:
        """Ask for one forecast, which is on disk when this returns; for many at a time use `handle`.

        `id`, `key`, `hint` and `time` are those of a `Query`. Returns a `Forecast`, or a `Rejected` that says
        why there is none. Raises LedgerError as `handle` does.
        """
        return self.handle([Query(id, key, hint, time)])[0]

    def outcome(
        self, id: str | int, value: bool | int | float | str, time: float | str | None = None
    ) -> Answer:
        """Settle the forecast of this `id` by an outcome, `value`; it is on disk when this returns.

        `value` and `time` are those of an `Outcome`. Returns a `Settled`; a `Parked` if the query has not
        come yet and the configuration's `park` allows it; or a `Rejected`. Raises LedgerError as `handle`
        does.
        """
        return self.handle([Outcome(id, value, time=time)])[0]

    def noted(self, path: str | bytes) -> InputPosition | None:
        """How far the input `path` was read, as `inputs` of the batches said last; None if none named it.

        Raises LedgerError if the note is damaged.
        """
        with self._mutex:
            return self._ledger.noted(path)

    def inputs(self) -> list[InputPosition]:
        """How far each input was read, as `inputs` of the batches said last: one `InputPosition` for each.

        Raises LedgerError if one of these notes is damaged.
        """
        with self._mutex:
            return self._ledger.inputs()

    def in_memory(self) -> tuple[int, int]:
        """How many keys are in memory, and how many of their forecasts are open."""
        with self._mutex:
            return len(self._book.keys), len(self._book.open)

    def total(self) -> Total:
        """The sums over all keys: events, keys, rounds, open and expired forecasts, and bounds.

        The first call, and the first one after a batch that failed, reads every key. Other calls read those
        that have changed since.
        """
        with self._mutex:
            return self._totals().read(self._number, self._keys_known)

    def overview(self, limit: int = 10) -> Overview:
        """All keys together, and the keys to look at first.

        At most `limit` keys are named for a large certificate, and as many for their alarms. It reads as many
        keys as `total` does. Raises ValueError unless limit is a whole number of at least 1.
        """
        limit = check_count(limit, "limit")
        with self._mutex:
            totals, book = self._totals(), self._book
            total = totals.read(self._number, self._keys_known)
            reliability = book.reliability or Reliability(self._number)
            return Overview(
                total,
                totals.oldest(book.keys.values()),
                *totals.alarms(),
                totals.scores(),
                reliability.since,
                *reliability.both(total.certificate, total.rounds),
                self._named(totals.largest(limit, book.keys.values())),
                self._named(totals.alarmed(limit, book.keys.values())),
                len(book.keys),
                self._activity.batches,
                self._activity.seconds,
                dict(self._activity.refused),
                book.early,
                self._activity.outcomes,
                book.parking.counts.copy(),
                self._topics(),
                self._last_kept - self._delivered,
            )

    def note_ends(self, ends: Mapping[str, int]) -> None:
        """Take note of where inputs end by now: `ends` has a position for each path.

        The `topics` of an `Overview` then say how far the engine is behind. It is kept in memory only.
        """
        with self._mutex:
            self._ends.update(ends)

    def _topics(self) -> list[TopicPosition]:
        """Which partitions of topics are answered, and how far."""
        positions = list[TopicPosition]()
        for path, position, _ in self._ledger.inputs():
            partition = partition_of(path)
            if partition is not None:
                end = self._ends.get(str(path))
                lag = None if end is None else max(0, end - position)
                positions.append(TopicPosition(*partition, position, lag))
        return positions

    def largest(self, limit: int = 10) -> list[NamedSummary]:
        """Pairs (name, `Summary`) of at most `limit` keys with the largest certificate per settled round.

        The largest comes first. Of keys that left the memory long ago, those are considered that were among
        the largest then. Raises ValueError unless limit is a whole number of at least 1.
        """
        limit = check_count(limit, "limit")
        with self._mutex:
            return self._named(self._totals().largest(limit, self._book.keys.values()))

    def keys(self, offset: int = 0, limit: int = 100) -> list[NamedSummary]:
        """Pairs (name, `Summary`) of at most `limit` keys, in the order of their first queries.

        The first `offset` keys are left out. Raises ValueError unless these are whole numbers, limit at least
        1 and offset at least 0.
        """
        limit, offset = check_count(limit, "limit"), check_count(offset, "offset", least=0)
        with self._mutex:
            self._recover()
            lines = self._ledger.summaries(offset, limit)
            return [(line[0], self._book.summary(*line, self._ledger)) for line in lines]

    def summary(self, key: str) -> Summary | None:
        """The rounds, open forecasts, bounds and alarms of the key with this name.

        None if no query of it was accepted. `key` is the name as a text, also where events name it by a whole
        number.
        """
        with self._mutex:
            self._recover()
            if key in self._book.keys:
                return self._book.keys[key].summary()
            for snapshot in self._ledger.keys_named([key]):
                [line] = self._ledger.summaries(snapshot.number - 1, 1)
                return self._book.summary(*line, self._ledger)
            return None

    def _named(self, names: Iterable[str]) -> list[NamedSummary]:
        """Keys and their summaries; those of keys that are not in memory are read once."""
        shown, named = self._totals().shown, list[NamedSummary]()
        for name in names:
            summary = shown.get(name) or self.summary(name)
            if summary is not None:
                named.append((name, summary))
                if name not in self._book.keys:
                    shown[name] = summary
        return named

    def _totals(self) -> Totals:
        self._recover()
        if self._book.totals is None or not self._book.totals.is_complete:
            loaded, lines = self._book.keys, self._ledger.summaries()
            cold = ((name, written) for name, _, written in lines if name not in loaded)
            self._book.totals = Totals(loaded.values(), cold)
        return self._book.totals

    def _begin_totals(self) -> ColdReading | None:
        """Begin the sums over all keys, whose first reading takes long if there are many keys.

        What is returned reads the keys that are not in memory, in any thread, and `_finish_totals` takes it.
        None if there is nothing to read, or if it cannot be done beside the engine, as of a ledger in memory.
        """
        with self._mutex:
            self._recover()
            book, path = self._book, self._ledger.path
            if path is None or (book.totals is not None and book.totals.is_complete):
                return None
            book.totals = Totals(book.keys.values(), None)
            return ColdReading(path, frozenset(book.keys), book.totals)

    def _finish_totals(self, reading: ColdReading) -> None:
        """Take up what was read; nothing happens if the engine has had to start again meanwhile."""
        with self._mutex:
            if self._is_sound and self._book.totals is reading.totals and not reading.totals.is_complete:
                reading.totals.add(reading.read())

    def _recover(self) -> None:
        """After a batch that failed, start again from the ledger."""
        if not self._is_sound:
            self._start()

    def flush(self) -> None:
        """Write the state of every key that the ledger lacks, so that the next start replays nothing.

        The events themselves are on disk already. Raises LedgerError if the ledger cannot be written.
        """
        with self._mutex:
            self._ledger.check_in_place()
            if self._is_sound:
                # states that are due count as written from here on, so after a failure start anew
                self._is_sound = False
                self._write_states(self._number, behind=0)
                self._is_sound = True

    def close(self) -> None:
        """Write the state of every key that the ledger's file lacks, and close the file.

        Without a file nothing is written, and all is gone. Raises LedgerError if the states cannot be
        written; the file is closed then, too, and the next start replays what is missing. To close again does
        nothing.
        """
        with self._mutex:
            try:
                if self._ledger.path is not None:
                    self.flush()
            finally:
                self._ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
