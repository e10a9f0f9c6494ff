"""The costs of decisions by class probabilities, and partitions of the simplex into regions of actions.

All averages are over rows.

Nothing here has a state, and no argument is changed but the arrays that kernels are given to fill. Of actions
with equal losses the first is taken, everywhere. Sums run in fixed orders, which are part of the answers;
only `separate` asks a solver of scipy, and what it answers may differ between versions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import compiled, kernel_part
from onlinecal.measures.fixed_order import (
    BLOCK_COLUMNS,
    by_columns,
    fill_product,
    inner,
    lengths,
    product,
    soften,
)
from onlinecal.tables.columns import check_labelled_rows, check_probability_rows, refuse
from onlinecal.tables.frames import as_array
from onlinecal.validation import check_count, check_open_unit


@dataclass(frozen=True, eq=False)
class Partition:
    """A partition b of the simplex into K regions, by linear scores.

    Attributes
    ----------
    weights
        One row of scores' weights per action, shape (K, C). Minus a loss table gives its Bayes decisions.
    hard
        True: b_a(q) = 1 for the action with the largest score (of equals the first) and 0 for the others.
        False: the softmax of the scores.
    """

    weights: Floats
    hard: bool

    @property
    def n_actions(self) -> int:
        """K."""
        return len(self.weights)

    def __call__(self, table: Floats) -> Floats:
        """b_a(q) for each row q of a table (n, C): shape (n, K), rows with sum 1."""
        return self.members(by_columns(table)).T

    def members(self, columns: Floats) -> Floats:
        """The same by columns: from a table (C, n) to memberships (K, n)."""
        scores = product(self.weights, columns)
        if not self.hard:
            soften(scores)
            return scores
        members = np.zeros_like(scores)
        members[scores.argmax(axis=0), np.arange(scores.shape[1])] = 1.0
        return members


def residuals(table: Floats, labels: Ints) -> Floats:
    """p - Y with Y the corner of the label, shape (n, C)."""
    difference = table.copy()
    difference[np.arange(len(table)), labels] -= 1.0
    return difference


def error_of(members: Floats, residual: Floats) -> float:
    """The sum over actions of the l2 norm of the average of (p - Y) b_a(p)."""
    return float(lengths(inner(members.T, residual)).sum() / len(residual))


def cut_intervals(table: Floats, residual: Floats, n_actions: int) -> tuple[float, Partition]:
    """The exact largest error of K regions when there are two classes, and a hard partition that has it.

    Regions are then intervals of the second class's probability, and any K neighbouring intervals are the
    regions of K lines. With S the prefix sums of p - Y in that order the error is sqrt(2) times the sum of
    |S(end) - S(start)|, so the best last cut follows from the best previous one: O(n K) after sorting.
    """
    values, place = np.unique(table[:, 1], return_inverse=True)
    sums = np.concatenate([[0.0], np.cumsum(np.bincount(place, residual[:, 1]))])
    n = len(values)
    best = np.abs(sums - sums[0])
    chosen: list[Ints] = []
    for _ in range(min(n_actions, n) - 1):
        rising, falling = _first_maxima(best - sums), _first_maxima(best + sums)
        up, down = (best - sums)[rising] + sums, (best + sums)[falling] - sums
        chosen.append(np.where(up >= down, rising, falling))
        best = np.maximum(up, down)
    cuts, end = [], n
    for places in reversed(chosen):
        end = int(places[end])
        if 0 < end < n:
            cuts.append((values[end - 1] + values[end]) / 2.0)
    thresholds = np.unique(cuts)
    return float(np.sqrt(2.0) * best[n] / len(table)), _intervals(thresholds, n_actions)


def _first_maxima(values: Floats) -> Ints:
    """For each place the first place, up to it, of the largest value so far."""
    peaks = np.maximum.accumulate(values)
    new = np.concatenate([[True], peaks[1:] > peaks[:-1]])
    return np.maximum.accumulate(np.where(new, np.arange(len(values)), 0))


def _intervals(thresholds: Floats, n_actions: int) -> Partition:
    """Lines over the second class's probability whose upper envelope changes at the thresholds."""
    slopes = np.arange(len(thresholds) + 1.0)
    drops = np.concatenate([[0.0], np.cumsum(thresholds)])
    weights = np.zeros((n_actions, 2))
    # actions that are not needed lie below all others
    weights[:] = -2.0 * n_actions
    weights[: len(slopes)] = np.column_stack([-drops, slopes - drops])
    return Partition(weights, hard=True)


class DecisionLosses(NamedTuple):
    """What decisions cost on average over rows, by each loss table, in the unit of its losses.

    Each row's action is the one with the least expected loss by its probabilities. `predicted` is the
    expected loss by the probabilities, `true` the loss with the labels that came; both are arrays of
    shape (n_losses,).
    """

    predicted: Floats
    true: Floats


def bayes_decisions(probabilities: ArrayLike, losses: ArrayLike) -> Ints:
    """For each row of probabilities the action with the least expected loss, of equals the first.

    Parameters
    ----------
    probabilities
        Class probabilities, shape (n, C), every row with sum 1.
    losses
        The loss of action a when the class is c, at [a, c] of a table (K, C); or several tables,
        shape (n_losses, K, C).

    Returns
    -------
    ndarray
        Action numbers 0..K-1, whole numbers, shape (n_losses, n); (n,) if `losses` is a table (K, C).

    Raises
    ------
    ValueError
        Bad probabilities, or losses that are not finite or of another shape.
    """
    table = check_probability_rows(probabilities)
    tables = check_losses(losses, table.shape[1])
    decisions, _ = _cheapest(table, tables)
    return decisions[0] if np.ndim(losses) == 2 else decisions


def decision_losses(probabilities: ArrayLike, labels: ArrayLike, losses: ArrayLike) -> DecisionLosses:
    """What decisions cost on average: as the probabilities predict, and with the labels that came.

    Each row's action is the one with the least expected loss by its probabilities, of equals the first.

    Parameters
    ----------
    probabilities, labels
        Class probabilities, shape (n, C), every row with sum 1, and the classes that came, shape (n,),
        0..C-1.
    losses
        The loss of action a when the class is c, at [loss, a, c]: shape (n_losses, K, C), or one table (K,
        C).

    Returns
    -------
    DecisionLosses
        `predicted` and `true`, each of shape (n_losses,); averages over rows, in the losses' own unit.

    Raises
    ------
    ValueError
        Bad probabilities, labels or losses.
    """
    table, numbers = check_labelled_rows(probabilities, labels)
    tables = check_losses(losses, table.shape[1])
    return mean_losses(table, numbers, tables, np.ones(len(table)))


def mean_losses(table: Floats, labels: Ints, tables: Floats, counts: Floats) -> DecisionLosses:
    """The same for checked rows with weights `counts`, (n,), and tables (n_losses, K, C)."""
    predicted, true = np.zeros(len(tables)), np.zeros(len(tables))
    _add_losses(by_columns(table), labels, counts, np.ascontiguousarray(tables), predicted, true)
    rows = float(counts.sum())
    return DecisionLosses(predicted / rows, true / rows)


def row_losses(table: Floats, labels: Ints, tables: Floats) -> tuple[Ints, Floats, Floats]:
    """For each loss and row the decision, its expected loss and the loss that came, each (n_losses, n)."""
    decisions, least = _cheapest(table, tables)
    which = np.arange(len(decisions))[:, None]
    return decisions, least, tables[which, decisions, labels[None, :]]


def check_losses(losses: ArrayLike, n_classes: int | None, name: str = "losses") -> Floats:
    """Loss tables of shape (n_losses, K, C), finite, as float64; one table (K, C) becomes (1, K, C).

    Without `n_classes`, while it is not known, C may be any number.
    """
    try:
        tables = as_array(losses, name, "tables", "of equal lengths").astype(np.float64)
    except (TypeError, ValueError) as error:
        # the dimension of a ragged list is an error of numpy
        is_table = hasattr(losses, "values") and np.ndim(losses) == 0
        why = f"of a {type(losses).__name__} give the `values`" if is_table else error
        raise ValueError(f"{name} must be numbers of shape (n_losses, actions, classes): {why}") from error
    if tables.ndim == 2:
        tables = tables[None]
    if tables.ndim != 3 or tables.size == 0:
        raise ValueError(
            f"{name} must be a table of shape (actions, classes), or several of shape (n_losses, actions, "
            f"classes), none of them empty, got shape {np.shape(losses)}"
        )
    if n_classes is not None and tables.shape[2] != n_classes:
        raise ValueError(f"{name} must have a column for each of {n_classes} classes, got {tables.shape[2]}")
    refuse(~np.isfinite(tables), tables, f"{name} must be finite", axes=("loss", "action", "class"))
    return tables


def loss_norms(losses: ArrayLike) -> Floats:
    """max_a ||l(., a)||_2 of each loss table, shape (n_losses,)."""
    tables: NDArray[np.float64] = np.asarray(losses, dtype=np.float64)
    return np.atleast_1d(lengths(tables).max(axis=-1))


def _cheapest(table: Floats, tables: Floats) -> tuple[Ints, Floats]:
    """The action with the least expected loss, and that loss, for each table and row: (n_losses, n)."""
    shape = len(tables), len(table)
    decisions, least = np.empty(shape, dtype=np.int64), np.empty(shape)
    _fill_cheapest(by_columns(table), np.ascontiguousarray(tables), decisions, least)
    return decisions, least


@kernel_part
def lowest(scores: Floats, column: int) -> int:
    """The row with the least entry of a column, of equals the first."""
    best = 0
    for a in range(1, scores.shape[0]):
        if scores[a, column] < scores[best, column]:
            best = a
    return best


@compiled
def _fill_cheapest(columns: Floats, tables: Floats, decisions: Ints, least: Floats) -> None:
    n = columns.shape[1]
    expected = np.empty((tables.shape[1], BLOCK_COLUMNS))
    for start in range(0, n, BLOCK_COLUMNS):
        stop = min(n, start + BLOCK_COLUMNS)
        part = columns[:, start:stop]
        for i in range(tables.shape[0]):
            scores = expected[:, : stop - start]
            fill_product(tables[i], part, scores)
            for r in range(stop - start):
                best = lowest(scores, r)
                decisions[i, start + r] = best
                least[i, start + r] = scores[best, r]


@compiled
def _add_losses(
    columns: Floats, labels: Ints, counts: Floats, tables: Floats, predicted: Floats, true: Floats
) -> None:
    """Sums over rows of the losses of the cheapest actions, as predicted and as they came."""
    expected = np.empty((tables.shape[1], BLOCK_COLUMNS))
    for start in range(0, columns.shape[1], BLOCK_COLUMNS):
        stop = min(columns.shape[1], start + BLOCK_COLUMNS)
        part = columns[:, start:stop]
        scores = expected[:, : stop - start]
        for i in range(tables.shape[0]):
            fill_product(tables[i], part, scores)
            least, came = 0.0, 0.0
            for r in range(stop - start):
                best = lowest(scores, r)
                least += counts[start + r] * scores[best, r]
                came += counts[start + r] * tables[i, best, labels[start + r]]
            predicted[i] += least
            true[i] += came


def confidence_width(
    n_rows: int,
    n_actions: int,
    n_classes: int,
    delta: float = 0.05,
    n_losses: int | None = None,
) -> float:
    """How far an error of decisions, measured on n rows, can be from the true one, but for a small chance.

    The true one is that of the distribution that the n rows are drawn from, independently. The width is an
    average over rows, as errors are, and at most sqrt(2), the largest error. It holds with probability 1 -
    delta for a forecaster that was not fitted to these rows.

    For all losses with K actions, `decision_calibration_error`: each of the K regions is an intersection of K
    half-spaces, of dimension at most d = 2 K (C + 1) log2(3K), so its bias is off by at most sqrt(C) (2
    sqrt(2 (ln 2 + d ln(e n / d)) / n) + sqrt(2 ln(C / delta) / n)) in l2, and the width is K times that
    (Theorem 2.1 of Zhao et al. with its constants). For a list of losses, `decision_loss_gap`: by Hoeffding's
    inequality sqrt(4 ln(2 n_losses / delta) / n), for all gaps at once.

    Parameters
    ----------
    n_rows, n_actions, n_classes
        n, K and C, whole numbers from 1.
    delta
        How often the width may fail, between 0 and 1.
    n_losses
        None: all losses with K actions. Else how many loss tables there are, for the gap of each one.

    Raises
    ------
    ValueError
        A number out of range.
    """
    n = check_count(n_rows, "n_rows")
    check_count(n_actions, "n_actions")
    check_count(n_classes, "n_classes")
    check_open_unit(delta, "delta")
    if n_losses is not None:
        count = check_count(n_losses, "n_losses")
        return min(math.sqrt(2.0), math.sqrt(4.0 * math.log(2.0 * count / delta) / n))
    dimension = 2.0 * n_actions * (n_classes + 1) * math.log2(3.0 * n_actions)
    patterns = dimension * math.log(math.e * n / dimension) if n > dimension else n * math.log(2.0)
    complexity = math.sqrt(2.0 * (math.log(2.0) + patterns) / n)
    chance = math.sqrt(2.0 * math.log(n_classes / delta) / n)
    return min(math.sqrt(2.0), n_actions * math.sqrt(n_classes) * (2.0 * complexity + chance))


MOST_ROWS_IMPROVED = 12
"""Tables with more rows are not improved row by row: there are (n K)^2 / 2 changes of two rows."""


def separate(table: Floats, actions: Ints, n_actions: int) -> Floats | None:
    """Weights (K, C) with which every row's action has the largest score, by 1; None if there are none."""
    # it is imported only here, since it takes longer to load than all the rest
    from scipy.optimize import linprog

    n_classes = table.shape[1]
    rows, others = np.nonzero(np.arange(n_actions) != actions[:, None])
    constraints = np.zeros((len(rows), n_actions, n_classes))
    which = np.arange(len(rows))
    constraints[which, others] = table[rows]
    constraints[which, actions[rows]] = -table[rows]
    end = linprog(
        np.zeros(n_actions * n_classes),
        A_ub=constraints.reshape(len(rows), -1),
        b_ub=np.full(len(rows), -1.0),
        bounds=(None, None),
    )
    return end.x.reshape(n_actions, n_classes) if end.status == 0 else None


def improve_rows(table: Floats, residual: Floats, weights: Floats) -> tuple[float, Floats]:
    """Take the best possible change of one or two rows' actions, as long as one raises the error.

    Moving scores along a line cannot reach a partition that differs in rows on two sides. So this search
    changes the assignment of rows to actions, and a linear program says whether linear scores can make it.
    """
    values, place = np.unique(table, axis=0, return_inverse=True)
    sums = np.zeros_like(values)
    np.add.at(sums, place.ravel(), residual)
    n_actions = len(weights)
    start = Partition(weights, hard=True)
    error = error_of(start(table), residual)
    actions = start(values).argmax(axis=1)
    changes = _changes(len(values), n_actions)
    while True:
        tried = np.repeat(actions[None], len(changes), axis=0)
        which = np.arange(len(changes))
        for row in (0, 1):
            tried[which, changes[:, 2 * row]] = changes[:, 2 * row + 1]
        members = tried[:, None, :] == np.arange(n_actions)[:, None]
        # row after row, so that the order of the sum is fixed
        biases = np.zeros((len(changes), n_actions, table.shape[1]))
        for row, total in enumerate(sums):
            biases += members[:, :, row, None] * total
        errors = lengths(biases).sum(axis=1) / len(table)
        for best in np.argsort(-errors, kind="stable"):
            if errors[best] <= error * (1.0 + 1e-12):
                return error, weights
            separating = separate(values, tried[best], n_actions)
            if separating is not None:
                error, weights, actions = float(errors[best]), separating, tried[best]
                break
        else:
            return error, weights


def _changes(n: int, n_actions: int) -> Ints:
    """All (row, action, row, action) with different rows; changes of one row are among them."""
    pairs, both = combinations(range(n), 2), list(np.ndindex(n_actions, n_actions))
    changes = [(row, action, other, other_action) for row, other in pairs for action, other_action in both]
    return np.array(changes, np.int64).reshape(-1, 4)
