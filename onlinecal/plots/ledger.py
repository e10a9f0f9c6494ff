"""Pictures of a ledger's keys: their certificates, what they wait for, how often what was forecast came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from numpy.typing import NDArray

from onlinecal.plots.reliability_diagram import reliability_panels
from onlinecal.plots.style import (
    AFTER,
    BEFORE,
    HALO,
    INK,
    QUIET,
    darker,
    headline,
    highest,
    in_house_style,
    near,
    wilson_interval,
)
from onlinecal.tables import number

if TYPE_CHECKING:
    from onlinecal.engine.ledger.report import Report

Dots = NDArray[np.float64]

KEY, MARKED = AFTER, BEFORE
"""A key's dot, and that of a key to look at."""

FEW = 12
"""Up to so many keys all are named."""

LONGEST = 28
"""Characters of a name in a picture."""


def key_numbers(report: Report) -> pl.DataFrame:
    """A row a key: key, rounds, open, expired, certificate, guarantee (sums), waited, events.

    `waited`: events since the key's oldest open forecast was asked for, null if none is open; `events`: all
    that the ledger has.
    """
    counts, bounds = ("rounds", "open", "expired"), ("certificate", "guarantee")
    rows = [
        {
            "key": key.name,
            **{name: getattr(key.summary, name) for name in (*counts, *bounds)},
            "waited": None if key.summary.oldest is None else report.events - key.summary.oldest,
            "events": report.events,
        }
        for key in report.keys
    ]
    whole, real = dict.fromkeys(counts, pl.Int64), dict.fromkeys(bounds, pl.Float64)
    schema = {"key": pl.String, **whole, **real, "waited": pl.Int64, "events": pl.Int64}
    return pl.DataFrame(rows, schema=schema)


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
        if limits[0] > 0 and limits[1] / limits[0] < 200.0:
            one.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))


def draw_dots(
    axis: Axes, dots: Dots, names: Sequence[str], marked: Sequence[int], others: Sequence[Dots] = ()
) -> None:
    """Draw a dot for each key, shape (n, 2), few of them with all their names, of many those `marked`.

    Few dots are large, of many one still sees where they lie thickest. Names stay off the `others`, too.
    """
    few = len(dots) <= FEW
    size, strength = size_and_strength(len(dots))
    axis.scatter(dots[:, 0], dots[:, 1], s=size, alpha=strength, color=KEY, lw=0, zorder=3, clip_on=False)
    if not few:
        x, y = dots[marked].T
        axis.scatter(x, y, s=max(30.0, size), color=MARKED, lw=0, zorder=5)
    places = range(len(dots)) if few else marked
    _name_dots(axis, np.vstack([dots, *others]), {at: names[at] for at in places}, KEY if few else MARKED)


def size_and_strength(dots: int) -> tuple[float, float]:
    """Of each of so many dots."""
    crowd = min(max((dots / FEW) ** -0.25, 0.17), 1.0)
    return 70.0 * crowd**1.4, max(0.25, 0.9 * crowd**0.7)


def most(table: pl.DataFrame, column: str, number: int) -> list[int]:
    """The places of the rows with the largest numbers in a column, of equal ones the first."""
    order = np.argsort(-table[column].fill_null(0).to_numpy(), kind="stable")
    return order[:number].tolist()


def _name_dots(axis: Axes, dots: Dots, names: Mapping[int, str], colour: str) -> None:
    """Write names beside dots, each as near as it can be without covering other names and many dots.

    `dots` of shape (n, 2), all that the panel shows, in data units; `names` by a dot's place among them.
    """
    size = 8.5
    wide, high = (72.0 * pixels / axis.figure.dpi for pixels in (axis.bbox.width, axis.bbox.height))
    line, aside = 1.3 * size / high, 14.0 / wide
    at = axis.transAxes.inverted().transform(axis.transData.transform(dots))
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
        look: Any = {"fontsize": size, "color": darker(colour), "path_effects": HALO, "zorder": 6}
        look |= {"transform": axis.transAxes, "ha": "left" if side > 0 else "right"}
        axis.text(near, middle, f" {shortened(name)} ", va="center_baseline", **look)


def shortened(name: str) -> str:
    """A name as it fits into a picture, every character as it is."""
    short = name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
    return short.replace("$", r"\$")


ONE_AGE = 1.5
"""Keys are of one age if the oldest has not so many times the rounds of the youngest."""
CERTIFICATE_MARKS = 5
"""Among many keys, so many with the most open forecasts are named."""


@in_house_style
def draw_certificates(table: pl.DataFrame) -> Figure:
    """A dot per key with rounds: its certificate per round against its rounds; dashes: its guarantee."""
    rounds, certificates, guarantees = table.select("rounds", "certificate", "guarantee").to_numpy().T
    total, average = rounds.sum(), certificates.sum() / rounds.sum()
    keys = "the only key is" if table.height == 1 else f"all {number(table.height)} keys together are"
    figure, axis = dots_figure(
        f"Proven: {keys} at most {average:.4f} per round from calibrated",
        "One dot per key. Grey dashes: its guarantee per round, which counts how late its labels were; at "
        "most 1.",
        "rounds settled",
        "certificate per round",
    )
    per_round, promised = certificates / rounds, np.minimum(guarantees / rounds, 1.0)
    bottom = 0.6 * min(per_round[per_round > 0].min(initial=0.1), promised.min(), average or 0.1)
    few = table.height <= FEW
    if alike := not few and rounds.max() < ONE_AGE * rounds.min():
        # on an axis of rounds the dots would lie on one another
        across = np.argsort(np.argsort(per_round, kind="stable")) + 1.0
        axis.set(xscale="linear", xlim=(0, 1.08 * table.height), ylim=(bottom, 1.25))
        axis.set_xlabel(
            f"keys in the order of their certificates, each of about {np.median(rounds):,.0f} rounds"
        )
    else:
        across = rounds
        axis.set(xlim=(rounds.min() / 1.6, max(total, rounds.max() * 1.3) * 1.6), ylim=(bottom, 1.25))
    label_ticks(axis)
    # a certificate of 0 lies on the lower edge
    dots = np.column_stack((across, np.maximum(per_round, bottom)))
    if few:
        axis.vlines(across, dots[:, 1], promised, color=QUIET, lw=0.8, alpha=0.6, zorder=2)
    size, strength = size_and_strength(table.height)
    dash: Any = {"s": 4 * size, "alpha": strength, "lw": 1.2 if few else 0.8}
    axis.scatter(across, promised, marker="_", color=QUIET, zorder=2, **dash)
    others = []
    if table.height > 1:
        x, y = together = 1.04 * table.height if alike else total, max(average, bottom)
        others = [np.array(together)]
        axis.scatter(x, y, marker="D", color=INK, s=60, zorder=5)
        aside = 0, -18 if alike else 9
        near(axis, "all keys", together, aside, ha="center", weight="bold", path_effects=HALO, zorder=6)
    names = [
        f"{name}, {number(waiting)} open" if waiting else name
        for name, waiting in table.select("key", "open").iter_rows()
    ]
    marked = [at for at in most(table, "open", CERTIFICATE_MARKS) if table["open"][at]]
    draw_dots(axis, dots, names, marked, others)
    return figure


WAITING_MARKS = 4
"""Among many keys, so many that wait for most are named, and so many that wait longest."""


@in_house_style
def draw_waiting(table: pl.DataFrame) -> Figure:
    """A dot per key with open forecasts: so many against the events since the oldest was asked for."""
    waiting, longest = int(table["open"].sum()), int(highest(table["waited"]))
    keys = "one key waits" if table.height == 1 else f"{number(table.height)} keys wait"
    figure, axis = dots_figure(
        f"{keys} for {number(waiting)} outcomes, the longest for {number(longest)} events",
        f"One dot per key with open forecasts. Time is counted in events of all keys, of which the ledger "
        f"has {number(table['events'][0])}.",
        "events since the key's oldest open forecast",
        "open forecasts of the key",
    )
    # the last event of all is 0 events ago
    dots = table.select(pl.col("waited").clip(1), "open").to_numpy()
    (left, _), (right, top) = dots.min(axis=0), dots.max(axis=0)
    axis.set(xlim=(max(0.5, left / 1.6), right * 1.6), ylim=(0.7, max(top, 5) * 1.5))
    label_ticks(axis)
    marked = dict.fromkeys(at for column in ("open", "waited") for at in most(table, column, WAITING_MARKS))
    draw_dots(axis, dots, table["key"].to_list(), list(marked))
    return figure


def frequency_numbers(report: Report) -> pl.DataFrame:
    """A row for each bin: of (hints or forecasts), forecast, frequency, rounds, low and high (95 %)."""
    rows = [
        (of, one.forecast, one.outcome, one.rounds)
        for of, side in (("hints", report.hints), ("forecasts", report.forecasts))
        for one in (() if side is None else side.bins)
    ]
    table = pl.DataFrame(rows, ["of", "forecast", "frequency", "rounds"], orient="row")
    rounds = table["rounds"].to_numpy().astype(np.int64)
    low, high = wilson_interval(table["frequency"].to_numpy().astype(float) * rounds, rounds, 0.95)
    return table.with_columns(pl.Series("low", low), pl.Series("high", high))


def draw_frequencies(table: pl.DataFrame) -> Figure:
    """A panel for the hints, if there are some, and one for the forecasts."""
    rounds = int(table.filter(pl.col("of") == "forecasts")["rounds"].sum())
    title = f"How often what was forecast came: {number(rounds)} rounds of all keys"
    colours = (BEFORE, AFTER) if "hints" in table["of"] else (AFTER,)
    figure = reliability_panels(table, "of", title, colours)
    for axis in figure.axes:
        axis.set_ylabel("frequency of the outcome")
    return figure
