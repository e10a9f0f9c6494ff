"""Multicalibration of a column of forecasts for groups that are made of columns."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from onlinecal.cli.recalibrating.events import Events, isotonic_map, read_job
from onlinecal.cli.recalibrating.group_tables import GroupColumns
from onlinecal.cli.recalibrating.options import GroupSettings, Rows
from onlinecal.cli.recalibrating.parts import gathered_warnings
from onlinecal.cli.recalibrating.report import NONE, Picture, Report, Scores, Section
from onlinecal.measures.groups.report import MulticalibrationReport, multicalibration_report
from onlinecal.measures.scores import brier_score
from onlinecal.recalibration.groups.history import KINDS, Patch
from onlinecal.recalibration.groups.maker import GroupMaker
from onlinecal.recalibration.groups.recalibrator import GroupRecalibrator

Floats = NDArray[np.float64]

LEVELS = 10
STEPS = 60
"""Numbers of patches at which the picture looks."""
WORST, MEAN, CHANCE = "worst group's violation", "mean violation", "mean violation by chance"


def new_model(settings: GroupSettings, seed: int) -> GroupRecalibrator:
    """An unfitted recalibrator; value patches need more levels than shifts when alpha is small."""
    alpha, patch, levels = settings.alpha, settings.patch, settings.levels or None
    if levels is None and patch != "unrounded":
        fine = math.ceil(alpha**-0.5) if 0 < alpha <= 1 else 1
        levels = max(LEVELS, fine) if patch == "value" else LEVELS
    return GroupRecalibrator(alpha=alpha, patch=cast(Patch, patch), n_levels=levels, seed=seed)


def recalibrate(file: Path, rows: Rows, settings: GroupSettings) -> Report:
    """Fit, compare and report."""
    if settings.forecast is None:
        raise ValueError("--forecast is needed with --method groups, the column of forecasts")
    if not settings.group:
        raise ValueError("--group is needed with --method groups: at least one column of groups")
    job = read_job(file, settings, rows)
    columns = GroupColumns.of(job.fit.frame, settings.group)
    tables = {part.name: columns(part.frame) for part in job.parts}
    model = new_model(settings, rows.seed)
    with gathered_warnings() as remarks:
        model.fit(job.fit.told, job.fit.settled, tables["fit"])
    isotonic = isotonic_map(job.fit)
    maker = GroupMaker(model.min_mass)
    maker.fit(tables["fit"], len(job.fit))
    members = {part.name: maker.transform(tables[part.name], len(part)) for part in job.parts}
    mapped = {
        part.name: {
            NONE: part.told,
            "groups": model.predict(part.told, tables[part.name]),
            "isotonic": isotonic(part.told),
        }
        for part in job.parts
    }
    reports = {
        (part.name, kind): group_report(model, forecasts, part, members)
        for part in job.labelled
        for kind, forecasts in mapped[part.name].items()
    }
    shown = job.labelled[-1].name
    repair = repair_rows(reports[shown, NONE], reports[shown, "groups"])
    return job.report(
        "groups",
        mapped,
        lambda part, kind: _violations(reports[part.name, kind]),
        remarks,
        parameters={**model.get_params(), "groups": settings.group, "cuts": columns.cuts},
        facts={
            "groups": model.n_groups_,
            "patches": model.n_patches_,
            "patches at most": model.max_patches_,
        },
        sections=[Section(f"each group before and after ({shown} rows)", repair, shown=20, hidden=("mass",))],
        pictures=lambda: pictures(model, repair, f"{job.file}, {shown} rows", job.labelled, members),
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
) -> list[Picture]:
    """Groups before and after; the worst violation and the squared error against patches."""
    from onlinecal.plots.recalibration import groups as recalibration_groups
    from onlinecal.plots.recalibration import patches as recalibration_patches

    drawn = [Picture(recalibration_groups, recalibration_groups.prepare(repair, title), "groups")]
    if model.n_patches_:
        numbers = violations_by_patches(model, labelled, members)
        drawn.append(Picture(recalibration_patches, numbers, "patches"))
    return drawn


def violations_by_patches(
    model: GroupRecalibrator, labelled: list[Events], members: dict[str, NDArray[np.bool_]]
) -> pl.DataFrame:
    """Columns part, patches, worst, chance, squared_error: the forecasts after so many patches."""
    stops = np.unique(np.round(np.linspace(0, model.n_patches_, STEPS + 1)).astype(int))
    rows = []
    for part in labelled:
        for stop in stops.tolist():
            p = replay(model, part.told, members[part.name], stop)
            report = group_report(model, p, part, members)
            rows.append(
                {
                    "part": part.name,
                    "patches": stop,
                    "worst": report.worst.violation,
                    "chance": report.worst.noise,
                    "squared_error": brier_score(p, part.settled) / len(part),
                    "alpha": float(model.alpha),
                }
            )
    return pl.DataFrame(rows)


def replay(model: GroupRecalibrator, p: Floats, members: NDArray[np.bool_], n_patches: int) -> Floats:
    """The forecasts after the first patches of a fitted model, shape (n,)."""
    if n_patches == 0:
        return p
    _, compiled, played = KINDS[model.patch]
    m, inside = model.n_levels_, np.ascontiguousarray(members).view(np.uint8)
    return played(p, inside, compiled(model.history_[:n_patches], m), m)
