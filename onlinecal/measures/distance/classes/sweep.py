"""Level sets made one after the other, of rounds, centres, members and offers between level sets.

Every level set has a centre. When its turn has come, as many rounds of either class are exchanged with its
neighbours still to come as make its mean nearly its centre: all small exchanges of the cheapest rounds are
tried, and what a round costs elsewhere is told by potentials of the relaxation, so that nobody is left with
what cannot be placed. The levels made before are not touched again, so no choice is spoiled by a later one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from onlinecal.arrays import Bools, Floats, Ints
from onlinecal.compiling import compiled, kernel_part


class Rounds(NamedTuple):
    """The different forecasts (N, k), and of each round the place of its forecast and its class (T,)."""

    values: Floats
    value: Ints
    label: Ints


class Places(NamedTuple):
    """Centres of level sets (B, k), what a round of each class pays there (B, k), neighbours (B, n)."""

    centres: Floats
    prices: Floats
    neighbours: Ints
    stretch: float


class Members(NamedTuple):
    """Which level set a round is in (T,); the first of each (B,), next and previous ones; class counts."""

    group: Ints
    first: Ints
    following: Ints
    previous: Ints
    counts: Ints


class Offers(NamedTuple):
    """Of each class the cheapest rounds to take in, or to give away, and where to.

    Their number (k,); rounds, targets and costs (k, offered); sums of forecasts (k, offered, k). After
    `add_up` costs and sums are those of all up to that one, and costs without the distances to the mean.
    """

    number: Ints
    round: Ints
    target: Ints
    cost: Floats
    sums: Floats


def exchanges(k: int, most: float) -> Ints:
    """Small vectors of whole numbers, shorter ones first: all up to some l1 norm, at most so many."""
    ball = np.zeros((1, k), np.int64)
    steps = np.concatenate([ball, np.eye(k, dtype=np.int64), -np.eye(k, dtype=np.int64)])
    while True:
        larger = np.unique((ball[:, None, :] + steps).reshape(-1, k), axis=0)
        if len(larger) > most:
            return ball[np.argsort(np.abs(ball).sum(axis=1), kind="stable")]
        ball = larger


def neighbours_of(points: Floats, most: int) -> Ints:
    """The other points nearest to each, the nearest first, shape (n, min(most, n - 1)); n is at least 2.

    Of equal points the tree may name another one first, and leaves the point itself out if they are many.
    """
    from scipy.spatial import cKDTree

    near = cKDTree(points).query(points, min(most + 1, len(points)), p=1)[1]
    order = np.argsort(near == np.arange(len(points))[:, None], axis=1, kind="stable")
    return np.take_along_axis(near, order, axis=1)[:, :-1].astype(np.int64)


def members_of(group: Ints, label: Ints, n_groups: int, k: int) -> Members:
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
    return Members(group.copy(), first, following, previous, counts)


LEAST_OFFERED, MOST_OFFERED = 20, 1000
"""Rounds of each class that may leave a level set, and that may come: so many more than the largest bias."""

NEIGHBOURS = 24
"""Level sets that a round may go to."""


@kernel_part
def l1(a: Floats, b: Floats) -> float:
    """The distance of two vectors."""
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
    """Put a round among the cheapest of its class, if it is one of them."""
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
    rounds: Rounds, places: Places, members: Members, b: int, frozen: Bools, come: Offers, leave: Offers
) -> None:
    """What may come to a level set and what may leave it, at costs as if its mean were its centre."""
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
    rounds: Rounds, members: Members, b: int, slot: Ints, held: tuple[Ints, Floats]
) -> int:
    """The different forecasts in a level set, and how many rounds have each; how many they are."""
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
    """Sum of the distances of so many forecasts to the class frequencies; whatever is above the limit is."""
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
def add_up(rounds: Rounds, centre: Floats, offers: Offers, sign: float) -> None:
    """Sums of costs, less distances to the centre, and of forecasts over the first offers of each class."""
    for j in range(len(offers.number)):
        for i in range(offers.number[j]):
            p = rounds.values[rounds.value[offers.round[j, i]]]
            offers.cost[j, i] -= sign * l1(p, centre)
            offers.cost[j, i] += offers.cost[j, i - 1] if i > 0 else 0.0
            for c in range(len(p)):
                offers.sums[j, i, c] = sign * p[c] + (offers.sums[j, i - 1, c] if i > 0 else 0.0)


@kernel_part
def least_cost(ways: Ints, counts: Ints, total: Floats, come: Offers, leave: Offers) -> tuple[float, float]:
    """What the moved rounds pay elsewhere, and that with the least that the level set pays: its bias."""
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
def list_moved(rounds: Rounds, ways: Ints, come: Offers, leave: Offers, moved: tuple[Ints, Floats]) -> int:
    """The forecasts that are moved, in with a plus and out with a minus; how many."""
    n = 0
    for j in range(len(ways)):
        offers, sign = (come, 1.0) if ways[j] > 0 else (leave, -1.0)
        for i in range(abs(ways[j])):
            moved[0][n], moved[1][n] = rounds.value[offers.round[j, i]], sign
            n += 1
    return n


@kernel_part
def move(members: Members, label: Ints, t: int, to: int) -> None:
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
def make_level_sets(rounds: Rounds, places: Places, members: Members, order: Ints, tried: Ints) -> int:
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
