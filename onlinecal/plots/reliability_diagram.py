"""Reliability diagrams, and plans that move forecasts to calibrated values, also for several histories.

A function that ends in `_table` computes numbers, and all measured numbers that `draw_...` draws are in such
a table. Nothing here has a state; dots that were drawn before on the same Axes are found by their gid. The
columns are those of the files that are written beside pictures. MOST_DOTS, DEFAULT_BINS and PLAN_CELLS decide
the rows of tables; the other numbers only how they look.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from onlinecal.measures import calibration_distance
from onlinecal.plots import style
from onlinecal.plots.style import Picture
from onlinecal.tables.columns import (
    check_probabilities,
    check_same_index,
    check_same_length,
    check_share_history,
)
from onlinecal.validation import check_count

MOST_DOTS = 30
"""Up to this many distinct forecasts, each gets its own dot."""

DEFAULT_BINS = 20
"""With more distinct forecasts, [0, 1] is divided into this many equal parts, each with a dot."""

RELIABILITY_KIND = "onlinecal-reliability"
"""The gid of the dots of a history; it begins with `style.KIND_PREFIX`."""


def reliability(
    forecasts: ArrayLike,
    outcomes: ArrayLike,
    *,
    ax: Axes | None = None,
    n_bins: int | None = None,
    confidence: float = 0.95,
    color: str | None = None,
    label: str | None = None,
) -> Picture:
    """Draw a reliability diagram: for each group of equal or near forecasts, how often outcome 1 followed.

    To the right is the mean forecast, upwards the frequency; dots on the diagonal are calibrated, and their
    areas stand for numbers of rounds. Bars through dots are Wilson's confidence intervals of the frequencies;
    bars below stand for numbers of rounds. Called again on the same axes it adds another history, in another
    colour.

    Parameters
    ----------
    forecasts
        Probabilities, shape (T,): a sequence, an array, or a column of pandas or polars.
    outcomes
        0/1, boolean, or any numbers in [0, 1], shape (T,). For other numbers than 0 and 1 the frequency is
        their mean, and its interval is wider than necessary.
    ax
        The axes to draw on; None: those of a new figure.
    n_bins
        Even parts of [0, 1] that share a dot. None: a dot for each distinct forecast if there are at most 30,
        else 20 parts.
    confidence
        The confidence of the intervals, strictly between 0 and 1.
    color
        Any colour of matplotlib; None: the next of the palette.
    label
        The history's name in the legend; None: no legend.

    Returns
    -------
    Picture
        Its table has a row for each dot, with the columns forecast (the mean), frequency (of outcome 1),
        rounds (how many), ones (the sum of their outcomes), and low and high, the ends of the frequency's
        interval.

    Raises
    ------
    ValueError
        For bad forecasts, outcomes, n_bins, confidence, color or ax, by name and value, before anything is
        drawn. Forecasts that are all 0 or 1, beside outcomes that are not, are refused as swapped with them.
    """
    table = reliability_table(forecasts, outcomes, n_bins=n_bins, confidence=confidence)
    style.check_colour(color)
    ax = style.axes_or_new(ax, (4.8, 5.2))
    colour = color or style.next_colour(ax)
    draw_reliability(ax, table, colour, label)
    style.describe(ax, "", "", "What came after each forecast", label is not None)
    return Picture(ax, table)


def reliability_table(
    forecasts: ArrayLike, outcomes: ArrayLike, *, n_bins: int | None = None, confidence: float = 0.95
) -> pl.DataFrame:
    """The numbers that `reliability` draws; its arguments, columns and errors."""
    p, y = check_share_history(forecasts, outcomes)
    levels, group = np.unique(p, return_inverse=True)
    if n_bins is not None or len(levels) > MOST_DOTS:
        parts = DEFAULT_BINS if n_bins is None else check_count(n_bins, "n_bins")
        group = np.minimum((p * parts).astype(np.int64), parts - 1)
    counts = np.bincount(group)
    used = counts > 0
    rounds = counts[used]
    ones: NDArray[Any] = np.bincount(group, y)[used]
    ones = ones if y.dtype.kind == "f" else ones.astype(np.int64)
    low, high = style.wilson_interval(ones, rounds, confidence)
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
    """Draw a table of `reliability_table`; the first one on an axis also draws diagonal and scales."""
    columns = table.select("forecast", "frequency", "rounds", "low", "high")
    forecast, frequency, rounds, low, high = columns.to_numpy().T
    if not style.histories(axis, RELIABILITY_KIND):
        axis.set(xlim=(-0.02, 1.02), ylim=(-0.15, 1.03), yticks=np.linspace(0, 1, 6))
        axis.plot([0, 1], [0, 1], color=style.INK, lw=1.2, zorder=2)
        axis.axhline(-0.13, color=style.GRID, lw=0.8)
    share = rounds / rounds.max()
    axis.vlines(forecast, low, high, color=color, lw=1.2, alpha=0.45, zorder=3)
    look: Any = {"alpha": 0.85, "edgecolor": "white", "lw": 0.6, "zorder": 4, "label": label}
    dots = axis.scatter(forecast, frequency, s=12 + 150 * share, color=color, **look)
    dots.set_gid(RELIABILITY_KIND)
    drawn: list[Any] = [each for each in axis.collections if each.get_gid() == RELIABILITY_KIND]
    x, y = np.concatenate([each.get_offsets() for each in drawn]).T
    along_diagonal(axis, "calibrated", x, y, np.concatenate([each.get_sizes() for each in drawn]))
    axis.bar(forecast, 0.1 * share, width=0.012, bottom=-0.13, color=color, alpha=0.6, lw=0)
    style.describe(axis, "forecast (bars below: rounds)", "frequency of outcome 1")


LIFTS = (0.0, 0.015, 0.03)
"""How far above the diagonal a word may be lifted, in units of the axes: no further than dots ask for."""
CLEAR = 0.012
"""A word that is so far away from all dots need not be lifted."""
HALF_LETTER, ABOVE = 0.005, 0.03
"""How far half of a letter reaches along either axis, and how far to the left of the diagonal a word's middle
is."""
UNITS_PER_POINT = 0.0035
"""What a point of a dot's radius is in units of the axes, in a picture of the usual size."""


def along_diagonal(
    axis: Axes, word: str, x: NDArray[np.float64], y: NDArray[np.float64], sizes: NDArray[np.float64]
) -> None:
    """Write a word just above the diagonal, where it lies under none of the dots (x, y) of these sizes.

    If there is no such place it is written where it is farthest from them. If it stands there already, it
    moves.
    """
    for written in [text for text in axis.texts if text.get_text() == word]:
        written.remove()
    radii, best, most = UNITS_PER_POINT * np.sqrt(sizes / np.pi), (0.0, 0.0), -np.inf
    middles = np.linspace(0.1, 0.9, 41)
    for lift in LIFTS:
        # from each place of the word's middle, its two ends and its middle
        along = middles[:, None, None] + HALF_LETTER * len(word) * np.array([-1.0, 0.0, 1.0])[:, None]
        aside = ABOVE / 2 + lift
        away = (np.hypot(x - along + aside, y - along - aside) - radii).min(axis=(1, 2))
        if away.max() > most:
            most, best = away.max(), (middles[away.argmax()], lift)
        if most >= CLEAR:
            break
    turned: Any = {"rotation": 45, "rotation_mode": "anchor", "transform_rotates_text": True}
    look: Any = {"ha": "center", "fontsize": 8.5, "color": style.INK, "path_effects": style.HALO, "zorder": 6}
    middle, lift = best
    axis.text(middle - 0.0075 - lift, middle + 0.0075 + lift, word, va="bottom", **turned, **look)


UP, DOWN, STAY = "#D55E00", "#0072B2", "#8a8a8a"

LARGEST_UNMOVED = 0.005
"""Moves of at most this are drawn in grey."""

PLAN_CELLS = 40
"""Forecasts, and the values they go to, are grouped into this many parts of [0, 1]."""

PLAN_BARS = 20
"""The number of bars below; it divides PLAN_CELLS."""

BAND_HEIGHT = 0.3
"""Height of the band of bars, in the units of the axis above it."""


def transport(
    forecasts: ArrayLike,
    outcomes: ArrayLike,
    *,
    ax: Axes | None = None,
    witness: ArrayLike | None = None,
    budget: float = 1.0,
) -> Picture:
    """Draw where forecasts must move to be calibrated, and what that adds to the distance to calibration.

    The distance is the sum of |forecast - value| over rounds, where the values are those of the nearest
    calibrated sequence. To the right of a dot's place is the forecast, upwards the value; its area stands for
    the number of rounds. Bars below show what the forecasts in each twentieth of [0, 1] add to the distance.
    Orange goes up, blue goes down.

    Parameters
    ----------
    forecasts
        Probabilities, shape (T,): a sequence, an array, or a column of pandas or polars.
    outcomes
        0/1, boolean, or any numbers in [0, 1], shape (T,).
    ax
        The axes to draw on; None: those of a new figure.
    witness
        The values of a calibrated sequence, shape (T,), if one is known, such as the `witness` of what
        `calibration_distance` returns; that it is calibrated is not checked. None: the nearest that is found.
    budget
        Without a witness: the effort to find one, above 0. With 1 it takes up to three seconds; with more,
        one that is nearer may be found.

    Returns
    -------
    Picture
        Its table has the columns forecast, value, rounds and moved. A row stands for all rounds with a
        forecast in the same fortieth of [0, 1], a value of the calibrated sequence in the same
        fortieth, and the same direction, up or not. It has their mean forecast, their mean value, their
        number, and in moved the sum of their |forecast - value|.

    Raises
    ------
    ValueError
        For bad forecasts, outcomes, witness, budget or ax, by name and value, before anything is drawn.
        Forecasts that are all 0 or 1, beside outcomes that are not, are refused as swapped with them.
    """
    table = transport_table(forecasts, outcomes, witness=witness, budget=budget)
    ax = style.axes_or_new(ax, (4.8, 5.9))
    draw_transport(ax, table)
    style.describe(ax, "", "", f"The way to calibration\n{plan_costs(table)}")
    return Picture(ax, table)


def transport_table(
    forecasts: ArrayLike, outcomes: ArrayLike, *, witness: ArrayLike | None = None, budget: float = 1.0
) -> pl.DataFrame:
    """The numbers that `transport` draws; its arguments, columns and errors."""
    p, y = check_share_history(forecasts, outcomes)
    if witness is None:
        witness = calibration_distance(p, y, budget=budget).witness
    q = check_probabilities(witness, "witness")
    check_same_index(forecasts, witness, "forecasts and witness")
    check_same_length(p, q, "forecasts and witness")
    forecast, value = pl.col("forecast"), pl.col("value")
    parts = [(end * PLAN_CELLS).floor().clip(0, PLAN_CELLS - 1) for end in (forecast, value)]
    table = pl.DataFrame({"forecast": p, "value": q})
    cells = table.group_by(parts[0].alias("from"), parts[1].alias("to"), (value > forecast).alias("goes_up"))
    moved = (value - forecast).abs().sum().alias("moved")
    plan = cells.agg(forecast.mean(), value.mean(), pl.len().cast(pl.Int64).alias("rounds"), moved)
    return plan.sort("from", "to", "goes_up").select("forecast", "value", "rounds", "moved")


def plan_costs(table: pl.DataFrame) -> str:
    """How far a plan moves forecasts, in all and per round, in words."""
    moved, rounds = float(table["moved"].sum()), int(table["rounds"].sum())
    return f"{moved:,.4g} in all, {moved / rounds:.4f} per round"


def draw_transport(axis: Axes, table: pl.DataFrame) -> None:
    """Draw a table of `transport_table`: the plan and, in a band below it, how far it moves forecasts."""
    forecast, value, rounds, moved = table.select("forecast", "value", "rounds", "moved").to_numpy().T
    change = value - forecast
    axis.set(xlim=(-0.02, 1.02), ylim=(-BAND_HEIGHT - 0.06, 1.03), yticks=np.linspace(0, 1, 6))
    axis.plot([0, 1], [0, 1], color=style.INK, lw=1.0, zorder=2)
    sizes = 2 + 110 * rounds / rounds.max()
    along_diagonal(axis, "stays where it is", forecast, value, sizes)
    colours = np.where(change > LARGEST_UNMOVED, UP, np.where(change < -LARGEST_UNMOVED, DOWN, STAY)).tolist()
    dots: Any = {"alpha": 0.75, "edgecolor": "white", "lw": 0.4, "zorder": 4}
    axis.scatter(forecast, value, s=sizes, color=colours, **dots)
    place = np.minimum((forecast * PLAN_BARS).astype(np.int64), PLAN_BARS - 1)
    up, down = (np.bincount(place[way], moved[way], PLAN_BARS) for way in (change > 0.0, change <= 0.0))
    foot, centres = -BAND_HEIGHT - 0.04, (np.arange(PLAN_BARS) + 0.5) / PLAN_BARS
    axis.axhline(foot, color=style.GRID, lw=0.8)
    largest = int(np.argmax(up + down))
    if top := float((up + down)[largest]):
        scale = BAND_HEIGHT * 0.8 / top
        axis.bar(centres, down * scale, width=0.04, bottom=foot, color=DOWN, lw=0)
        axis.bar(centres, up * scale, width=0.04, bottom=foot + down * scale, color=UP, lw=0)
        at = centres[largest], foot + top * scale
        style.near(axis, f"{top:,.3g}", at, (0, 0), ha="center", va="bottom", fontsize=8, color=style.INK)
    style.describe(axis, "forecast", "value in a calibrated sequence")


def named(table: pl.DataFrame, forecaster: str, adversary: str) -> pl.DataFrame:
    """The numbers of one history with columns forecaster and adversary in front."""
    return table.select(
        pl.lit(forecaster).alias("forecaster"), pl.lit(adversary).alias("adversary"), pl.all()
    )


@style.in_house_style
def reliability_panels(
    table: pl.DataFrame,
    by: str = "forecaster",
    title: str = "",
    colours: Sequence[str] = style.OKABE_ITO,
) -> Figure:
    """Draw a reliability diagram for each value of a column; `named` tables need no title."""
    title = title or f"What came after each forecast, on {table['adversary'][0]}"
    below = "Dots: forecasts and what followed (area: rounds). Bars: 95 % confidence intervals (Wilson's)."
    figure, parts = style.panels_by(table, by, title, below, height=4.3)
    for (_, rows, axis), colour in zip(parts, cycle(colours), strict=False):
        draw_reliability(axis, rows, colour)
    return figure


@style.in_house_style
def transport_panels(table: pl.DataFrame) -> Figure:
    """Draw a plan of the way to calibration for each forecaster of tables that are `named`."""
    title = f"The way to calibration, on {table['adversary'][0]}"
    below = "Dots: where rounds go. Bars: part of the distance. Orange: up, blue: down."
    figure, parts = style.panels_by(table, "forecaster", title, below, height=5.2)
    for _, rows, axis in parts:
        draw_transport(axis, rows)
        where: Any = {"transform": axis.transAxes, "va": "top", "path_effects": style.HALO}
        axis.text(0.02, 0.985, plan_costs(rows), fontsize=9, **where)
    return figure
