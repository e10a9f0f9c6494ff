"""Patches: each moves the rows of one level set inside one group together, or all rows of a group.

A patch may set a value. Then the rows take their mean outcome, or with a grid the grid point nearest to it.
The rest of the level set stays. So without a grid a patch can add a new value, and level sets that come to
the same value are joined. The order of such patches matters.

A patch may add a step. Such patches come in epochs. During an epoch every row keeps the level set that it had
at the epoch's beginning, so only the sum of the steps matters, and not their order. After it level sets are
read anew. Steps are added to the forecasts, which are then clipped to [0, 1], or to the log odds, where
nothing is clipped. Steps of forecasts are whole multiples of 2^-40, so that their sums are exact, and every
order gives the same bits.

A step on log odds is the one of the least log loss that self-concordance proves. Let the bias g be the sum of
(outcome - forecast), and the spread h the sum of f (1 - f). A step of ln(1 + r) with r = |g|/h lowers the sum
of log losses by at least h ((1 + r) ln(1 + r) - r). Probabilities stay inside (0, 1), and no two of
a cell change places. Where doubles would round to 0 or 1 they stay at LEAST_ODD and MOST_ODD.

A history is an array of PATCH, in the order in which patches are made. Users read it as `history_` of a
`GroupRecalibrator`, and `replay_moves` and `replay_steps` play it on other rows: equal rows come to equal
forecasts. `validation_error` is entered at the end of a fit, and after that nothing changes a history.

What keeps sums while patches are searched for is made for one fit. `fit_moves` tells `RowsByValue` and
`ValueCells` of every move, in this order, and `_epoch` tells `StepCells`, so that their sums are those of the
present forecasts. `ValueCells` counts rows, so for patches that set a value a row of weight w must be given w
times, with weight 1 (`copied_rows` in `start.py`).

The order of the fields of PATCH, of MASS, BIAS, SPREAD and ONES, and which of equal cells is patched first,
are part of pickled models and of what is fitted. LEAST_ODD and MOST_ODD are part of every forecast.
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


class EventRows(NamedTuple):
    """Forecasts (n,), outcomes (n,), membership (n, G), and weights (n,).

    With other patches than log-odds ones each weight must be 1: their callers repeat rows instead.
    """

    p: Floats
    y: Any
    members: Bytes
    weights: Floats

    def take(self, some: Any) -> EventRows:
        """Some of the rows."""
        return EventRows(*(array[some] for array in self))


EventStart = Literal["auto", "none", "temperature", "platt", "beta", "isotonic"]
EVENT_STARTS: tuple[EventStart, ...] = get_args(EventStart)


class PatchPlan(NamedTuple):
    """How patches are searched for.

    Attributes
    ----------
    n_levels, alpha
        m, and the violation that may remain; with alpha = 0 no violation ends the search.
    by_fall
        True: the cell that saves most is patched first. False: the one that is most wrong.
    shrinkage
        This is added to a cell's spread.
    n_folds, start
        The number of folds that are held out, and the map that comes first.
    most
        The most patches.
    """

    n_levels: int
    alpha: float
    by_fall: bool
    shrinkage: float
    n_folds: int
    start: EventStart
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
"""The fields of one patch. Users read them by name.

`count` rows of a level inside a group had the mean forecast `forecast` and the mean outcome `outcome`; the
patch changed the former to `patched`, by adding `shift`. `violation` is count/n (forecast - outcome)^2.
`fall` is the fall of the mean squared error; for shift patches it is that before clipping, which lowers the
error more. `validation_error` is the mean squared error of the held-out rows after the patch, or NaN if none
are held out. `value` is the level set's: level/m or, without a grid, where `level` is -1, the forecast
itself. All patches that set a value belong to epoch 0.

For log-odds patches `shift` is what is added to the log odds. The level -1 with a value of NaN stands for all
rows of the group. `count` is their weight, rounded, and `fall` and `validation_error` are those of the mean
log loss."""


def new_patches(number: int) -> Any:
    """An array of this many empty patches."""
    patches = np.zeros(number, PATCH)
    patches["validation_error"] = np.nan
    return patches


def values_of(p: Floats, n_levels: int) -> Floats:
    """The grid point of each forecast, shape (n,); with 0 levels it is 0 for all."""
    return np.asarray(grid_level(p, n_levels) / max(n_levels, 1))


NO_ROWS = np.zeros(0, np.int64)


class RowsByValue:
    """Rows by the present value of their forecast; each row belongs to one value."""

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
        """Give the rows of this value inside the group the target as their value; returns these rows."""
        moved, self.rows[value] = self.inside(value, group)
        self.rows[target] = np.concatenate([self.rows.get(target, NO_ROWS), moved])
        return moved


class ValueCells:
    """Counts of every cell, which is a value and a group, and the worth of a patch of it.

    Attributes
    ----------
    values
        The forecast of each level set, shape (K,).
    counts, ones
        The numbers of rows, and of rows with outcome 1, shape (K, G).
    targets
        The value after a patch, shape (K, G): the mean outcome, or the grid point nearest to it.
    violations
        count (value - mean)^2, a sum over rows, shape (K, G).
    scores
        The violation or, by fall, how much of it the patch removes; 0 where the target is the value.
    """

    def __init__(self, sets: RowsByValue, y: Bytes, n_levels: int, by_fall: bool) -> None:
        self._members, self._y = sets.members, y
        self._m, self._by_fall = n_levels, by_fall
        self._place = {value: k for k, value in enumerate(sets.rows)}
        shape = len(sets.rows), sets.members.shape[1]
        self.values = np.array(list(sets.rows))
        self.counts, self.ones = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for k, rows in enumerate(sets.rows.values()):
            self.counts[k], self.ones[k] = self._count(rows)
        self.targets, self.violations, self.scores = self._judge(slice(None))
        self.best = self.scores.max(axis=1)

    def move(self, rows: Ints, value: float, target: float) -> None:
        """Count rows at the value `target` that were counted at `value`."""
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
        """Targets, violations and scores of one level set, or of some level sets."""
        counts, ones, values = np.maximum(self.counts[k], 1), self.ones[k], self.values[k]
        values = values if np.ndim(values) == 0 else values[:, None]
        # whole numbers round halves up exactly
        targets = (2 * ones * self._m + counts) // (2 * counts) / self._m if self._m else ones / counts
        violations = np.where(self.counts[k] > 0, (counts * values - ones) ** 2 / counts, 0.0)
        scores = violations
        if self._m and self._by_fall:
            scores = violations - (counts * targets - ones) ** 2 / counts
        return targets, violations, np.where((targets == values) | (self.counts[k] == 0), 0.0, scores)


def fit_moves(rows: EventRows, aside: EventRows | None, plan: PatchPlan) -> tuple[Any, Floats | None]:
    """Make value patches, the worst cell first; returns them, and the held-out error before and after each.

    With m = 0 levels there is no grid.
    """
    m, n_rows = plan.n_levels, len(rows.p)
    sets = RowsByValue(values_of(rows.p, m) if m else rows.p, rows.members)
    tables = ValueCells(sets, rows.y, m, plan.by_fall)
    moves: list[tuple[float, int, int, int, float]] = []
    while len(moves) < plan.most and tables.violations.sum(axis=0).max() > plan.alpha * n_rows:
        k = int(np.argmax(tables.best))
        g = int(np.argmax(tables.scores[k]))
        if tables.scores[k, g] <= 0.0:
            break
        value, target = float(tables.values[k]), float(tables.targets[k, g])
        moves.append((value, g, int(tables.counts[k, g]), int(tables.ones[k, g]), target))
        tables.move(sets.move(value, g, target), value, target)
    patches = new_patches(len(moves))
    values, groups, counts, ones, targets = zip(*moves, strict=True) if moves else ((),) * 5
    patches["value"] = patches["forecast"] = values
    patches["level"] = np.rint(patches["value"] * m) if m else -1
    patches["group"], patches["count"], patches["patched"] = groups, counts, targets
    patches["outcome"] = np.array(ones) / np.maximum(patches["count"], 1)
    patches["shift"], mass = patches["patched"] - patches["forecast"], patches["count"] / n_rows
    patches["violation"] = mass * (patches["forecast"] - patches["outcome"]) ** 2
    patches["fall"] = patches["violation"] - mass * (patches["patched"] - patches["outcome"]) ** 2
    return patches, None if aside is None else _curve_of_moves(patches, aside, m)


def _moves(p: Floats, members: Bytes, patches: Any, n_levels: int) -> Iterator[tuple[Floats, Ints, float]]:
    """Yields forecasts before each value patch, the rows it moves and their new value, then the result."""
    forecasts = values_of(p, n_levels) if n_levels else p.copy()
    sets = RowsByValue(forecasts, members)
    for value, group, target in patches[["value", "group", "patched"]].tolist():
        moved = sets.move(value, group, target)
        yield forecasts, moved, target
        forecasts[moved] = target
    yield forecasts, NO_ROWS, 0.0


def _curve_of_moves(patches: Any, aside: EventRows, n_levels: int) -> Floats:
    """Mean squared errors of these rows before and after each patch; the latter are entered in `patches`."""
    changes = []
    for forecasts, moved, target in _moves(aside.p, aside.members, patches, n_levels):
        y = aside.y[moved]
        changes.append(np.sum((target - y) ** 2 - (forecasts[moved] - y) ** 2))
    begun = values_of(aside.p, n_levels) if n_levels else aside.p
    curve = brier_score(begun, aside.y) / len(aside.p) + np.cumsum([0.0, *changes[:-1]]) / len(aside.p)
    patches["validation_error"] = curve[1:]
    return curve


def replay_moves(p: Floats, members: Bytes, patches: Any, n_levels: int) -> Floats:
    """The forecasts p, shape (n,), after a history of value patches; members (n, G)."""
    *_, (forecasts, _, _) = _moves(p, members, patches, n_levels)
    return forecasts


def most_unrounded_patches(p: Floats, squared_error: float, alpha: float) -> int:
    """The smaller of k (e^(B/alpha) - 1) and n B/alpha, for k forecasts, n rows and a squared error of B."""
    n_values = len(np.unique(p))
    by_rows = len(p) * squared_error / alpha
    if squared_error / alpha < math.log1p(by_rows / n_values):
        return math.floor(n_values * math.expm1(squared_error / alpha))
    return math.floor(by_rows)


TARGET_SHARE = 0.75
"""An epoch goes on until no violation exceeds this share of alpha, so that the next one has less to do."""
STEPS_A_ONE = 2.0**40
"""Steps of forecasts are whole multiples of one over this."""
LEAST_FALL = 1e-9
"""An epoch ends when no cell is sure to lower the average log loss of a row by this much."""
EMPTY_CELL = 1e-300
"""The bias of an empty cell, which is 0, is divided by this."""


class StepScale(NamedTuple):
    """The scale to which steps are added, with functions of it.

    Attributes
    ----------
    enter, leave
        Map forecasts to the scale, and back.
    spread
        How fast each forecast rises with a step.
    loss
        The loss of each row, from its value on the scale and its outcome.
    step
        The step of a cell, from its bias and spread. `judge` says how much it is sure to save.
    values
        The values that tell level sets apart, from forecasts and m.
        A history notes levels if it is `values_of` itself.
    on_odds
        Whether the scale is log odds: then all rows of a group are a cell, too.
    least
        How much a step has to save for each row on average.
    """

    enter: Callable[[Floats], Floats]
    leave: Callable[[Floats], Floats]
    spread: Callable[[Floats], Floats]
    loss: Callable[[Floats, Any], Floats]
    step: Callable[[float, float], float]
    values: Callable[[Floats, int], Floats]
    on_odds: bool
    least: float


LEAST_ODD, MOST_ODD = 2.0**-1022, 1.0 - 2.0**-53
"""The least normal double, and the largest below 1. Steps of log odds lead no further, for the log odds of 0
and 1 are infinite, and no step leads back from there."""


def log_odds(p: Floats) -> Floats:
    """ln(p/(1 - p)) of probabilities inside (0, 1), shape (n,)."""
    return np.asarray(np.log(p) - np.log(1.0 - p))


def odds_losses(z: Floats, y: Any) -> Floats:
    """The log loss of each row that has these log odds, shape (n,)."""
    return np.asarray(np.logaddexp(0.0, z) - y * z)


def _clipped(z: Floats) -> Floats:
    return np.clip(z, 0.0, 1.0)


def _of_odds(z: Floats) -> Floats:
    """The probabilities that have these log odds, inside (0, 1)."""
    return np.clip(expit(z), LEAST_ODD, MOST_ODD)


FORECAST_SCALE = StepScale(
    enter=np.array,
    leave=_clipped,
    spread=np.ones_like,
    loss=lambda z, y: (_clipped(z) - y) ** 2,
    step=lambda bias, rows: round(bias / rows * STEPS_A_ONE) / STEPS_A_ONE,
    values=values_of,
    on_odds=False,
    least=0.0,
)
EXACT_SCALE = FORECAST_SCALE._replace(values=lambda p, n_levels: p)
LOG_ODDS_SCALE = StepScale(
    enter=log_odds,
    leave=_of_odds,
    spread=lambda f: f * (1.0 - f),
    loss=odds_losses,
    step=lambda bias, spread: math.copysign(math.log1p(abs(bias) / spread), bias),
    values=values_of,
    on_odds=True,
    least=LEAST_FALL,
)


def fit_steps(
    rows: EventRows, aside: EventRows | None, plan: PatchPlan, scale: StepScale
) -> tuple[Any, Floats | None]:
    """Make patches that add steps; returns them, and the held-out loss before and after each.

    The loss is log loss on log odds, else the squared error.
    """
    parts, n_made = [new_patches(0)], 0
    while n_made < plan.most:
        part = _epoch(rows, plan._replace(most=plan.most - n_made), scale)
        part["epoch"], n_made = len(parts) - 1, n_made + len(part)
        parts.append(part)
        # without an alpha to reach, an epoch ends only when no step saves anything: the next would be empty
        if not len(part) or plan.alpha == 0.0:
            break
        rows = rows._replace(p=_moved(rows.p, rows.members, part, plan.n_levels, scale))
    history = np.concatenate(parts)
    return history, None if aside is None else _curve(history, aside, plan.n_levels, scale)


MASS, BIAS, SPREAD, ONES = range(4)
"""Weighted sums over the rows of a cell: of 1, of outcome - forecast, of the spread, and of the outcome."""


class StepCells:
    """Sums over each cell, which is a level set inside a group, while steps are made; K is their number.

    Attributes
    ----------
    values
        The values that tell the level sets apart, shape (K,).
    tables
        MASS, BIAS, SPREAD and ONES of each cell, shape (4, K + 1, G); the cells in the last place hold all
        rows of a group. They are kept up to date as rows move.
    scores, best
        How much steps are sure to save, shape (K + 1, G), and the largest of each level set, (K + 1,).
    """

    def __init__(self, rows: EventRows, plan: PatchPlan, scale: StepScale) -> None:
        self.scale, self.shrinkage = scale, plan.shrinkage
        values = scale.values(rows.p, plan.n_levels)
        # values are grid points, or with 0 levels the forecasts themselves
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
        """Compute the scores of a level set anew after its rows, or all rows of a group, have moved."""
        judge(self.tables, self.scores, self.best, k, self.shrinkage, self.scale.on_odds)

    @property
    def worst(self) -> float:
        """The largest violation of a group, a sum over rows."""
        mass, bias = self.tables[:2, :-1]
        return float((bias**2 / np.maximum(mass, EMPTY_CELL)).sum(axis=0).max())

    def move(self, k: int, g: int, step: float) -> float:
        """Make a step; returns the sum by which ln(1 + odds) of its rows rises, if steps are of log odds."""
        rows = self.members, self.level, self.weights, self.f
        gained = move_rows(*rows, self.tables, *self.ends[k], g, step, self.scale.on_odds)
        self.judge(k)
        return gained


@compiled
def judge(tables: Floats, scores: Floats, best: Floats, k: int, shrinkage: float, on_odds: bool) -> None:
    """Compute how much a step is sure to save, for the cells of level set k and those of all rows of a group.

    If k is the last place, the cells of all level sets are computed. On forecasts a step saves bias^2 / rows,
    on log odds bias^2 / (2 spread + 2/3 |bias|), where the spread includes the shrinkage.
    """
    everywhere = len(best) - 1
    for i in range(everywhere + 1):
        if i != k and i != everywhere and k != everywhere:
            continue
        best[i] = 0.0
        for g in range(scores.shape[1]):
            bias, spread = tables[BIAS, i, g], max(tables[SPREAD, i, g] + shrinkage, EMPTY_CELL)
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
    """Move rows from `begin` to `end`, if in group g, by a step: their forecasts f, and sums in `tables`."""
    factor, gained, everywhere = math.exp(step), 0.0, tables.shape[1] - 1
    for row in range(begin, end):
        if not members[row, g]:
            continue
        before, after, wider = f[row], f[row] + step, 0.0
        if on_odds:
            larger = 1.0 - before + before * factor
            after = min(max(before * factor / larger, LEAST_ODD), MOST_ODD)
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


def _epoch(rows: EventRows, plan: PatchPlan, scale: StepScale) -> Any:
    """The patches of one epoch, largest sure saving first; none if no group's violation exceeds alpha."""
    cells, total = StepCells(rows, plan, scale), float(rows.weights.sum())
    # value, group, weight of the rows, shift, forecast, outcome, patched, and the fall on log odds
    rows_of_table: list[tuple[float, ...]] = []
    everywhere, limit = len(cells.values), plan.alpha * total
    while len(rows_of_table) < plan.most and not (plan.alpha > 0.0 and cells.worst <= limit):
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
        rows_of_table.append(
            (value, g, mass, step, (ones - bias) / mass, ones / mass, after, step * ones - gained)
        )
    part = new_patches(len(rows_of_table))
    columns = np.array(rows_of_table).reshape(-1, 8).T
    part["value"], part["group"], mass, part["shift"], part["forecast"], part["outcome"], *rest = columns
    part["count"], part["patched"], fall = np.rint(mass), *rest
    # without a grid `scale.values` is another function
    on_grid = ~np.isnan(part["value"]) & (scale.values is values_of)
    part["level"] = np.where(on_grid, np.rint(part["value"] * plan.n_levels), -1)
    part["violation"] = mass / total * (part["forecast"] - part["outcome"]) ** 2
    # on forecasts it is the fall before clipping, which lowers the error more
    part["fall"] = fall / total if scale.on_odds else mass / total * part["shift"] ** 2
    return part


def _epochs(patches: Any) -> Iterator[Any]:
    """The patches of each epoch."""
    ends = np.flatnonzero(np.diff(patches["epoch"])) + 1
    return (part for part in np.split(patches, ends) if len(part))


def _moved(p: Floats, members: Bytes, patches: Any, n_levels: int, scale: StepScale) -> Floats:
    """The forecasts p, shape (n,), after the patches of one epoch."""
    everywhere = np.isnan(patches["value"])
    values, place = np.unique(patches["value"][~everywhere], return_inverse=True)
    # the last row is for level sets without a patch
    table, whole = np.zeros((len(values) + 1, members.shape[1])), np.zeros(members.shape[1])
    np.add.at(table, (place, patches["group"][~everywhere]), patches["shift"][~everywhere])
    np.add.at(whole, patches["group"][everywhere], patches["shift"][everywhere])
    table += whole
    own = scale.values(p, n_levels)
    at = np.searchsorted(values, own)
    at[(at == len(values)) | (np.append(values, np.nan)[at] != own)] = len(values)
    total = np.empty(len(p))
    for some in pieces(members):
        total[some] = (table[at[some]] * members[some]).sum(axis=1)
    return np.where(total != 0.0, scale.leave(scale.enter(p) + total), p)


def replay_steps(p: Floats, members: Bytes, patches: Any, n_levels: int, scale: StepScale) -> Floats:
    """The forecasts p, shape (n,), after a history of steps on this scale; members (n, G)."""
    for part in _epochs(patches):
        p = _moved(p, members, part, n_levels, scale)
    return p


def _curve(patches: Any, aside: EventRows, n_levels: int, scale: StepScale) -> Floats:
    """Mean losses of these rows before and after each patch; the latter are entered in the patches."""
    p, changes, weights = aside.p, [], aside.weights
    first = float(weights @ scale.loss(scale.enter(p), aside.y))
    for part in _epochs(patches):
        z, begun, sets = scale.enter(p), scale.enter(p), RowsByValue(scale.values(p, n_levels), aside.members)
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
    patches["validation_error"] = curve[1:]
    return curve


def most_shifts(alpha: float, n_levels: int) -> int:
    """(m + 1)/(3/4 alpha): every shift saves more than 3/4 alpha/(m + 1) of a squared error of at most 1."""
    return math.floor((n_levels + 1) / (TARGET_SHARE * alpha))
