"""Weights of rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinecal.validation import check_vector

Floats = NDArray[np.float64]


def check_weights(sample_weight: ArrayLike | None, n_rows: int) -> Floats | None:
    """Weights of shape (n,), finite and not negative, some above 0; None stays None.

    Raises ValueError that names sample_weight, the value and its row.
    """
    if sample_weight is None:
        return None
    weights = check_vector(sample_weight, "sample_weight")
    if weights.dtype.kind not in "iufb":
        raise ValueError(f"sample_weight must be numbers, got values like {weights[0]!r}")
    weights = weights.astype(np.float64)
    if len(weights) != n_rows:
        raise ValueError(f"sample_weight must have one for each of the {n_rows} rows, got {len(weights)}")
    bad = ~((weights >= 0.0) & np.isfinite(weights))
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"sample_weight must be finite and at least 0, got {weights[row]} at row {row}")
    if not weights.any():
        raise ValueError("sample_weight must be above 0 somewhere, got 0.0 in all rows")
    return weights


def repeats(weights: Floats, name: str) -> NDArray[np.int64]:
    """Weights as numbers of rows; ValueError for one that is not whole, as `name` needs them."""
    whole = np.rint(weights)
    if (whole != weights).any():
        row = int(np.argmax(whole != weights))
        raise ValueError(f"sample_weight must be whole numbers with {name}, got {weights[row]} at row {row}")
    return whole.astype(np.int64)
