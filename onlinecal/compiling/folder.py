"""Where compiled code is kept: a folder of the user, else a private temporary one, else nowhere.

In turn: $NUMBA_CACHE_DIR, $XDG_CACHE_HOME or ~/.cache, and the folder for temporary files. Each is looked
into; what is new goes to the first that takes it. Code is only loaded from a folder and a file that belong to
this user or to root, into which nobody else can write, and only if its checksum is right.

In it is one folder for each state of the sources. numba compiles what a function calls into it, and constants
of other modules with it. So a kernel depends on more files than its own; instead of telling which, an edit of
any of them counts for all kernels.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
import time
import uuid
import warnings
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path

import llvmlite
import numba
import numpy as np
from numba.core import config

PACKAGES = ("onlinecal", "adversaries", "simulations")
WITHOUT_KERNELS = ("cli", "plots")
"""Folders in them that no kernel is made of."""
ROOT = Path(__file__).absolute().parents[2]
"""Where the packages are: a folder, or an archive in which this process has found them."""
BEGAN = time.time()
"""When this process could begin to load sources."""
SUFFIX = ".kernel"
MOST_STATES = 12
"""The least recently used folders go when there are more."""
UNUSED = 60 * 86400.0
"""Seconds without use after which a folder goes."""

_told: list[str] = []


@cache
def source_digest() -> str | None:
    """64 hexadecimal digits, the same wherever these sources are; None if they cannot be read."""
    digest = hashlib.sha256()
    try:
        for path in _sources():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{os.path.relpath(path, ROOT)} {content}\n".encode())
    except OSError:
        return None
    return digest.hexdigest()


def is_ours(path: str) -> bool:
    """Whether the digest includes a file, or would if it was there."""
    try:
        package, part, *_ = Path(path).relative_to(ROOT).parts
    except ValueError:
        return False
    return package in PACKAGES and part not in WITHOUT_KERNELS


def unchanged() -> bool:
    """Whether the sources are older than this process; else it may have loaded what they were before."""
    return _older_than_process(int(time.monotonic()))


@lru_cache(1)
def _older_than_process(second: int) -> bool:
    """The same, asked at most once in a second."""
    try:
        states = [path.stat() for path in _sources()]
    except OSError:
        return False
    # a date in the future tells nothing
    return not any(BEGAN < max(state.st_mtime, state.st_ctime) <= time.time() for state in states)


def _sources() -> list[Path]:
    """All files that count, in the same order everywhere; the archive that they are in.

    Raises
    ------
    OSError
        If there are none.
    """
    if not ROOT.is_dir():
        return [next(path for path in (ROOT, *ROOT.parents) if path.exists())]
    Path(__file__).stat()
    found = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    return sorted(path for path in found if is_ours(str(path)))


def kept_in() -> Path | None:
    """The folder that takes new code, None if there is none; it is made if it is missing."""
    for place in _places():
        with suppress(OSError):
            return _made(place)
    return None


def looked_into() -> list[tuple[Path, int]]:
    """The folders in which compiled code is looked for, those that can be trusted, and the files in each."""
    trusted = [place for place in _places() if _is_trusted(place)]
    return [(place, len(list((place / _state()).glob(f"*{SUFFIX}")))) for place in trusted]


def read(name: str) -> bytes | None:
    """The code kept under this name, None if there is none that can be trusted."""
    for place in _places():
        file = place / _state() / (name + SUFFIX)
        with suppress(OSError):
            content = file.read_bytes() if all(map(_is_trusted, (place, file.parent, file))) else b""
            if content[:32] == hashlib.sha256(content[32:]).digest():
                # the folder's age says when it was last used
                if os.access(file.parent, os.W_OK):
                    os.utime(file.parent)
                return content[32:]
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
            message = f"compiled code is kept in {place}"
            break
        except OSError as error:
            refusals.append(f"{place}: {error.strerror or error}")
    else:
        message = (
            "compiled code cannot be kept, every process compiles anew; "
            "NUMBA_CACHE_DIR may name a folder that can be written to"
        )
        refusals = refusals or ["the sources cannot be read"]
    if refusals and not _told:
        # once in a process; no line of anybody's code has done this
        _told.append(f"{message} ({'; '.join(refusals)})")
        warnings.warn_explicit(_told[0], RuntimeWarning, "onlinecal", 0)


@cache
def _state() -> str:
    """The name of the folder for today's sources, and the libraries that compile them."""
    versions = numba.__version__, llvmlite.__version__, np.__version__, sys.implementation.cache_tag
    return hashlib.sha256(repr((source_digest(), versions)).encode()).hexdigest()[:40]


def _places() -> list[Path]:
    """Folders to look into, in this order; none if the sources cannot be told."""
    if source_digest() is None:
        return []
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
    # where the folder is made first, nobody can have got there before; a temporary one is for nobody else
    place.mkdir(0o755 if place.name == "onlinecal" else 0o700, parents=True, exist_ok=True)
    if not _is_trusted(place):
        raise PermissionError(0, "others can write there, or it is not this user's")
    return place


def _is_trusted(path: Path) -> bool:
    """Whether this user or root has made it, and any link to it, and nobody else can write there."""
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


def _sweep(place: Path) -> None:
    """Make room for one folder more: those not used for long go, and the oldest of too many."""
    with suppress(OSError):
        states = [one for one in place.iterdir() if re.fullmatch("[0-9a-f]{40}", one.name)]
        states.sort(key=lambda one: one.stat().st_mtime, reverse=True)
        for number, folder in enumerate(states, 2):
            if number > MOST_STATES or time.time() - folder.stat().st_mtime > UNUSED:
                shutil.rmtree(folder, ignore_errors=True)
