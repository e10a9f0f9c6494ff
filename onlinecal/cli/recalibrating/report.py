"""What a recalibration leaves: one report for people, for machines and for the disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import polars as pl

from onlinecal.cli.output import table
from onlinecal.tables.writing import write_table, write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

NONE = "none"
"""The column of the probabilities as given."""
SHOWN = 20
"""Rows of a further table that people see."""


class Picture(NamedTuple):
    """What makes a figure of a table, the table, and the file's name."""

    draw: Callable[[pl.DataFrame], Figure]
    table: pl.DataFrame
    name: str


@dataclass(frozen=True, eq=False)
class Report:
    """Everything that a recalibration leaves.

    Attributes
    ----------
    record
        The report as plain values.
    scores
        Its scores as a table.
    shown
        What people see: tables and sentences.
    probabilities
        Row numbers, probabilities before and after, and labels of the rows that were not fitted.
    pictures
        Makes the pictures; called only when they are wanted.
    interrupted
        Whether something is missing because somebody did not want to wait.
    """

    record: dict[str, Any]
    scores: pl.DataFrame
    shown: list[Any]
    probabilities: pl.DataFrame
    pictures: Callable[[], Sequence[Picture]]
    interrupted: bool = False

    def write(self, folder: Path) -> list[Path]:
        """Write recalibrated.parquet, report.json, report.csv and pictures, each only when it is complete."""
        from onlinecal.plots.style import write_figure

        pictures = [(one.draw(one.table), one.table, folder / one.name) for one in self.pictures()]
        probabilities = write_table(self.probabilities, folder / "recalibrated.parquet")
        # NaN and infinities become null
        record = msgspec.json.format(msgspec.json.encode(self.record), indent=2)
        write_whole(folder / "report.json", record)
        scores = write_table(self.scores, folder / "report.csv")
        return [probabilities, folder / "report.json", scores, *(write_figure(*one) for one in pictures)]


def sizes(record: dict[str, Any]) -> str:
    """How many rows each part has, in words."""
    return ", ".join(f"{count:,} rows to {part}" for part, count in record["rows"].items())


def record_tables(record: dict[str, Any]) -> list[Table]:
    """The scores of one method beside its rivals', the facts about its fit, then the further tables."""
    lines = record["measures"]
    names = list(lines[0]["values"])
    scores = [[one["measure"], one["part"], *(_text(one["values"][name]) for name in names)] for one in lines]
    facts = [[name, _text(value)] for name, value in record["facts"].items()]
    tables = [
        table(f"{record['file']}: {sizes(record)}", ["", "part", *names], scores, left=2),
        table(None, [record["method"], ""], facts),
    ]
    for title, rows in record["tables"].items():
        if not rows:
            continue
        some = f" ({SHOWN} of {len(rows)})" if len(rows) > SHOWN else ""
        heading = [name.replace("_", " ") for name in rows[0]]
        left = sum(isinstance(value, str) for value in rows[0].values())
        cells = [list(map(_text, row.values())) for row in rows[:SHOWN]]
        tables.append(table(title + some, heading, cells, left))
    return tables


def _text(value: Any) -> str:
    if value is None or value != value:
        return "–"
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.2g}" if 0 < abs(value) < 0.001 else f"{value:.4f}"
