"""How far decision makers are misled about their losses, round by round of decision recalibration."""

from __future__ import annotations

import polars as pl
from matplotlib.figure import Figure

from onlinecal.plots.columns import highest
from onlinecal.plots.recalibration.patches import COLOURS, WORDS
from onlinecal.plots.style import INK, colour_key, headline, in_house_style


@in_house_style
def draw(table: pl.DataFrame) -> Figure:
    """Mean and worst gap on both parts; what stands left of round 0 is the probabilities as they came."""
    figure = Figure(figsize=(10.6, 4.8))
    rounds, n_losses = int(highest(table["round"])), int(table["n_losses"][0])
    who = "the given loss" if n_losses == 1 else f"{n_losses} Gaussian losses"
    headline(
        figure,
        f"How wrong decision makers are about their losses, in {rounds} rounds",
        f"Gap between predicted and true loss, relative to the loss; {who}. Left of round 0: as they came; "
        "then temperature scaling.",
    )
    parts = table["part"].unique(maintain_order=True).to_list()
    colour_key(figure, [(WORDS[part], COLOURS[part]) for part in parts])
    titles = {"mean": "mean gap", "worst": "worst gap"} if n_losses > 1 else {"mean": "gap"}
    for place, (name, title) in enumerate(titles.items()):
        axis = figure.add_axes((0.075 + 0.5 * place, 0.12, 0.4 if n_losses > 1 else 0.88, 0.63))
        axis.axvspan(-2.2, 0, color="#f4f4f4", lw=0, zorder=0)
        for part in parts:
            mine = table.filter(pl.col("part") == part)
            x = [-1.6 if at < 0 else at for at in mine["round"]]
            y = mine[name].to_list()
            axis.plot(x[:2], y[:2], color=COLOURS[part], lw=1.2, ls=(0, (1.2, 1.6)), zorder=3)
            axis.plot(x[1:], y[1:], color=COLOURS[part], lw=2.0, marker="o", ms=3.5, mec="white", zorder=4)
            axis.scatter(x[:1], y[:1], s=46, color=COLOURS[part], edgecolor="white", zorder=5)
            axis.annotate(
                f"{y[0]:.4f}" if part == parts[-1] else "", (x[0], y[0]), xytext=(9, 2),
                textcoords="offset points", fontsize=8.5, color=INK, va="center",
            )  # fmt: skip
            axis.annotate(
                f"{y[-1]:.4f}" if part == parts[-1] else "", (x[-1], y[-1]), xytext=(2, -13),
                textcoords="offset points", fontsize=8.5, color=INK, ha="right",
            )  # fmt: skip
        axis.set(xlim=(-2.2, max(rounds, 1) * 1.02), title=title, xlabel="round")
        axis.set_ylim(0, 1.1 * max(highest(table[name]), 1e-6))
        axis.set_xticks([tick for tick in axis.get_xticks() if 0 <= tick <= rounds])
    return figure
