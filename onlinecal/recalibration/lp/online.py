"""Algorithm 2 while a stream runs: its level sets counted in bounded memory, and the map made of these."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Hashable, Sequence

import numpy as np
from sklearn.base import clone

from onlinecal.arrays import Floats
from onlinecal.measures.lp.level_sets import levels_of
from onlinecal.recalibration.lp.counts import Key, LevelSetCounts, statistics_of
from onlinecal.recalibration.lp.map import LevelSetMap
from onlinecal.recalibration.lp.recalibrator import LpRecalibrator

PANES = 8
"""Parts of a window; the oldest is forgotten as a whole."""


class OnlineLp:
    """Counts a stream's forecasts by level set, and maps forecasts by what Algorithm 2 found at its last run.

    The classes are numbered by the caller, who also says when to run: `rounds_to_next`.

    Parameters
    ----------
    settings
        A recalibrator with the parameters of each run; its seed deals rounds to pools.
    window
        None, or how many rounds are remembered: they are forgotten an eighth of it at a time.
    fading
        None, or the factor in (0, 1) by which what was counted loses weight with each round.

    Attributes
    ----------
    rounds, fits
        Rounds counted, and runs of Algorithm 2.
    map
        That of the last run, None before the first.
    counts
        The level sets that are kept, with a window those of each part of it.
    """

    def __init__(self, settings: LpRecalibrator, window: int | None, fading: float | None) -> None:
        self.settings, self.window, self.fading = settings, window, fading
        needs = settings.settings_for(2)
        self._shares = [1.0]
        if settings.estimation == "pools":
            sizes = [needs.masses] + [rows for pool in needs.pools for rows in (pool.masses, pool.labels)]
            self._shares = [float(size) for size in np.cumsum(sizes) / sum(sizes)]
        self.random = random.Random(settings.seed)
        self.rounds = self.fits = 0
        self.map: LevelSetMap | None = None
        self.counts: deque[LevelSetCounts] = deque([self._new_counts()])

    def answer(self, vector: Floats) -> Floats:
        """What becomes of the probabilities of all classes known by now, shape (k,)."""
        self._widen(len(vector))
        return vector if self.map is None else self.map(vector[None])[0]

    def keep(self, vector: Floats, number: int) -> None:
        """Count a round: the probabilities that came in, shape (k,), and the number of the class."""
        self.rounds += 1
        shift = self.settings.within == "shift"
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
        """Run Algorithm 2 on what is counted; None while there are fewer than two classes."""
        windows = [counts for counts in self.counts if counts.entries]
        if len(labels) < 2 or not windows:
            return None
        recalibrator: LpRecalibrator = clone(self.settings)
        recalibrator.settings_for(len(labels))
        recalibrator.classes_ = np.array(list(labels), dtype=object)
        shift, seed = recalibrator.within == "shift", recalibrator.seed + self.fits
        recalibrator.fit_statistics(
            statistics_of(windows, len(labels), recalibrator.beta_, shift, seed, recalibrator.delta)
        )
        self.map = recalibrator.map_
        self.fits += 1
        return recalibrator

    def rounds_to_next(self) -> int:
        """After how many more rounds to run again: as many as there were, or as are remembered."""
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


def level_set_of(vector: Floats, n_levels: int) -> Key:
    """The level set of one vector: the classes with a level above 0, and these levels."""
    levels = levels_of(vector, n_levels)
    found = np.flatnonzero(levels)
    return tuple(zip(found.tolist(), levels[found].tolist(), strict=True))
