"""Groupings of rounds: merged while that brings them nearer to their frequencies, or the nearest of all.

The nearest grouping, and with it the distance itself, is found by an integer program over the values that a
level set can have: all v = a / |a| with whole a, 0 <= a_j <= number of rounds with class j. Which rounds are
sent to which value is a transportation problem once the sizes of the level sets are known, so only the sizes
have to be whole numbers for the solver: as many as there are candidates. Most of these are ruled out
beforehand, since a level set at v costs at least the sum of its rounds' slacks above what potentials prove.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.measures.distance.classes.potentials import Potentials

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
