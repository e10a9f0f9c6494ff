"""Files of many rows: read into one array chunk by chunk, and written chunk by chunk."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from onlinecal.formats import check_file, is_pipe, readable, separator_of
from onlinecal.pieces import sampled_rows
from onlinecal.tables import check_columns

LARGE = 20_000_000
"""Probabilities of a table that is handled in chunks: 160 MB of doubles."""
CHUNK = 1 << 18
"""Rows of a chunk."""
SCORED = 200_000
"""Rows of a large part, drawn at random, that scores are of."""


@dataclass(frozen=True, eq=False)
class Chunks:
    """A table to write that is made chunk by chunk: its rows, and what makes those of a slice."""

    n_rows: int
    make: Callable[[slice], pl.DataFrame]

    def __iter__(self) -> Iterator[pl.DataFrame]:
        for start in range(0, self.n_rows, CHUNK):
            yield self.make(slice(start, min(start + CHUNK, self.n_rows)))


def maybe_large(path: Path) -> pl.LazyFrame | None:
    """The columns of a Parquet file, or of a plain CSV of some size, in UTF-8, unread; None for others."""
    check_file(path)
    form, is_parquet = path.suffix.lower(), path.suffix.lower() in (".parquet", ".pq")
    # a number in a CSV takes at least two bytes
    if is_pipe(path) or not (is_parquet or (form == ".csv" and path.stat().st_size >= 2 * LARGE)):
        return None
    with readable(path, form[1:]):
        # a path with brackets is no pattern
        if is_parquet:
            frame = pl.scan_parquet(path, glob=False)
        else:
            with path.open("rb") as file:
                separator = separator_of(file.read(1 << 20))
            frame = pl.scan_csv(path, glob=False, separator=separator)
        written = frame.collect_schema().names()
        return frame.rename({name: name.strip() for name in written if name != name.strip()})


def many_rows(frame: pl.LazyFrame, width: int) -> int | None:
    """How many rows there are, if so many columns of them are large."""
    n_rows = int(frame.select(pl.len()).collect().item())
    return n_rows if n_rows * width > LARGE else None


def large_columns(path: Path, wanted: Sequence[str]) -> pl.DataFrame | None:
    """Some columns of a large file, those of numbers if none is named; None for other files."""
    if (frame := maybe_large(path)) is None:
        return None
    with readable(path, path.suffix[1:]):
        schema = frame.collect_schema()
        names = list(dict.fromkeys(wanted)) or [name for name, kind in schema.items() if is_numbers(kind)]
        check_columns(schema.names(), names, path)
        return None if many_rows(frame, len(names)) is None else frame.select(names).collect()


def is_numbers(kind: pl.DataType) -> bool:
    """Whether a column of this type can be taken for numbers."""
    return kind.is_numeric() or kind == pl.Boolean


def read_large(
    frame: pl.LazyFrame, names: list[str], label: str | None, path: Path
) -> tuple[NDArray[Any], pl.Series | None] | None:
    """Columns of numbers as one array (n, k), of float32 if all of them are that, and the labels' column.

    None for those that are not large. Raises ValueError for a column that is none of numbers.
    """
    with readable(path, path.suffix[1:]):
        if (n_rows := many_rows(frame, len(names))) is None:
            return None
        schema = frame.select(names).collect_schema()
        if bad := next((name for name, kind in schema.items() if not kind.is_numeric()), None):
            raise ValueError(f"column {bad!r} must hold numbers, but it holds {schema[bad]}")
        kind = np.float32 if set(schema.dtypes()) == {pl.Float32} else np.float64
        table, labels = np.empty((n_rows, len(names)), kind), []
        wanted = frame.select(list(dict.fromkeys([*names, *([] if label is None else [label])])))
        start = 0
        for part in wanted.collect_batches(chunk_size=CHUNK):
            rows = slice(start, start + part.height)
            for place, name in enumerate(names):
                table[rows, place] = part[name].cast(pl.Float64).fill_null(np.nan).to_numpy()
            labels += [] if label is None else [part[label]]
            start = rows.stop
    return table, pl.concat(labels) if labels else None


def scored_rows(n_rows: int, n_classes: int) -> NDArray[np.int64] | None:
    """Of a large part, with so many columns, the rows that are scored; None: all of them."""
    if n_rows * n_classes <= LARGE or n_rows <= SCORED:
        return None
    return np.unique(sampled_rows(n_rows, SCORED))


def rows_to_write(
    n_rows: int, in_chunks: bool, make: Callable[[slice], pl.DataFrame]
) -> pl.DataFrame | Chunks:
    """The rows of a table to write, from what makes those of a slice: at once, or chunk by chunk."""
    return Chunks(n_rows, make) if in_chunks else make(slice(0, n_rows))


def write_chunks(chunks: Chunks, path: Path) -> Path:
    """Write a Parquet file that appears when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    first = chunks.make(slice(0, 1)).schema

    failed: list[BaseException] = []

    def made(columns: list[str] | None, *_: Any) -> Iterator[pl.DataFrame]:
        try:
            for chunk in chunks:
                yield chunk if columns is None else chunk.select(columns)
        except BaseException as error:
            # polars ends the file in its own time if it is handed this
            failed.append(error)

    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        pl.io.plugins.register_io_source(made, schema=first).sink_parquet(temporary)
        if failed:
            raise failed[0]
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path
