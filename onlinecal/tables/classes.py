"""Reads files as tables of class probabilities with labels, or as forecasts and outcomes of one event.

A `File` holds all columns as they are; a `Part` holds checked numbers of some of its rows. Neither ever
changes: `take` gives a new part, and `with_maps` a table to be written, whose names of columns users read.
What always holds of a part: all that it has belongs to the rows in `rows`, in their order; and the order of
`classes` is that of the columns of its table, by which labels are numbered. Usual names
(PROBABILITY_PATTERNS) are tried in their order, so to move one changes which columns are read.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.tables.columns import check_labels, check_probability_rows
from onlinecal.tables.files import called, check_columns, check_file, read_frame, readable
from onlinecal.tables.names import LABEL_NAMES, usual
from onlinecal.tables.numbers import is_gap, numbers_of
from onlinecal.tables.rounds import comma_hint, forecast_column, outcome_column
from onlinecal.texts import cut, shown

PROBABILITY_PATTERNS = ("p_*", "prob_*", "probability_*", "proba_*")
"""Usual names of columns of class probabilities, as patterns, tried in this order."""


@dataclass(frozen=True, eq=False)
class Part:
    """Some rows of a file.

    Attributes
    ----------
    name
        The name of the file, or what the rows are for: fit, test or apply.
    rows
        The numbers of the rows in the file, shape (n,).
    probabilities
        Probabilities of classes, shape (n, k), with sum 1 in each row. Of one event: forecasts, shape (n,),
        or an empty table, shape (n, 0), if the file has no forecasts.
    labels
        Class numbers, or outcomes of the event, shape (n,); None where the file has none.
    classes
        The k names of the classes, in the order of the columns; empty if there is one event.
    frame
        The other columns of the file; of one event all columns.
    """

    name: str
    rows: Ints
    probabilities: Floats
    labels: NDArray[Any] | None
    classes: tuple[str, ...] = ()
    frame: pl.DataFrame = field(default_factory=pl.DataFrame)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def settled(self) -> NDArray[Any]:
        """The labels of a part that has some."""
        assert self.labels is not None
        return self.labels

    def take(self, name: str, rows: Ints) -> Part:
        """Some of these rows."""
        labels = None if self.labels is None else self.labels[rows]
        frame = self.frame[rows] if self.frame.width else self.frame
        return Part(name, self.rows[rows], self.probabilities[rows], labels, self.classes, frame)

    def with_maps(self, before: Floats, after: Floats) -> pl.DataFrame:
        """Row number, old and new probabilities, and the label, if any, of every row."""
        columns: dict[str, Any] = {"row": self.rows}
        for kind, table in (("before", before), ("after", after)):
            named = {f"{kind}_{name}": table[:, number] for number, name in enumerate(self.classes)}
            columns |= named or {kind: table}
        if self.labels is not None and self.classes:
            columns["label"] = [self.classes[number] for number in self.labels]
        elif self.labels is not None:
            columns["outcome"] = self.labels
        return pl.DataFrame(columns)


@dataclass(frozen=True, eq=False)
class File:
    """All columns of a file, and which of them are class probabilities.

    `probabilities` holds their names, with commas between them, or a pattern; None: not said.
    """

    path: Path
    frame: pl.DataFrame
    probabilities: str | None = None

    @classmethod
    def read(cls, path: Path, probabilities: str | None = None) -> File:
        """Read a file once; beside a table of an NPZ file, arrays with a value for each of its rows."""
        if path.suffix.lower() != ".npz":
            return cls(path, read_frame(path), probabilities)
        check_file(path)
        with readable(path, "npz"), np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
        table = probabilities or next((name for name, array in arrays.items() if array.ndim == 2), None)
        if table is None:
            return cls(path, read_frame(path))
        check_columns(arrays, [table], path)
        rows = check_probability_rows(arrays.pop(table), table)
        columns = {f"{table}_{number}": column for number, column in enumerate(rows.T)}
        columns |= {name: array.ravel() for name, array in arrays.items() if array.size == len(rows)}
        return cls(path, pl.DataFrame(columns), f"{table}_*")

    @property
    def has_classes(self) -> bool:
        """Whether there is a table of probabilities, or several columns with their usual names."""
        names = self.frame.columns
        return bool(self.probabilities) or any(
            len(fnmatch.filter(names, pattern)) > 1 for pattern in PROBABILITY_PATTERNS
        )

    def lacks_classes(self) -> bool:
        """Whether nothing was said of the columns of probabilities, and none has a usual name."""
        names = self.frame.columns
        return self.probabilities is None and not any(
            fnmatch.filter(names, pattern) for pattern in PROBABILITY_PATTERNS
        )

    def classes(self, label: str | None) -> Part:
        """The rows as class probabilities, with the labels in this column or one with a usual name, if any.

        Raises ValueError for columns that are not there, and for values that are no probabilities or labels.
        """
        names, classes = _class_columns(self, label)
        label = label or usual([name for name in self.frame.columns if name not in names], LABEL_NAMES)
        check_columns(self.frame.columns, [*names, *filter(None, [label])], called(self.path))
        try:
            values = np.column_stack([numbers(self.frame[name]) for name in names])
            if len(names) == 1:
                values, classes = np.column_stack([1.0 - values[:, 0], values[:, 0]]), ("0", "1")
            table = check_probability_rows(values, ", ".join(names))
            labels = None if label is None else _numbered(self.frame[label], classes)
        except ValueError as error:
            raise ValueError(f"{self.path}: {error}") from error
        return Part(self.path.name, np.arange(len(table)), table, labels, classes, self.frame.drop(names))

    def events(self, outcome: str | None, forecast: str | None) -> Part:
        """The rows as forecasts of one event and its outcomes; ValueError names a column that is bad."""
        frame, path = self.frame, self.path
        check_columns(frame.columns, filter(None, (forecast, outcome)), called(path))
        forecasts = (
            np.empty((frame.height, 0)) if forecast is None else forecast_column(frame[forecast], path)
        )
        outcomes = None if outcome is None else outcome_column(frame[outcome], path)
        return Part(path.name, np.arange(frame.height), forecasts, outcomes, frame=frame)


def read_table(path: Path, probabilities: str | None = None, label: str | None = None) -> Part:
    """Read a table of class probabilities.

    Parameters
    ----------
    path
        A CSV, JSON Lines, Parquet or NPZ file.
    probabilities
        For an NPZ file the name of an array (n, k). For other files the columns, in the order of the classes:
        names with commas between them, or a pattern such as "p_*". The part of a name that stands for the
        star is the name of the class. A single column is the probability of label 1. None: the first
        two-dimensional array of an NPZ file; in other files columns called p_..., prob_... and so on.
    label
        The array or column of labels: class names or class numbers. None: a column that is called label, y,
        ground_truth and so on; if there is none the table has no labels.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file, array or column, or values are no probabilities or labels.
    """
    return File.read(path, probabilities).classes(label)


def _class_columns(file: File, label: str | None) -> tuple[list[str], tuple[str, ...]]:
    """The columns of probabilities, and the names of their classes: the columns' without the common stem."""
    wanted = file.probabilities
    if wanted is not None and "*" not in wanted:
        names = [name.strip() for name in wanted.split(",")]
        stem = names[0].rfind("_") + 1
        if not all(name.startswith(names[0][:stem]) for name in names):
            stem = 0
        return names, tuple(name[stem:] for name in names)
    patterns = PROBABILITY_PATTERNS if wanted is None else (wanted,)
    for pattern in patterns:
        names = [name for name in fnmatch.filter(file.frame.columns, pattern) if name != label]
        if names:
            stem = len(pattern.partition("*")[0])
            return names, tuple(name[stem:] for name in names)
    what = f"has no columns like {' or '.join(patterns)}; name them with --probabilities"
    raise ValueError(f"{file.path} {what}. Its columns: {cut(', '.join(file.frame.columns))}")


def _numbered(labels: pl.Series, classes: tuple[str, ...]) -> Ints:
    """Labels as class numbers: found by the names of the classes, else taken as class numbers themselves."""
    values = labels.unique(maintain_order=True).to_list()
    numbers = {value: classes.index(name) for value in values if (name := _written(value)) in classes}
    if len(numbers) == len(values):
        return labels.replace_strict(numbers, return_dtype=pl.Int64).to_numpy()
    if labels.dtype.is_numeric():
        return check_labels(labels.to_numpy(), len(classes), labels.name)
    value = next(value for value in values if value not in numbers)
    row = labels.to_list().index(value)
    known = cut(", ".join(classes))
    raise ValueError(f"column {labels.name!r} must hold the classes {known}, got {shown(value)} at row {row}")


def _written(value: Any) -> str:
    is_whole = isinstance(value, bool) or (isinstance(value, float) and value.is_integer())
    return str(int(value)) if is_whole else str(value)


def numbers(column: pl.Series) -> Floats:
    """A column as float64, also of numbers written as texts; missing ones are NaN."""
    values = numbers_of(column)
    for row in np.flatnonzero(np.isnan(values)).tolist():
        if not is_gap(column[row]):
            value = column[row]
            rule = f"column {column.name!r} must hold numbers, got {shown(value)} at row {row}"
            raise ValueError(rule + (comma_hint(value) or ": name columns of numbers"))
    return values


def column(frame: pl.DataFrame, name: str, owner: str = "the table") -> pl.Series:
    """A column; ValueError lists those that `owner` has."""
    check_columns(frame.columns, [name], owner)
    return frame[name]
