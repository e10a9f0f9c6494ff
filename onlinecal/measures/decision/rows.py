"""Local search for the worst hard partition of a small table: rows change their action, one or two at a time.

Moving scores along a line cannot reach a partition that differs in rows on two sides. Here the assignment of
rows to actions is what moves, and a linear program says whether linear scores can make it.
"""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
from scipy.optimize import linprog

from onlinecal.arrays import Floats, Ints
from onlinecal.measures.decision.partitions import Partition, error_of
from onlinecal.measures.fixed_order import lengths

MOST_ROWS = 12
"""Rows up to which this is worth its time: there are (n K)^2 / 2 changes of two rows."""


def separate(table: Floats, actions: Ints, n_actions: int) -> Floats | None:
    """Weights (K, C) with which every row's action has the largest score, by 1; None if there are none."""
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
    """Take the best realisable change of one or two rows' actions, while any raises the error."""
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
        # row after row: a sum in a fixed order
        biases = np.zeros((len(changes), n_actions, table.shape[1]))
        for row, total in enumerate(sums):
            biases += members[:, :, row, None] * total
        errors = lengths(biases).sum(axis=1) / len(table)
        for best in np.argsort(-errors, kind="stable"):
            if errors[best] <= error * (1.0 + 1e-12):
                return error, weights
            found = separate(values, tried[best], n_actions)
            if found is not None:
                error, weights, actions = float(errors[best]), found, tried[best]
                break
        else:
            return error, weights


def _changes(n: int, n_actions: int) -> Ints:
    """All (row, action, row, action) with different rows; a move of one row is among them."""
    pairs = np.array(list(combinations(range(n), 2))).reshape(-1, 2)
    actions = np.array(list(product(range(n_actions), repeat=2)))
    first = np.repeat(pairs, len(actions), axis=0)
    second = np.tile(actions, (len(pairs), 1))
    return np.column_stack([first[:, 0], second[:, 0], first[:, 1], second[:, 1]]).astype(np.int64)
