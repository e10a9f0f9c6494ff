"""Plain ways to what the decision measures compute."""

import itertools

import numpy as np
from scipy.optimize import linprog


def is_realisable(table, actions, n_actions):
    """Whether some weights give every row its action, strictly."""
    n, n_classes = table.shape
    rows = []
    for i in range(n):
        for other in range(n_actions):
            if other != actions[i]:
                row = np.zeros((n_actions, n_classes))
                row[other], row[actions[i]] = table[i], -table[i]
                rows.append(row.ravel())
    end = linprog(
        np.zeros(n_actions * n_classes), A_ub=np.array(rows), b_ub=-np.ones(len(rows)), bounds=(None, None)
    )
    return end.status == 0


def supremum_by_brute_force(table, labels, n_actions):
    """The largest error over all assignments of rows to actions that linear scores can make."""
    n, n_classes = table.shape
    residual = table - np.eye(n_classes)[labels]
    errors = {}
    for actions in itertools.product(range(n_actions), repeat=n):
        met = list(dict.fromkeys(actions))
        if met == sorted(met) and met == list(range(len(met))):  # one name for each way to partition
            parts = [residual[np.array(actions) == a].sum(axis=0) for a in range(n_actions)]
            errors[actions] = sum(np.linalg.norm(part) for part in parts) / n
    for actions in sorted(errors, key=errors.__getitem__, reverse=True):
        if is_realisable(table, actions, n_actions):
            return errors[actions]
    raise AssertionError("the partition into one region is always realisable")


def supremum_over_intervals(table, labels, n_actions):
    """Two classes: the largest error over all cuts into at most K intervals, one by one."""
    values = np.unique(table[:, 1])
    residual = table - np.eye(2)[labels]
    best = 0.0
    for n_cuts in range(n_actions):
        for cuts in itertools.combinations(values[1:], n_cuts):
            region = np.searchsorted(np.array(cuts), table[:, 1], side="right")
            parts = [residual[region == a].sum(axis=0) for a in range(n_cuts + 1)]
            best = max(best, sum(np.linalg.norm(part) for part in parts) / len(table))
    return best


def population(forecasts, truths, count):
    """Forecast i comes `count` times, with labels in exactly the shares of truth i: rows and labels."""
    rows, labels = [], []
    for forecast, truth in zip(forecasts, truths, strict=True):
        counts = np.rint(np.array(truth) * count).astype(int)
        assert counts.sum() == count
        rows += [forecast] * count
        labels += [c for c, number in enumerate(counts) for _ in range(number)]
    return np.array(rows, dtype=float), np.array(labels)
