"""Opens a file of a table (CSV, JSON, Parquet or NPZ), a pipe, or data of the package, and reads columns.

`formats` has the reader of each format. What the columns hold is checked in `rounds` and `classes`.

Nothing is kept open or remembered between two calls, and no file is written; but a pipe can be read once. The
extension says what format a file has (FORMATS); of a pipe, which has none, the first bytes do (FIRST_BYTES).
Rows stay in the order of the file, since forecasts of a stream depend on it.
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
from onlinecal.tables.formats import Csv, FormatReader, JsonLines, Npz, Parquet, twice
from onlinecal.texts import cut, shown

if TYPE_CHECKING:
    import polars as pl


FORMATS = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".npz": "npz",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".tsv": "csv",
}
"""The format of a file, by its extension. After the extension of a text format .gz may follow."""

TEXT_FORMATS = ("csv", "json")
FIRST_BYTES = {b"PAR1": "parquet", b"PK\x03\x04": "npz", b"{": "json", b"[{": "json"}
"""The format of a pipe's contents, by their first bytes; contents that begin in another way are CSV."""
STANDARD_INPUT = "standard input"
DAMAGE_ERRORS = (zipfile.BadZipFile, gzip.BadGzipFile, EOFError, zlib.error)

PACKAGED_DATA = {"nba": Path(__file__).parents[1] / "datasets" / "nba_games.csv.gz"}
"""Data that comes with the package, by the name that may be given wherever a file is asked for. `datasets/`
reads the same file."""


def is_pipe(path: Path) -> bool:
    """Whether the path is standard input, "-", or another pipe: it can be read once, and has no extension."""
    return str(path) == "-" or path.is_fifo()


def called(path: Path) -> str:
    """The name of a path in errors."""
    return STANDARD_INPUT if str(path) == "-" else str(path)


def located(path: Path) -> Path:
    """The path itself if a file is there, else the package's data of that name, if there are such."""
    return path if path.exists() else PACKAGED_DATA.get(str(path), path)


def is_file(path: Path) -> bool:
    """Whether the path looks like a file, which need not exist: a dot, a folder, a pipe or packaged data."""
    return "." in path.name or len(path.parts) > 1 or is_pipe(path) or located(path).exists()


def check_file(path: Path) -> None:
    """Refuse a path without a file, and an extension that is not in `FORMATS`; pipes need no extension."""
    if is_pipe(path):
        return
    path = located(path)
    if not path.is_file():
        raise FileNotFoundError(f"{'not a file' if path.exists() else 'no such file'}: {path}")
    if _form(path) is None:
        known = ", ".join(FORMATS)
        raise ValueError(
            f"cannot tell the format of {path} from its extension; known are {known}, and .gz after those of "
            'text. Standard input, "-", needs no extension'
        )
    if path.suffix.lower() == ".npz" and not zipfile.is_zipfile(path):
        raise ValueError(f"{path} cannot be read as npz: it is no archive of arrays, as numpy.savez writes")


def _form(path: Path) -> str | None:
    """The format that a path's extension names; None if it names none."""
    is_packed = path.suffix.lower() == ".gz"
    form = FORMATS.get((path.with_suffix("") if is_packed else path).suffix.lower())
    return form if form in TEXT_FORMATS or not is_packed else None


def _opened(path: Path) -> tuple[str, Path | bytes]:
    """A file's format and contents: text as unpacked bytes in UTF-8; else the path, or a pipe's bytes."""
    path = located(path)
    check_file(path)
    form = None if is_pipe(path) else _form(path)
    if form is not None and form not in TEXT_FORMATS:
        return form, path
    content = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    if content.startswith(b"\x1f\x8b"):
        with readable(path, "gzip"):
            content = gzip.decompress(content)
    if form is None:
        begin = b"".join(content.removeprefix(b"\xef\xbb\xbf")[:64].split())
        form = next((form for start, form in FIRST_BYTES.items() if begin.startswith(start)), "csv")
    return form, _in_utf8(content) if form in TEXT_FORMATS else content


def _in_utf8(content: bytes) -> bytes:
    """Text in UTF-8, without a byte order mark, with one line break at its end.

    Text with a mark of UTF-16 is read as such; other text that is not UTF-8 is read as cp1252.
    """
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
    """Errors of readers inside the block become a ValueError of one line."""
    import polars as pl

    try:
        yield
    except (ValueError, pl.exceptions.PolarsError, *DAMAGE_ERRORS) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ValueError(f"{called(path)} cannot be read as {form}: {cut(reason)}") from error


def check_columns(columns: Iterable[str], wanted: Iterable[str], owner: object = "the table") -> None:
    """Refuse the first wanted name that is not a column; the error says which columns `owner` has."""
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
    """The wanted columns of a file, or all if none is wanted.

    The file is CSV with any of SEPARATORS, or JSON, also line by line (both may be packed, .gz), Parquet, or
    NPZ, whose vectors are columns and whose table `a` has the columns a_0, a_1, ... The path "-" is standard
    input, in any of these formats. In CSV files the columns `as_written` stay text, and times always do.
    A column of lists with one element each becomes a column of these elements.

    Raises
    ------
    FileNotFoundError, ValueError
        No such file or column, two columns of that name, another extension, contents that cannot be read, a
        row with more fields than the header, no rows.
    """
    form, origin = _opened(path)
    if form in TEXT_FORMATS and isinstance(origin, bytes) and not origin.strip():
        raise ValueError(f"{called(path)} has no rows: it needs at least one")
    with readable(path, form):
        reader = _reader(form, origin)
    names = _plain_names(reader.names)
    chosen = list(dict.fromkeys(wanted)) or list(names)
    if not set(chosen) <= set(names) and form == "csv" and all(map(_is_number, names)):
        raise ValueError(
            f"{called(path)} has no header: its first line is {shown(names)}. Put the columns' names first"
        )
    check_columns(names, chosen, called(path))
    for name in twice(names) & set(chosen) - {""}:
        raise ValueError(f"{called(path)} has two columns {name!r}: rename one")
    texts = set(as_written)
    places = [names.index(name) for name in dict.fromkeys(chosen)]
    with readable(path, form):
        frame = reader.read(places, {place for place in places if names[place] in texts})
    frame.columns = [names[place] for place in places]
    if frame.height == 0:
        raise ValueError(f"{called(path)} has no rows: it needs at least one")
    return frame


def _reader(form: str, origin: Path | bytes) -> FormatReader:
    if isinstance(origin, bytes) and form in TEXT_FORMATS:
        return Csv(origin) if form == "csv" else JsonLines(origin)
    return Parquet(origin) if form == "parquet" else Npz(origin)


def _plain_names(written: Sequence[str]) -> list[str]:
    """Names without spaces around them, unless two names would become the same."""
    plain = [name.strip() for name in written]
    return plain if len(set(plain)) == len(set(written)) else list(written)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
