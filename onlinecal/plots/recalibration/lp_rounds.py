"""l_p recalibration round by round: its error and the squared error, as the fitted rows estimate them."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from onlinecal.plots.style import OKABE_ITO, headline, in_house_style
from onlinecal.recalibration.lp.algorithm import History

COLOUR, MERGE = OKABE_ITO[0], OKABE_ITO[1]


def prepare(history: History, p: float) -> pl.DataFrame:
    """Columns round, error, squared_error, merged, p; round 0 is the start."""
    merged = np.concatenate([[False], history.merged_with >= 0])
    return pl.DataFrame(
        {
            "round": np.arange(len(history.error)),
            "error": history.error,
            "squared_error": history.squared_error,
            "merged": merged,
        }
    ).with_columns(pl.lit(p).alias("p"))


@in_house_style
def draw(table: pl.DataFrame) -> Figure:
    """Two panels; dots mark rounds that merged two groups."""
    figure = Figure(figsize=(10.6, 4.6))
    p = float(table["p"][0])
    order = r"\infty" if math.isinf(p) else f"{p:g}"
    rounds, merged = table["round"].to_numpy(), table["merged"].to_numpy()
    headline(
        figure,
        f"{len(table) - 1:,} rounds, each corrects the group and class with the largest error",
        "Estimates from the fitted rows. Dots: rounds after which two groups met and were merged.",
    )
    boxes = ((0.075, 0.13, 0.4, 0.65), (0.575, 0.13, 0.4, 0.65))
    titles = (rf"$\mathrm{{Err}}_{{{order}}}$ of the groups", "squared error, a sum over classes")
    for box, name, title in zip(boxes, ("error", "squared_error"), titles, strict=True):
        axis = figure.add_axes(box)
        values = table[name].to_numpy()
        axis.plot(rounds, values, color=COLOUR, lw=2.0, drawstyle="steps-post", zorder=3)
        axis.scatter(rounds[merged], values[merged], s=20, color=MERGE, zorder=4, edgecolor="white", lw=0.5)
        axis.set_title(title)
        axis.set_xlabel("round")
        axis.set_xlim(-0.015 * max(len(table) - 1, 1), 1.02 * max(len(table) - 1, 1))
        low, high = (0.0 if name == "error" else float(values.min())), float(values.max())
        room = max(high - low, 1e-9)
        axis.set_ylim(low - (0.0 if name == "error" else 0.05 * room), high + 0.12 * room)
        for spot, up in ((0, True), (len(values) - 1, False)):
            axis.annotate(
                f"{values[spot]:.4f}", (rounds[spot], values[spot]), xytext=(6 if up else 2, 7 if up else 16),
                textcoords="offset points", ha="left" if up else "right", fontsize=9, color=COLOUR,
            )  # fmt: skip
    return figure
