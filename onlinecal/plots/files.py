"""Figures on disk: a picture and the numbers it was drawn from, side by side."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
from matplotlib.figure import Figure

from onlinecal.plots.style import in_house_style
from onlinecal.tables import write_table


@in_house_style
def write_figure(figure: Figure, table: pl.DataFrame, stem: Path) -> Path:
    """Write <stem>.png, <stem>.svg and <stem>.csv, each only when it is complete; the path of the PNG."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    # without a date the same numbers give the same bytes
    for kind, metadata in (("svg", {"Date": None}), ("png", {})):
        path = stem.with_name(f"{stem.name}.{kind}")
        temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
        figure.savefig(temporary, format=kind, metadata=metadata)
        os.replace(temporary, path)
    write_table(table, stem.with_name(f"{stem.name}.csv"))
    return stem.with_name(f"{stem.name}.png")
