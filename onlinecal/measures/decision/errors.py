"""Decision calibration: do class probabilities tell decision makers what their decisions will cost?

Y has the predicted distribution p in "predicted" and is the label in "true"; averages over rows throughout.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from onlinecal.arrays import Floats
from onlinecal.measures.decision.losses import check_losses, check_table, decision_losses, loss_norms
from onlinecal.measures.decision.partitions import Partition, cut_intervals, residuals
from onlinecal.measures.decision.search import N_STARTS, Found, search
from onlinecal.measures.fixed_order import inner
from onlinecal.validation import check_choice, check_count

PartitionKind = Literal["soft", "hard"]
PARTITIONS: tuple[PartitionKind, ...] = get_args(PartitionKind)


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
    return loss_gaps(*decision_losses(probabilities, labels, losses), losses)


def loss_gaps(predicted: Floats, true: Floats, losses: ArrayLike) -> Floats:
    """|predicted - true| of each loss table, divided by its norm, shape (n_losses,)."""
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
