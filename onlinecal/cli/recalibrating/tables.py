"""Tables of class probabilities and labels, from CSV, JSON Lines, Parquet or NPZ files; what a file is."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints, sampled_rows
from onlinecal.catalogue import did_you_mean
from onlinecal.cli.recalibrating.options import Settings
from onlinecal.recalibration.probability_recalibrator import number_labels
from onlinecal.tables import (
    Source,
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
class Chunks:
    """A table to write that is made chunk by chunk: its rows, and what makes those of a slice."""

    n_rows: int
    make: Callable[[slice], pl.DataFrame]

    def __iter__(self) -> Iterator[pl.DataFrame]:
        for start in range(0, self.n_rows, CHUNK):
            yield self.make(slice(start, min(start + CHUNK, self.n_rows)))


def write_chunks(chunks: Chunks, path: Path) -> Path:
    """Write a Parquet file that appears when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    failed: list[BaseException] = []

    def made(columns: list[str] | None, *_: Any) -> Iterator[pl.DataFrame]:
        try:
            for chunk in chunks:
                yield chunk if columns is None else chunk.select(columns)
        except BaseException as error:
            # polars ends the file in its own time if it is handed this
            failed.append(error)

    schema = chunks.make(slice(0, 1)).schema
    with whole(path) as part:
        pl.io.plugins.register_io_source(made, schema=schema).sink_parquet(part)
        if failed:
            raise failed[0]
    return path


def read_numbers(
    source: Source, names: list[str], further: Iterable[str] = ()
) -> tuple[NDArray[np.floating], pl.DataFrame]:
    """Columns of numbers as one array (n, k), read chunk by chunk, and further columns.

    The array is of float32 if all columns are that, else float64; what is missing is NaN. ValueError names
    the first value that is no number; others as of `read_frame`.
    """
    more = list(dict.fromkeys(further))
    with readable(source.path, source.form):
        frame = source.scan([*names, *more])
        n_rows = int(frame.select(pl.len()).collect().item())
        if not n_rows:
            raise ValueError(f"{called(source.path)} holds no rounds")
        single = {frame.collect_schema()[name] for name in names} == {pl.Float32}
        table = np.empty((n_rows, len(names)), np.float32 if single else np.float64)
        kept, start = [], 0
        for part in frame.collect_batches(chunk_size=CHUNK):
            for place, name in enumerate(names):
                values = part[name].cast(pl.Float64, strict=False)
                wrong = values.is_null() & part[name].is_not_null()
                if wrong.any():
                    row = int(wrong.arg_max() or 0)
                    raise ValueError(
                        f"{called(source.path)}: column {name!r} must be numbers, got {part[name][row]!r} at "
                        f"row {start + row}"
                    )
                table[start : start + part.height, place] = values.fill_null(np.nan).to_numpy()
            kept.append(part.select(more))
            start += part.height
    return table, pl.concat(kept)


def is_numbers(kind: pl.DataType) -> bool:
    """Whether a column of this type can be taken for numbers."""
    return kind.is_numeric() or kind == pl.Boolean


USUAL_PROBABILITIES = ("p_*", "prob_*", "probability_*", "proba_*")
"""Names that columns of class probabilities have in most files; tried in this order."""


@dataclass(frozen=True, eq=False)
class Part:
    """Some rows: their numbers in the file, probabilities (n, k), labels or None.

    Or the forecasts (n,) of one event, if any, outcomes or None, and all columns of the file.
    """

    name: str
    rows: Ints
    table: Floats | None
    labels: NDArray[Any] | None
    frame: pl.DataFrame = field(default_factory=pl.DataFrame)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def told(self) -> Floats:
        """The probabilities, where there are some."""
        assert self.table is not None
        return self.table

    @property
    def settled(self) -> NDArray[Any]:
        """The labels, where there are some."""
        assert self.labels is not None
        return self.labels

    def take(self, name: str, rows: Ints) -> Part:
        """Some of these rows; all of them in their order are not copied."""
        if len(rows) == len(self) and bool((rows[1:] > rows[:-1]).all()):
            return replace(self, name=name)
        return self._cut(name, rows)

    def cut(self, rows: slice) -> Part:
        """Neighbouring rows of it."""
        return self._cut(self.name, rows)

    def _cut(self, name: str, rows: Ints | slice) -> Part:
        return Part(
            name,
            self.rows[rows],
            None if self.table is None else self.table[rows],
            None if self.labels is None else self.labels[rows],
            self.frame[rows] if self.frame.width else self.frame,
        )

    @property
    def scored_rows(self) -> Ints | None:
        """Those that are scored, if there are many numbers; None: all."""
        width = self.frame.width or self.told.shape[1]
        if len(self) * width <= LARGE or len(self) <= SCORED:
            return None
        return np.unique(sampled_rows(len(self), SCORED))


@dataclass(frozen=True, eq=False)
class Table:
    """n predictions over k classes.

    Attributes
    ----------
    name
        The file's name.
    probabilities
        Shape (n, k), rows with sum 1.
    labels
        Class numbers, shape (n,); None where the file has no labels.
    classes
        What the classes are called, k names in the order of the columns.
    """

    name: str
    probabilities: Floats
    labels: NDArray[np.int64] | None
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.probabilities)

    def part(self, name: str) -> Part:
        """All of it as a part of this name."""
        return Part(name, np.arange(len(self)), self.probabilities, self.labels)


def read_table(path: Path, probabilities: str | None = None, label: str | None = None) -> Table:
    """Read a table of predictions.

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
    try:
        if path.suffix.lower() == ".npz":
            return _from_arrays(path, probabilities, label)
        return _from_columns(path, probabilities, label)
    except ValueError as error:
        text = str(error)
        raise ValueError(text if str(path) in text else f"{path}: {text}") from error


def _from_arrays(path: Path, probabilities: str | None, label: str | None) -> Table:
    with readable(path, "npz"), np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
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
    return Table(path.name, table, labels, classes)


def _array_labels(labels: NDArray[Any], n_classes: int, name: str) -> NDArray[np.int64]:
    if labels.ndim != 2 or 1 in labels.shape:
        return check_labels(labels, n_classes, name)
    try:
        return number_labels(labels, n_classes, None)[0]
    except ValueError as error:
        raise ValueError(str(error).replace("y must", f"{name!r} must", 1)) from error


def _from_columns(path: Path, probabilities: str | None, label: str | None) -> Table:
    source = open_source(path)
    further = () if label is None else (label,)
    check_columns(source.names, further, called(path))
    names, classes = _class_columns(list(source.names), probabilities, label, path)
    values, frame = read_numbers(source, names, further)
    return _table_of(path, names, classes, values, None if label is None else frame[label])


def _table_of(
    path: Path,
    names: list[str],
    classes: tuple[str, ...],
    values: NDArray[np.floating],
    labels: pl.Series | None,
) -> Table:
    """The table of these columns; one alone is the probability of label 1."""
    if len(names) == 1:
        values, classes = np.column_stack([1.0 - values[:, 0], values[:, 0]]), ("0", "1")
    table = check_probability_rows(values, ", ".join(names), keep_single=True)
    return Table(path.name, table, None if labels is None else _numbered(labels, classes), classes)


def read_names(path: Path) -> list[str]:
    """The names of a file's columns or arrays."""
    if path.suffix.lower() != ".npz":
        return read_columns(path)
    check_file(path)
    with readable(path, "npz"), np.load(path, allow_pickle=False) as arrays:
        return list(arrays.files)


def _class_columns(
    columns: list[str], wanted: str | None, label: str | None, path: Path
) -> tuple[list[str], tuple[str, ...]]:
    if wanted is not None and "*" not in wanted:
        names = [name.strip() for name in wanted.split(",")]
        check_columns(columns, names, path)
        return names, _without_stem(names)
    for pattern in USUAL_PROBABILITIES if wanted is None else (wanted,):
        names = [name for name in columns if fnmatch.fnmatchcase(name, pattern) and name != label]
        if names:
            stem = len(pattern.partition("*")[0])
            return names, tuple(name[stem:] for name in names)
    what = f"no columns like {wanted}" if wanted else f"no columns like {' or '.join(USUAL_PROBABILITIES)}"
    raise ValueError(f"has {what}; name them with --probabilities. Its columns: {', '.join(columns)}")


def _without_stem(names: list[str]) -> tuple[str, ...]:
    """The names without what they all begin with, up to the last underscore in it."""
    stem = 0
    if len(names) > 1:
        while all(len(name) > stem and name[stem] == names[0][stem] for name in names):
            stem += 1
        stem = names[0].rfind("_", 0, stem) + 1
    return tuple(name[stem:] for name in names)


def _numbered(labels: pl.Series, classes: tuple[str, ...]) -> NDArray[np.int64]:
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
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


LABELS = ("label", "labels", "y", "y_true", "target", "class", "truth", "ground_truth", "outcome")
FORECASTS = ("forecast", "p", "prob", "prob1", "probability", "prediction", "hint", "risk")
OUTCOMES = (
    "outcome",
    "y",
    "label",
    "y_true",
    "target",
    "event",
    "result",
    "won",
    "home_won",
    "prob1_outcome",
)
"""Names that such columns have in most files; tried in this order, in any case."""


def recognise(file: Path, settings: Settings) -> tuple[bool, Settings]:
    """Whether the file is a table of class probabilities (else a column of forecasts), all columns named.

    Raises ValueError for options of both kinds, and for columns that are not found.
    """
    if is_pipe(file):
        raise ValueError(f"{called(file)} is read several times here; name a file, or a method")
    classes = {"--probabilities": settings.probabilities, "--label": settings.label}
    event = {
        "--forecast": settings.forecast,
        "--outcome": settings.outcome,
        "--features": settings.features,
    }
    named = [[name for name, value in kind.items() if value is not None] for kind in (classes, event)]
    if all(named):
        raise ValueError(
            f"{named[0][0]} and {named[1][0]} exclude each other: the one is for a table of class "
            "probabilities, the other for forecasts of one event"
        )
    names = read_names(file)
    if named[0] or (not named[1] and has_class_columns(file, names)):
        label = settings.label
        if label is None and file.suffix.lower() != ".npz":
            label = usual(names, LABELS)
        return True, replace(settings, label=label)
    forecast, outcome = event_columns(file, settings.forecast, settings.outcome)
    if forecast is None or outcome is None:
        missing = "forecasts (--forecast)" if forecast is None else "outcomes (--outcome)"
        other = "" if any(named) else "; class probabilities are named with --probabilities and --label"
        raise ValueError(
            f"{file}: cannot tell which column has the {missing}{other}. Its columns: {', '.join(names)}"
        )
    return False, replace(settings, forecast=forecast, outcome=outcome)


def event_columns(file: Path, forecast: str | None, outcome: str | None) -> tuple[str | None, str | None]:
    """The columns of forecasts and of outcomes, by their usual names where none is given; None: not found."""
    if is_pipe(file) or (forecast is not None and outcome is not None):
        return forecast, outcome
    names = read_names(file)
    forecast = forecast or usual(names, FORECASTS)
    return forecast, outcome or usual(names, tuple(one for one in OUTCOMES if one != forecast))


def has_class_columns(file: Path, names: list[str]) -> bool:
    """Whether there is a table of probabilities in an NPZ file, or several columns with their usual names."""
    if file.suffix.lower() == ".npz":
        with readable(file, "npz"), np.load(file, allow_pickle=False) as arrays:
            return any(arrays[name].ndim == 2 for name in arrays.files)
    return any(
        sum(fnmatch.fnmatchcase(name, pattern) for name in names) > 1 for pattern in USUAL_PROBABILITIES
    )


def usual(names: list[str], known: tuple[str, ...]) -> str | None:
    """The first of the known names that a column has, as the file writes it."""
    by_name = {name.strip().lower(): name for name in reversed(names)}
    return next((by_name[name] for name in known if name in by_name), None)
