"""Value patches: the rows of one level set inside one group move together to another level.

What a patch needs to know is kept in tables of (level, group): rows and outcomes with 1, as integers. A patch
touches the rows of one level, then the scores of two levels; no pass over all rows. The rows of a level lie
one after the other in memory, each as the bits of its groups and of its outcome, so that a patch reads and
writes in order: time grows with the rows, not with cache misses.

Patches come in epochs. During an epoch every row keeps the level it had at the epoch's beginning, so the sets
that are shifted stand still and the shifts may be added in any order: nothing but their sum matters. At the
end of an epoch forecasts are clipped to [0, 1] and levels are read anew. Shifts are whole multiples of 2^-40,
which makes their sums exact: another order gives the same bits.
"""

from __future__ import annotations

import math
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


UNIT = 2.0**40
TARGET_SHARE = 0.75
"""An epoch goes on until no violation exceeds this share of alpha, so that the next one has less to do."""


@kernel_part
def level_of(forecast: float, n_levels: int) -> int:
    """The number of the nearest grid point; halves go up. With no levels at all, everything is level 0."""
    return math.floor(forecast * n_levels + 0.5)


@kernel_part
def add_up(starts: Ints, free: Ints) -> None:
    """Make starts[i + 1], the rows of each level, the end of that level; free[i] becomes its beginning."""
    for i in range(len(free)):
        free[i] = starts[i]
        starts[i + 1] += starts[i]


@kernel_part
def place_of_largest(values: Floats) -> int:
    """The place of the largest number, the first of equals."""
    best = 0
    for place in range(1, len(values)):
        if values[place] > values[best]:
            best = place
    return best


@compiled
def fit_shift_epoch(
    forecasts: Floats, y: Bytes, members: Bytes, n_levels: int, alpha: float, most: int
) -> tuple[Ints, Floats]:
    """One epoch of shifts, the worst cell first; empty when every group's violation is at most alpha.

    Parameters
    ----------
    forecasts
        Shape (n,); shifted and clipped in place.
    y, members
        Outcomes, shape (n,), and membership, shape (n, G).
    n_levels
        m; the levels are 0..m.
    most
        How many patches are made at most.

    Returns
    -------
    places
        Level, group and rows of each patch, shape (P, 3).
    numbers
        Shift and mean forecast before it, shape (P, 2).

    """
    n_rows, n_groups = members.shape
    size = n_levels + 1
    starts = np.zeros(size + 1, np.int64)
    level = np.empty(n_rows, np.int64)
    for row in range(n_rows):
        level[row] = level_of(forecasts[row], n_levels)
        starts[level[row] + 1] += 1
    order, free = np.empty(n_rows, np.int64), np.empty(size, np.int64)
    add_up(starts, free)
    counts = np.zeros((size, n_groups), np.int64)
    bias = np.zeros((size, n_groups))
    mean = np.zeros((size, n_groups))
    for row in range(n_rows):
        i = level[row]
        order[free[i]] = row
        free[i] += 1
        for g in range(n_groups):
            counts[i, g] += members[row, g]
            bias[i, g] += members[row, g] * (y[row] - forecasts[row])
            mean[i, g] += members[row, g] * forecasts[row]
    violations, best = np.empty((size, n_groups)), np.empty(size, np.int64)
    for i in range(size):
        for g in range(n_groups):
            violations[i, g] = bias[i, g] ** 2 / max(counts[i, g], 1)
            mean[i, g] /= max(counts[i, g], 1)
        best[i] = place_of_largest(violations[i])
    totals = np.empty(n_groups)
    column_sums(violations, totals)
    places, numbers = np.empty((64, 3), np.int64), np.empty((64, 2))
    made = 0
    shifts = np.zeros((size, n_groups))
    shared = np.empty(n_groups, np.int64)
    limit = alpha * n_rows
    while made < most:
        # the totals are kept by differences: near the limit they are summed anew
        if largest_of(totals) <= limit * (1.0 + 1e-9) and column_sums(violations, totals) <= limit:
            break
        limit = TARGET_SHARE * alpha * n_rows
        i = 0
        for k in range(size):
            if violations[k, best[k]] > violations[i, best[i]]:
                i = k
        g = best[i]
        shift = np.rint(bias[i, g] / counts[i, g] * UNIT) / UNIT
        if shift == 0.0:
            break
        if made == len(places):
            longer, wider = np.empty((2 * made, 3), np.int64), np.empty((2 * made, 2))
            copy_rows(places, 0, longer, 0, made)
            copy_rows(numbers, 0, wider, 0, made)
            places, numbers = longer, wider
        places[made, 0], places[made, 1], places[made, 2] = i, g, counts[i, g]
        numbers[made, 0], numbers[made, 1] = shift, mean[i, g]
        made += 1
        shifts[i, g] += shift
        for h in range(n_groups):
            shared[h] = 0
        for j in range(starts[i], starts[i + 1]):
            row = order[j]
            if members[row, g]:
                for h in range(n_groups):
                    shared[h] += members[row, h]
        for h in range(n_groups):
            if shared[h]:
                totals[h] -= violations[i, h]
                bias[i, h] -= shift * shared[h]
                mean[i, h] += shift * shared[h] / counts[i, h]
                violations[i, h] = bias[i, h] ** 2 / counts[i, h]
                totals[h] += violations[i, h]
        best[i] = place_of_largest(violations[i])
    for row in range(n_rows):
        total = 0.0
        for g in range(n_groups):
            if members[row, g]:
                total += shifts[level[row], g]
        forecasts[row] = min(max(forecasts[row] + total, 0.0), 1.0)
    return places[:made], numbers[:made]


def sum_shifts(
    epochs: Ints, places: Ints, shifts: Floats, n_levels: int, n_epochs: int
) -> tuple[Ints, Floats, Ints]:
    """All shifts as one table in sparse rows: per (epoch, level), each group once with its summed shift.

    Returns groups and shifts, shape (S,), and where each (epoch, level) begins, shape (E (m + 1) + 1,).
    """
    size = n_levels + 1
    cells = epochs * size + places[:, 0]
    order = np.lexsort((places[:, 1], cells))
    cells, groups, parts = cells[order], places[order, 1], shifts[order]
    new = np.ones(len(cells), bool)
    new[1:] = (cells[1:] != cells[:-1]) | (groups[1:] != groups[:-1])
    first = np.flatnonzero(new)
    sums = np.add.reduceat(parts, first) if len(first) else parts
    starts = np.searchsorted(cells[first], np.arange(n_epochs * size + 1)).astype(np.int64)
    return groups[first].astype(np.int64), sums, starts


@compiled
def replay_shift_patches(
    forecasts: Floats, members: Bytes, groups: Ints, shifts: Floats, starts: Ints, n_levels: int
) -> None:
    """Send every row through the epochs; `forecasts`, shape (n,), is shifted in place."""
    size = n_levels + 1
    n_epochs = (len(starts) - 1) // size
    for row in range(len(forecasts)):
        f = forecasts[row]
        for epoch in range(n_epochs):
            cell = epoch * size + level_of(f, n_levels)
            total = 0.0
            for j in range(starts[cell], starts[cell + 1]):
                if members[row, groups[j]]:
                    total += shifts[j]
            f = min(max(f + total, 0.0), 1.0)
        forecasts[row] = f


@compiled
def shift_curve(
    forecasts: Floats, y: Bytes, members: Bytes, epochs: Ints, places: Ints, shifts: Floats, n_levels: int
) -> Floats:
    """The sum of squared errors over these rows after each patch, were it the last one; shape (P,).

    `forecasts`, shape (n,), is shifted in place.
    """
    n_rows = len(forecasts)
    after = np.zeros(len(shifts))
    if len(shifts) == 0:
        return after
    size = n_levels + 1
    level = np.empty(n_rows, np.int64)
    order, free = np.empty(n_rows, np.int64), np.empty(size, np.int64)
    totals = np.zeros(n_rows)
    error = 0.0
    starts = np.zeros(size + 1, np.int64)
    for patch in range(len(shifts)):
        if patch == 0 or epochs[patch] != epochs[patch - 1]:
            for i in range(size + 1):
                starts[i] = 0
            error = 0.0
            for row in range(n_rows):
                forecasts[row] = min(max(forecasts[row] + totals[row], 0.0), 1.0)
                totals[row] = 0.0
                level[row] = level_of(forecasts[row], n_levels)
                starts[level[row] + 1] += 1
                error += (forecasts[row] - y[row]) ** 2
            add_up(starts, free)
            for row in range(n_rows):
                order[free[level[row]]] = row
                free[level[row]] += 1
        i, g = places[patch, 0], places[patch, 1]
        for j in range(starts[i], starts[i + 1]):
            row = order[j]
            if members[row, g]:
                old = min(max(forecasts[row] + totals[row], 0.0), 1.0)
                totals[row] += shifts[patch]
                new = min(max(forecasts[row] + totals[row], 0.0), 1.0)
                error += (new - y[row]) ** 2 - (old - y[row]) ** 2
        after[patch] = error
    return after
