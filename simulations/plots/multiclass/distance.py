"""Distance to calibration against T for several numbers of classes: a panel each, with what is promised."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onlinecal.plots.numbers import highest, lowest
from onlinecal.plots.style import (
    QUIET,
    Look,
    along,
    headline,
    in_house_style,
    label_axes,
    looks,
    name_lines,
    panels,
)
from simulations.games.multiclass.measuring import MeasuredMulticlass


def prepare(measured: Sequence[MeasuredMulticlass]) -> pl.DataFrame:
    """A row per game: forecaster, adversary, classes, rounds, lower, upper, certificate, guarantee."""
    rows = [
        {
            "forecaster": one.forecaster,
            "adversary": one.adversary,
            "classes": one.classes,
            "rounds": one.rounds,
            "lower": one.distance_lower,
            "upper": one.distance_upper,
            "certificate": one.certificate,
            "guarantee": one.guarantee,
        }
        for one in measured
    ]
    schema = {"certificate": pl.Float64, "guarantee": pl.Float64}
    return pl.DataFrame(rows, schema_overrides=schema).sort("classes", "rounds", maintain_order=True)


@in_house_style
def draw(table: pl.DataFrame) -> Figure:
    """The figure: log-log; bands are the brackets of the distance, thick lines certificates."""
    forecasters = table["forecaster"].unique(maintain_order=True).to_list()
    look = looks(forecasters)
    numbers = table["classes"].unique().sort().to_list()
    titles = {k: f"{k} classes" for k in numbers}
    against = table["adversary"][0].split(":")[0]
    figure, axes = panels(list(titles.values()), forecasters, height=3.6)
    headline(
        figure,
        r"Every certificate stays below its guarantee, of order $\mathbf{T^{1-1/k}}$ for k classes",
        f"Against {against}, a game of its own for each T. Sums over rounds, in l1 over classes. "
        "Band: where the distance to calibration lies. Line: certificate. Dashes: guarantee.",
    )
    first, last = lowest(table["rounds"]), highest(table["rounds"])
    left, right = first / 1.15, last * 1.15
    top = highest(table["upper"], table["guarantee"])
    bottom = max(lowest(table["lower"]), top / 1e6, 0.1)
    for k, title in titles.items():
        axis = axes[title]
        axis.set(xscale="log", yscale="log", xlim=(left, right), ylim=(bottom / 1.6, top * 2.8))
        axis.set_title(title)
        axis.minorticks_off()
        panel = table.filter(pl.col("classes") == k)
        ends = {}
        promised = panel.filter(pl.col("guarantee").is_not_null())["forecaster"].unique(maintain_order=True)
        for name in forecasters:
            part = panel.filter(pl.col("forecaster") == name)
            ends[name] = _draw_forecaster(axis, part, look[name], bottom)
            if name in promised:
                _draw_guarantee(axis, part, look[name])
        if len(promised) > 0:
            part = panel.filter(pl.col("forecaster") == promised[0])
            _write_theory(axis, part, k, look[promised[0]] if len(promised) == 1 else None)
        name_lines(axis, ends, look)
    label_axes(axes, "rounds T", "distance to calibration")
    return figure


def _draw_forecaster(axis: Axes, part: pl.DataFrame, one: Look, bottom: float) -> float:
    """The bracket and the certificate, or of a forecaster without one the upper end; where the line ends."""
    rounds, lower, upper = (part[column].to_numpy() for column in ("rounds", "lower", "upper"))
    axis.fill_between(
        rounds, np.maximum(lower, bottom), np.maximum(upper, bottom), color=one.colour, alpha=0.2, lw=0
    )
    proven = part["certificate"].is_not_null().all()
    shown = np.maximum(part["certificate"].to_numpy() if proven else upper, bottom)
    axis.plot(rounds, shown, color=one.colour, lw=1.6 if proven else 0.9, marker="o", ms=3.2, zorder=3)
    return float(shown[-1])


def _draw_guarantee(axis: Axes, part: pl.DataFrame, one: Look) -> None:
    """What was promised for each T."""
    axis.plot(part["rounds"], part["guarantee"], color=one.text, lw=1.7, ls=(0, (5, 1.6)), zorder=4)


def _write_theory(axis: Axes, part: pl.DataFrame, k: int, one: Look | None) -> None:
    """The slope of the theory above the guarantee of `part`, and in the look of its line what that is."""
    rounds, values = part["rounds"].to_numpy(), part["guarantee"].to_numpy()
    if len(rounds) < 3:
        return
    slope = 2.0 * values[-1] * (rounds / rounds[-1]) ** (1 - 1 / k)
    axis.plot(rounds, slope, color=QUIET, lw=1.1, zorder=2)
    place = len(rounds) // 2 - 1
    x, x2 = rounds[place], rounds[place + 1]
    label = "√T" if k == 2 else f"$T^{{{k - 1}/{k}}}$"
    along(axis, f"slope of {label}", x, slope[place] * 1.04, x2, slope[place + 1] * 1.04, color="#555555")
    if one is not None:
        x, x2, y, y2 = rounds[0] * 1.1, rounds[1], values[0] * 1.2, values[1] * 1.12
        along(axis, "guarantee", x, y, x2, y2, color=one.text, fontweight="bold")
