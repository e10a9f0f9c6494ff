"""Where compiled code is kept: a folder of the user, else a private temporary one, else nowhere.

In turn: $NUMBA_CACHE_DIR, $XDG_CACHE_HOME or ~/.cache, and the folder for temporary files. Each is looked
into; what is new goes to the first that takes it. Code is only loaded from a folder and a file that belong
to this user or to root, into which nobody else can write, and only if its checksum is right.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
import tempfile
import time
import uuid
import warnings
from pathlib import Path

from numba.core import config

HEAD = b"onlinecal kernel 1\n"
SUFFIX = ".kernel"
MOST_BYTES = 1 << 29
"""The least recently used files go when there is more than this."""
UNUSED = 90 * 86400.0
"""Seconds without use after which a file goes."""
DAY = 86400.0
SWEPT = "swept"

_told = False


def kept_in() -> Path | None:
    """The folder that takes new code, None if there is none; it is made if it is missing."""
    for folder, private in _places():
        try:
            _make(folder, private)
        except OSError:
            continue
        return folder
    return None


def looked_into() -> list[tuple[Path, int]]:
    """The folders in which compiled code is looked for, those that can be trusted, and the files in each."""
    found = []
    for folder, private in _places():
        with contextlib.suppress(OSError):
            if _is_trusted(folder, private):
                found.append((folder, len(list(folder.glob(f"*{SUFFIX}")))))
    return found


def read(name: str) -> bytes | None:
    """The code kept under this name, None if there is none that can be trusted."""
    for folder, private in _places():
        try:
            if not _is_trusted(folder, private):
                continue
            with open(folder / (name + SUFFIX), "rb") as file:
                state = os.fstat(file.fileno())
                if not _is_safe(state):
                    continue
                content = file.read()
        except OSError:
            continue
        data = content[len(HEAD) + 32 :]
        if content == HEAD + hashlib.sha256(data).digest() + data:
            if time.time() - state.st_mtime > DAY:
                # its age says when it was last used
                with contextlib.suppress(OSError):
                    os.utime(folder / (name + SUFFIX))
            return data
    return None


def write(name: str, data: bytes) -> None:
    """Keep code under this name, if that can be; a file is complete or not there."""
    refusals: list[str] = []
    for folder, private in _places():
        try:
            _make(folder, private)
            _write_whole(folder / (name + SUFFIX), HEAD + hashlib.sha256(data).digest() + data)
        except OSError as error:
            refusals.append(f"{folder}: {error.strerror or error}")
            continue
        if refusals:
            tell(f"compiled code is kept in {folder} ({'; '.join(refusals)})")
        _sweep(folder)
        return
    tell(
        "compiled code cannot be kept, every process compiles anew; "
        f"NUMBA_CACHE_DIR may name a folder that can be written to ({'; '.join(refusals)})"
    )


def tell(message: str) -> None:
    """Warn about the cache, once in a process."""
    global _told
    if not _told:
        _told = True
        # no line of anybody's code has done this
        warnings.warn_explicit(message, RuntimeWarning, "onlinecal", 0)


def _places() -> list[tuple[Path, bool]]:
    """Folders to look into, in this order, and whether others may not even look into it."""
    places = []
    if config.CACHE_DIR:
        places.append((Path(config.CACHE_DIR).absolute() / "onlinecal", False))
    else:
        home = os.path.expanduser("~")
        cache = os.environ.get("XDG_CACHE_HOME", "")
        if sys.platform == "win32":
            cache = cache or os.environ.get("LOCALAPPDATA", "")
        if not os.path.isabs(cache) and os.path.isdir(home):
            cache = os.path.join(home, ".cache")
        if os.path.isabs(cache):
            places.append((Path(cache) / "onlinecal", False))
    with contextlib.suppress(OSError):
        user = os.geteuid() if hasattr(os, "geteuid") else "user"
        places.append((Path(tempfile.gettempdir()) / f"onlinecal-{user}", True))
    return places


def _make(folder: Path, private: bool) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    # where the folder is made first, nobody can have got there before
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700 if private else 0o755)
    if not _is_trusted(folder, private):
        raise PermissionError(0, "others can write there, or it is not this user's")


def _is_trusted(folder: Path, private: bool) -> bool:
    if not hasattr(os, "geteuid"):
        return folder.is_dir()
    if private:
        state = os.lstat(folder)
        return stat.S_ISDIR(state.st_mode) and state.st_uid == os.geteuid() and not state.st_mode & 0o077
    state = os.stat(folder)
    return stat.S_ISDIR(state.st_mode) and _is_safe(state)


def _is_safe(state: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or (state.st_uid in (0, os.geteuid()) and not state.st_mode & 0o022)


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


def _sweep(folder: Path) -> None:
    """Once a day: remove what was not used for long, and the oldest of too much."""
    marker = folder / SWEPT
    now = time.time()
    with contextlib.suppress(OSError):
        if now - marker.stat().st_mtime < DAY:
            return
    with contextlib.suppress(OSError):
        marker.touch()
        files = []
        for entry in os.scandir(folder):
            if entry.name.endswith((SUFFIX, ".part")):
                with contextlib.suppress(OSError):
                    state = entry.stat()
                    files.append((state.st_mtime, state.st_size, entry.path))
        total = 0
        for used, size, path in sorted(files, reverse=True):
            total += size
            lost = path.endswith(".part") and now - used > DAY
            if lost or now - used > UNUSED or total > MOST_BYTES:
                with contextlib.suppress(OSError):
                    os.unlink(path)
