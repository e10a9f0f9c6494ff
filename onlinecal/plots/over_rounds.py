"""Pictures of histories over their rounds: biases of values, certificates, distances and models' weights.

A function that ends in `_table` computes numbers, and all measured numbers that `draw_...` draws are in such
a table. Nothing here has a state; lines that were drawn before on the same Axes are found by their gid. The
columns are those of the files that are written beside pictures. MOMENTS, MOST_BIAS_VALUES, WIDEST_REACH,
MOST_WEIGHT_ROWS and RUNNING_BUDGET decide the numbers in tables; JUMP and colours only how they look.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.ticker import FuncFormatter
from numpy.typing import ArrayLike, NDArray

from onlinecal.measures import calibration_distance
from onlinecal.plots import style
from onlinecal.plots.style import Picture
from onlinecal.tables.columns import (
    as_numbers,
    check_history,
    check_number_column,
    check_probabilities,
    check_same_index,
    check_same_length,
    refuse,
)
from onlinecal.tables.frames import as_array
from onlinecal.texts import shown
from onlinecal.validation import check_count, check_flag

MOMENTS = 120
"""At most this many moments of a history are shown, evenly spread over its rounds."""

MOST_BIAS_VALUES = 80
"""If there are more distinct values, they are grouped into this many parts of [0, 1]."""

WIDEST_REACH = 0.04
"""A value is coloured up to this far around itself, if no other value is nearer."""

JUMP = 0.1
"""Forecasts jump about if half of their steps from moment to moment are larger than this."""

UNTOUCHED = "#f1f1f1"
TOO_LOW, TOO_HIGH = "#D55E00", "#0072B2"
BIAS_COLOURS = LinearSegmentedColormap.from_list(
    "biases", ["#8a3b00", TOO_LOW, "#f3b98f", "#ffffff", "#93c4e2", TOO_HIGH, "#003f66"]
)


def running_biases(
    forecasts: ArrayLike,
    outcomes: ArrayLike,
    *,
    ax: Axes | None = None,
    rounds: int | ArrayLike = MOMENTS,
    n_bins: int | None = None,
    look_ahead: ArrayLike | None = None,
    course: bool = False,
) -> Picture:
    """Draw the bias of every forecast value so far against the round, as colours.

    The bias of a value v is the sum of v - outcome over the rounds so far with that forecast: blue where v
    was too high, orange where it was too low, grey where it has not been used. The scale stands at the right
    of the axes.

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
        After how many rounds the biases are shown: a number of moments, evenly spread (all rounds if there
        are fewer), or a list of the moments themselves, whole numbers from 1 to T, in order.
    n_bins
        Even parts of [0, 1] that share a colour, that of the sum of their biases. None: a colour for each
        distinct forecast if there are at most 80, else 80 parts.
    look_ahead
        The value whose bias each round counts in, shape (T,), in [0, 1], where that is not the forecast: the
        second array that `AlmostOneStepAhead.replay(..., return_look_ahead=True)` returns. None: the
        forecasts.
    course
        Draw the forecasts as well: a line, in the band between the lowest and the highest around each moment.

    Returns
    -------
    Picture
        Its table has a row for each moment and each value that has been used by then. The columns are
        grouped (True if values are the centres of equal parts of [0, 1], and a bias is the sum over such a
        part), round (the moment), value, low and high (the part of [0, 1] that the value stands for), bias
        (a sum over the rounds so far), and lowest, forecast and highest: the lowest, the last and the
        highest forecast since the moment before.

    Raises
    ------
    ValueError
        For bad forecasts, outcomes, rounds, n_bins, look_ahead, course or ax, by name and value, before
        anything is drawn.
    """
    table = running_biases_table(forecasts, outcomes, rounds=rounds, n_bins=n_bins, look_ahead=look_ahead)
    check_flag(course, "course")
    ax = style.axes_or_new(ax, (7.6, 3.8))
    limit = bias_limit(table)
    draw_biases(ax, table, limit)
    if course:
        draw_course(ax, table)
    draw_scale(ax.inset_axes((1.02, 0.0, 0.022, 1.0)), limit)
    style.describe(ax, "round t", "value v", "Biases so far: blue values were too high, orange ones too low")
    return Picture(ax, table)


def running_biases_table(
    forecasts: ArrayLike,
    outcomes: ArrayLike,
    *,
    rounds: int | ArrayLike = MOMENTS,
    n_bins: int | None = None,
    look_ahead: ArrayLike | None = None,
) -> pl.DataFrame:
    """The numbers that `running_biases` draws; its arguments, columns and errors."""
    p, y = check_history(forecasts, outcomes)
    charged = p if look_ahead is None else check_probabilities(look_ahead, "look_ahead")
    check_same_index(forecasts, look_ahead, "forecasts and look_ahead")
    check_same_length(p, charged, "forecasts and look_ahead")
    stops = np.unique(style.moments_of(rounds, len(p)))
    p, y, charged = p[: stops[-1]], y[: stops[-1]], charged[: stops[-1]]
    values, place = np.unique(charged, return_inverse=True)
    gaps = np.diff(values, prepend=-1.0, append=2.0)
    reach = np.minimum(np.minimum(gaps[:-1], gaps[1:]) / 2, WIDEST_REACH)
    grouped = n_bins is not None or len(values) > MOST_BIAS_VALUES
    if grouped:
        parts = MOST_BIAS_VALUES if n_bins is None else check_count(n_bins, "n_bins")
        place = np.minimum((charged * parts).astype(np.int64), parts - 1)
        values = (np.arange(parts) + 0.5) / parts
        reach = np.full(parts, 0.5 / parts)
    part = np.searchsorted(stops, np.arange(len(p)), side="right")
    cell = part * len(values) + place
    size = len(stops) * len(values)
    bias = np.bincount(cell, charged - y, size).reshape(len(stops), -1).cumsum(axis=0)
    count = np.bincount(cell, minlength=size).reshape(len(stops), -1).cumsum(axis=0)
    begins = np.concatenate([[0], stops[:-1]])
    at, column = np.nonzero(count)
    return pl.DataFrame(
        {
            "grouped": grouped,
            "round": stops[at],
            "value": values[column],
            "low": np.maximum(values - reach, 0.0)[column],
            "high": np.minimum(values + reach, 1.0)[column],
            "bias": bias[at, column].round(6),
            "lowest": np.minimum.reduceat(p, begins)[at],
            "forecast": p[stops - 1][at],
            "highest": np.maximum.reduceat(p, begins)[at],
        }
    )


def bias_limit(table: pl.DataFrame) -> float:
    """The largest bias of all moments, at which the colours end; it is never 0."""
    return max(style.highest(table["bias"].abs()), 1e-9)


def draw_biases(axis: Axes, table: pl.DataFrame, limit: float) -> None:
    """Draw a table of `running_biases_table` as colours from -limit to limit."""
    rounds = table["round"].unique().sort().to_numpy()
    parts = table.select("value", "low", "high").unique().sort("value").to_numpy()
    heat = np.full((len(parts), len(rounds)), np.nan)
    row = np.searchsorted(parts[:, 0], table["value"].to_numpy())
    heat[row, np.searchsorted(rounds, table["round"].to_numpy())] = table["bias"].to_numpy()
    axis.set_facecolor(UNTOUCHED)
    axis.grid(False)
    for low, high, line in zip(parts[:, 1], parts[:, 2], heat, strict=True):
        axis.pcolormesh(
            np.concatenate([[0], rounds]), [low, high], np.ma.masked_invalid(line)[None, :],
            cmap=BIAS_COLOURS, vmin=-limit, vmax=limit, rasterized=True, linewidth=0,
        )  # fmt: skip
    axis.set(xlim=(0, rounds[-1]), ylim=(0, 1), yticks=np.linspace(0, 1, 6))


def draw_course(axis: Axes, table: pl.DataFrame) -> None:
    """Draw the last forecast before each moment of `running_biases_table`, and the range before that moment.

    Forecasts that jump about are drawn as dots, since a line through them would only be a zigzag.
    """
    course = table.select("round", "lowest", "forecast", "highest").unique("round").sort("round")
    at, low, forecast, high = course.to_numpy().T
    if len(at) > 1 and np.median(np.abs(np.diff(forecast))) > JUMP:
        axis.scatter(at, forecast, s=4, color=style.INK, lw=0, zorder=3)
        return
    if len(at) == 1:
        # the forecasts of all rounds up to the only moment
        at, low, forecast, high = np.array([[0.0, *at], *(end.repeat(2) for end in (low, forecast, high))])
    axis.fill_between(at, low, high, color=style.INK, alpha=0.12, lw=0, step="pre")
    axis.plot(at, forecast, color=style.INK, lw=0.7)


def draw_scale(axis: Axes, limit: float) -> None:
    """Fill an axis with the scale of the colours, from -limit to limit."""
    digits = ",.0f" if limit >= 100 else ".2g"
    steps = np.linspace(-limit, limit, 128)
    axis.pcolormesh([0, 1], np.append(steps, steps[-1] * 2 - steps[-2]), steps[:, None], cmap=BIAS_COLOURS)
    axis.set(xticks=[], ylim=(-limit, limit), yticks=[-limit, -limit / 2, 0, limit / 2, limit])
    axis.yaxis.tick_right()
    axis.yaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:+{digits}}" if x else "0"))
    axis.grid(False)
    axis.spines[["left", "top", "bottom"]].set_visible(False)
    axis.tick_params(labelsize=8, length=2)
    axis.text(1.3, 1.025, "α(v)", transform=axis.transAxes, fontsize=9)


def certificate(
    certificates: ArrayLike,
    guarantees: ArrayLike | None = None,
    *,
    ax: Axes | None = None,
    rounds: ArrayLike | None = None,
    normalize: bool = False,
    color: str | None = None,
    label: str | None = None,
) -> Picture:
    """Draw running certificates, proven bounds on the distance to calibration, against the round.

    For sums the axes are made logarithmic. For averages axes that were given stay as they are, so that with
    `normalize=True` certificates can be drawn on the axes of `running_distance`. Guarantees are drawn in
    black. Called again on the same axes it adds another forecaster, in another colour.

    Parameters
    ----------
    certificates
        The certificate after each of n rounds, a sum over the rounds so far, shape (n,): a sequence, an
        array, or a column of pandas or polars.
    guarantees
        The bounds that the certificates cannot exceed, sums over the rounds so far as well, shape (n,), or
        one number for all rounds; None: none is drawn.
    ax
        The axes to draw on; None: those of a new figure.
    rounds
        After how many rounds each certificate was read, shape (n,): whole numbers of at least 1, none smaller
        than the one before. None: 1, ..., n.
    normalize
        True: draw averages over the rounds so far, the sums divided by `rounds`. False: draw the sums.
    color
        Any colour of matplotlib; None: the next of the palette.
    label
        The forecaster's name in the legend; None: no legend.

    Returns
    -------
    Picture
        Its table has a row for each certificate, with the columns round, certificate and, if there are
        guarantees, guarantee: sums over the rounds so far, or with `normalize` averages.

    Raises
    ------
    ValueError
        For numbers that are missing or negative, rounds that decrease, lengths that differ, or a bad
        normalize, color or ax, by name and value, before anything is drawn.
    """
    table = certificate_table(certificates, guarantees, rounds=rounds, normalize=normalize)
    style.check_colour(color)
    is_new = ax is None
    ax = style.axes_or_new(ax, (6.4, 4.0))
    colour = color or style.next_colour(ax)
    draw_line(ax, table, "certificate", colour, label=label)
    if not normalize:
        # where all sums are 0, a logarithmic scale has nothing to show
        has_height = any((np.asarray(line.get_ydata()) > 0.0).any() for line in ax.lines)
        ax.set(xscale="log", yscale="log" if has_height else ax.get_yscale())
        ax.minorticks_off()
    elif is_new:
        ax.set(xlim=(0, table["round"][-1]), ylim=(0, 1.1 * max(later_height(table), 0.01)))
    if guarantees is not None:
        look: Any = {"color": style.INK, "lw": 2, "zorder": 4, "marker": style.marker_of(table)}
        ax.plot(table["round"], table["guarantee"], **look)
        end = table.select("round", "guarantee").row(-1)
        words: Any = {"weight": "bold", "color": style.INK, "path_effects": style.HALO, "zorder": 6}
        style.near(ax, "guarantee", end, (0, 4), ha="right", va="bottom", **words)
    unit = "certificate / t" if normalize else "certificate (sum over rounds so far)"
    style.describe(ax, "round t", unit, "Proven: at most so far from calibrated", label is not None)
    return Picture(ax, table)


def certificate_table(
    certificates: ArrayLike,
    guarantees: ArrayLike | None = None,
    *,
    rounds: ArrayLike | None = None,
    normalize: bool = False,
) -> pl.DataFrame:
    """The numbers that `certificate` draws; its arguments, columns and errors."""
    proven = _sums(certificates, "certificates")
    moments = style.moments_of(np.arange(1, len(proven) + 1) if rounds is None else rounds)
    check_same_length(proven, moments, "certificates and rounds")
    per = moments if check_flag(normalize, "normalize") else 1
    columns = {"round": moments, "certificate": proven / per}
    if guarantees is not None:
        is_number = isinstance(guarantees, Real)
        bound = np.full(len(proven), guarantees) if is_number else guarantees
        promised = _sums(bound, "guarantees")
        check_same_index(certificates, guarantees, "certificates and guarantees")
        check_same_length(proven, promised, "certificates and guarantees")
        columns["guarantee"] = promised / per
    return pl.DataFrame(columns)


def draw_line(axis: Axes, table: pl.DataFrame, column: str, color: str, **look: Any) -> None:
    """Draw a column of a history against the column round, with a look of matplotlib's."""
    usual = {"lw": 1.8, "zorder": 3, "marker": style.marker_of(table)}
    (line,) = axis.plot(table["round"], table[column], color=color, **{**usual, **look})
    line.set_gid(f"{style.KIND_PREFIX}{column}")


def _sums(values: ArrayLike, name: str) -> NDArray[np.float64]:
    array = check_number_column(values, name, "be numbers")
    refuse(~((array >= 0.0) & np.isfinite(array)), array, f"{name} must be finite and not negative")
    return array


RUNNING_BUDGET = 0.1
"""The default effort for each of the many distances of a picture."""


def running_distance(
    forecasts: ArrayLike,
    outcomes: ArrayLike,
    *,
    ax: Axes | None = None,
    rounds: int | ArrayLike = 24,
    budget: float = RUNNING_BUDGET,
    color: str | None = None,
    label: str | None = None,
) -> Picture:
    """Draw the distance to calibration of the rounds so far, as an average per round, against the round.

    The distance is the sum of |forecast - q| for the nearest calibrated sequence q, here divided by the
    number of rounds. The line is the upper end of a proven bracket, and the band below it reaches to the
    lower end. Called again on the same axes it adds another history, in another colour.

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
        After how many rounds it is measured: a number of moments, evenly spread (all rounds if there are
        fewer), or a list of the moments themselves, whole numbers from 1 to T, in order.
    budget
        The most effort for each distance, above 0: with 1 each takes up to three seconds, and more makes the
        bracket narrower. The work ends before that when upper - lower is at most 5 % of upper.
    color
        Any colour of matplotlib; None: the next of the palette.
    label
        The history's name in the legend; None: no legend.

    Returns
    -------
    Picture
        Its table has a row for each moment: round, lower and upper, averages over the rounds so far. It
        is proven that lower <= distance <= upper.

    Raises
    ------
    ValueError
        For bad forecasts, outcomes, rounds, budget, color or ax, by name and value, before anything is
        drawn.
    """
    table = running_distance_table(forecasts, outcomes, rounds=rounds, budget=budget)
    style.check_colour(color)
    ax = style.axes_or_new(ax, (6.4, 4.0))
    colour = color or style.next_colour(ax)
    top = max(ax.get_ylim()[1] if ax.lines else 0.01, 1.2 * later_height(table))
    draw_line(ax, table, "upper", colour, label=label)
    band: Any = {"color": colour, "alpha": 0.2}
    ax.fill_between(table["round"], table["lower"], table["upper"], lw=0, **band)
    if table.height == 1:
        ax.vlines(table["round"], table["lower"], table["upper"], lw=5, **band)
    ax.set(xlim=(0, max(float(table["round"][-1]), ax.dataLim.x1)), ylim=(0, top))
    style.describe(
        ax, "round t", "distance / t", "Distance to calibration so far, per round", label is not None
    )
    return Picture(ax, table)


def running_distance_table(
    forecasts: ArrayLike, outcomes: ArrayLike, *, rounds: int | ArrayLike = 24, budget: float = RUNNING_BUDGET
) -> pl.DataFrame:
    """The numbers that `running_distance` draws; its arguments, columns and errors."""
    p, y = check_history(forecasts, outcomes)
    rows = []
    for stop in style.moments_of(rounds, len(p)).tolist():
        bracket = calibration_distance(p[:stop], y[:stop], budget=budget, rtol=0.05, normalize=True)
        rows.append((stop, bracket.lower, bracket.upper))
    return pl.DataFrame(rows, ["round", "lower", "upper"], orient="row")


def later_height(table: pl.DataFrame) -> float:
    """The largest height of the lines after a sixth of the rounds; earlier parts may be cut off."""
    return style.highest(*table.filter(pl.col("round") * 6 >= pl.col("round").max()).drop("round"))


def model_weights(weights: ArrayLike, names: Sequence[Any], *, ax: Axes | None = None) -> Picture:
    """Draw the weights of several models, row by row, as areas one on the other.

    With more than 300 rows, 300 averages over stretches of neighbouring rows are drawn.

    Parameters
    ----------
    weights
        The weight of each of N models in each of T rows, shape (T, N), not negative; with sum 1 in each row
        the areas fill the axes. `CombinedForecasts.weights` is such a table.
    names
        The names of the N models, which must differ as texts: 1 and "1" do not.
    ax
        The axes to draw on; None: those of a new figure.

    Returns
    -------
    Picture
        Its table has a row for each stretch, with the column row, the number of rows up to its end, and a
        column with the name of each model, the average of its weight in the stretch. (The column of a model
        called row is called "model row", or "model model row" if a model has that name, and so on.)

    Raises
    ------
    ValueError
        If weights are not such a table, names not N different ones, or ax no axes; before anything is drawn.
    """
    table = model_weights_table(weights, names)
    ax = style.axes_or_new(ax, (6.4, 3.4))
    rounds, *parts = table.to_numpy().T
    if len(rounds) == 1:
        # an area needs two ends
        rounds, parts = np.array([0.0, rounds[0]]), [part.repeat(2) for part in parts]
    look = style.looks(table.columns[1:])
    ax.stackplot(rounds, parts, colors=[line_look.colour for line_look in look.values()], alpha=0.75, lw=0)
    last = np.array([part[-1] for part in parts])
    for (name, line_look), middle in zip(look.items(), last.cumsum() - last / 2.0, strict=True):
        end = rounds[-1], middle
        style.near(ax, name, end, (4, 0), va="center", color=line_look.text, annotation_clip=False)
    ax.set(xlim=(rounds[0], rounds[-1]), ylim=(0, 1))
    style.describe(ax, "row", "weight", "How much each model counts")
    return Picture(ax, table)


MOST_WEIGHT_ROWS = 300
"""At most this many averages of weights are drawn."""


def model_weights_table(weights: ArrayLike, names: Sequence[Any]) -> pl.DataFrame:
    """The numbers that `model_weights` draws; its arguments, columns and errors."""
    table = as_array(weights, "weights", "a table")
    if table.ndim != 2 or not table.size:
        raise ValueError(
            f"weights must have the shape (rows, models), and at least one of each, got {table.shape}"
        )
    called = style.check_names(names, "names")
    if len(called) != table.shape[1]:
        raise ValueError(f"names must be one for each of {table.shape[1]} models, got {len(called)}")
    if len(set(called)) < len(called):
        raise ValueError(f"names must differ, one for each model, got {shown(called)}")
    axes = "row", "model"
    table = as_numbers(table, "weights must be numbers", axes=axes)
    bad = ~((table >= 0.0) & np.isfinite(table))
    refuse(bad, table, "weights must be finite and not negative", axes=axes)
    ends = np.unique(np.linspace(0, len(table), min(MOST_WEIGHT_ROWS, len(table)) + 1).astype(np.int64))
    means = np.add.reduceat(table, ends[:-1], axis=0) / np.diff(ends)[:, None]
    # a model may be called as the column of rows is
    freed = "model row"
    while freed in called:
        freed = f"model {freed}"
    columns = {freed if name == "row" else name: column for name, column in zip(called, means.T, strict=True)}
    return pl.DataFrame({"row": ends[1:], **columns})
