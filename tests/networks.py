"""What networks said of the rows that they had not seen, from shared/data: tests without it are skipped."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

from tests import DATA


@cache
def predictions(name: str) -> tuple[Any, Any]:
    """A table of probabilities, whose rows sum to 1, and the numbers of the true classes."""
    path = DATA / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"{path.name} is not here")
    with np.load(path) as data:
        table, labels = data["predictions"].astype(float), data["ground_truth"].ravel().astype(np.int64)
    return table / table.sum(axis=1, keepdims=True), labels


def halves(name: str, seed: int = 0) -> tuple[Any, Any, Any, Any]:
    """Table and labels of a half to fit, and of a half to measure."""
    table, labels = predictions(name)
    fit, test = np.split(np.random.default_rng(seed).permutation(len(labels)), 2)
    return table[fit], labels[fit], table[test], labels[test]


class Told(ClassifierMixin, BaseEstimator):
    """A classifier whose features are its probabilities: how scikit-learn's methods are given a table."""

    def fit(self, X: Any, y: Any) -> Told:
        self.classes_ = np.arange(np.shape(X)[1])
        return self

    def predict_proba(self, X: Any) -> Any:
        return X

    def predict(self, X: Any) -> Any:
        return X.argmax(axis=1)

    def __sklearn_is_fitted__(self) -> bool:
        return True
