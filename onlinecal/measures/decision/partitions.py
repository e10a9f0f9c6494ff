"""Partitions of the simplex into the regions of K actions: where linear scores are largest, hard or soft."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.measures.fixed_order import by_columns, inner, lengths, product, soften


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
    """The largest error of K regions when there are two classes, exactly, and a hard partition that has it.

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
