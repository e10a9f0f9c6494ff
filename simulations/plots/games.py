"""Pictures of single games in full: games that were played together, and the worst game of all.

A film shows the biases as the game goes on: alpha(v) of every value v, and six frames. alpha(v) is the sum of
(v - y) over the rounds charged to v: values above the frequency of ones are blue, values below it are orange.
A certificate counts the sum of |alpha(v)|.

`prepare_...` makes a table, and all measured numbers that `draw_...` draws are in it; the name of a bound
comes from `players`, by the forecaster's spec. `prepare_worst` plays the worst game once more, for its
forecasts. Nothing has a state. The columns are those of the files that are written beside pictures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from onlinecal.measures import calibration_distance
from onlinecal.plots import over_rounds, reliability_diagram, style
from onlinecal.simulations.games import players
from onlinecal.simulations.games.measuring import Game, MeasuredMulticlass
from onlinecal.simulations.plots import PreparedPicture
from onlinecal.simulations.plots.multiclass import DISTANCE_DRAWING, TRIANGLE_DRAWING
from onlinecal.simulations.plots.sweeps import TRAJECTORIES
from onlinecal.simulations.sweeps.results import course_of, results_table
from onlinecal.simulations.worst.enumeration import Enumeration, replay
from onlinecal.tables.writing import write_table
from onlinecal.texts import number


def of_games(numbers_of: Callable[[Game], pl.DataFrame]) -> Callable[[Sequence[Game]], pl.DataFrame]:
    """A function that prepares the table of several games: forecaster, adversary, and columns of numbers."""
    return lambda games: pl.concat(
        reliability_diagram.named(numbers_of(game), game.measured.forecaster, game.measured.adversary)
        for game in games
    )


prepare_film = of_games(
    lambda game: over_rounds.running_biases_table(
        game.forecasts, game.outcomes, look_ahead=None if game.duel is None else game.duel.charged
    )
)
"""Prepares the biases of each game at moments up to its end."""


@style.in_house_style
def draw_film(table: pl.DataFrame) -> Figure:
    """Draw for each forecaster the bias of every value against the round, and six frames below it."""
    names, against = table["forecaster"].unique(maintain_order=True).to_list(), table["adversary"][0]
    width, panel, strip, gap, above = 11.6, 3.0, 1.2, 0.98, 1.15
    top = above + len(names) * (panel + strip + gap) - 0.35
    figure = Figure(figsize=(width, top))
    style.headline(
        figure,
        f"Biases round by round, against {against}",
        "Colour: α(v), the sum of v − outcome so far. Blue: v was too high, orange: too low, grey: not used "
        "yet. Line or dots: forecasts. Frames: α(v) against v.",
    )
    top -= above
    for name in names:
        film = table.filter(pl.col("forecaster") == name)
        limit, shown = over_rounds.bias_limit(film), film_frames(film)
        axis = style.place(figure, 0.6, top - panel, width - 1.75, panel)
        over_rounds.draw_biases(axis, film, limit)
        over_rounds.draw_course(axis, film)
        axis.vlines(shown, 0.0, 1.0, color=style.INK, lw=0.5, ls=(0, (2, 3)), alpha=0.5)
        axis.set_xticks(shown, [f"t={moment:,}" for moment in shown])
        axis.set_ylabel("value v")
        over_rounds.draw_scale(style.place(figure, width - 1.0, top - panel, 0.16, panel), limit)
        note = f" (values grouped into {over_rounds.MOST_BIAS_VALUES} parts)" if film["grouped"][0] else ""
        axis.set_title(f"{name}{note}", pad=6)
        each = (width - 1.75) / len(shown)
        for at, moment in enumerate(shown):
            frame = style.place(figure, 0.6 + at * each, top - panel - 0.42 - strip, each - 0.09, strip)
            draw_frame(frame, film.filter(pl.col("round") == moment), limit)
            corner: dict[str, Any] = {"transform": frame.transAxes, "va": "top", "ha": "right"}
            frame.text(0.97, 0.96, f"t={moment:,}", fontsize=8, **corner)
        top -= panel + strip + gap
    return figure


def film_frames(film: pl.DataFrame) -> list[int]:
    """The rounds of the six frames: an early one, and five evenly spread up to the last round."""
    rounds = film["round"].unique().sort().to_numpy()
    wanted = np.concatenate([[rounds[-1] / 25], np.linspace(0, rounds[-1], 6)[1:]])
    return sorted({int(rounds[np.argmin(np.abs(rounds - w))]) for w in wanted})


def draw_frame(axis: Axes, frame: pl.DataFrame, limit: float) -> None:
    """Draw alpha(v) against v at one moment, with a mark at the forecast and at the cell that it is in."""
    value, low, high, bias = frame.select("value", "low", "high", "bias").to_numpy().T
    forecast = float(frame["forecast"][0])
    axis.grid(False)
    axis.set(xlim=(-0.015, 1.015), ylim=(-1.32 * limit, 1.62 * limit), xticks=[], yticks=[])
    axis.spines[:].set_visible(True)
    below, above = value[value <= forecast].max(initial=0.0), value[value >= forecast].min(initial=1.0)
    axis.axvspan(below - 0.004, above + 0.004, color="#f2d15c", alpha=0.55, lw=0, zorder=1)
    axis.axhline(0.0, color=style.QUIET, lw=0.6, zorder=2)
    widths = np.clip(0.9 * (high - low), 0.007, 0.06)
    colours = over_rounds.BIAS_COLOURS(0.5 + np.where(bias >= 0, 0.38, -0.38))
    axis.bar(value, bias, width=widths, color=colours, lw=0, zorder=3)
    axis.plot([forecast], [-1.22 * limit], marker="^", ms=5, color=style.INK, zorder=4, clip_on=False)


RELIABILITY = PreparedPicture(
    of_games(lambda game: reliability_diagram.reliability_table(game.forecasts, game.outcomes)),
    reliability_diagram.reliability_panels,
)
GAME_PICTURES = {
    "reliability": RELIABILITY,
    "transport": PreparedPicture(
        of_games(
            lambda game: reliability_diagram.transport_table(
                game.forecasts, game.outcomes, witness=game.witness
            )
        ),
        reliability_diagram.transport_panels,
    ),
    "filmstrip": PreparedPicture(prepare_film, draw_film),
}
"""The pictures of whole games, by name."""


def write_games(games: Sequence[Game], folder: Path) -> list[Path]:
    """Write results.csv, the pictures of `GAME_PICTURES` and trajectories; returns the files to look at."""
    written = [write_table(results_table([game.measured for game in games]), folder / "results.csv")]
    written += [picture.write(folder / name, games) for name, picture in GAME_PICTURES.items()]
    if (course := _trajectories(games, "rounds")) is not None:
        written.append(TRAJECTORIES.write(folder / "trajectories", course))
    return written


def write_simplex_games(
    games: Sequence[Game], shorter: Sequence[MeasuredMulticlass], folder: Path
) -> list[Path]:
    """Write results.csv, simplex_triangle for three classes, and simplex_distance for shorter games."""
    measured = [*shorter, *(game.measured for game in games)]
    table = pl.DataFrame([line.record() for line in measured], infer_schema_length=None)
    written = [write_table(table, folder / "results.csv")]
    if any(game.measured.classes == 3 for game in games):
        written.append(TRIANGLE_DRAWING.write(folder / "simplex_triangle", games))
    if shorter:
        written.append(DISTANCE_DRAWING.write(folder / "simplex_distance", measured))
    if (course := _trajectories(games, "classes", "rounds")) is not None:
        written.append(write_table(course, folder / "trajectories.csv"))
    return written


def _trajectories(games: Sequence[Game], *sizes: str) -> pl.DataFrame | None:
    """Certificates and guarantees as the games went on; None if there are only recorded forecasts."""
    parts = [course_of(game.measured, sizes, game.duel) for game in games if game.duel is not None]
    return pl.concat(parts) if parts else None


WORST_COLOUR, FORECAST_COLOUR, WITNESS_COLOUR = style.OKABE_ITO[1], style.OKABE_ITO[0], style.OKABE_ITO[2]


def prepare_worst(enumeration: Enumeration) -> pl.DataFrame:
    """A table with a row for each number of rounds t from 1 to T.

    The columns are forecaster, measure and draws; round t; the worst error of t rounds, its ratio to sqrt(t),
    the mean error of all sequences, the bound, and the worst sequence; and outcome, forecast and calibrated
    witness in round t of the worst game of T rounds.
    """
    outcomes = np.array([int(letter) for letter in enumeration.longest.sequence], dtype=np.uint8)
    player = players.create(enumeration.forecaster)
    forecasts = replay(player, enumeration.longest.sequence, enumeration.seed)
    witness = calibration_distance(forecasts, outcomes, method="exact").witness
    games = pl.DataFrame(enumeration.record()["games"], infer_schema_length=None)
    return games.select(
        pl.lit(enumeration.forecaster).alias("forecaster"),
        pl.lit(enumeration.measure).alias("measure"),
        pl.lit(enumeration.draws, pl.Int64).alias("draws"),
        pl.col("rounds").alias("round"),
        pl.col("error").alias("worst"),
        *("over_root", "mean", pl.col("bound").cast(pl.Float64), "sequence"),
        outcome=outcomes,
        forecast=forecasts,
        witness=witness,
    )


@style.in_house_style
def draw_worst(table: pl.DataFrame) -> Figure:
    """Draw the worst error against T with the bounds (left), and the worst of the longest games (right)."""
    figure = Figure(figsize=(12.2, 5.3))
    left, right = figure.subplots(
        1, 2, gridspec_kw={"left": 0.065, "right": 0.985, "top": 0.76, "bottom": 0.11, "wspace": 0.38}
    )
    first = table.row(0, named=True)
    rounds = table.height
    what = "distance to calibration" if first["measure"] == "distance" else "ECE"
    averaged = f", each averaged over {first['draws']} draws" if first["draws"] > 1 else ""
    style.headline(
        figure,
        f"The worst that can happen to {first['forecaster']} in {rounds} rounds",
        f"Left: the largest {what} of all 2^T outcome sequences{averaged}. Right: the worst game of "
        f"{rounds} rounds{', its first draw' if first['draws'] > 1 else ''}.",
    )
    _draw_growth(left, table, what)
    _draw_game(right, table, what)
    return figure


def _draw_growth(axis: Axes, table: pl.DataFrame, what: str) -> None:
    rounds, worst, mean = table.select("round", "worst", "mean").to_numpy().T
    last = int(rounds[-1])
    fine = np.linspace(0, last, 200)
    bound = table["bound"].to_numpy()
    proven = not np.isnan(bound).any()
    label = players.create(str(table["forecaster"][0])).bound_label if proven else None
    top = max(worst.max(), 2 * math.sqrt(last), bound.max() if proven else 0.0) * 1.08
    axis.set(xlim=(0, last), ylim=(0, top))
    axis.xaxis.set_major_locator(MaxNLocator(9, integer=True))
    ends = {}
    for name, factor in (("√T", 1.0), ("2√T", 2.0)):
        if name != label:
            axis.plot(fine, factor * np.sqrt(fine), color=style.QUIET, lw=1.0, ls=(0, (4, 2)))
            ends[name] = factor * math.sqrt(last), style.Look(style.QUIET)
    if proven:
        axis.plot(rounds, bound, color=style.INK, lw=1.8)
        ends[f"proven: {label or number(float(bound[-1]))}"] = float(bound[-1]), style.Look(style.INK)
    axis.plot(rounds, mean, color=WORST_COLOUR, lw=1.2, ls=(0, (1.2, 1.2)), marker="o", ms=2.5)
    axis.plot(rounds, worst, color=WORST_COLOUR, lw=2.0, marker="o", ms=5, mec="white", mew=0.7, zorder=4)
    ends["mean of all"] = float(mean[-1]), style.Look(WORST_COLOUR)
    ends[f"worst: {worst[-1] / math.sqrt(last):.3f}√T"] = float(worst[-1]), style.Look(WORST_COLOUR)
    style.name_lines(axis, ends)
    axis.set_xlabel("number of rounds T")
    axis.set_ylabel(what)
    axis.set_title("Worst case against T")


def _draw_game(axis: Axes, table: pl.DataFrame, what: str) -> None:
    rounds, outcomes, forecasts, witness = (
        table.select("round", "outcome", "forecast", "witness").cast(pl.Float64).to_numpy().T
    )
    last = int(rounds[-1])
    axis.set(xlim=(0.3, last + 0.7), ylim=(-0.12, 1.12), yticks=np.linspace(0, 1, 6))
    axis.vlines(rounds, forecasts, witness, color=WITNESS_COLOUR, lw=2.2, alpha=0.35, zorder=2)
    axis.step(rounds, forecasts, where="mid", color=FORECAST_COLOUR, lw=0.8, alpha=0.5, zorder=2)
    beside = np.where(outcomes > 0, 1.06, -0.06)
    axis.scatter(rounds, beside, marker="s", s=26, color=style.INK, zorder=3, label="outcome")
    axis.scatter(
        rounds, forecasts, s=34, color=FORECAST_COLOUR, edgecolor="white", lw=0.7, zorder=5, label="forecast"
    )
    axis.scatter(
        rounds, witness, s=30, facecolor="white", edgecolor=WITNESS_COLOUR, lw=1.4, zorder=4,
        label="nearest calibrated sequence",
    )  # fmt: skip
    axis.set_title(f"{what} {table['worst'][-1]:.4g}: {table['sequence'][-1]}", fontsize=10)
    axis.legend(
        loc="lower right", bbox_to_anchor=(1.0, 1.06), ncols=3, fontsize=8.5, frameon=False,
        handletextpad=0.2, columnspacing=1.2, borderaxespad=0.0,
    )  # fmt: skip
    axis.xaxis.set_major_locator(MaxNLocator(9, integer=True))
    axis.set_xlabel("round")


WORST_GAME = PreparedPicture(prepare_worst, draw_worst)
