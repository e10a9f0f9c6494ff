"""What recalibrations change, side by side, and their errors against rounds, patches or rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from onlinecal.plots.style import (
    AFTER,
    BEFORE,
    INK,
    OKABE_ITO,
    QUIET,
    Look,
    colour_key,
    headline,
    highest,
    in_house_style,
    looks,
    lowest,
    name_lines,
    near,
    panels,
)
from onlinecal.tables import counted

DOTTED = (0, (1.2, 1.6))
VERDICTS = {"take": OKABE_ITO[0], "tied": OKABE_ITO[5], "behind": "#9a9a9a"}
GIVEN, OWN = "none", "lp"
"""Methods in the tables: the probabilities as given, and the one whose errors against rows are drawn."""
MORE_IS_BETTER = ("accuracy",)
BEYOND = 3.0
"""A method that is so many times as far out as three in four is drawn at the edge, with its number."""
ABREAST, MOST_ABREAST = 4, 5
"""Panels in a row; so few stand in one."""


@in_house_style
def draw_scoreboard(table: pl.DataFrame) -> Figure:
    """A panel for each measure: differences to the probabilities as given; better is to the left.

    Columns method, measure, value, difference, difference_low, difference_high and best ("take", "tied" or
    null), a row for each measure and method, the first of which is that of the probabilities as given, which
    differences are to; title, below and chosen, a method.
    """
    given, rivals = table.filter(pl.col("method") == GIVEN), table.filter(pl.col("method") != GIVEN)
    methods = rivals["method"].unique(maintain_order=True).to_list()
    columns = given.height if given.height <= MOST_ABREAST else ABREAST
    rows = -(-given.height // columns)
    name = 0.35 + 0.082 * max(map(len, methods))
    width, height, gap, above, under = 2.35, 0.3 * len(methods) + 0.25, 0.2, 1.2, 0.85
    size = (name + columns * (width + gap) + 0.1, above + rows * (height + under))
    figure = Figure(figsize=size)
    headline(
        figure,
        f"What recalibration changes: {table['title'][0]}",
        "Difference to the probabilities as given (the line; their own score at the top right), on rows "
        f"that were not fitted. Further left is better. Bars: 95 % intervals.\n{table['below'][0]}.",
    )
    words = {"take": "take this one", "tied": "cannot be told from the best", "behind": "behind"}
    chosen = table["chosen"][0]
    shaded = ("taken: as given" if chosen == GIVEN else f"shaded, taken: {chosen}", INK)
    colour_key(figure, [*((words[kind], colour) for kind, colour in VERDICTS.items()), shaded], inches=0.86)
    for place, (measure, value) in enumerate(given.select("measure", "value").iter_rows()):
        row, column = divmod(place, columns)
        left, lower = name + column * (width + gap), above + row * (height + under) + height + 0.32
        axis = figure.add_axes((left / size[0], 1 - lower / size[1], width / size[0], height / size[1]))
        draw_measure(axis, rivals.filter(pl.col("measure") == measure), value, column == 0)
    return figure


def draw_measure(axis: Axes, table: pl.DataFrame, given: float, named: bool) -> None:
    """Draw the differences of one measure to the score as given, the first method on top."""
    heights = np.arange(table.height)[::-1]
    measure = str(table["measure"][0])
    backwards = measure in MORE_IS_BETTER
    lows, highs = (table[f"difference_{end}"].to_numpy() for end in ("low", "high"))
    ends = np.maximum(np.abs(lows), np.abs(highs))
    reach = max(min(float(ends.max()), BEYOND * float(np.quantile(ends, 0.75))), 1e-6)
    left, right = (max(min(float(end), reach), 0.12 * reach) for end in (-lows.min(), highs.max()))
    edges = (-1.06 * left, 1.06 * right)
    axis.axvline(0.0, color=INK, lw=1.1, zorder=2)
    drawn = table.select("method", "difference", "difference_low", "difference_high", "best", "chosen")
    for height, (method, more, low, high, best, chosen) in zip(heights, drawn.iter_rows(), strict=True):
        colour = VERDICTS[best or "behind"]
        if method == chosen:
            axis.axhspan(height - 0.45, height + 0.45, color="#f3f3f3", lw=0, zorder=0)
        if abs(more) > reach:
            edge = 1.04 * (right if more > 0 else -left)
            is_left = (edge < 0) != backwards
            text, ha = (f"◂ {more:+.2g}", "left") if is_left else (f"{more:+.2g} ▸", "right")
            axis.text(edge, height, text, ha=ha, va="center_baseline", fontsize=8, color="#6a6a6a")
            continue
        axis.plot([low, high], [height, height], color=colour, lw=2.2, zorder=3, clip_on=True)
        for end, edge in zip((low, high), edges, strict=True):
            if abs(end) > abs(edge) and end * edge > 0:
                sign = "◂" if (edge < 0) != backwards else "▸"
                axis.text(edge, height, sign, ha="center", va="center_baseline", fontsize=9, color=colour)
        axis.scatter(more, height, s=44, color=colour, edgecolor="white", lw=0.8, zorder=4, clip_on=False)
    axis.set(xlim=edges[::-1] if backwards else edges, ylim=(-0.6, table.height - 0.4))
    axis.set_yticks(heights, table["method"].to_list() if named else [], fontsize=9, color=INK)
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)
    axis.grid(visible=False, axis="y")
    axis.locator_params(axis="x", nbins=4)
    axis.tick_params(axis="x", labelsize=8)
    axis.set_title(measure, fontsize=10.5)
    where: Any = {"transform": axis.transAxes, "ha": "right"}
    axis.text(1.0, 1.03, f"before: {given:.3g}", fontsize=8.5, color=QUIET, **where)


COLOURS = {"fit": AFTER, "test": BEFORE, "apply": BEFORE}
WORDS = {"fit": "fitted rows", "test": "tested rows", "apply": "new rows"}
MERGED = OKABE_ITO[1]


def _courses(
    table: pl.DataFrame, x: str, titles: Mapping[str, str], title: str, below: str, **look: Any
) -> tuple[Figure, dict[str, Axes]]:
    """A panel for each column with a title, beside each other, against column x; a line for each part.

    A table without a column `part` is drawn as one part. `look` is that of the lines.
    """
    figure, axes = panels([*titles], height=3.0, width=4.3 if len(titles) > 1 else 8.0, share=False)
    headline(figure, title, below)
    parts = {"fit": table}
    if "part" in table.columns:
        parts = {str(name): rows for (name,), rows in table.group_by("part", maintain_order=True)}
        colour_key(figure, [(WORDS[part], COLOURS[part]) for part in parts])
    for name, axis in axes.items():
        for part, rows in parts.items():
            axis.plot(rows[x], rows[name], **{"color": COLOURS[part], "lw": 2.0, "zorder": 3, **look})
        axis.set(title=titles[name], xlabel=x)
    return figure, axes


@in_house_style
def draw_patches(table: pl.DataFrame) -> Figure:
    """The worst group's violation, with alpha and what chance makes, and the squared error.

    Columns part, patches, worst, chance, squared_error, alpha.
    """
    patches = int(highest(table["patches"]))
    figure, axes = _courses(
        table,
        "patches",
        {"worst": "worst group's violation", "squared_error": "squared error (Brier score)"},
        f"{patches:,} patches, each for the level set and group that is most wrong",
        "Averages over rows. Dotted: what chance makes of right forecasts, in the group that is worst then.",
    )
    for axis in axes.values():
        axis.set_xlim(0, patches)
    worst = axes["worst"]
    for (part,), rows in table.group_by("part", maintain_order=True):
        worst.plot(rows["patches"], rows["chance"], color=COLOURS[str(part)], lw=1.2, ls=DOTTED)
    worst.set_yscale("log")
    worst.tick_params(which="minor", color=QUIET)
    if (alpha := table["alpha"][0]) is not None:
        worst.axhline(alpha, color=INK, lw=1.2)
        near(worst, f"alpha = {alpha:g}", (0, alpha), (5, -3), va="top", fontsize=8.5, color=INK)
    return figure


@in_house_style
def draw_boosting(table: pl.DataFrame) -> Figure:
    """The squared error of each part; small numbers say how many level sets a round found.

    Columns part, round, squared_error, level_sets.
    """
    rounds = int(highest(table["round"]))
    title, below = counted(rounds, "round"), "Average over rows. Grey: level sets that the round fitted."
    figure, axes = _courses(
        table,
        "round",
        {"squared_error": "squared error"},
        f"{title} of boosting",
        below,
        marker="o",
        ms=6,
        mec="white",
    )
    axis = axes["squared_error"]
    for (part,), rows in table.group_by("part", maintain_order=True):
        end = rows["squared_error"][-1]
        near(axis, f"{end:.4f}", (rounds, end), (0, 8), ha="right", color=COLOURS[str(part)])
    low, high = axis.get_ylim()
    axis.set(xlim=(-0.03 * max(rounds, 1), 1.03 * max(rounds, 1)), ylim=(low - 0.12 * (high - low), high))
    few = rounds <= 20
    axis.set_xticks(range(0, rounds + 1, 1 if few else rounds // 10))
    counts = table.select("round", "level_sets").unique().filter(pl.col("round") > 0)
    for number, sets in counts.iter_rows() if few else ():
        where: Any = {"transform": axis.get_xaxis_transform(), "ha": "center"}
        axis.text(number, 0.02, f"{sets:,}", fontsize=8, color=QUIET, **where)
    return figure


@in_house_style
def draw_gaps(table: pl.DataFrame) -> Figure:
    """Mean and worst gap of each part; what stands left of round 0 is the probabilities as given.

    Columns part, round, mean, worst, n_losses; round -1 is before the temperature.
    """
    rounds, n_losses = int(highest(table["round"])), int(table["n_losses"][0])
    who = "the given loss" if n_losses == 1 else f"{n_losses} Gaussian losses"
    figure, axes = _courses(
        table.filter(pl.col("round") >= 0),
        "round",
        {"mean": "mean gap", "worst": "worst gap"} if n_losses > 1 else {"mean": "gap"},
        f"How wrong decision makers are about their losses, in {rounds} rounds",
        f"Gap between predicted and true loss, relative to the loss; {who}. Left of round 0: as given; "
        "then temperature scaling.",
        marker="o",
        ms=3.5,
        mec="white",
    )
    for name, axis in axes.items():
        axis.axvspan(-2.2, 0, color="#f4f4f4", lw=0, zorder=0)
        for (part,), rows in table.group_by("part", maintain_order=True):
            colour, y = COLOURS[str(part)], rows[name].to_list()
            axis.plot([-1.6, 0], y[:2], color=colour, lw=1.2, ls=DOTTED)
            axis.scatter(-1.6, y[0], s=46, color=colour, edgecolor="white", zorder=5)
        # of the last part, which was tested
        near(axis, f"{y[0]:.4f}", (-1.6, y[0]), (9, 2), fontsize=8.5, color=INK, va="center")
        near(axis, f"{y[-1]:.4f}", (rounds, y[-1]), (2, -13), fontsize=8.5, color=INK, ha="right")
        axis.set(xlim=(-2.2, max(rounds, 1) * 1.02), ylim=(0, 1.1 * max(highest(table[name]), 1e-6)))
        axis.set_xticks([tick for tick in axis.get_xticks() if 0 <= tick <= rounds])
    return figure


@in_house_style
def draw_lp_rounds(table: pl.DataFrame) -> Figure:
    """The error and the squared error; dots mark rounds that merged two groups.

    Columns round, error, squared_error, merged, p; round 0 is the start.
    """
    last = table.height - 1
    figure, axes = _courses(
        table,
        "round",
        {"error": f"{_error_of(table)} of the groups", "squared_error": "squared error, a sum over classes"},
        f"{last:,} rounds, each corrects the group and class with the largest error",
        "Estimates from the fitted rows. Dots: rounds after which two groups met and were merged.",
        drawstyle="steps-post",
    )
    merged = table.filter("merged")
    for name, axis in axes.items():
        axis.scatter(merged["round"], merged[name], s=20, color=MERGED, zorder=4, edgecolor="white", lw=0.5)
        low, high = 0.0 if name == "error" else lowest(table[name]), highest(table[name])
        room = max(high - low, 1e-9)
        foot = low - (0.0 if name == "error" else 0.05 * room)
        axis.set(xlim=(-0.015 * max(last, 1), 1.02 * max(last, 1)), ylim=(foot, high + 0.12 * room))
        for at, aside, ha in ((0, (6, 7), "left"), (last, (2, 16), "right")):
            value = table[name][at]
            near(axis, f"{value:.4f}", (at, value), aside, ha=ha, color=AFTER)
    return figure


def _error_of(table: pl.DataFrame) -> str:
    """What the errors of an order p are called."""
    p = float(table["p"][0])
    order = r"\infty" if math.isinf(p) else f"{p:g}"
    return rf"$\mathrm{{Err}}_{{{order}}}$"


@in_house_style
def draw_rows(table: pl.DataFrame) -> Figure:
    """The method's error with its range over subsets; the rivals, fitted on all rows, as levels.

    Columns method, n, low, error, high, p, n_levels.
    """
    own, others = table.filter(pl.col("method") == OWN), table.filter(pl.col("method") != OWN)
    look = looks([OWN, *(name for name in others["method"] if name != "chance")])
    look["chance"] = Look(QUIET, (0.45, 0.45, 0.45), (0, (1.2, 1.2)), "")
    figure, axes = panels([OWN], [*look], height=3.6, width=6.0)
    axis = axes[OWN]
    headline(
        figure,
        "What more rows buy",
        "Line: refits on random rows, their average and range. Levels: the others, fitted on all of them.",
    )
    n, colour = own["n"].to_numpy(), look[OWN].colour
    axis.fill_between(n, own["low"], own["high"], color=colour, alpha=0.15, lw=0)
    axis.plot(n, own["error"], color=colour, lw=2.2, marker="o", ms=5, mec="white", zorder=4)
    ends = {OWN: float(own["error"][-1]), **dict(others.select("method", "error").iter_rows())}
    for name in others["method"]:
        axis.axhline(ends[name], color=look[name].colour, lw=1.3, ls=look[name].dashes, zorder=2)
    axis.set(
        xscale="log", xlim=(n[0] / 1.1, n[-1] * 1.06), ylim=(0, 1.1 * highest(own["high"], others["error"]))
    )
    axis.set_xticks(n, [f"{size:,}" for size in n])
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_xlabel("rows fitted")
    axis.set_ylabel(f"{_error_of(table)} on the tested rows, {table['n_levels'][0]} levels")
    name_lines(axis, ends, look)
    return figure
