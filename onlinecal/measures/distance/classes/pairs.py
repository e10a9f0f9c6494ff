"""Two level sets at a time: their rounds are shared out anew between them, as well as can be.

Of two neighbours' rounds so many of each class go to the one and the rest to the other. Once the numbers are
known both values are, and it is best to give the one the rounds that are nearest to it by comparison. The
numbers that are tried are those there are, with few rounds passed on, and all rounds in one level set. As
nothing else changes, every step is a gain by itself, and after some passes there is none left.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import compiled, kernel_part
from onlinecal.measures.distance.classes.members import Members, Rounds, exchanges, members_of, neighbours_of
from onlinecal.measures.distance.classes.sweep import l1, move

PASSED = 50, 400
"""Vectors of rounds that are tried between two neighbours: few at first, then more."""

NEIGHBOURS = 30
"""Level sets that one is paired with."""

LITTLE = 1e-4
"""Share of the whole that is too little for a pass."""

MOST_KINDS = 500
"""Kinds of rounds in a pair up to which it is looked at; time is in proportion to their square at worst."""


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


def better_pairs(rounds: Rounds, group: Ints) -> Iterator[tuple[int, Ints]]:
    """Groupings, each better than the one before, with their work; ends when there is little to gain."""
    n_values, k = rounds.values.shape
    kinds = np.zeros((3, 2 * len(group) + k), np.int64)
    pair = Pair(
        np.zeros(k + 1, np.int64), kinds[0], kinds[1], np.zeros(kinds.shape[1]), kinds[2],
        np.full(n_values, -1), np.zeros(len(group), np.int64),
    )  # fmt: skip
    for most in PASSED:
        passed, active = exchanges(k, most), np.ones(int(group.max()) + 1, np.bool_)
        while True:
            used, group = np.unique(group, return_inverse=True)
            n, active = len(used), active[used]
            if n < 2:
                return
            members = members_of(group.ravel(), rounds.label, n, k)
            means = members.counts / members.counts.sum(axis=1, keepdims=True)
            near = neighbours_of(means, NEIGHBOURS)
            before = np.abs(rounds.values[rounds.value] - means[members.group]).sum()
            gain, work, active = share_out(rounds, members, near, passed, active, pair)
            group = members.group
            yield work, group
            if gain <= LITTLE * before:
                break


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
