"""The values that level sets can have, on Kuhn's triangulation of the simplex and sorted into boxes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations
from typing import NamedTuple

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import compiled, kernel_part
from onlinecal.measures.distance.classes.sweep import l1


@dataclass(frozen=True, eq=False)
class Triangulation:
    """The grid points of k classes with denominator m, and the cells between them."""

    k: int
    m: int

    @cached_property
    def points(self) -> Ints:
        """Numerators of the grid points, shape (n, k), in lexicographic order."""
        rows = np.zeros((1, 0), np.int64)
        for _ in range(self.k - 1):
            left = self.m - rows.sum(axis=1)
            parents = np.repeat(np.arange(len(rows)), left + 1)
            last = np.arange(len(parents)) - np.repeat(np.cumsum(left + 1) - left - 1, left + 1)
            rows = np.column_stack([rows[parents], last])
        return np.column_stack([rows, self.m - rows.sum(axis=1)])

    def places(self, numerators: Ints) -> Ints:
        """Where grid points, shape (..., k), are in `points`."""
        powers = (self.m + 1) ** np.arange(self.k - 1, -1, -1)
        return np.searchsorted(self.points @ powers, numerators @ powers)

    @cached_property
    def cells(self) -> list[tuple[tuple[int, ...], Ints]]:
        """For each order of the steps 0..k-2 the cells that take them so: places of vertices, shape (c, k).

        Step c moves a unit from class c to class c + 1; it leads from a vertex to the next one.
        """
        found = []
        for order in permutations(range(self.k - 1)):
            ways = np.zeros((self.k, self.k), np.int64)
            for i, c in enumerate(order):
                ways[i + 1] = ways[i]
                ways[i + 1, c] -= 1
                ways[i + 1, c + 1] += 1
            words = self.points[:, None, :] + ways
            found.append((order, self.places(words[(words >= 0).all(axis=(1, 2))])))
        return found

    @cached_property
    def slopes(self) -> tuple[Ints, Ints, Ints]:
        """The slopes of a function that is linear on cells, as sums over grid points: rows, places, factors.

        Each row is what the function gains on some cell by moving a unit from one class to another.
        """
        rows, places, factors, n = [], [], [], 0
        for order, cells in self.cells:
            at = np.argsort(order)
            for a, b in combinations(range(self.k), 2):
                gains = np.zeros(self.k, np.int64)
                np.add.at(gains, at[a:b] + 1, 1)
                np.add.at(gains, at[a:b], -1)
                used = np.flatnonzero(gains)
                rows.append(n + np.repeat(np.arange(len(cells)), len(used)))
                places.append(cells[:, used].ravel())
                factors.append(np.tile(gains[used], len(cells)))
                n += len(cells)
        return _different(np.concatenate(rows), np.concatenate(places), np.concatenate(factors), n)

    @cached_property
    def pairs(self) -> Ints:
        """Places of any two vertices of a cell, a vertex with itself too, shape (e, 2), each once."""
        n = len(self.points)
        both = [cells[:, a] * n + cells[:, b] for _, cells in self.cells for a, b in _ordered_pairs(self.k)]
        codes = np.unique(np.concatenate([np.arange(n) * (n + 1), *both]))
        return np.column_stack(np.divmod(codes, n))

    def corners(self, p: Floats) -> tuple[Ints, Floats]:
        """Vertices of a cell that holds each row of p, shape (T, k), and its coordinates there."""
        sums = np.clip(np.cumsum(p, axis=1)[:, :-1] * self.m, 0.0, self.m)
        whole = np.minimum(np.floor(sums), self.m - 1.0)
        rest = sums - whole
        # of equal rests the later sum rises first: it may not fall behind the earlier one
        order = self.k - 2 - np.argsort(-rest[:, ::-1], axis=1, kind="stable")
        levels = np.take_along_axis(rest, order, axis=1)
        risen = np.argsort(order, axis=1)[:, None, :] < np.arange(self.k)[None, :, None]
        edges = np.zeros((len(p), self.k, self.k + 1), np.int64)
        edges[:, :, 1:-1] = whole[:, None, :] + risen
        edges[:, :, -1] = self.m
        ones, zeros = np.ones((len(p), 1)), np.zeros((len(p), 1))
        shares = -np.diff(np.hstack([ones, levels, zeros]), axis=1)
        return self.places(np.diff(edges, axis=2)), shares


def _ordered_pairs(k: int) -> list[tuple[int, int]]:
    return [(a, b) for a in range(k) for b in range(k) if a < b]


def _different(rows: Ints, places: Ints, factors: Ints, n: int) -> tuple[Ints, Ints, Ints]:
    """The same rows, each once: they are told apart by a random sum."""
    weights = np.random.default_rng(0).integers(1, 2**40, places.max() + 1)
    names = np.zeros(n, np.int64)
    np.add.at(names, rows, factors * weights[places])
    first = np.unique(np.abs(names), return_index=True)[1]
    new = np.full(n, -1)
    new[first] = np.arange(len(first))
    kept = new[rows] >= 0
    return new[rows[kept]], places[kept], factors[kept]


FINEST = 400
"""Denominators up to which forecasts are looked at for being on a grid."""

WIDER = 3
"""Sides of a region, in sides of its boxes."""


class Kinds(NamedTuple):
    """Rounds by kind: the different forecasts (F, k), and how many rounds of each class have them (F, k)."""

    values: Floats
    numbers: Floats


class Balls(NamedTuple):
    """Sets of sites: centres (n, k), the farthest site in l1 (n,), the most rounds that one needs (n, k)."""

    centres: Floats
    radii: Floats
    needs: Floats


class Sites(NamedTuple):
    """Values of level sets, those of a box after another, and how many rounds of each class make one.

    `needs` (n, k); `values` (n, k), their shares; `on_mesh` (n,), place in the mesh or -1; `starts` (B + 1,)
    of the `boxes`. The boxes of a `region` follow each other as well.
    """

    needs: Floats
    values: Floats
    on_mesh: Ints
    starts: Ints
    boxes: Balls
    regions: Balls
    region_starts: Ints


class Room(NamedTuple):
    """What one level set is put together in: forecasts, classes and numbers; thresholds of the classes."""

    forecast: Ints
    label: Ints
    number: Floats
    threshold: Floats
    distance: Floats


def room_for(kinds: Kinds) -> Room:
    """Room for a level set of any size."""
    most, k = kinds.numbers.size, kinds.numbers.shape[1]
    places = np.zeros(most, np.int64), np.zeros(most, np.int64)
    return Room(*places, np.zeros(most), np.zeros(k), np.zeros(len(kinds.values)))


def kinds_of(p: Floats, y: Ints) -> tuple[Kinds, Ints]:
    """The kinds of rounds, and the place of each round's forecast; those that differ by rounding are one."""
    rows, place = np.unique(np.round(p, 12), axis=0, return_inverse=True)
    k = p.shape[1]
    numbers = np.bincount(place.ravel() * k + y, minlength=rows.size).reshape(-1, k)
    return Kinds(rows, numbers.astype(np.float64)), place.ravel()


def grid_of(values: Floats) -> int | None:
    """The least denominator that all forecasts have, up to rounding; None if there is none."""
    for m in range(1, FINEST + 1):
        if np.abs(np.rint(values * m) - values * m).max() <= 1e-9:
            return m
    return None


def sites_of(k: int, size: int, mesh: Triangulation, side: float) -> Sites:
    """All values of level sets that may have fewer than `size` rounds, and the mesh with `size` rounds."""
    small = [Triangulation(k, d).points for d in range(1, size)]
    small = [one[np.gcd.reduce(one, axis=1) == 1] for one in small]
    points = mesh.points / mesh.m
    needs = np.concatenate([*small, points * size])
    on_mesh = np.concatenate([np.full(len(needs) - len(points), -1), np.arange(len(points))])
    values = needs / needs.sum(axis=1, keepdims=True)
    region = np.floor(values[:, :-1] / (WIDER * side))
    names = np.column_stack([region, np.floor(values[:, :-1] / side)]).astype(np.int64)
    names, box = np.unique(names, axis=0, return_inverse=True)
    box = box.ravel()
    order = np.argsort(box, kind="stable")
    box, needs, values = box[order], needs[order], values[order]
    starts = np.append(0, np.cumsum(np.bincount(box)))
    centres = np.add.reduceat(values, starts[:-1]) / np.diff(starts)[:, None]
    radii = np.maximum.reduceat(np.abs(values - centres[box]).sum(axis=1), starts[:-1])
    boxes = Balls(centres, radii, np.maximum.reduceat(needs, starts[:-1]))
    first = np.flatnonzero(np.append(True, (np.diff(names[:, : k - 1], axis=0) != 0).any(axis=1)))
    number = np.diff(np.append(first, len(names)))
    middles = np.add.reduceat(centres, first) / number[:, None]
    reach = np.abs(centres - np.repeat(middles, number, axis=0)).sum(axis=1) + radii
    regions = Balls(middles, np.maximum.reduceat(reach, first), np.maximum.reduceat(boxes.needs, first))
    return Sites(needs, values, on_mesh[order], starts, boxes, regions, np.append(first, len(names)))


@kernel_part
def gap(p: Floats, v: Floats, m: int) -> float:
    """How much less than |p - v| is taken at a point v of the mesh, so that it is linear on cells.

    In a coordinate that p has between two grid points, the distance is below the line between them.
    """
    total = 0.0
    for c in range(len(p)):
        if abs(p[c] - v[c]) * m < 1.0:
            rest = p[c] * m - np.floor(p[c] * m)
            total += 2.0 * rest * (1.0 - rest) / m
    return total


@kernel_part
def best_set(
    prices: Floats, kinds: Kinds, offered: Ints, v: Floats, need: Floats, m: int, room: Room
) -> tuple[float, int, float]:
    """The level set at v, of `need` rounds of each class, with most price less distance.

    That sum, -inf if the forecasts offered do not have so many rounds; how many kinds are in it, the last
    of each class perhaps in part; and what it sums up to above the class's last one, which is the threshold.
    m: the mesh that v is on, 0 if it is on none.
    """
    k, n, total, excess = len(need), 0, 0.0, 0.0
    for i in range(len(offered)):
        p = kinds.values[offered[i]]
        room.distance[i] = l1(p, v) - (gap(p, v, m) if m > 0 else 0.0)
    for j in range(k):
        first, held = n, 0.0
        room.threshold[j] = np.inf
        for i in range(len(offered)):
            f = offered[i]
            worth, number = prices[f, j] - room.distance[i], kinds.numbers[f, j]
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
    prices: Floats,
    kinds: Kinds,
    among: Ints,
    balls: Balls,
    b: int,
    allowances: tuple[float, float],
    tops: Floats,
    listed: Ints,
    room: Room,
) -> int:
    """List those `among` that a best set in a ball can have: how many. None is worth more than `tops`."""
    k, (margin, ahead) = prices.shape[1], allowances
    centre, radius = balls.centres[b], balls.radii[b]
    tops[:] = -10.0
    for i in range(len(among)):
        f = among[i]
        distance = l1(kinds.values[f], centre)
        for j in range(k):
            if kinds.numbers[f, j] > 0.0:
                tops[j] = max(tops[j], prices[f, j] - distance + radius + margin)
    if (centre * tops).sum() + radius * np.abs(tops).max() + ahead <= 0.0:
        return 0
    best_set(prices, kinds, among, centre, balls.needs[b], 0, room)
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


@compiled
def offers(
    prices: Floats, kinds: Kinds, sites: Sites, margin: float, ahead: float, room: Room
) -> tuple[Ints, Ints, Floats]:
    """The forecasts that a best set in each box can have: where those of each box start, and which they are.

    No price less distance changes by more than the radius within a ball. So a round is in no best set if in
    the centre it falls short by more than two radii, and `margin`, of as many others as a set may need. None
    are listed where no set could pay even if all prices rose by `ahead`. Third, for each box and class, what
    no price less distance is above. First regions are looked at, then their boxes with what is left there.
    """
    f, k = kinds.numbers.shape
    n_boxes, allowances = len(sites.boxes.radii), (margin, ahead)
    starts, tops = np.zeros(n_boxes + 1, np.int64), np.zeros((n_boxes, k))
    found, everyone = np.empty(16 * n_boxes + f, np.int64), np.arange(f)
    listed, top = np.empty(f, np.int64), np.zeros(k)
    for r in range(len(sites.regions.radii)):
        there = list_offers(prices, kinds, everyone, sites.regions, r, allowances, top, listed, room)
        for b in range(sites.region_starts[r], sites.region_starts[r + 1]):
            n = starts[b]
            if n + f > len(found):
                larger = np.empty(2 * len(found) + f, np.int64)
                larger[:n] = found[:n]
                found = larger
            tops[b] = top
            if there > 0:
                n += list_offers(
                    prices, kinds, listed[:there], sites.boxes, b, allowances, tops[b], found[n:], room
                )
            starts[b + 1] = n
    return starts, found, tops
