"""Tables: on disk a file is either not there, or the old one, or complete; for people, numbers are short.

What is read is checked: every bad value is named by its row.
"""

from __future__ import annotations

import math
import os
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

OUTCOME_WORDS = {"0": 0, "1": 1, "false": 0, "true": 1}


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
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"cannot tell what {path} is from its extension; known: {', '.join(FORMATS)}")
    wanted = [name for name in (outcome, forecast, time, sort) if name is not None]
    table = None if _is_blank(path) else _read(path, wanted, {outcome, forecast})
    if table is None or table.height == 0:
        raise ValueError(f"{path} holds no rounds")
    numbers: dict[str, NDArray[Any]] = {outcome: _outcomes(table[outcome], path, shares)}
    if forecast is not None:
        numbers[forecast] = _hints(table[forecast], path)
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


def _read(path: Path, wanted: list[str], as_written: set[str | None]) -> pl.DataFrame:
    """The wanted columns; in text files those in `as_written` stay text, for exact error messages."""
    import polars as pl

    form = FORMATS[path.suffix.lower()]
    text = {name: pl.String() for name in as_written if name is not None}
    try:
        if form == "csv":
            _check_columns(pl.read_csv(path, n_rows=0, glob=False).columns, wanted, path)
            return pl.read_csv(
                path,
                columns=list(dict.fromkeys(wanted)),
                schema_overrides=text,
                try_parse_dates=True,
                infer_schema_length=None,
                glob=False,
            )
        if form == "json lines":
            lines = path.read_bytes()  # handed a path, polars would read brackets in it as a pattern
            columns = pl.scan_ndjson(lines, infer_schema_length=None).collect_schema().names()
            _check_columns(columns, wanted, path)
            return pl.read_ndjson(lines, schema_overrides=text, infer_schema_length=None)
        _check_columns(pl.scan_parquet(path, glob=False).collect_schema().names(), wanted, path)
        return pl.read_parquet(path, columns=list(dict.fromkeys(wanted)), glob=False)
    except pl.exceptions.PolarsError as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ValueError(f"{path} cannot be read as {form}: {reason}") from error


def _is_blank(path: Path) -> bool:
    with path.open("rb") as file:
        return not any(line.strip() for line in file)


def _check_columns(columns: list[str], wanted: list[str], path: Path) -> None:
    for name in wanted:
        if name not in columns:
            raise ValueError(f"{path} has no column {name!r}{did_you_mean(name, columns, 'Its columns')}")


def _outcomes(column: pl.Series, path: Path, shares: bool) -> NDArray[Any]:
    import numpy as np

    values = column.to_list()
    played = np.array([_outcome(value) for value in values])
    bad = ~((played >= 0.0) & (played <= 1.0)) if shares else ~((played == 0.0) | (played == 1.0))
    if bad.any():
        row = int(np.argmax(bad))
        allowed = "boolean or lie in [0, 1]" if shares else "0, 1 or boolean"
        raise ValueError(
            f"{path}: column {column.name!r} must be {allowed}, got {_shown(values[row])} at row {row}"
        )
    return played.astype("uint8") if np.all((played == 0.0) | (played == 1.0)) else played


def _outcome(value: Any) -> float:
    if isinstance(value, str):
        value = value.strip().lower()
        value = OUTCOME_WORDS.get(value, _number(value))
    return float(value) if isinstance(value, bool | int | float) else math.nan


def _hints(column: pl.Series, path: Path) -> NDArray[np.float64]:
    import numpy as np

    values = column.to_list()
    hints = np.array([_number(value) for value in values], dtype=np.float64)
    bad = ~((hints >= 0.0) & (hints <= 1.0))
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(
            f"{path}: column {column.name!r} must lie in [0, 1], got {_shown(values[row])} at row {row}"
        )
    return hints


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


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return math.nan
    try:
        return float(value)
    except ValueError:
        return math.nan


def _shown(value: Any) -> str:
    return "nothing" if value is None else repr(value)
