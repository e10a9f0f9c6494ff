"""Patches of log odds, compiled: what other patches do row by row is done here for ten million rows.

The step on log odds is the one of the least log loss that self-concordance proves: with bias g, the sum of
(outcome - forecast), and spread h, the sum of f (1 - f), a step of ln(1 + r), r = |g|/h, lowers the sum of
log losses by at least h ((1 + r) ln(1 + r) - r). A probability stays inside (0, 1), its order inside the cell
stands, nothing is clipped.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Bytes, Floats, Ints
from onlinecal.compiling import compiled, kernel_part
from onlinecal.measures.groups import grid_level
from onlinecal.recalibration.groups.patches import (
    LOG_ODDS,
    TARGET_SHARE,
    Rows,
    Search,
    curve_of_steps,
    new_patches,
)


def fit_log_odds(rows: Rows, aside: Rows | None, search: Search) -> tuple[Any, Floats | None]:
    """Log-odds patches, like `fit_moves`; held-out errors are log losses. Forecasts lie inside (0, 1)."""
    m, parts, made, total = search.n_levels, [new_patches(0)], 0, float(rows.weights.sum())
    rows = by_level(rows, m)
    # of epochs there is one where nothing is to be reached: its end is that nothing more is saved
    while made < search.most and (search.alpha > 0.0 or made == 0):
        odds, level = rows.p / (1.0 - rows.p), grid_level(rows.p, m)
        table = rows.y, rows.weights, rows.members
        asked = search.alpha, search.shrinkage, search.most - made
        found = fit_log_odds_epoch(odds, *table, level, m, *asked)
        if len(found) == 0:
            break
        part = new_patches(len(found))
        part["epoch"], made = len(parts) - 1, made + len(found)
        level, part["group"], part["shift"], weight, part["forecast"], part["outcome"], *rest = found.T
        part["level"] = np.where(level > m, -1, level)
        part["value"] = np.where(level > m, np.nan, level / max(m, 1))
        part["count"], part["patched"], part["fall"] = np.rint(weight), rest[0], rest[1] / total
        part["violation"] = weight / total * (part["forecast"] - part["outcome"]) ** 2
        parts.append(part)
        rows = by_level(rows._replace(p=odds / (1.0 + odds)), m)
    history = np.concatenate(parts)
    return history, None if aside is None else curve_of_steps(history, aside, m, LOG_ODDS)


def by_level(rows: Rows, n_levels: int) -> Rows:
    """The rows sorted by level, as copies: a patch then reads memory in order, where its time goes."""
    # numbers of 16 bits are sorted by counting
    level = grid_level(rows.p, n_levels).astype(np.uint16 if n_levels < 1 << 16 else np.int64)
    return rows.take(np.argsort(level, kind="stable"))


Places = NDArray[np.int32]

MASS, BIAS, SPREAD, ONES = range(4)
"""Sums over the rows of a cell, times their weights: of 1, outcome - forecast, f (1 - f), and the outcome."""

LEAST_FALL = 1e-9
"""An epoch ends when no cell is sure to lower the log loss of a row by so much on average."""


@kernel_part
def _score(i: int, tables: Floats, shrinkage: float, scores: Floats) -> int:
    """The least that each group's patch at a level saves, g^2/(2 (h + |g|/3)); the best group."""
    best = 0
    for g in range(tables.shape[2]):
        scores[i, g] = 0.0
        if tables[MASS, i, g] > 0.0:
            size = abs(tables[BIAS, i, g])
            scores[i, g] = size * size / (2.0 * (tables[SPREAD, i, g] + shrinkage + size / 3.0))
        if scores[i, g] > scores[i, best]:
            best = g
    return best


@kernel_part
def _worst_violation(tables: Floats) -> float:
    """The largest violation of a group, a sum over rows; without the last level, which is all of them."""
    worst = 0.0
    for g in range(tables.shape[2]):
        total = 0.0
        for i in range(tables.shape[1] - 1):
            if tables[MASS, i, g] > 0.0:
                total += tables[BIAS, i, g] ** 2 / tables[MASS, i, g]
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
    for cell in range(n_groups * size):
        free[cell] = cells[cell]
        cells[cell + 1] += cells[cell]
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
    tables: Floats,
) -> float:
    """Add the step to the log odds of a cell's own rows; the weighted sum of what ln(1 + odds) gains."""
    factor, gained, everywhere = math.exp(step), 0.0, tables.shape[1] - 1
    for row in own:
        old = odds[row]
        odds[row] = old * factor
        gained += weights[row] * math.log((1.0 + odds[row]) / (1.0 + old))
        f = odds[row] / (1.0 + odds[row])
        change = weights[row] * (f - old / (1.0 + old))
        wider = weights[row] * (f / (1.0 + odds[row]) - old / (1.0 + old) / (1.0 + old))
        for j in range(ends[row], ends[row + 1]):
            for i in (level[row], everywhere):
                tables[BIAS, i, groups[j]] -= change
                tables[SPREAD, i, groups[j]] += wider
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
) -> Floats:
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
    Of each patch level and group, step, weight, mean forecast and mean outcome before it, mean forecast after
    it, and what the log loss of the rows lost, a sum; shape (P, 8).

    """
    everywhere, total = n_levels + 1, 0.0
    for weight in weights:
        total += weight
    tables = np.zeros((4, everywhere + 1, members.shape[1]))
    _tabulate(odds, y, weights, members, level, tables)
    rows, cells, groups, ends = _list_members(members, level, n_levels)
    scores, best = np.zeros(tables.shape[1:]), np.empty(everywhere + 1, np.int64)
    for k in range(everywhere + 1):
        best[k] = _score(k, tables, shrinkage, scores)
    found, limit = [(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)], alpha * total
    while len(found) <= most:
        if alpha > 0.0 and _worst_violation(tables) <= limit:
            break
        limit = TARGET_SHARE * alpha * total
        i = everywhere
        for k in range(everywhere):
            if scores[k, best[k]] > scores[i, best[i]]:
                i = k
        g = best[i]
        if scores[i, g] <= LEAST_FALL * total:
            break
        bias, weight, ones = tables[BIAS, i, g], tables[MASS, i, g], tables[ONES, i, g]
        step = math.log(1.0 + abs(bias) / (tables[SPREAD, i, g] + shrinkage))
        step = step if bias > 0.0 else -step
        first, last = g * everywhere, (g + 1) * everywhere
        if i < everywhere:
            first, last = first + i, first + i + 1
        own = rows[cells[first] : cells[last]]
        fall = step * ones - _move(step, own, odds, weights, level, groups, ends, tables)
        after = (ones - tables[BIAS, i, g]) / weight
        found.append((float(i), float(g), step, weight, (ones - bias) / weight, ones / weight, after, fall))
        for k in range(everywhere + 1):
            if i == everywhere or k in (i, everywhere):
                best[k] = _score(k, tables, shrinkage, scores)
    patches = np.empty((len(found) - 1, 8))
    for k in range(1, len(found)):
        for column in range(8):
            patches[k - 1, column] = found[k][column]
    return patches
