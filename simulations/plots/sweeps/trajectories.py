"""Certificates as the games go on: what each forecaster could prove of itself, and what it had promised."""

from __future__ import annotations

import polars as pl
from matplotlib.figure import Figure

from onlinecal.plots.numbers import highest
from onlinecal.plots.over_rounds import draw_certificate, draw_guarantee
from onlinecal.plots.style import (
    INK,
    along,
    are_small,
    colour_key,
    headline,
    in_house_style,
    label_axes,
    looks,
    name_lines,
    panels,
)
from simulations.plots.sweeps.against_rounds import panel_title
from simulations.plots.sweeps.groups import ADVERSARIES, adversary_key, power


def prepare(trajectories: pl.DataFrame) -> pl.DataFrame:
    """The longest games of the first seed: columns forecaster, adversary, round, certificate, guarantee."""
    longest = trajectories.filter(
        pl.col("rounds") == pl.col("rounds").max(), pl.col("seed") == pl.col("seed").first()
    )
    return longest.select("forecaster", "adversary", "round", "certificate", "guarantee")


@in_house_style
def draw(table: pl.DataFrame) -> Figure:
    """A panel per forecaster: a line per adversary, the guarantee in black."""
    forecasters = table["forecaster"].unique(maintain_order=True).to_list()
    adversaries = table["adversary"].unique(maintain_order=True).to_list()
    look, small = looks(adversaries), are_small(forecasters)
    figure, axes = panels(forecasters, adversaries)
    headline(
        figure,
        "At every moment of a game the forecaster can prove how calibrated it has been",
        "The certificate, a proven upper bound on the distance to calibration so far, a line per adversary. "
        "Black: the guarantee given beforehand.",
    )
    if small:
        colour_key(figure, adversary_key(adversaries), "The adversary sees")
    last = int(highest(table["round"]))
    top = highest(table["guarantee"], table["certificate"])
    bottom = 0.3 if top > 3 else top / 10
    for spec, axis in axes.items():
        axis.set(xscale="log", yscale="log", xlim=(1, last * 1.05), ylim=(bottom / 1.5, top * 1.8))
        axis.set_title(panel_title(spec, small), fontsize=9 if small else 11)
        axis.minorticks_off()
        mine = table.filter(pl.col("forecaster") == spec)
        ends = {}
        for keys, part in mine.group_by("adversary", maintain_order=True):
            name = str(keys[0])
            one = look[name]
            if small:
                draw_certificate(axis, part, ADVERSARIES[power(name)], width=0.9)
                continue
            draw_certificate(axis, part, one.colour, dashes=one.dashes, width=1.2)
            ends[name] = max(float(part["certificate"][-1]), bottom)
        bound = mine.filter(pl.col("adversary") == mine["adversary"].first())
        bound = bound.select("round", "guarantee").fill_nan(None).drop_nulls()
        draw_guarantee(axis, bound, width=1.2 if small else 2)
        rounds, guarantees = bound.to_numpy().T
        start, end = int(0.3 * len(rounds)), int(0.55 * len(rounds))
        if end > start:
            (x, x2), (y, y2) = rounds[[start, end]], guarantees[[start, end]] * 1.04
            size = 6.5 if small else 8.5
            along(axis, "guarantee", x, y, x2, y2, fontweight="bold", color=INK, fontsize=size)
        name_lines(axis, ends, look)
    label_axes(axes, "round t", "certificate" if small else "certificate (sum over rounds so far)")
    return figure
