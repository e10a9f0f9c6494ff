"""Packs many events of a key into one row, and many answers: Spark hands rows over one by one.

A row becomes the line that the engine on one machine would read. Before the shuffle lines of a key are joined
into one text, within each PACK of rows, so a key may have several packed rows; `KeyRows` joins and sorts
these. Answers are packed, too: those that only have numbers in arrays, the others as JSON.

Nothing here has a state; it runs on the driver where columns are named, and else on the workers. EVENTS and
REPLY are what users write and read. PACKED and PACKED_ANSWERS are used inside one query, between two steps of
it; checkpoints keep nothing of them but the key. The order of fields in `line_of` is part of the answers:
rows with one position are judged in the order of their lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from onlinecal.engine.columns import Columns, columns_of_lines
from onlinecal.engine.events import Answer, Forecast, Rejected, Settled, decode
from onlinecal.engine.fields import readable_id

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column, DataFrame


EVENTS = (
    "type string, id string, key string, position long, hint double, hints map<string, double>, "
    "value string, values map<string, double>, time double"
)
"""A schema for reading events. `hint`, `hints`, `values` (soft labels) and `time` may be missing. `value` may
have another type; `id` and `key` may be whole numbers. `time` is in seconds, or a timestamp, or a text in ISO
8601 with a zone."""

NEEDED_COLUMNS = ("type", "id", "key", "position", "value")

WANTED_TYPES = {
    "type": "strings",
    **dict.fromkeys(("id", "key"), "strings or whole numbers"),
    "position": "whole numbers",
    "hint": "numbers",
    "time": "numbers, timestamps or strings",
    **dict.fromkeys(("hints", "values"), "maps of strings to numbers"),
    "value": "strings, numbers or booleans",
}
"""What each column of EVENTS may hold, for errors."""

PACKED = "key string, positions string, lines string"
"""The schema of packed rows of a key: texts with a newline between any two; a missing position is empty."""

REPLY = (
    "type string, id string, position long, probability double, probabilities map<string, double>, "
    "certificate double, reason string, detail string"
)
"""The schema of the answer to one event."""

PACKED_ANSWERS = (
    "key string, ids array<string>, positions array<long>, probabilities array<double>, "
    "certificates array<double>, others string"
)
"""The schema of packed answers of a key: forecasts of one probability, and settlements, which have none; or
all others, as JSON."""

PACK = 32 << 20
"""So many bytes of rows are packed together before they are shuffled."""

ANSWERS_A_ROW = 1000
"""How many answers are packed into one row."""

# the field of an outcome that is a text which says 0, 1, false or true; it cannot be found inside another
# text, where quotes are written with backslashes
_outcome_as_text = re.compile(r'"value":"(?:\s|\\[fnrt])*(0|1|0\.0|1\.0|(?i:false|true))(?:\s|\\[fnrt])*"')


def line_columns(events: DataFrame) -> list[Column]:
    """The columns key, position and line of events; ValueError if they cannot be made."""
    from pyspark.sql import functions as F

    check_events(events)
    # bytes that are no valid text would stop the worker that reads them
    key = F.make_valid_utf8(F.col("key").cast("string")).alias("key")
    return [key, F.col("position").cast("long").alias("position"), line_of(events, key).alias("line")]


def check_events(events: DataFrame) -> None:
    """Refuse events that lack a needed column, or have a column of EVENTS with a type that cannot be read.

    Further columns are ignored.
    """
    from pyspark.sql.types import (
        BooleanType,
        IntegralType,
        MapType,
        NullType,
        NumericType,
        StringType,
        TimestampType,
    )

    missing = [name for name in NEEDED_COLUMNS if name not in events.columns]
    if missing:
        raise ValueError(
            f"events need the columns {', '.join(NEEDED_COLUMNS)}; missing: {', '.join(missing)}"
        )
    wanted: dict[str, tuple[Any, ...]] = {
        "type": (StringType,),
        **dict.fromkeys(("id", "key"), (StringType, IntegralType)),
        "position": (IntegralType,),
        "hint": (NumericType, NullType),
        "time": (NumericType, NullType, StringType, TimestampType),
        **dict.fromkeys(("hints", "values"), (MapType, NullType)),
        "value": (StringType, NumericType, BooleanType, NullType),
    }
    for name in wanted.keys() & set(events.columns):
        kind = events.schema[name].dataType
        is_right = isinstance(kind, wanted[name])
        if isinstance(kind, MapType):
            is_right &= isinstance(kind.keyType, StringType) and isinstance(kind.valueType, NumericType)
        if not is_right:
            raise ValueError(
                f"events: column {name!r} must hold {WANTED_TYPES[name]}, got {kind.simpleString()}: cast it"
            )


def line_of(events: DataFrame, key: Column) -> Column:
    """The line that the engine on one machine would read for a row, with that key."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType

    def column(name: str, kind: str, at: str | None = None) -> Column:
        there = F.col(name) if name in events.columns else F.lit(None)
        return there.cast(kind).alias(at or name)

    # a text stays one: it is a time in ISO 8601, or refused
    is_text = "time" in events.columns and isinstance(events.schema["time"].dataType, StringType)
    time = column("time", "string" if is_text else "double")
    kind, id, value = F.col("type"), F.col("id").cast("string").alias("id"), F.col("value")
    hint, hints = column("hint", "double"), column("hints", "map<string, double>", "hint")
    values = column("values", "map<string, double>", "value")
    return (
        F.when((kind == "query") & hints.isNotNull(), F.to_json(F.struct(kind, id, key, hints, time)))
        .when(kind == "query", F.to_json(F.struct(kind, id, key, hint, time)))
        .when((kind == "outcome") & values.isNotNull(), F.to_json(F.struct(kind, id, values, time)))
        .when(kind == "outcome", F.to_json(F.struct(kind, id, value, time)))
        .when(kind == "withdraw", F.to_json(F.struct(kind, id, time)))
        .otherwise(F.to_json(F.struct(kind, id)))
    )


def packs(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """Pack the rows of each key, PACK bytes of rows at a time: one row for each key and time."""
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
    """Join rows of `line_columns` with the same key into a row of PACKED, in the order of positions."""
    if not batches:
        return []
    import pyarrow
    from pyarrow import compute

    rows = pyarrow.Table.from_batches(batches).sort_by("position")
    positions = compute.fill_null(rows["position"].cast("string"), "")
    rows = rows.set_column(rows.column_names.index("position"), "position", positions)
    lists = rows.group_by("key", use_threads=False).aggregate([("position", "list"), ("line", "list")])
    joined = [compute.binary_join(lists[f"{name}_list"], "\n") for name in ("position", "line")]
    return pyarrow.table([lists["key"], *joined], ["key", "positions", "lines"]).to_batches()


class KeyRows:
    """The rows of a key, sorted by their positions; rows of the same position are sorted by their lines.

    Attributes
    ----------
    positions
        The positions, None where a row has none; these rows come first; (n,).
    lines
        The lines; (n,).
    """

    def __init__(self, rows: Iterable[Any]) -> None:
        ordered: list[tuple[bool, int, str]] = []
        for row in rows:
            places = row["positions"].split("\n")
            lines = row["lines"].split("\n")
            ordered += [(at != "", int(at or 0), line) for at, line in zip(places, lines, strict=True)]
        ordered.sort()
        self.positions = [at if is_placed else None for is_placed, at, _ in ordered]
        self.lines = [line for *_, line in ordered]

    def columns(self, is_binary: bool) -> Columns:
        """The events of the rows; outcomes that are texts are read as numbers if the key is binary."""
        text = "\n".join(self.lines)
        columns = columns_of_lines((_outcome_as_text.sub(_as_number, text) if is_binary else text).encode())
        for i in range(self.positions.count(None)):
            columns.put(i, refused(self.lines[i], "position"))
        return columns

    def refusals(self) -> list[Answer]:
        """The answers to rows without a key."""
        return [refused(line, "key") for line in self.lines]


def _as_number(match: re.Match[str]) -> str:
    return f'"value":{int(match[1].lower() in ("1", "1.0", "true"))}'


def refused(line: str, missing: str) -> Rejected:
    """The refusal of a row without a key or a position."""
    return Rejected(readable_id(decode(line.encode()).id), "invalid", f"{missing} must not be null")


def pack_answers(positions: list[int | None], answers: list[Answer]) -> Iterator[tuple[Any, ...]]:
    """Pack a key's answers: rows of PACKED_ANSWERS without the key."""
    numbers: list[tuple[Any, ...]] = []
    others: list[dict[str, Any]] = []
    for position, answer in zip(positions, answers, strict=True):
        if isinstance(answer, Settled):
            numbers.append((answer.id, position, None, None))
        elif isinstance(answer, Forecast) and type(answer.probability) is float:
            numbers.append((answer.id, position, answer.probability, answer.certificate))
        else:
            others.append(reply_of(answer, position))
    for start in range(0, len(numbers), ANSWERS_A_ROW):
        # tuples, since Spark would look through lists for rows
        yield *zip(*numbers[start : start + ANSWERS_A_ROW], strict=True), None
    for start in range(0, len(others), ANSWERS_A_ROW):
        yield None, None, None, None, msgspec.json.encode(others[start : start + ANSWERS_A_ROW]).decode()


def reply_of(answer: Answer, position: int | None) -> dict[str, Any]:
    """An answer as a dict with the fields of REPLY."""
    reply: dict[str, Any] = {**msgspec.to_builtins(answer), "position": position}
    if isinstance(answer, Forecast) and isinstance(answer.probability, dict):
        reply["probabilities"] = reply.pop("probability")
    return reply
