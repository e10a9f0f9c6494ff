"""A champion of the search: what it plays, how the forecaster fares, and how it was found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from adversaries import Genome
from onlinecal.measures import calibration_distance
from onlinecal.plots.files import write_figure
from onlinecal.plots.style import INK, OKABE_ITO, QUIET, headline, in_house_style
from simulations.games import players
from simulations.games.duel import log_spaced
from simulations.searching.fitness import play_genome
from simulations.searching.records import Found, Generation, read_found, read_history

FORECAST, WORST, WITNESS = OKABE_ITO[0], OKABE_ITO[1], OKABE_ITO[2]
PRESENT = 60
"""About how many moments of the game the distance so far is measured at."""
BUDGET = 0.1
HALO = (patheffects.withStroke(linewidth=3, foreground="white"),)
NARROW = 0.028
"""Share of the width below which a block's word is not written beside it."""


def draw_champion(folder: Path) -> Path:
    """Draw champion.png, .svg and .csv from what `onlinecal search` left in a folder; the PNG's path.

    Raises FileNotFoundError if it has no champion.json, ValueError if that is damaged.
    """
    found = read_found(folder)
    table = prepare(found)
    return write_figure(draw(table, found, read_history(folder)), table, folder / "champion")


def prepare(found: Found) -> pl.DataFrame:
    """A row per round of the champion's game (with the first draws).

    Columns round, block, word, outcome, forecast, witness; at some rounds distance and certificate so far,
    sums, elsewhere null. Of a reference, forecast is its answer.
    """
    player, genome, rounds = players.create(found.forecaster), Genome.parse(found.genome), found.rounds
    played = play_genome(player, genome, rounds, found.seed, PRESENT)
    forecasts, duel = played.measured, played.duel
    block = np.searchsorted(genome.ends(rounds), np.arange(rounds), side="right")
    distances: list[float | None] = [None] * rounds
    certificates: list[float | None] = [None] * rounds
    for stop, certificate in zip(log_spaced(rounds, PRESENT).tolist(), duel.certificates, strict=True):
        here = slice(0, stop)
        distances[stop - 1] = calibration_distance(
            forecasts[here], duel.outcomes[here], look_ahead=duel.charged[here], budget=BUDGET
        ).upper
        certificates[stop - 1] = float(certificate)
    exact = calibration_distance(forecasts, duel.outcomes, "exact", look_ahead=duel.charged)
    distances[-1] = exact.upper
    return pl.DataFrame(
        {
            "round": np.arange(1, rounds + 1),
            "block": block,
            "word": [genome.blocks[place][1] for place in block],
            "outcome": duel.outcomes,
            "forecast": forecasts,
            "witness": exact.witness,
            "distance": distances,
            "certificate": certificates,
        },
        schema_overrides={"distance": pl.Float64, "certificate": pl.Float64},
    )


@in_house_style
def draw(table: pl.DataFrame, found: Found, history: Sequence[Generation]) -> Figure:
    """The game above; below, the distance along it and the fitness of the generations."""
    figure = Figure(figsize=(11.6, 8.6))
    grid = figure.add_gridspec(
        3, 2, height_ratios=[0.34, 2.5, 2.2], width_ratios=[1.25, 1.0],
        left=0.07, right=0.975, top=0.855, bottom=0.07, hspace=0.42, wspace=0.17,
    )  # fmt: skip
    bars = figure.add_subplot(grid[0, :])
    game = figure.add_subplot(grid[1, :], sharex=bars)
    share = "" if found.bound is None else f", {100 * found.distance / found.bound:.0f}% of the proven bound"
    headline(
        figure,
        f"A champion against {found.forecaster}: distance {found.distance_over_root:.3f} √T",
        f"{found.rounds} rounds, found in generation {found.generation} of {found.generations}{share}. "
        "Barcode: outcomes 1 in black; above it the words of the genome.",
    )
    _draw_bars(bars, table)
    _draw_game(game, table, found)
    _draw_course(figure.add_subplot(grid[2, 0]), table, found)
    _draw_history(figure.add_subplot(grid[2, 1]), history, found)
    return figure


def _draw_bars(axis: Axes, table: pl.DataFrame) -> None:
    rounds = table.height
    ones = table["outcome"].to_numpy()[None, :]
    axis.imshow(
        ones,
        aspect="auto",
        cmap="binary",
        vmin=0,
        vmax=1,
        interpolation="nearest",
        extent=(0.5, rounds + 0.5, 0, 1),
    )
    axis.set(xlim=(0.5, rounds + 0.5), ylim=(0, 1), yticks=[])
    axis.grid(False)
    axis.tick_params(labelbottom=False, bottom=False)
    for side in ("left", "bottom", "top", "right"):
        axis.spines[side].set_visible(True)
        axis.spines[side].set_color(QUIET)
    blocks = table.group_by("block", maintain_order=True).agg(
        pl.col("round").min().alias("first"), pl.len().alias("rounds"), pl.col("word").first()
    )
    for place, row in enumerate(blocks.to_dicts()):
        begin = row["first"] - 0.5
        if place:
            axis.plot([begin, begin], [-0.12, 1.35], color=WORST, lw=1.1, clip_on=False)
        if row["rounds"] >= NARROW * rounds:
            size = 9 if len(row["word"]) * 0.0085 * rounds < row["rounds"] else 6.5
            axis.text(
                begin + row["rounds"] / 2,
                1.18,
                row["word"],
                ha="center",
                va="bottom",
                fontsize=size,
                color=WORST,
            )


def _draw_game(axis: Axes, table: pl.DataFrame, found: Found) -> None:
    rounds, forecasts, witness = table.select("round", "forecast", "witness").to_numpy().T
    axis.vlines(rounds, forecasts, witness, color=WITNESS, lw=max(0.6, 500 / len(rounds)), alpha=0.22)
    axis.plot(rounds, witness, ".", color=WITNESS, ms=3.2, label="nearest calibrated sequence")
    axis.plot(rounds, forecasts, color=FORECAST, lw=1.1, drawstyle="steps-mid", label="forecast")
    axis.set(ylim=(-0.04, 1.04), yticks=np.linspace(0, 1, 6))
    axis.set_xlabel("round")
    axis.set_title(f"Forecasts and how far they are from calibrated: {found.distance:.2f} in all")
    legend = axis.legend(
        loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, fontsize=8.5, frameon=False, borderaxespad=0.2,
    )  # fmt: skip
    for handle in legend.legend_handles:
        if handle is not None and hasattr(handle, "set_markersize"):
            handle.set_markersize(7)


def _draw_course(axis: Axes, table: pl.DataFrame, found: Found) -> None:
    course = table.drop_nulls("distance")
    rounds, distance, certificate = course.select("round", "distance", "certificate").to_numpy().T
    root = np.sqrt(rounds)
    top = float(max((distance / root).max(), (certificate / root).max()))
    if found.bound is not None:
        level = found.bound / math.sqrt(found.rounds)
        label = players.create(found.forecaster).bound_label or "guarantee"
        axis.axhline(level, color=INK, lw=1.6)
        axis.text(1.1, level, f"proven for T: {label}", va="bottom", fontsize=8.5)
        top = max(top, level)
    axis.plot(rounds, certificate / root, color=QUIET, lw=1.4)
    axis.plot(rounds, distance / root, color=WORST, lw=2.0)
    axis.set(xscale="log", xlim=(1, found.rounds), ylim=(0, 1.16 * top))
    axis.set_title("Distance so far, divided by √t")
    axis.set_xlabel("round t")
    for name, values, colour, above in (
        ("certificate", certificate / root, "#5f5f5f", True),
        ("distance", distance / root, WORST, False),
    ):
        middle = int(np.searchsorted(rounds, 0.12 * found.rounds))
        middle = min(middle, len(rounds) - 1)
        axis.annotate(
            name, (rounds[middle], values[middle]), (0, 6 if above else -6), textcoords="offset points",
            va="bottom" if above else "top", ha="center", fontsize=8.5, color=colour, path_effects=HALO,
        )  # fmt: skip


def _draw_history(axis: Axes, history: Sequence[Generation], found: Found) -> None:
    axis.set_title("Fitness of the generations, distance / √T")
    axis.set_xlabel("generation")
    if not history:
        axis.text(
            0.5, 0.5, "no history was kept", ha="center", va="center", transform=axis.transAxes, color=QUIET
        )
        axis.set(xticks=[], yticks=[])
        return
    lines = pl.DataFrame([msgspec.structs.asdict(line) for line in history])
    number, best, median = lines.select("generation", "best", "median").to_numpy().T
    axis.plot(number, median, color=QUIET, lw=1.3, label="median")
    axis.step(number, best, where="post", color=WORST, lw=2.0, label="best")
    axis.plot([found.generation], [found.distance_over_root], "o", color=WORST, ms=6, mec="white")
    axis.set(xlim=(0, max(1, number[-1])))
    axis.legend(loc="lower right", fontsize=8.5, frameon=False)
