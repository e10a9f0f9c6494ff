"""Mean and worst gaps of several recalibrations against the number of actions, or of classes."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from onlinecal.plots.numbers import highest
from onlinecal.plots.style import colour_key, headline, in_house_style
from simulations.plots.experiments.methods import (
    GAPS,
    TITLES,
    gap_axis,
    line,
    sampled,
    shown_methods,
    summary,
    words,
)


def prepare(rows: pl.DataFrame) -> pl.DataFrame:
    """Means and deviations over splits by count, method and measure; column what: actions or classes."""
    of = "actions" if rows["count"].min() == 1 else "classes"
    return summary(rows, ["count"], ["count"]).with_columns(pl.lit(of).alias("what"))


@in_house_style
def draw(table: pl.DataFrame) -> Figure:
    """Two panels, the gaps on logarithmic axes."""
    figure = Figure(figsize=(12.4, 6.0))
    what, k = table["what"][0], table["n_actions"][0]
    largest = int(highest(table["count"]))
    if what == "actions":
        text, below = f"How far decisions are misjudged, from 1 action to {largest}", sampled(table)
    else:
        text = f"How far {k}-action decisions are misjudged, from 2 of the classes to all {largest}"
        below = sampled(table, "rows of the chosen classes")
    headline(figure, text, f"{below}. Units: the loss's norm.")
    methods = shown_methods(table)
    colour_key(figure, words(methods), inches=0.72)
    counts = table["count"].unique().sort().to_list()
    places = {count: place for place, count in enumerate(counts)}
    for panel, measure in enumerate(GAPS):
        axis = figure.add_axes((0.065 + 0.49 * panel, 0.13, 0.435, 0.66))
        mine = table.filter(measure=measure)
        for number, name in enumerate(methods):
            one = mine.filter(method=name).sort("count")
            aside = 0.0 if name == "chance" else 0.07 * (number - (len(methods) - 2) / 2)
            x = np.array([places[count] for count in one["count"]]) + aside
            line(axis, name, x.tolist(), one)
        gap_axis(axis)
        _count_axis(axis, table, counts, what)
        axis.set_title(TITLES[measure])
    return figure


def _count_axis(axis: Axes, table: pl.DataFrame, counts: list[int], what: str) -> None:
    names = [str(count) for count in counts]
    if what == "classes":
        rows = dict(table.group_by("count").agg(pl.col("n_fit").first()).iter_rows())
        names = [f"{count}\n{rows[count]:,}" for count in counts]
    axis.set_xticks(range(len(counts)), names)
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xlabel("actions" if what == "actions" else "classes, and how many rows are fitted")
    axis.grid(visible=False, axis="x")
