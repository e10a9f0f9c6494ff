"""A lower end that knows that rounds are whole: prices of rounds that no level set can be worth more than.

If for every level set that can be made of the rounds the prices of its rounds sum to at most their distances
to its mean, then all prices together are at most the distance to calibration (docs/theory-simplex.md, section
17, Theorems D4 and D5). A level set of few rounds has a value with a small denominator, and these are looked
at one by one; of the larger ones it is enough that parts of a given size would not pay at any value at all.

The best prices are a linear program, each level set a row. It is solved by augmented Lagrangians: prices are
raised alike, and lowered again where a level set is worth too much, which is Hildreth's method row by row;
rows are found on the way. Their multipliers tell how often each level set is wanted, a plan for the upper
end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import compiled
from onlinecal.measures.distance.classes.sites import Kinds, Room, Sites, best_set

TOLERANCE = 1e-5
"""By so much a round a level set may be worth too much before it becomes a row."""

STEP = 0.2
"""Prices are raised by this, divided by the k-th root of the rounds."""

LOOKS, PASSES = 2, 10
"""Searches for rows after each rise, and passes over them after each search."""


class Rows(NamedTuple):
    """Level sets: where their entries begin; forecast, class and number of each; costs, multipliers, sizes.

    A size is the sum of the squared numbers, each over the rounds of that kind.
    """

    starts: Ints
    forecast: Ints
    label: Ints
    number: Floats
    cost: Floats
    multiplier: Floats
    size: Floats


def rows_for(kinds: Kinds) -> Rows:
    """Room for rows: some per kind; where there is none left, prices are lowered for good."""
    most = 1000 + 4 * kinds.numbers.size
    entries = 16 * most
    places = np.zeros(most + 1, np.int64), np.zeros(entries, np.int64), np.zeros(entries, np.int64)
    return Rows(*places, np.zeros(entries), np.zeros(most), np.zeros(most), np.zeros(most))


@compiled
def lower_prices(
    prices: Floats,
    load: Floats,
    kinds: Kinds,
    sites: Sites,
    m: int,
    offered: tuple[Ints, Ints, Floats],
    rows: Rows,
    n: int,
    tolerance: float,
    close: NDArray[np.bool_],
    cut: float,
    room: Room,
) -> int:
    """Lower the prices of every level set that is worth too much; each becomes a row. How many there are.

    With a `cut` all sites are looked at, and those are marked as close that are not below by as much a
    round; without, only sites that are close.
    """
    starts, forecasts, _ = offered
    for b in range(len(sites.starts) - 1):
        near = forecasts[starts[b] : starts[b + 1]]
        if len(near) == 0:
            continue
        for s in range(sites.starts[b], sites.starts[b + 1]):
            if cut <= 0.0 and not close[s]:
                continue
            need, v = sites.needs[s], sites.values[s]
            worth, held, _ = best_set(prices, kinds, near, v, need, m if sites.on_mesh[s] >= 0 else 0, room)
            close[s] = worth > -cut * need.sum() or cut <= 0.0
            if worth <= tolerance * need.sum():
                continue
            size, cost = 0.0, -worth
            for q in range(held):
                f, j = room.forecast[q], room.label[q]
                size += room.number[q] ** 2 / kinds.numbers[f, j]
                cost += room.number[q] * prices[f, j]
            first = rows.starts[n]
            kept = n + 1 < len(rows.starts) and first + held <= len(rows.forecast)
            for q in range(held):
                f, j = room.forecast[q], room.label[q]
                change = worth / size * room.number[q] / kinds.numbers[f, j]
                prices[f, j] -= change
                if kept:
                    load[f, j] += change
                    rows.forecast[first + q], rows.label[first + q] = f, j
                    rows.number[first + q] = room.number[q]
            if kept:
                rows.starts[n + 1] = first + held
                rows.cost[n], rows.multiplier[n], rows.size[n] = cost, worth / size, size
                n += 1
    return n


@compiled
def settle(prices: Floats, load: Floats, kinds: Kinds, rows: Rows, n: int, passes: int) -> int:
    """So many passes of Hildreth's method over the rows; then those without a multiplier go."""
    for _ in range(passes):
        for s in range(n):
            worth = -rows.cost[s]
            for q in range(rows.starts[s], rows.starts[s + 1]):
                worth += rows.number[q] * prices[rows.forecast[q], rows.label[q]]
            step = max(worth / rows.size[s], -rows.multiplier[s])
            if step != 0.0:
                rows.multiplier[s] += step
                for q in range(rows.starts[s], rows.starts[s + 1]):
                    f, j = rows.forecast[q], rows.label[q]
                    change = step * rows.number[q] / kinds.numbers[f, j]
                    prices[f, j] -= change
                    load[f, j] += change
    kept = 0
    for s in range(n):
        if rows.multiplier[s] > 0.0:
            begin, to = rows.starts[s], rows.starts[kept]
            for q in range(rows.starts[s + 1] - begin):
                rows.forecast[to + q], rows.label[to + q] = rows.forecast[begin + q], rows.label[begin + q]
                rows.number[to + q] = rows.number[begin + q]
            length = rows.starts[s + 1] - begin
            rows.cost[kept], rows.size[kept] = rows.cost[s], rows.size[s]
            rows.multiplier[kept] = rows.multiplier[s]
            kept += 1
            rows.starts[kept] = to + length
    return kept


@compiled
def check_sites(
    prices: Floats,
    kinds: Kinds,
    sites: Sites,
    m: int,
    offered: tuple[Ints, Ints, Floats],
    excess: Floats,
    thresholds: Floats,
    room: Room,
) -> float:
    """By how much a round a small level set is worth too much at most; what large ones are on the mesh."""
    starts, forecasts, tops = offered
    worst = 0.0
    for b in range(len(sites.starts) - 1):
        near = forecasts[starts[b] : starts[b + 1]]
        for s in range(sites.starts[b], sites.starts[b + 1]):
            need, at = sites.needs[s], sites.on_mesh[s]
            if len(near) == 0:
                if at >= 0:
                    thresholds[at] = tops[b]
                continue
            worth, _, above = best_set(prices, kinds, near, sites.values[s], need, m if at >= 0 else 0, room)
            if at < 0:
                worst = max(worst, worth / need.sum())
            else:
                excess[at] = above
                thresholds[at] = room.threshold
    return worst
