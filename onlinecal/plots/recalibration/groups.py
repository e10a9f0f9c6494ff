"""Groups before and after a recalibration: how biased their level sets are, beside what chance makes."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from onlinecal.plots.style import INK, OKABE_ITO, QUIET, colour_key, headline, in_house_style

BEFORE, AFTER = OKABE_ITO[1], OKABE_ITO[0]
SHOWN = 24
"""Groups in the picture, those with the largest violations before."""


def prepare(repair: list[dict[str, Any]], title: str) -> pl.DataFrame:
    """Columns title, group, rows, before, after, chance, violation_before, violation_after.

    before, after and chance are root mean squares of the bias of a group's level sets, sqrt(K2(f, g)).
    """
    rows = [
        {
            "title": title,
            "group": row["group"],
            "rows": row["count"],
            **{
                name: float(np.sqrt(row[key] / row["mass"])) if row["mass"] else None
                for name, key in (
                    ("before", "violation_before"),
                    ("after", "violation_after"),
                    ("chance", "chance"),
                )
            },
            "violation_before": row["violation_before"],
            "violation_after": row["violation_after"],
        }
        for row in repair
        if row["count"]
    ]
    return pl.DataFrame(rows)


@in_house_style
def draw(table: pl.DataFrame) -> Figure:
    """A dumbbell per group, the largest violation on top."""
    shown = table.head(SHOWN)
    width = min(0.085 * max(len(name) for name in shown["group"]) + 0.35, 5.5)
    size = (width + 7.6, 0.3 * len(shown) + 1.95)
    figure = Figure(figsize=size)
    axis = figure.add_axes(
        (width / size[0], 0.62 / size[1], 1 - (width + 0.95) / size[0], 1 - 1.75 / size[1])
    )
    hidden = len(table) - len(shown)
    more = f" The {len(shown)} worst of {len(table)} groups." if hidden else ""
    headline(
        figure,
        f"How wrong forecasts are inside each group: {table['title'][0]}",
        "Bias of the group's level sets, root mean square; worst mass-weighted violation first. Grey: what "
        f"chance makes of right forecasts.{more}",
    )
    colour_key(figure, [("before", BEFORE), ("after", AFTER)])
    heights = np.arange(len(shown))[::-1]
    old, new, chance = (shown[name].to_numpy() for name in ("before", "after", "chance"))
    axis.barh(heights, chance, height=0.66, color="#e9e9e9", lw=0, zorder=1)
    axis.hlines(heights, np.minimum(old, new), np.maximum(old, new), color=QUIET, lw=1.6, zorder=3)
    axis.scatter(old, heights, s=58, color=BEFORE, edgecolor="white", lw=0.7, zorder=4)
    axis.scatter(new, heights, s=58, color=AFTER, edgecolor="white", lw=0.7, zorder=5)
    axis.set_yticks(heights, shown["group"].to_list(), fontsize=8.5, color=INK)
    axis.tick_params(axis="y", length=0)
    axis.grid(visible=False, axis="y")
    axis.set(xlim=(0, 1.06 * max(old.max(), new.max(), chance.max())), ylim=(-0.7, len(shown) - 0.3))
    axis.set_xlabel("bias within the group, in probability")
    for height, rows in zip(heights, shown["rows"], strict=True):
        axis.text(
            1.015, height, f"{rows:,}", transform=axis.get_yaxis_transform(), va="center_baseline",
            fontsize=8, color=QUIET,
        )  # fmt: skip
    axis.text(1.015, len(shown) - 0.2, "rows", transform=axis.get_yaxis_transform(), fontsize=8, color=QUIET)
    return figure
