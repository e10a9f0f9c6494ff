"""The error on tested rows against the number of fitted rows."""

from __future__ import annotations

import math

import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from onlinecal.plots.columns import highest
from onlinecal.plots.style import QUIET, Look, headline, in_house_style, looks, name_lines

OWN = "lp"


@in_house_style
def draw(table: pl.DataFrame) -> Figure:
    """The method's error with its range over subsets; the rivals, fitted on all rows, as levels.

    Columns method, n, low, error, high, p, n_levels.
    """
    figure = Figure(figsize=(8.6, 5.0))
    axis = figure.add_axes((0.095, 0.115, 0.67, 0.72))
    p = float(table["p"][0])
    order = r"\infty" if math.isinf(p) else f"{p:g}"
    headline(
        figure,
        "What more rows buy",
        "Line: refits on random rows, their average and range. Levels: the others, fitted on all of them.",
    )
    own = table.filter(pl.col("method") == OWN)
    others = table.filter(pl.col("method") != OWN)
    names = [OWN, *(name for name in others["method"] if name != "chance")]
    look = looks(names)
    look["chance"] = Look(QUIET, (0.45, 0.45, 0.45), (0, (1.2, 1.2)), "")
    n = own["n"].to_numpy()
    axis.set_xscale("log")
    axis.fill_between(n, own["low"], own["high"], color=look[OWN].colour, alpha=0.15, lw=0)
    axis.plot(n, own["error"], color=look[OWN].colour, lw=2.2, marker="o", ms=5, mec="white", zorder=4)
    ends = {OWN: float(own["error"][-1])}
    for row in others.iter_rows(named=True):
        one = look[row["method"]]
        axis.axhline(row["error"], color=one.colour, lw=1.3, ls=one.dashes, zorder=2)
        ends[row["method"]] = row["error"]
    axis.set_xlim(n[0] / 1.1, n[-1] * 1.06)
    axis.set_ylim(0, 1.1 * highest(own["high"], others["error"]))
    axis.set_xticks(n, minor=False)
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{int(value):,}"))
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_xlabel("rows fitted")
    axis.set_ylabel(rf"$\mathrm{{Err}}_{{{order}}}$ on the tested rows, {table['n_levels'][0]} levels")
    name_lines(axis, ends, look)
    return figure
