"""What decisions by class probabilities cost: as predicted, and with the labels that came.

Averages over rows throughout.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import compiled
from onlinecal.measures.fixed_order import BLOCK, by_columns, fill_product, lengths
from onlinecal.validation import check_labels, check_probability_rows, check_same_length


class DecisionLosses(NamedTuple):
    """Average losses of Bayes decisions, `predicted` and `true`, one entry per loss table."""

    predicted: Floats
    true: Floats


def bayes_decisions(probabilities: ArrayLike, losses: ArrayLike) -> Ints:
    """The action with the least expected loss, of equals the first.

    Parameters
    ----------
    probabilities
        Shape (n, C).
    losses
        Loss of each action and class: one table (K, C) or several, (n_losses, K, C).

    Returns
    -------
    ndarray
        Action numbers, shape (n_losses, n); (n,) for a single table.

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
    """What Bayes decisions cost on average: as the probabilities predict, and with the labels that came.

    Parameters
    ----------
    probabilities, labels
        Shapes (n, C) and (n,), labels 0..C-1.
    losses
        Shape (n_losses, K, C), or one table (K, C).

    Returns
    -------
    DecisionLosses
        `predicted` and `true`, each of shape (n_losses,); averages over rows, in the losses' own unit.

    Raises
    ------
    ValueError
        Bad probabilities, labels or losses.
    """
    table, numbers = check_table(probabilities, labels)
    tables = check_losses(losses, table.shape[1])
    return mean_losses(table, numbers, tables, np.ones(len(table)))


def mean_losses(table: Floats, labels: Ints, tables: Floats, counts: Floats) -> DecisionLosses:
    """The same of checked rows that count so often, (n,), and tables (n_losses, K, C)."""
    predicted, true = np.zeros(len(tables)), np.zeros(len(tables))
    _add_losses(by_columns(table), labels, counts, np.ascontiguousarray(tables), predicted, true)
    rows = float(counts.sum())
    return DecisionLosses(predicted / rows, true / rows)


def row_losses(table: Floats, labels: Ints, tables: Floats) -> tuple[Ints, Floats, Floats]:
    """Of each loss and row the decision, its expected loss and the loss that came, each (n_losses, n)."""
    decisions, least = _cheapest(table, tables)
    which = np.arange(len(decisions))[:, None]
    return decisions, least, tables[which, decisions, labels[None, :]]


def check_table(probabilities: ArrayLike, labels: ArrayLike) -> tuple[Floats, Ints]:
    """Probabilities (n, C) and labels (n,) that belong together."""
    table = check_probability_rows(probabilities)
    numbers = check_labels(labels, table.shape[1])
    check_same_length(table, numbers, "probabilities and labels")
    return table, numbers


def check_losses(losses: ArrayLike, n_classes: int, name: str = "losses") -> Floats:
    """Loss tables of shape (n_losses, K, C), finite, as float64; one table (K, C) becomes (1, K, C)."""
    try:
        tables = np.asarray(losses, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers of shape (n_losses, actions, classes): {error}") from error
    if tables.ndim == 2:
        tables = tables[None]
    if tables.ndim != 3 or tables.size == 0:
        raise ValueError(f"{name} must have shape (n_losses, actions, classes), got {np.shape(losses)}")
    if tables.shape[2] != n_classes:
        raise ValueError(f"{name} must have {n_classes} classes, got {tables.shape[2]}")
    bad = ~np.isfinite(tables)
    if bad.any():
        i, a, c = (int(place) for place in np.argwhere(bad)[0])
        raise ValueError(f"{name} must be finite, got {tables[i, a, c]!r} at loss {i}, action {a}, class {c}")
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


@compiled
def _fill_cheapest(columns: Floats, tables: Floats, decisions: Ints, least: Floats) -> None:
    n = columns.shape[1]
    expected = np.empty((tables.shape[1], BLOCK))
    for start in range(0, n, BLOCK):
        stop = min(n, start + BLOCK)
        part = columns[:, start:stop]
        for i in range(tables.shape[0]):
            scores = expected[:, : stop - start]
            fill_product(tables[i], part, scores)
            for r in range(stop - start):
                best = 0
                for a in range(1, scores.shape[0]):
                    if scores[a, r] < scores[best, r]:
                        best = a
                decisions[i, start + r] = best
                least[i, start + r] = scores[best, r]


@compiled
def _add_losses(
    columns: Floats, labels: Ints, counts: Floats, tables: Floats, predicted: Floats, true: Floats
) -> None:
    """Sums over rows of the losses of the cheapest actions, as predicted and as they came; block by block."""
    expected = np.empty((tables.shape[1], BLOCK))
    for start in range(0, columns.shape[1], BLOCK):
        stop = min(columns.shape[1], start + BLOCK)
        part = columns[:, start:stop]
        scores = expected[:, : stop - start]
        for i in range(tables.shape[0]):
            fill_product(tables[i], part, scores)
            least, came = 0.0, 0.0
            for r in range(stop - start):
                best = 0
                for a in range(1, scores.shape[0]):
                    if scores[a, r] < scores[best, r]:
                        best = a
                least += counts[start + r] * scores[best, r]
                came += counts[start + r] * tables[i, best, labels[start + r]]
            predicted[i] += least
            true[i] += came
