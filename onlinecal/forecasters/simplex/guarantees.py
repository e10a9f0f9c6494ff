"""The a-priori bounds of the simplex forecaster, in l1 over the classes (proofs: docs/theory-simplex.md).

A bound is a sum over rounds: distance, at most reach(k, m)/m a round, plus the biases of the grid points. A
point that is only charged with its own label has biases that repeat, so their largest sum can be computed
(section 3).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial

LAST_TABLED = 128
"""Beyond, only powers of two are tabled."""
TABLED_POWERS = (32, 64, 128, 256, 512)

SUMS = """
3: 4 12 36 68 144 222 324 444 678 856 1120 1464 1788 2316 2748 3234 4074 4584 5492 6354 7518 8450 9394 10610
   12262 13734 15288 16440 19206 21150 23034 24876 27812 29712 32794 35706 38666 41712 45262 48142 53238 56490
   59492 64668 70114 74434 79012 82142 89046 93736 100298 104978 113240 119454 125942 131394 141108 145752
   155142 163056 170596 180828 186496 195630 209024 214704 226914 234412 249104 256926 269062 278414 290982
   304470 316888 326188 345534 356316 369008 381500 402360 411350 425244 444570 460352 477636 494418 501868
   528310 546126 565572 583064 604990 625232 642920 658490 682066 698464 726876 742668 776320 791438 813304
   837088 871932 886006 917612 937450 969120 998544 1023774 1044934 1082836 1102380 1130988 1166964 1198322
   1226142 1259722 1285938 1324404 1358076 1384528 1410788 1468020 1501854
4: 8 32 96 256 488 936 1560 2504 3688 5216 7376 10600 13800 18560 23528 29704 37840 46960 57976 70696 83224
   100984 116352 139544 162256 192808 221192 251976 287608 334224 378612 428200 478568 539408 596040 670832
   749204 838880 911688 1015696 1118592 1237888 1355652 1495480 1611184 1749792 1911720 2096696 2239752
   2467480 2632252 2874072 3049372 3309528 3573584 3854792 4094440 4401728 4664964 5021752 5353956
5: 12 60 210 620 1360 2684 5230 8500 14940 22660 34576 51380 72090 96540 135620 181358 241810 310440 410572
   504440 632130 786730 976290 1181300 1454058 1723202 2100280 2480470 2875180 3350400 4029514 4564010 5411718
   6143780 7192440 8147636
6: 18 108 414 1300 3270 7296 14112 28188 47184 80616 132030 207336 296354 460476 639726 888588 1226316 1703760
   2225106 2988324 3921684 5067168 6374784 8275380 10176714 12667668 15627672
7: 24 168 728 2436 7140 16254 36526 71742 138124 249032 427350 673176 1130416 1693846 2582834 3880114 5565126
   7685006
8: 32 256 1216 4416 13560 35952 83216 176016 356136 682384 1196136 2165792 3502660
9: 40 360 1890 7464 24804 70128 171624 397440
10: 50 500 2850 12100 42180 128492 343380
11: 60 660 4092 18700 70004 226358
12: 72 864 5760 28080 111156
13: 84 1092 7826 40716
14: 98 1372 10486
15: 112 1680
16: 128
"""
"""s: for m = s, s + 1, ..., the largest biases of all x/m with s coordinates above zero, in units of 1/m.

`python -m tests.forecasters.simplex.label_biases` prints them, and those below.
"""
POWERS: dict[int, dict[int, int]] = {
    3: {256: 12255672, 512: 99128868},
    4: {128: 93377600, 256: 1578374692},
    5: {64: 97637980, 128: 3496690330},
    6: {64: 1356004456},
    7: {32: 77410074},
    8: {32: 308887040},
    9: {32: 1029817836},
    10: {32: 2878302810},
}
"""By s and m: for powers of two beyond those."""
MOST_LEVEL = 20
MOST_CELLS = 1 << MOST_LEVEL
"""The finest grid."""
FOREVER = 1 << 62
"""More rounds than will ever be played."""


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


def point_swing(support: int, slack: float | None = None, late: int = 0) -> Fraction:
    """The most that the biases of such a point can change by, in l1, from one time to another.

    At most twice their bound. With slack or late labels the biases stay in the simplex of sum zero above
    -c - late (1 - v_j), whose edges are twice the sum of these bounds, 2 (s c + (s - 1) late).
    """
    if support < 2:
        return Fraction(0)
    if slack is None and late == 0:
        return 2 * point_bound(support)
    lowest = 1 - Fraction(1, 2 * support - 2) if slack is None else Fraction(slack)
    return 2 * (support * lowest + (support - 1) * late)


def bias_formula(
    k: int, m: int, slack: float | None = None, late: int = 0, of_point: Callable[..., Fraction] = point_bound
) -> Fraction:
    """The most that all biases on the grid of m can add up to: C(k, s) C(m-1, s-1) points have support s."""
    return sum(
        (
            math.comb(k, support) * math.comb(m - 1, support - 1) * of_point(support, slack, late)
            for support in range(2, min(k, m) + 1)
        ),
        Fraction(0),
    )


@lru_cache(maxsize=4096)
def bias_bound(k: int, m: int, slack: float | None = None, late: int = 0) -> Fraction:
    """The same, but without slack and late labels with the computed sums where they are tabled."""
    if slack is not None or late:
        return bias_formula(k, m, slack, late)
    return sum(
        (math.comb(k, support) * _of_support(support, m) for support in range(2, min(k, m) + 1)), Fraction(0)
    )


def _of_support(support: int, m: int) -> Fraction:
    """The most that the biases of all points x/m on certain classes, each with weight, can add up to."""
    found = _table().get((support, m))
    return math.comb(m - 1, support - 1) * point_bound(support) if found is None else Fraction(found, m)


@lru_cache(maxsize=1)
def _table() -> dict[tuple[int, int], int]:
    """By s and m."""
    table = {(s, m): total for s, totals in POWERS.items() for m, total in totals.items()}
    for row in SUMS.strip().replace("\n   ", " ").split("\n"):
        s, _, totals = row.partition(":")
        table |= {(int(s), int(s) + i): int(total) for i, total in enumerate(totals.split())}
    return table


def reach(k: int, m: int, follows: bool = False) -> Fraction:
    """The largest l1 distance, in units of 1/m, from a report to a vertex of its cell.

    h = min(m, k // 2) classes may be on their higher value at the vertex: it is 2 h (k - h)/k for
    barycentres, and the distance 2 h of two vertices for reports that follow a hint.
    """
    high = min(m, k // 2)
    return Fraction(2 * high) if follows else Fraction(2 * high * (k - high), k)


def uniform_guarantee(
    rounds: int | Fraction, k: int, m: int, slack: float | None = None, follows: bool = False
) -> Fraction:
    """T reach/m plus the biases: at most what the certificate can reach on the grid of m."""
    return rounds * reach(k, m, follows) / m + bias_bound(k, m, slack)


def window_guarantee(
    rounds: int,
    k: int,
    m: int,
    slack: float | None = None,
    follows: bool = False,
    late: int = 0,
    divided: bool = False,
) -> Fraction:
    """T reach/m plus the most that biases can change by: a bound of any so many consecutive rounds.

    A round changes them by 2 (1 - v_j) at most, and v_j is at least 1/m where j is the label of v. If rounds
    may be `divided` computed biases do not hold. With 0 rounds the part that depends on no number of them.
    """
    if divided or late or slack is not None:
        swings = bias_formula(k, m, slack, late, point_swing)
    else:
        swings = 2 * bias_bound(k, m)
    changes = min(swings, rounds * (2 - Fraction(2, m))) if rounds else Fraction(swings)
    return rounds * reach(k, m, follows) / m + changes


@lru_cache(maxsize=256)
def window_cells(window: int, k: int, slack: float | None = None, follows: bool = False) -> int:
    """The m with the smallest `window_guarantee`, of several the smallest."""
    if slack is None:
        # twice the bounds: as for half the rounds
        return cells_for(Fraction(window, 2), k, None, False, follows)
    swings = partial(bias_formula, of_point=point_swing)
    found = _by_formula(window, k, slack, False, follows, 1, swings)
    return min(found, key=lambda m: (window_guarantee(window, k, m, slack, follows), m))


@lru_cache(maxsize=256)
def cells_for(
    horizon: int | Fraction, k: int, slack: float | None = None, dyadic: bool = False, follows: bool = False
) -> int:
    """The m with the smallest guarantee at the horizon, of several the smallest; with `dyadic` of the 2^i.

    Computed biases are not convex in m. Without slack every m is tried while its biases alone are below the
    best; they grow with m, but for powers of two. Beyond, and with slack, the formula's are convex.
    """

    def worth(m: int) -> Fraction:
        return uniform_guarantee(horizon, k, m, slack, follows)

    if slack is not None:
        return min(_by_formula(horizon, k, slack, dyadic, follows, 1), key=worth)
    found = {m: worth(m) for m in (1, *TABLED_POWERS)}
    least = min(found.values())
    for m in range(2, LAST_TABLED + 1):
        if bias_bound(k, m) >= least:
            break
        if not dyadic or m & (m - 1) == 0:
            found[m] = worth(m)
            least = min(least, found[m])
    else:
        beyond = _by_formula(horizon, k, slack, dyadic, follows, LAST_TABLED + 1)
        found |= {m: worth(m) for m in beyond}
    return min(found, key=lambda m: (found[m], m))


def _by_formula(
    horizon: int | Fraction,
    k: int,
    slack: float | None,
    dyadic: bool,
    follows: bool,
    start: int,
    biases: Callable[..., Fraction] = bias_formula,
) -> list[int]:
    """The first and the best m from `start` on, if biases are those of the formula.

    Both parts of the guarantee are convex in m from k // 2 on, so there the first m that does not improve is
    the end. So they are below, for barycentres; while reports that follow a hint have the same reach/m there
    as m = 1, which has no biases.
    """

    def cells(i: int) -> int:
        return 1 << i if dyadic else i

    def worth(i: int) -> Fraction:
        return horizon * reach(k, cells(i), follows) / cells(i) + biases(k, cells(i), slack)

    coarsest = (start - 1).bit_length() if dyadic else start
    first = coarsest
    while follows and cells(first) < k // 2:
        first += 1
    best = first_not_improving(worth, first, MOST_LEVEL if dyadic else MOST_CELLS)
    return [cells(coarsest), cells(best)]


def first_not_improving(worth: Callable[[int], Fraction], low: int, high: int) -> int:
    """The first i in low..high at which going on to i + 1 does not lower `worth`, by doubling and bisection.

    `worth` must fall first and then not fall again.
    """
    stride = 1
    while low + stride <= high and worth(low + stride) < worth(low + stride - 1):
        stride *= 2
    tried = range(low + stride // 2, min(low + stride, high))
    return tried.start + bisect_left(tried, True, key=lambda i: worth(i + 1) >= worth(i))


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


def slack_at(late: int, slack: float | None, grows: bool) -> float | None:
    """The slack once so many other forecasts were open: `slack` in time, times sqrt(1 + late) if it grows."""
    return slack * math.sqrt(1.0 + late) if grows and slack is not None else slack


@lru_cache(maxsize=1024)
def most_late(k: int, scale: int, slack: float | None, grows: bool) -> int:
    """How many late labels leave the labels' products 2 k M^2 (1 + |alpha_j|) within 64 bits; -1: not even 0.

    With D labels late no alpha_j is below -c - D, and they add up to zero, so none is above (k - 1)(c + D).
    Without slack and late labels all are within (-1, 1). A slack that grows is counted as if all were late
    that there is room for.
    """
    most = (1 << 62) // (2 * k * scale * scale) - 1
    if slack is None and most < 2 * k:
        return 0
    room = max(0, most // max(1, k - 1))
    if room < (slack or 1.0):
        return -1
    return max(0, room - math.ceil(slack_at(room, slack, grows) or 1.0))
