"""Pictures of a ledger's keys: their certificates, and the frequencies of outcomes after forecasts.

`..._numbers` computes a table of a report, and all measured numbers that `draw_...` draws are in it. Nothing
has a state, and the ledger is not opened here. The columns are those of the files that are written beside
pictures. How pictures look may change freely, the limits below included.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from msgspec.structs import asdict

from onlinecal.arrays import Floats
from onlinecal.plots import style
from onlinecal.plots.reliability_diagram import reliability_panels
from onlinecal.texts import number

if TYPE_CHECKING:
    from onlinecal.engine.ledger.report import Report

MOST_NAMED_KEYS = 12
"""Up to this many keys, all of them are named."""
DOT_LOOKS = {True: (70.0, 0.9), False: (18.0, 0.35)}
"""Area and opacity of each dot, if all keys are named and if not."""
MOST_MARKED = 5
"""With more keys, this many are named, those with the largest certificates per round."""


def key_numbers(report: Report) -> pl.DataFrame:
    """A row for each key: key, rounds, open, expired, certificate and guarantee (sums)."""
    rows = [{"key": key.name, **asdict(key.summary)} for key in report.keys]
    counts, bounds = ("rounds", "open", "expired"), ("certificate", "guarantee")
    numbers = {**dict.fromkeys(counts, pl.Int64), **dict.fromkeys(bounds, pl.Float64)}
    return pl.DataFrame(rows, schema={"key": pl.String, **numbers})


def draw_dots(axis: Axes, dots: Floats, names: Sequence[str], marked: Sequence[int]) -> None:
    """Draw a dot for each key, shape (n, 2), with all names if there are few keys, else those of `marked`.

    Few dots are large; many are small and pale, so that one sees where most of them lie. Names that touch are
    moved apart.
    """
    few = len(dots) <= MOST_NAMED_KEYS
    places, colour = (list(range(len(dots))), style.AFTER_COLOUR) if few else (marked, style.BEFORE_COLOUR)
    size, strength = DOT_LOOKS[few]
    x, y = dots.T
    axis.scatter(x, y, s=size, alpha=strength, color=style.AFTER_COLOUR, lw=0, zorder=3, clip_on=False)
    axis.scatter(x[places], y[places], s=max(30.0, size), color=colour, lw=0, zorder=5)
    at = axis.transAxes.inverted().transform(axis.transData.transform(dots[places]))
    heights = style.spread(at[:, 1].tolist(), 0.035)
    for place, (left, up), height in zip(places, at.tolist(), heights, strict=True):
        aside, ha = (0.02, "left") if left < 0.6 else (-0.02, "right")
        axis.plot(
            [left, left + aside], [up, height], transform=axis.transAxes, color=colour, lw=0.7, zorder=4
        )
        look: Any = {"fontsize": 8.5, "color": style.darker(colour), "path_effects": style.HALO, "zorder": 6}
        where: Any = {"transform": axis.transAxes, "ha": ha, "va": "center_baseline"}
        axis.text(left + aside, height, f" {names[place]} ".replace("$", r"\$"), **look, **where)


@style.in_house_style
def draw_certificates(table: pl.DataFrame) -> Figure:
    """Draw a dot for each row, at its rounds and certificate per round. Dashes: guarantees.

    Each row of the table must have rounds > 0: `stream report` leaves out keys that have none.
    """
    rounds, certificates, guarantees = table.select("rounds", "certificate", "guarantee").to_numpy().T
    total, average = rounds.sum(), certificates.sum() / rounds.sum()
    figure = Figure(figsize=(9.6, 6.2))
    axis = figure.subplots(gridspec_kw={"left": 0.085, "right": 0.975, "top": 0.855, "bottom": 0.1})
    style.headline(
        figure,
        f"Proven: all keys together are at most {average:.4f} per round from calibrated",
        "One dot per key. Grey dashes: its guarantee per round, which counts how late its labels were; at "
        "most 1.",
    )
    axis.set(xscale="log", yscale="log", xlabel="rounds settled", ylabel="certificate per round")
    axis.minorticks_off()
    for scale in (axis.xaxis, axis.yaxis):
        scale.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=99))
        scale.set_major_formatter(lambda value, _: number(value))
    per_round, promised = certificates / rounds, np.minimum(guarantees / rounds, 1.0)
    bottom = 0.6 * min(per_round[per_round > 0].min(initial=0.1), promised.min(), average or 0.1)
    axis.set(xlim=(rounds.min() / 1.6, max(total, rounds.max() * 1.3) * 1.6), ylim=(bottom, 1.25))
    # a certificate of 0 lies on the lower edge
    dots = np.column_stack((rounds, np.maximum(per_round, bottom)))
    size, strength = DOT_LOOKS[table.height <= MOST_NAMED_KEYS]
    axis.scatter(rounds, promised, marker="_", color=style.QUIET, zorder=2, s=4 * size, alpha=strength, lw=1)
    if table.height > 1:
        together = total, max(average, bottom)
        axis.scatter(*together, marker="D", color=style.INK, s=60, zorder=5)
        style.near(
            axis, "all keys", together, (0, 9), ha="center", weight="bold", path_effects=style.HALO, zorder=6
        )
    highest_first = np.argsort(-per_round, kind="stable")
    draw_dots(axis, dots, table["key"].to_list(), highest_first[:MOST_MARKED].tolist())
    return figure


def frequency_numbers(report: Report) -> pl.DataFrame:
    """A row for each bin: of ("hints" or "forecasts"), forecast, frequency, rounds, low and high (95 %)."""
    rows = [
        (of, part.forecast, part.outcome, part.rounds)
        for of, side in (("hints", report.hints), ("forecasts", report.forecasts))
        for part in (() if side is None else side.bins)
    ]
    table = pl.DataFrame(rows, ["of", "forecast", "frequency", "rounds"], orient="row")
    rounds = table["rounds"].to_numpy().astype(np.int64)
    low, high = style.wilson_interval(table["frequency"].to_numpy().astype(float) * rounds, rounds, 0.95)
    return table.with_columns(pl.Series("low", low), pl.Series("high", high))


def draw_frequencies(table: pl.DataFrame) -> Figure:
    """Draw a panel for the hints, if there are some, and one for the forecasts."""
    rounds = int(table.filter(pl.col("of") == "forecasts")["rounds"].sum())
    title = f"How often what was forecast came: {number(rounds)} rounds of all keys"
    colours = (style.BEFORE_COLOUR, style.AFTER_COLOUR) if "hints" in table["of"] else (style.AFTER_COLOUR,)
    return reliability_panels(table, "of", title, colours)
