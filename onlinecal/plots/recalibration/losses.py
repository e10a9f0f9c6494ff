"""What decisions are predicted to cost and what they cost: a dot per loss, or histograms over halves."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onlinecal.plots.columns import highest, lowest
from onlinecal.plots.style import INK, OKABE_ITO, colour_key, headline, in_house_style

COLOURS = {"none": OKABE_ITO[1], "temperature": OKABE_ITO[2], "decision": OKABE_ITO[0]}
PREDICTED, TRUE = OKABE_ITO[1], OKABE_ITO[0]
BINS = 36


@in_house_style
def draw(table: pl.DataFrame) -> Figure:
    """A panel per method. Columns method, predicted, true, and each ("loss" or "half"): what a row is."""
    methods = table["method"].unique(maintain_order=True).to_list()
    figure = Figure(figsize=(4.3 * len(methods) + 0.3, 5.2))
    halves = table["each"][0] == "half"
    if halves:
        headline(
            figure,
            "What the decisions were predicted to cost, and what they cost",
            f"Averages over {table.height // len(methods)} random halves of the rows.",
        )
        colour_key(figure, [("predicted loss", PREDICTED), ("true loss", TRUE)])
    else:
        headline(
            figure,
            f"What {table.height // len(methods)} random decision makers expect to lose, and what they lose",
            "Dots: a Gaussian loss each, divided by its norm; above the line it costs more than was "
            "predicted.",
        )
    both = table["predicted"], table["true"]
    low, high = lowest(*both), highest(*both)
    reach = 1.1 * float(np.abs(table["true"].to_numpy() - table["predicted"].to_numpy()).max())
    room = 0.06 * max(high - low, 1e-9)
    ends = low - room, high + room
    width = 1 / len(methods)
    top = 1.0
    axes = []
    for place, name in enumerate(methods):
        axis = figure.add_axes((0.068 + width * place * 0.985, 0.12, width - 0.075, 0.66))
        mine = table.filter(pl.col("method") == name)
        axis.set_xlim(*ends)
        axis.set_title(name)
        if halves:
            top = max(top, _histograms(axis, mine, ends))
        else:
            _dots(axis, mine, str(name), reach)
            if place == 0:
                axis.set_ylabel("true loss − predicted loss")
        axes.append(axis)
    for axis in axes if halves else ():
        axis.set_ylim(0, 1.08 * top)
        axis.set_yticks([])
        axis.spines["left"].set_visible(False)
    return figure


def _dots(axis: Axes, table: pl.DataFrame, name: str, reach: float) -> None:
    predicted, true = table["predicted"].to_numpy(), table["true"].to_numpy()
    excess = true - predicted
    axis.set(ylim=(-reach, reach), xlabel="predicted loss")
    axis.axhline(0, color=INK, lw=1.0, zorder=2)
    axis.scatter(
        predicted, excess, s=15, color=COLOURS[name], alpha=0.55, edgecolor="white", lw=0.2, zorder=3
    )
    axis.text(
        0.97, 0.96, f"mean gap {np.abs(excess).mean():.4f}\nworst gap {np.abs(excess).max():.4f}",
        transform=axis.transAxes, va="top", ha="right", fontsize=9,
    )  # fmt: skip


def _histograms(axis: Axes, table: pl.DataFrame, ends: tuple[float, float]) -> float:
    edges = np.linspace(*ends, BINS + 1)
    tallest = 0.0
    for column, colour in (("predicted", PREDICTED), ("true", TRUE)):
        values = table[column].to_numpy()
        counts, _, _ = axis.hist(
            values, edges.tolist(), color=colour, alpha=0.62, edgecolor="white", lw=0.4, zorder=3
        )
        tallest = max(tallest, float(np.max(counts)))
        axis.axvline(float(values.mean()), color=colour, lw=1.6, zorder=4)
    gap = float(table["true"].to_numpy().mean() - table["predicted"].to_numpy().mean())
    axis.set_xlabel("average loss")
    axis.text(
        0.97, 0.96, f"{abs(gap):.4f} {'more' if gap > 0 else 'less'}\nthan predicted",
        transform=axis.transAxes, va="top", ha="right", fontsize=9,
    )  # fmt: skip
    return tallest
