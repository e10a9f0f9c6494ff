"""Pictures of groups and level sets: how far forecasts are from frequencies, before and after recalibration.

Groups are of one event. Level sets are of class probabilities: mean forecasts and frequencies of each class.

A function that ends in `_table` or `_numbers` computes numbers, and all measured numbers that `draw_...`
draws are in such a table. Nothing has a state. The columns are those of the files that are written beside
pictures. In tables the worst rows stand first, since pictures show the first ones. SHOWN_GROUPS and
SHOWN_LEVEL_SETS limit what is drawn, not the tables.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
from onlinecal.plots import style
from onlinecal.plots.style import Picture
from onlinecal.recalibration.groups.maker import GroupMaker, GroupRepair, holds_categories
from onlinecal.tables.columns import (
    check_probabilities,
    check_probability_rows,
    check_same_index,
    check_same_length,
)
from onlinecal.texts import counted
from onlinecal.validation import check_count

SHOWN_GROUPS = 24
"""How many groups a picture shows: those that are most surely wrong before, or have the largest
violations."""


def group_mean_biases(
    forecasts: ArrayLike,
    outcomes: ArrayLike,
    groups: ArrayLike,
    *,
    ax: Axes | None = None,
    after: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    shown: int = SHOWN_GROUPS,
    confidence: float = 0.95,
) -> Picture:
    """Draw mean forecast minus frequency of outcome 1 inside each group, before and after a recalibration.

    A dot right of the middle means that the group was forecast too high. The line through it is Wilson's
    confidence interval of the frequency, moved to the dot: if it crosses the middle, chance alone may explain
    the bias. On top stands the group whose bias (that of `forecasts`) is largest in relation to the length of
    its interval. Groups may overlap. The numbers of rows stand at the right of the axes.

    Parameters
    ----------
    forecasts
        Probabilities, shape (T,): a sequence, an array, or a column of pandas or polars.
    outcomes
        0/1 or boolean, shape (T,).
    groups
        Which of G groups each row is in, shape (T, G): an array of booleans or of 0 and 1, or a data frame of
        pandas or polars with boolean columns alone. Or a data frame of categories, which has other columns:
        then the groups are everyone, each value of a column and each pair of values of two columns that at
        least 2 % of the rows have (a pair with all rows of one of its values is left out). Numbers are values
        as they stand: cut them into ranges first.
    ax
        The axes to draw on; None: those of a new figure.
    after
        The forecasts of the same rounds after a recalibration, shape (T,), for a second dot each.
    names
        The names of the G groups; None: those of a data frame's columns, of an array their numbers, from 0.
        Of categories leave it None: how many groups there are depends on the rows, and they are called after
        column and value, as sex=f.
    shown
        How many groups to draw, those on top, at least 1.
    confidence
        The confidence of each single interval, in (0, 1).

    Returns
    -------
    Picture
        Its table has a row for each group that has rows, in the order of the picture; all of them, whatever
        `shown` is. The columns are group (its name), rows (how many), frequency (of outcome 1), bias (mean
        forecast - frequency), low and high (the ends of the interval of the bias). If there is an `after`,
        the columns before, low_before, high_before, after, low_after and high_after take the place of bias,
        low and high: bias and interval before the recalibration and after it.

    Raises
    ------
    ValueError
        For bad forecasts, outcomes, groups, after, names, shown, confidence or ax, by name and value, before
        anything is drawn.
    """
    table = group_mean_biases_table(
        forecasts, outcomes, groups, after=after, names=names, confidence=confidence
    )
    drawn = table.head(check_count(shown, "shown"))
    ax = style.axes_or_new(ax, (7.0, 1.5 + 0.3 * len(drawn)))
    draw_means(ax, drawn)
    title = "How far each group's forecasts are from what happened"
    style.describe(ax, "mean forecast − frequency", "", title, after is not None)
    return Picture(ax, table)


def group_mean_biases_table(
    forecasts: ArrayLike,
    outcomes: ArrayLike,
    groups: ArrayLike,
    *,
    after: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    confidence: float = 0.95,
) -> pl.DataFrame:
    """The numbers that `group_mean_biases` draws; its arguments, columns and errors."""
    repaired = _with_rounds(_rows(forecasts, outcomes, groups, after, 1, names))
    rows, frequency = repaired["count"].to_numpy(), repaired["outcome"].to_numpy()
    low, high = style.wilson_interval(frequency * rows, rows, confidence)
    columns = [pl.col("group"), pl.col("count").alias("rows"), pl.col("outcome").alias("frequency")]
    for side in ("before", "after"):
        mean = pl.col(f"forecast_{side}")
        columns.append((mean - pl.col("outcome")).alias(side))
        columns += [
            (mean - pl.Series(high)).alias(f"low_{side}"),
            (mean - pl.Series(low)).alias(f"high_{side}"),
        ]
    surely = pl.col("before").abs() / (pl.col("high_before") - pl.col("low_before"))
    table = repaired.select(columns).sort(-surely, maintain_order=True)
    return _of_sides(table, after is not None, "bias")


def _rows(
    forecasts: ArrayLike, outcomes: ArrayLike, groups: Any, after: Any, n_bins: int | None, names: Any
) -> list[dict[str, Any]]:
    """The rows of a `GroupRepair` of groups as users give them; categories become groups.

    Without an `after`, the forecasts are those before and after.
    """
    check_same_index(forecasts, groups, "forecasts and groups")
    names = None if names is None else style.check_names(names, "names")
    if holds_categories(groups):
        maker = GroupMaker()
        groups = maker.fit(groups, len(check_probabilities(forecasts)))
        names = maker.names_ if names is None else names
    old = new = multicalibration_report(forecasts, outcomes, groups, n_bins=n_bins, names=names)
    if after is not None:
        check_same_index(forecasts, after, "forecasts and after")
        later = check_probabilities(after, "after")
        check_same_length(check_probabilities(forecasts), later, "forecasts and after")
        new = multicalibration_report(later, outcomes, groups, n_bins=n_bins, names=names)
    return GroupRepair(old, new).rows()


def _of_sides(table: pl.DataFrame, both: bool, name: str) -> pl.DataFrame:
    """A table of before and after; if not `both`, only the columns of before, with `before` called `name`."""
    if both:
        return table
    kept = table.select(pl.exclude("^.*after$"))
    names = {column: column.removesuffix("_before") for column in kept.columns}
    return kept.rename({**names, "before": name})


def _with_rounds(repair: list[dict[str, Any]]) -> pl.DataFrame:
    """The rows of a `GroupRepair` that have rounds; ValueError if all groups are empty."""
    table = pl.DataFrame(repair).filter(pl.col("count") > 0)
    if table.is_empty():
        raise ValueError(f"groups must have rows in them, got {counted(len(repair), 'group')} without any")
    return table


def group_numbers(repair: list[dict[str, Any]]) -> pl.DataFrame:
    """Columns group, rows, before, after, chance, violation_before, violation_after.

    Before, after and chance are root mean squares over level sets. There is a row for each group with rounds,
    and the largest violation comes first. Raises ValueError if all groups are empty.
    """
    table = _with_rounds(repair).sort("violation_before", descending=True, maintain_order=True)
    sums = {"before": "violation_before", "after": "violation_after", "chance": "chance"}
    typical = [(pl.col(total) / pl.col("mass")).sqrt().alias(name) for name, total in sums.items()]
    rows = pl.col("count").alias("rows")
    return table.select("group", rows, *typical, "violation_before", "violation_after")


def draw_dumbbells(
    axes: Axes, names: Sequence[str], table: pl.DataFrame, values: Mapping[str, Floats], apart: float = 0.0
) -> Floats:
    """Draw a line for each row of a table, from the top down, with a dot for each of its values.

    Before stands `apart` above the line and after as much below it; if `apart` is 0, they are joined. The
    numbers of rows stand beside the axes. Returns the heights of the lines.
    """
    heights = np.arange(len(names))[::-1].astype(float)
    if len(values) == 2 and not apart:
        axes.hlines(heights, values["before"], values["after"], color=style.QUIET, lw=1.6, zorder=3)
    for side, numbers in values.items():
        aside, colour = apart * SIDE_SIGNS.get(side, 0), _colour(side)
        look: Any = {"color": colour, "edgecolor": "white", "lw": 0.7, "zorder": 4}
        axes.scatter(numbers, heights + aside, s=58, label=side, **look)
    axes.set_ylim(-0.7, len(names) - 0.3)
    axes.set_yticks(heights, names, fontsize=8.5, color=style.INK)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    beside: Any = {"transform": axes.get_yaxis_transform(), "va": "center_baseline", "fontsize": 8}
    for height, count in [*zip(heights, table["rows"], strict=True), (len(names) - 0.05, "rows")]:
        axes.text(1.013, height, count if count == "rows" else f"{count:,}", color=style.QUIET, **beside)
    return heights


SIDE_SIGNS = {"before": 1, "after": -1}
"""On which side of its line the dots of a table's side stand: above or below."""


def _colour(side: str) -> str:
    return style.BEFORE_COLOUR if side == "before" else style.AFTER_COLOUR


def _values(table: pl.DataFrame, alone: str) -> dict[str, Floats]:
    """The columns of values that a table has: before and after, or the one called `alone`."""
    return {name: table[name].to_numpy() for name in (alone, *SIDE_SIGNS) if name in table.columns}


def draw_means(axis: Axes, table: pl.DataFrame) -> None:
    """Draw rows of a table of `group_mean_biases_table`, the first on top."""
    values, apart = _values(table, "bias"), 0.14
    heights = draw_dumbbells(axis, table["group"].to_list(), table, values, apart)
    axis.axvline(0.0, color=style.INK, lw=1.0, zorder=1)
    for side in values:
        low, high = (end if side == "bias" else f"{end}_{side}" for end in ("low", "high"))
        at, colour = heights + apart * SIDE_SIGNS.get(side, 0), _colour(side)
        axis.hlines(at, table[low], table[high], color=colour, lw=2.2, alpha=0.55, zorder=3)
    reach = 1.06 * style.highest(*table.select(pl.col("^(low|high).*$").abs()))
    axis.set_xlim(-reach, reach)


def group_biases(
    forecasts: ArrayLike,
    outcomes: ArrayLike,
    groups: ArrayLike,
    *,
    ax: Axes | None = None,
    after: ArrayLike | None = None,
    n_bins: int | None = 20,
    names: Sequence[str] | None = None,
    shown: int = SHOWN_GROUPS,
) -> Picture:
    """Draw how biased forecasts are inside each group, the worst group on top.

    A level set holds the rows of the group whose forecasts are nearest to the same multiple of 1/n_bins; its
    bias is the mean forecast minus the frequency of outcome 1. A dot is the root mean square of these biases,
    weighted by rows: how far off a forecast in this group typically is. Grey bars show what chance alone
    would make of it if every forecast were right. Groups may overlap. The numbers of rows stand at the right
    of the axes.

    Parameters
    ----------
    forecasts
        Probabilities, shape (T,): a sequence, an array, or a column of pandas or polars.
    outcomes
        0/1 or boolean, shape (T,).
    groups
        Which of G groups each row is in, shape (T, G): an array of booleans or of 0 and 1, or a data frame of
        pandas or polars with boolean columns alone. Or a data frame of categories, which has other columns:
        then the groups are everyone, each value of a column and each pair of values of two columns that at
        least 2 % of the rows have (a pair with all rows of one of its values is left out). Numbers are values
        as they stand: cut them into ranges first.
    ax
        The axes to draw on; None: those of a new figure.
    after
        The forecasts of the same rounds after a recalibration, shape (T,), for a second dot each.
    n_bins
        How finely forecasts are told apart, at least 1; None: a level set for each distinct forecast.
    names
        The names of the G groups; None: those of a data frame's columns, of an array their numbers, from 0.
        Of categories leave it None: how many groups there are depends on the rows, and they are called after
        column and value, as sex=f.
    shown
        How many groups to draw, at least 1: those with the largest violations of `forecasts`, which are the
        bias squared times the group's share of all rows.

    Returns
    -------
    Picture
        Its table has a row for each group that has rows, the largest violation first; all of them, whatever
        `shown` is. The columns are group (its name), rows (how many), bias (the root mean square), chance
        (what it would be by chance, if every forecast were right), violation (bias squared times the group's
        share of all rows). If there is an `after`, the columns before and after take the place of bias,
        violation_before and violation_after that of violation, and chance is that of the forecasts after.

    Raises
    ------
    ValueError
        For bad forecasts, outcomes, groups, after, n_bins, names, shown or ax, by name and value, before
        anything is drawn.
    """
    table = group_biases_table(forecasts, outcomes, groups, after=after, n_bins=n_bins, names=names)
    drawn = table.head(check_count(shown, "shown"))
    ax = style.axes_or_new(ax, (7.0, 1.3 + 0.3 * len(drawn)))
    draw_groups(ax, drawn)
    return Picture(ax, table)


def group_biases_table(
    forecasts: ArrayLike,
    outcomes: ArrayLike,
    groups: ArrayLike,
    *,
    after: ArrayLike | None = None,
    n_bins: int | None = 20,
    names: Sequence[str] | None = None,
) -> pl.DataFrame:
    """The numbers that `group_biases` draws; its arguments, columns and errors."""
    table = group_numbers(_rows(forecasts, outcomes, groups, after, n_bins, names))
    return _of_sides(table, after is not None, "bias")


def draw_groups(axis: Axes, table: pl.DataFrame) -> None:
    """Draw rows of a table of `group_biases_table`, the first on top."""
    biases = _values(table, "bias")
    heights = draw_dumbbells(axis, table["group"].to_list(), table, biases)
    axis.barh(heights, table["chance"], height=0.66, color="#e9e9e9", lw=0, zorder=1, label="chance")
    axis.set_xlim(0, 1.06 * max(style.highest(*table.select("chance", *biases)), 1e-9))
    style.describe(
        axis, "bias within the group, in probability", "", "How wrong forecasts are inside each group", True
    )


def draw_repair(table: pl.DataFrame) -> Figure:
    """Draw the first rows of `group_numbers`, before and after; the table has a column title, too."""
    shown, title = table.head(SHOWN_GROUPS), f"How wrong forecasts are inside each group: {table['title'][0]}"
    return style.drawn(lambda axis: draw_groups(axis, shown), (9.0, 1.3 + 0.3 * len(shown)), title)


def level_set_errors(
    before: Floats,
    after: Floats,
    labels: NDArray[np.int64],
    classes: tuple[str, ...],
    n_bins: int,
    p: float,
    confidence: float = 0.95,
) -> pl.DataFrame:
    """A row for each level set of the forecasts before, and each class that was forecast or came there.

    The columns are level_set, class, rows, mass, before and after (mean forecasts of these rows), frequency
    of the class, low and high (the ends of Wilson's interval of it), and share: |error|^p as a part of the
    sum over all, for p = inf |error| as a part of the largest. The largest error comes first.
    """
    numbers, first = number_level_sets(before, n_bins)
    corners = levels_of(before[first], n_bins) / n_bins
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
    low, high = style.wilson_interval(ones[v, j], counts[v], confidence)
    names = [level_name(corner, classes, n_bins) for corner in corners]
    return pl.DataFrame(
        {
            "level_set": [names[place] for place in v],
            "class": [classes[place] for place in j],
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


def level_name(corner: Floats, classes: tuple[str, ...], n_bins: int) -> str:
    """The name of a level set: the classes whose probability reaches a level, the largest first."""
    reached = sorted(np.flatnonzero(corner > 0.5 / n_bins), key=lambda j: -corner[j])
    words = [f"{classes[j]} ≥ {corner[j]:.3g}" for j in reached[:3]]
    return ", ".join(words) + (" …" if len(reached) > 3 else "") or f"all < {1 / n_bins:.3g}"


SHOWN_LEVEL_SETS = 16
"""How many level sets and classes a picture shows."""


def level_sets(
    probabilities: ArrayLike,
    labels: ArrayLike,
    *,
    ax: Axes | None = None,
    after: ArrayLike | None = None,
    p: float = 2,
    n_bins: int = 10,
    classes: Sequence[str] | None = None,
    shown: int = SHOWN_LEVEL_SETS,
    confidence: float = 0.95,
) -> Picture:
    """Draw the errors, mean forecast minus frequency, of the classes in level sets of similar forecasts.

    A level set holds the rows whose class probabilities round down to the same multiples of 1/n_bins. A dot
    right of the middle is a class that was forecast there with more than its frequency. Grey bars are
    Wilson's confidence intervals of the frequencies; dots within them may be right. The numbers of rows stand
    at the right of the axes.

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
    p
        The order of the error, from 1 to inf, which only the `share` in the table depends on.
    n_bins
        How many levels each class has, at least 1.
    classes
        The names of the k classes; None: those of a data frame's columns, else their numbers, from 0.
    shown
        How many pairs of a level set and a class to draw, at least 1: those with the largest errors of
        `probabilities`, each counted as often as its level set has rows.
    confidence
        The confidence of the intervals, strictly between 0 and 1.

    Returns
    -------
    Picture
        Its table has a row for each level set and each class that was forecast or came there, in the order of
        the picture; all of them, whatever `shown` is. The columns are level_set (its name, as "0 ≥ 0.3, 2 ≥
        0.5"), class, rows, mass (their share of all rows), forecast (the mean probability of the class;
        before and after in its place if there is an `after`), frequency (of the class), low and high (the
        ends of its interval), share (|mass * error|^p as a part of the sum over all, for p = inf |mass *
        error| as a part of the largest).

    Raises
    ------
    ValueError
        For bad probabilities, labels, after, p, n_bins, classes, shown, confidence or ax, by name and
        value, before anything is drawn.
    """
    table = level_sets_table(
        probabilities, labels, after=after, p=p, n_bins=n_bins, classes=classes, confidence=confidence
    )
    drawn = table.head(check_count(shown, "shown"))
    ax = style.axes_or_new(ax, (7.6, 1.3 + 0.3 * len(drawn)))
    draw_level_sets(ax, drawn)
    return Picture(ax, table)


def level_sets_table(
    probabilities: ArrayLike,
    labels: ArrayLike,
    *,
    after: ArrayLike | None = None,
    p: float = 2,
    n_bins: int = 10,
    classes: Sequence[str] | None = None,
    confidence: float = 0.95,
) -> pl.DataFrame:
    """The numbers that `level_sets` draws; its arguments, columns and errors."""
    table, numbers, p, n_bins = checked(probabilities, labels, p, n_bins)
    k = table.shape[1]
    called = getattr(probabilities, "columns", range(k)) if classes is None else classes
    names = tuple(style.check_names(called, "classes"))
    if len(names) != k:
        raise ValueError(f"classes must name the {k} columns of probabilities, got {len(names)} of them")
    check_same_index(probabilities, after, "probabilities and after")
    later = table if after is None else check_probability_rows(after, "after")
    if later.shape != table.shape:
        raise ValueError(f"after must have the shape of probabilities, {table.shape}, got {later.shape}")
    errors = level_set_errors(table, later, numbers, names, n_bins, p, confidence)
    return _of_sides(errors, after is not None, "forecast")


def draw_level_sets(axis: Axes, table: pl.DataFrame) -> None:
    """Draw rows of a table of `level_sets_table`, the first on top."""
    frequency, low, high = table.select("frequency", "low", "high").to_numpy().T
    errors = {side: mean - frequency for side, mean in _values(table, "forecast").items()}
    cells = table.select("level_set", "class").iter_rows()
    names = [f"{level_set}:  class {name}" for level_set, name in cells]
    heights = draw_dumbbells(axis, names, table, errors)
    axis.barh(heights, high - low, left=low - frequency, height=0.62, color="#ececec", lw=0, zorder=1)
    axis.axvline(0, color=style.INK, lw=1.2, zorder=2)
    reach = 1.12 * max(*(np.abs(error).max() for error in errors.values()), np.median(high - low) / 2, 0.01)
    axis.set_xlim(-reach, reach)
    title = "Promised too seldom (left) or too often (right)"
    style.describe(axis, "mean forecast − frequency", "", title, "after" in errors)


def draw_levels(table: pl.DataFrame) -> Figure:
    """Draw the first rows of `level_set_errors`, with the largest errors; the table has a title, too."""
    shown = table.head(SHOWN_LEVEL_SETS)
    title = f"Promised too seldom (left) or too often (right): {table['title'][0]}"
    return style.drawn(lambda axis: draw_level_sets(axis, shown), (9.0, 1.3 + 0.3 * len(shown)), title)
