"""Products with the same bits on every processor.

BLAS and LAPACK choose their instructions, and with them the order of sums and the last bit, by the processor,
the library and the number of threads. A search that compares such figures takes other branches on another
machine. Here every sum runs in one order, and exponentials are those of `onlinecal.elementary`. numpy's
elementwise arithmetic, its sums, stable sorts and square roots have fixed bits, too, and may be used beside
these functions.

Products take a table by columns, (C, n): then the sums over its classes are made for many rows at once.

The order of every sum here is part of the results, which are the same on all machines. It may change only
where changed results are meant. `soften` writes to its scores, the others to `out`, where they have one, and
to no other argument.
"""

from __future__ import annotations

import numpy as np

from onlinecal.arrays import Floats
from onlinecal.compiling import compiled
from onlinecal.elementary import exponential

BLOCK_COLUMNS = 512
"""So many columns are multiplied at a time: their intermediate results stay in the nearest cache."""


@compiled
def fill_product(weights: Floats, columns: Floats, out: Floats) -> None:
    """weights (K, C) times columns (C, m), into `out` (K, m); each sum in the order of C."""
    for a in range(weights.shape[0]):
        row = out[a]
        row[:] = 0.0
        for c in range(weights.shape[1]):
            weight = weights[a, c]
            column = columns[c]
            for r in range(row.shape[0]):
                row[r] += weight * column[r]


@compiled
def add_inner(left: Floats, rows: Floats, out: Floats) -> None:
    """Add left (K, m) times rows (m, C) to `out` (K, C); each sum in the order of m."""
    for r in range(rows.shape[0]):
        row = rows[r]
        for a in range(left.shape[0]):
            weight = left[a, r]
            total = out[a]
            for c in range(row.shape[0]):
                total[c] += weight * row[c]


@compiled
def soften(scores: Floats) -> None:
    """The softmax of each column of scores (K, m), in place."""
    largest = scores[0].copy()
    for a in range(1, scores.shape[0]):
        for r in range(largest.shape[0]):
            largest[r] = max(largest[r], scores[a, r])
    total = np.zeros_like(largest)
    for a in range(scores.shape[0]):
        row = scores[a]
        for r in range(largest.shape[0]):
            row[r] = exponential(row[r] - largest[r])
            total[r] += row[r]
    for a in range(scores.shape[0]):
        row = scores[a]
        for r in range(largest.shape[0]):
            row[r] /= total[r]


def product(weights: Floats, columns: Floats) -> Floats:
    """weights (K, C) times columns (C, n): shape (K, n)."""
    out = np.empty((len(weights), columns.shape[1]))
    fill_blocks(np.ascontiguousarray(weights), columns, out)
    return out


@compiled
def fill_blocks(weights: Floats, columns: Floats, out: Floats) -> None:
    """Fill in the product block by block of columns."""
    n = columns.shape[1]
    for start in range(0, n, BLOCK_COLUMNS):
        stop = min(n, start + BLOCK_COLUMNS)
        fill_product(weights, columns[:, start:stop], out[:, start:stop])


def inner(left: Floats, rows: Floats) -> Floats:
    """left (K, n) times rows (n, C): shape (K, C)."""
    out = np.zeros((len(left), rows.shape[1]))
    add_inner(np.ascontiguousarray(left), np.ascontiguousarray(rows), out)
    return out


def by_columns(table: Floats) -> Floats:
    """A copy of a table (n, C) as columns (C, n), each contiguous."""
    return np.array(table.T, order="C")


def lengths(rows: Floats) -> Floats:
    """The l2 norms along the last axis."""
    return np.sqrt((rows * rows).sum(axis=-1))


@compiled
def dot(first: Floats, second: Floats) -> float:
    """The sum of products, (n,) each, as numpy adds them: in halves, and each part of them in eight sums."""
    n = len(first)
    if n > 128:
        half = n // 2 - n // 2 % 8
        return dot(first[:half], second[:half]) + dot(first[half:], second[half:])
    total, done = 0.0, 0
    if n >= 8:
        t = np.zeros(8)
        for i in range(8):
            t[i] = first[i] * second[i]
        done = n - n % 8
        for i in range(8, done):
            t[i % 8] += first[i] * second[i]
        total = ((t[0] + t[1]) + (t[2] + t[3])) + ((t[4] + t[5]) + (t[6] + t[7]))
    for i in range(done, n):
        total += first[i] * second[i]
    return total
