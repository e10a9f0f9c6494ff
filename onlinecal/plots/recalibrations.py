"""Pictures of recalibrations: the scores of several side by side, and errors against rounds or patches.

Each function draws the numbers in the table that it gets, whose columns its docstring names. Nothing has a
state. `cli/recalibrating` makes the tables, and nothing is checked here: methods, verdicts and parts must be
those of AS_GIVEN (the same word as in `cli/recalibrating/report.py`), VERDICTS and PART_LOOKS. Looks may
change freely.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onlinecal.plots import style
from onlinecal.texts import counted

DOTTED = (0, (1.2, 1.6))
VERDICTS = {
    "take": ("take this one", style.OKABE_ITO[0]),
    "tied": ("cannot be told from the best", style.OKABE_ITO[5]),
    "behind": ("behind", "#9a9a9a"),
}
AS_GIVEN = "none"
"""The name of the method that leaves the probabilities as given."""
MORE_IS_BETTER = ("accuracy",)
FARTHEST_DRAWN = 3.0
"""A method this many times farther out than three in four are is drawn at the edge, with its number."""
MOST_ABREAST = 5
"""Up to this many panels stand in one row; if there are more, a row has four."""


@style.in_house_style
def draw_scoreboard(table: pl.DataFrame) -> Figure:
    """Draw a panel for each measure with differences to the probabilities as given; better is to the left.

    The table has a row for each measure and method, with the columns method, measure, value, difference,
    difference_low, difference_high and best ("take", "tied" or null). The first method is that of the
    probabilities as given. Columns title, below and chosen, a method, are the same in all rows.
    """
    as_given, rivals = table.filter(pl.col("method") == AS_GIVEN), table.filter(pl.col("method") != AS_GIVEN)
    methods = rivals["method"].unique(maintain_order=True).to_list()
    columns = as_given.height if as_given.height <= MOST_ABREAST else 4
    rows = -(-as_given.height // columns)
    name = 0.35 + 0.082 * max(map(len, methods))
    width, height, gap, above, under = 2.35, 0.3 * len(methods) + 0.25, 0.2, 1.2, 0.85
    top = above + rows * (height + under)
    figure = Figure(figsize=(name + columns * (width + gap) + 0.1, top))
    style.headline(
        figure,
        f"What recalibration changes: {table['title'][0]}",
        "Difference to the probabilities as given (the line; their own score at the top right), on rows "
        f"that were not fitted. Further left is better. Bars: 95 % intervals.\n{table['below'][0]}.",
    )
    chosen = table["chosen"][0]
    shaded = ("taken: as given" if chosen == AS_GIVEN else f"shaded, taken: {chosen}", style.INK)
    style.colour_key(figure, [*VERDICTS.values(), shaded], inches=0.86)
    for number, (measure, value) in enumerate(as_given.select("measure", "value").iter_rows()):
        row, column = divmod(number, columns)
        bottom = top - above - row * (height + under) - height - 0.32
        axis = style.place(figure, name + column * (width + gap), bottom, width, height)
        draw_measure(axis, rivals.filter(pl.col("measure") == measure), value, column == 0)
    return figure


def draw_measure(axis: Axes, table: pl.DataFrame, score_as_given: float, named: bool) -> None:
    """Draw the differences of one measure to the score as given, the first method on top."""
    heights = np.arange(table.height)[::-1]
    measure = str(table["measure"][0])
    backwards = measure in MORE_IS_BETTER
    more, *bars = (table[f"difference{end}"].cast(pl.Float64).to_numpy() for end in ("", "_low", "_high"))
    # without an interval only the dot is drawn
    lows, highs = (np.where(np.isnan(bar), more, bar) for bar in bars)
    ends = np.maximum(np.abs(lows), np.abs(highs))
    reach = max(min(float(ends.max()), FARTHEST_DRAWN * float(np.quantile(ends, 0.75))), 1e-6)
    left, right = (1.06 * max(min(float(end), reach), 0.12 * reach) for end in (-lows.min(), highs.max()))
    axis.axvline(0.0, color=style.INK, lw=1.1, zorder=2)
    for height in heights[(table["method"] == table["chosen"]).to_numpy()]:
        axis.axhspan(height - 0.45, height + 0.45, color="#f3f3f3", lw=0, zorder=0)
    near_by = np.abs(more) <= reach
    colours = np.array([VERDICTS[best or "behind"][1] for best in table["best"]])[near_by].tolist()
    axis.hlines(heights[near_by], lows[near_by], highs[near_by], color=colours, lw=2.2, zorder=3)
    dots: Any = {"edgecolor": "white", "lw": 0.8, "zorder": 4, "clip_on": False}
    axis.scatter(more[near_by], heights[near_by], s=44, color=colours, **dots)
    for value, height in zip(more[~near_by], heights[~near_by], strict=True):
        edge, is_left = (right, backwards) if value > 0 else (-left, not backwards)
        text, ha = (f"◂ {value:+.2g}", "left") if is_left else (f"{value:+.2g} ▸", "right")
        axis.text(edge, height, text, ha=ha, va="center_baseline", fontsize=8, color="#6a6a6a")
    axis.set(xlim=(right, -left) if backwards else (-left, right), ylim=(-0.6, table.height - 0.4))
    axis.set_yticks(heights, table["method"].to_list() if named else [], fontsize=9, color=style.INK)
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)
    axis.grid(visible=False, axis="y")
    axis.locator_params(axis="x", nbins=4)
    axis.tick_params(axis="x", labelsize=8)
    axis.set_title(measure, fontsize=10.5)
    where: Any = {"transform": axis.transAxes, "ha": "right"}
    axis.text(1.0, 1.03, f"before: {score_as_given:.3g}", fontsize=8.5, color=style.QUIET, **where)


PART_LOOKS = {
    "fit": style.Look(style.AFTER_COLOUR),
    "test": style.Look(style.BEFORE_COLOUR),
    "apply": style.Look(style.BEFORE_COLOUR),
}
PART_WORDS = {"fit": "fitted rows", "test": "tested rows", "apply": "new rows"}


@style.in_house_style
def _courses(
    table: pl.DataFrame,
    x: str,
    titles: Mapping[str, str],
    title: str,
    below: str,
    dotted: Sequence[str] = (),
) -> Figure:
    """Draw a panel for each column that has a title, against column x, with a line for each part.

    A table without a column `part` is of the fitted rows. The first panel also has the `dotted` columns.
    """
    parts = {"fit": table}
    if "part" in table.columns:
        parts = {str(name): rows for (name,), rows in table.group_by("part", maintain_order=True)}
    width = 4.3 if len(titles) > 1 else 8.0
    figure, axes = style.panels(
        [*titles.values()], ["tested rows 0.0000"], height=3.0, width=width, share=False
    )
    style.headline(figure, title, below)
    for column, axis in zip(titles, axes, strict=True):
        ends = {}
        for part, rows in parts.items():
            look, end = PART_LOOKS[part], float(rows[column][-1])
            line: Any = {"color": look.colour, "lw": 2.0, "zorder": 3, "marker": style.marker_of(rows)}
            axis.plot(rows[x], rows[column], **line)
            for other in dotted if axis is axes[0] else ():
                axis.plot(rows[x], rows[other].cast(pl.Float64), color=look.colour, lw=1.2, ls=DOTTED)
            ends[f"{PART_WORDS[part]} {end:.4f}"] = end, look
        axis.set(xlabel=x, xlim=(style.lowest(table[x]), max(style.highest(table[x]), 1)))
        style.name_lines(axis, ends)
    return figure


def draw_patches(table: pl.DataFrame) -> Figure:
    """Draw the worst group's violation, with alpha and the violation by chance, and the squared error.

    Columns: part, patches, worst, chance, squared_error, alpha.
    """
    patches = int(style.highest(table["patches"]))
    return _courses(
        table,
        "patches",
        {"worst": "worst group's violation", "squared_error": "squared error (Brier score)"},
        f"{patches:,} patches, each for the level set and group that is most wrong",
        "Averages over rows. Dotted: alpha, and what chance makes of right forecasts in the worst group.",
        dotted=("alpha", "chance"),
    )


def draw_boosting(table: pl.DataFrame) -> Figure:
    """Draw the squared error of each part. Columns: part, round, squared_error."""
    title = f"{counted(int(style.highest(table['round'])), 'round')} of boosting"
    return _courses(table, "round", {"squared_error": "squared error"}, title, "Average over rows.")


def draw_gaps(table: pl.DataFrame) -> Figure:
    """Draw mean and worst gap of each part. Columns: part, round (-1 is as given), mean, worst, n_losses."""
    rounds, n_losses = int(style.highest(table["round"])), int(table["n_losses"][0])
    title = f"How wrong decision makers are about their losses, in {rounds} rounds"
    below = "Gap between predicted and true loss, relative to the loss"
    below += f"; {n_losses} losses. Round −1: as given, round 0: the start."
    return _courses(table, "round", {"mean": "mean gap", "worst": "worst gap"}, title, below)


def draw_lp_rounds(table: pl.DataFrame) -> Figure:
    """Draw the error and the squared error. Columns: round (0 is the start), error, squared_error, p."""
    p = float(table["p"][0])
    order = r"\infty" if math.isinf(p) else f"{p:g}"
    titles = {
        "error": rf"$\mathrm{{Err}}_{{{order}}}$ of the groups",
        "squared_error": "squared error, a sum over classes",
    }
    title = f"{table.height - 1:,} rounds, each corrects the group and class with the largest error"
    return _courses(table, "round", titles, title, "Estimates from the fitted rows.")
