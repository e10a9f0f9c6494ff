"""Rows of events as the lines that the engine on one machine reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

EVENTS = (
    "type string, id string, key string, position long, hint double, hints map<string, double>, "
    "value string, time double"
)
"""A schema for reading events; `hint`, `hints` and `time` may be missing, `value` may have another type."""

NEEDED = ("type", "id", "key", "position", "value")


def valid_key() -> Column:
    """The column `key`; bytes that are no text would stop the worker that reads them."""
    from pyspark.sql import functions as F

    return F.make_valid_utf8("key")


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
        "hints": (MapType, NullType),
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
    return (
        F.when((kind == "query") & hints.isNotNull(), F.to_json(F.struct(kind, id, key, hints, time)))
        .when(kind == "query", F.to_json(F.struct(kind, id, key, hint, time)))
        .when(kind == "outcome", F.to_json(F.struct(kind, id, value, time)))
        .when(kind == "withdraw", F.to_json(F.struct(kind, id, time)))
        .otherwise(F.to_json(F.struct(kind, id)))
        .alias("line")
    )
