"""The a-priori bounds of the simplex forecaster, in l1 over the classes (proofs: docs/theory-simplex.md).

A bound is a sum over rounds: distance, at most reach(k, m)/m a round, plus the biases of the grid points.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from math import comb

MOST_LEVEL = 20
MOST_CELLS = 1 << MOST_LEVEL
"""The finest grid."""
FOREVER = 1 << 62
"""More rounds than will ever be played."""
EDITION = 2
"""Of the rule that chooses a grid for a horizon; a run keeps to the one that it began with."""


def radius(k: int, m: int) -> Fraction:
    """The largest l1 distance, in units of 1/m, between a cell's barycentre and one of its vertices.

    2 h (k - h)/k, where h = min(m, k // 2) classes may be on their higher value at the vertex.
    """
    high = min(m, k // 2)
    return Fraction(2 * high * (k - high), k)


def reach(k: int, m: int, follows: bool = False) -> Fraction:
    """The largest l1 distance, in units of 1/m, from a report to a vertex of its cell.

    The radius for barycentres; the distance 2 h of two vertices for reports that follow a hint.
    """
    return Fraction(2 * min(m, k // 2)) if follows else radius(k, m)


def point_bound(support: int, slack: float | None = None, late: int = 0) -> Fraction:
    """The most that the biases of a grid point with that many classes of weight above zero can add up to.

    Every bias stays above -c, c = 1 - 1/(2s - 2) or the slack, and above -c - late with late labels.
    The biases add up to zero, so their absolute values to at most 2 (s - 1) c; without slack and late
    labels they stay below c too, which makes it 2 floor(s/2) c.
    """
    if support < 2:
        return Fraction(0)
    if slack is None and late == 0:
        return 2 * (support // 2) * (1 - Fraction(1, 2 * support - 2))
    lowest = 1 - Fraction(1, 2 * support - 2) if slack is None else Fraction(slack)
    return 2 * (support - 1) * (lowest + late)


def bias_bound(k: int, m: int, slack: float | None = None, late: int = 0) -> Fraction:
    """The most that all biases on the grid of m can add up to: C(k, s) C(m-1, s-1) points have support s."""
    return sum(
        (
            comb(k, support) * comb(m - 1, support - 1) * point_bound(support, slack, late)
            for support in range(2, min(k, m) + 1)
        ),
        Fraction(0),
    )


def uniform_guarantee(
    rounds: int, k: int, m: int, slack: float | None = None, follows: bool = False
) -> Fraction:
    """T reach/m plus the biases: at most what the certificate can reach on the grid of m."""
    return rounds * reach(k, m, follows) / m + bias_bound(k, m, slack)


@lru_cache(maxsize=256)
def cells_for(
    horizon: int,
    k: int,
    slack: float | None = None,
    dyadic: bool = False,
    follows: bool = False,
    edition: int = EDITION,
) -> int:
    """The m with the smallest guarantee at the horizon, of several the smallest; with `dyadic` of the 2^i.

    Both parts of the guarantee are convex in m from k // 2 on, so there the first m that does not improve is
    the end. So they are below, for barycentres; while reports that follow a hint have the same reach/m there
    as m = 1, which has no biases. Edition 1 overlooked this and stayed at m = 1.
    """

    def cells(i: int) -> int:
        return 1 << i if dyadic else i

    def worth(i: int) -> Fraction:
        return uniform_guarantee(horizon, k, cells(i), slack, follows)

    coarsest, finest = (0, MOST_LEVEL) if dyadic else (1, MOST_CELLS)
    start = coarsest
    while follows and edition > 1 and cells(start) < k // 2:
        start += 1
    best = first_not_improving(worth, start, finest)
    return cells(min(coarsest, best, key=worth))


def first_not_improving(worth: Callable[[int], Fraction], low: int, high: int) -> int:
    """The first i in low..high at which going on to i + 1 does not lower `worth`, by doubling and bisection.

    `worth` must fall first and then not fall again.
    """
    stride = 1
    while low + stride <= high and worth(low + stride) < worth(low + stride - 1):
        stride *= 2
    last = min(low + stride, high)
    first = low + stride // 2
    while first < last:
        middle = (first + last) // 2
        if worth(middle + 1) < worth(middle):
            first = middle + 1
        else:
            last = middle
    return first


@lru_cache(maxsize=256)
def last_rounds(k: int, slack: float | None = None, follows: bool = False) -> tuple[int, ...]:
    """Without a horizon: the last round that each of the grids m = 1, 2, 4, ... serves, but the finest.

    A grid serves until the distance guaranteed so far reaches k - 1 times the bias bound of the next.
    """
    ends: list[int] = []
    spent, last = Fraction(0), 0
    for level in range(MOST_LEVEL if k > 1 else 0):
        m = 1 << level
        price = reach(k, m, follows) / m
        rounds = max(0, -(-((k - 1) * bias_bound(k, 2 * m, slack) - spent) // price))
        spent += rounds * price
        last += rounds
        ends.append(last)
        if last >= FOREVER:
            break
    return tuple(ends)


def level_at(
    rounds: int, k: int, slack: float | None = None, follows: bool = False
) -> tuple[int, int | None]:
    """The grid 2^level of a round, and the last round that it serves (None: for ever)."""
    ends = last_rounds(k, slack, follows)
    for level, end in enumerate(ends):
        if rounds <= end:
            return level, end
    return len(ends), None


def nested_distance(
    first: int, last: int, k: int, slack: float | None = None, follows: bool = False
) -> Fraction:
    """What the rounds first..last may add to the distance on the nested grids of k classes."""
    total = Fraction(0)
    while first <= last:
        level, end = level_at(first, k, slack, follows)
        until = last if end is None else min(end, last)
        total += (until - first + 1) * reach(k, 1 << level, follows) / (1 << level)
        first = until + 1
    return total
