"""Potentials: a lower bound for several classes that also holds if rounds are split.

Let u_0, ..., u_{k-1} be functions on the simplex, 1-Lipschitz in l1, with sum_j v_j u_j(v) <= 0 for all v.
Then the sum over rounds of u_{y_t}(p_t) is at most the distance to calibration (docs/theory-simplex.md,
section 17). Here they are linear on the cells of Kuhn's triangulation, so that finitely many inequalities say
all that. A first-order method comes near the optimum within some thousand cheap steps, where an exact solver
would take minutes. The inequalities that it leaves broken are repaired by scaling and lowering the functions.

Nothing changes once it is made: a `Triangulation` works out its tables when they are first asked for, and
keeps them; the arrays of the ascent are those of one call. Any feasible potentials prove a bound, so the
search may be changed freely, as long as all that is returned has been through `repaired`, or is 0 everywhere,
as at the start.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints, Tell, no_progress


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
        """For each order of the steps 0..k-2 the cells that take steps in it: places of vertices, (c, k).

        Step c moves a unit from class c to class c + 1; it leads from a vertex to the next one.
        """
        cells_by_order = []
        for order in permutations(range(self.k - 1)):
            ways = np.zeros((self.k, self.k), np.int64)
            for i, c in enumerate(order):
                ways[i + 1] = ways[i]
                ways[i + 1, c] -= 1
                ways[i + 1, c + 1] += 1
            words = self.points[:, None, :] + ways
            cells_by_order.append((order, self.places(words[(words >= 0).all(axis=(1, 2))])))
        return cells_by_order

    @cached_property
    def slopes(self) -> Any:
        """The sparse matrix, shape (s, n), from a function that is linear on cells to its slopes.

        Each row is what the function gains on some cell by moving a unit from one class to another.
        """
        from scipy.sparse import csr_array

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
        row, place, factor = _different(
            np.concatenate(rows), np.concatenate(places), np.concatenate(factors), n
        )
        return csr_array((factor.astype(np.float64), (row, place)), shape=(row.max() + 1, len(self.points)))

    @cached_property
    def pairs(self) -> Ints:
        """Places of any two vertices of a cell, a vertex with itself too, shape (e, 2), each once."""
        n = len(self.points)
        both = [
            cells[:, a] * n + cells[:, b]
            for _, cells in self.cells
            for a, b in combinations(range(self.k), 2)
        ]
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


def _different(rows: Ints, places: Ints, factors: Ints, n: int) -> tuple[Ints, Ints, Ints]:
    """The same rows, each once. Random sums tell which rows are equal."""
    weights = np.random.default_rng(0).integers(1, 2**40, places.max() + 1)
    names = np.zeros(n, np.int64)
    np.add.at(names, rows, factors * weights[places])
    first = np.unique(np.abs(names), return_index=True)[1]
    new = np.full(n, -1)
    new[first] = np.arange(len(first))
    kept = new[rows] >= 0
    return new[rows[kept]], places[kept], factors[kept]


CLASS_POTENTIAL_ROUNDING = 1e-13
"""A bound on the rounding error of one round's potential, which is at most 2 in size."""

MOST_MESH_CLASSES = 7
"""With more classes the coarsest useful triangulation has too many cells."""

MESH_FINENESS = 2.2
"""The number of cells along a side is at most this times the k-th root of the rounds."""

USUAL_STEPS = 7000
"""So many steps are usually enough."""

STEPS_PER_LOOK = 250
"""After so many steps the search looks at the bound that is proved."""

STANDSTILL_SHARE = 1e-4
"""The search ends when the steps between two looks raise the bound by less than this share of it."""


@dataclass(frozen=True, eq=False)
class Potentials:
    """u_j at the grid points of a triangulation, shape (n, k): feasible up to rounding."""

    mesh: Triangulation
    values: Floats

    def at(self, p: Floats) -> Floats:
        """All k potentials at the rows of p, shape (T, k)."""
        places, shares = self.mesh.corners(p)
        return np.asarray(np.einsum("tv,tvj->tj", shares, self.values[places]))

    def of_rounds(self, p: Floats, y: NDArray[Any]) -> Floats:
        """What each round adds to the bound, shape (T,), less the distance from p to the simplex."""
        places, shares = self.mesh.corners(p)
        on_simplex = np.einsum("tv,tvc->tc", shares, self.mesh.points[places] / self.mesh.m)
        if y.ndim == 2:
            terms = np.einsum("tv,tvj,tj->t", shares, self.values[places], y)
        else:
            terms = np.einsum("tv,tv->t", shares, self.values[places, y[:, None]])
        return np.asarray(terms - np.abs(p - on_simplex).sum(axis=1))

    def bound(self, p: Floats, y: NDArray[Any]) -> float:
        """The lower bound on the distance to calibration that they prove, rounding errors deducted."""
        return max(0.0, math.fsum(self.of_rounds(p, y)) - len(p) * CLASS_POTENTIAL_ROUNDING)


def mesh_for(k: int, rounds: int, work: float) -> Triangulation:
    """A triangulation about twice as fine as the grid of a forecaster, or the finest that the work allows."""
    coarse = Triangulation(k, 4)
    allowed = 4 * (work / (USUAL_STEPS * _cost_of_step(coarse))) ** (1 / (k - 1))
    return Triangulation(k, int(max(2, min(allowed, MESH_FINENESS * rounds ** (1 / k)))))


def best_potentials(
    mesh: Triangulation, p: Floats, y: NDArray[Any], work: float, tell: Tell = no_progress
) -> Potentials:
    """The potentials, linear on cells, with the best bound after `work` multiplications or a standstill.

    y has labels (T,), or soft ones (T, k), with which parts of a round may be moved apart.
    """
    n, k = mesh.points.shape
    best, proved = Potentials(mesh, np.zeros((n, k))), 0.0
    places, shares = mesh.corners(p)
    gain = np.zeros((n, k))
    if y.ndim == 2:
        np.add.at(gain, places, shares[:, :, None] * y[:, None, :])
    else:
        np.add.at(gain, (places, np.broadcast_to(y[:, None], places.shape)), shares)
    before = 0.0
    for look, candidates in enumerate(_ascent(mesh, gain / len(p)), 1):
        for candidate in candidates:
            reached = float((gain * candidate.values).sum())
            if reached > proved:
                best, proved = candidate, reached
        spent = look * STEPS_PER_LOOK * _cost_of_step(mesh)
        tell(spent / work)
        if spent > work or 0.0 < proved <= before * (1 + STANDSTILL_SHARE):
            break
        before = proved
    return best


def _cost_of_step(mesh: Triangulation) -> float:
    return 2.0 * mesh.k * (mesh.slopes.nnz + 2 * len(mesh.pairs))


def _ascent(mesh: Triangulation, gain: Floats) -> Iterator[tuple[Potentials, Potentials]]:
    """Primal-dual hybrid gradient: after every STEPS_PER_LOOK steps the last potentials and their mean.

    It goes on from the better one of the two, which is a restart from averages.
    Chambolle & Pock (2011), with the diagonal step sizes of Pock & Chambolle (2011): maximise gain . u
    subject to |slopes u| <= 2 / m and signs u <= 0.
    """
    from scipy.sparse import csr_array

    slopes, (n, k) = mesh.slopes, gain.shape
    a, b = mesh.pairs.T
    grid, pair, classes = mesh.points / mesh.m, np.repeat(np.arange(len(a)), k), np.tile(np.arange(k), len(a))
    columns = np.concatenate([np.repeat(a, k) * k + classes, np.repeat(b, k) * k + classes])
    halves = np.concatenate([grid[b].ravel(), grid[a].ravel()]) / 2.0
    signs = csr_array((halves, (np.tile(pair, 2), columns)), shape=(len(a), n * k))
    back, back_signs = slopes.T.tocsr(), signs.T.tocsr()
    lengths = 1.0 / (abs(slopes).sum(axis=0)[:, None] + abs(signs).sum(axis=0).reshape(n, k))
    widths, widths_signs = 1.0 / abs(slopes).sum(axis=1)[:, None], 1.0 / abs(signs).sum(axis=1)
    ratio = mesh.m**2 / 2.0
    state = [np.zeros((n, k)), np.zeros((slopes.shape[0], k)), np.zeros(len(a))]
    while True:
        ahead, step, step_signs = ratio * lengths, widths / ratio, widths_signs / ratio
        limit = 2.0 / mesh.m * step
        start, mean = state, [np.zeros_like(part) for part in state]
        for _ in range(STEPS_PER_LOOK):
            u, z, w = state
            new = u + ahead * (gain - back @ z - (back_signs @ w).reshape(n, k))
            double = 2.0 * new - u
            z = z + step * (slopes @ double)
            z -= np.clip(z, -limit, limit)
            w = np.maximum(0.0, w + step_signs * (signs @ double.ravel()))
            state = [new, z, w]
            for part, add in zip(mean, state, strict=True):
                part += add
        mean = [part / STEPS_PER_LOOK for part in mean]
        last, average = repaired(mesh, state[0]), repaired(mesh, mean[0])
        yield last, average
        if (gain * average.values).sum() > (gain * last.values).sum():
            state = mean
        moves = [float(((a - b) ** 2).sum()) for a, b in zip(state, start, strict=True)]
        if moves[0] > 0.0 < moves[1] + moves[2]:
            ratio = math.sqrt(ratio * math.sqrt(moves[0] / (moves[1] + moves[2])))


def repaired(mesh: Triangulation, values: Floats) -> Potentials:
    """Feasible potentials: these values, scaled to slopes of at most 1 and then lowered."""
    values = values / max(1.0, float(np.abs(mesh.slopes @ values).max()) * mesh.m / 2.0)
    a, b = mesh.pairs.T
    grid = mesh.points / mesh.m
    sums = ((grid[a] * values[b]).sum(axis=1) + (grid[b] * values[a]).sum(axis=1)) / 2.0
    return Potentials(mesh, values - max(0.0, float(sums.max())))
