"""The weighted average of several recalibrators' probabilities."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np
from sklearn.base import clone

from onlinecal.arrays import Floats, Ints
from onlinecal.measures.scores import CLIP
from onlinecal.pieces import as_doubles
from onlinecal.recalibration.classical.linear import VectorScaling
from onlinecal.recalibration.classical.temperature import PerClassIsotonic, TemperatureScaling
from onlinecal.recalibration.probability_recalibrator import (
    ProbabilityRecalibrator,
    Weights,
    counts_of,
    part,
    total_weight,
)
from onlinecal.recalibration.starting import MOST_ROWS
from onlinecal.validation import check_count

PRIOR = 3.0
"""So many rows speak for each recalibrator beforehand: few rows leave the shares near each other."""
STEPS = 100
ROWS_A_CLASS = 30
"""Fewer, and what is fitted without a fold errs otherwise than what is fitted to all: from 180 rows of ten
digits folds thought too little of isotonic regression, and took the log loss from .490 to .515."""


class AveragedCalibration(ProbabilityRecalibrator):
    """The average of what several recalibrators say, each fitted to all rows, in shares that folds choose.

    Log loss and squared error are convex in the probabilities: the average's are never above the others',
    averaged with these shares, and below the best of them where these err in different ways. One that rules
    out what comes, as isotonic regression does with few rows, no longer makes the log loss infinite. What
    RecalibratedClassifierCV takes by default; docs/recalibrated-classifier.md has the measurements.

    The shares are those of the least log loss of held-out rows, with a Dirichlet prior that is worth three
    rows for each recalibrator: a mixture's weights, found by expectation maximisation.

    Parameters
    ----------
    recalibrators
        Unfitted recalibrators; None: temperature scaling, vector scaling (a factor and an offset per class)
        and isotonic regression per class.
    classes
        The labels that the columns stand for; None: 0..C-1.
    n_folds
        Folds that choose the shares, of at most 20,000 rows, drawn at random. Rows are dealt in the order of
        their probabilities, equal ones to the same fold: weights are as good as repeated rows. 0,
        fewer than 30 rows a class, or than two different ones a fold: equal shares.

    Attributes
    ----------
    shares_
        What share each has, shape (M,); their sum is 1.
    recalibrators_
        The fitted ones; their classes are numbers.

    Examples
    --------
    Three in four answers are right, and all are sure:

    >>> model = AveragedCalibration().fit([[0.99, 0.01]] * 4, [0, 0, 0, 1])
    >>> model.predict_proba([[0.99, 0.01]]).round(2)
    array([[0.75, 0.25]])
    """

    def __init__(
        self,
        recalibrators: Sequence[ProbabilityRecalibrator] | None = None,
        classes: Sequence[Hashable] | None = None,
        n_folds: int = 5,
    ) -> None:
        self.recalibrators = recalibrators
        self.classes = classes
        self.n_folds = n_folds

    def _check_parameters(self) -> None:
        if self.n_folds != 0 and check_count(self.n_folds, "n_folds") < 2:
            raise ValueError(f"n_folds must be 0 or at least 2, got {self.n_folds!r}")
        if self.recalibrators is None:
            return
        parts = list(self.recalibrators) if isinstance(self.recalibrators, Iterable) else [self.recalibrators]
        if not parts:
            raise ValueError("recalibrators must be at least one, got none")
        for one in parts:
            if not isinstance(one, ProbabilityRecalibrator):
                raise ValueError(f"recalibrators must be recalibrators of tables, got {one!r}")

    def _learn(self, table: Floats, labels: Ints, weights: Weights) -> None:
        table = as_doubles(table)
        chosen = self.recalibrators
        if chosen is None:
            chosen = [TemperatureScaling(), VectorScaling(), PerClassIsotonic()]
        self.shares_ = self._chosen_shares(chosen, table, labels, weights)
        self.recalibrators_ = [clone(one)._fit_checked(table, labels, weights) for one in chosen]

    def _chosen_shares(
        self, chosen: Sequence[ProbabilityRecalibrator], table: Floats, labels: Ints, weights: Weights
    ) -> Floats:
        equal = np.full(len(chosen), 1.0 / len(chosen))
        if (
            len(chosen) == 1
            or not self.n_folds
            or total_weight(table, weights) < ROWS_A_CLASS * table.shape[1]
        ):
            return equal
        if len(table) > MOST_ROWS:
            rows = np.random.default_rng(0).choice(len(table), MOST_ROWS, replace=False)
            table, labels, weights = table[rows], labels[rows], part(weights, rows)
        place = different_rows(table)
        if place.max() + 1 < 2 * self.n_folds:
            return equal
        fold_of = place % self.n_folds
        said = np.empty((len(chosen), len(table)))
        for fold in range(self.n_folds):
            out, rows = fold_of == fold, fold_of != fold
            for each, one in zip(said, chosen, strict=True):
                model = clone(one)._fit_checked(table[rows], labels[rows], part(weights, rows))
                each[out] = model._map(table[out])[np.arange(out.sum()), labels[out]]
        return best_shares(said, counts_of(labels, weights))

    def _map(self, table: Floats) -> Floats:
        answers = (one._map(table) for one in self.recalibrators_)
        return np.sum([share * one for share, one in zip(self.shares_, answers, strict=True)], axis=0)


def different_rows(table: Floats) -> Ints:
    """The place of each row (n, C) among the different ones, shape (n,).

    To six digits: the last ones of a classifier's answers depend on the rows beside.
    """
    _, place = np.unique(np.round(table, 6), axis=0, return_inverse=True)
    return np.asarray(place.reshape(-1), dtype=np.int64)


def best_shares(said: Floats, counts: Floats) -> Floats:
    """The shares of the least log loss, shape (M,), held together by the PRIOR.

    `said` (M, n): what each of M gave to what came; `counts` (n,): for how many rows each counts.
    """
    said = np.maximum(said, CLIP)
    shares = np.full(len(said), 1.0 / len(said))
    for _ in range(STEPS):
        parts = shares[:, None] * said
        owed = (counts * parts / parts.sum(axis=0)).sum(axis=1) + PRIOR
        shares = owed / owed.sum()
    return np.asarray(shares)
