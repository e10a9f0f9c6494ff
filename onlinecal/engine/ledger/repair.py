"""What can be saved of a damaged ledger: its readable events, played into a new one.

Where events were archived, the new one begins with the states behind them: from there the log is played on.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from onlinecal.engine.config import EngineConfig
from onlinecal.engine.engine import Engine
from onlinecal.engine.events import Forecast, Incoming, Outcome, Query, Rejected, Withdraw
from onlinecal.engine.keys.cache import row_of
from onlinecal.engine.keys.state import KeyState
from onlinecal.engine.ledger import schema
from onlinecal.engine.ledger.file import LedgerError, check_target, made
from onlinecal.engine.ledger.schema import loaded, loaded_outcome, write_states
from onlinecal.engine.ledger.sums import LAST_NUMBER
from onlinecal.engine.settings import all_settings

BATCH = 4096
FARTHEST = 1 << 22
"""Numbers to skip in search of the next readable row before giving up."""

KEPT = {
    "archives": "SELECT * FROM archives",
    "archived": "SELECT * FROM archived",
    "checkpoints": "SELECT * FROM checkpoints",
    "keys": "SELECT * FROM keys WHERE number IN (SELECT key FROM checkpoints)",
    "queries": "SELECT * FROM queries WHERE number <= (SELECT max(number) FROM archives)",
}
"""What a ledger keeps of its archives."""


class Repaired(Struct, frozen=True):
    """What was saved.

    Attributes
    ----------
    events, keys
        How many accepted events were found and played into the new ledger, and of how many keys.
    lost
        What could not be saved, one sentence each; empty if nothing is missing.
    changed
        Keys with forecasts that came out other than they were answered, because events before them are lost.
    """

    events: int
    keys: int
    lost: list[str]
    changed: list[str]


def repair_ledger(path: str | Path, into: str | Path) -> Repaired:
    """Play the readable events of a damaged ledger into a new one; the damaged file is left as it is.

    From `path` to `into`, which gets its name when it is complete. States and indexes are made anew, so
    damage to them costs nothing. Raises LedgerError if not even the configuration can be read, or if there is
    no room, ValueError if `into` exists.
    """
    source, target = Path(path), Path(into)
    if not source.is_file():
        raise LedgerError(f"{source}: there is no such ledger")
    check_target(target, source)
    with closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        config = _config(connection, source)
        with made(target) as part:
            return _played(connection, source, part, config)


def _config(connection: sqlite3.Connection, source: Path) -> EngineConfig:
    """The configuration; LedgerError if it cannot be read, or if this is no ledger to be played."""
    try:
        schema.check(connection)
        about = dict(connection.execute("SELECT name, value FROM about"))
        if "archive" in about:
            raise ValueError("this is an archive, which is never played on: restore a backup of it")
        return msgspec.json.decode(about.get("config", ""), type=EngineConfig)
    except (sqlite3.Error, ValueError, TypeError) as error:
        raise LedgerError(f"{source}: the configuration cannot be read: {error}") from error


def _played(connection: sqlite3.Connection, source: Path, target: Path, config: EngineConfig) -> Repaired:
    """Make the new ledger."""
    lost, changed, refused = list[str](), dict[str, None](), 0
    start = _seed(connection, source, target, config)
    events, answered = _salvage(connection, lost, start)
    with Engine(target, config) as engine:
        engine.trust_times()
        for start in range(0, len(events), BATCH):
            for answer in engine.handle(events[start : start + BATCH]):
                if isinstance(answer, Rejected):
                    refused += 1
                    lost.append(f"event {answer.id!r} was not accepted again: {answer.detail}")
                elif isinstance(answer, Forecast):
                    came = answer.probability, answer.certificate
                    changed |= {} if came == answered[answer.id] else {answer.key: None}
    return Repaired(len(events) - refused, len({e.key for e in events}), lost, list(changed))


def _seed(connection: sqlite3.Connection, source: Path, into: Path, config: EngineConfig) -> int:
    """Make a new ledger that holds what this one has behind its archives, if any, and nothing after it.

    Answers the number of the last event that was archived, 0 if none was: then nothing is made. Raises
    LedgerError if any of that is damaged: the log means nothing without it.
    """
    try:
        # where nothing was archived, damage to the empty table of archives does no harm
        if connection.execute("SELECT 1 FROM checkpoints").fetchone() is None:
            return 0
        start = connection.execute("SELECT max(number) FROM archives").fetchone()[0] or 0
        if not start:
            return 0
        with closing(sqlite3.connect(into, isolation_level=None)) as new:
            schema.prepare(new)
            new.execute("BEGIN")
            for table, sql in KEPT.items():
                found = connection.execute(sql)
                marks = ", ".join("?" * len(found.description))
                new.executemany(f"INSERT INTO {table} VALUES ({marks})", found)
            settings = all_settings(config)
            for number, name, place, data in new.execute(
                "SELECT k.number, k.name, k.config, c.state FROM checkpoints AS c"
                " JOIN keys AS k ON k.number = c.key"
            ).fetchall():
                write_states(new, [row_of(KeyState(name, number, settings[place], data), start)])
            facts = [("config", msgspec.json.encode(config).decode()), ("tail", start)]
            new.executemany("INSERT INTO about VALUES (?, ?)", facts)
            new.execute("COMMIT")
        return start
    except (sqlite3.Error, ValueError, KeyError, TypeError) as error:
        raise LedgerError(
            f"{source}: what it keeps of its archives cannot be read ({error}). Restore a backup of it"
        ) from error


def _salvage(
    connection: sqlite3.Connection, lost: list[str], start: int
) -> tuple[list[Incoming], dict[str, tuple[Any, float]]]:
    """The readable events behind a number in their order, and what the queries among them were answered."""
    names = {row[0]: row[1] for row in _readable(connection, "keys", lost)}
    # where two processes wrote at once, a query and a closing may have one number
    numbered: dict[tuple[int, bool], Incoming] = {}
    asked: dict[int, tuple[str, str]] = {}
    answered: dict[str, tuple[Any, float]] = {}
    there: set[int] = set()
    for number, id, key, hint, time, probability, certificate in _readable(connection, "queries", lost):
        there.add(number)
        if key not in names:
            lost.append(f"query {id!r}: the name of its key is lost")
            continue
        try:
            query, answer = Query(id, names[key], loaded(hint), time), (loaded(probability), certificate)
        except (ValueError, TypeError) as error:
            lost.append(f"query {id!r} makes no sense: {error}")
            continue
        asked[number] = id, names[key]
        if number > start:
            numbered[number, False], answered[id] = query, answer
    for number, closes, value, time in _readable(connection, "closings", lost):
        there.add(number)
        if closes not in asked:
            lost.append(f"event {number} closes query {closes}, which is lost")
            continue
        id, key = asked[closes]
        try:
            came = loaded_outcome(value)
        except ValueError as error:
            lost.append(f"event {number}, an outcome of {id!r}, makes no sense: {error}")
            continue
        numbered[number, True] = Withdraw(id, key, time) if came is None else Outcome(id, came, key, time)
    lost += _missing(connection, sorted(one for one in there if one > start), start)
    return [numbered[place] for place in sorted(numbered)], answered


def _missing(connection: sqlite3.Connection, numbers: list[int], start: int) -> Iterator[str]:
    """Which of the numbers behind a start are not there: they were given out one after the other."""
    last = numbers[-1] if numbers else start
    with suppress(sqlite3.Error):
        # when states were written last, the log had come to this number
        for (tail,) in connection.execute("SELECT value FROM about WHERE name = 'tail'"):
            if type(tail) is int and tail > last:
                numbers = [*numbers, tail + 1]
    for before, after in pairwise([start, *numbers]):
        if after - before == 2:
            yield f"event {before + 1} is missing"
        elif after - before > 2:
            yield f"events {before + 1} to {after - 1} are missing"


def _readable(connection: sqlite3.Connection, table: str, lost: list[str]) -> Iterator[tuple[Any, ...]]:
    """The rows of a table in the order of their numbers, past those that cannot be read."""
    rows = f"SELECT * FROM {table} NOT INDEXED WHERE number > ?"
    last = start = 0
    while start >= 0:
        try:
            for row in connection.execute(rows, (start,)):
                # damage may have put some out of order
                if row[0] > last:
                    if start > last:
                        lost.append(f"{table}: rows between numbers {last} and {row[0]} cannot be read")
                    last = start = row[0]
                    yield row
            break
        except sqlite3.DatabaseError:
            # at least twice as far as before, if what was found there was of no use
            start = _past_damage(connection, f"{rows} LIMIT 1", last, 2 * (start - last) + 1)
    if start != last:
        lost.append(f"{table}: what came after number {last} cannot be read")


def _past_damage(connection: sqlite3.Connection, next_row: str, last: int, least: int) -> int:
    """The lowest number from last + least on after which a row, or the end, can be read; -1: too far."""

    def works(more: int) -> bool:
        try:
            connection.execute(next_row, (min(last + more, LAST_NUMBER),)).fetchone()
        except sqlite3.DatabaseError:
            return False
        return True

    low = step = least
    while step <= FARTHEST:
        if works(step):
            return last + low + bisect_left(range(low, step), True, key=works)
        low, step = step, 2 * step
    return -1
