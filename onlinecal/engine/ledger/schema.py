"""The tables of a ledger, and how older ledgers become ledgers of today.

Queries and closings are the log: they share one numbering, in the order in which the engine took them in,
and are never changed. States are what the log amounts to, key by key, up to some number; they can be rebuilt.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial

from onlinecal.engine.ledger.closed import LAST_NUMBER, Closed

APPLICATION = 0x4F43414C
"""Marks a SQLite file as one of ours."""

CLOSINGS = """
CREATE TABLE closings (
    number INTEGER PRIMARY KEY,
    query INTEGER NOT NULL,
    value,                      -- a number or a label; of a soft label JSON in bytes; NULL: withdrawn
    time REAL
)
"""

TABLES = f"""
CREATE TABLE about (
    name TEXT PRIMARY KEY,      -- config: the engine's configuration as JSON
    value NOT NULL              -- tail: all states hold what happened up to this number
) WITHOUT ROWID;                -- closed: so does the table of this name
CREATE TABLE keys (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    config INTEGER NOT NULL     -- which of the configuration's exceptions, -1: the default
);
CREATE TABLE queries (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    key INTEGER NOT NULL,
    hint,                       -- a number, or JSON
    time REAL,
    probability,                -- a number, or JSON
    certificate REAL NOT NULL
);
{CLOSINGS};
CREATE TABLE states (
    key INTEGER PRIMARY KEY,
    number INTEGER NOT NULL,    -- the last event that the state holds
    rounds INTEGER NOT NULL,
    open INTEGER NOT NULL,
    expired INTEGER NOT NULL,
    certificate REAL NOT NULL,
    guarantee REAL NOT NULL,
    oldest INTEGER,             -- the oldest open query
    state BLOB NOT NULL
);
CREATE TABLE inputs (
    path TEXT PRIMARY KEY,      -- bytes where it is no text
    position INTEGER NOT NULL,  -- bytes of the file that have been answered
    mark BLOB                   -- by what its reader recognises the file; NULL: by nothing
) WITHOUT ROWID;
"""


ARCHIVES = """
CREATE TABLE checkpoints (      -- the states behind what was archived: the log goes on from them
    key INTEGER PRIMARY KEY,
    state BLOB NOT NULL
);
CREATE TABLE archives (         -- what was archived (engine/ledger/chain.py: of what the digests are)
    number INTEGER PRIMARY KEY, -- the last event in it
    path TEXT NOT NULL,
    queries INTEGER NOT NULL,
    closings INTEGER NOT NULL,
    log BLOB NOT NULL,
    states BLOB NOT NULL,
    hash BLOB NOT NULL
);
CREATE TABLE archived (         -- the ids that are only in archives
    hash INTEGER PRIMARY KEY
);
"""

RELIABILITY = """
CREATE TABLE reliability (
    number INTEGER PRIMARY KEY, -- 0, the only row
    bins BLOB NOT NULL          -- of all keys together
);
"""


CLOSED = """
CREATE TABLE closed (           -- which closing a query has (engine/ledger/closed.py)
    block INTEGER PRIMARY KEY,
    closings BLOB NOT NULL
);
"""


def add_marks(connection: sqlite3.Connection) -> None:
    """From 1 to 2: how inputs are recognised."""
    connection.execute("ALTER TABLE inputs ADD COLUMN mark BLOB")


def add_tables(connection: sqlite3.Connection, tables: str, create: str = "CREATE TABLE") -> None:
    """From 2 to 3, what has left the ledger; from 3 to 4, what came of watching all keys together."""
    # executescript would end the transaction
    for statement in tables.split(";")[:-1]:
        connection.execute(statement.replace("CREATE TABLE", create))


def drop_watched(connection: sqlite3.Connection) -> None:
    """From 4 to 5: what came of watching a key is read in its state, and stands nowhere else."""
    connection.execute("DROP TABLE IF EXISTS watched")


def sort_closings(connection: sqlite3.Connection) -> None:
    """From 5 to 6: queries are found among closings by an array instead of an index; all rows are copied."""
    connection.execute("ALTER TABLE closings RENAME TO before")
    connection.execute(CLOSINGS)
    add_tables(connection, CLOSED)
    connection.execute("INSERT INTO closings SELECT * FROM before ORDER BY number")
    connection.execute("DROP TABLE before")
    Closed(connection).write(LAST_NUMBER)


def nothing(connection: sqlite3.Connection) -> None:
    """What there is of this version is enough to be read."""


def lend_tables(connection: sqlite3.Connection, tables: str) -> None:
    """To those who read an older ledger: empty tables, which are the connection's own."""
    connection.execute("PRAGMA temp_store = MEMORY")
    add_tables(connection, tables, "CREATE TEMP TABLE")


Step = Callable[[sqlite3.Connection], None]

MIGRATIONS: dict[int, Step] = {
    1: add_marks, 2: partial(add_tables, tables=ARCHIVES), 3: partial(add_tables, tables=RELIABILITY),
    4: drop_watched, 5: sort_closings,
}  # fmt: skip
"""From each old version to the next, inside one transaction."""

LENT: dict[int, Step] = {
    2: partial(lend_tables, tables=ARCHIVES), 3: partial(lend_tables, tables=RELIABILITY), 4: nothing,
    5: nothing,
}  # fmt: skip
"""What those who only read need of the next version, where it is no more than new tables."""

VERSION = 6
WITH_ARCHIVES = 3
"""The first version that knows of archives."""


def prepare(connection: sqlite3.Connection) -> None:
    """Make the tables in an empty file, or bring those of an older version up to date.

    Raises ValueError for a file of another application or of a newer version.
    """
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if application == 0 and version == 0 and is_empty(connection):
        connection.executescript(
            f"BEGIN; {TABLES} {ARCHIVES} {RELIABILITY} {CLOSED} PRAGMA application_id = {APPLICATION};"
            f"PRAGMA user_version = {VERSION}; COMMIT;"
        )
        return
    check(application, version)
    if version < VERSION:
        connection.execute("BEGIN IMMEDIATE")
        try:
            for old in range(version, VERSION):
                if old not in MIGRATIONS:
                    raise ValueError(
                        f"the ledger has version {old}, and there is no way from it to {VERSION}"
                    )
                MIGRATIONS[old](connection)
            connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def check(application: int, version: int) -> None:
    """Refuse what is no ledger, or one of a later version than this."""
    if application != APPLICATION:
        raise ValueError("this is a SQLite file, but not a ledger")
    if version > VERSION:
        raise ValueError(
            f"the ledger has version {version}, this program knows {VERSION}: use a newer onlinecal"
        )


def prepare_reading(connection: sqlite3.Connection) -> None:
    """Refuse what cannot be read as it is; lend what older versions lack, where that is enough."""
    application, version = connection.execute(
        "SELECT * FROM pragma_application_id, pragma_user_version"
    ).fetchone()
    check(application, version)
    if not LENT.keys() >= set(range(version, VERSION)):
        raise ValueError(
            f"the ledger has the older version {version}: open it once for writing, this brings it up to date"
        )
    for old in range(version, VERSION):
        LENT[old](connection)


def is_empty(connection: sqlite3.Connection) -> bool:
    """Whether the file has no tables."""
    return connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
