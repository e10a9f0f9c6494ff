"""Times as people have them, read in one way wherever they come from: files of any format, frames, lists.

Texts are read if they can be read in one way: ISO 8601 and its usual variants, with a blank for the T, with
`Z`, `UTC` or an offset, with fractions of seconds. A column of texts is never put in the order of letters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, timedelta
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.tables.columns import check_same_length
from onlinecal.tables.frames import as_array, is_missing, missing_in
from onlinecal.tables.numbers import MISSING, exact_numbers
from onlinecal.texts import shown

if TYPE_CHECKING:
    import polars as pl

ISO = (
    r"^\s*(\d{4})[-/](\d{1,2})(?:[-/](\d{1,2})"
    r"(?:(?:\s*[Tt]\s*|\s+)(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9})\d*)?)?"
    r"(?:\s*(Z|z|UTC|GMT|[+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?))?)?)?\s*$"
)
"""Year, month, day, hour, minute, second, fraction and zone; a date alone is its first moment."""
CLEAR = "write times as 2024-01-31 or 2024-01-31T09:30:00Z, as pandas.to_datetime(..., format=...) makes them"
SHORT_YEAR = re.compile(r"^\s*\d{1,2}[-/. ](\d{1,2}|[A-Za-z]{3,9})[-/. ]\d{2}(\D|$)")
TWO_WAYS = re.compile(r"^\s*\d{1,2}[-/. ]\d{1,2}[-/. ]\d{4}(\D|$)")
NUMBER, CLOCK, INSTANT, SPAN = "numbers", "times without a zone", "times with a zone", "spans"
MOST_MICROSECONDS = np.iinfo(np.int64).max // 1000
"""What is beyond has no nanoseconds: years before 1677 and after 2262."""


@dataclass(frozen=True, eq=False)
class Times:
    """A column of times as numbers that can be compared with others of the same kind.

    Attributes
    ----------
    name
        What errors call it.
    kind
        Numbers, times without or with a zone, or spans.
    values
        Shape (T,): numbers as they are; of all else nanoseconds, or microseconds if `is_coarse`.
    missing
        Shape (T,): where there is no value.
    given
        Shape (T,): as they came, for errors.
    """

    name: str
    kind: str
    values: NDArray[Any]
    missing: NDArray[np.bool_]
    given: Any
    is_coarse: bool = False

    def shown(self, row: int) -> str:
        """The value of a row as errors show it."""
        return str(self.given[row])

    def check_present(self, wanted: NDArray[np.bool_] | None = None) -> None:
        """ValueError names the first row, of those that are wanted, that has no value."""
        gone = self.missing if wanted is None else self.missing & wanted
        if gone.any():
            raise ValueError(f"{self.name} has no value at row {int(gone.argmax())}")

    @property
    def span(self) -> str:
        """What a span of these times is, in words."""
        return "a number, as times are" if self.kind == NUMBER else "a timedelta"

    def later_by(self, span: Any, name: str) -> Times:
        """So much later, by the name of what says so; ValueError for what is no span of these times."""
        step = span
        if self.kind == NUMBER:
            good = isinstance(span, Real) and not isinstance(span, (bool, np.timedelta64))
        else:
            step = span.astype("timedelta64[us]").item() if isinstance(span, np.timedelta64) else span
            good = isinstance(step, timedelta)
            step = step // timedelta(microseconds=1) * (1 if self.is_coarse else 1000) if good else None
        if not good:
            raise ValueError(
                f"{name} must be a span, {self.span}, or have a time for each row, got {shown(span)}"
            )
        if not step >= 0:
            raise ValueError(
                f"{name} must not be a time before the row's own forecast, got a span of {span!r}"
            )
        later = self.values + step
        return Times(name, self.kind, later, self.missing, later, self.is_coarse)


class RowNumbers(Times):
    """What stands for times where none are given."""

    span = "a number of rows"


def row_numbers(length: int) -> Times:
    """0, 1, ..., what stands for times where none are given."""
    rows = np.arange(length)
    return RowNumbers("row", NUMBER, rows, np.zeros(length, bool), rows)


def read_times(given: Any, name: str, length: int | None = None) -> Times:
    """A column of times, or of numbers that stand for such.

    Parameters
    ----------
    given
        Numbers, dates, datetimes, spans or texts, of any kind that `as_array` reads.
    name
        What errors call it.
    length
        How many there must be; None: any number.

    Raises
    ------
    ValueError
        Names the first row that holds something else, or a text that can be read in two ways or in none, and
        says what to do.
    """
    array = as_array(given, name)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim > 1:
        raise ValueError(f"{name} must be one column, with a time for each row, got shape {array.shape}")
    if array.ndim == 0:
        raise ValueError(f"{name} must have a time for each row, got {shown(given)}")
    if length is not None:
        check_same_length(range(length), array, f"probabilities and {name}")
    if array.dtype.kind in "iuf":
        return Times(name, NUMBER, array, missing_in(array), array)
    if array.dtype.kind in "mM":
        return _of_numpy(name, SPAN if array.dtype.kind == "m" else _zone_of(given), array, array)
    values, missing = array.tolist(), missing_in(array)
    kinds = {type(value) for value, gone in zip(values, missing, strict=True) if not gone}
    if not kinds:
        return Times(name, NUMBER, np.zeros(len(array)), np.ones(len(array), bool), array)
    if kinds == {str}:
        return _of_texts(name, array)
    if all(issubclass(kind, (int, float)) and kind is not bool for kind in kinds):
        numbers, gone = exact_numbers(array)
        return Times(name, NUMBER, numbers, gone, array)
    return _of_objects(name, array, missing)


def _zone_of(given: Any) -> str:
    """Whether what was given as a column of times knows their zone."""
    kind: Any = getattr(given, "dtype", getattr(given, "type", None))
    zone = getattr(kind, "tz", None) or getattr(kind, "time_zone", None)
    zone = zone or getattr(getattr(kind, "pyarrow_dtype", None), "tz", None)
    return INSTANT if zone else CLOCK


def _of_numpy(name: str, kind: str, array: NDArray[Any], given: Any) -> Times:
    """Times of numpy in any unit: in nanoseconds, where that is not too fine for the years there are."""
    missing = np.isnat(array)
    code = array.dtype.kind
    unit = np.datetime_data(array.dtype)[0]
    if unit == "generic":
        raise ValueError(f"{name} must have a unit, as numpy.timedelta64(1, 'h') has, got {array.dtype}")
    coarse = np.where(missing, np.zeros((), f"{code}8[us]"), array.astype(f"{code}8[us]")).astype(np.int64)
    if (np.abs(coarse) > MOST_MICROSECONDS - 1).any():
        return Times(name, kind, coarse, missing, given, True)
    fine = np.where(missing, np.zeros((), f"{code}8[ns]"), array.astype(f"{code}8[ns]")).astype(np.int64)
    return Times(name, kind, fine, missing, given)


def _of_objects(name: str, array: NDArray[Any], missing: NDArray[np.bool_]) -> Times:
    """Dates, datetimes and spans, row by row."""
    kinds: dict[int, str] = {}
    stamps: list[Any] = [None] * len(array)
    for row in np.flatnonzero(~missing).tolist():
        value = array[row]
        if isinstance(value, (timedelta, np.timedelta64)):
            kind = SPAN
        elif isinstance(value, (date, np.datetime64)):
            kind = CLOCK if getattr(value, "tzinfo", None) is None else INSTANT
        else:
            raise ValueError(
                f"{name} must hold times, or numbers that stand for such, got {shown(value)} at row {row}"
            )
        if kinds.setdefault(0, kind) != kind:
            raise ValueError(
                f"{name} must hold times of one kind, got {kinds[0]}, and {shown(value)} at row {row}"
            )
        if kind == INSTANT:
            try:
                value = value.astimezone(UTC).replace(tzinfo=None)
            except OverflowError as error:
                text = f"{name} has {shown(str(value))} at row {row}, which is out of Python's years in UTC"
                raise ValueError(text) from error
        # those of pandas have nanoseconds
        is_pandas = hasattr(value, "to_numpy")
        stamps[row] = value.to_numpy() if is_pandas else np.array(value, _numpy_kind(value))[()]
    gap = np.timedelta64("NaT", "us") if kinds[0] == SPAN else np.datetime64("NaT", "us")
    return _of_numpy(name, kinds[0], np.array([gap if one is None else one for one in stamps]), array)


def _numpy_kind(value: Any) -> str | None:
    """The kind of numpy's times for a value of Python's; None for what is one of numpy's."""
    if isinstance(value, np.generic):
        return None
    return "m8[us]" if isinstance(value, timedelta) else "M8[us]"


def _of_texts(name: str, array: NDArray[Any]) -> Times:
    """Texts that are numbers, or times that can be read in one way."""
    import polars as pl

    texts = pl.Series([None if is_missing(text) else text for text in array.tolist()], dtype=pl.String)
    missing = (texts.is_null() | texts.str.strip_chars().str.to_lowercase().is_in(list(MISSING))).to_numpy()
    numbers, gone = exact_numbers(texts)
    if (gone == missing).all():
        return Times(name, NUMBER, numbers, gone, array)
    values, bad, zoned = _parsed(texts)
    bad &= ~missing
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(f"{name} has {shown(str(array[row]))} at row {row}, {_reason(array[row])}: {CLEAR}")
    known = zoned[~missing]
    if known.any() and not known.all():
        row = int((~zoned & ~missing).argmax())
        raise ValueError(
            f"{name} has {shown(str(array[row]))} at row {row}, without a zone where others have one: {CLEAR}"
        )
    return _of_numpy(name, INSTANT if known.any() else CLOCK, values, array)


def _reason(text: str) -> str:
    """Why a text is not read as a time."""
    if SHORT_YEAR.match(text):
        return "whose year has two digits"
    if TWO_WAYS.match(text):
        return "which can be read in two ways, the day first or the month"
    return "which cannot be read as a time"


def _parsed(texts: pl.Series) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.bool_]]:
    """Times in nanoseconds or microseconds, UTC; which are none; and which have a zone, shape (T,) each."""
    import polars as pl

    # a column of days has few of them
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
    # what no calendar or clock has is null
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
    """Numbers of each column that can be compared with those of the others; ValueError if they cannot."""
    first = columns[0]
    for other in columns[1:]:
        if other.kind != first.kind and not other.missing.all():
            raise ValueError(
                f"{other.name} and {first.name} cannot be compared: {other.kind}, as {_example(other)}, and "
                f"{first.kind}, as {_example(first)}"
            )
    if first.kind == NUMBER:
        return [one.values for one in columns]
    is_coarse = any(one.is_coarse for one in columns)
    return [one.values // 1000 if is_coarse and not one.is_coarse else one.values for one in columns]


def _example(times: Times) -> str:
    return times.shown(int((~times.missing).argmax()))


def in_time(
    others: Sequence[Times], made: Times | None, advice: str, wanted: NDArray[np.bool_] | None = None
) -> list[NDArray[Any]]:
    """Times of the forecasts, and of what follows them, as numbers that can be compared; each of shape (T,).

    Parameters
    ----------
    others
        Times of something that follows the row's forecast: in units of `made`, or without those the number of
        a row.
    made
        When the forecasts were made.
    advice
        What to do where times take the place of row numbers.
    wanted
        In which rows the first of the others must have a time, shape (T,); in the rest it is the forecast's.
        None: in all.

    Raises ValueError for a missing time, for times that decrease, that cannot be compared, or that are before
    the row's own forecast.
    """
    if made is None:
        for times in others:
            whole = times.kind == NUMBER and not (times.values % 1 != 0)[~times.missing].any()
            if not whole:
                raise ValueError(
                    f"{times.name} holds no row numbers but {_example(times)}: of times, {advice}"
                )
    own = row_numbers(len(others[0].values)) if made is None else made
    own.check_present()
    for place, times in enumerate(others):
        times.check_present(None if place else wanted)
    at, *found = in_one_unit([own, *others])
    if wanted is not None:
        found[0] = np.where(wanted, found[0], at)
    falls = at[1:] < at[:-1]
    if falls.any():
        row = int(falls.argmax()) + 1
        raise ValueError(
            f"{own.name} must not decrease, got {own.shown(row)} at row {row} after {own.shown(row - 1)}: "
            "sort the rows"
        )
    for times, numbers in zip(others, found, strict=True):
        early = numbers < at
        if early.any():
            row = int(early.argmax())
            forecast = f"row {row}" if made is None else f"{own.name} {own.shown(row)}"
            raise ValueError(
                f"{times.name} has {times.shown(row)} at row {row}, before the forecast itself, which is of "
                f"{forecast}"
            )
    return [at, *found]
