"""Value patches: the rows of one level set inside one group move together to another level.

What a patch needs to know is kept in tables of (level, group): rows and outcomes with 1, as integers. A patch
touches the rows of one level, then the scores of two levels; no pass over all rows. The rows of a level lie
one after the other in memory, each as the bits of its groups and of its outcome, so that a patch reads and
writes in order: time grows with the rows, not with cache misses.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Bytes, Floats, Ints
from onlinecal.compiling import compiled, kernel_part

SOURCE, GROUP, TARGET, COUNT, ONES = range(5)
"""Columns of a patch: the level that is left, the group, the level that is taken, rows moved, outcomes with 1
among them."""


@kernel_part
def nearest_level(ones: int, count: int, n_levels: int) -> int:
    """The number of the grid point nearest to ones/count; halves go up. Exact."""
    return (2 * ones * n_levels + count) // (2 * count)


@kernel_part
def squared_bias(level: int, ones: int, count: int, n_levels: int) -> float:
    """Count times (level/m - ones/count)^2: what moving the rows to their mean would save, a sum."""
    return float(count * level - n_levels * ones) ** 2 / (float(count) * n_levels * n_levels)


@kernel_part
def _score_level(
    i: int, counts: Ints, ones: Ints, n_levels: int, by_fall: bool, violations: Floats, scores: Floats
) -> int:
    """Score every group at a level; the best one. A cell that rounds to where it is scores 0."""
    best = 0
    for g in range(counts.shape[1]):
        count = counts[i, g]
        violations[i, g] = 0.0
        scores[i, g] = 0.0
        if count > 0:
            violations[i, g] = squared_bias(i, ones[i, g], count, n_levels)
            target = nearest_level(ones[i, g], count, n_levels)
            if target != i:
                left = squared_bias(target, ones[i, g], count, n_levels) if by_fall else 0.0
                scores[i, g] = violations[i, g] - left
        if scores[i, g] > scores[i, best]:
            best = g
    return best


LAST = np.uint64(1)


@kernel_part
def _pack(members: Bytes, outcome: int, words: NDArray[np.uint64]) -> None:
    """Write the groups of a row as bits, and behind them its outcome."""
    for word in range(len(words)):
        words[word] = 0
    for g in range(len(members)):
        words[g >> 6] |= np.uint64(members[g]) << np.uint64(g & 63)
    g = len(members)
    words[g >> 6] |= np.uint64(outcome) << np.uint64(g & 63)


@kernel_part
def copy_rows(source: Any, first: int, target: Any, place: int, number: int) -> None:
    """Copy so many rows of a table, from row `first` on, to those of another from `place` on."""
    for i in range(number):
        for j in range(source.shape[1]):
            target[place + i, j] = source[first + i, j]


@kernel_part
def column_sums(table: Floats, totals: Floats) -> float:
    """Sum each column of a table into `totals`, from the top; the largest of them."""
    for j in range(len(totals)):
        totals[j] = table[0, j]
    for i in range(1, table.shape[0]):
        for j in range(len(totals)):
            totals[j] += table[i, j]
    return largest_of(totals)


@kernel_part
def largest_of(values: Floats) -> float:
    """The largest of some numbers."""
    most = values[0]
    for value in values:
        most = max(most, value)
    return most


@kernel_part
def _spread(
    store: NDArray[np.uint64], starts: Ints, lengths: Ints, rooms: Ints, more: int
) -> tuple[NDArray[np.uint64], int]:
    """Move all levels to a new store without gaps, with place for more rows."""
    rows = 0
    for i in range(len(lengths)):
        rows += lengths[i]
    longer = np.empty((2 * rows + 2 * more, store.shape[1]), np.uint64)
    top = 0
    for i in range(len(starts)):
        copy_rows(store, starts[i], longer, top, lengths[i])
        starts[i], rooms[i] = top, lengths[i]
        top += lengths[i]
    return longer, top


@compiled
def fit_value_patches(
    level: Ints, y: Bytes, members: Bytes, n_levels: int, alpha: float, by_fall: bool, most: int
) -> Ints:
    """Patch the worst cell until no group's violation exceeds alpha; the patches, shape (P, 5).

    Parameters
    ----------
    level
        Each row's level 0..m, shape (n,).
    y, members
        Outcomes, shape (n,), and membership, shape (n, G).
    by_fall
        Whether the worst cell is the one whose patch saves most, instead of the one with most violation.
    most
        How many patches are made at most.

    """
    n_rows, n_groups = members.shape
    size = n_levels + 1
    n_words = n_groups // 64 + 1
    lengths = np.zeros(size, np.int64)
    counts = np.zeros((size, n_groups), np.int64)
    ones = np.zeros((size, n_groups), np.int64)
    for row in range(n_rows):
        lengths[level[row]] += 1
        for g in range(n_groups):
            counts[level[row], g] += members[row, g]
            ones[level[row], g] += members[row, g] & y[row]
    starts, free, rooms = np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.int64)
    for i in range(size):
        if i > 0:
            starts[i] = starts[i - 1] + lengths[i - 1]
        free[i], rooms[i] = starts[i], lengths[i]
    store = np.empty((n_rows, n_words), np.uint64)
    for row in range(n_rows):
        _pack(members[row], y[row], store[free[level[row]]])
        free[level[row]] += 1
    top = n_rows
    violations = np.zeros((size, n_groups))
    scores = np.zeros((size, n_groups))
    best = np.empty(size, np.int64)
    for i in range(size):
        best[i] = _score_level(i, counts, ones, n_levels, by_fall, violations, scores)
    totals = np.empty(n_groups)
    column_sums(violations, totals)
    limit = alpha * n_rows
    patches = np.empty((64, 5), np.int64)
    made = 0
    moved_counts = np.empty(n_groups, np.int64)
    moved_ones = np.empty(n_groups, np.int64)
    while made < most:
        # the totals are kept by differences: near the limit they are summed anew
        if largest_of(totals) <= limit * (1.0 + 1e-9) and column_sums(violations, totals) <= limit:
            break
        source = 0
        for i in range(size):
            if scores[i, best[i]] > scores[source, best[source]]:
                source = i
        g = best[source]
        if scores[source, g] <= 0.0:
            break
        target = nearest_level(ones[source, g], counts[source, g], n_levels)
        if made == len(patches):
            longer = np.empty((2 * made, 5), np.int64)
            copy_rows(patches, 0, longer, 0, made)
            patches = longer
        patches[made, SOURCE], patches[made, GROUP], patches[made, TARGET] = source, g, target
        patches[made, COUNT], patches[made, ONES] = counts[source, g], ones[source, g]
        made += 1
        for h in range(n_groups):
            moved_counts[h] = moved_ones[h] = 0
        if lengths[target] + counts[source, g] > rooms[target]:
            needed = lengths[target] + counts[source, g]
            if top + 2 * needed > len(store):
                store, top = _spread(store, starts, lengths, rooms, 2 * needed)
            old, starts[target], rooms[target] = starts[target], top, 2 * needed
            copy_rows(store, old, store, top, lengths[target])
            top += 2 * needed
        kept, end = starts[source], starts[target] + lengths[target]
        word, bit = g >> 6, np.uint64(g & 63)
        for place in range(starts[source], starts[source] + lengths[source]):
            if (store[place, word] >> bit) & LAST:
                copy_rows(store, place, store, end, 1)
                end += 1
                outcome = (store[place, n_groups >> 6] >> np.uint64(n_groups & 63)) & LAST
                for h in range(n_groups):
                    here = (store[place, h >> 6] >> np.uint64(h & 63)) & LAST
                    moved_counts[h] += np.int64(here)
                    moved_ones[h] += np.int64(here & outcome)
            else:
                copy_rows(store, place, store, kept, 1)
                kept += 1
        lengths[source], lengths[target] = kept - starts[source], end - starts[target]
        for i, sign in ((source, -1), (target, 1)):
            for h in range(n_groups):
                totals[h] -= violations[i, h]
                counts[i, h] += sign * moved_counts[h]
                ones[i, h] += sign * moved_ones[h]
            best[i] = _score_level(i, counts, ones, n_levels, by_fall, violations, scores)
            for h in range(n_groups):
                totals[h] += violations[i, h]
    return patches[:made]


def chain_patches(patches: Ints, n_levels: int) -> tuple[Ints, Ints]:
    """Patches as lists, one for each level that is left, and where each list goes on after a move.

    A row at level i reads the list of level i only; when a patch takes it to another level, it goes on in
    that level's list behind the patches that were made earlier.

    Returns
    -------
    links
        Per patch, ordered by level and then by time: group, target level, place to go on at, number of the
        patch; shape (P, 4).
    starts
        Where each level's list begins, and its end; shape (m + 2,).

    """
    order = np.argsort(patches[:, SOURCE], kind="stable")
    ranked = patches[order]
    starts = np.searchsorted(ranked[:, SOURCE], np.arange(n_levels + 2)).astype(np.int64)
    # one number for (level, time), by which the places are sorted
    length = len(patches) + 1
    onward = np.searchsorted(ranked[:, SOURCE] * length + order, ranked[:, TARGET] * length + order)
    links = np.column_stack([ranked[:, GROUP], ranked[:, TARGET], onward, order])
    return np.ascontiguousarray(links, dtype=np.int64), starts


@compiled
def replay_value_patches(level: Ints, members: Bytes, links: Ints, starts: Ints) -> None:
    """Send every row through the patches; `level`, shape (n,), is moved in place."""
    for row in range(len(level)):
        i = level[row]
        place, end = starts[i], starts[i + 1]
        while place < end:
            if members[row, links[place, 0]]:
                i = links[place, 1]
                place, end = links[place, 2], starts[i + 1]
            else:
                place += 1
        level[row] = i


@compiled
def value_curve(
    level: Ints, y: Bytes, members: Bytes, links: Ints, starts: Ints, n_levels: int, n_patches: int
) -> Floats:
    """What each patch changes in the sum of squared errors over these rows, shape (P,)."""
    change = np.zeros(n_patches)
    for row in range(len(level)):
        i = level[row]
        place, end = starts[i], starts[i + 1]
        while place < end:
            if members[row, links[place, 0]]:
                target = links[place, 1]
                old, new = i / n_levels - y[row], target / n_levels - y[row]
                change[links[place, 3]] += new * new - old * old
                i = target
                place, end = links[place, 2], starts[i + 1]
            else:
                place += 1
    return change
