"""Value patches without a grid: the rows of one exact forecast inside one group take their mean outcome.

Level sets are the rows with the identical float. A patch leaves the rest of its level set where it was, so it
can add a value to those that are forecast, and it joins level sets that come to the same value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from onlinecal.arrays import Bytes, Floats, Ints


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
