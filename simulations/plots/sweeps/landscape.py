"""How each error grows with T, and at what exponent: against one adversary, and a whole sweep in a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from onlinecal.plots import style
from simulations.plots import Drawing
from simulations.plots.sweeps.against_rounds import bands_mean, draw_band, lines_of, over_seeds
from simulations.sweeps.results import LEAST, MEASURES, rates_table

NAMES = {
    "distance": "distance to calibration",
    "ece": "expected calibration error (ECE)",
    "certificate": "certificate",
    "regret": "Brier regret",
}

POWERS = {1 / 3: ("1/3", "T^(1/3)"), 1 / 2: ("1/2", "√T"), 2 / 3: ("2/3", "T^(2/3)"), 1.0: ("1", "T")}
"""The exponents that theory knows, as numbers and as powers of T."""

FLOOR = "Errors below half a round count as half a round."


def prepare_landscape(
    results: pl.DataFrame, measure: str = "distance", adversary: str | None = None
) -> pl.DataFrame:
    """Columns adversary, forecaster, rounds, measure, line, low, high, seeds, exponent, standard_error.

    Lines and bands as in `over_seeds`, with errors below half a round lifted to it. ValueError for an unknown
    measure, an adversary that has not played, or a single T.
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
    return table.sort("rounds", maintain_order=True).select("adversary", pl.exclude("adversary"))


@style.in_house_style
def draw_landscape(table: pl.DataFrame) -> Figure:
    """A panel per adversary, a line per forecaster, whose exponent stands beside its name."""
    adversaries = table["adversary"].unique(maintain_order=True).to_list()
    look = style.looks(table["forecaster"].unique(maintain_order=True).to_list())
    longest = max(look, key=len)
    figure, axes = style.panels(
        adversaries, [f"{longest}  0.00 ± 0.00"], height=5.0, abreast=2 if len(adversaries) <= 6 else 4
    )
    name = NAMES[str(table["measure"][0])]
    style.headline(
        figure,
        f"How the {name} grows, and its exponents of T ± standard errors",
        f"{bands_mean(table, '')} Dashed: powers of T. {FLOOR}".strip(),
    )
    rounds = table["rounds"]
    # room on the left for the names of the powers
    left, right = style.lowest(rounds) / 2.2, style.highest(rounds) * 1.12
    bottom, top = style.lowest(table["low"]), style.highest(table["high"])
    for adversary, axis in zip(adversaries, axes, strict=True):
        axis.set(xscale="log", yscale="log", xlim=(left, right), ylim=(bottom / 1.25, top * 1.5))
        axis.set(xlabel="rounds T", ylabel=f"{name} (sum over rounds)")
        axis.minorticks_off()
        _guide(axis, left, right, top)
        ends, words = {}, {}
        for spec, games in lines_of(table, adversary, "adversary", "forecaster"):
            exponent, error = games["exponent"][0], games["standard_error"][0]
            text = f"{spec}  {'–' if exponent is None else plus_minus(exponent, error)}"
            words[text] = look[spec]
            ends[text] = draw_band(axis, games, look[spec], 0.07, ms=4, lw=1.5)
        style.name_lines(axis, ends, words)
    return figure


def _guide(axis: Axes, left: float, right: float, top: float) -> None:
    """Powers of T, quiet behind everything, named near the left end."""
    for exponent, (_, name) in POWERS.items():
        ends = [left, right]
        axis.plot(ends, [x**exponent for x in ends], color=style.QUIET, lw=0.8, ls=(0, (5, 4)), zorder=1)
        x = left * 1.25
        if x**exponent < top:
            style.along(axis, name, x, x**exponent, 2 * x, (2 * x) ** exponent, color=style.QUIET, zorder=2)


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

WIDTH, HEIGHT = 0.62, 0.42
"""Of a cell, inches."""


def prepare_matrix(results: pl.DataFrame, measure: str = "distance") -> pl.DataFrame:
    """The rows of `rates_table` for this measure; ValueError for an unknown measure or a single T."""
    check_growth(results, "matrix", measure)
    return rates_table(results).filter(pl.col("measure") == measure)


@style.in_house_style
def draw_matrix(table: pl.DataFrame) -> Figure:
    """A cell per pair: the exponent, smaller its standard error, on the colour of the exponent."""
    rows, columns = (
        table[name].unique(maintain_order=True).to_list() for name in ("forecaster", "adversary")
    )
    left, bottom = 0.3 + 0.088 * max(map(len, rows)), 0.85
    wide, high = WIDTH * len(columns), HEIGHT * len(rows)
    slanted = 0.15 + 0.058 * max(map(len, columns))
    figure = Figure(figsize=(max(left + wide + slanted, 7.5), bottom + high + slanted + 0.9))
    seeds, longest = (int(style.highest(table[name])) for name in ("n_seeds", "most_rounds"))
    style.headline(
        figure,
        f"How fast the {NAMES[str(table['measure'][0])]} grows: fitted exponents of T",
        f"Slope of log error against log T up to T = {longest:,}, seeds: {seeds}; "
        f"small: its standard error. {FLOOR}",
    )
    axis = style.place(figure, left, bottom, wide, high)
    values = np.full((len(rows), len(columns)), np.nan)
    for row in table.iter_rows(named=True):
        y, x, exponent = rows.index(row["forecaster"]), columns.index(row["adversary"]), row["exponent"]
        values[y, x] = exponent
        look: Any = {
            "ha": "center",
            "va": "center",
            "color": style.INK if abs(exponent - 0.5) < 0.3 else "white",
        }
        axis.text(x + 0.5, y + 0.4, fixed(exponent), fontsize=10, **look)
        if row["standard_error"] is not None:
            axis.text(x + 0.5, y + 0.76, f"±{fixed(row['standard_error'])}", fontsize=6.5, **look)
    shades = axis.pcolormesh(values, cmap=COLOURS, vmin=0.0, vmax=1.0, edgecolor="white", lw=1.5)
    axis.invert_yaxis()
    axis.xaxis.tick_top()
    turned: Any = {"rotation": 40, "rotation_mode": "anchor", "ha": "left", "fontsize": 9.5}
    axis.set_xticks(np.arange(len(columns)) + 0.5, columns, **turned)
    axis.set_yticks(np.arange(len(rows)) + 0.5, rows)
    scale = figure.colorbar(shades, cax=style.place(figure, left, 0.43, 3.2, 0.13), orientation="horizontal")
    scale.set_ticks([0.0, *POWERS], labels=["0", *(text for text, _ in POWERS.values())])
    scale.ax.text(1.04, 0.5, "exponent", transform=scale.ax.transAxes, va="center", fontsize=9)
    for one in (axis, scale.ax):
        one.grid(visible=False)
        one.tick_params(length=0)
        one.spines[:].set_visible(False)
    return figure


FIGURES = {
    "landscape": Drawing(prepare_landscape, draw_landscape),
    "matrix": Drawing(prepare_matrix, draw_matrix),
}
"""The figures of this module by name."""
