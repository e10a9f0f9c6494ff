"""How far from calibrated a history has been so far, against the round."""

from __future__ import annotations

from typing import Any

import polars as pl
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from onlinecal.measures import calibration_distance
from onlinecal.plots.columns import highest
from onlinecal.plots.own_axes import (
    axes_or_new,
    describe,
    draw_line,
    moments_of,
    name_histories,
    next_colour,
)
from onlinecal.validation import check_outcomes, check_probabilities, check_same_length

BUDGET = 0.1
"""Effort for each of the many distances."""

KIND = "onlinecal-distance"


def running_distance(
    forecasts: ArrayLike,
    outcomes: ArrayLike,
    ax: Axes | None = None,
    *,
    rounds: int | ArrayLike = 24,
    budget: float = BUDGET,
    color: str | None = None,
    label: str | None = None,
) -> Axes:
    """Draw the distance to calibration of the history so far, per round, against the round.

    The line is the upper end of a proven bracket, the band below it reaches to the lower end. Called again on
    the same axes it adds another history, in another colour.

    Parameters
    ----------
    forecasts
        Probabilities in the order they were made, shape (T,): a sequence, an array, or a column of pandas or
        polars.
    outcomes
        0/1 or boolean, shape (T,).
    ax
        The axes to draw on; None: those of a new figure.
    rounds
        After how many rounds it is measured: a number of moments, evenly spread, or the moments themselves,
        whole numbers from 1 to T, in order.
    budget
        Effort for each distance, as for `calibration_distance`; 1 is about a second.
    color
        Any colour of matplotlib; None: the next of the palette.
    label
        The history's name in the legend; None: no legend.

    Returns
    -------
    Axes
        Those drawn on.

    Raises
    ------
    ValueError
        Bad forecasts, outcomes, rounds or budget, by name and value, before anything is drawn.

    """
    table = running_distance_data(forecasts, outcomes, rounds=rounds, budget=budget)
    ax = axes_or_new(ax, (6.4, 4.0))
    highest = max(ax.get_ylim()[1] if ax.lines else 0.01, 1.2 * _later_height(table))
    draw_distance(ax, table, color or next_colour(ax), label=label)
    ax.set(xlim=(0, max(float(table["round"][-1]), ax.dataLim.x1)), ylim=(0, highest))
    describe(ax, "round t", "distance / t", "Distance to calibration so far, per round")
    name_histories(ax, label)
    return ax


def running_distance_data(
    forecasts: ArrayLike, outcomes: ArrayLike, *, rounds: int | ArrayLike = 24, budget: float = BUDGET
) -> pl.DataFrame:
    """The numbers of the picture: columns round, lower, upper, averages over the rounds so far.

    lower <= distance <= upper, both proven. Arguments and errors as in `running_distance`.
    """
    p, y = check_probabilities(forecasts), check_outcomes(outcomes)
    check_same_length(p, y, "forecasts and outcomes")
    moments = moments_of(rounds, len(p)).tolist()
    found = [
        calibration_distance(p[:stop], y[:stop], budget=budget, rtol=0.05, normalize=True) for stop in moments
    ]
    return pl.DataFrame(
        {"round": moments, "lower": [one.lower for one in found], "upper": [one.upper for one in found]},
        schema={"round": pl.Int64, "lower": pl.Float64, "upper": pl.Float64},
    )


def draw_distance(axis: Axes, table: pl.DataFrame, color: str, **look: Any) -> None:
    """Draw the columns round and upper as a line, and a band below it if there is a column lower."""
    draw_line(axis, table, "upper", KIND, color, **look)
    if "lower" in table.columns:
        axis.fill_between(table["round"], table["lower"], table["upper"], color=color, alpha=0.2, lw=0)


def _later_height(table: pl.DataFrame) -> float:
    """How high the line is, once a sixth of the rounds is over: what comes before may be cut off."""
    later = table.filter(pl.col("round") * 6 >= pl.col("round").max())
    return highest(later["upper"])
