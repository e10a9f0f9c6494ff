"""Tables of many rows: piece by piece, so that what is made on the way stays small, and samples of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.validation import PLAIN

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
