"""Columns of files as outcomes and forecasts, bad values named by their rows; the rounds of a file in order.

When each outcome of a file became known: the rows whose forecasts may have learnt from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from onlinecal.catalogue import did_you_mean
from onlinecal.tables import called, name_of, read_frame

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
    scale
        What forecasts are written as: "probability", "percent" or "logits" (log-odds).
    drop_invalid
        Whether rows with a value that cannot be read are left out, and counted, instead of refused.
    """

    positive: str | None = None
    scale: str = "probability"
    drop_invalid: bool = False


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
    if reading.scale != "percent" and known.min() >= 0 and known.max() <= 100:
        return ": are they percentages (--scale percent), or log-odds (--scale logits)?"
    return ": are they log-odds (--scale logits)?"


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
    if reading is not None and reading.scale == "logits":
        # tanh of half the log-odds neither overflows nor warns
        return Column(
            (1.0 + np.tanh(numbers / 2.0)) / 2.0,
            ~np.isnan(numbers),
            "be numbers, which --scale logits reads as log-odds",
        )
    rule = "lie in [0, 1]"
    if reading is not None and reading.scale == "percent":
        are_signed = [isinstance(value, str) and "%" in value for value in column.to_list()]
        numbers, rule = np.where(are_signed, numbers, numbers / 100.0), "lie in [0, 100] with --scale percent"
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


@dataclass(frozen=True, eq=False)
class Rounds:
    """The rows of a file that could be read, in order: outcomes, columns of forecasts, and all read columns.

    Outcomes, shape (T,), are uint8 if all are 0 or 1, else float64. `remarks` says what was left out, and
    which values count as 0 though there are several.
    """

    name: str
    outcomes: NDArray[Any]
    forecasts: dict[str, NDArray[np.float64]]
    frame: pl.DataFrame
    remarks: list[str] = field(default_factory=list)


def read_rounds(
    path: str | Path,
    outcome: str,
    forecasts: Sequence[str],
    *,
    sort: str | None = None,
    more: Iterable[str] = (),
    shares: bool = False,
    reading: Reading | None = None,
    gaps: bool = False,
) -> Rounds:
    """Outcomes, columns of forecasts and `more` columns of a file, ordered by `sort`; see `read_frame`.

    With `shares` outcomes may also lie between 0 and 1, with `gaps` forecasts may be missing. Errors name an
    option only if there is a `reading`.
    """
    import numpy as np

    path = Path(path)
    numbered = [outcome, *forecasts]
    named = [*numbered, *more, *([] if sort is None else [sort])]
    table = read_frame(path, named, numbered, dates=True)  # as written, for exact errors
    columns = {name: read_forecasts(table[name], reading) for name in forecasts}
    if gaps:
        for name, column in columns.items():
            missing = np.array([is_missing(value) for value in table[name].to_list()])
            values = np.where(missing, math.nan, column.values)
            columns[name] = Column(values, column.good | missing, f"{column.rule} or be missing")
    columns[outcome] = read_outcomes(table[outcome], path, shares, reading)
    remarks = []
    if reading is not None and reading.positive is not None:
        remarks += other_values(table[outcome], reading.positive)
    if reading is not None and reading.drop_invalid:
        table, columns, dropped = _without_bad(table, columns, path)
        remarks += dropped
    for name in (outcome, *forecasts):
        check_values(table[name], columns[name], path, reading)
    numbers: dict[str, NDArray[Any]] = {name: column.values for name, column in columns.items()}
    numbers[outcome] = whole_if_all_are(numbers[outcome])
    if sort is not None:
        order = _order(numbers.get(sort), table[sort], path)
        table = table[order]
        numbers = {name: values[order] for name, values in numbers.items()}
    told = {name: numbers[name].astype("float64") for name in forecasts}
    return Rounds(name_of(path), numbers[outcome], told, table.with_columns(**numbers), remarks)


def group_numbers(rounds: Rounds, name: str) -> NDArray[np.int64]:
    """A column as numbers 0, 1, ... of its values, shape (T,); ValueError names a row without a value."""
    column = rounds.frame[name]
    _check_present(column, f"{rounds.name}: column {name!r}")
    return column.rank("dense").to_numpy().astype("int64") - 1


def _without_bad(
    table: pl.DataFrame, columns: dict[str, Column], path: Path
) -> tuple[pl.DataFrame, dict[str, Column], list[str]]:
    """Only rows whose values are all good, and a remark on the others; ValueError if none is left."""
    import numpy as np

    good = np.logical_and.reduce([column.good for column in columns.values()])
    if good.all():
        return table, columns, []
    if not good.any():
        for name, column in columns.items():
            if not column.good.any():
                check_values(table[name], column, path, None)
        raise ValueError(f"{called(path)}: no row has good values in all of the columns {', '.join(columns)}")
    reasons = []
    for name, one in columns.items():
        if not one.good.all():
            row = int(one.good.argmin())
            value = "nothing" if table[name][row] is None else repr(table[name][row])
            bad = int((~one.good).sum())
            reasons.append(f"{bad:,} by {name}, which must {one.rule}, as {value} at row {row} does not")
    text = (
        f"{int((~good).sum()):,} of {len(good):,} rows of {called(path)} are left out: {'; '.join(reasons)}"
    )
    kept = {name: Column(one.values[good], one.good[good], one.rule) for name, one in columns.items()}
    return table.filter(good), kept, [text]


def _order(numbers: NDArray[Any] | None, column: pl.Series, path: Path) -> NDArray[np.intp]:
    import numpy as np

    if numbers is not None:
        return np.argsort(numbers, kind="stable")
    _check_present(column, f"{called(path)}: cannot sort by {column.name!r}, which")
    if column.dtype.is_nested():
        raise ValueError(f"{called(path)}: cannot sort by {column.name!r}, whose values have no order")
    return np.argsort(_ranks(column), kind="stable")


def _ranks(column: pl.Series) -> NDArray[Any]:
    """Numbers in the order of a column, shape (T,): those that its texts stand for, if all of them do."""
    import numpy as np
    import polars as pl

    if column.dtype == pl.String and not np.isnan(numbers := numbers_of(column)).any():
        return numbers
    return column.rank("dense").to_numpy()


def known_from(
    rounds: Rounds, settled_at: str | None, together: str | None, sort: str | None
) -> NDArray[Any] | None:
    """For each row the first row whose forecast may have learnt from its outcome, shape (T,); None: the next.

    Parameters
    ----------
    rounds
        The rows, ordered by `sort`, with these columns in their frame.
    settled_at
        A column that says when an outcome became known: in units of `sort`, or without that the number of a
        row, from 0. Forecasts of later times, or rows, know it.
    together
        A column: outcomes become known after the last row with the same value.
    sort
        The column of times of the forecasts.

    Raises
    ------
    ValueError
        Both columns are named; an outcome has no such time, one before its forecast, or one that cannot be
        compared with `sort`.
    """
    import numpy as np

    rows = np.arange(len(rounds.outcomes))
    if settled_at is not None and together is not None:
        raise ValueError("--settled-at and --together exclude each other: both say when outcomes are known")
    if together is not None:
        of_group = group_numbers(rounds, together)
        last = np.zeros(of_group.max() + 1, dtype=np.int64)
        np.maximum.at(last, of_group, rows)
        return last[of_group] + 1
    if settled_at is None:
        return None
    column = rounds.frame[settled_at]
    times = None if sort is None else rounds.frame[sort]
    advice = "--sort must name the column of the forecasts'"
    made, settled = in_time({f"{rounds.name}: column {settled_at!r}": column}, times, advice)
    return np.searchsorted(made, settled, side="right")


def in_time(columns: Mapping[str, pl.Series], times: pl.Series | None, advice: str) -> list[NDArray[Any]]:
    """Times of the forecasts, and of each column, as numbers that can be compared; each of shape (T,).

    Parameters
    ----------
    columns
        Times of something that follows the row's forecast, by what errors call them: in units of `times`, or
        without those the number of a row.
    times
        Of the forecasts, never decreasing.
    advice
        What to do where times take the place of row numbers.

    Raises ValueError as `known_from` does, and for times that decrease.
    """

    made, *others = _comparable(columns, times, advice)
    falls = made[1:] < made[:-1]
    if times is not None and falls.any():
        row = int(falls.argmax()) + 1
        raise ValueError(
            f"{times.name} must not decrease, got {times[row]} at row {row} after {times[row - 1]}: "
            "sort the rows"
        )
    for (name, column), numbers in zip(columns.items(), others, strict=True):
        early = numbers < made
        if early.any():
            row = int(early.argmax())
            own = f"row {row}" if times is None else f"{times.name} {times[row]}"
            raise ValueError(
                f"{name} has {column[row]} at row {row}, before the forecast itself, which is of {own}"
            )
    return [made, *others]


def _comparable(columns: Mapping[str, pl.Series], made: pl.Series | None, advice: str) -> list[NDArray[Any]]:
    """The times of forecasts and those of each column, as numbers of shape (T,)."""
    import numpy as np
    import polars as pl

    found: list[NDArray[Any]] = []
    for name, column in columns.items():
        _check_present(column, name)
        if made is None:
            found.append(numbers_of(column))
            if np.isnan(found[-1]).any() or (found[-1] != np.floor(found[-1])).any():
                raise ValueError(f"{name} holds no row numbers but {column[0]}: of times, {advice}")
    if made is None:
        return [np.arange(len(found[0])), *found]
    _check_present(made, made.name)
    all_times = made.alias("t").to_frame()
    for name, column in columns.items():
        kinds = [
            "number" if one.dtype.is_numeric() else "time" if one.dtype.is_temporal() else str(one.dtype)
            for one in (made, column)
        ]
        try:
            if kinds[0] != kinds[1]:
                raise pl.exceptions.SchemaError
            all_times = pl.concat([all_times, column.alias("t").to_frame()], how="vertical_relaxed")
        except pl.exceptions.PolarsError as error:
            raise ValueError(
                f"{name} and {made.name!r} cannot be compared: {column.dtype} and {made.dtype}"
            ) from error
    return np.split(_ranks(all_times["t"]), len(columns) + 1)


def _check_present(column: pl.Series, called: str) -> None:
    """ValueError names the first row without a value."""
    missing = column.is_null() | column.is_nan() if column.dtype.is_float() else column.is_null()
    if missing.any():
        raise ValueError(f"{called} has no value at row {missing.arg_true()[0]}")
