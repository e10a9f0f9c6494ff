"""Level sets of class probabilities: how far each class's mean forecast is from its frequency.

Level sets and classes: what was promised, before and after a recalibration, and what came.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from onlinecal.arrays import Floats
from onlinecal.measures.lp.errors import checked
from onlinecal.measures.lp.level_sets import levels_of, number_level_sets
from onlinecal.plots.own_axes import (
    AFTER,
    BEFORE,
    axes_or_new,
    describe,
    draw_dumbbells,
    highest,
    wilson_interval,
)
from onlinecal.plots.style import INK, along, colour_key, headline, in_house_style
from onlinecal.validation import check_count, check_probability_rows


def level_set_errors(
    before: Floats,
    after: Floats,
    labels: NDArray[np.int64],
    classes: tuple[str, ...],
    n_levels: int,
    p: float,
    confidence: float = 0.95,
) -> pl.DataFrame:
    """A row per level set (of the forecasts before) and class in which anything is promised or came.

    Columns level_set, class, rows, mass; before and after: mean forecasts of these rows; frequency of the
    class, low and high: the ends of Wilson's interval of it; share: |error|^p as a part of the sum over all,
    for p = inf |error| as a part of the largest. The largest error comes first.
    """
    numbers, first = number_level_sets(before, n_levels)
    corners = levels_of(before[first], n_levels) / n_levels
    n_sets, k = len(first), before.shape[1]
    counts = np.bincount(numbers, minlength=n_sets)
    ones = np.bincount(numbers * k + labels, minlength=n_sets * k).reshape(n_sets, k)
    old, new = (_sums(values, numbers, n_sets) for values in (before, after))
    v, j = np.nonzero(old + new + ones > 1e-9 * counts[:, None])
    size = np.abs(old - ones)[v, j]
    order = np.argsort(-size, kind="stable")
    v, j, size = v[order], j[order], size[order]
    largest = max(float(size[0]), 1e-300)
    weights = size / largest if math.isinf(p) else (size / largest) ** p
    low, high = wilson_interval(ones[v, j], counts[v], confidence)
    names = [level_name(corner, classes, n_levels) for corner in corners]
    return pl.DataFrame(
        {
            "level_set": [names[one] for one in v],
            "class": [classes[one] for one in j],
            "rows": counts[v],
            "mass": counts[v] / len(labels),
            "before": old[v, j] / counts[v],
            "after": new[v, j] / counts[v],
            "frequency": ones[v, j] / counts[v],
            "low": low,
            "high": high,
            "share": weights if math.isinf(p) else weights / max(float(weights.sum()), 1e-300),
        }
    )


def level_name(corner: Floats, classes: tuple[str, ...], n_levels: int) -> str:
    """A level set by the classes whose probability reaches a level, the largest first."""
    reached = sorted(np.flatnonzero(corner > 0.5 / n_levels), key=lambda j: -corner[j])
    words = [f"{classes[j]} ≥ {corner[j]:.3g}" for j in reached[:3]]
    return ", ".join(words) + (" …" if len(reached) > 3 else "") or f"all < {1 / n_levels:.3g}"


def _sums(values: Floats, numbers: NDArray[np.int64], n_sets: int) -> Floats:
    """Sums of rows (n, k) over level sets, shape (n_sets, k)."""
    order = np.argsort(numbers, kind="stable")
    starts = np.searchsorted(numbers[order], np.arange(n_sets))
    return np.add.reduceat(values[order], starts, axis=0)


SHOWN = 16
"""Level sets and classes in the left panel."""
LEAST = 5
"""Rows that a level set needs to be a dot."""


def level_sets(
    probabilities: ArrayLike,
    labels: ArrayLike,
    ax: Axes | None = None,
    *,
    after: ArrayLike | None = None,
    p: float = 2,
    n_levels: int = 10,
    classes: Sequence[str] | None = None,
    shown: int = SHOWN,
    confidence: float = 0.95,
) -> Axes:
    """Draw the level sets and classes with the largest errors: mean forecast less frequency.

    A level set is the rows whose class probabilities round down to the same multiples of 1/n_levels. A dot
    right of the middle is a class that was promised too often there. Grey: Wilson's confidence intervals of
    the frequencies; dots within them may be right. At the right of the axes stand the rows.

    Parameters
    ----------
    probabilities
        Class probabilities, shape (n, k); every row sums to 1: an array, or a table of pandas or polars.
    labels
        The classes that came true, shape (n,), whole numbers 0..k-1.
    ax
        The axes to draw on; None: those of a new figure.
    after
        The probabilities of the same rows after a recalibration, shape (n, k), for a second dot each; the
        level sets are those of `probabilities`.
    p, n_levels
        Of the error that shares are of, as for `lp_calibration_error`.
    classes
        The names of the classes; None: those of the table's columns, else their numbers.
    shown
        How many level sets and classes, those with the largest errors of `probabilities`.
    confidence
        Of the intervals, strictly between 0 and 1.

    Returns
    -------
    Axes
        Those drawn on.

    Raises
    ------
    ValueError
        Bad probabilities, labels, after, p, n_levels, classes, shown or confidence, by name and value, before
        anything is drawn.

    """
    table = level_sets_data(
        probabilities, labels, after=after, p=p, n_levels=n_levels, classes=classes, confidence=confidence
    ).head(check_count(shown, "shown"))
    ax = axes_or_new(ax, (7.6, 1.3 + 0.3 * len(table)))
    draw_level_sets(ax, table)
    describe(ax, "mean forecast − frequency", "", "Promised too seldom (left) or too often (right)")
    if after is not None:
        ax.legend(frameon=False, fontsize=9)
    return ax


def level_sets_data(
    probabilities: ArrayLike,
    labels: ArrayLike,
    *,
    after: ArrayLike | None = None,
    p: float = 2,
    n_levels: int = 10,
    classes: Sequence[str] | None = None,
    confidence: float = 0.95,
) -> pl.DataFrame:
    """The numbers of the picture: a row for each level set and class, the largest error first.

    Columns level_set (its name), class, rows, mass (their share of all rows), forecast (the mean; before and
    after if there is an `after`), frequency, low and high (the ends of Wilson's interval of it), share (of
    the error: |error|^p as a part of the sum over all, for p = inf |error| as a part of the largest).
    Arguments and errors as in `level_sets`.
    """
    table, numbers, p, n_levels = checked(probabilities, labels, p, n_levels)
    k = table.shape[1]
    names = tuple(map(str, getattr(probabilities, "columns", range(k)) if classes is None else classes))
    if len(names) != k:
        raise ValueError(f"classes must name the {k} columns of probabilities, got {len(names)} of them")
    later = table if after is None else check_probability_rows(after, "after")
    if later.shape != table.shape:
        raise ValueError(f"after must have the shape of probabilities, {table.shape}, got {later.shape}")
    found = level_set_errors(table, later, numbers, names, n_levels, p, confidence)
    return found if after is not None else found.drop("after").rename({"before": "forecast"})


def draw_level_sets(axis: Axes, table: pl.DataFrame) -> None:
    """Draw rows of what `level_sets_data` gives, the first on top."""
    frequency, low, high = (table[name].to_numpy() for name in ("frequency", "low", "high"))
    kinds = ["forecast"] if "forecast" in table.columns else ["before", "after"]
    errors = {kind: table[kind].to_numpy() - frequency for kind in kinds}
    names = [
        f"{level_set}:  class {name}" for level_set, name in table.select("level_set", "class").iter_rows()
    ]
    heights = draw_dumbbells(axis, names, errors, table["rows"])
    axis.barh(heights, high - low, left=low - frequency, height=0.62, color="#ececec", lw=0, zorder=1)
    axis.axvline(0, color=INK, lw=1.2, zorder=2)
    reach = 1.12 * max(*(np.abs(error).max() for error in errors.values()), np.median(high - low) / 2, 0.01)
    axis.set_xlim(-reach, reach)


def prepare(cells: pl.DataFrame, title: str) -> pl.DataFrame:
    """The level sets and classes with rows enough to be a dot, and what the picture is about."""
    least = min(LEAST, int(highest(cells["rows"])))
    return cells.filter(pl.col("rows") >= least).with_columns(pl.lit(title).alias("title"))


@in_house_style
def draw(table: pl.DataFrame) -> Figure:
    """Left the level sets with the largest errors as dumbbells, right all of them around the diagonal."""
    figure = Figure(figsize=(13.2, 7.0))
    left, upper, lower = (
        figure.add_axes(box)
        for box in ((0.235, 0.095, 0.38, 0.755), (0.70, 0.525, 0.285, 0.325), (0.70, 0.095, 0.285, 0.325))
    )
    headline(
        figure,
        f"What was promised in each level set, and what came: {table['title'][0]}",
        "A level set: rows whose probabilities round down to the same levels. Grey: 95 % confidence "
        "intervals (Wilson's) of the frequencies.",
    )
    colour_key(figure, [("before", BEFORE), ("after", AFTER)], "mean forecast")
    draw_level_sets(left, table.head(SHOWN))
    left.set_title("the largest errors: too seldom promised | promised too often", fontsize=9.5)
    left.set_xlabel("mean forecast − frequency")
    sizes = 6 + 900 * table["mass"].to_numpy()
    for axis, name, colour in ((upper, "before", BEFORE), (lower, "after", AFTER)):
        axis.plot([0, 1], [0, 1], color=INK, lw=1.0)
        axis.scatter(
            table[name], table["frequency"], s=sizes, color=colour, alpha=0.55, edgecolor="white", lw=0.5,
            zorder=3,
        )  # fmt: skip
        axis.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), ylabel="frequency")
        axis.set_title(f"{name}: every level set and class, area its rows", fontsize=9.5)
        along(axis, "calibrated", 0.4, 0.42, 0.6, 0.62, color=INK)
    lower.set_xlabel("mean forecast")
    return figure
