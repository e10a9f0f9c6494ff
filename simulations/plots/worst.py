"""The worst case of a forecaster: how it grows with the number of rounds, and the worst game itself."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from onlinecal.measures import calibration_distance
from onlinecal.plots.style import INK, OKABE_ITO, QUIET, Look, headline, in_house_style, name_lines
from onlinecal.tables import number
from simulations.games import players
from simulations.worst.enumeration import Enumeration

WORST, FORECAST, WITNESS = OKABE_ITO[1], OKABE_ITO[0], OKABE_ITO[2]


def prepare(enumeration: Enumeration) -> pl.DataFrame:
    """A row per number of rounds t from 1 to T.

    Columns forecaster, measure, draws; round t; the worst error of t rounds, its ratio to sqrt(t), its mean
    over all sequences, the worst when a forecaster built for T is stopped, the bound, the worst sequence; and
    outcome, forecast and calibrated witness in round t of the worst game of T rounds.
    """
    outcomes = np.array([int(letter) for letter in enumeration.longest.sequence], dtype=np.uint8)
    forecasts = enumeration.forecasts
    witness = calibration_distance(forecasts, outcomes, method="exact").witness
    games = enumeration.games
    return pl.DataFrame(
        {
            "forecaster": enumeration.forecaster,
            "measure": enumeration.measure,
            "draws": enumeration.draws,
            "round": [game.rounds for game in games],
            "worst": [game.error for game in games],
            "over_root": [game.over_root for game in games],
            "mean": [game.mean for game in games],
            "stopped": [game.stopped for game in games],
            "bound": [game.bound for game in games],
            "sequence": [game.sequence for game in games],
            "outcome": outcomes,
            "forecast": forecasts,
            "witness": witness,
        },
        schema_overrides={"bound": pl.Float64},
    )


@in_house_style
def draw(table: pl.DataFrame) -> Figure:
    """Left: the worst error against T beside the bounds. Right: the worst of the longest games."""
    figure = Figure(figsize=(12.2, 5.3))
    left, right = figure.subplots(
        1, 2, gridspec_kw={"left": 0.065, "right": 0.985, "top": 0.76, "bottom": 0.11, "wspace": 0.38}
    )
    first = table.row(0, named=True)
    rounds = table.height
    what = "distance to calibration" if first["measure"] == "distance" else "ECE"
    averaged = f", each averaged over {first['draws']} draws" if first["draws"] > 1 else ""
    headline(
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
    ends, look = {}, {}
    for name, factor in (("√T", 1.0), ("2√T", 2.0)):
        if name != label:
            axis.plot(fine, factor * np.sqrt(fine), color=QUIET, lw=1.0, ls=(0, (4, 2)))
            ends[name], look[name] = factor * math.sqrt(last), _look(QUIET)
    if proven:
        axis.plot(rounds, bound, color=INK, lw=1.8)
        name = f"proven: {label or number(float(bound[-1]))}"
        ends[name], look[name] = float(bound[-1]), _look(INK)
    axis.plot(rounds, mean, color=WORST, lw=1.2, ls=(0, (1.2, 1.2)), marker="o", ms=2.5)
    axis.plot(rounds, worst, color=WORST, lw=2.0, marker="o", ms=5, mec="white", mew=0.7, zorder=4)
    ends["mean of all"] = float(mean[-1])
    ends[f"worst: {worst[-1] / math.sqrt(last):.3f}√T"] = float(worst[-1])
    name_lines(axis, ends, {**dict.fromkeys(ends, _look(WORST)), **look})
    axis.set_xlabel("number of rounds T")
    axis.set_ylabel(what)
    axis.set_title("Worst case against T")


def _look(colour: str) -> Look:
    return Look(colour, to_rgb(colour), "-", "")


def _draw_game(axis: Axes, table: pl.DataFrame, what: str) -> None:
    rounds, outcomes, forecasts, witness = (
        table.select("round", "outcome", "forecast", "witness").cast(pl.Float64).to_numpy().T
    )
    last = int(rounds[-1])
    axis.set(xlim=(0.3, last + 0.7), ylim=(-0.12, 1.12), yticks=np.linspace(0, 1, 6))
    axis.vlines(rounds, forecasts, witness, color=WITNESS, lw=2.2, alpha=0.35, zorder=2)
    axis.step(rounds, forecasts, where="mid", color=FORECAST, lw=0.8, alpha=0.5, zorder=2)
    beside = np.where(outcomes > 0, 1.06, -0.06)
    axis.scatter(rounds, beside, marker="s", s=26, color=INK, zorder=3, label="outcome")
    axis.scatter(
        rounds, forecasts, s=34, color=FORECAST, edgecolor="white", lw=0.7, zorder=5, label="forecast"
    )
    axis.scatter(
        rounds, witness, s=30, facecolor="white", edgecolor=WITNESS, lw=1.4, zorder=4,
        label="nearest calibrated sequence",
    )  # fmt: skip
    axis.set_title(f"{what} {table['worst'][-1]:.4g}: {table['sequence'][-1]}", fontsize=10)
    axis.legend(
        loc="lower right", bbox_to_anchor=(1.0, 1.06), ncols=3, fontsize=8.5, frameon=False,
        handletextpad=0.2, columnspacing=1.2, borderaxespad=0.0,
    )  # fmt: skip
    axis.xaxis.set_major_locator(MaxNLocator(9, integer=True))
    axis.set_xlabel("round")
