"""Patches of log odds, and value patches without rounding.

Level sets are the rows with the identical float. A patch leaves the rest of its level set where it was, so it
can add a value to those that are forecast, and it joins level sets that come to the same value.

Patches come in epochs, as shifts do: during one every row keeps the level it had at the epoch's beginning. A
probability stays inside (0, 1), its order inside the cell stands, nothing is clipped. The step is the one of
the least log loss that self-concordance proves: with bias g, the sum of (outcome - forecast), and spread h,
the sum of f (1 - f), a step of ln(1 + r), r = |g|/h, lowers the sum of log losses by at least
h ((1 + r) ln(1 + r) - r).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Bytes, Floats, Ints
from onlinecal.compiling import compiled, kernel_part
from onlinecal.recalibration.groups.value import TARGET_SHARE, add_up, copy_rows, level_of, place_of_largest


class ValueSets:
    """Rows by the exact value of their forecast."""

    def __init__(self, forecasts: Floats, members: Bytes) -> None:
        self.members = members
        order = np.argsort(forecasts, kind="stable")
        values, starts = np.unique(forecasts[order], return_index=True)
        self.rows = dict(zip(values.tolist(), np.split(order, starts[1:]), strict=True))

    def move(self, value: float, group: int, target: float) -> Ints:
        """Give the rows of this value inside the group the target as their value; which rows these are."""
        rows = self.rows.get(value)
        if rows is None:
            return np.zeros(0, np.int64)
        inside = self.members[rows, group] == 1
        moved = rows[inside]
        self.rows[value] = rows[~inside]
        there = self.rows.get(target)
        self.rows[target] = moved if there is None else np.concatenate([there, moved])
        return moved


class Tables:
    """Rows, outcomes with 1 and squared bias (a sum over rows) of every cell: value and group.

    Attributes
    ----------
    values
        The forecast of each level set, shape (K,).
    counts, ones, scores
        Shape (K, G).

    """

    def __init__(self, sets: ValueSets, y: Bytes) -> None:
        self._members, self._y = sets.members, y
        self._place = {value: k for k, value in enumerate(sets.rows)}
        shape = len(sets.rows), sets.members.shape[1]
        self.values = np.array(list(sets.rows))
        self.counts, self.ones = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for k, rows in enumerate(sets.rows.values()):
            self.counts[k], self.ones[k] = self._count(rows)
        self.scores = self._score(slice(None))
        self.best = self.scores.max(axis=1)

    def move(self, rows: Ints, value: float, target: float) -> Floats:
        """Count rows of one value at another instead; what that adds to the groups' scores, shape (G,)."""
        if target not in self._place:
            self._place[target] = len(self._place)
            if len(self._place) > len(self.values):
                self._double()
            self.values[self._place[target]] = target
        counts, ones = self._count(rows)
        change = np.zeros(len(counts))
        for k, sign in ((self._place[value], -1), (self._place[target], 1)):
            change -= self.scores[k]
            self.counts[k] += sign * counts
            self.ones[k] += sign * ones
            self.scores[k] = self._score(k)
            self.best[k] = self.scores[k].max()
            change += self.scores[k]
        return change

    def _count(self, rows: Ints) -> tuple[Ints, Ints]:
        members = self._members[rows]
        return members.sum(axis=0, dtype=np.int64), members[self._y[rows] == 1].sum(axis=0, dtype=np.int64)

    def _score(self, k: Any) -> Floats:
        """count (value - ones/count)^2, the squared error that a patch takes off; 0 for empty cells."""
        counts, values = self.counts[k], self.values[k]
        if not isinstance(k, int):
            values = values[:, None]
        return np.asarray((counts * values - self.ones[k]) ** 2 / np.maximum(counts, 1))

    def _double(self) -> None:
        for name in ("values", "counts", "ones", "scores", "best"):
            table = getattr(self, name)
            setattr(self, name, np.concatenate([table, np.zeros_like(table)]))


def fit_unrounded_patches(p: Floats, y: Bytes, members: Bytes, alpha: float, most: int) -> Any:
    """Patch the worst cell until no group's violation exceeds alpha.

    Returns
    -------
    The patches: arrays (P,) of the value that is left, group, rows, outcomes with 1 among them, and the value
    that is taken.

    """
    sets = ValueSets(p, members)
    tables = Tables(sets, y)
    limit = alpha * len(p)
    totals = tables.scores.sum(axis=0)
    found: list[tuple[float, int, int, int, float]] = []
    while len(found) < most:
        # the totals are kept by differences: near the limit they are summed anew
        if totals.max() <= limit * (1.0 + 1e-9):
            totals = tables.scores.sum(axis=0)
            if totals.max() <= limit:
                break
        k = int(np.argmax(tables.best))
        g = int(np.argmax(tables.scores[k]))
        value, count, ones = float(tables.values[k]), int(tables.counts[k, g]), int(tables.ones[k, g])
        target = ones / max(count, 1)
        if count == 0 or target == value:
            break
        totals += tables.move(sets.move(value, g, target), value, target)
        found.append((value, g, count, ones, target))
    columns = zip(*found, strict=True) if found else ((),) * 5
    kinds = (np.float64, np.int64, np.int64, np.int64, np.float64)
    return tuple(np.array(column, kind) for column, kind in zip(columns, kinds, strict=True))


def unrounded_moves(
    forecasts: Floats, members: Bytes, values: Floats, groups: Ints, targets: Floats
) -> Iterator[Ints]:
    """Send rows through the patches in turn: of each patch, the rows that it moves."""
    sets = ValueSets(forecasts, members)
    for value, group, target in zip(values.tolist(), groups.tolist(), targets.tolist(), strict=True):
        yield sets.move(value, group, target)


def most_unrounded_patches(p: Floats, squared_error: float, alpha: float) -> int:
    """The least of k (e^(B/alpha) - 1) and n B/alpha, for k forecasts, n rows and a squared error of B."""
    n_values = len(np.unique(p))
    by_rows = len(p) * squared_error / alpha
    if squared_error / alpha < math.log1p(by_rows / n_values):
        return math.floor(n_values * math.expm1(squared_error / alpha))
    return math.floor(by_rows)


Places = NDArray[np.int32]

MASS, BIAS, SPREAD, ONES = range(4)
"""Sums over the rows of a cell, times their weights: of 1, outcome - forecast, f (1 - f), and the outcome."""

LEAST_FALL = 1e-9
"""An epoch ends when no cell is sure to lower the log loss of a row by so much on average."""


@kernel_part
def _score(i: int, mass: Floats, bias: Floats, spread: Floats, shrinkage: float, scores: Floats) -> int:
    """The least that each group's patch at a level saves, g^2/(2 (h + |g|/3)); the best group."""
    for g in range(mass.shape[1]):
        scores[i, g] = 0.0
        if mass[i, g] > 0.0:
            size = abs(bias[i, g])
            scores[i, g] = size * size / (2.0 * (spread[i, g] + shrinkage + size / 3.0))
    return place_of_largest(scores[i])


@kernel_part
def _worst_violation(mass: Floats, bias: Floats) -> float:
    """The largest violation of a group, a sum over rows; without the last level, which is all of them."""
    worst = 0.0
    for g in range(mass.shape[1]):
        total = 0.0
        for i in range(mass.shape[0] - 1):
            if mass[i, g] > 0.0:
                total += bias[i, g] ** 2 / mass[i, g]
        worst = max(worst, total)
    return worst


@kernel_part
def _tabulate(odds: Floats, y: Bytes, weights: Floats, members: Bytes, level: Ints, tables: Floats) -> None:
    """Weight, bias, spread and outcomes of every cell; tables (4, m + 2, G), zeros at first."""
    everywhere = tables.shape[1] - 1
    for row in range(len(odds)):
        f = odds[row] / (1.0 + odds[row])
        for g in range(members.shape[1]):
            if members[row, g]:
                for i in (level[row], everywhere):
                    tables[MASS, i, g] += weights[row]
                    tables[BIAS, i, g] += weights[row] * (y[row] - f)
                    tables[SPREAD, i, g] += weights[row] * (f / (1.0 + odds[row]))
                    tables[ONES, i, g] += weights[row] * y[row]


@kernel_part
def _list_members(members: Bytes, level: Ints, n_levels: int) -> tuple[Places, Ints, Places, Ints]:
    """The rows of each cell, by group and level, and where they begin; the groups of each row, and where."""
    n_rows, n_groups = members.shape
    size = n_levels + 1
    cells, ends = np.zeros(n_groups * size + 1, np.int64), np.zeros(n_rows + 1, np.int64)
    for row in range(n_rows):
        ends[row + 1] = ends[row]
        for g in range(n_groups):
            if members[row, g]:
                ends[row + 1] += 1
                cells[g * size + level[row] + 1] += 1
    free = np.empty(n_groups * size, np.int64)
    add_up(cells, free)
    rows, groups = np.empty(ends[n_rows], np.int32), np.empty(ends[n_rows], np.int32)
    place = 0
    for row in range(n_rows):
        for g in range(n_groups):
            if members[row, g]:
                groups[place] = g
                place += 1
                rows[free[g * size + level[row]]] = row
                free[g * size + level[row]] += 1
    return rows, cells, groups, ends


@kernel_part
def _move(
    step: float,
    own: Places,
    odds: Floats,
    weights: Floats,
    level: Ints,
    groups: Places,
    ends: Ints,
    bias: Floats,
    spread: Floats,
) -> float:
    """Add the step to the log odds of a cell's own rows; the weighted sum of what ln(1 + odds) gains."""
    factor, gained, everywhere = math.exp(step), 0.0, len(bias) - 1
    for row in own:
        old = odds[row]
        odds[row] = old * factor
        gained += weights[row] * math.log((1.0 + odds[row]) / (1.0 + old))
        f = odds[row] / (1.0 + odds[row])
        change = weights[row] * (f - old / (1.0 + old))
        wider = weights[row] * (f / (1.0 + odds[row]) - old / (1.0 + old) / (1.0 + old))
        for j in range(ends[row], ends[row + 1]):
            h = groups[j]
            bias[level[row], h] -= change
            spread[level[row], h] += wider
            bias[everywhere, h] -= change
            spread[everywhere, h] += wider
    return gained


@compiled
def fit_log_odds_epoch(
    odds: Floats,
    y: Bytes,
    weights: Floats,
    members: Bytes,
    level: Ints,
    n_levels: int,
    alpha: float,
    shrinkage: float,
    most: int,
) -> tuple[Ints, Floats]:
    """One epoch, the cell that is sure to save most first; empty when no group's violation exceeds alpha.

    Parameters
    ----------
    odds
        f/(1 - f), shape (n,), rows sorted by level; multiplied in place.
    y, weights, members
        Outcomes and weights, shape (n,), and membership, shape (n, G).
    level
        Each row's level 0..m, shape (n,).
    n_levels
        m. The cell of all rows of a group has the level m + 1.
    alpha
        0: the epoch goes on while anything is to be saved.
    shrinkage
        So much is added to a cell's spread: the fewer rows, the shorter the step.
    most
        How many patches are made at most.

    Returns
    -------
    places
        Level and group of each patch, shape (P, 2).
    numbers
        Step, weight, mean forecast and mean outcome before it, mean forecast after it, and what the log loss
        of the rows lost, a sum; shape (P, 6).

    """
    everywhere = n_levels + 1
    tables = np.zeros((4, everywhere + 1, members.shape[1]))
    _tabulate(odds, y, weights, members, level, tables)
    mass, bias, spread, ones = tables[MASS], tables[BIAS], tables[SPREAD], tables[ONES]
    rows, cells, groups, ends = _list_members(members, level, n_levels)
    scores, best = np.zeros(mass.shape), np.empty(everywhere + 1, np.int64)
    for k in range(everywhere + 1):
        best[k] = _score(k, mass, bias, spread, shrinkage, scores)
    total = 0.0
    for weight in weights:
        total += weight
    places, numbers = np.empty((64, 2), np.int64), np.empty((64, 6))
    made, limit = 0, alpha * total
    while made < most:
        if alpha > 0.0 and _worst_violation(mass, bias) <= limit:
            break
        limit = TARGET_SHARE * alpha * total
        i = everywhere
        for k in range(everywhere):
            if scores[k, best[k]] > scores[i, best[i]]:
                i = k
        g = best[i]
        if scores[i, g] <= LEAST_FALL * total:
            break
        if made == len(places):
            longer, wider = np.empty((2 * made, 2), np.int64), np.empty((2 * made, 6))
            copy_rows(places, 0, longer, 0, made)
            copy_rows(numbers, 0, wider, 0, made)
            places, numbers = longer, wider
        step = math.log(1.0 + abs(bias[i, g]) / (spread[i, g] + shrinkage))
        step = step if bias[i, g] > 0.0 else -step
        places[made, 0], places[made, 1] = i, g
        numbers[made, 0], numbers[made, 1] = step, mass[i, g]
        numbers[made, 2] = (ones[i, g] - bias[i, g]) / mass[i, g]
        numbers[made, 3] = ones[i, g] / mass[i, g]
        first, last = g * everywhere, (g + 1) * everywhere
        if i < everywhere:
            first, last = first + i, first + i + 1
        own = rows[cells[first] : cells[last]]
        numbers[made, 5] = step * ones[i, g] - _move(
            step, own, odds, weights, level, groups, ends, bias, spread
        )
        numbers[made, 4] = (ones[i, g] - bias[i, g]) / mass[i, g]
        made += 1
        for k in range(everywhere + 1):
            if i == everywhere or k in (i, everywhere):
                best[k] = _score(k, mass, bias, spread, shrinkage, scores)
    return places[:made], numbers[:made]


@compiled
def replay_log_odds_patches(
    forecasts: Floats, members: Bytes, groups: Ints, steps: Floats, starts: Ints, n_levels: int
) -> None:
    """Send every row through the epochs; `forecasts`, shape (n,), inside (0, 1), are moved in place."""
    size = n_levels + 2
    n_epochs = (len(starts) - 1) // size
    for row in range(len(forecasts)):
        for epoch in range(n_epochs):
            f = forecasts[row]
            total = 0.0
            for level in (level_of(f, n_levels), n_levels + 1):
                cell = epoch * size + level
                for j in range(starts[cell], starts[cell + 1]):
                    if members[row, groups[j]]:
                        total += steps[j]
            if total != 0.0:
                odds = f / (1.0 - f) * math.exp(total)
                forecasts[row] = odds / (1.0 + odds)


@compiled
def log_odds_curve(
    forecasts: Floats,
    y: Bytes,
    weights: Floats,
    members: Bytes,
    epochs: Ints,
    places: Ints,
    steps: Floats,
    n_levels: int,
) -> Floats:
    """The log loss of these rows, a sum, at first and after each patch, were it the last; shape (P + 1,)."""
    n_rows = len(forecasts)
    after = np.zeros(len(steps) + 1)
    odds, level = np.empty(n_rows), np.empty(n_rows, np.int64)
    starts, order = np.zeros(n_levels + 2, np.int64), np.empty(n_rows, np.int64)
    free = np.empty(n_levels + 1, np.int64)
    for row in range(n_rows):
        odds[row] = forecasts[row] / (1.0 - forecasts[row])
        after[0] -= weights[row] * math.log(forecasts[row] if y[row] else 1.0 - forecasts[row])
    for patch in range(len(steps)):
        if patch == 0 or epochs[patch] != epochs[patch - 1]:
            starts[:] = 0
            for row in range(n_rows):
                level[row] = level_of(odds[row] / (1.0 + odds[row]), n_levels)
                starts[level[row] + 1] += 1
            add_up(starts, free)
            for row in range(n_rows):
                order[free[level[row]]] = row
                free[level[row]] += 1
        i, g = places[patch, 0], places[patch, 1]
        first, last = (0, n_rows) if i > n_levels else (starts[i], starts[i + 1])
        step, factor = steps[patch], math.exp(steps[patch])
        change = 0.0
        for j in range(first, last):
            row = order[j]
            if members[row, g]:
                old = odds[row]
                odds[row] = old * factor
                change += weights[row] * (math.log((1.0 + odds[row]) / (1.0 + old)) - step * y[row])
        after[patch + 1] = after[patch] + change
    return after
