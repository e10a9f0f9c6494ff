"""All outcome sequences of a short game: what holds for each of them holds for every adversary."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from onlinecal.validation import check_count

LARGEST_T_AT_ONCE = 20
LARGEST_T = 62


def all_sequences(T: int) -> NDArray[np.uint8]:
    """Every sequence of T outcomes, in the order of the binary numbers they spell.

    Parameters
    ----------
    T
        Rounds, 1 to 20 (20 rounds take 20 MB; `sequence_chunks` goes further).

    Returns
    -------
    NDArray[np.uint8]
        Shape (2**T, T); row i is i in binary, first round first.

    Raises
    ------
    ValueError
        For any other T.

    Examples
    --------
    >>> all_sequences(2)
    array([[0, 0],
           [0, 1],
           [1, 0],
           [1, 1]], dtype=uint8)
    """
    if check_count(T, "T") > LARGEST_T_AT_ONCE:
        raise ValueError(
            f"T must be at most {LARGEST_T_AT_ONCE} for all sequences at once, got {T}; use sequence_chunks"
        )
    return _rows(0, 2**T, T)


def sequence_chunks(T: int, chunk: int = 1 << 16) -> Iterator[NDArray[np.uint8]]:
    """The rows of `all_sequences`, at most `chunk` of them at a time.

    Parameters
    ----------
    T
        Rounds, 1 to 62.
    chunk
        Rows in each array, at least 1.

    Returns
    -------
    Iterator[NDArray[np.uint8]]
        Arrays of shape (chunk, T), the last one perhaps with fewer rows.

    Raises
    ------
    ValueError
        For T or chunk outside these ranges, at the call.
    """
    if check_count(T, "T") > LARGEST_T:
        raise ValueError(f"T must be at most {LARGEST_T}, got {T}")
    if chunk < 1:
        raise ValueError(f"chunk must be at least 1, got {chunk!r}")
    return (_rows(first, min(first + chunk, 2**T), T) for first in range(0, 2**T, chunk))


def _rows(first: int, last: int, T: int) -> NDArray[np.uint8]:
    numbers = np.arange(first, last, dtype=np.int64)
    sequences = np.empty((last - first, T), dtype=np.uint8)
    for t in range(T):
        sequences[:, t] = (numbers >> (T - 1 - t)) & 1
    return sequences
