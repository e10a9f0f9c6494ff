"""Reliability: how often the outcome was 1 after each forecast, and how sure that is."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray

from onlinecal.plots.numbers import wilson_interval
from onlinecal.plots.own_axes import axes_or_new, describe, is_first, name_histories, next_colour
from onlinecal.plots.style import GRID, HALO, INK
from onlinecal.validation import (
    check_count,
    check_probabilities,
    check_same_length,
    check_shares,
)

MOST_LEVELS = 30
"""Up to so many distinct forecasts each gets its own dot."""

BINS = 20
"""Of more, so many even parts of [0, 1] get one each."""

KIND = "onlinecal-reliability"


def reliability(
    forecasts: ArrayLike,
    outcomes: ArrayLike,
    ax: Axes | None = None,
    *,
    bins: int | None = None,
    confidence: float = 0.95,
    color: str | None = None,
    label: str | None = None,
) -> Axes:
    """Draw a reliability diagram: dots on the diagonal are calibrated, their areas are numbers of rounds.

    Bars through the dots are Wilson's confidence intervals of the frequencies; bars below are the rounds.
    Called again on the same axes it adds another history, in another colour.

    Parameters
    ----------
    forecasts
        Probabilities, shape (T,): a sequence, an array, or a column of pandas or polars.
    outcomes
        0/1, boolean, or any numbers in [0, 1], shape (T,). Of the latter the frequency is the mean, whose
        interval is then wider than it need be.
    ax
        The axes to draw on; None: those of a new figure.
    bins
        Even parts of [0, 1] that share a dot. None: a dot for each distinct forecast if there are at most 30,
        else 20 parts.
    confidence
        Of the intervals, strictly between 0 and 1.
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
        Bad forecasts, outcomes, bins or confidence, by name and value, before anything is drawn.

    """
    table = reliability_data(forecasts, outcomes, bins=bins, confidence=confidence)
    ax = axes_or_new(ax, (4.8, 5.2))
    draw_reliability(ax, table, color or next_colour(ax), label)
    describe(ax, "forecast (bars below: rounds)", "frequency of outcome 1", "What came after each forecast")
    name_histories(ax, label)
    return ax


def reliability_data(
    forecasts: ArrayLike, outcomes: ArrayLike, *, bins: int | None = None, confidence: float = 0.95
) -> pl.DataFrame:
    """The numbers of a reliability diagram, a row for each group of forecasts that occurs.

    Columns: forecast (the group's mean), frequency (of outcome 1), rounds, ones, and low and high, the ends
    of Wilson's interval of the frequency, in [0, 1]. Arguments and errors as in `reliability`.
    """
    p, y = check_probabilities(forecasts), check_shares(outcomes)
    check_same_length(p, y, "forecasts and outcomes")
    levels, group = np.unique(p, return_inverse=True)
    if bins is not None or len(levels) > MOST_LEVELS:
        parts = BINS if bins is None else check_count(bins, "bins")
        group = np.minimum((p * parts).astype(np.int64), parts - 1)
    counts = np.bincount(group)
    used = counts > 0
    rounds = counts[used]
    ones: NDArray[Any] = np.bincount(group, y)[used]
    ones = ones if y.dtype.kind == "f" else ones.astype(np.int64)
    low, high = wilson_interval(ones, rounds, confidence)
    return pl.DataFrame(
        {
            "forecast": np.bincount(group, p)[used] / rounds,
            "frequency": ones / rounds,
            "rounds": rounds,
            "ones": ones,
            "low": low,
            "high": high,
        }
    )


def draw_reliability(axis: Axes, table: pl.DataFrame, color: str, label: str | None = None) -> None:
    """Draw what `reliability_data` gives; the diagonal and the scales come with the first history."""
    forecast, frequency, rounds, low, high = (
        table[name].to_numpy() for name in ("forecast", "frequency", "rounds", "low", "high")
    )
    if is_first(axis, KIND):
        axis.set(xlim=(-0.02, 1.02), ylim=(-0.15, 1.03), yticks=np.linspace(0, 1, 6))
        axis.plot([0, 1], [0, 1], color=INK, lw=1.2, zorder=2)
        axis.text(
            0.06, 0.075, "calibrated", rotation=45, rotation_mode="anchor", transform_rotates_text=True,
            va="bottom", fontsize=8.5, color=INK, path_effects=HALO, zorder=2.5,
        )  # fmt: skip
        axis.axhline(-0.13, color=GRID, lw=0.8)
    share = rounds / rounds.max()
    axis.vlines(forecast, low, high, color=color, lw=1.2, alpha=0.45, zorder=3)
    dots = axis.scatter(
        forecast, frequency, s=12 + 150 * share, color=color, alpha=0.85, edgecolor="white", lw=0.6, zorder=4,
        label=label,
    )  # fmt: skip
    dots.set_gid(KIND)
    axis.bar(forecast, 0.1 * share, width=0.012, bottom=-0.13, color=color, alpha=0.6, lw=0)
