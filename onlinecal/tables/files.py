"""Files of tables as people have them: one reader for CSV, JSON Lines, Parquet and NPZ.

What the columns hold is read and checked in `onlinecal.tables.rounds`.
"""

from __future__ import annotations

import gzip
import io
import json
import sys
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onlinecal.catalogue import did_you_mean

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
SEPARATORS = (",", ";", "\t", "|")
HEAD = 1 << 20
"""Bytes at the beginning of a CSV that tell its separator."""

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
        begin = b"".join(content[:64].split())
        form = next((form for start, form in STARTS.items() if begin.startswith(start)), "csv")
    if form not in TEXT:
        return form, content
    content = _in_utf8(content)
    if form == "json lines" and content.lstrip().startswith(b"["):
        with readable(path, "json"):
            content = b"".join(json.dumps(row).encode() + b"\n" for row in json.loads(content))
    return form, content


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
    except (pl.exceptions.PolarsError, json.JSONDecodeError, *DAMAGED) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        if reason.startswith("found more fields"):
            reason = "a row has more fields than the header: decimal commas, or separators without quotes?"
        raise ValueError(f"{called(path)} cannot be read as {form}: {reason}") from error


def _openable(origin: Path | bytes) -> Path | io.BytesIO:
    return io.BytesIO(origin) if isinstance(origin, bytes) else origin


def _names(form: str, origin: Path | bytes) -> dict[str, str]:
    """The columns as they are written, by their names: without spaces around, if that is clear."""
    if form == "npz":
        written = [name for name, _ in _npz_columns(origin)]
    else:
        # of text only the header is read
        written = _scanned(form, origin, {}, 0).collect_schema().names()
    plain = [name.strip() for name in written]
    return dict(zip(plain if len(set(plain)) == len(plain) else written, written, strict=True))


def _scanned(
    form: str, origin: Path | bytes, texts: dict[str, Any], inferred: int | None = None
) -> pl.LazyFrame:
    import polars as pl

    # without `glob=False` polars would read brackets in a path as patterns
    if form == "parquet":
        return pl.scan_parquet(_openable(origin), glob=False)
    assert isinstance(origin, bytes)
    if form == "json lines":
        return pl.scan_ndjson(origin, schema_overrides=texts, infer_schema_length=None)
    return pl.scan_csv(
        origin,
        separator=_separator(origin),
        schema_overrides=texts,
        infer_schema_length=inferred,
    )


def _separator(content: bytes) -> str:
    """What stands between the fields of a CSV: equally often in the first two lines, else most often."""
    head = content[:HEAD].decode(errors="replace").splitlines()[:2]
    # every second part of a line cut at its quotes is inside them
    bare = ["".join(line.split('"')[::2]) for line in head]

    def fits(sign: str) -> tuple[bool, int]:
        counts = [line.count(sign) for line in bare]
        return min(counts) == max(counts) > 0, counts[0]

    return max(SEPARATORS, key=fits)


def _npz_columns(origin: Path | bytes, wanted: Iterable[str] | None = None) -> Iterator[tuple[str, object]]:
    """The vectors of an NPZ file, and the columns of its tables as name_0, name_1 and so on."""
    import numpy as np

    chosen = None if wanted is None else set(wanted)
    lengths: dict[str, int] = {}
    with np.load(_openable(origin), allow_pickle=False) as arrays:
        for key in arrays.files:
            array = arrays[key]
            columns = {key: array} if array.ndim == 1 else {}
            if array.ndim == 2:
                columns = {f"{key}_{place}": array[:, place] for place in range(array.shape[1])}
            for name, values in columns.items():
                if chosen is None or name in chosen:
                    lengths[name] = len(values)
                    yield name, np.ascontiguousarray(values)
    if chosen is not None and len(set(lengths.values())) > 1:
        raise ValueError(f"columns of unequal length: {', '.join(f'{k} {n:,}' for k, n in lengths.items())}")


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
        return list(_names(form, origin))


def read_frame(path: Path, wanted: Iterable[str] = (), as_written: Iterable[str] = ()) -> pl.DataFrame:
    """The columns of a file: at least those wanted; all, if none is named.

    CSV with any of SEPARATORS, JSON Lines, both also packed (.gz); Parquet; NPZ, whose vectors are columns, a
    table `a` the columns a_0, a_1, ... "-" is standard input, in any of these formats. In text files those
    `as_written` stay text, and times always do.

    Raises
    ------
    FileNotFoundError, ValueError
        No such file or column, another extension, contents that cannot be read, no rows.
    """
    import polars as pl

    form, origin = _opened(path)
    if form in TEXT and isinstance(origin, bytes) and not origin.strip():
        raise ValueError(f"{called(path)} holds no rounds")
    with readable(path, form):
        names = _names(form, origin)
    chosen = list(dict.fromkeys(wanted)) or list(names)
    if not set(chosen) <= set(names) and form == "csv" and all(map(_is_number, names)):
        raise ValueError(f"{called(path)} has no header: its first line is {', '.join(names)}")
    check_columns(names, chosen, called(path))
    written = [names[name] for name in chosen]
    with readable(path, form):
        if form == "npz":
            frame = pl.DataFrame(dict(_npz_columns(origin, written))).select(written)
        else:
            texts = {names[name]: pl.String() for name in as_written if name in names}
            frame = _scanned(form, origin, texts).select(pl.col(written)).collect()
    frame.columns = chosen
    if frame.height == 0:
        raise ValueError(f"{called(path)} holds no rounds")
    return frame


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
