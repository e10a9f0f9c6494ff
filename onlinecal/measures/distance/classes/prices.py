"""Prices: a lower bound for several classes that uses that rounds are not split.

If for every level set that can be made of the rounds the prices of its rounds sum to at most their distances
to its mean, then all prices together are at most the distance to calibration (docs/theory-simplex.md, section
17, Theorems D4 and D5). A level set of few rounds has a value with a small denominator, and these values are
looked at one by one. For larger level sets it is enough that parts of a given size would not pay at any
value.

The best prices are the solution of a linear program with a row for each level set. It is solved by augmented
Lagrangians: all prices are raised by the same amount, and lowered again where a level set is worth too much,
row by row, which is Hildreth's method. Rows are found on the way. Their multipliers tell how often each level
set is wanted, and `plan_of` makes a start for the upper bound of them.

`best_prices` alone makes `Kinds` and `LevelSetRows`, for one call; the `Prices` that it returns holds them,
and `plan_of` only reads them. Kinds of rounds and sites stay as they are; `prices`, `load` and the rows
change. `best_prices` raises the prices. Then `lower_prices`, which finds rows, and `settle`, which weighs
them and drops those of multiplier 0, take turns. A last `lower_prices` leaves no site's set worth more than
the prices allow, as far as it looks; what it misses `_too_much` measures, and it is deducted. So the bound is
proved whatever the prices are, and how they are found may be changed freely.

Between calls `load` is, up to rounding, by how much the multipliers of all rows in use lower each price, and
multipliers are never negative. `room` belongs to the last `best_set`: the next call overwrites it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from onlinecal.arrays import Bools, Floats, Ints, Tell, no_progress
from onlinecal.compiling import compiled, kernel_part
from onlinecal.compiling.instructions import copy
from onlinecal.measures.distance.classes.potentials import Triangulation
from onlinecal.measures.distance.classes.sweep import l1

FINEST_GRID = 400
"""Forecasts are taken to be on a grid if they have a common denominator of at most this."""

BOXES_PER_REGION = 3
"""The side of a region, in sides of its boxes."""


class SetRoom(NamedTuple):
    """Room for one level set: forecasts, classes and numbers; the classes' thresholds; distances."""

    forecast: Ints
    label: Ints
    number: Floats
    threshold: Floats
    distance: Floats


class Kinds(NamedTuple):
    """Rounds by kind, which is a forecast with a class.

    `values` are the different forecasts (F, k), and `numbers` how many rounds of each class have them (F, k).
    `prices` are their prices, and `load` is by how much rows have lowered these, (F, k) each. `room` is for a
    level set of any size.
    """

    values: Floats
    numbers: Floats
    prices: Floats
    load: Floats
    room: SetRoom


class Balls(NamedTuple):
    """Sets of sites: centres (n, k), the farthest site in l1 (n,), the most rounds that one needs (n, k)."""

    centres: Floats
    radii: Floats
    needs: Floats


class Sites(NamedTuple):
    """Values of level sets, box by box, and how many rounds of each class make such a level set.

    Attributes
    ----------
    needs, values
        The numbers of rounds of each class, and their shares, (n, k).
    on_mesh
        The place of the value in the mesh, or -1, (n,).
    starts
        Where the values of each of the `boxes` begin, (B + 1,).
    region_starts
        Where the boxes of each of the `regions` begin.
    m, margin
        The denominator of the mesh, and by how much prices may be off near its points.
    """

    needs: Floats
    values: Floats
    on_mesh: Ints
    starts: Ints
    boxes: Balls
    regions: Balls
    region_starts: Ints
    m: int
    margin: float


def kinds_of(p: Floats, y: Ints, start: Floats) -> tuple[Kinds, Ints]:
    """The kinds of rounds, and the place of each round's forecast; forecasts that differ by rounding are one.

    The prices of a forecast are those of its first round in `start`, which has all classes, shape (T, k).
    """
    rows, first, place = np.unique(np.round(p, 12), axis=0, return_index=True, return_inverse=True)
    place, size, k = place.ravel(), rows.size, p.shape[1]
    numbers = np.bincount(place * k + y, minlength=size).reshape(-1, k).astype(np.float64)
    entries = np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size)
    room = SetRoom(*entries, np.zeros(k), np.zeros(len(rows)))
    return Kinds(rows, numbers, start[first].copy(), np.zeros(rows.shape), room), place


def grid_of(values: Floats) -> int | None:
    """The least denominator that all forecasts have, up to rounding; None if there is none."""
    for m in range(1, FINEST_GRID + 1):
        if np.abs(np.rint(values * m) - values * m).max() <= 1e-9:
            return m
    return None


def balls_around(inner: Balls, starts: Ints) -> Balls:
    """Balls that hold all the inner balls from each start to the next."""
    number = np.diff(np.append(starts, len(inner.radii)))
    centres = np.add.reduceat(inner.centres, starts) / number[:, None]
    reach = np.abs(inner.centres - np.repeat(centres, number, axis=0)).sum(axis=1) + inner.radii
    return Balls(centres, np.maximum.reduceat(reach, starts), np.maximum.reduceat(inner.needs, starts))


def sites_of(k: int, size: int, mesh: Triangulation) -> Sites:
    """All values of level sets that may have fewer than `size` rounds, and the mesh with `size` rounds."""
    side = BOX_SIDE / mesh.m
    small = [Triangulation(k, d).points for d in range(1, size)]
    small = [numerators[np.gcd.reduce(numerators, axis=1) == 1] for numerators in small]
    points = mesh.points / mesh.m
    needs = np.concatenate([*small, points * size])
    on_mesh = np.concatenate([np.full(len(needs) - len(points), -1), np.arange(len(points))])
    values = needs / needs.sum(axis=1, keepdims=True)
    region = np.floor(values[:, :-1] / (BOXES_PER_REGION * side))
    names = np.column_stack([region, np.floor(values[:, :-1] / side)]).astype(np.int64)
    names, box = np.unique(names, axis=0, return_inverse=True)
    box = box.ravel()
    order = np.argsort(box, kind="stable")
    box, needs, values = box[order], needs[order], values[order]
    starts = np.append(0, np.cumsum(np.bincount(box)))
    boxes = balls_around(Balls(values, np.zeros(len(values)), needs), starts[:-1])
    first = np.flatnonzero(np.append(True, (np.diff(names[:, : k - 1], axis=0) != 0).any(axis=1)))
    of_regions = balls_around(boxes, first), np.append(first, len(names))
    margin = k / (2.0 * mesh.m)
    return Sites(needs, values, on_mesh[order], starts, boxes, *of_regions, mesh.m, margin)


@kernel_part
def gap(p: Floats, v: Floats, m: int) -> float:
    """By how much |p - v| is lowered at a point v of the mesh, so that it is linear on cells.

    If a coordinate of p is between two grid points, the distance is below the line between its values there.
    """
    total = 0.0
    for c in range(len(p)):
        if abs(p[c] - v[c]) * m < 1.0:
            rest = p[c] * m - np.floor(p[c] * m)
            total += 2.0 * rest * (1.0 - rest) / m
    return total


@kernel_part
def best_set(kinds: Kinds, offered: Ints, v: Floats, need: Floats, m: int) -> tuple[float, int, float]:
    """The level set at v, of `need` rounds of each class, with the largest sum of price less distance.

    Returned are that sum, -inf if the offered forecasts do not have so many rounds; how many kinds are in the
    set, the last of each class perhaps in part; and the sum of what is above the thresholds. The threshold of
    a class is the worth of its last kind. m: the mesh that v is on, 0 if it is on none.
    """
    k, n, total, excess, room = len(need), 0, 0.0, 0.0, kinds.room
    for i in range(len(offered)):
        p = kinds.values[offered[i]]
        room.distance[i] = l1(p, v) - (gap(p, v, m) if m > 0 else 0.0)
    for j in range(k):
        first, held = n, 0.0
        room.threshold[j] = np.inf
        for i in range(len(offered)):
            f = offered[i]
            worth, number = kinds.prices[f, j] - room.distance[i], kinds.numbers[f, j]
            if number <= 0.0 or (n > first and held >= need[j] and worth <= room.number[n - 1]):
                continue
            q = n
            while q > first and room.number[q - 1] < worth:
                room.number[q], room.forecast[q] = room.number[q - 1], room.forecast[q - 1]
                q -= 1
            room.number[q], room.forecast[q] = worth, f
            n, held = n + 1, held + number
            while n - 1 > first and held - kinds.numbers[room.forecast[n - 1], j] >= need[j]:
                held -= kinds.numbers[room.forecast[n - 1], j]
                n -= 1
        if n > first:
            room.threshold[j] = room.number[n - 1]
        left = need[j]
        for q in range(first, n):
            taken = min(left, kinds.numbers[room.forecast[q], j])
            total += taken * room.number[q]
            excess += taken * (room.number[q] - room.threshold[j])
            left -= taken
            room.number[q], room.label[q] = taken, j
        if left > 1e-9:
            total = -np.inf
    return total, n, excess


@kernel_part
def list_offers(
    kinds: Kinds, among: Ints, balls: Balls, b: int, margin: float, ahead: float, tops: Floats, listed: Ints
) -> int:
    """List the forecasts `among` these that a best set in a ball can have, and say how many.

    `tops` becomes a bound on the worth of every round of each class.
    """
    k, prices, room = len(tops), kinds.prices, kinds.room
    centre, radius = balls.centres[b], balls.radii[b]
    tops[:] = -10.0
    for i in range(len(among)):
        f = among[i]
        distance = l1(kinds.values[f], centre)
        for j in range(k):
            if kinds.numbers[f, j] > 0.0:
                tops[j] = max(tops[j], prices[f, j] - distance + radius + margin)
    worth, most = 0.0, 0.0
    for j in range(k):
        worth, most = worth + centre[j] * tops[j], max(most, abs(tops[j]))
    if worth + radius * most + ahead <= 0.0:
        return 0
    best_set(kinds, among, centre, balls.needs[b], 0)
    n = 0
    for i in range(len(among)):
        f = among[i]
        for j in range(k):
            worth = prices[f, j] - room.distance[i]
            if kinds.numbers[f, j] > 0.0 and worth >= room.threshold[j] - margin - 2.0 * radius:
                listed[n] = f
                n += 1
                break
    return n


Offered = tuple[Ints, Ints, Floats]
"""Where the forecasts of each box start, and which they are; for each box and class a bound on their
worth."""


@compiled
def offers(kinds: Kinds, sites: Sites, ahead: float) -> Offered:
    """The forecasts that a best set in each box can have.

    Within a ball no price less distance changes by more than the radius. So a round is in no best set if at
    the centre it is worth less, by more than two radii and the margin, than as many others as a set may need.
    No forecasts are listed where no set could pay even if all prices rose by `ahead`. Regions are looked at
    first, and then their boxes with the forecasts that are left.
    """
    f, k = kinds.numbers.shape
    n_boxes, margin = len(sites.boxes.radii), sites.margin
    starts, tops = np.zeros(n_boxes + 1, np.int64), np.zeros((n_boxes, k))
    forecasts, everyone = np.empty(16 * n_boxes + f, np.int64), np.arange(f)
    listed, top = np.empty(f, np.int64), np.zeros(k)
    for r in range(len(sites.regions.radii)):
        there = list_offers(kinds, everyone, sites.regions, r, margin, ahead, top, listed)
        for b in range(sites.region_starts[r], sites.region_starts[r + 1]):
            n = starts[b]
            if n + f > len(forecasts):
                forecasts = np.append(forecasts, np.empty(len(forecasts) + f, np.int64))
            copy(top, 0, tops[b], 0, k)
            if there > 0:
                n += list_offers(kinds, listed[:there], sites.boxes, b, margin, ahead, tops[b], forecasts[n:])
            starts[b + 1] = n
    return starts, forecasts, tops


WORTH_TOLERANCE = 1e-5
"""A level set becomes a row if it is worth too much by more than this a round."""

PRICE_RISE = 0.2
"""Each rise of the prices is this divided by the k-th root of the rounds."""

LOOKS_PER_RISE, PASSES_PER_LOOK = 2, 10
"""So many searches for rows follow each rise, and so many passes over the rows each search."""


class LevelSetRows(NamedTuple):
    """Level sets as rows of the program.

    `starts` is where the entries of each begin, which are in `forecast`, `label` and `number`. Then come the
    costs, multipliers and sizes of the level sets. A size is the sum of the squared numbers, each divided by
    the rounds of that kind. `used` (1,) is how many rows there are.
    """

    starts: Ints
    forecast: Ints
    label: Ints
    number: Floats
    cost: Floats
    multiplier: Floats
    size: Floats
    used: Ints


def rows_for(kinds: Kinds) -> LevelSetRows:
    """Room for several rows a kind. Beyond it a level set lowers prices and is not kept as a row."""
    most = 1000 + 4 * kinds.numbers.size
    entries = 16 * most
    places = np.zeros(most + 1, np.int64), np.zeros(entries, np.int64), np.zeros(entries, np.int64)
    costs, multipliers, sizes = np.zeros((3, most))
    return LevelSetRows(*places, np.zeros(entries), costs, multipliers, sizes, np.zeros(1, np.int64))


@compiled
def lower_prices(
    kinds: Kinds,
    sites: Sites,
    offered: Offered,
    rows: LevelSetRows,
    tolerance: float,
    close: Bools,
    cut: float,
) -> None:
    """Lower the prices of every level set that is worth too much; each becomes a row.

    With a `cut` above 0 all sites are looked at, and a site is marked as close if its best set lacks at most
    that a round. Without it only sites that are close are looked at.
    """
    prices, load, room, (starts, forecasts, _) = kinds.prices, kinds.load, kinds.room, offered
    n = rows.used[0]
    for b in range(len(sites.starts) - 1):
        near = forecasts[starts[b] : starts[b + 1]]
        if len(near) == 0:
            continue
        for s in range(sites.starts[b], sites.starts[b + 1]):
            if cut <= 0.0 and not close[s]:
                continue
            need, v = sites.needs[s], sites.values[s]
            worth, held, _ = best_set(kinds, near, v, need, sites.m if sites.on_mesh[s] >= 0 else 0)
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
    rows.used[0] = n


@compiled
def settle(kinds: Kinds, rows: LevelSetRows, passes: int) -> None:
    """Make so many passes of Hildreth's method over the rows, and then drop rows whose multiplier is 0."""
    prices, load, n = kinds.prices, kinds.load, rows.used[0]
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
    rows.used[0] = kept


@compiled
def check_sites(kinds: Kinds, sites: Sites, offered: Offered, excess: Floats, thresholds: Floats) -> float:
    """The most by which a small level set is worth too much, a round.

    Fills in the excess and the thresholds of large level sets on the mesh.
    """
    starts, forecasts, tops = offered
    worst = 0.0
    for b in range(len(sites.starts) - 1):
        near = forecasts[starts[b] : starts[b + 1]]
        for s in range(sites.starts[b], sites.starts[b + 1]):
            need, at = sites.needs[s], sites.on_mesh[s]
            if len(near) == 0:
                if at >= 0:
                    copy(tops[b], 0, thresholds[at], 0, len(need))
                continue
            worth, _, above = best_set(kinds, near, sites.values[s], need, sites.m if at >= 0 else 0)
            if at < 0:
                worst = max(worst, worth / need.sum())
            else:
                excess[at] = above
                copy(kinds.room.threshold, 0, thresholds[at], 0, len(need))
    return worst


PRICE_ROUNDING = 1e-12
"""A bound on the rounding error of one round's price, at most 3 in size, and of its part of a sum."""

RISES = 28
"""So many rises of the prices give a bound within some percent of that of many more."""

RISES_BETWEEN_FULL_LOOKS, RISES_TO_PAY = 5, 0.5
"""After so many rises all sites are looked at again. In between only sites are looked at whose best set would
pay after so many rises."""

BOX_SIDE = 1.5
"""The side of a box, in steps of the mesh."""

MESH_PER_SIZE = 1.5
"""The denominator of the mesh, in sizes of the level sets from which on parts are looked at."""

SIZE_FACTOR, SIZE_POWER = 8.0, 0.25
"""Level sets are looked at one by one if their size is below the first times the second power of the
rounds."""

OFFERED, POINTS_PER_FORECAST = 60, 10.0
"""A level set is usually chosen from so many forecasts, and from more of them if there are more forecasts
than mesh points divided by POINTS_PER_FORECAST."""


@dataclass(frozen=True, eq=False)
class Prices:
    """Prices of all kinds of rounds, the bound that they prove, and the rows that they rest on.

    `place` is the place of each round's forecast among those of the kinds.
    """

    kinds: Kinds
    place: Ints
    bound: float
    rows: LevelSetRows


def best_prices(p: Floats, y: Ints, start: Floats, work: float, tell: Tell = no_progress) -> Prices | None:
    """The best prices found within the work, raised from those of the rounds, shape (T, k).

    None if even the smallest level sets would take more than the work.
    """
    k, (kinds, place) = p.shape[1], kinds_of(p, y, start)
    chosen = _sizes(kinds, len(p), work)
    if chosen is None:
        return None
    size, mesh = chosen
    sites, rows, rise = sites_of(k, size, mesh), rows_for(kinds), PRICE_RISE * len(p) ** (-1.0 / k)
    close = np.zeros(len(sites.needs), np.bool_)
    for i in range(RISES):
        tell(i / RISES)
        kinds.prices[:] += rise - kinds.load
        if i % RISES_BETWEEN_FULL_LOOKS == 0:
            offered = offers(kinds, sites, 2.0 * rise)
        for look in range(LOOKS_PER_RISE):
            cut = RISES_TO_PAY * rise if look == 0 and i % RISES_BETWEEN_FULL_LOOKS == 0 else 0.0
            lower_prices(kinds, sites, offered, rows, WORTH_TOLERANCE, close, cut)
            settle(kinds, rows, PASSES_PER_LOOK)
    lower_prices(kinds, sites, offers(kinds, sites, 0.0), rows, 0.0, close, 1.0)
    moved = float(np.abs(p - kinds.values[place]).sum())
    bound = math.fsum((kinds.numbers * kinds.prices).ravel()) - moved
    bound -= len(p) * (_too_much(kinds, sites, mesh, size) + PRICE_ROUNDING)
    return Prices(kinds, place, max(0.0, bound), rows)


def _too_much(kinds: Kinds, sites: Sites, mesh: Triangulation, size: int) -> float:
    """The most by which any level set is worth too much, a round, by Theorem D5."""
    n, k = mesh.points.shape
    excess, thresholds = np.zeros(n), np.zeros((n, k))
    worst = check_sites(kinds, sites, offers(kinds, sites, 0.0), excess, thresholds)
    # if a class has no rounds, there is no level set at a value where its share is above zero
    thresholds[:, kinds.numbers.sum(axis=0) == 0.0] = -10.0
    a, b = mesh.pairs.T
    grid = mesh.points / mesh.m
    crossed = (thresholds[a] * grid[b]).sum(axis=1) + (thresholds[b] * grid[a]).sum(axis=1)
    return max(worst, float(((excess[a] + excess[b]) / size + crossed).max()) / 2.0)


def _sizes(kinds: Kinds, rounds: int, work: float) -> tuple[int, Triangulation] | None:
    """The size from which on level sets are seen as parts, and the mesh for them, as the work allows."""
    f, k = kinds.numbers.shape
    grid = grid_of(kinds.values)
    size = int(min(rounds + 1, SIZE_FACTOR * rounds**SIZE_POWER))
    while size > 1:
        m = int(MESH_PER_SIZE * size)
        m = m if grid is None else grid * max(1, round(m / grid))
        n_sites = math.comb(size + k - 1, k) + math.comb(m + k - 1, k - 1)
        n_boxes, n_regions = (
            math.comb(int(m / side) + k - 1, k - 1) for side in (BOX_SIDE, BOXES_PER_REGION * BOX_SIDE)
        )
        offered = OFFERED * max(1.0, POINTS_PER_FORECAST * f / m ** (k - 1))
        listed = f * n_regions + min(f, offered * BOXES_PER_REGION ** (k - 1)) * n_boxes
        if RISES * k * (LOOKS_PER_RISE * offered * n_sites + listed) <= work:
            return size, Triangulation(k, m)
        size = int(size * 0.9)
    return None


def plan_of(best: Prices, y: Ints) -> Ints:
    """A grouping like the level sets that the prices rest on: for each round the place of a forecast.

    The multiplier of a level set says how often it is wanted. So each kind of round is dealt out in
    proportion to these, to the forecasts nearest to the values of the level sets. The search that follows
    repairs what rounding does.
    """
    from scipy.spatial import cKDTree

    rows, n, (f, k) = best.rows, best.rows.used[0], best.kinds.numbers.shape
    row = np.repeat(np.arange(n), np.diff(rows.starts[: n + 1]))
    entries = len(row)
    masses = np.zeros((n, k))
    np.add.at(masses, (row, rows.label[:entries]), rows.number[:entries])
    near = cKDTree(best.kinds.values).query(masses / masses.sum(axis=1, keepdims=True), p=1)[1]
    kind = rows.forecast[:entries] * k + rows.label[:entries]
    pairs, pair = np.unique(kind * f + near[row], return_inverse=True)
    wanted = np.bincount(pair.ravel(), rows.multiplier[row] * rows.number[:entries], len(pairs))
    pairs, wanted = pairs[wanted > 0.0], wanted[wanted > 0.0]
    numbers = best.kinds.numbers.ravel()
    lonely = np.setdiff1d(np.flatnonzero(numbers), pairs // f)
    pairs, wanted = np.append(pairs, lonely * f + lonely // k), np.append(wanted, np.ones(len(lonely)))
    order = np.argsort(pairs, kind="stable")
    kind, goal, wanted = pairs[order] // f, pairs[order] % f, wanted[order]
    wanted *= (numbers / np.maximum(np.bincount(kind, wanted, f * k), 1e-300))[kind]
    dealt = np.diff(np.append(0, np.rint(np.cumsum(wanted)).astype(np.int64)))
    plan = np.empty(len(y), np.int64)
    plan[np.argsort(best.place * k + y, kind="stable")] = np.repeat(goal, dealt)
    return plan
