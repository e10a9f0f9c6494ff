"""Patches: the rows of one level set inside one group move together, or all rows of a group do.

Patches that set a value (`fit_moves`): the rows take their mean outcome, on a grid the grid point nearest to
it. The rest of the level set stays, so without a grid a patch can add a value to those that are forecast, and
it joins level sets that come to the same value. Their order matters.

Patches that add a step (`fit_shifts`; `log_odds.py`) come in epochs. During one every row keeps the level set
that it had at the epoch's beginning, so the sets stand still and the steps may be added in any order: nothing
but their sum matters. Then level sets are read anew. Steps are added to the forecasts, which are then clipped
to [0, 1], or to the log odds, where nothing is clipped. Shifts of forecasts are whole multiples of 2^-40,
which makes their sums exact: another order gives the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from onlinecal.arrays import Bytes, Floats, Ints, pieces
from onlinecal.measures.groups import grid_level

TARGET_SHARE = 0.75
"""An epoch goes on until no violation exceeds this share of alpha, so that the next one has less to do."""
UNIT = 2.0**40
NEAR = 1.0 + 1e-9
"""Totals that are kept by differences are summed anew when they are so near to the limit."""


class Rows(NamedTuple):
    """Forecasts (n,), outcomes (n,), membership (n, G), and weights (n,), which log-odds patches look at."""

    p: Floats
    y: Any
    members: Bytes
    weights: Floats

    def take(self, some: Any) -> Rows:
        """Some of the rows."""
        return Rows(*(array[some] for array in self))


class Search(NamedTuple):
    """What is searched for: m, the violation that may remain, how a cell is chosen, patches at most."""

    n_levels: int
    alpha: float
    by_fall: bool
    most: int
    shrinkage: float


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


MOVE = ("value", "group", "patched")
STEP = ("value", "group", "shift")
"""What replaying a patch needs to know: of those that set a value, and of those that add a step."""


def new_patches(number: int) -> Any:
    """So many patches, still empty."""
    made = np.zeros(number, PATCH)
    made["validation_error"] = np.nan
    return made


def values_of(p: Floats, n_levels: int) -> Floats:
    """The grid point of each forecast, shape (n,); 0 of all with no levels."""
    return np.asarray(grid_level(p, n_levels) / max(n_levels, 1))


def exact_values(p: Floats, n_levels: int) -> Floats:
    """The forecasts themselves: level sets without a grid."""
    return p


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

    def move(self, rows: Ints, value: float, target: float) -> Floats:
        """Count rows of one value at another instead; what that adds to the groups' violations, (G,)."""
        if target not in self._place:
            self._place[target] = len(self._place)
            if len(self._place) > len(self.values):
                for name in ("values", "counts", "ones", "targets", "violations", "scores", "best"):
                    table = getattr(self, name)
                    setattr(self, name, np.concatenate([table, np.zeros_like(table)]))
            self.values[self._place[target]] = target
        counts, ones = self._count(rows)
        change = np.zeros(len(counts))
        for k, sign in ((self._place[value], -1), (self._place[target], 1)):
            change -= self.violations[k]
            self.counts[k] += sign * counts
            self.ones[k] += sign * ones
            self.targets[k], self.violations[k], self.scores[k] = self._judge(k)
            self.best[k] = self.scores[k].max()
            change += self.violations[k]
        return change

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


def fit_moves(rows: Rows, aside: Rows | None, search: Search) -> tuple[Any, Floats | None]:
    """Value patches, the worst cell first: the history, and the held-out error before and after each patch.

    With m = 0 levels there is no grid.
    """
    m, n_rows = search.n_levels, len(rows.p)
    sets = LevelSets(values_of(rows.p, m) if m else rows.p, rows.members)
    tables, limit = Tables(sets, rows.y, m, search.by_fall), search.alpha * n_rows
    totals = tables.violations.sum(axis=0)
    found: list[tuple[float, int, int, int, float]] = []
    while len(found) < search.most:
        if totals.max() <= limit * NEAR:
            totals = tables.violations.sum(axis=0)
            if totals.max() <= limit:
                break
        k = int(np.argmax(tables.best))
        g = int(np.argmax(tables.scores[k]))
        if tables.scores[k, g] <= 0.0:
            break
        value, target = float(tables.values[k]), float(tables.targets[k, g])
        found.append((value, g, int(tables.counts[k, g]), int(tables.ones[k, g]), target))
        totals += tables.move(sets.move(value, g, target), value, target)
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
    for value, group, target in zip(*(made[name].tolist() for name in MOVE), strict=True):
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


class Scale(NamedTuple):
    """On what steps are added, and how level sets are told.

    Attributes
    ----------
    enter, leave
        From forecasts to the scale, and back.
    loss
        Of each row, from the scale and outcomes.
    values
        From forecasts and m to what tells level sets.
    """

    enter: Callable[[Floats], Floats]
    leave: Callable[[Floats], Floats]
    loss: Callable[[Floats, Any], Floats]
    values: Callable[[Floats, int], Floats]


def log_odds(p: Floats) -> Floats:
    """ln(p/(1 - p)) of probabilities inside (0, 1), shape (n,)."""
    return np.asarray(np.log(p) - np.log(1.0 - p))


def _clipped(z: Floats) -> Floats:
    return np.clip(z, 0.0, 1.0)


FORECASTS = Scale(np.array, _clipped, lambda z, y: (_clipped(z) - y) ** 2, values_of)
EXACT = FORECASTS._replace(values=exact_values)
LOG_ODDS = Scale(log_odds, expit, lambda z, y: np.logaddexp(0.0, z) - y * z, values_of)


def _epochs(made: Any) -> Iterator[Any]:
    """The patches of each epoch."""
    ends = np.flatnonzero(np.diff(made["epoch"])) + 1
    return (part for part in np.split(made, ends) if len(part))


def _steps(p: Floats, members: Bytes, made: Any, scale: Scale, n_levels: int) -> Floats:
    """What the patches of one epoch add to each row, (n,)."""
    everywhere = np.isnan(made["value"])
    values, place = np.unique(made["value"][~everywhere], return_inverse=True)
    # the last row is of level sets without a patch
    table, whole = np.zeros((len(values) + 1, members.shape[1])), np.zeros(members.shape[1])
    np.add.at(table, (place, made["group"][~everywhere]), made["shift"][~everywhere])
    np.add.at(whole, made["group"][everywhere], made["shift"][everywhere])
    table += whole
    own = scale.values(p, n_levels)
    at = np.searchsorted(values, own)
    at[(at == len(values)) | (np.append(values, np.nan)[at] != own)] = len(values)
    total = np.empty(len(p))
    for some in pieces(members):
        total[some] = (table[at[some]] * members[some]).sum(axis=1)
    return total


def replay_steps(p: Floats, members: Bytes, made: Any, n_levels: int, scale: Scale) -> Floats:
    """The forecasts p, shape (n,), after a history of steps on this scale; members (n, G)."""
    for part in _epochs(made):
        total = _steps(p, members, part, scale, n_levels)
        p = np.where(total != 0.0, scale.leave(scale.enter(p) + total), p)
    return p


def curve_of_steps(made: Any, aside: Rows, n_levels: int, scale: Scale) -> Floats:
    """Mean losses of these rows at first and after each patch, were it the last; entered in the history."""
    p, changes, weights = aside.p, [], aside.weights
    first = float(weights @ scale.loss(scale.enter(p), aside.y))
    for part in _epochs(made):
        z, begun, sets = scale.enter(p), scale.enter(p), LevelSets(scale.values(p, n_levels), aside.members)
        for value, group, shift in zip(*(part[name].tolist() for name in STEP), strict=True):
            if math.isnan(value):
                rows = np.flatnonzero(aside.members[:, group])
            else:
                rows, _ = sets.inside(value, group)
            old, y = z[rows], aside.y[rows]
            z[rows] = old + shift
            changes.append(float(weights[rows] @ (scale.loss(z[rows], y) - scale.loss(old, y))))
        p = np.where(z == begun, p, scale.leave(z))
    curve = (first + np.cumsum([0.0, *changes])) / weights.sum()
    made["validation_error"] = curve[1:]
    return curve


def fit_shifts(rows: Rows, aside: Rows | None, search: Search, scale: Scale) -> tuple[Any, Floats | None]:
    """Shift patches, like `fit_moves`; what a shift saves and what was wrong are the same."""
    m, parts, made = search.n_levels, [new_patches(0)], 0
    while made < search.most:
        part = _shift_epoch(rows, search._replace(most=search.most - made), scale)
        if not len(part):
            break
        part["epoch"], made = len(parts) - 1, made + len(part)
        parts.append(part)
        rows = rows._replace(p=_clipped(rows.p + _steps(rows.p, rows.members, part, scale, m)))
    history = np.concatenate(parts)
    return history, None if aside is None else curve_of_steps(history, aside, m, scale)


def _shift_epoch(rows: Rows, search: Search, scale: Scale) -> Any:
    """One epoch of shifts, the worst cell first; empty when every group's violation is at most alpha."""
    m, n_rows = search.n_levels, len(rows.p)
    sets = LevelSets(scale.values(rows.p, m), rows.members)
    values, of_each = list(sets.rows), list(sets.rows.values())
    counts, bias, mean = np.zeros((3, len(values), rows.members.shape[1]))
    for k, own in enumerate(of_each):
        inside = rows.members[own]
        counts[k] = inside.sum(axis=0)
        bias[k], mean[k] = (rows.y[own] - rows.p[own]) @ inside, rows.p[own] @ inside
    least = np.maximum(counts, 1.0)
    violations, mean = bias**2 / least, mean / least
    best, totals = violations.max(axis=1), violations.sum(axis=0)
    shared: dict[int, Floats] = {}
    found: list[tuple[float, int, int, float, float]] = []
    limit = search.alpha * n_rows
    while len(found) < search.most:
        if totals.max() <= limit * NEAR:
            totals = violations.sum(axis=0)
            if totals.max() <= limit:
                break
        limit = TARGET_SHARE * search.alpha * n_rows
        k = int(np.argmax(best))
        g = int(np.argmax(violations[k]))
        shift = float(np.rint(bias[k, g] / least[k, g] * UNIT) / UNIT)
        if shift == 0.0:
            break
        found.append((values[k], g, int(counts[k, g]), shift, float(mean[k, g])))
        if k not in shared:
            inside = rows.members[of_each[k]].astype(np.float64)
            shared[k] = inside.T @ inside
        totals -= violations[k]
        bias[k] -= shift * shared[k][g]
        mean[k] += shift * shared[k][g] / least[k]
        violations[k] = bias[k] ** 2 / least[k]
        totals += violations[k]
        best[k] = violations[k].max()
    part = new_patches(len(found))
    columns = zip(*found, strict=True) if found else ((),) * 5
    part["value"], part["group"], part["count"], part["shift"], part["forecast"] = columns
    part["level"] = -1 if scale is EXACT else np.rint(part["value"] * m)
    part["patched"] = part["outcome"] = part["forecast"] + part["shift"]
    part["violation"] = part["fall"] = part["count"] / n_rows * part["shift"] ** 2
    return part


def most_shifts(alpha: float, n_levels: int) -> int:
    """(m + 1)/(3/4 alpha): every shift saves more than 3/4 alpha/(m + 1) of a squared error of at most 1."""
    return math.floor((n_levels + 1) / (TARGET_SHARE * alpha))


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
