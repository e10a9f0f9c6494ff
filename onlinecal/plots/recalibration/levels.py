"""Level sets before and after a recalibration: how far each class's mean forecast is from its frequency."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onlinecal.plots.style import INK, OKABE_ITO, QUIET, along, colour_key, headline, in_house_style

BEFORE, AFTER = OKABE_ITO[1], OKABE_ITO[0]
SHOWN = 16
"""Level sets and classes in the left panel."""
LEAST = 5
"""Rows that a level set needs to be a dot."""


def prepare(cells: pl.DataFrame, title: str) -> pl.DataFrame:
    """The level sets and classes with rows enough to be a dot, and what the picture is about."""
    return cells.filter(pl.col("rows") >= LEAST).with_columns(pl.lit(title).alias("title"))


@in_house_style
def draw(table: pl.DataFrame) -> Figure:
    """Left the level sets with the largest errors as dumbbells, right all of them around the diagonal."""
    figure = Figure(figsize=(13.2, 7.0))
    left, upper, lower = (
        figure.add_axes(box)
        for box in ((0.235, 0.095, 0.38, 0.755), (0.70, 0.525, 0.285, 0.325), (0.70, 0.095, 0.285, 0.325))
    )
    headline(
        figure,
        f"What was promised in each level set, and what came: {table['title'][0]}",
        "A level set: rows whose probabilities round down to the same levels. Grey: two standard deviations "
        "of chance.",
    )
    colour_key(figure, [("before", BEFORE), ("after", AFTER)], "mean forecast")
    _dumbbells(left, table.head(SHOWN))
    sizes = 6 + 900 * table["mass"].to_numpy()
    for axis, name, colour in ((upper, "before", BEFORE), (lower, "after", AFTER)):
        axis.plot([0, 1], [0, 1], color=INK, lw=1.0)
        axis.scatter(
            table[name], table["frequency"], s=sizes, color=colour, alpha=0.55, edgecolor="white", lw=0.5,
            zorder=3,
        )  # fmt: skip
        axis.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), ylabel="frequency")
        axis.set_title(f"{name}: every level set and class, area its rows", fontsize=9.5)
        along(axis, "calibrated", 0.4, 0.42, 0.6, 0.62, color=INK)
    lower.set_xlabel("mean forecast")
    return figure


def _dumbbells(axis: Axes, table: pl.DataFrame) -> None:
    heights = np.arange(len(table))[::-1]
    frequency = table["frequency"].to_numpy()
    old, new = (table[name].to_numpy() - frequency for name in ("before", "after"))
    spread = table["spread"].to_numpy()
    axis.barh(heights, 2 * spread, left=-spread, height=0.62, color="#ececec", lw=0, zorder=1)
    axis.axvline(0, color=INK, lw=1.2, zorder=2)
    axis.hlines(heights, np.minimum(old, new), np.maximum(old, new), color=QUIET, lw=1.6, zorder=3)
    axis.scatter(old, heights, s=58, color=BEFORE, zorder=4, edgecolor="white", lw=0.7)
    axis.scatter(new, heights, s=58, color=AFTER, zorder=5, edgecolor="white", lw=0.7)
    reach = 1.12 * max(np.abs(old).max(), np.abs(new).max(), float(np.median(spread)), 0.01)
    axis.set(xlim=(-reach, reach), ylim=(-0.7, len(table) - 0.3))
    axis.set_yticks(heights, [_row_name(row) for row in table.iter_rows(named=True)], fontsize=8.5)
    axis.tick_params(axis="y", length=0)
    axis.grid(visible=False, axis="y")
    for height, rows in zip(heights, table["rows"], strict=True):
        axis.text(1.012, height, f"{rows:,}", transform=axis.get_yaxis_transform(), va="center_baseline",
                  fontsize=8, color=QUIET)  # fmt: skip
    axis.text(1.012, 1.012, "rows", transform=axis.transAxes, fontsize=8, color=QUIET)
    axis.set_title("the largest errors: too seldom promised | promised too often", fontsize=9.5)
    axis.set_xlabel("mean forecast − frequency")


def _row_name(row: dict[str, object]) -> str:
    return f"{row['level_set']}:  class {row['class']}"
