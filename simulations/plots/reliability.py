"""Reliability of single games: how often the outcome was 1 after each forecast."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from onlinecal.plots.style import GRID, INK, OKABE_ITO, along, headline, in_house_style, panels
from simulations.games.measuring import Game

MOST_LEVELS = 30
"""Up to so many distinct forecasts each gets its own dot."""

BINS = 20


def prepare(games: Sequence[Game]) -> pl.DataFrame:
    """Columns forecaster, adversary, forecast (mean of the group), frequency of ones, rounds, spread.

    A group is all rounds with the same forecast, or a twentieth of [0, 1] if there are many forecasts.
    The spread is two standard deviations of the frequency, had every forecast been the true probability.
    """
    parts = []
    for game in games:
        p = game.forecasts
        levels, group = np.unique(p, return_inverse=True)
        if len(levels) > MOST_LEVELS:
            group = np.minimum((p * BINS).astype(np.int64), BINS - 1)
        rounds = np.bincount(group)
        used = rounds > 0
        counts = rounds[used]
        variance = np.bincount(group, p * (1 - p))[used]
        parts.append(
            pl.DataFrame(
                {
                    "forecast": np.bincount(group, p)[used] / counts,
                    "frequency": np.bincount(group, game.outcomes)[used] / counts,
                    "rounds": counts,
                    "spread": 2 * np.sqrt(variance) / counts,
                }
            ).select(
                pl.lit(game.measured.forecaster).alias("forecaster"),
                pl.lit(game.measured.adversary).alias("adversary"),
                pl.all(),
            )
        )
    return pl.concat(parts)


@in_house_style
def draw(table: pl.DataFrame) -> Figure:
    """A panel per forecaster: dots on the diagonal are calibrated, their areas are numbers of rounds."""
    names = table["forecaster"].unique(maintain_order=True).to_list()
    figure, axes = panels(names, height=4.3)
    where = str(table["adversary"][0])
    headline(
        figure,
        f"What came after each forecast, on {where}",
        "Dots: forecasts and what followed (area: rounds). Bars: two standard deviations of chance.",
    )
    for place, (name, axis) in enumerate(axes.items()):
        forecast, frequency, rounds, spread = (
            table.filter(pl.col("forecaster") == name)
            .select("forecast", "frequency", "rounds", "spread")
            .to_numpy()
            .T
        )
        colour = OKABE_ITO[place % len(OKABE_ITO)]
        share = rounds / rounds.max()
        axis.plot([0, 1], [0, 1], color=INK, lw=1.2)
        along(axis, "calibrated", 0.06, 0.075, 0.5, 0.515, color=INK)
        axis.errorbar(
            forecast, frequency, yerr=spread, fmt="none", ecolor=colour, elinewidth=1.2, alpha=0.45, zorder=3
        )
        axis.scatter(
            forecast,
            frequency,
            s=12 + 150 * share,
            color=colour,
            alpha=0.85,
            edgecolor="white",
            lw=0.6,
            zorder=4,
        )
        axis.bar(forecast, 0.1 * share, width=0.012, bottom=-0.13, color=colour, alpha=0.6, lw=0)
        axis.axhline(-0.13, color=GRID, lw=0.8)
        axis.set(xlim=(-0.02, 1.02), ylim=(-0.15, 1.03), yticks=np.linspace(0, 1, 6))
        axis.set_title(name)
        axis.set_xlabel("forecast (bars below: rounds)")
        axis.set_ylabel("frequency of outcome 1")
    return figure
