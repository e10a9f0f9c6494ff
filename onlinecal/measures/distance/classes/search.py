"""An upper end for several classes: level sets made in several orders, with prices from a relaxation."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from onlinecal.measures.distance.classes.sweep import (
    NEIGHBOURS,
    Places,
    Rounds,
    exchanges,
    members_of,
    sweep,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Prices = Callable[[Floats], Floats]
"""Potentials of all classes at points of the simplex, shapes (n, k)."""

FEWEST_ROUNDS = 4
"""With fewer rounds in a group on average, neighbouring forecasts are put into one."""

MOST_EXCHANGES = 1000
"""Exchanges that are tried for each level set."""

SWEEPS = 2
"""There and back, from each side of the simplex and then in directions drawn at random."""


def groups_of(vectors: Floats) -> Ints:
    """The number of each row among the different rows, shape (T,); rows that differ by rounding are one."""
    return np.unique(np.round(vectors, 12), axis=0, return_inverse=True)[1].ravel()


def frequencies(y: Ints, group: Ints, k: int) -> Floats:
    """Class frequencies in each round's group, shape (T, k)."""
    counts = np.bincount(group * k + y, minlength=(group.max() + 1) * k).reshape(-1, k)
    return np.asarray((counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))[group])


def start_of(p: Floats) -> Ints:
    """Groups to begin with: equal forecasts, or neighbouring ones if too few are equal."""
    value = groups_of(p)
    fineness = len(p)
    while (value.max() + 1) * FEWEST_ROUNDS > len(p) and fineness > 1:
        fineness = max(1, int(fineness * 0.7))
        value = groups_of(np.rint(p * fineness))
    return value


def searched(p: Floats, y: Ints, prices: Prices | None, work: float) -> Iterator[Ints]:
    """Groupings of the rounds, shape (T,), until the work, in terms added up, is done."""
    from scipy.spatial import cKDTree

    k, value, group = p.shape[1], groups_of(p), start_of(p)
    n = int(group.max()) + 1
    if n < 2:
        return
    rounds = Rounds(p[np.unique(value, return_index=True)[1]], value, y)
    sizes = np.bincount(group)
    centres = np.column_stack([np.bincount(group, column) for column in p.T]) / sizes[:, None]
    near = cKDTree(centres).query(centres, min(NEIGHBOURS + 1, n), p=1)[1].astype(np.int64)
    price = np.zeros((n, k)) if prices is None else prices(centres)
    places = Places(centres, price, np.ascontiguousarray(near[:, 1:]))
    held = len(np.unique(group * len(rounds.values) + value))
    tried = exchanges(k, min(MOST_EXCHANGES, work / (2 * k * held)))
    spent = 0
    rng = np.random.default_rng(0)
    directions = [*np.eye(k), *-np.eye(k)]
    while True:
        members = members_of(group, y, n, k)
        along = centres @ (directions.pop(0) if directions else rng.normal(size=k))
        order = np.lexsort((*centres.T, np.round(along, 9)))
        for _ in range(SWEEPS):
            spent += sweep(rounds, places, members, order, tried)
            yield members.group.copy()
            order = order[::-1].copy()
            if spent > work:
                return
