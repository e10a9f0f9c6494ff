"""The most that the biases of a grid's points can add up to, by formula and computed from their labels.

A point that is only charged with its own label has biases that repeat, so their largest sum can be computed
(docs/theory-simplex.md, section 3).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from math import comb

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
    k: int,
    m: int,
    slack: float | None = None,
    late: int = 0,
    of_point: Callable[..., Fraction] = point_bound,
) -> Fraction:
    """The most that all biases on the grid of m can add up to: C(k, s) C(m-1, s-1) points have support s."""
    return sum(
        (
            comb(k, support) * comb(m - 1, support - 1) * of_point(support, slack, late)
            for support in range(2, min(k, m) + 1)
        ),
        Fraction(0),
    )


def swing_bound(k: int, m: int, slack: float | None = None, late: int = 0) -> Fraction:
    """The most that all biases on the grid of m can change by together, from one time to another."""
    if slack is None and late == 0:
        return 2 * bias_bound(k, m)
    return bias_formula(k, m, slack, late, point_swing)


@lru_cache(maxsize=4096)
def bias_bound(k: int, m: int, slack: float | None = None, late: int = 0) -> Fraction:
    """The same, but without slack and late labels with the computed sums where they are tabled."""
    if slack is not None or late:
        return bias_formula(k, m, slack, late)
    return sum(
        (comb(k, support) * _of_support(support, m) for support in range(2, min(k, m) + 1)), Fraction(0)
    )


def _of_support(support: int, m: int) -> Fraction:
    """The most that the biases of all points x/m on certain classes, each with weight, can add up to."""
    found = _table().get((support, m))
    return comb(m - 1, support - 1) * point_bound(support) if found is None else Fraction(found, m)


@lru_cache(maxsize=1)
def _table() -> dict[tuple[int, int], int]:
    """By s and m."""
    table = {(s, m): total for s, totals in POWERS.items() for m, total in totals.items()}
    for row in SUMS.strip().replace("\n   ", " ").split("\n"):
        s, _, totals = row.partition(":")
        table |= {(int(s), int(s) + i): int(total) for i, total in enumerate(totals.split())}
    return table
