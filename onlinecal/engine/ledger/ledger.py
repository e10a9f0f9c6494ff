"""The ledger: one SQLite file that holds every accepted event, and from time to time each key's state.

All changes of a batch are one transaction; when `commit` returns they are on disk. One process writes, and
keeps others from it by a lock that ends with the process; any number may read.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from msgspec.json import encode

from onlinecal.engine.events import only_names
from onlinecal.engine.keys.key import Summary
from onlinecal.engine.ledger import schema
from onlinecal.engine.ledger.file import (
    CANNOT_WRITE,
    MEND,
    PARTS,
    InWords,
    WriterLock,
    check_one_name,
    code_of,
    identity_of,
)
from onlinecal.engine.ledger.schema import (
    EVERY,
    LAST_NUMBER,
    Changes,
    Logged,
    Noted,
    Record,
    Snapshot,
    Summing,
    logged,
    recalled,
    summary_in,
    write_rows,
    write_states,
)

LOG = (
    "SELECT q.number, q.key, q.id, 0, q.time, q.hint, q.probability, q.certificate FROM queries AS q"
    " WHERE q.number > ?"
    " UNION ALL SELECT c.number, q.key, q.id, 1, c.time, c.value, NULL, NULL FROM closings AS c"
    " JOIN queries AS q ON q.number = c.query WHERE c.number > ?"
)
"""The events after a number, which is given twice; the columns are those of `Logged`."""

HIGHEST = "SELECT max({}, {}, {}), {}".format(
    *(
        f"coalesce((SELECT max(number) FROM {table}), 0)"
        for table in ("queries", "closings", "archives", "keys")
    )
)
"""The numbers of the last event and of the last key; 0 where there is none."""

Tell = Callable[[int, int], object]
"""Called with how many events are done, and of how many."""


def silent(_done: int, _all: int) -> None:
    """Tell nobody."""


class Ledger:
    """An open ledger: what is known of ids, keys and the log, and the commits that add to it.

    Raises LedgerError if the file cannot be opened, is no ledger, is damaged, or is in use by another writer.

    Parameters
    ----------
    path
        The file; None: one in memory, for trying things out.
    read_only
        Whether it is only looked at, also while another process writes.
    window
        After so many events at the latest the checksums of the log are written.
    """

    _tail = -1
    """What the last commit wrote: it is mostly the same for many batches."""
    _sums: Summing | None = None
    """Of the last commit, if it did not fail."""
    _lock: WriterLock | None = None
    _connection: sqlite3.Connection | None = None

    def __init__(self, path: Path | None, read_only: bool = False, window: int = EVERY) -> None:
        self.path, self._read_only, self._window = path, read_only, window
        # links and relative names out of the way, two who mean the same file call it the same
        self._file = "" if path is None else os.path.realpath(path)
        self._identities: dict[str, tuple[int, int] | None] = {}
        try:
            with self.ledger_errors():
                if path is not None and not read_only:
                    self._lock = WriterLock(self._file)
                check_one_name(self._file)
                self._connection = self._connect()
                if self._lock is not None:
                    names = [f"{self._file}{part}" for part in PARTS]
                    self._identities = {name: found for name in names if (found := identity_of(name))}
        except BaseException:
            if self._lock is not None:
                self._lock.abandon()
            self.close()
            raise

    def _connect(self) -> sqlite3.Connection:
        if self.path is None:
            return self._opened(":memory:")
        if self._read_only and not self.path.is_file():
            raise ValueError("there is no such ledger")
        target = f"{Path(self._file).as_uri()}?mode={'ro' if self._read_only else 'rwc'}"
        try:
            return self._opened(target)
        except sqlite3.OperationalError as error:
            # where nothing may be written, SQLite reads a ledger at rest if it is told that it rests
            at_rest = self._read_only and not os.path.exists(f"{self._file}-wal")
            if not at_rest or code_of(error) not in CANNOT_WRITE:
                raise
            return self._opened(f"{target}&immutable=1")

    def _opened(self, target: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            target, uri=True, isolation_level=None, check_same_thread=False, timeout=10.0
        )
        try:
            if self._read_only:
                schema.check(connection)
            else:
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("PRAGMA cache_size = -65536")
                schema.prepare(connection)
                # not before it is known to be ours: it changes the file
                connection.execute("PRAGMA journal_mode = WAL")
                # from the first look on, all its files are there
                schema.is_empty(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def connection(self) -> sqlite3.Connection:
        """The open connection; ValueError after `close`."""
        if self._connection is None:
            raise ValueError("the ledger is closed")
        return self._connection

    def close(self) -> None:
        """Let go of the file and the lock."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def check_in_place(self) -> None:
        """LedgerError if what is written now would be lost, or this is not the only writer any more."""
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

    def ledger_errors(self) -> InWords:
        """Say in a LedgerError what is wrong with the file and what to do."""
        return InWords(self.path, of_content=False)

    def content_errors(self) -> InWords:
        """Turn whatever goes wrong with what was read into a LedgerError: a damaged file may say anything."""
        return InWords(self.path, of_content=True)

    @contextmanager
    def transaction(self, kind: str = "IMMEDIATE") -> Iterator[None]:
        """What is written inside is written as a whole, or not at all.

        In one of the kind DEFERRED all that is read is of one moment, whatever is written meanwhile.
        """
        self.connection.execute(f"BEGIN {kind}")
        try:
            yield
            self.connection.execute("COMMIT")
        finally:
            # SQLite may have ended it by itself, over an error
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """All rows that a statement finds."""
        with self.ledger_errors():
            return self.connection.execute(sql, parameters).fetchall()

    def value(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """The first value of the first row that a statement finds; None if it finds none."""
        rows = self.rows(sql, parameters)
        return rows[0][0] if rows else None

    # -- what is read

    def about(self, name: str) -> Any:
        """A fact about the ledger; None if it is not known."""
        return self.value("SELECT value FROM about WHERE name = ?", (name,))

    def tail(self) -> int:
        """The number up to which all states hold what happened."""
        with self.ledger_errors():
            found = self.about("tail")
            if found is not None and type(found) is not int:
                raise ValueError(f"`tail`, up to where all states go, is damaged, {found!r}: {MEND}")
            return found or 0

    def reliability(self) -> Any:
        """What the ledger has of the reliability of all keys together; None if nothing."""
        return self.value("SELECT bins FROM reliability")

    def last_numbers(self) -> tuple[int, int]:
        """The numbers of the last event and of the last key; 0 where there is none."""
        with self.ledger_errors():
            last: tuple[int, int] = self.connection.execute(HIGHEST).fetchone()
            return last

    def recall(self, ids: Iterable[str]) -> dict[str, Record]:
        """The queries among these ids that the ledger holds."""
        rows = self.rows(
            "SELECT q.number, q.id, k.name, q.hint, q.time, q.probability, q.certificate,"
            " c.number, c.value, c.time FROM json_each(?) AS j CROSS JOIN queries AS q ON q.id = j.value"
            " JOIN keys AS k ON k.number = q.key LEFT JOIN closings AS c ON c.query = q.number",
            (names_in(ids),),
        )
        with self.content_errors():
            return {row[1]: recalled(row) for row in rows}

    def keys_named(self, names: Iterable[str]) -> list[Snapshot]:
        """The keys among these names that the ledger knows."""
        return self._snapshots("k.name", names_in(names))

    def keys_numbered(self, numbers: Iterable[int]) -> list[Snapshot]:
        """The keys with these numbers."""
        return self._snapshots("k.number", json.dumps(list(numbers)))

    def _snapshots(self, column: str, values: str) -> list[Snapshot]:
        rows = self.rows(
            "SELECT k.number, k.name, k.config, coalesce(s.number, 0), s.state FROM json_each(?) AS j"
            f" CROSS JOIN keys AS k ON {column} = j.value LEFT JOIN states AS s ON s.key = k.number",
            (values,),
        )
        return [Snapshot(*row) for row in rows]

    def log(self, after: int, most: int) -> list[Logged]:
        """The events with higher numbers in their order, at most so many."""
        rows = self.rows(f"{LOG} ORDER BY 1 LIMIT ?", (after, after, most))
        with self.content_errors():
            return [logged(row) for row in rows]

    def checkpoint(self) -> int:
        """The number of the last event that was archived; 0 if none was."""
        return self.value("SELECT coalesce(max(number), 0) FROM archives")

    def log_by_key(self, upto: int = LAST_NUMBER) -> Iterator[tuple[int, list[Logged]]]:
        """The number of each key, and its events behind the checkpoint, up to a number, in their order.

        At last come the keys that have had none since then.
        """
        after, silent_ones = self.checkpoint(), {row[0] for row in self.rows("SELECT key FROM checkpoints")}
        with self.ledger_errors():
            sql = f"SELECT * FROM ({LOG}) WHERE number <= ? ORDER BY key, number"
            events = map(logged, self.connection.execute(sql, (after, after, upto)))
            for number, log in groupby(events, key=attrgetter("key")):
                silent_ones.discard(number)
                yield number, list(log)
        for number in sorted(silent_ones):
            yield number, []

    def summaries(self, after: int = 0, most: int = -1) -> Iterator[tuple[str, int, Summary]]:
        """(name, configuration, summary) of every key, as of the state that is written; empty if none is.

        Of the keys with higher numbers, if one is given, and at most so many.
        """
        with self.content_errors():
            for row in self.connection.execute(
                "SELECT k.name, k.config, s.rounds, s.open, s.expired, s.certificate, s.guarantee, s.oldest,"
                " s.state FROM keys AS k LEFT JOIN states AS s ON s.key = k.number"
                " WHERE k.number > ? ORDER BY k.number LIMIT ?",
                (after, most),
            ):
                yield row[0], row[1], summary_in(row[0], row[2:])

    def counts(self) -> tuple[int, int]:
        """How many queries were accepted, and how many of them were closed, those in archives included."""
        [found] = self.rows(
            "SELECT {}, {} FROM archives".format(
                *(
                    f"(SELECT count(*) FROM {table} WHERE number > ?1) + coalesce(sum({table}), 0)"
                    for table in ("queries", "closings")
                )
            ),
            (self.checkpoint(),),
        )
        return found

    def events_here(self) -> int:
        """How many events there are behind the checkpoint."""
        return sum(self.counts()) - self.value("SELECT coalesce(sum(queries + closings), 0) FROM archives")

    def damage(self) -> list[str]:
        """What SQLite finds wrong with the file: indexes, constraints and references included."""
        found = [row[0] for row in self.rows("PRAGMA integrity_check")]
        lost = self.rows('SELECT "table", parent, count(*) FROM pragma_foreign_key_check GROUP BY 1, 2')
        return [one for one in found if one != "ok"] + [
            f"{count} rows of {table} refer to {parent} that are not there" for table, parent, count in lost
        ]

    def noted(self, path: str | bytes) -> Noted | None:
        """How far an input has been answered; None if it was never read."""
        rows = self.rows("SELECT path, position, mark FROM inputs WHERE path = ?", (path,))
        return Noted(*rows[0]) if rows else None

    # -- what is written

    def tell(self, name: str, value: Any) -> None:
        """Write down a fact about the ledger."""
        with self.ledger_errors():
            self.connection.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (name, value))

    def commit(self, changes: Changes) -> None:
        """Make all of a batch durable, or, with a LedgerError, nothing of it."""
        self.check_in_place()
        with self.ledger_errors(), self.transaction():
            # what came of a commit that fails is not to be gone on with
            sums, tail = self._sums, self._tail
            self._sums, self._tail = None, -1
            if self.last_numbers() != changes.after:
                raise ValueError("another process has written to this ledger; nothing of this batch was kept")
            sums = sums or Summing(self.connection, self._window)
            for table, rows, width in (
                ("keys", changes.keys, 3),
                ("queries", changes.queries, 7),
                ("closings", changes.closings, 4),
            ):
                # most batches are of one event
                if rows:
                    write_rows(self.connection, table, rows, width)
                    sums.note(table, rows)
            if changes.inputs:
                write_rows(self.connection, "inputs", changes.inputs, 3)
            if changes.states:
                write_states(self.connection, changes.states)
            if changes.tail != tail:
                self.tell("tail", changes.tail)
            if changes.reliability is not None:
                self.connection.execute(
                    "INSERT OR REPLACE INTO reliability VALUES (0, ?)", (changes.reliability,)
                )
            sums.write(changes.after[0], anyway=changes.tail != tail)
        self._tail, self._sums = changes.tail, sums


def names_in(given: Iterable[Any]) -> str:
    """Names as a parameter of a statement; what can be no name is in no ledger, and is left out.

    It must not come as far as SQLite, which cuts a text in JSON at a NUL and would find another name.
    """
    return encode(only_names(list(given))).decode()
