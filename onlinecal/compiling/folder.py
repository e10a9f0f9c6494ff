"""Where compiled code is kept: a folder of the user, else a private temporary one, else nowhere.

In turn: $NUMBA_CACHE_DIR, $XDG_CACHE_HOME or ~/.cache, and the folder for temporary files. Each is looked
into; what is new goes to the first that takes it. In it is one folder for each state of the sources. Code is
only loaded from a folder and a file that belong to this user or to root, into which nobody else can write,
and only if its checksum is right.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import stat
import sys
import tempfile
import time
import uuid
import warnings
from functools import cache
from pathlib import Path

import llvmlite
import numba
import numpy as np
from numba.core import config

from onlinecal.compiling.sources import source_digest

SUFFIX = ".kernel"
MOST_STATES = 12
"""The least recently used folders go when there are more."""
UNUSED = 60 * 86400.0
"""Seconds without use after which a folder goes."""
DAY = 86400.0

_told = False


def kept_in() -> Path | None:
    """The folder that takes new code, None if there is none; it is made if it is missing."""
    for place in _places():
        with contextlib.suppress(OSError):
            return _made(place)
    return None


def looked_into() -> list[tuple[Path, int]]:
    """The folders in which compiled code is looked for, those that can be trusted, and the files in each."""
    trusted = [place for place in _places() if _is_trusted(place)]
    return [(place, len(list((place / _state()).glob(f"*{SUFFIX}")))) for place in trusted]


def read(name: str) -> bytes | None:
    """The code kept under this name, None if there is none that can be trusted."""
    for place in _places():
        folder = place / _state()
        if not (_is_trusted(place) and _is_trusted(folder)):
            continue
        try:
            with open(folder / (name + SUFFIX), "rb") as file:
                content = file.read() if _is_safe(os.fstat(file.fileno())) else b""
        except OSError:
            continue
        data = content[32:]
        if content[:32] == hashlib.sha256(data).digest():
            _used(folder)
            return data
    return None


def write(name: str, data: bytes) -> None:
    """Keep code under this name, if that can be; a file is complete or not there."""
    refusals: list[str] = []
    for place in _places():
        try:
            folder = _made(place) / _state()
            if not folder.exists():
                _sweep(place)
                folder.mkdir(0o755, exist_ok=True)
            _write_whole(folder / (name + SUFFIX), hashlib.sha256(data).digest() + data)
        except OSError as error:
            refusals.append(f"{place}: {error.strerror or error}")
            continue
        if refusals:
            _tell(f"compiled code is kept in {place} ({'; '.join(refusals)})")
        return
    _tell(
        "compiled code cannot be kept, every process compiles anew; "
        f"NUMBA_CACHE_DIR may name a folder that can be written to ({'; '.join(refusals)})"
    )


def _tell(message: str) -> None:
    """Warn about the cache, once in a process."""
    global _told
    if not _told:
        _told = True
        # no line of anybody's code has done this
        warnings.warn_explicit(message, RuntimeWarning, "onlinecal", 0)


@cache
def _state() -> str:
    """The name of the folder for today's sources, and the libraries that compile them."""
    versions = numba.__version__, llvmlite.__version__, np.__version__, sys.implementation.cache_tag
    return hashlib.sha256(repr((source_digest(), versions)).encode()).hexdigest()[:40]


def _places() -> list[Path]:
    """Folders to look into, in this order; none if the sources cannot be told."""
    places: list[Path] = []
    if source_digest() is None:
        return places
    home, cache = os.path.expanduser("~"), os.environ.get("XDG_CACHE_HOME", "")
    if config.CACHE_DIR:
        places.append(Path(config.CACHE_DIR).absolute() / "onlinecal")
    elif os.path.isabs(cache):
        places.append(Path(cache) / "onlinecal")
    elif os.path.isdir(home):
        places.append(Path(home) / ".cache" / "onlinecal")
    with contextlib.suppress(OSError):
        user = os.geteuid() if hasattr(os, "geteuid") else "user"
        places.append(Path(tempfile.gettempdir()) / f"onlinecal-{user}")
    return places


def _made(place: Path) -> Path:
    """The same folder, made if it is missing.

    Raises
    ------
    OSError
        If it cannot be made, or not be trusted.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    # where the folder is made first, nobody can have got there before; a temporary one is for nobody else
    with contextlib.suppress(FileExistsError):
        place.mkdir(0o755 if place.name == "onlinecal" else 0o700)
    if not _is_trusted(place):
        raise PermissionError(0, "others can write there, or it is not this user's")
    return place


def _is_trusted(folder: Path) -> bool:
    """Whether this user or root has made it, and any link to it, and nobody else can write there."""
    try:
        link, state = os.lstat(folder), os.stat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(state.st_mode) and _is_safe(state) and _is_of_us(link)


def _is_safe(state: os.stat_result) -> bool:
    return _is_of_us(state) and not (hasattr(os, "geteuid") and state.st_mode & 0o022)


def _is_of_us(state: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or state.st_uid in (0, os.geteuid())


def _write_whole(path: Path, content: bytes) -> None:
    temporary = path.with_name(f"{uuid.uuid4().hex}.part")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


@cache
def _used(folder: Path) -> None:
    """Let the folder's age say when it was last used, to a day."""
    with contextlib.suppress(OSError):
        if time.time() - folder.stat().st_mtime > DAY:
            os.utime(folder)


def _sweep(place: Path) -> None:
    """Make room for one folder more: those not used for long go, and the oldest of too many."""
    with contextlib.suppress(OSError):
        states = [one for one in place.iterdir() if re.fullmatch("[0-9a-f]{40}", one.name)]
        states.sort(key=lambda one: one.stat().st_mtime, reverse=True)
        for number, folder in enumerate(states, 2):
            if number > MOST_STATES or time.time() - folder.stat().st_mtime > UNUSED:
                shutil.rmtree(folder, ignore_errors=True)
