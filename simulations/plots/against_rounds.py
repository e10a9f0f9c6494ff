"""What `distance` and `ece` share: a measure against T, a panel per forecaster, a line per adversary."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from simulations import players
from simulations.plots.style import INK, QUIET, along, headline, looks, name_lines, panels


@dataclass(frozen=True)
class Curve:
    """A curve of the theory: what it is called, its value at T, and where along it its name is written."""

    label: str
    value: Callable[[float], float]
    strong: bool = False
    below: bool = False
    at: float = 0.04


def worst_over_seeds(results: pl.DataFrame, upper: str, lower: str) -> pl.DataFrame:
    """Per forecaster, adversary and rounds: the largest `upper` and the smallest `lower` of all seeds."""
    keys = ["forecaster", "adversary", "rounds"]
    return results.group_by(keys, maintain_order=True).agg(
        pl.col(upper).max().alias("upper"), pl.col(lower).min().alias("lower")
    )


def bound_curve(spec: str, what: str = "its bound", below: bool = False) -> tuple[Curve, ...]:
    """The proven bound of a forecaster, as the strong curve of its panel; none if there is none."""
    player = players.create(spec)
    if player.bound(1) is None:
        return ()
    label = f"{what} {player.bound_label or ''}".strip()
    return (Curve(label, lambda T: player.bound(int(T)) or math.nan, strong=True, below=below),)


def panel_title(spec: str) -> str:
    """A forecaster's name and what it is."""
    return f"{spec} – {players.create(spec).family.summary}"


def draw_panels(
    table: pl.DataFrame,
    curves: Callable[[str], Sequence[Curve]],
    title: str,
    below: str,
    measure: str,
) -> Figure:
    """The figure: log-log, columns forecaster, adversary, rounds, upper and lower of `table`."""
    forecasters = table["forecaster"].unique(maintain_order=True).to_list()
    adversaries = table["adversary"].unique(maintain_order=True).to_list()
    look = looks(adversaries)
    figure, axes = panels(forecasters, adversaries)
    headline(figure, title, below)
    first, last = int(table["rounds"].min()), int(table["rounds"].max())  # type: ignore[arg-type]
    right = last * 1.15 if last > first else last * 3
    left = first / (1.15 if last > first else 3)
    top = max(
        float(table["upper"].max()),  # type: ignore[arg-type]
        *(curve.value(right) for spec in forecasters for curve in curves(spec)),
    )
    bottom = max(float(table.filter(pl.col("upper") > 0)["upper"].min() or 1.0), top / 1e6)  # type: ignore[arg-type]
    for spec, axis in axes.items():
        axis.set(xscale="log", yscale="log", xlim=(left, right), ylim=(bottom / 1.6, top * 1.6))
        axis.set_title(panel_title(spec))
        axis.set_xlabel("rounds T")
        axis.set_ylabel(measure)
        axis.minorticks_off()
    for spec, axis in axes.items():
        ends = {}
        for adversary, part in table.filter(pl.col("forecaster") == spec).group_by(
            "adversary", maintain_order=True
        ):
            name = str(adversary[0])
            one = look[name]
            rounds, upper, lower = (part[column].to_numpy() for column in ("rounds", "upper", "lower"))
            shown = np.maximum(upper, bottom)
            axis.fill_between(rounds, np.maximum(lower, bottom), shown, color=one.colour, alpha=0.18, lw=0)
            axis.plot(
                rounds, shown, color=one.colour, ls=one.dashes, marker=one.marker, ms=3.5, lw=1.4,
                solid_capstyle="round", clip_on=False, zorder=3,
            )  # fmt: skip
            ends[name] = float(shown[-1])
        for curve in curves(spec):
            draw_curve(axis, curve, left, right)
        name_lines(axis, ends, look)
    return figure


def draw_curve(axis: Axes, curve: Curve, left: float, right: float) -> None:
    """A curve of the theory with its label along it, near the left end."""
    rounds = np.geomspace(left, right, 100)
    values = [curve.value(math.ceil(T)) for T in rounds]
    colour = INK if curve.strong else QUIET
    axis.plot(
        rounds, values, color=colour, lw=2.0 if curve.strong else 1.1, ls="-" if curve.strong else "--",
        zorder=4 if curve.strong else 2,
    )  # fmt: skip
    start = int(curve.at * len(rounds))
    shift = 0.86 if curve.below else 1.0
    (x, x2), (y, y2) = rounds[[start, start + 20]], (shift * values[start], shift * values[start + 20])
    along(
        axis, curve.label, x, y, x2, y2, color=colour, va="top" if curve.below else "bottom",
        fontweight="bold" if curve.strong else "normal",
    )  # fmt: skip
