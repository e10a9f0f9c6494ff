"""Multicalibration of a column of forecasts for groups that are made of columns."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression

from onlinecal.cli.recalibrating.events import (
    Events,
    GroupColumns,
    event_remarks,
    read_parts,
    written_events,
)
from onlinecal.cli.recalibrating.multiclass import gathered_warnings
from onlinecal.cli.recalibrating.options import GroupSettings, Rows
from onlinecal.cli.recalibrating.report import NONE, Picture, Report, Section, measure_lines
from onlinecal.cli.recalibrating.scores import EVENT_MEASURES, event_scores
from onlinecal.measures.groups.report import MulticalibrationReport, multicalibration_report
from onlinecal.recalibration.groups.history import KINDS, Patch
from onlinecal.recalibration.groups.maker import GroupMaker
from onlinecal.recalibration.groups.recalibrator import GroupRecalibrator

Floats = NDArray[np.float64]
Scores = dict[str, float | None]

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
    name, fit, other = read_parts(file, settings, rows)
    columns = GroupColumns.of(fit.frame, settings.group)
    model = new_model(settings, rows.seed)
    assert fit.forecasts is not None
    assert fit.outcomes is not None
    assert other.forecasts is not None
    with gathered_warnings() as remarks:
        model.fit(fit.forecasts, fit.outcomes, columns(fit.frame))
    isotonic = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
    isotonic.fit(fit.forecasts, fit.outcomes)
    maker = GroupMaker(model.min_mass)
    maker.fit(columns(fit.frame), len(fit.rows))
    labelled = [part for part in (fit, other) if part.outcomes is not None]
    mapped = {
        part.name: {
            NONE: part.forecasts,
            "groups": model.predict(part.forecasts, columns(part.frame)),
            "isotonic": isotonic.predict(part.forecasts),
        }
        for part in (fit, other)
        if part.forecasts is not None
    }
    members = {part.name: maker.transform(columns(part.frame), len(part.rows)) for part in (fit, other)}
    reports = {}
    for part in labelled:
        assert part.outcomes is not None
        for kind, forecasts in mapped[part.name].items():
            reports[part.name, kind] = multicalibration_report(
                forecasts, part.outcomes, members[part.name], model.n_levels_ or None, model.group_names_
            )
    scores: dict[str, dict[str, Scores]] = {}
    for part in labelled:
        assert part.outcomes is not None
        for kind, forecasts in mapped[part.name].items():
            found = _violations(reports[part.name, kind])
            scores.setdefault(part.name, {})[kind] = {**found, **event_scores(forecasts, part.outcomes)}
    shown = labelled[-1]
    repair = repair_rows(reports[shown.name, NONE], reports[shown.name, "groups"])
    return Report(
        method="groups",
        file=name,
        parameters={**model.get_params(), "groups": settings.group, "cuts": columns.cuts},
        n_rows={part.name: len(part.rows) for part in (fit, other)},
        lines=measure_lines([WORST, MEAN, CHANCE, *EVENT_MEASURES], scores),
        facts={
            "groups": model.n_groups_,
            "patches": model.n_patches_,
            "patches at most": model.max_patches_,
        },
        probabilities=written_events(other, other.forecasts, mapped[other.name]["groups"]),
        sections=[
            Section(f"each group before and after ({shown.name} rows)", repair, shown=20, hidden=("mass",))
        ],
        warnings=[*event_remarks(fit, settings.outcome, settings.forecast), *remarks],
        pictures=lambda: pictures(model, repair, f"{name}, {shown.name} rows", labelled, members),
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
        assert part.forecasts is not None
        assert part.outcomes is not None
        inside = members[part.name]
        for stop in stops.tolist():
            p = replay(model, part.forecasts, inside, stop)
            report = multicalibration_report(
                p, part.outcomes, inside, model.n_levels_ or None, model.group_names_
            )
            rows.append(
                {
                    "part": part.name,
                    "patches": stop,
                    "worst": report.worst.violation,
                    "chance": report.worst.noise,
                    "squared_error": float(((p - part.outcomes) ** 2).mean()),
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
