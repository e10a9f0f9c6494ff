"""Tables: on disk a file is either not there, or the old one, or complete; for people, numbers are short.

What the columns hold is read and checked in `onlinecal.columns`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from onlinecal.catalogue import did_you_mean
from onlinecal.formats import called, frame_of, names_of, open_source, readable

if TYPE_CHECKING:
    import polars as pl


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Where to write a file that gets its name at the end of the block, in place of an old one.

    That is in a folder beside it with a name that nobody has; it is gone when the block fails.
    """
    with TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.{os.getpid()}-") as folder:
        part = Path(folder) / path.name
        yield part
        os.replace(part, path)


def write_table(table: pl.DataFrame, path: Path) -> Path:
    """Write a table in the format of the path's extension; it appears when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as part:
        if path.suffix == ".csv":
            table.write_csv(part)
        else:
            table.write_parquet(part)
    return path


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that is either not there, or the old one, or complete."""
    with whole(path) as part:
        part.write_bytes(content)


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


def counted(count: int, what: str) -> str:
    """So many of what has a plural in -s: "1 event", "2 events"."""
    return f"{number(count)} {what}{'s' * (count != 1)}"


def check_columns(columns: Iterable[str], wanted: Iterable[str], owner: object = "the table") -> None:
    """Refuse the first name that is no column; the error says whose columns they are, and which there are."""
    known = list(columns)
    for name in wanted:
        if name not in known:
            raise ValueError(f"{owner} has no column {name!r}{did_you_mean(name, known, 'Its columns')}")


def read_columns(path: Path) -> list[str]:
    """The names of a file's columns; errors as of `read_frame`."""
    source = open_source(path)
    with readable(path, source.form):
        return list(names_of(source))


def read_frame(
    path: Path, wanted: Iterable[str] = (), as_written: Iterable[str] = (), dates: bool = False
) -> pl.DataFrame:
    """The columns of a file: at least those wanted; all, if none is named.

    CSV with any of `formats.SEPARATORS`, JSON Lines, both also packed (.gz); Parquet; NPZ, whose vectors are
    columns, a table `a` the columns a_0, a_1, ... "-" is standard input, in any of these formats. In text
    files those `as_written` stay text. `dates`: texts that look like dates become some.

    Raises
    ------
    FileNotFoundError, ValueError
        No such file or column, another extension, contents that cannot be read, no rows.
    """
    source = open_source(path)
    if source.is_blank:
        raise ValueError(f"{called(path)} holds no rounds")
    with readable(path, source.form):
        names = names_of(source)
        chosen = list(dict.fromkeys(wanted))
        if not set(chosen) <= set(names) and source.form == "csv" and all(map(_is_number, names)):
            raise ValueError(f"{called(path)} has no header: its first line is {', '.join(names)}")
        check_columns(names, chosen, called(path))
        kept = {name: names[name] for name in chosen} if chosen else names
        frame = frame_of(source, kept, as_written, dates)
    if frame.height == 0:
        raise ValueError(f"{called(path)} holds no rounds")
    return frame


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
