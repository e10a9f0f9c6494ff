"""Recalibrators fitted on Spark, where all they need of the rows are sums."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from onlinecal.engine.spark.columns import check_columns, check_table, column, names_of, number
from onlinecal.engine.spark.parts import Batches, ClassTable, SparkRows
from onlinecal.pieces import Floats, Ints

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from onlinecal.recalibration import GroupRecalibrator, LpRecalibrator
    from onlinecal.recalibration.probability_recalibrator import ProbabilityRecalibrator

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
            _fit_lp(model, rows)
        else:
            _fit_smooth(model, rows)
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


def _fit_smooth(model: ProbabilityRecalibrator, rows: ClassTable) -> None:
    """Temperature, vector scaling or Dirichlet calibration of all rows, from those of a sample."""
    from onlinecal.recalibration.classical.dirichlet import MOST_NEWTON_CLASSES, DirichletCalibration
    from onlinecal.recalibration.classical.temperature import (
        TemperatureScaling,
        best_factor,
        logs_of,
        slopes_of,
    )

    n_classes = rows.size[1]

    def temperature() -> float:
        P, y = rows.sample
        return best_factor(rows.slopes, slopes_of(logs_of(P), y, np.ones(len(y))))

    if isinstance(model, TemperatureScaling):
        model.inverse_temperature_, model.fixed_order_ = temperature(), True
        return
    if isinstance(model, DirichletCalibration) and n_classes > MOST_NEWTON_CLASSES:
        raise ValueError(
            f"recalibrator: DirichletCalibration takes at most {MOST_NEWTON_CLASSES} classes on Spark,"
            f" got {n_classes}"
        )
    if isinstance(model, DirichletCalibration) and model.pull:
        model._learn_rows(SparkRows(rows), n_classes, temperature())
        return
    model._learn_rows(SparkRows(rows), n_classes)


def _fit_lp(model: LpRecalibrator, rows: ClassTable) -> None:
    """What folds decide, decided on the sample; start, level sets and the check of the share on all rows."""
    from onlinecal.recalibration.lp.recalibrator import SampleSizeWarning
    from onlinecal.recalibration.mixing import (
        SHARES,
        Moments,
        Rows,
        moments_of,
        shares_without_loss,
        told_mixture,
    )

    n_rows, n_classes, _ = rows.size
    needs = model.settings_for(n_classes, n_rows)
    if model._promises and n_rows < needs.needed(model.estimation):
        warnings.warn(model._too_few(n_rows, n_classes, needs), SampleSizeWarning, stacklevel=4)
    decides = model.share is None and model.n_folds > 0
    decided = _decided(model, rows) if decides or model.start == "auto" else None
    model.start_ = _start(model, rows, decided)
    model.fit_statistics(_statistics(model, rows, needs.n_levels, needs.beta), stacklevel=5)
    model.keep_ = model.keep
    if decided is None or not decides:
        model.share_, model.limit_ = told_mixture(model.share, model.limit)
        return
    model.share_, model.limit_ = decided.share_, decided.limit_
    start, found, keep, limit = model.start_, model.map_, model.keep, model.limit_

    def moments(P: Floats, y: Ints) -> tuple[Any, ...]:
        begun = _started(start, P)
        return tuple(moments_of([Rows(begun, found(begun), y, None)], keep, limit))

    allowed = shares_without_loss(Moments(*rows.total(moments))) & (model.share_ >= SHARES)
    model.share_ = float(SHARES[allowed | (SHARES == 0.0)].max())


def _decided(model: LpRecalibrator, rows: ClassTable) -> LpRecalibrator:
    """The same recalibrator fitted to the sample, on the driver."""
    from sklearn.base import clone

    with warnings.catch_warnings():
        # the fit to all rows speaks for itself
        warnings.simplefilter("ignore")
        return clone(model)._fit_checked(*rows.sample, None)


def _start(model: LpRecalibrator, rows: ClassTable, decided: LpRecalibrator | None) -> Any:
    """The start fitted to all rows; None for none, and if it would raise their squared error."""
    from sklearn.base import clone

    from onlinecal.recalibration.starting import MODELS, NEVER_WARM
    from onlinecal.recalibration.weights import squared_error

    if model.start == "none" or (model.start == "auto" and decided is not None and decided.start_ is None):
        return None
    kind = decided.start_ if model.start == "auto" and decided is not None else MODELS[model.start]()
    n_rows, n_classes, right = rows.size
    if isinstance(kind, NEVER_WARM) and right == n_rows:
        return None
    start = clone(kind)
    _fit_smooth(start, rows)
    start.n_features_in_, start.classes_ = n_classes, np.arange(n_classes)
    after, before = rows.total(
        lambda P, y: (squared_error(_started(start, P), y, None), squared_error(P, y, None))
    )
    return None if after > before else start


def _started(start: Any, table: Floats) -> Floats:
    from onlinecal.recalibration.starting import started

    return started(start, table)


def _statistics(model: LpRecalibrator, rows: ClassTable, n_levels: int, beta: float) -> Any:
    """Counts of the level sets of large mass, in the order of their levels.

    Those with a beta/6 of all rows have one of some batch's: only such are counted, in a second pass.
    """
    from onlinecal.measures.lp.level_sets import levels_of, number_level_sets
    from onlinecal.recalibration.lp.statistics import Statistics, single_pool

    start, least = model.start_, beta / 6.0
    n_rows, k, _ = rows.size

    def heavy(batches: Batches) -> set[bytes]:
        found = set()
        for P, _ in batches:
            begun = _started(start, P)
            numbers, first = number_level_sets(begun, n_levels)
            counts = np.bincount(numbers, minlength=len(first))
            # a hair less: shares of parts are rounded
            mine = first[counts >= least * len(P) * (1.0 - 1e-9)]
            found |= {levels.tobytes() for levels in levels_of(begun[mine], n_levels)}
        return found

    keys = sorted(set().union(*rows.each(heavy)), key=lambda key: tuple(np.frombuffer(key, np.int64)))
    place = {key: at for at, key in enumerate(keys)}

    def count(P: Floats, y: Ints) -> tuple[Floats, Floats, Floats]:
        counts, labels, means = np.zeros(len(keys)), np.zeros((len(keys), k)), np.zeros((len(keys), k))
        begun = _started(start, P)
        numbers, first = number_level_sets(begun, n_levels)
        at = np.array([place.get(one.tobytes(), -1) for one in levels_of(begun[first], n_levels)])[numbers]
        inside = at >= 0
        np.add.at(counts, at[inside], 1.0)
        np.add.at(labels, (at[inside], y[inside]), 1.0)
        np.add.at(means, at[inside], begun[inside])
        return counts, labels, means

    counts, labels, means = rows.total(count)
    bins = np.flatnonzero((counts >= least * n_rows) & (counts > 0))
    levels = np.array([np.frombuffer(keys[at], np.int64) for at in bins], np.int64).reshape(len(bins), k)
    means = means[bins] / counts[bins, None] if model.within_ == "shift" else None
    return Statistics(levels, means, single_pool(counts[bins], labels[bins], float(n_rows)))


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
