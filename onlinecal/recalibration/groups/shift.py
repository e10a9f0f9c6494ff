"""Shift patches: a constant is added to the forecasts of one level set inside one group.

Patches come in epochs. During an epoch every row keeps the level it had at the epoch's beginning, so the sets
that are shifted stand still and the shifts may be added in any order: nothing but their sum matters. At the
end of an epoch forecasts are clipped to [0, 1] and levels are read anew. Shifts are whole multiples of 2^-40,
which makes their sums exact: another order gives the same bits.
"""

from __future__ import annotations

import math

import numpy as np

from onlinecal.arrays import Bytes, Floats, Ints
from onlinecal.compiling import compiled, kernel_part
from onlinecal.recalibration.groups.value import column_sums, copy_rows, largest_of

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
