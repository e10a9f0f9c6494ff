"""Reliability of one event's forecasts before and after a recalibration."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from numpy.typing import NDArray

from onlinecal.plots.style import GRID, INK, OKABE_ITO, along, headline, in_house_style, panels

BINS = 20
COLOURS = (OKABE_ITO[1], OKABE_ITO[0], OKABE_ITO[2])


def prepare(mapped: dict[str, NDArray[np.float64]], outcomes: NDArray[np.uint8], title: str) -> pl.DataFrame:
    """Columns title, method, forecast (mean of a twentieth), frequency, rows, spread, brier.

    The spread is two standard deviations of the frequency, had every forecast been the true probability.
    """
    parts = []
    for name, p in mapped.items():
        bins = np.minimum((p * BINS).astype(np.int64), BINS - 1)
        counts = np.bincount(bins, minlength=BINS)
        used = counts > 0
        rows = counts[used]
        parts.append(
            pl.DataFrame(
                {
                    "forecast": np.bincount(bins, p, BINS)[used] / rows,
                    "frequency": np.bincount(bins, outcomes, BINS)[used] / rows,
                    "rows": rows,
                    "spread": 2 * np.sqrt(np.bincount(bins, p * (1 - p), BINS)[used]) / rows,
                }
            ).select(
                pl.lit(title).alias("title"),
                pl.lit(name).alias("method"),
                pl.all(),
                pl.lit(float(((p - outcomes) ** 2).mean())).alias("brier"),
            )
        )
    return pl.concat(parts)


@in_house_style
def draw(table: pl.DataFrame) -> Figure:
    """A panel per method: dots with bars of chance, and below them the rows; the title has the errors."""
    names = table["method"].unique(maintain_order=True).to_list()
    figure, axes = panels(names, height=4.3)
    headline(
        figure,
        f"What came after each forecast: {table['title'][0]}",
        "Dots: forecasts and what followed (area: rows). Bars: two standard deviations of chance.",
    )
    for place, (name, axis) in enumerate(axes.items()):
        mine = table.filter(pl.col("method") == name)
        forecast, frequency, spread = mine.select("forecast", "frequency", "spread").to_numpy().T
        share = mine["rows"].to_numpy() / mine["rows"].to_numpy().max()
        colour = COLOURS[place % len(COLOURS)]
        axis.set(xlim=(-0.02, 1.02), ylim=(-0.15, 1.03), yticks=np.linspace(0, 1, 6))
        axis.plot([0, 1], [0, 1], color=INK, lw=1.2)
        along(axis, "calibrated", 0.06, 0.075, 0.5, 0.515, color=INK)
        axis.errorbar(
            forecast, frequency, yerr=spread, fmt="none", ecolor=colour, elinewidth=1.2, alpha=0.45, zorder=3
        )
        axis.scatter(
            forecast, frequency, s=14 + 150 * share, color=colour, alpha=0.85, edgecolor="white", lw=0.6,
            zorder=4,
        )  # fmt: skip
        axis.bar(forecast, 0.1 * share, width=0.012, bottom=-0.13, color=colour, alpha=0.6, lw=0)
        axis.axhline(-0.13, color=GRID, lw=0.8)
        axis.set_title(f"{name}: squared error {mine['brier'][0]:.4f}, ECE {mine['ece'][0]:.4f}")
        axis.set_xlabel("forecast (bars below: rows)")
        axis.set_ylabel("frequency of outcome 1")
    return figure
