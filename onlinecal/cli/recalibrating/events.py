"""What the methods for one event share: columns of a file, parts, scores, the report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from onlinecal.cli.recalibrating.options import EventColumns, Rows
from onlinecal.cli.recalibrating.parts import fitted_rows
from onlinecal.cli.recalibrating.report import Report, Scores, measure_lines
from onlinecal.columns import forecast_column, outcome_column
from onlinecal.measures.scores import BINS, event_scores
from onlinecal.remarks import outcome_remarks
from onlinecal.tables import check_columns, read_columns, read_frame

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

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
        """Some of these rows."""
        return Events(
            name,
            rows,
            self.frame[rows],
            None if self.forecasts is None else self.forecasts[rows],
            None if self.outcomes is None else self.outcomes[rows],
        )


@dataclass(frozen=True, eq=False)
class EventJob:
    """The rows of FILE to fit, and the others: a test part, or a new file that may have no outcomes."""

    file: str
    fit: Events
    other: Events
    remarks: list[str]

    @property
    def parts(self) -> tuple[Events, Events]:
        """Both."""
        return self.fit, self.other

    @property
    def labelled(self) -> list[Events]:
        """Those with outcomes."""
        return [part for part in self.parts if part.outcomes is not None]

    def report(
        self,
        method: str,
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
        before = next(iter(mapped[self.other.name].values()))
        after = mapped[self.other.name][method]
        return Report(
            method=method,
            file=self.file,
            n_rows={part.name: len(part) for part in self.parts},
            lines=measure_lines(scores),
            probabilities=written_rows(self.other, before, after),
            warnings=[*self.remarks, *remarks],
            **rest,
        )


def read_events(path: Path, outcome: str | None, forecast: str | None) -> Events:
    """All rows of a CSV, JSON Lines or Parquet file; ValueError names a missing or bad column."""
    frame = read_frame(path)
    check_columns(frame.columns, [name for name in (forecast, outcome) if name is not None], path)
    return Events(
        path.name,
        np.arange(frame.height),
        frame,
        None if forecast is None else forecast_column(frame[forecast], path),
        None if outcome is None else outcome_column(frame[outcome], path),
    )


def read_job(file: Path, columns: EventColumns, rows: Rows) -> EventJob:
    """Read FILE and split it, or read it and the new file."""
    everything, remarks = read_settled(file, columns)
    fit, test = fitted_rows(len(everything), rows, file)
    other = everything.take("test", test) if rows.apply is None else read_new(rows.apply, columns)
    return EventJob(file.name, everything.take("fit", fit), other, remarks)


def read_settled(file: Path, columns: EventColumns) -> tuple[Events, list[str]]:
    """All rows of FILE, and what looks wrong in their outcomes."""
    outcome, forecast = columns.outcome, columns.forecast
    if outcome is None:
        raise ValueError("--outcome is needed, the column of outcomes")
    events = read_events(file, outcome, forecast)
    return events, outcome_remarks(events.settled, events.forecasts, outcome, forecast or "")


def read_new(path: Path, columns: EventColumns) -> Events:
    """The rows of a new file, which may have no outcomes."""
    known = columns.outcome in read_columns(path)
    new = read_events(path, columns.outcome if known else None, columns.forecast)
    return new.take("apply", new.rows)


def written_rows(part: Events, before: Floats, after: Floats) -> pl.DataFrame:
    """Row number, old and new forecast, and the outcome, if any, of every row of a part."""
    written: dict[str, Any] = {"row": part.rows, "before": before, "after": after}
    if part.outcomes is not None:
        written["outcome"] = part.outcomes
    return pl.DataFrame(written)


def isotonic_map(fit: Events) -> Callable[[Floats], Floats]:
    """The usual recalibration of one event, to compare with."""
    from sklearn.isotonic import IsotonicRegression

    curve = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
    predict: Callable[[Floats], Floats] = curve.fit(fit.told, fit.settled).predict
    return predict


def column(frame: pl.DataFrame, name: str) -> pl.Series:
    """A column; ValueError lists those there are."""
    check_columns(frame.columns, [name])
    return frame[name]


def numbers(frame: pl.DataFrame, name: str) -> Floats:
    """A column as float64; texts true and false are numbers too, missing values NaN."""
    values = column(frame, name)
    if values.dtype == pl.String and set(values.drop_nulls().str.to_lowercase()) <= {"true", "false"}:
        values = values.str.to_lowercase() == "true"
    if not (values.dtype.is_numeric() or values.dtype == pl.Boolean):
        raise ValueError(f"column {name!r} must hold numbers, got {values.drop_nulls()[0]!r}")
    return values.cast(pl.Float64).fill_null(np.nan).to_numpy()
