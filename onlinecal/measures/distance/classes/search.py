"""An upper end for several classes: level sets from several starts, in several orders, with the prices of the
relaxation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from onlinecal.measures.distance.classes.potentials import Potentials
from onlinecal.measures.distance.classes.sweep import NEIGHBOURS, Places, Rounds, members_of, sweep

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def groups_of(vectors: Floats) -> Ints:
    """The number of each row among the different rows, shape (T,); rows that differ by rounding are one."""
    return np.unique(np.round(vectors, 12), axis=0, return_inverse=True)[1].ravel()


def distance_of(p: Floats, y: Ints, group: Ints) -> Floats:
    """Class frequencies of each round's group, shape (T, k)."""
    k = p.shape[1]
    counts = np.bincount(group * k + y, minlength=(group.max() + 1) * k).reshape(-1, k)
    return (counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))[group]


def searched(p: Floats, y: Ints, starts: list[Ints], prices: Potentials | None, work: float) -> Iterator[Ints]:
    """Groupings of the rounds, shape (T,), until the work, in terms added up, is done."""
    from scipy.spatial import cKDTree

    k, value = p.shape[1], groups_of(p)
    first = np.unique(value, return_index=True)[1]
    rounds = Rounds(p[first], value, y)
    spent = 0
    for sides in range(2 * k):
        for start in starts:
            group = np.unique(start, return_inverse=True)[1].ravel()
            n = group.max() + 1
            if n < 2:
                continue
            sizes = np.bincount(group)
            centres = np.column_stack([np.bincount(group, column) for column in p.T]) / sizes[:, None]
            price = np.zeros((n, k)) if prices is None else prices.at(centres)
            near = cKDTree(centres).query(centres, min(NEIGHBOURS + 1, n), p=1)[1].astype(np.int64)
            places = Places(centres, price, np.ascontiguousarray(near[:, 1:]))
            members = members_of(group, y, n, k)
            keys = centres[:, sides // 2] * (1 - 2 * (sides % 2))
            order = np.lexsort((centres[:, (sides // 2 + 1) % k], np.round(keys, 9)))
            for _ in range(2):
                spent += sweep(rounds, places, members, order)
                yield members.group.copy()
                order = order[::-1].copy()
            if spent > work:
                return
