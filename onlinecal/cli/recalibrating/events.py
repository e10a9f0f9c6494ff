"""What the methods for one event share: columns of a file, parts, scores, the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.cli.recalibrating.options import EventColumns, Rows
from onlinecal.cli.recalibrating.parts import fitted_rows
from onlinecal.cli.recalibrating.report import Report, Scores, measure_lines
from onlinecal.cli.recalibrating.tables import (
    SCORED,
    is_numbers,
    large_columns,
    read_names,
    rows_to_write,
    scored_rows,
)
from onlinecal.columns import forecast_column, outcome_column
from onlinecal.measures.scores import BINS, event_scores
from onlinecal.remarks import outcome_remarks
from onlinecal.tables import check_columns, read_frame

EVENT_MEASURES = ("Brier score", "log loss", f"ECE ({BINS} bins)")


@dataclass(frozen=True, eq=False)
class Events:
    """Some rows of a file: their numbers, all columns, forecasts or None, outcomes or None."""

    name: str
    rows: Ints
    frame: pl.DataFrame
    forecasts: Floats | None
    outcomes: NDArray[np.uint8] | None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def told(self) -> Floats:
        """The forecasts, where there are some."""
        assert self.forecasts is not None
        return self.forecasts

    @property
    def settled(self) -> NDArray[np.uint8]:
        """The outcomes, where there are some."""
        assert self.outcomes is not None
        return self.outcomes

    def take(self, name: str, rows: Ints) -> Events:
        """Some of these rows; all of them in their order are not copied."""
        if len(rows) == len(self) and bool((rows[1:] > rows[:-1]).all()):
            return replace(self, name=name)
        return self._cut(name, rows)

    def cut(self, rows: slice) -> Events:
        """Neighbouring rows of it."""
        return self._cut(self.name, rows)

    def _cut(self, name: str, rows: Ints | slice) -> Events:
        return Events(
            name,
            self.rows[rows],
            self.frame[rows],
            None if self.forecasts is None else self.forecasts[rows],
            None if self.outcomes is None else self.outcomes[rows],
        )

    @property
    def scored_rows(self) -> Ints | None:
        """Those that are scored, if there are many; None: all."""
        return scored_rows(len(self), self.frame.width)


Map = Callable[[Events], Floats]
Maps = dict[str, Map]
"""By name; the first is of the forecasts as they came."""


@dataclass(frozen=True, eq=False)
class EventJob:
    """The rows of FILE to fit, and the others: a test part, or a new file that may have no outcomes."""

    file: str
    fit: Events
    other: Events
    remarks: list[str]

    @property
    def is_large(self) -> bool:
        """Whether rows are written in chunks, and only some of them are scored."""
        return any(part.scored_rows is not None for part in (self.fit, self.other))

    @cached_property
    def labelled(self) -> list[Events]:
        """The parts with outcomes; of large ones a sample."""
        parts = [part for part in (self.fit, self.other) if part.outcomes is not None]
        sampled = [(part, part.scored_rows) for part in parts]
        return [part if rows is None else part.take(part.name, rows) for part, rows in sampled]

    def mapped(self, maps: Maps) -> dict[str, dict[str, Floats]]:
        """The forecasts of what is scored, by part and by map."""
        return {part.name: {name: of(part) for name, of in maps.items()} for part in self.labelled}

    def with_isotonic(self, maps: Maps) -> Maps:
        """Beside the usual recalibration of one event, unless it would have to sort many rows."""
        return maps if self.is_large else {**maps, "isotonic": isotonic_map(self.fit)}

    def report(
        self,
        method: str,
        maps: Maps,
        mapped: dict[str, dict[str, Floats]],
        own: Callable[[Events, str], Scores],
        remarks: list[str],
        **rest: Any,
    ) -> Report:
        """A report on mapped[part][name], forecasts before (the first name) and after the maps.

        The method's own measures come first, then the usual ones; `rest` is as in `Report`.
        """
        scores: dict[str, dict[str, Scores]] = {}
        for part in self.labelled:
            for name, forecasts in mapped[part.name].items():
                usual = dict(zip(EVENT_MEASURES, event_scores(forecasts, part.settled), strict=True))
                scores.setdefault(part.name, {})[name] = {**own(part, name), **usual}
        before, after = next(iter(maps.values())), maps[method]

        def written(rows: slice) -> pl.DataFrame:
            part = self.other.cut(rows)
            return written_rows(part, before(part), after(part))

        if self.is_large:
            remarks = [*remarks, f"scores are of {SCORED:,} random rows of a part; isotonic is left out"]
        return Report(
            method=method,
            file=self.file,
            n_rows={part.name: len(part) for part in (self.fit, self.other)},
            lines=measure_lines(scores),
            probabilities=rows_to_write(len(self.other), self.is_large, written),
            warnings=[*self.remarks, *remarks],
            **rest,
        )


def read_events(
    path: Path, outcome: str | None, forecast: str | None, further: Sequence[str] | None
) -> Events:
    """All rows of a CSV, JSON Lines or Parquet file; ValueError names a missing or bad column.

    Of a large file only these two columns and the further ones are read, or all those of numbers.
    """
    needed = [name for name in (forecast, outcome) if name is not None]
    frame = large_columns(path, [] if further is None else [*needed, *further])
    if frame is None:
        frame = read_frame(path)
    check_columns(frame.columns, needed, path)
    return Events(
        path.name,
        np.arange(frame.height),
        frame,
        None if forecast is None else forecast_column(frame[forecast], path),
        None if outcome is None else outcome_column(frame[outcome], path),
    )


def read_job(file: Path, columns: EventColumns, rows: Rows, further: Sequence[str] | None) -> EventJob:
    """Read FILE and split it, or read it and the new file; columns as of `read_events`."""
    everything, remarks = read_settled(file, columns, further)
    fit, test = fitted_rows(len(everything), rows, file)
    other = everything.take("test", test) if rows.apply is None else read_new(rows.apply, columns, further)
    return EventJob(file.name, everything.take("fit", fit), other, remarks)


def read_settled(
    file: Path, columns: EventColumns, further: Sequence[str] | None
) -> tuple[Events, list[str]]:
    """All rows of FILE, and what looks wrong in their outcomes."""
    outcome, forecast = columns.outcome, columns.forecast
    if outcome is None:
        raise ValueError("--outcome is needed, the column of outcomes")
    events = read_events(file, outcome, forecast, further)
    return events, outcome_remarks(events.settled, events.forecasts, outcome, forecast or "")


def read_new(path: Path, columns: EventColumns, further: Sequence[str] | None) -> Events:
    """The rows of a new file, which may have no outcomes."""
    known = columns.outcome in read_names(path)
    new = read_events(path, columns.outcome if known else None, columns.forecast, further)
    return new.take("apply", new.rows)


def written_rows(part: Events, before: Floats, after: Floats) -> pl.DataFrame:
    """Row number, old and new forecast, and the outcome, if any, of every row of a part."""
    written: dict[str, Any] = {"row": part.rows, "before": before, "after": after}
    if part.outcomes is not None:
        written["outcome"] = part.outcomes
    return pl.DataFrame(written)


def isotonic_map(fit: Events) -> Map:
    """The usual recalibration of one event, to compare with."""
    from sklearn.isotonic import IsotonicRegression

    curve = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
    curve.fit(fit.told, fit.settled)
    return lambda part: np.asarray(curve.predict(part.told))


def column(frame: pl.DataFrame, name: str) -> pl.Series:
    """A column; ValueError lists those there are."""
    check_columns(frame.columns, [name])
    return frame[name]


def numbers(frame: pl.DataFrame, name: str) -> Floats:
    """A column as float64; texts true and false are numbers too, missing values NaN."""
    values = column(frame, name)
    if values.dtype == pl.String and set(values.drop_nulls().str.to_lowercase()) <= {"true", "false"}:
        values = values.str.to_lowercase() == "true"
    if not is_numbers(values.dtype):
        raise ValueError(f"column {name!r} must hold numbers, got {values.drop_nulls()[0]!r}")
    return values.cast(pl.Float64).fill_null(np.nan).to_numpy()
