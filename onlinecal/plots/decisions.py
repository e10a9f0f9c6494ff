"""Decisions: what they are predicted to cost and what they cost, by loss or by halves of the rows.

A loss table with how often each action is taken, for three classes also where on the simplex.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from onlinecal.arrays import Floats
from onlinecal.measures.decision.losses import check_losses, loss_norms
from onlinecal.measures.decision.losses import decision_losses as average_losses
from onlinecal.plots.style import (
    INK,
    OKABE_ITO,
    QUIET,
    axes_or_new,
    colour_key,
    darker,
    describe,
    headline,
    highest,
    in_house_style,
    is_first,
    lowest,
    name_histories,
    next_colour,
    panels,
)
from onlinecal.recalibration.decision.losses import LossTable, gaussian_losses
from onlinecal.validation import check_labelled_rows

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


METHOD_COLOURS = {"none": OKABE_ITO[1], "temperature": OKABE_ITO[2], "decision": OKABE_ITO[0]}
PREDICTED, TRUE = OKABE_ITO[1], OKABE_ITO[0]
BINS = 36


@in_house_style
def draw_methods(table: pl.DataFrame) -> Figure:
    """A panel per method. Columns method, predicted, true, and each ("loss" or "half"): what a row is."""
    parts = {str(name): rows for (name,), rows in table.group_by("method", maintain_order=True)}
    figure, axes = panels(list(parts), height=3.4, width=3.5, abreast=3)
    number, halves = table.height // len(parts), table["each"][0] == "half"
    if halves:
        title = "What the decisions were predicted to cost, and what they cost"
        headline(figure, title, f"Averages over {number} random halves of the rows.")
        colour_key(figure, [("predicted loss", PREDICTED), ("true loss", TRUE)])
    else:
        title = f"What {number} random decision makers expect to lose, and what they lose"
        below = (
            "Dots: a Gaussian loss each, divided by its norm; above the line it costs more than predicted."
        )
        headline(figure, title, below)
    both = table["predicted"], table["true"]
    low, high = lowest(*both), highest(*both)
    room = 0.06 * max(high - low, 1e-9)
    ends = low - room, high + room
    reach = 1.1 * highest((both[1] - both[0]).abs())
    for place, (name, axis) in enumerate(axes.items()):
        rows = parts[name]
        if halves:
            said = _draw_histograms(axis, rows, ends)
        else:
            draw_losses(axis, rows, METHOD_COLOURS[name], reach)
            said = "\n".join(loss_gaps(rows))
        axis.set(title=name, xlim=ends, xlabel="average loss" if halves else "predicted loss")
        if place == 0 and not halves:
            axis.set_ylabel("true loss − predicted loss")
        axis.text(0.97, 0.96, said, transform=axis.transAxes, va="top", ha="right", fontsize=9)
    return figure


def _draw_histograms(axis: Axes, table: pl.DataFrame, ends: tuple[float, float]) -> str:
    """Histograms of both losses and their means; how far these are apart, in words."""
    edges, means = np.linspace(*ends, BINS + 1).tolist(), []
    for column, colour in (("predicted", PREDICTED), ("true", TRUE)):
        values = table[column].to_numpy()
        axis.hist(values, edges, color=colour, alpha=0.62, edgecolor="white", lw=0.4, zorder=3)
        means.append(float(values.mean()))
        axis.axvline(means[-1], color=colour, lw=1.6, zorder=4)
    axis.set_yticks([])
    axis.spines["left"].set_visible(False)
    gap = means[1] - means[0]
    return f"{abs(gap):.4f} {'more' if gap > 0 else 'less'}\nthan predicted"


HEAT = LinearSegmentedColormap.from_list("loss", ["#ffffff", "#fbe3c8", "#e8913b", "#8f3200"])
FINENESS = 140
MOST_DOTS = 1500
HEIGHT = np.sqrt(3.0) / 2.0


def decision_numbers(clinic: LossTable, before: Floats, after: Floats) -> pl.DataFrame:
    """Columns kind, name, other, x, y, value.

    "loss": action, class and the loss. "taken": action, before or after, and its share of the rows.
    "dot": for three classes the first 1500 rows, before or after, at (x, y) in the triangle, and the
    number of the action.
    """
    rows: list[tuple[Any, ...]] = [
        ("loss", action, name, None, None, value)
        for action, losses in zip(clinic.actions, clinic.values.tolist(), strict=True)
        for name, value in zip(clinic.classes, losses, strict=True)
    ]
    for side, table in (("before", before), ("after", after)):
        taken = clinic.decide(table)
        for number, action in enumerate(clinic.actions):
            rows.append(("taken", action, side, None, None, float((taken == number).mean())))
        if len(clinic.classes) == 3:
            places = zip(corners(table[:MOST_DOTS]).tolist(), taken, strict=False)
            rows += [("dot", None, side, x, y, float(number)) for (x, y), number in places]
    texts, numbers = dict.fromkeys(("kind", "name", "other"), pl.String), dict.fromkeys("xy", pl.Float64)
    return pl.DataFrame(rows, schema={**texts, **numbers, "value": pl.Float64}, orient="row")


def corners(table: Floats) -> Floats:
    """Points of the triangle, (n, 2), for probabilities of three classes, (n, 3)."""
    return np.column_stack([table[:, 1] + 0.5 * table[:, 2], HEIGHT * table[:, 2]])


@in_house_style
def draw_decisions(table: pl.DataFrame) -> Figure:
    """The heat map of `decision_numbers` beside bars of shares; two triangles if there are three classes."""
    loss, dots = (table.filter(pl.col("kind") == kind) for kind in ("loss", "dot"))
    actions, classes = (loss[name].unique(maintain_order=True).to_list() for name in ("name", "other"))
    values = loss["value"].to_numpy().reshape(len(actions), len(classes))
    is_three = dots.height > 0
    left = 0.35 + 0.085 * max(map(len, actions))
    wide, high = max(0.62 * len(classes), 2.2), max(0.46 * len(actions), 1.2)
    width = max(left + wide + 0.35 + 2.6 + 0.3 + (7.4 if is_three else 0.0), 8.6)
    height = max(high + 2.05, 4.9 if is_three else 0.0)
    figure = Figure(figsize=(width, height))
    base = (height - 1.0 - high) / 2 if is_three else 0.95

    def placed(x: float, y: float, across: float, up: float) -> Axes:
        return figure.add_axes((x / width, y / height, across / width, up / height))

    headline(
        figure,
        "What actions cost, and how often they are taken",
        "Numbers: loss of an action (row) when the class (column) comes. Bars: share of the rows, before "
        "(pale) and after.",
    )
    _draw_heat(placed(left, base, wide, high), values, actions, classes)
    _draw_shares(placed(left + wide + 0.3, base, 1.9, high), table.filter(pl.col("kind") == "taken"))
    for place, side in enumerate(("before", "after") if is_three else ()):
        axis = placed(left + wide + 2.9 + 3.6 * place, 0.35, 3.4, height - 1.35)
        _draw_triangle(axis, values, classes, dots.filter(pl.col("other") == side))
        axis.text(-0.06, HEIGHT + 0.04, side, fontsize=11, fontweight="bold")
    return figure


def _draw_heat(axis: Axes, values: Floats, actions: list[str], classes: list[str]) -> None:
    high, few = max(float(values.max()), 1e-9), len(classes) < 5
    axis.imshow(values, cmap=HEAT, aspect="auto", vmin=min(0.0, float(values.min())), vmax=high)
    turned: Any = {} if few else {"rotation": 45, "ha": "right"}
    axis.set_xticks(range(len(classes)), classes, fontsize=8.5, **turned)
    axis.set_yticks(range(len(actions)), actions, fontsize=9, fontweight="bold")
    for label, colour in zip(axis.get_yticklabels(), action_colours(len(actions)), strict=True):
        label.set_color(darker(colour))
    axis.grid(visible=False)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    for (row, column), value in np.ndenumerate(values):
        colour = "white" if value > 0.6 * high else INK
        axis.text(column, row, f"{value:g}", ha="center", va="center", fontsize=8.5, color=colour)


def _draw_shares(axis: Axes, taken: pl.DataFrame) -> None:
    """Bars of the shares of the rows in which each action is taken, before above after."""
    for side, shift, alpha in (("before", -0.19, 0.4), ("after", 0.19, 1.0)):
        shares = taken.filter(pl.col("other") == side)["value"].to_numpy()
        places = np.arange(len(shares))
        axis.barh(places + shift, shares, 0.34, color=action_colours(len(shares)), alpha=alpha, lw=0)
        for place, share in zip(places, shares, strict=True):
            axis.text(share, place + shift, f" {share:.1%}", va="center_baseline", fontsize=7.5, color=INK)
    axis.set(ylim=(len(shares) - 0.5, -0.5), xlim=(0, 1.35 * max(highest(taken["value"]), 1e-9)))
    axis.axis("off")


def _draw_triangle(axis: Axes, values: Floats, classes: list[str], dots: pl.DataFrame) -> None:
    """Where on the simplex each action is the best, pale, and the rows in which it is taken."""
    grid = [(i, j) for i in range(FINENESS + 1) for j in range(FINENESS + 1 - i)]
    points = np.array([(FINENESS - i - j, i, j) for i, j in grid], dtype=float) / FINENESS
    colours = np.array([to_rgb(colour) for colour in action_colours(len(values))])
    best = (points @ values.T).argmin(axis=1)
    x, y = corners(points).T
    axis.scatter(x, y, s=9, marker="h", color=0.72 + 0.28 * colours[best], lw=0, zorder=1)
    chosen = colours[dots["value"].cast(pl.Int64).to_numpy()]
    axis.scatter(dots["x"], dots["y"], s=7, color=chosen, alpha=0.6, lw=0, zorder=3)
    axis.plot([0, 1, 0.5, 0], [0, 0, HEIGHT, 0], color=QUIET, lw=1.2, zorder=4)
    for name, x, y, va in zip(
        classes, (0, 1, 0.5), (-0.05, -0.05, HEIGHT + 0.02), ("top", "top", "bottom"), strict=True
    ):
        axis.text(x, y, name, ha="center", va=va, fontsize=9)
    axis.set(xlim=(-0.08, 1.08), ylim=(-0.14, HEIGHT + 0.12), aspect="equal")
    axis.axis("off")


def action_colours(n_actions: int) -> list[str]:
    """A colour for each action; the palette comes round."""
    return [OKABE_ITO[number % len(OKABE_ITO)] for number in range(n_actions)]
