"""The ends of columns as plain numbers; polars says only that they are of some type or missing."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray


def lowest(*columns: pl.Series, empty: float = 0.0) -> float:
    """The smallest number in all the columns, `empty` if there is none; nulls and NaN are no numbers."""
    numbers = _numbers(columns)
    return float(numbers.min()) if len(numbers) else empty


def highest(*columns: pl.Series, empty: float = 0.0) -> float:
    """The largest number in all the columns, `empty` if there is none; nulls and NaN are no numbers."""
    numbers = _numbers(columns)
    return float(numbers.max()) if len(numbers) else empty


def _numbers(columns: tuple[pl.Series, ...]) -> NDArray[np.float64]:
    together = pl.concat([column.cast(pl.Float64) for column in columns])
    return together.fill_nan(None).drop_nulls().to_numpy()
