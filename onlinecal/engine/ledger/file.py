"""The files of ledgers: errors in words, the lock of the one writer, and new files.

A new file gets its name when it is complete and on disk, and never replaces another one unasked.

The one state here is a `WriterLock`: the descriptor of a locked file beside the ledger. The ledger takes it
before it opens its file, calls `keep` before each `commit` and `flush`, and `release` when it closes. All
locks of this process are in `_held`, so that a forked child forgets them: the lock stays with the parent.

What may not change: the name of the lock file, by which versions of this package keep out each other; the
names of folders that `clear_away` looks for, which are those that `tables/writing.py` makes. The words of
errors may change, but `check.py` looks for REPAIR_ADVICE in them, to take it out.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import sqlite3
import stat
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from onlinecal.tables.writing import WRITABLE_PLACE, whole

DATABASE_FILES = ("", "-wal", "-shm")
"""SQLite adds these to the name of a database, for the files that belong to it while it is open."""

RESERVED = ("-wal", "-shm", "-journal", "-lock")
"""The ends of the names of files that SQLite and `WriterLock` keep beside a ledger."""

CANNOT_WRITE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN)

DISK_ERRORS = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)

NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)
"""The errors of file systems on which a file cannot have two names."""

NOT_TEXT = "Could not decode to UTF-8"
"""So begins what Python says of a text in a database whose bytes are none."""

REPAIR_ADVICE = (
    "Try `onlinecal stream repair`, or feed the same input to a new ledger:"
    " it answers with the same forecasts"
)

ADVICE_BY_CODE = {
    DISK_ERRORS: "could not be written, or read; nothing of this batch was kept or answered. Make room on the"
    " disk, and send it again",
    CANNOT_WRITE: "cannot be opened or written. Check the permissions of the file, of -wal and -shm beside"
    " it, and of its folder",
    (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB): "cannot be read as SQLite, the format of ledgers: it is"
    f" another file, or a damaged one. {REPAIR_ADVICE}",
    (
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
    ): "is locked by another process. Try again when that has ended",
    (sqlite3.SQLITE_CONSTRAINT,): f"has rows and indexes that do not agree: it is damaged. {REPAIR_ADVICE}",
}


class LedgerError(OSError):
    """A ledger cannot be opened, read or written; nothing of the batch at hand was kept.

    It is an OSError. The message names the file, and says what is wrong and what to do.
    """


class LedgerErrors:
    """Turns errors into LedgerErrors. A class, since events pass several and generators cost more."""

    __slots__ = ("of_content", "path")

    def __init__(self, path: Path | None, of_content: bool) -> None:
        self.path, self.of_content = path, of_content

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None:
            return
        if isinstance(error, sqlite3.Error):
            code = code_of(error)
            advice = next((words for codes, words in ADVICE_BY_CODE.items() if code in codes), "")
            # what SQLite says may quote a definition of several lines
            words = " ".join(str(error).split())
            why = f"{advice} ({words})" if advice else words
            if words.startswith(NOT_TEXT):
                # it quotes what stands there
                why = f"a text in it is not UTF-8. {REPAIR_ADVICE}"
        elif type(error) is ValueError or (isinstance(error, ValueError) and not self.of_content):
            why = str(error)
        elif self.of_content and isinstance(error, Exception) and not isinstance(error, OSError):
            why = f"its content cannot be what was written ({error!r}). {REPAIR_ADVICE}"
        else:
            return
        raise LedgerError(f"{self.path or 'the ledger in memory'}: {why}") from error


def code_of(error: BaseException | None) -> int:
    """SQLite's code of an error, 0 if it has none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


class WriterLock:
    """Keeps other writers away from a file, until `release`, or until nobody has this object any more.

    It locks a file beside it, `<file>-lock`, which is never changed, and must not be a link. A forked child
    does not hold the lock. Raises ValueError if another writer has it.
    """

    _descriptor: int | None = None

    def __init__(self, file: str) -> None:
        self._path = f"{file}-lock"
        self._descriptor = lock(self._path)
        _held.add(self)

    def __del__(self) -> None:
        self.forget()

    def holds(self, path: str) -> bool:
        """Whether it has locked the file that has this name now."""
        return self._path == path and self._descriptor is not None and is_at(path, self._descriptor)

    def keep(self) -> None:
        """Take the lock again if its file was removed; ValueError if another process has it by now."""
        if self._descriptor is None:
            raise ValueError("it was opened before this process was forked: open it anew in this process")
        if not is_at(self._path, self._descriptor):
            again = lock(self._path)
            os.close(self._descriptor)
            self._descriptor = again

    def release(self) -> None:
        """Let others write."""
        if self._descriptor is not None:
            import fcntl

            # closing is not enough while a child has a copy of the descriptor
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self.forget()

    def forget(self) -> None:
        """Close the descriptor, which in a forked child leaves the lock with the parent."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


_held: weakref.WeakSet[WriterLock] = weakref.WeakSet()


def _forget_in_child() -> None:
    for held in list(_held):
        held.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


def lock(path: str) -> int:
    """A descriptor of the lock file, locked; ValueError if another writer has it, or it is no plain file."""
    import fcntl

    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        descriptor = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ValueError(f"its lock file {path} is a link: remove the link") from error
        raise ValueError(f"cannot be written here: {error.strerror}; {WRITABLE_PLACE}") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError(f"its lock file {path} is no plain file: remove that")
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # if the file was removed in between, others would lock another one
        if is_at(path, descriptor):
            return descriptor
        raise BlockingIOError(errno.EWOULDBLOCK, "its lock file was removed meanwhile")
    except (OSError, ValueError) as error:
        os.close(descriptor)
        if isinstance(error, ValueError):
            raise
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise ValueError(
                f"cannot be locked here: {error.strerror}; put it on a disk with locks, such as a local one"
            ) from error
        if any(held.holds(path) for held in list(_held)):
            raise ValueError(
                "an Engine of this process has it open already: use that one, or close it first"
            ) from error
        raise ValueError(
            "another process writes to this ledger; stop that process first, or only read the ledger, as "
            "`onlinecal stream report` does"
        ) from error


def is_at(path: str, descriptor: int) -> bool:
    """Whether an open file still has this name."""
    opened = os.fstat(descriptor)
    return identity_of(path) == (opened.st_dev, opened.st_ino)


def identity_of(path: str) -> tuple[int, int] | None:
    """The device and inode of a file; None if there is none of that name."""
    try:
        file = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return file.st_dev, file.st_ino


def check_one_name(file: str) -> None:
    """Refuse a file with several names: SQLite keeps last commits under the name that it was opened by."""
    try:
        status = os.stat(file)
    except OSError:
        return
    if stat.S_ISDIR(status.st_mode):
        raise ValueError("this is a folder, but a ledger is a file: name the file")
    if status.st_nlink > 1:
        # whoever made it may have been killed before the name that it had until then was gone
        clear_away(Path(file))
        status = os.stat(file)
    if status.st_nlink > 1:
        raise ValueError(
            f"the file has {status.st_nlink} names (hard links): remove the others, or copy it to a file of"
            " its own"
        )


def check_target(target: Path, source: Path, force: bool | None = None) -> None:
    """ValueError unless `target` may be made from a ledger; with `force` it may replace another file.

    None: no other file is ever replaced, and an error says nothing of `force`.
    """
    if target.name.endswith(RESERVED):
        ends = ", ".join(RESERVED)
        raise ValueError(f"{target}: names that end in {ends} are for the ledger's own files; choose another")
    if target.exists() and source.exists() and target.samefile(source):
        raise ValueError(f"{target} is {source} itself; name another file")
    if target.is_dir():
        raise ValueError(f"{target} is a folder: name a new file")
    if os.path.lexists(target) and not force:
        advice = "" if force is None else ", or give force=True (--force)"
        raise ValueError(f"{target} exists already: name a new file{advice}")


@contextmanager
def new_file(target: Path, force: bool = False) -> Iterator[Path]:
    """A path to write a new file to, which becomes `target` at the end of the block.

    If there is a file of that name by then, it is replaced only with `force`. The new file is removed if the
    block fails; what killed calls left is removed first. Raises LedgerError where there is no room.
    """
    clear_away(target)
    try:
        with whole(target, os.replace if force else name_once) as part:
            yield part
            sync(part)
    except (PermissionError, FileNotFoundError, NotADirectoryError) as error:
        text = f"{target}: cannot be written here: {error.strerror}; {WRITABLE_PLACE}"
        # what `whole` raised says all of it
        raise LedgerError(text if error.strerror else str(error)) from error
    except (sqlite3.Error, LedgerError) as error:
        # the block also reads other files: make clear which file has no room
        cause = error.__cause__ if isinstance(error, LedgerError) else error
        if code_of(cause) not in DISK_ERRORS:
            raise
        raise LedgerError(
            f"{target}: there is no room for it, or in TMPDIR for sorting events; nothing was changed. "
            f"Make room and give the same command again ({cause})"
        ) from error
    sync(target.parent)


def name_once(part: Path, target: Path) -> None:
    """Give a file its name; ValueError if there is a file of that name."""
    try:
        try:
            os.link(part, target)
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            # only one process can make this empty file, and that one may replace it
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            os.replace(part, target)
        else:
            os.unlink(part)
    except FileExistsError as error:
        raise ValueError(f"{target} exists, made meanwhile by another process: name a new file") from error


def clear_away(target: Path) -> None:
    """Remove the folders that `whole` made for `target` in processes that have ended."""
    name = re.compile(re.escape(f".{target.name}.") + r"(\d+)-\w{8}")
    for folder in target.parent.iterdir() if target.parent.is_dir() else ():
        match = name.fullmatch(folder.name)
        if match is not None:
            try:
                os.kill(int(match[1]), 0)
            except ProcessLookupError:
                shutil.rmtree(folder, ignore_errors=True)
            except OSError:
                # the process belongs to another user, and runs
                continue


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
