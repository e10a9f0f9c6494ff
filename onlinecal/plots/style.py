"""The house style of all pictures: quiet axes, colours that everyone can tell apart, and labels at the lines.

A figure is written together with the numbers it was drawn from. Settings of matplotlib hold only inside of
`in_house_style`.

Nothing here has a state, and matplotlib's settings are put back. What is on Axes already is known by the gids
of its artists (`histories`): the next colour and whether a diagonal stands there follow from them. pyplot
keeps the figures that `axes_or_new` makes, until the user closes them. Colours and looks may change freely;
pictures of the pages are then drawn anew. The same numbers give the same bytes of a file, as no date is
written and ids of SVG are salted; `wilson_interval` and `moments_of` are part of the numbers in tables.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import cycle
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import polars as pl
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.colors import is_color_like, to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import isotonic_regression
from scipy.special import ndtri

from onlinecal.tables.columns import check_number_column
from onlinecal.tables.writing import whole, write_table
from onlinecal.texts import shown
from onlinecal.validation import as_whole, check_count, check_open_unit


class Picture(NamedTuple):
    """What a function of `onlinecal.plots` drew: on which axes, and which numbers.

    Attributes
    ----------
    ax
        The axes of matplotlib. `ax.figure.savefig(path)` writes the picture to a file; given as `ax` to
        another call, they get what that call draws as well.
    table
        The numbers that were drawn, a data frame of polars. The function that drew them says which columns
        there are.
    """

    ax: Axes
    table: pl.DataFrame


INK = "#222222"
QUIET = "#8a8a8a"
GRID = "#e6e6e6"

OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito's palette without black, which is for the theory, and yellow, which is too pale on white."""

HALO = [patheffects.withStroke(linewidth=3, foreground="white")]
"""A white edge around words that stand on lines."""

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
"""Decorates functions that draw or write a whole figure; after them matplotlib's settings are as before."""


def darker(colour: str) -> tuple[float, float, float]:
    """The colour for words: pale letters would be hard to read."""
    red, green, blue = to_rgb(colour)
    return 0.72 * red, 0.72 * green, 0.72 * blue


@dataclass(frozen=True)
class Look:
    """How one line is drawn wherever it appears: colour, a darker one for its name, dashes and marker."""

    colour: str
    dashes: Any = "-"
    marker: str = ""

    @property
    def text(self) -> tuple[float, float, float]:
        """The colour of the line's name."""
        return darker(self.colour)


def looks(names: Sequence[str]) -> dict[str, Look]:
    """A look for each name; after the last colour the palette begins again with other dashes and markers."""
    kinds = [(dashes, marker) for dashes, marker in zip(DASHES, MARKERS, strict=True) for _ in OKABE_ITO]
    return {name: Look(colour, *kind) for name, colour, kind in zip(names, cycle(OKABE_ITO), cycle(kinds))}


def panels(
    titles: Sequence[str],
    beside: Sequence[str] = (),
    height: float = 4.4,
    width: float = 4.3,
    share: bool = True,
    abreast: int = 2,
) -> tuple[Figure, list[Axes]]:
    """A figure with a panel for each title, at most `abreast` in a row; sizes are in inches.

    With `share` all panels have the same scales. The margins are fixed, with room for the names that will
    stand `beside` each panel, so that slopes and distances on the page are known while labels are placed.
    Titles and names that are too long for one line are broken into several, see `wrapped`.
    """
    left, top, bottom, above, between = 0.75, 1.15, 0.6, 0.85, 0.35
    lines = [line for name in beside for line in wrapped(name).split("\n")]
    right = 0.6 + 0.064 * max(map(len, lines)) if lines else 0.35
    titles = [wrapped(title, int((width + right) / TITLE_LETTER)) for title in titles]
    # every row of panels is moved down by the lines that its longest title has beyond the first
    more = TITLE_LINE * max(title.count("\n") for title in titles)
    top, above, between = top + more, above + more, between + more
    columns = min(len(titles), abreast)
    rows = math.ceil(len(titles) / columns)
    size = (columns * (left + width + right), above + rows * (bottom + height) + (rows - 1) * between + 0.3)
    figure = Figure(figsize=size)
    edges = {
        "left": left / size[0],
        "right": 1 - right / size[0],
        "top": 1 - top / size[1],
        "bottom": bottom / size[1],
        "wspace": (left + right) / width,
        "hspace": (bottom + between) / height,
    }
    axes = list(
        figure.subplots(rows, columns, sharex=share, sharey=share, squeeze=False, gridspec_kw=edges).flat
    )
    for spare in axes[len(titles) :]:
        spare.set_visible(False)
    for axis, title in zip(axes, titles, strict=False):
        axis.tick_params(labelbottom=True, labelleft=True)
        shrink(axis.set_title(title), (width + right) * figure.dpi)
    return figure, axes[: len(titles)]


def panels_by(
    table: pl.DataFrame, column: str, title: str, below: str, **sizes: Any
) -> tuple[Figure, list[tuple[str, pl.DataFrame, Axes]]]:
    """A figure with a panel for each value of a column, and a list of values, rows and panels."""
    parts = {str(name): rows for (name,), rows in table.group_by(column, maintain_order=True)}
    figure, axes = panels(list(parts), **sizes)
    headline(figure, title, below)
    return figure, list(zip(parts, parts.values(), axes, strict=True))


LONGEST_NAME, MOST_LINES = 40, 4
"""Letters in a line of a name that stands beside a panel, and lines of a name."""
TITLE_LETTER, TITLE_LINE = 0.092, 0.19
"""The width of a letter of a panel's title, and the height of its lines, in inches."""


def wrapped(text: str, letters: int = LONGEST_NAME) -> str:
    """The text in lines of at most so many letters, broken at spaces, and behind commas, colons and brackets.

    Names of adversaries have no spaces, and may be long. Of a name with more than MOST_LINES lines the last
    one ends in "…".
    """
    parts = re.findall(r"[^\s,:;\]|/]*[,:;\]|/]*\s*", text)
    lines = [""]
    for part in parts:
        if lines[-1] and len((lines[-1] + part).rstrip()) > letters:
            lines.append("")
        cut = textwrap.wrap(part, letters) if len(part.rstrip()) > letters else [part]
        lines[-1] += cut[0]
        lines += cut[1:]
    if len(lines) > MOST_LINES:
        lines = [*lines[: MOST_LINES - 1], lines[MOST_LINES - 1][: letters - 1] + "…"]
    return "\n".join(line.rstrip() for line in lines)


def place(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """New axes at a place in inches from the lower left corner."""
    across, up = figure.get_size_inches()
    return figure.add_axes((left / across, bottom / up, width / across, height / up))


def shrink(text: Text, room: float, least: float = 4.0) -> None:
    """Make a text small enough for a width of `room` pixels, but not smaller than `least` points."""
    # widths of letters are rounded to whole pixels, so one step may not be enough
    size = float(text.get_fontsize())
    while (wide := text.get_window_extent().width) > room and size > least:
        size = max(least, size * min(room / wide, 0.99))
        text.set_fontsize(size)


def headline(figure: Figure, text: str, below: str = "") -> None:
    """Write a title in bold at the top left, smaller if it would not fit, and a quieter line below."""
    width, height = figure.get_size_inches()
    title = figure.text(0.18 / width, 1 - 0.14 / height, text, fontsize=14, fontweight="bold", va="top")
    room = (1 - 0.46 / width) * figure.bbox.width
    shrink(title, room)
    quiet = figure.text(0.18 / width, 1 - 0.45 / height, below, fontsize=9.5, color="#555555", va="top")
    shrink(quiet, room, 8.0)
    quiet.set_wrap(True)


def colour_key(figure: Figure, words: Sequence[tuple[str, str]], inches: float = 0.69) -> None:
    """Write a legend of words, each (word, colour) in its colour, this many inches below the top."""
    width, height = figure.get_size_inches()
    x, y = 0.18 / width, 1 - inches / height
    for word, colour in words:
        text = figure.text(x, y, word, fontsize=9.5, color=colour, va="top", fontweight="bold")
        x += text.get_window_extent().width / figure.bbox.width + 0.22 / width


def name_lines(axis: Axes, ends: Mapping[str, tuple[float, Look]]) -> None:
    """Write each name at the right of the panel, at the height (data units) where the line of that look ends.

    Long names are `wrapped`. Names that would touch are moved apart; thin leaders tie them to their lines.
    """
    if not ends:
        return
    size = 8.0
    line = 1.25 * size * axis.figure.dpi / 72.0 / axis.bbox.height
    names = [wrapped(name) for name in ends]
    gaps = [line * (name.count("\n") + 1) for name in names]
    points = [(axis.get_xlim()[1], end) for end, _ in ends.values()]
    wanted = axis.transAxes.inverted().transform(axis.transData.transform(points))[:, 1].tolist()
    on_page: Any = {"transform": axis.transAxes, "clip_on": False}
    heights = spread(wanted, gaps)
    for name, (_, look), start, end in zip(names, ends.values(), wanted, heights, strict=True):
        bends = [1.008, 1.03, 1.075, 1.09], [start, start, end, end]
        axis.plot(*bends, color=look.colour, lw=0.7, solid_joinstyle="round", **on_page)
        va = "center" if "\n" in name else "center_baseline"
        axis.text(1.1, end, name, va=va, fontsize=size, linespacing=1.05, color=look.text, **on_page)


def spread(
    wanted: Sequence[float], sizes: float | Sequence[float], low: float = 0.0, high: float = 1.0
) -> list[float]:
    """Middles near the wanted ones, in their order, of texts of these heights, none of which touch.

    They are within low and high if they fit. Those that would touch are centred together on the mean of their
    wanted heights: these groups are the pools of an isotonic regression.
    """
    order = np.argsort(np.asarray(wanted), kind="stable")
    size = np.broadcast_to(sizes, len(wanted))[order]
    above = np.cumsum(size) - 0.5 * size
    pooled = isotonic_regression(np.asarray(wanted)[order] - above).x
    answer = np.empty(len(wanted))
    answer[order] = pooled.clip(low, max(high - float(size.sum()), low)) + above
    return answer.tolist()


def near(axis: Axes, text: str, at: tuple[float, float], aside: tuple[float, float], **look: Any) -> None:
    """Write a text beside a point in data units, `aside` points right of it and above it."""
    axis.annotate(text, at, aside, textcoords="offset points", **{"fontsize": 9, **look})


def along(axis: Axes, text: str, x: float, y: float, x2: float, y2: float, **look: Any) -> None:
    """Write just above the line from (x, y) to (x2, y2), in data units; with va="top" just below it."""
    (ax, ay), (bx, by) = axis.transData.transform([(x, y), (x2, y2)])
    usual: Any = {"va": "bottom", "fontsize": 8.5, "path_effects": HALO, "zorder": 6}
    angle = math.degrees(math.atan2(by - ay, bx - ax))
    axis.text(x, y, text, rotation=angle, rotation_mode="anchor", **{**usual, **look})


@in_house_style
def drawn(draw: Callable[[Axes], Any], size: tuple[float, float], title: str = "") -> Figure:
    """A figure of this size (inches) with a title; `draw` draws on its axes."""
    figure = Figure(figsize=size, layout="constrained")
    axis = figure.subplots()
    axis.set_title(title)
    draw(axis)
    return figure


class Rendered(NamedTuple):
    """A figure as the bytes of its files, and the table of the numbers in it."""

    png: bytes
    svg: bytes
    table: pl.DataFrame

    def write(self, stem: Path) -> Path:
        """Write <stem>.png, <stem>.svg and <stem>.csv, each only when it is complete; the path of the PNG."""
        stem.parent.mkdir(parents=True, exist_ok=True)
        for kind, content in (("png", self.png), ("svg", self.svg)):
            with whole(stem.with_name(f"{stem.name}.{kind}")) as part:
                part.write_bytes(content)
        write_table(self.table, stem.with_name(f"{stem.name}.csv"))
        return stem.with_name(f"{stem.name}.png")


@in_house_style
def rendered(figure: Figure, table: pl.DataFrame) -> Rendered:
    """A figure as its files; the same numbers give the same bytes, because no date is among them."""
    png, svg = BytesIO(), BytesIO()
    figure.savefig(png, format="png")
    # where everything stands is found out once, and takes as long as drawing it
    figure.set_layout_engine("none")
    figure.savefig(svg, format="svg", metadata={"Date": None})
    return Rendered(png.getvalue(), svg.getvalue(), table)


def write_figure(figure: Figure, table: pl.DataFrame, stem: Path) -> Path:
    """Write a figure and its numbers as `Rendered.write` does; the path of the PNG."""
    return rendered(figure, table).write(stem)


def lowest(*columns: pl.Series) -> float:
    """The smallest number in all columns, 0 if there is none; nulls and NaN do not count."""
    return float(_numbers(columns).min())


def highest(*columns: pl.Series) -> float:
    """The largest number in all columns, 0 if there is none; nulls and NaN do not count."""
    return float(_numbers(columns).max())


def _numbers(columns: Sequence[pl.Series]) -> NDArray[np.float64]:
    numbers = pl.concat([column.cast(pl.Float64) for column in columns]).fill_nan(None).drop_nulls()
    return numbers.to_numpy() if len(numbers) else np.zeros(1)


def wilson_interval(
    ones: NDArray[np.int64] | NDArray[np.float64], rounds: NDArray[np.int64], confidence: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both ends of Wilson's score interval for each frequency ones / rounds, within [0, 1].

    On average over chances, the interval holds the true chance as often as `confidence` says. If about .18
    events are expected in all, intervals for .95 do so in 84 % of cases: they are for pictures, not for
    tests.

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


BEFORE_COLOUR, AFTER_COLOUR = OKABE_ITO[1], OKABE_ITO[0]
"""The colours of forecasts before a recalibration, and of those after it or without one."""

KIND_PREFIX = "onlinecal-"
"""The names of kinds of pictures begin with this; the artist of a history has its kind as its gid."""


@in_house_style
def axes_or_new(axes: Axes | None, size: tuple[float, float]) -> Axes:
    """The axes given, or those of a new figure in the house style, which pyplot and notebooks show."""
    if isinstance(axes, Axes):
        return axes
    if axes is not None:
        raise ValueError(f"ax must be Axes of matplotlib, or None, got {shown(axes)}")
    # here only: pyplot chooses a backend when it is first imported
    from matplotlib import pyplot

    return pyplot.subplots(figsize=size, layout="constrained")[1]


def describe(axes: Axes, x: str, y: str, title: str = "", legend: bool = False) -> None:
    """Label the axes, unless they have labels already; with `legend` add a legend of all names."""
    axes.set_xlabel(axes.get_xlabel() or x)
    axes.set_ylabel(axes.get_ylabel() or y)
    if title and not any(axes.get_title(place) for place in ("left", "center", "right")):
        axes.set_title(title, loc="left", fontsize=11, fontweight="bold", color=INK)
    if legend:
        axes.legend(frameon=False, fontsize=9)


def histories(axes: Axes, kind: str = KIND_PREFIX) -> int:
    """How many histories of this kind of picture have been drawn on the axes; by default of all kinds."""
    return sum(str(artist.get_gid()).startswith(kind) for artist in axes.get_children())


def check_colour(color: Any) -> None:
    """ValueError if it is neither None nor a colour of matplotlib."""
    if color is not None and not is_color_like(color):
        raise ValueError(f"color must be a colour of matplotlib, as '#0072B2' or 'red', got {shown(color)}")


def check_names(names: Any, argument: str) -> list[str]:
    """The names in a sequence as texts; ValueError for what is none, or has no order, or a single text."""
    if isinstance(names, (str, bytes, set, frozenset)) or not isinstance(names, Iterable):
        raise ValueError(f"{argument} must be a list of names, got {shown(names)}")
    return [str(name) for name in names]


def marker_of(table: pl.DataFrame) -> str:
    """The marker of a line through a table's rows: none, but a dot where one row alone makes no line."""
    return "o" if table.height == 1 else ""


def next_colour(axes: Axes) -> str:
    """The colour of the palette for the next history on the axes."""
    return OKABE_ITO[histories(axes) % len(OKABE_ITO)]


def moments_of(rounds: int | ArrayLike, n_rounds: int | None = None) -> NDArray[np.int64]:
    """After how many rounds to measure: at `rounds` evenly spread moments, or at the moments given.

    Given moments must be whole numbers from 1 to n_rounds, if that is known, that do not decrease.
    """
    # an array without axes is the number in it
    rounds = as_whole(rounds.item() if isinstance(rounds, np.ndarray) and not rounds.ndim else rounds)
    if n_rounds is not None and isinstance(rounds, (int, np.integer)):
        number = min(check_count(rounds, "rounds"), n_rounds)
        return np.unique(np.linspace(0, n_rounds, number + 1)[1:].round().astype(np.int64))
    if n_rounds is not None and (rounds is None or isinstance(rounds, (str, bytes, Real))):
        raise ValueError(
            f"rounds must be a whole number of moments, or a list of the moments, got {shown(rounds)}"
        )
    moments = check_number_column(rounds, "rounds", "be whole numbers")
    if (moments % 1 == 0).all():
        whole = moments.astype(np.int64)
        if whole[0] >= 1 and (np.diff(whole) >= 0).all() and (n_rounds is None or whole[-1] <= n_rounds):
            return whole
    raise ValueError(
        f"rounds must be whole numbers from 1 to {n_rounds or 'T'} in order, got {shown(rounds)}"
    )
