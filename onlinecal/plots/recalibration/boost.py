"""The squared error against rounds of boosting, on fitted and on other rows."""

from __future__ import annotations

import polars as pl
from matplotlib.figure import Figure

from onlinecal.plots.columns import highest
from onlinecal.plots.recalibration.patches import COLOURS, WORDS
from onlinecal.plots.style import QUIET, colour_key, headline, in_house_style


@in_house_style
def draw(table: pl.DataFrame) -> Figure:
    """A line per part; small numbers say how many level sets a round found."""
    figure = Figure(figsize=(8.2, 4.8))
    axis = figure.add_axes((0.095, 0.12, 0.87, 0.65))
    rounds = int(highest(table["round"]))
    headline(
        figure,
        f"{rounds} round{'s' * (rounds != 1)} of boosting",
        "Squared error, average over rows. Grey: level sets that the round fitted.",
    )
    parts = [name for name in table.columns if name in COLOURS]
    colour_key(figure, [(WORDS[part], COLOURS[part]) for part in parts])
    for part in parts:
        axis.plot(table["round"], table[part], color=COLOURS[part], lw=2.0, marker="o", ms=6, mec="white")
        axis.annotate(
            f"{table[part][-1]:.4f}", (rounds, table[part][-1]), xytext=(0, 8), textcoords="offset points",
            ha="right", fontsize=9, color=COLOURS[part],
        )  # fmt: skip
    low, high = axis.get_ylim()
    axis.set(xlim=(-0.03 * max(rounds, 1), 1.03 * max(rounds, 1)), xlabel="round", ylabel="squared error")
    axis.set_ylim(low - 0.12 * (high - low), high)
    axis.set_xticks(table["round"].to_list() if rounds <= 20 else range(0, rounds + 1, rounds // 10))
    if rounds <= 20:
        for number, sets in table.filter(pl.col("round") > 0).select("round", "level_sets").iter_rows():
            axis.text(number, 0.02, f"{sets:,}", transform=axis.get_xaxis_transform(), ha="center",
                      fontsize=8, color=QUIET)  # fmt: skip
    return figure
