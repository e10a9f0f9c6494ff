"""Upper bounds for several classes: level sets made in several orders, improved along paths and in pairs.

*Paths.* Level sets are put in an order, and each passes some of its rounds on to the next. The best numbers
of rounds, by class, are a shortest path: its states are small vectors of class counts. The cost of a level
set depends on what it has gained in all, and passing on costs what the cheapest rounds cost. Both are
computed as if nothing else moved. So the new level sets are counted anew, and each stretch of the path keeps
them only if they are better.

*Pairs.* Of the rounds of two neighbours so many of each class go to the first and the rest to the second.
These numbers determine both values, and then it is best to give the first the rounds that are nearer to it by
comparison. The numbers that are tried are the present ones with few rounds passed on, and all rounds in one
level set. Nothing else changes, so every step is a gain, and after some passes there is none left.

The generators keep their state in variables of their own, and each grouping that they yield is a new array.
`sweeps` begins each time from its start, so a later grouping may be worse; those of `improvements` and of
`better_pairs` are no worse than the one before. `searched` runs all three and hands on every grouping. Random
directions have a fixed seed, so the same rounds give the same groupings. `Pair` is room to work in, written
by `list_kinds` and `cost_of_sharing` for the pair at hand; for the next pair only `slot` means anything,
which is -1 throughout again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import NamedTuple

import numpy as np

from onlinecal.arrays import Bools, Floats, Ints, Tell, no_progress, part_of
from onlinecal.compiling import compiled, kernel_part
from onlinecal.measures.distance.classes.groupings import class_frequencies
from onlinecal.measures.distance.classes.sweep import (
    MOST_NEIGHBOURS,
    ClassRounds,
    Places,
    SetMembers,
    exchanges,
    l1,
    make_level_sets,
    members_of,
    move,
    neighbours_of,
    total_distance,
)

MOST_PASSED = 63, 250
"""So many vectors of rounds are tried between two neighbours on a path, and more after a pass of little
gain."""

LITTLE_GAIN_OF_PATHS = 5e-4
"""A gain below this share of all costs is little for a pass along paths."""

LARGEST_TABLE = 100_000
"""The most entries of a table of a level set's costs by what it has gained."""

STRIP_WIDTH = 1.0
"""The width of the strips that a path follows, in extents divided by the (k-1)-th root of the level sets."""


class Grouped(NamedTuple):
    """Rounds by group: `starts` says where the `members` of each begin, (T,).

    `held` has the different forecasts of each group in the same way, and `number` how often they are there.
    `counts` and `means` are the class counts and frequencies of the groups, shapes (B, k).
    """

    starts: Ints
    members: Ints
    held_starts: Ints
    held: Ints
    number: Floats
    counts: Ints
    means: Floats


def grouped(rounds: ClassRounds, group: Ints) -> Grouped:
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


def improvements(rounds: ClassRounds, group: Ints) -> Iterator[tuple[int, Ints]]:
    """Groupings without end, each no worse than the one before, with their work; none for many classes."""
    k = rounds.values.shape[1]
    choices = [exchanges(k, most) for most in MOST_PASSED]
    choices = [
        vectors
        for vectors in choices
        if vectors.max() > 0 and (4 * int(vectors.max()) + 1) ** k <= LARGEST_TABLE
    ]
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
        passed = choices[-1 if gain[taken].sum() < LITTLE_GAIN_OF_PATHS * costs.sum() else 0]
        yield work, group


def _along_strips(means: Floats, rng: np.random.Generator) -> Ints:
    """All level sets in an order that goes up one strip of the simplex and down the next."""
    n, k = means.shape
    # sums of a few terms each, in a fixed order, so that strips do not depend on how a library adds up
    across, along = (way - way.mean() for way in rng.normal(size=(2, k)))
    across /= np.sqrt((across**2).sum())
    along -= (along * across).sum() * across
    place = (means * across).sum(axis=1)
    width = STRIP_WIDTH * max(float(np.ptp(place)), 1e-9) / n ** (1.0 / (k - 1))
    strip = np.floor(place / width + rng.random()).astype(np.int64)
    return np.lexsort((np.round(np.where(strip % 2 == 0, 1, -1) * (means * along).sum(axis=1), 9), strip))


def _costs(rounds: ClassRounds, group: Ints, n: int) -> Floats:
    """The cost of each of the groups 0..n-1."""
    means = class_frequencies(rounds.label, group, rounds.values.shape[1])
    away = np.abs(rounds.values[rounds.value] - means).sum(axis=1)
    return np.asarray(np.bincount(group, away, n), float)


@kernel_part
def cost_of_passing(rounds: ClassRounds, groups: Grouped, a: int, b: int, costs: Floats) -> None:
    """Fill in the costs of moving the cheapest rounds of each class from a to b: sums, (k, radius + 1)."""
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
    for j in range(len(costs)):
        for i in range(1, most + 1):
            costs[j, i] += costs[j, i - 1]


@compiled
def best_passed(
    rounds: ClassRounds, groups: Grouped, path: Ints, passed: Ints, radius: int
) -> tuple[Ints, int]:
    """For each group of the path the number of the best vector to pass on to the next; the work in terms."""
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
    costs, counts = np.zeros((2, k, radius + 1)), np.zeros(k, np.int64)
    for t in range(n):
        b, is_last = path[t], t == n - 1
        begin, end = groups.held_starts[b], groups.held_starts[b + 1]
        held = groups.held[begin:end], groups.number[begin:end]
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
                    pays[at], fewest = np.inf, 0
                    for j in range(k):
                        counts[j] = groups.counts[b, j] + passed[d, j] - passed[e, j]
                        fewest = min(fewest, counts[j])
                    if fewest == 0:
                        pays[at] = total_distance(rounds.values, held, end - begin, counts, np.inf)
                    work += k * (end - begin)
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
def pass_on(rounds: ClassRounds, groups: Grouped, path: Ints, passed: Ints, group: Ints) -> None:
    """Pass so many rounds of each class from each group of the path to the next, always the cheapest."""
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


MOST_SHARED = 50, 400
"""So many vectors of rounds are tried between the level sets of a pair: first few, then more."""

PAIRED = 30
"""Each level set is paired with so many others."""

LITTLE_GAIN_OF_PAIRS = 1e-4
"""Passes over pairs end when one gains less than this share of all costs."""

MOST_KINDS = 500
"""Pairs with more kinds of rounds are left out; the time is in proportion to their square at worst."""


class Pair(NamedTuple):
    """The rounds of two level sets by kind, class by class, and room to work in.

    Attributes
    ----------
    starts
        Where the kinds of each class start, (k + 1,).
    forecast, number
        For each kind its forecast and its number of rounds.
    more, order
        What a round costs more in the first level set than in the second, and the kinds of each class ordered
        by it.
    slot
        The place of each forecast among the kinds of a class, or -1, (N,).
    rounds
        All rounds, (T,).
    """

    starts: Ints
    forecast: Ints
    number: Ints
    more: Floats
    order: Ints
    slot: Ints
    rounds: Ints


def better_pairs(rounds: ClassRounds, group: Ints) -> Iterator[tuple[int, Ints]]:
    """Groupings, each better than the one before, with their work, until there is little to gain."""
    n_values, k = rounds.values.shape
    # at most one kind for each round
    kinds = np.zeros((3, len(group)), np.int64)
    pair = Pair(
        np.zeros(k + 1, np.int64), kinds[0], kinds[1], np.zeros(kinds.shape[1]), kinds[2],
        np.full(n_values, -1), np.zeros(len(group), np.int64),
    )  # fmt: skip
    for most in MOST_SHARED:
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
            if gain <= LITTLE_GAIN_OF_PAIRS * before:
                break


@kernel_part
def list_kinds(rounds: ClassRounds, members: SetMembers, a: int, b: int, pair: Pair) -> int:
    """Put the rounds of two level sets into `pair`, and say how many rounds."""
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
    """The cost if so many rounds of each class go to the first level set and the rest to the second.

    v (2, k) becomes the values of both. A cost above the limit need not be exact.
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
        # insertion sort is quick, since the order for the last numbers is nearly the order for these
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
    rounds: ClassRounds, members: SetMembers, a: int, b: int, pair: Pair, n: int, first: Ints, v: Floats
) -> None:
    """Divide the rounds in `pair`: so many of each class go to the first level set."""
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
def cost_of(rounds: ClassRounds, members: SetMembers, b: int) -> float:
    """The cost of a level set: the distances of its rounds to its value."""
    size, total, t = members.counts[b].sum(), 0.0, members.first[b]
    while t >= 0:
        for c in range(members.counts.shape[1]):
            total += abs(rounds.values[rounds.value[t], c] - members.counts[b, c] / size)
        t = members.following[t]
    return total


@compiled
def share_out(
    rounds: ClassRounds, members: SetMembers, near: Ints, passed: Ints, active: Bools, pair: Pair
) -> tuple[float, int, Bools]:
    """Improve all pairs once of which one has changed (`active`): gain, work in terms, what changed."""
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


PriceFunction = Callable[[Floats], Floats]
"""Potentials of all classes at points of the simplex, shapes (n, k)."""

FEWEST_ROUNDS = 4
"""If groups of equal forecasts have fewer rounds on average, neighbouring forecasts are put into one
group."""

PRICINGS = ((0.5, 1.2), (0.8, 1.2), (1.0, 1.2), (0.3, 1.2), (1.0, 1.0))
"""Shares of the potentials that are tried as prices, and how many times the distance elsewhere then counts.

Full potentials leave too much to the last level sets, the more so if distances count once.
"""

PATHS_WORK = 6
"""The work along paths, in multiples of that for sweeps; its terms are cheaper."""

PAIRS_WORK = 20
"""The most work with pairs, in multiples of that for sweeps; it usually ends before."""

SWEEPS_PART, PATHS_PART = 0.3, 0.5
"""The shares of the time at which sweeps and paths usually end."""

STANDSTILL = 10, 0.001
"""Work along paths ends when so many passes have gained less than this share of all costs."""

MOST_EXCHANGES = 1000
"""At most so many exchanges are tried for each level set."""


def groups_of(vectors: Floats) -> Ints:
    """The number of each row among the different rows, shape (T,); rows that differ by rounding are one."""
    return np.unique(np.round(vectors, 12), axis=0, return_inverse=True)[1].ravel()


class StartingGroups(NamedTuple):
    """Groups to begin with, shape (T,), and their centres, shape (B, k)."""

    group: Ints
    centres: Floats


def start_of(p: Floats) -> StartingGroups:
    """Groups to begin with: equal forecasts, or neighbouring forecasts if too few are equal."""
    value = groups_of(p)
    fineness = len(p)
    while (value.max() + 1) * FEWEST_ROUNDS > len(p) and fineness > 1:
        fineness = max(1, int(fineness * 0.7))
        value = groups_of(np.rint(p * fineness))
    sums = np.column_stack([np.bincount(value, column) for column in p.T])
    return StartingGroups(value, sums / np.bincount(value)[:, None])


def start_at(group: Ints, centres: Floats) -> StartingGroups:
    """The groups that are not empty, with these centres."""
    names, places = np.unique(group, return_inverse=True)
    return StartingGroups(places.ravel(), centres[names])


def rounds_of(p: Floats, y: Ints) -> ClassRounds:
    """The rounds as kernels take them."""
    value = groups_of(p)
    return ClassRounds(p[np.unique(value, return_index=True)[1]], value, y)


def sweeps(
    rounds: ClassRounds, start: StartingGroups, prices: PriceFunction, stretch: float, work: float
) -> Iterator[tuple[int, Ints]]:
    """Groupings of the rounds, shape (T,), without end, each with its work in terms.

    If little work is allowed, fewer exchanges are tried for each level set.
    """
    group, centres = start
    n, k = centres.shape
    if n < 2:
        return
    sizes = np.bincount(group)
    places = Places(centres, prices(centres), neighbours_of(centres, MOST_NEIGHBOURS), stretch)
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
        spent = make_level_sets(rounds, places, members, order, tried)
        yield spent, members.group


def searched(
    p: Floats,
    y: Ints,
    starts: list[StartingGroups],
    potentials: list[PriceFunction],
    work: float,
    tell: Tell = no_progress,
) -> Iterator[Ints]:
    """Groupings of the rounds: one from each start with each function of prices, then more of the best kind.

    When that work is used up, the best of all is improved along paths and then in pairs.
    """
    rounds, k = rounds_of(p, y), p.shape[1]

    def cost(group: Ints) -> float:
        return float(np.abs(p - class_frequencies(y, group, k)).sum())

    ways = [(start, function, *way) for way in PRICINGS for start in starts for function in potentials]
    searches = [
        sweeps(rounds, start, partial(_scaled, function, share), stretch, work)
        for start, function, share, stretch in ways
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
    told_paths, told_pairs = part_of(tell, SWEEPS_PART, PATHS_PART), part_of(tell, PATHS_PART, 1.0)
    for passes, group in enumerate(_within(improvements(rounds, best), PATHS_WORK * work, told_paths), 1):
        yield group
        best = group
        if passes % STANDSTILL[0] == 0:
            before, least = least, cost(group)
            if least >= before * (1.0 - STANDSTILL[1]):
                break
    yield from _within(better_pairs(rounds, best), PAIRS_WORK * work, told_pairs)


def _within(groupings: Iterator[tuple[int, Ints]], work: float, tell: Tell) -> Iterator[Ints]:
    """Groupings until so much work has been done."""
    spent = 0
    for done, group in groupings:
        yield group
        spent += done
        tell(min(spent / work, 1.0))
        if spent > work:
            break


def _scaled(potentials: PriceFunction, share: float, points: Floats) -> Floats:
    return share * potentials(points)
