"""An upper end for several classes: level sets made in several orders, improved along paths and in pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import NamedTuple

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.measures.distance.classes.exact import class_frequencies
from onlinecal.measures.distance.classes.members import Places, Rounds, exchanges, members_of, neighbours_of
from onlinecal.measures.distance.classes.pairs import better_pairs
from onlinecal.measures.distance.classes.paths import improvements
from onlinecal.measures.distance.classes.sweep import NEIGHBOURS, made_in_order
from onlinecal.pieces import Tell, untold

Prices = Callable[[Floats], Floats]
"""Potentials of all classes at points of the simplex, shapes (n, k)."""

FEWEST_ROUNDS = 4
"""With fewer rounds in a group on average, neighbouring forecasts are put into one."""

PRICINGS = ((0.5, 1.2), (0.8, 1.2), (1.0, 1.2), (0.3, 1.2), (1.0, 1.0))
"""Shares of the potentials that are tried as prices, and how many times the way elsewhere counts then.

Potentials in full tempt to leave too much to the last level sets, the more so if the way counts once.
"""

PATHS = 6
"""Work along paths, whose terms are cheaper, for each of the sweeps."""

PAIRS = 20
"""Work with pairs, which mostly ends before, for each of the sweeps."""

SWEEPS_PART, PATHS_PART = 0.3, 0.5
"""At which shares of the time sweeps mostly end, and paths."""

STANDSTILL = 10, 0.001
"""Paths are left when so many passes along them have gained less than this share."""

MOST_EXCHANGES = 1000
"""Exchanges that are tried for each level set."""


def groups_of(vectors: Floats) -> Ints:
    """The number of each row among the different rows, shape (T,); rows that differ by rounding are one."""
    return np.unique(np.round(vectors, 12), axis=0, return_inverse=True)[1].ravel()


class Start(NamedTuple):
    """Groups to begin with, shape (T,), and their centres, shape (B, k)."""

    group: Ints
    centres: Floats


def start_of(p: Floats) -> Start:
    """Groups to begin with: equal forecasts, or neighbouring ones if too few are equal."""
    value = groups_of(p)
    fineness = len(p)
    while (value.max() + 1) * FEWEST_ROUNDS > len(p) and fineness > 1:
        fineness = max(1, int(fineness * 0.7))
        value = groups_of(np.rint(p * fineness))
    sums = np.column_stack([np.bincount(value, column) for column in p.T])
    return Start(value, sums / np.bincount(value)[:, None])


def start_at(group: Ints, centres: Floats) -> Start:
    """The groups that are not empty, with these centres."""
    names, places = np.unique(group, return_inverse=True)
    return Start(places.ravel(), centres[names])


def rounds_of(p: Floats, y: Ints) -> Rounds:
    """The rounds as kernels take them."""
    value = groups_of(p)
    return Rounds(p[np.unique(value, return_index=True)[1]], value, y)


def sweeps(
    rounds: Rounds, start: Start, prices: Prices, stretch: float, work: float
) -> Iterator[tuple[int, Ints]]:
    """Groupings of the rounds, shape (T,), without end, each with its work in terms added up.

    With little work in sight fewer exchanges are tried for each level set.
    """
    group, centres = start
    n, k = centres.shape
    if n < 2:
        return
    sizes = np.bincount(group)
    places = Places(centres, prices(centres), neighbours_of(centres, NEIGHBOURS), stretch)
    held = len(np.unique(group * len(rounds.values) + rounds.value))
    tried = exchanges(k, min(MOST_EXCHANGES, work / (2 * k * held)))
    rng = np.random.default_rng(0)
    largest = np.argsort(-sizes, kind="stable")
    for trial in count():
        members = members_of(group, rounds.label, n, k)
        if trial % 2 == 0:
            along = -np.abs(centres - centres[largest[trial // 2 % n]]).sum(axis=1)
        else:
            along = centres @ rng.normal(size=k)
        order = np.lexsort((*centres.T, np.round(along, 9)))
        spent = made_in_order(rounds, places, members, order, tried)
        yield spent, members.group


def searched(
    p: Floats, y: Ints, starts: list[Start], potentials: list[Prices], work: float, tell: Tell = untold
) -> Iterator[Ints]:
    """Groupings of the rounds: one from each start with each prices, then more of the best kind.

    When the work is done the best of all is improved along paths and then in pairs.
    """
    rounds, k = rounds_of(p, y), p.shape[1]

    def cost(group: Ints) -> float:
        return float(np.abs(p - class_frequencies(y, group, k)).sum())

    ways = [(start, one, *way) for way in PRICINGS for start in starts for one in potentials]
    searches = [
        sweeps(rounds, start, partial(_scaled, one, share), stretch, work)
        for start, one, share, stretch in ways
    ]
    reached: list[float] = []
    best, least, spent = starts[0].group, cost(starts[0].group), 0
    for turn in count():
        search = searches[turn if turn < len(searches) else int(np.argmin(reached))]
        done, group = next(search, (0, best))
        yield group
        spent += done
        tell(SWEEPS_PART * min(spent / work, 1.0))
        if turn < len(searches):
            reached.append(cost(group))
        if cost(group) < least:
            best, least = group, cost(group)
        if done == 0 or spent > work:
            break
    spent = 0
    for passes, (done, group) in enumerate(improvements(rounds, best), 1):
        yield group
        best = group
        spent += done
        tell(SWEEPS_PART + (PATHS_PART - SWEEPS_PART) * min(spent / (PATHS * work), 1.0))
        if passes % STANDSTILL[0] == 0:
            before, least = least, cost(group)
            if least >= before * (1.0 - STANDSTILL[1]):
                break
        if spent > PATHS * work:
            break
    spent = 0
    for done, group in better_pairs(rounds, best):
        yield group
        spent += done
        tell(PATHS_PART + (1.0 - PATHS_PART) * min(spent / (PAIRS * work), 1.0))
        if spent > PAIRS * work:
            break


def _scaled(potentials: Prices, share: float, points: Floats) -> Floats:
    return share * potentials(points)
