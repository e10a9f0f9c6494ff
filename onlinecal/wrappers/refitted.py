"""What wrappers share that fit a recalibrator again whenever the stream has doubled."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

import numpy as np
from river import base

from onlinecal.arrays import Floats
from onlinecal.forecasters.simplex.input import check_label
from onlinecal.wrappers.labels import Label, plain
from onlinecal.wrappers.wrapper import ClassifierWrapper

Answer = dict[Label, float]
R = TypeVar("R")


class Refitted(ClassifierWrapper, Generic[R]):
    """A wrapper that keeps what its recalibrator needs of each round, and fits it at doubling times.

    The model's answer is read before it learns the label. Labels are numbered as they come, in outcomes or
    in answers; the numbers are columns of the recalibrator's tables.
    """

    def __init__(self, classifier: base.Classifier, first_fit: int) -> None:
        super().__init__(classifier)
        self.first_fit = first_fit
        self.n_rounds = 0
        self.n_fits = 0
        self.recalibrator: R | None = None
        self._columns: dict[Label, int] = {}
        self._next_fit = first_fit

    def learn_one(self, x: Any, y: Any, **kwargs: Any) -> None:
        """Keep the answer for x with its label, recalibrate if it is time, then let the model learn."""
        new = check_label(y, "y")
        raw = {plain(label): p for label, p in self.classifier.predict_proba_one(x).items()}
        self.n_rounds += 1
        self._keep(raw, new)
        if self.n_rounds >= self._next_fit:
            self._next_fit = self.n_rounds + min(self.n_rounds, self._most_between_fits())
            self.recalibrate()
        self.classifier.learn_one(x, y, **kwargs)

    @abstractmethod
    def _keep(self, answer: Answer, label: Label) -> None:
        """Keep a round for fits to come."""

    @abstractmethod
    def recalibrate(self) -> None:
        """Fit the recalibrator now."""

    def _most_between_fits(self) -> int:
        return self.n_rounds

    def _meet(self, labels: Iterable[Label]) -> None:
        """Number the labels that are new."""
        for label in labels:
            if label not in self._columns:
                self._columns[label] = len(self._columns)

    def _vector(self, answer: Answer) -> Floats:
        """An answer over all labels known by now, with sum 1; NaN and negative values count as 0.

        Without any mass it is uniform.
        """
        vector = np.zeros(len(self._columns))
        for label, u in answer.items():
            vector[self._columns[label]] = u if 0.0 < u < math.inf else 0.0
        total = vector.sum()
        if total > 0.0:
            return vector / total
        return np.full(len(vector), 1.0 / max(1, len(vector)))
