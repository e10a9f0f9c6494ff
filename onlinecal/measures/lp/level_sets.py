"""Level sets of class probabilities; the set of all level sets is never listed.

R rounds every probability down to a multiple of 1/n_levels; rows with the same rounding share a level set.
There are about C(n_levels + k, k) of them, of which n rows meet at most n.

A probability that is at most 1e-7 below a multiple counts as that multiple: 1e-7 is what float32 loses, so
0.3, 1 - 0.7 and numpy.float32(0.7) are all in the level that is written 3/10 or 7/10. On very fine grids
the allowance is 1/(4k) of a level instead.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import kernel_part

ROUNDING = 1e-7
"""How far below a multiple of 1/n_levels a probability may be and still count as that multiple."""
MOST_CODES = 2**62
"""Rows of levels are told apart by whole numbers below this."""


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

    Of checked probabilities, shape (n, k): numbers in 0..D-1, shape (n,), in order of appearance, and rows,
    shape (D,).
    """
    codes, most = np.zeros(len(table), np.int64), 1
    for column in levels_of(table, n_levels).T:
        levels = n_levels + 1
        if most * levels >= MOST_CODES:
            used, codes = np.unique(codes, return_inverse=True)
            held, column = np.unique(column, return_inverse=True)
            most, levels = len(used), len(held)
        codes, most = codes * levels + column, most * levels
    _, rows, places = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(rows)
    return np.argsort(order)[places], rows[order]


def levels_of(table: Floats, n_levels: int) -> Ints:
    """floor(u n_levels) with the allowance, shape (n, k) or (k,) as `table`."""
    return np.floor(table * n_levels + allowance(n_levels, table.shape[-1])).astype(np.int64)


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


UNIT = 2.0**32
"""Biases are integers in units of 1/UNIT, so that their sums are exact."""
MOST_LEVEL_SETS = 4096
RUNNING_ROUNDING = 1.0 + 1e-12
"""What the norms' arithmetic may lose."""

LevelSet = tuple[tuple[int, int], ...]


class RunningLpError:
    """T times the l_p calibration error of T settled forecasts, or a bound just above it.

    By level set it keeps the sum of (f_j - y_j) of each class j, as integers, and the norm of them all in a
    binary tree of partial norms: a round costs O(k + log V) with V level sets. Beyond the first 4,096 level
    sets rounds are only counted: each adds at most 2 to the norm.

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
        So many have been named.
    biases
        By level set the classes' biases, by number, in units of 2^-32; in order of appearance.
    """

    def __init__(self, p: float) -> None:
        self.p = p
        self.rounds = self.rest = self.classes = 0
        self.biases: dict[LevelSet, dict[int, int]] = {}
        self._places: dict[LevelSet, int] = {}
        self._norms = [0.0, 0.0]

    def add(self, level_set: LevelSet, forecast: Mapping[int, float], label: int) -> None:
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
            biases[j] = biases.get(j, 0) + round(u * UNIT)
        biases[label] = biases.get(label, 0) - round(UNIT)
        self._write(self._places[level_set], self._norm_of(biases))

    def restore(self, level_set: LevelSet, biases: dict[int, int]) -> None:
        """Put back a level set that is not there, with its biases; the rest is up to the caller."""
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
        return self._norms[1] * RUNNING_ROUNDING + self.rounds * self.classes / (2.0 * UNIT) + 2.0 * self.rest

    def _norm_of(self, biases: Mapping[int, int]) -> float:
        return norm([bias / UNIT for bias in biases.values()], self.p)

    def _write(self, place: int, value: float) -> None:
        norms = self._norms
        node = len(norms) // 2 + place
        norms[node] = value
        while node > 1:
            node //= 2
            norms[node] = norm_of_pair(norms[2 * node], norms[2 * node + 1], self.p)
