"""Level sets made one after the other, by exchanging rounds with neighbours that are not made yet.

Every level set has a centre. When its turn comes, it exchanges rounds of each class with its neighbours until
its mean is about its centre. All small exchanges of the cheapest rounds are tried. Potentials of the
relaxation say what a round costs elsewhere, so that the last level sets are not left with rounds that fit
nowhere. Level sets that were made before are not changed again, so no later choice can make an earlier one
worse.

`SetMembers` is all that is kept from turn to turn, and `move` alone changes it. So between moves every round
is in the list of its own `group`, just once, and `counts` are those of the lists; a list's order means
nothing. Offers are made anew for each level set: `look_around` fills them in, then `add_up` turns them into
sums, and only after it may `least_cost` read them. A level set is frozen when its turn begins. Its own turn
changes it, and later turns do not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from onlinecal.arrays import Bools, Floats, Ints
from onlinecal.compiling import compiled, kernel_part


class ClassRounds(NamedTuple):
    """The different forecasts (N, k), and for each round the place of its forecast, and its class (T,)."""

    values: Floats
    value: Ints
    label: Ints


class Places(NamedTuple):
    """Centres of level sets (B, k), the price of a round of each class there (B, k), neighbours (B, n).

    Distances elsewhere count `stretch` times.
    """

    centres: Floats
    prices: Floats
    neighbours: Ints
    stretch: float


class SetMembers(NamedTuple):
    """The members of level sets, as linked lists.

    `group` is the level set of each round (T,), `first` the first round of each (B,), `following` and
    `previous` its neighbours in the list (T,), or -1. `counts` are the class counts (B, k).
    """

    group: Ints
    first: Ints
    following: Ints
    previous: Ints
    counts: Ints


class Offers(NamedTuple):
    """The cheapest rounds of each class that a level set may take in, or give away, and where they go.

    Their number (k,); rounds, targets and costs (k, offered); sums of forecasts (k, offered, k). After
    `add_up` costs and sums are those of all rounds up to that one, and costs are without the distances to the
    mean.
    """

    number: Ints
    round: Ints
    target: Ints
    cost: Floats
    sums: Floats


def exchanges(k: int, most: float) -> Ints:
    """Small vectors of whole numbers, shorter ones first: the largest l1 ball that has at most so many."""
    ball = np.zeros((1, k), np.int64)
    steps = np.concatenate([ball, np.eye(k, dtype=np.int64), -np.eye(k, dtype=np.int64)])
    while True:
        larger = np.unique((ball[:, None, :] + steps).reshape(-1, k), axis=0)
        if len(larger) > most:
            return ball[np.argsort(np.abs(ball).sum(axis=1), kind="stable")]
        ball = larger


def neighbours_of(points: Floats, most: int) -> Ints:
    """The other points nearest to each, the nearest first, shape (n, min(most, n - 1)); n is at least 2.

    If points are equal the tree may name another one first, or leave out the point itself if there are many.
    """
    from scipy.spatial import cKDTree

    near = cKDTree(points).query(points, min(most + 1, len(points)), p=1)[1]
    order = np.argsort(near == np.arange(len(points))[:, None], axis=1, kind="stable")
    return np.take_along_axis(near, order, axis=1)[:, :-1].astype(np.int64)


def members_of(group: Ints, label: Ints, n_groups: int, k: int) -> SetMembers:
    """The members of groups 0..n_groups-1 as lists that can be changed."""
    order = np.argsort(group, kind="stable")
    following, previous = np.full(len(group), -1), np.full(len(group), -1)
    joined = group[order[1:]] == group[order[:-1]]
    following[order[:-1][joined]] = order[1:][joined]
    previous[order[1:][joined]] = order[:-1][joined]
    first = np.full(n_groups, -1)
    starts = np.append(True, ~joined)
    first[group[order[starts]]] = order[starts]
    counts = np.bincount(group * k + label, minlength=n_groups * k).reshape(n_groups, k)
    return SetMembers(group.copy(), first, following, previous, counts)


LEAST_OFFERED, MOST_OFFERED = 20, 1000
"""So many rounds of each class may leave a level set, and as many may come. The first is what is added to the
largest bias, and the second is the most."""

MOST_NEIGHBOURS = 24
"""A round may go to so many neighbouring level sets."""


@kernel_part
def l1(a: Floats, b: Floats) -> float:
    """The l1 distance of two vectors."""
    total = 0.0
    for c in range(len(a)):
        total += abs(a[c] - b[c])
    return total


@kernel_part
def room_for_offers(k: int, offered: int) -> Offers:
    """Room for so many offers of each class."""
    rows, targets = np.zeros((k, offered), np.int64), np.zeros((k, offered), np.int64)
    sums = np.zeros((k, offered, k))
    return Offers(np.zeros(k, np.int64), rows, targets, np.zeros((k, offered)), sums)


@kernel_part
def offer(offers: Offers, j: int, t: int, cost: float, target: int) -> None:
    """Insert a round among the cheapest of its class, if it is one of them."""
    i = offers.number[j]
    if i == offers.cost.shape[1]:
        i -= 1
        if cost >= offers.cost[j, i]:
            return
    else:
        offers.number[j] += 1
    while i > 0 and offers.cost[j, i - 1] > cost:
        offers.round[j, i] = offers.round[j, i - 1]
        offers.cost[j, i] = offers.cost[j, i - 1]
        offers.target[j, i] = offers.target[j, i - 1]
        i -= 1
    offers.round[j, i], offers.cost[j, i], offers.target[j, i] = t, cost, target


@kernel_part
def look_around(
    rounds: ClassRounds,
    places: Places,
    members: SetMembers,
    b: int,
    frozen: Bools,
    come: Offers,
    leave: Offers,
) -> None:
    """Fill in the rounds that may come and leave, with costs as if the set's mean were its centre."""
    for j in range(len(come.number)):
        come.number[j] = leave.number[j] = 0
    t = members.first[b]
    while t >= 0:
        p, j, least, target = rounds.values[rounds.value[t]], rounds.label[t], np.inf, -1
        for q in places.neighbours[b]:
            if not frozen[q]:
                price = places.prices[q, j] + places.stretch * l1(p, places.centres[q])
                if price < least:
                    least, target = price, q
        if target >= 0:
            offer(leave, j, t, least - places.stretch * l1(p, places.centres[b]), target)
        t = members.following[t]
    for q in places.neighbours[b]:
        t = -1 if frozen[q] else members.first[q]
        while t >= 0:
            p, j = rounds.values[rounds.value[t]], rounds.label[t]
            price = places.prices[q, j] + places.stretch * l1(p, places.centres[q])
            offer(come, j, t, places.stretch * l1(p, places.centres[b]) - price, b)
            t = members.following[t]


@kernel_part
def different_forecasts(
    rounds: ClassRounds, members: SetMembers, b: int, slot: Ints, held: tuple[Ints, Floats]
) -> int:
    """Fill in the different forecasts in a level set and how many rounds have each; and say how many."""
    n, t = 0, members.first[b]
    while t >= 0:
        p = rounds.value[t]
        if slot[p] < 0:
            slot[p], held[0][n], held[1][n] = n, p, 0.0
            n += 1
        held[1][slot[p]] += 1.0
        t = members.following[t]
    for i in range(n):
        slot[held[0][i]] = -1
    return n


@kernel_part
def total_distance(values: Floats, held: tuple[Ints, Floats], n: int, counts: Ints, limit: float) -> float:
    """The sum of distances of n forecasts to the class frequencies; above the limit it need not be exact."""
    size = 0
    for j in range(len(counts)):
        size += counts[j]
    total = 0.0
    if size > 0:
        for c in range(len(counts)):
            mean = counts[c] / size
            for i in range(n):
                total += held[1][i] * abs(values[held[0][i], c] - mean)
            if total > limit:
                break
    return total


@kernel_part
def add_up(rounds: ClassRounds, centre: Floats, offers: Offers, sign: float) -> None:
    """Turn costs, less distances to the centre, and forecasts into sums over the first offers of a class."""
    for j in range(len(offers.number)):
        for i in range(offers.number[j]):
            p = rounds.values[rounds.value[offers.round[j, i]]]
            offers.cost[j, i] -= sign * l1(p, centre)
            offers.cost[j, i] += offers.cost[j, i - 1] if i > 0 else 0.0
            for c in range(len(p)):
                offers.sums[j, i, c] = sign * p[c] + (offers.sums[j, i - 1, c] if i > 0 else 0.0)


@kernel_part
def least_cost(ways: Ints, counts: Ints, total: Floats, come: Offers, leave: Offers) -> tuple[float, float]:
    """The cost of the moved rounds elsewhere, and that plus the bias, which the level set costs at least."""
    cost, bias = 0.0, 0.0
    for j in range(len(ways)):
        offers = come if ways[j] > 0 else leave
        if abs(ways[j]) > offers.number[j]:
            return np.inf, np.inf
        if ways[j] != 0:
            cost += offers.cost[j, abs(ways[j]) - 1]
    for c in range(len(ways)):
        difference = total[c] - counts[c]
        for j in range(len(ways)):
            if ways[j] != 0:
                offers = come if ways[j] > 0 else leave
                difference += offers.sums[j, abs(ways[j]) - 1, c]
        bias += abs(difference)
    return cost, cost + bias


@kernel_part
def list_moved(
    rounds: ClassRounds, ways: Ints, come: Offers, leave: Offers, moved: tuple[Ints, Floats]
) -> int:
    """List the forecasts that move, in with a plus and out with a minus, and say how many."""
    n = 0
    for j in range(len(ways)):
        offers, sign = (come, 1.0) if ways[j] > 0 else (leave, -1.0)
        for i in range(abs(ways[j])):
            moved[0][n], moved[1][n] = rounds.value[offers.round[j, i]], sign
            n += 1
    return n


@kernel_part
def move(members: SetMembers, label: Ints, t: int, to: int) -> None:
    """Put a round into another level set."""
    group, first, following, previous, counts = members
    old, after, before = group[t], following[t], previous[t]
    if before >= 0:
        following[before] = after
    else:
        first[old] = after
    if after >= 0:
        previous[after] = before
    head = first[to]
    following[t], previous[t], first[to], group[t] = head, -1, t, to
    if head >= 0:
        previous[head] = t
    counts[old, label[t]] -= 1
    counts[to, label[t]] += 1


@compiled
def make_level_sets(
    rounds: ClassRounds, places: Places, members: SetMembers, order: Ints, tried: Ints
) -> int:
    """Make the level sets in that order by those exchanges, changing `members`; returns its work."""
    (n_values, k), n_sets, work, largest = rounds.values.shape, len(places.centres), 0, 0.0
    for b in range(n_sets):
        size = members.counts[b].sum()
        for j in range(k):
            largest = max(largest, abs(places.centres[b, j] * size - members.counts[b, j]))
    offered = min(MOST_OFFERED, LEAST_OFFERED + int(largest))
    come, leave = room_for_offers(k, offered), room_for_offers(k, offered)
    held, slot = (np.zeros(n_values, np.int64), np.zeros(n_values)), np.full(n_values, -1)
    moved = np.zeros(2 * k * offered, np.int64), np.zeros(2 * k * offered)
    frozen, total = np.zeros(n_sets, np.bool_), np.zeros(k)
    middle, ways, counts = np.zeros(k, np.int64), np.zeros(k, np.int64), np.zeros(k, np.int64)
    for b in order:
        frozen[b] = True
        look_around(rounds, places, members, b, frozen, come, leave)
        add_up(rounds, places.centres[b], come, 1.0)
        add_up(rounds, places.centres[b], leave, -1.0)
        n = different_forecasts(rounds, members, b, slot, held)
        size = 0
        for j in range(k):
            size += members.counts[b, j]
            total[j] = 0.0
            for i in range(n):
                total[j] += held[1][i] * rounds.values[held[0][i], j]
        work += k * (size * len(places.neighbours[b]) + 4 * len(tried))
        for j in range(k):
            bias = int(np.rint(places.centres[b, j] * size)) - members.counts[b, j]
            middle[j] = max(-leave.number[j], min(come.number[j], bias))
        least, best = np.inf, -1
        for z in range(len(tried)):
            for j in range(k):
                ways[j] = middle[j] + tried[z, j]
                counts[j] = members.counts[b, j] + ways[j]
            cost, bound = least_cost(ways, counts, total, come, leave)
            if bound >= least:
                continue
            n_moved = list_moved(rounds, ways, come, leave, moved)
            cost += total_distance(rounds.values, moved, n_moved, counts, np.inf)
            cost += total_distance(rounds.values, held, n, counts, least - cost)
            work += k * (n + n_moved)
            if cost < least:
                least, best = cost, z
        for j in range(k):
            way = middle[j] + tried[best, j]
            offers = come if way > 0 else leave
            for i in range(abs(way)):
                move(members, rounds.label, offers.round[j, i], offers.target[j, i])
    return work
