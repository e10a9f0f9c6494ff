"""Large tables on Spark: the distance to calibration of every group.

Spark counts the rounds of every group and forecast, which is all that the measures need; one task then takes
a group's counts and measures them. No row of the table comes to the driver.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from onlinecal.engine.spark.session import need_pyspark
from onlinecal.measures.counts import check_counts
from onlinecal.measures.distance.bracket import bracket
from onlinecal.measures.distance.calibration_distance import calibration_distance_from_counts
from onlinecal.measures.distance.levels import conditional_means
from onlinecal.measures.scores import expected_error_of_counts
from onlinecal.measures.smooth import smooth_error_of_counts

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column, DataFrame

MEASURES = {
    "rounds": "long",
    "ones": "long",
    "distinct": "long",
    "ece": "double",
    "smooth": "double",
    "brier": "double",
    "distance_lower": "double",
    "distance_upper": "double",
    "exact": "boolean",
}
"""The columns that `distances` adds to the group's own, and their types in Spark."""


def distances(
    table: DataFrame,
    forecast: str = "forecast",
    outcome: str = "outcome",
    by: str | Sequence[str] | None = None,
    *,
    budget: float = 0.1,
    rtol: float = 0.0,
) -> DataFrame:
    """How far from calibrated the forecasts of every group are.

    The table is read once, when this is called: Spark counts its rounds and looks for bad values. The
    measures are computed when the answer is used.

    Parameters
    ----------
    table
        One row a round.
    forecast
        The column of forecasts, numbers in [0, 1].
    outcome
        The column of outcomes, 0/1 or boolean.
    by
        The columns whose values make a group, of any type that Spark can group by; None: all rows are one
        group. Rows where such a column is null are a group too, as in SQL.
    budget
        Work put into the bracket of each group: 1 is about a second. See `calibration_distance`.
    rtol
        A bracket with upper - lower <= rtol * upper is good enough; work on that group stops there.

    Returns
    -------
    DataFrame
        One row a group, in no order. The columns `by`; `rounds`, `ones` and `distinct`: how many rounds, how
        many with outcome 1, how many different forecasts; `ece`, `smooth` and `brier`: expected and smooth
        calibration error and squared error; `distance_lower` and `distance_upper`: the distance to
        calibration lies between them; `exact`: whether it is known, then both are that distance. Errors and
        distances are sums over rounds: divide by `rounds` for averages.

    Raises
    ------
    ValueError
        table is no Spark data frame, or is empty; a column is missing, there twice, or of the wrong type; a
        forecast or outcome is bad: the message names the column, one bad value, and how many rows have one.
        budget or rtol is out of range. pyspark is missing.

    Notes
    -----
    All counts of one group must fit into one worker: 24 bytes for each different forecast, and several times
    that while its measures are computed. Round the forecasts first where every row has its own.

    The counts stay with the executors as long as the answer is in use. They cannot be computed again: where
    an executor is lost in between, Spark fails the query, and it has to be asked again.

    """
    need_pyspark()
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField, StructType

    if not isinstance(table, DataFrame):
        raise ValueError(f"table must be a Spark data frame, got {type(table).__name__}")
    if table.isStreaming:
        raise ValueError("table must not be a stream")
    names = [by] if isinstance(by, str) else list(by or ())
    value, label = number(table, forecast, "forecast"), number(table, outcome, "outcome")
    check_columns(table, names, "by")
    for name in names:
        if name in MEASURES:
            raise ValueError(f"by must not name {name!r}: the answer has a column of that name")
    # a history of one round, for the sake of its checks on the options
    calibration_distance_from_counts([0.5], [1], [0], budget=budget, rtol=rtol)
    keys = [f"key{i}" for i in range(len(names))]
    groups = [column(name).alias(key) for name, key in zip(names, keys, strict=True)]
    counted = _counted(table, value, label, groups, keys)
    _refuse_bad_values(counted, forecast, outcome)
    schema = StructType([StructField(key, counted.schema[key].dataType) for key in keys])
    for name, kind in MEASURES.items():
        schema = schema.add(name, kind)
    answers = counted.groupBy(*keys).applyInArrow(_measuring(keys, budget, rtol), schema)
    return answers.toDF(*names, *MEASURES)


def _counted(
    table: DataFrame, value: Column, label: Column, groups: list[Column], keys: list[str]
) -> DataFrame:
    """Rounds, ones and bad outcomes of every group and forecast, computed and kept by the executors.

    Kept without its lineage, so that what is measured later is what was checked, even if the table changes.
    """
    from pyspark.sql import functions as F

    is_bad = F.col("label").isNull() | ~F.col("label").isin(0.0, 1.0)
    rows = table.select(*groups, value.alias("value"), label.alias("label"))
    # numbers only: with a text among the aggregates Spark would sort all rows instead of hashing them
    counted = rows.groupBy(*keys, "value").agg(
        F.count("*").alias("rounds"),
        F.sum((F.col("label") == 1.0).cast("long")).alias("ones"),
        F.sum(is_bad.cast("long")).alias("bad_outcomes"),
        F.min(F.when(is_bad, F.col("label"))).alias("bad_outcome"),
    )
    return counted.localCheckpoint(eager=True)


def _refuse_bad_values(counted: DataFrame, forecast: str, outcome: str) -> None:
    from pyspark.sql import functions as F

    value = F.col("value")
    is_bad = value.isNull() | F.isnan(value) | (value < 0.0) | (value > 1.0)
    summary = counted.agg(
        F.count("*").alias("counts"),
        F.sum(F.when(is_bad, F.col("rounds"))).alias("bad_forecasts"),
        F.min(F.when(is_bad, value)).alias("bad_forecast"),
        F.sum("bad_outcomes").alias("bad_outcomes"),
        F.min("bad_outcome").alias("bad_outcome"),
    ).first()
    assert summary is not None
    if not summary.counts:
        raise ValueError("table has no rows")
    for kind, name, wanted, bad, rows in (
        ("forecast", forecast, "lie in [0, 1]", summary.bad_forecast, summary.bad_forecasts),
        ("outcome", outcome, "be 0/1 or boolean", summary.bad_outcome, summary.bad_outcomes),
    ):
        if rows:
            # the least of the bad values; it is None if all of them are null
            shown = "null" if bad is None else repr(bad)
            raise ValueError(
                f"{kind} column {name!r} must {wanted}, got {shown} (rows with a bad {kind}: {rows})"
            )


def _measuring(keys: list[str], budget: float, rtol: float) -> Callable[[pyarrow.Table], pyarrow.Table]:
    """The function that a worker calls with the counts of one group."""

    def measure(group: pyarrow.Table) -> pyarrow.Table:
        import pyarrow

        rounds, ones = group.column("rounds").to_numpy(), group.column("ones").to_numpy()
        counts = check_counts(group.column("value").to_numpy(), rounds - ones, ones)
        # without a witness, which takes 25 bytes a round
        bounds = bracket(counts, [conditional_means(counts)], budget, rtol)
        squares = counts.zeros * counts.values**2 + counts.ones * (1.0 - counts.values) ** 2
        measures = (
            counts.n_rounds, counts.n_ones, len(counts.values), expected_error_of_counts(counts),
            smooth_error_of_counts(counts), math.fsum(squares), bounds.lower, bounds.upper, bounds.is_exact,
        )  # fmt: skip
        # taken from the rows as they are, the values of the group keep their types
        columns = [group.column(key).slice(0, 1) for key in keys]
        columns += [pyarrow.array([one]) for one in measures]
        return pyarrow.Table.from_arrays(columns, names=[*keys, *MEASURES])

    return measure


def check_columns(table: DataFrame, names: Sequence[str], argument: str) -> None:
    """Refuse names that the table has not, or has twice, and names given twice."""
    for name in names:
        count = table.columns.count(name)
        if count != 1:
            there = "is there twice" if count else f"is not among {', '.join(map(repr, table.columns))}"
            raise ValueError(f"{argument} names the column {name!r}, which {there}")
        if list(names).count(name) > 1:
            raise ValueError(f"{argument} must name different columns, got {name!r} twice")


def number(table: DataFrame, name: str, argument: str) -> Column:
    """A column of numbers, as doubles."""
    from pyspark.sql.types import BooleanType, NumericType

    check_columns(table, [name], argument)
    kind = table.schema[name].dataType
    if not isinstance(kind, NumericType | BooleanType):
        raise ValueError(f"{argument}: column {name!r} must hold numbers, but it holds {kind.simpleString()}")
    return column(name).cast("double")


def column(name: str) -> Column:
    """The column of exactly that name, whatever signs are in it."""
    from pyspark.sql.functions import col

    return col("`" + name.replace("`", "``") + "`")
