"""Perfectly calibrated sequences, as level sets, and their distances from a history.

For every measure a perfectly calibrated q is a list of level sets (zeros, ones). The value of a level set is
the fraction ones/(zeros+ones), an exact rational. Rounds are dealt to level sets in sorted order within each
outcome, which is the cheapest way: a matching on the line.

A `Levels` never changes: its values increase, and no two are equal as floats, which `make_levels` sees to. So
whoever has blocks of rounds calls that, and does not make a `Levels` directly. The functions keep nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import kernel_part, uncounted
from onlinecal.measures.counts import Counts, PrefixSums, count_shares, merged, prefix


@dataclass(frozen=True, eq=False)
class Levels:
    """Level sets of a perfectly calibrated sequence, by increasing value, no two values equal.

    Attributes
    ----------
    zeros, ones
        Rounds of each level set by outcome; shape (L,), int64.
    """

    zeros: Ints
    ones: Ints

    @property
    def values(self) -> Floats:
        """ones/(zeros+ones), correctly rounded; shape (L,)."""
        return self.ones / (self.zeros + self.ones)


def make_levels(zeros: Ints, ones: Ints) -> Levels:
    """Level sets from blocks in any order; empty blocks are dropped, and blocks of equal values joined.

    Blocks are joined when their values round to the same float. Below 2^26 rounds only equal fractions do. In
    longer histories the fraction of the joined set lies between the two and rounds to that float as well, so
    the result is perfectly calibrated in either case.
    """
    filled = zeros + ones > 0
    zeros, ones = zeros[filled].astype(np.int64), ones[filled].astype(np.int64)
    _, index = np.unique(ones / (zeros + ones), return_inverse=True)
    n_levels = int(index.max()) + 1
    joined_zeros = np.zeros(n_levels, dtype=np.int64)
    joined_ones = np.zeros(n_levels, dtype=np.int64)
    np.add.at(joined_zeros, index, zeros)
    np.add.at(joined_ones, index, ones)
    return Levels(joined_zeros, joined_ones)


def conditional_means(counts: Counts) -> Levels:
    """The level sets of the forecast values themselves, each moved to its own frequency of ones."""
    return make_levels(counts.zeros, counts.ones)


def distance_to(counts: Counts, levels: Levels) -> float:
    """The sum of |forecast - level value| over rounds, dealt in sorted order within each outcome."""
    values = levels.values
    moved = [
        _transport(counts.values, counts.zeros, values, levels.zeros),
        _transport(counts.values, counts.ones, values, levels.ones),
    ]
    return math.fsum(np.concatenate(moved))


def distance_by_sums(sums: PrefixSums, levels: Levels) -> float:
    """`distance_to` up to the rounding errors of prefix sums, without looking at every forecast.

    It takes time O(L log K): among the rounds of an outcome in a level set, those with a forecast of at most
    its value come first.
    """
    values, last = levels.values, len(sums.values) - 1
    below = np.searchsorted(sums.values, values, side="right")
    total = 0.0
    for masses, rounds, forecasts in (
        (levels.zeros, sums.zeros, sums.zero_sums),
        (levels.ones, sums.ones, sums.one_sums),
    ):
        ends = prefix(masses)
        whole = np.minimum(np.searchsorted(rounds, ends, side="right") - 1, last)
        summed = forecasts[whole] + (ends - rounds[whole]) * sums.values[whole]
        up = np.clip(rounds[below], ends[:-1], ends[1:])
        summed_up = np.clip(forecasts[below], summed[:-1], summed[1:])
        total += float(np.sum(values * (2 * up - ends[:-1] - ends[1:])))
        total -= float(np.sum(2.0 * summed_up - summed[:-1] - summed[1:]))
    return total


def _transport(from_values: Floats, from_masses: Ints, to_values: Floats, to_masses: Ints) -> Floats:
    """Costs of the monotone matching of two equal masses on a line, piece by piece."""
    from_ends, to_ends = np.cumsum(from_masses), np.cumsum(to_masses)
    marks = merged(np.insert(from_ends, 0, 0), to_ends)
    starts = marks[:-1]
    sources = from_values[np.searchsorted(from_ends, starts, side="right")]
    targets = to_values[np.searchsorted(to_ends, starts, side="right")]
    return np.asarray(np.diff(marks) * np.abs(sources - targets), dtype=np.float64)


def deal(levels: Levels, zero_rows: NDArray[np.intp], one_rows: NDArray[np.intp]) -> Floats:
    """The calibrated sequence in input order, shape (T,); rows of either outcome by increasing forecast."""
    sequence = np.empty(len(zero_rows) + len(one_rows))
    sequence[zero_rows] = np.repeat(levels.values, levels.zeros)
    sequence[one_rows] = np.repeat(levels.values, levels.ones)
    return sequence


def group_means(outcomes: NDArray[Any], groups: NDArray[np.intp]) -> Floats:
    """The mean outcome of each group 0..G-1, (G,): the sum, correctly rounded, divided by its rounds."""
    order = np.argsort(groups, kind="stable")
    parts = np.split(outcomes[order], np.flatnonzero(np.diff(groups[order])) + 1)
    return np.array([math.fsum(part) / len(part) for part in parts])


def is_perfectly_calibrated(forecasts: ArrayLike, outcomes: ArrayLike) -> bool:
    """Whether each forecast is exactly the frequency of ones among the rounds that have it.

    Parameters
    ----------
    forecasts
        Probabilities, shape (T,). Forecasts are the same if they are the identical float.
    outcomes
        0/1, boolean, or any numbers in [0, 1], shape (T,).

    Returns
    -------
    bool
        True if each value is the correctly rounded float of the fraction ones/(zeros+ones) of its rounds.
        With outcomes between 0 and 1 it must be their sum, correctly rounded, divided by their number.

    Raises
    ------
    ValueError
        Bad forecasts or outcomes; the message names the argument, the value and its row.

    Examples
    --------
    >>> is_perfectly_calibrated([1 / 3, 1 / 3, 1 / 3, 1.0], [0, 1, 0, 1])
    True
    >>> is_perfectly_calibrated([0.5, 0.5, 0.5], [0, 1, 0])
    False
    """
    counts, p, y = count_shares(forecasts, outcomes)
    if not counts.are_whole:
        return bool((group_means(y, np.searchsorted(counts.values, p)) == counts.values).all())
    # the quotient of two whole numbers below 2**53 is correctly rounded
    return bool((counts.ones / (counts.zeros + counts.ones) == counts.values).all())


def walk_back(a: int, b: int, step_to: Callable[[int, int], Ints]) -> Levels:
    """The level sets of a path to the point of `a` zeros and `b` ones, from the last step to each point."""
    taken = []
    while a or b:
        r, s = step_to(a, b).tolist()
        taken.append((r, s))
        a, b = a - r, b - s
    path = np.array(taken)
    return make_levels(path[:, 0], path[:, 1])


@uncounted
def count_up_to(ascending: Any, value: float) -> int:
    """How many numbers of an ascending array are at most `value`."""
    return count_between(ascending, value, 0, len(ascending))


@uncounted
def count_between(ascending: Any, value: float, first: int, last: int) -> int:
    """`count_up_to`, if the answer is known to be one of first .. last."""
    while first < last:
        middle = (first + last) >> 1
        if ascending[middle] <= value:
            first = middle + 1
        else:
            last = middle
    return first


@kernel_part
def first_fractions(numerator: int, denominator: int, order: int) -> tuple[int, int, int, int]:
    """A fraction in lowest terms and the next larger one with a denominator of at most `order`."""
    a, b = numerator, denominator
    while b > 0:
        a, b = b, a % b
    s, size = numerator // a, denominator // a
    # neighbours s/size < p/q have p size - q s = 1; the nearest has the largest q
    for q in range(order, order - size, -1):
        if (q * s + 1) % size == 0:
            return s, size, (q * s + 1) // size, q
    return s, size, 1, 1


@kernel_part
def next_fraction(s: int, size: int, next_s: int, next_size: int, order: int) -> tuple[int, int, int, int]:
    """The next fraction and the one after it, among those with a denominator of at most `order`."""
    k = (order + size) // next_size
    return next_s, next_size, k * next_s - s, k * next_size - size
