"""Names for arrays by what they hold, tables of many rows piece by piece, and the progress of long work.

Nothing here has a state, but for a `progress_on_stderr`, which remembers the last tenth that it told.
PIECE_NUMBERS is how many numbers are summed up at a time, by recalibrators, too (`recalibration/classical`):
another one changes last bits of what they fit. The seed of `sampled_rows` and SAMPLE_SIZE decide which rows a
search begins with, and so what it finds. All about progress may change freely.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.validation import PLAIN_ARRAY

Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PIECE_NUMBERS = 1 << 18
"""A piece has so many numbers, which are 2 MB: at least one row, however long rows are."""
SAMPLE_SIZE = 100_000
"""So many rows are drawn from more, where a search begins with a sample."""


def pieces(table: NDArray[Any]) -> Iterator[slice]:
    """The pieces of a table (n, C), in order: neighbouring rows that have PIECE_NUMBERS numbers together."""
    size = max(1, PIECE_NUMBERS // (table.shape[1] if table.ndim > 1 else 1))
    for start in range(0, len(table), size):
        yield slice(start, min(start + size, len(table)))


def as_doubles(table: NDArray[Any]) -> Floats:
    """A table in the memory layout that kernels are compiled for; copied only if it has another one."""
    return np.require(table, np.float64, PLAIN_ARRAY)


def by_pieces(change: Callable[[Floats], Floats], table: NDArray[Any]) -> Floats:
    """Each row of a table (n, C) as `change` maps it, piece by piece: float64, from floats of any kind.

    `change` must map each row by itself, and to as many numbers: it sees the rows of one piece at a time.
    """
    if table.size <= PIECE_NUMBERS:
        return change(as_doubles(table))
    out = np.empty(table.shape)
    for rows in pieces(table):
        out[rows] = change(as_doubles(table[rows]))
    return out


def sampled_rows(n_rows: int, size: int = SAMPLE_SIZE) -> Ints:
    """The numbers of `size` rows, drawn with replacement; ascending, and the same for the same n_rows."""
    return np.sort(np.random.default_rng([n_rows, 6]).integers(n_rows, size=size))


Tell = Callable[[float], None]
"""Is called with the share of the work that is done, which never falls and is 1 at the end."""

SECONDS_BEFORE_TOLD = 15.0
"""People are told of work that takes longer than so many seconds."""


def no_progress(share: float) -> None:
    """Tell nobody about the progress."""


def part_of(tell: Tell, begin: float, end: float) -> Tell:
    """The `Tell` for a part of the work, which lies between two shares of the whole."""
    return lambda share: tell(begin + min(share, 1.0) * (end - begin))


def progress_on_stderr(what: str, advice: str) -> Tell:
    """A `Tell` that writes to stderr at every tenth of long work; the first line has the advice."""
    begin, last = time.monotonic(), -1

    def tell(share: float) -> None:
        nonlocal last
        tenth = int(10.0 * share)
        if tenth <= last or share >= 1.0 or time.monotonic() < begin + SECONDS_BEFORE_TOLD:
            return
        line = f"onlinecal: {what}: {10 * tenth} % done" + (f"; {advice}" if last < 0 else "")
        last = tenth
        # stderr may be closed or missing
        with suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(line + "\n")
            sys.stderr.flush()

    return tell
