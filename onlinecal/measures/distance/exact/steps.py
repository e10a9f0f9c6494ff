"""Steps of the search over lattice points: their values in order, what they cost, and where they fit.

For a fixed value v, the excess f_i(v) of a round falls and then rises along the sorted forecasts: the starts
from which r zeros (or s ones) fit into the room that the cutoff leaves are an interval, found by bisection.

One outcome's rounds are a tuple (forecasts (n,), potentials (n,), prefix sums of both (n+1,), (n+1,)),
sorted.
"""

from __future__ import annotations

import numpy as np

from onlinecal.arrays import Floats
from onlinecal.compiling import kernel_part

Side = tuple[Floats, Floats, Floats, Floats]

BLOCK = 32
"""Rows whose least excess is kept together."""


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
    """Move one fraction on among those with a denominator of at most `order`."""
    k = (order + size) // next_size
    return next_s, next_size, k * next_s - s, k * next_size - size


@kernel_part
def prefix_excess(side: Side, i: int, v: float, below: int, u: float) -> float:
    """Sum of f(v) over the first i rounds of one outcome; `below` of them have a forecast of at most v."""
    _, _, sums, lifts = side
    distance = v * i - sums[i] if i <= below else v * (2 * below - i) + sums[i] - 2.0 * sums[below]
    return distance - lifts[i] + i * u


@kernel_part
def step_excess(side: Side, i: int, size: int, v: float, below: int, u: float) -> float:
    """Sum of f(v) over rounds i..i+size-1 of one outcome."""
    return prefix_excess(side, i + size, v, below, u) - prefix_excess(side, i, v, below, u)


@kernel_part
def fitting_starts(side: Side, size: int, v: float, below: int, u: float, room: float) -> tuple[int, int]:
    """First and last i for which rounds i..i+size-1 have a total excess of at most `room` (empty: 1, 0)."""
    rounds, potentials, _, _ = side
    n = len(rounds)
    if size == 0:
        return 0, n
    if size > n:
        return 1, 0
    low = min(max(0, below - size), n - size)
    high = max(low, min(below, n - size))
    # the total is convex here: f falls on the side of the first round and rises on that of the last
    while low < high:
        middle = (low + high) // 2
        gained = abs(rounds[middle + size] - v) - potentials[middle + size]
        lost = abs(rounds[middle] - v) - potentials[middle]
        if gained >= lost:
            high = middle
        else:
            low = middle + 1
    best = low
    if step_excess(side, best, size, v, below, u) > room:
        return 1, 0
    low, high = 0, best
    while low < high:
        middle = (low + high) // 2
        if step_excess(side, middle, size, v, below, u) <= room:
            high = middle
        else:
            low = middle + 1
    first = low
    low, high = best, n - size
    while low < high:
        middle = (low + high + 1) // 2
        if step_excess(side, middle, size, v, below, u) <= room:
            low = middle
        else:
            high = middle - 1
    return first, low


@kernel_part
def fitting_window(
    zeros: Side,
    ones: Side,
    r: int,
    s: int,
    v: float,
    below0: int,
    below1: int,
    u0: float,
    u1: float,
    room: float,
    farthest: int,
    block_least: Floats,
    block_ahead: Floats,
) -> tuple[int, int, int, int]:
    """First and last numbers of zeros, and of ones, from which a step may fit; an empty range if it cannot.

    The first look gives the step all the room. The second takes off what the points that then come into
    question need at least before and after the step.
    """
    n_blocks = len(block_least)
    left = room
    a_first, a_last, b_first, b_last = 1, 0, 1, 0
    for _ in range(2):
        if left < 0.0:
            return 1, 0, 1, 0
        a_first, a_last = fitting_starts(zeros, r, v, below0, u0, left)
        if a_first > a_last:
            return 1, 0, 1, 0
        b_first, b_last = fitting_starts(ones, s, v, below1, u1, left)
        if b_first > b_last:
            return 1, 0, 1, 0
        least = np.inf
        for k in range((a_first + b_first) // BLOCK, min(a_last + b_last, farthest) // BLOCK + 1):
            shifted = k + (r + s) // BLOCK
            if shifted < n_blocks:
                least = min(least, block_least[k] + min(block_ahead[shifted], block_ahead[shifted + 1]))
        left = room - least
    return (a_first, a_last, b_first, b_last) if left >= 0.0 else (1, 0, 1, 0)
