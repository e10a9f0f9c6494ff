"""Where mass must move: forecasts on one side, a perfectly calibrated sequence on the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from simulations.measuring import Game
from simulations.plots.style import INK, headline, panels

UP, DOWN, STAY = "#D55E00", "#0072B2", "#8a8a8a"
GROUPS = 100
"""Both sides are cut into this many parts when there are more than MOST_MOVES different moves."""

MOST_MOVES = 250
HARDLY = 0.005
"""Moves of at most this are drawn in grey."""

BAR = 0.32


def prepare(games: Sequence[Game]) -> pl.DataFrame:
    """Columns forecaster, adversary, forecast, witness, rounds that go from one to the other, moved."""
    parts = []
    for game in games:
        moves = pl.DataFrame({"forecast": game.forecasts, "witness": game.witness})
        if moves.n_unique() > MOST_MOVES:
            keys = [(pl.col(name) * GROUPS).round() / GROUPS for name in ("forecast", "witness")]
            keys = [key.alias(f"{key.meta.output_name()}_group") for key in keys]
        else:
            keys = [pl.col(name).alias(f"{name}_group") for name in ("forecast", "witness")]
        parts.append(
            moves.group_by(*keys)
            .agg(
                pl.col("forecast").mean(),
                pl.col("witness").mean(),
                pl.len().cast(pl.Int64).alias("rounds"),
                (pl.col("witness") - pl.col("forecast")).abs().sum().alias("moved"),
            )
            .sort("forecast_group", "witness_group")
            .select(
                pl.lit(game.measured.forecaster).alias("forecaster"),
                pl.lit(game.measured.adversary).alias("adversary"),
                "forecast", "witness", "rounds", "moved",
            )
        )  # fmt: skip
    return pl.concat(parts)


def draw(table: pl.DataFrame) -> Figure:
    """A panel per forecaster: lines from forecasts (left) to witness values (right), bars for the rounds."""
    names = table["forecaster"].unique(maintain_order=True).to_list()
    figure, axes = panels(names, height=4.3)
    where = str(table["adversary"][0])
    headline(
        figure,
        f"Moved like this, the forecasts would be perfectly calibrated on {where}",
        "Each line carries rounds from their forecast to their value in a calibrated sequence; "
        "orange: up, blue: down, grey: hardly; wider: more rounds.",
    )
    for name, axis in axes.items():
        _draw_moves(axis, table.filter(pl.col("forecaster") == name))
        moved = float(table.filter(pl.col("forecaster") == name)["moved"].sum())
        axis.set_title(f"{name} – moved {moved:,.1f} in all")
    return figure


def _draw_moves(axis: Axes, moves: pl.DataFrame) -> None:
    forecast, witness, rounds = moves.select("forecast", "witness", "rounds").to_numpy().T
    order = np.argsort(np.abs(witness - forecast), kind="stable")
    forecast, witness, rounds = forecast[order], witness[order], rounds[order]
    change = witness - forecast
    colours = np.where(change > HARDLY, UP, np.where(change < -HARDLY, DOWN, STAY))
    ends = np.stack([[np.zeros_like(forecast), forecast], [np.ones_like(witness), witness]], axis=0)
    widths = 0.3 + 3.2 * np.sqrt(rounds / rounds.max())
    axis.add_collection(
        LineCollection(list(ends.transpose(2, 0, 1)), colors=list(colours), linewidths=widths, alpha=0.55)
    )
    for values, x, direction in ((forecast, 0.0, -1.0), (witness, 1.0, 1.0)):
        levels, group = np.unique(np.round(values * GROUPS) / GROUPS, return_inverse=True)
        weight = np.bincount(group, rounds)
        for level, share in zip(levels, weight / weight.max(), strict=True):
            near = x + 0.015 * direction
            axis.plot([near, near + direction * BAR * share], [level, level], color="#555555", lw=1.4)
        axis.axvline(x, color=INK, lw=1)
    axis.set(xlim=(-BAR - 0.05, 1 + BAR + 0.05), ylim=(-0.02, 1.02))
    axis.set_xticks([0.0, 1.0], ["forecasts", "calibrated sequence"])
    axis.set_xlabel("bars: rounds at each value")
    axis.set_ylabel("probability of outcome 1")
    axis.grid(visible=False, axis="x")
