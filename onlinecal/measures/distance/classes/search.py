"""Upper ends for several classes: level sets shared out two at a time, shaken, and shared out again.

Of two neighbours' rounds so many of each class go to the one and the rest to the other. Once the numbers are
known both values are, and it is best to give the one the rounds that are nearest to it by comparison. The
numbers that are tried are those there are, with few rounds passed on, and all rounds in one level set. As
nothing else changes, every step is a gain by itself, and after some passes there is none left.

What no two level sets can gain, several may. So they are put into small clusters, each with an empty level
set besides; some of their rounds are dealt out anew at random, and then shared out two at a time within the
cluster. Each cluster keeps what it had unless it gained.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints, Tell, untold
from onlinecal.compiling import compiled, kernel_part
from onlinecal.measures.distance.classes.exact import class_frequencies
from onlinecal.measures.distance.classes.sites import l1

PASSED = 50, 400
"""Vectors of rounds that are tried between two neighbours: few at first, then more."""

PAIRED = 30
"""Level sets that one is paired with."""

LITTLE = 1e-4
"""Share of the whole that is too little for a pass."""

MOST_KINDS = 500
"""Kinds of rounds in a pair up to which it is looked at; time is in proportion to their square at worst."""

CLUSTER = 5
"""Level sets that are shaken together."""

SHAKEN = 0.05, 0.4
"""Least and largest share of their rounds that are dealt out anew; it is drawn for each pass."""

OVERHEAD = 200_000
"""Work of a pass besides what is counted."""

PAIRS, SHAKES = 20, 3
"""Work with pairs, which mostly ends before, and with shaking, in units of the work that is asked for."""

STANDSTILL = 25, 0.002
"""Shaking ends when so many passes have gained less than this share."""

FEWEST_ROUNDS = 4
"""With fewer rounds in a group on average, neighbouring forecasts are put into one."""


class Rounds(NamedTuple):
    """The different forecasts (N, k), and of each round the place of its forecast and its class (T,)."""

    values: Floats
    value: Ints
    label: Ints


class Members(NamedTuple):
    """Which level set a round is in (T,); the first of each (B,), next and previous ones; class counts."""

    group: Ints
    first: Ints
    following: Ints
    previous: Ints
    counts: Ints


class Pair(NamedTuple):
    """The rounds of two level sets by kind, those of a class after another: room to work in.

    Where the kinds of each class start (k + 1,); forecasts, numbers of rounds, what a round pays more in the
    first level set than in the second, and the order of that, from the least, within each class; place of
    each forecast among the kinds of a class, or -1 (N,); all rounds (T,).
    """

    starts: Ints
    forecast: Ints
    number: Ints
    more: Floats
    order: Ints
    slot: Ints
    rounds: Ints


def room_for_pairs(rounds: Rounds) -> Pair:
    """Room for any two level sets of these rounds."""
    (n_values, k), n = rounds.values.shape, len(rounds.label)
    forecast, number, order = np.zeros((3, 2 * n + k), np.int64)
    starts, slot, more = np.zeros(k + 1, np.int64), np.full(n_values, -1), np.zeros(2 * n + k)
    return Pair(starts, forecast, number, more, order, slot, np.zeros(n, np.int64))


def groups_of(vectors: Floats) -> Ints:
    """The number of each row among the different rows, shape (T,); rows that differ by rounding are one."""
    return np.unique(np.round(vectors, 12), axis=0, return_inverse=True)[1].ravel()


def neighbours_grouped(p: Floats) -> Ints:
    """Groups to begin with, shape (T,): equal forecasts, or neighbouring ones if too few are equal."""
    value, fineness = groups_of(p), len(p)
    while (value.max() + 1) * FEWEST_ROUNDS > len(p) and fineness > 1:
        fineness = max(1, int(fineness * 0.7))
        value = groups_of(np.rint(p * fineness))
    return value


def rounds_of(p: Floats, y: Ints) -> Rounds:
    """The rounds as kernels take them."""
    value = groups_of(p)
    return Rounds(p[np.unique(value, return_index=True)[1]], value, y)


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


def searched(p: Floats, y: Ints, starts: list[Ints], work: float, tell: Tell = untold) -> Iterator[Ints]:
    """Groupings of the rounds, shape (T,), each nearer to its frequencies than those before.

    From each start level sets are shared out in pairs; the best is shaken, and shared out once more.
    """
    rounds, least, spent = rounds_of(p, y), np.inf, 0
    best = starts[0]

    def cost(group: Ints) -> float:
        return float(np.abs(p - class_frequencies(y, group, p.shape[1])).sum())

    for start in starts:
        for done, group in better_pairs(rounds, start):
            spent += done
            tell(0.5 * min(spent / (PAIRS * work), 1.0))
            if spent > PAIRS * work:
                break
            start = group
        if (reached := cost(start)) < least:
            best, least = start, reached
            yield best
        if spent > PAIRS * work:
            break
    spent, before = 0, least
    for passes, (done, group) in enumerate(shaken(rounds, best), 1):
        spent, best = spent + done, group
        tell(0.5 + 0.5 * min(spent / (SHAKES * work), 1.0))
        if passes % STANDSTILL[0] == 0:
            yield best
            before, least = least, cost(best)
            if least >= before * (1.0 - STANDSTILL[1]):
                break
        if spent > SHAKES * work:
            break
    yield best
    for done, group in better_pairs(rounds, best):
        yield group
        spent += done
        if spent > 2 * SHAKES * work:
            break


def better_pairs(rounds: Rounds, group: Ints) -> Iterator[tuple[int, Ints]]:
    """Groupings, each better than the one before, with their work; ends when there is little to gain."""
    pair, k = room_for_pairs(rounds), rounds.values.shape[1]
    for most in PASSED:
        passed, active = exchanges(k, most), np.ones(int(group.max()) + 1, np.bool_)
        while True:
            used, group = np.unique(group, return_inverse=True)
            n, active = len(used), active[used]
            if n < 2:
                return
            members = members_of(group.ravel(), rounds.label, n, k)
            means = members.counts / members.counts.sum(axis=1, keepdims=True)
            near = neighbours_of(means, PAIRED)
            before = np.abs(rounds.values[rounds.value] - means[members.group]).sum()
            gain, work, active = share_out(rounds, members, near, passed, active, pair)
            group = members.group
            yield work, group
            if gain <= LITTLE * before:
                break


def shaken(rounds: Rounds, group: Ints) -> Iterator[tuple[int, Ints]]:
    """Groupings, each no worse than the one before, without end, with their work."""
    pair, k, rng = room_for_pairs(rounds), rounds.values.shape[1], np.random.default_rng(0)
    passed = exchanges(k, PASSED[0])
    while True:
        group = np.unique(group, return_inverse=True)[1].ravel()
        n = int(group.max()) + 1
        counts = np.bincount(group * k + rounds.label, minlength=n * k).reshape(n, k)
        clusters = _clusters(counts / counts.sum(axis=1, keepdims=True), rng)
        near, cluster = _within(clusters)
        thrown = (rng.random(len(group)) < rng.uniform(*SHAKEN)) & (cluster[group] >= 0)
        moved = group.copy()
        moved[thrown] = clusters[cluster[group[thrown]], rng.integers(clusters.shape[1], size=thrown.sum())]
        active, work, gain = cluster >= 0, OVERHEAD, np.inf
        while gain > 0.0:
            members = members_of(moved, rounds.label, len(cluster), k)
            gain, done, active = share_out(rounds, members, near, passed, active, pair)
            moved, work = members.group, work + done
        costs = [_costs(rounds, one, cluster, len(clusters)) for one in (group, moved)]
        better = np.append(costs[1] < costs[0] - 1e-12, False)
        group = np.where(better[cluster[group]], moved, group)
        yield work, group


def _clusters(means: Floats, rng: np.random.Generator) -> Ints:
    """Level sets that lie together, a row each, and last in the row the number of an empty one.

    They follow each other on a way up one strip of the simplex and down the next; some at its ends are left
    out.
    """
    n, k = means.shape
    # sums of a few terms each, in order, so that no library's way of adding up decides on a strip
    across, along = (way - way.mean() for way in rng.normal(size=(2, k)))
    across /= np.sqrt((across**2).sum())
    along -= (along * across).sum() * across
    place = (means * across).sum(axis=1)
    width = max(float(np.ptp(place)), 1e-9) / n ** (1.0 / (k - 1))
    strip = np.floor(place / width + rng.random()).astype(np.int64)
    path = np.lexsort((np.round(np.where(strip % 2 == 0, 1, -1) * (means * along).sum(axis=1), 9), strip))
    size = min(CLUSTER, n)
    first = rng.integers(n % size + 1)
    together = path[first : first + n // size * size].reshape(-1, size)
    return np.column_stack([together, n + np.arange(len(together))])


def _within(clusters: Ints) -> tuple[Ints, Ints]:
    """The others in its cluster for each level set, and its cluster or -1; after all one that stays empty."""
    none = int(clusters.max()) + 1
    near, cluster = np.full((none + 1, clusters.shape[1] - 1), none), np.full(none + 1, -1)
    for i, places in enumerate(clusters.T):
        near[places], cluster[places] = np.delete(clusters, i, axis=1), np.arange(len(clusters))
    return near, cluster


def _costs(rounds: Rounds, group: Ints, cluster: Ints, n: int) -> Floats:
    """What the rounds of each cluster pay, shape (n,)."""
    means = class_frequencies(rounds.label, group, rounds.values.shape[1])
    away, inside = np.abs(rounds.values[rounds.value] - means).sum(axis=1), cluster[group] >= 0
    return np.asarray(np.bincount(cluster[group[inside]], away[inside], n), float)


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


@kernel_part
def list_kinds(rounds: Rounds, members: Members, a: int, b: int, pair: Pair) -> int:
    """Put the rounds of two level sets into `pair`; how many rounds."""
    n, held = 0, 0
    for g in (a, b):
        t = members.first[g]
        while t >= 0:
            pair.rounds[n] = t
            n, t = n + 1, members.following[t]
    for j in range(len(pair.starts) - 1):
        pair.starts[j] = held
        for i in range(n):
            t = pair.rounds[i]
            if rounds.label[t] == j:
                f = rounds.value[t]
                if pair.slot[f] < 0:
                    pair.slot[f], pair.forecast[held], pair.number[held], pair.order[held] = held, f, 0, held
                    held += 1
                pair.number[pair.slot[f]] += 1
        for q in range(pair.starts[j], held):
            pair.slot[pair.forecast[q]] = -1
    pair.starts[-1] = held
    return n


@kernel_part
def cost_of_sharing(values: Floats, pair: Pair, first: Ints, second: Ints, v: Floats, limit: float) -> float:
    """What all pay if so many of each class go to the first level set, the rest to the second; v (2, k).

    Above the limit, only that it is.
    """
    sizes, total = (max(1, first.sum()), max(1, second.sum())), 0.0
    for j in range(len(first)):
        v[0, j], v[1, j] = first[j] / sizes[0], second[j] / sizes[1]
    for j in range(len(first)):
        begin, end = pair.starts[j], pair.starts[j + 1]
        if first[j] == 0 or second[j] == 0:
            for q in range(begin, end):
                total += pair.number[q] * l1(values[pair.forecast[q]], v[0 if second[j] == 0 else 1])
            continue
        for q in range(begin, end):
            p = values[pair.forecast[q]]
            there = l1(p, v[1])
            total += pair.number[q] * there
            pair.more[q] = l1(p, v[0]) - there
        # the order of the last numbers is nearly that of these
        for i in range(begin + 1, end):
            q, h = pair.order[i], i
            while h > begin and pair.more[pair.order[h - 1]] > pair.more[q]:
                pair.order[h] = pair.order[h - 1]
                h -= 1
            pair.order[h] = q
        left, i = first[j], begin
        while left > 0:
            q = pair.order[i]
            taken = min(left, pair.number[q])
            total += taken * pair.more[q]
            left, i = left - taken, i + 1
        if total > limit:
            break
    return total


@kernel_part
def divide(
    rounds: Rounds, members: Members, a: int, b: int, pair: Pair, n: int, first: Ints, v: Floats
) -> None:
    """Share out the rounds in `pair`: so many of each class go to the first level set."""
    more = np.empty(n)
    for i in range(n):
        p = rounds.values[rounds.value[pair.rounds[i]]]
        more[i] = l1(p, v[0]) - l1(p, v[1])
    left = first.copy()
    for i in np.argsort(more):
        t = pair.rounds[i]
        goal = b
        if left[rounds.label[t]] > 0:
            left[rounds.label[t]] -= 1
            goal = a
        if members.group[t] != goal:
            move(members, rounds.label, t, goal)


@kernel_part
def cost_of(rounds: Rounds, members: Members, b: int) -> float:
    """What the rounds of a level set pay."""
    size, total, t = members.counts[b].sum(), 0.0, members.first[b]
    while t >= 0:
        for c in range(members.counts.shape[1]):
            total += abs(rounds.values[rounds.value[t], c] - members.counts[b, c] / size)
        t = members.following[t]
    return total


@compiled
def share_out(
    rounds: Rounds, members: Members, near: Ints, passed: Ints, active: NDArray[np.bool_], pair: Pair
) -> tuple[float, int, NDArray[np.bool_]]:
    """All pairs once of which one has changed since (`active`): the gain, the work in terms, what changed."""
    n, k, work = len(near), passed.shape[1], 0
    gain, changed, v = 0.0, np.zeros(n, np.bool_), np.zeros((2, k))
    first, second, best = np.zeros(k, np.int64), np.zeros(k, np.int64), np.zeros(k, np.int64)
    for a in range(n):
        for b in near[a]:
            if not (active[a] or active[b] or changed[a] or changed[b]) or (b < a and (near[b] == a).any()):
                continue
            if members.first[a] < 0 or members.first[b] < 0:
                continue
            size = list_kinds(rounds, members, a, b, pair)
            if pair.starts[k] > MOST_KINDS:
                continue
            least = np.inf
            before = cost_of(rounds, members, a) + cost_of(rounds, members, b)
            for z in range(len(passed) + 1):
                for j in range(k):
                    first[j] = members.counts[a, j] - passed[z, j] if z < len(passed) else 0
                    second[j] = members.counts[a, j] + members.counts[b, j] - first[j]
                if first.min() < 0 or second.min() < 0:
                    continue
                here = cost_of_sharing(rounds.values, pair, first, second, v, least)
                work += k * pair.starts[k]
                if here < least:
                    least = here
                    best = first.copy()
            if least < before - 1e-9 * size:
                gain += before - least
                changed[a] = changed[b] = True
                for j in range(k):
                    second[j] = members.counts[a, j] + members.counts[b, j] - best[j]
                cost_of_sharing(rounds.values, pair, best, second, v, np.inf)
                divide(rounds, members, a, b, pair, size, best, v)
    return gain, work, changed
