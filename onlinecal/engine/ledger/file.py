"""The file of a ledger: opened, locked, and what is wrong with it in words that say what to do.

Files that get their name when they are complete and on disk.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from onlinecal.engine.ledger import schema
from onlinecal.engine.ledger.writer_lock import OpenFiles, WriterLock, check_one_name
from onlinecal.tables import whole


class LedgerError(OSError):
    """The ledger cannot be read or written; nothing of the batch at hand was kept."""


class InWords:
    """Makes LedgerErrors of errors; a class, since every event passes several and a generator costs more."""

    __slots__ = ("of_content", "path")

    def __init__(self, path: Path | None, of_content: bool) -> None:
        self.path, self.of_content = path, of_content

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None:
            return
        if isinstance(error, sqlite3.Error):
            why = advice(error)
        elif isinstance(error, ValueError):
            why = str(error)
        elif self.of_content and isinstance(error, Exception) and not isinstance(error, OSError):
            why = f"its content makes no sense ({error!r}). {MEND}"
        else:
            return
        raise LedgerError(f"{self.path or 'the ledger'}: {why}") from error


class LedgerFile:
    """A ledger's file, open. `path` None: one in memory, for trying things out.

    Raises LedgerError if the file cannot be opened, is no ledger, is damaged, or is in use by another writer.
    """

    def __init__(self, path: Path | None, read_only: bool = False) -> None:
        self.path, self.read_only = path, read_only
        # links and relative names out of the way, two who mean the same file call it the same
        self._file = "" if path is None else os.path.realpath(path)
        self._lock: WriterLock | None = None
        self._files: OpenFiles | None = None
        self._connection: sqlite3.Connection | None = None
        try:
            with self.ledger_errors():
                if path is not None and not read_only:
                    self._lock = WriterLock(self._file)
                check_one_name(self._file)
            self._connection = self._connect()
            if self._lock is not None:
                self._files = OpenFiles(self._file)
        except BaseException:
            if self._lock is not None:
                self._lock.abandon()
            self.close()
            raise

    def _connect(self) -> sqlite3.Connection:
        target = ":memory:"
        if self.path is not None:
            if self.read_only and not self.path.is_file():
                raise LedgerError(f"{self.path}: there is no such ledger")
            target = f"{Path(self._file).as_uri()}?mode={'ro' if self.read_only else 'rwc'}"
        with self.ledger_errors():
            try:
                return self._opened(target)
            except sqlite3.OperationalError as error:
                # where nothing may be written, SQLite reads a ledger at rest if it is told that it rests
                if (
                    not self.read_only
                    or code_of(error) not in CANNOT_WRITE
                    or os.path.exists(f"{self._file}-wal")
                ):
                    raise
                return self._opened(f"{target}&immutable=1")

    def _opened(self, target: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            target, uri=True, isolation_level=None, check_same_thread=False, timeout=10.0
        )
        try:
            if self.read_only:
                schema.check(connection)
            else:
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("PRAGMA cache_size = -65536")
                schema.prepare(connection)
                # not before it is known to be ours: it changes the file
                connection.execute("PRAGMA journal_mode = WAL")
                # from the first look on, all its files are there
                schema.is_empty(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def connection(self) -> sqlite3.Connection:
        """The open connection; ValueError after `close`."""
        if self._connection is None:
            raise ValueError("the ledger is closed")
        return self._connection

    def close(self) -> None:
        """Let go of the file and the lock."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def check_in_place(self) -> None:
        """LedgerError if what is written now would be lost, or this is not the only writer any more."""
        if self._lock is not None and self._files is not None and self._connection is not None:
            with self.ledger_errors():
                self._lock.keep()
                self._files.check()

    def ledger_errors(self) -> InWords:
        """Say in a LedgerError what is wrong with the file and what to do."""
        return InWords(self.path, of_content=False)

    def content_errors(self) -> InWords:
        """Turn whatever goes wrong with what was read into a LedgerError: a damaged file may say anything."""
        return InWords(self.path, of_content=True)

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """All rows that a statement finds."""
        with self.ledger_errors():
            return self.connection.execute(sql, parameters).fetchall()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Reads inside see one state of the ledger, whatever is written meanwhile."""
        with self.ledger_errors():
            self.connection.execute("BEGIN")
        try:
            yield
        finally:
            # SQLite may have ended it by itself, over an error
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")

    def damage(self) -> list[str]:
        """What SQLite finds wrong with the file, its indexes included; empty if nothing."""
        found = [row[0] for row in self.rows("PRAGMA integrity_check")]
        return [] if found == ["ok"] else found


def code_of(error: sqlite3.Error) -> int:
    """SQLite's code of an error, 0 if it has none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def advice(error: sqlite3.Error) -> str:
    """What happened to a ledger, in a sentence that says what to do."""
    code = code_of(error)
    for codes, sentence in ADVICE:
        if code in codes:
            return f"{sentence} ({error})"
    return str(error)


CANNOT_WRITE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN)

MEND = (
    "Try `onlinecal stream repair`, or feed the same input to a new ledger:"
    " it answers with the same forecasts"
)

ADVICE: list[tuple[tuple[int, ...], str]] = [
    ((sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR),
     "could not be written; nothing of this batch was kept or answered. Make room and send it again"),
    (CANNOT_WRITE,
     "cannot be opened for writing. Check the permissions of the file, of -wal and -shm beside it, and of"
     " its folder"),
    ((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB),
     f"is damaged or no ledger. {MEND}"),
    ((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED), "is held by another process"),
]  # fmt: skip

NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


RESERVED = ("-wal", "-shm", "-journal", "-lock")
"""What the names of files end in that SQLite and `WriterLock` keep beside a ledger."""


def check_target(target: Path, source: Path, force: bool = False) -> None:
    """ValueError unless a file may be made of a ledger under this name; `force`: in place of another one."""
    if target.name.endswith(RESERVED):
        ends = ", ".join(RESERVED)
        raise ValueError(f"{target}: files whose names end in {ends} belong to a ledger; name another")
    if target.exists() and source.exists() and target.samefile(source):
        raise ValueError(f"{target} is {source} itself; name another file")
    if target.is_dir():
        raise ValueError(f"{target} is a folder, not a file to make")
    if os.path.lexists(target) and not force:
        raise ValueError(f"{target}: there is a file already; name one that is to be made")


@contextmanager
def made(target: Path) -> Iterator[Path]:
    """Where to write a database that will be `target`; what a killed call left for it is gone.

    It gets its name at the end of the block, unless there is a file of that name by then, and is removed if
    the block fails. Raises LedgerError where there is no room for it.
    """
    _clear_away(target)
    try:
        with _room_for(target), whole(target) as part:
            yield part
            _sync(part)
            if os.path.lexists(target):
                raise ValueError(f"{target}: there is a file already, made meanwhile; name another")
    except (PermissionError, FileNotFoundError) as error:
        raise LedgerError(f"{target}: cannot be written here: {error.strerror}") from error
    _sync(target.parent)


def _clear_away(target: Path) -> None:
    """Remove the folders of `whole` whose processes are no more."""
    name = re.compile(re.escape(f".{target.name}.") + r"(\d+)-\w{8}")
    for folder in target.parent.iterdir() if target.parent.is_dir() else ():
        found = name.fullmatch(folder.name)
        if found and not _is_alive(int(found[1])):
            shutil.rmtree(folder, ignore_errors=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


@contextmanager
def _room_for(target: Path) -> Iterator[None]:
    """Say of a full disk what it is that has no room: others are at work here that are only read."""
    try:
        yield
    except (sqlite3.Error, LedgerError) as error:
        cause = error if isinstance(error, sqlite3.Error) else error.__cause__
        if isinstance(cause, sqlite3.Error) and code_of(cause) in NO_ROOM:
            raise LedgerError(
                f"{target}: there is no room for it, or in TMPDIR for sorting events; nothing was changed. "
                f"Make room and give the same command again ({cause})"
            ) from error
        raise


def _sync(path: Path) -> None:
    """Have a file, or a folder's names, on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
