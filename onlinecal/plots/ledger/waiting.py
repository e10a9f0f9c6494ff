"""Which keys of a ledger wait for outcomes: how many, and for how long."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from onlinecal.plots.columns import highest
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
from onlinecal.plots.style import in_house_style
from onlinecal.tables import number

if TYPE_CHECKING:
    from onlinecal.engine.ledger.report import Report

MARKS = 4
"""Among many keys, so many that wait for most are named, and so many that wait longest."""


def prepare(report: Report) -> pl.DataFrame:
    """The keys with open forecasts: columns as `key_table` has them."""
    return key_table(report).filter(pl.col("open") > 0)


@in_house_style
def draw(table: pl.DataFrame) -> Figure:
    """A dot per key: its open forecasts against the events since the oldest of them was asked for."""
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
    waited, opened = table["waited"].clip(1).to_numpy(), table["open"].to_numpy()
    axis.set(xlim=(max(0.5, waited.min() / 1.6), waited.max() * 1.6), ylim=(0.7, max(opened.max(), 5) * 1.5))
    label_ticks(axis)
    look = dot_look(table.height)
    axis.scatter(waited, opened, color=KEY, lw=0, zorder=3, **look)
    ranked = table.with_row_index("place")
    marked = dict.fromkeys(
        place
        for column in ("open", "waited")
        for place in ranked.sort(column, descending=True)["place"].head(MARKS).to_list()
    )
    few = table.height <= FEW
    places = list(range(table.height)) if few else list(marked)
    if not few:
        axis.scatter(waited[places], opened[places], color=MARKED, s=max(30.0, look["s"]), lw=0, zorder=5)
    names = {place: str(table["key"][place]) for place in places}
    name_dots(axis, np.column_stack((waited, opened)), names, KEY if few else MARKED)
    return figure
