"""Where the command finds the packages installed beside onlinecal, whatever else goes by their names."""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder

NEIGHBOURS = ("adversaries", "simulations")
"""Names that research repositories give to folders of their own, too."""


def prefer_neighbours() -> None:
    """Let NEIGHBOURS be found in the folder that holds onlinecal, not in the current one or in PYTHONPATH.

    Folders of `sys.path` that have such a name move behind onlinecal's own; all others stay where they are:
    nothing of onlinecal's folder comes before the standard library. Worker processes inherit the order.
    """
    home = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = [entry for entry in sys.path if not _holds_others(entry, home)]
    moved = [entry for entry in sys.path if _holds_others(entry, home)]
    # an editable installation may find onlinecal without its folder being on the path
    at = next((at for at, entry in enumerate(path, 1) if _same(entry, home)), None)
    if at is None:
        path.append(home)
        at = len(path)
    sys.path[:] = [*path[:at], *moved, *path[at:]]


def _holds_others(entry: str, home: str) -> bool:
    return not _same(entry, home) and any(PathFinder.find_spec(name, [entry]) for name in NEIGHBOURS)


def _same(entry: str, home: str) -> bool:
    return os.path.realpath(entry) == os.path.realpath(home)
