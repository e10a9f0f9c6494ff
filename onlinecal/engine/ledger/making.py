"""Files that get their name when they are complete and on disk."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from onlinecal.engine.ledger.file import LedgerError, code_of
from onlinecal.engine.ledger.writer_lock import PARTS

NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


@contextmanager
def made(target: Path) -> Iterator[Path]:
    """Where to write a database that will be `target`; what an interrupted call left there is gone.

    It gets its name at the end of the block, and is removed if the block fails. Raises LedgerError where
    there is no room for it.
    """
    part = target.with_name(f"{target.name}.part")
    _remove(part)
    try:
        with _room_for(target):
            yield part
    except BaseException:
        _remove(part)
        raise
    _sync(part)
    os.replace(part, target)
    _remove(part)
    _sync(target.parent)


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


def _remove(part: Path) -> None:
    for end in (*PARTS, "-lock"):
        part.with_name(f"{part.name}{end}").unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Have a file, or a folder's names, on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
