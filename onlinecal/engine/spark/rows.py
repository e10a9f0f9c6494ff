"""Rows of Spark on their way to a key's turn and back: many in one, since Spark hands them over one by one.

Before the shuffle all rows of a key are put into one, column by column: numbers as bytes, ids in one text,
and what is not as usual as the line that the engine on one machine would read. Answers leave together, too:
in arrays those that only have numbers, the others as JSON.

Columns of Spark's data frames: that they are there, and hold what they should.

Rows of events in columns; what is not as usual as the line that the engine on one machine would read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import Struct

from onlinecal.engine.columns.columns import REFUSED, Columns, blank
from onlinecal.engine.columns.scanning import OUTCOME, QUERY
from onlinecal.engine.events import (
    LONGEST_NAME,
    Answer,
    Forecast,
    Incoming,
    Outcome,
    Query,
    Rejected,
    Settled,
    decode,
    is_name,
)
from onlinecal.engine.spark.session import need_pyspark

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column, DataFrame


EVENTS = (
    "type string, id string, key string, position long, hint double, hints map<string, double>, "
    "value string, values map<string, double>, time double"
)
"""A schema for reading events; `hint`, `hints`, `values` (soft labels) and `time` may be missing, `value` may
have another type."""

NEEDED = ("type", "id", "key", "position", "value")

UNPLACED, LINE, ASKS = -2, -1, 0
"""Codes of rows: a line without position, or with; a query. Those of outcomes come behind, by their value."""

VALUES = ("0", "1", "0.0", "1.0", "false", "true", 0, 1, 0.0, 1.0, False, True)
"""Values of outcomes that have a code, as the line would have them."""

LATEST = sys.float_info.max


def valid_key() -> Column:
    """The column `key`; bytes that are no text would stop the worker that reads them."""
    from pyspark.sql import functions as F

    return F.make_valid_utf8("key")


def columns_of(events: DataFrame) -> list[Column]:
    """The columns key, position, code, hint, time, id and line of events; ValueError if they cannot be made.

    What is as usual has a code that says so and no line; numbers that are not there are 0 and NaN.
    """
    from pyspark.sql import functions as F

    line = line_of(events)
    has_hint, has_time, id = "hint" in events.columns, "time" in events.columns, F.make_valid_utf8("id")
    nan, type, number = F.lit(float("nan")), F.col("type"), F.col("position").cast("long")
    hint = F.col("hint").cast("double") if has_hint else F.lit(None).cast("double")
    time = F.col("time").cast("double") if has_time else F.lit(None).cast("double")
    is_named = (F.length(id) <= LONGEST_NAME) & (F.length("key") <= LONGEST_NAME)
    is_named &= ~F.contains(id, F.lit("\n"))
    is_timed = time.isNull() | time.between(-LATEST, LATEST)
    asks = (type == "query") & (hint.isNull() | hint.between(0.0, 1.0))
    if "hints" in events.columns:
        asks &= F.col("hints").isNull()
    usual = F.when(asks, ASKS)
    tells = type == "outcome"
    if "values" in events.columns:
        tells &= F.col("values").isNull()
    for code, value in _codes(events):
        usual = usual.when(tells & (F.col("value") == F.lit(value)), code)
    code = F.when(number.isNull(), UNPLACED).when(is_named & is_timed, F.coalesce(usual, F.lit(LINE)))
    code = F.coalesce(code, F.lit(LINE))
    as_line = code < ASKS
    return [
        valid_key().alias("key"),
        F.coalesce(number, F.lit(0)).alias("position"),
        code.cast("byte").alias("code"),
        F.when(as_line, nan).otherwise(F.coalesce(hint, nan)).alias("hint"),
        F.when(as_line, nan).otherwise(F.coalesce(time, nan)).alias("time"),
        F.when(as_line, "").otherwise(id).alias("id"),
        F.when(as_line, line).otherwise("").alias("line"),
    ]


def _codes(events: DataFrame) -> list[tuple[int, Any]]:
    """Values that the column `value` may have, with their codes."""
    from pyspark.sql.types import BooleanType, DoubleType, IntegralType, StringType

    kinds = {StringType: str, IntegralType: int, DoubleType: float, BooleanType: bool}
    column = events.schema["value"].dataType
    kind = next((python for spark, python in kinds.items() if isinstance(column, spark)), None)
    return [(ASKS + 1 + i, value) for i, value in enumerate(VALUES) if type(value) is kind]


def line_of(events: DataFrame) -> Column:
    """The line that the engine on one machine would read for a row; ValueError if it cannot be made."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import BooleanType, IntegralType, MapType, NullType, NumericType, StringType

    missing = [name for name in NEEDED if name not in events.columns]
    if missing:
        raise ValueError(f"events need the columns {', '.join(NEEDED)}; missing: {', '.join(missing)}")
    wanted: dict[str, tuple[Any, ...]] = {
        **dict.fromkeys(("type", "id", "key"), (StringType,)),
        "position": (IntegralType,),
        **dict.fromkeys(("hint", "time"), (NumericType, NullType)),
        **dict.fromkeys(("hints", "values"), (MapType, NullType)),
        "value": (StringType, NumericType, BooleanType, NullType),
    }
    for name in wanted.keys() & set(events.columns):
        kind = events.schema[name].dataType
        is_right = isinstance(kind, wanted[name])
        if isinstance(kind, MapType):
            is_right &= isinstance(kind.keyType, StringType) and isinstance(kind.valueType, NumericType)
        if not is_right:
            raise ValueError(f"column {name!r} must be like in {EVENTS!r}, got {kind.simpleString()}")

    def column(name: str, kind: str, at: str | None = None) -> Column:
        there = F.col(name) if name in events.columns else F.lit(None)
        return there.cast(kind).alias(at or name)

    kind, id, key = F.col("type"), F.col("id"), valid_key().alias("key")
    time, value = column("time", "double"), F.col("value")
    hint, hints = column("hint", "double"), column("hints", "map<string, double>", "hint")
    values = column("values", "map<string, double>", "value")
    return (
        F.when((kind == "query") & hints.isNotNull(), F.to_json(F.struct(kind, id, key, hints, time)))
        .when(kind == "query", F.to_json(F.struct(kind, id, key, hint, time)))
        .when((kind == "outcome") & values.isNotNull(), F.to_json(F.struct(kind, id, values, time)))
        .when(kind == "outcome", F.to_json(F.struct(kind, id, value, time)))
        .when(kind == "withdraw", F.to_json(F.struct(kind, id, time)))
        .otherwise(F.to_json(F.struct(kind, id)))
        .alias("line")
    )


def check_table(table: Any) -> None:
    """Refuse what is no Spark data frame, and streams."""
    need_pyspark()
    from pyspark.sql import DataFrame

    if not isinstance(table, DataFrame):
        raise ValueError(f"table must be a Spark data frame, got {type(table).__name__}")
    if table.isStreaming:
        raise ValueError("table must not be a stream")


def names_of(columns: str | Sequence[str]) -> list[str]:
    """The names that were given, one or several."""
    return [columns] if isinstance(columns, str) else list(columns)


def check_columns(table: DataFrame, names: Sequence[str], argument: str) -> None:
    """Refuse names that the table has not, or has twice, and names given twice."""
    for name in names:
        count = table.columns.count(name)
        if count != 1:
            there = "is there twice" if count else f"is not among {', '.join(map(repr, table.columns))}"
            raise ValueError(f"{argument} names the column {name!r}, which {there}")
        if list(names).count(name) > 1:
            raise ValueError(f"{argument} must name different columns, got {name!r} twice")


def number(table: DataFrame, name: str, argument: str = "columns") -> Column:
    """A column of numbers, as doubles."""
    from pyspark.sql.types import BooleanType, NumericType

    check_columns(table, [name], argument)
    kind = table.schema[name].dataType
    if not isinstance(kind, NumericType | BooleanType):
        raise ValueError(f"{argument}: column {name!r} must hold numbers, but it holds {kind.simpleString()}")
    return column(name).cast("double").alias(name)


def array(table: DataFrame, name: str) -> Column:
    """A column of arrays of numbers, as doubles."""
    from pyspark.sql.types import ArrayType, NumericType

    kind = table.schema[name].dataType
    if not (isinstance(kind, ArrayType) and isinstance(kind.elementType, NumericType)):
        raise ValueError(
            f"columns: {name!r} alone must hold arrays of probabilities, but it holds {kind.simpleString()}"
        )
    return column(name).cast("array<double>").alias(name)


def column(name: str) -> Column:
    """The column of exactly that name, whatever signs are in it."""
    from pyspark.sql.functions import col

    return col("`" + name.replace("`", "``") + "`")


REPLY = (
    "type string, id string, position long, probability double, probabilities map<string, double>, "
    "certificate double, reason string, detail string"
)
"""What a worker says of one event."""

TOLD = (
    "key string, ids array<string>, positions array<long>, probabilities array<double>, "
    "certificates array<double>, others string"
)
"""Answers of a key: forecasts of a probability and, without one, settlements; or others, as JSON."""

NUMBERS = {"position": "<i8", "code": "<i1", "hint": "<f8", "time": "<f8"}
"""Columns that are packed as bytes: the type of their numbers."""

PACKED = "key string, position binary, code binary, hint binary, time binary, id string, line string"
"""Rows of a key: bytes of numbers, and texts with a newline between any two."""

BINARY = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1}
_AS_BINARY = np.array([BINARY[str(value).lower()] for value in VALUES], np.float64)

PACK = 32 << 20
"""Bytes of rows that are packed together before they are shuffled."""

TOGETHER = 1000
"""Answers of a key that leave in one row."""


class Reply(Struct, omit_defaults=True):
    """An answer that is told as JSON; the fields of REPLY."""

    type: str
    id: str | None
    position: int | None
    probability: float | None = None
    probabilities: dict[str, float] | None = None
    certificate: float | None = None
    reason: str | None = None
    detail: str | None = None


_encoder = msgspec.json.Encoder()


def packs(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """The rows of a key in one, as far as PACK bytes of rows go."""
    waiting: list[pyarrow.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size > PACK:
            yield from packed(waiting)
            waiting, size = [], 0
    yield from packed(waiting)


def packed(batches: list[pyarrow.RecordBatch]) -> list[pyarrow.RecordBatch]:
    """Rows of `event_lines.columns_of` with the same key joined to one of PACKED, by position."""
    if not batches:
        return []
    import pyarrow
    from pyarrow import compute

    table = pyarrow.Table.from_batches(batches).sort_by("position")
    columns = [name for name in table.column_names if name != "key"]
    grouped = table.group_by("key", use_threads=False).aggregate([(name, "list") for name in columns])
    joined = {"key": grouped["key"].combine_chunks()}
    for name in columns:
        lists = grouped[f"{name}_list"].combine_chunks()
        kind = NUMBERS.get(name)
        if kind is None:
            joined[name] = compute.binary_join(lists, "\n")
            continue
        numbers = lists.flatten().to_numpy(zero_copy_only=False).astype(kind)
        ends = (lists.offsets.to_numpy() - lists.offsets[0].as_py()) * numbers.itemsize
        buffers = [None, pyarrow.py_buffer(ends.astype("<i4")), pyarrow.py_buffer(numbers)]
        joined[name] = pyarrow.Array.from_buffers(pyarrow.binary(), len(lists), buffers)
    return pyarrow.table(joined).to_batches()


class KeyRows:
    """Rows of `key` in the order of their positions.

    Attributes
    ----------
    positions
        None where a row has none: these come first; (n,).
    """

    def __init__(self, key: str | None, rows: Iterable[Any], is_binary: bool) -> None:
        some = list(rows)
        self._key, self._is_binary = key, is_binary
        placed, codes, hints, times = (
            np.frombuffer(b"".join([row[name] for row in some]), kind) for name, kind in NUMBERS.items()
        )
        ids, lines = ("\n".join([row[name] for row in some]).split("\n") for name in ("id", "line"))
        if not _are_in_order(placed, codes):
            order = _order(placed, codes, hints, times, ids, lines)
            placed, codes, hints, times = (one[order] for one in (placed, codes, hints, times))
            ids, lines = ([one[i] for i in order] for one in (ids, lines))
        self._codes, self._lines, self._ids = codes, lines, ids
        self._hints, self._times = hints + 0.0, times + 0.0
        self.positions: list[int | None] = placed.tolist()
        for i in np.flatnonzero(codes == UNPLACED).tolist():
            self.positions[i] = None

    def columns(self) -> Columns:
        """The events of the rows."""
        codes, n, key = self._codes, len(self._codes), self._key or ""
        columns = blank(n)
        usual = codes >= ASKS if self._is_binary and is_name(key) else np.zeros(n, np.bool_)
        if not all(map(is_name, self._ids)):
            usual &= np.array(list(map(is_name, self._ids)))
        asks, tells = usual & (codes == ASKS), usual & (codes > ASKS)
        kinds = np.where(asks, QUERY, np.where(tells, OUTCOME, REFUSED))
        columns.kinds[:], columns.ids[:] = kinds.astype(np.int8).tobytes(), self._ids
        columns.keys[:] = [key if one else "" for one in asks.tolist()]
        columns.hints[asks], columns.times[usual] = self._hints[asks], self._times[usual]
        columns.values[tells] = _AS_BINARY[codes[tells] - ASKS - 1]
        for i in np.flatnonzero(~usual).tolist():
            columns.put(i, self.event(i))
        return columns

    def event(self, i: int) -> Incoming | Rejected:
        """The event of a row, or what is wrong with it."""
        code, time = int(self._codes[i]), float(self._times[i])
        if code < ASKS:
            line = self._lines[i].encode()
            return refused(line, "position") if code == UNPLACED else event_of(line, self._is_binary)
        at = None if time != time else time
        if code == ASKS:
            hint = float(self._hints[i])
            return Query(self._ids[i], self._key, None if hint != hint else hint, at)  # type: ignore[arg-type]
        value = VALUES[code - ASKS - 1]
        return Outcome(self._ids[i], int(_AS_BINARY[code - ASKS - 1]) if self._is_binary else value, None, at)

    def refusals(self) -> list[Answer]:
        """What rows are answered that have no key."""
        return [refused(line.encode(), "key") for line in self._lines]


def _are_in_order(positions: Any, codes: Any) -> bool:
    return bool((codes != UNPLACED).all() and (positions[1:] > positions[:-1]).all())


def _order(positions: Any, codes: Any, hints: Any, times: Any, ids: list[str], lines: list[str]) -> list[int]:
    """Where the rows are in their order; without a position first, with the same one by what they say."""
    names = msgspec.json.Encoder().encode
    said = [
        line
        if code < ASKS
        else f'{{"type":"{"query" if code == ASKS else "outcome"}","id":{names(id).decode()}'
        for code, id, line in zip(codes.tolist(), ids, lines, strict=True)
    ]
    bits = (codes.tolist(), hints.view(np.int64).tolist(), times.view(np.int64).tolist())
    keys = list(zip((codes != UNPLACED).tolist(), positions.tolist(), said, *bits, strict=True))
    return sorted(range(len(keys)), key=keys.__getitem__)


def event_of(line: bytes, is_binary: bool) -> Incoming | Rejected:
    """The event that a line holds; texts are read as numbers if the key's outcomes are 0 and 1."""
    event = decode(line)
    if is_binary and type(event) is Outcome and isinstance(event.value, str):
        value = BINARY.get(event.value.strip().lower())
        return event if value is None else Outcome(event.id, value, event.key, event.time)
    return event


def refused(line: bytes, missing: str) -> Rejected:
    """The refusal of a row without a key or a position."""
    return Rejected(decode(line).id, "invalid", f"{missing} must not be null")


def told(positions: list[int | None], answers: list[Answer]) -> Iterator[tuple[Any, ...]]:
    """What leaves the worker of a key's answers: rows of TOLD without the key."""
    ids, at, numbers, certificates, others = [], [], [], [], []
    for position, answer in zip(positions, answers, strict=True):
        if isinstance(answer, Settled):
            number, certificate = None, None
        elif isinstance(answer, Forecast) and type(answer.probability) is float:
            number, certificate = answer.probability, answer.certificate
        else:
            others.append(reply_of(answer, position))
            continue
        ids.append(answer.id)
        at.append(position)
        numbers.append(number)
        certificates.append(certificate)
    for start in range(0, len(ids), TOGETHER):
        span = slice(start, start + TOGETHER)
        # tuples: Spark looks through lists for rows
        yield tuple(ids[span]), tuple(at[span]), tuple(numbers[span]), tuple(certificates[span]), None
    for start in range(0, len(others), TOGETHER):
        yield None, None, None, None, _encoder.encode(others[start : start + TOGETHER]).decode()


def reply_of(answer: Answer, position: int | None) -> Reply:
    """An answer as it leaves the worker by itself."""
    if isinstance(answer, Forecast):
        if isinstance(answer.probability, dict):
            return Reply("forecast", answer.id, position, None, answer.probability, answer.certificate)
        return Reply("forecast", answer.id, position, answer.probability, None, answer.certificate)
    kind = str(answer.__struct_config__.tag)
    if isinstance(answer, Rejected):
        return Reply(kind, answer.id, position, reason=answer.reason, detail=answer.detail)
    return Reply(kind, answer.id, position)
