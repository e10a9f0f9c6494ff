"""Value patches: the rows of one level set inside one group move together to another level.

What a patch needs to know is kept in tables of (level, group): rows and outcomes with 1, as integers. A patch
touches the rows of one level, then the scores of two levels; no pass over all rows.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]

SOURCE, GROUP, TARGET, COUNT, ONES = range(5)
"""Columns of a patch: the level that is left, the group, the level that is taken, rows moved, outcomes with 1
among them."""


@njit(cache=True)
def nearest_level(ones: int, count: int, n_levels: int) -> int:
    """The number of the grid point nearest to ones/count; halves go up. Exact."""
    return (2 * ones * n_levels + count) // (2 * count)


@njit(cache=True)
def squared_bias(level: int, ones: int, count: int, n_levels: int) -> float:
    """Count times (level/m - ones/count)^2: what moving the rows to their mean would save, a sum."""
    return float(count * level - n_levels * ones) ** 2 / (float(count) * n_levels * n_levels)


@njit(cache=True)
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


@njit(cache=True)
def fit_value_patches(
    level: Ints, y: Bytes, members: Bytes, n_levels: int, alpha: float, by_fall: bool, most: int
) -> Ints:
    """Patch the worst cell until no group's violation exceeds alpha; the patches, shape (P, 5).

    Parameters
    ----------
    level
        Each row's level 0..m, shape (n,); moved in place.
    y, members
        Outcomes, shape (n,), and membership, shape (n, G).
    by_fall
        Whether the worst cell is the one whose patch saves most, instead of the one with most violation.
    most
        How many patches are made at most.

    """
    n_rows, n_groups = members.shape
    size = n_levels + 1
    head = np.full(size, -1)
    following = np.empty(n_rows, np.int64)
    counts = np.zeros((size, n_groups), np.int64)
    ones = np.zeros((size, n_groups), np.int64)
    for row in range(n_rows - 1, -1, -1):
        i = level[row]
        following[row] = head[i]
        head[i] = row
        for g in range(n_groups):
            counts[i, g] += members[row, g]
            ones[i, g] += members[row, g] & y[row]
    violations = np.zeros((size, n_groups))
    scores = np.zeros((size, n_groups))
    best = np.empty(size, np.int64)
    for i in range(size):
        best[i] = _score_level(i, counts, ones, n_levels, by_fall, violations, scores)
    totals = violations.sum(axis=0)
    limit = alpha * n_rows
    patches = np.empty((64, 5), np.int64)
    made = 0
    moved_counts = np.empty(n_groups, np.int64)
    moved_ones = np.empty(n_groups, np.int64)
    while made < most:
        # the totals are kept by differences: near the limit they are summed anew
        if totals.max() <= limit * (1.0 + 1e-9):
            totals = violations.sum(axis=0)
            if totals.max() <= limit:
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
            longer[:made] = patches
            patches = longer
        patches[made] = source, g, target, counts[source, g], ones[source, g]
        made += 1
        moved_counts[:] = 0
        moved_ones[:] = 0
        before, row = -1, head[source]
        while row >= 0:
            after = following[row]
            if members[row, g]:
                if before < 0:
                    head[source] = after
                else:
                    following[before] = after
                following[row] = head[target]
                head[target] = row
                level[row] = target
                for h in range(n_groups):
                    moved_counts[h] += members[row, h]
                    moved_ones[h] += members[row, h] & y[row]
            else:
                before = row
            row = after
        for i, sign in ((source, -1), (target, 1)):
            totals -= violations[i]
            counts[i] += sign * moved_counts
            ones[i] += sign * moved_ones
            best[i] = _score_level(i, counts, ones, n_levels, by_fall, violations, scores)
            totals += violations[i]
    return patches[:made].copy()


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


@njit(cache=True)
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


@njit(cache=True)
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
