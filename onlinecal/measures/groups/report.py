"""Multicalibration group by group, as a table: what each group sees, and its worst level set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onlinecal.html import Bar, Shown, Table
from onlinecal.measures.groups import multicalibration as scan
from onlinecal.validation import check_groups, check_history


@dataclass(frozen=True)
class LevelSet:
    """The rounds of one group that share a level set.

    Attributes
    ----------
    forecast, outcome
        Their mean forecast and mean outcome.
    count
        How many there are.
    violation
        Their part of mu(g) K2(f, g): count/n (forecast - outcome)^2.

    """

    forecast: float
    outcome: float
    count: int
    violation: float


@dataclass(frozen=True)
class GroupLine:
    """One group of a report. Averages: `violation` and `noise` over all rounds, the others over its own.

    Attributes
    ----------
    name
        The group's name.
    count, mass
        Its rounds, and their share of all rounds.
    forecast, outcome
        Mean forecast and mean outcome; NaN in an empty group, like `squared_error`.
    squared_error
        Mean of (forecast - outcome)^2, the Brier score within the group.
    violation
        mu(g) K2(f, g).
    noise
        What `violation` is to be expected from chance alone when every forecast is right.
    n_levels
        Level sets in use.
    worst
        The level set with the largest part of the violation; None in an empty group.

    """

    name: str
    count: int
    mass: float
    forecast: float
    outcome: float
    squared_error: float
    violation: float
    noise: float
    n_levels: int
    worst: LevelSet | None


@dataclass(frozen=True)
class MulticalibrationReport(Shown):
    """Lines for all groups, in their order; print it for a table, worst group first.

    Attributes
    ----------
    lines
        One for each group.
    n_rounds
        All rounds, in a group or not.

    """

    lines: tuple[GroupLine, ...]
    n_rounds: int

    @property
    def worst(self) -> GroupLine:
        """The group with the largest violation (the first of several)."""
        return max(self.lines, key=lambda line: line.violation)

    def rows(self) -> list[dict[str, Any]]:
        """The lines as flat dictionaries, ready for a data frame; the worst level set as worst_*."""
        flat = []
        for line in self.lines:
            row = asdict(line)
            worst = row.pop("worst") or dict.fromkeys(("forecast", "outcome", "count", "violation"))
            flat.append({**row, **{f"worst_{key}": value for key, value in worst.items()}})
        return flat

    def _shown(self) -> Table:
        lines = sorted(self.lines, key=lambda line: -line.violation)
        most = lines[0].violation or 1.0
        header = ("group", "rounds", "forecast", "outcome", "Brier score", "violation", "", "by chance")
        rows = [
            (
                line.name, line.count, line.forecast, line.outcome, line.squared_error, line.violation,
                Bar(0.0, line.violation / most), line.noise,
            )
            for line in lines
        ]  # fmt: skip
        return Table(f"Calibration of {len(lines):,} groups, {self.n_rounds:,} rounds", header, rows)

    def __str__(self) -> str:
        width = max(len("group"), *(len(line.name) for line in self.lines))
        head = f"{'group':{width}} {'rounds':>9} {'mass':>6} {'forecast':>8} {'outcome':>8} {'brier':>7}"
        out = [f"{head} {'mu K2':>9} {'chance':>9}  worst level set"]
        for line in sorted(self.lines, key=lambda line: -line.violation):
            text = f"{line.name:{width}} {line.count:9d} {line.mass:6.3f} {line.forecast:8.4f}"
            text += f" {line.outcome:8.4f} {line.squared_error:7.4f} {line.violation:9.6f} {line.noise:9.6f}"
            if line.worst:
                worst = line.worst
                text += f"  {worst.forecast:.3f} -> {worst.outcome:.3f} in {worst.count}"
            out.append(text)
        return "\n".join(out)


def multicalibration_report(
    forecasts: ArrayLike,
    outcomes: ArrayLike,
    groups: ArrayLike,
    n_levels: int | None = None,
    names: Sequence[str] | None = None,
) -> MulticalibrationReport:
    """Every group's rounds, means, errors and worst level set.

    Parameters
    ----------
    forecasts, outcomes, groups, n_levels
        As in `multicalibration_error`.
    names
        One name for each group; by default the columns of a data frame, else their numbers.

    Raises
    ------
    ValueError
        Bad arguments; the message names the argument, the value and its row.

    Examples
    --------
    >>> report = multicalibration_report([0.5, 0.5, 0.2], [0, 1, 1], [[1], [0], [1]], names=["a"])
    >>> report.worst.name, report.worst.worst.count, round(report.worst.violation, 2)
    ('a', 1, 0.3)

    """
    p, y = check_history(forecasts, outcomes)
    members = check_groups(groups, len(p))
    if names is None:
        names = [str(name) for name in getattr(groups, "columns", range(members.shape[1]))]
    if len(names) != members.shape[1]:
        raise ValueError(f"names must be one for each of the {members.shape[1]} groups, got {len(names)}")
    _, order, starts = scan.level_sets(p, n_levels)
    found = scan.scan_levels(p, y, members.view(np.uint8), order, starts)
    return MulticalibrationReport(
        tuple(_line(name, row, len(p)) for name, row in zip(names, found, strict=True)), len(p)
    )


def _line(name: str, row: scan.Floats, n_rounds: int) -> GroupLine:
    count = int(row[scan.COUNT])
    each = float(count) if count else float("nan")
    worst = None
    if count:
        rounds = float(row[scan.WORST_COUNT])
        worst = LevelSet(
            float(row[scan.WORST_FORECASTS]) / rounds,
            float(row[scan.WORST_OUTCOMES]) / rounds,
            int(rounds),
            float(row[scan.WORST_VIOLATION]) / n_rounds,
        )
    return GroupLine(
        str(name),
        count,
        count / n_rounds,
        float(row[scan.FORECASTS]) / each,
        float(row[scan.OUTCOMES]) / each,
        float(row[scan.SQUARES]) / each,
        float(row[scan.VIOLATION]) / n_rounds,
        float(row[scan.NOISE]) / n_rounds,
        int(row[scan.LEVELS]),
        worst,
    )
