"""Recalibrations side by side, before and after, and their errors against rounds, patches or rows."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter
from numpy.typing import NDArray

from onlinecal.plots.reliability_diagram import BINS, draw_reliability, reliability_data
from onlinecal.plots.style import (
    GRID,
    INK,
    OKABE_ITO,
    QUIET,
    Look,
    colour_key,
    headline,
    highest,
    in_house_style,
    looks,
    name_lines,
    near,
    panels,
)
from onlinecal.recalibration.lp.algorithm import History

VERDICTS = {"take": OKABE_ITO[0], "tied": OKABE_ITO[5], "behind": "#9a9a9a"}
MORE_IS_BETTER = ("accuracy",)
BEYOND = 3.0
"""A method that is so many times as far out as three in four is drawn at the edge, with its number."""
ABREAST, MOST_ABREAST = 4, 5
"""Panels in a row; so few stand in one."""


def prepare_scoreboard(
    scores: pl.DataFrame, title: str, chosen: str, below: str, reference: str = "none"
) -> pl.DataFrame:
    """Columns title, below, method, measure, came, difference, low, high, best and chosen.

    `best` is "take", "tied" or "behind". Made of columns method, measure, value, difference, difference_low,
    difference_high and best: a row for each measure and method but the reference, which all differences are
    to.
    """
    came = scores.filter(pl.col("method") == reference).select("measure", pl.col("value").alias("came"))
    return (
        scores.filter(pl.col("method") != reference)
        .join(came, on="measure", maintain_order="left")
        .select(
            pl.lit(title).alias("title"),
            pl.lit(below).alias("below"),
            "method",
            "measure",
            "came",
            "difference",
            pl.col("difference_low").alias("low"),
            pl.col("difference_high").alias("high"),
            pl.col("best").fill_null("behind"),
            (pl.col("method") == chosen).alias("chosen"),
        )
    )


@in_house_style
def draw_scoreboard(table: pl.DataFrame) -> Figure:
    """A panel for each measure: differences to the probabilities as given; better is to the left."""
    measures = table["measure"].unique(maintain_order=True).to_list()
    methods = table["method"].unique(maintain_order=True).to_list()
    columns = len(measures) if len(measures) <= MOST_ABREAST else ABREAST
    rows = -(-len(measures) // columns)
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
    chosen = table.filter("chosen")["method"]
    shaded = ("taken: as given" if chosen.is_empty() else f"shaded, taken: {chosen[0]}", INK)
    colour_key(figure, [*((words[kind], colour) for kind, colour in VERDICTS.items()), shaded], inches=0.86)
    for place, measure in enumerate(measures):
        row, column = divmod(place, columns)
        axis = figure.add_axes(
            (
                (name + column * (width + gap)) / size[0],
                1 - (above + row * (height + under) + height + 0.32) / size[1],
                width / size[0],
                height / size[1],
            )
        )
        draw_measure(axis, table.filter(pl.col("measure") == measure), column == 0)
    return figure


def draw_measure(axis: Axes, rows: pl.DataFrame, named: bool) -> None:
    """Draw the differences of one measure, the first method on top."""
    heights = np.arange(len(rows))[::-1]
    measure = str(rows["measure"][0])
    backwards = measure in MORE_IS_BETTER
    ends = np.maximum(rows["low"].abs().to_numpy(), rows["high"].abs().to_numpy())
    reach = max(min(float(ends.max()), BEYOND * float(np.quantile(ends, 0.75))), 1e-6)
    low = max(min(-float(rows["low"].to_numpy().min()), reach), 0.12 * reach)
    high = max(min(float(rows["high"].to_numpy().max()), reach), 0.12 * reach)
    axis.axvline(0.0, color=INK, lw=1.1, zorder=2)
    for height, row in zip(heights, rows.iter_rows(named=True), strict=True):
        colour = VERDICTS[row["best"]]
        if row["chosen"]:
            axis.axhspan(height - 0.45, height + 0.45, color="#f3f3f3", lw=0, zorder=0)
        if abs(row["difference"]) > reach:
            edge = 1.04 * (high if row["difference"] > 0 else -low)
            is_left = (edge < 0) != backwards
            axis.text(
                edge, height, f"◂ {row['difference']:+.2g}" if is_left else f"{row['difference']:+.2g} ▸",
                ha="left" if is_left else "right", va="center_baseline", fontsize=8, color="#6a6a6a",
            )  # fmt: skip
            continue
        axis.plot([row["low"], row["high"]], [height, height], color=colour, lw=2.2, zorder=3, clip_on=True)
        for end, edge in ((row["low"], -1.06 * low), (row["high"], 1.06 * high)):
            if abs(end) > abs(edge) and end * edge > 0:
                sign = "◂" if (edge < 0) != backwards else "▸"
                axis.text(edge, height, sign, ha="center", va="center_baseline", fontsize=9, color=colour)
        axis.scatter(
            row["difference"], height, s=44, color=colour, edgecolor="white", lw=0.8, zorder=4, clip_on=False
        )
    edges = (-1.06 * low, 1.06 * high)
    axis.set_xlim(edges[::-1] if backwards else edges)
    axis.set_ylim(-0.6, len(rows) - 0.4)
    axis.set_yticks(heights, rows["method"].to_list() if named else [], fontsize=9, color=INK)
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)
    axis.grid(visible=False, axis="y")
    axis.grid(visible=True, axis="x", color=GRID)
    axis.locator_params(axis="x", nbins=4)
    axis.tick_params(axis="x", labelsize=8)
    axis.set_title(measure, fontsize=10.5)
    axis.text(
        1.0, 1.03, f"before: {rows['came'][0]:.3g}", transform=axis.transAxes, ha="right", fontsize=8.5,
        color=QUIET,
    )  # fmt: skip


PANEL_COLOURS = (OKABE_ITO[1], OKABE_ITO[0], OKABE_ITO[2])


def prepare_reliability(
    mapped: dict[str, NDArray[np.float64]], outcomes: NDArray[np.uint8], title: str
) -> pl.DataFrame:
    """Columns title, method, forecast (mean of a twentieth), frequency, rows, low, high, brier.

    Low and high are the ends of Wilson's 95 % interval of the frequency.
    """
    parts = []
    for name, p in mapped.items():
        parts.append(
            reliability_data(p, outcomes, bins=BINS).select(
                pl.lit(title).alias("title"),
                pl.lit(name).alias("method"),
                "forecast",
                "frequency",
                pl.col("rounds").alias("rows"),
                "low",
                "high",
                pl.lit(float(((p - outcomes) ** 2).mean())).alias("brier"),
            )
        )
    return pl.concat(parts)


@in_house_style
def draw_reliabilities(table: pl.DataFrame) -> Figure:
    """A panel per method: dots with intervals, and below them the rows; the title has the errors."""
    names = table["method"].unique(maintain_order=True).to_list()
    figure, axes = panels(names, height=4.3)
    headline(
        figure,
        f"What came after each forecast: {table['title'][0]}",
        "Dots: forecasts and what followed (area: rows). Bars: 95 % confidence intervals (Wilson's).",
    )
    for place, (name, axis) in enumerate(axes.items()):
        mine = table.filter(pl.col("method") == name)
        draw_reliability(axis, mine.rename({"rows": "rounds"}), PANEL_COLOURS[place % len(PANEL_COLOURS)])
        axis.set_title(f"{name}: squared error {mine['brier'][0]:.4f}, ECE {mine['ece'][0]:.4f}")
        axis.set(xlabel="forecast (bars below: rows)", ylabel="frequency of outcome 1")
    return figure


COLOURS = {"fit": OKABE_ITO[0], "test": OKABE_ITO[1], "apply": OKABE_ITO[1]}
WORDS = {"fit": "fitted rows", "test": "tested rows", "apply": "new rows"}


@in_house_style
def draw_patches(table: pl.DataFrame) -> Figure:
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
            near(axis, f"alpha = {alpha:g}", (0, alpha), (5, -3), va="top", fontsize=8.5, color=INK)
        axis.tick_params(which="minor", color=QUIET)
    return figure


@in_house_style
def draw_boosting(table: pl.DataFrame) -> Figure:
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
        end = table[part][-1]
        near(axis, f"{end:.4f}", (rounds, end), (0, 8), ha="right", color=COLOURS[part])
    low, high = axis.get_ylim()
    axis.set(xlim=(-0.03 * max(rounds, 1), 1.03 * max(rounds, 1)), xlabel="round", ylabel="squared error")
    axis.set_ylim(low - 0.12 * (high - low), high)
    axis.set_xticks(table["round"].to_list() if rounds <= 20 else range(0, rounds + 1, rounds // 10))
    if rounds <= 20:
        for number, sets in table.filter(pl.col("round") > 0).select("round", "level_sets").iter_rows():
            axis.text(number, 0.02, f"{sets:,}", transform=axis.get_xaxis_transform(), ha="center",
                      fontsize=8, color=QUIET)  # fmt: skip
    return figure


@in_house_style
def draw_gaps(table: pl.DataFrame) -> Figure:
    """Mean and worst gap on both parts; what stands left of round 0 is the probabilities as given."""
    figure = Figure(figsize=(10.6, 4.8))
    rounds, n_losses = int(highest(table["round"])), int(table["n_losses"][0])
    who = "the given loss" if n_losses == 1 else f"{n_losses} Gaussian losses"
    headline(
        figure,
        f"How wrong decision makers are about their losses, in {rounds} rounds",
        f"Gap between predicted and true loss, relative to the loss; {who}. Left of round 0: as given; "
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
        # of the last part, which was tested
        near(axis, f"{y[0]:.4f}", (x[0], y[0]), (9, 2), fontsize=8.5, color=INK, va="center")
        near(axis, f"{y[-1]:.4f}", (x[-1], y[-1]), (2, -13), fontsize=8.5, color=INK, ha="right")
        axis.set(xlim=(-2.2, max(rounds, 1) * 1.02), title=title, xlabel="round")
        axis.set_ylim(0, 1.1 * max(highest(table[name]), 1e-6))
        axis.set_xticks([tick for tick in axis.get_xticks() if 0 <= tick <= rounds])
    return figure


COLOUR, MERGE = OKABE_ITO[0], OKABE_ITO[1]


def prepare_lp_rounds(history: History, p: float) -> pl.DataFrame:
    """Columns round, error, squared_error, merged, p; round 0 is the start."""
    merged = np.concatenate([[False], history.merged_with >= 0])
    return pl.DataFrame(
        {
            "round": np.arange(len(history.error)),
            "error": history.error,
            "squared_error": history.squared_error,
            "merged": merged,
        }
    ).with_columns(pl.lit(p).alias("p"))


@in_house_style
def draw_lp_rounds(table: pl.DataFrame) -> Figure:
    """Two panels; dots mark rounds that merged two groups."""
    figure = Figure(figsize=(10.6, 4.6))
    p = float(table["p"][0])
    order = r"\infty" if math.isinf(p) else f"{p:g}"
    rounds, merged = table["round"].to_numpy(), table["merged"].to_numpy()
    headline(
        figure,
        f"{len(table) - 1:,} rounds, each corrects the group and class with the largest error",
        "Estimates from the fitted rows. Dots: rounds after which two groups met and were merged.",
    )
    boxes = ((0.075, 0.13, 0.4, 0.65), (0.575, 0.13, 0.4, 0.65))
    titles = (rf"$\mathrm{{Err}}_{{{order}}}$ of the groups", "squared error, a sum over classes")
    for box, name, title in zip(boxes, ("error", "squared_error"), titles, strict=True):
        axis = figure.add_axes(box)
        values = table[name].to_numpy()
        axis.plot(rounds, values, color=COLOUR, lw=2.0, drawstyle="steps-post", zorder=3)
        axis.scatter(rounds[merged], values[merged], s=20, color=MERGE, zorder=4, edgecolor="white", lw=0.5)
        axis.set_title(title)
        axis.set_xlabel("round")
        axis.set_xlim(-0.015 * max(len(table) - 1, 1), 1.02 * max(len(table) - 1, 1))
        low, high = (0.0 if name == "error" else float(values.min())), float(values.max())
        room = max(high - low, 1e-9)
        axis.set_ylim(low - (0.0 if name == "error" else 0.05 * room), high + 0.12 * room)
        for spot, up in ((0, True), (len(values) - 1, False)):
            aside, ha = ((6, 7), "left") if up else ((2, 16), "right")
            near(axis, f"{values[spot]:.4f}", (rounds[spot], values[spot]), aside, ha=ha, color=COLOUR)
    return figure


OWN = "lp"


@in_house_style
def draw_rows(table: pl.DataFrame) -> Figure:
    """The method's error with its range over subsets; the rivals, fitted on all rows, as levels.

    Columns method, n, low, error, high, p, n_levels.
    """
    figure = Figure(figsize=(8.6, 5.0))
    axis = figure.add_axes((0.095, 0.115, 0.67, 0.72))
    p = float(table["p"][0])
    order = r"\infty" if math.isinf(p) else f"{p:g}"
    headline(
        figure,
        "What more rows buy",
        "Line: refits on random rows, their average and range. Levels: the others, fitted on all of them.",
    )
    own = table.filter(pl.col("method") == OWN)
    others = table.filter(pl.col("method") != OWN)
    names = [OWN, *(name for name in others["method"] if name != "chance")]
    look = looks(names)
    look["chance"] = Look(QUIET, (0.45, 0.45, 0.45), (0, (1.2, 1.2)), "")
    n = own["n"].to_numpy()
    axis.set_xscale("log")
    axis.fill_between(n, own["low"], own["high"], color=look[OWN].colour, alpha=0.15, lw=0)
    axis.plot(n, own["error"], color=look[OWN].colour, lw=2.2, marker="o", ms=5, mec="white", zorder=4)
    ends = {OWN: float(own["error"][-1])}
    for row in others.iter_rows(named=True):
        one = look[row["method"]]
        axis.axhline(row["error"], color=one.colour, lw=1.3, ls=one.dashes, zorder=2)
        ends[row["method"]] = row["error"]
    axis.set_xlim(n[0] / 1.1, n[-1] * 1.06)
    axis.set_ylim(0, 1.1 * highest(own["high"], others["error"]))
    axis.set_xticks(n, minor=False)
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{int(value):,}"))
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_xlabel("rows fitted")
    axis.set_ylabel(rf"$\mathrm{{Err}}_{{{order}}}$ on the tested rows, {table['n_levels'][0]} levels")
    name_lines(axis, ends, look)
    return figure
