"""The report of a recalibration, for people, for machines and for files.

A report never changes once it is made. The keys of `record` are those of report.json and of --json, and the
columns of `probabilities` and `scores` are those of files: users read them by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import polars as pl

from onlinecal.cli.output import table
from onlinecal.cli.recalibrating.asked import PICTURES
from onlinecal.tables.writing import write_table, write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

AS_GIVEN = "none"
"""The name of the map that leaves probabilities as given."""
ROWS_SHOWN = 20
"""So many rows of each further table are printed; report.json has all."""


class Drawing(NamedTuple):
    """A picture that is to be drawn and written: what draws it, of which table, and the file's name."""

    draw: Callable[[pl.DataFrame], Figure]
    table: pl.DataFrame
    name: str


@dataclass(frozen=True, eq=False)
class RecalibrationReport:
    """Everything that a recalibration reports.

    Attributes
    ----------
    record
        The report as plain values, as report.json has them. With one method: method, file (its name),
        parameters, rows (how many each part has), facts (of the fit, by name), measures (a list: measure,
        part, and values, one for each map), tables (by title, a list of rows each), warnings. Where methods
        were compared: file, contents, split, rows, methods, left_out (a reason for each), resamples, scores,
        best (for each purpose), recommended, why, chosen, warnings, interrupted.
    scores
        Its scores as a table.
    shown
        The tables and sentences for people.
    probabilities
        The rows that were not fitted, or were predicted by folds that did not fit them: their numbers,
        probabilities before and after, and, where they are known, their labels or outcomes.
    pictures
        The function that makes the pictures, called only if they are wanted.
    interrupted
        Whether something is missing because of an interrupt.
    """

    record: dict[str, Any]
    scores: pl.DataFrame
    shown: list[Any]
    probabilities: pl.DataFrame
    pictures: Callable[[], Sequence[Drawing]]
    interrupted: bool = False

    def write(self, folder: Path) -> list[Path]:
        """Write recalibrated.parquet, report.json, report.csv and pictures, each only when it is complete."""
        from onlinecal.plots.style import write_figure

        drawings = self.pictures()
        # the verb refuses an input file with the name of one of these
        assert {picture.name for picture in drawings} <= set(PICTURES)
        pictures = [
            (picture.draw(picture.table), picture.table, folder / picture.name) for picture in drawings
        ]
        probabilities = write_table(self.probabilities, folder / "recalibrated.parquet")
        # NaN and infinities become null
        record = msgspec.json.format(msgspec.json.encode(self.record), indent=2)
        write_whole(folder / "report.json", record)
        scores = write_table(self.scores, folder / "report.csv")
        return [
            probabilities,
            folder / "report.json",
            scores,
            *(write_figure(*picture) for picture in pictures),
        ]


def sizes(record: dict[str, Any]) -> str:
    """How many rows each part has, in words."""
    return ", ".join(f"{count:,} rows to {part}" for part, count in record["rows"].items())


def record_tables(record: dict[str, Any]) -> list[Table]:
    """The scores of one method beside its rivals', the facts about its fit, then the further tables."""
    lines = record["measures"]
    names = list(lines[0]["values"])
    scores = [
        [line["measure"], line["part"], *(_text(line["values"][name]) for name in names)] for line in lines
    ]
    facts = [[name, _text(value)] for name, value in record["facts"].items()]
    tables = [
        table(f"{record['file']}: {sizes(record)}", ["", "part", *names], scores, left=2),
        table(None, [record["method"], ""], facts),
    ]
    for title, rows in record["tables"].items():
        if not rows:
            continue
        some = f" ({ROWS_SHOWN} of {len(rows)})" if len(rows) > ROWS_SHOWN else ""
        heading = [name.replace("_", " ") for name in rows[0]]
        left = sum(isinstance(value, str) for value in rows[0].values())
        cells = [list(map(_text, row.values())) for row in rows[:ROWS_SHOWN]]
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
