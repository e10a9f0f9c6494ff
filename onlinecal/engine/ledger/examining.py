"""What an operator needs to know of a ledger when something is off, also where it cannot be opened any more.

Everything here reads only, and none of it relies on the rest: what cannot be found out is left out.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from onlinecal.engine.config import EngineConfig
from onlinecal.engine.ledger import schema
from onlinecal.engine.ledger.archive import digest_of
from onlinecal.engine.ledger.file import MEND, PARTS, advice
from onlinecal.engine.ledger.ledger import HIGHEST

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
