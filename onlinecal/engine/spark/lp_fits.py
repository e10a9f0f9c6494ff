"""l_p recalibration fitted on Spark: start and level sets from sums, what folds decide from a sample."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from onlinecal.engine.spark.parts import Batches, ClassTable
from onlinecal.engine.spark.smooth_fits import fit_smooth
from onlinecal.pieces import Floats, Ints

if TYPE_CHECKING:
    from onlinecal.recalibration import LpRecalibrator


def fit_lp(model: LpRecalibrator, rows: ClassTable) -> None:
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
    fit_smooth(start, rows)
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
