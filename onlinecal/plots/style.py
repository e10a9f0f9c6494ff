"""The house style of the pictures: quiet axes, colours that everyone can tell apart, direct labels; own axes.

Figures on disk are a picture and the numbers it was drawn from, side by side.

Of the ends of columns polars says only that they are of some type or missing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib
import numpy as np
import polars as pl
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import isotonic_regression
from scipy.special import ndtri

from onlinecal.tables import whole, write_table
from onlinecal.validation import check_count, check_open_unit, check_vector

INK = "#222222"
QUIET = "#8a8a8a"
GRID = "#e6e6e6"

OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito's palette without black, kept for the theory, and yellow, too pale on white."""

HALO = [patheffects.withStroke(linewidth=3, foreground="white")]
"""White around words that stand on lines."""

DASHES = ("-", (0, (4, 1.5)), (0, (1.2, 1.2)))
MARKERS = ("o", "s", "^")

RC: Any = {
    "figure.dpi": 100,
    "savefig.dpi": 150,
    "savefig.facecolor": "white",
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "svg.hashsalt": "onlinecal",
}

in_house_style = matplotlib.rc_context(RC)
"""Decorates what draws or writes a whole figure; afterwards the settings of matplotlib are as before."""


@dataclass(frozen=True)
class Look:
    """How one line is drawn wherever it appears: colour, a darker one for its name, dashes and marker."""

    colour: str
    text: tuple[float, float, float]
    dashes: str | tuple[float, tuple[float, ...]]
    marker: str


def darker(colour: str) -> tuple[float, float, float]:
    """The colour as words have it: pale letters would be hard to read."""
    red, green, blue = to_rgb(colour)
    return 0.72 * red, 0.72 * green, 0.72 * blue


def looks(names: Sequence[str]) -> dict[str, Look]:
    """A look for each name; the palette comes round with other dashes and markers."""
    answer = {}
    for place, name in enumerate(names):
        round_trip, place = divmod(place, len(OKABE_ITO))
        colour, kind = OKABE_ITO[place], round_trip % len(MARKERS)
        answer[name] = Look(colour, darker(colour), DASHES[kind], MARKERS[kind])
    return answer


NEXT = 0.6
"""Inches before a panel in which the numbers of its axis stand."""
LEAST_TITLE = 0.7
"""By how much a panel's title is made smaller at most."""

MOST_LARGE = 6
"""Up to so many panels each gets room for names beside it; more of them are small, four abreast."""


def are_small(names: Sequence[str]) -> bool:
    """Whether there are so many panels that each has to be small."""
    return len(names) > MOST_LARGE


def panels(
    names: Sequence[str],
    beside: Sequence[str] = (),
    height: float = 4.4,
    width: float = 4.3,
    right: float | None = None,
    share: bool = True,
    abreast: int = 2,
) -> tuple[Figure, dict[str, Axes]]:
    """A figure with one panel per name, so many abreast, or four small ones; `share`: of the same axes.

    Sizes in inches. The margins are fixed, with room (`right`) for the names that will stand beside each
    panel, so that slopes and distances on the page are known while labels are placed.
    """
    columns = min(len(names), abreast)
    left, top, bottom, above, between = 0.75, 1.15, 0.6, 0.85, 0.35
    if right is None:
        right = 0.35 if not beside else 0.6 + min(0.064 * max(map(len, beside)), 4.0)
    if are_small(names):
        columns, width, height, left, right = 4, 2.3, 2.2, 0.6, 0.15
        bottom, top, above, between = 0.45, 1.3, 1.0, 0.1
    rows = math.ceil(len(names) / columns)
    size = (columns * (left + width + right), above + rows * (bottom + height) + (rows - 1) * between + 0.3)
    figure = Figure(figsize=size)
    axes = figure.subplots(
        rows,
        columns,
        sharex=share,
        sharey=share,
        squeeze=False,
        gridspec_kw={
            "left": left / size[0],
            "right": 1 - right / size[0],
            "top": 1 - top / size[1],
            "bottom": bottom / size[1],
            "wspace": (left + right) / width,
            "hspace": (bottom + between) / height,
        },
    )
    flat = list(axes.flat)
    for spare in flat[len(names) :]:
        spare.set_visible(False)
    for axis in flat:
        axis.tick_params(labelbottom=True, labelleft=True)
        if are_small(names):
            axis.tick_params(labelsize=7.5, length=2.5)
    return figure, dict(zip(names, flat, strict=False))


def title_panel(axis: Axes, text: str, size: float = 11.0) -> None:
    """Write a panel's title, smaller where it would not fit, and cut with a sign where that is not enough.

    It may go on over the names beside its panel, as far as the next one.
    """
    title, figure = axis.set_title(text, fontsize=size), axis.figure
    beyond = [one.bbox.x0 - NEXT * figure.dpi for one in figure.axes if one.bbox.x0 > axis.bbox.x1]
    room = 0.98 * (min([*beyond, figure.bbox.width]) - axis.bbox.x0)
    shrink(title, room, LEAST_TITLE * size)
    while len(text) > 1 and title.get_window_extent().width > room:
        text = text.removesuffix("…")[:-1] + "…"
        title.set_text(text)


def shrink(text: Text, room: float, least: float = 4.0) -> None:
    """Make a text small enough for so many pixels, but not smaller than `least` points."""
    # letters are as wide as whole pixels allow, so one step may not be enough
    size = float(text.get_fontsize())
    while (wide := text.get_window_extent().width) > room and size > least:
        size = max(least, size * min(room / wide, 0.99))
        text.set_fontsize(size)


def label_axes(axes: dict[str, Axes], x: str, y: str) -> None:
    """Say what the axes show: beside every panel, of small ones only where a row or a column ends."""
    if not are_small(list(axes)):
        for axis in axes.values():
            axis.set_xlabel(x)
            axis.set_ylabel(y)
        return
    for place, axis in enumerate(axes.values()):
        if place + 4 >= len(axes):
            axis.set_xlabel(x, fontsize=8.5)
        if place % 4 == 0:
            axis.set_ylabel(y, fontsize=8.5)


def headline(figure: Figure, text: str, below: str = "") -> None:
    """What is seen, in bold at the top left, smaller where it would not fit, and a quieter line below."""
    width, height = figure.get_size_inches()
    title = figure.text(0.18 / width, 1 - 0.14 / height, text, fontsize=14, fontweight="bold", va="top")
    room = (1 - 0.46 / width) * figure.bbox.width
    shrink(title, room)
    quiet = figure.text(0.18 / width, 1 - 0.45 / height, below, fontsize=9.5, color="#555555", va="top")
    if quiet.get_window_extent().width * LEAST_TITLE > room:
        # two lines of smaller letters take little more than one
        longest = max(map(len, below.split("\n")))
        quiet.set_text("\n".join(fill(line, longest // 2 + 8) for line in below.split("\n")))
        quiet.set_fontsize(8.0)
    shrink(quiet, room)


def colour_key(
    figure: Figure, words: Sequence[tuple[str, str]], begin: str = "", inches: float = 0.69
) -> None:
    """A legend in words, each (word, colour) in its colour, on a line so many inches below the top."""
    width, height = figure.get_size_inches()
    x, y = 0.18 / width, 1 - inches / height
    for place, (word, colour) in enumerate([(begin, "#555555"), *words] if begin else words):
        weight = "normal" if begin and place == 0 else "bold"
        text = figure.text(x, y, word, fontsize=9.5, color=colour, va="top", fontweight=weight)
        x += text.get_window_extent().width / figure.bbox.width + 0.22 / width


def name_lines(
    axis: Axes,
    ends: dict[str, float],
    look: dict[str, Look],
    size: float = 8.0,
    beside: Mapping[str, str] | None = None,
) -> None:
    """Write each name at the right of the panel, at the height (data units) where its line ends.

    Names that would touch are moved apart; thin leaders tie them to their lines. What stands `beside` a name
    makes a column of its own, flush right.
    """
    if not ends:
        return
    points = axis.bbox.width / axis.figure.dpi * 72.0
    column = 1.1 + (0.62 * max(map(len, ends)) + 7.0) * size / points
    height = axis.bbox.height / axis.figure.dpi * 72.0
    to_axes = axis.transAxes.inverted()
    edge = axis.get_xlim()[1]
    wanted = [float(to_axes.transform(axis.transData.transform((edge, end)))[1]) for end in ends.values()]
    gap = 1.25 * size / height
    heights = spread(wanted, gap, 0.5 * gap, 1.0 - 0.5 * gap)
    for name, start, end in zip(ends, wanted, heights, strict=True):
        one = look[name]
        axis.plot(
            [1.008, 1.03, 1.075, 1.09], [start, start, end, end], transform=axis.transAxes, clip_on=False,
            color=one.colour, lw=0.7, solid_joinstyle="round",
        )  # fmt: skip
        axis.text(
            1.1, end, name, transform=axis.transAxes, va="center_baseline", fontsize=size, color=one.text
        )
        if beside is not None:
            axis.text(
                column, end, beside[name], transform=axis.transAxes, va="center_baseline", ha="right",
                fontsize=size, color=one.text,
            )  # fmt: skip


def spread(wanted: Sequence[float], gap: float, low: float = 0.0, high: float = 1.0) -> list[float]:
    """Heights near the wanted ones, in their order, at least `gap` apart, within low and high if they fit.

    Groups of names that touch are centred on what they wanted, as the pools of isotonic regression.
    """
    order = np.argsort(np.asarray(wanted), kind="stable")
    above = gap * np.arange(len(wanted))
    pooled = isotonic_regression(np.asarray(wanted)[order] - above).x
    answer = np.empty(len(wanted))
    answer[order] = pooled.clip(low, max(high - above[-1], low)) + above
    return answer.tolist()


def near(axis: Axes, text: str, at: tuple[float, float], aside: tuple[float, float], **look: Any) -> None:
    """Write beside a point in data units, so many points to the right and above it."""
    axis.annotate(text, at, aside, textcoords="offset points", **{"fontsize": 9, **look})


def along(axis: Axes, text: str, x: float, y: float, x2: float, y2: float, **style: Any) -> None:
    """Write along the line from (x, y) to (x2, y2), data units, just above it (or below: va="top")."""
    (ax, ay), (bx, by) = axis.transData.transform([(x, y), (x2, y2)])
    angle = math.degrees(math.atan2(by - ay, bx - ax))
    settings: dict[str, Any] = {
        "va": "bottom",
        "fontsize": 8.5,
        "path_effects": HALO,
        "zorder": 6,
        **style,
    }
    axis.text(x, y, text, rotation=angle, rotation_mode="anchor", **settings)


@in_house_style
def write_figure(figure: Figure, table: pl.DataFrame, stem: Path) -> Path:
    """Write <stem>.png, <stem>.svg and <stem>.csv, each only when it is complete; the path of the PNG."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    # without a date the same numbers give the same bytes
    for kind, metadata in (("svg", {"Date": None}), ("png", {})):
        with whole(stem.with_name(f"{stem.name}.{kind}")) as part:
            figure.savefig(part, format=kind, metadata=metadata)
    write_table(table, stem.with_name(f"{stem.name}.csv"))
    return stem.with_name(f"{stem.name}.png")


def lowest(*columns: pl.Series, empty: float = 0.0) -> float:
    """The smallest number in all the columns, `empty` if there is none; nulls and NaN are no numbers."""
    numbers = _numbers(columns)
    return float(numbers.min()) if len(numbers) else empty


def highest(*columns: pl.Series, empty: float = 0.0) -> float:
    """The largest number in all the columns, `empty` if there is none; nulls and NaN are no numbers."""
    numbers = _numbers(columns)
    return float(numbers.max()) if len(numbers) else empty


def _numbers(columns: tuple[pl.Series, ...]) -> NDArray[np.float64]:
    together = pl.concat([column.cast(pl.Float64) for column in columns])
    return together.fill_nan(None).drop_nulls().to_numpy()


def wilson_interval(
    ones: NDArray[np.int64] | NDArray[np.float64], rounds: NDArray[np.int64], confidence: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both ends of Wilson's score interval for each frequency ones / rounds, within [0, 1].

    Wilson, "Probable inference, the law of succession, and statistical inference" (1927).
    """
    z = ndtri((1.0 + check_open_unit(confidence, "confidence")) / 2.0)
    frequency = ones / rounds
    centre = frequency + z**2 / (2.0 * rounds)
    reach = z * np.sqrt(frequency * (1.0 - frequency) / rounds + (z / (2.0 * rounds)) ** 2)
    whole = 1.0 + z**2 / rounds
    # rounding must not push an end beyond 0, 1 or the frequency itself
    low = np.clip((centre - reach) / whole, 0.0, frequency)
    return low, np.clip((centre + reach) / whole, frequency, 1.0)


BEFORE, AFTER = OKABE_ITO[1], OKABE_ITO[0]
"""The colours of what stood before a recalibration, and of what came out or stands alone."""

OURS = "onlinecal-"
"""What the names of kinds of pictures begin with; the artist of a history carries its kind as its gid."""


def axes_or_new(axes: Axes | None, size: tuple[float, float] = (5.0, 5.0)) -> Axes:
    """The axes given, or those of a new figure in the house style, which pyplot and notebooks show."""
    if axes is not None:
        return axes
    # here only: pyplot chooses a backend when it is first imported
    from matplotlib import pyplot

    _, answer = pyplot.subplots(figsize=size, layout="constrained")
    answer.spines[["top", "right"]].set_visible(False)
    answer.spines[["left", "bottom"]].set_color(QUIET)
    answer.grid(True, color=GRID, linewidth=0.7)
    answer.set_axisbelow(True)
    answer.tick_params(color=QUIET, labelcolor=INK)
    return answer


def describe(axes: Axes, x: str, y: str, title: str = "") -> None:
    """Label the axes; what somebody has written there already stays."""
    axes.set_xlabel(axes.get_xlabel() or x)
    axes.set_ylabel(axes.get_ylabel() or y)
    if title and not any(axes.get_title(place) for place in ("left", "center", "right")):
        axes.set_title(title, loc="left", fontsize=11, fontweight="bold", color=INK)


def next_colour(axes: Axes) -> str:
    """The first colour of the palette for the first history on the axes, then the others."""
    drawn = sum(str(artist.get_gid()).startswith(OURS) for artist in axes.get_children())
    return OKABE_ITO[drawn % len(OKABE_ITO)]


def draw_line(
    axes: Axes,
    table: pl.DataFrame,
    column: str,
    kind: str,
    color: str,
    *,
    dashes: Any = "-",
    width: float = 1.8,
    label: str | None = None,
) -> None:
    """Draw a column of a history against the column round, as this kind of picture."""
    (line,) = axes.plot(
        table["round"], table[column], color=color, ls=dashes, lw=width, label=label, zorder=3
    )
    line.set_gid(kind)


def draw_dumbbells(
    axes: Axes,
    names: Sequence[str],
    values: Mapping[str, NDArray[np.float64]],
    rows: Sequence[int] | pl.Series,
    apart: float = 0.0,
) -> NDArray[np.int64]:
    """A line for each name from the top down: a dot for each of its values, or for before and after.

    Before stands so much above the line and after below it; when both are on it, they are joined. Beside the
    axes stand numbers of rows, if there are some. The heights of the lines come back.
    """
    heights = np.arange(len(names))[::-1]
    if len(values) == 2 and not apart:
        begins, ends = values.values()
        axes.hlines(heights, begins, ends, color=QUIET, lw=1.6, zorder=3)
    look: Any = {"s": 58, "edgecolor": "white", "lw": 0.7}
    for place, (kind, one) in enumerate(values.items()):
        colour = BEFORE if kind == "before" else AFTER
        aside = {"before": apart, "after": -apart}.get(kind, 0.0)
        axes.scatter(one, heights + aside, color=colour, zorder=4 + place, label=kind, **look)
    axes.set_ylim(-0.7, len(names) - 0.3)
    axes.set_yticks(heights, names, fontsize=8.5, color=INK)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    beside: Any = {"transform": axes.get_yaxis_transform(), "fontsize": 8, "color": QUIET}
    for height, count in zip(heights, rows, strict=False):
        axes.text(1.013, height, f"{count:,}", va="center_baseline", **beside)
    if len(rows):
        axes.text(1.013, len(names) - 0.2, "rows", **beside)
    return heights


def is_first(axes: Axes, kind: str) -> bool:
    """Whether no history has been drawn on the axes as this kind of picture."""
    return all(artist.get_gid() != kind for artist in axes.get_children())


def name_histories(axes: Axes, label: str | None) -> None:
    """A legend, if the history that was drawn last has a name."""
    if label is not None:
        axes.legend(frameon=False, fontsize=9)


def moments_of(rounds: int | ArrayLike, n_rounds: int) -> NDArray[np.int64]:
    """After how many of n_rounds something is measured: so many moments, evenly spread, or those given."""
    if isinstance(rounds, (int, np.integer)):
        number = min(check_count(rounds, "rounds"), n_rounds)
        return np.unique(np.linspace(0, n_rounds, number + 1)[1:].round().astype(np.int64))
    return check_moments(rounds, n_rounds)


def check_moments(rounds: ArrayLike, most: int | None = None) -> NDArray[np.int64]:
    """After how many rounds something was measured: whole numbers from 1 to `most` that do not decrease."""
    moments = check_vector(rounds, "rounds")
    if moments.dtype.kind in "iu":
        whole = moments.astype(np.int64)
        if whole[0] >= 1 and (np.diff(whole) >= 0).all() and (most is None or whole[-1] <= most):
            return whole
    raise ValueError(f"rounds must be whole numbers from 1 to {most or 'T'} in order, got {rounds!r}")
