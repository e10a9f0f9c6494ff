"""Tables: on disk a file is either not there, or the old one, or complete; for people, numbers are short.

What is read is checked: every bad value is named by its row.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from onlinecal.catalogue import did_you_mean

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

FORMATS = {
    ".csv": "csv",
    ".jsonl": "json lines",
    ".ndjson": "json lines",
    ".parquet": "parquet",
    ".pq": "parquet",
}
"""How a file is read, by its extension."""

WORDS = {"false": 0, "true": 1}
"""Texts that stand for numbers, in any case."""


def write_table(table: pl.DataFrame, path: Path) -> Path:
    """Write a table in the format of the path's extension; it appears when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    if path.suffix == ".csv":
        table.write_csv(temporary)
    else:
        table.write_parquet(temporary)
    os.replace(temporary, path)
    return path


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that is either not there, or the old one, or complete."""
    temporary = _temporary(path)
    temporary.write_bytes(content)
    os.replace(temporary, path)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.part")


def number(value: float | None) -> str:
    """A number for a table: thousands separated, about five digits."""
    if value is None:
        return "–"
    if value != value:
        return "?"
    size = abs(value)
    if float(value).is_integer():
        return f"{int(value):,}"
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:,.1f}" if size >= 100 else f"{value:.2f}" if size >= 0.1 else f"{value:.3g}"


class History(NamedTuple):
    """The rounds of a file: its name, outcomes (T,), forecasts (T,) or None, times (T,) or None.

    Outcomes are uint8 if all are 0 or 1, else float64.
    """

    name: str
    outcomes: NDArray[Any]
    forecasts: NDArray[np.float64] | None
    times: NDArray[Any] | None


def check_file(path: Path, *more: str) -> None:
    """Refuse what is not there, and an extension that is none of `FORMATS` and `more`."""
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    if path.suffix.lower() not in (*FORMATS, *more):
        known = ", ".join((*FORMATS, *more))
        raise ValueError(f"cannot tell what {path} is from its extension; known: {known}")


def check_columns(columns: Iterable[str], wanted: Iterable[str], owner: object = "the table") -> None:
    """Refuse the first name that is no column; the error says whose columns they are, and which there are."""
    known = list(columns)
    for name in wanted:
        if name not in known:
            raise ValueError(f"{owner} has no column {name!r}{did_you_mean(name, known, 'Its columns')}")


def read_columns(path: Path) -> list[str]:
    """The names of a file's columns; errors as of `read_frame`."""
    import polars as pl

    check_file(path)
    form = FORMATS[path.suffix.lower()]
    with _readable(path, form):
        if form == "csv":
            return pl.read_csv(path, n_rows=0, glob=False).columns
        if form == "json lines":
            return pl.scan_ndjson(path.read_bytes(), infer_schema_length=None).collect_schema().names()
        return pl.scan_parquet(path, glob=False).collect_schema().names()


def read_frame(
    path: Path, wanted: Iterable[str] = (), as_written: Iterable[str] = (), dates: bool = False
) -> pl.DataFrame:
    """The columns of a CSV, JSON Lines or Parquet file: at least those wanted; all, if none is named.

    In text files those `as_written` stay text. `dates`: texts that look like dates become some.

    Raises
    ------
    FileNotFoundError, ValueError
        No such file or column, another extension, contents that cannot be read, no rows.
    """
    import polars as pl

    check_file(path)
    form = FORMATS[path.suffix.lower()]
    if _is_blank(path):
        raise ValueError(f"{path} holds no rounds")
    columns = list(dict.fromkeys(wanted)) or None
    if columns is not None:
        check_columns(read_columns(path), columns, path)
    text = dict.fromkeys(as_written, pl.String())
    with _readable(path, form):
        if form == "csv":
            frame = pl.read_csv(
                path,
                columns=columns,
                schema_overrides=text,
                try_parse_dates=dates,
                infer_schema_length=None,
                glob=False,
            )
        elif form == "json lines":
            # handed a path, polars would read brackets in it as a pattern
            frame = pl.read_ndjson(path.read_bytes(), schema_overrides=text, infer_schema_length=None)
        else:
            frame = pl.read_parquet(path, columns=columns, glob=False)
    if frame.height == 0:
        raise ValueError(f"{path} holds no rounds")
    return frame


@contextmanager
def _readable(path: Path, form: str) -> Iterator[None]:
    """What polars refuses is a ValueError of one line."""
    import polars as pl

    try:
        yield
    except pl.exceptions.PolarsError as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ValueError(f"{path} cannot be read as {form}: {reason}") from error


def _is_blank(path: Path) -> bool:
    with path.open("rb") as file:
        return not any(line.strip() for line in file)


def read_history(
    path: str | Path,
    outcome: str,
    forecast: str | None = None,
    time: str | None = None,
    sort: str | None = None,
    *,
    shares: bool = False,
) -> History:
    """Rounds of a CSV, JSON Lines or Parquet file; arguments and errors as of `adversaries.replay_file`.

    With `shares` outcomes may also lie between 0 and 1.
    """
    path = Path(path)
    wanted = [name for name in (outcome, forecast, time, sort) if name is not None]
    as_written = [name for name in (outcome, forecast) if name is not None]  # for exact errors
    table = read_frame(path, wanted, as_written, dates=True)
    numbers: dict[str, NDArray[Any]] = {outcome: outcome_column(table[outcome], path, shares)}
    if forecast is not None:
        numbers[forecast] = forecast_column(table[forecast], path)
    if sort is not None:
        order = _order(numbers.get(sort), table[sort], path)
        table = table[order]
        numbers = {name: values[order] for name, values in numbers.items()}
    return History(
        path.name,
        numbers[outcome],
        None if forecast is None else numbers[forecast].astype("float64"),
        None if time is None else numbers.get(time, table[time].to_numpy()),
    )


def outcome_column(column: pl.Series, path: Path, shares: bool = False) -> NDArray[Any]:
    """Outcomes, shape (T,): 0 and 1, false and true, also as texts; ValueError names the first other one.

    With `shares` they may lie between 0 and 1, and are float64 if any does; else uint8.
    """
    numbers = _numbers(column)
    whole = (numbers == 0.0) | (numbers == 1.0)
    if shares:
        _check(column, path, (numbers >= 0.0) & (numbers <= 1.0), "be boolean or lie in [0, 1]")
        return numbers.astype("uint8") if whole.all() else numbers
    _check(column, path, whole, "be 0, 1 or boolean")
    return numbers.astype("uint8")


def forecast_column(column: pl.Series, path: Path) -> NDArray[np.float64]:
    """Numbers in [0, 1], shape (T,), also as texts; ValueError names the first other one."""
    numbers = _numbers(column)
    _check(column, path, (numbers >= 0.0) & (numbers <= 1.0), "lie in [0, 1]")
    return numbers


def _check(column: pl.Series, path: Path, good: NDArray[np.bool_], rule: str) -> None:
    if not good.all():
        row = int(good.argmin())
        value = "nothing" if column[row] is None else repr(column[row])
        raise ValueError(f"{path}: column {column.name!r} must {rule}, got {value} at row {row}")


def _numbers(column: pl.Series) -> NDArray[np.float64]:
    import numpy as np

    return np.array([_number(value) for value in column.to_list()], dtype=np.float64)


def _number(value: Any) -> float:
    """A number, or a text that stands for one; NaN for anything else."""
    if isinstance(value, str):
        value = WORDS.get(value.strip().lower(), value)
    try:
        return float(value) if isinstance(value, str | int | float) else math.nan
    except ValueError:
        return math.nan


def _order(numbers: NDArray[Any] | None, column: pl.Series, path: Path) -> NDArray[np.intp]:
    import numpy as np

    if numbers is not None:
        return np.argsort(numbers, kind="stable")
    missing = column.is_null() | column.is_nan() if column.dtype.is_float() else column.is_null()
    if missing.any():
        row = missing.arg_true()[0]
        raise ValueError(f"{path}: cannot sort by {column.name!r}, which has no value at row {row}")
    if column.dtype.is_nested():
        raise ValueError(f"{path}: cannot sort by {column.name!r}, whose values have no order")
    return np.argsort(column.rank("dense").to_numpy(), kind="stable")
