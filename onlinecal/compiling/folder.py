"""Where compiled code is kept: a folder of the user, else a private temporary one, else nowhere.

The folders are, in this order, $NUMBA_CACHE_DIR, $XDG_CACHE_HOME or ~/.cache, and the folder for temporary
files. Code is looked for in each of them. New code goes to the first that accepts it. Code is only loaded
from a folder and a file that belong to this user or to root, into which nobody else can write, and only if
its checksum is right.

Each of them has one folder for each set of versions of the libraries that compile, and in that one file for
each kernel and types of arguments, under a name that tells what the kernel is made of (`ingredients`).

`write` alone adds code, `_note_use` touches it, and `_sweep` removes what is old; any number of processes may
do so at a time. A process that compiles takes a turn, so that others wait for its code and do not compile it
as well. `_turn` is the file that it holds for that, or held last. A file of code is complete or not there,
and its name says all that its content depends on. So it does not matter who wrote it last, and a file that is
lost is compiled again. Nothing here changes a result. `_told` only remembers that this process has warned. A
file is the checksum of the code, and then the code: whoever changes that need not care for old files, since
one whose checksum is wrong counts as missing.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import tempfile
import time
import uuid
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO

import llvmlite
import numba
import numpy as np
from numba.core import config

from onlinecal.compiling.ingredients import modules_digest

try:
    import fcntl
except ImportError:
    # nothing is locked there
    fcntl = None  # type: ignore[assignment]

SUFFIX = ".kernel"
TURNS = "turns"
"""The file of which a process that compiles locks one byte, which stands for the code that it compiles."""
GLANCE = 0.05
"""The seconds between two attempts of a process that waits for another one."""
LONGEST_WAIT = 60.0
"""The most seconds that a process waits for another one that compiles."""
DAY = 86400.0
UNUSED = 60 * DAY
"""Code that was not used for so many seconds is removed."""
MOST_KERNELS = 4000
"""How many files are kept: the least recently used ones beyond that are removed."""

_told: list[str] = []
_turn: IO[str] | None = None


def kept_in() -> Path | None:
    """The folder in which compiled code is kept, made if it is missing; None if none can be written to."""
    for place in _places():
        with suppress(OSError):
            return _made(place)
    return None


def looked_into() -> list[tuple[Path, int]]:
    """The trusted folders in which compiled code is looked for, with the number of files in each."""
    trusted = [place for place in _places() if _is_trusted(place)]
    return [(place, len(list((place / _folder_name()).glob(f"*{SUFFIX}")))) for place in trusted]


def read(name: str) -> bytes | None:
    """The code kept under this name, None if there is none that can be trusted."""
    for place in _places():
        file = place / _folder_name() / (name + SUFFIX)
        with suppress(OSError):
            content = file.read_bytes() if all(map(_is_trusted, (place, file.parent, file))) else b""
            if content[:32] == hashlib.sha256(content[32:]).digest():
                _note_use(file)
                return content[32:]
    return None


def write(name: str, data: bytes) -> None:
    """Keep code under this name, if possible; a file is complete or not there."""
    refusals: list[str] = []
    for place in _places():
        try:
            folder = _made(place) / _folder_name()
            folder.mkdir(0o755, exist_ok=True)
            _sweep(place)
            _write_whole(folder / (name + SUFFIX), hashlib.sha256(data).digest() + data)
            instead = f"so it is kept in {place}"
            break
        except OSError as error:
            refusals.append(f"{place} ({error.strerror or error})")
    else:
        instead = "so every process compiles anew, for some seconds"
    if refusals and not _told:
        # a process warns once; the warning names no line, since no line of the user's code is to blame
        _told.append(
            f"compiled code cannot be kept in {', nor in '.join(refusals)}, {instead}. NUMBA_CACHE_DIR may "
            "name another folder, one that is yours and that nobody else can write to"
        )
        warnings.warn_explicit(_told[0], RuntimeWarning, "onlinecal", 0)


def take_turn(name: str) -> None:
    """Wait until no other process compiles the code of this name; from then on others wait for this one.

    A process that has waited LONGEST_WAIT seconds goes on anyway. A process has one turn at most, so none
    waits in a circle; the turn ends with `end_turn`, with the next turn, or with the process.
    """
    global _turn
    end_turn()
    place, end = kept_in(), time.monotonic() + LONGEST_WAIT
    if fcntl is None or place is None:
        return
    # it stays open for as long as the turn lasts
    _turn = open(os.open(place / TURNS, os.O_RDWR | os.O_CREAT, 0o600), "w")  # noqa: SIM115
    byte = int.from_bytes(hashlib.sha256(name.encode()).digest()[:7])
    while time.monotonic() < end:
        with suppress(BlockingIOError, PermissionError):
            fcntl.lockf(_turn, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
            return
        time.sleep(GLANCE)


def end_turn() -> None:
    """Let other processes go on."""
    if _turn is not None:
        _turn.close()


@cache
def _folder_name() -> str:
    """The name of the folder for these versions of the libraries that compile, and for our use of them."""
    versions = numba.__version__, llvmlite.__version__, np.__version__, sys.implementation.cache_tag
    ways = modules_digest("onlinecal.compiling.kernels", "onlinecal.compiling.instructions")
    return hashlib.sha256(repr((versions, ways)).encode()).hexdigest()[:40]


def _places() -> list[Path]:
    """Folders to look into, in this order."""
    places: list[Path] = []
    home, cache = os.path.expanduser("~"), os.environ.get("XDG_CACHE_HOME", "")
    if config.CACHE_DIR:
        places.append(Path(config.CACHE_DIR).absolute() / "onlinecal")
    elif os.path.isabs(cache):
        places.append(Path(cache) / "onlinecal")
    elif os.path.isdir(home):
        places.append(Path(home) / ".cache" / "onlinecal")
    with suppress(OSError):
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
    # a new folder has no files of others; a temporary one can be used by this user alone
    place.mkdir(0o755 if place.name == "onlinecal" else 0o700, parents=True, exist_ok=True)
    if not _is_trusted(place):
        raise PermissionError(0, "others can write there, or it is not yours")
    return place


def _is_trusted(path: Path) -> bool:
    """Whether it, and any link to it, belongs to this user or root, and nobody else can write to it."""
    if not (path.exists() and hasattr(os, "geteuid")):
        return path.exists()
    state, owners = path.stat(), {path.lstat().st_uid, path.stat().st_uid}
    return owners <= {0, os.geteuid()} and not state.st_mode & 0o022


def _write_whole(path: Path, content: bytes) -> None:
    temporary = path.with_name(f"{uuid.uuid4().hex}.part")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "wb") as file:
            file.write(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _note_use(file: Path) -> None:
    """Make a file's age, to the day, the time since its last use."""
    if time.time() - file.stat().st_mtime > DAY and os.access(file, os.W_OK):
        os.utime(file)


@cache
def _sweep(place: Path) -> None:
    """Once in a process, remove code that has not been used for long, and the oldest if there is too much."""
    with suppress(OSError):
        files = {file: file.stat().st_mtime for file in place.glob(f"*/*{SUFFIX}")}
        for number, file in enumerate(sorted(files, key=files.__getitem__, reverse=True), 1):
            if number > MOST_KERNELS or time.time() - files[file] > UNUSED:
                file.unlink(missing_ok=True)
        for folder in place.iterdir():
            if re.fullmatch("[0-9a-f]{40}", folder.name) and folder.name != _folder_name():
                # only empty folders are removed
                with suppress(OSError):
                    folder.rmdir()
