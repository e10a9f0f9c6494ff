"""l_p recalibration while a stream runs: counts of level sets in bounded memory, and Algorithm 2 on them.

Counting never changes what `answer` returns; only `fit` makes another map, as a whole.

Two writers: `keep`, which counts a round, and `fit`, which makes a map of what was counted. `answer` changes
no counts; it only gives the map columns for classes that have come since the fit, which then share its floor.
What always holds of a `LevelSetCounts`: at most `capacity` entries; the credit of each is at least `paid`;
and weights are in a unit that grows, so that only their ratio to `weight` means anything. The order of
`entries` is that of the bins.

The engine saves counts and map in forms of its own (`engine/keys/lp_lanes.py`): a field that is added here is
added there, too. FIRST_FIT, PANES and the factor 24 of the capacity decide when, and of what, maps are
fitted. Vectors have sum 1, and numbers of classes come without gaps: who calls sees to that.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Hashable, Sequence

import numpy as np
from sklearn.base import clone

from onlinecal.arrays import Floats
from onlinecal.measures.lp.level_sets import LevelSetKey, levels_of
from onlinecal.recalibration.lp.recalibrator import LevelSetMap, LpRecalibrator
from onlinecal.recalibration.lp.statistics import PoolCounts, Statistics, noisy_pools, single_pool

FIRST_FIT = 100
"""Rounds before the first run, unless another number is set."""
LARGEST_WEIGHT = 1e100
"""If the weight of a round grows beyond this, all weights are measured in a larger unit."""


class CountedLevelSet:
    """A level set that is kept: its credit, its weight and its labels' weights by pool, and forecast sums."""

    __slots__ = ("credit", "labels", "sums", "weights")

    def __init__(self, credit: float, n_pools: int) -> None:
        self.credit = credit
        self.weights = [0.0] * n_pools
        self.labels: list[dict[int, float]] = [{} for _ in range(n_pools)]
        self.sums: dict[int, float] = {}


class LevelSetCounts:
    """Misra and Gries' heavy hitters over level sets, with the counts that recalibration needs of each.

    At most `capacity` level sets are kept. When another one comes, every kept one pays the same amount of
    credit, and those with none left are dropped. A level set with more than 1/(capacity + 1) of the whole
    weight is always kept, and at most that part of the whole weight is missing from its count.

    Rounds are dealt to `n_pools` pools. `fading` is None, or the factor in (0, 1) by which each round lowers
    the weight of all rounds before it. Weights are in units that grow: the next round has weight `weight`.
    """

    def __init__(self, capacity: int, n_pools: int = 1, fading: float | None = None) -> None:
        self.capacity = capacity
        self.fading = fading
        self.entries: dict[LevelSetKey, CountedLevelSet] = {}
        self.totals = [0.0] * n_pools
        self.paid = 0.0
        self.weight = 1.0

    def add(self, key: LevelSetKey, forecast: dict[int, float], label: int, pool: int = 0) -> None:
        """Count a round: its level set, its probabilities by class number, its label's number, its pool."""
        weight = self.weight
        self.totals[pool] += weight
        entry = self.entries.get(key)
        if entry is None:
            entry = self._admit(key, weight)
        else:
            entry.credit += weight
        if entry is not None:
            entry.weights[pool] += weight
            entry.labels[pool][label] = entry.labels[pool].get(label, 0.0) + weight
            for j, u in forecast.items():
                entry.sums[j] = entry.sums.get(j, 0.0) + weight * u
        if self.fading is not None:
            self.weight /= self.fading
            if self.weight > LARGEST_WEIGHT:
                self._scale(1.0 / self.weight)

    def _admit(self, key: LevelSetKey, weight: float) -> CountedLevelSet | None:
        if len(self.entries) >= self.capacity:
            paid = min(weight, min(entry.credit for entry in self.entries.values()) - self.paid)
            self.paid += paid
            weight -= paid
            self.entries = {k: entry for k, entry in self.entries.items() if entry.credit > self.paid}
            if weight <= 0.0 and len(self.entries) >= self.capacity:
                return None
        entry = CountedLevelSet(self.paid + weight, len(self.totals))
        self.entries[key] = entry
        return entry

    def _scale(self, factor: float) -> None:
        """Multiply all weights by a factor, which changes their unit."""
        self.weight *= factor
        self.paid *= factor
        self.totals = [total * factor for total in self.totals]
        for entry in self.entries.values():
            entry.credit *= factor
            entry.weights = [weight * factor for weight in entry.weights]
            entry.labels = [{j: w * factor for j, w in labels.items()} for labels in entry.labels]
            entry.sums = {j: total * factor for j, total in entry.sums.items()}

    @property
    def rounds(self) -> float:
        """The weight of all rounds, where the next round has weight 1."""
        return sum(self.totals) / self.weight


def statistics_of(
    windows: list[LevelSetCounts], n_classes: int, beta: float, with_means: bool, seed: int, delta: float
) -> Statistics:
    """The statistics of the bins in several counts together, for Algorithm 2.

    Bins are the level sets with at least beta/6 of the weight. If there are several pools, the first one
    finds the bins; pools 1 + 2i and 2 + 2i estimate masses and label frequencies of groups of 2^i bins.
    """
    keys: dict[LevelSetKey, float] = {}
    for window in windows:
        for key, entry in window.entries.items():
            keys[key] = keys.get(key, 0.0) + entry.weights[0] / window.weight
    totals = np.sum([np.array(window.totals) / window.weight for window in windows], axis=0)
    bins = [key for key, weight in keys.items() if weight > 0 and weight >= beta / 6.0 * totals[0]]
    shape = len(totals), len(bins), n_classes
    masses, labels, means = np.zeros(shape[:2]), np.zeros(shape), np.zeros(shape[1:])
    levels = np.zeros(shape[1:], dtype=np.int64)
    for b, key in enumerate(bins):
        for j, level in key:
            levels[b, j] = level
        for window in windows:
            if (counted := window.entries.get(key)) is None:
                continue
            masses[:, b] += np.array(counted.weights) / window.weight
            for i, of_pool in enumerate(counted.labels):
                for j, weight in of_pool.items():
                    labels[i, b, j] += weight / window.weight
            for j, total in counted.sums.items():
                means[b, j] += total / window.weight
    return Statistics(
        levels,
        means / means.sum(axis=1, keepdims=True) if with_means else None,
        _pools(masses, labels, totals, delta, seed),
    )


def _pools(masses: Floats, labels: Floats, totals: Floats, delta: float, seed: int) -> PoolCounts:
    if len(masses) == 1:
        return single_pool(masses[0], labels[0], totals[0])
    sizes = max(1, masses.shape[1]).bit_length()
    rows, rng = np.maximum(totals[1:], 1e-300), np.random.default_rng(seed)
    of_masses, of_labels = slice(1, 2 * sizes + 1, 2), slice(2, 2 * sizes + 1, 2)
    parts = masses[of_masses], labels[of_labels], rows[0::2][:sizes], rows[1::2][:sizes]
    return noisy_pools(*parts, delta, rng)


PANES = 8
"""A window has this many parts; the oldest part is forgotten as a whole."""


class OnlineLp:
    """Counts a stream's forecasts by level set, and maps forecasts by the last run of Algorithm 2.

    The caller numbers the classes, and decides when to run it again; `rounds_to_next` suggests when.
    `settings` has the parameters of each run; its seed deals rounds to pools. `window` is None, or how many
    rounds are remembered; an eighth of them is forgotten at a time. `counts` has the counts of each part of
    the window.
    """

    def __init__(self, settings: LpRecalibrator, window: int | None, fading: float | None) -> None:
        self.settings, self.window, self.fading = settings, window, fading
        needs = settings._settings_for(2)
        self._shares = [1.0]
        if settings.estimation == "pools":
            sizes = [needs.masses] + [rows for pool in needs.pools for rows in (pool.masses, pool.labels)]
            self._shares = [float(size) for size in np.cumsum(sizes) / sum(sizes)]
        self.random = random.Random(settings.random_state)
        self.rounds = self.fits = 0
        self.map: LevelSetMap | None = None
        self.counts: deque[LevelSetCounts] = deque([self._new_counts()])

    def answer(self, vector: Floats) -> Floats:
        """The recalibrated probabilities of all classes known by now, shape (k,)."""
        self._widen(len(vector))
        return vector if self.map is None else self.map.one(vector)

    def keep(self, vector: Floats, number: int) -> None:
        """Count a round: the model's probabilities, shape (k,), and the number of the class that came."""
        self.rounds += 1
        shift = self.settings.within_ == "shift"
        forecast = {j: u for j, u in enumerate(vector.tolist()) if u > 0.0} if shift else {}
        pool = 0
        if len(self._shares) > 1:
            drawn = self.random.random()
            pool = next(i for i, share in enumerate(self._shares) if drawn <= share or share >= 1.0)
        self.counts[-1].add(level_set_of(vector, self.settings.n_levels_), forecast, number, pool)
        if self.window is not None and self.rounds % (self.window // PANES) == 0:
            self.counts.append(self._new_counts())
            while len(self.counts) > PANES:
                self.counts.popleft()

    def fit(self, labels: Sequence[Hashable]) -> LpRecalibrator | None:
        """Run Algorithm 2 on the counts; None while there are fewer than two classes."""
        windows = [counts for counts in self.counts if counts.entries]
        if len(labels) < 2 or not windows:
            return None
        recalibrator: LpRecalibrator = clone(self.settings)
        recalibrator._settings_for(len(labels))
        recalibrator.classes_ = np.array(list(labels), dtype=object)
        shift, seed = recalibrator.within_ == "shift", recalibrator.random_state + self.fits
        recalibrator._fit_statistics(
            statistics_of(windows, len(labels), recalibrator.beta_, shift, seed, recalibrator.delta)
        )
        self.map = recalibrator.map_
        self.fits += 1
        return recalibrator

    def rounds_to_next(self) -> int:
        """After how many more rounds to run again: as many as were counted, or as are remembered."""
        if self.window is not None:
            return min(self.rounds, self.window // PANES)
        return self.rounds if self.fading is None else min(self.rounds, math.ceil(1.0 / (1.0 - self.fading)))

    def _new_counts(self) -> LevelSetCounts:
        return LevelSetCounts(math.ceil(24.0 / self.settings.beta_), len(self._shares), self.fading)

    def _widen(self, wider: int) -> None:
        """Give the map columns for classes that were met after it was made."""
        old = self.map
        if old is None or old.levels.shape[1] == wider:
            return
        width = old.levels.shape[1]
        more = ((0, 0), (0, wider - width))
        levels, values = np.pad(old.levels, more), np.pad(old.values, more)
        self.map = LevelSetMap(levels, values, old.n_levels, old.shift, old.least * width / wider)


def level_set_of(vector: Floats, n_levels: int) -> LevelSetKey:
    """The level set of one vector of probabilities, shape (k,)."""
    levels = levels_of(vector, n_levels)
    classes = np.flatnonzero(levels)
    return tuple(zip(classes.tolist(), levels[classes].tolist(), strict=True))
