"""Pictures of decisions: how much more they cost than predicted, for each loss or each half of the rows.

A function that ends in `_table` computes numbers, and all measured numbers that `draw_...` draws are in such
a table. Nothing here has a state; what was drawn before on the same Axes is found by the gid of its dots. The
columns are those of the files that are written beside pictures. `cli/recalibrating` makes the tables of
`draw_methods`, whose methods are the keys of METHOD_COLOURS.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from onlinecal.measures.decision.losses import check_losses, decision_losses, loss_norms
from onlinecal.plots import style
from onlinecal.plots.style import Picture
from onlinecal.recalibration.decision.losses import gaussian_losses
from onlinecal.tables.columns import check_labelled_rows

DECISIONS_KIND = "onlinecal-decision-losses"
"""The gid of the dots of a table, by which a later call recognises them on the same axes.

It begins with `style.KIND_PREFIX`, by which `style.next_colour` counts all histories."""


def decision_costs(
    probabilities: ArrayLike,
    labels: ArrayLike,
    losses: ArrayLike | None = None,
    *,
    ax: Axes | None = None,
    color: str | None = None,
    label: str | None = None,
) -> Picture:
    """Draw what decisions cost beyond what was predicted, a dot for each loss table.

    For each loss the action with the least expected loss is taken in every row. To the right is the loss that
    the probabilities predict for these decisions; upwards is the true loss minus the predicted one. Both are
    averages over rows, divided by the loss's norm: the largest Euclidean length of an action's losses. The
    decisions of a dot above the line at 0 cost more than was predicted. Called again on the same axes it adds
    other probabilities, in another colour.

    Parameters
    ----------
    probabilities
        Class probabilities, shape (n, C); every row sums to 1: an array, or a table of pandas or polars.
    labels
        The classes that came true, shape (n,), whole numbers 0..C-1.
    losses
        The loss of action a when the class is c, at [loss, a, c]: shape (n_losses, K, C) for K actions, or
        one table of shape (K, C). None: 500 tables of random normal numbers for three actions, always the
        same ones.
    ax
        The axes to draw on; None: those of a new figure.
    color
        Any colour of matplotlib; None: the next of the palette.
    label
        The name of these probabilities in the legend; None: no legend, and the title says the mean and the
        largest gap, |true - predicted|.

    Returns
    -------
    Picture
        Its table has a row for each loss, with the columns loss (its number, from 0), predicted and true:
        averages over rows, divided by the loss's norm. A loss of zeros is not divided.

    Raises
    ------
    ValueError
        For bad probabilities, labels, losses, color or ax, by name and value, before anything is drawn.
    """
    table = decision_costs_table(probabilities, labels, losses)
    style.check_colour(color)
    ax = style.axes_or_new(ax, (5.4, 4.4))
    colour = color or style.next_colour(ax)
    reach = max(1.1 * style.highest((table["true"] - table["predicted"]).abs()), 1e-9)
    if style.histories(ax, DECISIONS_KIND):
        # what was drawn before stays in sight
        reach = max(reach, ax.get_ylim()[1])
    draw_losses(ax, table, colour, reach, label)
    title = "What decisions cost beyond what was predicted"
    if label is None:
        title += "\n" + ", ".join(loss_gaps(table))
    style.describe(ax, "", "", title, label is not None)
    return Picture(ax, table)


def decision_costs_table(
    probabilities: ArrayLike, labels: ArrayLike, losses: ArrayLike | None = None
) -> pl.DataFrame:
    """The numbers that `decision_costs` draws; its arguments, columns and errors."""
    rows, numbers = check_labelled_rows(probabilities, labels)
    tables = check_losses(gaussian_losses(3, rows.shape[1]) if losses is None else losses, rows.shape[1])
    norms = loss_norms(tables)
    norms[norms == 0.0] = 1.0
    predicted, true = decision_losses(rows, numbers, tables)
    return pl.DataFrame(
        {"loss": np.arange(len(tables)), "predicted": predicted / norms, "true": true / norms}
    )


def loss_gaps(table: pl.DataFrame) -> tuple[str, str]:
    """The mean and the worst gap in a table of `decision_costs_table`, in words."""
    gaps = (table["true"] - table["predicted"]).abs().to_numpy()
    return f"mean gap {gaps.mean():.4f}", f"worst gap {gaps.max():.4f}"


def draw_losses(axis: Axes, table: pl.DataFrame, color: str, reach: float, label: str | None = None) -> None:
    """Draw a table of `decision_costs_table` on axes whose ordinate becomes -reach to reach.

    The line at 0 is drawn with the first table on these axes: later ones find its dots by their gid.
    """
    axis.set_ylim(-reach, reach)
    if not style.histories(axis, DECISIONS_KIND):
        axis.axhline(0, color=style.INK, lw=1.0, zorder=2)
    look: Any = {"alpha": 0.55, "edgecolor": "white", "lw": 0.2, "zorder": 3, "label": label}
    predicted, gaps = table["predicted"], table["true"] - table["predicted"]
    axis.scatter(predicted, gaps, s=15, color=color, **look).set_gid(DECISIONS_KIND)
    style.describe(axis, "predicted loss", "true loss − predicted loss")


METHOD_COLOURS = {
    "none": style.OKABE_ITO[1],
    "temperature": style.OKABE_ITO[2],
    "decision": style.OKABE_ITO[0],
}
METHOD_TITLES = {
    "loss": "What random decision makers expect to lose, and what they lose",
    "half": "What the decisions were predicted to cost, and what they cost",
}
DOT_WORDS = {
    "loss": "a Gaussian loss each, divided by its norm",
    "half": "averages over random halves of the rows",
}


@style.in_house_style
def draw_methods(table: pl.DataFrame) -> Figure:
    """Draw a panel per method. Columns: method, predicted, true, and each, which is "loss" or "half".

    A dot is one loss, or one half of the rows.
    """
    each, gaps = str(table["each"][0]), (table["true"] - table["predicted"]).abs()
    below = f"Dots: {DOT_WORDS[each]}; those above the line cost more than predicted."
    sizes: Any = {"height": 3.4, "width": 3.5, "abreast": 3}
    figure, parts = style.panels_by(table, "method", METHOD_TITLES[each], below, **sizes)
    for name, rows, axis in parts:
        draw_losses(axis, rows, METHOD_COLOURS[name], 1.1 * style.highest(gaps))
        text = "\n".join(loss_gaps(rows))
        axis.text(0.97, 0.96, text, transform=axis.transAxes, va="top", ha="right", fontsize=9)
    return figure
