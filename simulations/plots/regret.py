"""Brier regret against the best constant in hindsight, under its bound, twice the distance to calibration."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from simulations.plots.against_rounds import panel_title
from simulations.plots.groups import ADVERSARIES, adversary_key, power
from simulations.plots.style import (
    INK,
    QUIET,
    along,
    are_small,
    colour_key,
    headline,
    label_axes,
    looks,
    name_lines,
    panels,
)

LINEAR_TO = 1.0
"""Regrets between minus and plus this are drawn on a linear axis, larger ones on logarithmic ones."""


def prepare(results: pl.DataFrame) -> pl.DataFrame:
    """Columns forecaster, adversary, rounds, seed, regret, regret_bound (sums over rounds)."""
    return results.select("forecaster", "adversary", "rounds", "seed", "regret", "regret_bound")


def draw(table: pl.DataFrame) -> Figure:
    """A panel per forecaster: a dot per game, the bound is the diagonal."""
    forecasters = table["forecaster"].unique(maintain_order=True).to_list()
    adversaries = table["adversary"].unique(maintain_order=True).to_list()
    look, small = looks(adversaries), are_small(forecasters)
    figure, axes = panels(forecasters, adversaries)
    headline(
        figure,
        "No one loses more to the best constant forecast than twice the distance to calibration",
        (
            "One dot per game. "
            if small
            else "One dot per game, lines join the same adversary's games as T grows. "
        )
        + "Below zero: better than every constant forecast.",
    )
    if small:
        colour_key(figure, adversary_key(adversaries), "The adversary sees")
    bounds, regrets = table["regret_bound"].to_numpy(), table["regret"].to_numpy()
    left, right = max(bounds.min(), 0.1) / 1.6, bounds.max() * 1.6
    bottom = min(-10.0 * LINEAR_TO, regrets.min() * 3)
    for spec, axis in axes.items():
        axis.set_xscale("log")
        axis.set_yscale("symlog", linthresh=LINEAR_TO, linscale=0.6)
        axis.set(xlim=(left, right), ylim=(bottom, right * 1.6))
        axis.set_title(panel_title(spec, small), fontsize=9 if small else 11)
        axis.minorticks_off()
        diagonal = np.geomspace(left, right, 200)
        axis.fill_between(diagonal, diagonal, right * 1.6, color="#f2f2f2", lw=0)
        axis.plot(diagonal, diagonal, color=INK, lw=2)
        axis.axhline(0.0, color=QUIET, lw=0.9)
        at = 10 ** (np.log10(left) + 0.4 * np.log10(right / left))
        size = 6.5 if small else 8.5
        along(axis, "regret = bound", at, at, at * 2, at * 2, fontweight="bold", color=INK, fontsize=size)
        ends = {}
        for keys, part in table.filter(pl.col("forecaster") == spec).group_by(
            "adversary", "seed", maintain_order=True
        ):
            name = str(keys[0])
            one = look[name]
            x, y = part.sort("rounds").select("regret_bound", "regret").to_numpy().T
            if small:
                axis.plot(np.maximum(x, left), y, ".", color=ADVERSARIES[power(name)], ms=2.2, zorder=3)
                continue
            axis.plot(
                np.maximum(x, left), y, color=one.colour, ls=one.dashes, marker=one.marker, ms=3.5, lw=1.1,
                zorder=3,
            )  # fmt: skip
            ends[name] = float(y[-1])
        name_lines(axis, ends, look)
    label_axes(
        axes,
        "2 × distance to calibration" if small else "bound: 2 × distance to calibration (sum over rounds)",
        "Brier regret" if small else "Brier regret (sum over rounds)",
    )
    return figure
