"""The average of several recalibrators' probabilities."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from onlinecal.recalibration.classical.per_class_isotonic import PerClassIsotonic
from onlinecal.recalibration.classical.temperature import TemperatureScaling
from onlinecal.recalibration.classical.vector_scaling import VectorScaling
from onlinecal.recalibration.probability_recalibrator import Floats, Ints, ProbabilityRecalibrator
from onlinecal.remarks import LabelWarning


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
        if self.recalibrators is not None and len(self.recalibrators) == 0:
            raise ValueError("recalibrators must be at least one, got none")

    def _learn(self, table: Floats, labels: Ints, weights: NDArray[np.float64] | None = None) -> None:
        chosen = self.recalibrators
        if chosen is None:
            chosen = [TemperatureScaling(), VectorScaling(), PerClassIsotonic()]
        given = {} if weights is None else {"sample_weight": weights}
        with warnings.catch_warnings():
            # `fit` has warned of these labels already
            warnings.simplefilter("ignore", LabelWarning)
            self.recalibrators_ = [clone(one).fit(table, labels, **given) for one in chosen]

    def _map(self, table: Floats) -> Floats:
        return np.mean([one.predict_proba(table) for one in self.recalibrators_], axis=0)
