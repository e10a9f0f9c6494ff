"""Patches: the rows of one level inside one group move together, or all rows of a group do.

A level is all forecasts that round to the same point of a grid, i/m; with m = 0 all forecasts are one level.

Patches that set a value are those of the paper: forecasts are rounded, and a cell's rows take the grid point
nearest to their mean outcome. Their order matters.

Patches that add a step come in epochs. During one every row keeps the level that it had at the epoch's
beginning, so the sets stand still and the steps may be added in any order: nothing but their sum matters.
Then levels are read anew. Steps are added to the forecasts ("shift"), which are then clipped to [0, 1], or to
the log odds, where nothing is clipped. Steps of forecasts are whole multiples of 2^-40, which makes their
sums exact: another order gives the same bits.

The step on log odds is the one of the least log loss that self-concordance proves: with bias g, the sum of
(outcome - forecast), and spread h, the sum of f (1 - f), a step of ln(1 + r), r = |g|/h, lowers the sum of
log losses by at least h ((1 + r) ln(1 + r) - r). A probability stays inside (0, 1), its order inside the cell
stands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from scipy.special import expit

from onlinecal.arrays import Bytes, Floats, Ints, pieces
from onlinecal.compiling import compiled
from onlinecal.measures.groups import grid_level, level_sets
from onlinecal.measures.scores import event_costs

Patch = Literal["log-odds", "value", "shift"]
PATCHES: tuple[Patch, ...] = get_args(Patch)
Start = Literal["auto", "none", "temperature", "platt", "beta", "isotonic"]
STARTS: tuple[Start, ...] = get_args(Start)


class Rows(NamedTuple):
    """Forecasts (n,), outcomes (n,), membership (n, G), and weights (n,), which log-odds patches look at."""

    p: Floats
    y: Any
    members: Bytes
    weights: Floats

    def take(self, some: Any) -> Rows:
        """Some of the rows."""
        return Rows(*(array[some] for array in self))

    def losses(self, patch: Patch) -> Floats:
        """What each row loses, times its weight: the log loss of log-odds patches, else the squared error."""
        if patch == "log-odds":
            return np.asarray(self.weights * event_costs(self.p, self.y))
        return np.asarray(self.weights * (self.p - self.y) ** 2)


class Plan(NamedTuple):
    """What is searched for: patches of levels i/m, so many at most, until no violation exceeds alpha, if any.

    `by_fall`: the cell that saves most gets a value, not the one that is most wrong. `shrinkage` is added to
    a cell's spread. `n_folds` are held out, and `start` is the map that comes first.
    """

    patch: Patch
    n_levels: int
    alpha: float
    by_fall: bool
    shrinkage: float
    n_folds: int
    start: Start
    most: int = 0


NUMBERS = ("forecast", "outcome", "patched", "shift", "violation", "fall", "validation_error")
PATCH = np.dtype(
    [(name, np.int64) for name in ("epoch", "level", "group", "count")]
    + [(name, np.float64) for name in NUMBERS]
)
"""One patch. `count` rows of a level inside a group had mean forecast `forecast` and mean outcome `outcome`;
the patch made the former `patched`, by adding `shift`. `violation` is count/n (forecast - outcome)^2; `fall`
is what the mean squared error lost (under shift patches before clipping, which takes off more);
`validation_error` is the mean squared error of the held-out rows once the patch is made, NaN when none are
held out. All patches that set a value belong to epoch 0.

Of log-odds patches `shift` is what is added to the log odds, the level -1 means all of the group's rows,
`count` is their weight, rounded, and `fall` and `validation_error` are of the mean log loss."""


def find(rows: Rows, plan: Plan) -> Any:
    """The patches that these rows ask for, in order: the history, an array of PATCH."""
    return _find_values(rows, plan) if plan.patch == "value" else _find_steps(rows, plan)


def replay(p: Floats, members: Bytes, made: Any, plan: Plan) -> Floats:
    """The forecasts p, shape (n,), after a history of patches; members (n, G)."""
    if plan.patch == "value":
        *_, level = _levels_by_patch(p, members, made, plan.n_levels)
        return np.asarray(level / plan.n_levels)
    for part in _epochs(made):
        p = _after_epoch(p, members, part, plan)
    return p


def watch(made: Any, aside: Rows, plan: Plan) -> Floats:
    """Mean losses of held-out rows at first and after each patch, were it the last; entered in the history.

    Squared errors, or log losses of log odds.
    """
    if plan.patch == "value":
        stages = _levels_by_patch(aside.p, aside.members, made, plan.n_levels)
        curve = np.array([np.mean((level / plan.n_levels - aside.y) ** 2) for level in stages])
    else:
        curve = _losses_of_steps(made, aside, plan)
    made["validation_error"] = curve[1:]
    return curve


def _history(**columns: Any) -> Any:
    """Patches with these columns."""
    made = np.zeros(len(columns["group"]), PATCH)
    made["validation_error"] = np.nan
    for name, column in columns.items():
        made[name] = column
    return made


def _find_values(rows: Rows, plan: Plan) -> Any:
    """Value patches, the worst cell first, until no group's violation exceeds alpha."""
    m, n = plan.n_levels, len(rows.p)
    level, inside, came = grid_level(rows.p, m), rows.members == 1, rows.y == 1
    levels, place = np.unique(level, return_inverse=True)
    # rows, and outcomes with 1, of each level in each group
    counts, ones = (
        np.array([np.bincount(place[some], minlength=len(levels)) for some in cells.T]).T
        for cells in (inside, inside & came[:, None])
    )

    def judged(k: Any) -> tuple[Ints, Floats, Floats]:
        """Targets, violations and scores of some levels."""
        size, values = np.maximum(counts[k], 1), np.asarray(levels[k])[..., None]
        # halves go up, exactly
        targets = (2 * ones[k] * m + size) // (2 * size)
        scores = violations = (counts[k] * (values / m) - ones[k]) ** 2 / size
        if plan.by_fall:
            scores = violations - (counts[k] * (targets / m) - ones[k]) ** 2 / size
        return targets, violations, np.where((targets == values) | (counts[k] == 0), 0.0, scores)

    targets, violations, scores = judged(slice(None))
    found: list[tuple[int, ...]] = []
    while len(found) < plan.most and violations.sum(axis=0).max() > plan.alpha * n:
        k, g = np.unravel_index(scores.argmax(), scores.shape)
        if scores[k, g] <= 0.0:
            break
        begin, end = int(levels[k]), int(targets[k, g])
        found.append((begin, int(g), int(counts[k, g]), int(ones[k, g]), end))
        rows_there = np.flatnonzero(level == begin)
        moved = rows_there[inside[rows_there, g]]
        level[moved] = end
        if end not in levels:
            levels = np.append(levels, end)
            tables = counts, ones, targets, violations, scores
            counts, ones, targets, violations, scores = (np.vstack([t, np.zeros_like(t[:1])]) for t in tables)
        there = int(np.flatnonzero(levels == end)[0])
        for table, some in ((counts, moved), (ones, moved[came[moved]])):
            change = np.count_nonzero(inside[some], axis=0)
            table[k] -= change
            table[there] += change
        for row in (k, there):
            targets[row], violations[row], scores[row] = judged(row)
    old, group, count, one, new = np.array(found, np.int64).reshape(-1, 5).T
    forecast, outcome, patched = old / m, one / np.maximum(count, 1), new / m
    violation = count / n * (forecast - outcome) ** 2
    return _history(
        level=old,
        group=group,
        count=count,
        forecast=forecast,
        outcome=outcome,
        patched=patched,
        shift=patched - forecast,
        violation=violation,
        fall=violation - count / n * (patched - outcome) ** 2,
    )


def _levels_by_patch(p: Floats, members: Bytes, made: Any, m: int) -> Iterator[Ints]:
    """The levels of forecasts before and after each value patch: one array, which changes."""
    level = grid_level(p, m)
    yield level
    for old, group, patched in made[["level", "group", "patched"]].tolist():
        rows = np.flatnonzero(level == old)
        level[rows[members[rows, group] == 1]] = round(patched * m)
        yield level


TARGET_SHARE = 0.75
"""An epoch goes on until no violation exceeds this share of alpha, so that the next one has less to do."""
UNIT = 2.0**40
LEAST_FALL = 1e-9
"""An epoch ends when no cell is sure to lower the log loss of a row by so much on average."""
TINY = 1e-300
"""What an empty cell is divided by."""


class Scale(NamedTuple):
    """On what steps are added, and what they are worth there.

    `enter` and `leave` lead from forecasts to the scale, and back. `spread` is how much forecasts would rise
    by a small step, `loss` what each row loses, from the scale and outcomes, and `step` what is added, from
    bias and spread of a cell. On log odds all rows of a group are a cell, too. A step has to save `least` of
    each row's loss on average.
    """

    enter: Callable[[Floats], Floats]
    leave: Callable[[Floats], Floats]
    spread: Callable[[Floats], Floats]
    loss: Callable[[Floats, Any], Floats]
    step: Callable[[float, float], float]
    on_odds: bool
    least: float


def log_odds(p: Floats) -> Floats:
    """ln(p/(1 - p)) of probabilities inside (0, 1), shape (n,)."""
    return np.asarray(np.log(p) - np.log(1.0 - p))


def odds_losses(z: Floats, y: Any) -> Floats:
    """The log loss of each row that has these log odds, shape (n,)."""
    return np.asarray(np.logaddexp(0.0, z) - y * z)


SCALES: dict[Patch, Scale] = {
    "shift": Scale(
        enter=np.array,
        leave=lambda z: np.clip(z, 0.0, 1.0),
        spread=np.ones_like,
        loss=lambda z, y: (np.clip(z, 0.0, 1.0) - y) ** 2,
        step=lambda bias, rows: round(bias / rows * UNIT) / UNIT,
        on_odds=False,
        least=0.0,
    ),
    "log-odds": Scale(
        enter=log_odds,
        leave=expit,
        spread=lambda f: f * (1.0 - f),
        loss=odds_losses,
        step=lambda bias, spread: math.copysign(math.log1p(abs(bias) / spread), bias),
        on_odds=True,
        least=LEAST_FALL,
    ),
}


def _find_steps(rows: Rows, plan: Plan) -> Any:
    """Steps, epoch by epoch, until no group's violation exceeds alpha at the beginning of one."""
    parts = [np.zeros(0, PATCH)]
    while (left := plan.most - sum(map(len, parts))) > 0:
        part = _epoch(rows, plan, left)
        part["epoch"] = len(parts) - 1
        parts.append(part)
        # where nothing is to be reached, an epoch ends when nothing more is saved
        if not len(part) or plan.alpha == 0.0:
            break
        rows = rows._replace(p=_after_epoch(rows.p, rows.members, part, plan))
    return np.concatenate(parts)


MASS, BIAS, SPREAD, ONES = range(4)
"""Sums over the rows of a cell, times their weights: of 1, outcome - forecast, spread, and the outcome."""


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
    """Make a step with those of some rows that are in a group: their forecasts f change, and the tables.

    Returns what ln(1 + odds) of its rows gain, where steps are of log odds.
    """
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


def _epoch(rows: Rows, plan: Plan, most: int) -> Any:
    """One epoch, the cell that is sure to save most first; empty when no group's violation exceeds alpha.

    The tables (4, K + 1, G) are of K level sets; their last ones are of all rows of a group. `scores` say
    what steps are sure to save, `best` the largest score of each level set.
    """
    scale, m, total = SCALES[plan.patch], plan.n_levels, float(rows.weights.sum())
    level, order, starts = level_sets(rows.p if m else np.zeros_like(rows.p), m or None)
    p, y, members, weights = rows.take(order)
    level, everywhere = level[order], len(starts) - 1
    ends = [*pairwise(starts.tolist()), (0, len(p))]
    tables = np.zeros((4, everywhere + 1, members.shape[1]))
    scores, best = np.zeros(tables.shape[1:]), np.zeros(everywhere + 1)
    for table, each in zip(tables, (1.0, y - p, scale.spread(p), y), strict=True):
        terms = weights * each
        for g, inside in enumerate(members.T):
            table[:-1, g] = np.add.reduceat(inside * terms, starts[:-1])
    tables[:, -1] = tables[:, :-1].sum(axis=1)
    judge(tables, scores, best, everywhere, plan.shrinkage, scale.on_odds)
    # in an epoch forecasts are not clipped
    f, limit = p.copy(), plan.alpha * total
    found: list[tuple[float, ...]] = []
    while len(found) < most and not (plan.alpha > 0.0 and _worst(tables) <= limit):
        limit = TARGET_SHARE * plan.alpha * total
        k = everywhere if best[-1] >= best.max() else int(best.argmax())
        g = int(scores[k].argmax())
        mass, bias, spread, ones = tables[:, k, g].tolist()
        if scores[k, g] <= scale.least * total:
            break
        if not (step := scale.step(bias, spread + plan.shrinkage)):
            break
        gained = move_rows(members, level, weights, f, tables, *ends[k], g, step, scale.on_odds)
        judge(tables, scores, best, k, plan.shrinkage, scale.on_odds)
        after = (ones - tables[BIAS, k, g]) / mass
        found.append((k, g, mass, step, (ones - bias) / mass, ones / mass, after, step * ones - gained))
    sets, group, count, shift, forecast, outcome, patched, fall = np.array(found).reshape(-1, 8).T
    levels = np.append(grid_level(p[starts[:-1]], m), -1)
    return _history(
        level=levels[sets.astype(np.int64)],
        group=group,
        count=np.rint(count),
        forecast=forecast,
        outcome=outcome,
        patched=patched,
        shift=shift,
        violation=count / total * (forecast - outcome) ** 2,
        # of forecasts before clipping, which takes off more
        fall=fall / total if scale.on_odds else count / total * shift**2,
    )


def _worst(tables: Floats) -> float:
    """The largest violation of a group, a sum over rows."""
    mass, bias = tables[:2, :-1]
    return float((bias**2 / np.maximum(mass, TINY)).sum(axis=0).max())


def _epochs(made: Any) -> Iterator[Any]:
    """The patches of each epoch."""
    ends = np.flatnonzero(np.diff(made["epoch"])) + 1
    return (part for part in np.split(made, ends) if len(part))


def _after_epoch(p: Floats, members: Bytes, made: Any, plan: Plan) -> Floats:
    """The forecasts p, shape (n,), after the steps of one epoch."""
    scale, everywhere = SCALES[plan.patch], made["level"] < 0
    levels, place = np.unique(made["level"][~everywhere], return_inverse=True)
    # the last row is of levels without a patch
    table, whole = np.zeros((len(levels) + 1, members.shape[1])), np.zeros(members.shape[1])
    np.add.at(table, (place, made["group"][~everywhere]), made["shift"][~everywhere])
    np.add.at(whole, made["group"][everywhere], made["shift"][everywhere])
    table += whole
    row_of = np.full(plan.n_levels + 1, len(levels))
    row_of[levels] = np.arange(len(levels))
    at, total = row_of[grid_level(p, plan.n_levels)], np.empty(len(p))
    for some in pieces(members):
        total[some] = (table[at[some]] * members[some]).sum(axis=1)
    return np.where(total != 0.0, scale.leave(scale.enter(p) + total), p)


def _losses_of_steps(made: Any, aside: Rows, plan: Plan) -> Floats:
    """Mean losses of these rows at first and after each step: of each only what changes is computed."""
    scale, weights, p = SCALES[plan.patch], aside.weights, aside.p
    first, changes = float(weights @ scale.loss(scale.enter(p), aside.y)), [0.0]
    for part in _epochs(made):
        z, begun, level = scale.enter(p), scale.enter(p), grid_level(p, plan.n_levels)
        for at, group, shift in part[["level", "group", "shift"]].tolist():
            inside = aside.members[:, group] == 1
            rows = np.flatnonzero(inside if at < 0 else inside & (level == at))
            old, y = z[rows], aside.y[rows]
            z[rows] = old + shift
            changes.append(float(weights[rows] @ (scale.loss(z[rows], y) - scale.loss(old, y))))
        p = np.where(z == begun, p, scale.leave(z))
    return (first + np.cumsum(changes)) / weights.sum()


def most_patches(rows: Rows, plan: Plan) -> int:
    """How many patches there can be at most, for any outcomes; of log odds for those of these rows.

    Every step saves more than 3/4 alpha/(m + 1) of a squared error of at most 1.
    """
    alpha, m = plan.alpha, plan.n_levels
    if plan.patch == "log-odds":
        return _most_log_odds(rows, plan)
    if plan.patch == "shift":
        return math.floor((m + 1) / (TARGET_SHARE * alpha))
    return math.floor((m + 1) / (alpha - 0.25 / m**2) if plan.by_fall else 4.0 / alpha**2)


MOST = 500
"""Log-odds patches that folds look at, and never more than half the rows."""


def _most_log_odds(rows: Rows, plan: Plan) -> int:
    """The worst cell has a violation of at least 3/4 alpha/(m + 1), and saves a share of it."""
    total = float(rows.weights.sum())
    allowed = min(MOST, int(total / 2.0)) if plan.n_folds else math.inf
    if plan.alpha == 0.0:
        return int(allowed)
    least = TARGET_SHARE * plan.alpha / (plan.n_levels + 1)
    spread = 7.0 / 12.0 + plan.shrinkage / (least * total)
    loss = float(rows.losses(plan.patch).sum()) / total
    return int(min(math.floor(2.0 * spread * loss / least), allowed))
