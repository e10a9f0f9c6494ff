"""How far from calibrated each key of a ledger can be at most, per round, beside what was promised."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from onlinecal.plots.ledger.keys import (
    FEW,
    KEY,
    MARKED,
    dot_look,
    dots_figure,
    key_table,
    label_ticks,
    name_dots,
)
from onlinecal.plots.style import HALO, INK, QUIET, in_house_style
from onlinecal.tables import number

if TYPE_CHECKING:
    from onlinecal.engine.ledger.report import Report

MARKS = 5
"""Among many keys, so many with the most open forecasts are named."""


def prepare(report: Report) -> pl.DataFrame:
    """The keys with settled rounds: columns as `key_table` has them."""
    return key_table(report).filter(pl.col("rounds") > 0)


@in_house_style
def draw(table: pl.DataFrame) -> Figure:
    """A dot per key: its certificate per round against its rounds; dashes above: its guarantee per round."""
    rounds, certificates, guarantees = (
        table[name].to_numpy().astype(float) for name in ("rounds", "certificate", "guarantee")
    )
    total, proven = rounds.sum(), certificates.sum()
    keys = "the only key is" if table.height == 1 else f"all {number(table.height)} keys together are"
    figure, axis = dots_figure(
        f"Proven: {keys} at most {proven / total:.4f} per round from calibrated",
        "One dot per key. Grey dashes: its guarantee per round, which counts how late its labels were; at "
        "most 1.",
        "rounds settled",
        "certificate per round",
    )
    per_round, promised = certificates / rounds, np.minimum(guarantees / rounds, 1.0)
    bottom = 0.6 * min(per_round[per_round > 0].min(initial=0.1), promised.min(), proven / total or 0.1)
    # a certificate of 0 lies on the lower edge
    heights = np.maximum(per_round, bottom)
    axis.set(xlim=(rounds.min() / 1.6, max(total, rounds.max() * 1.3) * 1.6), ylim=(bottom, 1.25))
    label_ticks(axis)
    few = table.height <= FEW
    if few:
        axis.vlines(rounds, heights, promised, color=QUIET, lw=0.8, alpha=0.6, zorder=2)
    look = dot_look(table.height)
    dash = {"s": 4 * look["s"], "lw": 1.2 if few else 0.8, "alpha": look["alpha"]}
    axis.scatter(rounds, promised, marker="_", color=QUIET, zorder=2, **dash)
    axis.scatter(rounds, heights, color=KEY, lw=0, zorder=3, clip_on=False, **look)
    opened = (
        table.with_row_index("place").filter(pl.col("open") > 0).sort("open", descending=True).head(MARKS)
    )
    places = list(range(table.height)) if few else opened["place"].to_list()
    if not few:
        axis.scatter(rounds[places], heights[places], color=MARKED, s=max(30.0, look["s"]), lw=0, zorder=5)
    dots = np.column_stack((rounds, heights))
    if table.height > 1:
        together = (total, max(proven / total, bottom))
        axis.scatter(*together, marker="D", color=INK, s=60, zorder=5)
        axis.annotate(
            "all keys", together, (0, 9), textcoords="offset points", ha="center", fontsize=9,
            fontweight="bold", path_effects=HALO, zorder=6,
        )  # fmt: skip
        dots = np.vstack((dots, together))
    name_dots(axis, dots, {place: _label(table, place) for place in places}, KEY if few else MARKED)
    return figure


def _label(table: pl.DataFrame, place: int) -> str:
    waiting = table["open"][place]
    return f"{table['key'][place]}, {number(waiting)} open" if waiting else str(table["key"][place])
