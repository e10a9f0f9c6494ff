"""Who writes to a ledger: one process, and to the files that it opened.

Messages are for a LedgerError, which names the ledger.
"""

from __future__ import annotations

import errno
import os
import stat
import weakref

PARTS = ("", "-wal", "-shm")
"""What SQLite adds to the name of a database for the files that belong to it while it is open."""


TAKEN = (errno.EWOULDBLOCK, errno.EACCES)
"""What `flock` says of a file that another one has locked."""


class WriterLock:
    """Keeps other writers away from a file as long as this process lives, and until `release`.

    What is locked is a file beside it, `<file>-lock`. It is neither followed where it is a link, nor changed.
    A forked child does not hold the lock. Raises ValueError if another writer has it.
    """

    def __init__(self, file: str) -> None:
        self._path, self._process = f"{file}-lock", os.getpid()
        self._made = identity_of(self._path) is None
        self._descriptor: int | None = take(self._path)
        _held.add(self)

    def keep(self) -> None:
        """Take the lock again if its file was removed; ValueError if another process has it by now."""
        if self._descriptor is None or self._process != os.getpid():
            raise ValueError("it was opened by another process, of which this one is a copy: open it anew")
        if not is_at(self._path, self._descriptor):
            again = take(self._path)
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
    for lock in list(_held):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


def take(path: str) -> int:
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
            if error.errno not in TAKEN:
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


class OpenFiles:
    """The files of an open database, as they were when it was opened."""

    def __init__(self, file: str) -> None:
        names = {f"{file}{part}": identity_of(f"{file}{part}") for part in PARTS}
        self._known = {name: identity for name, identity in names.items() if identity is not None}

    def check(self) -> None:
        """ValueError if what is written now would not be found under these names."""
        for name, identity in self._known.items():
            if identity_of(name) != identity:
                raise ValueError(
                    f"{os.path.basename(name)} was removed or replaced since it was opened; nothing of this "
                    "batch was kept or answered. Put it back, or stop and open the ledger anew"
                )
