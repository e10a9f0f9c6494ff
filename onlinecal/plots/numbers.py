"""Numbers that all pictures need: the ends of columns, and confidence intervals.

polars says of the ends only that they are of some type or missing.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import ndtri

from onlinecal.validation import check_open_unit


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


def wilson_interval(
    ones: NDArray[np.int64] | NDArray[np.float64], rounds: NDArray[np.int64], confidence: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both ends of Wilson's score interval for each frequency ones / rounds, within [0, 1].

    Wilson, "Probable inference, the law of succession, and statistical inference" (1927).
    """
    z = ndtri((1.0 + check_open_unit(confidence, "confidence")) / 2.0)
    frequency = ones / rounds
    centre = frequency + z**2 / (2.0 * rounds)
    reach = z * np.sqrt(frequency * (1.0 - frequency) / rounds + (z / (2.0 * rounds)) ** 2)
    whole = 1.0 + z**2 / rounds
    # rounding must not push an end beyond 0, 1 or the frequency itself
    low = np.clip((centre - reach) / whole, 0.0, frequency)
    return low, np.clip((centre + reach) / whole, frequency, 1.0)
