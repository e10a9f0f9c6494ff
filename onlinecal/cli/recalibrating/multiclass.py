"""What the methods for class probabilities share: parts, rivals, scores, the rows to write."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from onlinecal.arrays import Floats, Ints
from onlinecal.cli.recalibrating.options import ClassColumns, Rows
from onlinecal.cli.recalibrating.parts import fitted_rows, gathered_warnings
from onlinecal.cli.recalibrating.report import NONE, Report, Scores, measure_lines
from onlinecal.cli.recalibrating.tables import (
    LABELS,
    SCORED,
    Part,
    Table,
    read_names,
    read_table,
    rows_to_write,
    scored_rows,
    usual,
)
from onlinecal.formats import is_pipe
from onlinecal.measures.scores import BINS, class_scores
from onlinecal.recalibration.classical.temperature import (
    PerClassIsotonic,
    TemperatureScaling,
    TopLabelIsotonic,
)
from onlinecal.recalibration.probability_recalibrator import ProbabilityRecalibrator
from onlinecal.recalibration.starting import StartedRecalibrator
from onlinecal.remarks import label_remarks

CLASS_MEASURES = ("Brier score", "log loss", "accuracy", f"top-label ECE ({BINS} bins)")


@dataclass(frozen=True, eq=False)
class Job:
    """The rows to fit, and the others: a test part with labels, or a new file that may have none.

    `remarks` says what looks wrong in the labels of FILE.
    """

    file: str
    classes: tuple[str, ...]
    fit: Part
    other: Part
    remarks: list[str] = field(default_factory=list)

    @property
    def labelled(self) -> list[tuple[str, Floats, Ints]]:
        """Name, probabilities and labels of the parts that have labels; of large ones a sample."""
        return [_scored(part) for part in (self.fit, self.other) if part.labels is not None]

    @property
    def is_large(self) -> bool:
        """Whether rows are written in chunks, and only some of them are scored."""
        return any(scored_rows(*part.table.shape) is not None for part in (self.fit, self.other))

    @property
    def n_rows(self) -> dict[str, int]:
        """Rows of each part."""
        return {part.name: len(part.rows) for part in (self.fit, self.other)}


def _scored(part: Part) -> tuple[str, Floats, Ints]:
    assert part.labels is not None
    rows = scored_rows(*part.table.shape)
    return (
        (part.name, part.table, part.labels)
        if rows is None
        else (part.name, part.table[rows], part.labels[rows])
    )


@dataclass(eq=False)
class Fitted:
    """A method, maps of probabilities by name, none first, what was warned of, and what the maps make."""

    method: str
    maps: dict[str, Callable[[Floats], Floats]]
    warnings: list[str]
    mapped: dict[tuple[str, str], Floats] = field(default_factory=dict)

    def __call__(self, name: str, part: str, table: Floats) -> Floats:
        """A part's probabilities after a map; made once."""
        if (name, part) not in self.mapped:
            self.mapped[name, part] = self.maps[name](table)
        return self.mapped[name, part]


def read_job(file: Path, columns: ClassColumns, rows: Rows) -> Job:
    """Read FILE and split it, or read it and the new file."""
    columns = with_label(file, columns)
    table, remarks = read_labelled(file, columns)
    fit, test = fitted_rows(len(table), rows, file)
    other = table.take("test", test) if rows.apply is None else read_new(rows.apply, columns, file, table)
    return Job(table.name, table.classes, table.take("fit", fit), other, remarks)


def with_label(file: Path, columns: ClassColumns) -> ClassColumns:
    """The same with a column of labels, the one with a usual name if none is named."""
    if columns.label is not None or is_pipe(file) or file.suffix.lower() == ".npz":
        return columns
    taken = (columns.probabilities or "").split(",")
    return replace(columns, label=usual([name for name in read_names(file) if name not in taken], LABELS))


def read_labelled(file: Path, columns: ClassColumns) -> tuple[Table, list[str]]:
    """All rows of FILE, and what looks wrong in their labels."""
    label = columns.label
    table = read_table(file, columns.probabilities, label)
    if table.labels is None:
        found = None if is_pipe(file) else usual(read_names(file), LABELS)
        guess = "" if found is None else f", perhaps --label {found}"
        raise ValueError(f"{file} has no labels to fit to: name their column with --label{guess}")
    if len(table.classes) < 2:
        raise ValueError(f"{file} has one class only")
    return table, label_remarks(table.probabilities, table.labels, table.classes, label or "the labels")


def read_new(path: Path, columns: ClassColumns, file: Path, table: Table) -> Part:
    """The rows of a new file, which may have no labels; it must have the classes of FILE's table."""
    known = columns.label is None or columns.label in read_names(path)
    new = read_table(path, columns.probabilities, columns.label if known else None)
    if new.classes != table.classes:
        theirs = f"{path} has the classes {', '.join(new.classes)}"
        raise ValueError(f"{theirs}, {file} has {', '.join(table.classes)}")
    return new.take("apply", np.arange(len(new)))


def rivals() -> dict[str, ProbabilityRecalibrator]:
    """The usual recalibrations, unfitted, by the names they have in reports."""
    return {
        "temperature": TemperatureScaling(),
        "isotonic per class": PerClassIsotonic(),
        "isotonic top label": TopLabelIsotonic(),
    }


def compare(job: Job, method: str, model: ProbabilityRecalibrator) -> Fitted:
    """The method beside the probabilities as they came and the rivals, fitted on the same rows."""
    assert job.fit.labels is not None
    with gathered_warnings() as remarks:
        model.fit(job.fit.table, job.fit.labels)
    maps: dict[str, Callable[[Floats], Floats]] = {NONE: lambda table: table, method: model.predict_proba}
    if job.is_large:
        remarks.append(
            f"scores are of {SCORED:,} random rows of a part; of the rivals only temperature is fitted"
        )
    for name, rival in rivals().items():
        if len(job.classes) == 2 and name == "isotonic top label":
            continue  # of two classes one is all there is
        if job.is_large and name != "temperature":
            continue  # they sort all rows, class by class
        with gathered_warnings():
            maps[name] = rival.fit(job.fit.table, job.fit.labels).predict_proba
    return Fitted(method, maps, [*job.remarks, *remarks])


def report(job: Job, fitted: Fitted, own: Callable[[Floats, Ints], Scores], **rest: Any) -> Report:
    """The method's own measures, then the usual ones, for every map on every part with labels.

    `rest` is as in `Report`.
    """
    scores: dict[str, dict[str, Scores]] = {}
    for part, table, labels in job.labelled:
        for name in fitted.maps:
            mapped = fitted(name, part, table)
            usual = dict(zip(CLASS_MEASURES, class_scores(mapped, labels), strict=True))
            scores.setdefault(part, {})[name] = {**own(mapped, labels), **usual}
    other, mapped_by = job.other, fitted.maps[fitted.method]

    def written(rows: slice) -> pl.DataFrame:
        return written_rows(other.cut(rows), job.classes, mapped_by(other.table[rows]))

    return Report(
        method=fitted.method,
        file=job.file,
        n_rows=job.n_rows,
        lines=measure_lines(scores),
        probabilities=rows_to_write(len(other.rows), job.is_large, written),
        warnings=fitted.warnings,
        **rest,
    )


def written_rows(part: Part, classes: tuple[str, ...], after: Floats) -> pl.DataFrame:
    """Row number, old and new probabilities, and the label, if any, of every row of a part."""
    columns: dict[str, Any] = {"row": part.rows}
    for kind, table in (("before", part.table), ("after", after)):
        columns |= {f"{kind}_{name}": table[:, number] for number, name in enumerate(classes)}
    if part.labels is not None:
        columns["label"] = [classes[number] for number in part.labels]
    return pl.DataFrame(columns)


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
