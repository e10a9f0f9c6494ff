"""An upper end for several classes: level sets made in several orders, with prices from a relaxation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, islice

import numpy as np
from numpy.typing import NDArray

from onlinecal.measures.distance.classes.members import Places, Rounds, exchanges, members_of
from onlinecal.measures.distance.classes.sweep import NEIGHBOURS, made_in_order

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Prices = Callable[[Floats], Floats]
"""Potentials of all classes at points of the simplex, shapes (n, k)."""

FEWEST_ROUNDS = 4
"""With fewer rounds in a group on average, neighbouring forecasts are put into one."""

PRICINGS = ((1.0, 1.2), (1.0, 1.0), (0.6, 1.2), (0.85, 1.2), (0.3, 1.2))
"""Shares of the potentials that are tried as prices, and how many times the way elsewhere counts then.

Potentials in full tempt to leave too much to the last level sets, the more so if the way counts once.
"""

MOST_EXCHANGES = 1000
"""Exchanges that are tried for each level set."""


def groups_of(vectors: Floats) -> Ints:
    """The number of each row among the different rows, shape (T,); rows that differ by rounding are one."""
    return np.unique(np.round(vectors, 12), axis=0, return_inverse=True)[1].ravel()


def class_frequencies(y: Ints, group: Ints, k: int) -> Floats:
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


def sweeps(p: Floats, y: Ints, prices: Prices, stretch: float, work: float) -> Iterator[tuple[int, Ints]]:
    """Groupings of the rounds, shape (T,), without end, each with its work in terms added up.

    With little work in sight fewer exchanges are tried for each level set.
    """
    from scipy.spatial import cKDTree

    k, value, group = p.shape[1], groups_of(p), start_of(p)
    n = int(group.max()) + 1
    if n < 2:
        return
    rounds = Rounds(p[np.unique(value, return_index=True)[1]], value, y)
    sizes = np.bincount(group)
    centres = np.column_stack([np.bincount(group, column) for column in p.T]) / sizes[:, None]
    near = cKDTree(centres).query(centres, min(NEIGHBOURS + 1, n), p=1)[1].astype(np.int64)
    places = Places(centres, prices(centres), np.ascontiguousarray(near[:, 1:]), stretch)
    held = len(np.unique(group * len(rounds.values) + value))
    tried = exchanges(k, min(MOST_EXCHANGES, work / (2 * k * held)))
    rng = np.random.default_rng(0)
    largest = np.argsort(-sizes, kind="stable")
    for trial in count():
        members = members_of(group, y, n, k)
        if trial % 2 == 0:
            along = -np.abs(centres - centres[largest[trial // 2 % n]]).sum(axis=1)
        else:
            along = centres @ rng.normal(size=k)
        order = np.lexsort((*centres.T, np.round(along, 9)))
        spent = made_in_order(rounds, places, members, order, tried)
        yield spent, members.group


def searched(p: Floats, y: Ints, potentials: list[Prices], work: float) -> Iterator[Ints]:
    """Groupings of the rounds until the work is done: one with each prices, then more with the best."""
    pricings = [(partial(_scaled, one, share), way) for share, way in PRICINGS for one in potentials]
    searches, spent = [sweeps(p, y, prices, stretch, work) for prices, stretch in pricings], 0
    reached: list[tuple[float, int]] = []
    for search in searches:
        for done, group in islice(search, 1):
            spent += done
            reached.append((float(np.abs(p - class_frequencies(y, group, p.shape[1])).sum()), len(reached)))
            yield group
        if spent > work:
            return
    if reached:
        for done, group in searches[min(reached)[1]]:
            spent += done
            yield group
            if spent > work:
                return


def _scaled(potentials: Prices, share: float, points: Floats) -> Floats:
    return share * potentials(points)
