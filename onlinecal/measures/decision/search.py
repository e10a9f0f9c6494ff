"""The partition of the simplex on which class probabilities are most wrong on average, searched for.

f(b) = sum over actions a of || average of (p - Y) b_a(p) ||_2 is a convex function of b. Soft partitions are
averages of hard ones: softmax(s)_a is the chance that a has the largest s_a + g_a, with independent Gumbel
noise g, and on the simplex, where coordinates sum to 1, <w_a, q> + g_a is again linear in q. Hence hard and
soft partitions have the same supremum, and some hard rounding of a soft partition is at least as good.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from onlinecal.arrays import Floats
from onlinecal.compiling import compiled
from onlinecal.measures.decision.climbing import Objective, climb
from onlinecal.measures.decision.losses import MOST_ROWS, improve_rows
from onlinecal.measures.decision.partitions import Partition, cut_intervals, error_of
from onlinecal.measures.fixed_order import (
    BLOCK,
    add_inner,
    by_columns,
    fill_product,
    lengths,
    product,
    soften,
)

SCALES = (5.0, 20.0, 2.0)
"""Sizes of the first weights, in turn: from blurred to sharp partitions."""

N_STARTS = 9
MAX_ITERATIONS = 60
N_ROUNDINGS = 4
MAX_SWEEPS = 20
N_DIRECTIONS = 8


class Found(NamedTuple):
    """A partition and its error."""

    error: float
    partition: Partition


def soft_error(weights: Floats, table: Floats, residual: Floats) -> tuple[float, Floats]:
    """f of the soft partition with these weights, and its gradient; weights (K, C), gradient (K, C).

    With R_a the average of (p - Y) b_a, u_a = R_a / |R_a| and m_a = <p - Y, u_a> the derivative for the score
    of a in a row is b_a (m_a - sum of b m) / n.
    """
    return soft_errors(table, residual)(weights)


def soft_errors(table: Floats, residual: Floats) -> Objective:
    """`soft_error` of these rows, prepared for many weights."""
    rows, errors = np.ascontiguousarray(table), np.ascontiguousarray(residual)
    columns, error_columns = by_columns(table), by_columns(residual)

    def objective(weights: Floats) -> tuple[float, Floats]:
        slope = np.zeros_like(weights)
        return _fill_slope(weights, rows, columns, errors, error_columns, slope), slope

    return objective


@compiled
def _fill_slope(
    weights: Floats, rows: Floats, columns: Floats, errors: Floats, error_columns: Floats, slope: Floats
) -> float:
    """f; its gradient is added to `slope`. Block by block, twice: first the R_a, then the slopes."""
    n = rows.shape[0]
    n_actions, n_classes = weights.shape
    members = np.empty((n_actions, n))
    biases = np.zeros((n_actions, n_classes))
    for start in range(0, n, BLOCK):
        stop = min(n, start + BLOCK)
        part = members[:, start:stop]
        fill_product(weights, columns[:, start:stop], part)
        soften(part)
        add_inner(part, errors[start:stop], biases)
    value = 0.0
    for a in range(n_actions):
        square = 0.0
        for c in range(n_classes):
            biases[a, c] /= n
            square += biases[a, c] * biases[a, c]
        value += math.sqrt(square)
        for c in range(n_classes):
            biases[a, c] /= max(math.sqrt(square), 1e-300) * n
    pulls = np.empty((n_actions, BLOCK))
    for start in range(0, n, BLOCK):
        stop = min(n, start + BLOCK)
        pull = pulls[:, : stop - start]
        fill_product(biases, error_columns[:, start:stop], pull)
        for r in range(stop - start):
            mean = 0.0
            for a in range(n_actions):
                mean += members[a, start + r] * pull[a, r]
            for a in range(n_actions):
                pull[a, r] = members[a, start + r] * (pull[a, r] - mean)
        add_inner(pull, rows[start:stop], slope)
    return value


def search(
    table: Floats,
    residual: Floats,
    n_actions: int,
    hard: bool,
    rng: np.random.Generator,
    n_starts: int = N_STARTS,
    max_iterations: int = MAX_ITERATIONS,
) -> Found:
    """The worst partition found, a lower bound on the supremum; one region is all there is for one action.

    Climbs start from random weights. The highest end is the worst soft partition. For the worst hard one,
    which is found exactly for two classes, each end is rounded: as it is, and with Gumbel noise on its
    scores. From each end's best rounding a local search goes on, one action's weights at a time along a
    direction, exactly; in tables of a dozen rows another one, one or two rows at a time.
    """
    shape = n_actions, table.shape[1]
    if n_actions == 1:
        whole = Partition(np.zeros(shape), hard)
        return Found(error_of(whole(table), residual), whole)
    if hard and table.shape[1] == 2:
        return Found(*cut_intervals(table, residual, n_actions))
    objective = soft_errors(table, residual)
    starts = (SCALES[start % len(SCALES)] * rng.standard_normal(shape) for start in range(n_starts))
    ends = [climb(objective, weights, max_iterations) for weights in starts]
    ends.sort(key=lambda end: -end[0])
    if not hard:
        return Found(ends[0][0], Partition(ends[0][1], hard=False))
    best = Found(-1.0, Partition(np.zeros(shape), hard=True))
    for _, weights in ends:
        noise = rng.gumbel(size=(N_ROUNDINGS, n_actions, 1))
        rounded = [weights, *(weights + shift for shift in noise)]
        errors = [error_of(Partition(candidate, hard=True)(table), residual) for candidate in rounded]
        first = int(np.argmax(errors))
        found = improve(table, residual, rounded[first], errors[first], rng)
        if len(table) <= MOST_ROWS:
            error, separating = improve_rows(table, residual, found.partition.weights)
            found = Found(error, Partition(separating, hard=True))
        best = max(best, found, key=lambda found: found.error)
    return best


def improve(
    table: Floats, residual: Floats, weights: Floats, error: float, rng: np.random.Generator
) -> Found:
    """Local search from a hard partition: the best shift of one action's weights, while any helps."""
    weights = weights.copy()
    n_actions, n_classes = weights.shape
    columns = by_columns(table)
    for _ in range(MAX_SWEEPS):
        before = error
        for action in range(n_actions):
            for direction in _directions(n_classes, rng):
                gained, shift = best_shift(columns, residual, weights, action, direction)
                if gained > error * (1.0 + 1e-12):
                    moved = weights.copy()
                    moved[action] += shift * direction
                    # the rows on the boundary decide whether rounding kept what was promised
                    truth = error_of(Partition(moved, hard=True).members(columns).T, residual)
                    if truth > error:
                        weights, error = moved, truth
        if error <= before * (1.0 + 1e-9):
            break
    return Found(error, Partition(weights, hard=True))


def _directions(n_classes: int, rng: np.random.Generator) -> list[Floats]:
    """An offset, single classes and random directions."""
    classes = rng.permutation(n_classes)[:N_DIRECTIONS]
    return [np.ones(n_classes), *np.eye(n_classes)[classes], *rng.standard_normal((N_DIRECTIONS, n_classes))]


def best_shift(
    columns: Floats, residual: Floats, weights: Floats, action: int, direction: Floats
) -> tuple[float, float]:
    """The best error over all t when t times a direction is added to one action's weights, and that t.

    The table is given by columns, (C, n), what it is wrong by as rows, (n, C).

    A row belongs to the action for t above (slope > 0) or below (slope < 0) one threshold; the error is
    evaluated between each two thresholds by cumulative sums.
    """
    n = len(residual)
    *scores, slopes = product(np.concatenate([weights, direction[None]]), columns)
    scores_of_action = scores[action]
    scores[action] = np.full(n, -np.inf)
    rivals = np.argmax(scores, axis=0)
    lead = np.max(scores, axis=0) - scores_of_action
    moving = np.abs(slopes) > 1e-12
    inside = np.where(moving, slopes < 0.0, lead < 0.0)
    thresholds = lead[moving] / slopes[moving]
    order = np.argsort(thresholds, kind="stable")
    thresholds = thresholds[order]
    if not len(thresholds):
        return -1.0, 0.0
    entering = np.where(slopes[moving] > 0.0, 1.0, -1.0)[order, None] * residual[moving][order]
    came_from = rivals[moving][order]
    total = lengths(_path(residual[inside].sum(axis=0), entering))
    for rival in range(len(weights)):
        if rival != action:
            start = residual[~inside & (rivals == rival)].sum(axis=0)
            total += lengths(_path(start, -entering * (came_from == rival)[:, None]))
    gaps = np.diff(thresholds)
    # no t separates equal thresholds
    total[1:-1][gaps <= 1e-12 * (1.0 + np.abs(thresholds[1:]))] = -1.0
    place = int(np.argmax(total))
    return float(total[place] / n), _between(thresholds, place)


def _path(start: Floats, steps: Floats) -> Floats:
    """The start and what it becomes after each step."""
    return np.cumsum(np.concatenate([start[None], steps]), axis=0)


def _between(thresholds: Floats, place: int) -> float:
    if place == 0:
        return float(thresholds[0] - 1.0)
    if place == len(thresholds):
        return float(thresholds[-1] + 1.0)
    return float((thresholds[place - 1] + thresholds[place]) / 2.0)
