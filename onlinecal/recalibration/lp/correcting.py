"""A fit of l_p recalibration: what rows start from, and the map that level sets are looked up in."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import compiled
from onlinecal.measures.decision.losses import residuals
from onlinecal.measures.lp.level_sets import (
    allowance,
    fill_levels,
    hash_of_levels,
    number_level_sets,
    same_levels,
)
from onlinecal.pieces import pieces
from onlinecal.recalibration.flooring import least_probability
from onlinecal.recalibration.lp.algorithm import Outcome, run
from onlinecal.recalibration.lp.statistics import (
    Estimation,
    SampleComplexity,
    Statistics,
    plug_in_statistics,
    pool_statistics,
)
from onlinecal.recalibration.mixing import Rows, chosen_mixture, moments_of, told_mixture
from onlinecal.recalibration.probability_recalibrator import ProbabilityRecalibrator
from onlinecal.recalibration.simplex_projection import project
from onlinecal.recalibration.starting import (
    Start,
    deciding_folds,
    fitted_start,
    start_model,
    started,
)
from onlinecal.recalibration.weights import Weights, part, weighted


class LevelSetMap:
    """What becomes of probabilities, by level set.

    Parameters
    ----------
    levels
        Levels of the known level sets, shape (B, k).
    values
        One row per known level set, shape (B, k).
    n_levels
        Levels in [0, 1).
    shift
        False: a row in a known level set becomes that level set's value, any other becomes rho of its
        level set. True: the value is added and the sum projected on the simplex; any other row is kept.
    least
        What a probability of 0 becomes in a row that is shifted; see `onlinecal.recalibration.flooring`.
    """

    # maps pickled before there was a floor
    least = 0.0

    def __init__(self, levels: Ints, values: Floats, n_levels: int, shift: bool, least: float = 0.0) -> None:
        self.least = least
        self.levels = levels
        self.values = values
        self.n_levels = n_levels
        self.shift = shift
        self.slots = _table_of(levels)

    def __call__(self, table: Floats) -> Floats:
        """The mapped rows, shape (n, k)."""
        out = np.empty_like(table)
        slack = allowance(self.n_levels, table.shape[1])
        _apply(table, self.levels, self.values, self.slots, self.n_levels, slack, self.shift, self.least, out)
        return out


@compiled
def _table_of(levels: Ints) -> Ints:
    """Open addressing: the number of a level set at its slot, -1 elsewhere."""
    size = 2
    while size < 2 * levels.shape[0]:
        size *= 2
    slots = np.empty(size, dtype=np.int64)
    for i in range(size):
        slots[i] = -1
    mask = np.uint64(size - 1)
    for b in range(levels.shape[0]):
        slot = hash_of_levels(levels[b]) & mask
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = b
    return slots


@compiled
def _apply(
    table: Floats,
    levels: Ints,
    values: Floats,
    slots: Ints,
    n_levels: int,
    slack: float,
    shift: bool,
    least: float,
    out: Floats,
) -> None:
    n, k = table.shape
    mine = np.empty(k, dtype=np.int64)
    moved = np.empty(k)
    mask = np.uint64(slots.shape[0] - 1)
    for i in range(n):
        slot = fill_levels(table[i], n_levels, slack, mine) & mask
        found = slots[slot]
        while found >= 0 and not same_levels(levels[found], mine):
            slot = (slot + np.uint64(1)) & mask
            found = slots[slot]
        if shift:
            if found >= 0:
                for j in range(k):
                    moved[j] = table[i, j] + values[found, j]
                project(moved, out[i])
                for j in range(k):
                    out[i, j] = (1.0 - k * least) * out[i, j] + least
            else:
                for j in range(k):
                    out[i, j] = table[i, j]
        elif found >= 0:
            for j in range(k):
                out[i, j] = values[found, j]
        else:
            total = 0
            for j in range(k):
                total += mine[j]
            # as `rho`
            spare = (n_levels - total) / (n_levels * k) if total <= n_levels else 0.0
            whole = max(n_levels, total)
            for j in range(k):
                out[i, j] = mine[j] / whole + spare


class Parameters(Protocol):
    """What a fit asks of `LpRecalibrator`, which says what each means."""

    p: float
    delta: float
    estimation: Estimation
    seed: int
    start: Start
    share: float | None
    keep: float
    limit: float | None
    n_folds: int
    within_: str
    n_levels_: int
    tolerance_: float
    sample_complexity_: SampleComplexity


class Correction(NamedTuple):
    """The start of some rows, what it makes of them, what is counted of that, and what comes out."""

    start: ProbabilityRecalibrator | None
    begun: Floats
    statistics: Statistics
    outcome: Outcome
    map: LevelSetMap


class Correcting:
    """The rows of a fit together with its parameters, which are checked."""

    def __init__(self, parameters: Parameters, table: Floats, labels: Ints, weights: Weights) -> None:
        self.parameters = parameters
        self.table, self.labels, self.weights = table, labels, weights
        asked = parameters.start, parameters.n_folds, parameters.seed
        self.model = start_model(*asked, table, labels, weights)

    def on(self, rows: Ints | None = None) -> Correction:
        """Start and Algorithm 2 fitted to some rows; None: to all."""
        table, labels, weights = self.table, self.labels, self.weights
        if rows is not None:
            table, labels, weights = table[rows], labels[rows], part(weights, rows)
        asked, needs = self.parameters, self.parameters.sample_complexity_
        start, begun = fitted_start(self.model, table, labels, weights)
        if asked.estimation == "plug-in":
            shift = asked.within_ == "shift"
            statistics = plug_in_statistics(begun, labels, needs.n_levels, needs.beta, shift, weights)
        else:
            statistics = pool_statistics(begun, labels, needs, asked.delta, asked.seed)
        outcome = run(statistics, asked.n_levels_, asked.tolerance_, float(asked.p))
        return Correction(start, begun, statistics, outcome, map_of(statistics, outcome, asked.n_levels_))

    def mixture(self, fitted: Correction) -> tuple[float, float]:
        """The share of the correction, fitted to all rows, and its limit: as told or by folds."""
        asked, n = self.parameters, len(self.table)
        if asked.share is not None or not asked.n_folds:
            return told_mixture(asked.share, asked.limit)
        if n < 2 * asked.n_folds:
            return told_mixture(0.0, asked.limit)
        held_out = []
        for rows, out in deciding_folds(n, asked.n_folds, asked.seed):
            each = self.on(rows)
            begun = started(each.start, self.table[out])
            held_out.append(Rows(begun, each.map(begun), self.labels[out], part(self.weights, out)))
        return chosen_mixture(
            held_out,
            lambda width: moments_of(self._parts(fitted), asked.keep, width),
            asked.keep,
            asked.limit,
            self._error,
        )

    def _parts(self, fitted: Correction) -> Iterator[Rows]:
        """All rows with what was fitted to them, piece by piece."""
        for rows in pieces(fitted.begun):
            begun = fitted.begun[rows]
            weights = None if self.weights is None else self.weights[rows]
            yield Rows(begun, fitted.map(begun), self.labels[rows], weights)

    def _error(self, table: Floats, labels: Ints, weights: Weights) -> float:
        """Err_p to the power p, of inf Err_p."""
        numbers, level_sets = number_level_sets(table, self.parameters.n_levels_)
        wrong = weighted(residuals(table, labels), weights) / len(table)
        sums = np.abs([np.bincount(numbers, column, len(level_sets)) for column in wrong.T])
        p = float(self.parameters.p)
        return float(sums.max() if math.isinf(p) else (sums**p).sum())


def map_of(statistics: Statistics, outcome: Outcome, n_levels: int) -> LevelSetMap:
    """Groups' predictions for their level sets; shifts, if these began at their means."""
    values = outcome.predictions[outcome.group_of_bin]
    shift = statistics.means is not None
    if statistics.means is not None:
        values = values - statistics.means
    least = least_probability(statistics.pools.mass_rows[0], values.shape[1]) if shift else 0.0
    return LevelSetMap(statistics.levels, values, n_levels, shift, least)


def warn_unless_finished(outcome: Outcome, tolerance: float, stacklevel: int) -> None:
    """A ConvergenceWarning of errors that may be left."""
    if not outcome.finished:
        warnings.warn(
            f"after {len(outcome.history.group):,} rounds some errors may still be above the tolerance"
            f" {tolerance:.3g}: the estimates contradict each other, there are too few rows",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )
