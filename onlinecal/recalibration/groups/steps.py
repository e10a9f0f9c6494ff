"""Patches that add a step, to the log odds or to the forecasts: the epochs in which they come.

During an epoch every row keeps the level set that it had at the epoch's beginning, so the sets stand still
and the steps may be added in any order: nothing but their sum matters. Then level sets are read anew. Steps
are added to the forecasts, which are then clipped to [0, 1], or to the log odds, where nothing is clipped.
Steps of forecasts are whole multiples of 2^-40, which makes their sums exact: another order gives the same
bits.

The step on log odds is the one of the least log loss that self-concordance proves: with bias g, the sum of
(outcome - forecast), and spread h, the sum of f (1 - f), a step of ln(1 + r), r = |g|/h, lowers the sum of
log losses by at least h ((1 + r) ln(1 + r) - r). A probability stays inside (0, 1), its order inside the cell
stands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from onlinecal.arrays import Bytes, Floats, Ints, pieces
from onlinecal.compiling import compiled
from onlinecal.measures.groups import level_sets
from onlinecal.recalibration.groups.patches import LevelSets, Plan, Rows, new_patches, values_of

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
    step, score
        From bias and spread of a cell, the step and what it is sure to save.
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
    score: Callable[[Floats, Floats], Floats]
    values: Callable[[Floats, int], Floats]
    on_odds: bool
    least: float


def log_odds(p: Floats) -> Floats:
    """ln(p/(1 - p)) of probabilities inside (0, 1), shape (n,)."""
    return np.asarray(np.log(p) - np.log(1.0 - p))


def _clipped(z: Floats) -> Floats:
    return np.clip(z, 0.0, 1.0)


FORECASTS = Scale(
    enter=np.array,
    leave=_clipped,
    spread=np.ones_like,
    loss=lambda z, y: (_clipped(z) - y) ** 2,
    step=lambda bias, rows: round(bias / rows * UNIT) / UNIT,
    score=lambda bias, rows: bias**2 / rows,
    values=values_of,
    on_odds=False,
    least=0.0,
)
EXACT = FORECASTS._replace(values=lambda p, n_levels: p)
LOG_ODDS = Scale(
    enter=log_odds,
    leave=expit,
    spread=lambda f: f * (1.0 - f),
    loss=lambda z, y: np.logaddexp(0.0, z) - y * z,
    step=lambda bias, spread: math.copysign(math.log1p(abs(bias) / spread), bias),
    score=lambda bias, spread: bias**2 / (2.0 * (spread + np.abs(bias) / 3.0)),
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
        self.judge(slice(None))

    def judge(self, k: Any) -> None:
        """Bring the scores of some level sets up to date."""
        _, bias, spread, _ = self.tables[:, k]
        self.scores[k] = self.scale.score(bias, np.maximum(spread + self.shrinkage, TINY))
        self.scores[-1] *= self.scale.on_odds
        self.best[k] = self.scores[k].max(axis=1)

    @property
    def worst(self) -> float:
        """The largest violation of a group, a sum over rows."""
        mass, bias = self.tables[:2, :-1]
        return float((bias**2 / np.maximum(mass, TINY)).sum(axis=0).max())

    def move(self, k: int, g: int, step: float) -> float:
        """Make a step; what ln(1 + odds) of its rows gain, where steps are of log odds."""
        rows = self.members, self.level, self.weights, self.f
        gained = move_rows(*rows, self.tables, *self.ends[k], g, step, self.scale.on_odds)
        self.judge(slice(None) if k == len(self.values) else [k, -1])
        return gained


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
