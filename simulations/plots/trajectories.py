"""Certificates as the games go on: what each forecaster could prove of itself, and what it had promised."""

from __future__ import annotations

import polars as pl
from matplotlib.figure import Figure

from simulations.plots.against_rounds import panel_title
from simulations.plots.style import INK, along, headline, looks, name_lines, panels


def prepare(trajectories: pl.DataFrame) -> pl.DataFrame:
    """The longest games of the first seed: columns forecaster, adversary, round, certificate, guarantee."""
    longest = trajectories.filter(
        pl.col("rounds") == pl.col("rounds").max(), pl.col("seed") == pl.col("seed").first()
    )
    return longest.select("forecaster", "adversary", "round", "certificate", "guarantee")


def draw(table: pl.DataFrame) -> Figure:
    """A panel per forecaster: a line per adversary, the guarantee in black."""
    forecasters = table["forecaster"].unique(maintain_order=True).to_list()
    adversaries = table["adversary"].unique(maintain_order=True).to_list()
    look = looks(adversaries)
    figure, axes = panels(forecasters, adversaries)
    headline(
        figure,
        "At every moment of a game the forecaster can prove how calibrated it has been",
        "The certificate, a proven upper bound on the distance to calibration so far, a line per adversary. "
        "Black: the guarantee given beforehand.",
    )
    last = int(table["round"].max())  # type: ignore[arg-type]
    top = float(table["guarantee"].max())  # type: ignore[arg-type]
    bottom = 0.3 if top > 3 else top / 10
    for spec, axis in axes.items():
        axis.set(xscale="log", yscale="log", xlim=(1, last * 1.05), ylim=(bottom / 1.5, top * 1.8))
        axis.set_title(panel_title(spec))
        axis.set_xlabel("round t")
        axis.set_ylabel("certificate (sum over rounds so far)")
        axis.minorticks_off()
        mine = table.filter(pl.col("forecaster") == spec)
        ends = {}
        for keys, part in mine.group_by("adversary", maintain_order=True):
            name = str(keys[0])
            one = look[name]
            rounds, certificates = part.select("round", "certificate").to_numpy().T
            axis.plot(rounds, certificates, color=one.colour, ls=one.dashes, lw=1.2, zorder=3)
            ends[name] = max(float(certificates[-1]), bottom)
        bound = mine.filter(pl.col("adversary") == mine["adversary"].first())
        rounds, guarantees = bound.select("round", "guarantee").to_numpy().T
        axis.plot(rounds, guarantees, color=INK, lw=2, zorder=4)
        start, end = int(0.3 * len(rounds)), int(0.55 * len(rounds))
        if end > start:
            (x, x2), (y, y2) = rounds[[start, end]], guarantees[[start, end]] * 1.04
            along(axis, "guarantee", x, y, x2, y2, fontweight="bold", color=INK)
        name_lines(axis, ends, look)
    return figure
