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
from onlinecal.engine.fields import name_of
from onlinecal.engine.judge import Batch
from onlinecal.engine.keys.book import Book
from onlinecal.engine.ledger.archive import refuse_archived
from onlinecal.engine.ledger.ledger import Ledger
from onlinecal.engine.ledger.replay import agreed_config, catch_up
from onlinecal.engine.ledger.schema import (
    InputPosition,
    Record,
    UndeliveredAnswers,
    input_position,
    partition_of,
)
from onlinecal.engine.settings import all_settings
from onlinecal.engine.watch.key_watch import Summary
from onlinecal.engine.watch.overview import Activity, NamedSummary, Overview, TopicPosition, Total
from onlinecal.engine.watch.reliability import Reliability
from onlinecal.engine.watch.totals import Totals
from onlinecal.texts import shown
from onlinecal.validation import check_count, check_path

HOT_KEYS = 50_000
STATES_BEHIND = 250_000
"""A state is written when the ledger has lacked it for so many events; a restart replays no more of them."""

KEYS_READ_TOGETHER, PAUSE_BETWEEN_KEYS = 64, 0.001
"""A thread that reads keys beside the engine pauses after so many, for so many seconds."""

Input = tuple[str | bytes, int] | tuple[str | bytes, int, bytes | None]


def packed(pack: Callable[[list[Answer]], bytes], answers: list[Answer]) -> bytes:
    """The bytes that `pack` makes of answers; ValueError if it makes something else."""
    content = pack(answers)
    if not isinstance(content, (bytes, bytearray, memoryview)):
        raise ValueError(f"pack must return bytes, got {shown(content)}; nothing of the batch was kept")
    return bytes(content)


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
    """Answers queries by forecasts, which outcomes settle; a ledger keeps every event before its answer.

    The ledger is one file of SQLite. Every batch of events is one transaction: when `handle` returns, all of
    it is on disk. When `handle` raises LedgerError or ValueError, nothing of the batch is, and the engine
    goes on from what the ledger holds; an interrupt, as by Ctrl-C, leaves the batch on disk as a whole or not
    at all. Several threads may use one engine.

    Parameters
    ----------
    ledger
        The path of the ledger's file, which is made if there is none; None keeps everything in memory only.
    config
        An `EngineConfig`, what forecasters the keys get. None: what the ledger was made with, or for a new
        one the default.
    hot_keys
        How many keys stay in memory between batches, at least 0; others are read from the ledger when they
        are needed.
    states_behind
        For how many events the ledger may lack a key's state, at least 0: a start plays these events again.
        More means less writing and a longer start.

    Raises
    ------
    LedgerError
        If the ledger cannot be opened, is damaged, in use by another writer, or was made by a version with
        other rules. Later every method raises it that has to read or write a ledger which cannot be read or
        written, or which was closed.
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
        self._ledger = Ledger(None if ledger is None else check_path(ledger, "ledger"))
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
        inputs: Sequence[InputPosition] = (),
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
            after = self._number, self._keys_known
            about: dict[str, Any] = {"tail": book.tail(upto), "early": book.early}
            if book.parking.has_changed:
                about["parked"] = msgspec.json.encode(book.parking.counts).decode()
            released = book.parking.released
            self._ledger.commit(
                log,
                states,
                about,
                after,
                inputs=inputs,
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

        `events` are any number of `Query`, `Outcome` and `Withdraw`. Returns a list with one answer for each,
        in their order, and an empty list for none. An event with a value that cannot be is answered with a
        `Rejected`, and changes nothing. A `Rejected` among the events, as `decode_lines` makes it of a bad
        line, is passed on as the answer.

        `inputs` say how far the files or topics that events come from were read; they are written in the same
        transaction, and `noted` finds them again. Each is a pair (path, position) or a triple (path,
        position, mark), with the fields of an `InputPosition`.

        Raises LedgerError, and keeps nothing of the batch, if the ledger cannot be written; ValueError for
        anything that is no event or no such input.
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
        """Answer a batch of `events`, and keep the answers in the ledger until they are delivered.

        This is for programs that send answers on, and may be killed before these have arrived. `pack` is a
        function that makes bytes of the list of answers, one for each event. These bytes are written in the
        transaction of the events. Returns an `UndeliveredAnswers`: the bytes, and the number of the batch.
        `kept` gives it again, also after a restart, until `delivered` is called with that number.

        `pack` is called before the transaction; if it raises, nothing of the batch is kept. `events`, any
        number of `Query`, `Outcome` and `Withdraw`, and `inputs`, pairs (path, position), are as for
        `handle`. Raises LedgerError, and keeps nothing, if the ledger cannot be written; ValueError for what
        is no event or input, and if `pack` returns no bytes.
        """
        if not callable(pack):
            raise ValueError(
                f"pack must be a function that makes bytes of a list of answers, got {shown(pack)}"
            )
        _, [kept] = self._handle(columns_of_events(events), inputs, pack)
        return kept

    def kept(self) -> list[UndeliveredAnswers]:
        """The answers that `handle_and_keep` kept and that were not yet `delivered`, the oldest first.

        Returns a list with an `UndeliveredAnswers` for each batch, also for those from before a restart;
        empty if all were delivered. Raises LedgerError if the ledger cannot be read.
        """
        with self._mutex:
            return [kept for kept in self._ledger.outbox() if kept.number > self._delivered]

    def delivered(self, number: int) -> None:
        """Say that the kept answers of the batch with this `number`, and of all before it, have arrived.

        `kept` leaves them out from now on. They leave the ledger's file with the next batch, or when the
        engine is flushed or closed; if it is killed before that, a new start has them in `kept` again. To say
        it twice does no harm, and 0 changes nothing. Raises ValueError if `number` is not a whole number from
        0 to that of the last batch that was kept.
        """
        with self._mutex:
            number = check_count(number, "number", least=0)
            if number > self._last_kept:
                raise ValueError(
                    f"number must be that of kept answers, from 0 to {self._last_kept}, got {number}: take "
                    "it from what handle_and_keep or kept returned"
                )
            self._delivered = max(self._delivered, number)

    def _handle(
        self,
        columns: Columns,
        inputs: Iterable[Input],
        pack: Callable[[list[Answer]], bytes] | None = None,
    ) -> tuple[Batch, list[UndeliveredAnswers]]:
        if not isinstance(inputs, Iterable):
            raise ValueError(f"inputs must be a list of pairs (path, position), got {shown(inputs)}")
        places = list(map(input_position, inputs))
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
                    []
                    if pack is None
                    else [UndeliveredAnswers(self._last_kept + 1, packed(pack, batch.answers()))]
                )
                self._write_states(batch.number, batch, places, kept=kept)
            self._number, self._keys_known = batch.number, batch.keys_known
            self._last_kept += len(kept)
            self._is_sound = True
            spent, book = time.perf_counter() - began, self._book
            self._activity.note(batch.refused(), spent, book.arrays.raised, book.parking.dropped)
            return batch, kept

    def trust_events(self) -> None:
        """From now on accept events of any time, whatever `max_jump` of their key, and park no outcome.

        This is for replaying events that were accepted before. An outcome that comes before its query is then
        rejected as "unknown", and those that wait for their queries already are dropped with the next
        accepted event. It holds until the engine is closed.
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
        """Answer the events in `data`, bytes with lines of JSON in UTF-8: one line of JSON for each of them.

        Returns bytes with as many lines, in their order, each with its end. The last line of `data` may lack
        its end. A line that is no event, also an empty one, is answered as rejected. All events are on disk
        when this returns. `inputs`, pairs (path, position), say how far inputs were read, as for `handle`.
        Raises LedgerError, and keeps nothing, if the ledger cannot be written; ValueError if `data` is not
        bytes.
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

        `id` is a new name for the forecast, and `key` names the stream that it belongs to: texts of 1 to 200
        characters, or whole numbers. `hint` is a model's probability of outcome 1, or for several classes a
        dict with the probability of each; None: there is none. `time` is in seconds, or a text such as
        "2026-01-31T09:30:00Z"; None: it does not matter.

        Returns a `Forecast`, or a `Rejected` that says why there is none. The same query, sent again, gets
        the same forecast; with another key, hint or time this `id` is rejected. Raises LedgerError, and keeps
        nothing, if the ledger cannot be written.
        """
        return self.handle([Query(id, key, hint, time)])[0]

    def outcome(
        self, id: str | int, value: bool | int | float | str, time: float | str | None = None
    ) -> Answer:
        """Settle the forecast that was asked for with this `id`; it is on disk when this returns.

        `value` is 0 or 1, a number between, or where there are several classes the label of one or a dict
        with the probability of each. `time` says when it became known: seconds, or a text such as
        "2026-01-31T09:30:00Z"; None: it does not matter.

        Returns a `Settled`; a `Parked` if the query has not come yet and the configuration lets outcomes wait
        for it (`park`); or a `Rejected` that says why not. The same outcome, sent again with the same value
        and time, gets the same answer. Raises LedgerError, and keeps nothing, if the ledger cannot be
        written.
        """
        return self.handle([Outcome(id, value, time=time)])[0]

    def noted(self, path: str | bytes) -> InputPosition | None:
        """How far the input `path` was read: what the last batch that named it among its `inputs` said of it.

        Returns an `InputPosition`, or None if no batch named this path. Raises LedgerError if the ledger
        cannot be read, or this note in it is damaged.
        """
        with self._mutex:
            return self._ledger.noted(path)

    def inputs(self) -> list[InputPosition]:
        """How far each input was read: what the last batch that named it among its `inputs` said of it.

        Returns a list with an `InputPosition` for each path, in the order of the paths; empty if no batch
        named any. Raises LedgerError if the ledger cannot be read, or one of these notes is damaged.
        """
        with self._mutex:
            return self._ledger.inputs()

    def in_memory(self) -> tuple[int, int]:
        """How many keys are in memory now, and how many of their forecasts are open: a pair of whole numbers.

        Keys that are on disk only, and their open forecasts, are not counted; `total` counts all.
        """
        with self._mutex:
            return len(self._book.keys), len(self._book.open)

    def total(self) -> Total:
        """A `Total`: sums over all keys, of rounds, open and expired forecasts, certificates and guarantees.

        The first call, and the first one after a batch that failed, reads every key of the ledger, which
        takes long if there are many. Other calls only look at keys that have changed since. Raises
        LedgerError if the ledger cannot be read.
        """
        with self._mutex:
            return self._totals().read(self._number, self._keys_known)

    def overview(self, limit: int = 10) -> Overview:
        """An `Overview`: all keys together, and the keys to look at first.

        At most `limit` keys are named for a large certificate, and at most `limit` for their alarms. The
        first call reads every key of the ledger, as that of `total` does. Raises ValueError unless limit is a
        whole number of at least 1; LedgerError if the ledger cannot be read.
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
        """Take note of where inputs end by now: `ends` is a dict with the position of the end for each path.

        A path is written as in the `inputs` of batches. For partitions of topics, an `Overview` then says in
        its `topics` how far the engine is behind the end; other inputs are not shown there. This is kept in
        memory only, and a later call changes the paths that it names. Raises ValueError unless `ends` is a
        dict with a whole number of at least 0 for each path.
        """
        if not isinstance(ends, Mapping):
            raise ValueError(f"ends must be a dict with the end of each path, got {shown(ends)}")
        checked = {path: check_count(end, f"the end of {shown(path)}", least=0) for path, end in ends.items()}
        with self._mutex:
            self._ends.update(checked)

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
        """The keys whose certificates per settled round are largest: at most `limit` pairs (name, `Summary`).

        The largest comes first; keys without a settled round come last. All keys in memory are compared, and
        of the others a thousand or more, the largest when they left the memory. The first call reads every
        key of the ledger, as that of `total` does. Raises ValueError unless limit is a whole number of at
        least 1; LedgerError if the ledger cannot be read.
        """
        limit = check_count(limit, "limit")
        with self._mutex:
            return self._named(self._totals().largest(limit, self._book.keys.values()))

    def keys(self, offset: int = 0, limit: int = 100) -> list[NamedSummary]:
        """A part of the list of all keys: pairs (name, `Summary`) in the order of the keys' first queries.

        The first `offset` keys are left out, and then there are at most `limit`; the list is empty where
        there are no more. Raises ValueError unless limit is a whole number of at least 1 and offset one of at
        least 0; LedgerError if the ledger cannot be read.
        """
        limit, offset = check_count(limit, "limit"), check_count(offset, "offset", least=0)
        with self._mutex:
            self._recover()
            lines = self._ledger.summaries(offset, limit)
            return [(line[0], self._book.summary(*line, self._ledger)) for line in lines]

    def summary(self, key: str | int) -> Summary | None:
        """A `Summary` of the key with this name: its rounds, open forecasts, certificate and alarms.

        `key` is the name that queries gave, a text or a whole number. None if no query of the key was
        accepted. Raises ValueError for what is neither a text nor a whole number; LedgerError if the ledger
        cannot be read.
        """
        if not isinstance(key, str):
            key = name_of(key, "key")
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
        """After a batch that failed, start again from the ledger; LedgerError after `close`."""
        with self._ledger.ledger_errors():
            _ = self._ledger.connection
        if not self._is_sound:
            self._start()

    def flush(self) -> None:
        """Write the state of every key that the ledger's file lacks, so that the next start replays no event.

        Events and answers are on disk without it. The engine stays open. Raises LedgerError if the ledger
        cannot be written; then nothing is lost, and the engine goes on from what the ledger holds.
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
        written; the file is closed then, too, and the next start plays again the events that states lack. To
        close again does nothing. `with Engine(...) as engine:` closes at its end.
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
