"""Multicalibration for groups that are made of columns, and recorded forecasts measured inside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl

from onlinecal.arrays import Floats
from onlinecal.cli.recalibrating.alone import Findings, Method, Run, Scores, View, stops_until
from onlinecal.cli.recalibrating.asked import Asked, made
from onlinecal.cli.recalibrating.reading import Part, column
from onlinecal.cli.recalibrating.report import NONE, Picture
from onlinecal.measures.groups import MulticalibrationReport, multicalibration_report
from onlinecal.measures.scores import brier_score
from onlinecal.recalibration.groups.maker import GroupMaker, GroupRepair
from onlinecal.recalibration.groups.recalibrator import GroupRecalibrator
from onlinecal.rounds import Rounds

MOST_VALUES = 12
"""A column of numbers with more distinct values than this is cut into ranges."""
RANGES = 4
STOPS = 61
"""Numbers of patches in the picture."""


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
            ends = [f"{bound:g}" for bound in bounds]
            inner = (f"{low} to {high}" for low, high in pairwise(ends))
            labels = [f"below {ends[0]}", *inner, f"from {ends[-1]}"]
            ranges = values.cast(pl.Float64).fill_nan(None).cut(bounds, labels=labels, left_closed=True)
            columns.append(ranges.cast(pl.String))
        return pl.DataFrame(columns)


def group_reports(rounds: Rounds, groups: list[str], n_levels: int) -> dict[str, MulticalibrationReport]:
    """A report for every column of forecasts: everyone, all values of the columns, all pairs of two columns.

    Raises ValueError for columns of groups that are listed twice.
    """
    table = GroupColumns.of(rounds.frame, groups)(rounds.frame)
    maker = GroupMaker()
    members = maker.fit(table, rounds.frame.height)
    return {
        name: multicalibration_report(forecasts, rounds.outcomes, members, n_levels, maker.names_)
        for name, forecasts in rounds.forecasts.items()
    }


def view(asked: Asked, fit: Part) -> View:
    """Forecasts, and columns of categories; ValueError if the columns of either are not named."""
    if asked.forecast is None:
        raise ValueError("--forecast is needed with --method groups, the column of forecasts")
    if not asked.group:
        raise ValueError("--group is needed with --method groups: at least one column of groups")
    columns = GroupColumns.of(fit.frame, asked.group)
    return lambda part: (part.probabilities, columns(part.frame))


def findings(run: Run) -> Findings:
    """Violations of the groups, and each group before and after."""
    model: GroupRecalibrator = run.model
    reports = {
        (part.name, name): report_of(model, part, run.view(part)[1], after)
        for part in run.parts
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
            drawn.append(Picture(draw_patches, violations_by_patches(run), "patches"))
        return drawn

    shown = run.shown.name
    both = GroupRepair(reports[shown, NONE], reports[shown, "groups"])
    repair = sorted(both.rows(), key=lambda row: -row["violation_before"])
    seen = [{name: value for name, value in row.items() if name != "mass"} for row in repair]
    return Findings(
        scores,
        parameters={
            **model.get_params(),
            "groups": [*run.asked.group],
            "cuts": GroupColumns.of(run.parts[0].frame, run.asked.group).cuts,
        },
        facts={
            "groups": model.n_groups_,
            "start": model.start_.kind if model.start_ else "none",
            "patches": model.n_patches_,
            "patches at most": model.max_patches_,
        },
        tables={f"each group before and after ({shown} rows)": seen},
        pictures=pictures,
    )


METHOD = Method(lambda asked, _: made(GroupRecalibrator, asked), findings, view)


def violations_by_patches(run: Run) -> pl.DataFrame:
    """Columns part, patches, worst, chance, squared_error: forecasts after the start and so many patches."""
    stops, rows = stops_until(run.model.n_patches_, STOPS), []
    for part in run.parts:
        forecasts, groups = run.view(part)
        stages = run.model.staged_predict(forecasts, groups, stops)
        for stop, p in zip(stops, stages, strict=True):
            worst = report_of(run.model, part, groups, p).worst
            row = {"part": part.name, "patches": stop, "worst": worst.violation, "chance": worst.noise}
            rows.append({**row, "squared_error": brier_score(p, part.settled) / len(part)})
    return pl.DataFrame(rows).with_columns(alpha=pl.lit(run.model.alpha, pl.Float64))


def report_of(
    model: GroupRecalibrator, part: Part, groups: pl.DataFrame, p: Floats
) -> MulticalibrationReport:
    """How wrong forecasts of a part are in its groups."""
    members = model.members(groups, len(part))
    return multicalibration_report(p, part.settled, members, model.n_levels_ or None, model.group_names_)
