"""Gaps and losses after each round of decision recalibration, on the fitted and on the tested rows."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onlinecal.plots.numbers import highest
from onlinecal.plots.style import HALO, INK, OKABE_ITO, QUIET, colour_key, headline, in_house_style
from simulations.plots.experiments.methods import MEASURES, TITLES, gap_axis, sampled, summary

LINES = {"full steps": OKABE_ITO[1], "shrunk steps": OKABE_ITO[0]}
FLAT = {"Dirichlet": (OKABE_ITO[3], (0, (6, 1.5, 1.2, 1.5))), "chance": (QUIET, (0, (1.2, 1.2)))}
BEFORE = -2.6
"""Where the probabilities as they came are drawn."""


def prepare(rows: pl.DataFrame) -> pl.DataFrame:
    """Means and deviations over splits by part, step, method and measure; kept: the folds' median."""
    kept = rows.select("split", "kept").unique()["kept"].median()
    return summary(rows, ["part"], ["part", "step"]).with_columns(pl.lit(kept).alias("kept"))


@in_house_style
def draw(table: pl.DataFrame) -> Figure:
    """A panel per measure; tested rows with bands over the splits, fitted rows dashed."""
    figure = Figure(figsize=(14.2, 5.6))
    headline(
        figure,
        f"More rounds of decision recalibration: what {table['n_actions'][0]}-action decision makers gain, "
        "fitted and tested",
        f"{sampled(table)}. Units: the loss's norm. Round 0 is temperature scaling.",
    )
    colour_key(
        figure,
        [
            ("full steps, as in the paper", LINES["full steps"]),
            ("shrunk steps, the default (dot: where its folds stop)", LINES["shrunk steps"]),
            ("Dirichlet (dash-dotted)", FLAT["Dirichlet"][0]),
            ("perfect probabilities (dotted)", FLAT["chance"][0]),
        ],
        "solid: tested rows; dashed: fitted rows",
    )
    for place, measure in enumerate(MEASURES):
        axis = figure.add_axes((0.052 + 0.328 * place, 0.105, 0.275, 0.685))
        _panel(axis, table.filter(measure=measure), measure)
        axis.set_title(TITLES[measure])
    return figure


def _panel(axis: Axes, table: pl.DataFrame, measure: str) -> None:
    rounds = int(highest(table["step"]))
    axis.set(xlim=(1.5 * BEFORE, rounds * 1.02), xlabel="round")
    if measure == "loss_change":
        axis.axhline(0, color=INK, lw=0.8, zorder=2)
    for method, (colour, dots) in FLAT.items():
        if measure == "loss_change" and method == "chance":
            continue
        flat = float(table.filter(method=method, part="test")["mean"][0])
        axis.plot([0, rounds], [flat, flat], color=colour, ls=dots, lw=1.6, zorder=3)
    for method, colour in LINES.items():
        for part, dashes, width in (("fit", (0, (4, 1.5)), 1.3), ("test", "-", 2.2)):
            one = table.filter(method=method, part=part).sort("step")
            x, mean, low, high = (one[name].to_numpy() for name in ("step", "mean", "low", "high"))
            axis.plot(x, mean, color=colour, ls=dashes, lw=width, zorder=4)
            if part == "test":
                axis.fill_between(x, low, high, color=colour, alpha=0.16, lw=0, zorder=2)
    if measure != "loss_change":
        before = float(table.filter(method="none", part="test")["mean"][0])
        axis.scatter([BEFORE], [before], s=46, color=INK, edgecolor="white", zorder=5)
        axis.annotate(
            "as they came", (BEFORE, before), xytext=(8, 0), textcoords="offset points", va="center",
            fontsize=8.5, color=INK, path_effects=HALO,
        )  # fmt: skip
        gap_axis(axis)
    _mark_kept(axis, table)
    axis.set_xticks([tick for tick in axis.get_xticks() if 0 <= tick <= rounds])


def _mark_kept(axis: Axes, table: pl.DataFrame) -> None:
    """Where the folds of the default end, on the line of the tested rows."""
    kept = float(table["kept"][0])
    one = table.filter(method="shrunk steps", part="test").sort("step")
    height = float(np.interp(kept, one["step"].to_numpy(), one["mean"].to_numpy()))
    axis.scatter([kept], [height], s=60, color=LINES["shrunk steps"], edgecolor="white", lw=1.2, zorder=6)
