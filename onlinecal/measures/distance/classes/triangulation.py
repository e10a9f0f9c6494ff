"""Kuhn's triangulation of the simplex at the grid points x / m, and functions linear on its cells."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations

import numpy as np

from onlinecal.arrays import Floats, Ints


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
