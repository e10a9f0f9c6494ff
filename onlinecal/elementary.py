"""What has the same bits everywhere: sums, exponentials, logarithms and products.

The exp and log of the C library, of numpy and of a compiler differ in the last bit between machines. A
forecast that is steered by them, or a search that compares them, would come out otherwise elsewhere, and
a ledger could not be checked there. These are made of +, -, *, / alone, whose results IEEE 754 fixes to
the last bit; numba neither reorders nor fuses them.

BLAS and LAPACK choose their instructions, and with them the order of sums and the last bit, by the processor,
the library and the number of threads. A search that compares such figures takes other branches on another
machine. Here every sum runs in one order, and exponentials are those of `onlinecal.elementary`. numpy's
elementwise arithmetic, its sums, sorting by a stable sort and square roots have fixed bits, too, so they may
be used beside these.

Sums over the classes of a table run side by side for many rows, so products take it by columns, (C, n).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import reduce
from operator import add

import numpy as np

from onlinecal.arrays import Floats
from onlinecal.compiling import compiled


def in_turn(numbers: Iterable[float]) -> float:
    """Their sum, rounded after each: what `sum` gave before Python 3.12, which rounds otherwise."""
    return reduce(add, numbers, 0)


LOG2_E = 1.0 / math.log(2.0)
LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")
"""ln 2 to 32 bits, so that its product with an exponent is exact; the next line has what is missing."""
LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
LEAST_NORMAL, TWO_TO_54 = 2.0**-1022, 2.0**54
"""Numbers below the first have fewer digits; times the second they have all of them."""
LEAST_EXPONENT = -708.0
"""Below it exp is taken to be 0: the result would leave the range of full precision."""


@compiled
def exponential(x: float) -> float:
    """exp(x) for x up to 709, to about one unit in the last place; 0 below -708."""
    if x < LEAST_EXPONENT:
        return 0.0
    power = np.rint(x * LOG2_E)
    r = (x - power * LN2_HIGH) - power * LN2_LOW
    # Taylor's series: |r| is at most ln(2)/2, and r^14/14! below 2^-57
    value = 1.0 / 6227020800.0
    value = value * r + 1.0 / 479001600.0
    value = value * r + 1.0 / 39916800.0
    value = value * r + 1.0 / 3628800.0
    value = value * r + 1.0 / 362880.0
    value = value * r + 1.0 / 40320.0
    value = value * r + 1.0 / 5040.0
    value = value * r + 1.0 / 720.0
    value = value * r + 1.0 / 120.0
    value = value * r + 1.0 / 24.0
    value = value * r + 1.0 / 6.0
    value = value * r + 0.5
    value = value * r + 1.0
    value = value * r + 1.0
    return float(value * np.int64((np.int64(power) + 1023) << 52).view(np.float64))


@compiled
def logarithm(x: float) -> float:
    """ln(x) for any x > 0, to about two units in the last place."""
    scaled, shift = (x * TWO_TO_54, 54) if x < LEAST_NORMAL else (x, 0)
    bits = np.float64(scaled).view(np.int64)
    exponent = (bits >> 52) - 1023 - shift
    mantissa = np.int64((bits & 0xFFFFFFFFFFFFF) | (1023 << 52)).view(np.float64)
    if mantissa > 1.4142135623730951:
        mantissa *= 0.5
        exponent += 1
    # the operator would ask whether the divisor is 0, and loops over many x could not take several at once
    s = np.divide(mantissa - 1.0, mantissa + 1.0)
    # ln(m) = 2 (s + s^3/3 + s^5/5 + ...), |s| at most .1716: what is left out is below 2^-58 of it
    square = s * s
    value = 1.0 / 21.0
    value = value * square + 1.0 / 19.0
    value = value * square + 1.0 / 17.0
    value = value * square + 1.0 / 15.0
    value = value * square + 1.0 / 13.0
    value = value * square + 1.0 / 11.0
    value = value * square + 1.0 / 9.0
    value = value * square + 1.0 / 7.0
    value = value * square + 1.0 / 5.0
    value = value * square + 1.0 / 3.0
    value = 2.0 * s * square * value
    return float(exponent * LN2_HIGH + (2.0 * s + (value + exponent * LN2_LOW)))


BLOCK = 512
"""Columns whose intermediate results stay in the nearest cache."""


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


@compiled
def product(weights: Floats, columns: Floats) -> Floats:
    """weights (K, C) times columns (C, n): shape (K, n)."""
    n = columns.shape[1]
    out = np.empty((weights.shape[0], n))
    for start in range(0, n, BLOCK):
        stop = min(n, start + BLOCK)
        fill_product(weights, columns[:, start:stop], out[:, start:stop])
    return out


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
