"""One reader for each format of files: the names of the columns as they are written, and their values.

A text file is read whole before columns are chosen: a row with other fields than the header is never shifted.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

SEPARATORS = (",", ";", "\t", "|")
HEAD = 1 << 20
"""Bytes at the beginning of a CSV that tell its separator and its header."""
ROW_NAMES = "row names"
"""What a column is called that the header has left out."""
WHOLE = r"^[+-]?(?:0|[1-9]\d*)$"
"""Whole numbers. What begins with other zeros is the name of something."""
NUMBER_FIELD = rb"(?:^|[,;\t|])[\"\s]*[+-]?\d*\.?\d+(?:[eE][+-]?\d+)?[%\"\s]*(?:$|[,;\t|])"
"""A field of a row that is a number: a header has none."""
ROWS_ALIKE = "a list of rows, as [{...}, {...}], or of columns, as {...: [...], ...: [...]}"


class Reader(Protocol):
    """A file that is open for reading: the names of its columns, as they are written, and the columns."""

    names: list[str]

    def read(self, places: Sequence[int], as_written: Collection[int]) -> pl.DataFrame:
        """The columns at these places, in this order; those `as_written` stay text in files of text."""


class Csv:
    """Rows of fields; before them may stand a line `sep=;`, or lines that begin with `#`.

    A header that is one name short in all rows leaves out the names of rows, as R's files do: these are a
    column "row names", if they are all different.
    """

    def __init__(self, content: bytes) -> None:
        content, told = _without_preamble(content)
        head = content[:HEAD].decode(errors="replace")
        self._separator = told or _separator(head)
        lines = csv.reader(io.StringIO(head, newline=""), delimiter=self._separator)
        self.names = next(lines, [])
        first = next(lines, [])
        self._content = content
        self._check_fields(len(first))

    def _check_fields(self, n_first: int) -> None:
        """Give names to what the header leaves out in every row: names of rows, or an end without fields."""
        if n_first != len(self.names) + 1:
            return
        counts = _field_counts(self._content, self._separator)[1:]
        if (counts != n_first).any():
            return
        table = self._texts(n_first)
        begins, ends = table.to_series(0), table.to_series(n_first - 1)
        if ends.null_count() == len(ends):
            self.names = [*self.names, ""]
        elif len(begins) > 1 and begins.n_unique() == len(begins):
            self.names = [ROW_NAMES, *self.names]

    def _texts(self, width: int) -> pl.DataFrame:
        """All rows below the header as texts, so many fields each; fewer are filled up with nothing."""
        import polars as pl

        try:
            return pl.read_csv(
                self._content,
                has_header=False,
                skip_rows=1,
                separator=self._separator,
                schema={str(place): pl.String for place in range(width)},
                missing_columns="insert",
            )
        except pl.exceptions.NoDataError:
            return pl.DataFrame(schema={str(place): pl.String for place in range(width)})
        except pl.exceptions.PolarsError as error:
            raise ValueError(self._surplus() or str(error).splitlines()[0]) from error

    def _surplus(self) -> str:
        """Which row has more fields than the header, if one has."""
        counts = _field_counts(self._content, self._separator)[1:]
        wide = counts > len(self.names)
        if not wide.any():
            return ""
        row = int(wide.argmax())
        return (
            f"row {row} has more fields than the header, {counts[row]} for {len(self.names)}: decimal "
            "commas, separators without quotes, or names of rows in some rows only?"
        )

    def read(self, places: Sequence[int], as_written: Collection[int]) -> pl.DataFrame:
        """As of `Reader`; a column that is all of numbers, or of true and false, is one of such."""
        import polars as pl

        table = self._texts(len(self.names))
        columns = [table.to_series(place) for place in places]
        read = [c if place in as_written else typed(c) for place, c in zip(places, columns, strict=True)]
        return pl.DataFrame([column.alias(str(number)) for number, column in enumerate(read)])


def _without_preamble(content: bytes) -> tuple[bytes, str | None]:
    """A CSV from its header on, and the separator that a line in front says."""
    if b"\n" not in content.rstrip(b"\r\n") and b"\r" in content:
        content = content.replace(b"\r", b"\n")
    content = content.lstrip(b"\r\n")
    told = re.match(rb"\"?sep=(.)\"?[\r\n]+", content[:20])
    if told is not None:
        return content[told.end() :].lstrip(b"\r\n"), told[1].decode(errors="replace")
    begin = 0
    while content[begin : begin + 1] == b"#":
        end = content.find(b"\n", begin) + 1
        after = content[end : content.find(b"\n", end) + 1 or None]
        line = content[begin:end]
        # a header may begin with it, too: it has as many fields as the row below, which holds numbers
        is_even = any(0 < line.count(sign) == after.count(sign) for sign in b",;\t|")
        if not end or (after[:1] != b"#" and is_even and re.search(NUMBER_FIELD, after)):
            break
        begin = end
    return content[begin:].lstrip(b"\r\n"), None


def _separator(head: str) -> str:
    """What stands between the fields of a CSV: equally often in the first two lines, else most often."""
    # every second part of a line cut at its quotes is inside them
    bare = ["".join(line.split('"')[::2]) for line in head.splitlines()[:2]]

    def fits(sign: str) -> tuple[bool, int]:
        counts = [line.count(sign) for line in bare] or [0]
        return min(counts) == max(counts) > 0, counts[0]

    return max(SEPARATORS, key=fits)


def _field_counts(content: bytes, separator: str) -> NDArray[np.int64]:
    """How many fields each line has that is not empty, the header's first; what quotes hold is not cut."""
    import numpy as np

    signs = np.frombuffer(content.replace(b"\r\n", b"\n").rstrip(b"\n") + b"\n", np.uint8)
    outside = ~np.logical_xor.accumulate(signs == ord('"'))
    ends = np.flatnonzero((signs == ord("\n")) & outside)
    cuts = np.flatnonzero((signs == ord(separator)) & outside)
    counts = np.diff(np.searchsorted(cuts, ends), prepend=0) + 1
    return counts[np.diff(ends, prepend=-1) > 1]


def typed(column: pl.Series) -> pl.Series:
    """Texts as whole numbers, numbers, or true and false, if all of them are such; else as they are.

    Whole numbers that are longer than a computer's, or begin with zeros, are names, and stay what they are.
    """
    import polars as pl

    known = column.drop_nulls()
    if not len(known):
        return column
    looks_whole = known.str.contains(WHOLE)
    if looks_whole.all():
        whole = column.cast(pl.Int64, strict=False)
        return whole if whole.null_count() == column.null_count() else column
    if (known.str.contains(r"^[+-]?0\d") | (looks_whole & (known.str.len_bytes() > 18))).any():
        return column
    numbers = column.cast(pl.Float64, strict=False)
    if numbers.null_count() == column.null_count():
        return numbers
    return column == "true" if known.is_in(["true", "false"]).all() else column


class JsonLines:
    """An object on each line; or one JSON text: a list of rows, of columns, or either in an envelope."""

    def __init__(self, content: bytes) -> None:
        self._table = _of_json(content)
        self.names = self._table.columns

    def read(self, places: Sequence[int], as_written: Collection[int]) -> pl.DataFrame:
        """As of `Reader`."""
        import polars as pl

        columns = [unboxed(self._table.to_series(place)) for place in places]
        return pl.DataFrame([column.alias(str(number)) for number, column in enumerate(columns)])


def _of_json(content: bytes) -> pl.DataFrame:
    """The rows of a JSON text, or of an object on each line."""
    import polars as pl

    content = content.strip()
    first, several, _ = content.partition(b"\n")
    try:
        one: Any = _parsed(content if content.startswith(b"[") or not several else first)
    except json.JSONDecodeError:
        # an object that begins in this line
        return _of_rows(_rows_in(_parsed(content)))
    if not (isinstance(one, dict) and several):
        return _of_rows(_rows_in(one))
    try:
        return pl.read_ndjson(io.BytesIO(content + b"\n"), infer_schema_length=None)
    except pl.exceptions.PolarsError:
        # `NaN` and numbers that are longer than a computer's are read by Python
        return _of_rows(_rows_in([_parsed(line) for line in content.splitlines() if line.strip()]))


def _parsed(text: bytes) -> Any:
    return json.loads(text, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """What JSON has in braces; ValueError if a name comes twice, of which one value would be lost."""
    for name in twice(name for name, _ in pairs):
        raise ValueError(f"an object has two values for {name!r}")
    return dict(pairs)


def _rows_in(text: Any) -> list[dict[str, Any]]:
    """The rows that a JSON text holds; ValueError in words if it holds none."""
    if isinstance(text, dict):
        tables = [name for name, value in text.items() if _are_rows(value)]
        if len(tables) == 1:
            return _rows_in(text[tables[0]])
        if tables:
            raise ValueError(f"it holds several lists of rows, {', '.join(tables)}: keep one")
        columns = {name: list(v.values()) if isinstance(v, dict) else v for name, v in text.items()}
        # a dictionary has names of rows, as those of pandas do: the same in all columns
        labels = {tuple(value) for value in text.values() if isinstance(value, dict)}
        lengths = {len(column) if isinstance(column, list) else None for column in columns.values()}
        if len(lengths) == 1 and None not in lengths and len(labels) < 2:
            return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        if not any(isinstance(value, (dict, list)) for value in text.values()):
            return [text]
        raise ValueError(f"it is one object, {{{', '.join(list(text)[:3])}, ...}}: it must be {ROWS_ALIKE}")
    if not _are_rows(text):
        raise ValueError(f"it must be {ROWS_ALIKE}")
    return list(text)


def _are_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _of_rows(rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Rows of Python's objects; a column of several kinds is one of texts."""
    import polars as pl

    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = []
    for name in names:
        values = [row.get(name) for row in rows]
        kinds = {type(value) for value in values if value is not None}
        if kinds <= {int, float} and float in kinds:
            values = [None if value is None or value != value else float(value) for value in values]
        elif len(kinds) > 1 or (kinds == {int} and max(map(abs, filter(None, values)), default=0) > 2**62):
            values = [_as_text(value) for value in values]
        columns.append(pl.Series(name, values, strict=False))
    return pl.DataFrame(columns)


def _as_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return json.dumps(value)


class Parquet:
    """A Parquet file, on disk or in memory."""

    def __init__(self, origin: Path | bytes) -> None:
        import polars as pl

        # without `glob=False` polars would read brackets in a path as patterns
        opened = io.BytesIO(origin) if isinstance(origin, bytes) else origin
        self._scanned = pl.scan_parquet(opened, glob=False)
        self.names = self._scanned.collect_schema().names()

    def read(self, places: Sequence[int], as_written: Collection[int]) -> pl.DataFrame:
        """As of `Reader`."""
        import polars as pl

        table = self._scanned.select([self.names[place] for place in places]).collect()
        return pl.DataFrame([unboxed(column).alias(str(n)) for n, column in enumerate(table)])


class Npz:
    """Arrays of numpy: vectors are columns, a table `a` has the columns a_0, a_1 and so on."""

    def __init__(self, origin: Path | bytes) -> None:
        self._origin = origin
        self._lengths = {name: len(values) for name, values in self._columns()}
        self.names = list(self._lengths)

    def _columns(self) -> Iterator[tuple[str, NDArray[Any]]]:
        import numpy as np

        opened = io.BytesIO(self._origin) if isinstance(self._origin, bytes) else self._origin
        with np.load(opened, allow_pickle=False) as arrays:
            for key in arrays.files:
                array = arrays[key]
                if array.ndim == 1:
                    yield key, array
                elif array.ndim == 2:
                    yield from ((f"{key}_{place}", array[:, place]) for place in range(array.shape[1]))

    def read(self, places: Sequence[int], as_written: Collection[int]) -> pl.DataFrame:
        """As of `Reader`; ValueError for vectors of unequal length."""
        import numpy as np
        import polars as pl

        names = [self.names[place] for place in sorted(places)]
        if len({self._lengths[name] for name in names}) > 1:
            sizes = ", ".join(f"{name} {self._lengths[name]:,}" for name in names)
            raise ValueError(f"columns of unequal length: {sizes}")
        read = dict(self._columns())
        columns = [np.ascontiguousarray(read[self.names[place]]) for place in places]
        return pl.DataFrame({str(number): column for number, column in enumerate(columns)})


def unboxed(column: pl.Series) -> pl.Series:
    """A column of lists of one as what is in them; any other as it is."""
    import polars as pl

    if isinstance(column.dtype, (pl.List, pl.Array)):
        lists = column.cast(pl.List(column.dtype.inner)) if isinstance(column.dtype, pl.Array) else column
        if (lists.list.len().drop_nulls() == 1).all():
            return lists.list.first()
    return column


def twice(names: Iterable[str]) -> set[str]:
    """The names that come more than once."""
    return {name for name, count in Counter(names).items() if count > 1}
