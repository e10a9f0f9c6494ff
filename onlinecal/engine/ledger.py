"""The ledger: one SQLite file that holds every accepted event, and from time to time each key's state.

All changes of a batch are one transaction; when `commit` returns they are on disk. One process writes, and
keeps others from it by a lock that ends with the process; any number may read.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from onlinecal.engine import schema
from onlinecal.engine.keyed import Summary


class LedgerError(OSError):
    """The ledger cannot be read or written; nothing of the batch at hand was kept."""


class Record(NamedTuple):
    """A query that the ledger holds, and how it was closed."""

    number: int
    id: str
    key: str
    hint: Any
    time: float | None
    probability: Any
    certificate: float
    closed: int | None
    """The number of the closing event; None while there is none."""
    value: Any
    """None: withdrawn."""
    closed_time: float | None


class Logged(NamedTuple):
    """An event of the log: a query, or the closing of one."""

    number: int
    key: int
    id: str
    closes: bool
    time: float | None
    value: Any
    """The hint of a query, the value of a closing (None: withdrawn)."""
    probability: Any
    certificate: float | None


class Snapshot(NamedTuple):
    """A key as the ledger knows it: `state` holds its events up to `upto`."""

    number: int
    name: str
    config: int
    upto: int
    state: bytes | None


class Changes(NamedTuple):
    """What a batch adds: rows in the order of the tables' columns."""

    keys: Sequence[tuple[int, str, int]]
    queries: Sequence[tuple[int, str, int, Any, float | None, Any, float]]
    closings: Sequence[tuple[int, int, Any, float | None]]
    states: Sequence[tuple[int, int, Summary, bytes]]
    tail: int
    inputs: Sequence[tuple[str, int]] = ()


NOTHING = Summary(0, 0, 0, 0.0, 0.0, None)

LOG = (
    "SELECT q.number, q.key, q.id, 0, q.time, q.hint, q.probability, q.certificate FROM queries AS q"
    " WHERE q.number > ?"
    " UNION ALL SELECT c.number, q.key, q.id, 1, c.time, c.value, NULL, NULL FROM closings AS c"
    " JOIN queries AS q ON q.number = c.query WHERE c.number > ?"
)
"""The events after a number, which is given twice; the columns are those of `Logged`."""


class Ledger:
    """An open ledger. `path` None: one in memory, for trying things out.

    Raises LedgerError if the file cannot be opened, is no ledger, is damaged, or is in use by another writer.
    """

    def __init__(self, path: Path | None, read_only: bool = False) -> None:
        self.path, self.read_only = path, read_only
        self._lock: TextIO | None = None
        self._connection: sqlite3.Connection | None = None
        try:
            if path is not None and not read_only:
                self._lock = lock(path)
            self._connection = self._connect()
        except BaseException:
            self.close()
            raise

    def _connect(self) -> sqlite3.Connection:
        target = ":memory:"
        if self.path is not None:
            if self.read_only and not self.path.is_file():
                raise LedgerError(f"{self.path}: there is no such ledger")
            target = f"{self.path.absolute().as_uri()}?mode={'ro' if self.read_only else 'rwc'}"
        with self._telling():
            try:
                return self._opened(target)
            except sqlite3.OperationalError as error:
                # where nothing may be written, SQLite reads a ledger at rest if it is told that it rests
                if not self.read_only or code_of(error) not in CANNOT_WRITE or wal_of(self.path).exists():
                    raise
                return self._opened(f"{target}&immutable=1")

    def _opened(self, target: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            target, uri=True, isolation_level=None, check_same_thread=False, timeout=10.0
        )
        try:
            if self.read_only:
                row = connection.execute("SELECT * FROM pragma_application_id, pragma_user_version")
                schema.check_current(*row.fetchone())
            else:
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("PRAGMA cache_size = -65536")
                schema.prepare(connection)
                # not before it is known to be ours: it changes the file
                connection.execute("PRAGMA journal_mode = WAL")
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
            self._lock.close()
            self._lock = None

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Say in a LedgerError what is wrong with the file and what to do."""
        try:
            yield
        except sqlite3.Error as error:
            raise LedgerError(f"{self.path or 'the ledger'}: {advice(error)}") from error
        except ValueError as error:
            raise LedgerError(f"{self.path or 'the ledger'}: {error}") from error

    @contextmanager
    def making_sense(self) -> Iterator[None]:
        """Turn whatever goes wrong with what was read into a LedgerError: a damaged file may say anything."""
        with self._telling():
            try:
                yield
            except (OSError, ValueError, sqlite3.Error):
                raise
            except Exception as error:
                raise ValueError(f"its content makes no sense ({error!r}). {MEND}") from error

    def _rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        with self._telling():
            return self.connection.execute(sql, parameters).fetchall()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Reads inside see one state of the ledger, whatever is written meanwhile."""
        with self._telling():
            self.connection.execute("BEGIN")
        try:
            yield
        finally:
            # SQLite may have ended it by itself, over an error
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")

    def about(self, name: str) -> Any:
        """A fact about the ledger; None if it is not known."""
        rows = self._rows("SELECT value FROM about WHERE name = ?", (name,))
        return rows[0][0] if rows else None

    def tell(self, name: str, value: Any) -> None:
        """Write down a fact about the ledger."""
        with self._telling():
            self.connection.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (name, value))

    def last_numbers(self) -> tuple[int, int]:
        """The numbers of the last event and of the last key; 0 where there is none."""
        highest = "SELECT max(number) FROM "
        events = [self._rows(highest + table)[0][0] or 0 for table in ("queries", "closings")]
        return max(events), self._rows(highest + "keys")[0][0] or 0

    def recall(self, ids: Iterable[str]) -> dict[str, Record]:
        """The queries among these ids that the ledger holds."""
        rows = self._rows(
            "SELECT q.number, q.id, k.name, q.hint, q.time, q.probability, q.certificate,"
            " c.number, c.value, c.time FROM json_each(?) AS j CROSS JOIN queries AS q ON q.id = j.value"
            " JOIN keys AS k ON k.number = q.key LEFT JOIN closings AS c ON c.query = q.number",
            (json.dumps(list(ids)),),
        )
        with self.making_sense():
            return {
                row[1]: Record(*row)._replace(hint=loaded(row[3]), probability=loaded(row[5])) for row in rows
            }

    def keys_named(self, names: Iterable[str]) -> list[Snapshot]:
        """The keys among these names that the ledger knows."""
        return self._snapshots(
            "json_each(?) AS j CROSS JOIN keys AS k ON k.name = j.value", json.dumps(list(names))
        )

    def keys_numbered(self, numbers: Iterable[int]) -> list[Snapshot]:
        """The keys with these numbers."""
        return self._snapshots(
            "json_each(?) AS j CROSS JOIN keys AS k ON k.number = j.value", json.dumps(list(numbers))
        )

    def _snapshots(self, source: str, parameter: str) -> list[Snapshot]:
        rows = self._rows(
            f"SELECT k.number, k.name, k.config, coalesce(s.number, 0), s.state FROM {source}"
            " LEFT JOIN states AS s ON s.key = k.number",
            (parameter,),
        )
        return [Snapshot(*row) for row in rows]

    def log(self, after: int, most: int) -> list[Logged]:
        """The events with higher numbers in their order, at most so many."""
        rows = self._rows(f"{LOG} ORDER BY 1 LIMIT ?", (after, after, most))
        with self.making_sense():
            return [logged(row) for row in rows]

    def log_by_key(self) -> Iterator[Logged]:
        """All events, key after key, each key's in their order."""
        with self._telling():
            for row in self.connection.execute(f"{LOG} ORDER BY 2, 1", (0, 0)):
                yield logged(row)

    def summaries(self, after: int = 0, most: int = -1) -> Iterator[tuple[str, int, Summary]]:
        """(name, configuration, summary) of every key, as of the state that is written; empty if none is.

        Of the keys with higher numbers, if one is given, and at most so many.
        """
        with self._telling():
            for row in self.connection.execute(
                "SELECT k.name, k.config, s.rounds, s.open, s.expired, s.certificate, s.guarantee, s.oldest"
                " FROM keys AS k LEFT JOIN states AS s ON s.key = k.number"
                " WHERE k.number > ? ORDER BY k.number LIMIT ?",
                (after, most),
            ):
                yield row[0], row[1], NOTHING if row[2] is None else Summary(*row[2:])

    def counts(self) -> tuple[int, int]:
        """How many queries were accepted, and how many of them were closed."""
        return tuple(self._rows(f"SELECT count(*) FROM {table}")[0][0] for table in ("queries", "closings"))

    def query_numbered(self, number: int) -> tuple[str, float | None]:
        """The id and the time of a query."""
        return self._rows("SELECT id, time FROM queries WHERE number = ?", (number,))[0]

    def position(self, path: str) -> int | None:
        """How many bytes of an input have been answered; None if it was never read."""
        rows = self._rows("SELECT position FROM inputs WHERE path = ?", (path,))
        return rows[0][0] if rows else None

    def damage(self) -> list[str]:
        """What SQLite finds wrong with the file, its indexes included; empty if nothing."""
        found = [row[0] for row in self._rows("PRAGMA integrity_check")]
        return [] if found == ["ok"] else found

    def commit(self, changes: Changes) -> None:
        """Make all of a batch durable, or, with a LedgerError, nothing of it."""
        with self._telling():
            execute, many = self.connection.execute, self.connection.executemany
            execute("BEGIN IMMEDIATE")
            try:
                many("INSERT INTO keys VALUES (?, ?, ?)", changes.keys)
                many("INSERT INTO queries VALUES (?, ?, ?, ?, ?, ?, ?)", changes.queries)
                many("INSERT INTO closings VALUES (?, ?, ?, ?)", changes.closings)
                many(
                    "INSERT OR REPLACE INTO states VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        (key, upto, s.rounds, s.open, s.expired, s.certificate, s.guarantee, s.oldest, state)
                        for key, upto, s, state in changes.states
                    ),
                )
                many("INSERT OR REPLACE INTO inputs VALUES (?, ?)", changes.inputs)
                execute("INSERT OR REPLACE INTO about VALUES ('tail', ?)", (changes.tail,))
                execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    execute("ROLLBACK")
                raise


def lock(path: Path) -> TextIO:
    """Keep other writers away while this process lives; LedgerError if there is one already."""
    import fcntl

    try:
        handle = open(f"{path}-lock", "w")  # noqa: SIM115
    except OSError as error:
        raise LedgerError(f"{path}: cannot be written here: {error.strerror}") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        handle.close()
        raise LedgerError(
            f"{path}: another process writes to this ledger; stop it first, or read with `stream report`"
        ) from error
    return handle


def logged(row: tuple[Any, ...]) -> Logged:
    """A row of LOG."""
    number, key, id, closes, time, value, probability, certificate = row
    kept = value if closes else loaded(value)
    return Logged(number, key, id, bool(closes), time, kept, loaded(probability), certificate)


def stored(value: Any) -> Any:
    """A hint or a probability as the tables keep it: a number, or an object as JSON."""
    return json.dumps(value) if isinstance(value, dict) else value


def loaded(value: Any) -> Any:
    """What `stored` was given."""
    return json.loads(value) if isinstance(value, str) else value


def wal_of(path: Path | None) -> Path:
    """The file with a ledger's last commits, which is there while it is in use, or was left in a hurry."""
    return Path(f"{path}-wal")


def code_of(error: sqlite3.Error) -> int:
    """SQLite's code of an error, 0 if it has none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def advice(error: sqlite3.Error) -> str:
    """What happened to a ledger, in a sentence that says what to do."""
    code = code_of(error)
    for codes, sentence in ADVICE:
        if code in codes:
            return f"{sentence} ({error})"
    return str(error)


CANNOT_WRITE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN)

MEND = (
    "Try `onlinecal stream repair`, or feed the same input to a new ledger:"
    " it answers with the same forecasts"
)

ADVICE: list[tuple[tuple[int, ...], str]] = [
    ((sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR),
     "could not be written; nothing of this batch was kept or answered. Make room and send it again"),
    (CANNOT_WRITE,
     "cannot be opened for writing. Check the permissions of the file and its folder"),
    ((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB),
     f"is damaged or no ledger. {MEND}"),
    ((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED), "is held by another process"),
]  # fmt: skip
