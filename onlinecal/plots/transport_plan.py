"""The way to calibration as a plan: which forecasts must move where, and what that adds to the distance."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from onlinecal.measures import calibration_distance
from onlinecal.plots.own_axes import axes_or_new, describe
from onlinecal.plots.style import GRID, HALO, INK
from onlinecal.validation import check_probabilities, check_same_length, check_shares

UP, DOWN, STAY = "#D55E00", "#0072B2", "#8a8a8a"

HARDLY = 0.005
"""Moves of at most this are drawn in grey."""

CELLS = 40
"""Forecasts, and the values they go to, are grouped into this many parts of [0, 1]."""

BARS = 20
"""Groups of the bars below, an even part of CELLS."""

ROOM = 0.3
"""Height of the band of bars, in the units of the axis above it."""


def transport(
    forecasts: ArrayLike,
    outcomes: ArrayLike,
    ax: Axes | None = None,
    *,
    witness: ArrayLike | None = None,
    budget: float = 1.0,
) -> Axes:
    """Draw where forecasts must move to be calibrated, and what that adds to the distance to calibration.

    Dots: rounds (area), their forecast, and their value in the nearest calibrated sequence that was found.
    Bars below: what each twentieth of the forecasts adds to the distance. Orange goes up, blue goes down.

    Parameters
    ----------
    forecasts
        Probabilities, shape (T,): a sequence, an array, or a column of pandas or polars.
    outcomes
        0/1, boolean, or any numbers in [0, 1], shape (T,).
    ax
        The axes to draw on; None: those of a new figure.
    witness
        A calibrated sequence, shape (T,), where one is known, such as `calibration_distance(...).witness`.
    budget
        Else: effort to find one, as for `calibration_distance`; 1 is about a second.

    Returns
    -------
    Axes
        Those drawn on.

    Raises
    ------
    ValueError
        Bad forecasts, outcomes, witness or budget, by name and value, before anything is drawn.

    """
    table = transport_data(forecasts, outcomes, witness=witness, budget=budget)
    ax = axes_or_new(ax, (4.8, 5.9))
    draw_transport(ax, table)
    describe(ax, "forecast", "value in a calibrated sequence", f"The way to calibration\n{plan_costs(table)}")
    return ax


def transport_data(
    forecasts: ArrayLike, outcomes: ArrayLike, *, witness: ArrayLike | None = None, budget: float = 1.0
) -> pl.DataFrame:
    """The numbers of the plan: columns forecast, value, rounds, moved.

    A row is all rounds with a forecast in one fortieth of [0, 1] and a value of the calibrated sequence in
    one, those that go up apart from the others: their mean forecast, their mean value there, how many they
    are, and the sum of their |forecast - value|. Arguments and errors as in `transport`.
    """
    p, y = check_probabilities(forecasts), check_shares(outcomes)
    check_same_length(p, y, "forecasts and outcomes")
    if witness is None:
        witness = calibration_distance(p, y, budget=budget).witness
    q = check_probabilities(witness, "witness")
    check_same_length(p, q, "forecasts and witness")
    cells = [_part(name).alias(f"{name}_part") for name in ("forecast", "value")]
    cells.append((pl.col("value") > pl.col("forecast")).alias("goes_up"))
    return (
        pl.DataFrame({"forecast": p, "value": q})
        .group_by(*cells)
        .agg(
            pl.col("forecast").mean(),
            pl.col("value").mean(),
            pl.len().cast(pl.Int64).alias("rounds"),
            (pl.col("value") - pl.col("forecast")).abs().sum().alias("moved"),
        )
        .sort("forecast_part", "value_part", "goes_up")
        .select("forecast", "value", "rounds", "moved")
    )


def plan_costs(table: pl.DataFrame) -> str:
    """What a plan moves, in all and per round, in words."""
    moved, rounds = float(table["moved"].sum()), int(table["rounds"].sum())
    return f"{moved:,.4g} in all, {moved / rounds:.4f} per round"


def draw_transport(axis: Axes, table: pl.DataFrame) -> None:
    """Draw what `transport_data` gives: the plan, and in a band of its own below what it moves."""
    axis.set(xlim=(-0.02, 1.02), ylim=(-ROOM - 0.06, 1.03), yticks=np.linspace(0, 1, 6))
    _draw_plan(axis, table)
    _draw_bars(axis, table)


def _part(name: str) -> pl.Expr:
    return (pl.col(name) * CELLS).floor().clip(0, CELLS - 1).cast(pl.Int64)


def _draw_plan(axis: Axes, moves: pl.DataFrame) -> None:
    forecast, value, rounds = moves.select("forecast", "value", "rounds").to_numpy().T
    change = value - forecast
    colours = np.where(change > HARDLY, UP, np.where(change < -HARDLY, DOWN, STAY))
    axis.plot([0, 1], [0, 1], color=INK, lw=1.0, zorder=2)
    # on the side where there are fewer dots
    x, y, side = (0.075, 0.06, "top") if change @ rounds > 0 else (0.06, 0.075, "bottom")
    axis.text(
        x, y, "stays where it is", rotation=45, rotation_mode="anchor", transform_rotates_text=True, va=side,
        fontsize=8.5, color=INK, path_effects=HALO, zorder=2.5,
    )  # fmt: skip
    sizes = 2 + 110 * rounds / rounds.max()
    axis.scatter(
        forecast, value, s=sizes, color=list(colours), alpha=0.75, edgecolor="white", lw=0.4, zorder=4
    )


def _draw_bars(axis: Axes, moves: pl.DataFrame) -> None:
    """What rounds moved up and down add to the distance, by forecast, in a band of its own below."""
    forecast, value, moved = moves.select("forecast", "value", "moved").to_numpy().T
    place = np.minimum((forecast * BARS).astype(np.int64), BARS - 1)
    up = np.bincount(place, np.where(value > forecast, moved, 0.0), minlength=BARS)
    down = np.bincount(place, np.where(value <= forecast, moved, 0.0), minlength=BARS)
    top = float((up + down).max())
    foot = -ROOM - 0.04
    centres = (np.arange(BARS) + 0.5) / BARS
    axis.axhline(foot, color=GRID, lw=0.8)
    if top > 0:
        scale = ROOM * 0.8 / top
        axis.bar(centres, down * scale, width=0.04, bottom=foot, color=DOWN, lw=0)
        axis.bar(centres, up * scale, width=0.04, bottom=foot + down * scale, color=UP, lw=0)
        highest = int(np.argmax(up + down))
        axis.text(
            centres[highest], foot + top * scale, f"{top:,.3g}", ha="center", va="bottom", fontsize=8,
            color=INK,
        )  # fmt: skip
