"""Recalibrators fitted on Spark, where all they need of the rows are sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from onlinecal.engine.spark.columns import check_columns, check_table, column, names_of, number
from onlinecal.engine.spark.lp_fits import fit_lp
from onlinecal.engine.spark.parts import ClassTable
from onlinecal.engine.spark.smooth_fits import fit_smooth

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from onlinecal.recalibration import GroupRecalibrator

Kind = TypeVar("Kind")

MOST_CELLS = 5_000_000
"""Different rows of forecast, groups and outcome that the driver takes."""
STARTS = ("auto", "none", "temperature", "vector")


def fit_recalibrator(
    table: DataFrame,
    recalibrator: Kind,
    columns: str | Sequence[str],
    label: str,
    *,
    groups: str | Sequence[str] = (),
) -> Kind:
    """A copy of a recalibrator, fitted on all rows of a Spark table.

    Parameters
    ----------
    table
        Any Spark data frame with the columns named here; it is read several times, and kept by the executors
        meanwhile (`persist`).
    recalibrator
        Unfitted. `TemperatureScaling`, `VectorScaling`; `DirichletCalibration` of up to 20 classes;
        `LpRecalibrator` with estimation="plug-in" and the start "auto", "none", "temperature" or "vector";
        `GroupRecalibrator` without predicates and validation_fraction.
    columns
        Of class probabilities: one column of arrays, or a column for each class. For a `GroupRecalibrator`
        the column of forecasts.
    label
        The column of class numbers, or of classes: those that the recalibrator names, or, as texts, the names
        of the columns. For a `GroupRecalibrator` the column of outcomes, 0/1 or boolean.
    groups
        For a `GroupRecalibrator`: the columns of the groups, booleans or categories.

    Returns
    -------
    object
        Fitted, as `fit` returns it on one machine: for `recalibrated`, or anything else.

    Raises
    ------
    ValueError
        Another recalibrator, or one of these that needs more than sums; a bad column or value; for a
        `GroupRecalibrator` more than 5,000,000 different rows. pyspark is missing.

    Notes
    -----
    The result does not depend on how the rows are parted but by rounding (by nothing for a
    `GroupRecalibrator`), and is the one of `fit` on the same rows to about eight digits; docs/scale.md says
    where and why folds can be others.

    """
    check_table(table)
    from sklearn.base import clone

    from onlinecal.recalibration import GroupRecalibrator, LpRecalibrator

    members = names_of(groups)
    if bool(members) != isinstance(recalibrator, GroupRecalibrator):
        raise ValueError(f"groups must be given for a GroupRecalibrator and for no other, got {groups!r}")
    model = clone(recalibrator)
    if isinstance(model, GroupRecalibrator):
        return _fit_groups(table, model, columns, label, members)
    _check_kind(model)
    with ClassTable(table, columns, label, model.classes) as rows:
        model._check_parameters()
        if isinstance(model, LpRecalibrator):
            fit_lp(model, rows)
        else:
            fit_smooth(model, rows)
        model.n_features_in_, model.classes_ = rows.size[1], rows.classes
        if rows.names is not None:
            model.feature_names_in_ = np.asarray(rows.names, dtype=object)
    return model


def _check_kind(model: Any) -> None:
    """Refuse what needs more of the rows than sums."""
    from onlinecal.recalibration import (
        DirichletCalibration,
        LpRecalibrator,
        TemperatureScaling,
        VectorScaling,
    )

    if isinstance(model, LpRecalibrator):
        if model.estimation != "plug-in":
            raise ValueError(
                f"recalibrator must have estimation='plug-in' on Spark, got {model.estimation!r}"
            )
        if model.start not in STARTS:
            raise ValueError(
                f"recalibrator must have a start of {', '.join(map(repr, STARTS))} on Spark, got"
                f" {model.start!r}: what it needs of the rows is no sum"
            )
    elif not isinstance(model, TemperatureScaling | VectorScaling | DirichletCalibration):
        raise ValueError(
            f"recalibrator must be one that needs sums over rows only, to be fitted on Spark, got {model!r}: "
            "fit it on a sample of the rows, and apply it with `recalibrated`"
        )


def _fit_groups(
    table: DataFrame, model: GroupRecalibrator, columns: str | Sequence[str], label: str, members: list[str]
) -> Any:
    """A fit to the numbers of rows with the same forecast, groups and outcome."""
    from pyspark.sql import functions as F

    from onlinecal.recalibration.groups.counted import fit_counts

    if not isinstance(columns, str):
        raise ValueError(f"columns must be one column of forecasts for a GroupRecalibrator, got {columns}")
    if model.predicates is not None or model.validation_fraction:
        raise ValueError(
            "recalibrator must have neither predicates nor validation_fraction to be fitted on Spark: they"
            " ask for rows, not for their numbers"
        )
    check_columns(table, [*members, columns, label], "groups, columns and label together")
    rows = table.select(
        number(table, columns).alias("p"),
        number(table, label, "label").alias("y"),
        *(column(name).alias(f"g{i}") for i, name in enumerate(members)),
    )
    counted = rows.groupBy(*rows.columns).agg(F.count("*").alias("rows")).limit(MOST_CELLS + 1).toPandas()
    if len(counted) > MOST_CELLS:
        raise ValueError(
            f"columns: more than {MOST_CELLS:,} different rows of {columns!r}, groups and {label!r}: round"
            f" the forecasts first, as by F.round({columns!r}, 3), and those that it is applied to"
        )
    if not len(counted):
        raise ValueError("table has no rows")
    texts = [counted[name].astype(str) for name in rows.columns[2:]]
    counted = counted.iloc[
        np.lexsort([*(text.to_numpy(str) for text in texts[::-1]), counted["y"], counted["p"]])
    ]
    frame = counted[rows.columns[2:]].set_axis(members, axis=1).reset_index(drop=True)
    p, y = counted["p"].to_numpy(), counted["y"].to_numpy()
    fit_counts(model, p, y, frame, counted["rows"].to_numpy(np.int64))
    return model
