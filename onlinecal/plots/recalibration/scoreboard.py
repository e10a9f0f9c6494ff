"""Recalibrations side by side: what each changed by every measure, with intervals."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onlinecal.plots.style import GRID, INK, OKABE_ITO, QUIET, colour_key, headline, in_house_style

COLOURS = {"take": OKABE_ITO[0], "tied": OKABE_ITO[5], "behind": "#9a9a9a"}
MORE_IS_BETTER = ("accuracy",)
BEYOND = 3.0
"""A method that is so many times as far out as three in four is drawn at the edge, with its number."""
ABREAST, MOST_ABREAST = 4, 5
"""Panels in a row; so few stand in one."""


def prepare(
    scores: pl.DataFrame, title: str, chosen: str, below: str, reference: str = "none"
) -> pl.DataFrame:
    """Columns title, below, method, measure, came, difference, low, high, best and chosen.

    `best` is "take", "tied" or "behind". Made of columns method, measure, value, difference, difference_low,
    difference_high and best: a row for each measure and method but the reference, which all differences are
    to.
    """
    came = scores.filter(pl.col("method") == reference).select("measure", pl.col("value").alias("came"))
    return (
        scores.filter(pl.col("method") != reference)
        .join(came, on="measure", maintain_order="left")
        .select(
            pl.lit(title).alias("title"),
            pl.lit(below).alias("below"),
            "method",
            "measure",
            "came",
            "difference",
            pl.col("difference_low").alias("low"),
            pl.col("difference_high").alias("high"),
            pl.col("best").fill_null("behind"),
            (pl.col("method") == chosen).alias("chosen"),
        )
    )


@in_house_style
def draw(table: pl.DataFrame) -> Figure:
    """A panel for each measure: differences to the probabilities as they came; better is to the left."""
    measures = table["measure"].unique(maintain_order=True).to_list()
    methods = table["method"].unique(maintain_order=True).to_list()
    columns = len(measures) if len(measures) <= MOST_ABREAST else ABREAST
    rows = -(-len(measures) // columns)
    name = 0.35 + 0.082 * max(map(len, methods))
    width, height, gap, above, under = 2.35, 0.3 * len(methods) + 0.25, 0.2, 1.2, 0.85
    size = (name + columns * (width + gap) + 0.1, above + rows * (height + under))
    figure = Figure(figsize=size)
    headline(
        figure,
        f"What recalibration changes: {table['title'][0]}",
        "Difference to the probabilities as they came (the line; their own score at the top right), on rows "
        f"that were not fitted. Further left is better. Bars: 95 % intervals.\n{table['below'][0]}.",
    )
    words = {"take": "take this one", "tied": "cannot be told from the best", "behind": "behind"}
    chosen = table.filter("chosen")["method"]
    shaded = ("taken: as they came" if chosen.is_empty() else f"shaded, taken: {chosen[0]}", INK)
    colour_key(figure, [*((words[kind], colour) for kind, colour in COLOURS.items()), shaded], inches=0.86)
    for place, measure in enumerate(measures):
        row, column = divmod(place, columns)
        axis = figure.add_axes(
            (
                (name + column * (width + gap)) / size[0],
                1 - (above + row * (height + under) + height + 0.32) / size[1],
                width / size[0],
                height / size[1],
            )
        )
        draw_measure(axis, table.filter(pl.col("measure") == measure), column == 0)
    return figure


def draw_measure(axis: Axes, rows: pl.DataFrame, named: bool) -> None:
    """Draw the differences of one measure, the first method on top."""
    heights = np.arange(len(rows))[::-1]
    measure = str(rows["measure"][0])
    backwards = measure in MORE_IS_BETTER
    ends = np.maximum(rows["low"].abs().to_numpy(), rows["high"].abs().to_numpy())
    reach = max(min(float(ends.max()), BEYOND * float(np.quantile(ends, 0.75))), 1e-6)
    low = max(min(-float(rows["low"].to_numpy().min()), reach), 0.12 * reach)
    high = max(min(float(rows["high"].to_numpy().max()), reach), 0.12 * reach)
    axis.axvline(0.0, color=INK, lw=1.1, zorder=2)
    for height, row in zip(heights, rows.iter_rows(named=True), strict=True):
        colour = COLOURS[row["best"]]
        if row["chosen"]:
            axis.axhspan(height - 0.45, height + 0.45, color="#f3f3f3", lw=0, zorder=0)
        if abs(row["difference"]) > reach:
            edge = 1.04 * (high if row["difference"] > 0 else -low)
            is_left = (edge < 0) != backwards
            axis.text(
                edge, height, f"◂ {row['difference']:+.2g}" if is_left else f"{row['difference']:+.2g} ▸",
                ha="left" if is_left else "right", va="center_baseline", fontsize=8, color="#6a6a6a",
            )  # fmt: skip
            continue
        axis.plot([row["low"], row["high"]], [height, height], color=colour, lw=2.2, zorder=3, clip_on=True)
        axis.scatter(
            row["difference"], height, s=44, color=colour, edgecolor="white", lw=0.8, zorder=4, clip_on=False
        )
    edges = (-1.06 * low, 1.06 * high)
    axis.set_xlim(edges[::-1] if backwards else edges)
    axis.set_ylim(-0.6, len(rows) - 0.4)
    axis.set_yticks(heights, rows["method"].to_list() if named else [], fontsize=9, color=INK)
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)
    axis.grid(visible=False, axis="y")
    axis.grid(visible=True, axis="x", color=GRID)
    axis.locator_params(axis="x", nbins=4)
    axis.tick_params(axis="x", labelsize=8)
    axis.set_title(measure, fontsize=10.5)
    axis.text(
        1.0, 1.03, f"came with {rows['came'][0]:.3g}", transform=axis.transAxes, ha="right", fontsize=8.5,
        color=QUIET,
    )  # fmt: skip
