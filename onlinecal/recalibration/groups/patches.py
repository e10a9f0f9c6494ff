"""Patches: the rows of one level set inside one group move together, or all rows of a group do.

Patches that set a value are here: the rows take their mean outcome, on a grid the grid point nearest to it.
The rest of the level set stays, so without a grid a patch can add a value to those that are forecast, and it
joins level sets that come to the same value. Their order matters. Those that add a step are in `steps.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from onlinecal.arrays import Bytes, Floats, Ints
from onlinecal.measures.groups import grid_level


class Rows(NamedTuple):
    """Forecasts (n,), outcomes (n,), membership (n, G), and weights (n,), which log-odds patches look at."""

    p: Floats
    y: Any
    members: Bytes
    weights: Floats

    def take(self, some: Any) -> Rows:
        """Some of the rows."""
        return Rows(*(array[some] for array in self))


Start = Literal["auto", "none", "temperature", "platt", "beta", "isotonic"]
STARTS: tuple[Start, ...] = get_args(Start)


class Plan(NamedTuple):
    """What is searched for.

    Attributes
    ----------
    n_levels, alpha
        m, and the violation that may remain; 0: none is asked for.
    by_fall
        Whether the cell that saves most is patched, or the one that is most wrong.
    shrinkage
        What is added to a cell's spread.
    n_folds, start
        Folds that are held out, and the map that comes first.
    most
        Patches at most.
    """

    n_levels: int
    alpha: float
    by_fall: bool
    shrinkage: float
    n_folds: int
    start: Start
    most: int = 0


PATCH = np.dtype(
    [
        ("epoch", np.int64),
        ("level", np.int64),
        ("value", np.float64),
        ("group", np.int64),
        ("count", np.int64),
        ("forecast", np.float64),
        ("outcome", np.float64),
        ("patched", np.float64),
        ("shift", np.float64),
        ("violation", np.float64),
        ("fall", np.float64),
        ("validation_error", np.float64),
    ]
)
"""One patch. `count` rows of a level inside a group had mean forecast `forecast` and mean outcome `outcome`;
the patch made the former `patched`, by adding `shift`. `violation` is count/n (forecast - outcome)^2; `fall`
is what the mean squared error lost (under shift patches before clipping, which takes off more);
`validation_error` is the mean squared error of the held-out rows once the patch is made, NaN when none are
held out. The level set is `value`: level/m, or without a grid, where `level` is -1, the forecast itself. All
patches that set a value belong to epoch 0.

Of log-odds patches `shift` is what is added to the log odds, the level -1 with a value of NaN means all of
the group's rows, `count` is their weight, rounded, and `fall` and `validation_error` are of the mean log
loss."""


def new_patches(number: int) -> Any:
    """So many patches, still empty."""
    made = np.zeros(number, PATCH)
    made["validation_error"] = np.nan
    return made


def values_of(p: Floats, n_levels: int) -> Floats:
    """The grid point of each forecast, shape (n,); 0 of all with no levels."""
    return np.asarray(grid_level(p, n_levels) / max(n_levels, 1))


NO_ROWS = np.zeros(0, np.int64)


class LevelSets:
    """Rows by the value of their forecast."""

    def __init__(self, forecasts: Floats, members: Bytes) -> None:
        self.members = members
        order = np.argsort(forecasts, kind="stable")
        values, starts = np.unique(forecasts[order], return_index=True)
        self.rows = dict(zip(values.tolist(), np.split(order, starts[1:]), strict=True))

    def inside(self, value: float, group: int) -> tuple[Ints, Ints]:
        """The rows of this value that are in the group, and those that are not."""
        rows = self.rows.get(value, NO_ROWS)
        inside = self.members[rows, group] == 1
        return rows[inside], rows[~inside]

    def move(self, value: float, group: int, target: float) -> Ints:
        """Give the rows of this value inside the group the target as their value; which rows these are."""
        moved, self.rows[value] = self.inside(value, group)
        self.rows[target] = np.concatenate([self.rows.get(target, NO_ROWS), moved])
        return moved


class Tables:
    """What is known of every cell, a value and a group, and what a patch of it is worth.

    Attributes
    ----------
    values
        The forecast of each level set, shape (K,).
    counts, ones
        Rows and outcomes with 1, shape (K, G).
    targets
        What a patch makes of the value, shape (K, G): the mean outcome, or the grid point nearest to it.
    violations
        count (value - mean)^2, a sum over rows, shape (K, G).
    scores
        The same, or what the patch takes off it; 0 where the target is the value.
    """

    def __init__(self, sets: LevelSets, y: Bytes, n_levels: int, by_fall: bool) -> None:
        self._members, self._y, self._m, self._by_fall = sets.members, y, n_levels, by_fall
        self._place = {value: k for k, value in enumerate(sets.rows)}
        shape = len(sets.rows), sets.members.shape[1]
        self.values = np.array(list(sets.rows))
        self.counts, self.ones = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for k, rows in enumerate(sets.rows.values()):
            self.counts[k], self.ones[k] = self._count(rows)
        self.targets, self.violations, self.scores = self._judge(slice(None))
        self.best = self.scores.max(axis=1)

    def move(self, rows: Ints, value: float, target: float) -> None:
        """Count rows of one value at another instead."""
        if target not in self._place:
            self._place[target] = len(self._place)
            if len(self._place) > len(self.values):
                for name in ("values", "counts", "ones", "targets", "violations", "scores", "best"):
                    table = getattr(self, name)
                    setattr(self, name, np.concatenate([table, np.zeros_like(table)]))
            self.values[self._place[target]] = target
        counts, ones = self._count(rows)
        for k, sign in ((self._place[value], -1), (self._place[target], 1)):
            self.counts[k] += sign * counts
            self.ones[k] += sign * ones
            self.targets[k], self.violations[k], self.scores[k] = self._judge(k)
            self.best[k] = self.scores[k].max()

    def _count(self, rows: Ints) -> tuple[Ints, Ints]:
        members = self._members[rows]
        return members.sum(axis=0, dtype=np.int64), members[self._y[rows] == 1].sum(axis=0, dtype=np.int64)

    def _judge(self, k: Any) -> tuple[Floats, Floats, Floats]:
        """Targets, violations and scores of some level sets."""
        counts, ones, values = np.maximum(self.counts[k], 1), self.ones[k], self.values[k]
        values = values if np.ndim(values) == 0 else values[:, None]
        # halves go up, exactly
        targets = (2 * ones * self._m + counts) // (2 * counts) / self._m if self._m else ones / counts
        violations = np.where(self.counts[k] > 0, (counts * values - ones) ** 2 / counts, 0.0)
        scores = violations
        if self._m and self._by_fall:
            scores = violations - (counts * targets - ones) ** 2 / counts
        return targets, violations, np.where((targets == values) | (self.counts[k] == 0), 0.0, scores)


def fit_moves(rows: Rows, aside: Rows | None, plan: Plan) -> tuple[Any, Floats | None]:
    """Value patches, the worst cell first: the history, and the held-out error before and after each patch.

    With m = 0 levels there is no grid.
    """
    m, n_rows = plan.n_levels, len(rows.p)
    sets = LevelSets(values_of(rows.p, m) if m else rows.p, rows.members)
    tables = Tables(sets, rows.y, m, plan.by_fall)
    found: list[tuple[float, int, int, int, float]] = []
    while len(found) < plan.most and tables.violations.sum(axis=0).max() > plan.alpha * n_rows:
        k = int(np.argmax(tables.best))
        g = int(np.argmax(tables.scores[k]))
        if tables.scores[k, g] <= 0.0:
            break
        value, target = float(tables.values[k]), float(tables.targets[k, g])
        found.append((value, g, int(tables.counts[k, g]), int(tables.ones[k, g]), target))
        tables.move(sets.move(value, g, target), value, target)
    made = new_patches(len(found))
    values, groups, counts, ones, targets = zip(*found, strict=True) if found else ((),) * 5
    made["value"] = made["forecast"] = values
    made["level"] = np.rint(made["value"] * m) if m else -1
    made["group"], made["count"], made["patched"] = groups, counts, targets
    made["outcome"] = np.array(ones) / np.maximum(made["count"], 1)
    made["shift"], mass = made["patched"] - made["forecast"], made["count"] / n_rows
    made["violation"] = mass * (made["forecast"] - made["outcome"]) ** 2
    made["fall"] = made["violation"] - mass * (made["patched"] - made["outcome"]) ** 2
    return made, None if aside is None else _curve_of_moves(made, aside, m)


def _moves(p: Floats, members: Bytes, made: Any, n_levels: int) -> Iterator[tuple[Floats, Ints, float]]:
    """Forecasts on their way through value patches: as they are, the rows that move, and where to."""
    forecasts = values_of(p, n_levels) if n_levels else p.copy()
    sets = LevelSets(forecasts, members)
    for value, group, target in made[["value", "group", "patched"]].tolist():
        moved = sets.move(value, group, target)
        yield forecasts, moved, target
        forecasts[moved] = target
    yield forecasts, NO_ROWS, 0.0


def _curve_of_moves(made: Any, aside: Rows, n_levels: int) -> Floats:
    """Mean squared errors of these rows at first and after each patch; they are entered in the history."""
    changes = []
    for forecasts, moved, target in _moves(aside.p, aside.members, made, n_levels):
        y = aside.y[moved]
        changes.append(np.sum((target - y) ** 2 - (forecasts[moved] - y) ** 2))
    begun = values_of(aside.p, n_levels) if n_levels else aside.p
    curve = squared_error(begun, aside.y) + np.cumsum([0.0, *changes[:-1]]) / len(aside.p)
    made["validation_error"] = curve[1:]
    return curve


def replay_moves(p: Floats, members: Bytes, made: Any, n_levels: int) -> Floats:
    """The forecasts p, shape (n,), after a history of value patches; members (n, G)."""
    *_, (forecasts, _, _) = _moves(p, members, made, n_levels)
    return forecasts


def most_unrounded_patches(p: Floats, squared_error: float, alpha: float) -> int:
    """The least of k (e^(B/alpha) - 1) and n B/alpha, for k forecasts, n rows and a squared error of B."""
    n_values = len(np.unique(p))
    by_rows = len(p) * squared_error / alpha
    if squared_error / alpha < math.log1p(by_rows / n_values):
        return math.floor(n_values * math.expm1(squared_error / alpha))
    return math.floor(by_rows)


def squared_error(p: Floats, y: Bytes) -> float:
    """Mean of (p - y)^2."""
    return float(np.mean((p - y) ** 2))
