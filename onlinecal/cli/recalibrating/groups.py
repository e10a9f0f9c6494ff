"""Multicalibration for groups that are made of columns, and recorded forecasts measured inside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from onlinecal.arrays import Floats
from onlinecal.cli.output import table
from onlinecal.cli.recalibrating.alone import Findings, Method, Run, Scores, View, stops_until
from onlinecal.cli.recalibrating.asked import Asked, made
from onlinecal.cli.recalibrating.reading import Part, column
from onlinecal.cli.recalibrating.report import NONE, Picture, Section
from onlinecal.measures.groups import MulticalibrationReport, multicalibration_report
from onlinecal.measures.scores import brier_score
from onlinecal.recalibration.groups.maker import GroupMaker, GroupRepair
from onlinecal.recalibration.groups.recalibrator import GroupRecalibrator
from onlinecal.rounds import Rounds

if TYPE_CHECKING:
    from rich.table import Table

MOST_VALUES = 12
"""A column of numbers with more distinct values than this is cut into ranges."""
RANGES = 4


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
            floats = values.cast(pl.Float64).fill_null(np.nan).to_numpy()
            ends = [f"{bound:g}" for bound in bounds]
            inner = (f"{low} to {high}" for low, high in pairwise(ends))
            labels = [f"below {ends[0]}", *inner, f"from {ends[-1]}"]
            places = pl.Series(np.searchsorted(bounds, floats, "right"))
            texts = pl.Series(name, labels, dtype=pl.String).gather(places)
            columns.append(texts.set(pl.Series(np.isnan(floats)), None))
        return pl.DataFrame(columns)


def group_reports(rounds: Rounds, groups: list[str], n_levels: int) -> dict[str, MulticalibrationReport]:
    """A report for every column of forecasts: everyone, all values of the columns, all pairs of two columns.

    Raises ValueError for columns of groups that are listed twice.
    """
    try:
        table = GroupColumns.of(rounds.frame, groups)(rounds.frame)
    except ValueError as error:
        raise ValueError(f"{rounds.name}: {error}") from error
    maker = GroupMaker()
    members = maker.fit(table, rounds.frame.height)
    return {
        name: multicalibration_report(forecasts, rounds.outcomes, members, n_levels, maker.names_)
        for name, forecasts in rounds.forecasts.items()
    }


def group_table(name: str, report: MulticalibrationReport, n_levels: int) -> Table:
    """A line per group, the one with the largest violation first; averages over rounds."""
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


STEPS = 60
"""Numbers of patches at which the picture looks."""


def view(asked: Asked, fit: Part) -> View:
    """Forecasts, and columns of categories."""
    columns = GroupColumns.of(fit.frame, asked.group)
    return lambda part: (part.probabilities, columns(part.frame))


def further(asked: Asked) -> Sequence[str]:
    """The columns of groups; ValueError if they, or the forecasts, are not named."""
    if asked.forecast is None:
        raise ValueError("--forecast is needed with --method groups, the column of forecasts")
    if not asked.group:
        raise ValueError("--group is needed with --method groups: at least one column of groups")
    return asked.group


def findings(run: Run) -> Findings:
    """Violations of the groups, and each group before and after."""
    model: GroupRecalibrator = run.model
    members = {name: model.members(seen[1], len(seen[0])) for name, seen in run.seen.items()}

    def measured(part: Part, forecasts: Floats) -> MulticalibrationReport:
        return multicalibration_report(
            forecasts, part.settled, members[part.name], model.n_levels_ or None, model.group_names_
        )

    reports = {
        (part.name, name): measured(part, after)
        for part in run.labelled
        for name, after in run.mapped[part.name].items()
    }

    def scores(part: Part, name: str) -> Scores:
        report = reports[part.name, name]
        return {
            "worst group's violation": report.worst.violation,
            "mean violation": float(np.mean([line.violation for line in report.lines])),
            "mean violation by chance": float(np.mean([line.noise for line in report.lines])),
        }

    def pictures() -> list[Picture]:
        from onlinecal.plots.groups import draw_repair, group_numbers
        from onlinecal.plots.recalibrations import draw_patches

        numbers = group_numbers(repair).with_columns(title=pl.lit(run.title))
        drawn = [Picture(draw_repair, numbers, "groups")]
        if model.n_patches_:
            drawn.append(Picture(draw_patches, violations_by_patches(run, measured), "patches"))
        return drawn

    shown = run.shown.name
    both = GroupRepair(reports[shown, NONE], reports[shown, "groups"])
    repair = sorted(both.rows(), key=lambda row: -row["violation_before"])
    title = f"each group before and after ({shown} rows)"
    return Findings(
        scores,
        parameters={
            **model.get_params(),
            "groups": [*run.asked.group],
            "cuts": GroupColumns.of(run.fit.frame, run.asked.group).cuts,
        },
        facts={
            "groups": model.n_groups_,
            "start": model.start_.kind if model.start_ else "none",
            "patches": model.n_patches_,
            "patches at most": model.max_patches_,
        },
        sections=[Section(title, repair, shown=20, hidden=("mass",))],
        pictures=pictures,
    )


METHOD = Method(lambda asked, _: made(GroupRecalibrator, asked), findings, view, further)


def violations_by_patches(
    run: Run, measured: Callable[[Part, Floats], MulticalibrationReport]
) -> pl.DataFrame:
    """Columns part, patches, worst, chance, squared_error: forecasts after the start and so many patches."""
    stops = stops_until(run.model.n_patches_, STEPS + 1)
    rows = []
    for part in run.labelled:
        stages = run.model.staged_predict(*run.seen[part.name], stops)
        for stop, p in zip(stops, stages, strict=True):
            worst = measured(part, p).worst
            rows.append(
                {
                    "part": part.name,
                    "patches": stop,
                    "worst": worst.violation,
                    "chance": worst.noise,
                    "squared_error": brier_score(p, part.settled) / len(part),
                    "alpha": run.model.alpha,
                }
            )
    return pl.DataFrame(rows, schema_overrides={"alpha": pl.Float64})
