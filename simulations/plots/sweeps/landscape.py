"""How each error grows with T, and at what exponent: against one adversary, and a whole sweep in a table."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from onlinecal.plots.style import (
    INK,
    QUIET,
    along,
    are_small,
    colour_key,
    darker,
    headline,
    highest,
    in_house_style,
    label_axes,
    looks,
    lowest,
    name_lines,
    panels,
)
from simulations.plots import Drawing, look_of
from simulations.plots.sweeps.against_rounds import (
    ADVERSARIES,
    FORECASTERS,
    Groups,
    bands_mean,
    draw_band,
    lines_of,
    name_top,
    over_seeds,
)
from simulations.sweeps.results import LEAST, MEASURES, rates_table

NAMES = {
    "distance": "distance to calibration",
    "ece": "expected calibration error (ECE)",
    "certificate": "certificate",
    "regret": "Brier regret",
}

POWERS = {1 / 3: ("1/3", "T^(1/3)"), 1 / 2: ("1/2", "√T"), 2 / 3: ("2/3", "T^(2/3)"), 1.0: ("1", "T")}
"""The exponents that theory knows, as numbers and as powers of T."""

DASHED = f"Dashed, from below: {', '.join(name for _, name in POWERS.values())}. "
CORNER = "In the corner: who ends on top, with its exponent of T ± standard error. "
FLOOR = "Errors below half a round count as half a round."


def prepare_landscape(
    results: pl.DataFrame, measure: str = "distance", adversary: str | None = None
) -> pl.DataFrame:
    """Columns adversary, forecaster, rounds, measure, line, low, high, seeds, exponent, standard_error.

    Lines and bands as in `over_seeds`, with errors below half a round lifted to it; in the order of the
    picture. ValueError for an unknown measure, an adversary that has not played, or a single T.
    """
    check_growth(results, "landscape", measure)
    played = results["adversary"].unique(maintain_order=True).to_list()
    if adversary is not None:
        if adversary not in played:
            raise ValueError(f"no adversary {adversary!r} in these results; there are {', '.join(played)}")
        results = results.filter(pl.col("adversary") == adversary)
    column = MEASURES[measure]
    known = results.filter(pl.col(column).is_not_null())
    lower = "distance_lower" if measure == "distance" else column
    rates = rates_table(known).filter(pl.col("measure") == measure)
    table = (
        over_seeds(known, column, lower)
        .with_columns(pl.col("line", "low", "high").clip(lower_bound=LEAST), measure=pl.lit(measure))
        .join(
            rates.select("forecaster", "adversary", "exponent", "standard_error"),
            on=["forecaster", "adversary"],
            how="left",
        )
    )
    order = place_of(table, "adversary", ADVERSARIES), place_of(table, "forecaster", FORECASTERS)
    return table.sort(*order, "rounds").select("adversary", pl.exclude("adversary"))


def place_of(table: pl.DataFrame, column: str, groups: Groups) -> pl.Expr:
    """Where the name in a column comes in the picture."""
    names = groups.order(table[column].unique(maintain_order=True))
    return pl.col(column).replace_strict(names, range(len(names)), return_dtype=pl.Int64)


@in_house_style
def draw_landscape(table: pl.DataFrame) -> Figure:
    """One large panel with every forecaster named, or a panel per adversary.

    Colours are those of the groups, or of the forecasters if there are few.
    """
    adversaries = table["adversary"].unique(maintain_order=True).to_list()
    forecasters = table["forecaster"].unique(maintain_order=True).to_list()
    name = NAMES[str(table["measure"][0])]
    few, alone = not are_small(forecasters), len(adversaries) == 1
    look = looks(forecasters) if few else FORECASTERS.looks(forecasters)
    if alone:
        longest = max(map(len, forecasters))
        figure, axes = panels(adversaries, height=6.0, width=6.2, right=2.0 + 0.08 * longest)
    else:
        figure, axes = panels(adversaries, right=0.4)
    headline(
        figure,
        f"How the {name} grows against {adversaries[0]}" if alone else f"How the {name} grows",
        f"{bands_mean(table, '')} {DASHED}{'' if alone else CORNER}{FLOOR}".strip(),
    )
    colour_key(
        figure, [(spec, look[spec].colour) for spec in forecasters] if few else FORECASTERS.key(forecasters)
    )
    rounds = table["rounds"]
    # room on the left for the names of the powers
    left, right = lowest(rounds) / (2.2 if alone else 1.2), highest(rounds) * 1.12
    bottom, top = lowest(table["low"]), highest(table["high"])
    for adversary, axis in axes.items():
        axis.set(
            xscale="log", yscale="log", xlim=(left, right), ylim=(bottom / 1.25, top * (1.5 if alone else 3))
        )
        axis.minorticks_off()
        if not alone:
            axis.set_title(adversary, fontsize=9)
        _guide(axis, left, right, top, named=alone)
        ends, exponents = {}, {}
        for spec, games in lines_of(table, adversary, "adversary", "forecaster"):
            one = look[spec] if alone else look_of(look[spec].colour)
            ends[spec] = draw_band(axis, games, one, 0.07, ms=4, lw=1.5 if alone else 1.0)
            exponent, error = games["exponent"][0], games["standard_error"][0]
            exponents[spec] = "–" if exponent is None else plus_minus(exponent, error)
        if alone:
            name_lines(axis, ends, look, size=9.0, beside=exponents)
        else:
            words = {spec: f"{spec}  {exponent}" for spec, exponent in exponents.items()}
            name_top(axis, ends, words.__getitem__, lambda name: look[name].text)
    label_axes(axes, "rounds T", f"{name} (sum over rounds)" if alone else "sum over rounds")
    return figure


def _guide(axis: Axes, left: float, right: float, top: float, named: bool) -> None:
    """Powers of T, quiet behind everything, named near the left end."""
    for exponent, (_, name) in POWERS.items():
        ends = [left, right]
        axis.plot(ends, [x**exponent for x in ends], color=QUIET, lw=0.8, ls=(0, (5, 4)), zorder=1)
        x = left * 1.25
        if named and x**exponent < top:
            along(axis, name, x, x**exponent, 2 * x, (2 * x) ** exponent, color=QUIET, zorder=2)


def check_growth(results: pl.DataFrame, figure: str, measure: str) -> None:
    """ValueError for an unknown measure, and for a single number of rounds, which says nothing of growth."""
    if measure not in MEASURES:
        raise ValueError(f"unknown measure {measure!r}; known: {', '.join(MEASURES)}")
    if results["rounds"].n_unique() < 2:
        raise ValueError(
            f"figure {figure!r} shows how errors grow with T; "
            f"these games all have the same number of rounds, {results['rounds'][0]}"
        )


def fixed(value: float) -> str:
    """Two decimals, and no minus before zero."""
    return f"{round(value, 2) + 0.0:.2f}".replace("-", "−")


def plus_minus(exponent: float, error: float | None) -> str:
    """An exponent and its standard error."""
    return fixed(exponent) if error is None else f"{fixed(exponent)} ± {fixed(error)}"


ANCHORS = ((0.0, "#1f5a94"), (1 / 3, "#7fb0d9"), (1 / 2, "#f4f4f1"), (2 / 3, "#f6b56a"), (1.0, "#a8410a"))
"""Blue below 1/2, white there, orange above: told apart by everyone, and dark only at both ends."""

COLOURS = LinearSegmentedColormap.from_list("exponents", ANCHORS)

WIDTH, HEIGHT, GAP = 0.62, 0.42, 0.14
"""Of a cell, and between groups of cells, inches."""


def prepare_matrix(results: pl.DataFrame, measure: str = "distance") -> pl.DataFrame:
    """The rows of `rates_table` for this measure, in the order of the picture.

    By group of forecasters and power of adversaries; within these as the sweep lists them. ValueError for an
    unknown measure or a single T.
    """
    check_growth(results, "matrix", measure)
    rates = rates_table(results).filter(pl.col("measure") == measure)
    return rates.sort(place_of(rates, "forecaster", FORECASTERS), place_of(rates, "adversary", ADVERSARIES))


@in_house_style
def draw_matrix(table: pl.DataFrame) -> Figure:
    """A cell per pair: the exponent, smaller its standard error, on the colour of the exponent."""
    rows = table["forecaster"].unique(maintain_order=True).to_list()
    columns = ADVERSARIES.order(table["adversary"].unique(maintain_order=True))
    x, y = _places(columns, ADVERSARIES, WIDTH), _places(rows, FORECASTERS, HEIGHT)
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
    colour_key(figure, FORECASTERS.key(rows), "Forecasters:")
    colour_key(figure, ADVERSARIES.key(columns), "Adversaries see", inches=0.93)
    axis = figure.add_axes((left / size[0], bottom / size[1], inner[0] / size[0], inner[1] / size[1]))
    axis.set(xlim=(0, inner[0]), ylim=(inner[1], 0))
    axis.axis("off")
    for row in table.iter_rows(named=True):
        _cell(axis, x[row["adversary"]], y[row["forecaster"]], row["exponent"], row["standard_error"])
    for spec in rows:
        axis.text(
            -0.1, y[spec] + HEIGHT / 2, spec, ha="right", va="center", fontsize=10,
            color=darker(FORECASTERS.colour(spec)),
        )  # fmt: skip
    for spec in columns:
        axis.text(
            x[spec] + WIDTH / 2, -0.08, spec, rotation=40, rotation_mode="anchor", fontsize=9.5,
            color=darker(ADVERSARIES.colour(spec)),
        )  # fmt: skip
    _scale(figure, size, left, bottom)
    return figure


def _places(names: list[str], groups: Groups, length: float) -> dict[str, float]:
    """Where each cell begins, with a gap wherever a new group begins."""
    begun = [a != b for a, b in pairwise(map(groups.of, names))]
    return {name: place * length + GAP * sum(begun[:place]) for place, name in enumerate(names)}


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
    axis.set(yticks=[], xticks=[0.0, *POWERS], xticklabels=["0", *(number for number, _ in POWERS.values())])
    axis.tick_params(labelsize=8.5, length=3)
    axis.grid(visible=False)
    for spine in axis.spines.values():
        spine.set_visible(False)
    axis.text(1.04, 0.5, "exponent", transform=axis.transAxes, va="center", fontsize=9)


def _luminance(colour: tuple[float, ...]) -> float:
    """Relative luminance, from which contrasts are worked out."""
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


FIGURES = {
    "landscape": Drawing(prepare_landscape, draw_landscape),
    "matrix": Drawing(prepare_matrix, draw_matrix),
}
"""The figures of this module by name."""
