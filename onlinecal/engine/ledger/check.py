"""Whether a ledger is sound, and what can be saved of one that is not.

`check_ledger` compares each row with its sum, and replays the whole log that the ledger has: every forecast
and every state must come out as it is written, to the last bit. `examine` collects what an operator needs to
know, also of a ledger that cannot be opened any more; it leaves out what it cannot find out. `repair_ledger`
plays what can be read into a new ledger.

`check_ledger` and `examine` only read, and may run beside a writer. `repair_ledger` writes the new file
alone, and leaves the damaged one as it is. Nothing here has a state. Results do not change once they are
returned. Their fields, and the names in `Facts`, are shown by name with --json; sentences, and the numbers
that say when something is worth a finding, may change freely.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.json import encode

from onlinecal.engine.engine import Engine
from onlinecal.engine.events import Forecast, Incoming, Outcome, Query, Rejected, Withdraw
from onlinecal.engine.keys.book import Book
from onlinecal.engine.ledger import schema
from onlinecal.engine.ledger.archive import (
    STILL_OPEN_SQL,
    Archived,
    archives_of,
    attach,
    copy_hashes,
    copy_rows,
    damaged_hashes,
    digest_of,
    early_at_checkpoint,
    marker_of,
    new_tables,
)
from onlinecal.engine.ledger.file import (
    DATABASE_FILES,
    REPAIR_ADVICE,
    LedgerError,
    check_target,
    new_file,
)
from onlinecal.engine.ledger.ledger import Ledger, Progress, no_progress
from onlinecal.engine.ledger.replay import config_of, replay_key
from onlinecal.engine.parking import ParkedOutcome, ParkingCounts
from onlinecal.texts import shown
from onlinecal.validation import check_path
from onlinecal.version import STATE_FORMAT


class Check(Struct, frozen=True):
    """What `check_ledger` found.

    Attributes
    ----------
    events, keys
        How many events were replayed, those of `archives` included, and of how many keys.
    problems
        What is not as the replay of the events makes it, or is damaged or lost: one sentence each. Empty if
        the ledger is sound.
    """

    events: int
    keys: int
    problems: list[str]


def check_ledger(
    path: str | Path, *, archives: Iterable[str | Path] = (), progress: Progress = no_progress
) -> Check:
    """Replay every event of the ledger at `path`, and compare all forecasts and states with what is written.

    Returns a `Check`, whose `problems` say what does not agree. Nothing is written, and an engine may use the
    ledger meanwhile. It goes key by key, so memory is that of one key's events. Where events were moved to
    archives, the replay starts from the states behind them; an archive can be checked like a ledger.

    `archives` are paths of archives of this ledger. They are checked, too, and each must be the very file
    that the ledger remembers, by its digest. `progress` is called with two numbers, the events done and all
    events of the file at hand. Raises LedgerError if a file cannot be opened or read at all, and ValueError
    if `archives` is no list.
    """
    if isinstance(archives, (str, bytes, os.PathLike)) or not isinstance(archives, Iterable):
        raise ValueError(f"archives must be a list of paths, as ['old.db'], got {shown(archives)}")
    files = [check_path(archive, "each of archives") for archive in archives]
    source = check_path(path, "path")
    with closing(Ledger(source, read_only=True)) as ledger, ledger.transaction("DEFERRED"):
        result, known = _check(ledger, progress), {archive.digest: archive for archive in archives_of(ledger)}
    for file in files:
        archive = known.get(digest_of(file))
        if archive is None:
            result.problems.append(f"{file} is not the archive of {path}, or it was changed")
            continue
        with closing(Ledger(file, read_only=True)) as ledger:
            checked, marker = _check(ledger, progress), marker_of(ledger)
        problems = [f"{file}: {problem}" for problem in checked.problems]
        counted = archive.number, archive.queries, archive.closings
        if marker is None or (marker.number, marker.queries, marker.closings) != counted:
            problems.append(f"{path}: the events that it counts in the archive are not those of {file}")
        problems += [f"{path}: {problem} of {file}" for problem in _check_archived(source, file, archive)]
        keys = max(result.keys, checked.keys)
        result = Check(result.events + checked.events, keys, result.problems + problems)
    return result


def _check(ledger: Ledger, progress: Progress) -> Check:
    problems, done = ledger.damage(), (0, 0)
    with ledger.content_errors():
        problems += schema.damaged_rows(ledger.connection)
    try:
        problems += _check_numbers(ledger)
        done = _check_by_replay(ledger, problems, progress)
    except LedgerError as error:
        problems.append(str(error))
    return Check(*done, problems)


def _check_numbers(ledger: Ledger) -> list[str]:
    """Check that no row is there twice, or lost."""
    problems = []
    for (number,) in ledger.rows("SELECT number FROM queries JOIN closings USING (number)"):
        problems.append(f"two events have the number {number}: two processes wrote at once")
    last, keys = ledger.last_numbers()
    start = ledger.checkpoint()
    if (events := ledger.events_here()) != last - start:
        problems.append(f"of the events from {start + 1} to {last}, {last - start - events} are lost")
    if (named := ledger.value("SELECT count(*) FROM keys")) != keys:
        problems.append(f"of {keys} keys, {keys - named} are lost")
    if problem := damaged_hashes(ledger):
        problems.append(problem)
    problems += _check_parked(ledger, last)
    ledger.check_reach()
    return problems


def _check_parked(ledger: Ledger, last: int) -> list[str]:
    """Check that no parked outcome is lost, or should not wait any more."""
    waiting, there = ledger.parking_counts().waiting, ledger.value("SELECT count(*) FROM parked")
    problems = [] if waiting == there else [f"{waiting} outcomes were parked, but {there} of them are there"]
    for (id,) in ledger.rows("SELECT id FROM parked JOIN queries USING (id)"):
        problems.append(f"an outcome of {id!r} is parked, although its query has come")
    for id, since in ledger.rows("SELECT id, since FROM parked WHERE since > ?", (last,)):
        problems.append(f"an outcome of {id!r} was parked after event {since}, but the log ends with {last}")
    return problems


def _check_by_replay(ledger: Ledger, problems: list[str], progress: Progress) -> tuple[int, int]:
    """Play all events again, key by key; how many there are, and of how many keys. `problems` gets longer."""
    book, total = Book(config_of(ledger)), ledger.events_here()
    book.early = early_at_checkpoint(ledger)
    events = known = 0
    for number, log in ledger.log_by_key():
        events, known = events + len(log), known + 1
        try:
            with ledger.content_errors():
                book.drop([replay_key(book, ledger, number, log)])
        except LedgerError as error:
            problems.append(str(error))
            early, book = book.early, Book(book.config)
            book.early = early
        progress(events, total)
    if events < total:
        problems.append(f"{total - events} outcomes or withdrawals belong to no query of the log")
    if book.early != ledger.early() and not problems:
        counted = f"it counts {ledger.early()} outcomes with a time before their query's"
        problems.append(f"{counted}, but its events have {book.early}")
    return events, known


ARCHIVE_CHECKS = {
    "the ids that it knows to be archived are not those": "SELECT 1 FROM archive.queries WHERE number"
    " NOT IN (SELECT number FROM main.queries) AND hash_of_id(id) NOT IN (SELECT hash FROM main.archived)",
    "it goes on from other states than those": "SELECT key, state FROM main.checkpoints"
    " EXCEPT SELECT key, state FROM archive.states",
    "it lacks states": "SELECT key FROM archive.states EXCEPT SELECT key FROM main.checkpoints",
    "its open queries are not those": "SELECT * FROM main.queries WHERE number <= (SELECT max(number) FROM"
    f" main.archives) EXCEPT SELECT * FROM archive.queries WHERE number IN ({STILL_OPEN_SQL})",
    "it lacks open queries": f"{STILL_OPEN_SQL} EXCEPT SELECT number FROM main.queries",
}
"""What is wrong with a ledger, attached to an archive, if the statement finds a row. All but the first are
for its last archive only."""


def _check_archived(path: Path, file: Path, archive: Archived) -> list[str]:
    """What a ledger has otherwise than its archive, where both have it."""
    with closing(Ledger(path, read_only=True)) as ledger, ledger.ledger_errors():
        attach(ledger, file)
        # a later archive may have been made meanwhile
        compared = None if ledger.checkpoint() == archive.number else 1
        checks = list(ARCHIVE_CHECKS.items())[:compared]
        return [wrong for wrong, sql in checks if ledger.rows(f"{sql} LIMIT 1")]


FAR_BEHIND = 1_000_000
"""If states lack more events than these, a start takes long."""
LEAST_FREE = LARGE_WAL = 1 << 30

Facts = dict[str, Any]


class LedgerFinding(Struct, frozen=True):
    """Something that is wrong with a ledger, and what to do about it."""

    wrong: str
    do: str


def examine(path: Path, integrity: bool = True) -> tuple[Facts, list[LedgerFinding]]:
    """Facts about a ledger's file, and what is wrong with it.

    With `integrity`, SQLite looks over every page, and archives are compared with their digests, which takes
    a few seconds for each gigabyte.
    """
    facts: Facts = {}
    findings: list[LedgerFinding] = []
    if not path.is_file():
        there = "this is no file" if path.exists() else "there is no such ledger"
        return facts, [LedgerFinding(f"{path}: {there}", "check the path, or restore a backup")]
    _files(path, facts, findings)
    try:
        with closing(Ledger(path, read_only=True)) as ledger, ledger.content_errors():
            _content(ledger, facts, findings)
            if integrity:
                _integrity(ledger, facts, findings)
    except LedgerError as error:
        do = f"{REPAIR_ADVICE}."
        if type(error.__cause__) is ValueError and REPAIR_ADVICE not in str(error):
            do = "name the right file, or install the version that wrote it"
        findings.append(LedgerFinding(str(error).replace(f". {REPAIR_ADVICE}", ""), do))
    return facts, findings


def _files(path: Path, facts: Facts, findings: list[LedgerFinding]) -> None:
    real = os.path.realpath(path)
    states = {}
    for part in DATABASE_FILES:
        with suppress(OSError):
            states[part] = os.stat(real + part)
    size, wal = (states[part].st_size if part in states else 0 for part in DATABASE_FILES[:2])
    # SQLite writes the log of commits last, and removes it when the last process closes the ledger
    last = max(state.st_mtime for name, state in states.items() if name != "-shm")
    free = shutil.disk_usage(os.path.dirname(real)).free
    facts.update(bytes=size, wal_bytes=wal, last_commit=last, free_bytes=free)
    if free < max(LEAST_FREE, wal):
        do = "make room; or move older events to another disk with `stream archive --shrink`"
        findings.append(LedgerFinding(f"{free / 2**20:,.0f} MiB of disk are free", do))
    if wal > max(LARGE_WAL, size):
        wrong = f"the log of commits, {path}-wal, has {wal / 2**20:,.0f} MiB"
        do = "end what has been reading the ledger for long (a report, a backup): it cannot be emptied before"
        findings.append(LedgerFinding(wrong, do))


def _content(ledger: Ledger, facts: Facts, findings: list[LedgerFinding]) -> None:
    last, keys = ledger.last_numbers()
    tail, archives = ledger.tail(), archives_of(ledger)
    [(page, free)] = ledger.rows("SELECT * FROM pragma_page_size, pragma_freelist_count")
    facts.update(format=STATE_FORMAT, unused_bytes=page * free)
    facts.update(events=last, keys=keys, states_behind=last - tail, early_outcomes=ledger.early())
    parking = ledger.parking_counts()
    facts.update(parked_outcomes=parking.waiting, dropped_outcomes=parking.n_dropped)
    if last - tail > FAR_BEHIND:
        wrong = f"the states are {last - tail:,} events behind the log"
        do = "stop the engine with SIGTERM once: it writes them; until then a start replays these events"
        findings.append(LedgerFinding(wrong, do))
    config_of(ledger)
    facts["is_archive"] = ledger.about("archive") is not None
    facts["archives"] = [
        {"path": archive.path, "upto": archive.number, "there": os.path.exists(archive.path)}
        for archive in archives
    ]


def _integrity(ledger: Ledger, facts: Facts, findings: list[LedgerFinding]) -> None:
    problems = [row[0] for row in ledger.rows("PRAGMA quick_check(10)")]
    facts["integrity"] = "ok" if problems == ["ok"] else problems
    if problems != ["ok"]:
        findings.append(LedgerFinding(f"the file is damaged: {problems[0]}", f"{REPAIR_ADVICE}."))
    for archive in archives_of(ledger):
        if os.path.exists(archive.path) and digest_of(Path(archive.path)) != archive.digest:
            wrong = f"{archive.path}: the archive is not as it was made"
            findings.append(LedgerFinding(wrong, "restore a backup of the archive"))


BATCH = 4096
BACKUP = "Restore a backup"
MADE_ANEW = "tail", "early", "archived", "parked"
"""What a repair finds out again, of what stands beside the configuration."""
MOST_SKIPPED = 1 << 22
"""How many numbers are skipped in search of the next readable row."""

KEPT_OF_ARCHIVES = {
    "archives": "1",
    "checkpoints": "1",
    "keys": "number IN (SELECT key FROM checkpoints)",
    "queries": "number <= (SELECT max(number) FROM archives)",
}
"""The rows, by table, that a ledger keeps of its archives."""


class Repaired(Struct, frozen=True):
    """What `repair_ledger` saved.

    Attributes
    ----------
    events, keys
        How many accepted events were found and played into the new ledger, and of how many keys. Archived
        events are not among them.
    parked
        How many parked outcomes, which came before their queries, were found, and wait in the new ledger.
    lost
        What could not be saved, one sentence each; empty if nothing is missing.
    changed
        The names of keys with forecasts that came out other than they were answered, because events before
        them are lost.
    doubtful
        Events whose rows do not match their checksums, one sentence each. They were saved as they stand
        there, which may not be as they were accepted.
    """

    events: int
    keys: int
    parked: int
    lost: list[str]
    changed: list[str]
    doubtful: list[str]


def repair_ledger(path: str | Path, into: str | Path) -> Repaired:
    """Play the readable events of the damaged ledger `path` into a new one, `into`.

    Returns a `Repaired`, which says what is lost. The damaged file stays as it is. The new file gets its name
    when it is complete. States, indexes and checksums are made anew, so damage to them costs nothing.

    Raises LedgerError if the ledger cannot be opened, if its configuration or what it remembers of archives
    is damaged, if it is itself an archive, or if there is no room; ValueError if `into` exists, or ends in
    -wal, -shm, -journal or -lock, as a ledger's own files do.
    """
    source, target = check_path(path, "path"), check_path(into, "into")
    check_target(target, source)
    try:
        with closing(Ledger(source, read_only=True, damaged=True)) as ledger, ledger.content_errors():
            about = {row[0]: schema.is_sound(row) for row in ledger.rows("SELECT * FROM about")}
            needed = {name: is_sound for name, is_sound in about.items() if name not in MADE_ANEW}
            if "config" not in needed or not all(needed.values()):
                raise LedgerError(f"{source}: its configuration is lost or damaged. {BACKUP}")
            if ledger.about("archive") is not None:
                raise LedgerError(f"{source}: {schema.ONLY_READ}")
            with new_file(target) as part:
                start = _copy_archived(ledger, part)
                return _replayed(ledger, part, start)
    except LedgerError as error:
        # who repairs need not be told to repair
        raise LedgerError(str(error).replace(REPAIR_ADVICE, BACKUP)) from error


def _copy_archived(ledger: Ledger, into: Path) -> int:
    """If events were archived, make a new ledger that holds what this one keeps of them, and no later event.

    Returns the number of the last archived event; 0 if none was, and then makes nothing. Raises LedgerError
    if any of that is damaged: without it, the log means nothing.
    """
    # where nothing was archived, damage to the empty table of archives does no harm
    if not ledger.rows("SELECT 1 FROM checkpoints LIMIT 1"):
        return 0
    try:
        with ledger.content_errors():
            start = ledger.checkpoint()
            if not 0 < start < schema.LARGEST_NUMBER // 2:
                raise ValueError(
                    f"its last archive ends with event {start}, which cannot be. {REPAIR_ADVICE}"
                )
            book = Book(config_of(ledger))
            with new_tables(into, ledger.about("config"), start) as new:
                for table, condition in KEPT_OF_ARCHIVES.items():
                    copy_rows(ledger, new, table, condition)
                copy_hashes(ledger, new)
                schema.write_about(new, "early", early_at_checkpoint(ledger))
                for number, name, place, data in new.execute(
                    "SELECT k.number, k.name, k.config, c.state FROM checkpoints AS c"
                    " JOIN keys AS k ON k.number = c.key"
                ).fetchall():
                    book.load([schema.Snapshot(number, name, place, start, data)])
                    schema.write_states(new, [(number, start, book.keys[name].written(), data)])
            return start
    except LedgerError as error:
        what = str(error).replace(f". {REPAIR_ADVICE}", "")
        raise LedgerError(
            f"{what}. What a ledger keeps of its archives cannot be repaired. {BACKUP}"
        ) from error


def _replayed(ledger: Ledger, target: Path, start: int) -> Repaired:
    """Play the events after the number `start` into the new ledger."""
    lost, doubtful, changed, refused = list[str](), list[str](), dict[str, None](), 0
    log, names = _salvage(ledger, lost, doubtful, start)
    answered = {event.id: (event.probability, event.certificate) for event in log if not event.closes}
    with Engine(target, config_of(ledger)) as engine:
        engine.trust_events()
        for first in range(0, len(log), BATCH):
            events = [_event(event, names[event.key]) for event in log[first : first + BATCH]]
            for answer in engine.handle(events):
                if isinstance(answer, Rejected):
                    refused += 1
                    lost.append(f"event {answer.id!r} was not accepted again: {answer.detail}")
                elif isinstance(answer, Forecast):
                    came = answer.probability, answer.certificate
                    changed |= {} if came == answered[answer.id] else {answer.key: None}
    parked = _keep_parked(ledger, target, lost, doubtful)
    keys = len({event.key for event in log})
    return Repaired(len(log) - refused, keys, parked, lost, list(changed), doubtful)


def _keep_parked(ledger: Ledger, target: Path, lost: list[str], doubtful: list[str]) -> int:
    """Copy the parked outcomes that can be read into the new ledger, which has its events; how many."""
    rows = list(_readable(ledger, "parked", lost))
    doubtful += [schema.in_words("parked", row[0]) for row in rows if not schema.is_sound(row)]
    counts = ParkingCounts()
    with suppress(LedgerError):
        counts = ledger.parking_counts()
        if counts.waiting != len(rows):
            lost.append(f"{counts.waiting} outcomes were parked, {len(rows)} can be read")
    with closing(Ledger(target)) as new, new.ledger_errors(), new.transaction():
        last, asked = new.last_numbers()[0], new.recall(row[1] for row in rows)
        kept = list[ParkedOutcome]()
        for row in sorted(_once("parked", rows, lost)):
            outcome = ParkedOutcome(*row[:-1])
            try:
                outcome.outcome()
            except ValueError as error:
                lost.append(f"the parked outcome of {outcome.id!r} cannot be read: {error}")
                continue
            if outcome.id in asked:
                lost.append(f"an outcome of {outcome.id!r} is parked, although its query has come")
            else:
                kept.append(outcome._replace(since=min(outcome.since, last)))
        counts.waiting = len(kept)
        first = counts.parked - len(kept) + 1
        numbered = [outcome._replace(number=number) for number, outcome in enumerate(kept, first)]
        if numbered:
            schema.write_rows(new.connection, "parked", schema.by_columns(numbered))
        if counts.parked:
            new.write_about("parked", encode(counts).decode())
    return len(kept)


def _event(event: schema.Logged, key: str) -> Incoming:
    if not event.closes:
        return Query(event.id, key, event.value, event.time)
    if event.value is None:
        return Withdraw(event.id, key, event.time)
    return Outcome(event.id, event.value, key, event.time)


def _salvage(
    ledger: Ledger, lost: list[str], doubtful: list[str], start: int
) -> tuple[list[schema.Logged], dict[int, str]]:
    """The readable events after the number `start`, in their order, and the names of keys."""
    tables = {name: list(_readable(ledger, name, lost)) for name in ("keys", "queries", "closings")}
    for table, readable in tables.items():
        doubtful += [schema.in_words(table, row[0]) for row in readable if not schema.is_sound(row)]
    for table in ("queries", "closings"):
        tables[table] = _once(table, tables[table], lost)
    names = {row[0]: row[1] for row in tables["keys"]}
    asked = {row[0]: (row[2], row[1]) for row in tables["queries"]}
    rows: list[tuple[Any, ...]] = [(row[0], row[2], row[1], 0, *row) for row in tables["queries"]]
    for row in tables["closings"]:
        # as wide as the row of a query
        rows.append((row[0], *asked.get(row[1], (0, "")), 1, *row, None, None, None))
        if row[1] not in asked:
            lost.append(f"event {row[0]} closes query {row[1]}, which is lost")
    log = list[schema.Logged]()
    # if two processes wrote at once, a query and a closing may have the same number
    rows = sorted((row for row in rows if row[0] > start), key=itemgetter(0, 3))
    for row in rows:
        number, key, id = row[:3]
        if id and key not in names:
            lost.append(f"event {number}, of {id!r}: the name of its key is lost")
        elif id:
            try:
                log.append(schema.logged(row))
            except (ValueError, TypeError) as error:
                lost.append(f"event {number}, of {id!r}, cannot be read: {error}")
    lost += _missing(ledger, [row[0] for row in rows], start)
    return log, names


def _once(table: str, rows: list[tuple[Any, ...]], lost: list[str]) -> list[tuple[Any, ...]]:
    """Of queries that have one id, and of closings of one query, one: that with its sum if there is one."""
    chosen = dict[Any, tuple[Any, ...]]()
    for row in sorted(rows, key=lambda row: not schema.is_sound(row)):
        if (first := chosen.setdefault(row[1], row)) is not row:
            lost.append(f"{table}: number {row[0]} is about {row[1]!r}, as number {first[0]} is")
    return list(chosen.values())


def _missing(ledger: Ledger, numbers: list[int], start: int) -> Iterator[str]:
    """Sentences about the numbers after `start` that are missing: events are numbered without gaps."""
    with suppress(LedgerError):
        # the log had reached this number when states were written last
        numbers = [*numbers, max([start, ledger.tail(), *numbers[-1:]]) + 1]
    for before, after in pairwise([start, *numbers]):
        if after - before == 2:
            yield f"event {before + 1} is missing"
        elif after - before > 2:
            yield f"events {before + 1} to {after - 1} are missing"


def _readable(ledger: Ledger, table: str, lost: list[str]) -> Iterator[tuple[Any, ...]]:
    """The rows of a table in the order of their numbers, without those that cannot be read."""
    rows = f"SELECT * FROM {table} NOT INDEXED WHERE number > ?"
    last = start = 0
    while start >= 0:
        try:
            for row in ledger.connection.execute(rows, (start,)):
                # damage may have put some out of order
                if row[0] > last:
                    if start > last:
                        lost.append(f"{table}: rows between numbers {last} and {row[0]} cannot be read")
                    last = start = row[0]
                    yield row
            break
        except sqlite3.DatabaseError:
            # if the last attempt found no new row, skip at least twice as far
            start = _past_damage(ledger.connection, f"{rows} LIMIT 1", last, 2 * (start - last) + 1)
    if start != last:
        lost.append(f"{table}: what came after number {last} cannot be read")


def _past_damage(connection: sqlite3.Connection, next_row: str, last: int, least: int) -> int:
    """The lowest number from last + least on after which a row, or the end, can be read; -1: too far."""

    def works(more: int) -> bool:
        try:
            connection.execute(next_row, (min(last + more, schema.LARGEST_NUMBER),)).fetchone()
        except sqlite3.DatabaseError:
            return False
        return True

    low = step = least
    while step <= MOST_SKIPPED:
        if works(step):
            return last + low + bisect_left(range(low, step), True, key=works)
        low, step = step, 2 * step
    return -1
