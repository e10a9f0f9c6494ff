"""Columns of files as outcomes and forecasts: what is read is checked, every bad value named by its row."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from onlinecal.catalogue import did_you_mean
from onlinecal.formats import called

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

NUMBER_WORDS = {"false": 0, "true": 1}
"""Texts that stand for numbers, in any case."""
OUTCOME_WORDS = {**NUMBER_WORDS, "no": 0, "yes": 1, "n": 0, "y": 1, "f": 0, "t": 1}
"""Texts that stand for outcomes, in any case."""
MISSING = {"", "-", "?", ".", "na", "n/a", "nan", "null", "none"}
"""Texts that stand for no value, in any case."""
SHOWN = 5
"""So many values of a column are listed at most."""


@dataclass(frozen=True)
class Reading:
    """How a verb's options have columns read.

    Attributes
    ----------
    positive
        The value of the outcome that counts as 1, all others as 0; None: 0 and 1, or words for them.
    percent, logits
        Whether forecasts are percentages, or log-odds.
    drop_invalid
        Whether rows with a value that cannot be read are left out, and counted, instead of refused.
    """

    positive: str | None = None
    percent: bool = False
    logits: bool = False
    drop_invalid: bool = False

    def __post_init__(self) -> None:
        if self.percent and self.logits:
            raise ValueError("--percent and --logits exclude each other")


class Column(NamedTuple):
    """Numbers read from a column, shape (T,), which of them are good, and the rule for those."""

    values: NDArray[np.float64]
    good: NDArray[np.bool_]
    rule: str


def outcome_column(column: pl.Series, path: Path, shares: bool = False) -> NDArray[Any]:
    """Outcomes, shape (T,): 0 and 1, false and true, no and yes, also as texts; ValueError names another one.

    With `shares` they may lie between 0 and 1, and are float64 if any does; else uint8.
    """
    return whole_if_all_are(check_values(column, read_outcomes(column, path, shares, None), path, None))


def forecast_column(column: pl.Series, path: Path) -> NDArray[np.float64]:
    """Numbers in [0, 1], shape (T,), also as texts or with a "%"; ValueError names the first other one."""
    return check_values(column, read_forecasts(column, None), path, None)


def check_values(column: pl.Series, read: Column, path: Path, reading: Reading | None) -> NDArray[np.float64]:
    """The values, if all are good; else ValueError names the first that is not, and what may help."""
    if not read.good.all():
        row = int(read.good.argmin())
        value = "nothing" if column[row] is None else repr(column[row])
        text = f"{called(path)}: column {column.name!r} must {read.rule}, got {value} at row {row}"
        raise ValueError(text + _advice(column, read, row, reading))
    return read.values


def _advice(column: pl.Series, read: Column, row: int, reading: Reading | None) -> str:
    """What to do about a bad value; options are named only where there are some."""
    value, numbers = column[row], read.values
    is_text = isinstance(value, str)
    if is_text and value.count(",") == 1 and not math.isnan(_number(value.replace(",", "."))):
        return ": a decimal comma? Write points instead, as sed 's/,/./g' does"
    if reading is None:
        return ""
    if value is None or is_missing(value):
        return f" ({(~read.good).sum():,} rows like that); --drop-invalid leaves them out"
    if read.rule.startswith("be "):
        if reading.positive is None and not math.isnan(numbers[row]) and 0 < numbers[row] < 1:
            return ": is it the column of outcomes?"
        values = _distinct(column)
        some = ", ".join(map(repr, values[:SHOWN])) + (", ..." if len(values) > SHOWN else "")
        return f"; --positive LABEL says which value counts as 1; its values: {some}"
    if math.isnan(numbers[row]) or "log" in read.rule:
        return "; --drop-invalid leaves out such rows"
    known = numbers[numbers == numbers]
    if not reading.percent and known.min() >= 0 and known.max() <= 100:
        return ": are they percentages (--percent), or log-odds (--logits)?"
    return ": are they log-odds (--logits)?"


def is_missing(value: Any) -> bool:
    """Whether a value of a column stands for none."""
    return value is None or value != value or (isinstance(value, str) and value.strip().lower() in MISSING)


def _distinct(column: pl.Series) -> list[Any]:
    return [value for value in column.unique(maintain_order=True).to_list() if not is_missing(value)]


def whole_if_all_are(numbers: NDArray[Any]) -> NDArray[Any]:
    """Outcomes as uint8, if all are 0 or 1."""
    return numbers.astype("uint8") if ((numbers == 0.0) | (numbers == 1.0)).all() else numbers


def read_outcomes(column: pl.Series, path: Path, shares: bool, reading: Reading | None) -> Column:
    """A column as outcomes; ValueError if the positive label never comes."""
    import numpy as np

    if reading is not None and reading.positive is not None:
        return _labelled(column, path, reading.positive)
    numbers = numbers_of(column, OUTCOME_WORDS)
    if shares:
        return Column(numbers, (numbers >= 0.0) & (numbers <= 1.0), "be boolean or lie in [0, 1]")
    return Column(numbers, np.isin(numbers, (0.0, 1.0)), "be 0, 1 or boolean")


def _labelled(column: pl.Series, path: Path, positive: str) -> Column:
    """1 where the value is the positive label, also as the same number; missing values are bad."""
    import numpy as np

    values = column.to_list()
    same = np.array([_is_label(value, positive) for value in values])
    if not same.any():
        known = did_you_mean(positive, map(str, _distinct(column)[:20]), "Its values")
        raise ValueError(f"{called(path)}: column {column.name!r} never has the value {positive!r}{known}")
    return Column(same.astype(float), np.array([not is_missing(one) for one in values]), "have a value")


def _is_label(value: Any, positive: str) -> bool:
    return str(value).strip() == positive.strip() or (
        not is_missing(value) and _number(value) == _number(positive)
    )


def other_values(column: pl.Series, positive: str) -> list[str]:
    """A remark, if several values are what is not the positive label."""
    others = [repr(value) for value in _distinct(column) if not _is_label(value, positive)]
    if len(others) < 2:
        return []
    dots = ", ..." if len(others) > SHOWN else ""
    return [f"{len(others)} values of {column.name} count as 0: {', '.join(others[:SHOWN])}{dots}"]


def read_forecasts(column: pl.Series, reading: Reading | None) -> Column:
    """A column as forecasts in [0, 1]."""
    import numpy as np

    numbers = numbers_of(column)
    if reading is not None and reading.logits:
        # tanh of half the log-odds neither overflows nor warns
        return Column(
            (1.0 + np.tanh(numbers / 2.0)) / 2.0,
            ~np.isnan(numbers),
            "be numbers, which --logits reads as log-odds",
        )
    rule = "lie in [0, 1]"
    if reading is not None and reading.percent:
        are_signed = [isinstance(value, str) and "%" in value for value in column.to_list()]
        numbers, rule = np.where(are_signed, numbers, numbers / 100.0), "lie in [0, 100] with --percent"
    return Column(numbers, (numbers >= 0.0) & (numbers <= 1.0), rule)


def numbers_of(column: pl.Series, words: dict[str, int] = NUMBER_WORDS) -> NDArray[np.float64]:
    """A column's numbers, shape (T,), also those written as texts; NaN for what is none."""
    import numpy as np
    import polars as pl

    if column.dtype == pl.String:
        plain = column.str.strip_chars().cast(pl.Float64, strict=False)
        numbers = plain.fill_null(math.nan).to_numpy().copy()
        for row in plain.is_null().arg_true():
            numbers[row] = _number(column[row], words)
        return numbers
    if column.dtype.is_numeric() or column.dtype == pl.Boolean:
        return column.cast(pl.Float64).fill_null(math.nan).to_numpy()
    return np.array([_number(value, words) for value in column.to_list()], dtype=np.float64)


def _number(value: Any, words: dict[str, int] = NUMBER_WORDS) -> float:
    """A number, or a text that stands for one, as "63 %" does for 0.63; NaN for anything else."""
    if isinstance(value, str):
        value = value.strip()
        if value.endswith("%"):
            return _number(value[:-1], {}) / 100.0
        value = words.get(value.lower(), value)
    try:
        return float(value) if isinstance(value, str | int | float) else math.nan
    except ValueError:
        return math.nan
