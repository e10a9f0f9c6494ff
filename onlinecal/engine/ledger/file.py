"""The file of a ledger: opened by one writer and any number of readers, and what is wrong with it in words.

Files that get their name when they are complete and on disk.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import sqlite3
import stat
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from onlinecal.engine.ledger import schema
from onlinecal.tables import whole

PARTS = ("", "-wal", "-shm")
"""What SQLite adds to the name of a database for the files that belong to it while it is open."""

RESERVED = ("-wal", "-shm", "-journal", "-lock")
"""What the names of files end in that SQLite and `WriterLock` keep beside a ledger."""

CANNOT_WRITE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN)

NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)

MEND = (
    "Try `onlinecal stream repair`, or feed the same input to a new ledger:"
    " it answers with the same forecasts"
)

ADVICE: list[tuple[tuple[int, ...], str]] = [
    (NO_ROOM,
     "could not be written; nothing of this batch was kept or answered. Make room and send it again"),
    (CANNOT_WRITE,
     "cannot be opened for writing. Check the permissions of the file, of -wal and -shm beside it, and of"
     " its folder"),
    ((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB),
     f"is damaged or no ledger. {MEND}"),
    ((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED), "is held by another process"),
]  # fmt: skip


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


def code_of(error: BaseException | None) -> int:
    """SQLite's code of an error, 0 if it has none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def advice(error: sqlite3.Error) -> str:
    """What happened to a ledger, in a sentence that says what to do."""
    code = code_of(error)
    for codes, sentence in ADVICE:
        if code in codes:
            return f"{sentence} ({error})"
    return str(error)


class LedgerFile:
    """A ledger's file, open. `path` None: one in memory, for trying things out.

    Raises LedgerError if the file cannot be opened, is no ledger, is damaged, or is in use by another writer.
    """

    def __init__(self, path: Path | None, read_only: bool = False) -> None:
        self.path, self.read_only = path, read_only
        # links and relative names out of the way, two who mean the same file call it the same
        self._file = "" if path is None else os.path.realpath(path)
        self._lock: WriterLock | None = None
        self._connection: sqlite3.Connection | None = None
        self._identities: dict[str, tuple[int, int] | None] = {}
        try:
            with self.ledger_errors():
                if path is not None and not read_only:
                    self._lock = WriterLock(self._file)
                check_one_name(self._file)
                self._connection = self._connect()
                if self._lock is not None:
                    names = [f"{self._file}{part}" for part in PARTS]
                    self._identities = {name: found for name in names if (found := identity_of(name))}
        except BaseException:
            if self._lock is not None:
                self._lock.abandon()
            self.close()
            raise

    def _connect(self) -> sqlite3.Connection:
        if self.path is None:
            return self._opened(":memory:")
        if self.read_only and not self.path.is_file():
            raise ValueError("there is no such ledger")
        target = f"{Path(self._file).as_uri()}?mode={'ro' if self.read_only else 'rwc'}"
        try:
            return self._opened(target)
        except sqlite3.OperationalError as error:
            # where nothing may be written, SQLite reads a ledger at rest if it is told that it rests
            at_rest = self.read_only and not os.path.exists(f"{self._file}-wal")
            if not at_rest or code_of(error) not in CANNOT_WRITE:
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
        if self._lock is None or self._connection is None:
            return
        with self.ledger_errors():
            self._lock.keep()
            for name, identity in self._identities.items():
                if identity_of(name) != identity:
                    raise ValueError(
                        f"{os.path.basename(name)} was removed or replaced since it was opened; nothing of "
                        "this batch was kept or answered. Put it back, or stop and open the ledger anew"
                    )

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

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What is written inside is written as a whole, or not at all."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.connection.execute("COMMIT")
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise

    def damage(self) -> list[str]:
        """What SQLite finds wrong with the file: indexes, constraints and references included."""
        found = [row[0] for row in self.rows("PRAGMA integrity_check")]
        lost = self.rows('SELECT "table", parent, count(*) FROM pragma_foreign_key_check GROUP BY 1, 2')
        return [one for one in found if one != "ok"] + [
            f"{count} rows of {table} refer to {parent} that are not there" for table, parent, count in lost
        ]


class WriterLock:
    """Keeps other writers away from a file as long as this process lives, and until `release`.

    What is locked is a file beside it, `<file>-lock`. It is neither followed where it is a link, nor changed.
    A forked child does not hold the lock. Raises ValueError if another writer has it.
    """

    def __init__(self, file: str) -> None:
        self._path, self._process = f"{file}-lock", os.getpid()
        self._made = identity_of(self._path) is None
        self._descriptor: int | None = lock(self._path)
        _held.add(self)

    def keep(self) -> None:
        """Take the lock again if its file was removed; ValueError if another process has it by now."""
        if self._descriptor is None or self._process != os.getpid():
            raise ValueError("it was opened by another process, of which this one is a copy: open it anew")
        if not is_at(self._path, self._descriptor):
            again = lock(self._path)
            os.close(self._descriptor)
            self._descriptor = again

    def abandon(self) -> None:
        """Let go of what turned out to be no ledger, with no trace of the lock if it was not there before."""
        if self._made and self._descriptor is not None and is_at(self._path, self._descriptor):
            # still locked: who opened it meanwhile sees that it is gone, and makes another one
            os.unlink(self._path)
        self.release()

    def release(self) -> None:
        """Let others write; in a forked child, only forget."""
        if self._descriptor is not None:
            if self._process == os.getpid():
                import fcntl

                # closing is not enough while a child has a copy of the descriptor
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)
            self._descriptor = None


_held: weakref.WeakSet[WriterLock] = weakref.WeakSet()


def _forget_in_child() -> None:
    for held in list(_held):
        held.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


def lock(path: str) -> int:
    """A descriptor of the lock file, locked; ValueError if another writer has it, or it is no plain file."""
    import fcntl

    while True:
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
            descriptor = os.open(path, flags, 0o666)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise ValueError(f"its lock file {path} is a link: remove it") from error
            raise ValueError(f"cannot be written here: {error.strerror}") from error
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ValueError(f"its lock file {path} is no plain file: remove it")
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # it may have been removed in between: then others would lock another one
            if is_at(path, descriptor):
                held, descriptor = descriptor, -1
                return held
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise ValueError(f"cannot be locked here: {error.strerror}") from error
            raise ValueError(
                "another process writes to this ledger; stop it first, or read with `stream report`"
            ) from error
        finally:
            if descriptor >= 0:
                os.close(descriptor)


def is_at(path: str, descriptor: int) -> bool:
    """Whether the open file is the one of that name."""
    found = os.fstat(descriptor)
    return identity_of(path) == (found.st_dev, found.st_ino)


def identity_of(path: str) -> tuple[int, int] | None:
    """What tells a file from all others, whatever it is called; None if there is none of that name."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def check_one_name(file: str) -> None:
    """Refuse a file with several names: SQLite keeps its last commits under that by which it was opened."""
    try:
        found = os.stat(file)
    except OSError:
        return
    if stat.S_ISDIR(found.st_mode):
        raise ValueError("this is a folder, a ledger is a file")
    if found.st_nlink > 1:
        raise ValueError(
            f"the file has {found.st_nlink} names (hard links): remove the others, or copy it to a file of"
            " its own"
        )


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
        with whole(target) as part:
            yield part
            _sync(part)
            if os.path.lexists(target):
                raise ValueError(f"{target}: there is a file already, made meanwhile; name another")
    except (PermissionError, FileNotFoundError) as error:
        raise LedgerError(f"{target}: cannot be written here: {error.strerror}") from error
    except (sqlite3.Error, LedgerError) as error:
        # others are at work here that are only read: say what it is that has no room
        cause = error.__cause__ if isinstance(error, LedgerError) else error
        if code_of(cause) not in NO_ROOM:
            raise
        raise LedgerError(
            f"{target}: there is no room for it, or in TMPDIR for sorting events; nothing was changed. "
            f"Make room and give the same command again ({cause})"
        ) from error
    _sync(target.parent)


def _clear_away(target: Path) -> None:
    """Remove the folders of `whole` whose processes are no more."""
    name = re.compile(re.escape(f".{target.name}.") + r"(\d+)-\w{8}")
    for folder in target.parent.iterdir() if target.parent.is_dir() else ():
        found = name.fullmatch(folder.name)
        if found is not None:
            try:
                os.kill(int(found[1]), 0)
            except ProcessLookupError:
                shutil.rmtree(folder, ignore_errors=True)
            except OSError:
                # somebody else's, and alive
                continue


def _sync(path: Path) -> None:
    """Have a file, or a folder's names, on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
