"""What goes into a ledger and comes out of it, row by row."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from onlinecal.engine.keys.stored_key import Summary
from onlinecal.engine.watch.watched import Watched


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


class Noted(NamedTuple):
    """How far an input was answered.

    Attributes
    ----------
    path
        The input's name; bytes where it is no text in UTF-8.
    position
        Up to which byte it was answered.
    mark
        What its reader wants to know about it again.
    """

    path: str | bytes
    position: int
    mark: bytes | None = None


StateRow = tuple[int, int, Summary, bytes]
"""The number of a key, that of the last event that its state holds, its summary, its state."""


class Changes(NamedTuple):
    """What a batch adds: rows in the order of the tables' columns. `after`: the last numbers before it."""

    keys: Sequence[tuple[int, str, int]]
    queries: Iterable[tuple[int, str, int, Any, float | None, Any, float]]
    closings: Iterable[tuple[int, int, Any, float | None]]
    states: Sequence[StateRow]
    tail: int
    inputs: Sequence[Noted]
    after: tuple[int, int]
    reliability: bytes | None = None
    """Of all keys together; None: as it was."""


NOTHING = Summary(0, 0, 0, 0.0, 0.0, None)


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


def summary_in(row: tuple[Any, ...]) -> Summary:
    """The summary of a state's columns `rounds` to `oldest` and of what came of watching; empty if None."""
    if row[0] is None:
        return NOTHING
    rounds, waiting, expired, certificate, guarantee, oldest, watched = row
    found = None if watched is None else _watched.decode(watched)
    return Summary(rounds, waiting, expired, certificate, guarantee, oldest, watched=found)


class Into:
    """Rows into a table: the beginning of a statement, up to VALUES, and how many columns there are.

    Many rows are one statement, as far as SQLite's parameters reach (999 before 3.32): that is half the work.
    """

    def __init__(self, beginning: str, columns: int) -> None:
        row = f"({', '.join('?' * columns)})"
        self._columns, self._together = columns, 999 // columns
        self._one = f"{beginning} VALUES {row}"
        self._many = f"{beginning} VALUES {', '.join([row] * self._together)}"

    def write(self, connection: sqlite3.Connection, rows: Iterable[Sequence[Any]]) -> None:
        """Write rows in their order."""
        values, width = list(chain.from_iterable(rows)), self._columns
        size = width * self._together
        whole = len(values) // size * size
        for start in range(0, whole, size):
            connection.execute(self._many, values[start : start + size])
        for start in range(whole, len(values), width):
            connection.execute(self._one, values[start : start + width])


INTO_STATES = Into("INSERT OR REPLACE INTO states", 9)
INTO_WATCHED = Into("INSERT OR REPLACE INTO watched", 3)


def write_states(connection: sqlite3.Connection, states: Iterable[StateRow]) -> None:
    """Write states, and what came of watching their keys, in the place of older ones."""
    # neighbours share a page
    listed = sorted(states, key=itemgetter(0))
    INTO_STATES.write(
        connection,
        (
            (key, upto, s.rounds, s.open, s.expired, s.certificate, s.guarantee, s.oldest, state)
            for key, upto, s, state in listed
        ),
    )
    INTO_WATCHED.write(
        connection,
        ((key, upto, stored_watched(s.watched)) for key, upto, s, _ in listed if s.watched is not None),
    )


def stored_watched(watched: Watched | None) -> bytes | None:
    """What came of watching a key as the tables keep it."""
    return None if watched is None else msgspec.msgpack.encode(watched)


_watched = msgspec.msgpack.Decoder(Watched)
