"""Groups and level sets: how far forecasts are from the outcome's frequency, before and after.

Level sets and classes: what was promised, before and after a recalibration, and what came.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from onlinecal.arrays import Floats
from onlinecal.measures.groups import multicalibration_report
from onlinecal.measures.lp.errors import checked, sums_of_level_sets
from onlinecal.measures.lp.level_sets import levels_of, number_level_sets
from onlinecal.plots.style import (
    AFTER,
    BEFORE,
    INK,
    along,
    axes_or_new,
    colour_key,
    describe,
    draw_dumbbells,
    headline,
    highest,
    in_house_style,
    wilson_interval,
)
from onlinecal.recalibration.groups.maker import GroupMaker, GroupRepair, holds_categories
from onlinecal.validation import (
    check_count,
    check_probabilities,
    check_probability_rows,
    check_same_index,
    check_same_length,
)

SHOWN_GROUPS = 24
"""Groups in a picture, those that are most surely wrong, or with the largest violations, before."""


def group_mean_biases(
    forecasts: ArrayLike,
    outcomes: ArrayLike,
    groups: ArrayLike,
    ax: Axes | None = None,
    *,
    after: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    shown: int = SHOWN_GROUPS,
    confidence: float = 0.95,
) -> Axes:
    """Draw mean forecast minus frequency of outcome 1 inside each group, before and after a recalibration.

    A dot right of the middle: the group was forecast too high. The line through it is Wilson's confidence
    interval of the frequency, moved along: where it crosses the middle, chance may be all that is wrong. On
    top stands the group that is most surely wrong before. Groups may overlap. At the right of the axes stand
    the rows.

    Parameters
    ----------
    forecasts
        Probabilities, shape (T,): a sequence, an array, or a column of pandas or polars.
    outcomes
        0/1 or boolean, shape (T,).
    groups
        Who is in which group, shape (T, G), boolean or 0/1: an array, or a table of pandas or polars. Or a
        table of categories: everyone, each value of a column and each pair of values of two are then groups.
    ax
        The axes to draw on; None: those of a new figure.
    after
        The forecasts of the same rounds after a recalibration, shape (T,), for a second dot each.
    names
        Of the groups; None: those of the table's columns, else their numbers.
    shown
        How many groups.
    confidence
        Of each interval by itself, in (0, 1).

    Returns
    -------
    Axes
        Those drawn on.

    Raises
    ------
    ValueError
        Bad forecasts, outcomes, groups, after, names, shown or confidence, by name and value, before anything
        is drawn.

    """
    table = group_mean_biases_data(
        forecasts, outcomes, groups, after=after, names=names, confidence=confidence
    ).head(check_count(shown, "shown"))
    ax = axes_or_new(ax, (7.0, 1.5 + 0.3 * len(table)))
    draw_means(ax, table)
    describe(ax, "mean forecast − frequency", "", "How far each group's forecasts are from what happened")
    if after is not None:
        ax.legend(frameon=False, fontsize=9, loc="best")
    return ax


def group_mean_biases_data(
    forecasts: ArrayLike,
    outcomes: ArrayLike,
    groups: ArrayLike,
    *,
    after: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    confidence: float = 0.95,
) -> pl.DataFrame:
    """The numbers of the picture: a row for each group that has rounds, the most surely wrong first.

    Columns group, rows, frequency, bias (mean forecast - frequency), low and high (the ends of its
    interval). If there is an `after`: before, low_before, high_before, and the same of after, instead.
    Arguments and errors as in `group_mean_biases`.
    """
    table = group_numbers(_rows(forecasts, outcomes, groups, after, 1, names), confidence)
    surely = pl.col("mean_before").abs() / (pl.col("high_before") - pl.col("low_before"))
    table = table.sort(-surely, maintain_order=True)
    ends = ("low_before", "high_before", "mean_after", "low_after", "high_after")
    kept = table.select("group", "rows", "frequency", "mean_before", *ends)
    return _of_sides(kept.rename({"mean_before": "before", "mean_after": "after"}), after is not None, "bias")


def _rows(
    forecasts: ArrayLike, outcomes: ArrayLike, groups: Any, after: Any, n_levels: int | None, names: Any
) -> list[dict[str, Any]]:
    """The rows of a `GroupRepair` of groups as users have them; categories become groups.

    Without an `after` the forecasts stand on both sides.
    """
    check_same_index(forecasts, groups, "forecasts and groups")
    if holds_categories(groups):
        maker = GroupMaker()
        groups = maker.fit(groups, len(check_probabilities(forecasts)))
        names = maker.names_ if names is None else names
    old = new = multicalibration_report(forecasts, outcomes, groups, n_levels, names)
    if after is not None:
        check_same_index(forecasts, after, "forecasts and after")
        later = check_probabilities(after, "after")
        check_same_length(check_probabilities(forecasts), later, "forecasts and after")
        new = multicalibration_report(later, outcomes, groups, n_levels, names)
    return GroupRepair(old, new).rows()


def _of_sides(table: pl.DataFrame, both: bool, name: str) -> pl.DataFrame:
    """A table of before and after; of `before` alone, under this name, where there are not both."""
    if both:
        return table
    kept = table.select(pl.exclude("^.*after$"))
    names = {column: column.removesuffix("_before") for column in kept.columns}
    return kept.rename({**names, "before": name})


def _sides(table: pl.DataFrame, *alone: str) -> list[str]:
    """The columns of both sides that a table has, or the one that stands `alone`."""
    return [name for name in (*alone, "before", "after") if name in table.columns]


def group_numbers(repair: list[dict[str, Any]], confidence: float = 0.95) -> pl.DataFrame:
    """All numbers of both pictures of groups, from the rows of a `GroupRepair`, in their order.

    Columns group, rows, frequency and chance; mean_before (mean forecast - frequency), low_before and
    high_before (the ends of its interval), before (root mean square over level sets), violation_before; the
    same of after. ValueError if all groups are empty.
    """
    found = pl.DataFrame(repair).filter(pl.col("count") > 0)
    if found.is_empty():
        raise ValueError("groups must have rounds, all are empty")
    rows, frequency = found["count"].to_numpy(), found["outcome"].to_numpy()
    low, high = wilson_interval(frequency * rows, rows, confidence)

    def typical(violation: str) -> pl.Expr:
        return (pl.col(violation) / pl.col("mass")).sqrt()

    columns = {"frequency": pl.col("outcome"), "chance": typical("chance")}
    for side in ("before", "after"):
        mean = pl.col(f"forecast_{side}")
        columns |= {
            f"mean_{side}": mean - pl.col("outcome"),
            f"low_{side}": mean - pl.lit(pl.Series(high)),
            f"high_{side}": mean - pl.lit(pl.Series(low)),
            side: typical(f"violation_{side}"),
            f"violation_{side}": pl.col(f"violation_{side}"),
        }
    return found.select("group", pl.col("count").alias("rows"), **columns)


def draw_means(axis: Axes, table: pl.DataFrame, beside: bool = True) -> None:
    """Draw rows of what `group_mean_biases_data` gives, the first on top; `beside`: with numbers of rows."""
    sides, apart = _sides(table, "bias"), 0.14
    values = {side: table[side].to_numpy() for side in sides}
    heights = draw_dumbbells(axis, table["group"].to_list(), values, table["rows"] if beside else (), apart)
    axis.axvline(0.0, color=INK, lw=1.0, zorder=1)
    for side in sides:
        low, high = (end if side == "bias" else f"{end}_{side}" for end in ("low", "high"))
        aside = {"bias": 0.0, "before": apart, "after": -apart}[side]
        colour = BEFORE if side == "before" else AFTER
        axis.hlines(heights + aside, table[low], table[high], color=colour, lw=2.2, alpha=0.55, zorder=3)
    reach = 1.06 * highest(*(table[name].abs() for name in table.columns if name.startswith(("low", "high"))))
    axis.set_xlim(-reach, reach)


def group_biases(
    forecasts: ArrayLike,
    outcomes: ArrayLike,
    groups: ArrayLike,
    ax: Axes | None = None,
    *,
    after: ArrayLike | None = None,
    n_levels: int | None = 20,
    names: Sequence[str] | None = None,
    shown: int = SHOWN_GROUPS,
) -> Axes:
    """Draw how biased forecasts are inside each group, the worst group on top.

    A dot is the root mean square of the bias of the group's level sets, sqrt(K2(f, g)): how far forecasts of
    this group typically are from the frequency of outcome 1 where they were made. Grey: what chance makes of
    forecasts that are right. Groups may overlap. At the right of the axes stand the rows.

    Parameters
    ----------
    forecasts
        Probabilities, shape (T,): a sequence, an array, or a column of pandas or polars.
    outcomes
        0/1 or boolean, shape (T,).
    groups
        Who is in which group, as for `group_mean_biases`.
    ax
        The axes to draw on; None: those of a new figure.
    after
        The forecasts of the same rounds after a recalibration, shape (T,), for a second dot each.
    n_levels
        Level sets are even parts of [0, 1], so many; None: one for each distinct forecast.
    names
        Of the groups; None: those of the table's columns, else their numbers.
    shown
        How many groups, those with the largest violations of `forecasts`: bias squared, times the group's
        share of the rounds.

    Returns
    -------
    Axes
        Those drawn on.

    Raises
    ------
    ValueError
        Bad forecasts, outcomes, groups, after, n_levels, names or shown, by name and value, before anything
        is drawn.

    """
    table = group_biases_data(forecasts, outcomes, groups, after=after, n_levels=n_levels, names=names)
    table = table.head(check_count(shown, "shown"))
    ax = axes_or_new(ax, (7.0, 1.3 + 0.3 * len(table)))
    draw_groups(ax, table)
    describe(ax, "bias within the group, in probability", "", "How wrong forecasts are inside each group")
    ax.legend(frameon=False, fontsize=9)
    return ax


def group_biases_data(
    forecasts: ArrayLike,
    outcomes: ArrayLike,
    groups: ArrayLike,
    *,
    after: ArrayLike | None = None,
    n_levels: int | None = 20,
    names: Sequence[str] | None = None,
) -> pl.DataFrame:
    """The numbers of the picture: a row for each group that has rounds, the largest violation first.

    Columns group, rows, bias (root mean square over its level sets), chance (what it is to be expected to be
    when every forecast is right), violation (bias squared, times the group's share of the rounds). If there
    is an `after`: before and after, violation_before and violation_after instead. Arguments and errors as in
    `group_biases`.
    """
    table = group_numbers(_rows(forecasts, outcomes, groups, after, n_levels, names))
    table = table.sort("violation_before", descending=True, maintain_order=True)
    kept = table.select("group", "rows", "before", "after", "chance", "violation_before", "violation_after")
    return _of_sides(kept, after is not None, "bias")


def draw_groups(axis: Axes, table: pl.DataFrame) -> None:
    """Draw rows of what `group_biases_data` gives, the first on top."""
    biases = {side: table[side].to_numpy() for side in _sides(table, "bias")}
    heights = draw_dumbbells(axis, table["group"].to_list(), biases, table["rows"])
    axis.barh(heights, table["chance"], height=0.66, color="#e9e9e9", lw=0, zorder=1, label="chance")
    axis.set_xlim(0, 1.06 * max(highest(*table.select("chance", *biases)), 1e-9))


@in_house_style
def draw_both(table: pl.DataFrame) -> Figure:
    """Two panels of `group_numbers` with a title, a line per group: means with intervals, and level sets."""
    shown = table.head(SHOWN_GROUPS)
    width = min(0.085 * max(len(name) for name in shown["group"]) + 0.35, 5.5)
    size = (width + 9.4, 0.3 * len(shown) + 2.25)
    figure = Figure(figsize=size)
    bottom, height, panel = 0.62 / size[1], 1 - 2.05 / size[1], 4.0 / size[0]
    left, right = (
        figure.add_axes((start / size[0], bottom, panel, height)) for start in (width, width + 4.28)
    )
    more = f" The {len(shown)} worst of {len(table)} groups." if len(table) > len(shown) else ""
    headline(
        figure,
        f"How wrong forecasts are inside each group: {table['title'][0]}",
        "Left: mean forecast less frequency, 95 % intervals (Wilson's). Right: bias of level sets, "
        f"root mean square; grey: what chance makes of right forecasts.{more}",
    )
    colour_key(figure, [("before", BEFORE), ("after", AFTER)], inches=0.88)
    ends = shown.select("group", "rows", "^(low|high)_.*$", before="mean_before", after="mean_after")
    draw_means(left, ends, beside=False)
    left.set_xlabel("mean forecast − frequency")
    draw_groups(right, shown)
    right.tick_params(labelleft=False)
    right.set_xlabel("bias of level sets")
    return figure


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
    old, new = (sums_of_level_sets(values.T, numbers, n_sets) for values in (before, after))
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
    check_same_index(probabilities, after, "probabilities and after")
    later = table if after is None else check_probability_rows(after, "after")
    if later.shape != table.shape:
        raise ValueError(f"after must have the shape of probabilities, {table.shape}, got {later.shape}")
    found = level_set_errors(table, later, numbers, names, n_levels, p, confidence)
    return _of_sides(found, after is not None, "forecast")


def draw_level_sets(axis: Axes, table: pl.DataFrame) -> None:
    """Draw rows of what `level_sets_data` gives, the first on top."""
    frequency, low, high = (table[name].to_numpy() for name in ("frequency", "low", "high"))
    errors = {side: table[side].to_numpy() - frequency for side in _sides(table, "forecast")}
    names = [f"{one}:  class {name}" for one, name in table.select("level_set", "class").iter_rows()]
    heights = draw_dumbbells(axis, names, errors, table["rows"])
    axis.barh(heights, high - low, left=low - frequency, height=0.62, color="#ececec", lw=0, zorder=1)
    axis.axvline(0, color=INK, lw=1.2, zorder=2)
    reach = 1.12 * max(*(np.abs(error).max() for error in errors.values()), np.median(high - low) / 2, 0.01)
    axis.set_xlim(-reach, reach)


@in_house_style
def draw_levels(table: pl.DataFrame) -> Figure:
    """Left the level sets with the largest errors as dumbbells, right all of them around the diagonal.

    What `level_set_errors` gives, with a title; those with rows enough to be a dot.
    """
    table = table.filter(pl.col("rows") >= min(LEAST, int(highest(table["rows"]))))
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
    dots: Any = {"s": 6 + 900 * table["mass"], "alpha": 0.55, "edgecolor": "white", "lw": 0.5, "zorder": 3}
    for axis, name, colour in ((upper, "before", BEFORE), (lower, "after", AFTER)):
        axis.plot([0, 1], [0, 1], color=INK, lw=1.0)
        axis.scatter(table[name], table["frequency"], color=colour, **dots)
        axis.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), ylabel="frequency")
        axis.set_title(f"{name}: every level set and class, area its rows", fontsize=9.5)
        along(axis, "calibrated", 0.4, 0.42, 0.6, 0.62, color=INK)
    lower.set_xlabel("mean forecast")
    return figure
