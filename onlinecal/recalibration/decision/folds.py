"""How many rounds help on rows that were not fitted: all folds advance together, until none improves."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from onlinecal.measures.decision.errors import decision_loss_gap
from onlinecal.measures.decision.partitions import Floats, Ints, residuals
from onlinecal.recalibration.decision.rounds import Descent

PATIENCE = 8
"""Rounds without a better held-out gap before the folds stop."""


class HeldOut(NamedTuple):
    """Averages over folds of held-out rows, before any round and after each, each of shape (rounds + 1,)."""

    gap: Floats
    squared_error: Floats

    @property
    def best(self) -> int:
        """Rounds with the smallest gap, among those with a squared error not above the start's."""
        allowed = self.squared_error <= self.squared_error[0]
        return int(np.argmin(np.where(allowed, self.gap, np.inf)))


def held_out_course(
    start: Callable[[Ints], tuple[Descent, Floats]],
    labels: Ints,
    losses: Floats,
    n_folds: int,
    max_rounds: int,
    epsilon: float,
    rng: np.random.Generator,
) -> HeldOut:
    """Play the folds' rounds side by side and watch the rows that they leave out.

    Parameters
    ----------
    start
        From the rows of a fold to its descent and to where all rows, (n, C), start from for it.
    labels
        Class numbers, (n,).
    losses
        Decision makers whose root mean square gap on held-out rows is watched, (n_losses, K, C).
    n_folds, max_rounds, epsilon
        How many folds, how long at most, and when a descent is done.
    rng
        Deals rows to folds.
    """
    fold_of = rng.permutation(np.arange(len(labels)) % n_folds)
    parts = []
    for fold in range(n_folds):
        out = fold_of == fold
        descent, table = start(np.flatnonzero(~out))
        parts.append([descent, table[out], labels[out]])
    course = [_score(parts, losses)]
    while len(course) <= max_rounds:
        moved = False
        for part in parts:
            descent, table, _ = part
            if descent.advance(epsilon) is not None:
                part[1] = descent.rounds[-1](table)
                moved = True
        if not moved:
            break
        course.append(_score(parts, losses))
        gaps = [gap for gap, _ in course]
        if len(course) - 1 - int(np.argmin(gaps)) >= PATIENCE:
            break
    gaps, squared = np.array(course).T
    return HeldOut(gaps, squared)


def _score(parts: list, losses: Floats) -> tuple[float, float]:
    """Root mean square gap and mean squared error, over folds."""
    gaps = [(decision_loss_gap(table, labels, losses) ** 2).mean() for _, table, labels in parts]
    squared = [(residuals(table, labels) ** 2).sum(axis=1).mean() for _, table, labels in parts]
    return float(np.sqrt(np.mean(gaps))), float(np.mean(squared))
