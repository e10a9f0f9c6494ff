"""What a ledger keeps of its archives, carried over to a new one: from there the log can be played on."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec

from onlinecal.engine.config import EngineConfig
from onlinecal.engine.keys.book import Book
from onlinecal.engine.ledger import schema
from onlinecal.engine.ledger.file import LedgerError
from onlinecal.engine.ledger.schema import Snapshot, write_states

KEPT = {
    "archives": "SELECT * FROM archives",
    "archived": "SELECT * FROM archived",
    "checkpoints": "SELECT * FROM checkpoints",
    "keys": "SELECT * FROM keys WHERE number IN (SELECT key FROM checkpoints)",
    "queries": "SELECT * FROM queries WHERE number <= (SELECT max(number) FROM archives)",
}


def checkpoint_in(connection: sqlite3.Connection) -> int:
    """The number of the last event that left a ledger, which may be damaged; 0 if none has.

    sqlite3.Error if that cannot be told.
    """
    # where nothing was archived, damage to the empty table of archives does no harm
    if connection.execute("SELECT 1 FROM checkpoints").fetchone() is None:
        return 0
    return connection.execute("SELECT max(number) FROM archives").fetchone()[0] or 0


def seed(connection: sqlite3.Connection, source: Path, into: Path, config: EngineConfig) -> int:
    """Make a new ledger that holds what this one has behind its archives, if any, and nothing after it.

    Answers the number of the last event that was archived, 0 if none was: then nothing is made. Raises
    LedgerError, and leaves no file, if any of that is damaged: the log means nothing without it.
    """
    try:
        start = checkpoint_in(connection)
        if not start:
            return 0
        with closing(sqlite3.connect(into, isolation_level=None)) as new:
            schema.prepare(new)
            new.execute("BEGIN")
            for table, sql in KEPT.items():
                found = connection.execute(sql)
                marks = ", ".join("?" * len(found.description))
                new.executemany(f"INSERT INTO {table} VALUES ({marks})", found)
            _write_states(new, config)
            written = msgspec.json.encode(config).decode()
            facts = [("config", written), ("tail", start)]
            new.executemany("INSERT INTO about VALUES (?, ?)", facts)
            new.execute("COMMIT")
        return start
    except (sqlite3.Error, ValueError, OSError) as error:
        into.unlink(missing_ok=True)
        raise LedgerError(
            f"{source}: what it keeps of its archives cannot be read ({error}). Restore a backup of it"
        ) from error


def _write_states(new: sqlite3.Connection, config: EngineConfig) -> None:
    book = Book(config)
    [upto] = new.execute("SELECT max(number) FROM archives").fetchone()
    for number, name, place, data in new.execute(
        "SELECT k.number, k.name, k.config, c.state FROM checkpoints AS c JOIN keys AS k ON k.number = c.key"
    ).fetchall():
        book.load([Snapshot(number, name, place, upto, data)])
        key = book.keys[name]
        write_states(new, [(number, upto, key.written(), data)])
        book.drop([key])
