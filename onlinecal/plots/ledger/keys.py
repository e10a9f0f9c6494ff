"""What the pictures of a ledger share: a dot for every key on logarithmic axes, and names at some of them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from numpy.typing import NDArray

from onlinecal.plots.style import HALO, OKABE_ITO, headline
from onlinecal.tables import number

if TYPE_CHECKING:
    from onlinecal.engine.ledger.report import Report

Dots = NDArray[np.float64]

KEY, MARKED = OKABE_ITO[0], OKABE_ITO[1]
"""A key's dot, and that of a key to look at."""

FEW = 12
"""Up to so many keys all are named."""

LONGEST = 28
"""Characters of a name in a picture."""


def key_table(report: Report) -> pl.DataFrame:
    """A row a key: key, rounds, open, expired, certificate, guarantee (sums), waited, events.

    `waited`: events since the key's oldest open forecast was asked for, null if none is open; `events`: all
    that the ledger has.
    """
    return pl.DataFrame(
        [
            (
                key.name,
                one.rounds,
                one.open,
                one.expired,
                one.certificate,
                one.guarantee,
                None if one.oldest is None else report.events - one.oldest,
                report.events,
            )
            for key in report.keys
            for one in [key.summary]
        ],
        schema={
            "key": pl.String,
            "rounds": pl.Int64,
            "open": pl.Int64,
            "expired": pl.Int64,
            "certificate": pl.Float64,
            "guarantee": pl.Float64,
            "waited": pl.Int64,
            "events": pl.Int64,
        },
        orient="row",
    )


def dots_figure(title: str, below: str, x: str, y: str) -> tuple[Figure, Axes]:
    """One large panel, both axes logarithmic."""
    figure = Figure(figsize=(9.6, 6.2))
    axis = figure.subplots(gridspec_kw={"left": 0.085, "right": 0.975, "top": 0.855, "bottom": 0.1})
    headline(figure, title, below)
    axis.set(xscale="log", yscale="log", xlabel=x, ylabel=y)
    for one in (axis.xaxis, axis.yaxis):
        one.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
        one.set_minor_formatter(NullFormatter())
    return figure, axis


def label_ticks(axis: Axes) -> None:
    """Numbers at powers of ten, also between them where the axis is short."""
    for one, limits in ((axis.xaxis, axis.get_xlim()), (axis.yaxis, axis.get_ylim())):
        if limits[1] / limits[0] < 200.0:
            one.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))


def dot_look(dots: int) -> dict[str, Any]:
    """Size and strength of so many dots: few are large, of many one still sees where they lie thickest."""
    crowd = min(max((dots / FEW) ** -0.25, 0.17), 1.0)
    return {"s": 70.0 * crowd**1.4, "alpha": max(0.25, 0.9 * crowd**0.7)}


def name_dots(axis: Axes, dots: Dots, names: Mapping[int, str], colour: str) -> None:
    """Write names beside dots, each as near as it can be without covering other names and many dots.

    `dots` of shape (n, 2), all that the panel shows, in data units; `names` by a dot's place among them.
    """
    size = 8.5
    wide, high = (72.0 * pixels / axis.figure.dpi for pixels in (axis.bbox.width, axis.bbox.height))
    line, aside = 1.3 * size / high, 14.0 / wide
    at = axis.transAxes.inverted().transform(axis.transData.transform(dots))
    text = tuple(0.72 * part for part in to_rgb(colour))
    written: list[tuple[float, float, float]] = []

    def cost(left: float, right: float, middle: float) -> float:
        near = np.abs(at[:, 1] - middle) < 0.5 * line + 4 / high
        covered = int(np.count_nonzero(near & (at[:, 0] > left - 4 / wide) & (at[:, 0] < right + 4 / wide)))
        touched = sum(abs(m - middle) < line and b > left and a < right for a, b, m in written)
        outside = not (left > 0.0 and right < 1.0 and 0.5 * line < middle < 1.0 - 0.5 * line)
        return 100.0 * outside + 20.0 * touched + min(3.0 * covered, 9.0)

    for place, name in names.items():
        x, y = at[place]
        width = 0.62 * size * len(shortened(name)) / wide
        ways = []
        for step, side in product(sorted(range(-8, 9), key=abs), (1, -1)):
            left, right = sorted((x + side * aside, x + side * (aside + width)))
            ways.append((cost(left, right, y + step * line) + abs(step), step, side))
        _, step, side = min(ways, key=lambda way: way[0])
        near, far, middle = x + side * aside, x + side * (aside + width), y + step * line
        written.append((min(near, far), max(near, far), middle))
        axis.plot([x, near], [y, middle], transform=axis.transAxes, color=colour, lw=0.7, zorder=4)
        axis.text(
            near, middle, f" {shortened(name)} ", transform=axis.transAxes, color=text, fontsize=size,
            ha="left" if side > 0 else "right", va="center_baseline", path_effects=HALO, zorder=6,
        )  # fmt: skip


def shortened(name: str) -> str:
    """A name as it fits into a picture, every character as it is."""
    short = name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
    return short.replace("$", r"\$")
