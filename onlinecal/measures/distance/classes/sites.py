"""The values that level sets can have, sorted into boxes: small sets one by one, larger ones on a mesh."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.compiling import compiled, kernel_part
from onlinecal.measures.distance.classes.sweep import l1
from onlinecal.measures.distance.classes.triangulation import Triangulation

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FINEST = 400
"""Denominators up to which forecasts are looked at for being on a grid."""


class Kinds(NamedTuple):
    """Rounds by kind: the different forecasts (F, k), and how many rounds of each class have them (F, k)."""

    values: Floats
    numbers: Floats


class Sites(NamedTuple):
    """Values of level sets, those of a box after another, and how many rounds of each class make one.

    `needs` (n, k); `values` (n, k), their shares; `on_mesh` (n,), place in the mesh or -1. Of the boxes:
    `starts` (B + 1,), `centres` (B, k) and `radii` (B,), the farthest of their sites from the centre in l1.
    """

    needs: Floats
    values: Floats
    on_mesh: Ints
    starts: Ints
    centres: Floats
    radii: Floats


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
    boxes = np.floor(values[:, :-1] / side).astype(np.int64)
    box = np.unique(boxes, axis=0, return_inverse=True)[1].ravel()
    order = np.argsort(box, kind="stable")
    box, needs, values = box[order], needs[order], values[order]
    starts = np.append(0, np.cumsum(np.bincount(box)))
    centres = np.add.reduceat(values, starts[:-1]) / np.diff(starts)[:, None]
    radii = np.maximum.reduceat(np.abs(values - centres[box]).sum(axis=1), starts[:-1])
    return Sites(needs, values, on_mesh[order], starts, centres, radii)


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


@compiled
def offers(
    prices: Floats, kinds: Kinds, sites: Sites, margin: float, ahead: float, room: Room
) -> tuple[Ints, Ints, Floats]:
    """The forecasts that a best set in each box can have: where those of each box start, and which they are.

    No price less distance changes by more than the radius within a box. So a round is in no best set if in
    the centre it falls short by more than two radii, and `margin`, of as many others as a set may need. None
    are listed where no set could pay even if all prices rose by `ahead`. Third, for each box and class, what
    no price less distance is above.
    """
    f, k = kinds.numbers.shape
    n_boxes = len(sites.radii)
    starts, tops = np.zeros(n_boxes + 1, np.int64), np.full((n_boxes, k), -10.0)
    found = np.empty(16 * n_boxes + f, np.int64)
    everyone, need = np.arange(f), np.zeros(k)
    for b in range(n_boxes):
        need[:] = 0.0
        for s in range(sites.starts[b], sites.starts[b + 1]):
            for j in range(k):
                need[j] = max(need[j], sites.needs[s, j])
        centre, reach = sites.centres[b], sites.radii[b] + margin
        for i in range(f):
            room.distance[i] = l1(kinds.values[i], centre)
            for j in range(k):
                if kinds.numbers[i, j] > 0.0:
                    tops[b, j] = max(tops[b, j], prices[i, j] - room.distance[i] + reach)
        starts[b + 1] = starts[b]
        most = (centre * tops[b]).sum() + sites.radii[b] * np.abs(tops[b]).max()
        if most + ahead <= 0.0:
            continue
        best_set(prices, kinds, everyone, centre, need, 0, room)
        n = starts[b]
        if n + f > len(found):
            larger = np.empty(2 * len(found) + f, np.int64)
            larger[:n] = found[:n]
            found = larger
        for i in range(f):
            for j in range(k):
                worth = prices[i, j] - room.distance[i]
                if kinds.numbers[i, j] > 0.0 and worth >= room.threshold[j] - reach - sites.radii[b]:
                    found[n] = i
                    n += 1
                    break
        starts[b + 1] = n
    return starts, found, tops
