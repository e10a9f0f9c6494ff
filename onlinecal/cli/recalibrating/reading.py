"""Probabilities and what came, from files: of classes with labels, or of one event; rows to test, and groups.

Rows are split by chance, by time or by a column, and stay with those that they belong to. Columns become
groups by their values or by ranges.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.cli.recalibrating.asked import Asked
from onlinecal.measures.groups import MulticalibrationReport, multicalibration_report
from onlinecal.recalibration.groups.maker import GroupMaker, encode
from onlinecal.remarks import label_remarks, outcome_remarks
from onlinecal.tables.columns import check_labels, check_probability_rows
from onlinecal.tables.files import called, check_columns, check_file, read_frame, readable
from onlinecal.tables.names import LABELS, event_columns, usual
from onlinecal.tables.numbers import is_gap, numbers_of
from onlinecal.tables.rounds import Rounds, forecast_column, outcome_column
from onlinecal.validation import check_open_unit

PROBABILITIES = ("p_*", "prob_*", "probability_*", "proba_*")
"""Names that columns of classes have in most files, tried in this order."""
LEAST_ROWS = 10
"""Fewer rows than this in either part say nothing."""
TEST_SHARE = 0.5
RANDOM, TIME = "random", "time"
FIT_WORDS = ("fit", "train", "training", "cal", "calib", "calibration", "val", "valid", "validation", "dev")
TEST_WORDS = ("test", "testing", "held", "held-out", "heldout", "holdout", "eval", "evaluation")
"""What the column of --split may say of a row, in any case."""
MOST_VALUES = 12
"""A column of numbers with more distinct values than this is cut into ranges."""
RANGES = 4


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
        The other columns of the file.
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
    """All columns of a file, and which are class probabilities: names or a pattern, if it is known."""

    path: Path
    frame: pl.DataFrame
    probabilities: str | None = None

    @classmethod
    def read(cls, path: Path, probabilities: str | None = None) -> File:
        """Read a file once; of an NPZ file with a table of probabilities, what has as many rows as that."""
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
        columns |= {name: one.ravel() for name, one in arrays.items() if one.size == len(rows)}
        return cls(path, pl.DataFrame(columns), f"{table}_*")

    @property
    def has_classes(self) -> bool:
        """Whether there is a table of probabilities, or several columns with their usual names."""
        names = self.frame.columns
        return bool(self.probabilities) or any(len(fnmatch.filter(names, one)) > 1 for one in PROBABILITIES)

    def classes(self, label: str | None) -> Part:
        """The rows as class probabilities, with the labels in this column or one with a usual name, if any.

        Raises ValueError for columns that are not there, and for values that are no probabilities or labels.
        """
        names, classes = _class_columns(self, label)
        label = label or usual([name for name in self.frame.columns if name not in names], LABELS)
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
        Of NPZ files the name of an array (n, k). Of the others the columns, in the order of the classes:
        names with commas, or a pattern such as "p_*"; the part behind the pattern's stem names the class.
        A single column is the probability of label 1. None: the first two-dimensional array; columns
        that are called p_..., prob_... and so on.
    label
        The array or column of labels: class names or class numbers. None: one that is called label, y,
        ground_truth and so on; no labels if there is none.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file, array or column, or values are no probabilities or labels.
    """
    return File.read(path, probabilities).classes(label)


def recognise(asked: Asked, file: File) -> tuple[bool, Asked]:
    """Whether the file is a table of class probabilities (else a column of forecasts), all columns named.

    Raises ValueError for options of both kinds, and for columns that are not found.
    """
    kinds = ("probabilities", "label"), ("forecast", "outcome", "features")
    named = [[f"--{name}" for name in kind if getattr(asked, name) is not None] for kind in kinds]
    if all(named):
        raise ValueError(
            f"{named[0][0]} and {named[1][0]} exclude each other: the one is for a table of class "
            "probabilities, the other for forecasts of one event"
        )
    if named[0] or (not named[1] and file.has_classes):
        return True, asked
    else_ = "" if any(named) else ", or class probabilities with --probabilities and --label"
    forecast, outcome = event_columns(file.path, asked.forecast, asked.outcome, else_, file.frame.columns)
    return False, replace(asked, forecast=forecast, outcome=outcome)


def known_rows(asked: Asked, file: File, of_classes: bool) -> tuple[Part, list[str]]:
    """All rows of the file, with labels, and what looks wrong in these."""
    if of_classes:
        table = file.classes(asked.label)
        if table.labels is None:
            raise ValueError(f"{file.path} has no labels to fit to: name their column with --label")
        if len(table.classes) < 2:
            raise ValueError(f"{file.path} has one class only")
        remarks = label_remarks(table.probabilities, table.labels, table.classes, asked.label or "the labels")
        return table, remarks
    if asked.outcome is None:
        raise ValueError("--outcome is needed, the column of outcomes")
    events = file.events(asked.outcome, asked.forecast)
    forecasts = None if asked.forecast is None else events.probabilities
    return events, outcome_remarks(events.settled, forecasts, asked.outcome, asked.forecast or "")


def new_rows(asked: Asked, path: Path, classes: tuple[str, ...]) -> Part:
    """The rows of a new file, which may have no labels; it must have these classes."""
    file = File.read(path, asked.probabilities)
    wanted = asked.label if classes else asked.outcome
    known = wanted if wanted in file.frame.columns else None
    if not classes:
        return replace(file.events(known, asked.forecast), name="apply")
    new = file.classes(known)
    if new.classes != classes:
        theirs = f"{path} has the classes {', '.join(new.classes)}"
        raise ValueError(f"{theirs}, {asked.file} has {', '.join(classes)}")
    return replace(new, name="apply")


def _class_columns(file: File, label: str | None) -> tuple[list[str], tuple[str, ...]]:
    """The columns of probabilities, and the names of their classes: without what all begin with."""
    wanted = file.probabilities
    if wanted is not None and "*" not in wanted:
        names = [name.strip() for name in wanted.split(",")]
        stem = names[0].rfind("_") + 1
        if not all(name.startswith(names[0][:stem]) for name in names):
            stem = 0
        return names, tuple(name[stem:] for name in names)
    patterns = PROBABILITIES if wanted is None else (wanted,)
    for pattern in patterns:
        names = [name for name in fnmatch.filter(file.frame.columns, pattern) if name != label]
        if names:
            stem = len(pattern.partition("*")[0])
            return names, tuple(name[stem:] for name in names)
    what = f"has no columns like {' or '.join(patterns)}; name them with --probabilities"
    raise ValueError(f"{file.path} {what}. Its columns: {', '.join(file.frame.columns)}")


def _numbered(labels: pl.Series, classes: tuple[str, ...]) -> Ints:
    """Labels as class numbers: by the names of the classes, else as the numbers they are."""
    values = labels.unique(maintain_order=True).to_list()
    numbers = {value: classes.index(name) for value in values if (name := _written(value)) in classes}
    if len(numbers) == len(values):
        return labels.replace_strict(numbers, return_dtype=pl.Int64).to_numpy()
    if labels.dtype.is_numeric():
        return check_labels(labels.to_numpy(), len(classes), labels.name)
    value = next(value for value in values if value not in numbers)
    row = labels.to_list().index(value)
    raise ValueError(
        f"column {labels.name!r} must hold the classes {', '.join(classes)}, got {value!r} at row {row}"
    )


def _written(value: Any) -> str:
    is_whole = isinstance(value, bool) or (isinstance(value, float) and value.is_integer())
    return str(int(value)) if is_whole else str(value)


def numbers(column: pl.Series) -> Floats:
    """A column as float64, also of numbers written as texts; missing ones are NaN."""
    found = numbers_of(column)
    for row in np.flatnonzero(np.isnan(found)).tolist():
        if not is_gap(column[row]):
            raise ValueError(f"column {column.name!r} must hold numbers, got {column[row]!r} at row {row}")
    return found


def column(frame: pl.DataFrame, name: str) -> pl.Series:
    """A column; ValueError lists those there are."""
    check_columns(frame.columns, [name])
    return frame[name]


@dataclass(frozen=True, eq=False)
class Split:
    """Row numbers to fit and to test, once or in turn, and which rows belong together.

    Attributes
    ----------
    folds
        Pairs of row numbers, fitted and tested; no row is tested twice.
    together
        Of each row of the file the number of its value in the column of --together; None: every row for
        itself.
    told
        The split in words.
    """

    folds: list[tuple[Ints, Ints]]
    together: Ints | None
    told: str


def split_of(text: str | None) -> tuple[str, float | None]:
    """The rule and the share to test on that --split says: 0.3, time, time:0.3, or a column's name."""
    if text is None:
        return RANDOM, None
    rule, _, share = text.rpartition(":")
    if rule in ("", TIME):
        with suppress(ValueError):
            return rule or RANDOM, float(share)
    return text, None


def read_split(frame: pl.DataFrame, asked: Asked, in_turn: bool = False) -> Split:
    """The split of a file's rows that the options ask for.

    `in_turn`: a random split without a share of its own is also made the other way round, so that every row
    is tested once. Raises ValueError for a bad column, and for too few rows in either part.
    """
    n_rows, together = frame.height, None
    if asked.together is not None:
        together = encode(_full_column(frame, asked.together).cast(pl.String))[0]
    rule, given = split_of(asked.split)
    share = TEST_SHARE if given is None else given
    if rule not in (RANDOM, TIME):
        fit, test, told = told_rows(_full_column(frame, rule))
        both = test[:0] if together is None else test[np.isin(together[test], together[fit])]
        if len(both):
            raise ValueError(
                f"--split {rule} and --together {asked.together} disagree: row {both[0]} is tested, and "
                f"has the {asked.together} of a fitted row"
            )
    elif together is None:
        fit, test = split_rows(n_rows, share, asked.seed if rule == RANDOM else None)
    else:
        units, n_fit = np.bincount(together), part_sizes(n_rows, share)[0]
        if len(units) < 2:
            raise ValueError(f"--together {asked.together}: all {n_rows} rows have the same value")
        order = _order(len(units), asked.seed if rule == RANDOM else None)
        # the fitted part ends where its size is nearest to what was asked for
        last = int(np.abs(np.cumsum(units[order])[:-1] - n_fit).argmin())
        is_fitted = np.isin(together, order[: last + 1])
        fit, test = np.flatnonzero(is_fitted), np.flatnonzero(~is_fitted)
    check_sizes(len(fit), len(test))
    folds = [(fit, test)]
    if rule == RANDOM and in_turn and given is None:
        folds.append((test, fit))
        told = "each half fitted and the other tested"
    elif rule == RANDOM:
        told = f"{len(fit):,} random rows fitted"
    elif rule == TIME:
        told = f"the first {len(fit):,} rows fitted, the others tested"
    if together is not None:
        told += f", rows of one {asked.together} together"
    return Split(folds, together, told)


def split_rows(n_rows: int, test_share: float, seed: int | None) -> tuple[Ints, Ints]:
    """Row numbers to fit and to test, the latter the last of a random order; of the file's without a seed.

    Raises ValueError for a share outside (0, 1), and for too few rows in either part.
    """
    n_fit, n_test = part_sizes(n_rows, test_share)
    check_sizes(n_fit, n_test)
    order = _order(n_rows, seed)
    return order[:n_fit], order[n_fit:]


def _order(count: int, seed: int | None) -> Ints:
    return np.arange(count) if seed is None else np.random.default_rng(seed).permutation(count)


def part_sizes(n_rows: int, test_share: float) -> tuple[int, int]:
    """How many rows are fitted, and how many tested; ValueError for a share outside (0, 1)."""
    n_test = round(check_open_unit(test_share, "the share of rows to test") * n_rows)
    return n_rows - n_test, n_test


def check_sizes(n_fit: int, n_test: int) -> None:
    """Refuse parts that are too small."""
    if min(n_fit, n_test) < LEAST_ROWS:
        raise ValueError(
            f"{n_fit + n_test} rows are too few: {n_fit} to fit and {n_test} to test, "
            f"and each part needs {LEAST_ROWS}"
        )


def told_rows(column: pl.Series) -> tuple[Ints, Ints, str]:
    """Row numbers that a column says are to fit, and those to test, and that in words.

    ValueError names a value that says neither.
    """
    words = [str(value).strip().lower() for value in column.to_list()]
    fit, test = (np.array([word in known for word in words]) for known in (FIT_WORDS, TEST_WORDS))
    if not (fit | test).all():
        row = int((fit | test).argmin())
        raise ValueError(
            f"--split {column.name}: the column must say fit or test (or train, calibration, validation; "
            f"holdout, eval), got {column[row]!r} at row {row}; --together keeps rows of one value together"
        )
    told = f"rows fitted and tested as {column.name} says"
    return np.flatnonzero(fit), np.flatnonzero(test), told


def _full_column(frame: pl.DataFrame, name: str) -> pl.Series:
    """A column with a value in every row."""
    values = column(frame, name)
    missing = next((row for row, value in enumerate(values.to_list()) if is_gap(value)), None)
    if missing is not None:
        raise ValueError(f"column {name!r} has no value at row {missing}")
    return values


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
    def of(cls, frame: pl.DataFrame, names: Sequence[str]) -> GroupColumns:
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
            ends = [f"{bound:g}" for bound in bounds]
            inner = (f"{low} to {high}" for low, high in pairwise(ends))
            labels = [f"below {ends[0]}", *inner, f"from {ends[-1]}"]
            ranges = values.cast(pl.Float64).fill_nan(None).cut(bounds, labels=labels, left_closed=True)
            columns.append(ranges.cast(pl.String))
        return pl.DataFrame(columns)


def group_reports(rounds: Rounds, groups: list[str], n_levels: int) -> dict[str, MulticalibrationReport]:
    """A report for every column of forecasts: everyone, all values of the columns, all pairs of two columns.

    Raises ValueError for columns of groups that are listed twice.
    """
    table = GroupColumns.of(rounds.frame, groups)(rounds.frame)
    maker = GroupMaker()
    members = maker.fit(table, rounds.frame.height)
    return {
        name: multicalibration_report(forecasts, rounds.outcomes, members, n_levels, maker.names_)
        for name, forecasts in rounds.forecasts.items()
    }
