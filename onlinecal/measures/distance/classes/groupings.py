"""Groupings of rounds by merging, and the nearest grouping of all, for few rounds.

`merged` joins groups as long as that brings their rounds nearer to their frequencies.

An integer program finds the nearest grouping, and with it the distance itself. Its candidates are the values
that a level set can have: all v = a / |a| with whole a, 0 <= a_j <= number of rounds with class j. Once the
sizes of the level sets are known, sending rounds to values is a transportation problem. So only the sizes
have to be whole numbers for the solver, one for each candidate. Most candidates are ruled out beforehand: a
level set at v costs at least the sum of its rounds' slacks above what potentials prove.

Nothing here has a state, and arguments stay as they are. A grouping is a number for each round; any grouping
attains an upper end, so `merged` may change freely. `useful` may rule out no candidate of a nearest grouping,
since the distance is then called exact: `gap` must be at least the upper end less what the potentials prove.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.measures.distance.classes.potentials import Potentials

MOST_MERGED = 400
"""With more groups no pairs are tried."""


def equal_rows(vectors: Floats) -> NDArray[np.intp]:
    """The groups of equal rows, shape (T,)."""
    return np.unique(vectors, axis=0, return_inverse=True)[1].ravel()


def class_frequencies(y: Ints, group: Ints, k: int) -> Floats:
    """Class frequencies in each round's group, shape (T, k)."""
    counts = np.bincount(group * k + y, minlength=(group.max() + 1) * k).reshape(-1, k)
    return np.asarray((counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))[group])


def merged(p: Floats, y: NDArray[np.int64], groups: NDArray[np.intp]) -> NDArray[np.intp]:
    """Merge each group with a near one if the rounds of both then are nearer to their frequencies; repeat."""
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


SLACK_ROUNDING = 1e-9
"""A bound on what rounding adds to a slack."""

MOST_CANDIDATES = 20_000_000
"""There is memory for so many candidates times rounds."""


def n_candidates(y: Ints, k: int) -> float:
    """An upper bound on the number of values that a level set could have: equal values are counted each."""
    return float(np.prod(np.bincount(y, minlength=k) + 1.0))


def candidates(y: Ints, k: int) -> Ints:
    """The class counts, without a common divisor, that some of the rounds can have, shape (n, k)."""
    counts = np.bincount(y, minlength=k) + 1
    table = np.stack(np.unravel_index(np.arange(1, counts.prod()), counts), axis=1)
    return np.asarray(table[np.gcd.reduce(table, axis=1) == 1])


def useful(p: Floats, y: Ints, possible: Ints, potentials: Potentials, gap: float) -> Ints:
    """The candidates whose cheapest level set has slacks with a sum of at most `gap`."""
    k = p.shape[1]
    values = possible / possible.sum(axis=1, keepdims=True)
    prices, paid = potentials.at(values), potentials.of_rounds(p, y)
    least = np.zeros(len(possible))
    for j in range(k):
        of_class = np.flatnonzero(y == j)
        slack = np.zeros((len(possible), len(of_class) + 1))
        for c in range(k):
            slack[:, 1:] += np.abs(values[:, c, None] - p[of_class, c])
        slack[:, 1:] += prices[:, j, None] - paid[of_class]
        least += np.cumsum(np.sort(slack, axis=1), axis=1)[np.arange(len(possible)), possible[:, j]]
    return possible[least <= gap + SLACK_ROUNDING * len(p)]


def exact_grouping(p: Floats, y: Ints, possible: Ints, most_nodes: int | None = None) -> Ints | None:
    """The nearest grouping with these values, shape (T,); None if it needs more nodes than allowed."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    k, n = p.shape[1], len(possible)
    values = possible / possible.sum(axis=1, keepdims=True)
    kinds, kind, number = np.unique(np.column_stack([y, p]), axis=0, return_inverse=True, return_counts=True)
    label, forecast = kinds[:, 0].astype(np.int64), kinds[:, 1:]
    a, v = np.nonzero(possible[:, label].T)
    costs = np.abs(forecast[a] - values[v]).sum(axis=1)
    ways = np.arange(len(a))
    sizes = len(a) + np.arange(n)
    rows = [a, len(kinds) + v * k + label[a]]
    columns, entries = [ways, ways], [np.ones(len(a)), np.ones(len(a))]
    for j in range(k):
        rows.append(len(kinds) + np.arange(n) * k + j)
        columns.append(sizes)
        entries.append(-possible[:, j].astype(np.float64))
    place = np.concatenate(rows), np.concatenate(columns)
    table = coo_array((np.concatenate(entries), place), shape=(len(kinds) + n * k, len(a) + n)).tocsr()
    right = np.concatenate([number, np.zeros(n * k)])
    whole = np.concatenate([np.zeros(len(a)), np.ones(n)])
    # HiGHS 1.12 may presolve for ever if whole numbers have no bound, even for four rounds
    of_label = np.bincount(y, minlength=k)
    most = np.where(possible > 0, of_label // np.maximum(possible, 1), len(p)).min(axis=1)
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
