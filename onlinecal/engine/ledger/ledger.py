"""The ledger: one SQLite file that holds every accepted event, and from time to time each key's state.

All changes of a batch are one transaction; when `commit` returns they are on disk. One process writes, and
keeps others from it by a lock that ends with the process; any number may read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec.json import encode

from onlinecal.engine.events import only_names
from onlinecal.engine.keys.key import Summary
from onlinecal.engine.ledger.file import MEND, LedgerFile
from onlinecal.engine.ledger.schema import (
    Changes,
    Logged,
    Noted,
    Record,
    Snapshot,
    logged,
    recalled,
    summary_in,
    write_rows,
    write_states,
)
from onlinecal.engine.ledger.sums import EVERY, LAST_NUMBER, Summing

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


class Ledger(LedgerFile):
    """An open ledger: what is known of ids, keys and the log, and the commits that add to it.

    `window`: after so many events at the latest the checksums of the log are written.
    """

    _tail = -1
    """What the last commit wrote: it is mostly the same for many batches."""
    _sums: Summing | None = None
    """Of the last commit, if it did not fail."""

    def __init__(self, path: Path | None, read_only: bool = False, window: int = EVERY) -> None:
        super().__init__(path, read_only)
        self._window = window

    def about(self, name: str) -> Any:
        """A fact about the ledger; None if it is not known."""
        rows = self.rows("SELECT value FROM about WHERE name = ?", (name,))
        return rows[0][0] if rows else None

    def tail(self) -> int:
        """The number up to which all states hold what happened."""
        with self.ledger_errors():
            found = self.about("tail")
            if found is not None and type(found) is not int:
                raise ValueError(f"`tail`, up to where all states go, is damaged, {found!r}: {MEND}")
            return found or 0

    def reliability(self) -> Any:
        """What the ledger has of the reliability of all keys together; None if nothing."""
        rows = self.rows("SELECT bins FROM reliability")
        return rows[0][0] if rows else None

    def tell(self, name: str, value: Any) -> None:
        """Write down a fact about the ledger."""
        with self.ledger_errors():
            self.connection.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (name, value))

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
        return self.rows("SELECT coalesce(max(number), 0) FROM archives")[0][0]

    def log_by_key(self, upto: int = LAST_NUMBER) -> Iterator[Logged]:
        """All events behind the checkpoint, up to a number, key after key, each key's in their order."""
        after = self.checkpoint()
        with self.ledger_errors():
            sql = f"SELECT * FROM ({LOG}) WHERE number <= ? ORDER BY key, number"
            for row in self.connection.execute(sql, (after, after, upto)):
                yield logged(row)

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

    def query_numbered(self, number: int) -> tuple[str, float | None]:
        """The id and the time of a query."""
        return self.rows("SELECT id, time FROM queries WHERE number = ?", (number,))[0]

    def noted(self, path: str | bytes) -> Noted | None:
        """How far an input has been answered; None if it was never read."""
        rows = self.rows("SELECT path, position, mark FROM inputs WHERE path = ?", (path,))
        return Noted(*rows[0]) if rows else None

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
