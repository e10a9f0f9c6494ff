"""Recorded forecasts measured inside groups that are made of columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from onlinecal.cli.recalibrating.events import GroupColumns, read_events
from onlinecal.measures.groups.report import MulticalibrationReport, multicalibration_report
from onlinecal.recalibration.groups.maker import GroupMaker

if TYPE_CHECKING:
    from rich.table import Table


def group_reports(
    file: Path, forecasts: list[str], outcome: str, groups: list[str], n_levels: int
) -> dict[str, MulticalibrationReport]:
    """A report for every column of forecasts: everyone, all values of the columns, all pairs of two columns.

    Raises ValueError for columns that are not there or hold no forecasts or outcomes.
    """
    answer = {}
    for name in forecasts:
        rounds = read_events(file, outcome, name)
        maker = GroupMaker()
        try:
            table = GroupColumns.of(rounds.frame, groups)(rounds.frame)
        except ValueError as error:
            raise ValueError(f"{file}: {error}") from error
        members = maker.fit(table, len(rounds.rows))
        assert rounds.forecasts is not None
        assert rounds.outcomes is not None
        answer[name] = multicalibration_report(
            rounds.forecasts, rounds.outcomes, members, n_levels, maker.names_
        )
    return answer


def group_table(name: str, report: MulticalibrationReport, n_levels: int) -> Table:
    """A line per group, the one with the largest violation first; averages over rounds."""
    from onlinecal.cli.output import table

    lines = sorted(report.lines, key=lambda line: -line.violation)
    rows = [
        [
            line.name,
            f"{line.count:,}",
            f"{line.forecast:.4f}",
            f"{line.outcome:.4f}",
            f"{line.squared_error:.4f}",
            f"{line.violation:.2g}",
            f"{line.noise:.2g}",
            "–"
            if line.worst is None
            else f"{line.worst.forecast:.3f} → {line.worst.outcome:.3f} in {line.worst.count:,}",
        ]
        for line in lines
        if line.count
    ]
    return table(
        f"{name} in each group, level sets of width 1/{n_levels}: averages over rounds",
        ["group", "rounds", "forecast", "outcome", "Brier", "violation", "by chance", "worst level set"],
        rows,
    )
