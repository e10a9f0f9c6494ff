"""Fitted recalibrators on every row of a large table, on Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onlinecal.arrays import Floats
from onlinecal.engine.spark.rows import array, check_columns, check_table, column, names_of, number

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Predict = Callable[[Any], Floats]
"""A frame of the columns that a recalibrator needs -> its answers, (n,) or (n, k)."""

INITIAL = "initial forecast"
"""What the column of initial forecasts is called on its way to a `BoostedRecalibrator`."""


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

    Nothing is computed before the answer is used; only the named columns then go through the recalibrator.

    Parameters
    ----------
    table
        Any Spark data frame with the columns named here.
    recalibrator
        Fitted. `LpRecalibrator`, `DecisionRecalibrator` or anything else with `predict_proba`;
        `GroupRecalibrator`; `BoostedRecalibrator`. It is sent to the workers once for a query, with all that
        it holds.
    columns
        What it was fitted on. For `predict_proba`: one column of arrays of k probabilities, or the k columns
        of probabilities in the order of the fit. For a `GroupRecalibrator`: the column of forecasts. For a
        `BoostedRecalibrator`: the columns of features in the order of the fit.
    groups
        For a `GroupRecalibrator`: the columns of the groups, as it was fitted on.
    initial
        For a `BoostedRecalibrator` that was fitted with forecasts: the column of initial forecasts.
    into
        The name of the added column; of k columns `a`, `b`, ... are made `into_a`, `into_b`, ...

    Returns
    -------
    DataFrame
        The table's columns, and: an array of k doubles for a column of arrays, k doubles for k columns, one
        double for forecasts or features.

    Raises
    ------
    ValueError
        table is no Spark data frame, a column is missing, there twice or not made of numbers, their number or
        names differ from the fit's, `into` names a column that is there, an argument does not go with this
        recalibrator, or it is not fitted (NotFittedError). A bad value in a row is found when the answer is
        used: Spark's error then has the recalibrator's message, whose row counts within one batch.

    """
    check_table(table)
    from pyspark.sql.functions import pandas_udf, struct

    inputs, predict, answers_rows = _plan(table, recalibrator, columns, groups, initial)
    spread = [f"{into}_{name}" for name in columns] if answers_rows and not isinstance(columns, str) else []
    for name in [into, *spread]:
        if name in table.columns:
            raise ValueError(f"into must make new columns, but the table has {name!r}: choose another name")
    apply = pandas_udf(_on_frames(predict), "array<double>" if answers_rows else "double")
    answer = table.withColumn(into, apply(struct(*inputs)))
    if not spread:
        return answer
    parts = [column(into)[i].alias(name) for i, name in enumerate(spread)]
    return answer.select(*map(column, table.columns), *parts)


def _plan(
    table: DataFrame,
    recalibrator: Any,
    columns: str | Sequence[str],
    groups: str | Sequence[str],
    initial: str | None,
) -> tuple[list[Column], Predict, bool]:
    """The columns that a recalibrator needs, how it is asked, and whether it answers k numbers a row."""
    # scikit-learn takes a second to import, and measuring does without
    from sklearn.base import BaseEstimator
    from sklearn.utils.validation import check_is_fitted

    from onlinecal.recalibration import BoostedRecalibrator, GroupRecalibrator

    if isinstance(recalibrator, BaseEstimator):
        check_is_fitted(recalibrator)
    names, members = names_of(columns), names_of(groups)
    check_columns(table, names, "columns")
    check_columns(table, [*members, *names], "groups and columns together")
    is_boosted, is_grouped = (isinstance(recalibrator, c) for c in (BoostedRecalibrator, GroupRecalibrator))
    if bool(members) != is_grouped:
        raise ValueError(f"groups must be given for a GroupRecalibrator and for no other, got {groups!r}")
    if initial is not None and not is_boosted:
        raise ValueError(f"initial goes with a BoostedRecalibrator only, got {initial!r}")
    if is_grouped:
        if not isinstance(columns, str):
            raise ValueError(f"columns must be one column of forecasts for a GroupRecalibrator, got {names}")

        def by_groups(frame: Any) -> Floats:
            return recalibrator.predict(frame[columns].to_numpy(), frame.drop(columns=columns))

        return [number(table, columns), *map(column, members)], by_groups, False
    if not is_boosted and not hasattr(recalibrator, "predict_proba"):
        raise ValueError(f"recalibrator must have predict_proba, got {recalibrator!r}")
    if not is_boosted and isinstance(columns, str):
        arrays = [array(table, columns)]
        return arrays, lambda frame: recalibrator.predict_proba(np.stack(frame[columns])), True
    _check_fit(recalibrator, names)

    def as_fitted(frame: Any) -> Any:
        """The frame, without names for what was fitted without: that would warn of them."""
        return frame if hasattr(recalibrator, "feature_names_in_") else frame.to_numpy()

    if not is_boosted:
        needed = [number(table, name) for name in names]
        return needed, lambda frame: recalibrator.predict_proba(as_fitted(frame)), True

    def by_features(frame: Any) -> Floats:
        start = frame.pop(INITIAL).to_numpy() if INITIAL in frame else None
        return recalibrator.predict(as_fitted(frame), start)

    first = [] if initial is None else [number(table, initial, "initial").alias(INITIAL)]
    return [*map(column, names), *first], by_features, False


def _on_frames(predict: Predict) -> Callable[[Any], Any]:
    """The same as a function from Spark's frames to its series."""
    from pandas import DataFrame, Series

    def apply(frame: Any) -> Any:
        answer = predict(frame)
        return Series(list(answer) if answer.ndim == 2 else answer)

    # Spark goes by these; as text they would be looked for where they are unknown
    apply.__annotations__ = {"frame": DataFrame, "return": Series}
    return apply


def _check_fit(recalibrator: Any, names: list[str]) -> None:
    wanted = getattr(recalibrator, "n_features_in_", len(names))
    if len(names) != wanted:
        raise ValueError(f"columns must be the {wanted} columns of the fit, got {len(names)}: {names}")
    fitted = [str(name) for name in getattr(recalibrator, "feature_names_in_", names)]
    if names != fitted:
        raise ValueError(f"columns must be {fitted}, as in the fit, got {names}")
