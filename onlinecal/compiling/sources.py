"""The state of all sources that kernels are made of, as one digest.

numba compiles what a function calls into it, and constants of other modules with it. So a kernel depends on
more files than its own; instead of telling which, an edit of any of them counts for all kernels.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from functools import cache

PACKAGES = ("onlinecal", "adversaries", "simulations")
WITHOUT_KERNELS = frozenset({"cli", "plots"})
"""Folders in them that no kernel is made of."""
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
"""Where the packages are: a folder, or an archive in which this process has found them."""
BEGAN = time.time()
"""When this process could begin to load sources."""
SETTLED = 1.0
"""Seconds for which sources that were unchanged are taken to be so."""

_seen_unchanged = float("-inf")


@cache
def source_digest() -> str | None:
    """64 hexadecimal digits, the same wherever these sources are; None if they cannot be read."""
    digest = hashlib.sha256()
    try:
        for path in _files():
            with open(path, "rb") as file:
                content = hashlib.sha256(file.read()).hexdigest()
            digest.update(f"{os.path.relpath(path, ROOT)} {content}\n".encode())
    except OSError:
        return None
    return digest.hexdigest()


def is_ours(path: str) -> bool:
    """Whether the digest includes a file, or would if it was there."""
    parts = os.path.relpath(path, ROOT).split(os.sep) if os.path.isabs(path) else [""]
    return parts[0] in PACKAGES and parts[1] not in WITHOUT_KERNELS


def unchanged() -> bool:
    """Whether the sources are older than this process; else it may have loaded what they were before."""
    global _seen_unchanged
    if time.monotonic() - _seen_unchanged < SETTLED:
        return True
    now = time.time()
    try:
        for path in _files():
            state = os.stat(path)
            # a date in the future tells nothing
            if BEGAN < max(state.st_mtime, state.st_ctime) <= now:
                return False
    except OSError:
        return False
    _seen_unchanged = time.monotonic()
    return True


def _files() -> Iterator[str]:
    """All files that count, in the same order everywhere; the archive that they are in.

    Raises
    ------
    OSError
        If there are none.
    """
    if not os.path.isdir(ROOT):
        archive = ROOT
        while not os.path.exists(archive):
            archive = os.path.dirname(archive)
        yield archive
        return
    for package in PACKAGES:
        for folder, folders, files in os.walk(os.path.join(ROOT, package)):
            if os.path.dirname(folder) == ROOT:
                folders[:] = set(folders) - WITHOUT_KERNELS
            folders[:] = sorted(set(folders) - {"__pycache__"})
            for file in sorted(files):
                if file.endswith(".py"):
                    yield os.path.join(folder, file)
    os.stat(__file__)
