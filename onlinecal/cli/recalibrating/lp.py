"""l_p recalibration of a table of class probabilities."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from onlinecal.arrays import Floats
from onlinecal.cli.recalibrating.jobs import Job, Mapped, drawn_labels, facts_of_start, read_job
from onlinecal.cli.recalibrating.options import Rows, Settings, estimator
from onlinecal.cli.recalibrating.report import Picture, Report, Scores, Section
from onlinecal.cli.recalibrating.tables import Part
from onlinecal.measures.lp.errors import lp_calibration_error
from onlinecal.plots.recalibration.groups import level_set_errors
from onlinecal.recalibration.lp.recalibrator import LpRecalibrator
from onlinecal.validation import check_order

TOP = 10
CHANCE_DRAWS = 10
CHEAP = 2_000_000
"""Up to so many probabilities to fit, the error against n is drawn from many refits."""
SUBSETS = 8
"""Refits for each number of rows."""


def new_model(settings: Settings, seed: int) -> LpRecalibrator:
    """An unfitted recalibrator."""
    return estimator(LpRecalibrator, settings, seed=seed)


def recalibrate(file: Path, rows: Rows, settings: Settings) -> Report:
    """Fit, compare and report."""
    job, seed = read_job(file, "lp", settings, rows), rows.seed
    model = new_model(settings, seed)
    check_order(model.p, above_one=True)
    maps, remarks = job.beside_rivals("lp", model)
    mapped = job.mapped(maps)
    p, n_levels = float(model.p), model.n_levels_
    order = "∞" if math.isinf(p) else f"{p:g}"
    error, chance = f"Err_{order}, {n_levels} levels", f"Err_{order} by chance alone"

    def own(part: Part, name: str) -> Scores:
        after = mapped[part.name][name]
        return {
            error: lp_calibration_error(after, part.settled, p, n_levels),
            chance: chance_error(after, p, n_levels, seed),
        }

    shown = job.labelled[-1]
    after = mapped[shown.name]["lp"]
    cells = level_set_errors(shown.told, after, shown.settled, job.classes, n_levels, p)
    return job.report(
        "lp",
        maps,
        mapped,
        own,
        remarks,
        parameters={
            **model.get_params(),
            "p": "inf" if math.isinf(p) else p,
            "n_levels": n_levels,
            "tolerance": model.tolerance_,
        },
        facts=facts(model),
        sections=[_carriers(cells, shown.name)],
        pictures=lambda: pictures(job, mapped, model, cells, seed),
    )


def facts(model: LpRecalibrator) -> dict[str, Any]:
    """What the fit did."""
    return {
        **facts_of_start(model),
        "rounds": model.n_rounds_,
        "merges": model.n_merges_,
        "level sets": len(model.level_sets_),
        "groups": len(model.predictions_),
        "mass in groups": float(model.masses_.sum()),
    }


def chance_error(table: Floats, p: float, n_levels: int, seed: int) -> float:
    """Average Err_p of labels drawn from the probabilities themselves: what cannot be told from zero."""
    rng = np.random.default_rng([seed, 11])
    found = []
    for _ in range(CHANCE_DRAWS):
        found.append(lp_calibration_error(table, drawn_labels(table, rng), p, n_levels))
    return float(np.mean(found))


def _carriers(cells: pl.DataFrame, part: str) -> Section:
    """The level sets and classes that carry most of the error before, and what became of their rows."""
    shown = cells.head(TOP).select(
        "level_set",
        "class",
        "rows",
        "frequency",
        pl.col("before").alias("forecast_before"),
        pl.col("after").alias("forecast_after"),
        pl.col("share").alias("share_of_error"),
    )
    return Section(f"level sets that carry the error ({part} rows)", shown.to_dicts())


def pictures(
    job: Job, mapped: Mapped, model: LpRecalibrator, cells: pl.DataFrame, seed: int
) -> list[Picture]:
    """The level sets before and after, the rounds, and if refits are cheap the error against n."""
    from onlinecal.plots.recalibration.groups import draw_levels, prepare_levels
    from onlinecal.plots.recalibration.rounds import draw_lp_rounds, draw_rows, prepare_lp_rounds

    part, p = job.labelled[-1].name, float(model.p)
    numbers = prepare_levels(cells, f"{job.file}, {part} rows")
    drawn = [Picture(draw_levels, numbers, "levels")]
    if model.n_rounds_:
        drawn.append(Picture(draw_lp_rounds, prepare_lp_rounds(model.history_, p), "rounds"))
    if part != job.fit.name and job.fit.told.size <= CHEAP:
        numbers = error_against_rows(job, mapped, model, seed)
        drawn.append(Picture(draw_rows, numbers, "rows"))
    return drawn


def error_against_rows(job: Job, mapped: Mapped, model: LpRecalibrator, seed: int) -> pl.DataFrame:
    """Err_p on the tested rows of refits on random subsets: columns method, n, low, error, high."""
    from sklearn.base import clone

    shown = job.labelled[-1]
    table, labels, after = shown.told, shown.settled, mapped[shown.name]
    p, n_levels = float(model.p), model.n_levels_
    n = len(job.fit)
    rng = np.random.default_rng([seed, 12])
    rows: list[dict[str, Any]] = []
    used = {name: getattr(model, f"{name}_") for name in ("n_levels", "tolerance", "share", "limit")}
    for size in sorted({n // 2**halvings for halvings in range(6) if n // 2**halvings >= 20}):
        errors = []
        for _ in range(SUBSETS if size < n else 1):
            chosen = rng.permutation(n)[:size]
            again = clone(model).set_params(**used)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                again.fit(job.fit.told[chosen], job.fit.settled[chosen])
            errors.append(lp_calibration_error(again.predict_proba(table), labels, p, n_levels))
        rows.append(_span("lp", size, errors))
    for name, one in after.items():
        if name != "lp":
            rows.append(_span(name, n, [lp_calibration_error(one, labels, p, n_levels)]))
    rows.append(_span("chance", n, [chance_error(after["lp"], p, n_levels, seed)]))
    return pl.DataFrame(rows).with_columns(pl.lit(p).alias("p"), pl.lit(n_levels).alias("n_levels"))


def _span(method: str, n: int, errors: list[float]) -> dict[str, Any]:
    return {
        "method": method,
        "n": n,
        "low": min(errors),
        "error": float(np.mean(errors)),
        "high": max(errors),
    }
