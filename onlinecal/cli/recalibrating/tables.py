"""Tables of class probabilities and labels, from CSV, JSON Lines, Parquet or NPZ files."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from onlinecal.catalogue import did_you_mean
from onlinecal.cli.recalibrating.large import maybe_large, read_large
from onlinecal.formats import called, check_file, readable
from onlinecal.recalibration.labels import number_labels
from onlinecal.tables import check_columns, read_columns, read_frame
from onlinecal.validation import check_labels, check_probability_rows

Floats = NDArray[np.float64]

USUAL_PROBABILITIES = ("p_*", "prob_*", "probability_*", "proba_*")
"""Names that columns of class probabilities have in most files; tried in this order."""


@dataclass(frozen=True, eq=False)
class Part:
    """Some rows: their numbers in the file, probabilities (n, k), labels or None."""

    name: str
    rows: NDArray[np.int64]
    table: Floats
    labels: NDArray[np.int64] | None

    def cut(self, rows: slice) -> Part:
        """Neighbouring rows of it."""
        return Part(
            self.name, self.rows[rows], self.table[rows], None if self.labels is None else self.labels[rows]
        )


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

    def take(self, name: str, rows: NDArray[np.int64]) -> Part:
        """Some of the rows, as a part of this name; all of them in their order are not copied."""
        if len(rows) == len(self) and bool((rows[1:] > rows[:-1]).all()):
            return Part(name, rows, self.probabilities, self.labels)
        return Part(name, rows, self.probabilities[rows], None if self.labels is None else self.labels[rows])


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
    if (unread := maybe_large(path)) is not None:
        columns = unread.collect_schema().names()
        names, classes = _class_columns(columns, probabilities, label, path)
        check_columns(columns, () if label is None else (label,), path)
        if (found := read_large(unread, names, label, path)) is not None:
            return _table_of(path, names, classes, found[0], found[1])
    frame = read_frame(path)
    check_columns(frame.columns, () if label is None else (label,), path)
    names, classes = _class_columns(frame.columns, probabilities, label, path)
    values = frame.select(pl.col(name).cast(pl.Float64, strict=False) for name in names)
    for name in names:
        wrong = values[name].is_null() & frame[name].is_not_null()
        if wrong.any():
            row = int(wrong.arg_max() or 0)
            raise ValueError(
                f"{called(path)}: column {name!r} must be numbers, got {frame[name][row]!r} at row {row}"
            )
    return _table_of(path, names, classes, values.to_numpy(), None if label is None else frame[label])


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
        unread = maybe_large(path)
        return read_columns(path) if unread is None else unread.collect_schema().names()
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
