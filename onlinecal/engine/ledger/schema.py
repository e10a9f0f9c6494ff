"""The tables of a ledger.

Queries and closings are the log: they share one numbering, in the order in which the engine took them in,
and are never changed. States are what the log amounts to, key by key, up to some number; they can be rebuilt.
"""

from __future__ import annotations

import sqlite3

from onlinecal.version import STATE_FORMAT, check_format

APPLICATION = 0x4F4E4C43
"""Marks a SQLite file as one of ours."""

TABLES = """
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
CREATE TABLE closings (
    number INTEGER PRIMARY KEY,
    query INTEGER NOT NULL,
    value,                      -- a number or a label; of a soft label JSON in bytes; NULL: withdrawn
    time REAL
);
CREATE TABLE closed (           -- which closing a query has (engine/ledger/closed.py)
    block INTEGER PRIMARY KEY,
    closings BLOB NOT NULL
);
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
CREATE TABLE reliability (
    number INTEGER PRIMARY KEY, -- 0, the only row
    bins BLOB NOT NULL          -- of all keys together
);
CREATE TABLE inputs (
    path TEXT PRIMARY KEY,      -- bytes where it is no text
    position INTEGER NOT NULL,  -- bytes of the file that have been answered
    mark BLOB                   -- by what its reader recognises the file; NULL: by nothing
) WITHOUT ROWID;
CREATE TABLE checkpoints (      -- the states behind what was archived: the log goes on from them
    key INTEGER PRIMARY KEY,
    state BLOB NOT NULL
);
CREATE TABLE archives (         -- what was archived (engine/ledger/archived.py)
    number INTEGER PRIMARY KEY, -- the last event in it
    path TEXT NOT NULL,
    queries INTEGER NOT NULL,
    closings INTEGER NOT NULL,
    digest BLOB NOT NULL        -- of the archive's file
);
CREATE TABLE archived (         -- the ids that are only in archives
    hash INTEGER PRIMARY KEY
);
"""


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


def marks_of(connection: sqlite3.Connection) -> tuple[int, int]:
    """The application of a file, and its format: 0 where there is none."""
    marks: tuple[int, int] = connection.execute(
        "SELECT * FROM pragma_application_id, pragma_user_version"
    ).fetchone()
    return marks


def is_empty(connection: sqlite3.Connection) -> bool:
    """Whether the file has no tables."""
    return connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
