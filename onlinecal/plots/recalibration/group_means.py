"""Groups of forecasts: how far their mean is from the frequency of the outcome, with confidence intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from onlinecal.measures.groups.report import multicalibration_report
from onlinecal.plots.intervals import wilson_interval
from onlinecal.plots.own_axes import AFTER, BEFORE, axes_or_new, describe, draw_dumbbells
from onlinecal.plots.style import INK
from onlinecal.recalibration.groups.maker import GroupMaker, holds_categories
from onlinecal.recalibration.groups.repair import GroupRepair
from onlinecal.validation import check_count, check_probabilities, check_same_length

SHOWN = 24
"""Groups in the picture, those that are most surely wrong before."""


def group_mean_biases(
    forecasts: ArrayLike,
    outcomes: ArrayLike,
    groups: ArrayLike,
    ax: Axes | None = None,
    *,
    after: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    shown: int = SHOWN,
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
    groups, names = members_of(groups, forecasts, names)
    old = multicalibration_report(forecasts, outcomes, groups, 1, names)
    if after is None:
        single = {"before": "bias", "low_before": "low", "high_before": "high"}
        table = means_of(GroupRepair(old, old).rows(), confidence)
        return table.drop("after", "low_after", "high_after").rename(single)
    later = check_probabilities(after, "after")
    check_same_length(check_probabilities(forecasts), later, "forecasts and after")
    new = multicalibration_report(later, outcomes, groups, 1, names)
    return means_of(GroupRepair(old, new).rows(), confidence)


def members_of(
    groups: Any, forecasts: ArrayLike, names: Sequence[str] | None
) -> tuple[Any, Sequence[str] | None]:
    """Groups as users have them as a table of membership, and their names; categories become groups."""
    if not holds_categories(groups):
        return groups, names
    maker = GroupMaker()
    members = maker.fit(groups, len(check_probabilities(forecasts)))
    return members, maker.names_ if names is None else names


def means_of(repair: list[dict[str, Any]], confidence: float = 0.95) -> pl.DataFrame:
    """What `group_mean_biases_data` gives before and after, from the rows of a `GroupRepair`."""
    found = [row for row in repair if row["count"]]
    if not found:
        raise ValueError("groups must have rounds, all are empty")
    rows = np.array([row["count"] for row in found])
    frequency = np.array([row["outcome"] for row in found])
    low, high = wilson_interval(frequency * rows, rows, confidence)
    columns: dict[str, Any] = {"group": [row["group"] for row in found], "rows": rows, "frequency": frequency}
    for kind in ("before", "after"):
        mean = np.array([row[f"forecast_{kind}"] for row in found])
        columns |= {kind: mean - frequency, f"low_{kind}": mean - high, f"high_{kind}": mean - low}
    surely = np.abs(columns["before"]) / (high - low)
    return pl.DataFrame(columns)[np.argsort(-surely, kind="stable")]


def draw_means(axis: Axes, table: pl.DataFrame) -> None:
    """Draw rows of what `group_mean_biases_data` gives, the first on top."""
    kinds = ["bias"] if "bias" in table.columns else ["before", "after"]
    heights = draw_dumbbells(
        axis, table["group"].to_list(), {kind: table[kind].to_numpy() for kind in kinds}, table["rows"], 0.14
    )
    axis.axvline(0.0, color=INK, lw=1.0, zorder=1)
    reach = 0.0
    for kind in kinds:
        ends = ("low", "high") if kind == "bias" else (f"low_{kind}", f"high_{kind}")
        low, high = (table[end].to_numpy() for end in ends)
        aside = {"bias": 0.0, "before": 0.14, "after": -0.14}[kind]
        colour = BEFORE if kind == "before" else AFTER
        axis.hlines(heights + aside, low, high, color=colour, lw=2.2, alpha=0.55, zorder=3)
        reach = max(reach, float(np.abs([low, high]).max()))
    axis.set_xlim(-1.06 * reach, 1.06 * reach)
