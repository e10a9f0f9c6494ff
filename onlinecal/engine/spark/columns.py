"""Columns of Spark's data frames: that they are there, and hold what they should."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from onlinecal.engine.spark.session import need_pyspark

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


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
