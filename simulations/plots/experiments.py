"""Figures of the verb `experiment`, which compare recalibrations of the same rows by several methods.

`prepare_...` makes a table, and all measured numbers that `draw_...` draws are in it. What severities a drift
has, and its words, come from `experiments.DRIFTS`, by its name. Nothing has a state. The columns are those of
the files that are written beside pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from onlinecal.plots import style
from onlinecal.simulations.experiments import DRIFTS
from onlinecal.simulations.plots import PreparedPicture

GAPS = ("mean_gap", "worst_gap")
DRAWN_MEASURES = (*GAPS, "loss_change")
MEASURE_TITLES = {
    "mean_gap": "mean gap over the losses",
    "worst_gap": "worst gap over the losses",
    "loss_change": "loss that comes, less that of “as given”",
}

METHOD_LOOKS = {
    "none": style.Look(style.OKABE_ITO[1], marker="o"),
    "temperature": style.Look(style.OKABE_ITO[2], marker="s"),
    "vector scaling": style.Look(style.OKABE_ITO[5], marker="D"),
    "isotonic per class": style.Look(style.OKABE_ITO[4], marker="^"),
    "isotonic top label": style.Look("#555555", (0, (1.2, 1.2)), "v"),
    "Dirichlet": style.Look(style.OKABE_ITO[3], marker="P"),
    "decision": style.Look(style.OKABE_ITO[0], marker="o"),
    "chance": style.Look(style.QUIET, (0, (4, 1.5)), ""),
}
"""In the order of the key; colours are those of `onlinecal.plots.decisions`, markers help without colours.

The names are those of `experiments.fitted_maps`; a method without a look here is left out of the picture."""
METHOD_WORDS = {"none": "as given", "chance": "perfect probabilities (dashed)"}


def summary(rows: pl.DataFrame, pair: Sequence[str], by: Sequence[str]) -> pl.DataFrame:
    """A table with mean, deviation, low and high over splits for each value of `by`, method and measure.

    The measure loss_change is the loss that comes true minus that of the probabilities as given, in the same
    split with the same `pair`. Columns file, n_losses, n_actions, n_splits, n_fit and n_test tell the data.
    """
    none = rows.filter(method="none").select("split", *pair, pl.col("loss").alias("of_none"))
    wide = rows.join(none, on=["split", *pair], how="left").with_columns(
        (pl.col("loss") - pl.col("of_none")).alias("loss_change")
    )
    same_in_all = ("file", "n_losses", "n_actions", "n_fit", "n_test")
    long = wide.unpivot(
        [*DRAWN_MEASURES, "loss"], index=[*by, "method", *same_in_all], variable_name="measure"
    )
    value = pl.col("value")
    return long.group_by([*by, "method", "measure"], maintain_order=True).agg(
        value.mean().alias("mean"),
        value.std().alias("deviation"),
        value.min().alias("low"),
        value.max().alias("high"),
        pl.len().alias("n_splits"),
        pl.col("file", "n_losses", "n_actions").first(),
        pl.col("n_fit", "n_test").mean().round(0).cast(pl.Int64),
    )


def draw_key(figure: Figure, table: pl.DataFrame) -> list[str]:
    """Write the methods of a table in their colours; returns them in that order."""
    present = set(table["method"].to_list())
    names = [name for name in METHOD_LOOKS if name in present]
    style.colour_key(
        figure, [(METHOD_WORDS.get(name, name), METHOD_LOOKS[name].colour) for name in names], inches=0.72
    )
    return names


def line(axis: Axes, name: str, x: Sequence[float], rows: pl.DataFrame) -> None:
    """Draw a method's means with bars from the lowest split to the highest."""
    look, ours = METHOD_LOOKS[name], name == "decision"
    mean = rows["mean"].to_numpy()
    reach = [mean - rows["low"].to_numpy(), rows["high"].to_numpy() - mean]
    axis.errorbar(
        x, mean, None if name == "chance" else reach, color=look.colour, ls=look.dashes,
        marker=look.marker, lw=2.2 if ours else 1.4, ms=5.5 if ours else 4.5, mec="white", mew=0.5,
        elinewidth=0.9, capsize=0, zorder=5 if ours else 4,
    )  # fmt: skip


def gap_axis(axis: Axes) -> None:
    """Make an axis of gaps logarithmic, with round numbers written out."""
    axis.set_yscale("log")
    axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.yaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_minor_locator(NullLocator())


def sampled(table: pl.DataFrame, rows: str | None = None) -> str:
    """The words below the headline that tell the data: rows, splits and losses."""
    first = table.row(0, named=True)
    rows = rows or f"{first['n_fit']:,} rows fitted, {first['n_test']:,} tested"
    return (
        f"{first['file']}: {rows}; mean and span of {first['n_splits']} random splits; "
        f"{first['n_losses']} Gaussian losses"
    )


def prepare_counts(rows: pl.DataFrame) -> pl.DataFrame:
    """Means and deviations over splits by count, method and measure; a column what: actions or classes."""
    of = "actions" if rows["count"].min() == 1 else "classes"
    return summary(rows, ["count"], ["count"]).with_columns(pl.lit(of).alias("what"))


@style.in_house_style
def draw_counts(table: pl.DataFrame) -> Figure:
    """Draw two panels with the gaps on logarithmic axes."""
    figure = Figure(figsize=(12.4, 6.0))
    what, counts = table["what"][0], table["count"].unique().sort().to_list()
    rows = "rows of the chosen classes" if what == "classes" else None
    text = f"How far decisions are misjudged, from {counts[0]} to {counts[-1]} {what}"
    style.headline(figure, text, f"{sampled(table, rows)}. Units: the loss's norm.")
    methods = draw_key(figure, table)
    for panel, measure in enumerate(GAPS):
        axis = figure.add_axes((0.065 + 0.49 * panel, 0.13, 0.435, 0.66))
        of_measure = table.filter(measure=measure)
        for number, name in enumerate(methods):
            means = of_measure.filter(method=name).sort("count")
            aside = 0.0 if name == "chance" else 0.07 * (number - (len(methods) - 2) / 2)
            line(axis, name, [counts.index(count) + aside for count in means["count"]], means)
        gap_axis(axis)
        axis.set_xticks(range(len(counts)), map(str, counts))
        axis.xaxis.set_minor_locator(NullLocator())
        axis.set(xlabel=what, title=MEASURE_TITLES[measure])
        axis.grid(visible=False, axis="x")
    return figure


SEVERITY_COLUMNS = ("drift", "severity")


@style.in_house_style
def draw_drift(table: pl.DataFrame) -> Figure:
    """Draw a row of panels per measure, and a column per drift."""
    figure = Figure(figsize=(12.4, 11.2))
    k = table["n_actions"][0]
    style.headline(
        figure,
        f"Fitted on clean rows, tested under drift: how far {k}-action decisions are misjudged",
        f"{sampled(table)}. Units: the loss's norm. Grey band: no drift.",
    )
    methods = draw_key(figure, table)
    edges = {"left": 0.085, "right": 0.985, "top": 0.885, "bottom": 0.055, "wspace": 0.06, "hspace": 0.12}
    axes = figure.subplots(3, 3, sharex="col", sharey="row", gridspec_kw=edges)
    for column, drift in enumerate(table["drift"].unique(maintain_order=True)):
        kind = DRIFTS[drift]
        for row, measure in enumerate(DRAWN_MEASURES):
            axis: Axes = axes[row][column]
            axis.axvline(kind.clean, color="#cfcfcf", lw=4, zorder=1)
            of_panel = table.filter(drift=drift, measure=measure)
            for name in methods:
                means = of_panel.filter(method=name).sort("severity")
                line(axis, name, means["severity"].to_list(), means)
            if kind.logarithmic:
                axis.set_xscale("log")
                axis.xaxis.set_minor_locator(NullLocator())
            axis.set_xticks(kind.severities, [f"{value:g}" for value in kind.severities])
            if measure == "loss_change":
                axis.axhline(0, color=style.INK, lw=0.8, zorder=2)
                axis.set_xlabel(kind.axis)
            if column == 0:
                axis.set_ylabel(MEASURE_TITLES[measure].removesuffix(" over the losses").replace(", ", ",\n"))
            if row == 0:
                axis.set_title(kind.title)
    for row in range(len(GAPS)):
        axes[row][0].set_ylim(bottom=0)  # when all panels that share it have their lines
    return figure


STEP_COLOURS = {"full steps": style.OKABE_ITO[1], "shrunk steps": style.OKABE_ITO[0]}
FLAT_LOOKS = {
    "Dirichlet": (style.OKABE_ITO[3], (0, (6, 1.5, 1.2, 1.5))),
    "chance": (style.QUIET, (0, (1.2, 1.2))),
}
BEFORE_PLACE = -2.6
"""The round at which the probabilities as given are drawn."""


def prepare_steps(rows: pl.DataFrame) -> pl.DataFrame:
    """Means and deviations over splits by part, step, method and measure; column kept: the folds' median."""
    kept = rows.select("split", "kept").unique()["kept"].median()
    return summary(rows, ["part"], ["part", "step"]).with_columns(pl.lit(kept).alias("kept"))


@style.in_house_style
def draw_steps(table: pl.DataFrame) -> Figure:
    """Draw a panel per measure: tested rows with bands over the splits, fitted rows dashed."""
    figure = Figure(figsize=(14.2, 5.6))
    style.headline(
        figure,
        f"More rounds of decision recalibration: what {table['n_actions'][0]}-action decision makers gain, "
        "fitted and tested",
        f"{sampled(table)}. Units: the loss's norm. Round 0 is temperature scaling. "
        "Solid: tested rows, dashed: fitted rows.",
    )
    key = [
        ("full steps, as in the paper", STEP_COLOURS["full steps"]),
        ("shrunk steps, the default (dot: where its folds stop)", STEP_COLOURS["shrunk steps"]),
        ("Dirichlet (dash-dotted)", FLAT_LOOKS["Dirichlet"][0]),
        ("perfect probabilities (dotted)", FLAT_LOOKS["chance"][0]),
    ]
    style.colour_key(figure, key)
    for place, measure in enumerate(DRAWN_MEASURES):
        axis = figure.add_axes((0.052 + 0.328 * place, 0.105, 0.275, 0.685))
        _panel(axis, table.filter(measure=measure), measure)
        axis.set_title(MEASURE_TITLES[measure])
    return figure


def _panel(axis: Axes, table: pl.DataFrame, measure: str) -> None:
    rounds = int(style.highest(table["step"]))
    axis.set(xlim=(1.5 * BEFORE_PLACE, rounds * 1.02), xlabel="round")
    if measure == "loss_change":
        axis.axhline(0, color=style.INK, lw=0.8, zorder=2)
    for method, (colour, dots) in FLAT_LOOKS.items():
        if measure == "loss_change" and method == "chance":
            continue
        flat = float(table.filter(method=method, part="test")["mean"][0])
        axis.plot([0, rounds], [flat, flat], color=colour, ls=dots, lw=1.6, zorder=3)
    for method, colour in STEP_COLOURS.items():
        for part, dashes, width in (("fit", (0, (4, 1.5)), 1.3), ("test", "-", 2.2)):
            means = table.filter(method=method, part=part).sort("step")
            x, mean, low, high = (means[name].to_numpy() for name in ("step", "mean", "low", "high"))
            axis.plot(x, mean, color=colour, ls=dashes, lw=width, zorder=4)
            if part == "test":
                axis.fill_between(x, low, high, color=colour, alpha=0.16, lw=0, zorder=2)
    if measure != "loss_change":
        before = float(table.filter(method="none", part="test")["mean"][0])
        axis.scatter([BEFORE_PLACE], [before], s=46, color=style.INK, edgecolor="white", zorder=5)
        look: Any = {"va": "center", "fontsize": 8.5, "color": style.INK, "path_effects": style.HALO}
        style.near(axis, "as given", (BEFORE_PLACE, before), (8, 0), **look)
        gap_axis(axis)
    # a dot on the line of the tested rows shows where the folds of the default end
    kept = float(table["kept"][0])
    means = table.filter(method="shrunk steps", part="test").sort("step")
    height = float(np.interp(kept, means["step"].to_numpy(), means["mean"].to_numpy()))
    axis.scatter(
        [kept], [height], s=60, color=STEP_COLOURS["shrunk steps"], edgecolor="white", lw=1.2, zorder=6
    )
    axis.set_xticks([tick for tick in axis.get_xticks() if 0 <= tick <= rounds])


COUNTS_DRAWING = PreparedPicture(prepare_counts, draw_counts)
EXPERIMENT_FIGURES = {
    "steps": PreparedPicture(prepare_steps, draw_steps),
    "actions": COUNTS_DRAWING,
    "classes": COUNTS_DRAWING,
    "drift": PreparedPicture(partial(summary, pair=SEVERITY_COLUMNS, by=SEVERITY_COLUMNS), draw_drift),
}
"""The figures by name."""
