"""Multicalibration for groups that are made of columns, and recorded forecasts measured inside them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from onlinecal.arrays import Floats
from onlinecal.cli.recalibrating.jobs import Maps, column, gathered_warnings, read_job
from onlinecal.cli.recalibrating.options import Rows, Settings, estimator
from onlinecal.cli.recalibrating.report import NONE, Picture, Report, Scores, Section
from onlinecal.cli.recalibrating.tables import Part
from onlinecal.measures.groups import MulticalibrationReport, multicalibration_report
from onlinecal.measures.scores import brier_score
from onlinecal.recalibration.groups.maker import GroupMaker
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
    def of(cls, frame: pl.DataFrame, names: list[str]) -> GroupColumns:
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
            labels = _range_names(bounds)
            places = pl.Series(np.searchsorted(bounds, floats, "right"))
            texts = pl.Series(name, labels, dtype=pl.String).gather(places)
            columns.append(texts.set(pl.Series(np.isnan(floats)), None))
        return pl.DataFrame(columns)


def _range_names(bounds: tuple[float, ...]) -> list[str]:
    ends = [f"{bound:g}" for bound in bounds]
    middle = [f"{low} to {high}" for low, high in pairwise(ends)]
    return [f"below {ends[0]}", *middle, f"from {ends[-1]}"]


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


STEPS = 60
"""Numbers of patches at which the picture looks."""
WORST, MEAN, CHANCE = "worst group's violation", "mean violation", "mean violation by chance"


def new_model(settings: Settings, seed: int) -> GroupRecalibrator:
    """An unfitted recalibrator."""
    return estimator(GroupRecalibrator, settings, seed=seed)


def recalibrate(file: Path, rows: Rows, settings: Settings) -> Report:
    """Fit, compare and report."""
    if settings.forecast is None:
        raise ValueError("--forecast is needed with --method groups, the column of forecasts")
    if not settings.group:
        raise ValueError("--group is needed with --method groups: at least one column of groups")
    job = read_job(file, "groups", settings, rows, settings.group)
    columns = GroupColumns.of(job.fit.frame, [*settings.group])
    model = new_model(settings, rows.seed)
    with gathered_warnings() as remarks:
        model.fit(job.fit.told, job.fit.settled, columns(job.fit.frame))
    tables = {part.name: columns(part.frame) for part in job.labelled}
    members = {part.name: model.members(tables[part.name], len(part)) for part in job.labelled}
    maps: Maps = {
        NONE: lambda part: part.told,
        "groups": lambda part: model.predict(part.told, columns(part.frame)),
    }
    maps = job.with_isotonic(maps)
    mapped = job.mapped(maps)
    reports = {
        (part.name, kind): group_report(model, forecasts, part, members)
        for part in job.labelled
        for kind, forecasts in mapped[part.name].items()
    }
    shown = job.labelled[-1].name
    repair = repair_rows(reports[shown, NONE], reports[shown, "groups"])
    return job.report(
        "groups",
        maps,
        mapped,
        lambda part, kind: _violations(reports[part.name, kind]),
        remarks,
        parameters={**model.get_params(), "groups": [*settings.group], "cuts": columns.cuts},
        facts={
            "groups": model.n_groups_,
            "start": model.start_.kind if model.start_ else "none",
            "patches": model.n_patches_,
            "patches at most": model.max_patches_,
        },
        sections=[Section(f"each group before and after ({shown} rows)", repair, shown=20, hidden=("mass",))],
        pictures=lambda: pictures(model, repair, f"{job.file}, {shown} rows", job.labelled, members, tables),
    )


def group_report(
    model: GroupRecalibrator, forecasts: Floats, part: Part, members: dict[str, NDArray[np.bool_]]
) -> MulticalibrationReport:
    """Group by group, how calibrated the forecasts of a part are."""
    return multicalibration_report(
        forecasts, part.settled, members[part.name], model.n_levels_ or None, model.group_names_
    )


def _violations(report: MulticalibrationReport) -> Scores:
    return {
        WORST: report.worst.violation,
        MEAN: float(np.mean([line.violation for line in report.lines])),
        CHANCE: float(np.mean([line.noise for line in report.lines])),
    }


def repair_rows(before: MulticalibrationReport, after: MulticalibrationReport) -> list[dict[str, Any]]:
    """One record per group, the one that was worst first."""
    from onlinecal.recalibration.groups.maker import GroupRepair

    rows = GroupRepair(before, after).rows()
    return sorted(rows, key=lambda row: -row["violation_before"])


def pictures(
    model: GroupRecalibrator,
    repair: list[dict[str, Any]],
    title: str,
    labelled: list[Part],
    members: dict[str, NDArray[np.bool_]],
    tables: dict[str, pl.DataFrame],
) -> list[Picture]:
    """Groups before and after; the worst violation and the squared error against patches."""
    from onlinecal.plots.recalibration.groups import draw_both, prepare_groups
    from onlinecal.plots.recalibration.rounds import draw_patches

    drawn = [Picture(draw_both, prepare_groups(repair, title), "groups")]
    if model.n_patches_:
        numbers = violations_by_patches(model, labelled, members, tables)
        drawn.append(Picture(draw_patches, numbers, "patches"))
    return drawn


def violations_by_patches(
    model: GroupRecalibrator,
    labelled: list[Part],
    members: dict[str, NDArray[np.bool_]],
    tables: dict[str, pl.DataFrame],
) -> pl.DataFrame:
    """Columns part, patches, worst, chance, squared_error: forecasts after the start and so many patches."""
    stops = np.unique(np.round(np.linspace(0, model.n_patches_, STEPS + 1)).astype(int))
    rows = []
    for part in labelled:
        stages = model.staged_predict(part.told, tables[part.name], stops.tolist())
        for stop, p in zip(stops.tolist(), stages, strict=True):
            report = group_report(model, p, part, members)
            rows.append(
                {
                    "part": part.name,
                    "patches": stop,
                    "worst": report.worst.violation,
                    "chance": report.worst.noise,
                    "squared_error": brier_score(p, part.settled) / len(part),
                    "alpha": model.alpha,
                }
            )
    return pl.DataFrame(rows, schema_overrides={"alpha": pl.Float64})
