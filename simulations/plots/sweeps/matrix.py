"""The exponents of a whole sweep in one table: forecasters down, adversaries across, colours for theory."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from onlinecal.plots.numbers import highest
from onlinecal.plots.style import INK, colour_key, headline, in_house_style
from simulations.plots.sweeps.groups import (
    ADVERSARIES,
    FORECASTERS,
    adversary_key,
    forecaster_group,
    forecaster_key,
    order_adversaries,
    order_forecasters,
    power,
)
from simulations.plots.sweeps.landscape import FLOOR, FRACTIONS, NAMES, check_growth, check_measure, fixed
from simulations.sweeps.rates import rates_table

ANCHORS = ((0.0, "#1f5a94"), (1 / 3, "#7fb0d9"), (1 / 2, "#f4f4f1"), (2 / 3, "#f6b56a"), (1.0, "#a8410a"))
"""Blue below 1/2, white there, orange above: told apart by everyone, and dark only at both ends."""

COLOURS = LinearSegmentedColormap.from_list("exponents", ANCHORS)

WIDTH, HEIGHT, GAP = 0.62, 0.42, 0.14
"""Of a cell, and between groups of cells, inches."""


def prepare(results: pl.DataFrame, measure: str = "distance") -> pl.DataFrame:
    """The rows of `rates_table` for this measure, in the order of the picture.

    By group of forecasters and power of adversaries; within these as the sweep lists them. ValueError for an
    unknown measure or a single T.
    """
    check_measure(measure)
    check_growth(results, "matrix")
    rates = rates_table(results).filter(pl.col("measure") == measure)
    rows = order_forecasters(rates["forecaster"].unique(maintain_order=True))
    columns = order_adversaries(rates["adversary"].unique(maintain_order=True))
    return rates.sort(
        pl.col("forecaster").replace_strict(rows, range(len(rows))),
        pl.col("adversary").replace_strict(columns, range(len(columns))),
    )


@in_house_style
def draw(table: pl.DataFrame) -> Figure:
    """A cell per pair: the exponent, smaller its standard error, on the colour of the exponent."""
    rows = table["forecaster"].unique(maintain_order=True).to_list()
    columns = order_adversaries(table["adversary"].unique(maintain_order=True))
    x = _places(columns, [power(name) for name in columns], WIDTH)
    y = _places(rows, [forecaster_group(name) for name in rows], HEIGHT)
    left = 0.3 + 0.088 * max(map(len, rows))
    slanted = 0.15 + 0.052 * max(map(len, columns))
    top, bottom, right = 1.2 + slanted, 0.85, 0.1 + 0.058 * max(map(len, columns[-2:]))
    inner = (x[columns[-1]] + WIDTH, y[rows[-1]] + HEIGHT)
    size = (max(left + inner[0] + right, 7.5), top + inner[1] + bottom)
    figure = Figure(figsize=size)
    name = NAMES[str(table["measure"][0])]
    seeds = int(highest(table["n_seeds"]))
    headline(
        figure,
        f"How fast the {name} grows: fitted exponents of T",
        f"Slope of log error against log T up to T = {int(highest(table['most_rounds'])):,}, "
        f"{seeds} seed{'s' if seeds > 1 else ''}; small: its standard error. {FLOOR}",
    )
    colour_key(figure, forecaster_key(rows), "Forecasters:")
    colour_key(figure, adversary_key(columns), "Adversaries see", inches=0.93)
    axis = figure.add_axes((left / size[0], bottom / size[1], inner[0] / size[0], inner[1] / size[1]))
    axis.set(xlim=(0, inner[0]), ylim=(inner[1], 0))
    axis.axis("off")
    for row in table.iter_rows(named=True):
        _cell(axis, x[row["adversary"]], y[row["forecaster"]], row["exponent"], row["standard_error"])
    for spec in rows:
        axis.text(
            -0.1, y[spec] + HEIGHT / 2, spec, ha="right", va="center", fontsize=10,
            color=_darker(FORECASTERS[forecaster_group(spec)]),
        )  # fmt: skip
    for spec in columns:
        axis.text(
            x[spec] + WIDTH / 2, -0.08, spec, rotation=40, rotation_mode="anchor", fontsize=9.5,
            color=_darker(ADVERSARIES[power(spec)]),
        )  # fmt: skip
    _scale(figure, size, left, bottom)
    return figure


def _places(names: list[str], groups: list[str], length: float) -> dict[str, float]:
    """Where each cell begins, with a gap wherever a new group begins."""
    answer, at = {}, 0.0
    for place, name in enumerate(names):
        if place and groups[place] != groups[place - 1]:
            at += GAP
        answer[name] = at
        at += length
    return answer


def _cell(axis: Axes, x: float, y: float, exponent: float, error: float | None) -> None:
    colour = COLOURS(float(np.clip(exponent, 0.0, 1.0)))
    axis.add_patch(Rectangle((x, y), WIDTH, HEIGHT, facecolor=colour, edgecolor="white", lw=1.5))
    light = _luminance(colour[:3])
    ink = "white" if 1.05 / (light + 0.05) > (light + 0.05) / (_luminance(to_rgb(INK)) + 0.05) else INK
    middle = x + WIDTH / 2
    axis.text(middle, y + 0.4 * HEIGHT, fixed(exponent), ha="center", va="center", fontsize=10, color=ink)
    if error is not None:
        axis.text(
            middle, y + 0.76 * HEIGHT, f"±{fixed(error)}", ha="center", va="center", fontsize=6.5, color=ink,
            alpha=0.9,
        )  # fmt: skip


def _scale(figure: Figure, size: tuple[float, float], left: float, bottom: float) -> None:
    """The colours' scale below the table, with a tick at each exponent of the theory."""
    axis = figure.add_axes((left / size[0], (bottom - 0.42) / size[1], 3.2 / size[0], 0.13 / size[1]))
    axis.imshow(np.linspace(0, 1, 256)[None, :], aspect="auto", cmap=COLOURS, extent=(0, 1, 0, 1))
    axis.set(yticks=[], xticks=[0.0, *FRACTIONS], xticklabels=["0", *FRACTIONS.values()])
    axis.tick_params(labelsize=8.5, length=3)
    axis.grid(visible=False)
    for spine in axis.spines.values():
        spine.set_visible(False)
    axis.text(1.04, 0.5, "exponent", transform=axis.transAxes, va="center", fontsize=9)


def _darker(colour: str) -> tuple[float, float, float]:
    red, green, blue = to_rgb(colour)
    return 0.72 * red, 0.72 * green, 0.72 * blue


def _luminance(colour: tuple[float, ...]) -> float:
    """Relative luminance, from which contrasts are worked out."""
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
