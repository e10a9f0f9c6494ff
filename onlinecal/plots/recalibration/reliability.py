"""Reliability of one event's forecasts before and after a recalibration."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from numpy.typing import NDArray

from onlinecal.plots.reliability_diagram import BINS, draw_reliability, reliability_data
from onlinecal.plots.style import OKABE_ITO, headline, in_house_style, panels

COLOURS = (OKABE_ITO[1], OKABE_ITO[0], OKABE_ITO[2])


def prepare(mapped: dict[str, NDArray[np.float64]], outcomes: NDArray[np.uint8], title: str) -> pl.DataFrame:
    """Columns title, method, forecast (mean of a twentieth), frequency, rows, low, high, brier.

    Low and high are the ends of Wilson's 95 % interval of the frequency.
    """
    parts = []
    for name, p in mapped.items():
        parts.append(
            reliability_data(p, outcomes, bins=BINS).select(
                pl.lit(title).alias("title"),
                pl.lit(name).alias("method"),
                "forecast",
                "frequency",
                pl.col("rounds").alias("rows"),
                "low",
                "high",
                pl.lit(float(((p - outcomes) ** 2).mean())).alias("brier"),
            )
        )
    return pl.concat(parts)


@in_house_style
def draw(table: pl.DataFrame) -> Figure:
    """A panel per method: dots with intervals, and below them the rows; the title has the errors."""
    names = table["method"].unique(maintain_order=True).to_list()
    figure, axes = panels(names, height=4.3)
    headline(
        figure,
        f"What came after each forecast: {table['title'][0]}",
        "Dots: forecasts and what followed (area: rows). Bars: 95 % confidence intervals (Wilson's).",
    )
    for place, (name, axis) in enumerate(axes.items()):
        mine = table.filter(pl.col("method") == name)
        draw_reliability(axis, mine.rename({"rows": "rounds"}), COLOURS[place % len(COLOURS)])
        axis.set_title(f"{name}: squared error {mine['brier'][0]:.4f}, ECE {mine['ece'][0]:.4f}")
        axis.set_xlabel("forecast (bars below: rows)")
        axis.set_ylabel("frequency of outcome 1")
    return figure
