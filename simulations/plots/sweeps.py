"""Figures of sweeps: measures against T, certificates as the games go on, and how fast errors grow with T.

The figure `overview` shows the worst of all adversaries for each forecaster, and what is proved. Measures and
certificates have a panel per forecaster and a line per adversary. The figure `landscape` shows growth with a
panel per adversary, and `matrix` shows the exponents of a whole sweep as a table.

`prepare_...` makes a table of a sweep's results, and `draw_...` draws what is in it. The curves of bounds and
the descriptions of forecasters are in no table: they come from `players`, by the forecasters' specs. So
`SweepPictures.read` first has the players of one's own loaded that the sweep had loaded, which the catalogue
keeps; nothing else here changes a state. The tables of the sweep are only read, so no picture may have the
name of one of them (`TABLE_NAMES`): it writes its numbers beside it as CSV. The columns are those of these
files, and users read them by name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from onlinecal.plots import style
from onlinecal.simulations.games import players
from onlinecal.simulations.plots import PreparedPicture
from onlinecal.simulations.sweeps.results import (
    FITTED_MEASURES,
    LEAST_ERROR,
    loaded_files,
    rates_table,
    read_table,
)


@dataclass(frozen=True)
class TheoryCurve:
    """A curve of the theory: its name, its value at T, and the place along it where the name is written."""

    label: str
    value: Callable[[float], float]
    strong: bool = False
    below: bool = False
    at: float = 0.04


PAPER_CURVE = TheoryCurve("the paper's 2√T + 1", lambda T: 2 * math.sqrt(T) + 1)
LOWER_CURVE = TheoryCurve("T^(1/3)", lambda T: T ** (1 / 3), below=True, at=0.64)
LINEAR_CURVE = TheoryCurve("T/2", lambda T: T / 2)


def over_seeds(results: pl.DataFrame, upper: str, lower: str, *more: pl.Expr) -> pl.DataFrame:
    """A table with columns line, low, high, seeds and more for each forecaster, adversary and rounds.

    For a single game the line is `upper` and the band reaches from `lower` to it. For several seeds the line
    is the median of `upper`, and the band reaches from its smallest to its largest value.
    """
    is_one_game = pl.len() == 1
    return results.group_by("forecaster", "adversary", "rounds", maintain_order=True).agg(
        pl.col(upper).median().alias("line"),
        pl.when(is_one_game).then(pl.col(lower).min()).otherwise(pl.col(upper).min()).alias("low"),
        pl.col(upper).max().alias("high"),
        pl.len().cast(pl.Int64).alias("seeds"),
        *more,
    )


def bands_mean(table: pl.DataFrame, one_seed: str) -> str:
    """The words below the headline that say what lines and bands are."""
    seeds = int(style.highest(table["seeds"]))
    if seeds == 1:
        return one_seed
    return f"Lines: the median of {seeds} seeds. Bands: from the smallest to the largest."


def bound_curve(
    spec: str, begin: str = "its bound", end: str = "", times: float = 1.0, below: bool = False
) -> tuple[TheoryCurve, ...]:
    """The bound of a forecaster, multiplied by `times`, as the strong curve of its panel; none without it."""
    player = players.create(spec)
    if player.bound(1) is None:
        return ()
    label = " ".join(f"{begin} {player.bound_label or ''} {end}".split())
    return (
        TheoryCurve(label, lambda T: times * (player.bound(int(T)) or math.nan), strong=True, below=below),
    )


def distance_curves(spec: str) -> Sequence[TheoryCurve]:
    """Curves of the forecaster's own bound, the paper's, and the rate that no forecaster can always beat."""
    own = players.create(spec).bound(10**6)
    crowded = own is not None and own < PAPER_CURVE.value(10**6) < 1.5 * own
    return (LOWER_CURVE, PAPER_CURVE, *bound_curve(spec, below=crowded or spec == "paper"))


def draw_band(axis: Axes, games: pl.DataFrame, look: style.Look, alpha: float, **style: Any) -> float:
    """Draw a line against T and its band with this opacity; returns the value at which the line ends."""
    rounds, line, low, high = games.select("rounds", "line", "low", "high").to_numpy().T
    axis.fill_between(rounds, low, high, color=look.colour, alpha=alpha, lw=0)
    style = {"color": look.colour, "ls": look.dashes, "marker": look.marker, **style}
    axis.plot(rounds, line, clip_on=False, zorder=3, **style)
    return float(line[-1])


@dataclass(frozen=True)
class AgainstRounds:
    """A figure of one measure, log-log, with a panel per forecaster; bands are brackets, or several seeds.

    `axis` labels the vertical axis; `upper` and `lower` are columns of results, see `over_seeds`. The first
    of the `titles` is for games that all had a proven bound. `below` has the words for lines of one seed, and
    further words. `times` the bound on the distance is a bound on the measure; with None the table has no
    bounds. With `lifted`, values below half a round are drawn at half a round.
    """

    axis: str
    upper: str
    lower: str
    curves: Callable[[str], Sequence[TheoryCurve]]
    titles: tuple[str, str]
    below: tuple[str, str]
    times: float | None = None
    lifted: bool = False

    def prepare(self, results: pl.DataFrame) -> pl.DataFrame:
        """A table with the columns of `over_seeds`, and `bound`, which is null if nothing is proven."""
        bound = [] if self.times is None else [pl.col("bound").first().cast(pl.Float64) * self.times]
        table = over_seeds(results, self.upper, self.lower, *bound)
        return table.with_columns(pl.col("line", "low", "high").clip(LEAST_ERROR if self.lifted else None))

    @style.in_house_style
    def draw(self, table: pl.DataFrame) -> Figure:
        """Draw the figure."""
        proven = "bound" not in table.columns or table["bound"].null_count() == 0
        one_seed, more = self.below
        below = bands_mean(table, one_seed) + more
        figure, axes, look = forecaster_panels(table, self.titles[not proven], below)
        theory = {spec: self.curves(spec) for spec in axes}
        first, last = style.lowest(table["rounds"]), style.highest(table["rounds"])
        room = 1.15 if last > first else 3
        left, right = first / room, last * room
        top = max(
            [
                style.highest(table["high"]),
                *(curve.value(right) for some in theory.values() for curve in some),
            ]
        )
        bottom = max(style.lowest(table.filter(pl.col("line") > 0)["line"]) or 1.0, top / 1e6)
        shown = table.with_columns(pl.col("line", "low", "high").clip(lower_bound=bottom))
        for spec, axis in axes.items():
            limits: Any = {"xlim": (left, right), "ylim": (bottom / 1.6, top * 1.6)}
            axis.set(xscale="log", yscale="log", xlabel="rounds T", ylabel=self.axis, **limits)
            axis.minorticks_off()
            ends = {}
            for name, games in lines_of(shown, spec):
                end = draw_band(axis, games, look[name], 0.18, lw=1.4, ms=3.5, solid_capstyle="round")
                ends[name] = end, look[name]
            for curve in theory[spec]:
                draw_curve(axis, curve, left, right)
            style.name_lines(axis, ends)
        return figure


def lines_of(
    table: pl.DataFrame, panel: str, key: str = "forecaster", by: str = "adversary"
) -> list[tuple[str, pl.DataFrame]]:
    """The lines of one panel: their names and their rows."""
    games = table.filter(pl.col(key) == panel).group_by(by, maintain_order=True)
    return [(str(names[0]), part) for names, part in games]


def forecaster_panels(
    table: pl.DataFrame, title: str, below: str
) -> tuple[Figure, dict[str, Axes], dict[str, style.Look]]:
    """A figure, a panel for each forecaster by its spec, and a look for each adversary."""
    specs, against = (
        table[name].unique(maintain_order=True).to_list() for name in ("forecaster", "adversary")
    )
    titles = [f"{spec} – {players.create(spec).family.summary}" for spec in specs]
    figure, axes = style.panels(titles, against, abreast=2 if len(specs) <= 6 else 4)
    style.headline(figure, title, below)
    return figure, dict(zip(specs, axes, strict=True)), style.looks(against)


def draw_curve(axis: Axes, curve: TheoryCurve, left: float, right: float) -> None:
    """Draw a curve of the theory with its label along it."""
    rounds = np.geomspace(left, right, 100)
    values = [curve.value(math.ceil(T)) for T in rounds]
    colour, dashes, width, zorder = (style.INK, "-", 2.0, 4) if curve.strong else (style.QUIET, "--", 1.1, 2)
    axis.plot(rounds, values, color=colour, ls=dashes, lw=width, zorder=zorder)
    start = int(curve.at * len(rounds))
    shift = 0.86 if curve.below else 1.0
    (x, x2), (y, y2) = rounds[[start, start + 20]], (shift * values[start], shift * values[start + 20])
    weight = "bold" if curve.strong else "normal"
    va = "top" if curve.below else "bottom"
    style.along(axis, curve.label, x, y, x2, y2, color=colour, va=va, fontweight=weight)


def prepare_trajectories(trajectories: pl.DataFrame) -> pl.DataFrame:
    """The longest games of the first seed: columns forecaster, adversary, round, certificate, guarantee."""
    longest = trajectories.filter(
        pl.col("rounds") == pl.col("rounds").max(), pl.col("seed") == pl.col("seed").first()
    )
    return longest.select("forecaster", "adversary", "round", "certificate", "guarantee")


@style.in_house_style
def draw_trajectories(table: pl.DataFrame) -> Figure:
    """Draw a panel per forecaster with a line per adversary, and the guarantee in black."""
    figure, axes, look = forecaster_panels(
        table,
        "At every moment of a game the forecaster can prove how calibrated it has been",
        "The certificate, a proven upper bound on the distance to calibration so far, a line per adversary. "
        "Black: the guarantee given beforehand.",
    )
    last = int(style.highest(table["round"]))
    top = style.highest(table["guarantee"], table["certificate"])
    bottom = 0.3 if top > 3 else top / 10
    for spec, axis in axes.items():
        axis.set(xscale="log", yscale="log", xlim=(1, last * 1.05), ylim=(bottom / 1.5, top * 1.8))
        axis.set(xlabel="round t", ylabel="certificate (sum over rounds so far)")
        axis.minorticks_off()
        ends = {}
        for name, part in lines_of(table, spec):
            line_look, proven = look[name], part["certificate"]
            axis.plot(part["round"], proven, color=line_look.colour, ls=line_look.dashes, lw=1.2, zorder=3)
            ends[name] = max(float(proven[-1]), bottom), line_look
        style.name_lines(axis, ends)
        first = table.filter(forecaster=spec, adversary=next(iter(ends)))
        bound = first.select("round", "guarantee").fill_nan(None).drop_nulls()
        axis.plot(bound["round"], bound["guarantee"], color=style.INK, lw=2, zorder=4)
        rounds, guarantees = bound.to_numpy().T
        start, end = int(0.3 * len(rounds)), int(0.55 * len(rounds))
        if end > start:
            (x, x2), (y, y2) = rounds[[start, end]], guarantees[[start, end]] * 1.04
            style.along(axis, "guarantee", x, y, x2, y2, fontweight="bold", color=style.INK)
    return figure


AGAINST_ROUNDS = {
    "distance": AgainstRounds(
        "distance to calibration (sum over rounds)",
        "distance_upper",
        "distance_lower",
        distance_curves,
        titles=(
            "No adversary pushes the distance to calibration past its bound",
            "No adversary pushes the distance to calibration past a bound, where one is proven",
        ),
        below=(
            "One line per adversary: the proven upper end of the distance; bands reach down to the proven "
            "lower end.",
            " No forecaster can grow slower than T^(1/3) against everyone.",
        ),
        times=1.0,
    ),
    "ece": AgainstRounds(
        "expected calibration error (sum over rounds)",
        "ece",
        "ece",
        lambda spec: (LINEAR_CURVE, *bound_curve(spec, "bound on its distance")),
        titles=("The usual calibration error (ECE) of the same games can grow with T itself",) * 2,
        below=(
            "Answer 1 to forecasts just below 0.5 and 0 to those just above: ECE counts every round half "
            "wrong, though a nudge would calibrate them.",
            "",
        ),
    ),
    "regret": AgainstRounds(
        "Brier regret (sum over rounds)",
        "regret",
        "regret",
        lambda spec: bound_curve(spec, "2 × the bound", "on its distance", 2.0),
        titles=(
            "No adversary makes a forecaster regret more than twice the bound on its distance",
            "No adversary drives the regret past twice a distance that is proven",
        ),
        below=(
            "One line per adversary: Brier score less that of the best constant in hindsight.",
            " At the bottom, half a round or less: hardly worse than that constant, or better.",
        ),
        times=2.0,
        lifted=True,
    ),
}


def prepare_overview(results: pl.DataFrame) -> pl.DataFrame:
    """A table: forecaster, rounds, worst, against, adversaries, and bound, which is null if none is proved.

    `worst` is the largest distance (its proven upper end, a sum over rounds) of the games of all adversaries
    and seeds, and `against` is the adversary of that game.
    """
    table = results.sort("distance_upper", descending=True, maintain_order=True)
    return (
        table.group_by("forecaster", "rounds", maintain_order=True)
        .agg(
            pl.col("distance_upper").first().alias("worst"),
            pl.col("adversary").first().alias("against"),
            pl.col("adversary").n_unique().cast(pl.Int64).alias("adversaries"),
            pl.col("bound").first().cast(pl.Float64),
        )
        .sort("forecaster", "rounds")
    )


@style.in_house_style
def draw_overview(table: pl.DataFrame) -> Figure:
    """Draw one panel in units of √T: the worst case of each forecaster, its bound, and the paper's bound."""
    specs = table.group_by("forecaster").agg(pl.col("worst").last()).sort("worst", descending=True)
    look = style.looks(specs["forecaster"].to_list())
    first, last = style.lowest(table["rounds"]), style.highest(table["rounds"])
    left, right = first / 1.4, last * 1.4
    rounds = np.geomspace(left, right, 100)
    ends: dict[str, tuple[float, style.Look]] = {}
    lines: list[tuple[Any, Any, dict[str, Any]]] = []
    for curve, line in ((PAPER_CURVE, "-"), (LOWER_CURVE, (0, (1.2, 2)))):
        values = np.array([curve.value(T) for T in rounds]) / np.sqrt(rounds)
        lines.append((rounds, values, {"color": style.INK, "ls": line, "lw": 1.8}))
        ends[OVERVIEW_CURVES[curve.label]] = float(values[-1]), style.Look(style.INK)
    for spec, one in look.items():
        games = table.filter(forecaster=spec)
        worst, proved = games.select("worst", "bound").to_numpy().T / np.sqrt(games["rounds"].to_numpy())
        shape = {"marker": "o", "ms": 5, "lw": 2.2, "mec": "white", "mew": 0.7, "zorder": 4}
        lines.append((games["rounds"], worst, {"color": one.colour, "clip_on": False, **shape}))
        ends[f"{spec}, worst: {worst[-1]:.2f} against {games['against'][-1]}"] = float(worst[-1]), one
        if games["bound"].null_count() == 0:
            # between these numbers of rounds the bound of a grid that grows goes up and down
            dash = {"marker": "_", "ms": 22, "mew": 2.2, "clip_on": False}
            lines.append((games["rounds"], proved, {"color": one.colour, "ls": "", **dash}))
            ends[f"{spec}, bound: {proved[-1]:.2f}"] = float(proved[-1]), one
    figure, (axis,) = style.panels([""], list(ends), height=5.0, width=6.2)
    number = int(style.highest(table["adversaries"]))
    style.headline(
        figure,
        "No adversary pushes a forecaster past the bound that is proved of it",
        f"Solid: the worst of {number} adversaries for each forecaster. Dashes, in the same colour: "
        "the bound for so many rounds.",
    )
    top = 1.08 * max(float(np.nanmax(values)) for _, values, _ in lines)
    axis.set(xscale="log", xlim=(left, right), ylim=(0.0, top))
    axis.set(xlabel="rounds T", ylabel="distance to calibration, a sum over T rounds, divided by √T")
    axis.minorticks_off()
    for x, y, kind in lines:
        axis.plot(x, y, **kind)
    style.name_lines(axis, ends)
    return figure


OVERVIEW_CURVES = {
    PAPER_CURVE.label: "the bound of the paper, 2√T + 1",
    LOWER_CURVE.label: "T^(1/3): no forecaster grows slower against everyone",
}
"""The words of the overview for curves of the theory."""


MEASURE_NAMES = {
    "distance": "distance to calibration",
    "ece": "expected calibration error (ECE)",
    "certificate": "certificate",
    "regret": "Brier regret",
}

KNOWN_POWERS = {1 / 3: ("1/3", "T^(1/3)"), 1 / 2: ("1/2", "√T"), 2 / 3: ("2/3", "T^(2/3)"), 1.0: ("1", "T")}
"""The exponents that theory knows, as numbers and as powers of T."""

FLOOR_NOTE = "Errors below half a round count as half a round."


def prepare_landscape(
    results: pl.DataFrame, measure: str = "distance", adversary: str | None = None
) -> pl.DataFrame:
    """A table: adversary, forecaster, rounds, line, low, high, seeds, measure, exponent, standard_error.

    Lines and bands are as in `over_seeds`, with errors of at least half a round. Raises ValueError for an
    unknown measure, an adversary that has not played, or a single T.
    """
    check_growth(results, "landscape", measure)
    played = results["adversary"].unique(maintain_order=True).to_list()
    if adversary is not None:
        if adversary not in played:
            raise ValueError(f"no adversary {adversary!r} in these results; there are {', '.join(played)}")
        results = results.filter(pl.col("adversary") == adversary)
    column = FITTED_MEASURES[measure]
    known = results.filter(pl.col(column).is_not_null())
    lower = "distance_lower" if measure == "distance" else column
    rates = rates_table(known).filter(pl.col("measure") == measure)
    table = (
        over_seeds(known, column, lower)
        .with_columns(pl.col("line", "low", "high").clip(lower_bound=LEAST_ERROR), measure=pl.lit(measure))
        .join(
            rates.select("forecaster", "adversary", "exponent", "standard_error"),
            on=["forecaster", "adversary"],
            how="left",
        )
    )
    return table.sort("rounds", maintain_order=True).select("adversary", pl.exclude("adversary"))


@style.in_house_style
def draw_landscape(table: pl.DataFrame) -> Figure:
    """Draw a panel per adversary with a line per forecaster, whose exponent stands beside its name."""
    adversaries = table["adversary"].unique(maintain_order=True).to_list()
    look = style.looks(table["forecaster"].unique(maintain_order=True).to_list())
    longest = max(look, key=len)
    figure, axes = style.panels(
        adversaries, [f"{longest}  0.00 ± 0.00"], height=5.0, abreast=2 if len(adversaries) <= 6 else 4
    )
    name = MEASURE_NAMES[str(table["measure"][0])]
    style.headline(
        figure,
        f"How the {name} grows, and its exponents of T ± standard errors",
        f"{bands_mean(table, '')} Dashed: powers of T. {FLOOR_NOTE}".strip(),
    )
    rounds = table["rounds"]
    # the names of the powers stand on the left
    left, right = style.lowest(rounds) / 2.2, style.highest(rounds) * 1.12
    bottom, top = style.lowest(table["low"]), style.highest(table["high"])
    for adversary, axis in zip(adversaries, axes, strict=True):
        axis.set(xscale="log", yscale="log", xlim=(left, right), ylim=(bottom / 1.25, top * 1.5))
        axis.set(xlabel="rounds T", ylabel=f"{name} (sum over rounds)")
        axis.minorticks_off()
        _guide(axis, left, right, top)
        ends = {}
        for spec, games in lines_of(table, adversary, "adversary", "forecaster"):
            exponent, error = games["exponent"][0], games["standard_error"][0]
            text = f"{spec}  {'–' if exponent is None else plus_minus(exponent, error)}"
            ends[text] = draw_band(axis, games, look[spec], 0.07, ms=4, lw=1.5), look[spec]
        style.name_lines(axis, ends)
    return figure


def _guide(axis: Axes, left: float, right: float, top: float) -> None:
    """Draw powers of T, pale and behind everything, with their names near the left end."""
    for exponent, (_, name) in KNOWN_POWERS.items():
        ends = [left, right]
        axis.plot(ends, [x**exponent for x in ends], color=style.QUIET, lw=0.8, ls=(0, (5, 4)), zorder=1)
        x = left * 1.25
        if x**exponent < top:
            style.along(axis, name, x, x**exponent, 2 * x, (2 * x) ** exponent, color=style.QUIET, zorder=2)


def check_growth(results: pl.DataFrame, figure: str, measure: str) -> None:
    """Refuse an unknown measure, and games that all have the same number of rounds, which show no growth."""
    if measure not in FITTED_MEASURES:
        raise ValueError(f"unknown measure {measure!r}; known: {', '.join(FITTED_MEASURES)}")
    if results["rounds"].n_unique() < 2:
        raise ValueError(
            f"figure {figure!r} shows how errors grow with T; "
            f"these games all have the same number of rounds, {results['rounds'][0]}: "
            "give the sweep several numbers of rounds, or choose another figure"
        )


def fixed(value: float) -> str:
    """Two decimals, and no minus before zero."""
    return f"{round(value, 2) + 0.0:.2f}".replace("-", "−")


def plus_minus(exponent: float, error: float | None) -> str:
    """An exponent and its standard error."""
    return fixed(exponent) if error is None else f"{fixed(exponent)} ± {fixed(error)}"


EXPONENT_ANCHORS = (
    (0.0, "#1f5a94"),
    (1 / 3, "#7fb0d9"),
    (1 / 2, "#f4f4f1"),
    (2 / 3, "#f6b56a"),
    (1.0, "#a8410a"),
)
"""Blue below 1/2, white at it, orange above: everyone can tell them apart, and only both ends are dark."""

EXPONENT_COLOURS = LinearSegmentedColormap.from_list("exponents", EXPONENT_ANCHORS)

MATRIX_CELL_WIDTH, MATRIX_CELL_HEIGHT = 0.62, 0.42
"""The size of a cell in inches."""


def prepare_matrix(results: pl.DataFrame, measure: str = "distance") -> pl.DataFrame:
    """The rows of `rates_table` for this measure; ValueError for an unknown measure or a single T."""
    check_growth(results, "matrix", measure)
    return rates_table(results).filter(pl.col("measure") == measure)


def longest_line(names: Sequence[str]) -> int:
    """The letters in the longest line of names that may have several lines."""
    return max(len(line) for name in names for line in name.split("\n"))


def most_lines(names: Sequence[str]) -> int:
    """The lines of the name that has most of them."""
    return max(name.count("\n") + 1 for name in names)


@style.in_house_style
def draw_matrix(table: pl.DataFrame) -> Figure:
    """Draw a cell per pair, in the colour of the exponent, with the exponent and its standard error."""
    rows, columns = (
        table[name].unique(maintain_order=True).to_list() for name in ("forecaster", "adversary")
    )
    row_names, column_names = ([style.wrapped(name) for name in names] for names in (rows, columns))
    left, bottom = 0.3 + 0.088 * longest_line(row_names), 0.85
    # names of several lines need more room from one column to the next, and from one row to the next
    cell_width = max(MATRIX_CELL_WIDTH, 0.26 * most_lines(column_names))
    cell_height = max(MATRIX_CELL_HEIGHT, 0.18 * most_lines(row_names))
    wide, high = cell_width * len(columns), cell_height * len(rows)
    slanted = 0.15 + 0.058 * longest_line(column_names)
    figure = Figure(figsize=(max(left + wide + slanted, 7.5), bottom + high + slanted + 0.9))
    seeds, longest = (int(style.highest(table[name])) for name in ("n_seeds", "most_rounds"))
    style.headline(
        figure,
        f"How fast the {MEASURE_NAMES[str(table['measure'][0])]} grows: fitted exponents of T",
        f"Slope of log error against log T up to T = {longest:,}, seeds: {seeds}; "
        f"small: its standard error. {FLOOR_NOTE}",
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
        middle = 0.5 if row["standard_error"] is None else 0.4
        axis.text(x + 0.5, y + middle, fixed(exponent), fontsize=10, **look)
        if row["standard_error"] is not None:
            axis.text(x + 0.5, y + 0.76, f"±{fixed(row['standard_error'])}", fontsize=6.5, **look)
    shades = axis.pcolormesh(values, cmap=EXPONENT_COLOURS, vmin=0.0, vmax=1.0, edgecolor="white", lw=1.5)
    axis.invert_yaxis()
    axis.xaxis.tick_top()
    turned: Any = {"rotation": 40, "rotation_mode": "anchor", "ha": "left", "fontsize": 9.5}
    axis.set_xticks(np.arange(len(columns)) + 0.5, column_names, **turned)
    axis.set_yticks(np.arange(len(rows)) + 0.5, row_names)
    scale = figure.colorbar(shades, cax=style.place(figure, left, 0.43, 3.2, 0.13), orientation="horizontal")
    scale.set_ticks([0.0, *KNOWN_POWERS], labels=["0", *(text for text, _ in KNOWN_POWERS.values())])
    scale.ax.text(1.04, 0.5, "exponent", transform=scale.ax.transAxes, va="center", fontsize=9)
    for bare_axis in (axis, scale.ax):
        bare_axis.grid(visible=False)
        bare_axis.tick_params(length=0)
        bare_axis.spines[:].set_visible(False)
    return figure


TRAJECTORIES = PreparedPicture(prepare_trajectories, draw_trajectories)
SWEEP_FIGURES = {
    "overview": PreparedPicture(prepare_overview, draw_overview),
    **{name: PreparedPicture(measure.prepare, measure.draw) for name, measure in AGAINST_ROUNDS.items()},
    "trajectories": TRAJECTORIES,
    "landscape": PreparedPicture(prepare_landscape, draw_landscape),
    "matrix": PreparedPicture(prepare_matrix, draw_matrix),
}
"""The figures of a sweep by name. All but trajectories are prepared from its table of results."""

GROWTH_FIGURES = ("landscape", "matrix")
"""The figures that need more than one T."""


def figure_of(name: str) -> PreparedPicture:
    """The figure of a sweep with this name; ValueError lists those there are."""
    if name not in SWEEP_FIGURES:
        raise ValueError(f"unknown figure {name!r}; known: {', '.join(SWEEP_FIGURES)}")
    return SWEEP_FIGURES[name]


class SweepPictures(NamedTuple):
    """The results in a sweep's folder, to which pictures are written, and the wanted ones of `SWEEP_FIGURES`.

    `landscape` and `matrix` show `measure`, by default the distance, and `landscape` shows `adversary`, by
    default all of them. Both become part of the file's name. The picture of trajectories is
    called trajectories-longest. `loaded` are files of one's own, whose players the pictures need.
    """

    folder: Path
    results: pl.DataFrame
    names: Sequence[str]
    measure: str | None = None
    adversary: str | None = None
    loaded: Sequence[Path] = ()

    @classmethod
    def read(
        cls,
        folder: Path,
        names: Sequence[str] = (),
        measure: str | None = None,
        adversary: str | None = None,
        load: Sequence[Path] = (),
    ) -> SweepPictures:
        """Read the results in a folder; load the files of one's own that the sweep had loaded, and `load`.

        Without names all figures that these results can show are wanted.

        Raises
        ------
        FileNotFoundError
            If there are no results, or a file to be loaded is missing.
        ValueError
            For unknown figures, and for a measure or an adversary that none of the figures uses.
        """
        for name in names:
            figure_of(name)
        results = read_table(folder, "results")
        loaded = [*loaded_files(folder), *load]
        players.load_all(loaded)
        grows = results["rounds"].n_unique() > 1
        usual = [name for name in SWEEP_FIGURES if grows or name not in GROWTH_FIGURES]
        wanted = list(dict.fromkeys(names or usual))
        for option, value, users in (
            ("--measure", measure, GROWTH_FIGURES),
            ("--adversary", adversary, ("landscape",)),
        ):
            if value is None or set(wanted) & set(users):
                continue
            if not grows:
                raise ValueError(
                    f"{option} is for --figure {' and '.join(users)}, which needs several numbers of rounds, "
                    f"and all games have {results['rounds'][0]:,}: leave {option} out"
                )
            raise ValueError(f"{option} needs --figure {' or '.join(users)}, got {', '.join(wanted)}")
        return cls(folder, results, wanted, measure, adversary, loaded)

    def render(self, name: str) -> style.Rendered:
        """Draw one of the figures, in whatever process; ValueError if that cannot be."""
        players.load_all(self.loaded)
        table = read_table(self.folder, name) if name == "trajectories" else self.results
        return figure_of(name).render(table, **self._chosen(name))

    def stem(self, name: str) -> Path:
        """The path of a figure's files, without their endings."""
        # the table of the sweep has the shorter name
        longest = ["longest"] if name == "trajectories" else []
        chosen = (re.sub(r"[^\w.=-]+", "-", text) for text in self._chosen(name).values())
        return self.folder / "-".join([name, *longest, *chosen])

    def _chosen(self, name: str) -> dict[str, str]:
        """What was chosen of the options of a figure."""
        options = {"landscape": ("measure", "adversary"), "matrix": ("measure",)}.get(name, ())
        return {option: getattr(self, option) for option in options if getattr(self, option) is not None}
