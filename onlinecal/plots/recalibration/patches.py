"""The worst violation and the squared error of the forecasts against the number of patches."""

from __future__ import annotations

import polars as pl
from matplotlib.figure import Figure

from onlinecal.plots.columns import highest
from onlinecal.plots.style import INK, OKABE_ITO, QUIET, colour_key, headline, in_house_style

COLOURS = {"fit": OKABE_ITO[0], "test": OKABE_ITO[1], "apply": OKABE_ITO[1]}
WORDS = {"fit": "fitted rows", "test": "tested rows", "apply": "new rows"}


@in_house_style
def draw(table: pl.DataFrame) -> Figure:
    """Two panels: the worst group's violation with alpha and chance, and the squared error."""
    figure = Figure(figsize=(10.6, 4.8))
    patches = int(highest(table["patches"]))
    headline(
        figure,
        f"{patches:,} patches, each for the level set and group that is most wrong",
        "Averages over rows. Dotted: what chance makes of right forecasts, in the group that is worst then.",
    )
    parts = table["part"].unique(maintain_order=True).to_list()
    colour_key(figure, [(WORDS[part], COLOURS[part]) for part in parts])
    titles = {"worst": "worst group's violation", "squared_error": "squared error (Brier score)"}
    boxes = ((0.075, 0.12, 0.4, 0.63), (0.575, 0.12, 0.4, 0.63))
    for box, (name, title) in zip(boxes, titles.items(), strict=True):
        axis = figure.add_axes(box)
        for part in parts:
            mine = table.filter(pl.col("part") == part)
            axis.plot(mine["patches"], mine[name], color=COLOURS[part], lw=2.0, zorder=3)
            if name == "worst":
                axis.plot(mine["patches"], mine["chance"], color=COLOURS[part], lw=1.2, ls=(0, (1.2, 1.6)))
        axis.set(xlim=(0, patches), title=title, xlabel="patches")
        if name == "worst":
            axis.set_yscale("log")
        if name == "worst" and table["alpha"][0] is not None:
            alpha = float(table["alpha"][0])
            axis.axhline(alpha, color=INK, lw=1.2)
            axis.annotate(
                f"alpha = {alpha:g}", (0, alpha), xytext=(5, -3), textcoords="offset points",
                ha="left", va="top", fontsize=8.5, color=INK,
            )  # fmt: skip
        axis.tick_params(which="minor", color=QUIET)
    return figure
