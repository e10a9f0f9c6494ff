"""The average of several recalibrators' probabilities."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np
from sklearn.base import clone

from onlinecal.recalibration.classical.per_class_isotonic import PerClassIsotonic
from onlinecal.recalibration.classical.temperature import TemperatureScaling
from onlinecal.recalibration.classical.vector_scaling import VectorScaling
from onlinecal.recalibration.probability_recalibrator import Floats, Ints, ProbabilityRecalibrator
from onlinecal.recalibration.weights import Weights


class AveragedCalibration(ProbabilityRecalibrator):
    """The average of what several recalibrators say, each fitted to all rows.

    Log loss and squared error are convex in the probabilities: the average's are never above the average of
    the others', and below the best of them where these err in different ways. One that rules out what comes,
    as isotonic regression does with few rows, no longer makes the log loss infinite. What
    RecalibratedClassifierCV takes by default; docs/recalibrated-classifier.md has the measurements.

    Parameters
    ----------
    recalibrators
        Unfitted recalibrators; None: temperature scaling, vector scaling (a factor and an offset per class)
        and isotonic regression per class.
    classes
        The labels that the columns stand for; None: 0..C-1.

    Attributes
    ----------
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
    ) -> None:
        self.recalibrators = recalibrators
        self.classes = classes

    def _check_parameters(self) -> None:
        if self.recalibrators is None:
            return
        parts = list(self.recalibrators) if isinstance(self.recalibrators, Iterable) else [self.recalibrators]
        if not parts:
            raise ValueError("recalibrators must be at least one, got none")
        for one in parts:
            if not isinstance(one, ProbabilityRecalibrator):
                raise ValueError(f"recalibrators must be recalibrators of tables, got {one!r}")

    def _learn(self, table: Floats, labels: Ints, weights: Weights) -> None:
        chosen = self.recalibrators
        if chosen is None:
            chosen = [TemperatureScaling(), VectorScaling(), PerClassIsotonic()]
        self.recalibrators_ = [clone(one)._fit_checked(table, labels, weights) for one in chosen]

    def _map(self, table: Floats) -> Floats:
        return np.mean([one._map(table) for one in self.recalibrators_], axis=0)
