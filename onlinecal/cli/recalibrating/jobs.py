"""What methods share: which rows are fitted and tested, maps of them, their scores, and the rows to write.

They are of class probabilities and labels, or of forecasts of one event and outcomes.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from onlinecal.arrays import Floats, Ints
from onlinecal.cli.recalibrating.options import OF_CLASSES, RANDOM, TIME, Rows, Settings
from onlinecal.cli.recalibrating.report import NONE, Report, Scores, measure_lines
from onlinecal.cli.recalibrating.tables import (
    LABELS,
    SCORED,
    Chunks,
    Part,
    is_numbers,
    read_names,
    read_table,
    usual,
)
from onlinecal.measures.scores import BINS, class_scores, event_scores
from onlinecal.recalibration.classical.temperature import (
    PerClassIsotonic,
    TemperatureScaling,
    TopLabelIsotonic,
)
from onlinecal.recalibration.probability_recalibrator import ProbabilityRecalibrator
from onlinecal.recalibration.starting import StartedRecalibrator
from onlinecal.remarks import LabelWarning, label_remarks, outcome_remarks
from onlinecal.rounds import forecast_column, is_missing, outcome_column
from onlinecal.tables import called, check_columns, is_pipe, open_source, read_frame, readable
from onlinecal.validation import check_open_unit

LEAST_ROWS = 10
"""Fewer rows than this in either part say nothing."""
FIT_WORDS = ("fit", "train", "training", "cal", "calib", "calibration", "val", "valid", "validation", "dev")
TEST_WORDS = ("test", "testing", "held", "held-out", "heldout", "holdout", "eval", "evaluation")
"""What the column of --split may say of a row, in any case."""


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


def fitted_rows(n_rows: int, rows: Rows, file: Path) -> tuple[Ints, Ints]:
    """Row numbers to fit, and those to test: none where a new file is recalibrated."""
    if rows.apply is None:
        return read_split(n_rows, rows, file).folds[0]
    for option, value in (("--split", rows.split), ("--together", rows.together)):
        if value is not None:
            raise ValueError(f"--apply and {option} exclude each other: with --apply all of FILE is fitted")
    if n_rows < LEAST_ROWS:
        raise ValueError(f"{n_rows} rows are too few to fit: {LEAST_ROWS} are needed")
    return np.arange(n_rows), np.arange(0)


def read_split(n_rows: int, rows: Rows, file: Path, in_turn: bool = False) -> Split:
    """The split of a file that the options ask for.

    `in_turn`: a random split without a share of its own is also made the other way round, so that every row
    is tested once. Raises ValueError for a bad column, and for too few rows in either part.
    """
    together = None if rows.together is None else numbered(read_column(file, rows.together, n_rows))
    kind = rows.split or RANDOM
    if kind not in (RANDOM, TIME):
        fit, test, told = told_rows(read_column(file, kind, n_rows))
        check_apart(fit, test, together, rows)
    else:
        fit, test = dealt_rows(n_rows, rows, kind == RANDOM, together)
        told = f"the first {len(fit):,} rows fitted, the others tested"
    check_sizes(len(fit), len(test))
    if kind == RANDOM:
        both = in_turn and rows.test_share is None
        folds = [(fit, test), (test, fit)] if both else [(fit, test)]
        told = "each half fitted and the other tested" if both else f"{len(fit):,} random rows fitted"
    else:
        folds = [(fit, test)]
    if together is not None:
        told += f", rows of one {rows.together} together"
    return Split(folds, together, told)


def dealt_rows(n_rows: int, rows: Rows, by_chance: bool, together: Ints | None) -> tuple[Ints, Ints]:
    """Row numbers to fit and to test, by chance or in the file's order; what belongs together stays so.

    The part that is fitted ends where its size is nearest to what was asked for. In the file's order, rows
    that belong together stand where the first of them does.
    """
    if together is None and by_chance:
        return split_rows(n_rows, rows.share, rows.seed)
    n_fit, _ = part_sizes(n_rows, check_open_unit(rows.share, "--split"))
    if together is None:
        return np.arange(n_fit), np.arange(n_fit, n_rows)
    sizes = np.bincount(together)
    if len(sizes) < 2:
        raise ValueError(f"--together {rows.together}: all {n_rows} rows have the same value")
    order = np.random.default_rng(rows.seed).permutation(len(sizes)) if by_chance else np.arange(len(sizes))
    ends = np.cumsum(sizes[order])[:-1]
    fitted = np.zeros(len(sizes), bool)
    fitted[order[: int(np.abs(ends - n_fit).argmin()) + 1]] = True
    return np.flatnonzero(fitted[together]), np.flatnonzero(~fitted[together])


def told_rows(column: pl.Series) -> tuple[Ints, Ints, str]:
    """Row numbers that a column says are to fit, and those to test, and that in words.

    ValueError names a value that says neither.
    """
    words = [str(value).strip().lower() for value in column.to_list()]
    fit = np.array([word in FIT_WORDS for word in words])
    test = np.array([word in TEST_WORDS for word in words])
    if not (fit | test).all():
        row = int((fit | test).argmin())
        raise ValueError(
            f"--split {column.name}: the column must say fit or test (or train, calibration, validation; "
            f"holdout, eval), got {column[row]!r} at row {row}; --together keeps rows of one value together"
        )
    if not fit.any() or not test.any():
        raise ValueError(f"--split {column.name}: all rows are to {'test' if test.any() else 'fit'}")
    named = [" and ".join(repr(one) for one in column.filter(pl.Series(which)).unique(maintain_order=True))
             for which in (fit, test)]  # fmt: skip
    told = f"rows whose {column.name} is {named[0]} fitted, {named[1]} tested"
    return np.flatnonzero(fit), np.flatnonzero(test), told


def check_apart(fit: Ints, test: Ints, together: Ints | None, rows: Rows) -> None:
    """Refuse a column of --split that parts what --together keeps together."""
    if together is None:
        return
    both = test[np.isin(together[test], together[fit])]
    if len(both):
        raise ValueError(
            f"--split {rows.split} and --together {rows.together} disagree: row {both[0]} is tested, and has "
            f"the {rows.together} of a fitted row"
        )


def read_column(file: Path, name: str, n_rows: int) -> pl.Series:
    """A column of a file, a value in every row."""
    if is_pipe(file):
        raise ValueError(f"a column {name!r} to split by must be in a file, not in a pipe: it is read again")
    column = read_frame(file, [name])[name]
    if len(column) != n_rows:
        raise ValueError(f"{file}: {name!r} has {len(column):,} values for {n_rows:,} rows")
    missing = next((row for row, value in enumerate(column.to_list()) if is_missing(value)), None)
    if missing is not None:
        raise ValueError(f"{file}: column {name!r} has no value at row {missing}")
    return column


def numbered(column: pl.Series) -> Ints:
    """Values as numbers 0, 1, ..., in the order of their first rows."""
    _, first, numbers = np.unique(column.cast(pl.String).to_list(), return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[numbers].astype(np.int64)


def split_rows(n_rows: int, test_share: float, seed: int) -> tuple[Ints, Ints]:
    """Row numbers to fit and to test, by a random permutation; the tested ones are the last of it.

    (scikit-learn's train_test_split would deal other rows for the same seed, and so change every report.)
    Raises ValueError for a share outside (0, 1), and for too few rows in either part.
    """
    check_open_unit(test_share, "the share of rows to test")
    n_fit, n_test = part_sizes(n_rows, test_share)
    check_sizes(n_fit, n_test)
    order = np.random.default_rng(seed).permutation(n_rows)
    return order[:n_fit], order[n_fit:]


def check_sizes(n_fit: int, n_test: int) -> None:
    """Refuse parts that are too small."""
    if min(n_fit, n_test) < LEAST_ROWS:
        raise ValueError(
            f"{n_fit + n_test} rows are too few: {n_fit} to fit and {n_test} to test, "
            f"and each part needs {LEAST_ROWS}"
        )


def part_sizes(n_rows: int, test_share: float) -> tuple[int, int]:
    """How many rows are fitted, and how many tested."""
    n_test = round(test_share * n_rows)
    return n_rows - n_test, n_test


@contextmanager
def gathered_warnings() -> Iterator[list[str]]:
    """What is warned of inside, each text once, but for labels: the command names their column itself."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("ignore", LabelWarning)
        yield texts
    texts.extend(dict.fromkeys(" ".join(str(one.message).split()) for one in caught))


CLASS_MEASURES = ("Brier score", "log loss", "accuracy", f"top-label ECE ({BINS} bins)")
EVENT_MEASURES = ("Brier score", "log loss", f"ECE ({BINS} bins)")

Map = Callable[[Part], Floats]
Maps = dict[str, Map]
"""By name; the first is of the probabilities as they came."""
Mapped = dict[str, dict[str, Floats]]
"""What maps make of the rows that are scored, by part and by map."""


@dataclass(frozen=True, eq=False)
class Job:
    """The rows of FILE to fit, and the others: a test part, or a new file that may have no labels.

    Forecasts of one event have no classes. `remarks` says what looks wrong in the labels of FILE.
    """

    file: str
    fit: Part
    other: Part
    remarks: list[str]
    classes: tuple[str, ...] = ()

    @property
    def is_large(self) -> bool:
        """Whether only some rows are scored."""
        return any(part.scored_rows is not None for part in (self.fit, self.other))

    @cached_property
    def labelled(self) -> list[Part]:
        """The parts with labels; of large ones a sample."""
        parts = [part for part in (self.fit, self.other) if part.labels is not None]
        sampled = [(part, part.scored_rows) for part in parts]
        return [part if rows is None else part.take(part.name, rows) for part, rows in sampled]

    def mapped(self, maps: Maps) -> Mapped:
        """What maps make of the rows that are scored."""
        return {part.name: {name: of(part) for name, of in maps.items()} for part in self.labelled}

    def with_isotonic(self, maps: Maps) -> Maps:
        """Beside the usual recalibration of one event, unless it would have to sort many rows."""
        return maps if self.is_large else {**maps, "isotonic": isotonic_map(self.fit)}

    def beside_rivals(self, method: str, model: ProbabilityRecalibrator) -> tuple[Maps, list[str]]:
        """The probabilities as they came, the method and the rivals, fitted; what the method warned of."""
        with gathered_warnings() as remarks:
            maps: Maps = {NONE: lambda part: part.told, method: fitted_map(model, self.fit)}
        for name, rival in rivals().items():
            if len(self.classes) == 2 and name == "isotonic top label":
                continue  # of two classes one is all there is
            if self.is_large and name != "temperature":
                continue  # they sort all rows, class by class
            with gathered_warnings():
                maps[name] = fitted_map(rival, self.fit)
        return maps, remarks

    def report(
        self,
        method: str,
        maps: Maps,
        mapped: Mapped,
        own: Callable[[Part, str], Scores],
        remarks: list[str],
        **rest: Any,
    ) -> Report:
        """A report on mapped[part][name], probabilities before (the first name) and after the maps.

        The method's own measures come first, then the usual ones; `rest` is as in `Report`.
        """
        measures, score = (CLASS_MEASURES, class_scores) if self.classes else (EVENT_MEASURES, event_scores)
        scores: dict[str, dict[str, Scores]] = {}
        for part in self.labelled:
            for name, after in mapped[part.name].items():
                usual = dict(zip(measures, score(after, part.settled), strict=True))
                scores.setdefault(part.name, {})[name] = {**own(part, name), **usual}
        as_came, recalibrated = next(iter(maps.values())), maps[method]

        def written(rows: slice) -> pl.DataFrame:
            part = self.other.cut(rows)
            return written_rows(part, as_came(part), recalibrated(part), self.classes)

        if self.is_large:
            less = "of the rivals only temperature is fitted" if self.classes else "isotonic is left out"
            remarks = [*remarks, f"scores are of {SCORED:,} random rows of a part; {less}"]
        return Report(
            method=method,
            file=self.file,
            n_rows={part.name: len(part) for part in (self.fit, self.other)},
            lines=measure_lines(scores),
            probabilities=Chunks(len(self.other), written),
            warnings=[*self.remarks, *remarks],
            **rest,
        )


def read_job(
    file: Path, method: str, columns: Settings, rows: Rows, further: Sequence[str] | None = ()
) -> Job:
    """Read FILE and split it, or read it and the new file; further columns as of `read_events`."""
    of_classes = method in OF_CLASSES
    if of_classes:
        columns = with_label(file, columns)
        everything, classes, remarks = read_labelled(file, columns)
    else:
        (everything, remarks), classes = read_settled(file, columns, further), ()
    fit, test = fitted_rows(len(everything), rows, file)
    if rows.apply is None:
        other = everything.take("test", test)
    elif of_classes:
        other = read_new_table(rows.apply, columns, file, classes)
    else:
        other = read_new_events(rows.apply, columns, further)
    return Job(file.name, everything.take("fit", fit), other, remarks, classes)


def with_label(file: Path, columns: Settings) -> Settings:
    """The same with a column of labels, the one with a usual name if none is named."""
    if columns.label is not None or is_pipe(file) or file.suffix.lower() == ".npz":
        return columns
    taken = (columns.probabilities or "").split(",")
    return replace(columns, label=usual([name for name in read_names(file) if name not in taken], LABELS))


def read_labelled(file: Path, columns: Settings) -> tuple[Part, tuple[str, ...], list[str]]:
    """All rows of FILE, their classes, and what looks wrong in their labels."""
    label = columns.label
    table = read_table(file, columns.probabilities, label)
    if table.labels is None:
        found = None if is_pipe(file) else usual(read_names(file), LABELS)
        guess = "" if found is None else f", perhaps --label {found}"
        raise ValueError(f"{file} has no labels to fit to: name their column with --label{guess}")
    if len(table.classes) < 2:
        raise ValueError(f"{file} has one class only")
    remarks = label_remarks(table.probabilities, table.labels, table.classes, label or "the labels")
    return table.part(file.name), table.classes, remarks


def read_new_table(path: Path, columns: Settings, file: Path, classes: tuple[str, ...]) -> Part:
    """The rows of a new file, which may have no labels; it must have the classes of FILE."""
    known = columns.label is None or columns.label in read_names(path)
    new = read_table(path, columns.probabilities, columns.label if known else None)
    if new.classes != classes:
        theirs = f"{path} has the classes {', '.join(new.classes)}"
        raise ValueError(f"{theirs}, {file} has {', '.join(classes)}")
    return new.part("apply")


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
    return Part(
        path.name,
        np.arange(frame.height),
        None if forecast is None else forecast_column(frame[forecast], path),
        None if outcome is None else outcome_column(frame[outcome], path),
        frame,
    )


def read_settled(file: Path, columns: Settings, further: Sequence[str] | None) -> tuple[Part, list[str]]:
    """All rows of FILE, and what looks wrong in their outcomes."""
    outcome, forecast = columns.outcome, columns.forecast
    if outcome is None:
        raise ValueError("--outcome is needed, the column of outcomes")
    events = read_events(file, outcome, forecast, further)
    return events, outcome_remarks(events.settled, events.table, outcome, forecast or "")


def read_new_events(path: Path, columns: Settings, further: Sequence[str] | None) -> Part:
    """The rows of a new file, which may have no outcomes."""
    known = columns.outcome in read_names(path)
    new = read_events(path, columns.outcome if known else None, columns.forecast, further)
    return replace(new, name="apply")


def written_rows(part: Part, before: Floats, after: Floats, classes: Sequence[str] = ()) -> pl.DataFrame:
    """Row number, old and new probabilities, and the label, if any, of every row of a part."""
    columns: dict[str, Any] = {"row": part.rows}
    for kind, table in (("before", before), ("after", after)):
        named = {f"{kind}_{name}": table[:, number] for number, name in enumerate(classes)}
        columns |= named or {kind: table}
    if part.labels is not None:
        labels = (
            {"label": [classes[number] for number in part.labels]} if classes else {"outcome": part.labels}
        )
        columns |= labels
    return pl.DataFrame(columns)


def rivals() -> dict[str, ProbabilityRecalibrator]:
    """The usual recalibrations, unfitted, by the names they have in reports."""
    return {
        "temperature": TemperatureScaling(),
        "isotonic per class": PerClassIsotonic(),
        "isotonic top label": TopLabelIsotonic(),
    }


def fitted_map(model: Any, fit: Part) -> Map:
    """The map of class probabilities that a model becomes by these rows."""
    model.fit(fit.told, fit.settled)
    return lambda part: np.asarray(model.predict_proba(part.told))


def isotonic_map(fit: Part) -> Map:
    """The usual recalibration of one event, to compare with."""
    from sklearn.isotonic import IsotonicRegression

    curve = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
    curve.fit(fit.told, fit.settled)
    return lambda part: np.asarray(curve.predict(part.told))


def facts_of_start(model: StartedRecalibrator) -> dict[str, Any]:
    """What a correction began with, and how much of it is given out."""
    return {
        "start": model.start_name_,
        "inverse temperature at the start": float(model.inverse_temperature_),
        "share of the correction": model.share_,
        "largest factor of the correction": None if math.isinf(model.limit_) else model.limit_,
    }


def drawn_labels(table: Floats, rng: np.random.Generator) -> Ints:
    """A label for each row of probabilities (n, k), drawn from them: what came, had they been right."""
    ends = table.cumsum(axis=1)
    return (ends < rng.random((len(table), 1)) * ends[:, -1:]).sum(axis=1)


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
