"""Decision calibration: do class probabilities tell decision makers what their decisions will cost?

Y has the predicted distribution p in "predicted" and is the label in "true"; averages over rows throughout.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinecal.compiling import compiled
from onlinecal.measures.decision.partitions import Ints, Partition, cut_intervals, residuals
from onlinecal.measures.decision.search import N_STARTS, Found, search
from onlinecal.measures.fixed_order import BLOCK, Floats, by_columns, fill_product, inner, lengths
from onlinecal.validation import (
    check_choice,
    check_count,
    check_labels,
    check_probability_rows,
    check_same_length,
)

PartitionKind = Literal["soft", "hard"]
PARTITIONS: tuple[PartitionKind, ...] = get_args(PartitionKind)
_CHUNK = 4_000_000


class DecisionLosses(NamedTuple):
    """Average losses of Bayes decisions, one entry per loss table."""

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
    predicted, true = np.empty(len(tables)), np.empty(len(tables))
    for part in _parts(tables, len(table)):
        decisions, least = _cheapest(table, tables[part])
        predicted[part] = least.mean(axis=1)
        which = np.arange(len(decisions))[:, None]
        true[part] = tables[part][which, decisions, numbers[None, :]].mean(axis=1)
    return DecisionLosses(predicted, true)


def decision_loss_gap(probabilities: ArrayLike, labels: ArrayLike, losses: ArrayLike) -> Floats:
    """How far the loss that Bayes decision makers expect is from the loss they get, relative to the loss.

    |E l(predicted Y, d(p)) - E l(Y, d(p))| / max_a ||l(., a)||_2 for each loss table l, d its Bayes decision.

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
        Shape (n_losses,): averages over rows; 0 for a table of zeros. At most `decision_calibration_error`
        with K actions.

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
    predicted, true = decision_losses(probabilities, labels, losses)
    norms = loss_norms(losses)
    return np.abs(predicted - true) / np.where(norms > 0.0, norms, 1.0)


def loss_set_gaps(probabilities: ArrayLike, labels: ArrayLike, losses: ArrayLike) -> Floats:
    """Gaps of every loss of a list under every decision rule of the list: Definition 4, exactly.

    Entry [i, j] is the gap of loss j when decisions are the Bayes decisions of loss i, divided by
    max_a ||l_j(., a)||_2; the diagonal is `decision_loss_gap`. The largest entry is the list's decision
    calibration error.

    Parameters
    ----------
    probabilities, labels, losses
        As for `decision_loss_gap`.

    Returns
    -------
    ndarray
        Shape (n_losses, n_losses), averages over rows.

    Raises
    ------
    ValueError
        Bad probabilities, labels or losses.
    """
    table, numbers = check_table(probabilities, labels)
    tables = check_losses(losses, table.shape[1])
    norms = loss_norms(tables)
    residual = residuals(table, numbers)
    gaps = np.empty((len(tables), len(tables)))
    for row, loss in enumerate(tables):
        biases = inner(Partition(-loss, hard=True)(table).T, residual) / len(table)
        gaps[row] = np.abs((biases * tables).sum(axis=(1, 2)))
    return gaps / np.where(norms > 0.0, norms, 1.0)


def worst_partition(
    probabilities: ArrayLike,
    labels: ArrayLike,
    n_actions: int,
    partition: PartitionKind = "soft",
    seed: int = 0,
    n_starts: int = N_STARTS,
) -> Found:
    """`decision_calibration_error` with the partition that has it: a pair (error, partition)."""
    table, numbers = check_table(probabilities, labels)
    check_count(n_actions, "n_actions")
    check_choice(partition, PARTITIONS, "partition")
    check_count(n_starts, "n_starts")
    residual = residuals(table, numbers)
    if table.shape[1] == 2:
        return Found(*cut_intervals(table, residual, n_actions))
    rng = np.random.default_rng(seed)
    return search(table, residual, n_actions, partition == "hard", rng, n_starts)


def decision_calibration_error(
    probabilities: ArrayLike,
    labels: ArrayLike,
    n_actions: int,
    partition: PartitionKind = "soft",
    seed: int = 0,
) -> float:
    """The largest gap that any decision maker with this many actions can have.

    The supremum of sum_a ||E[(p - Y) b_a(p)]||_2 over partitions b of the simplex by linear scores: the gap
    of the worst loss together with the worst Bayes decision rule of any loss with n_actions actions.

    Parameters
    ----------
    probabilities
        Class probabilities, shape (n, C).
    labels
        Class numbers 0..C-1, shape (n,).
    n_actions
        K, at least 1.
    partition
        "soft": softmax of the scores, climbed by gradient from several starts. "hard": the largest score
        wins; climbed, rounded and searched around, which takes longer and finds more. Both have the same
        supremum.
    seed
        Of the starts.

    Returns
    -------
    float
        An average over rows, from 0 to sqrt(2). Exact for two classes; with more, the largest found, so a
        lower bound on the supremum.

    Raises
    ------
    ValueError
        Bad probabilities, labels or parameters.

    References
    ----------
    Zhao, Kim, Sahoo, Ma & Ermon (2021), Propositions 2 and 3.

    Examples
    --------
    >>> half = [[0.5, 0.5]] * 4
    >>> decision_calibration_error(half, [0, 1, 0, 1], n_actions=2)
    0.0
    >>> round(decision_calibration_error(half, [1, 1, 1, 1], n_actions=2), 4)  # 0.5 times sqrt(2)
    0.7071
    """
    return worst_partition(probabilities, labels, n_actions, partition, seed).error


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


def _parts(tables: Floats, n_rows: int) -> list[slice]:
    """Slices of the loss tables for which one number a row takes a few megabytes."""
    size = max(1, _CHUNK // n_rows)
    return [slice(start, start + size) for start in range(0, len(tables), size)]
