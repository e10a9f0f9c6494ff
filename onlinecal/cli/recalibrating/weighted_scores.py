"""Scores of a table or column of probabilities under any weights of its rows, for the bootstrap.

Every score is a function of weights of shape (n, B), a column per resample, and answers with shape (B,). A
column of ones makes what the public measures say. Calibration errors are made of sums over cells of rows (a
bin, a level set and class, a group and level): a sparse matrix times the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from onlinecal.measures.decision.losses import loss_norms, row_losses
from onlinecal.measures.fixed_order import product
from onlinecal.measures.groups.multicalibration import grid_level
from onlinecal.measures.lp.level_sets import number_level_sets
from onlinecal.measures.scores import BINS, log_costs

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Score = Callable[[Floats], Floats]

RESAMPLES, FEW_RESAMPLES = 200, 100
LARGE = 20_000_000
"""Of larger tables (n k) fewer resamples are drawn."""
AT_ONCE = 16_000_000
"""So many numbers a block of resamples may take."""
SOME_LOSSES = 10
"""Losses whose decisions are made at once."""
GROUP_LEVELS = 10


def average(values: Floats) -> Score:
    """The mean of values, shape (n,)."""

    def score(weights: Floats) -> Floats:
        return product(values[None], weights)[0] / weights.sum(axis=0)

    return score


def summed(cells: Ints, values: Floats, rows: Ints, n_cells: int, n_rows: int) -> csr_array:
    """The matrix (n_cells, n) that sums entries, each of a row, by cell; all of shape (entries,)."""
    return csr_array((values, (cells, rows)), shape=(n_cells, n_rows))


def absolute_bias(cells: Ints, residuals: Floats, rows: Ints, n_cells: int, n_rows: int) -> Score:
    """The sum over cells of |mean residual|, entries of shape (entries,)."""
    sums = summed(cells, residuals, rows, n_cells, n_rows)

    def score(weights: Floats) -> Floats:
        found: Floats = np.abs(sums @ weights).sum(axis=0) / weights.sum(axis=0)
        return found

    return score


def binned_error(forecasts: Floats, outcomes: NDArray[np.bool_] | NDArray[np.uint8]) -> Score:
    """The expected calibration error of one event in equal bins, of `expected_calibration_error`."""
    n = len(forecasts)
    return absolute_bias(_bin(forecasts), forecasts - outcomes.astype(np.float64), np.arange(n), BINS, n)


def classwise_error(table: Floats, labels: Ints) -> Score:
    """`classwise_calibration_error` in equal bins, divided by the number of classes."""
    n, k = table.shape
    cells = (_bin(np.minimum(table, 1.0)) + BINS * np.arange(k)).ravel()
    return absolute_bias(cells, _residuals(table, labels).ravel() / k, np.arange(n).repeat(k), BINS * k, n)


def lp_error(table: Floats, labels: Ints, p: float, n_levels: int) -> Score:
    """`lp_calibration_error`."""
    n, k = table.shape
    numbers, first = number_level_sets(table, n_levels)
    cells = (numbers[:, None] * k + np.arange(k)).ravel()
    sums = summed(cells, _residuals(table, labels).ravel(), np.arange(n).repeat(k), len(first) * k, n)

    def score(weights: Floats) -> Floats:
        errors = np.abs(sums @ weights) / weights.sum(axis=0)
        if np.isinf(p):
            return np.asarray(errors.max(axis=0))
        powers = errors * errors if p == 2 else errors**p
        return np.asarray(powers.sum(axis=0) ** (1.0 / p))

    return score


def decision_gap(table: Floats, labels: Ints, losses: Floats) -> Score:
    """The mean over losses of `decision_loss_gap`."""
    gaps = np.empty((len(losses), len(table)))
    for start in range(0, len(losses), SOME_LOSSES):
        some = slice(start, start + SOME_LOSSES)
        _, predicted, true = row_losses(table, labels, losses[some])
        gaps[some] = (predicted - true) / loss_norms(losses[some])[:, None]

    def score(weights: Floats) -> Floats:
        return np.abs(product(gaps, weights)).mean(axis=0) / weights.sum(axis=0)

    return score


def worst_group(forecasts: Floats, outcomes: NDArray[np.bool_] | NDArray[np.uint8], members: Bools) -> Score:
    """The largest violation of any group, `multicalibration_error`; members (n, G), ten level sets."""
    rows, groups = np.nonzero(members)
    cells = groups * (GROUP_LEVELS + 1) + grid_level(forecasts, GROUP_LEVELS)[rows]
    shape = members.shape[1] * (GROUP_LEVELS + 1), len(forecasts)
    biases = summed(cells, (forecasts - outcomes.astype(np.float64))[rows], rows, *shape)
    counts = summed(cells, np.ones(len(rows)), rows, *shape)

    def score(weights: Floats) -> Floats:
        bias, count = biases @ weights, counts @ weights
        squares = np.divide(bias**2, count, out=np.zeros_like(bias), where=count > 0.0)
        by_group = squares.reshape(members.shape[1], GROUP_LEVELS + 1, -1).sum(axis=1)
        return np.asarray(by_group.max(axis=0) / weights.sum(axis=0))

    return score


def class_scores_of(table: Floats, labels: Ints, p: float, n_levels: int, losses: Floats) -> dict[str, Score]:
    """The scores of probabilities (n, k) and labels (n,), by the names they have in the table."""
    rows = np.arange(len(labels))
    top = table.argmax(axis=1)
    order = "∞" if np.isinf(p) else f"{p:g}"
    return {
        "log loss": average(log_costs(table[rows, labels])),
        "Brier": average((_residuals(table, labels) ** 2).sum(axis=1)),
        "accuracy": average((top == labels).astype(np.float64)),
        "classwise ECE": classwise_error(table, labels),
        "top-label ECE": binned_error(*confidences(table, labels)),
        f"Err_{order}": lp_error(table, labels, p, n_levels),
        "decision gap": decision_gap(table, labels, losses),
    }


def event_scores_of(forecasts: Floats, outcomes: NDArray[np.uint8], losses: Floats) -> dict[str, Score]:
    """The scores of forecasts (n,) of one event and outcomes (n,), by the names they have in the table."""
    return {
        "log loss": average(log_costs(np.where(outcomes == 1, forecasts, 1.0 - forecasts))),
        "Brier": average((forecasts - outcomes) ** 2),
        "ECE": binned_error(forecasts, outcomes),
        "decision gap": decision_gap(
            np.column_stack([1.0 - forecasts, forecasts]), outcomes.astype(np.int64), losses
        ),
    }


def confidences(table: Floats, labels: Ints) -> tuple[Floats, Bools]:
    """The largest probability of each row, and whether its class, of several the first, came true."""
    top = table.argmax(axis=1)
    return np.minimum(table[np.arange(len(table)), top], 1.0), top == labels


def resamples(n_rows: int, together: Ints | None, width: int, seed: int) -> Iterator[Floats]:
    """Blocks (n, B) of weights: first ones, then how often each row is drawn, with all of its number.

    `together` has the number of what each row belongs to; None: every row is drawn by itself. `width` is
    how many numbers a row has, which says how many resamples fit into a block, and how many there are.
    """
    yield np.ones((n_rows, 1))
    units = np.arange(n_rows) if together is None else np.unique(together, return_inverse=True)[1]
    n_units = int(units.max()) + 1
    rng = np.random.default_rng([seed, 17])
    left = n_resamples(n_rows, width)
    while left:
        size = min(left, max(1, AT_ONCE // (n_rows * width)))
        drawn = [np.bincount(rng.integers(0, n_units, n_units), minlength=n_units) for _ in range(size)]
        yield np.column_stack(drawn)[units].astype(np.float64)
        left -= size


def n_resamples(n_rows: int, width: int) -> int:
    """How many resamples there are."""
    return RESAMPLES if n_rows * width <= LARGE else FEW_RESAMPLES


def _bin(forecasts: Floats) -> Ints:
    return np.searchsorted(np.arange(BINS) / BINS, forecasts, side="right") - 1


def _residuals(table: Floats, labels: Ints) -> Floats:
    errors = table.copy()
    errors[np.arange(len(labels)), labels] -= 1.0
    return errors
