"""How often what was forecast came, of all keys of a ledger together, beside the hints."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from onlinecal.plots.intervals import wilson_interval
from onlinecal.plots.reliability_diagram import draw_reliability
from onlinecal.plots.style import OKABE_ITO, headline, in_house_style, panels
from onlinecal.tables import number

if TYPE_CHECKING:
    from onlinecal.engine.ledger.report import Report

COLOURS = {"hints": OKABE_ITO[1], "forecasts": OKABE_ITO[0]}


def prepare(report: Report) -> pl.DataFrame:
    """A row for each bin: of (hints or forecasts), forecast, frequency, rounds, low and high (95 %)."""
    rows = [
        (of, one.forecast, one.outcome, one.rounds)
        for of, side in (("hints", report.hints), ("forecasts", report.forecasts))
        for one in (() if side is None else side.bins)
    ]
    table = pl.DataFrame(rows, ["of", "forecast", "frequency", "rounds"], orient="row")
    rounds = table["rounds"].to_numpy().astype(np.int64)
    low, high = wilson_interval(table["frequency"].to_numpy().astype(float) * rounds, rounds, 0.95)
    return table.with_columns(pl.Series("low", low), pl.Series("high", high))


@in_house_style
def draw(table: pl.DataFrame) -> Figure:
    """A panel for the hints, if there are some, and one for the forecasts."""
    names = table["of"].unique(maintain_order=True).to_list()
    figure, axes = panels(names, height=4.3)
    rounds = int(table.filter(pl.col("of") == "forecasts")["rounds"].sum())
    headline(
        figure,
        f"How often what was forecast came: {number(rounds)} rounds of all keys",
        "Dots: twentieths of [0, 1] and what followed (area: rounds). Bars: 95 % confidence intervals.",
    )
    for name, axis in axes.items():
        draw_reliability(axis, table.filter(pl.col("of") == name), COLOURS[name])
        axis.set_title(name)
        axis.set_xlabel("forecast (bars below: rounds)")
        axis.set_ylabel("frequency of the outcome")
    return figure
