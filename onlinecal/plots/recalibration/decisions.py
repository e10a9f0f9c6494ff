"""Decisions: a loss table with how often each action is taken, and what decisions are predicted to cost.

For three classes, the actions on the simplex; of losses, a dot each, or histograms over halves.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from onlinecal.measures.decision.losses import check_losses, loss_norms
from onlinecal.measures.decision.losses import decision_losses as average_losses
from onlinecal.plots.style import (
    INK,
    OKABE_ITO,
    QUIET,
    axes_or_new,
    colour_key,
    describe,
    headline,
    highest,
    in_house_style,
    is_first,
    lowest,
    name_histories,
    next_colour,
)
from onlinecal.recalibration.decision.losses import LossTable, gaussian_losses
from onlinecal.validation import check_labelled_rows

HEAT = LinearSegmentedColormap.from_list("loss", ["#ffffff", "#fbe3c8", "#e8913b", "#8f3200"])
FINENESS = 140
MOST_DOTS = 1500
HEIGHT = np.sqrt(3.0) / 2.0


def prepare_decisions(
    clinic: LossTable, before: NDArray[np.float64], after: NDArray[np.float64]
) -> pl.DataFrame:
    """Columns kind, name, other, x, y, value.

    "loss": action, class and the loss. "taken": action, before or after, and its share of the rows.
    "dot": for three classes the first 1500 rows, before or after, at (x, y) in the triangle, and the
    number of the action.
    """
    rows: list[dict[str, object]] = []
    for action, losses in zip(clinic.actions, clinic.values, strict=True):
        for name, value in zip(clinic.classes, losses.tolist(), strict=True):
            rows.append({"kind": "loss", "name": action, "other": name, "value": value})
    for kind, table in (("before", before), ("after", after)):
        decisions = clinic.decide(table)
        for number, action in enumerate(clinic.actions):
            share = float((decisions == number).mean())
            rows.append({"kind": "taken", "name": action, "other": kind, "value": share})
        if len(clinic.classes) == 3:
            for (x, y), number in zip(corners(table[:MOST_DOTS]).tolist(), decisions, strict=False):
                rows.append({"kind": "dot", "other": kind, "x": x, "y": y, "value": float(number)})
    schema = {"kind": pl.String, "name": pl.String, "other": pl.String}
    return pl.DataFrame(rows, schema={**schema, "x": pl.Float64, "y": pl.Float64, "value": pl.Float64})


def corners(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Points of the triangle, (n, 2), for probabilities of three classes, (n, 3)."""
    return np.column_stack([table[:, 1] + 0.5 * table[:, 2], HEIGHT * table[:, 2]])


@in_house_style
def draw_decisions(table: pl.DataFrame) -> Figure:
    """The heat map with a bar of shares beside it; two triangles if there are three classes."""
    loss = table.filter(pl.col("kind") == "loss")
    actions = loss["name"].unique(maintain_order=True).to_list()
    classes = loss["other"].unique(maintain_order=True).to_list()
    values = loss["value"].to_numpy().reshape(len(actions), len(classes))
    dots = table.filter(pl.col("kind") == "dot")
    triangles = dots.height > 0
    left = 0.35 + 0.085 * max(map(len, actions))
    map_width, map_height = max(0.62 * len(classes), 2.2), max(0.46 * len(actions), 1.2)
    width = left + map_width + 0.35 + 2.6 + 0.3 + (7.4 if triangles else 0.0)
    height = max(map_height + 2.05, 4.9 if triangles else 0.0)
    figure = Figure(figsize=(max(width, 8.6), height))
    width = figure.get_size_inches()[0]
    base = 0.95 if not triangles else (height - 1.0 - map_height) / 2
    headline(
        figure,
        "What actions cost, and how often they are taken",
        "Numbers: loss of an action (row) when the class (column) comes. Bars: share of the rows, before "
        "(pale) and after.",
    )
    axis = figure.add_axes((left / width, base / height, map_width / width, map_height / height))
    _heat(axis, values, actions, classes)
    bars = figure.add_axes(
        ((left + map_width + 0.3) / width, base / height, 1.9 / width, map_height / height)
    )
    _shares(bars, table.filter(pl.col("kind") == "taken"), len(actions))
    if triangles:
        start = left + map_width + 2.9
        for place, kind in enumerate(("before", "after")):
            box = ((start + 3.6 * place) / width, 0.35 / height, 3.4 / width, (height - 1.35) / height)
            mine = dots.filter(pl.col("other") == kind)
            _triangle(figure.add_axes(box), values, actions, classes, mine, kind)
    return figure


def _heat(axis: Axes, values: NDArray[np.float64], actions: list[str], classes: list[str]) -> None:
    high = max(float(values.max()), 1e-9)
    axis.imshow(values, cmap=HEAT, aspect="auto", vmin=min(0.0, float(values.min())), vmax=high)
    axis.set_xticks(
        range(len(classes)),
        classes,
        fontsize=8.5,
        rotation=0 if len(classes) < 5 else 45,
        ha="right" if len(classes) >= 5 else "center",
    )
    axis.set_yticks(range(len(actions)), actions, fontsize=9)
    colours = action_colours(len(actions))
    for label, colour in zip(axis.get_yticklabels(), colours, strict=True):
        red, green, blue = to_rgb(colour)
        label.set_color((0.8 * red, 0.8 * green, 0.8 * blue))
        label.set_fontweight("bold")
    axis.grid(visible=False)
    axis.tick_params(length=0)
    for (row, column), value in np.ndenumerate(values):
        dark = value > 0.6 * high
        axis.text(
            column, row, f"{value:g}", ha="center", va="center", fontsize=8.5, color="white" if dark else INK
        )
    for spine in axis.spines.values():
        spine.set_visible(False)


def _shares(axis: Axes, taken: pl.DataFrame, n_actions: int) -> None:
    colours = action_colours(n_actions)
    places = np.arange(n_actions)
    for kind, shift, alpha in (("before", -0.19, 0.4), ("after", 0.19, 1.0)):
        shares = taken.filter(pl.col("other") == kind)["value"].to_numpy()
        axis.barh(places + shift, shares, height=0.34, color=colours, alpha=alpha, lw=0)
        for place, share in zip(places, shares, strict=True):
            axis.text(share, place + shift, f" {share:.1%}", va="center_baseline", fontsize=7.5, color=INK)
    axis.set(ylim=(n_actions - 0.5, -0.5), xlim=(0, 1.35 * max(highest(taken["value"]), 1e-9)))
    axis.axis("off")


def _triangle(
    axis: Axes,
    values: NDArray[np.float64],
    actions: list[str],
    classes: list[str],
    dots: pl.DataFrame,
    title: str,
) -> None:
    grid = [(i, j) for i in range(FINENESS + 1) for j in range(FINENESS + 1 - i)]
    points = np.array([(FINENESS - i - j, i, j) for i, j in grid], dtype=float) / FINENESS
    regions = (points @ values.T).argmin(axis=1)
    places = corners(points)
    colours = action_colours(len(actions))
    pale = [tuple(0.72 + 0.28 * part for part in to_rgb(colour)) for colour in colours]
    axis.scatter(
        places[:, 0],
        places[:, 1],
        s=9,
        marker="h",
        color=[pale[region] for region in regions],
        lw=0,
        zorder=1,
    )
    for number in range(len(actions)):
        mine = dots.filter(pl.col("value") == number)
        axis.scatter(mine["x"], mine["y"], s=7, color=colours[number], alpha=0.6, lw=0, zorder=3)
    axis.plot([0, 1, 0.5, 0], [0, 0, HEIGHT, 0], color=QUIET, lw=1.2, zorder=4)
    spots = (
        (0, -0.05, "center", "top"),
        (1, -0.05, "center", "top"),
        (0.5, HEIGHT + 0.02, "center", "bottom"),
    )
    for name, (x, y, ha, va) in zip(classes, spots, strict=True):
        axis.text(x, y, name, ha=ha, va=va, fontsize=9)
    axis.set(xlim=(-0.08, 1.08), ylim=(-0.14, HEIGHT + 0.12), aspect="equal")
    axis.text(-0.06, HEIGHT + 0.04, title, fontsize=11, fontweight="bold")
    axis.axis("off")


def action_colours(n_actions: int) -> list[str]:
    """A colour for each action; the palette comes round."""
    return [OKABE_ITO[number % len(OKABE_ITO)] for number in range(n_actions)]


METHOD_COLOURS = {"none": OKABE_ITO[1], "temperature": OKABE_ITO[2], "decision": OKABE_ITO[0]}
PREDICTED, TRUE = OKABE_ITO[1], OKABE_ITO[0]
BINS = 36

KIND = "onlinecal-decision-losses"


def decision_losses(
    probabilities: ArrayLike,
    labels: ArrayLike,
    losses: ArrayLike | None = None,
    ax: Axes | None = None,
    *,
    color: str | None = None,
    label: str | None = None,
) -> Axes:
    """Draw what decisions cost beyond what was predicted, a dot for each loss table.

    For each loss the action with the least expected loss is taken in every row. A dot above the line: these
    decisions cost more, on average over rows, than the probabilities had predicted. The unit is the loss's
    norm, the largest of its actions' Euclidean lengths. Called again on the same axes it adds other
    probabilities, in another colour.

    Parameters
    ----------
    probabilities
        Class probabilities, shape (n, C); every row sums to 1: an array, or a table of pandas or polars.
    labels
        The classes that came true, shape (n,), whole numbers 0..C-1.
    losses
        Loss of action a when the class is c, at [loss, a, c]: shape (n_losses, K, C), or one table (K, C).
        None: 500 random ones with three actions, `gaussian_losses(3, C)`.
    ax
        The axes to draw on; None: those of a new figure.
    color
        Any colour of matplotlib; None: the next of the palette.
    label
        The name of these probabilities in the legend; None: no legend, and the title says the gaps.

    Returns
    -------
    Axes
        Those drawn on.

    Raises
    ------
    ValueError
        Bad probabilities, labels or losses, by name and value, before anything is drawn.

    """
    table = decision_losses_data(probabilities, labels, losses)
    ax = axes_or_new(ax, (5.4, 4.4))
    reach = max(1.1 * highest((table["true"] - table["predicted"]).abs()), 1e-9)
    reach = reach if is_first(ax, KIND) else max(reach, ax.get_ylim()[1])
    draw_losses(ax, table, color or next_colour(ax), reach, label)
    title = "What decisions cost beyond what was predicted"
    if label is None:
        title += "\n" + ", ".join(loss_gaps(table))
    describe(ax, "predicted loss", "true loss − predicted loss", title)
    name_histories(ax, label)
    return ax


def decision_losses_data(
    probabilities: ArrayLike, labels: ArrayLike, losses: ArrayLike | None = None
) -> pl.DataFrame:
    """The numbers of the picture, a row for each loss: columns loss (its number), predicted, true.

    Averages over rows, divided by the loss's norm, the largest of its actions' Euclidean lengths (a loss of
    zeros is not divided). Arguments and errors as in `decision_losses`.
    """
    rows, numbers = check_labelled_rows(probabilities, labels)
    tables = check_losses(gaussian_losses(3, rows.shape[1]) if losses is None else losses, rows.shape[1])
    norms = loss_norms(tables)
    norms[norms == 0.0] = 1.0
    predicted, true = average_losses(rows, numbers, tables)
    return pl.DataFrame(
        {"loss": np.arange(len(tables)), "predicted": predicted / norms, "true": true / norms}
    )


def loss_gaps(table: pl.DataFrame) -> tuple[str, str]:
    """Mean and worst gap of what `decision_losses_data` gives, in words."""
    gaps = (table["true"] - table["predicted"]).abs().to_numpy()
    return f"mean gap {gaps.mean():.4f}", f"worst gap {gaps.max():.4f}"


def draw_losses(axis: Axes, table: pl.DataFrame, color: str, reach: float, label: str | None = None) -> None:
    """Draw what `decision_losses_data` gives, on an axis from -reach to reach."""
    axis.set_ylim(-reach, reach)
    if is_first(axis, KIND):
        axis.axhline(0, color=INK, lw=1.0, zorder=2)
    dots = axis.scatter(
        table["predicted"], table["true"] - table["predicted"], s=15, color=color, alpha=0.55,
        edgecolor="white", lw=0.2, zorder=3, label=label,
    )  # fmt: skip
    dots.set_gid(KIND)


@in_house_style
def draw_methods(table: pl.DataFrame) -> Figure:
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
            draw_losses(axis, mine, METHOD_COLOURS[str(name)], reach)
            axis.set_xlabel("predicted loss")
            axis.text(
                0.97, 0.96, "\n".join(loss_gaps(mine)), transform=axis.transAxes, va="top", ha="right",
                fontsize=9,
            )  # fmt: skip
            if place == 0:
                axis.set_ylabel("true loss − predicted loss")
        axes.append(axis)
    for axis in axes if halves else ():
        axis.set_ylim(0, 1.08 * top)
        axis.set_yticks([])
        axis.spines["left"].set_visible(False)
    return figure


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
