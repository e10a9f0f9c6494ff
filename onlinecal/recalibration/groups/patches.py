"""Patches: the rows of one level set inside one group move together, or all rows of a group do.

Patches that set a value: the rows take their mean outcome, on a grid the grid point nearest to it.
The rest of the level set stays, so without a grid a patch can add a value to those that are forecast, and it
joins level sets that come to the same value. Their order matters.

Patches that add a step come in epochs. During one every row keeps the level set that it had at the epoch's
beginning, so the sets stand still and the steps may be added in any order: nothing but their sum matters.
Then level sets are read anew. Steps are added to the forecasts, which are then clipped to [0, 1], or to the
log odds, where nothing is clipped. Steps of forecasts are whole multiples of 2^-40, which makes their sums
exact: another order gives the same bits.

The step on log odds is the one of the least log loss that self-concordance proves: with bias g, the sum of
(outcome - forecast), and spread h, the sum of f (1 - f), a step of ln(1 + r), r = |g|/h, lowers the sum of
log losses by at least h ((1 + r) ln(1 + r) - r). A probability stays inside (0, 1), its order inside the cell
stands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from scipy.special import expit

from onlinecal.arrays import Bytes, Floats, Ints, pieces
from onlinecal.compiling import compiled
from onlinecal.measures.groups import grid_level, level_sets
from onlinecal.measures.scores import brier_score


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
    curve = brier_score(begun, aside.y) / len(aside.p) + np.cumsum([0.0, *changes[:-1]]) / len(aside.p)
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


TARGET_SHARE = 0.75
"""An epoch goes on until no violation exceeds this share of alpha, so that the next one has less to do."""
UNIT = 2.0**40
LEAST_FALL = 1e-9
"""An epoch ends when no cell is sure to lower the log loss of a row by so much on average."""
TINY = 1e-300
"""What an empty cell is divided by."""


class Scale(NamedTuple):
    """On what steps are added, and what they are worth there.

    Attributes
    ----------
    enter, leave
        From forecasts to the scale, and back.
    spread
        Of forecasts, how much they would rise by a small step.
    loss
        Of each row, from the scale and outcomes.
    step
        From bias and spread of a cell. What it is sure to save, `judge` says.
    values
        From forecasts and m to what tells level sets.
    on_odds, least
        Whether they are log odds: then all rows of a group are a cell, too. What a step has to save, for each
        row on average.
    """

    enter: Callable[[Floats], Floats]
    leave: Callable[[Floats], Floats]
    spread: Callable[[Floats], Floats]
    loss: Callable[[Floats, Any], Floats]
    step: Callable[[float, float], float]
    values: Callable[[Floats, int], Floats]
    on_odds: bool
    least: float


def log_odds(p: Floats) -> Floats:
    """ln(p/(1 - p)) of probabilities inside (0, 1), shape (n,)."""
    return np.asarray(np.log(p) - np.log(1.0 - p))


def odds_losses(z: Floats, y: Any) -> Floats:
    """The log loss of each row that has these log odds, shape (n,)."""
    return np.asarray(np.logaddexp(0.0, z) - y * z)


def _clipped(z: Floats) -> Floats:
    return np.clip(z, 0.0, 1.0)


FORECASTS = Scale(
    enter=np.array,
    leave=_clipped,
    spread=np.ones_like,
    loss=lambda z, y: (_clipped(z) - y) ** 2,
    step=lambda bias, rows: round(bias / rows * UNIT) / UNIT,
    values=values_of,
    on_odds=False,
    least=0.0,
)
EXACT = FORECASTS._replace(values=lambda p, n_levels: p)
LOG_ODDS = Scale(
    enter=log_odds,
    leave=expit,
    spread=lambda f: f * (1.0 - f),
    loss=odds_losses,
    step=lambda bias, spread: math.copysign(math.log1p(abs(bias) / spread), bias),
    values=values_of,
    on_odds=True,
    least=LEAST_FALL,
)


def fit_steps(rows: Rows, aside: Rows | None, plan: Plan, scale: Scale) -> tuple[Any, Floats | None]:
    """The patches, and the held-out loss before and after each, as of `fit_moves`: log losses of log odds."""
    parts, made = [new_patches(0)], 0
    while made < plan.most:
        part = _epoch(rows, plan._replace(most=plan.most - made), scale)
        part["epoch"], made = len(parts) - 1, made + len(part)
        parts.append(part)
        # where nothing is to be reached, an epoch ends when nothing more is saved
        if not len(part) or plan.alpha == 0.0:
            break
        rows = rows._replace(p=_moved(rows.p, rows.members, part, plan.n_levels, scale))
    history = np.concatenate(parts)
    return history, None if aside is None else _curve(history, aside, plan.n_levels, scale)


MASS, BIAS, SPREAD, ONES = range(4)
"""Sums over the rows of a cell, times their weights: of 1, outcome - forecast, spread, and the outcome."""


class Cells:
    """What is known of every cell while steps are made: a level set inside a group, K of them.

    Attributes
    ----------
    values
        What tells the level sets, shape (K,).
    tables
        Of each cell MASS, BIAS, SPREAD and ONES, shape (4, K + 1, G); the last ones are of all rows of a
        group.
    scores, best
        What steps are sure to save, shape (K + 1, G), and the largest of each level set, (K + 1,).
    """

    def __init__(self, rows: Rows, plan: Plan, scale: Scale) -> None:
        self.scale, self.shrinkage = scale, plan.shrinkage
        values = scale.values(rows.p, plan.n_levels)
        # a value is a grid point, or what it is itself
        _, order, starts = level_sets(values, plan.n_levels or None)
        p, y, self.members, self.weights = rows.take(order)
        self.values = values[order][starts[:-1]]
        self.level = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        self.ends = [*zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True), (0, len(p))]
        # in an epoch forecasts are not clipped
        self.f = f = p.copy()
        shape = len(self.values) + 1, self.members.shape[1]
        self.tables, self.scores, self.best = np.zeros((4, *shape)), np.zeros(shape), np.zeros(shape[0])
        for table, each in zip(self.tables, (1.0, y - f, scale.spread(f), y), strict=True):
            terms = self.weights * each
            for g, inside in enumerate(self.members.T):
                table[:-1, g] = np.add.reduceat(inside * terms, starts[:-1])
        self.tables[:, -1] = self.tables[:, :-1].sum(axis=1)
        self.judge(len(self.values))

    def judge(self, k: int) -> None:
        """Bring the scores of a level set up to date after its rows, or all rows of a group, have moved."""
        judge(self.tables, self.scores, self.best, k, self.shrinkage, self.scale.on_odds)

    @property
    def worst(self) -> float:
        """The largest violation of a group, a sum over rows."""
        mass, bias = self.tables[:2, :-1]
        return float((bias**2 / np.maximum(mass, TINY)).sum(axis=0).max())

    def move(self, k: int, g: int, step: float) -> float:
        """Make a step; what ln(1 + odds) of its rows gain, where steps are of log odds."""
        rows = self.members, self.level, self.weights, self.f
        gained = move_rows(*rows, self.tables, *self.ends[k], g, step, self.scale.on_odds)
        self.judge(k)
        return gained


@compiled
def judge(tables: Floats, scores: Floats, best: Floats, k: int, shrinkage: float, on_odds: bool) -> None:
    """What a step of a cell is sure to save: of level set k and of all rows; of all level sets if k is last.

    Of forecasts bias^2 / rows; of log odds bias^2 / (2 spread + 2/3 |bias|), with what shrinks it.
    """
    everywhere = len(best) - 1
    for i in range(everywhere + 1):
        if i != k and i != everywhere and k != everywhere:
            continue
        best[i] = 0.0
        for g in range(scores.shape[1]):
            bias, spread = tables[BIAS, i, g], max(tables[SPREAD, i, g] + shrinkage, TINY)
            if on_odds:
                scores[i, g] = bias**2 / (2.0 * (spread + abs(bias) / 3.0))
            elif i < everywhere:
                scores[i, g] = bias**2 / spread
            best[i] = max(best[i], scores[i, g])


@compiled
def move_rows(
    members: Bytes,
    level: Ints,
    weights: Floats,
    f: Floats,
    tables: Floats,
    begin: int,
    end: int,
    g: int,
    step: float,
    on_odds: bool,
) -> float:
    """Make a step with those of some rows that are in a group: their forecasts f, and what `Cells` knows."""
    factor, gained, everywhere = math.exp(step), 0.0, tables.shape[1] - 1
    for row in range(begin, end):
        if not members[row, g]:
            continue
        before, after, wider = f[row], f[row] + step, 0.0
        if on_odds:
            larger = 1.0 - before + before * factor
            after = before * factor / larger
            wider = weights[row] * (after * (1.0 - after) - before * (1.0 - before))
            gained += weights[row] * math.log(larger)
        f[row] = after
        change = weights[row] * (after - before)
        for j in range(members.shape[1]):
            if members[row, j]:
                for i in (level[row], everywhere):
                    tables[BIAS, i, j] -= change
                    tables[SPREAD, i, j] += wider
    return gained


def _epoch(rows: Rows, plan: Plan, scale: Scale) -> Any:
    """One epoch, the cell that is sure to save most first; empty when no group's violation exceeds alpha."""
    cells, total = Cells(rows, plan, scale), float(rows.weights.sum())
    found: list[tuple[float, ...]] = []
    everywhere, limit = len(cells.values), plan.alpha * total
    while len(found) < plan.most and not (plan.alpha > 0.0 and cells.worst <= limit):
        limit = TARGET_SHARE * plan.alpha * total
        k = everywhere if cells.best[-1] >= cells.best.max() else int(cells.best.argmax())
        g = int(cells.scores[k].argmax())
        mass, bias, spread, ones = cells.tables[:, k, g].tolist()
        if cells.scores[k, g] <= scale.least * total:
            break
        if not (step := scale.step(bias, spread + plan.shrinkage)):
            break
        gained = cells.move(k, g, step)
        after = (ones - cells.tables[BIAS, k, g]) / mass
        value = math.nan if k == everywhere else float(cells.values[k])
        found.append((value, g, mass, step, (ones - bias) / mass, ones / mass, after, step * ones - gained))
    part = new_patches(len(found))
    columns = np.array(found).reshape(-1, 8).T
    part["value"], part["group"], mass, part["shift"], part["forecast"], part["outcome"], *rest = columns
    part["count"], part["patched"], fall = np.rint(mass), *rest
    on_grid = ~np.isnan(part["value"]) & (scale.values is values_of)
    part["level"] = np.where(on_grid, np.rint(part["value"] * plan.n_levels), -1)
    part["violation"] = mass / total * (part["forecast"] - part["outcome"]) ** 2
    # of forecasts before clipping, which takes off more
    part["fall"] = fall / total if scale.on_odds else mass / total * part["shift"] ** 2
    return part


def _epochs(made: Any) -> Iterator[Any]:
    """The patches of each epoch."""
    ends = np.flatnonzero(np.diff(made["epoch"])) + 1
    return (part for part in np.split(made, ends) if len(part))


def _moved(p: Floats, members: Bytes, made: Any, n_levels: int, scale: Scale) -> Floats:
    """The forecasts p, shape (n,), after the patches of one epoch."""
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
    return np.where(total != 0.0, scale.leave(scale.enter(p) + total), p)


def replay_steps(p: Floats, members: Bytes, made: Any, n_levels: int, scale: Scale) -> Floats:
    """The forecasts p, shape (n,), after a history of steps on this scale; members (n, G)."""
    for part in _epochs(made):
        p = _moved(p, members, part, n_levels, scale)
    return p


def _curve(made: Any, aside: Rows, n_levels: int, scale: Scale) -> Floats:
    """Mean losses of these rows at first and after each patch, were it the last; entered in the history."""
    p, changes, weights = aside.p, [], aside.weights
    first = float(weights @ scale.loss(scale.enter(p), aside.y))
    for part in _epochs(made):
        z, begun, sets = scale.enter(p), scale.enter(p), LevelSets(scale.values(p, n_levels), aside.members)
        for value, group, shift in part[["value", "group", "shift"]].tolist():
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


def most_shifts(alpha: float, n_levels: int) -> int:
    """(m + 1)/(3/4 alpha): every shift saves more than 3/4 alpha/(m + 1) of a squared error of at most 1."""
    return math.floor((n_levels + 1) / (TARGET_SHARE * alpha))
