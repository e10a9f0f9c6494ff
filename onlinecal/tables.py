"""Tables: on disk a file is either not there, or the old one, or complete; for people, numbers are short."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


def write_table(table: pl.DataFrame, path: Path) -> Path:
    """Write a table in the format of the path's extension; it appears when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    if path.suffix == ".csv":
        table.write_csv(temporary)
    else:
        table.write_parquet(temporary)
    os.replace(temporary, path)
    return path


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that is either not there, or the old one, or complete."""
    temporary = _temporary(path)
    temporary.write_bytes(content)
    os.replace(temporary, path)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.part")


def number(value: float | None) -> str:
    """A number for a table: thousands separated, about five digits."""
    if value is None:
        return "–"
    if value != value:
        return "?"
    size = abs(value)
    if float(value).is_integer():
        return f"{int(value):,}"
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:,.1f}" if size >= 100 else f"{value:.2f}" if size >= 0.1 else f"{value:.3g}"
