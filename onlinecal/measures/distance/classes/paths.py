"""Level sets improved along paths: neighbours on a path exchange rounds, all of them at once at best.

Along a path of level sets, which and how many rounds each passes on to the next, by class, is a shortest path
itself: its states are small vectors of class counts. What a level set pays depends on what it has gained in
all, and what is passed on on the cheapest rounds for it. Both are reckoned as if nothing else moved; so the
new level sets are counted anew, and each stretch of the path keeps its own only if they are better.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import compiled, kernel_part
from onlinecal.measures.distance.classes.exact import class_frequencies
from onlinecal.measures.distance.classes.sweep import Rounds, exchanges, l1

MOST_PASSED = 63, 250
"""Vectors of rounds that are tried between two neighbours: few, and more after a pass that gained little."""

LITTLE = 5e-4
"""Share of the whole that is little for a pass."""

LARGEST_TABLE = 100_000
"""Entries of the table of what a level set pays by what it has gained."""

WIDTH = 1.0
"""Of the strips that a path follows: the way across over the (k-1)-th root of the level sets."""


class Grouped(NamedTuple):
    """Rounds by group: where those of each begin, and all (T,); forecasts of each likewise, and how often.

    Then class counts and means of the groups, shapes (B, k).
    """

    starts: Ints
    members: Ints
    held_starts: Ints
    held: Ints
    number: Floats
    counts: Ints
    means: Floats


def grouped(rounds: Rounds, group: Ints) -> Grouped:
    """The groups 0..B-1, none of them empty."""
    n, (f, k) = int(group.max()) + 1, rounds.values.shape
    counts = np.bincount(group * k + rounds.label, minlength=n * k).reshape(n, k)
    members = np.argsort(group, kind="stable")
    codes, number = np.unique(group * f + rounds.value, return_counts=True)
    places = np.arange(n + 1)
    return Grouped(
        np.searchsorted(group[members], places),
        members,
        np.searchsorted(codes // f, places),
        codes % f,
        number.astype(np.float64),
        counts,
        counts / counts.sum(axis=1, keepdims=True),
    )


def improvements(rounds: Rounds, group: Ints) -> Iterator[tuple[int, Ints]]:
    """Groupings, each no worse than the one before, without end, with their work; none for many classes."""
    k = rounds.values.shape[1]
    choices = [exchanges(k, most) for most in MOST_PASSED]
    choices = [one for one in choices if one.max() > 0 and (4 * int(one.max()) + 1) ** k <= LARGEST_TABLE]
    if not choices:
        return
    passed, rng = choices[0], np.random.default_rng(0)
    while True:
        group = np.unique(group, return_inverse=True)[1].ravel()
        before = grouped(rounds, group)
        path = _along_strips(before.means, rng)
        chosen, work = best_passed(rounds, before, path, passed, int(passed.max()))
        moved = group.copy()
        pass_on(rounds, before, path, passed[chosen], moved)
        costs = _costs(rounds, group, len(path))
        gain = costs - _costs(rounds, moved, len(path))
        cuts = np.append(0, np.flatnonzero(~passed[chosen].any(axis=1)) + 1)[:-1]
        better = np.repeat(np.add.reduceat(gain[path], cuts) > 0.0, np.diff(np.append(cuts, len(path))))
        taken = np.zeros(len(path), np.bool_)
        taken[path] = better
        group = np.where(taken[group], moved, group)
        passed = choices[-1 if gain[taken].sum() < LITTLE * costs.sum() else 0]
        yield work, group


def _along_strips(means: Floats, rng: np.random.Generator) -> Ints:
    """All level sets in an order that goes up one strip of the simplex and down the next."""
    n, k = means.shape
    # sums of a few terms each, in order, so that no library's way of adding up decides on a strip
    across, along = (way - way.mean() for way in rng.normal(size=(2, k)))
    across /= np.sqrt((across**2).sum())
    along -= (along * across).sum() * across
    place = (means * across).sum(axis=1)
    width = WIDTH * max(float(np.ptp(place)), 1e-9) / n ** (1.0 / (k - 1))
    strip = np.floor(place / width + rng.random()).astype(np.int64)
    return np.lexsort((np.round(np.where(strip % 2 == 0, 1, -1) * (means * along).sum(axis=1), 9), strip))


def _costs(rounds: Rounds, group: Ints, n: int) -> Floats:
    """What each of the groups 0..n-1 pays."""
    means = class_frequencies(rounds.label, group, rounds.values.shape[1])
    away = np.abs(rounds.values[rounds.value] - means).sum(axis=1)
    return np.asarray(np.bincount(group, away, n), float)


@kernel_part
def cost_of_passing(rounds: Rounds, groups: Grouped, a: int, b: int, costs: Floats) -> None:
    """What the cheapest rounds of each class cost on the way from a to b: sums, shape (k, radius + 1)."""
    costs[:, 1:] = np.inf
    most = costs.shape[1] - 1
    for q in range(groups.starts[a], groups.starts[a + 1]):
        t = groups.members[q]
        p, j = rounds.values[rounds.value[t]], rounds.label[t]
        cost = l1(p, groups.means[b]) - l1(p, groups.means[a])
        if cost < costs[j, most]:
            i = most
            while i > 1 and costs[j, i - 1] > cost:
                costs[j, i] = costs[j, i - 1]
                i -= 1
            costs[j, i] = cost
    for i in range(1, most + 1):
        costs[:, i] += costs[:, i - 1]


@kernel_part
def cost_with(rounds: Rounds, groups: Grouped, b: int, gained: Ints) -> float:
    """What the rounds of a group are away from its mean once it has gained so many of each class."""
    size = 0
    for j in range(len(gained)):
        if groups.counts[b, j] + gained[j] < 0:
            return np.inf
        size += groups.counts[b, j] + gained[j]
    total = 0.0
    if size > 0:
        for j in range(len(gained)):
            mean = (groups.counts[b, j] + gained[j]) / size
            for q in range(groups.held_starts[b], groups.held_starts[b + 1]):
                total += groups.number[q] * abs(rounds.values[groups.held[q], j] - mean)
    return total


@compiled
def best_passed(rounds: Rounds, groups: Grouped, path: Ints, passed: Ints, radius: int) -> tuple[Ints, int]:
    """For each group of the path which of the vectors it best passes on to the next; the work in terms."""
    n, (m, k), work = len(path), passed.shape, 0
    side = 4 * radius + 1
    codes = np.zeros(m, np.int64)
    nothing, middle = 0, (side**k - 1) // 2
    for e in range(m):
        for j in range(k):
            codes[e] = codes[e] * side + passed[e, j]
        if not passed[e].any():
            nothing = e
    best, come_from = np.full((n + 1, m), np.inf), np.zeros((n, m), np.int64)
    best[0, nothing] = 0.0
    costs, gained = np.zeros((2, k, radius + 1)), np.zeros(k, np.int64)
    for t in range(n):
        b, is_last = path[t], t == n - 1
        pays = np.full(side**k, np.nan)
        if not is_last:
            cost_of_passing(rounds, groups, b, path[t + 1], costs[0])
            cost_of_passing(rounds, groups, path[t + 1], b, costs[1])
        order = np.argsort(best[t])
        for e in range(m):
            way = 0.0
            for j in range(k):
                way += costs[0 if passed[e, j] > 0 else 1, j, abs(passed[e, j])]
            if is_last:
                way = 0.0 if e == nothing else np.inf
            if way == np.inf:
                continue
            least = np.inf
            for i in range(m):
                d = order[i]
                if best[t, d] >= least:
                    break
                at = middle + codes[d] - codes[e]
                if np.isnan(pays[at]):
                    for j in range(k):
                        gained[j] = passed[d, j] - passed[e, j]
                    pays[at] = cost_with(rounds, groups, b, gained)
                    work += k * (groups.held_starts[b + 1] - groups.held_starts[b])
                if best[t, d] + pays[at] < least:
                    least = best[t, d] + pays[at]
                    come_from[t, e] = d
                work += 1
            best[t + 1, e] = least + way
        work += side**k // 8
    chosen = np.zeros(n, np.int64)
    chosen[n - 1] = nothing
    for t in range(n - 1, 0, -1):
        chosen[t - 1] = come_from[t, chosen[t]]
    return chosen, work


@compiled
def pass_on(rounds: Rounds, groups: Grouped, path: Ints, passed: Ints, group: Ints) -> None:
    """Pass so many rounds of each class from each group of the path to the next, the cheapest left."""
    for t in range(len(path) - 1):
        for j in range(passed.shape[1]):
            a, b = path[t], path[t + 1]
            if passed[t, j] < 0:
                a, b = b, a
            for _ in range(abs(passed[t, j])):
                least, best = np.inf, -1
                for q in range(groups.starts[a], groups.starts[a + 1]):
                    r = groups.members[q]
                    if rounds.label[r] == j and group[r] == a:
                        p = rounds.values[rounds.value[r]]
                        cost = l1(p, groups.means[b]) - l1(p, groups.means[a])
                        if cost < least:
                            least, best = cost, r
                if best >= 0:
                    group[best] = b
