"""l_p recalibration of a table of class probabilities."""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from onlinecal.arrays import Floats
from onlinecal.cli.recalibrating.alone import Findings, Method, Run, Scores, drawn_labels, facts_of_start
from onlinecal.cli.recalibrating.asked import made
from onlinecal.cli.recalibrating.reading import Part
from onlinecal.cli.recalibrating.report import Picture
from onlinecal.measures.lp.errors import lp_calibration_error
from onlinecal.plots.groups import level_set_errors
from onlinecal.recalibration.lp.recalibrator import LpRecalibrator

TOP = 10
CHANCE_DRAWS = 10


def findings(run: Run) -> Findings:
    """Its error and what chance would make of it; the level sets that carry it."""
    model: LpRecalibrator = run.model
    p, n_levels = float(model.p), model.n_levels_
    order = "∞" if math.isinf(p) else f"{p:g}"

    def scores(part: Part, name: str) -> Scores:
        after = run.mapped[part.name][name]
        return {
            f"Err_{order}, {n_levels} levels": lp_calibration_error(after, part.settled, p, n_levels),
            f"Err_{order} by chance alone": chance_error(after, p, n_levels, model.seed),
        }

    part = run.shown
    before, after = part.probabilities, run.mapped[part.name]["lp"]
    cells = level_set_errors(before, after, part.settled, part.classes, n_levels, p)
    names = {"before": "forecast_before", "after": "forecast_after", "share": "share_of_error"}
    carriers = cells.head(TOP).select("level_set", "class", "rows", "frequency", *names).rename(names)
    return Findings(
        scores,
        parameters={
            **model.get_params(),
            "p": "inf" if math.isinf(p) else p,
            "n_levels": n_levels,
            "tolerance": model.tolerance_,
        },
        facts={
            **facts_of_start(model),
            "rounds": model.n_rounds_,
            "level sets": len(model.level_sets_),
            "groups": len(model.predictions_),
        },
        tables={f"level sets that carry the error ({part.name} rows)": carriers.to_dicts()},
        pictures=lambda: pictures(run, cells),
    )


METHOD = Method(lambda asked, _: made(LpRecalibrator, asked), findings)


def chance_error(table: Floats, p: float, n_levels: int, seed: int) -> float:
    """Average Err_p of labels drawn from the probabilities themselves: what cannot be told from zero."""
    rng = np.random.default_rng([seed, 11])
    draws = (drawn_labels(table, rng) for _ in range(CHANCE_DRAWS))
    return float(np.mean([lp_calibration_error(table, labels, p, n_levels) for labels in draws]))


def pictures(run: Run, cells: pl.DataFrame) -> list[Picture]:
    """The level sets before and after, and the rounds, if there were some."""
    from onlinecal.plots.groups import draw_levels
    from onlinecal.plots.recalibrations import draw_lp_rounds

    drawn = [Picture(draw_levels, cells.with_columns(title=pl.lit(run.title)), "levels")]
    if run.model.n_rounds_:
        drawn.append(Picture(draw_lp_rounds, errors_by_round(run.model), "rounds"))
    return drawn


def errors_by_round(model: LpRecalibrator) -> pl.DataFrame:
    """Columns round, error, squared_error, p: by the fitted rows; round 0 is the start."""
    history = model.history_
    errors = {"error": history.error, "squared_error": history.squared_error}
    return pl.DataFrame({"round": np.arange(len(history.error)), **errors, "p": float(model.p)})
