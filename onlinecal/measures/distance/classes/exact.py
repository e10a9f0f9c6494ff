"""The distance itself: an integer program over the values that a level set can have.

Candidates are all v = a / |a| with whole a, 0 <= a_j <= number of rounds with class j. Which rounds are sent
to which value is a transportation problem once the sizes of the level sets are known, so only the sizes have
to be whole numbers for the solver: as many as there are candidates. Most of these are ruled out beforehand,
since a level set at v costs at least the sum of its rounds' slacks above what potentials prove.
"""

from __future__ import annotations

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.measures.distance.classes.potentials import Potentials

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
    options = {"mip_rel_gap": 0.0} | ({} if most_nodes is None else {"node_limit": most_nodes})
    answer = milp(
        np.concatenate([costs, np.zeros(n)]),
        integrality=whole,
        bounds=Bounds(0, np.inf),
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
