"""What the methods for one event share: columns of a file, parts, groups made of columns."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from onlinecal.cli.recalibrating.options import EventColumns, Rows
from onlinecal.cli.recalibrating.parts import LEAST_ROWS, split_rows
from onlinecal.cli.recalibrating.tables import read_frame
from onlinecal.remarks import outcome_remarks
from onlinecal.validation import check_outcomes, check_probabilities

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_VALUES = 12
"""A column of numbers with more distinct values than this is cut into ranges."""
RANGES = 4


@dataclass(frozen=True, eq=False)
class Events:
    """Some rows of a file: their numbers, all columns, forecasts or None, outcomes or None."""

    name: str
    rows: Ints
    frame: pl.DataFrame
    forecasts: Floats | None
    outcomes: NDArray[np.uint8] | None

    def take(self, name: str, rows: Ints) -> Events:
        """Some of these rows."""
        return Events(
            name,
            rows,
            self.frame[rows],
            None if self.forecasts is None else self.forecasts[rows],
            None if self.outcomes is None else self.outcomes[rows],
        )


def read_events(path: Path, outcome: str | None, forecast: str | None) -> Events:
    """All rows of a CSV, JSON Lines or Parquet file; ValueError names a missing or bad column."""
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    if path.suffix.lower() not in (".csv", ".jsonl", ".ndjson", ".parquet", ".pq"):
        raise ValueError(
            f"cannot read columns from {path}; known extensions: .csv, .jsonl, .ndjson, .parquet, .pq"
        )
    frame = read_frame(path)
    try:
        forecasts = None if forecast is None else check_probabilities(numbers(frame, forecast), forecast)
        outcomes = None
        if outcome is not None:
            outcomes = check_outcomes(numbers(frame, outcome), outcome)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return Events(path.name, np.arange(frame.height), frame, forecasts, outcomes)


def read_parts(file: Path, columns: EventColumns, rows: Rows) -> tuple[str, Events, Events]:
    """The file's name, the rows to fit, and the others: a test part, or a new file (maybe no outcomes)."""
    outcome, forecast, apply = columns.outcome, columns.forecast, rows.apply
    if outcome is None:
        raise ValueError("--outcome is needed, the column of outcomes")
    everything = read_events(file, outcome, forecast)
    if apply is None:
        fit, test = split_rows(len(everything.rows), rows.share, rows.seed)
        return file.name, everything.take("fit", fit), everything.take("test", test)
    if len(everything.rows) < LEAST_ROWS:
        raise ValueError(f"{len(everything.rows)} rows are too few to fit: {LEAST_ROWS} are needed")
    known = read_events(apply, None, None).frame.columns
    new = read_events(apply, outcome if outcome in known else None, forecast)
    return file.name, everything.take("fit", everything.rows), new.take("apply", new.rows)


def column(frame: pl.DataFrame, name: str) -> pl.Series:
    """A column; ValueError lists those there are."""
    if name not in frame.columns:
        raise ValueError(f"no column {name!r}. Its columns: {', '.join(frame.columns)}")
    return frame[name]


def numbers(frame: pl.DataFrame, name: str) -> Floats:
    """A column as float64; texts true and false are numbers too, missing values NaN."""
    values = column(frame, name)
    if values.dtype == pl.String and set(values.drop_nulls().str.to_lowercase()) <= {"true", "false"}:
        values = values.str.to_lowercase() == "true"
    if not (values.dtype.is_numeric() or values.dtype == pl.Boolean):
        raise ValueError(f"column {name!r} must hold numbers, got {values.drop_nulls()[0]!r}")
    return values.cast(pl.Float64).fill_null(np.nan).to_numpy()


@dataclass(frozen=True)
class GroupColumns:
    """How columns become categories: by their values, or columns of many numbers by ranges.

    Attributes
    ----------
    cuts
        The bounds of the ranges of each column; none for columns taken by their values.
    """

    cuts: dict[str, tuple[float, ...]]

    @classmethod
    def of(cls, frame: pl.DataFrame, names: list[str]) -> GroupColumns:
        """Quartiles of the columns of numbers that have more than 12 different values."""
        if len(set(names)) < len(names):
            raise ValueError(f"a group is listed twice: {', '.join(names)}")
        cuts = {}
        for name in names:
            values = column(frame, name)
            bounds: tuple[float, ...] = ()
            if values.dtype.is_numeric() and values.n_unique() > MOST_VALUES:
                present = values.cast(pl.Float64).drop_nulls().drop_nans().to_numpy()
                found = np.quantile(present, np.arange(1, RANGES) / RANGES)
                bounds = tuple(float(f"{bound:.2g}") for bound in np.unique(found))
            cuts[name] = bounds
        return cls(cuts)

    def __call__(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Each column as texts, null where a value is missing."""
        columns = []
        for name, bounds in self.cuts.items():
            values = column(frame, name)
            if not bounds:
                columns.append(values.cast(pl.String))
                continue
            if not values.dtype.is_numeric():
                raise ValueError(f"column {name!r} must hold numbers, got {values.drop_nulls()[0]!r}")
            floats = values.cast(pl.Float64).fill_null(np.nan).to_numpy()
            labels = _range_names(bounds)
            texts = [None if x != x else labels[np.searchsorted(bounds, x, "right")] for x in floats]
            columns.append(pl.Series(name, texts, dtype=pl.String))
        return pl.DataFrame(columns)


def _range_names(bounds: tuple[float, ...]) -> list[str]:
    ends = [f"{bound:g}" for bound in bounds]
    middle = [f"{low} to {high}" for low, high in pairwise(ends)]
    return [f"below {ends[0]}", *middle, f"from {ends[-1]}"]


def event_remarks(fit: Events, outcome: str | None, forecast: str | None) -> list[str]:
    """What looks wrong in the columns of the rows to fit."""
    assert fit.outcomes is not None
    return outcome_remarks(fit.outcomes, fit.forecasts, outcome or "", forecast or "")


def written_events(part: Events, before: Floats, after: Floats) -> pl.DataFrame:
    """Row number, old and new probability, and outcome of every row that was not fitted."""
    columns: dict[str, object] = {"row": part.rows, "before": before, "after": after}
    if part.outcomes is not None:
        columns["outcome"] = part.outcomes
    return pl.DataFrame(columns)
