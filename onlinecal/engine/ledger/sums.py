"""Checksums of those columns of the log that a replay cannot tell: numbers, ids, names, times.

All forecasts and states come out again if an event has another time, or if two ids have changed places. So
the ledger keeps a CRC-32 of each such column, which goes on from row to row in the order of their numbers. It
is taken of what is in memory anyway, and written with the states, which adds 2 to 3 % to a commit.

A change that leaves the checksums as they are is found. Who can write to the file can also compute them anew.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any
from zlib import crc32

import msgspec

from onlinecal.engine.ledger.schema import ByColumns, columns_of

EVERY = 1 << 16
"""After so many events the checksums are written, at the latest."""
CHUNK = 10_000
LAST_NUMBER = (1 << 63) - 1

SUMMED = {
    "keys": {"number": 0, "name": 1, "config": 2},
    "queries": {"number": 0, "id": 1, "time": 4},
    "closings": {"number": 0, "query": 1, "time": 3},
}
"""The columns, by their tables, with their places in a row."""

Sums = dict[str, int]
"""The checksums by table and column, and the numbers of the last `key` and of the last `event` in them."""

NOTHING = {"key": 0, "event": 0} | {f"{table}.{name}": 0 for table, names in SUMMED.items() for name in names}


def add(sums: Sums, table: str, columns: Sequence[Sequence[Any]]) -> None:
    """Go on with rows of a table: its summed columns, the numbers first."""
    for name, column in zip(SUMMED[table], columns, strict=True):
        data = msgspec.msgpack.encode(column)
        # without the head, which says how many there are
        head = 1 if len(column) < 16 else 3 if len(column) < 1 << 16 else 5
        sums[f"{table}.{name}"] = crc32(memoryview(data)[head:], sums[f"{table}.{name}"])
    last = "key" if table == "keys" else "event"
    sums[last] = max(sums[last], columns[0][-1])


def sums_written(connection: sqlite3.Connection) -> Sums | None:
    """The checksums that a ledger has; None if it has none. ValueError if they make no sense."""
    row = connection.execute("SELECT value FROM about WHERE name = 'sums'").fetchone()
    try:
        found = None if row is None else msgspec.json.decode(row[0], type=Sums)
    except (ValueError, TypeError):
        found = {}
    if found is not None and found.keys() != NOTHING.keys():
        raise ValueError("the checksums of the log are damaged: `onlinecal stream repair` makes them anew")
    return found


def sums_of(
    connection: sqlite3.Connection, start: Sums = NOTHING, key: int = LAST_NUMBER, event: int = LAST_NUMBER
) -> Sums:
    """The checksums of what the tables hold, up to these numbers; `start` has the first of them already."""
    found = dict(start)
    for table, columns in SUMMED.items():
        after, upto = (start["key"], key) if table == "keys" else (start["event"], event)
        sql = f"SELECT {', '.join(columns)} FROM {table} WHERE number > ? AND number <= ? ORDER BY number"
        cursor = connection.execute(sql, (after, upto))
        while rows := cursor.fetchmany(CHUNK):
            add(found, table, columns_of(rows))
    return found


def changed_in(connection: sqlite3.Connection) -> list[str]:
    """Which columns are not as their checksums are, one sentence each; of rows behind them none."""
    written = sums_written(connection)
    if written is None:
        # before the first commit there are none
        empty = connection.execute("SELECT 1 FROM about WHERE name = 'tail'").fetchone() is None
        return [] if empty else ["the checksums of the log are lost"]
    found = sums_of(connection, NOTHING, written["key"], written["event"])
    changed = [name for name in NOTHING if "." in name and found[name] != written[name]]
    return [f"{name} was changed in some row, or rows are lost or added" for name in changed]


def write_sums(connection: sqlite3.Connection, sums: Sums) -> None:
    """Write checksums in the place of older ones."""
    written = msgspec.json.encode(sums).decode()
    connection.execute("INSERT OR REPLACE INTO about VALUES ('sums', ?)", (written,))


class Summing:
    """The checksums of a ledger that is written to, and single rows that they lack.

    It begins inside a transaction, with what is written of the checksums and the rows behind them.
    """

    def __init__(self, connection: sqlite3.Connection, every: int) -> None:
        self._connection, self._every, self._written = connection, min(every, EVERY), -EVERY
        self._sums = sums_of(connection, sums_written(connection) or NOTHING)
        self._rows: dict[str, list[Sequence[Any]]] = {table: [] for table in SUMMED}

    def note(self, table: str, rows: Iterable[Sequence[Any]]) -> None:
        """Rows that were added to a table of the log."""
        if isinstance(rows, ByColumns):
            # while they are in the processor's cache
            self._catch_up(table)
            self._add(table, rows)
        else:
            self._rows[table] += rows

    def _add(self, table: str, rows: Iterable[Sequence[Any]]) -> None:
        columns = columns_of(rows)
        add(self._sums, table, [columns[place] for place in SUMMED[table].values()])

    def _catch_up(self, table: str) -> None:
        rows = self._rows[table]
        if rows:
            self._add(table, rows)
            rows.clear()

    def write(self, event: int, anyway: bool) -> None:
        """Write the checksums of all there is, if it is time behind the event of that number; or `anyway`."""
        if anyway or event - self._written >= self._every:
            for table in SUMMED:
                self._catch_up(table)
            write_sums(self._connection, self._sums)
            self._written = event
