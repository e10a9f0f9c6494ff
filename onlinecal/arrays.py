"""Arrays by what they hold, and tables of many rows piece by piece.

What people are told of long work that they did not expect to be long.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.validation import PLAIN

Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ENTRIES = 1 << 18
"""Numbers in a piece: 2 MB."""
SAMPLED = 100_000
"""Rows that are drawn from more, where a search only begins."""


def pieces(table: NDArray[Any]) -> Iterator[slice]:
    """Neighbouring rows of a table (n, C), so many as make ENTRIES numbers, one piece after the other."""
    size = max(1, ENTRIES // (table.shape[1] if table.ndim > 1 else 1))
    for start in range(0, len(table), size):
        yield slice(start, min(start + size, len(table)))


def as_doubles(table: NDArray[Any]) -> Floats:
    """A table as kernels are compiled for: copied only if it is of another kind."""
    return np.require(table, np.float64, PLAIN)


def by_pieces(change: Callable[[Floats], Floats], table: NDArray[Any]) -> Floats:
    """What `change` makes of each row of a table (n, C): float64, from floats of any precision."""
    if table.size <= ENTRIES:
        return change(as_doubles(table))
    out = np.empty(table.shape)
    for rows in pieces(table):
        out[rows] = change(as_doubles(table[rows]))
    return out


def sampled_rows(n_rows: int, size: int = SAMPLED) -> Ints:
    """Numbers of so many rows, drawn with replacement; ascending, and always the same for the same n_rows."""
    return np.sort(np.random.default_rng([n_rows, 6]).integers(n_rows, size=size))


Tell = Callable[[float], None]
"""Called with the share of the work that is done, which never falls; it is 1 at the end."""

LONG = 15.0
"""Seconds after which people are told."""


def untold(share: float) -> None:
    """Tell nobody."""


def part_of(tell: Tell, begin: float, end: float) -> Tell:
    """What a part of the work tells, which is that from one share to another."""
    return lambda share: tell(begin + min(share, 1.0) * (end - begin))


def told(what: str, advice: str) -> Tell:
    """Tell on stderr, from so many seconds on, at every tenth of the work; at first with the advice."""
    begin, last = time.monotonic(), -1

    def tell(share: float) -> None:
        nonlocal last
        tenth = int(10.0 * share)
        if tenth <= last or share >= 1.0 or time.monotonic() < begin + LONG:
            return
        line = f"onlinecal: {what}: {10 * tenth} % done" + (f"; {advice}" if last < 0 else "")
        last = tenth
        # nobody may be there to read it
        with suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(line + "\n")
            sys.stderr.flush()

    return tell
