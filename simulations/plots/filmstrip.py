"""The bias table under attack: alpha(v) of every value v as the game goes on, and six frames of the film.

alpha(v) is the sum of (v - y) over the rounds charged to v: what is above the frequency of ones is in blue,
what is below in orange. The sum of |alpha(v)| is what a certificate counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle
from matplotlib.ticker import FuncFormatter

from onlinecal.plots.over_rounds import (
    BIASES,
    MOST_VALUES,
    bias_limit,
    draw_biases,
    draw_course,
    draw_scale,
    running_biases_data,
)
from onlinecal.plots.panels import named
from onlinecal.plots.style import INK, QUIET, headline, in_house_style
from simulations.games.measuring import Game

FRAMES = 6
FILM = "#2b2b2b"
HOLE = "round,pad=0,rounding_size=0.025"


def prepare(games: Sequence[Game]) -> pl.DataFrame:
    """Columns forecaster, adversary, and those of `running_biases_data`."""
    return pl.concat([film_of(game) for game in games])


def film_of(game: Game) -> pl.DataFrame:
    """The rows of one game; the last moment is that of the game."""
    charged = None if game.duel is None else game.duel.charged
    table = running_biases_data(game.forecasts, game.outcomes, look_ahead=charged)
    return named(table, game.measured.forecaster, game.measured.adversary)


@in_house_style
def draw(table: pl.DataFrame) -> Figure:
    """For each forecaster the bias of every value against the round, and below it six frames."""
    names = table["forecaster"].unique(maintain_order=True).to_list()
    width, panel, strip, gap, above = 11.6, 3.0, 1.5, 0.98, 1.15
    height = above + len(names) * (panel + strip + gap) - 0.35
    figure = Figure(figsize=(width, height))
    headline(
        figure,
        f"Biases under attack, by {table['adversary'][0]}",
        "Colour: α(v), the sum of v − outcome so far. Blue: v was too high, orange: too low, grey: not used "
        "yet. Line: forecasts. Frames: α(v) against v.",
    )
    top = height - above
    for name in names:
        film = table.filter(pl.col("forecaster") == name)
        limit = bias_limit(film)
        axis = figure.add_axes((0.6 / width, (top - panel) / height, (width - 1.75) / width, panel / height))
        bar = figure.add_axes(((width - 1.0) / width, (top - panel) / height, 0.16 / width, panel / height))
        shown = film_frames(film)
        draw_biases(axis, film, limit)
        draw_course(axis, film)
        _mark_frames(axis, shown)
        draw_scale(bar, limit)
        note = f" (values grouped into {MOST_VALUES} parts)" if film["grouped"][0] else ""
        axis.set_title(f"{name}{note}", pad=6)
        box = (0.6 / width, (top - panel - 0.42 - strip) / height, (width - 1.75) / width, strip / height)
        _draw_strip(figure, box, film, shown, limit)
        top -= panel + strip + gap
    return figure


def film_frames(film: pl.DataFrame, number: int = FRAMES) -> list[int]:
    """The rounds of the frames: one early, the others evenly up to the last."""
    rounds = film["round"].unique().sort().to_numpy()
    wanted = np.concatenate([[rounds[-1] / 25], np.linspace(0, rounds[-1], number)[1:]])
    return sorted({int(rounds[np.argmin(np.abs(rounds - w))]) for w in wanted})


def _mark_frames(axis: Axes, shown: Sequence[int]) -> None:
    """Number the rounds of the frames below the time axis, which goes above."""
    for number, moment in enumerate(shown, 1):
        axis.plot([moment, moment], [-0.03, 0.0], color=INK, lw=1.2, clip_on=False, zorder=5)
        axis.plot([moment, moment], [0.0, 1.0], color=INK, lw=0.5, ls=(0, (2, 3)), alpha=0.5)
        side = "right" if number == len(shown) else "center"
        axis.text(moment, -0.045, str(number), ha=side, va="top", fontsize=8.5, fontweight="bold")
    axis.set_ylabel("value v")
    axis.xaxis.tick_top()
    axis.tick_params(axis="x", labelsize=8, pad=1, length=2)
    axis.set_xticks([tick for tick in axis.get_xticks() if 0 < tick <= shown[-1]])
    axis.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"t={x:,.0f}"))


def _draw_strip(
    figure: Figure,
    box: tuple[float, float, float, float],
    film: pl.DataFrame,
    shown: Sequence[int],
    limit: float,
) -> None:
    """The frames on a strip of film, numbered as on the time axis."""
    left, bottom, width, height = box
    strip = figure.add_axes(box)
    inches = figure.get_size_inches()
    long, high = width * inches[0], height * inches[1]
    strip.set(xlim=(0, long), ylim=(0, high))
    strip.axis("off")
    strip.add_patch(Rectangle((0, 0), long, high, color=FILM, lw=0))
    hole, every = 0.085, 0.22
    for k in range(math.floor(long / every)):
        for y in (0.045, high - 0.045 - hole):
            strip.add_patch(
                FancyBboxPatch((0.06 + k * every, y), 0.11, hole, boxstyle=HOLE, fc="white", lw=0)
            )
    edge, between = 0.1, 0.09
    each = (long - 2 * edge - (len(shown) - 1) * between) / len(shown)
    for number, moment in enumerate(shown, 1):
        x = edge + (number - 1) * (each + between)
        frame = figure.add_axes(
            (left + x / inches[0], bottom + 0.175 / inches[1], each / inches[0], (high - 0.35) / inches[1])
        )
        draw_frame(frame, film.filter(pl.col("round") == moment), limit)
        frame.text(
            0.03, 0.96, f"{number}", transform=frame.transAxes, va="top", fontsize=8.5, fontweight="bold"
        )
        frame.text(0.97, 0.96, f"t={moment:,}", transform=frame.transAxes, va="top", ha="right", fontsize=7.5)
        frame.set(xticks=[], yticks=[])


def draw_frame(axis: Axes, frame: pl.DataFrame, limit: float) -> None:
    """alpha(v) against v at one moment, and a mark at the forecast, with the cell that it is in."""
    value, low, high, bias = frame.select("value", "low", "high", "bias").to_numpy().T
    forecast = float(frame["forecast"][0])
    axis.grid(False)
    axis.set(xlim=(-0.015, 1.015), ylim=(-1.32 * limit, 1.62 * limit))
    for side in axis.spines.values():
        side.set_visible(False)
    below = value[value <= forecast].max(initial=0.0)
    above = value[value >= forecast].min(initial=1.0)
    room = max(0.012 - (above - below), 0.0) / 2
    axis.axvspan(below - room, above + room, color="#f2d15c", alpha=0.55, lw=0, zorder=1)
    axis.axhline(0.0, color=QUIET, lw=0.6, zorder=2)
    widths = np.clip(0.9 * (high - low), 0.007, 0.06)
    colours = BIASES(0.5 + np.where(bias >= 0, 0.38, -0.38))
    axis.bar(value, bias, width=widths, color=colours, lw=0, zorder=3)
    axis.plot([forecast], [-1.22 * limit], marker="^", ms=5, color=INK, zorder=4, clip_on=False)
