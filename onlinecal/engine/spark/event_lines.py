"""Rows of events in columns; what is not as usual as the line that the engine on one machine would read."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from onlinecal.engine.events import LONGEST_NAME

if TYPE_CHECKING:
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
