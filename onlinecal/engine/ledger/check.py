"""Whether a ledger is sound, and what can be saved of one that is not.

`check_ledger` plays its whole log again: every forecast and every state must come out as it is written.
`examine` looks at what an operator needs to know, also where a ledger cannot be opened any more; it relies on
nothing of the rest, and what cannot be found out is left out. `repair_ledger` plays what can be read into a
new ledger.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from onlinecal.engine.config import EngineConfig
from onlinecal.engine.engine import Engine
from onlinecal.engine.events import Forecast, Incoming, Outcome, Query, Rejected, Withdraw
from onlinecal.engine.keys.book import Book
from onlinecal.engine.ledger import schema
from onlinecal.engine.ledger.archive import Archived, archives_of, digest_of
from onlinecal.engine.ledger.file import MEND, PARTS, LedgerError, advice, check_target, made
from onlinecal.engine.ledger.ledger import HIGHEST, Ledger, Tell, silent
from onlinecal.engine.ledger.replay import config_of, replay_key
from onlinecal.engine.ledger.schema import Snapshot, loaded, loaded_outcome, write_states
from onlinecal.engine.ledger.sums import LAST_NUMBER, changed_in
from onlinecal.engine.watch.reliability import Reliability

WAITING = (
    "SELECT * FROM archive.queries WHERE number IN (SELECT j.value FROM archive.about AS a,"
    " json_each(a.value, '$.open') AS j WHERE a.name = 'archive')"
)
"""The queries of an archive that go on waiting."""


class Check(Struct, frozen=True):
    """What came of replaying a whole log.

    Attributes
    ----------
    events, keys
        How many events were replayed, and of how many keys.
    problems
        What was not as the ledger has it, one sentence each; empty if all was.
    """

    events: int
    keys: int
    problems: list[str]


def check_ledger(path: str | Path, *, archives: Iterable[str | Path] = (), tell: Tell = silent) -> Check:
    """Replay every event of the ledger at `path`, and compare all forecasts and states with what is written.

    Where events were archived, it starts from the states behind them. An archive is checked like a ledger;
    `archives` are checked, too, and each has to have the digest that the ledger keeps of it. Reads only, key
    by key, so memory is that of one key's events. `tell` is called with the numbers of events done and in
    all. Raises LedgerError if something cannot be read.
    """
    with closing(Ledger(Path(path), read_only=True)) as ledger, ledger.snapshot():
        found = _check(ledger, tell)
        known = {one.digest: one for one in archives_of(ledger)}
    for one in map(Path, archives):
        archive = known.get(digest_of(one))
        if archive is None:
            problems = [f"{one}: this is no archive of {path}, or it was changed"]
            found = Check(found.events, found.keys, found.problems + problems)
            continue
        with closing(Ledger(one, read_only=True)) as ledger:
            checked = _check(ledger, tell)
        problems = [f"{one}: {problem}" for problem in checked.problems]
        if archive == max(known.values(), key=lambda one: one.number):
            problems += _check_start(Path(path), one, archive)
        keys = max(found.keys, checked.keys)
        found = Check(found.events + checked.events, keys, found.problems + problems)
    return found


def _check_start(path: Path, last: Path, archive: Archived) -> list[str]:
    """Whether a ledger goes on from the states and the open queries at the end of its last archive."""
    with closing(Ledger(path, read_only=True)) as ledger, ledger.ledger_errors():
        ledger.connection.execute("ATTACH ? AS archive", (f"{last.absolute().as_uri()}?mode=ro",))
        if ledger.checkpoint() != archive.number:
            # events were archived meanwhile
            return []
        pairs = (
            ("SELECT key, state FROM main.checkpoints", "SELECT key, state FROM archive.states"),
            (f"SELECT * FROM main.queries WHERE number <= {archive.number}", WAITING),
        )
        sql = "SELECT * FROM ({} EXCEPT {}) LIMIT 1"
        other = any(ledger.rows(sql.format(*way)) for pair in pairs for way in (pair, pair[::-1]))
    return [f"{path}: the states or queries behind its last archive are not those of {last}"] if other else []


def _check(ledger: Ledger, tell: Tell) -> Check:
    problems = ledger.damage()
    problems += [f"{one} is none of a ledger's: remove it" for one in schema.strangers(ledger.rows)]
    problems += _check_beside(ledger)
    book, start = Book(config_of(ledger)), ledger.checkpoint()
    total = sum(ledger.counts()) - sum(one.events for one in archives_of(ledger))
    events = known = 0
    for number, log in groupby(ledger.log_by_key(), key=lambda event: event.key):
        of_key = list(log)
        events, known = events + len(of_key), known + 1
        try:
            with ledger.content_errors():
                book.drop([replay_key(book, ledger, number, of_key, start)])
        except LedgerError as error:
            problems.append(str(error))
            book = Book(book.config)
        tell(events, total)
    if events < total:
        problems.append(f"{total - events} closings belong to no query of the log")
    return Check(events, known, problems)


def _check_beside(ledger: Ledger) -> list[str]:
    """What no replay comes to: checksums, numbers, states of keys without later events, reliability."""
    with ledger.content_errors():
        problems = changed_in(ledger.connection)
        if ledger.tail() > ledger.last_numbers()[0]:
            problems.append(f"states go up to number {ledger.tail()}, which no event has")
    for (number,) in ledger.rows("SELECT number FROM queries JOIN closings USING (number)"):
        problems.append(f"number {number} stands for two events: two processes wrote at once")
    for (number,) in ledger.rows(
        "SELECT c.key FROM checkpoints AS c LEFT JOIN states AS s ON s.key = c.key"
        " WHERE s.state IS NOT c.state AND coalesce(s.number, 0) <= ?",
        (ledger.checkpoint(),),
    ):
        problems.append(f"the state of key {number} is older than what was archived, and another one")
    try:
        bins = ledger.reliability()
        if bins is not None:
            Reliability.load(bins)
    except (ValueError, TypeError) as error:
        problems.append(f"{error}; it begins anew when the ledger is opened")
    return problems


BEHIND = 1_000_000
"""States that lack more events make a start take long."""
LARGE_WAL = 1 << 30
LEAST_FREE = 1 << 30

OLDEST = (
    "SELECT q.id, k.name, q.time, q.number FROM queries AS q JOIN keys AS k ON k.number = q.key"
    " LEFT JOIN closings AS c ON c.query = q.number"
    " WHERE (q.number IN (SELECT oldest FROM states) OR q.number > ?) AND c.number IS NULL"
    " ORDER BY q.number LIMIT 1"
)
"""The first open forecast, of those that states have as their oldest and those behind all states."""

Facts = dict[str, Any]


class Finding(Struct, frozen=True):
    """Something that is wrong, and what to do about it."""

    wrong: str
    do: str


def examine(path: Path, integrity: bool = True) -> tuple[Facts, list[Finding]]:
    """What there is to know of a ledger's file, and what is wrong with it.

    `integrity`: have SQLite look over every page, and compare archives with their digests, which takes a few
    seconds a gigabyte.
    """
    facts: Facts = {}
    findings: list[Finding] = []
    if not path.is_file():
        there = "this is no file" if path.exists() else "there is no such ledger"
        return facts, [Finding(f"{path}: {there}", "check the path, or restore a backup")]
    _files(path, facts, findings)
    try:
        uri = f"{Path(os.path.realpath(path)).as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
            if _tables(connection, facts, findings):
                _content(connection, facts, findings)
            if integrity:
                _integrity(connection, facts, findings)
    except sqlite3.Error as error:
        findings.append(Finding(f"{path}: {advice(error).split('. ')[0]} ({error})", f"{MEND}."))
    except Exception as error:
        # a damaged file may say anything
        findings.append(Finding(f"{path}: its content makes no sense ({error!r})", f"{MEND}."))
    return facts, findings


def _files(path: Path, facts: Facts, findings: list[Finding]) -> None:
    real = os.path.realpath(path)
    states = {}
    for part in PARTS:
        with suppress(OSError):
            states[part] = os.stat(real + part)
    size, wal = (states[part].st_size if part in states else 0 for part in PARTS[:2])
    # the log of commits is written last, and is gone when the last process has closed the ledger
    last = max(one.st_mtime for name, one in states.items() if name != "-shm")
    free = shutil.disk_usage(os.path.dirname(real)).free
    writer = holder_of(f"{real}-lock")
    facts.update(bytes=size, wal_bytes=wal, last_commit=last, writer=writer, free_bytes=free)
    if states[""].st_nlink > 1:
        wrong = f"the file has {states[''].st_nlink} names (hard links)"
        findings.append(Finding(wrong, "remove the others, or copy it"))
    if free < max(LEAST_FREE, wal):
        do = "make room; or move older events to another disk with `stream archive --shrink`"
        findings.append(Finding(f"{free / 2**20:,.0f} MiB of disk are free", do))
    if wal > max(LARGE_WAL, size):
        wrong = f"the log of commits, {path}-wal, has {wal / 2**20:,.0f} MiB"
        do = "end what has been reading the ledger for long (a report, a backup): it cannot be emptied before"
        findings.append(Finding(wrong, do))


def holder_of(lock: str) -> int | None:
    """The process that holds a lock file; 0 if one does that cannot be seen from here, None if none does.

    It is only looked up, in /proc/locks, and not tried: trying would keep a writer from it for a moment.
    """
    try:
        found = os.stat(lock, follow_symlinks=False)
        held = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    for line in held:
        # 1: FLOCK  ADVISORY  WRITE 4711 08:01:123456 0 EOF
        fields = line.split()
        if "FLOCK" in fields and device in fields and "->" not in fields:
            return max(int(fields[fields.index(device) - 1]), 0)
    return None


def _tables(connection: sqlite3.Connection, facts: Facts, findings: list[Finding]) -> bool:
    """Whether the tables are those that this program knows."""
    facts["format"] = schema.marks_of(connection)[1]
    try:
        schema.check(connection)
    except ValueError as error:
        findings.append(Finding(str(error), "give the right file, or install the version that wrote it"))
        return False
    [page, free] = connection.execute("SELECT * FROM pragma_page_size, pragma_freelist_count").fetchone()
    facts["unused_bytes"] = page * free
    return True


def _content(connection: sqlite3.Connection, facts: Facts, findings: list[Finding]) -> None:
    last = connection.execute(HIGHEST).fetchone()[0]
    about = dict(connection.execute("SELECT name, value FROM about"))
    tail = about.get("tail", 0)
    [keys] = connection.execute("SELECT count(*) FROM keys").fetchone()
    facts.update(events=last, keys=keys, states_behind=last - tail)
    if last - tail > BEHIND:
        wrong = f"the states are {last - tail:,} events behind the log"
        do = "stop the engine with SIGTERM once: it writes them; until then a start replays these events"
        findings.append(Finding(wrong, do))
    if facts["writer"] is None and last > tail:
        facts["ended"] = "killed: the next start replays what the states lack"
    if "config" in about:
        msgspec.json.decode(about["config"], type=EngineConfig)
    oldest = connection.execute(OLDEST, (tail,)).fetchone()
    if oldest:
        names = ("id", "key", "time", "events_ago")
        facts["oldest_open"] = dict(zip(names, (*oldest[:3], last - oldest[3]), strict=True))
    facts["is_archive"] = "archive" in about
    facts["archives"] = [
        {"path": path, "upto": number, "there": os.path.exists(path)}
        for path, number in connection.execute("SELECT path, number FROM archives ORDER BY number")
    ]


def _integrity(connection: sqlite3.Connection, facts: Facts, findings: list[Finding]) -> None:
    found = [row[0] for row in connection.execute("PRAGMA quick_check(10)")]
    facts["integrity"] = "ok" if found == ["ok"] else found
    if found != ["ok"]:
        findings.append(Finding(f"the file is damaged: {found[0]}", f"{MEND}."))
    if facts.get("archives"):
        for path, digest in connection.execute("SELECT path, digest FROM archives ORDER BY number"):
            if os.path.exists(path) and digest_of(Path(path)) != digest:
                wrong = f"{path}: the archive is not as it was made"
                findings.append(Finding(wrong, "restore a backup of it"))


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
        [start] = connection.execute("SELECT max(number) FROM archives").fetchone()
        if not 0 < start < LAST_NUMBER // 2:
            raise ValueError(f"its last archive cannot end with number {start}")
        with closing(sqlite3.connect(into, isolation_level=None)) as new:
            schema.prepare(new)
            new.execute("BEGIN")
            for table, sql in KEPT.items():
                found = connection.execute(sql)
                marks = ", ".join("?" * len(found.description))
                new.executemany(f"INSERT INTO {table} VALUES ({marks})", found)
            book = Book(config)
            for number, name, place, data in new.execute(
                "SELECT k.number, k.name, k.config, c.state FROM checkpoints AS c"
                " JOIN keys AS k ON k.number = c.key"
            ).fetchall():
                book.load([Snapshot(number, name, place, start, data)])
                write_states(new, [(number, start, book.keys[name].written(), data)])
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
