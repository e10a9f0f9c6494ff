"""One reader for each format of files, which gives the names of the columns, as written, and their values.

A text file is read whole before columns are chosen, so that a row with more or fewer fields than the header
is noticed, and its values are never read as those of other columns.

A reader is made of the content of one file and used once: `names` is known when it is made, and `read` gives
the columns that are asked for, with rows in their order. It changes nothing else. A new format is a class
with these two, a case in `files._reader`, and an entry in `files.FORMATS`. Which texts count as numbers
(`typed`) decides what a file means.
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

from onlinecal.texts import cut, shown

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

SEPARATORS = (",", ";", "\t", "|")
HEAD_BYTES = 1 << 20
"""How many bytes at the beginning of a CSV are searched for its separator and its header."""
ROW_NAMES = "row names"
"""The name of a first column that the header leaves out."""
WHOLE_NUMBER = r"^[+-]?(?:0|[1-9]\d*)$"
"""The pattern of whole numbers. Digits that begin with a needless zero are a name, such as 007."""
NUMBER_FIELD = rb"(?:^|[,;\t|])[\"\s]*[+-]?\d*\.?\d+(?:[eE][+-]?\d+)?[%\"\s]*(?:$|[,;\t|])"
"""The pattern of a number among the fields of a row. A header has no such field."""
ROWS_ALIKE = "a list of rows, as [{...}, {...}], or of columns, as {...: [...], ...: [...]}"


class FormatReader(Protocol):
    """A file that is open for reading: the names of its columns, as they are written, and the columns."""

    names: list[str]

    def read(self, places: Sequence[int], as_written: Collection[int]) -> pl.DataFrame:
        """The columns at these places, in this order; those `as_written` stay text in files of text."""


class Csv:
    """Rows of fields; before them may stand a line `sep=;`, or lines that begin with `#`.

    The header may have one name less than each row has fields, as in R's files, which leave out the name of
    the first column. If the values of that column all differ, it is called "row names".
    """

    def __init__(self, content: bytes) -> None:
        content, stated = _without_preamble(content)
        head = content[:HEAD_BYTES].decode(errors="replace")
        self._separator = stated or _separator(head)
        lines = csv.reader(io.StringIO(head, newline=""), delimiter=self._separator)
        self.names = next(lines, [])
        first = next(lines, [])
        self._content = content
        self._check_fields(len(first))

    def _check_fields(self, n_first: int) -> None:
        """Name a column that the header leaves out: names of rows, or an empty last field in every row."""
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
        """All rows below the header as texts, `width` fields each; what a row lacks is null."""
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
        """What an error says of the first row with more fields than the header; "" if there is none."""
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
        """As `FormatReader` says; a column of numbers only, or of booleans only, becomes one of that type."""
        import polars as pl

        table = self._texts(len(self.names))
        columns = [table.to_series(place) for place in places]
        read = [c if place in as_written else typed(c) for place, c in zip(places, columns, strict=True)]
        return pl.DataFrame([column.alias(str(number)) for number, column in enumerate(read)])


def _without_preamble(content: bytes) -> tuple[bytes, str | None]:
    """A CSV from its header on, and the separator that a line before it states; None if none does."""
    if b"\n" not in content.rstrip(b"\r\n") and b"\r" in content:
        content = content.replace(b"\r", b"\n")
    content = content.lstrip(b"\r\n")
    stated = re.match(rb"\"?sep=(.)\"?[\r\n]+", content[:20])
    if stated is not None:
        return content[stated.end() :].lstrip(b"\r\n"), stated[1].decode(errors="replace")
    begin = 0
    while content[begin : begin + 1] == b"#":
        end = content.find(b"\n", begin) + 1
        after = content[end : content.find(b"\n", end) + 1 or None]
        line = content[begin:end]
        # a header, too, may begin with "#"; it has as many fields as the row below, and that holds numbers
        is_even = any(0 < line.count(sign) == after.count(sign) for sign in b",;\t|")
        if not end or (after[:1] != b"#" and is_even and re.search(NUMBER_FIELD, after)):
            break
        begin = end
    return content[begin:].lstrip(b"\r\n"), None


def _separator(head: str) -> str:
    """The separator of a CSV: the sign that is in both of the first two lines equally often.

    Of several such signs, and where there is none, it is the one that the first line has most often.
    """
    # if a line is cut at its quotes, every second piece was inside of them
    bare = ["".join(line.split('"')[::2]) for line in head.splitlines()[:2]]

    def fits(sign: str) -> tuple[bool, int]:
        counts = [line.count(sign) for line in bare] or [0]
        return min(counts) == max(counts) > 0, counts[0]

    return max(SEPARATORS, key=fits)


def _field_counts(content: bytes, separator: str) -> NDArray[np.int64]:
    """How many fields each line that is not empty has, the header's first; quotes may hold separators."""
    import numpy as np

    signs = np.frombuffer(content.replace(b"\r\n", b"\n").rstrip(b"\n") + b"\n", np.uint8)
    outside = ~np.logical_xor.accumulate(signs == ord('"'))
    ends = np.flatnonzero((signs == ord("\n")) & outside)
    cuts = np.flatnonzero((signs == ord(separator)) & outside)
    counts = np.diff(np.searchsorted(cuts, ends), prepend=0) + 1
    return counts[np.diff(ends, prepend=-1) > 1]


def typed(column: pl.Series) -> pl.Series:
    """Texts as whole numbers, numbers, or booleans, if all of them can be read so; else as they are.

    Whole numbers with more than 18 digits, or with a needless zero in front, are names: they stay texts.
    """
    import polars as pl

    known = column.drop_nulls()
    if not len(known):
        return column
    looks_whole = known.str.contains(WHOLE_NUMBER)
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
    """A JSON object on each line, or one JSON text.

    The text is a list of rows, or an object of columns, or an object with one of these among its values.
    """

    def __init__(self, content: bytes) -> None:
        self._table = _of_json(content)
        self.names = self._table.columns

    def read(self, places: Sequence[int], as_written: Collection[int]) -> pl.DataFrame:
        """The columns, as `FormatReader.read` returns them."""
        import polars as pl

        columns = [unboxed(self._table.to_series(place)) for place in places]
        return pl.DataFrame([column.alias(str(number)) for number, column in enumerate(columns)])


def _of_json(content: bytes) -> pl.DataFrame:
    """The rows of a JSON text, or of an object on each line."""
    import polars as pl

    content = content.strip()
    first, several, _ = content.partition(b"\n")
    try:
        parsed: Any = _parsed(content if content.startswith(b"[") or not several else first)
    except json.JSONDecodeError:
        # the first line is not complete JSON: an object begins there and ends in a later line
        return _of_rows(_rows_in(_parsed(content)))
    if not (isinstance(parsed, dict) and several):
        return _of_rows(_rows_in(parsed))
    try:
        return pl.read_ndjson(io.BytesIO(content + b"\n"), infer_schema_length=None)
    except pl.exceptions.PolarsError:
        # Python also reads `NaN`, and whole numbers of more than 64 bits
        return _of_rows(_rows_in([_parsed(line) for line in content.splitlines() if line.strip()]))


def _parsed(text: bytes) -> Any:
    return json.loads(text, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; ValueError if a name comes twice, since one of its values would be lost."""
    for name in twice(name for name, _ in pairs):
        values = " and ".join(shown(value) for key, value in pairs if key == name)
        raise ValueError(f"an object has two values for {name!r}, {values}: keep one of them")
    return dict(pairs)


def _rows_in(text: Any) -> list[dict[str, Any]]:
    """The rows that a JSON text holds; ValueError says what it must hold if it has none."""
    if isinstance(text, dict):
        tables = [name for name, value in text.items() if _are_rows(value)]
        if len(tables) == 1:
            return _rows_in(text[tables[0]])
        if tables:
            raise ValueError(f"its object has several lists of rows, {', '.join(tables)}: keep one of them")
        columns = {name: list(v.values()) if isinstance(v, dict) else v for name, v in text.items()}
        # pandas writes a column as an object from names of rows to values; all columns have the same names
        labels = {tuple(value) for value in text.values() if isinstance(value, dict)}
        lengths = {len(column) if isinstance(column, list) else None for column in columns.values()}
        if len(lengths) == 1 and None not in lengths and len(labels) < 2:
            return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        if None not in lengths and len(lengths) > 1:
            sizes = ", ".join(f"{name} {len(column):,}" for name, column in columns.items())
            raise ValueError(f"its columns must have the same length, got {cut(sizes)}")
        if not any(isinstance(value, (dict, list)) for value in text.values()):
            return [text]
        names = ", ".join([*text][:3]) + ", ..." * (len(text) > 3)
        why = _why_no_table(text)
        raise ValueError(f"it is one object, {{{names}}}, and {why}: it must be {ROWS_ALIKE}")
    if not _are_rows(text):
        raise ValueError(f"it must be {ROWS_ALIKE}")
    return list(text)


def _why_no_table(text: dict[str, Any]) -> str:
    """Why an object of a JSON text, with a list or an object in it, is no table of columns."""
    if empty := [name for name, value in text.items() if value in ([], {})]:
        return f"{shown(empty[0])} in it is empty"
    for name, value in text.items():
        if not isinstance(value, (dict, list)):
            return f"{shown(name)} in it is {shown(value)}, no list"
    by_rows = {tuple(value): name for name, value in text.items() if isinstance(value, dict)}
    return f"its columns {' and '.join(map(shown, [*by_rows.values()][:2]))} have other names of rows"


def _are_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _of_rows(rows: list[dict[str, Any]]) -> pl.DataFrame:
    """A frame of rows; a column with values of several types becomes one of texts."""
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

        # without `glob=False` polars would take brackets in a path for a pattern
        opened = io.BytesIO(origin) if isinstance(origin, bytes) else origin
        self._scanned = pl.scan_parquet(opened, glob=False)
        self.names = self._scanned.collect_schema().names()

    def read(self, places: Sequence[int], as_written: Collection[int]) -> pl.DataFrame:
        """The columns, as `FormatReader.read` returns them."""
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
        """The columns, as `FormatReader.read` returns them; ValueError for vectors of unequal length."""
        import numpy as np
        import polars as pl

        names = [self.names[place] for place in sorted(places)]
        if len({self._lengths[name] for name in names}) > 1:
            sizes = ", ".join(f"{name} {self._lengths[name]:,}" for name in names)
            raise ValueError(f"its columns must have the same length, got {sizes}")
        read = dict(self._columns())
        columns = [np.ascontiguousarray(read[self.names[place]]) for place in places]
        return pl.DataFrame({str(number): column for number, column in enumerate(columns)})


def unboxed(column: pl.Series) -> pl.Series:
    """A column of lists with one element each as a column of these elements; any other as it is."""
    import polars as pl

    if isinstance(column.dtype, (pl.List, pl.Array)):
        lists = column.cast(pl.List(column.dtype.inner)) if isinstance(column.dtype, pl.Array) else column
        if (lists.list.len().drop_nulls() == 1).all():
            return lists.list.first()
    return column


def twice(names: Iterable[str]) -> set[str]:
    """The names that come more than once."""
    return {name for name, count in Counter(names).items() if count > 1}
