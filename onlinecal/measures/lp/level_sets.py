"""Level sets of class probabilities, found by hashing rows; the set of all level sets is never listed.

R rounds every probability down to a multiple of 1/n_levels; rows with the same rounding share a level set.
There are about C(n_levels + k, k) of them, of which n rows meet at most n.

A probability that is at most 1e-7 below a multiple counts as that multiple: 1e-7 is what float32 loses, so
0.3, 1 - 0.7 and numpy.float32(0.7) are all in the level that is written 3/10 or 7/10. On very fine grids
the allowance is 1/(4k) of a level instead.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import compiled, kernel_part

ROUNDING = 1e-7
"""How far below a multiple of 1/n_levels a probability may be and still count as that multiple."""


def allowance(n_levels: int, n_classes: int) -> float:
    """ROUNDING in units of a level, at most 1/(4k): rho of a level set then stays in it."""
    return min(ROUNDING * n_levels, 0.25 / n_classes)


def count_level_sets(n_levels: int, n_classes: int) -> int:
    """The number of level sets that probabilities over n_classes classes can be in.

    The whole numbers c_j = floor(u_j n_levels) sum to n_levels - d, where d is the sum of k fractional
    parts, so 0 <= d <= min(k - 1, n_levels). Summed over d that makes C(n_levels + k, k) - C(n_levels, k).
    Bairaktari and Nguyen's Lemma 3 gives the first term, which is the number itself while n_levels < k and
    an upper bound from there on.
    """
    return math.comb(n_levels + n_classes, n_classes) - math.comb(n_levels, n_classes)


def number_level_sets(table: Floats, n_levels: int) -> tuple[Ints, Ints]:
    """Which level set each row is in, and one row of each.

    Parameters
    ----------
    table
        Checked probabilities, shape (n, k).
    n_levels
        Levels in [0, 1).

    Returns
    -------
    numbers, first_rows
        numbers[i] in 0..D-1, shape (n,), in order of appearance; first_rows, shape (D,).
    """
    return _number_rows(table, n_levels, allowance(n_levels, table.shape[1]))


def levels_of(table: Floats, n_levels: int) -> Ints:
    """floor(u n_levels) with the allowance, shape (n, k) or (k,) as `table`."""
    return np.floor(table * n_levels + allowance(n_levels, table.shape[-1])).astype(np.int64)


@kernel_part
def level_of(u: float, n_levels: int, slack: float) -> np.int64:
    """The level of one probability."""
    return np.int64(np.floor(u * n_levels + slack))


@kernel_part
def mixed_bits(j: int, level: int) -> Any:
    """64 well-mixed bits for one class and its level (the finaliser of splitmix64)."""
    z = np.uint64(j) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(level) * np.uint64(0xD1B54A32D192ED03)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel_part
def hash_of_levels(levels: Ints) -> Any:
    """Hash of one row of levels; classes at level 0 do not enter."""
    key = np.uint64(0)
    for j in range(levels.shape[0]):
        if levels[j] > 0:
            key += mixed_bits(j, levels[j])
    return key


@kernel_part
def same_levels(first: Ints, second: Ints) -> bool:
    """Whether two rows of levels are the same."""
    same = True
    for j in range(first.shape[0]):
        same &= first[j] == second[j]
    return same


@kernel_part
def fill_levels(row: Floats, n_levels: int, slack: float, levels: Ints) -> Any:
    """Write a row's levels into `levels`; their hash."""
    key = np.uint64(0)
    for j in range(row.shape[0]):
        level = level_of(row[j], n_levels, slack)
        levels[j] = level
        if level > 0:
            key += mixed_bits(j, level)
    return key


@compiled
def _number_rows(table: Floats, n_levels: int, slack: float) -> tuple[Ints, Ints]:
    """Open addressing on hashes; a hash only proposes, levels are then compared one by one."""
    n, k = table.shape
    size = 16
    while size < 2 * n:
        size *= 2
    mask = np.uint64(size - 1)
    slots = np.empty(size, dtype=np.int64)
    for i in range(size):
        slots[i] = -1
    keys = np.empty(n, dtype=np.uint64)
    first_rows = np.empty(n, dtype=np.int64)
    numbers = np.empty(n, dtype=np.int64)
    levels = np.empty(k, dtype=np.int64)
    found = 0
    for i in range(n):
        key = fill_levels(table[i], n_levels, slack, levels)
        slot = key & mask
        while True:
            number = slots[slot]
            if number < 0:
                slots[slot] = found
                keys[found] = key
                first_rows[found] = i
                numbers[i] = found
                found += 1
                break
            if keys[number] == key and _has_levels(table[first_rows[number]], n_levels, slack, levels):
                numbers[i] = number
                break
            slot = (slot + np.uint64(1)) & mask
    return numbers, first_rows[:found].copy()


@kernel_part
def _has_levels(row: Floats, n_levels: int, slack: float, levels: Ints) -> bool:
    same = True
    for j in range(row.shape[0]):
        same &= level_of(row[j], n_levels, slack) == levels[j]
    return same


@kernel_part
def norm_of_pair(a: float, b: float, p: float) -> float:
    """The l_p norm of (a, b), both from 0 up, without overflow or underflow of the powers."""
    high = max(a, b)
    low = min(a, b)
    if low == 0.0 or p == np.inf:
        return high
    return high * (1.0 + (low / high) ** p) ** (1.0 / p)


@kernel_part
def norm(values: Floats, p: float) -> float:
    """The l_p norm of a vector, scaled by its largest entry."""
    high = 0.0
    for value in values:
        high = max(high, abs(value))
    if high == 0.0 or p == np.inf:
        return high
    total = 0.0
    for value in values:
        ratio = abs(value) / high
        if ratio > 0.0:
            total += ratio**p
    return high * total ** (1.0 / p)
