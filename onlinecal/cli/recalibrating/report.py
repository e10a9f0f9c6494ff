"""What a recalibration did: one report for people, for machines and for the disk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure
    from rich.table import Table

    from onlinecal.cli.recalibrating.choose import Choice
    from onlinecal.cli.recalibrating.tables import Chunks

Scores = dict[str, float | None]
"""By the name of the measure; None where there is none."""

NONE = "none"
"""The column of the probabilities as they came."""


@dataclass(frozen=True)
class Line:
    """One measure on one part of the rows, a value per column of the report; None where there is none."""

    measure: str
    part: str
    values: dict[str, float | None]


@dataclass(frozen=True)
class Section:
    """A further table: records, and how many of them people see."""

    title: str
    rows: list[dict[str, Any]]
    shown: int = 15
    hidden: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Picture:
    """What makes a figure of a table, the table, and the file's name."""

    draw: Callable[[pl.DataFrame], Figure]
    table: pl.DataFrame
    name: str


@dataclass(frozen=True, eq=False)
class Report:
    """Everything that a recalibration leaves.

    Attributes
    ----------
    method, file, parameters
        What was done to what, and the parameters that were used.
    n_rows
        Rows of each part.
    lines
        The comparison.
    facts
        Single numbers about the fit: rounds, groups, patches.
    sections
        Further tables.
    warnings
        What the class had to say, one line each.
    probabilities
        Row numbers, probabilities before and after, and labels of the rows that were not fitted.
    pictures
        Makes the pictures; called only when they are wanted.
    """

    method: str
    file: str
    parameters: dict[str, Any]
    n_rows: dict[str, int]
    lines: list[Line]
    facts: dict[str, Any]
    probabilities: Chunks
    sections: list[Section] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    pictures: Callable[[], list[Picture]] = list

    interrupted = False
    """A single method cannot leave others out."""

    def shown(self, width: int) -> list[Table]:
        """What people see."""
        return report_tables(self)

    @property
    def columns(self) -> list[str]:
        """The methods compared: none first, then the one that was asked for."""
        return list(dict.fromkeys(name for line in self.lines for name in line.values))

    def record(self) -> dict[str, Any]:
        """The report as plain values."""
        return {
            "method": self.method,
            "file": self.file,
            "parameters": self.parameters,
            "rows": self.n_rows,
            "facts": self.facts,
            "measures": [
                {"measure": line.measure, "part": line.part, "values": line.values} for line in self.lines
            ],
            "tables": {section.title: section.rows for section in self.sections},
            "warnings": self.warnings,
        }

    def frame(self) -> pl.DataFrame:
        """The lines as a table: measure, part, and a column per method."""
        import polars as pl

        rows = [
            {"measure": line.measure, "part": line.part, **dict.fromkeys(self.columns), **line.values}
            for line in self.lines
        ]
        schema = {"measure": pl.String, "part": pl.String, **dict.fromkeys(self.columns, pl.Float64)}
        return pl.DataFrame(rows, schema=schema)


def report_tables(report: Report) -> list[Table]:
    """The comparison, then the further tables."""
    from onlinecal.cli.output import table

    sizes = ", ".join(f"{count:,} rows to {part}" for part, count in report.n_rows.items())
    lines = [
        [line.measure, line.part, *(_value(line.values.get(name)) for name in report.columns)]
        for line in report.lines
    ]
    tables = [table(f"{report.file}: {sizes}", ["", "part", *report.columns], lines, left=2)]
    if report.facts:
        facts = [[name, _value(value)] for name, value in report.facts.items()]
        tables.append(table(None, [report.method, ""], facts))
    for section in report.sections:
        if not section.rows:
            continue
        names = [name for name in section.rows[0] if name not in section.hidden]
        rows = [[_value(row[name]) for name in names] for row in section.rows[: section.shown]]
        left = sum(isinstance(section.rows[0][name], str) for name in names)
        more = len(section.rows) - section.shown
        title = f"{section.title} ({section.shown} of {len(section.rows)})" if more > 0 else section.title
        tables.append(table(title, [name.replace("_", " ") for name in names], rows, left=left))
    return tables


def write_report(report: Report | Choice, folder: Path) -> list[Path]:
    """Write recalibrated.parquet, report.json, report.csv and the pictures, each only when it is complete."""
    from onlinecal.cli.recalibrating.tables import Chunks, write_chunks
    from onlinecal.plots.style import write_figure
    from onlinecal.tables import write_table

    pictures = [(one, one.draw(one.table)) for one in report.pictures()]
    folder.mkdir(parents=True, exist_ok=True)
    rows, path = report.probabilities, folder / "recalibrated.parquet"
    written = [
        write_chunks(rows, path) if isinstance(rows, Chunks) else write_table(rows, path),
        write_json(report.record(), folder / "report.json"),
        write_table(report.frame(), folder / "report.csv"),
    ]
    for one, figure in pictures:
        written.append(write_figure(figure, one.table, folder / one.name))
    return written


def write_json(record: Any, path: Path) -> Path:
    """Write one JSON document; NaN and infinities become null."""
    from onlinecal.tables import write_whole

    write_whole(path, msgspec.json.format(msgspec.json.encode(record), indent=2))
    return path


def measure_lines(scores: dict[str, dict[str, Scores]]) -> list[Line]:
    """Lines from scores[part][column][measure], in the order of the measures, then of the parts."""
    names = dict.fromkeys(name for columns in scores.values() for one in columns.values() for name in one)
    return [
        Line(name, part, {column: values.get(name) for column, values in columns.items()})
        for name in names
        for part, columns in scores.items()
    ]


def _value(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if value != value:
        return "–"
    return f"{value:.2g}" if 0 < abs(value) < 0.001 else f"{value:.4f}"
