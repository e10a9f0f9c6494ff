"""Reads the rounds of a file: outcomes and forecasts, checked and in order, and when outcomes became known.

Errors name the row of a bad value and the option of the command line that helps.

Nothing here has a state. `Rounds` do not change, but that `known_from` adds to their `remarks`. All their
columns have the same length and the same order, that of the file or of the column that rounds are sorted by;
rows that are equal there stay in the order of the file. The forecasts of a stream depend on this order, and
on the rows that `known_from` gives.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onlinecal.catalogue import did_you_mean
from onlinecal.tables.files import called, read_frame
from onlinecal.tables.numbers import OUTCOME_WORDS, is_gap, number_of, numbers_of
from onlinecal.texts import counted, shown

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray


MOST_LISTED = 5
"""At most this many values of a column are listed in an error."""


@dataclass(frozen=True)
class Reading:
    """How the options of a verb say that columns are to be read.

    Attributes
    ----------
    positive
        The value of the outcome that counts as 1; all others count as 0. None: outcomes are 0 and 1, or
        words for them.
    scale
        What forecasts are written as: "probability", "percent" or "logits" (log-odds).
    drop_invalid
        Whether rows with a value that cannot be read are left out and counted; otherwise they are refused.
    """

    positive: str | None = None
    scale: str = "probability"
    drop_invalid: bool = False


@dataclass(frozen=True, eq=False)
class NumberColumn:
    """A column as numbers, with a mask of those that are good, both of shape (T,).

    `rule` says what a good value must do. `reading` holds the options; if it is None, errors name no option.
    """

    series: pl.Series
    values: NDArray[np.float64]
    good: NDArray[np.bool_]
    rule: str
    reading: Reading | None

    def checked(self, path: Path) -> NDArray[np.float64]:
        """The values, if all are good; else ValueError names the first bad one and what may help."""
        if not self.good.all():
            text = f"{called(path)}: column {self.series.name!r} must {self.rule}, got {self.first_bad}"
            raise ValueError(text + self._advice(int(self.good.argmin())))
        return self.values

    @property
    def first_bad(self) -> str:
        """The first value that is not good, and its row."""
        row = int(self.good.argmin())
        value = self.series[row]
        return f"{'nothing' if value is None else shown(value)} at row {row}"

    def _advice(self, row: int) -> str:
        """What to do about the bad value of a row."""
        value, numbers, reading = self.series[row], self.values, self.reading
        if comma := comma_hint(value):
            return comma
        if reading is None:
            return ""
        # where no row is good, leaving out the bad ones leaves nothing
        remedy = "--drop-invalid leaves {} out" if self.good.any() else "no row is good: name another column"
        if is_gap(value):
            gaps = sum(map(is_gap, self.series.to_list()))
            return f" ({counted(gaps, 'row')} like that); {remedy.format('them')}"
        if self.rule.startswith("be ") and "log" not in self.rule:
            if reading.positive is None and not math.isnan(numbers[row]) and 0 < numbers[row] < 1:
                return ": is it the column of outcomes?"
            values = _listed(_distinct(self.series))
            return f"; --positive LABEL says which value counts as 1; its values: {values}"
        if math.isnan(numbers[row]) or "log" in self.rule:
            return f"; {remedy.format('such rows')}"
        known = numbers[numbers == numbers]
        if known.min() >= 1 and (known % 1 != 0).any():
            return ": are they decimal odds? 1 / odds, divided by its sum over all outcomes, is a probability"
        if reading.scale != "percent" and known.min() >= 0 and known.max() <= 100:
            return ": are they percentages (--scale percent), or log-odds (--scale logits)?"
        return ": are they log-odds (--scale logits)?"


def comma_hint(value: Any) -> str:
    """What to do about a value that is a number with a decimal comma; "" for any other."""
    with_point = value.replace(",", ".", 1) if isinstance(value, str) and "," in value else ""
    if math.isnan(number_of(with_point)):
        return ""
    return ": is this a decimal comma? Write points; pandas.read_csv(..., decimal=',') reads such files"


def outcome_column(column: pl.Series, path: Path) -> NDArray[Any]:
    """Outcomes, shape (T,), uint8, of 0 and 1, false and true, no and yes; ValueError for other values."""
    return whole_if_all_are(_outcomes(column, path, False, None).checked(path))


def forecast_column(column: pl.Series, path: Path) -> NDArray[np.float64]:
    """Numbers in [0, 1], shape (T,), also of texts, with or without "%"; ValueError names another value."""
    return _forecasts(column, None).checked(path)


def _distinct(column: pl.Series) -> list[Any]:
    return [value for value in column.unique(maintain_order=True).to_list() if not is_gap(value)]


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(map(shown, values[:MOST_LISTED])) + (", ..." if len(values) > MOST_LISTED else "")


def whole_if_all_are(numbers: NDArray[Any]) -> NDArray[Any]:
    """Outcomes as uint8 if all are 0 or 1, else as they are."""
    return numbers.astype("uint8") if ((numbers == 0.0) | (numbers == 1.0)).all() else numbers


def _outcomes(
    column: pl.Series, path: Path, shares: bool, reading: Reading | None, pending: bool = False
) -> NumberColumn:
    """A column as outcomes, with `shares` also in between 0 and 1; ValueError if no row has `positive`.

    If some are `pending` they may be missing, and are NaN then; `positive` may come later, too.
    """
    import numpy as np

    positive = None if reading is None else reading.positive
    if positive is None:
        numbers, rule = numbers_of(column, OUTCOME_WORDS), "be 0, 1 or boolean"
        good = np.isin(numbers, (0.0, 1.0))
        if shares:
            good, rule = (numbers >= 0.0) & (numbers <= 1.0), "be boolean or lie in [0, 1]"
        if pending:
            missing = np.array([is_gap(value) for value in column.to_list()], bool)
            numbers, good = np.where(missing, math.nan, numbers), good | missing
            rule += ", or be missing"
        return NumberColumn(column, numbers, good, rule, reading)
    values = column.to_list()
    same = np.array([_is_label(value, positive) for value in values])
    if not same.any() and not pending:
        known = did_you_mean(positive, map(str, _distinct(column)[:20]), "Its values")
        raise ValueError(f"{called(path)}: column {column.name!r} never has the value {positive!r}{known}")
    missing = np.array([is_gap(value) for value in values], bool)
    numbers = np.where(missing, math.nan, same)
    return NumberColumn(column, numbers, ~missing | pending, "have a value", reading)


def _is_label(value: Any, positive: str) -> bool:
    """Whether a value is the positive label, also as the same number; a missing one is not."""
    return str(value).strip() == positive.strip() or (
        not is_gap(value) and number_of(value) == number_of(positive)
    )


def _forecasts(column: pl.Series, reading: Reading | None, gaps: bool = False) -> NumberColumn:
    """A column as forecasts in [0, 1]; with `gaps` a forecast may be missing, and is NaN then."""
    import numpy as np

    numbers, scale = numbers_of(column), "probability" if reading is None else reading.scale
    rule = "lie in [0, 1]"
    if scale == "logits":
        rule = "be numbers, which --scale logits reads as log-odds"
        # tanh of half the log-odds neither overflows nor warns
        numbers = (1.0 + np.tanh(numbers / 2.0)) / 2.0
    elif scale == "percent":
        are_signed = [isinstance(value, str) and "%" in value for value in column.to_list()]
        numbers, rule = np.where(are_signed, numbers, numbers / 100.0), "lie in [0, 100] with --scale percent"
    good = (numbers >= 0.0) & (numbers <= 1.0)
    if gaps:
        missing = np.array([is_gap(value) for value in column.to_list()])
        numbers, good, rule = np.where(missing, math.nan, numbers), good | missing, f"{rule} or be missing"
    return NumberColumn(column, numbers, good, rule, reading)


@dataclass(frozen=True, eq=False)
class Rounds:
    """The rounds of a file, in order: outcomes, columns of forecasts, and a frame of all columns read.

    Outcomes, shape (T,), are uint8 if all are 0 or 1, else float64. `remarks` says which rows were left out,
    and which values count as 0 if there are several.
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
    pending: bool = False,
) -> Rounds:
    """Outcomes, columns of forecasts and `more` columns of a file, ordered by `sort`; see `read_frame`.

    `sort` names a column of times or numbers, as `read_times` reads them; "letters:NAME" sorts by the letters
    of the texts in column NAME. With `shares` outcomes may also lie between 0 and 1, with `gaps` forecasts
    may be missing, and with `pending` outcomes. Errors name an option only if there is a `reading`.
    """
    path = Path(path)
    if outcome in forecasts:
        raise ValueError(
            f"{called(path)}: column {outcome!r} is named for the outcomes and for forecasts: name "
            "another one for one of them"
        )
    numbered = [outcome, *forecasts]
    by, letters = (None, False) if sort is None else sort_column(sort)
    named = [*numbered, *more, *([] if by is None else [by])]
    # columns of numbers are read as texts, so that errors show values as the file writes them
    table = read_frame(path, named, numbered)
    columns = {name: _forecasts(table[name], reading, gaps) for name in forecasts}
    columns[outcome] = _outcomes(table[outcome], path, shares, reading, pending)
    remarks = []
    if reading is not None and reading.positive is not None:
        others = [value for value in _distinct(table[outcome]) if not _is_label(value, reading.positive)]
        if len(others) > 1:
            remarks.append(f"{len(others)} values of {outcome} count as 0: {_listed(others)}")
    kept = None
    if reading is not None and reading.drop_invalid:
        kept, dropped = _good_rows(columns, path)
        remarks += dropped
    # where bad rows are left out, the rows that are left need no check
    numbers: dict[str, NDArray[Any]] = {
        name: columns[name].checked(path) if kept is None else columns[name].values[kept]
        for name in (outcome, *forecasts)
    }
    numbers[outcome] = whole_if_all_are(numbers[outcome])
    table = table if kept is None else table.filter(kept)
    if by is not None:
        order = _order(numbers.get(by), table[by], path, letters)
        table = table[order]
        numbers = {name: values[order] for name, values in numbers.items()}
    forecast_columns = {name: numbers[name].astype("float64") for name in forecasts}
    return Rounds(
        Path(called(path)).name, numbers[outcome], forecast_columns, table.with_columns(**numbers), remarks
    )


LETTERS = "letters:"
"""What stands in --sort before the name of a column that is to be sorted by the letters of its texts."""


def sort_column(sort: str) -> tuple[str, bool]:
    """The column to sort by, and whether to sort by the letters of its texts."""
    return sort.removeprefix(LETTERS), sort.startswith(LETTERS)


def group_numbers(rounds: Rounds, name: str) -> NDArray[np.int64]:
    """For each row the number 0, 1, ... of its value in a column, shape (T,); ValueError if it has none."""
    column = rounds.frame[name]
    missing = column.is_null() | (column.is_nan() if column.dtype.is_float() else column.is_null())
    if missing.any():
        raise ValueError(
            f"{rounds.name}: column {name!r} has no value at row {missing.arg_true()[0]}, counted from 0; "
            "rows are taken together by it, so fill it in or leave the row out"
        )
    return column.rank("dense").to_numpy().astype("int64") - 1


def _good_rows(columns: dict[str, NumberColumn], path: Path) -> tuple[NDArray[np.bool_], list[str]]:
    """Which rows have only good values, and a remark on the rest; ValueError if no row has."""
    import numpy as np

    good = np.logical_and.reduce([column.good for column in columns.values()])
    if good.all():
        return good, []
    if not good.any():
        for column in columns.values():
            if not column.good.any():
                column.checked(path)
        bad = [f"{name} must {c.rule}, got {c.first_bad}" for name, c in columns.items() if not c.good.all()]
        names = ", ".join(columns)
        raise ValueError(
            f"{called(path)}: no row has good values in all of the columns {names}: {'; '.join(bad)}. "
            "Correct them, or name other columns"
        )
    reasons = [
        f"{(~column.good).sum():,} by {name}, which must {column.rule}, as {column.first_bad} does not"
        for name, column in columns.items()
        if not column.good.all()
    ]
    left_out = f"{(~good).sum():,} of {len(good):,} rows of {called(path)} are left out"
    return good, [f"{left_out}: {'; '.join(reasons)}"]


def known_from(
    rounds: Rounds, settled_at: str | None, together: str | None, sort: str | None
) -> NDArray[Any] | None:
    """For each row the first later row whose forecast may have learnt from its outcome, shape (T,).

    None stands for the next row everywhere: each outcome was known before the next forecast.

    Parameters
    ----------
    rounds
        The rows, ordered by `sort`, with these columns in their frame.
    settled_at
        A column that says when an outcome became known: a time of the same kind as in `sort`, or, without
        `sort`, the number of a row, from 0. Forecasts of later times, or rows, know the outcome.
    together
        A column whose equal values mark rows with a common end: their outcomes become known after the last
        of them.
    sort
        The column of times of the forecasts.

    Raises
    ------
    ValueError
        If both columns are named; if an outcome's time is missing, lies before its forecast, or cannot be
        compared with `sort`.
    """
    import numpy as np

    from onlinecal.remarks import unlearnt_remarks
    from onlinecal.tables.times import in_time, read_times

    rows = np.arange(len(rounds.outcomes))
    if settled_at is not None and together is not None:
        raise ValueError(
            "--settled-at and --together exclude each other, since both say when outcomes are known: leave "
            "one out"
        )
    if together is not None:
        of_group = group_numbers(rounds, together)
        last = np.zeros(of_group.max() + 1, dtype=np.int64)
        np.maximum.at(last, of_group, rows)
        return last[of_group] + 1
    if settled_at is None:
        return None
    by = None if sort is None else sort_column(sort)[0]
    forecast_times = None if by is None else read_times(rounds.frame[by], by)
    outcome_times = read_times(rounds.frame[settled_at], f"{rounds.name}: column {settled_at!r}")
    known_times, settles = in_time(
        [outcome_times], forecast_times, "name the column of the forecasts' times with --sort"
    )
    known = np.searchsorted(known_times, settles, side="right")
    rounds.remarks.extend(unlearnt_remarks(known, len(known), f"--settled-at {settled_at}"))
    return known


def _order(numbers: NDArray[Any] | None, column: pl.Series, path: Path, letters: bool) -> NDArray[np.intp]:
    """The order of the rows by a column of numbers or times, or, with `letters`, by the letters of texts."""
    import numpy as np

    from onlinecal.tables.times import read_times

    if numbers is None and letters:
        numbers = column.rank("dense").to_numpy()
    if numbers is None:
        try:
            times = read_times(column, f"{called(path)}: cannot sort by {column.name!r}, which")
        except ValueError as error:
            text = f"{error}; or sort by {LETTERS}{column.name}, the order of the texts' letters"
            raise ValueError(text) from error
        times.check_present()
        numbers = times.values
    return np.argsort(numbers, kind="stable")
