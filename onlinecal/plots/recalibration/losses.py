"""What decisions are predicted to cost and what they cost: a dot per loss, or histograms over halves."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from onlinecal.measures.decision.losses import check_losses, check_table, loss_norms
from onlinecal.measures.decision.losses import decision_losses as average_losses
from onlinecal.plots.columns import highest, lowest
from onlinecal.plots.own_axes import axes_or_new, describe, is_first, name_histories, next_colour
from onlinecal.plots.style import INK, OKABE_ITO, colour_key, headline, in_house_style
from onlinecal.recalibration.decision.losses import gaussian_losses

COLOURS = {"none": OKABE_ITO[1], "temperature": OKABE_ITO[2], "decision": OKABE_ITO[0]}
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
    rows, numbers = check_table(probabilities, labels)
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
def draw(table: pl.DataFrame) -> Figure:
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
            draw_losses(axis, mine, COLOURS[str(name)], reach)
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
