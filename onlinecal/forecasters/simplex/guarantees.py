"""Bounds of the simplex forecaster that are known beforehand, in l1 over the classes.

docs/theory-simplex.md has the proofs.

A bound is a sum over rounds: distance, at most reach(k, m)/m a round, plus the biases of the grid points. A
point that is only charged with its own label has biases that repeat, so their largest sum can be computed
(section 3).

Nothing here has a state but caches. `SimplexRun` chooses grids, slack and units by `cells_for`, `level_at`,
`window_cells`, `point_bound`, `reach`, `slack_at` and `most_late`. These, and all that they call, with the
table of `label_biases.txt`, decide forecasts; the others bound what has been played. A bound may only change
with its proof.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial
from importlib.resources import files

LAST_TABLED = 128
"""Up to this m all sums of biases are in the table, beyond it only those of TABLED_POWERS."""
TABLED_POWERS = (32, 64, 128, 256, 512)

MOST_LEVEL = 20
MOST_CELLS = 1 << MOST_LEVEL
"""The finest grid."""
FOREVER = 1 << 62
"""More rounds than will ever be played."""


@lru_cache(maxsize=1024)
def point_bound(support: int, slack: float | None = None, late: int = 0) -> Fraction:
    """The largest sum of sizes of biases at a grid point with that many classes of weight above zero.

    Every bias stays above -c, c = 1 - 1/(2s - 2) or the slack, and above -c - late with late labels. The
    biases have the sum zero, so the sum of their sizes is at most 2 (s - 1) c. Without slack and late labels
    they stay below c, too, which makes it 2 floor(s/2) c.
    """
    if support < 2:
        return Fraction(0)
    if slack is None and late == 0:
        return 2 * (support // 2) * (1 - Fraction(1, 2 * support - 2))
    lowest = 1 - Fraction(1, 2 * support - 2) if slack is None else Fraction(slack)
    return 2 * (support - 1) * (lowest + late)


@lru_cache(maxsize=1024)
def point_swing(support: int, slack: float | None = None, late: int = 0) -> Fraction:
    """The most by which the biases of such a point can change, in l1, from one time to another.

    It is twice their bound. With slack or late labels the biases stay in the simplex of sum zero above -c -
    late (1 - v_j), whose edges are twice the sum of these bounds, 2 (s c + (s - 1) late).
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
    """The largest sum of all biases on the grid of m, where C(k, s) C(m-1, s-1) points have support s."""
    return sum(
        (
            math.comb(k, support) * math.comb(m - 1, support - 1) * of_point(support, slack, late)
            for support in range(2, min(k, m) + 1)
        ),
        Fraction(0),
    )


@lru_cache(maxsize=4096)
def bias_bound(k: int, m: int, slack: float | None = None, late: int = 0) -> Fraction:
    """The same; without slack and late labels it takes computed sums, where the table has them."""
    if slack is not None or late:
        return bias_formula(k, m, slack, late)
    return sum(
        (math.comb(k, support) * _of_support(support, m) for support in range(2, min(k, m) + 1)), Fraction(0)
    )


def _of_support(support: int, m: int) -> Fraction:
    """The largest sum of the biases of all points x/m with weight on each of certain classes and no other."""
    tabled = _table().get((support, m))
    return math.comb(m - 1, support - 1) * point_bound(support) if tabled is None else Fraction(tabled, m)


@lru_cache(maxsize=1)
def _table() -> dict[tuple[int, int], int]:
    """By s and m: the largest biases of all x/m with s coordinates above zero, in units of 1/m.

    A row of the file has s, the first m, and the sums for that m and the ones after it;
    `python -m tests.forecasters.simplex.label_biases` prints it.
    """
    table: dict[tuple[int, int], int] = {}
    for row in (
        files("onlinecal.forecasters.simplex").joinpath("label_biases.txt").read_text("utf-8").splitlines()
    ):
        head, _, totals = row.partition(":")
        s, first = map(int, head.split())
        table |= {(s, first + i): int(total) for i, total in enumerate(totals.split())}
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
    """T reach/m plus the biases, which the certificate cannot exceed on the grid of m."""
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
    """T reach/m plus the most by which biases can change: a bound on any T consecutive rounds.

    A round changes them by 2 (1 - v_j) at most, and v_j is at least 1/m where j is the label of v. If rounds
    may be `divided` computed biases do not hold. For 0 rounds it is the part that does not depend on T.
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
        # changes have twice the bounds of biases, so m is that of half the rounds
        return cells_for(Fraction(window, 2), k, None, False, follows)
    swings = partial(bias_formula, of_point=point_swing)
    candidates = _by_formula(window, k, slack, False, follows, 1, swings)
    return min(candidates, key=lambda m: (window_guarantee(window, k, m, slack, follows), m))


@lru_cache(maxsize=256)
def cells_for(
    horizon: int | Fraction, k: int, slack: float | None = None, dyadic: bool = False, follows: bool = False
) -> int:
    """The m with the smallest guarantee at the horizon, of several the smallest; a power of two if `dyadic`.

    Computed biases are not convex in m. So without slack every m of the table is tried, as long as its biases
    alone are below the best guarantee; they grow with m, except at powers of two. Beyond the table, and with
    slack, biases are those of the formula, which are convex.
    """

    def worth(m: int) -> Fraction:
        return uniform_guarantee(horizon, k, m, slack, follows)

    if slack is not None:
        return min(_by_formula(horizon, k, slack, dyadic, follows, 1), key=worth)
    worths = {m: worth(m) for m in (1, *TABLED_POWERS)}
    least = min(worths.values())
    for m in range(2, LAST_TABLED + 1):
        if bias_bound(k, m) >= least:
            break
        if not dyadic or m & (m - 1) == 0:
            worths[m] = worth(m)
            least = min(least, worths[m])
    else:
        beyond = _by_formula(horizon, k, slack, dyadic, follows, LAST_TABLED + 1)
        worths |= {m: worth(m) for m in beyond}
    return min(worths, key=lambda m: (worths[m], m))


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
    the best. For barycentres they are convex below k // 2, too. Reports that follow a hint have the same
    reach/m there as m = 1, which has no biases.
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
    """The first i in low..high with worth(i + 1) >= worth(i), found by doubling and bisection.

    `worth` must fall up to some i and not fall after it.
    """
    stride = 1
    while low + stride <= high and worth(low + stride) < worth(low + stride - 1):
        stride *= 2
    tried = range(low + stride // 2, min(low + stride, high))
    return tried.start + bisect_left(tried, True, key=lambda i: worth(i + 1) >= worth(i))


@lru_cache(maxsize=256)
def last_rounds(k: int, slack: float | None = None, follows: bool = False) -> tuple[int, ...]:
    """The last round that each of the grids m = 1, 2, 4, ... serves without a horizon; the finest has none.

    A grid serves until the distance guaranteed so far reaches k - 1 times the bias bound of the next grid.
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
    """The most late labels for which the labels' products 2 k M^2 (1 + |alpha_j|) fit 64 bits; -1 if none do.

    With D labels late no alpha_j is below -c - D, and their sum is zero, so none is above (k - 1)(c + D).
    Without slack and late labels all are within (-1, 1). If the slack grows, it is the slack for the most
    late labels.
    """
    most = (1 << 62) // (2 * k * scale * scale) - 1
    if slack is None and most < 2 * k:
        return 0
    room = max(0, most // max(1, k - 1))
    if room < (slack or 1.0):
        return -1
    return max(0, room - math.ceil(slack_at(room, slack, grows) or 1.0))
