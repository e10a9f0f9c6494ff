"""What the methods for class probabilities share: parts, rivals, scores, the rows to write."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from onlinecal.cli.recalibrating.options import ClassColumns, Rows
from onlinecal.cli.recalibrating.parts import LEAST_ROWS, split_rows
from onlinecal.cli.recalibrating.report import NONE, Line, measure_lines
from onlinecal.cli.recalibrating.rivals import rivals
from onlinecal.cli.recalibrating.scores import CLASS_MEASURES, class_scores
from onlinecal.cli.recalibrating.tables import Table, read_table
from onlinecal.remarks import LabelWarning, label_remarks

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Scores = dict[str, float | None]


@dataclass(frozen=True, eq=False)
class Part:
    """Some rows: their numbers in the file, probabilities (n, k), labels or None."""

    name: str
    rows: Ints
    table: Floats
    labels: Ints | None


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
        """Name, probabilities and labels of the parts that have labels."""
        return [(p.name, p.table, p.labels) for p in (self.fit, self.other) if p.labels is not None]

    @property
    def n_rows(self) -> dict[str, int]:
        """Rows of each part."""
        return {part.name: len(part.rows) for part in (self.fit, self.other)}


@dataclass(eq=False)
class Fitted:
    """Maps of probabilities by name, none first, and what they make of both parts."""

    maps: dict[str, Callable[[Floats], Floats]]
    mapped: dict[tuple[str, str], Floats] = field(default_factory=dict)

    def __call__(self, name: str, part: str, table: Floats) -> Floats:
        """A part's probabilities after a map; made once."""
        if (name, part) not in self.mapped:
            self.mapped[name, part] = self.maps[name](table)
        return self.mapped[name, part]


def read_job(file: Path, columns: ClassColumns, rows: Rows) -> Job:
    """Read FILE and split it, or read it and the new file."""
    probabilities, label, apply = columns.probabilities, columns.label, rows.apply
    table = read_table(file, probabilities, label)
    if table.labels is None:
        raise ValueError(f"{file} has no labels to fit to: name their column with --label")
    if len(table.classes) < 2:
        raise ValueError(f"{file} has one class only")
    remarks = label_remarks(table.probabilities, table.labels, table.classes, label or "the labels")
    if apply is None:
        fit, test = split_rows(len(table), rows.share, rows.seed)
        return Job(table.name, table.classes, _part(table, "fit", fit), _part(table, "test", test), remarks)
    if len(table) < LEAST_ROWS:
        raise ValueError(f"{file} has {len(table)} rows to fit, which are too few: {LEAST_ROWS} are needed")
    new = _read_new(apply, probabilities, label)
    if new.classes != table.classes:
        raise ValueError(
            f"{apply} has the classes {', '.join(new.classes)}, {file} has {', '.join(table.classes)}"
        )
    everything, others = np.arange(len(table)), np.arange(len(new))
    parts = _part(table, "fit", everything), _part(new, "apply", others)
    return Job(table.name, table.classes, *parts, remarks)


def _read_new(apply: Path, probabilities: str | None, label: str | None) -> Table:
    """The new file, whose labels may be missing."""
    if apply.is_file() and label is not None and label not in _names(apply):
        label = None
    return read_table(apply, probabilities, label)


def _names(path: Path) -> list[str]:
    from onlinecal.cli.recalibrating.tables import read_frame

    if path.suffix.lower() == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            return list(arrays.files)
    return read_frame(path).columns


def _part(table: Table, name: str, rows: Ints) -> Part:
    labels = None if table.labels is None else table.labels[rows]
    return Part(name, rows, table.probabilities[rows], labels)


def compare(job: Job, method: str, map_: Callable[[Floats], Floats]) -> Fitted:
    """The method beside the probabilities as they came and the rivals, fitted on the same rows."""
    assert job.fit.labels is not None
    maps: dict[str, Callable[[Floats], Floats]] = {NONE: lambda table: table, method: map_}
    for name, rival in rivals().items():
        if len(job.classes) == 2 and name == "isotonic top label":
            continue  # of two classes one is all there is
        with gathered_warnings():
            maps[name] = rival.fit(job.fit.table, job.fit.labels).predict_proba
    return Fitted(maps)


def score_lines(
    job: Job, fitted: Fitted, names: tuple[str, ...], own: Callable[[Floats, Ints], Scores]
) -> list[Line]:
    """The method's own measures, then the usual ones, for every map on every part with labels."""
    scores: dict[str, dict[str, Scores]] = {}
    for part, table, labels in job.labelled:
        for name in fitted.maps:
            mapped = fitted(name, part, table)
            scores.setdefault(part, {})[name] = {**own(mapped, labels), **class_scores(mapped, labels)}
    return measure_lines([*names, *CLASS_MEASURES], scores)


def written_rows(job: Job, after: Floats) -> pl.DataFrame:
    """Row number, old and new probabilities, and the label of every row that was not fitted."""
    part = job.other
    columns: dict[str, Any] = {"row": part.rows}
    for kind, table in (("before", part.table), ("after", after)):
        columns |= {f"{kind}_{name}": table[:, number] for number, name in enumerate(job.classes)}
    if part.labels is not None:
        columns["label"] = [job.classes[number] for number in part.labels]
    return pl.DataFrame(columns)


@contextmanager
def gathered_warnings() -> Iterator[list[str]]:
    """What is warned of inside, each text once, but for labels: the command names their column itself."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("ignore", LabelWarning)
        yield texts
    texts.extend(dict.fromkeys(" ".join(str(one.message).split()) for one in caught))
