"""Recalibrators that were fitted on clean rows, tested on rows that drift: gaps and losses by severity."""

from __future__ import annotations

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from onlinecal.plots.style import INK, colour_key, headline, in_house_style
from simulations.experiments.drifts import DRIFTS
from simulations.plots.experiments.methods import MEASURES, line, sampled, shown_methods, summary, words

TITLES = {
    "temperature": "Temperature: surer or less sure",
    "label shift": "Label shift: classes drawn unevenly",
    "noise": "Noise on the logits",
}
LABELS = {
    "mean_gap": "mean gap",
    "worst_gap": "worst gap",
    "loss_change": "loss that comes,\nless that of “as they came”",
}


def prepare(rows: pl.DataFrame) -> pl.DataFrame:
    """Means and deviations over splits by drift, severity, method and measure."""
    return summary(rows, ["drift", "severity"], ["drift", "severity"])


@in_house_style
def draw(table: pl.DataFrame) -> Figure:
    """A row of panels per measure, a column per drift."""
    figure = Figure(figsize=(12.4, 11.2))
    k = table["n_actions"][0]
    headline(
        figure,
        f"Fitted on clean rows, tested under drift: how far {k}-action decisions are misjudged",
        f"{sampled(table)}. Units: the loss's norm. Grey band: no drift.",
    )
    methods = shown_methods(table)
    colour_key(figure, words(methods), inches=0.72)
    axes = figure.subplots(
        3,
        3,
        sharex="col",
        sharey="row",
        gridspec_kw={
            "left": 0.085,
            "right": 0.985,
            "top": 0.885,
            "bottom": 0.055,
            "wspace": 0.06,
            "hspace": 0.12,
        },
    )
    for column, drift in enumerate(table["drift"].unique(maintain_order=True)):
        kind = DRIFTS[drift]
        for row, measure in enumerate(MEASURES):
            axis: Axes = axes[row][column]
            axis.axvline(kind.clean, color="#cfcfcf", lw=4, zorder=1)
            mine = table.filter(drift=drift, measure=measure)
            for name in methods:
                one = mine.filter(method=name).sort("severity")
                line(axis, name, one["severity"].to_list(), one)
            if kind.logarithmic:
                axis.set_xscale("log")
                axis.xaxis.set_minor_locator(NullLocator())
            axis.set_xticks(kind.severities, [f"{value:g}" for value in kind.severities])
            if measure == "loss_change":
                axis.axhline(0, color=INK, lw=0.8, zorder=2)
                axis.set_xlabel(kind.axis)
            if column == 0:
                axis.set_ylabel(LABELS[measure])
            if row == 0:
                axis.set_title(TITLES[drift])
    for row, measure in enumerate(MEASURES):
        if measure != "loss_change":
            axes[row][0].set_ylim(bottom=0)  # when all panels that share it have their lines
    return figure
