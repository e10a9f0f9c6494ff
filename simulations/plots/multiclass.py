"""Pictures of games of several classes: distance against T, and three classes on their triangle.

`prepare_...` makes a table, and all measured numbers that `draw_...` draws are in it; slopes and LARGEST_BIAS
are the theory's. Nothing has a state. The columns are those of the files that are written beside pictures,
and TRIANGLE_CELLS, N_PATH_MEANS and PATH_SHARE decide their rows.

`prepare_triangle` takes a game's cells from charged minus forecast: it relies on the simplex forecaster
announcing barycentres and charging vertices, and checks it for each game; other games get TRIANGLE_CELLS.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from numpy.typing import NDArray

from onlinecal.arrays import Floats
from onlinecal.plots import style
from onlinecal.plots.reliability_diagram import named
from onlinecal.simulations.games.measuring import Game, MeasuredMulticlass, biases_of
from onlinecal.simulations.plots import PreparedPicture
from onlinecal.simulations.plots.sweeps import draw_band, lines_of


def prepare_distance(measured: Sequence[MeasuredMulticlass]) -> pl.DataFrame:
    """A table with a row per game: forecaster, adversary, classes, rounds, bounds, certificate, guarantee."""
    table = pl.DataFrame([line.record() for line in measured], infer_schema_length=None)
    return table.select(
        "forecaster",
        "adversary",
        "classes",
        "rounds",
        pl.col("distance_lower").alias("lower"),
        pl.col("distance_upper").alias("upper"),
        pl.col("certificate", "guarantee").cast(pl.Float64),
    ).sort("classes", "rounds", maintain_order=True)


@style.in_house_style
def draw_simplex_distance(table: pl.DataFrame) -> Figure:
    """Draw errors against rounds, log-log: bands are brackets of the distance, thick lines certificates."""
    forecasters = table["forecaster"].unique(maintain_order=True).to_list()
    look = style.looks(forecasters)
    numbers = table["classes"].unique().sort().to_list()
    against = table["adversary"][0].split(":")[0]
    figure, axes = style.panels([f"{k} classes" for k in numbers], forecasters, height=3.6)
    style.headline(
        figure,
        r"Every certificate stays below its guarantee, of order $\mathbf{T^{1-1/k}}$ for k classes",
        f"Against {against}, a game of its own for each T. Sums over rounds, in l1 over classes. "
        "Band: where the distance to calibration lies. Line: certificate. Dashes: guarantee.",
    )
    left, right = style.lowest(table["rounds"]) / 1.15, style.highest(table["rounds"]) * 1.15
    top = style.highest(table["upper"], table["guarantee"])
    bottom = max(style.lowest(table["lower"]), top / 1e6, 0.1)
    shown = table.with_columns(
        line=pl.coalesce("certificate", "upper").clip(lower_bound=bottom),
        low=pl.col("lower").clip(lower_bound=bottom),
        high=pl.col("upper").clip(lower_bound=bottom),
    )
    for k, axis in zip(numbers, axes, strict=True):
        axis.set(xscale="log", yscale="log", xlim=(left, right), ylim=(bottom / 1.6, top * 2.8))
        axis.set(xlabel="rounds T", ylabel="distance to calibration")
        axis.minorticks_off()
        ends, promised = {}, {}
        for name, part in lines_of(shown, k, "classes", "forecaster"):
            line_look, proven = look[name], part["certificate"].null_count() == 0
            width = 1.6 if proven else 0.9
            ends[name] = (
                draw_band(axis, part, line_look, 0.2, ls="-", marker="o", ms=3.2, lw=width),
                line_look,
            )
            if part["guarantee"].null_count() == 0:
                axis.plot(
                    part["rounds"],
                    part["guarantee"],
                    color=line_look.text,
                    lw=1.7,
                    ls=(0, (5, 1.6)),
                    zorder=4,
                )
                promised[name] = part
        if promised:
            name, part = next(iter(promised.items()))
            _write_theory(axis, part, k, look[name] if len(promised) == 1 else None)
        style.name_lines(axis, ends)
    return figure


def _write_theory(axis: Axes, part: pl.DataFrame, k: int, line_look: style.Look | None) -> None:
    """Draw the theory's slope above the guarantee of `part`, and name the guarantee if a look is given."""
    rounds, values = part["rounds"].to_numpy(), part["guarantee"].to_numpy()
    if len(rounds) < 3:
        return
    slope = 2.0 * values[-1] * (rounds / rounds[-1]) ** (1 - 1 / k)
    axis.plot(rounds, slope, color=style.QUIET, lw=1.1, zorder=2)
    place = len(rounds) // 2 - 1
    x, x2 = rounds[place], rounds[place + 1]
    label = "√T" if k == 2 else f"$T^{{{k - 1}/{k}}}$"
    style.along(
        axis, f"slope of {label}", x, slope[place] * 1.04, x2, slope[place + 1] * 1.04, color="#555555"
    )
    if line_look is not None:
        x, x2, y, y2 = rounds[0] * 1.1, rounds[1], values[0] * 1.2, values[1] * 1.12
        style.along(axis, "guarantee", x, y, x2, y2, color=line_look.text, fontweight="bold")


CLASS_CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
"""The places of the three classes on the page."""

PAGE_LEFT, PAGE_RIGHT, PAGE_BOTTOM, PAGE_TOP = -0.06, 1.06, -0.1, 0.92
"""The part of the page that a panel shows."""

N_PATH_MEANS, PATH_SHARE = 60, 10
"""The path joins the mean forecasts of N_PATH_MEANS stretches of the last 1/PATH_SHARE of the game."""

TRIANGLE_CELLS = 40
"""The number of cells a side for forecasts without cells of their own."""

LARGEST_BIAS = 0.75
"""The proven bound on biases with three classes and without slack."""

CELL_COLOURS = LinearSegmentedColormap.from_list("cells", ["#eef4f9", "#9cc4e0", "#0072B2", "#00304d"])
POINT_COLOURS = LinearSegmentedColormap.from_list("biases", ["#ffffff", "#f5c96a", "#D55E00", "#5c1f00"])
PATH_COLOURS = LinearSegmentedColormap.from_list("path", ["#c9c9c9", style.INK])


def prepare_triangle(games: Sequence[Game]) -> pl.DataFrame:
    """The numbers to be drawn for every game with three classes.

    The columns are forecaster, adversary, kind, p0, p1, p2, size, rounds and bias. A "cell" was announced in
    `rounds` rounds; p is its barycentre and size its side, which is negative for a triangle that stands on
    its point. Forecasts without a look-ahead are put into cells of 1/TRIANGLE_CELLS. A "point" was charged
    with `rounds` rounds and ended with this largest |bias|. A "path" is the mean of `rounds` forecasts.
    """
    parts = []
    for game in games:
        rounds, k = game.forecasts.shape
        if k != 3:
            continue
        ways = np.zeros((rounds, 3)) if game.duel is None else game.duel.charged - game.forecasts
        furthest = ways[np.arange(rounds), np.abs(ways).argmax(axis=1)]
        # a vertex of a cell is twice as far from its barycentre in one class as in the others
        barycentres = furthest.all() and np.allclose(np.abs(ways).sum(axis=1), 2.0 * np.abs(furthest))
        barycentres &= np.allclose(np.median(np.abs(ways), axis=1), 0.5 * np.abs(furthest))
        if game.duel is None or not barycentres:
            cells, size, number = _coarse(game.forecasts)
        else:
            sides = 1.0 / np.rint(1.0 / (1.5 * furthest))
            cells, size, number = _different(game.forecasts, sides)
            points, biases, visits = biases_of(game.duel.charged, game.outcomes)
            parts.append(_part(game, "point", points, visits, bias=np.abs(biases).max(axis=1)))
        parts.append(_part(game, "cell", cells, number, size=size))
        ends = np.unique(np.linspace(rounds - rounds // PATH_SHARE, rounds, N_PATH_MEANS + 1).astype(int))
        means = np.add.reduceat(game.forecasts, ends[:-1]) / np.diff(ends)[:, None]
        parts.append(_part(game, "path", means, np.diff(ends)))
    return pl.concat(parts)


@style.in_house_style
def draw_triangle(table: pl.DataFrame) -> Figure:
    """Draw a triangle for each forecaster."""
    names = table["forecaster"].unique(maintain_order=True).to_list()
    columns = min(len(names), 2 if len(names) in (2, 4) else 3)
    rows = -(-len(names) // columns)
    wide, gap, above, below = 4.9, 0.4, 0.9, 0.85
    high = wide * (PAGE_TOP - PAGE_BOTTOM) / (PAGE_RIGHT - PAGE_LEFT)
    across, up = columns * (wide + gap) + gap, above + rows * (high + 0.1) + below
    figure = Figure(figsize=(across, up))
    first = table.filter(pl.col("kind") == "cell", pl.col("forecaster") == names[0])
    style.headline(
        figure,
        f"{first['rounds'].sum():,} forecasts of three classes, against {table['adversary'][0]}",
        "Triangles: cells that were announced. Dots: the grid points that rounds were charged to. "
        "Line: the forecasts of the last tenth of the rounds, on average, pale to black.",
    )
    heat = LogNorm(1, max(int(style.highest(table.filter(pl.col("kind") == "cell")["rounds"])), 10))
    warmth = Normalize(0.0, LARGEST_BIAS)
    for number, name in enumerate(names):
        row, column = divmod(number, columns)
        axis = style.place(
            figure, gap + column * (wide + gap), up - above - (row + 1) * (high + 0.1) + 0.1, wide, high
        )
        _draw_triangle(axis, table.filter(pl.col("forecaster") == name), name, wide, heat, warmth)
    scales: tuple[tuple[LinearSegmentedColormap, Normalize, str], ...] = (
        (CELL_COLOURS, heat, "rounds a cell was announced"),
        (POINT_COLOURS, warmth, f"largest bias of a point (proven: ≤ {LARGEST_BIAS:g})"),
    )
    broad = min(0.4 * across, 3.4)
    for middle, (colours, norm, label) in zip((0.27, 0.73), scales, strict=True):
        bar = style.place(figure, middle * across - broad / 2, 0.42, broad, 0.12)
        figure.colorbar(ScalarMappable(norm, colours), cax=bar, orientation="horizontal")
        bar.set_title(label, fontsize=8.5, fontweight="normal", loc="center", pad=4)
        bar.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        bar.tick_params(labelsize=7.5, length=2)
        bar.minorticks_off()
        bar.spines[:].set_visible(False)
    return figure


def _coarse(forecasts: Floats) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """The cells of 1/TRIANGLE_CELLS that forecasts are in: barycentres, sizes and numbers of forecasts."""
    scaled = TRIANGLE_CELLS * forecasts / forecasts.sum(axis=1, keepdims=True)
    corner = np.floor(scaled + 1e-9)
    left = np.rint(TRIANGLE_CELLS - corner.sum(axis=1, keepdims=True))
    # a forecast on a grid point is put into a cell beside it
    corner -= (left == 0) * (np.arange(3) == corner.argmax(axis=1)[:, None])
    left = np.maximum(left, 1.0)
    return _different((corner + left / 3.0) / TRIANGLE_CELLS, (3.0 - 2.0 * left[:, 0]) / TRIANGLE_CELLS)


def _different(cells: Floats, sizes: Floats) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """The different cells among those of all rounds, their sizes, and the number of rounds of each."""
    distinct, number = np.unique(np.column_stack([cells, sizes]), axis=0, return_counts=True)
    return distinct[:, :3], distinct[:, 3], number


def _part(game: Game, kind: str, p: Floats, rounds: NDArray[np.int64], **more: Floats) -> pl.DataFrame:
    none = np.zeros(len(p))
    columns = {f"p{c}": p[:, c] for c in range(3)} | {"size": none, "rounds": rounds, "bias": none, **more}
    table = pl.DataFrame({"kind": kind, **columns})
    return named(table, game.measured.forecaster, game.measured.adversary)


def _draw_triangle(
    axis: Axes, table: pl.DataFrame, name: str, wide: float, heat: Normalize, warmth: Normalize
) -> None:
    axis.set(xlim=(PAGE_LEFT, PAGE_RIGHT), ylim=(PAGE_BOTTOM, PAGE_TOP))
    axis.set_axis_off()
    axis.text(PAGE_LEFT + 0.02, PAGE_TOP - 0.03, name, fontsize=11, fontweight="bold", va="top")
    for fifth in np.arange(0.2, 0.9, 0.2):
        for c in range(3):
            ends = np.zeros((2, 3))
            ends[:, c], ends[0, c - 1], ends[1, c - 2] = fifth, 1 - fifth, 1 - fifth
            axis.plot(*(ends @ CLASS_CORNERS).T, color="#ececec", lw=0.6, zorder=0)
    axis.plot(*CLASS_CORNERS[[0, 1, 2, 0]].T, color=style.QUIET, lw=1.0, zorder=3, solid_joinstyle="round")
    # small cells are drawn over the large ones of earlier grids
    cells = table.filter(pl.col("kind") == "cell").sort(pl.col("size").abs(), descending=True)
    sizes = cells["size"].to_numpy()
    turns = np.eye(3) - 1.0 / 3.0
    corners = (_vectors(cells)[:, None, :] + sizes[:, None, None] * turns) @ CLASS_CORNERS
    axis.add_collection(
        PolyCollection(
            list(corners), facecolors=CELL_COLOURS(heat(cells["rounds"].to_numpy())), edgecolors="white",
            linewidths=0.25, zorder=1,
        )
    )  # fmt: skip
    points = table.filter(pl.col("kind") == "point")
    inch = wide / (PAGE_RIGHT - PAGE_LEFT)
    area = min(26.0, max(2.0, (72.0 * inch * float(np.median(np.abs(sizes))) * 0.4) ** 2))
    x, y = (_vectors(points) @ CLASS_CORNERS).T
    axis.scatter(
        x, y, s=area, c=points["bias"].to_numpy(), cmap=POINT_COLOURS, norm=warmth,
        edgecolors="#444444", linewidths=0.25, zorder=4,
    )  # fmt: skip
    way = _vectors(table.filter(pl.col("kind") == "path")) @ CLASS_CORNERS
    pieces = list(np.stack([way[:-1], way[1:]], axis=1))
    shades = PATH_COLOURS(np.linspace(0, 1, len(pieces)))
    axis.add_collection(LineCollection(pieces, colors="white", linewidths=3.0, capstyle="round", zorder=5))
    axis.add_collection(LineCollection(pieces, colors=shades, linewidths=1.3, capstyle="round", zorder=5))
    axis.scatter(
        way[-1:, 0], way[-1:, 1], s=22, color=style.INK, edgecolors="white", linewidths=0.8, zorder=6
    )
    for c, (aside, ha) in enumerate((((0, -11), "center"), ((0, -11), "center"), ((8, 0), "left"))):
        colour = style.OKABE_ITO[c]
        at = CLASS_CORNERS[c]
        axis.scatter(at[0], at[1], s=34, color=colour, zorder=7, clip_on=False)
        style.near(axis, f"class {c}", at, aside, ha=ha, va="center", color=style.darker(colour), zorder=7)


def _vectors(table: pl.DataFrame) -> Floats:
    return table.select("p0", "p1", "p2").to_numpy()


DISTANCE_DRAWING = PreparedPicture(prepare_distance, draw_simplex_distance)
TRIANGLE_DRAWING = PreparedPicture(prepare_triangle, draw_triangle)
