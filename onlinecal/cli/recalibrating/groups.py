"""Multicalibration of a column of forecasts for groups that are made of columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from onlinecal.cli.recalibrating.events import Events, Maps, read_job
from onlinecal.cli.recalibrating.group_tables import GroupColumns
from onlinecal.cli.recalibrating.options import GroupSettings, Rows
from onlinecal.cli.recalibrating.parts import gathered_warnings
from onlinecal.cli.recalibrating.report import NONE, Picture, Report, Scores, Section
from onlinecal.measures.groups.report import MulticalibrationReport, multicalibration_report
from onlinecal.measures.scores import brier_score
from onlinecal.recalibration.groups.history import Patch
from onlinecal.recalibration.groups.recalibrator import GroupRecalibrator
from onlinecal.recalibration.groups.start import Start

Floats = NDArray[np.float64]

STEPS = 60
"""Numbers of patches at which the picture looks."""
WORST, MEAN, CHANCE = "worst group's violation", "mean violation", "mean violation by chance"


def new_model(settings: GroupSettings, seed: int) -> GroupRecalibrator:
    """An unfitted recalibrator."""
    return GroupRecalibrator(
        alpha=settings.alpha,
        patch=cast(Patch, settings.patch),
        n_levels=settings.levels or None,
        seed=seed,
        start=cast(Start, settings.start),
    )


def recalibrate(file: Path, rows: Rows, settings: GroupSettings) -> Report:
    """Fit, compare and report."""
    if settings.forecast is None:
        raise ValueError("--forecast is needed with --method groups, the column of forecasts")
    if not settings.group:
        raise ValueError("--group is needed with --method groups: at least one column of groups")
    job = read_job(file, settings, rows, settings.group)
    columns = GroupColumns.of(job.fit.frame, settings.group)
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
        parameters={**model.get_params(), "groups": settings.group, "cuts": columns.cuts},
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
    model: GroupRecalibrator, forecasts: Floats, part: Events, members: dict[str, NDArray[np.bool_]]
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
    from onlinecal.recalibration.groups.repair import GroupRepair

    rows = GroupRepair(before, after).rows()
    return sorted(rows, key=lambda row: -row["violation_before"])


def pictures(
    model: GroupRecalibrator,
    repair: list[dict[str, Any]],
    title: str,
    labelled: list[Events],
    members: dict[str, NDArray[np.bool_]],
    tables: dict[str, pl.DataFrame],
) -> list[Picture]:
    """Groups before and after; the worst violation and the squared error against patches."""
    from onlinecal.plots.recalibration import groups as recalibration_groups
    from onlinecal.plots.recalibration import patches as recalibration_patches

    drawn = [Picture(recalibration_groups, recalibration_groups.prepare(repair, title), "groups")]
    if model.n_patches_:
        numbers = violations_by_patches(model, labelled, members, tables)
        drawn.append(Picture(recalibration_patches, numbers, "patches"))
    return drawn


def violations_by_patches(
    model: GroupRecalibrator,
    labelled: list[Events],
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
