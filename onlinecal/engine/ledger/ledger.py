"""The ledger: one SQLite file that holds every accepted event, and a state of each key, written now and then.

All changes of a batch are one transaction; when `commit` returns they are on disk. One process may write,
which a lock ensures that ends with the process. Any number of processes may read. A `Ledger` itself has no
lock against threads: the mutex of its engine keeps them apart, and whoever else opens one uses it in one
thread at a time.

An engine writes by `commit` alone, but for the configuration (`write_about`, at its start). Archiving and
repairing write by statements of their own, inside transactions. All else here reads.

What always holds in the file, after every commit: events are numbered without gaps, over queries and closings
together, from the first that was not archived on, and never change; a state holds all events of its key up to
its number; and no key's state lacks an event up to `tail`. So a start replays the log behind `tail`, and
nothing before. `_about` is what the table `about` is known to hold, or empty. `schema.py` has the tables,
which are a saved format.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from msgspec.json import decode, encode
from msgspec.structs import replace

from onlinecal.engine.fields import only_names
from onlinecal.engine.ledger import schema
from onlinecal.engine.ledger.file import (
    CANNOT_WRITE,
    DATABASE_FILES,
    REPAIR_ADVICE,
    LedgerErrors,
    WriterLock,
    check_one_name,
    code_of,
    identity_of,
)
from onlinecal.engine.parking import ParkedOutcome, Parking, ParkingCounts
from onlinecal.engine.watch.key_watch import EMPTY_SUMMARY, Summary, watched_in

LOG_SQL = (
    "SELECT q.number AS at, q.key AS of, q.id, 0, q.* FROM queries AS q WHERE q.number > ?"
    " UNION ALL SELECT c.number, q.key, q.id, 1, c.*, NULL, NULL, NULL FROM closings AS c"
    " LEFT JOIN queries AS q ON q.number = c.query WHERE c.number > ?"
)
"""The events after a number, which is given twice: number, key, id, whether it closes, and the whole row."""

RECORDS_SQL = (
    "SELECT q.*, k.*, c.* FROM {} LEFT JOIN keys AS k ON k.number = q.key"
    " LEFT JOIN closings AS c ON c.query = q.number WHERE {}"
)
"""Some queries, their keys and their closings, a whole row of each."""

HIGHEST_SQL = "SELECT max({}, {}, {}), {}".format(
    *(
        f"coalesce((SELECT max(number) FROM {table}), 0)"
        for table in ("queries", "closings", "archives", "keys")
    )
)
"""The numbers of the last event and of the last key; 0 where there is none."""

Progress = Callable[[int, int], object]
"""Called with how many events are done, and of how many."""


def no_progress(_done: int, _all: int) -> None:
    """Report no progress."""


class Ledger:
    """An open ledger: reads ids, keys and the log, and commits what is new.

    Raises LedgerError if the file cannot be opened, is no ledger, is damaged, or is in use by another writer,
    and for an archive that is not opened `read_only`.

    Parameters
    ----------
    path
        The file; None: a ledger in memory, for trying things out.
    read_only
        Whether it is only read, which is possible while another process writes.
    damaged
        Whether its tables may be damaged: then it is opened if that is possible at all.
    """

    _about: Mapping[str, Any] = {}
    """What the last commit wrote into `about`: it is the same for many batches, and then not written again.
    Empty if it failed."""
    _lock: WriterLock | None = None
    _connection: sqlite3.Connection | None = None

    def __init__(self, path: Path | None, read_only: bool = False, damaged: bool = False) -> None:
        self.path, self._read_only, self._damaged = path, read_only, damaged
        # without links and relative names, the same file always has the same name
        self._file = "" if path is None else os.path.realpath(path)
        self._identities: dict[str, tuple[int, int] | None] = {}
        try:
            with self.ledger_errors():
                if path is not None and not read_only:
                    self._lock = WriterLock(self._file)
                check_one_name(self._file)
                self._connection = self._connect()
                if self._lock is not None:
                    names = [f"{self._file}{part}" for part in DATABASE_FILES]
                    self._identities = {name: identity for name in names if (identity := identity_of(name))}
        except BaseException:
            self.close()
            raise

    def _connect(self) -> sqlite3.Connection:
        if self.path is None:
            return self._opened(":memory:")
        if self._read_only and not self.path.is_file():
            raise ValueError("there is no such ledger; check the path")
        target = f"{Path(self._file).as_uri()}?mode={'ro' if self._read_only else 'rwc'}"
        try:
            return self._opened(target)
        except sqlite3.OperationalError as error:
            # in a read-only place, SQLite reads a ledger that nobody uses if it is told so
            at_rest = self._read_only and not os.path.exists(f"{self._file}-wal")
            if not at_rest or code_of(error) not in CANNOT_WRITE:
                raise
            return self._opened(f"{target}&immutable=1")

    def _opened(self, target: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            target, uri=True, isolation_level=None, check_same_thread=False, timeout=10.0
        )
        try:
            # a page that makes no sense is refused when it is read, and never written to
            connection.execute("PRAGMA cell_size_check = ON")
            if self._read_only:
                schema.check(connection, self._damaged)
            else:
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("PRAGMA cache_size = -65536")
                schema.prepare(connection)
                if schema.is_archive(connection):
                    raise ValueError(schema.ONLY_READ)
                # this changes the file, so it comes after the checks that it is a ledger, and no archive
                connection.execute("PRAGMA journal_mode = WAL")
                # the first read makes all files that belong to it
                schema.is_empty(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def connection(self) -> sqlite3.Connection:
        """The open connection; ValueError after `close`."""
        if self._connection is None:
            raise ValueError("it was closed: open it anew")
        return self._connection

    def close(self) -> None:
        """Close the file and release the lock."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def check_in_place(self) -> None:
        """LedgerError if the file was removed or replaced, or if this is not the only writer any more."""
        if self._lock is None or self._connection is None:
            return
        with self.ledger_errors():
            self._lock.keep()
            for name, identity in self._identities.items():
                if identity_of(name) != identity:
                    raise ValueError(
                        f"{os.path.basename(name)} was removed or replaced since it was opened; nothing of "
                        "this batch was kept or answered. Put it back, or stop and open the ledger anew"
                    )

    def ledger_errors(self) -> LedgerErrors:
        """A context that turns errors of SQLite into LedgerErrors, which say what to do."""
        return LedgerErrors(self.path, of_content=False)

    def content_errors(self) -> LedgerErrors:
        """A context that turns any error into a LedgerError, since a damaged file may contain anything."""
        return LedgerErrors(self.path, of_content=True)

    @contextmanager
    def transaction(self, kind: str = "IMMEDIATE") -> Iterator[None]:
        """A transaction: what the block writes is written as a whole, or not at all.

        In a DEFERRED one the block reads the ledger as it is at one moment, whatever is written meanwhile.
        """
        self.rows(f"BEGIN {kind}")
        try:
            yield
            self.rows("COMMIT")
        finally:
            # SQLite may have ended it by itself after an error
            if self.connection.in_transaction:
                self.rows("ROLLBACK")

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """All rows that a statement finds."""
        with self.ledger_errors():
            return self.connection.execute(sql, parameters).fetchall()

    def value(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """The first value of the first row that a statement finds; None if it finds none."""
        rows = self.rows(sql, parameters)
        return rows[0][0] if rows else None

    # -- reading

    def _sound_rows(self, table: str, order: str) -> list[Any]:
        """All rows of a table in the order of a column, each compared with its checksum."""
        rows = self.rows(f"SELECT * FROM {table} ORDER BY {order}")
        with self.ledger_errors():
            for row in rows:
                schema.check_sum(table, row)
        return rows

    def about(self, name: str) -> Any:
        """A value of the table `about`; None if it is not there."""
        rows = self.rows("SELECT * FROM about")
        with self.ledger_errors():
            for row in rows:
                # all rows are checked, since the damaged name of another row may have been this one; a ledger
                # that was opened as damaged answers all the same
                if row[0] == name or not self._damaged:
                    schema.check_sum("about", row)
        return next((value for other, value, _ in rows if other == name), None)

    def tail(self) -> int:
        """The number of the last event up to which every state holds all events of its key."""
        return self._count("tail")

    def early(self) -> int:
        """How many outcomes were accepted whose time lies before that of their query."""
        return self._count("early")

    def _count(self, name: str) -> int:
        number = self.about(name) or 0
        if type(number) is not int:
            with self.ledger_errors():
                raise ValueError(
                    f"table about: {name!r} must be a whole number, got {number!r}. {REPAIR_ADVICE}"
                )
        return number

    def reliability(self) -> Any:
        """The stored reliability of all keys together; None if there is none, or if it is damaged.

        Forecasts do not depend on it, so it begins anew then.
        """
        rows = self.rows("SELECT * FROM reliability")
        return rows[0][1] if len(rows) == 1 and schema.is_sound(rows[0]) else None

    def last_numbers(self) -> tuple[int, int]:
        """The numbers of the last event and of the last key; 0 where there is none."""
        with self.ledger_errors():
            last: tuple[int, int] = self.connection.execute(HIGHEST_SQL).fetchone()
            return last

    def check_reach(self) -> None:
        """LedgerError if states, or `tail`, hold more events than the log has, or a state is of no key.

        Then a part of the log is lost, or a state is not where it is looked for.
        """
        [(highest, homeless)] = self.rows(
            "SELECT max(s.number), sum(k.number IS NULL) FROM states AS s"
            " LEFT JOIN keys AS k ON k.number = s.key"
        )
        reached, last = max(self.tail(), highest or 0), self.last_numbers()[0]
        with self.ledger_errors():
            if reached > last:
                raise ValueError(
                    f"its states go up to event {reached}, but its log ends with {last}. {REPAIR_ADVICE}"
                )
            if homeless:
                raise ValueError(f"{homeless} of its states belong to keys that it lacks. {REPAIR_ADVICE}")

    def records(
        self, condition: str, parameters: Sequence[Any], queries: str = "queries AS q"
    ) -> list[schema.Record]:
        """Those of the `queries` for which a condition holds, which may say their order, too."""
        rows = self.rows(RECORDS_SQL.format(queries, condition), parameters)
        with self.content_errors():
            return list(map(schema.recalled, rows))

    def each_record(self, condition: str, parameters: Sequence[Any]) -> Iterator[schema.Record]:
        """The same one by one: a long log does not fit into memory."""
        with self.ledger_errors(), self.content_errors():
            for row in self.connection.execute(RECORDS_SQL.format("queries AS q", condition), parameters):
                yield schema.recalled(row)

    def recall(self, ids: Iterable[str]) -> dict[str, schema.Record]:
        """The queries among these ids that the ledger holds."""
        # one look-up for each id, in their order: a set of them would be sorted first
        named = "json_each(?) AS j CROSS JOIN queries AS q ON q.id = j.value"
        return {record.id: record for record in self.records("1", (names_in(ids),), named)}

    def keys_named(self, names: Iterable[str]) -> list[schema.Snapshot]:
        """The keys among these names that the ledger knows."""
        return self._snapshots("k.name", names_in(names))

    def keys_numbered(self, numbers: Iterable[int]) -> list[schema.Snapshot]:
        """The keys with these numbers."""
        return self._snapshots("k.number", json.dumps(list(numbers)))

    def _snapshots(self, column: str, values: str) -> list[schema.Snapshot]:
        rows = self.rows(
            "SELECT k.*, s.* FROM json_each(?) AS j"
            f" CROSS JOIN keys AS k ON {column} = j.value LEFT JOIN states AS s ON s.key = k.number",
            (values,),
        )
        with self.content_errors():
            return [schema.snapshot(row) for row in rows]

    def log(self, after: int, most: int) -> list[schema.Logged]:
        """At most so many of the events after a number, in their order; LedgerError if one is lost."""
        rows = self.rows(f"{LOG_SQL} ORDER BY 1 LIMIT ?", (after, after, most))
        with self.content_errors():
            events = list(map(schema.sound_event, rows))
            for number, event in enumerate(events, after + 1):
                if event.number != number:
                    raise ValueError(f"event {number} is lost. {REPAIR_ADVICE}")
        return events

    def archives(self) -> list[Any]:
        """The rows of the table `archives`, the oldest first."""
        return self._sound_rows("archives", "number")

    def checkpoint(self) -> int:
        """The number of the last event that was archived; 0 if none was."""
        return max((row[0] for row in self.archives()), default=0)

    def log_by_key(self, upto: int = schema.LARGEST_NUMBER) -> Iterator[tuple[int, list[schema.Logged]]]:
        """The number of each key, and its events after the checkpoint, up to a number, in their order.

        The keys that have no event after the checkpoint come last. Sums are not looked at.
        """
        after = self.checkpoint()
        without_events = {row[0] for row in self.rows("SELECT key FROM checkpoints")}
        with self.ledger_errors():
            sql = f"SELECT * FROM ({LOG_SQL}) WHERE at <= ? AND of IS NOT NULL ORDER BY of, at"
            events = map(schema.logged, self.connection.execute(sql, (after, after, upto)))
            for number, log in groupby(events, key=attrgetter("key")):
                without_events.discard(number)
                yield number, list(log)
        for number in sorted(without_events):
            yield number, []

    def summaries(self, after: int = 0, most: int = -1) -> Iterator[tuple[str, int, Summary]]:
        """(name, configuration, summary) of at most so many keys after a number.

        The summaries are as of the states that are written, and empty where none is.
        """
        with self.content_errors():
            for row in self.connection.execute(
                "SELECT k.*, s.* FROM keys AS k LEFT JOIN states AS s ON s.key = k.number"
                " WHERE k.number > ? ORDER BY k.number LIMIT ?",
                (after, most),
            ):
                _, name, place, _, state = schema.snapshot(row)
                summary = EMPTY_SUMMARY
                if state is not None:
                    figures = row[schema.SUMMARY_PART]
                    summary = replace(Summary(*figures), watched=watched_in(name, state))
                yield name, place, summary

    def counts(self) -> tuple[int, int]:
        """How many queries were accepted, and how many of them were closed, those in archives included."""
        queries, closings = self._counts_here()
        for _, _, archived_queries, archived_closings, *_ in self.archives():
            queries, closings = queries + archived_queries, closings + archived_closings
        return queries, closings

    def events_here(self) -> int:
        """How many events there are after the checkpoint."""
        return sum(self._counts_here())

    def _counts_here(self) -> tuple[int, int]:
        """How many queries and how many closings there are after the checkpoint."""
        start = self.checkpoint()
        queries, closings = (
            self.value(f"SELECT count(*) FROM {table} WHERE number > ?", (start,))
            for table in ("queries", "closings")
        )
        return queries, closings

    def damage(self) -> list[str]:
        """What SQLite finds wrong with the file, indexes, constraints and references included."""
        problems = [row[0] for row in self.rows("PRAGMA integrity_check") if row[0] != "ok"]
        lost = self.rows('SELECT "table", parent, count(*) FROM pragma_foreign_key_check GROUP BY 1, 2')
        words = "{2} rows of {0} refer to {1} that are not there"
        return problems + [words.format(*row) for row in lost]

    def noted(self, path: str | bytes) -> schema.InputPosition | None:
        """How far an input has been answered; None if it was never read."""
        for row in self.rows("SELECT * FROM inputs WHERE path = ?", (path,)):
            if schema.is_sound(row):
                return schema.InputPosition(*row[:-1])
            with self.ledger_errors():
                raise ValueError(
                    f"its note of how far {path!r} was answered is damaged: start without --resume, or "
                    "repair the ledger"
                )
        return None

    def parking(self, most: int) -> Parking:
        """The outcomes that wait for their queries; `most` is `park` of the configuration."""
        rows, counts = self.rows("SELECT * FROM parked ORDER BY number"), self.parking_counts()
        with self.content_errors():
            for row in rows:
                schema.check_sum("parked", row)
            parking = Parking(most, (ParkedOutcome(*row[:-1]) for row in rows), counts)
            if len(rows) != counts.waiting:
                there = f"{counts.waiting} outcomes were parked, but {len(rows)} of them are there"
                raise ValueError(f"{there}. {REPAIR_ADVICE}")
        return parking

    def parking_counts(self) -> ParkingCounts:
        """How many outcomes are parked, and what became of those that were."""
        written = self.about("parked") or "{}"
        with self.content_errors():
            return decode(written, type=ParkingCounts)

    def inputs(self) -> list[schema.InputPosition]:
        """How far each input has been answered."""
        return [schema.InputPosition(*row[:-1]) for row in self._sound_rows("inputs", "path")]

    def outbox(self) -> list[schema.UndeliveredAnswers]:
        """The answers that are not known to have been delivered, the oldest first."""
        return [schema.UndeliveredAnswers(*row[:-1]) for row in self._sound_rows("outbox", "number")]

    def last_kept(self) -> int:
        """The number of the last row of the outbox; 0 if it is empty."""
        return self.value("SELECT max(number) FROM outbox") or 0

    # -- writing

    def write_about(self, name: str, value: Any) -> None:
        """Write a value into the table `about`."""
        with self.ledger_errors():
            schema.write_about(self.connection, name, value)

    def commit(
        self,
        log: Mapping[str, schema.ByColumns],
        states: Sequence[schema.StateRow],
        about: Mapping[str, Any],
        after: tuple[int, int],
        inputs: Sequence[schema.InputPosition] = (),
        reliability: bytes | None = None,
        released: Sequence[int] = (),
        kept: Sequence[schema.UndeliveredAnswers] = (),
        delivered: int = 0,
    ) -> None:
        """Make all of a batch durable, or, with a LedgerError, nothing of it.

        The batch itself: `log` has the new rows of keys, queries, closings and parked outcomes, by table;
        `after` are the numbers of the last event and the last key before them, which must be the ledger's.

        What follows from it: `states` are those of keys that are to be written, `about` the present values of
        the table `about`, by name, and `reliability` that of all keys together, None if it did not change.
        `released` are the numbers of parked outcomes that wait no more.

        Where it came from: `inputs` says how far each input has been answered.

        Where its answers go: `kept` goes into the outbox, and what is there up to the number `delivered`
        leaves it.
        """
        # after a commit that fails or is refused, they have to be written again
        before, self._about = self._about, {}
        self.check_in_place()
        with self.ledger_errors(), self.transaction():
            if self.last_numbers() != after:
                raise ValueError(
                    "another process has written to this ledger; nothing of this batch was kept. Stop that "
                    "process, open the ledger anew, and send the batch again"
                )
            if released:
                # an id may be parked anew
                gone = [(number,) for number in released]
                self.connection.executemany("DELETE FROM parked WHERE number = ?", gone)
            for table, columns in log.items():
                # most batches are of one event
                if columns and columns[0]:
                    schema.write_rows(self.connection, table, columns)
            if inputs:
                schema.write_rows(self.connection, "inputs", schema.by_columns(inputs))
            if delivered:
                self.connection.execute("DELETE FROM outbox WHERE number <= ?", (delivered,))
            if kept:
                schema.write_rows(self.connection, "outbox", schema.by_columns(kept))
            if states:
                schema.write_states(self.connection, states)
            for name, value in about.items():
                if value != before.get(name):
                    self.write_about(name, value)
            if reliability is not None:
                self.connection.execute("DELETE FROM reliability")
                schema.write_rows(self.connection, "reliability", [[0], [reliability]])
        self._about = about


def names_in(names: Iterable[Any]) -> str:
    """Names as a parameter of a statement, without what can be no name and so is in no ledger.

    It must not reach SQLite, which cuts a text in JSON at a NUL and would find another name.
    """
    return encode(only_names(list(names))).decode()
