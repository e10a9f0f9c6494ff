"""Numbers as files write them, also as texts, and the texts that stand for a missing value.

These words decide what a file means: to add one, to take one away, or to let it stand for another number,
changes what is read from files. Nothing here has a state, and no column is changed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

NUMBER_WORDS = {"false": 0, "true": 1}
"""Texts that stand for numbers, in any case."""
OUTCOME_WORDS = {**NUMBER_WORDS, "no": 0, "yes": 1, "n": 0, "y": 1, "f": 0, "t": 1}
"""Texts that stand for outcomes, in any case."""
MISSING_WORDS = {"", "-", "?", ".", "na", "n/a", "nan", "null", "none"}
"""Texts that stand for a missing value, in any case."""


def is_gap(value: Any) -> bool:
    """Whether a value of a column stands for a missing one."""
    return (
        value is None or value != value or (isinstance(value, str) and value.strip().lower() in MISSING_WORDS)
    )


def numbers_of(column: pl.Series, words: dict[str, int] = NUMBER_WORDS) -> NDArray[np.float64]:
    """A column's numbers, shape (T,), also those written as texts; NaN for what is not a number."""
    import numpy as np
    import polars as pl

    if column.dtype == pl.String:
        plain = column.str.strip_chars().cast(pl.Float64, strict=False)
        numbers = plain.fill_null(math.nan).to_numpy().copy()
        for row in plain.is_null().arg_true():
            numbers[row] = number_of(column[row], words)
        return numbers
    if column.dtype.is_numeric() or column.dtype == pl.Boolean:
        return column.cast(pl.Float64).fill_null(math.nan).to_numpy()
    return np.array([number_of(value, words) for value in column.to_list()], dtype=np.float64)


def number_of(value: Any, words: dict[str, int] = NUMBER_WORDS) -> float:
    """The number that a value is or, as a text, stands for: 0.63 for "63 %"; NaN for anything else."""
    if isinstance(value, str):
        value = value.strip()
        if value.endswith("%"):
            return number_of(value[:-1], {}) / 100.0
        value = words.get(value.lower(), value)
    try:
        return float(value) if isinstance(value, str | int | float) else math.nan
    except ValueError:
        return math.nan


def exact_numbers(values: pl.Series | NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The numbers that texts or objects stand for, and where there is none; both of shape (T,).

    If all are whole they are int64, so that no digit is lost; else they are floats.
    """
    import polars as pl

    if not isinstance(values, pl.Series):
        listed = values.tolist()
        are_whole = all(value is None or (isinstance(value, int) and abs(value) < 2**63) for value in listed)
        values = pl.Series(listed, dtype=pl.Int64 if are_whole else pl.Float64, strict=False)
    else:
        values = values.str.strip_chars()
        whole = values.cast(pl.Int64, strict=False)
        numbers = values.cast(pl.Float64, strict=False)
        # where every number is whole, integers lose no digit
        values = whole if whole.null_count() == numbers.null_count() else numbers
    missing = values.is_null() | (values.is_nan() if values.dtype.is_float() else values.is_null())
    return values.fill_null(0).to_numpy(), missing.to_numpy()
