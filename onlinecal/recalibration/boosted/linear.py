"""A linear regressor for rounds of boosting: what is wrong in whole groups, or along a feature."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import Ridge
from threadpoolctl import threadpool_limits

Floats = NDArray[np.float64]

MOST_COLUMNS = 500
"""Of more features the default leaves it out: its time grows like their square."""
PENALTY = 10.0
"""Of columns of variance 1: as if so many rows had answers of 0."""


class LinearRound(RegressorMixin, BaseEstimator):
    """Ridge regression on standardised columns, missing values at their means; it does not extrapolate."""

    def fit(self, X: Any, y: Floats, sample_weight: Floats | None = None) -> LinearRound:
        """Learn from features (n, d), answers (n,) and weights (n,)."""
        table = _dense(X)
        known = ~np.isnan(table)
        weights = known * (np.ones(len(table)) if sample_weight is None else sample_weight)[:, None]
        total = np.maximum(weights.sum(axis=0), 1e-12)
        filled = np.where(known, table, 0.0)
        self.means_ = (weights * filled).sum(axis=0) / total
        centred = np.where(known, table - self.means_, 0.0)
        self.low_, self.high_ = centred.min(axis=0), centred.max(axis=0)
        spread = np.sqrt((weights * centred**2).sum(axis=0) / total)
        self.spread_ = np.where(spread > 0.0, spread, 1.0)
        with threadpool_limits(1, "blas"):
            self.ridge_ = Ridge(PENALTY).fit(centred / self.spread_, y, sample_weight=sample_weight)
        return self

    def predict(self, X: Any) -> Floats:
        """Answers, shape (n,); features beyond the fitted range count as its end."""
        table = _dense(X)
        centred = np.clip(np.where(np.isnan(table), 0.0, table - self.means_), self.low_, self.high_)
        with threadpool_limits(1, "blas"):
            return np.asarray(self.ridge_.predict(centred / self.spread_))


def _dense(X: Any) -> Floats:
    # sums over columns have other last bits in another layout
    return np.ascontiguousarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
