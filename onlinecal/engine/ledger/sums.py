"""Checksums of those columns of the log that a replay cannot tell: numbers, ids, names, times.

All forecasts and states come out again if an event has another time, or if two ids have changed places. So
the ledger keeps a CRC-32 of each such column, which goes on from row to row in the order of their numbers. It
is taken of what is in memory anyway, and written with the states.

A change that leaves the checksums as they are is found. Who can write to the file can also compute them anew.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any
from zlib import crc32

import msgspec
from msgspec import Struct

from onlinecal.engine.ledger.schema import columns_of

EVERY = 1 << 16
"""After so many events the checksums are written, at the latest."""
CHUNK = 10_000
DAMAGED = "the checksums of the log are damaged: `onlinecal stream repair` makes them anew"
LAST_NUMBER = (1 << 63) - 1

SUMMED = {
    "keys": {"number": 0, "name": 1, "config": 2},
    "queries": {"number": 0, "id": 1, "key": 2, "time": 4},
    "closings": {"number": 0, "query": 1, "time": 3},
}
"""The columns, by their tables, with their places in a row."""


class Sums(Struct):
    """Checksums by table and column, of the rows up to the number of a key, and of an event."""

    key: int = 0
    event: int = 0
    of: dict[str, dict[str, int]] = msgspec.field(
        default_factory=lambda: {table: dict.fromkeys(columns, 0) for table, columns in SUMMED.items()}
    )

    def add(self, table: str, columns: Sequence[Sequence[Any]]) -> None:
        """Go on with rows of a table: its summed columns, the numbers first."""
        sums = self.of[table]
        for name, column in zip(SUMMED[table], columns, strict=True):
            data = msgspec.msgpack.encode(column)
            # without the head, which says how many there are
            head = 1 if len(column) < 16 else 3 if len(column) < 1 << 16 else 5
            sums[name] = crc32(memoryview(data)[head:], sums[name])
        if table == "keys":
            self.key = columns[0][-1]
        else:
            self.event = max(self.event, columns[0][-1])


def sums_written(connection: sqlite3.Connection) -> Sums | None:
    """The checksums that a ledger has; None if it has none. ValueError if they make no sense."""
    row = connection.execute("SELECT value FROM about WHERE name = 'sums'").fetchone()
    try:
        found = None if row is None else msgspec.json.decode(row[0], type=Sums)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{DAMAGED} ({error})") from error
    if found is not None and {table: list(sums) for table, sums in found.of.items()} != {
        table: list(columns) for table, columns in SUMMED.items()
    }:
        raise ValueError(DAMAGED)
    return found


def sums_of(
    connection: sqlite3.Connection,
    start: Sums | None = None,
    key: int = LAST_NUMBER,
    event: int = LAST_NUMBER,
) -> Sums:
    """The checksums of what the tables hold, up to these numbers; `start` has the first of them already."""
    found = start or Sums()
    after = {"keys": found.key, "queries": found.event, "closings": found.event}
    for table, columns in SUMMED.items():
        upto = key if table == "keys" else event
        cursor = connection.execute(
            f"SELECT {', '.join(columns)} FROM {table} WHERE number > ? AND number <= ? ORDER BY number",
            (after[table], upto),
        )
        while rows := cursor.fetchmany(CHUNK):
            found.add(table, columns_of(rows))
    return found


def changed_in(connection: sqlite3.Connection) -> list[str]:
    """What is not as the checksums are, one sentence a table; of rows behind them nothing is said."""
    written = sums_written(connection)
    if written is None:
        # before the first commit there are none
        empty = connection.execute("SELECT 1 FROM about WHERE name = 'tail'").fetchone() is None
        return [] if empty else ["the checksums of the log are lost"]
    found = sums_of(connection, None, written.key, written.event).of
    changed = {
        table: [name for name, checksum in sums.items() if checksum != found[table][name]]
        for table, sums in written.of.items()
    }
    return [
        f"{table}: {', '.join(names)} of some rows were changed, or rows are lost or added"
        for table, names in changed.items()
        if names
    ]


class Summing:
    """The checksums of a ledger that is written to, and the rows that they lack: many are added at a time."""

    def __init__(self, connection: sqlite3.Connection, every: int) -> None:
        self._connection, self._every = connection, min(every, EVERY)
        self._sums: Sums | None = None
        self._columns: dict[str, list[list[Any]]] = {}

    def forget(self) -> None:
        """Read the checksums anew before the next commit: after one that failed."""
        self._sums = None

    def begin(self) -> None:
        """Inside a transaction, before anything is added: know what is written, and what is behind it."""
        if self._sums is None:
            self._sums = sums_of(self._connection, sums_written(self._connection))
            self._columns = {table: [[] for _ in columns] for table, columns in SUMMED.items()}

    def note(self, table: str, rows: Iterable[Sequence[Any]]) -> None:
        """Rows that were added to a table; no row where the table has no sums."""
        if table in SUMMED:
            columns = columns_of(rows)
            for mine, place in zip(self._columns[table], SUMMED[table].values(), strict=True):
                mine += columns[place]

    def write(self, anyway: bool) -> None:
        """Write the checksums of all there is, if it is time; or `anyway`."""
        assert self._sums is not None
        if not anyway and sum(len(columns[0]) for columns in self._columns.values()) < self._every:
            return
        for table, columns in self._columns.items():
            if columns[0]:
                self._sums.add(table, columns)
                for column in columns:
                    column.clear()
        write_sums(self._connection, self._sums)


def write_sums(connection: sqlite3.Connection, sums: Sums) -> None:
    """Write checksums in the place of older ones."""
    written = msgspec.json.encode(sums).decode()
    connection.execute("INSERT OR REPLACE INTO about VALUES ('sums', ?)", (written,))
