"""Level sets of class probabilities, found by hashing rows, so that those without rows are never listed.

Every probability is rounded down to a multiple of 1/n_levels, and rows with the same roundings share a level
set. There are about C(n_levels + k, k) level sets, and n rows are in at most n of them.

A probability that is at most 1e-7 below a multiple counts as that multiple, since float32 loses about 1e-7.
So 0.3, 1 - 0.7 and numpy.float32(0.7) are in the levels that are written 3/10 and 7/10. On very fine grids
the allowance is 1/(4k) of a level instead.

The functions have no state. A `RunningLpError` is written by `add`, and by `restore` when it is made from a
saved state. What always holds between two calls: `_places` has the place of each level set in `biases`;
`_norms` is a tree, whose leaf behind that place is the norm of its biases, and whose every inner node is the
norm of its two children. The engine saves level sets, biases and the counts, not the tree: UNITS_OF_BIAS and
MOST_LEVEL_SETS are part of its format. LEVEL_ROUNDING decides in which level set a row is, in measures and in
recalibrators; hashes decide nothing, since sets are numbered in the order in which they come.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import compiled, kernel_part

LEVEL_ROUNDING = 1e-7
"""How far below a multiple of 1/n_levels a probability may be and still count as that multiple."""


def allowance(n_levels: int, n_classes: int) -> float:
    """LEVEL_ROUNDING in units of a level, at most 1/(4k), so that rho of a level set stays in the set."""
    return min(LEVEL_ROUNDING * n_levels, 0.25 / n_classes)


def count_level_sets(n_levels: int, n_classes: int) -> int:
    """The number of level sets that probabilities over n_classes classes can be in.

    The whole numbers c_j = floor(u_j n_levels) sum to n_levels - d, where d is the sum of k fractional
    parts, so 0 <= d <= min(k - 1, n_levels). Summed over d that makes C(n_levels + k, k) - C(n_levels, k).
    Bairaktari and Nguyen's Lemma 3 gives the first term, which is the number itself while n_levels < k and
    an upper bound from there on.
    """
    return math.comb(n_levels + n_classes, n_classes) - math.comb(n_levels, n_classes)


def number_level_sets(table: Floats, n_levels: int) -> tuple[Ints, Ints]:
    """The number of the level set that each row is in, and one row of each level set.

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
def fill_levels(row: Floats, n_levels: int, slack: float, levels: Ints) -> Any:
    """Write a row's levels into `levels`, and give back their hash."""
    key = np.uint64(0)
    for j in range(row.shape[0]):
        level = level_of(row[j], n_levels, slack)
        levels[j] = level
        if level > 0:
            key += mixed_bits(j, level)
    return key


@compiled
def _number_rows(table: Floats, n_levels: int, slack: float) -> tuple[Ints, Ints]:
    """Open addressing on hashes; where hashes are equal, levels are compared one by one."""
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
    n_sets = 0
    for i in range(n):
        key = fill_levels(table[i], n_levels, slack, levels)
        slot = key & mask
        while True:
            number = slots[slot]
            if number < 0:
                slots[slot] = n_sets
                keys[n_sets] = key
                first_rows[n_sets] = i
                numbers[i] = n_sets
                n_sets += 1
                break
            if keys[number] == key and _has_levels(table[first_rows[number]], n_levels, slack, levels):
                numbers[i] = number
                break
            slot = (slot + np.uint64(1)) & mask
    return numbers, first_rows[:n_sets].copy()


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


UNITS_OF_BIAS = 2.0**32
"""Biases are integers in units of 1/UNITS_OF_BIAS, so that their sums are exact."""
MOST_LEVEL_SETS = 4096
RUNNING_ROUNDING = 1.0 + 1e-12
"""A factor that makes up for the rounding of norms."""

LevelSetKey = tuple[tuple[int, int], ...]


class RunningLpError:
    """T times the l_p calibration error of T settled forecasts, or a bound just above it.

    For each level set it keeps the sum of (f_j - y_j) of each class j, as integers. A binary tree of partial
    norms has the norm of all of them at its root, so a round costs O(k + log V) with V level sets. Rounds
    beyond the first 4,096 level sets are only counted: each adds at most 2 to the norm.

    Parameters
    ----------
    p
        From 1, finite.

    Attributes
    ----------
    rounds
        How many were settled.
    rest
        How many of them are only counted.
    classes
        How many classes have been named.
    biases
        For each level set, in order of appearance, the biases by class number, in units of 2^-32.
    """

    def __init__(self, p: float) -> None:
        self.p = p
        self.rounds = self.rest = self.classes = 0
        self.biases: dict[LevelSetKey, dict[int, int]] = {}
        self._places: dict[LevelSetKey, int] = {}
        self._norms = [0.0, 0.0]

    def add(self, level_set: LevelSetKey, forecast: Mapping[int, float], label: int) -> None:
        """Settle a forecast in that level set: probabilities by class number, and the number that came."""
        self.rounds += 1
        self.classes = max(self.classes, len(forecast), label + 1)
        if level_set not in self.biases:
            if len(self.biases) == MOST_LEVEL_SETS:
                self.rest += 1
                return
            self.restore(level_set, {})
        biases = self.biases[level_set]
        for j, u in forecast.items():
            biases[j] = biases.get(j, 0) + round(u * UNITS_OF_BIAS)
        biases[label] = biases.get(label, 0) - round(UNITS_OF_BIAS)
        self._write(self._places[level_set], self._norm_of(biases))

    def restore(self, level_set: LevelSetKey, biases: dict[int, int]) -> None:
        """Put back a level set that is not there, with its biases; the counts are up to the caller."""
        self._places[level_set] = len(self.biases)
        self.biases[level_set] = biases
        if 2 * len(self.biases) > len(self._norms):
            known = [self._norm_of(each) for each in self.biases.values()]
            leaves = len(self._norms)
            self._norms = [0.0] * (2 * leaves)
            for place, each in enumerate(known):
                self._write(place, each)
        self._write(self._places[level_set], self._norm_of(biases))

    @property
    def value(self) -> float:
        """The bound: a sum over rounds. It exceeds the sum itself by at most 2 a round that is only counted,
        and by 1e-12 of it and k 2^-33 a round for roundings."""
        return (
            self._norms[1] * RUNNING_ROUNDING
            + self.rounds * self.classes / (2.0 * UNITS_OF_BIAS)
            + 2.0 * self.rest
        )

    def _norm_of(self, biases: Mapping[int, int]) -> float:
        return norm([bias / UNITS_OF_BIAS for bias in biases.values()], self.p)

    def _write(self, place: int, value: float) -> None:
        norms = self._norms
        node = len(norms) // 2 + place
        norms[node] = value
        while node > 1:
            node //= 2
            norms[node] = norm_of_pair(norms[2 * node], norms[2 * node + 1], self.p)
