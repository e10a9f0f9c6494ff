"""A stamp of source files, for compiled loops to notice that a rule has changed.

numba's disk cache only watches the file in which a loop is written, not the files of the rules that the
loop calls. Each loop therefore captures a stamp of those sources: change a rule and the loop is compiled
anew.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from types import ModuleType


def source_stamp(*modules: ModuleType) -> int:
    """A number that changes when the sources change: all files of a package, the one of a plain module."""
    stamp = 0
    for module in modules:
        if not getattr(module, "__file__", None):
            continue
        path = Path(str(module.__file__))
        files = sorted(path.parent.rglob("*.py")) if hasattr(module, "__path__") else [path]
        for file in files:
            stamp = zlib.crc32(file.read_bytes(), stamp)
    return stamp
