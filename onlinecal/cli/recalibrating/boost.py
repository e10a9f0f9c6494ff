"""Boosting for multicalibration: features and outcomes, from a column of forecasts or from the mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from onlinecal.arrays import Floats
from onlinecal.cli.recalibrating.jobs import Maps, gathered_warnings, numbers, read_job
from onlinecal.cli.recalibrating.options import Rows, Settings, estimator
from onlinecal.cli.recalibrating.report import NONE, Picture, Report, Scores, Section
from onlinecal.cli.recalibrating.tables import Part, is_numbers
from onlinecal.measures import expected_calibration_error, functional_multicalibration_error
from onlinecal.measures.scores import BINS, brier_score
from onlinecal.recalibration.boosted.recalibrator import BoostedRecalibrator
from onlinecal.recalibration.boosted.rounds import BOUND

LEVELS = 20
"""Level sets of the violations that are reported."""
VIOLATION = "worst violation, one feature"


def new_model(settings: Settings, seed: int) -> BoostedRecalibrator:
    """An unfitted recalibrator."""
    papers = {"alpha", "bound", "n_levels"} & set(settings.values)
    more = {} if "step" in settings.values else {"step": "level sets" if papers else "log-odds"}
    return estimator(BoostedRecalibrator, settings, seed=seed, **more)


def recalibrate(file: Path, rows: Rows, settings: Settings) -> Report:
    """Fit, compare and report."""
    further = None if settings.features is None else named_features(settings.features)
    job = read_job(file, "boost", settings, rows, further)
    features = feature_names(job.fit.frame, settings)
    fitted = feature_table(job.fit.frame, features)
    model = new_model(settings, rows.seed)
    with gathered_warnings() as remarks:
        model.fit(fitted, job.fit.settled, job.fit.table)
    constant = float(job.fit.settled.mean())
    known = job.fit.table is not None
    maps: Maps = {
        (NONE if known else "mean outcome"): (
            lambda part: np.full(len(part), constant) if part.table is None else part.table
        ),
        "boost": lambda part: model.predict(feature_table(part.frame, features), part.table),
    }
    if known:
        maps = job.with_isotonic(maps)
    mapped = job.mapped(maps)
    table = {part.name: feature_table(part.frame, features) for part in job.labelled}
    tests = standard_tests(fitted, table, float(model.bound or BOUND))

    def own(part: Part, kind: str) -> Scores:
        forecasts = mapped[part.name][kind]
        found = functional_multicalibration_error(forecasts, part.settled, tests[part.name], LEVELS)
        return {VIOLATION: float(found.max())}

    rounds = errors_by_round(model, job.labelled, table)
    shown = job.labelled[-1]
    return job.report(
        "boost",
        maps,
        mapped,
        own,
        remarks,
        parameters={**model.get_params(), "features": features},
        facts=facts_of(model),
        sections=[Section("squared error by round", rounds.to_dicts())],
        pictures=lambda: pictures(rounds, mapped[shown.name], shown, job.file),
    )


def facts_of(model: BoostedRecalibrator) -> dict[str, Any]:
    """Single numbers about the fit."""
    facts = {
        "rounds": model.n_rounds_,
        "rounds kept": model.n_kept_,
        "rounds at most": model.max_rounds_,
    }
    if model.start_ is not None:
        return {"start": model.start_.kind, **facts}
    return {
        "levels": model.n_levels_,
        **facts,
        "violation that is promised": model.violation_bound_,
        "mass in level sets too small": model.skipped_mass_,
    }


def feature_names(frame: pl.DataFrame, settings: Settings) -> list[str]:
    """The columns named, or all columns of numbers but forecast and outcome."""
    used = {settings.outcome, settings.forecast}
    if settings.features is None:
        found = [name for name in frame.columns if name not in used and is_numbers(frame[name].dtype)]
        if not found:
            raise ValueError("no columns of numbers are left as features; name them with --features")
        return found
    names = named_features(settings.features)
    if len(set(names)) < len(names):
        raise ValueError(f"a feature is listed twice: {', '.join(names)}")
    if settings.outcome in names:
        raise ValueError(f"the outcome {settings.outcome!r} cannot be a feature too")
    return names


def named_features(listed: str) -> list[str]:
    """The columns that are listed as features."""
    return [name.strip() for name in listed.split(",")]


def feature_table(frame: pl.DataFrame, names: list[str]) -> Floats:
    """Shape (n, d); missing values are NaN, which regression trees take."""
    return np.column_stack([numbers(frame, name) for name in names])


def standard_tests(fitted: Floats, table: dict[str, Floats], bound: float) -> dict[str, Floats]:
    """Test functions sqrt(bound) times 1, and times each feature, brought to [-1, 1] by its fitted range.

    Missing values are 0, values outside the range are clipped.
    """
    answer = {}
    with np.errstate(invalid="ignore"):
        low, high = np.nanmin(fitted, axis=0), np.nanmax(fitted, axis=0)
        span = np.where(high > low, high - low, 1.0)
        for part, values in table.items():
            scaled = np.nan_to_num(np.clip(2.0 * (values - low) / span - 1.0, -1.0, 1.0))
            answer[part] = np.sqrt(bound) * np.column_stack([np.ones(len(values)), scaled])
    return answer


def errors_by_round(
    model: BoostedRecalibrator, labelled: list[Part], table: dict[str, Floats]
) -> pl.DataFrame:
    """Columns round, level_sets, and the squared error of each part after the round, of those kept."""
    rows: list[dict[str, Any]] = [
        {"round": number, "level_sets": model.rounds_[number].n_level_sets}
        for number in range(model.n_kept_ + 1)
    ]
    for part in labelled:
        stages = model.staged_predict(table[part.name], part.table)
        for row, p in zip(rows, stages, strict=True):
            row[part.name] = brier_score(p, part.settled) / len(part)
    return pl.DataFrame(rows)


def pictures(rounds: pl.DataFrame, mapped: dict[str, Floats], shown: Part, name: str) -> list[Picture]:
    """Reliability before and after, and the squared error against rounds."""
    from onlinecal.plots.recalibration.rounds import draw_boosting, draw_reliabilities, prepare_reliability

    numbers_drawn = prepare_reliability(mapped, shown.settled, f"{name}, {shown.name} rows")
    gaps = {
        kind: expected_calibration_error(p, shown.settled, BINS, normalize=True) for kind, p in mapped.items()
    }
    numbers_drawn = numbers_drawn.with_columns(pl.col("method").replace_strict(gaps).alias("ece"))
    return [
        Picture(draw_reliabilities, numbers_drawn, "reliability"),
        Picture(draw_boosting, rounds, "rounds"),
    ]
