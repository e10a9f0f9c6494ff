"""Every forecaster against one adversary on one page: how each error grows with T, and at what exponent."""

from __future__ import annotations

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onlinecal.plots.numbers import highest, lowest
from onlinecal.plots.style import (
    HALO,
    QUIET,
    Look,
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
from simulations.plots.sweeps.against_rounds import bands_mean, over_seeds
from simulations.plots.sweeps.groups import (
    forecaster_key,
    forecaster_looks,
    order_adversaries,
    order_forecasters,
)
from simulations.sweeps.rates import LEAST, MEASURES, rates_table

NAMES = {
    "distance": "distance to calibration",
    "ece": "expected calibration error (ECE)",
    "certificate": "certificate",
    "regret": "Brier regret",
}

FRACTIONS = {1 / 3: "1/3", 1 / 2: "1/2", 2 / 3: "2/3", 1.0: "1"}
"""The exponents that theory knows."""

FLOOR = "Errors below half a round count as half a round."

TIMES = {1 / 3: "T^(1/3)", 1 / 2: "√T", 2 / 3: "T^(2/3)", 1.0: "T"}


def prepare(results: pl.DataFrame, measure: str = "distance", adversary: str | None = None) -> pl.DataFrame:
    """Columns adversary, forecaster, rounds, measure, line, low, high, seeds, exponent, standard_error.

    Lines and bands as in `over_seeds`, with errors below half a round lifted to it; in the order of the
    picture. ValueError for an unknown measure, an adversary that has not played, or a single T.
    """
    check_measure(measure)
    check_growth(results, "landscape")
    played = results["adversary"].unique(maintain_order=True).to_list()
    if adversary is not None:
        if adversary not in played:
            raise ValueError(f"no adversary {adversary!r} in these results; there are {', '.join(played)}")
        results, played = results.filter(pl.col("adversary") == adversary), [adversary]
    column = MEASURES[measure]
    known = results.filter(pl.col(column).is_not_null())
    lower = "distance_lower" if measure == "distance" else column
    rates = rates_table(known).filter(pl.col("measure") == measure)
    forecasters = order_forecasters(known["forecaster"].unique(maintain_order=True))
    places = {"adversary": order_adversaries(played), "forecaster": forecasters}
    order = [pl.col(name).replace_strict(names, range(len(names))) for name, names in places.items()]
    return (
        over_seeds(known, column, lower)
        .with_columns(pl.col("line", "low", "high").clip(lower_bound=LEAST), measure=pl.lit(measure))
        .join(
            rates.select("forecaster", "adversary", "exponent", "standard_error"),
            on=["forecaster", "adversary"],
            how="left",
        )
        .sort(*order, "rounds")
        .select("adversary", pl.exclude("adversary"))
    )


@in_house_style
def draw(table: pl.DataFrame) -> Figure:
    """One large panel with every forecaster named, or a panel per adversary.

    Colours are those of the groups, or of the forecasters if there are few.
    """
    adversaries = table["adversary"].unique(maintain_order=True).to_list()
    forecasters = table["forecaster"].unique(maintain_order=True).to_list()
    name = NAMES[str(table["measure"][0])]
    few, alone = not are_small(forecasters), len(adversaries) == 1
    look = looks(forecasters) if few else forecaster_looks(forecasters)
    if alone:
        longest = max(map(len, forecasters))
        figure, axes = panels(adversaries, height=6.0, width=6.2, right=2.0 + 0.08 * longest)
    else:
        figure, axes = panels(adversaries, right=0.4)
    headline(
        figure,
        f"How the {name} grows against {adversaries[0]}" if alone else f"How the {name} grows",
        f"{bands_mean(table, '')} Dashed: powers of T. {FLOOR}".strip(),
    )
    colour_key(
        figure, [(spec, look[spec].colour) for spec in forecasters] if few else forecaster_key(forecasters)
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
        _guide(axis, left, right, top, alone)
        _draw_lines(axis, table.filter(pl.col("adversary") == adversary), look, alone)
    label_axes(axes, "rounds T", f"{name} (sum over rounds)" if alone else "sum over rounds")
    return figure


def _draw_lines(axis: Axes, games: pl.DataFrame, look: dict[str, Look], alone: bool) -> None:
    ends, exponents = {}, {}
    for keys, part in games.group_by("forecaster", maintain_order=True):
        spec = str(keys[0])
        one = look[spec]
        rounds, line, low, high = part.select("rounds", "line", "low", "high").to_numpy().T
        axis.fill_between(rounds, low, high, color=one.colour, alpha=0.07, lw=0)
        dressed = {"ls": one.dashes, "marker": one.marker, "ms": 4, "lw": 1.5} if alone else {"lw": 1.0}
        axis.plot(rounds, line, color=one.colour, clip_on=False, zorder=3, **dressed)
        ends[spec] = float(line[-1])
        exponent, error = part["exponent"][0], part["standard_error"][0]
        exponents[spec] = "–" if exponent is None else plus_minus(exponent, error)
    if alone:
        name_lines(axis, ends, look, size=9.0, beside=exponents)
        return
    highest = max(ends, key=ends.__getitem__)
    axis.text(
        0.03, 0.97, f"{highest}  {exponents[highest]}", transform=axis.transAxes, va="top", fontsize=7,
        color=look[highest].text, zorder=6, path_effects=HALO,
    )  # fmt: skip


def _guide(axis: Axes, left: float, right: float, top: float, named: bool) -> None:
    """Powers of T, quiet behind everything, named near the left end."""
    for exponent in FRACTIONS:
        ends = [left, right]
        axis.plot(ends, [x**exponent for x in ends], color=QUIET, lw=0.8, ls=(0, (5, 4)), zorder=1)
        x = left * 1.1
        if named and x**exponent < top:
            along(axis, TIMES[exponent], x, x**exponent, 2 * x, (2 * x) ** exponent, color=QUIET, zorder=2)


def check_measure(measure: str) -> None:
    """ValueError with those there are, unless it is one of them."""
    if measure not in MEASURES:
        raise ValueError(f"unknown measure {measure!r}; known: {', '.join(MEASURES)}")


def check_growth(results: pl.DataFrame, figure: str) -> None:
    """ValueError for results of a single number of rounds: they say nothing of growth."""
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
