"""The tables of a ledger, their rows as objects, and the checksums of the log.

Queries and closings are the log. They share one numbering, in the order in which the engine accepted them,
and are never changed. The state of a key is what its events up to some number lead to; it can be rebuilt.

A replay does not notice if an event has another time, or if two ids have changed places. So the ledger keeps
a CRC-32 of each column of the log that a replay cannot check: numbers, ids, names, times. A checksum goes on
from row to row in the order of their numbers. It is computed from what is in memory anyway, and written with
the states, which adds 2 to 3 % to a commit. It finds accidents, not fraud: who can write to the file can also
compute the checksums anew.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple
from zlib import crc32

import msgspec
from msgspec.structs import astuple

from onlinecal.engine.keys.key import Summary
from onlinecal.version import STATE_FORMAT, check_format

APPLICATION = 0x4F4E4C43
"""The application id that marks a SQLite file as a ledger."""

TABLES = """
CREATE TABLE about (
    name TEXT PRIMARY KEY,      -- config: the engine's configuration as JSON
    value ANY NOT NULL          -- tail: all states hold what happened up to this number
) WITHOUT ROWID, STRICT;        -- sums: the checksums of the log
CREATE TABLE keys (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    config INTEGER NOT NULL     -- which of the configuration's exceptions, -1: the default
) STRICT;
CREATE TABLE queries (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    key INTEGER NOT NULL REFERENCES keys,
    hint ANY,                   -- a number, or JSON
    time REAL,
    probability ANY,            -- a number, or JSON
    certificate REAL NOT NULL
) STRICT;
CREATE TABLE closings (
    number INTEGER PRIMARY KEY,
    query INTEGER NOT NULL UNIQUE REFERENCES queries,
    value ANY,                  -- a number or a label; of a soft label JSON in bytes; NULL: withdrawn
    time REAL
) STRICT;
CREATE TABLE states (
    key INTEGER PRIMARY KEY REFERENCES keys,
    number INTEGER NOT NULL,    -- the last event that the state holds
    rounds INTEGER NOT NULL,
    open INTEGER NOT NULL,
    expired INTEGER NOT NULL,
    certificate REAL NOT NULL,
    guarantee REAL NOT NULL,
    oldest INTEGER,             -- the oldest open query
    state BLOB NOT NULL
) STRICT;
CREATE TABLE reliability (
    number INTEGER PRIMARY KEY, -- 0, the only row
    bins BLOB NOT NULL          -- of all keys together
) STRICT;
CREATE TABLE inputs (
    path ANY PRIMARY KEY,       -- bytes where it is no text
    position INTEGER NOT NULL,  -- bytes of the file that have been answered
    mark BLOB                   -- by what its reader recognises the file; NULL: by nothing
) WITHOUT ROWID, STRICT;
CREATE TABLE checkpoints (      -- the states behind what was archived: the log goes on from them
    key INTEGER PRIMARY KEY REFERENCES keys,
    state BLOB NOT NULL
) STRICT;
CREATE TABLE archives (         -- what was archived (engine/ledger/archive.py)
    number INTEGER PRIMARY KEY, -- the last event in it
    path TEXT NOT NULL,
    queries INTEGER NOT NULL,
    closings INTEGER NOT NULL,
    digest BLOB NOT NULL        -- of the archive's file
) STRICT;
CREATE TABLE archived (         -- the ids that are only in archives
    hash INTEGER PRIMARY KEY
) STRICT;
"""
# SQLite enforces UNIQUE: a query has one closing. That adds 12 % to a commit of 1,000 events if labels are 50
# rounds late, 60 % if they are 5,000 rounds late. With the query as the primary key of closings it would be
# more, since the log needs them in the order of their numbers, too. References are compared by `check` alone:
# to look each query up again would add 10 to 17 %.


def prepare(connection: sqlite3.Connection) -> None:
    """Make the tables in an empty file; ValueError for one of another application, or of another format."""
    if marks_of(connection) == (0, 0) and is_empty(connection):
        connection.executescript(
            f"BEGIN; {TABLES} PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {STATE_FORMAT};"
            "COMMIT;"
        )
    else:
        check(connection)


def check(connection: sqlite3.Connection) -> None:
    """ValueError for what is no ledger, or one of another format."""
    application, version = marks_of(connection)
    if application != APPLICATION:
        raise ValueError(
            "this is a SQLite file, but not a ledger of this onlinecal; a ledger of an older one is read with"
            " the version that wrote it"
        )
    check_format("the ledger", version)


def marks_of(connection: sqlite3.Connection) -> Any:
    """The application of a file, and its format: 0 where there is none."""
    return connection.execute("SELECT * FROM pragma_application_id, pragma_user_version").fetchone()


def is_empty(connection: sqlite3.Connection) -> bool:
    """Whether the file has no tables."""
    return connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0


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
    """A key as the ledger has it; `state` holds its events up to the number `upto`."""

    number: int
    name: str
    config: int
    upto: int
    state: bytes | None


class Noted(NamedTuple):
    """How far an input was answered.

    `path` is its name, bytes where it is no text in UTF-8; `position` up to which byte it was answered;
    `mark` by what its reader recognises it.
    """

    path: str | bytes
    position: int
    mark: bytes | None = None


StateRow = tuple[int, int, Summary, bytes]
"""The number of a key, that of the last event that its state holds, its summary, its state."""


ByColumns = Sequence[Sequence[Any]]
"""The rows of a table as its columns, so that no tuple is made for each of many; or nothing, for no row."""


def recalled(row: tuple[Any, ...]) -> Record:
    """A query's row, with the name of its key, and its closing's, in the order of a record."""
    number, id, key, hint, time, probability, certificate, closed, value, closed_time = row
    said = loaded(hint), time, loaded(probability), certificate
    return Record(number, id, key, *said, closed, loaded_outcome(value), closed_time)


def logged(row: tuple[Any, ...]) -> Logged:
    """A row of the log."""
    number, key, id, closes, time, value, probability, certificate = row
    kept = loaded_outcome(value) if closes else loaded(value)
    return Logged(number, key, id, bool(closes), time, kept, loaded(probability), certificate)


def stored(value: Any) -> Any:
    """A hint or a probability as the tables keep it: a number, or an object as JSON."""
    return json.dumps(value) if isinstance(value, dict) else value


def loaded(value: Any) -> Any:
    """What `stored` was given."""
    return json.loads(value) if isinstance(value, str) else value


def stored_outcome(value: Any) -> Any:
    """An outcome as the tables keep it: a number or a label as it is, a soft label as JSON in bytes.

    So no label, which is any text, can be taken for one.
    """
    return json.dumps(value).encode() if isinstance(value, dict) else value


def loaded_outcome(value: Any) -> Any:
    """What `stored_outcome` was given."""
    return json.loads(value) if isinstance(value, bytes) else value


PARAMETERS = 999
"""How many values a statement may have with every SQLite."""


def by_columns(rows: Iterable[Sequence[Any]]) -> ByColumns:
    """Rows as columns."""
    return list(zip(*rows, strict=True))


def write_rows(connection: sqlite3.Connection, table: str, columns: ByColumns) -> None:
    """Put rows, of which there is at least one, into a table, in their order.

    Many rows go into one statement, which saves a call for each.
    """
    width = len(columns)
    together = PARAMETERS // width
    size = together * width
    values: list[Any] = [None] * (width * len(columns[0]))
    for i, column in enumerate(columns):
        values[i::width] = column
    rest = len(values) - len(values) % size
    for start in range(0, rest, size):
        connection.execute(_insert(table, width, together), values[start : start + size])
    if rest < len(values):
        one = _insert(table, width, 1)
        connection.executemany(one, (values[i : i + width] for i in range(rest, len(values), width)))


@cache
def _insert(table: str, width: int, rows: int) -> str:
    # rows of the log must be new; other rows replace older ones
    row = f"({', '.join('?' * width)})"
    way = "INSERT" if table in ("keys", "queries", "closings") else "INSERT OR REPLACE"
    return f"{way} INTO {table} VALUES {', '.join([row] * rows)}"


def write_states(connection: sqlite3.Connection, states: Iterable[StateRow]) -> None:
    """Write states, which replace older ones."""
    # in the order of keys, since neighbours share a page of the file
    in_order = sorted(states, key=itemgetter(0))
    rows = [(key, upto, *astuple(summary)[:6], state) for key, upto, summary, state in in_order]
    write_rows(connection, "states", by_columns(rows))


CHECKSUMS_EVERY = 1 << 16
"""The checksums are written after so many events at the latest."""
CHUNK = 10_000
LAST_NUMBER = (1 << 63) - 1

CHECKED = {
    "keys": {"number": 0, "name": 1, "config": 2},
    "queries": {"number": 0, "id": 1, "time": 4},
    "closings": {"number": 0, "query": 1, "time": 3},
}
"""The columns that have checksums, by table, with their places in a row."""

Checksums = dict[str, int]
"""The checksums by table and column, and the numbers of the last `key` and of the last `event` in them."""

NO_CHECKSUMS = {"key": 0, "event": 0} | {
    f"{table}.{name}": 0 for table, names in CHECKED.items() for name in names
}


def add_rows(sums: Checksums, table: str, columns: Sequence[Sequence[Any]]) -> None:
    """Go on with new rows of a table; `columns` are those that have checksums, the numbers first."""
    for name, column in zip(CHECKED[table], columns, strict=True):
        data = msgspec.msgpack.encode(column)
        # without the first bytes, which say how many values there are
        head = 1 if len(column) < 16 else 3 if len(column) < 1 << 16 else 5
        sums[f"{table}.{name}"] = crc32(memoryview(data)[head:], sums[f"{table}.{name}"])
    last = "key" if table == "keys" else "event"
    sums[last] = max(sums[last], columns[0][-1])


def written_checksums(connection: sqlite3.Connection) -> Checksums | None:
    """The checksums that a ledger has; None if it has none. ValueError if they make no sense."""
    row = connection.execute("SELECT value FROM about WHERE name = 'sums'").fetchone()
    try:
        checksums = None if row is None else msgspec.json.decode(row[0], type=Checksums)
    except (ValueError, TypeError):
        checksums = {}
    if checksums is not None and checksums.keys() != NO_CHECKSUMS.keys():
        raise ValueError("the checksums of the log are damaged: `onlinecal stream repair` makes them anew")
    return checksums


def checksums_of(
    connection: sqlite3.Connection,
    start: Checksums = NO_CHECKSUMS,
    key: int = LAST_NUMBER,
    event: int = LAST_NUMBER,
) -> Checksums:
    """The checksums of the rows up to these numbers; `start` has those of the first rows already."""
    checksums = dict(start)
    for table, columns in CHECKED.items():
        after, upto = (start["key"], key) if table == "keys" else (start["event"], event)
        sql = f"SELECT {', '.join(columns)} FROM {table} WHERE number > ? AND number <= ? ORDER BY number"
        cursor = connection.execute(sql, (after, upto))
        while rows := cursor.fetchmany(CHUNK):
            add_rows(checksums, table, by_columns(rows))
    return checksums


def changed_columns(connection: sqlite3.Connection) -> list[str]:
    """One sentence for each column that does not have its checksum; later rows are not compared."""
    written = written_checksums(connection)
    if written is None:
        # before the first commit there are none
        empty = connection.execute("SELECT 1 FROM about WHERE name = 'tail'").fetchone() is None
        return [] if empty else ["the checksums of the log are lost"]
    present = checksums_of(connection, NO_CHECKSUMS, written["key"], written["event"])
    changed = [name for name in NO_CHECKSUMS if "." in name and present[name] != written[name]]
    return [f"{name} was changed in some row, or rows are lost or added" for name in changed]


def write_checksums(connection: sqlite3.Connection, sums: Checksums) -> None:
    """Write checksums, which replace older ones."""
    written = msgspec.json.encode(sums).decode()
    connection.execute("INSERT OR REPLACE INTO about VALUES ('sums', ?)", (written,))
