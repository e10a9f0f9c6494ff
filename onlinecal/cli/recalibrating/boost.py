"""Boosting for multicalibration: features and outcomes, from a column of forecasts or from the mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from polars import selectors

from onlinecal.arrays import Floats
from onlinecal.cli.recalibrating.alone import Findings, Method, Run, View
from onlinecal.cli.recalibrating.asked import Asked, made
from onlinecal.cli.recalibrating.reading import Part, column, numbers
from onlinecal.cli.recalibrating.report import Picture
from onlinecal.measures.scores import brier_score, event_scores
from onlinecal.recalibration.boosted import BoostedRecalibrator

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def view(asked: Asked, fit: Part) -> View:
    """Features, and forecasts if there are some; missing values are NaN, which regression trees take."""
    names = feature_names(asked, fit)

    def looked_at(part: Part) -> tuple[Floats, Floats | None]:
        table = np.column_stack([numbers(column(part.frame, name)) for name in names])
        return table, None if asked.forecast is None else part.probabilities

    return looked_at


def feature_names(asked: Asked, fit: Part) -> list[str]:
    """The columns named, or all columns of numbers but forecast and outcome."""
    frame, names = fit.frame, asked.features
    if names is None:
        used = {asked.outcome, asked.forecast}
        columns = frame.select(selectors.numeric() | selectors.boolean()).columns
        found = [name for name in columns if name not in used]
        if not found:
            raise ValueError("no columns of numbers are left as features; name them with --features")
        return found
    if len(set(names)) < len(names):
        raise ValueError(f"a feature is listed twice: {', '.join(names)}")
    if asked.outcome in names:
        raise ValueError(f"the outcome {asked.outcome!r} cannot be a feature too")
    return [*names]


def findings(run: Run) -> Findings:
    """How many rounds there were."""
    model: BoostedRecalibrator = run.model
    return Findings(
        lambda *_: {},
        parameters={**model.get_params(), "features": feature_names(run.asked, run.parts[0])},
        facts={
            "start": model.start_.kind if model.start_ else "none",
            "rounds": model.n_rounds_,
            "rounds kept": model.n_kept_,
            "rounds at most": model.max_rounds_,
        },
        tables={},
        pictures=lambda: pictures(run),
    )


METHOD = Method(lambda asked, _: made(BoostedRecalibrator, asked), findings, view)


def pictures(run: Run) -> list[Picture]:
    """Reliability before and after, and the squared error against rounds, if any were kept."""
    from onlinecal.plots.recalibrations import draw_boosting
    from onlinecal.plots.reliability_diagram import named, reliability_data, reliability_panels
    from onlinecal.plots.style import AFTER, BEFORE, OKABE_ITO

    tables = []
    for name, p in run.mapped[run.shown.name].items():
        errors = event_scores(p, run.shown.settled)
        heading = f"{name}: squared error {errors.brier:.4f}, ECE {errors.ece:.4f}"
        bins = named(reliability_data(p, run.shown.settled, bins=20), name, run.title)
        tables.append(bins.with_columns(heading=pl.lit(heading)))

    def draw(table: pl.DataFrame) -> Figure:
        return reliability_panels(table, "heading", colours=(BEFORE, AFTER, *OKABE_ITO[2:]))

    drawn = [Picture(draw, pl.concat(tables), "reliability")]
    if run.model.n_kept_:
        drawn.append(Picture(draw_boosting, errors_by_round(run), "rounds"))
    return drawn


def errors_by_round(run: Run) -> pl.DataFrame:
    """Columns part, round, squared_error: after each of the rounds that are kept, an average."""
    return pl.DataFrame(
        {"part": part.name, "round": number, "squared_error": brier_score(p, part.settled) / len(part)}
        for part in run.parts
        for number, p in enumerate(run.model.staged_predict(*run.view(part)))
    )
