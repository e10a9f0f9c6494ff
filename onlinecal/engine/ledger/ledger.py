"""The ledger: one SQLite file that holds every accepted event, and from time to time each key's state.

All changes of a batch are one transaction; when `commit` returns they are on disk. One process writes, and
keeps others from it by a lock that ends with the process; any number may read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec.json import encode

from onlinecal.engine.events import only_names
from onlinecal.engine.keys.stored_key import Summary
from onlinecal.engine.ledger.closed import EVERY, LAST_NUMBER, Closed
from onlinecal.engine.ledger.file import LedgerFile
from onlinecal.engine.ledger.schema import (
    Changes,
    Into,
    Logged,
    Noted,
    Record,
    Snapshot,
    first_columns,
    logged,
    recalled,
    summary_in,
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


OPEN = (None, None, None)
"""In the place of a closing."""

INTO_KEYS = Into("INSERT INTO keys", 3)
INTO_QUERIES = Into("INSERT INTO queries", 7)
INTO_CLOSINGS = Into("INSERT INTO closings", 4)
INTO_INPUTS = Into("INSERT OR REPLACE INTO inputs", 3)


class Ledger(LedgerFile):
    """An open ledger: what is known of ids, keys and the log, and the commits that add to it."""

    _tail = -1
    """What the last commit wrote: it is mostly the same for many batches."""

    def __init__(self, path: Path | None, read_only: bool = False, window: int = EVERY) -> None:
        super().__init__(path, read_only)
        try:
            with self.ledger_errors():
                self._closed = Closed(self.connection, window)
        except BaseException:
            self.close()
            raise

    def about(self, name: str) -> Any:
        """A fact about the ledger; None if it is not known."""
        rows = self.rows("SELECT value FROM about WHERE name = ?", (name,))
        return rows[0][0] if rows else None

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
            "SELECT q.number, q.id, k.name, q.hint, q.time, q.probability, q.certificate"
            " FROM json_each(?) AS j CROSS JOIN queries AS q ON q.id = j.value"
            " JOIN keys AS k ON k.number = q.key",
            (names_in(ids),),
        )
        with self.content_errors():
            closings = self.closings_of([row[0] for row in rows])
            return {row[1]: recalled(row, closings.get(row[0], OPEN)) for row in rows}

    def closings_of(self, queries: list[int]) -> dict[int, tuple[int, Any, float | None]]:
        """How those of the queries with these numbers were closed that were: number, value, time."""
        # mostly all ids are new
        if not queries:
            return {}
        with self.ledger_errors():
            found = self._closed.of(queries)
        rows = self.rows(
            "SELECT c.number, c.value, c.time FROM json_each(?) AS j"
            " CROSS JOIN closings AS c ON c.number = j.value",
            (json.dumps(list(found.values())),),
        )
        by_number = {row[0]: row for row in rows}
        return {query: by_number[number] for query, number in found.items()}

    def closings_not_found(self) -> int:
        """How many closings are not where they are looked for."""
        with self.ledger_errors():
            return sum(1 for _ in self._closed.wrong())

    def keys_named(self, names: Iterable[str]) -> list[Snapshot]:
        """The keys among these names that the ledger knows."""
        return self._snapshots("json_each(?) AS j CROSS JOIN keys AS k ON k.name = j.value", names_in(names))

    def keys_numbered(self, numbers: Iterable[int]) -> list[Snapshot]:
        """The keys with these numbers."""
        return self._snapshots(
            "json_each(?) AS j CROSS JOIN keys AS k ON k.number = j.value", json.dumps(list(numbers))
        )

    def _snapshots(self, source: str, parameter: str) -> list[Snapshot]:
        rows = self.rows(
            f"SELECT k.number, k.name, k.config, coalesce(s.number, 0), s.state FROM {source}"
            " LEFT JOIN states AS s ON s.key = k.number",
            (parameter,),
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
        after = self.checkpoint()
        return tuple(
            self.rows(
                f"SELECT (SELECT count(*) FROM {table} WHERE number > ?) + coalesce(sum({table}), 0)"
                " FROM archives",
                (after,),
            )[0][0]
            for table in ("queries", "closings")
        )

    def double_numbers(self) -> list[int]:
        """Numbers that stand for two events."""
        return [row[0] for row in self.rows("SELECT number FROM queries JOIN closings USING (number)")]

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
        with self.ledger_errors():
            execute = self.connection.execute
            execute("BEGIN IMMEDIATE")
            try:
                if self.last_numbers() != changes.after:
                    raise ValueError(
                        "another process has written to this ledger; nothing of this batch was kept"
                    )
                for into, rows in (
                    (INTO_KEYS, changes.keys),
                    (INTO_QUERIES, changes.queries),
                    (INTO_CLOSINGS, changes.closings),
                    (INTO_INPUTS, changes.inputs),
                ):
                    # most batches are of one event
                    if rows:
                        into.write(self.connection, rows)
                if changes.states:
                    write_states(self.connection, changes.states)
                if changes.tail != self._tail:
                    execute("INSERT OR REPLACE INTO about VALUES ('tail', ?)", (changes.tail,))
                if changes.reliability is not None:
                    execute("INSERT OR REPLACE INTO reliability VALUES (0, ?)", (changes.reliability,))
                upto = self._closed.write(changes.after[0])
                execute("COMMIT")
                self._closed.written(upto, *first_columns(changes.closings, 2))
                self._tail = changes.tail
            except BaseException:
                if self.connection.in_transaction:
                    execute("ROLLBACK")
                raise


def names_in(given: Iterable[Any]) -> str:
    """Names as a parameter of a statement; what can be no name is in no ledger, and is left out.

    It must not come as far as SQLite, which cuts a text in JSON at a NUL and would find another name.
    """
    return encode(only_names(list(given))).decode()
