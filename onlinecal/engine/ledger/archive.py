"""Archives: older events leave the ledger for a file of their own, which is read and checked as a ledger is.

First the archive is made, by replaying the events that go into it; another process may write to the ledger
meanwhile. The archive gets its name when it is complete and on disk. Then the ledger shrinks in one
transaction, for which nobody else may write to it. If the call is interrupted, the same call finishes it. An
event is in the ledger, or in an archive, or for a moment in both; it is never in neither. Queries that are
open when they are archived stay in both.

The ledger keeps a digest of each archive, and a hash of each id that is in archives only.

Only `archive_ledger` takes events out of a ledger (`_shrink`), when the archive, a new file, is complete. An
archive never changes once it has its name: a `Ledger` opens it for reading only. `new_tables`, `copy_rows`
and `copy_hashes` fill new files, those of repairs, too. What marks a file as an archive, a `Marker`, the rows
of `archives` and `archived`, and `hash_of_id` are saved formats.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sqlite3
from collections.abc import Container, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from onlinecal.engine.columns import REFUSED, Columns
from onlinecal.engine.keys.book import Book
from onlinecal.engine.ledger import schema
from onlinecal.engine.ledger.file import (
    REPAIR_ADVICE,
    LedgerError,
    check_target,
    clear_away,
    new_file,
)
from onlinecal.engine.ledger.ledger import Ledger, Progress, no_progress
from onlinecal.engine.ledger.replay import config_of, replay_key
from onlinecal.engine.ledger.schema import (
    by_columns,
    check_sum,
    damaged_rows,
    sum_of,
    sum_of_hashes,
    write_about,
    write_rows,
    write_states,
)
from onlinecal.validation import check_count, check_flag, check_number, check_path

REASON = "archived"

TIMES_SQL = "SELECT number, time FROM queries UNION ALL SELECT number, time FROM closings"

STILL_OPEN_SQL = (
    "SELECT j.value FROM archive.about AS a, json_each(a.value, '$.open') j WHERE a.name = 'archive'"
)
"""The numbers of the queries of an archive that are still open."""


class Archived(Struct, frozen=True, array_like=True):
    """An archive that `archive_ledger` has made, as its ledger remembers it: a row of the table `archives`.

    Attributes
    ----------
    number
        The number of the last event in the archive. Accepted events are numbered from 1 on, through all
        archives.
    path
        Where the archive was written, an absolute path. If you move the file, this stays as it is.
    queries, closings
        How many queries were moved to it, and how many outcomes and withdrawals, those of earlier archives
        not counted.
    digest
        The SHA-256 of the archive's file, 32 bytes.
    early
        How many outcomes, of all events up to `number`, had a time before that of their query.
    """

    number: int
    path: str
    queries: int
    closings: int
    digest: bytes
    early: int

    @property
    def events(self) -> int:
        """How many events were moved to the archive: `queries` and `closings` together."""
        return self.queries + self.closings


class Marker(Struct, frozen=True):
    """What marks a ledger as an archive: as above, and the numbers of the queries that are still open."""

    number: int
    queries: int
    closings: int
    open: list[int]


def digest_of(archive: Path) -> bytes:
    """The digest of an archive's file; LedgerError if it cannot be read."""
    try:
        with open(archive, "rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise LedgerError(
            f"{archive}: cannot be read: {error.strerror}; check the path and who may read it"
        ) from error


def archives_of(ledger: Ledger) -> list[Archived]:
    """The archives that a ledger knows, the oldest first."""
    return [Archived(*row[:-1]) for row in ledger.archives()]


def marker_of(ledger: Ledger) -> Marker | None:
    """The marker of an archive; None if the ledger is none."""
    written = ledger.about("archive")
    with ledger.content_errors():
        return None if written is None else msgspec.json.decode(written, type=Marker)


def refuse_archive(ledger: Ledger) -> None:
    """ValueError for an archive, which may only be read."""
    if ledger.about("archive") is not None:
        raise ValueError(f"{ledger.path}: {schema.ONLY_READ}")


def hash_of_id(id: str) -> int:
    """64 bits of an id, as SQLite's integers."""
    return int.from_bytes(hashlib.blake2b(id.encode(), digest_size=8).digest(), "little", signed=True)


def refuse_archived(ledger: Ledger, columns: Columns, waiting: Container[str]) -> None:
    """Refuse the events that are about an archived forecast; `waiting` are ids that are known to be open.

    A new id is refused by mistake if it has the hash of an archived one: with 10^8 archived, any one of 10^8
    new ones with a chance of .0005.
    """
    hashes: dict[int, set[str]] = {}
    for id, kind in zip(columns.ids, columns.kinds, strict=True):
        if kind != REFUSED and id not in waiting:
            hashes.setdefault(hash_of_id(id), set()).add(id)
    rows = ledger.rows(
        "SELECT hash FROM json_each(?) AS j CROSS JOIN archived ON hash = j.value",
        (json.dumps(list(hashes)),),
    )
    ids = {id for row in rows for id in hashes[row[0]]}
    # an id in the ledger may have the hash of an archived one by chance
    ids -= ledger.recall(ids).keys()
    for i, id in enumerate(columns.ids) if ids else ():
        if id in ids and columns.kinds[i] != REFUSED:
            columns.refuse(
                i,
                REASON,
                f"forecast {id!r} was moved to an archive, and no event about it is accepted: give new "
                "queries other ids",
            )


def archive_ledger(
    path: str | Path,
    into: str | Path,
    *,
    keep: int | None = None,
    before: float | None = None,
    shrink: bool = False,
    progress: Progress = no_progress,
) -> Archived | None:
    """Move the older events of a ledger to an archive, a file of its own, which can be read as a ledger is.

    Returns an `Archived`, or None if there are no events to move; then no file is made. Forecasts that are
    still open stay in the ledger, too, and so does each key's state, so forecasts go on as before. The ledger
    knows the ids that were moved by a hash of 8 bytes: a later event about one of them is rejected as
    "archived".

    Parameters
    ----------
    path, into
        The ledger, to which at the end nobody else may write, and the file to make. If `into` is the complete
        archive of a call that was interrupted, that call is finished, whatever the other arguments.
    keep, before
        How many of the last events stay in the ledger, a whole number from 0 on; or a time in seconds, as in
        the events: what was accepted before the first event with that time or a later one is moved, and all
        if there is no such event. Give just one.
    shrink
        Whether the ledger's file gets smaller, for which the disk has to have room for a copy of what stays.
        If not, the file keeps its size, and new events fill it.
    progress
        Called with two numbers, how many events are done and how many there are to move.

    Raises
    ------
    LedgerError
        If the ledger cannot be read, or its forecasts or states are not those that its events lead to; if
        there is no room for the archive; or if somebody writes to the ledger: then the archive is there, and
        the same call again finishes it.
    ValueError
        If both or neither of `keep` and `before` are given; if `keep` is no whole number from 0 on, or
        `before` no finite number; if `before` is given and no event has a time; if `path` is an archive; or
        if `into` is a file of another kind, damaged, or the ledger itself.
    """
    if (keep is None) == (before is None):
        raise ValueError(f"give one of keep and before, got keep={keep!r} and before={before!r}")
    if keep is not None:
        keep = check_count(keep, "keep", least=0)
    if before is not None:
        allowed = "a finite number of seconds, as the times of events are"
        before = check_number(before, "before", -math.inf, math.inf, "()", allowed)
    check_flag(shrink, "shrink")
    source, target = check_path(path, "path"), check_path(into, "into")
    check_target(target, source, force=True)
    with closing(Ledger(source, read_only=True)) as ledger:
        refuse_archive(ledger)
    # of a call that was killed when the archive already had its name, another name may be left
    clear_away(target)
    if not os.path.lexists(target) and not _write(source, target, keep, before, progress):
        return None
    return _shrink(source, target, shrink)


def _write(source: Path, target: Path, keep: int | None, before: float | None, progress: Progress) -> bool:
    with closing(Ledger(source, read_only=True)) as ledger, ledger.transaction("DEFERRED"):
        upto = last_to_move(ledger, keep, before)
        if upto <= ledger.checkpoint():
            return False
        config = ledger.about("config")
        with new_file(target) as part, ledger.ledger_errors(), new_tables(part, config, upto) as new:
            _fill(ledger, new, upto, progress)
    return True


@contextmanager
def new_tables(file: Path, config: str, tail: int) -> Iterator[sqlite3.Connection]:
    """A new ledger whose tables are filled in the block; its states go up to the event `tail`."""
    with closing(sqlite3.connect(file, isolation_level=None)) as new:
        new.execute("PRAGMA journal_mode = OFF")
        schema.prepare(new)
        new.execute("BEGIN")
        write_about(new, "config", config)
        write_about(new, "tail", tail)
        yield new
        new.execute("COMMIT")


def copy_rows(ledger: Ledger, new: sqlite3.Connection, table: str, condition: str = "1") -> None:
    """Copy the rows of a table for which a condition holds; ValueError for one that is damaged."""
    rows = ledger.connection.execute(f"SELECT * FROM {table} WHERE {condition}")
    insert = f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows.description))})"
    for row in rows:
        check_sum(table, row)
        new.execute(insert, row)


def copy_hashes(ledger: Ledger, new: sqlite3.Connection) -> None:
    """Copy the hashes of archived ids, and their sum; ValueError if they are damaged."""
    if problem := damaged_hashes(ledger):
        raise ValueError(problem)
    new.executemany("INSERT INTO archived VALUES (?)", ledger.connection.execute("SELECT hash FROM archived"))
    write_about(new, "archived", ledger.about("archived"))


def damaged_hashes(ledger: Ledger) -> str | None:
    """A sentence if the hashes of archived ids are not those that were written."""
    if sum_of_hashes(ledger.connection) == (ledger.about("archived") or 0):
        return None
    return "archived: the hashes of archived ids are not those that were written"


def last_to_move(ledger: Ledger, keep: int | None, before: float | None) -> int:
    """The number of the last event that goes into the archive."""
    last = ledger.last_numbers()[0]
    if keep is not None:
        return last - keep
    start = ledger.checkpoint()
    [(timed, first)] = ledger.rows(
        f"SELECT count(time), min(CASE WHEN time >= ?2 THEN number END) FROM ({TIMES_SQL}) WHERE number > ?1",
        (start, before),
    )
    if not timed and last > start:
        raise ValueError(f"before needs events with times, and no event has one, got {before!r}: use keep")
    return last if first is None else first - 1


def _fill(ledger: Ledger, new: sqlite3.Connection, upto: int, progress: Progress) -> None:
    """Copy the events to the archive, replay them, and write the states that they lead to."""
    with ledger.content_errors():
        if problems := damaged_rows(ledger.connection):
            raise ValueError(f"{problems[0]}. {REPAIR_ADVICE}")
    for table in ("archives", "checkpoints"):
        copy_rows(ledger, new, table)
    start, counts = ledger.checkpoint(), list[int]()
    for table in ("queries", "closings"):
        copy_rows(ledger, new, table, f"number <= {upto}")
        counts += new.execute(f"SELECT count(*) FROM {table} WHERE number > {start}").fetchone()
    book, done, waiting = Book(config_of(ledger)), 0, list[int]()
    book.early = early_at_checkpoint(ledger)
    for number, log in ledger.log_by_key(upto):
        with ledger.content_errors():
            key = replay_key(book, ledger, number, log, upto)
            waiting += book.query_numbers(key.entries())
            write_states(new, book.rows_of([key], upto))
            book.drop([key])
        copy_rows(ledger, new, "keys", f"number = {number}")
        done += len(log)
        progress(done, sum(counts))
    if done != sum(counts):
        raise LedgerError(
            f"{ledger.path}: {sum(counts) - done} outcomes or withdrawals belong to no query of the log. "
            f"{REPAIR_ADVICE}"
        )
    if done != upto - start:
        raise LedgerError(f"{ledger.path}: {upto - start - done} events are lost. {REPAIR_ADVICE}")
    marker = msgspec.json.encode(Marker(upto, counts[0], counts[1], sorted(waiting))).decode()
    write_about(new, "archive", marker)
    write_about(new, "early", book.early)


def early_at_checkpoint(ledger: Ledger) -> int:
    """How many outcomes in archives had a time before that of their query."""
    return archives_of(ledger)[-1].early if ledger.checkpoint() else 0


def _shrink(source: Path, target: Path, vacuum: bool) -> Archived:
    """Take what is in the archive out of the ledger, unless that was done before."""
    marker, damaged = None, list[str]()
    with suppress(LedgerError), closing(Ledger(target, read_only=True)) as archive:
        marker, before, early = marker_of(archive), archives_of(archive), archive.early()
        damaged = damaged_rows(archive.connection)
    if marker is None:
        raise ValueError(f"{target} exists and is not an archive: name a new file")
    if damaged:
        raise ValueError(f"{target}: {damaged[0]}: the archive is damaged; remove it, and make it anew")
    where = os.fsencode(os.path.abspath(target)).decode(errors="replace")
    moved = Archived(marker.number, where, marker.queries, marker.closings, digest_of(target), early)
    try:
        ledger = Ledger(source)
    except LedgerError as error:
        raise LedgerError(
            f"{error}. The archive {target} is complete; give the same command again when nobody else "
            "writes to the ledger, and it finishes"
        ) from error
    with closing(ledger), ledger.ledger_errors():
        execute = ledger.connection.execute
        attach(ledger, target)
        with ledger.transaction():
            known = archives_of(ledger)
            if moved.digest not in {archive.digest for archive in known}:
                if before != known:
                    raise ValueError(
                        f"{target} exists and is not the next archive of this ledger: name a new file"
                    )
                _move(ledger, moved)
        execute("DETACH archive")
        if vacuum:
            execute("VACUUM")
        # deleted rows need not stay in the log of commits, unless a reader still needs it
        with suppress(sqlite3.Error):
            execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return moved


def attach(ledger: Ledger, archive: Path) -> None:
    """Let statements read the tables of an archive, by the name `archive`, and hash ids."""
    ledger.connection.create_function("hash_of_id", 1, hash_of_id, deterministic=True)
    ledger.connection.create_function("sum_of", -1, sum_of, deterministic=True)
    ledger.connection.execute("ATTACH ? AS archive", (f"{archive.resolve().as_uri()}?mode=ro",))


def _move(ledger: Ledger, moved: Archived) -> None:
    """Inside a transaction, delete what the archive holds, after a comparison with it."""
    upto = moved.number
    for table in ("queries", "closings"):
        missing = ledger.value(
            f"SELECT count(*) FROM (SELECT * FROM main.{table} WHERE number <= {upto}"
            f" EXCEPT SELECT * FROM archive.{table})"
        )
        if missing:
            raise ValueError(
                f"{missing} rows of {table} are not in the archive {moved.path} as they are in the ledger: "
                "remove the archive, and make it anew"
            )
    if problem := damaged_hashes(ledger):
        raise ValueError(f"{problem}. Restore a backup of the ledger")
    gone = f"FROM main.queries WHERE number <= {upto} AND number NOT IN ({STILL_OPEN_SQL})"
    for statement in (
        f"INSERT OR IGNORE INTO archived SELECT hash_of_id(id) {gone} ORDER BY 1",
        f"DELETE FROM main.closings WHERE number <= {upto}",
        f"DELETE {gone}",
        "DELETE FROM main.checkpoints",
        "INSERT INTO main.checkpoints SELECT key, state, sum_of(key, state) FROM archive.states",
        # after a killed writer, states may lack events that are deleted now: those of the archive have them
        "INSERT OR REPLACE INTO main.states SELECT a.* FROM archive.states AS a LEFT JOIN main.states AS s"
        f" ON s.key = a.key WHERE coalesce(s.number, 0) <= {upto}",
    ):
        ledger.connection.execute(statement)
    ledger.write_about("tail", max(upto, ledger.tail()))
    ledger.write_about("archived", sum_of_hashes(ledger.connection))
    write_rows(ledger.connection, "archives", by_columns([msgspec.structs.astuple(moved)]))
