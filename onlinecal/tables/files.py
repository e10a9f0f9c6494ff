"""Files of tables as people have them: one reader for CSV, JSON Lines, Parquet and NPZ.

What the columns hold is read and checked in `onlinecal.tables.rounds`.
"""

from __future__ import annotations

import gzip
import sys
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from onlinecal.catalogue import did_you_mean
from onlinecal.tables.formats import Csv, JsonLines, Npz, Parquet, Reader, twice
from onlinecal.texts import cut, shown

if TYPE_CHECKING:
    import polars as pl


FORMATS = {
    ".csv": "csv",
    ".json": "json lines",
    ".jsonl": "json lines",
    ".ndjson": "json lines",
    ".npz": "npz",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".tsv": "csv",
}
"""How a file is read, by its extension; those of text may be followed by .gz."""

TEXT = ("csv", "json lines")
STARTS = {b"PAR1": "parquet", b"PK\x03\x04": "npz", b"{": "json lines", b"[{": "json lines"}
"""How what a pipe brings begins, if it is no CSV."""
STANDARD_INPUT = "standard input"
DAMAGED = (zipfile.BadZipFile, gzip.BadGzipFile, EOFError, zlib.error)

PACKAGED = {"nba": Path(__file__).parents[1] / "datasets" / "nba_games.csv.gz"}
"""Data that comes with the package, by the name that is taken wherever a file is."""


def is_pipe(path: Path) -> bool:
    """Whether the path is standard input, "-", or another pipe: it can be read once, and has no extension."""
    return str(path) == "-" or path.is_fifo()


def called(path: Path) -> str:
    """What a path is called in errors."""
    return STANDARD_INPUT if str(path) == "-" else str(path)


def located(path: Path) -> Path:
    """Where a file is: one that is not there, of a packaged name, is that of the package."""
    return path if path.exists() else PACKAGED.get(str(path), path)


def is_file(path: Path) -> bool:
    """Whether somebody who wrote this means a file, if perhaps one that is not there."""
    return "." in path.name or len(path.parts) > 1 or is_pipe(path) or located(path).exists()


def check_file(path: Path) -> None:
    """Refuse what is not there, and an extension that is none of `FORMATS`; pipes have none."""
    if is_pipe(path):
        return
    path = located(path)
    if not path.is_file():
        raise FileNotFoundError(f"{'not a file' if path.exists() else 'no such file'}: {path}")
    if _form(path) is None:
        known = ", ".join(FORMATS)
        raise ValueError(
            f"cannot tell what {path} is from its extension; known: {known}, those of text also with .gz. "
            'Standard input, "-", is read without one'
        )
    if path.suffix.lower() == ".npz" and not zipfile.is_zipfile(path):
        raise ValueError(f"{path} cannot be read as npz: it is no archive of arrays")


def _form(path: Path) -> str | None:
    """How a path's extension says that it is read; None if it does not."""
    is_packed = path.suffix.lower() == ".gz"
    form = FORMATS.get((path.with_suffix("") if is_packed else path).suffix.lower())
    return form if form in TEXT or not is_packed else None


def _opened(path: Path) -> tuple[str, Path | bytes]:
    """How a file is read, and from what: text is unpacked, in UTF-8, the others stay on disk."""
    path = located(path)
    check_file(path)
    form = None if is_pipe(path) else _form(path)
    if form is not None and form not in TEXT:
        return form, path
    content = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    if content.startswith(b"\x1f\x8b"):
        with readable(path, "gzip"):
            content = gzip.decompress(content)
    if form is None:
        begin = b"".join(content.removeprefix(b"\xef\xbb\xbf")[:64].split())
        form = next((form for start, form in STARTS.items() if begin.startswith(start)), "csv")
    return form, _in_utf8(content) if form in TEXT else content


def _in_utf8(content: bytes) -> bytes:
    """Text in UTF-8, without mark and blank lines at its end; else it is UTF-16, marked, or cp1252."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        content = content.decode("utf-16", "replace").encode()
    else:
        try:
            content.decode()
        except UnicodeDecodeError:
            content = content.decode("cp1252", "replace").encode()
    return content.removeprefix(b"\xef\xbb\xbf").rstrip(b"\r\n") + b"\n"


@contextmanager
def readable(path: Path, form: str) -> Iterator[None]:
    """What cannot be read is a ValueError of one line."""
    import polars as pl

    try:
        yield
    except (ValueError, pl.exceptions.PolarsError, *DAMAGED) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ValueError(f"{called(path)} cannot be read as {form}: {cut(reason)}") from error


def check_columns(columns: Iterable[str], wanted: Iterable[str], owner: object = "the table") -> None:
    """Refuse the first name that is no column; the error says whose columns they are, and which there are."""
    known = list(columns)
    for name in wanted:
        if name not in known:
            raise ValueError(f"{owner} has no column {name!r}{did_you_mean(name, known, 'Its columns')}")


def read_columns(path: Path) -> list[str]:
    """The names of a file's columns; errors as of `read_frame`."""
    form, origin = _opened(path)
    with readable(path, form):
        return _plain_names(_reader(form, origin).names)


def read_frame(path: Path, wanted: Iterable[str] = (), as_written: Iterable[str] = ()) -> pl.DataFrame:
    """The columns of a file: at least those wanted; all, if none is named.

    CSV with any of SEPARATORS; JSON, also line by line; both also packed (.gz); Parquet; NPZ, whose vectors
    are columns, a table `a` the columns a_0, a_1, ... "-" is standard input, in any of these formats. In CSV
    files those `as_written` stay text, and times always do. Lists of one are what is in them.

    Raises
    ------
    FileNotFoundError, ValueError
        No such file or column, two columns of that name, another extension, contents that cannot be read, a
        row with more fields than the header, no rows.
    """
    form, origin = _opened(path)
    if form in TEXT and isinstance(origin, bytes) and not origin.strip():
        raise ValueError(f"{called(path)} holds no rounds")
    with readable(path, form):
        reader = _reader(form, origin)
    names = _plain_names(reader.names)
    chosen = list(dict.fromkeys(wanted)) or list(names)
    if not set(chosen) <= set(names) and form == "csv" and all(map(_is_number, names)):
        raise ValueError(f"{called(path)} has no header: its first line is {shown(names)}")
    check_columns(names, chosen, called(path))
    for name in twice(names) & set(chosen) - {""}:
        raise ValueError(f"{called(path)} has two columns {name!r}: rename one")
    texts = set(as_written)
    places = [names.index(name) for name in dict.fromkeys(chosen)]
    with readable(path, form):
        frame = reader.read(places, {place for place in places if names[place] in texts})
    frame.columns = [names[place] for place in places]
    if frame.height == 0:
        raise ValueError(f"{called(path)} holds no rounds")
    return frame


def _reader(form: str, origin: Path | bytes) -> Reader:
    if isinstance(origin, bytes) and form in TEXT:
        return Csv(origin) if form == "csv" else JsonLines(origin)
    return Parquet(origin) if form == "parquet" else Npz(origin)


def _plain_names(written: Sequence[str]) -> list[str]:
    """Names without spaces around, if they can be told apart then as well as before."""
    plain = [name.strip() for name in written]
    return plain if len(set(plain)) == len(set(written)) else list(written)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
