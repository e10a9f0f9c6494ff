"""The way to calibration as a plan: which forecasts must move where, and what that adds to the distance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onlinecal.plots.style import GRID, INK, along, headline, in_house_style, panels
from simulations.games.measuring import Game

UP, DOWN, STAY = "#D55E00", "#0072B2", "#8a8a8a"

HARDLY = 0.005
"""Moves of at most this are drawn in grey."""

CELLS = 40
"""Forecasts, and the values they go to, are grouped into this many parts of [0, 1]."""

BARS = 20
"""Groups of the bars below, an even part of CELLS."""

ROOM = 0.3
"""Height of the band of bars, in the units of the axis above it."""


def prepare(games: Sequence[Game]) -> pl.DataFrame:
    """Columns forecaster, adversary, forecast, value, rounds, moved.

    A row is all rounds with a forecast in one part of [0, 1] and a value of the calibrated sequence in one,
    those that go up apart from the others: their mean forecast, their mean value there, how many they are,
    and the sum of their |forecast - value|.
    """
    parts = []
    for game in games:
        moves = pl.DataFrame({"forecast": game.forecasts, "value": game.witness})
        cells = [_part(name).alias(f"{name}_part") for name in ("forecast", "value")]
        cells.append((pl.col("value") > pl.col("forecast")).alias("goes_up"))
        parts.append(
            moves.group_by(*cells)
            .agg(
                pl.col("forecast").mean(),
                pl.col("value").mean(),
                pl.len().cast(pl.Int64).alias("rounds"),
                (pl.col("value") - pl.col("forecast")).abs().sum().alias("moved"),
            )
            .sort("forecast_part", "value_part", "goes_up")
            .select(
                pl.lit(game.measured.forecaster).alias("forecaster"),
                pl.lit(game.measured.adversary).alias("adversary"),
                "forecast", "value", "rounds", "moved",
            )
        )  # fmt: skip
    return pl.concat(parts)


@in_house_style
def draw(table: pl.DataFrame) -> Figure:
    """A panel per forecaster: where rounds go (dots), and what each forecast adds to the distance (bars)."""
    names = table["forecaster"].unique(maintain_order=True).to_list()
    figure, axes = panels(names, height=5.2)
    headline(
        figure,
        f"The way to calibration, on {table['adversary'][0]}",
        "Dots: rounds, and the value they go to. Bars: what they add to the distance. "
        "Orange: up, blue: down.",
    )
    for name, axis in axes.items():
        moves = table.filter(pl.col("forecaster") == name)
        axis.set(xlim=(-0.02, 1.02), ylim=(-ROOM - 0.06, 1.03), yticks=np.linspace(0, 1, 6))
        _draw_plan(axis, moves)
        _draw_bars(axis, moves)
        moved, rounds = float(moves["moved"].sum()), int(moves["rounds"].sum())
        axis.set_title(f"{name}\n{moved:,.4g} in all, {moved / rounds:.4f} per round", fontsize=10)
        axis.set_xlabel("forecast")
        axis.set_ylabel("value in a calibrated sequence")
    return figure


def _part(name: str) -> pl.Expr:
    return (pl.col(name) * CELLS).floor().clip(0, CELLS - 1).cast(pl.Int64)


def _draw_plan(axis: Axes, moves: pl.DataFrame) -> None:
    forecast, value, rounds = moves.select("forecast", "value", "rounds").to_numpy().T
    change = value - forecast
    colours = np.where(change > HARDLY, UP, np.where(change < -HARDLY, DOWN, STAY))
    axis.plot([0, 1], [0, 1], color=INK, lw=1.0, zorder=2)
    if change @ rounds > 0:
        along(axis, "stays where it is", 0.075, 0.06, 0.515, 0.5, color=INK, va="top")
    else:
        along(axis, "stays where it is", 0.06, 0.075, 0.5, 0.515, color=INK)
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
            centres[highest],
            foot + top * scale,
            f"{top:,.3g}",
            ha="center",
            va="bottom",
            fontsize=8,
            color=INK,
        )
