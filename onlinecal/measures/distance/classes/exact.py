"""The distance itself by an integer program over the values that a level set can have, and lower ends.

A lower end is a linear program whose solution is repaired into a proof.
Let u_0, ..., u_{k-1} be functions on the simplex, 1-Lipschitz in l1, with sum_j v_j u_j(v) <= 0 for all v.
Then the sum over rounds of u_{y_t}(p_t) is at most the distance to calibration (docs/theory-simplex.md,
section 17). Here they are linear on the cells of a triangulation, so that finitely many inequalities say all
that. A first-order method is near the optimum within some thousand cheap steps, where an exact solver would
take minutes; whatever it leaves of the inequalities broken is made good by scaling and lowering.

Candidates are all v = a / |a| with whole a, 0 <= a_j <= number of rounds with class j. Which rounds are sent
to which value is a transportation problem once the sizes of the level sets are known, so only the sizes have
to be whole numbers for the solver: as many as there are candidates. Most of these are ruled out beforehand,
since a level set at v costs at least the sum of its rounds' slacks above what potentials prove.

Groups of rounds by what was said in them, merged while that brings them nearer to their frequencies.

A lower end for several classes from events: seen through a set of classes, calibrated is calibrated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints, Tell, untold
from onlinecal.measures.distance.classes.sites import Triangulation

ROUNDING = 1e-13
"""More than the rounding errors of one round's potential, which is at most 2 in size."""

MOST_CLASSES = 7
"""With more, the coarsest useful triangulation has too many cells."""

FINENESS = 2.2
"""Cells along a side are at most so many times the k-th root of the rounds."""

USUAL_STEPS = 7000
"""So many are mostly enough."""

CHECK = 250
"""Steps between two looks at what is proved."""

LEAST_GAIN = 1e-4
"""The search ends when so many steps have raised the bound by less than this share of it."""


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
        """What each round adds to the bound, shape (T,): less the way to the simplex, where p sums to 1."""
        places, shares = self.mesh.corners(p)
        on_simplex = np.einsum("tv,tvc->tc", shares, self.mesh.points[places] / self.mesh.m)
        if y.ndim == 2:
            terms = np.einsum("tv,tvj,tj->t", shares, self.values[places], y)
        else:
            terms = np.einsum("tv,tv->t", shares, self.values[places, y[:, None]])
        return np.asarray(terms - np.abs(p - on_simplex).sum(axis=1))

    def bound(self, p: Floats, y: NDArray[Any]) -> float:
        """The lower bound on the distance to calibration that they prove, rounding errors deducted."""
        return max(0.0, math.fsum(self.of_rounds(p, y)) - len(p) * ROUNDING)


def mesh_for(k: int, rounds: int, work: float) -> Triangulation:
    """A triangulation about twice as fine as the grid of a forecaster, as far as the work allows for it."""
    coarse = Triangulation(k, 4)
    allowed = 4 * (work / (USUAL_STEPS * _cost_of_step(coarse))) ** (1 / (k - 1))
    return Triangulation(k, int(max(2, min(allowed, FINENESS * rounds ** (1 / k)))))


def best_potentials(
    mesh: Triangulation, p: Floats, y: NDArray[Any], work: float, tell: Tell = untold
) -> Potentials:
    """The potentials, linear on cells, that prove most after `work` multiplications or a standstill.

    y has labels (T,), or soft ones (T, k): parts of a round may then part.
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
    for values, spent in _ascent(mesh, gain / len(p)):
        found = repaired(mesh, values)
        reached = float((gain * found.values).sum())
        if reached > proved:
            best, proved = found, reached
        if spent % 2 == 0:
            tell(spent * CHECK // 2 * _cost_of_step(mesh) / work)
            still = 0.0 < proved <= before * (1 + LEAST_GAIN)
            if still or spent * CHECK // 2 * _cost_of_step(mesh) > work:
                break
            before = proved
    return best


def _cost_of_step(mesh: Triangulation) -> float:
    return 2.0 * mesh.k * (len(mesh.slopes[0]) + 2 * len(mesh.pairs))


def _ascent(mesh: Triangulation, gain: Floats) -> Iterator[tuple[Floats, int]]:
    """Primal-dual hybrid gradient, restarted from averages: after every CHECK steps, the values and the mean.

    Chambolle & Pock (2011), with the diagonal step sizes of Pock & Chambolle (2011): maximise gain . u
    subject to |slopes u| <= 2 / m and signs u <= 0.
    """
    from scipy.sparse import csr_array

    n, k = gain.shape
    rows, at, factors = mesh.slopes
    slopes = csr_array((factors.astype(np.float64), (rows, at)), shape=(rows.max() + 1, n))
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
    looks = 0
    while True:
        ahead, step, step_signs = ratio * lengths, widths / ratio, widths_signs / ratio
        limit = 2.0 / mesh.m * step
        start, mean = state, [np.zeros_like(part) for part in state]
        for _ in range(CHECK):
            u, z, w = state
            new = u + ahead * (gain - back @ z - (back_signs @ w).reshape(n, k))
            double = 2.0 * new - u
            z = z + step * (slopes @ double)
            z -= np.clip(z, -limit, limit)
            w = np.maximum(0.0, w + step_signs * (signs @ double.ravel()))
            state = [new, z, w]
            for part, add in zip(mean, state, strict=True):
                part += add
        mean = [part / CHECK for part in mean]
        values = [(gain * repaired(mesh, one[0]).values).sum() for one in (state, mean)]
        yield state[0], looks + 1
        yield mean[0], looks + 2
        looks += 2
        if values[1] > values[0]:
            state = mean
        moves = [float(((a - b) ** 2).sum()) for a, b in zip(state, start, strict=True)]
        if moves[0] > 0.0 < moves[1] + moves[2]:
            ratio = math.sqrt(ratio * math.sqrt(moves[0] / (moves[1] + moves[2])))


def repaired(mesh: Triangulation, values: Floats) -> Potentials:
    """The given values made feasible: scaled to slopes of at most 1, then lowered."""
    from scipy.sparse import csr_array

    rows, places, factors = mesh.slopes
    slopes = csr_array((factors.astype(np.float64), (rows, places)), shape=(rows.max() + 1, len(values)))
    values = values / max(1.0, float(np.abs(slopes @ values).max()) * mesh.m / 2.0)
    a, b = mesh.pairs.T
    grid = mesh.points / mesh.m
    sums = ((grid[a] * values[b]).sum(axis=1) + (grid[b] * values[a]).sum(axis=1)) / 2.0
    return Potentials(mesh, values - max(0.0, float(sums.max())))


MOST_MERGED = 400
"""Number of groups up to which pairs of them are tried to be merged."""


def equal_rows(vectors: Floats) -> NDArray[np.intp]:
    """The groups of equal rows, shape (T,)."""
    return np.unique(vectors, axis=0, return_inverse=True)[1].ravel()


def class_frequencies(y: Ints, group: Ints, k: int) -> Floats:
    """Class frequencies in each round's group, shape (T, k)."""
    counts = np.bincount(group * k + y, minlength=(group.max() + 1) * k).reshape(-1, k)
    return np.asarray((counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))[group])


def merged(p: Floats, y: NDArray[np.int64], groups: NDArray[np.intp]) -> NDArray[np.intp]:
    """Merge each group with the nearest other one if both then are nearer to their frequencies; repeat."""
    k = p.shape[1]
    members = {g: np.flatnonzero(groups == g) for g in range(groups.max() + 1)}

    def cost(rounds: NDArray[np.intp]) -> float:
        return float(np.abs(p[rounds] - np.bincount(y[rounds], minlength=k) / len(rounds)).sum())

    costs = {g: cost(rounds) for g, rounds in members.items()}
    places = {g: p[rounds].mean(axis=0) for g, rounds in members.items()}
    waiting = sorted(members, key=lambda g: len(members[g]))
    while waiting and len(members) > 1:
        g = waiting.pop(0)
        others = [h for h in members if h != g]
        distances = np.abs(np.array([places[h] for h in others]) - places[g]).sum(axis=1)
        for index in np.argsort(distances, kind="stable")[:4]:
            h = others[index]
            rounds = np.concatenate([members[g], members[h]])
            if (together := cost(rounds)) < costs[g] + costs[h] - 1e-12:
                members[h], costs[h], places[h] = rounds, together, p[rounds].mean(axis=0)
                del members[g], costs[g], places[g]
                if h not in waiting:
                    waiting.append(h)
                break
    answer = np.empty(len(p), np.intp)
    for place, rounds in enumerate(members.values()):
        answer[rounds] = place
    return answer


MOST_SUBSETS = 6
"""Number of classes up to which every set of classes is looked at as one event."""


def lower_by_events(p: Floats, lower_of: Callable[[Floats, tuple[int, ...]], float]) -> float:
    """The largest lower end of the distance of p, (T, k).

    `lower_of(event, classes)` is one of the binary distance of the forecasts (T,) that any of these comes.
    """
    k = p.shape[1]

    def binary(classes: tuple[int, ...]) -> float:
        return lower_of(np.minimum(p[:, classes].sum(axis=1), 1.0), classes)

    singles = [binary((j,)) for j in range(k)]
    best = max(sum(singles), 2 * max(singles))
    if k <= MOST_SUBSETS:
        for size in range(2, k // 2 + 1):
            best = max([best, *(2 * binary(classes) for classes in combinations(range(k), size))])
    return best


TOLERANCE = 1e-9
"""More than rounding can add to a slack."""

MOST_CANDIDATES = 20_000_000
"""Candidates times different rounds that there is memory for."""


def n_candidates(y: Ints, k: int) -> float:
    """Values that a level set could have, those that are equal counted several times."""
    return float(np.prod(np.bincount(y, minlength=k) + 1.0))


def candidates(y: Ints, k: int) -> Ints:
    """Class counts without a common divisor that a part of the rounds has, shape (n, k)."""
    counts = np.bincount(y, minlength=k) + 1
    table = np.stack(np.unravel_index(np.arange(1, counts.prod()), counts), axis=1)
    return np.asarray(table[np.gcd.reduce(table, axis=1) == 1])


def useful(p: Floats, y: Ints, found: Ints, potentials: Potentials, gap: float) -> Ints:
    """The candidates whose cheapest level set has slacks of at most `gap` together."""
    k = p.shape[1]
    values = found / found.sum(axis=1, keepdims=True)
    prices, paid = potentials.at(values), potentials.of_rounds(p, y)
    least = np.zeros(len(found))
    for j in range(k):
        of_class = np.flatnonzero(y == j)
        slack = np.zeros((len(found), len(of_class) + 1))
        for c in range(k):
            slack[:, 1:] += np.abs(values[:, c, None] - p[of_class, c])
        slack[:, 1:] += prices[:, j, None] - paid[of_class]
        least += np.cumsum(np.sort(slack, axis=1), axis=1)[np.arange(len(found)), found[:, j]]
    return found[least <= gap + TOLERANCE * len(p)]


def exact_grouping(p: Floats, y: Ints, found: Ints, most_nodes: int | None = None) -> Ints | None:
    """The grouping, shape (T,), that is nearest among those with these values; None if nodes run out."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    k, n = p.shape[1], len(found)
    values = found / found.sum(axis=1, keepdims=True)
    kinds, kind, number = np.unique(np.column_stack([y, p]), axis=0, return_inverse=True, return_counts=True)
    label, forecast = kinds[:, 0].astype(np.int64), kinds[:, 1:]
    a, v = np.nonzero(found[:, label].T)
    costs = np.abs(forecast[a] - values[v]).sum(axis=1)
    ways = np.arange(len(a))
    sizes = len(a) + np.arange(n)
    rows = [a, len(kinds) + v * k + label[a]]
    columns, entries = [ways, ways], [np.ones(len(a)), np.ones(len(a))]
    for j in range(k):
        rows.append(len(kinds) + np.arange(n) * k + j)
        columns.append(sizes)
        entries.append(-found[:, j].astype(np.float64))
    place = np.concatenate(rows), np.concatenate(columns)
    table = coo_array((np.concatenate(entries), place), shape=(len(kinds) + n * k, len(a) + n)).tocsr()
    right = np.concatenate([number, np.zeros(n * k)])
    whole = np.concatenate([np.zeros(len(a)), np.ones(n)])
    # HiGHS 1.12 may presolve for ever where whole numbers have no bound, be there only four rounds
    of_label = np.bincount(y, minlength=k)
    most = np.where(found > 0, of_label // np.maximum(found, 1), len(p)).min(axis=1)
    options = {"mip_rel_gap": 0.0} | ({} if most_nodes is None else {"node_limit": most_nodes})
    answer = milp(
        np.concatenate([costs, np.zeros(n)]),
        integrality=whole,
        bounds=Bounds(0, np.concatenate([number[a], most]).astype(np.float64)),
        constraints=LinearConstraint(table, right, right),
        options=options,
    )
    if answer.status != 0:
        return None
    sent = np.rint(answer.x[: len(a)]).astype(np.int64)
    # rounds of one kind are interchangeable; `a` is in increasing order
    group = np.empty(len(p), np.int64)
    group[np.argsort(kind.ravel(), kind="stable")] = np.repeat(v, sent)
    return group
