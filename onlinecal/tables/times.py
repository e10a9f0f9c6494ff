"""Columns of times from files, frames and lists, all read in the same way, and compared with each other.

Texts are read if they can be read in only one way: as ISO 8601 and its usual variants, with a blank for the
T, with `Z`, `UTC` or an offset, with fractions of seconds. Texts that are no times are refused: they are
never put in the order of their letters. All times of a column are of one kind, and only times of the same
kind are compared: numbers, times without a zone, times with a zone, or spans.

A `Times` never changes, and no function changes its arguments. What always holds: all values of a column are
of its `kind` and in one unit, and a row that is `missing` has a value that nobody looks at. `in_time` brings
columns to one unit before they are compared. Events of the engine are read by ISO, too (`engine/fields.py`):
a text that it takes or refuses anew is taken or refused there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, timedelta
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.tables.columns import check_same_length
from onlinecal.tables.frames import as_array, is_missing, missing_in
from onlinecal.tables.numbers import MISSING_WORDS, exact_numbers
from onlinecal.texts import shown

if TYPE_CHECKING:
    import polars as pl

ISO = (
    r"^\s*(\d{4})[-/](\d{1,2})(?:[-/](\d{1,2})"
    r"(?:(?:\s*[Tt]\s*|\s+)(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9})\d*)?)?"
    r"(?:\s*(Z|z|UTC|GMT|[+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?))?)?)?\s*$"
)
"""Year, month, day, hour, minute, second, fraction and zone; a date alone is its first moment."""
_WRITTEN_CLEARLY = (
    "write times as 2024-01-31 or 2024-01-31T09:30:00Z, as pandas.to_datetime(..., format=...) makes them"
)
SHORT_YEAR = re.compile(r"^\s*\d{1,2}[-/. ](\d{1,2}|[A-Za-z]{3,9})[-/. ]\d{2}(\D|$)")
TWO_WAYS = re.compile(r"^\s*\d{1,2}[-/. ]\d{1,2}[-/. ]\d{4}(\D|$)")
NUMBER, CLOCK, INSTANT, SPAN = "numbers", "times without a zone", "times with a zone", "spans"
MOST_MICROSECONDS = np.iinfo(np.int64).max // 1000
"""Times that are farther from 1970, before 1677 or after 2262, do not fit in 64 bits as nanoseconds."""


@dataclass(frozen=True, eq=False)
class Times:
    """A column of times as numbers that can be compared with others of the same kind.

    Attributes
    ----------
    name
        What errors call it.
    kind
        NUMBER, CLOCK, INSTANT or SPAN.
    values
        Shape (T,): numbers as they are; times and spans in nanoseconds, or in microseconds if `is_coarse`.
    missing
        Shape (T,): where there is no value.
    as_given
        Shape (T,): the values as they came, for errors.
    is_coarse
        Whether the times do not fit as nanoseconds.
    """

    name: str
    kind: str
    values: NDArray[Any]
    missing: NDArray[np.bool_]
    as_given: Any
    is_coarse: bool = False

    def shown(self, row: int) -> str:
        """The value of a row as errors show it."""
        return str(self.as_given[row])

    def check_present(self, wanted: NDArray[np.bool_] | None = None) -> None:
        """Refuse a missing value in the wanted rows, by default in any; the error names its row."""
        missing = self.missing if wanted is None else self.missing & wanted
        if missing.any():
            raise ValueError(
                f"{self.name} has no value at row {int(missing.argmax())}: fill it in, or leave the row out"
            )

    @property
    def span(self) -> str:
        """What errors say that a span between such times must be."""
        return "a number, in the unit of the times" if self.kind == NUMBER else "a timedelta"

    def later_by(self, span: Any, name: str) -> Times:
        """Each time plus the span; ValueError, which calls the argument `name`, for what is no such span."""
        step = span
        if self.kind == NUMBER:
            good = isinstance(span, Real) and not isinstance(span, (bool, np.timedelta64))
        else:
            step = span.astype("timedelta64[us]").item() if isinstance(span, np.timedelta64) else span
            good = isinstance(step, timedelta)
            step = step // timedelta(microseconds=1) * (1 if self.is_coarse else 1000) if good else None
        if not good:
            raise ValueError(
                f"{name} must be a span ({self.span}) or have a time for each row, got {shown(span)}"
            )
        if not step >= 0:
            raise ValueError(f"{name} must be a span of at least 0 after a row's own forecast, got {span!r}")
        later = self.values + step
        return Times(name, self.kind, later, self.missing, later, self.is_coarse)


def joined(first: Times, second: Times) -> Times:
    """Both columns one after the other; ValueError if they are of different kinds."""
    kind = second.kind if first.missing.all() else first.kind
    before = replace(first, name=f"the {second.name} before them")
    alike = [replace(each, kind=kind) if each.missing.all() else each for each in (before, second)]
    return Times(
        second.name,
        kind,
        np.concatenate(in_one_unit(alike)),
        np.concatenate([first.missing, second.missing]),
        [*first.as_given, *second.as_given],
        first.is_coarse or second.is_coarse,
    )


def unread(length: int, like: Times, name: str) -> Times:
    """So many missing times, of the kind of others."""
    values = np.zeros(length, like.values.dtype)
    return Times(name, like.kind, values, np.ones(length, bool), [None] * length, like.is_coarse)


class RowNumberTimes(Times):
    """The numbers of the rows, which stand for times where none are given."""

    span = "a number of rows"


def row_numbers(length: int) -> Times:
    """0, 1, ..., length - 1, which stand for times where none are given."""
    rows = np.arange(length)
    return RowNumberTimes("row", NUMBER, rows, np.zeros(length, bool), rows)


def read_times(column: Any, name: str, length: int | None = None) -> Times:
    """A column of times, or of numbers that stand for times.

    Parameters
    ----------
    column
        Numbers, dates, datetimes, spans or texts, of any kind that `as_array` reads.
    name
        What errors call it.
    length
        How many there must be; None: any number.

    Raises
    ------
    ValueError
        For a row that holds something else, or a text that can be read in two ways or cannot be read at all.
        The error names the first such row and says what to do.
    """
    array = as_array(column, name)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim > 1:
        raise ValueError(f"{name} must be one column, with a time for each row, got shape {array.shape}")
    if array.ndim == 0:
        raise ValueError(f"{name} must have a time for each row, got {shown(column)}")
    if length is not None:
        check_same_length(range(length), array, f"probabilities and {name}")
    if array.dtype.kind in "iuf":
        return Times(name, NUMBER, array, missing_in(array), array)
    if array.dtype.kind in "mM":
        return _of_numpy(name, SPAN if array.dtype.kind == "m" else _zone_of(column), array, array)
    values, missing = array.tolist(), missing_in(array)
    kinds = {type(value) for value, is_gap in zip(values, missing, strict=True) if not is_gap}
    if not kinds:
        return Times(name, NUMBER, np.zeros(len(array)), np.ones(len(array), bool), array)
    if kinds == {str}:
        return _of_texts(name, array)
    if all(issubclass(kind, (int, float)) and kind is not bool for kind in kinds):
        numbers, missing = exact_numbers(array)
        return Times(name, NUMBER, numbers, missing, array)
    return _of_objects(name, array, missing)


def _zone_of(column: Any) -> str:
    """The kind of a column of times: INSTANT if its type has a zone, else CLOCK."""
    kind: Any = getattr(column, "dtype", getattr(column, "type", None))
    zone = getattr(kind, "tz", None) or getattr(kind, "time_zone", None)
    zone = zone or getattr(getattr(kind, "pyarrow_dtype", None), "tz", None)
    return INSTANT if zone else CLOCK


def _of_numpy(name: str, kind: str, array: NDArray[Any], as_given: Any) -> Times:
    """Times of numpy in any unit, as nanoseconds, or as microseconds if years are too far off for those."""
    missing = np.isnat(array)
    code = array.dtype.kind
    unit = np.datetime_data(array.dtype)[0]
    if unit == "generic":
        raise ValueError(f"{name} must have a unit, as numpy.timedelta64(1, 'h') has, got {array.dtype}")
    coarse = np.where(missing, np.zeros((), f"{code}8[us]"), array.astype(f"{code}8[us]")).astype(np.int64)
    if (np.abs(coarse) > MOST_MICROSECONDS - 1).any():
        return Times(name, kind, coarse, missing, as_given, True)
    fine = np.where(missing, np.zeros((), f"{code}8[ns]"), array.astype(f"{code}8[ns]")).astype(np.int64)
    return Times(name, kind, fine, missing, as_given)


def _of_objects(name: str, array: NDArray[Any], missing: NDArray[np.bool_]) -> Times:
    """Dates, datetimes and spans, read row by row; all must be of the same kind."""
    column_kind: str | None = None
    stamps: list[Any] = [None] * len(array)
    for row in np.flatnonzero(~missing).tolist():
        value = array[row]
        if isinstance(value, (timedelta, np.timedelta64)):
            kind = SPAN
        elif isinstance(value, (date, np.datetime64)):
            kind = CLOCK if getattr(value, "tzinfo", None) is None else INSTANT
        else:
            raise ValueError(
                f"{name} must hold times alone, or numbers alone, got {shown(value)} at row {row}: write all "
                "of them alike"
            )
        column_kind = column_kind or kind
        if kind != column_kind:
            raise ValueError(
                f"{name} must hold times of one kind, got {column_kind} first and {kind} at row {row}, "
                f"{shown(value)}: write all of them alike"
            )
        if kind == INSTANT:
            try:
                value = value.astimezone(UTC).replace(tzinfo=None)
            except OverflowError as error:
                text = f"{name} has {shown(str(value))} at row {row}, outside the years 1 to 9999 in UTC"
                raise ValueError(text) from error
        # stamps of pandas keep their nanoseconds
        is_pandas = hasattr(value, "to_numpy")
        stamps[row] = value.to_numpy() if is_pandas else np.array(value, _numpy_kind(value))[()]
    assert column_kind is not None, "the caller has checked that some value is there"
    gap = np.timedelta64("NaT", "us") if column_kind == SPAN else np.datetime64("NaT", "us")
    return _of_numpy(
        name, column_kind, np.array([gap if stamp is None else stamp for stamp in stamps]), array
    )


def _numpy_kind(value: Any) -> str | None:
    """The dtype of numpy for a time or span of Python's; None for a value of numpy's, which has its own."""
    if isinstance(value, np.generic):
        return None
    return "m8[us]" if isinstance(value, timedelta) else "M8[us]"


def _of_texts(name: str, array: NDArray[Any]) -> Times:
    """Texts that are numbers, or times that can be read in one way."""
    import polars as pl

    texts = pl.Series([None if is_missing(text) else text for text in array.tolist()], dtype=pl.String)
    bare = texts.str.strip_chars().str.to_lowercase()
    missing = (texts.is_null() | bare.is_in(list(MISSING_WORDS))).to_numpy()
    numbers, not_numbers = exact_numbers(texts)
    if (not_numbers == missing).all():
        return Times(name, NUMBER, numbers, missing, array)
    values, bad, zoned = _parsed(texts)
    bad &= ~missing
    if bad.any():
        row = int(bad.argmax())
        text = f"{name} has {shown(str(array[row]))} at row {row}, {_reason(array[row])}"
        raise ValueError(f"{text}: {_WRITTEN_CLEARLY}")
    known = zoned[~missing]
    if known.any() and not known.all():
        row = int((~zoned & ~missing).argmax())
        text = f"{name} has {shown(str(array[row]))} at row {row}, without a zone where others have one"
        raise ValueError(f"{text}: {_WRITTEN_CLEARLY}")
    return _of_numpy(name, INSTANT if known.any() else CLOCK, values, array)


def _reason(text: str) -> str:
    """Why a text is not read as a time."""
    if SHORT_YEAR.match(text):
        return "whose year has two digits"
    if TWO_WAYS.match(text):
        return "which can be read in two ways, the day first or the month"
    return "which cannot be read as a time"


def _parsed(texts: pl.Series) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.bool_]]:
    """Times in nanoseconds or microseconds, UTC; which texts are no times; which have a zone; each (T,)."""
    import polars as pl

    # each different text is read once: a long column of days has few of them
    known = texts.unique(maintain_order=True)
    parts = known.str.extract_groups(ISO).struct.unnest()
    parts.columns = ["year", "month", "day", "hour", "minute", "second", "fraction", "zone"]
    nanoseconds = pl.col("fraction").str.pad_end(9, "0").cast(pl.Int64).fill_null(0)
    sign = pl.when(pl.col("zone").str.starts_with("-")).then(-1).otherwise(1)
    digits = pl.col("zone").str.replace_all(r"\D", "")
    hours, minutes = (
        digits.str.slice(place, 2).cast(pl.Int64, strict=False).fill_null(0) for place in (0, 2)
    )
    least = {"month": "1", "day": "1", "hour": "0", "minute": "0", "second": "0"}
    two_digits = [pl.col(name).fill_null(value).str.zfill(2) for name, value in least.items()]
    written = pl.concat_str(["year", *two_digits], separator=" ")
    # a moment that no calendar or clock has becomes null
    local = written.str.to_datetime("%Y %m %d %H %M %S", time_unit="us", strict=False)
    moments = parts.select(
        at=local - pl.duration(minutes=sign * (hours * 60 + minutes)),
        nanoseconds=nanoseconds,
        zoned=pl.col("zone").is_not_null(),
        year=pl.col("year").cast(pl.Int64).fill_null(0),
    )
    number = pl.DataFrame({"text": known}).with_row_index("number")
    rows = (
        pl.DataFrame({"text": texts})
        .join(number, "text", "left", nulls_equal=True, maintain_order="left")["number"]
        .to_numpy()
    )
    at = moments["at"].to_numpy()
    bad = np.isnat(at) | (moments["year"].to_numpy() < 1000)
    fine = moments["nanoseconds"].to_numpy()
    if (fine % 1000).any():
        at = at.astype("M8[ns]") + fine.astype("m8[ns]")
    else:
        at = at.astype("M8[us]") + (fine // 1000).astype("m8[us]")
    return at[rows], bad[rows], moments["zoned"].to_numpy()[rows]


def in_one_unit(columns: list[Times]) -> list[NDArray[Any]]:
    """The values of all columns in the same unit; ValueError if the columns are of different kinds."""
    first = columns[0]
    for other in columns[1:]:
        if other.kind != first.kind and not other.missing.all():
            has_zones = {first.kind, other.kind} == {CLOCK, INSTANT}
            remedy = "give both with a zone, or both without" if has_zones else "give both as one kind"
            raise ValueError(
                f"{other.name} and {first.name} cannot be compared: {other.kind}, as {_example(other)}, and "
                f"{first.kind}, as {_example(first)}; {remedy}"
            )
    if first.kind == NUMBER:
        return [times.values for times in columns]
    is_coarse = any(times.is_coarse for times in columns)
    return [times.values // 1000 if is_coarse and not times.is_coarse else times.values for times in columns]


def _example(times: Times) -> str:
    return times.shown(int((~times.missing).argmax()))


def in_time(
    others: Sequence[Times], made: Times | None, advice: str, wanted: NDArray[np.bool_] | None = None
) -> list[NDArray[Any]]:
    """Times of the forecasts, and of what follows them, as numbers in one unit; each of shape (T,).

    Parameters
    ----------
    others
        Columns of times of something that follows the row's forecast. They are of the same kind as `made`;
        if that is None they are row numbers.
    made
        When the forecasts were made; None: in the order of the rows.
    advice
        What an error says to do where `others` are times and `made` is None.
    wanted
        In which rows the first of the others must have a time, shape (T,); in the other rows it becomes the
        forecast's time. None: in all rows.

    Raises ValueError for a missing time, for times of forecasts that decrease, for times that cannot be
    compared, and for a time before the row's own forecast.
    """
    if made is None:
        for times in others:
            strange = ~times.missing
            if times.kind == NUMBER:
                strange &= times.values % 1 != 0
            if strange.any():
                row = int(strange.argmax())
                raise ValueError(
                    f"{times.name} must hold row numbers, got {times.shown(row)} at row {row}: if these are "
                    f"times, {advice}"
                )
    own = row_numbers(len(others[0].values)) if made is None else made
    own.check_present()
    for place, times in enumerate(others):
        times.check_present(None if place else wanted)
    at, *moments = in_one_unit([own, *others])
    if wanted is not None:
        moments[0] = np.where(wanted, moments[0], at)
    falls = at[1:] < at[:-1]
    if falls.any():
        row = int(falls.argmax()) + 1
        raise ValueError(
            f"{own.name} must not decrease, got {own.shown(row)} at row {row} after {own.shown(row - 1)}: "
            "sort the rows"
        )
    for times, numbers in zip(others, moments, strict=True):
        early = numbers < at
        if early.any():
            row = int(early.argmax())
            forecast = f"row {row}" if made is None else f"{own.name} {own.shown(row)}"
            raise ValueError(
                f"{times.name} has {times.shown(row)} at row {row}, before the forecast itself, which is of "
                f"{forecast}: it must not be earlier"
            )
    return [at, *moments]
