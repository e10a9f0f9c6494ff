"""What the pickles of these tests hold that is not the package's own; they name this module, so it stays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import base
from sklearn.base import BaseEstimator, RegressorMixin


class Frequencies(base.Classifier):
    """How often each label came with the same `kind`, in exact arithmetic: nothing depends on a library."""

    def __init__(self, labels: tuple[Any, ...] = (False, True)) -> None:
        self.labels = labels
        self.counts: dict[Any, dict[Any, int]] = {}

    def learn_one(self, x: Any, y: Any) -> None:
        counts = self.counts.setdefault(x["kind"], dict.fromkeys(self.labels, 1))
        counts[y] += 1

    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        counts = self.counts.get(x["kind"], dict.fromkeys(self.labels, 1))
        total = sum(counts.values())
        return {label: count / total for label, count in counts.items()}


class Threshold(RegressorMixin, BaseEstimator):
    """The mean on either side of 1/2 of the first column."""

    def fit(self, X: Any, y: Any) -> Threshold:
        high = np.asarray(X)[:, 0] > 0.5
        sides = (np.asarray(y)[high == side] for side in (False, True))
        self.means_ = [sum(side.tolist()) / len(side) if len(side) else 0.5 for side in sides]
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        return np.where(np.asarray(X)[:, 0] > 0.5, self.means_[1], self.means_[0])


def start(X: Any) -> NDArray[np.float64]:
    """A predictor to boost."""
    return np.where(np.asarray(X)[:, 1] > 0.5, 0.75, 0.25)


def is_even(x: Any) -> bool:
    return x["t"] % 2 == 0


def is_low(x: Any) -> bool:
    return x["kind"] < 2


def first_column(table: Any) -> NDArray[np.bool_]:
    return np.asarray(table)[:, 0] > 0.5
