"""Decision calibration: do class probabilities tell decision makers what their decisions will cost?

f(b) = sum over actions a of || average of (p - Y) b_a(p) ||_2 is a convex function of b. Soft partitions are
averages of hard ones: softmax(s)_a is the chance that a has the largest s_a + g_a, with independent Gumbel
noise g, and on the simplex, where coordinates sum to 1, <w_a, q> + g_a is again linear in q. Hence hard and
soft partitions have the same supremum, and some hard rounding of a soft partition is at least as good.

In "predicted" losses Y is distributed as p says, in "true" losses it is the label. All averages are over
rows.

Nothing here has a state. A search draws random partitions: equal seeds give equal answers, so the order of
draws may not change. What it finds is always a proven lower end of the supremum, since it is the error of one
partition. `DecisionRecalibrator` corrects by what `search` finds, so the constants of search and climb, and
the order of all sums, are part of what it fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from onlinecal.arrays import Bools, Floats, Ints
from onlinecal.compiling import compiled, uncounted
from onlinecal.measures.decision.losses import (
    MOST_ROWS_IMPROVED,
    Partition,
    check_losses,
    cut_intervals,
    decision_losses,
    error_of,
    improve_rows,
    loss_norms,
    residuals,
)
from onlinecal.measures.fixed_order import (
    BLOCK_COLUMNS,
    add_inner,
    by_columns,
    dot,
    fill_product,
    inner,
    product,
    soften,
)
from onlinecal.tables.columns import check_labelled_rows
from onlinecal.validation import check_choice, check_count, seed_sequence

Objective = Callable[[Floats], tuple[float, Floats]]
"""From a point to its value and gradient, an array of the point's shape."""

MOVES_KEPT = 10
"""The last moves, from which L-BFGS estimates the inverse Hessian."""
SUFFICIENT_GAIN = 1e-4
"""A step must bring at least this share of the first order gain (Armijo)."""
SLOPE_LEFT = 0.9
"""After a step the slope along it may be at most this share of what it was (Wolfe)."""
MOST_TRIALS = 20
"""Step lengths that are tried in one line search."""
LEAST_RELATIVE_GAIN = 1e7 * 2.0**-52
"""The climb ends when the relative gain is smaller; scipy's default."""
LEAST_SLOPE = 1e-5
"""The climb ends when no entry of the gradient is larger; scipy's default."""


def climb(objective: Objective, start: Floats, max_iterations: int) -> tuple[float, Floats]:
    """A local maximum, or the point where the iterations ended: its value and the point.

    This is L-BFGS. scipy's L-BFGS-B calls BLAS and LAPACK, whose last bits differ between machines. If there
    are several peaks, a difference of one bit can make a search end on another peak.

    References
    ----------
    Nocedal and Wright, "Numerical Optimization" (2006), algorithm 7.4; step lengths by bisection until both
    of Wolfe's conditions hold, Lewis and Overton (2013), algorithm 2.6.
    """
    point = start
    value, slope = objective(point)
    # the newest last
    moves, changes = np.empty((2, MOVES_KEPT, start.size))
    inverses = np.empty(MOVES_KEPT)
    kept = 0
    for _ in range(max_iterations):
        if np.abs(slope).max() <= LEAST_SLOPE:
            break
        direction = slope.copy()
        _turn(direction.ravel(), moves, changes, inverses, kept)
        rise = _dot(slope, direction)
        first = 1.0 if kept else 1.0 / math.sqrt(_dot(slope, slope))
        step, higher, ahead = _line(objective, point, value, direction, rise, first)
        if not higher > value:
            break
        moved = step * direction
        change = slope - ahead
        curvature = _dot(moved, change)
        if curvature > 2.0**-52 * _dot(change, change):
            if kept == MOVES_KEPT:
                for newest in (moves, changes, inverses):
                    newest[:-1] = newest[1:]
            else:
                kept += 1
            moves[kept - 1], changes[kept - 1] = moved.ravel(), change.ravel()
            inverses[kept - 1] = 1.0 / curvature
        gain = (higher - value) / max(abs(higher), abs(value), 1.0)
        point, value, slope = point + moved, higher, ahead
        if gain <= LEAST_RELATIVE_GAIN:
            break
    return value, point


def _dot(first: Floats, second: Floats) -> float:
    return dot(first.ravel(), second.ravel())


@compiled
def _turn(direction: Floats, moves: Floats, changes: Floats, inverses: Floats, kept: int) -> None:
    """Multiply by an estimate of the inverse Hessian, in place, by two loops over the last moves."""
    weights = np.empty(kept)
    for i in range(kept - 1, -1, -1):
        weights[i] = inverses[i] * dot(moves[i], direction)
        _add(-weights[i], changes[i], direction)
    if kept:
        _divide(direction, inverses[kept - 1] * dot(changes[kept - 1], changes[kept - 1]))
    for i in range(kept):
        _add(weights[i] - inverses[i] * dot(changes[i], direction), moves[i], direction)


@uncounted
def _divide(total: Floats, size: float) -> None:
    """Divide all numbers of the total, (n,), by the same."""
    for j in range(len(total)):
        total[j] /= size


@uncounted
def _add(factor: float, terms: Floats, total: Floats) -> None:
    """Add so many times the terms to the total, (n,) each."""
    for j in range(len(total)):
        total[j] += factor * terms[j]


def _line(
    objective: Objective, point: Floats, value: float, direction: Floats, rise: float, step: float
) -> tuple[float, float, Floats]:
    """A step length that meets both of Wolfe's conditions, and the value and the gradient there."""
    low, high = 0.0, math.inf
    best = (0.0, value, direction)
    for _ in range(MOST_TRIALS):
        reached, slope = objective(point + step * direction)
        if reached > best[1]:
            best = (step, reached, slope)
        if reached < value + SUFFICIENT_GAIN * step * rise:
            high = step
        elif _dot(slope, direction) > SLOPE_LEFT * rise:
            low = step
        else:
            return step, reached, slope
        step = (low + high) / 2.0 if high < math.inf else 2.0 * low
    return best


SCALES = (5.0, 20.0, 2.0)
"""Sizes of the first weights, used in turn: small ones make blurred partitions, large ones sharp
partitions."""

N_STARTS = 9
MAX_ITERATIONS = 60
N_ROUNDINGS = 4
MAX_SWEEPS = 20
N_DIRECTIONS = 8


class WorstPartition(NamedTuple):
    """A partition and its error."""

    error: float
    partition: Partition


def soft_errors(table: Floats, residual: Floats) -> Objective:
    """From weights (K, C) to f of their soft partition of these rows, and its gradient, (K, C).

    With R_a the average of (p - Y) b_a, u_a = R_a / |R_a| and m_a = <p - Y, u_a> the derivative for the score
    of a in a row is b_a (m_a - sum of b m) / n.
    """
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
    """The value f; its gradient is added to `slope`. One pass over blocks sums R_a, another the slopes."""
    n = rows.shape[0]
    n_actions, n_classes = weights.shape
    members = np.empty((n_actions, n))
    biases = np.zeros((n_actions, n_classes))
    for start in range(0, n, BLOCK_COLUMNS):
        stop = min(n, start + BLOCK_COLUMNS)
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
    pulls = np.empty((n_actions, BLOCK_COLUMNS))
    for start in range(0, n, BLOCK_COLUMNS):
        stop = min(n, start + BLOCK_COLUMNS)
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
) -> WorstPartition:
    """The worst partition that a search finds; its error is a lower bound on the supremum.

    Climbs start from random weights. The highest end is the worst soft partition. For two classes the worst
    hard partition is found exactly. Otherwise each end is rounded, as it is and with Gumbel noise on its
    scores. A local search starts from the best rounding of each end: it moves the weights of one action along
    a direction, to the exact optimum. In tables of a dozen rows another one follows, which moves one or two
    rows at a time.
    """
    shape = n_actions, table.shape[1]
    if n_actions == 1:
        whole = Partition(np.zeros(shape), hard)
        return WorstPartition(error_of(whole(table), residual), whole)
    if hard and table.shape[1] == 2:
        return WorstPartition(*cut_intervals(table, residual, n_actions))
    objective = soft_errors(table, residual)
    starts = (SCALES[start % len(SCALES)] * rng.standard_normal(shape) for start in range(n_starts))
    ends = [climb(objective, weights, max_iterations) for weights in starts]
    ends.sort(key=lambda end: -end[0])
    if not hard:
        return WorstPartition(ends[0][0], Partition(ends[0][1], hard=False))
    best = WorstPartition(-1.0, Partition(np.zeros(shape), hard=True))
    for _, weights in ends:
        noise = rng.gumbel(size=(N_ROUNDINGS, n_actions, 1))
        rounded = [weights, *(weights + shift for shift in noise)]
        errors = [error_of(Partition(candidate, hard=True)(table), residual) for candidate in rounded]
        first = int(np.argmax(errors))
        improved = improve(table, residual, rounded[first], errors[first], rng)
        if len(table) <= MOST_ROWS_IMPROVED:
            error, separating = improve_rows(table, residual, improved.partition.weights)
            improved = WorstPartition(error, Partition(separating, hard=True))
        best = max(best, improved, key=lambda candidate: candidate.error)
    return best


def improve(
    table: Floats, residual: Floats, weights: Floats, error: float, rng: np.random.Generator
) -> WorstPartition:
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
                    # rounding may put rows on the boundary on the other side, so the error is computed anew
                    truth = error_of(Partition(moved, hard=True).members(columns).T, residual)
                    if truth > error:
                        weights, error = moved, truth
        if error <= before * (1.0 + 1e-9):
            break
    return WorstPartition(error, Partition(weights, hard=True))


def _directions(n_classes: int, rng: np.random.Generator) -> list[Floats]:
    """An offset, single classes and random directions."""
    classes = rng.permutation(n_classes)[:N_DIRECTIONS]
    return [np.ones(n_classes), *np.eye(n_classes)[classes], *rng.standard_normal((N_DIRECTIONS, n_classes))]


def best_shift(
    columns: Floats, residual: Floats, weights: Floats, action: int, direction: Floats
) -> tuple[float, float]:
    """The largest error over all t when t times a direction is added to one action's weights, and that t.

    The table is given by columns, (C, n), the residuals p - Y by rows, (n, C). A row belongs to the action
    for t above (slope > 0) or below (slope < 0) one threshold. Running sums give the error between any two
    neighbouring thresholds.
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
    total = np.empty(len(thresholds) + 1)
    rows, crossing = np.ascontiguousarray(residual), np.flatnonzero(moving)[order]
    _fill_errors(rows, rivals, inside, slopes, crossing, len(weights), action, total)
    gaps = np.diff(thresholds)
    # no t separates equal thresholds
    total[1:-1][gaps <= 1e-12 * (1.0 + np.abs(thresholds[1:]))] = -1.0
    place = int(np.argmax(total))
    return float(total[place] / n), _between(thresholds, place)


@compiled
def _fill_errors(
    residual: Floats,
    rivals: Ints,
    inside: Bools,
    slopes: Floats,
    crossing: Ints,
    n_actions: int,
    action: int,
    out: Floats,
) -> None:
    """Fill in n times the error before the rows of `crossing` change their action, and after each of them."""
    biases = np.zeros((n_actions, residual.shape[1]))
    for r in range(residual.shape[0]):
        _add(1.0, residual[r], biases[action if inside[r] else rivals[r]])
    sizes = np.empty(n_actions)
    for a in range(n_actions):
        sizes[a] = math.sqrt(dot(biases[a], biases[a]))
    for place in range(len(out)):
        if place:
            r = crossing[place - 1]
            entering = 1.0 if slopes[r] > 0.0 else -1.0
            _add(entering, residual[r], biases[action])
            _add(-entering, residual[r], biases[rivals[r]])
            for a in (action, rivals[r]):
                sizes[a] = math.sqrt(dot(biases[a], biases[a]))
        total = sizes[action]
        for a in range(n_actions):
            if a != action:
                total += sizes[a]
        out[place] = total


def _between(thresholds: Floats, place: int) -> float:
    if place == 0:
        return float(thresholds[0] - 1.0)
    if place == len(thresholds):
        return float(thresholds[-1] + 1.0)
    return float((thresholds[place - 1] + thresholds[place]) / 2.0)


PartitionKind = Literal["soft", "hard"]
PARTITIONS: tuple[PartitionKind, ...] = get_args(PartitionKind)


def decision_loss_gap(probabilities: ArrayLike, labels: ArrayLike, losses: ArrayLike) -> Floats:
    """How far the loss that decision makers expect is from the one they get, relative to the table's size.

    By each loss table the action for a row is the one with the least expected loss by its probabilities, of
    equals the first. The gap is |average expected loss - average loss with the labels|, divided by the
    largest l2 norm over classes of an action's losses.

    Parameters
    ----------
    probabilities
        Class probabilities, shape (n, C).
    labels
        Class numbers 0..C-1, shape (n,).
    losses
        Loss of action a when the class is c, at [loss, a, c]: shape (n_losses, K, C); one table (K, C) counts
        as n_losses = 1.

    Returns
    -------
    ndarray
        Shape (n_losses,): one gap for each table; 0 for a table of zeros. They are at most the exact
        `decision_calibration_error` with K actions, and so at most sqrt(2).

    Raises
    ------
    ValueError
        Bad probabilities, labels or losses; the message names the argument and the value.

    References
    ----------
    Zhao, Kim, Sahoo, Ma & Ermon, "Calibrating Predictions to Decisions" (2021), equation (10).

    Examples
    --------
    Treating costs 0.2, leaving a sick patient untreated 1; the model says 10 % sick, and 40 % are:

    >>> treat = [[0.2, 0.2], [0.0, 1.0]]
    >>> decision_loss_gap([[0.9, 0.1]] * 5, [1, 1, 0, 0, 0], treat).round(3)
    array([0.3])
    """
    return loss_gaps(*decision_losses(probabilities, labels, losses), losses)


def loss_gaps(predicted: Floats, true: Floats, losses: ArrayLike) -> Floats:
    """|predicted - true| of each loss table, divided by its norm, shape (n_losses,)."""
    norms = loss_norms(losses)
    return np.abs(predicted - true) / np.where(norms > 0.0, norms, 1.0)


def loss_set_gaps(probabilities: ArrayLike, labels: ArrayLike, losses: ArrayLike) -> Floats:
    """How far expected loss is from true loss, by every table of a list and every table's decisions.

    In entry [i, j] each row's action is the one with the least expected loss by table i, and costs what table
    j says: it is |average expected loss - average loss with the labels|, divided by the largest l2 norm over
    classes of an action's losses in table j. The diagonal is `decision_loss_gap`. The largest entry is the
    list's decision calibration error (Definition 4 of Zhao, Kim, Sahoo, Ma & Ermon, 2021).

    Parameters
    ----------
    probabilities, labels
        Class probabilities, shape (n, C), and class numbers 0..C-1, shape (n,).
    losses
        Loss of action a when the class is c, at [loss, a, c]: shape (n_losses, K, C), or one table (K, C).

    Returns
    -------
    ndarray
        Shape (n_losses, n_losses), in averages over rows; 0 in the column of a table of zeros.

    Raises
    ------
    ValueError
        Bad probabilities, labels or losses.
    """
    table, numbers = check_labelled_rows(probabilities, labels)
    tables = check_losses(losses, table.shape[1])
    norms = loss_norms(tables)
    residual = residuals(table, numbers)
    gaps = np.empty((len(tables), len(tables)))
    for row, loss in enumerate(tables):
        biases = inner(Partition(-loss, hard=True)(table).T, residual) / len(table)
        gaps[row] = np.abs((biases * tables).sum(axis=(1, 2)))
    return gaps / np.where(norms > 0.0, norms, 1.0)


def decision_calibration_error(
    probabilities: ArrayLike,
    labels: ArrayLike,
    n_actions: int,
    *,
    partition: PartitionKind = "soft",
    random_state: int = 0,
) -> float:
    """The largest gap between expected and true loss that a decision maker with K actions can have.

    A decision maker takes for each row the action with the least expected loss; gaps are relative to the size
    of the loss, as those of `decision_loss_gap`.

    It is the largest, over partitions of all probabilities into K regions by linear scores, of the sum over
    regions of the l2 norm, over classes, of the average over all rows of (probability - label), rows outside
    of the region counting 0. The loss and the decisions may here belong to two different tables with K
    actions, the worst pair.

    Parameters
    ----------
    probabilities
        Class probabilities, shape (n, C).
    labels
        Class numbers 0..C-1, shape (n,).
    n_actions
        K, at least 1; with 1 action it is the l2 norm of the mean error.
    partition
        How the largest is searched for with more than two classes. "soft": the softmax of the scores says how
        much of a row is in each region, and gradients are climbed from several starts. "hard": a row is in
        the region with the largest score; what the climbs found is rounded and improved, which takes longer
        and finds more. Both have the same true largest value.
    random_state
        Seed of the starts, a whole number from 0 on, or a sequence of these; the same one gives the same
        answer. With two classes nothing is drawn.

    Returns
    -------
    float
        An average over rows, from 0 to sqrt(2). It is exact for two classes. For more it is the largest that
        was found, so that the true one may be larger.

    Raises
    ------
    ValueError
        Bad probabilities, labels or parameters.

    References
    ----------
    Zhao, Kim, Sahoo, Ma & Ermon, "Calibrating Predictions to Decisions" (2021), Propositions 2 and 3.

    Examples
    --------
    >>> half = [[0.5, 0.5]] * 4
    >>> decision_calibration_error(half, [0, 1, 0, 1], n_actions=2)
    0.0
    >>> round(decision_calibration_error(half, [1, 1, 1, 1], n_actions=2), 4)  # 0.5 times sqrt(2)
    0.7071
    """
    table, numbers = check_labelled_rows(probabilities, labels)
    n_actions = check_count(n_actions, "n_actions")
    check_choice(partition, PARTITIONS, "partition")
    seed = seed_sequence(random_state, name="random_state")
    residual = residuals(table, numbers)
    if table.shape[1] == 2:
        return cut_intervals(table, residual, n_actions)[0]
    return search(table, residual, n_actions, partition == "hard", np.random.default_rng(seed)).error
