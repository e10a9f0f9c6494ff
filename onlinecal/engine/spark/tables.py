"""Large tables on Spark: the distance to calibration of every group, and fitted recalibrators on every row.

To measure, Spark counts the rounds of every group and forecast, which is all that the measures need; one task
then takes a group's counts and measures them. No row of the table comes to the driver.

Nothing here has a state, and no table is changed. Names and types in MEASURES are the columns that users
read. What goes between two steps of one query may change freely. Rows reach the workers in batches of any
size and order: so what a recalibrator answers for a row must depend on that row alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onlinecal.arrays import Floats
from onlinecal.engine.spark.session import check_frame, need_pyspark
from onlinecal.measures.counts import Counts, check_counts
from onlinecal.measures.distance.bracket import bracket
from onlinecal.measures.distance.calibration_distance import calibration_distance_from_counts
from onlinecal.measures.distance.levels import conditional_means
from onlinecal.measures.scores import expected_error_of_counts
from onlinecal.measures.smooth import smooth_error_of_counts
from onlinecal.texts import cut

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
    """How far from calibrated the forecasts of every group of rows are.

    The table is read once, when this is called: Spark counts its rounds and looks for bad values. The
    measures are computed when the answer is used.

    Parameters
    ----------
    table
        A Spark data frame, one row a round, no stream.
    forecast
        The name of the column of forecasts, numbers in [0, 1].
    outcome
        The name of the column of outcomes, 0/1 or boolean.
    by
        The names of the columns whose values make a group, one or a list, of any type that Spark can group
        by; None: all rows are one group. Rows where such a column is null are a group too, as in SQL.
    budget
        Work put into narrowing the bounds on each group's distance, a number above 0: 1 takes up to three
        seconds.
    rtol
        Bounds with upper - lower <= rtol * upper are good enough, and work on that group stops there; a
        number of at least 0.

    Returns
    -------
    DataFrame
        One row a group, in no order. The columns `by`; `rounds`, `ones` and `distinct`: how many rounds, how
        many with outcome 1, how many different forecasts; `ece`, `smooth` and `brier`: expected and smooth
        calibration error and squared error; `distance_lower` and `distance_upper`: the distance to
        calibration lies between them; `exact`: whether it is known, and both are equal to it. Errors and
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
    an executor is lost in between, Spark fails the query, and `distances` has to be called again.
    """
    check_table(table)
    from pyspark.sql.types import StructField, StructType

    names = names_of(by or ())
    value, label = number(table, forecast, "forecast"), number(table, outcome, "outcome")
    check_columns(table, names, "by")
    for name in names:
        if name in MEASURES:
            raise ValueError(
                f"by must not name {name!r}: the answer has a column of that name, so rename yours"
            )
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
        raise ValueError("table has no rows: give at least one")
    for kind, name, wanted, bad, rows in (
        ("forecast", forecast, "lie in [0, 1]", summary.bad_forecast, summary.bad_forecasts),
        ("outcome", outcome, "be 0/1 or boolean", summary.bad_outcome, summary.bad_outcomes),
    ):
        if rows:
            # the least of the bad values; it is None if all of them are null
            shown = "null" if bad is None else repr(bad)
            raise ValueError(
                f"{kind} column {name!r} must {wanted}, got {shown} (bad in {rows:,} of the rows): "
                "correct these rows, or leave them out"
            )


def _measuring(keys: list[str], budget: float, rtol: float) -> Callable[[pyarrow.Table], pyarrow.Table]:
    """The function that a worker calls with the counts of one group."""

    def measure(group: pyarrow.Table) -> pyarrow.Table:
        import pyarrow

        rounds, ones = group.column("rounds").to_numpy(), group.column("ones").to_numpy()
        counts = check_counts(group.column("value").to_numpy(), rounds - ones, ones)
        measures = measures_of_counts(counts, budget, rtol)
        # taken from the rows as they are, the values of the group keep their types
        columns = [group.column(key).slice(0, 1) for key in keys]
        columns += [pyarrow.array([measures[name]]) for name in MEASURES]
        return pyarrow.Table.from_arrays(columns, names=[*keys, *MEASURES])

    return measure


def measures_of_counts(counts: Counts, budget: float, rtol: float) -> dict[str, Any]:
    """The measures of one group, by the names in MEASURES; sums over its rounds."""
    values, zeros, ones = counts.values, counts.zeros, counts.ones
    # without a witness, which takes 25 bytes a round
    bounds = bracket(counts, [conditional_means(counts)], budget, rtol, plain=True)
    return {
        "rounds": counts.n_rounds,
        "ones": counts.n_ones,
        "distinct": len(values),
        "ece": expected_error_of_counts(counts),
        "smooth": smooth_error_of_counts(counts),
        "brier": math.fsum(zeros * values**2 + ones * (1.0 - values) ** 2),
        "distance_lower": bounds.lower,
        "distance_upper": bounds.upper,
        "exact": bounds.is_exact,
    }


INITIAL = "initial forecast"
"""The name that the column of initial forecasts has on its way to a `BoostedRecalibrator`."""


def recalibrated(
    table: DataFrame,
    recalibrator: Any,
    columns: str | Sequence[str],
    *,
    groups: str | Sequence[str] = (),
    initial: str | None = None,
    into: str = "recalibrated",
) -> DataFrame:
    """Every row with its recalibrated probabilities added: the same floats as on one machine.

    The table itself is not changed. Nothing is computed before the answer is used; only the named columns
    then go through the recalibrator.

    Parameters
    ----------
    table
        A Spark data frame with the columns named here, no stream.
    recalibrator
        A fitted one: `GroupRecalibrator`, `BoostedRecalibrator`, `LpRecalibrator`, `DecisionRecalibrator` or
        anything else with `predict_proba`. It is sent to the workers once for a query, with all that it
        holds.
    columns
        The names of what it was fitted on. For a `GroupRecalibrator`: the column of forecasts. For a
        `BoostedRecalibrator`: the columns of features in the order of the fit. For others: one column of
        arrays of k probabilities, or a list of the k columns of probabilities in the order of the fit.
    groups
        For a `GroupRecalibrator`, and for no other: the names of the columns of the groups, as in the fit.
    initial
        For a `BoostedRecalibrator`: the column of initial forecasts, if it was fitted with forecasts; one
        that was fitted with a model asks that where this is None.
    into
        The name of the added column. Of k columns `a`, `b`, ... it is how k names begin: by default
        `recalibrated_a`, `recalibrated_b`, ...

    Returns
    -------
    DataFrame
        The table's columns, and behind them: one column of arrays of k doubles for a column of arrays, k
        columns of doubles for k columns, one column of doubles, probabilities of outcome 1, for forecasts or
        features.

    Raises
    ------
    ValueError
        table is no Spark data frame, or a stream; a column is missing or there twice; forecasts,
        probabilities, or features that were numbers in the fit, are none; number or names of `columns` or
        `groups` differ from the fit's; `into` names a column that is there; groups or initial are given where
        the fit had none, or missing where it had some; or the recalibrator is not fitted (NotFittedError). A
        bad value in a row is found when the answer is used: Spark's error then has the recalibrator's
        message, whose row counts within one batch.
    """
    check_table(table)
    from pyspark.sql.functions import pandas_udf, struct

    # scikit-learn takes a second to import, and measuring does without
    from sklearn.base import BaseEstimator
    from sklearn.utils.validation import check_is_fitted

    from onlinecal.recalibration import BoostedRecalibrator, GroupRecalibrator
    from onlinecal.recalibration.boosted import check_initial

    if isinstance(recalibrator, BaseEstimator):
        check_is_fitted(recalibrator)
    names, members = names_of(columns), names_of(groups)
    if not names:
        raise ValueError(f"columns is empty, {columns!r}: name at least one")
    check_columns(table, names, "columns")
    check_columns(table, members, "groups")
    check_columns(table, [*members, *names], "groups and columns together")
    is_boosted, is_grouped = (isinstance(recalibrator, c) for c in (BoostedRecalibrator, GroupRecalibrator))
    kind = type(recalibrator).__name__
    if bool(members) != is_grouped:
        raise ValueError(
            f"groups must be given for a GroupRecalibrator and for no other, got {groups!r} with a {kind}"
        )
    if initial is not None and not is_boosted:
        raise ValueError(
            f"initial goes with a BoostedRecalibrator only, got {initial!r} with a {kind}: leave it out"
        )
    if is_grouped:
        if not isinstance(columns, str):
            raise ValueError(
                f"columns must be the name of one column of forecasts for a GroupRecalibrator, got {names}"
            )
        recalibrator._maker.check_columns(members)
        inputs = [number(table, columns), *map(column, members)]
    elif is_boosted:
        _check_fit(recalibrator, names)
        check_initial(recalibrator, initial)
        _refuse_texts(table, names, recalibrator._has_texts)
        if initial is not None and INITIAL in names:
            raise ValueError(f"columns must not name {INITIAL!r} beside initial=: rename it, and fit again")
        first = [] if initial is None else [number(table, initial, "initial").alias(INITIAL)]
        inputs = [*map(column, names), *first]
    elif not hasattr(recalibrator, "predict_proba"):
        raise ValueError(f"recalibrator must have predict_proba, got {recalibrator!r}")
    elif isinstance(columns, str):
        inputs = [array(table, columns)]
    else:
        _check_fit(recalibrator, names)
        inputs = [number(table, name) for name in names]

    def answer(frame: Any) -> Floats:
        if is_grouped:
            return recalibrator.predict_proba(frame[columns].to_numpy(), frame.drop(columns=columns))
        # any other column may have that name
        start = None if initial is None else frame.pop(INITIAL).to_numpy()
        if isinstance(columns, str) and not is_boosted:
            return recalibrator.predict_proba(np.stack(frame[columns]))
        # names for what was fitted without would be warned of
        features = frame if hasattr(recalibrator, "feature_names_in_") else frame.to_numpy()
        return (
            recalibrator.predict_proba(features, start)
            if is_boosted
            else recalibrator.predict_proba(features)
        )

    one_a_row = is_grouped or is_boosted
    spread = [] if one_a_row or isinstance(columns, str) else [f"{into}_{name}" for name in columns]
    for name in [into, *spread]:
        if name in table.columns:
            raise ValueError(f"into must make new columns, but the table has {name!r}: choose another name")
    apply = pandas_udf(_on_frames(answer), "double" if one_a_row else "array<double>")
    added = table.withColumn(into, apply(struct(*inputs)))
    if not spread:
        return added
    parts = [column(into)[i].alias(name) for i, name in enumerate(spread)]
    return added.select(*map(column, table.columns), *parts)


def _on_frames(predict: Callable[[Any], Floats]) -> Callable[[Any], Any]:
    """A function from Spark's frames to its series, which calls `predict`."""
    from pandas import DataFrame, Series

    def apply(frame: Any) -> Any:
        answer = predict(frame)
        return Series(list(answer) if answer.ndim == 2 else answer)

    # Spark reads these; as texts it would look them up where the names are unknown
    apply.__annotations__ = {"frame": DataFrame, "return": Series}
    return apply


def _check_fit(recalibrator: Any, names: list[str]) -> None:
    wanted = getattr(recalibrator, "n_features_in_", len(names))
    if len(names) != wanted:
        raise ValueError(f"columns must be the {wanted} columns of the fit, got {len(names)}: {names}")
    fitted = [str(name) for name in getattr(recalibrator, "feature_names_in_", names)]
    if names != fitted:
        raise ValueError(f"columns must be {fitted}, as in the fit, got {names}")


def _refuse_texts(table: DataFrame, names: list[str], has_texts: list[bool]) -> None:
    """Refuse texts in columns that held none in the fit of a `BoostedRecalibrator`."""
    from pyspark.sql.types import BinaryType, StringType

    for name, may_have in zip(names, has_texts, strict=False):
        kind = table.schema[name].dataType
        if not may_have and isinstance(kind, StringType | BinaryType):
            raise ValueError(
                f"columns: column {name!r} must hold no texts, as it held none in the fit, but it holds "
                f"{kind.simpleString()}: cast it to double"
            )


def check_table(table: Any) -> None:
    """Refuse what is no Spark data frame, and streams."""
    need_pyspark()
    check_frame(table, "table")
    if table.isStreaming:
        raise ValueError("table must not be a stream: give the rows so far, read by spark.read")


def names_of(columns: str | Sequence[str]) -> list[str]:
    """The names that were given, one or several."""
    return [columns] if isinstance(columns, str) else list(columns)


def check_columns(table: DataFrame, names: Sequence[str], argument: str) -> None:
    """Refuse names that the table has not, or has twice, and names given twice."""
    for name in names:
        count = table.columns.count(name)
        if count != 1:
            there = "the table has twice: rename one of them"
            if not count:
                there = f"the table does not have; it has {cut(', '.join(map(repr, table.columns)))}"
            raise ValueError(f"{argument} names the column {name!r}, which {there}")
        if list(names).count(name) > 1:
            raise ValueError(f"{argument} must name different columns, got {name!r} twice")


def number(table: DataFrame, name: str, argument: str = "columns") -> Column:
    """A column of numbers, as doubles."""
    from pyspark.sql.types import BooleanType, NumericType

    check_columns(table, [name], argument)
    kind = table.schema[name].dataType
    if not isinstance(kind, NumericType | BooleanType):
        raise ValueError(
            f"{argument}: column {name!r} must hold numbers, but it holds {kind.simpleString()}: cast it to "
            "double"
        )
    return column(name).cast("double").alias(name)


def array(table: DataFrame, name: str) -> Column:
    """A column of arrays of numbers, as doubles."""
    from pyspark.sql.types import ArrayType, NumericType

    kind = table.schema[name].dataType
    if not (isinstance(kind, ArrayType) and isinstance(kind.elementType, NumericType)):
        raise ValueError(
            f"columns: {name!r} alone must hold arrays of probabilities, but it holds {kind.simpleString()}: "
            "give columns=[...] with a column for each class"
        )
    return column(name).cast("array<double>").alias(name)


def column(name: str) -> Column:
    """The column of exactly that name, whatever signs are in it."""
    from pyspark.sql.functions import col

    return col("`" + name.replace("`", "``") + "`")
