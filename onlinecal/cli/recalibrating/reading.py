"""Probabilities and what came, from files: of classes with labels, or of one event; and rows to write."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints, sampled_rows
from onlinecal.catalogue import did_you_mean
from onlinecal.cli.columns import LABELS, event_columns, usual
from onlinecal.cli.recalibrating.asked import Asked
from onlinecal.recalibration.probability_recalibrator import number_labels
from onlinecal.remarks import label_remarks, outcome_remarks
from onlinecal.rounds import forecast_column, outcome_column
from onlinecal.tables import (
    called,
    check_columns,
    check_file,
    is_pipe,
    open_source,
    read_columns,
    readable,
    whole,
)
from onlinecal.validation import check_labels, check_probability_rows

LARGE = 20_000_000
"""Numbers of a part of which only some rows are scored: 160 MB of doubles."""
CHUNK = 1 << 18
"""Rows of a chunk, in which tables are read and written."""
SCORED = 200_000
"""Rows of a large part, drawn at random, that scores are of."""


@dataclass(frozen=True, eq=False)
class Part:
    """Some rows of a file.

    Attributes
    ----------
    name
        The file's, or what its rows are for: fit, test or apply.
    rows
        Their numbers in the file, shape (n,).
    probabilities
        Of classes, shape (n, k), rows with sum 1; or forecasts of one event, shape (n,), without any (n, 0).
    labels
        Class numbers, or outcomes of the event, shape (n,); None where the file has none.
    classes
        What the classes are called, k names in the order of the columns; of one event none.
    frame
        The columns of the file that were read besides.
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
        """The labels, where there are some."""
        assert self.labels is not None
        return self.labels

    def take(self, name: str, rows: Ints | slice) -> Part:
        """Some of these rows; all of them in their order are not copied."""
        if not isinstance(rows, slice) and len(rows) == len(self) and bool((rows[1:] > rows[:-1]).all()):
            return replace(self, name=name)
        labels = None if self.labels is None else self.labels[rows]
        frame = self.frame[rows] if self.frame.width else self.frame
        return Part(name, self.rows[rows], self.probabilities[rows], labels, self.classes, frame)

    @property
    def is_large(self) -> bool:
        """Whether it has so many numbers that only some rows are scored."""
        width = self.frame.width or self.probabilities.shape[1]
        return len(self) > SCORED and len(self) * width > LARGE

    @property
    def scored(self) -> Part:
        """The rows that are scored."""
        if not self.is_large:
            return self
        return self.take(self.name, np.unique(sampled_rows(len(self), SCORED)))

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
class Chunks:
    """A table to write that is made chunk by chunk: its rows, and what makes those of a slice."""

    n_rows: int
    make: Callable[[slice], pl.DataFrame]

    def __iter__(self) -> Iterator[pl.DataFrame]:
        for start in range(0, self.n_rows, CHUNK):
            yield self.make(slice(start, min(start + CHUNK, self.n_rows)))

    def write(self, path: Path) -> Path:
        """Write a Parquet file that appears when it is complete."""
        failed: list[BaseException] = []

        def made(columns: list[str] | None, *_: Any) -> Iterator[pl.DataFrame]:
            try:
                for chunk in self:
                    yield chunk if columns is None else chunk.select(columns)
            except BaseException as error:
                # polars ends the file in its own time if it is handed this
                failed.append(error)

        schema = self.make(slice(0, 1)).schema
        with whole(path) as part:
            pl.io.plugins.register_io_source(made, schema=schema).sink_parquet(part)
            if failed:
                raise failed[0]
        return path


PROBABILITIES = ("p_*", "prob_*", "probability_*", "proba_*")
"""Names that columns of classes have in most files, tried in this order."""


def read_names(path: Path) -> list[str]:
    """The names of a file's columns or arrays."""
    return list(_arrays(path, False)) if path.suffix.lower() == ".npz" else read_columns(path)


def _arrays(path: Path, values: bool = True) -> dict[str, Any]:
    """The arrays of an NPZ file, or only their names."""
    check_file(path)
    with readable(path, "npz"), np.load(path, allow_pickle=False) as file:
        return {name: file[name] if values else None for name in file.files}


def recognise(asked: Asked) -> tuple[bool, Asked]:
    """Whether the file is a table of class probabilities (else a column of forecasts), all columns named.

    Raises ValueError for options of both kinds, and for columns that are not found.
    """
    file = asked.file
    if is_pipe(file):
        raise ValueError(f"{called(file)} is read several times here; name a file, or a method")
    kinds = ("probabilities", "label"), ("forecast", "outcome", "features")
    named = [[f"--{name}" for name in kind if getattr(asked, name) is not None] for kind in kinds]
    if all(named):
        raise ValueError(
            f"{named[0][0]} and {named[1][0]} exclude each other: the one is for a table of class "
            "probabilities, the other for forecasts of one event"
        )
    names = read_names(file)
    if named[0] or (not named[1] and _has_class_columns(file, names)):
        return True, with_label(asked)
    else_ = "" if any(named) else ", or class probabilities with --probabilities and --label"
    forecast, outcome = event_columns(file, asked.forecast, asked.outcome, else_)
    return False, replace(asked, forecast=forecast, outcome=outcome)


def _has_class_columns(file: Path, names: list[str]) -> bool:
    """Whether there is a table of probabilities in an NPZ file, or several columns with their usual names."""
    if file.suffix.lower() == ".npz":
        return any(array.ndim == 2 for array in _arrays(file).values())
    return any(len(fnmatch.filter(names, pattern)) > 1 for pattern in PROBABILITIES)


def with_label(asked: Asked) -> Asked:
    """The same with a column of labels, the one with a usual name if none is named."""
    if asked.label is not None or is_pipe(asked.file) or asked.file.suffix.lower() == ".npz":
        return asked
    taken = (asked.probabilities or "").split(",")
    names = [name for name in read_names(asked.file) if name not in taken]
    return replace(asked, label=usual(names, LABELS))


def read_known(asked: Asked, of_classes: bool, further: Sequence[str] | None = ()) -> tuple[Part, list[str]]:
    """All rows of the file, with labels, and what looks wrong in these; `further` as of `read_events`."""
    file, label = asked.file, asked.label
    if of_classes:
        table = read_table(file, asked.probabilities, label)
        if table.labels is None:
            found = None if is_pipe(file) else usual(read_names(file), LABELS)
            guess = "" if found is None else f", perhaps --label {found}"
            raise ValueError(f"{file} has no labels to fit to: name their column with --label{guess}")
        if len(table.classes) < 2:
            raise ValueError(f"{file} has one class only")
        return table, label_remarks(table.probabilities, table.labels, table.classes, label or "the labels")
    if asked.outcome is None:
        raise ValueError("--outcome is needed, the column of outcomes")
    events = read_events(file, asked.outcome, asked.forecast, further)
    forecasts = None if asked.forecast is None else events.probabilities
    return events, outcome_remarks(events.settled, forecasts, asked.outcome, asked.forecast or "")


def read_new(asked: Asked, path: Path, classes: tuple[str, ...], further: Sequence[str] | None = ()) -> Part:
    """The rows of a new file, which may have no labels; it must have these classes."""
    wanted = asked.label if classes else asked.outcome
    known = None if wanted is None or wanted not in read_names(path) else wanted
    if not classes:
        return replace(read_events(path, known, asked.forecast, further), name="apply")
    new = read_table(path, asked.probabilities, known)
    if new.classes != classes:
        theirs = f"{path} has the classes {', '.join(new.classes)}"
        raise ValueError(f"{theirs}, {asked.file} has {', '.join(classes)}")
    return replace(new, name="apply")


def read_events(path: Path, outcome: str | None, forecast: str | None, further: Sequence[str] | None) -> Part:
    """These two columns of a file and further ones, or all those of numbers; ValueError names a bad one."""
    source = open_source(path)
    wanted = [name for name in (forecast, outcome) if name is not None]
    with readable(path, source.form):
        if further is None:
            schema = source.scan().collect_schema()
            further = [name for name, kind in schema.items() if is_numbers(kind)]
        frame = source.scan([*wanted, *further]).collect()
    if not frame.height:
        raise ValueError(f"{called(path)} holds no rounds")
    none = np.empty((frame.height, 0))
    forecasts = none if forecast is None else forecast_column(frame[forecast], path)
    outcomes = None if outcome is None else outcome_column(frame[outcome], path)
    return Part(path.name, np.arange(frame.height), forecasts, outcomes, frame=frame)


def read_table(path: Path, probabilities: str | None = None, label: str | None = None) -> Part:
    """Read a table of class probabilities.

    Parameters
    ----------
    path
        A CSV, JSON Lines, Parquet or NPZ file.
    probabilities
        Of NPZ files the name of an array (n, k). Of the others the columns, in the order of the classes:
        names with commas, or a pattern such as "p_*"; the part behind the pattern's stem names the class.
        A single column is the probability of label 1. None: the first two-dimensional array; columns
        that are called p_..., prob_... and so on.
    label
        The array or column of labels: class names or class numbers, an array also one-hot (n, k). None: no
        labels, except that an NPZ file's only one-dimensional array of whole numbers is taken.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file, array or column, or values are no probabilities or labels.
    """
    check_file(path)
    read = _from_arrays if path.suffix.lower() == ".npz" else _from_columns
    try:
        table, labels, classes = read(path, probabilities, label)
    except ValueError as error:
        text = str(error)
        raise ValueError(text if str(path) in text else f"{path}: {text}") from error
    return Part(path.name, np.arange(len(table)), table, labels, classes)


def _from_arrays(
    path: Path, probabilities: str | None, label: str | None
) -> tuple[Floats, Ints | None, tuple[str, ...]]:
    arrays = _arrays(path)
    if probabilities is None:
        probabilities = next((name for name, array in arrays.items() if array.ndim == 2), None)
        if probabilities is None:
            raise ValueError("has no two-dimensional array of probabilities")
    if label is None:
        flat = [name for name, array in arrays.items() if array.ndim == 1 and array.dtype.kind in "iu"]
        label = flat[0] if len(flat) == 1 else None
    for name in filter(None, (probabilities, label)):
        if name not in arrays:
            raise ValueError(f"has no array {name!r}{did_you_mean(name, arrays, 'Its arrays')}")
    table = check_probability_rows(arrays[probabilities], probabilities)
    classes = tuple(map(str, range(table.shape[1])))
    labels = None if label is None else _array_labels(arrays[label], len(classes), label)
    if labels is not None and len(labels) != len(table):
        raise ValueError(f"{label!r} has {len(labels)} labels for {len(table)} rows of {probabilities!r}")
    return table, labels, classes


def _array_labels(labels: NDArray[Any], n_classes: int, name: str) -> Ints:
    if labels.ndim != 2 or 1 in labels.shape:
        return check_labels(labels, n_classes, name)
    try:
        return number_labels(labels, n_classes, None)[0]
    except ValueError as error:
        raise ValueError(str(error).replace("y must", f"{name!r} must", 1)) from error


def _from_columns(
    path: Path, probabilities: str | None, label: str | None
) -> tuple[Floats, Ints | None, tuple[str, ...]]:
    source = open_source(path)
    check_columns(source.names, [] if label is None else [label], called(path))
    names, classes = _class_columns(list(source.names), probabilities, label, path)
    with readable(path, source.form):
        frame = source.scan([*names, *([] if label is None else [label])])
        n_rows = int(frame.select(pl.len()).collect().item())
        if not n_rows:
            raise ValueError(f"{called(path)} holds no rounds")
        # of many columns of float32 as many bytes are kept
        single = {frame.collect_schema()[name] for name in names} == {pl.Float32}
        values = np.empty((n_rows, len(names)), np.float32 if single else np.float64)
        told, start = [], 0
        for part in frame.collect_batches(chunk_size=CHUNK):
            for place, name in enumerate(names):
                values[start : start + part.height, place] = _numbers(part[name], start, path)
            if label is not None:
                told.append(part[label])
            start += part.height
    if len(names) == 1:
        values, classes = np.column_stack([1.0 - values[:, 0], values[:, 0]]), ("0", "1")
    table = check_probability_rows(values, ", ".join(names), keep_single=True)
    return table, None if label is None else _numbered(pl.concat(told), classes), classes


def _numbers(column: pl.Series, start: int, path: Path) -> Floats:
    """Values, missing ones NaN; ValueError names the first that is no number, rows counted from `start`."""
    values = column.cast(pl.Float64, strict=False)
    wrong = values.is_null() & column.is_not_null()
    if wrong.any():
        row = int(wrong.arg_max() or 0)
        got = f"got {column[row]!r} at row {start + row}"
        raise ValueError(f"{called(path)}: column {column.name!r} must be numbers, {got}")
    return values.fill_null(np.nan).to_numpy()


def _class_columns(
    columns: list[str], wanted: str | None, label: str | None, path: Path
) -> tuple[list[str], tuple[str, ...]]:
    """The columns of probabilities, and the names of their classes: without what all begin with."""
    if wanted is not None and "*" not in wanted:
        names = [name.strip() for name in wanted.split(",")]
        check_columns(columns, names, path)
        shared = [len(set(signs)) == 1 for signs in zip(*names, strict=False)]
        stem = names[0].rfind("_", 0, [*shared, False].index(False)) + 1
        return names, tuple(name[stem:] for name in names)
    patterns = PROBABILITIES if wanted is None else (wanted,)
    for pattern in patterns:
        names = [name for name in fnmatch.filter(columns, pattern) if name != label]
        if names:
            stem = len(pattern.partition("*")[0])
            return names, tuple(name[stem:] for name in names)
    what = f"has no columns like {' or '.join(patterns)}; name them with --probabilities"
    raise ValueError(f"{what}. Its columns: {', '.join(columns)}")


def _numbered(labels: pl.Series, classes: tuple[str, ...]) -> Ints:
    """Labels as class numbers: by the names of the classes, else as the numbers they are."""
    numbers = {name: number for number, name in enumerate(classes)}
    values = labels.unique().to_list()
    if all(_written(value) in numbers for value in values):
        found = [numbers[_written(value)] for value in values]
        return labels.replace_strict(values, found, return_dtype=pl.Int64).to_numpy()
    if labels.dtype.is_numeric():
        return check_labels(labels.to_numpy(), len(classes), labels.name)
    row, value = next((row, value) for row, value in enumerate(labels) if _written(value) not in numbers)
    raise ValueError(
        f"column {labels.name!r} must hold the classes {', '.join(classes)}, got {value!r} at row {row}"
    )


def _written(value: Any) -> str:
    is_whole = isinstance(value, bool) or (isinstance(value, float) and value.is_integer())
    return str(int(value)) if is_whole else str(value)


def is_numbers(kind: pl.DataType) -> bool:
    """Whether a column of this type can be taken for numbers."""
    return kind.is_numeric() or kind == pl.Boolean


def numbers(frame: pl.DataFrame, name: str) -> Floats:
    """A column as float64; texts true and false are numbers too, missing values NaN."""
    values = column(frame, name)
    if values.dtype == pl.String and set(values.drop_nulls().str.to_lowercase()) <= {"true", "false"}:
        values = values.str.to_lowercase() == "true"
    if not is_numbers(values.dtype):
        raise ValueError(f"column {name!r} must hold numbers, got {values.drop_nulls()[0]!r}")
    return values.cast(pl.Float64).fill_null(np.nan).to_numpy()


def column(frame: pl.DataFrame, name: str) -> pl.Series:
    """A column; ValueError lists those there are."""
    check_columns(frame.columns, [name])
    return frame[name]
