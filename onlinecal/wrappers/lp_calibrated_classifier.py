"""Any river classifier, recalibrated under the l_p error while the stream runs."""

from __future__ import annotations

import math
import random
from collections import deque
from typing import Any

import numpy as np
from river import base

from onlinecal.measures.lp.level_sets import levels_of
from onlinecal.recalibration.lp.map import LevelSetMap
from onlinecal.recalibration.lp.recalibrator import LpRecalibrator, Within
from onlinecal.recalibration.lp.sizes import Estimation
from onlinecal.validation import check_count, check_open_unit
from onlinecal.wrappers.labels import Label, plain
from onlinecal.wrappers.level_set_counts import Key, LevelSetCounts, statistics_of
from onlinecal.wrappers.refitted import Answer, Floats, Refitted

PANES = 8
"""Parts of a window; the oldest is forgotten as a whole."""


class LpCalibratedClassifier(Refitted[LpRecalibrator]):
    """Wrap a river classifier: what it promises is sorted into level sets, and corrected where it is wrong.

    The wrapper keeps counts of the level sets that carry mass, not the stream, and runs Algorithm 2 on them
    at doubling times. Between two runs the map is fixed. The model's answer is read before it learns the
    label.

    Parameters
    ----------
    classifier
        The model to wrap.
    p, epsilon, delta, n_levels, tolerance, estimation, seed, within
        As for `LpRecalibrator`. With "pools" rounds are dealt to the pools at random as they come.
    first_fit
        Rounds before the first run; until then the model's answers are passed on.
    window
        None, or how many rounds are remembered: they are forgotten an eighth of it at a time.
    fading
        None, or the factor in (0, 1) by which what was counted loses weight with each round.

    Attributes
    ----------
    n_rounds
        Rounds learnt from.
    n_fits
        Runs of Algorithm 2.
    recalibrator
        The `LpRecalibrator` of the last run, None before the first: its history, groups and sample sizes.

    Notes
    -----
    At most 24/beta level sets are kept at a time (per eighth of a window), and k numbers for each and each
    pool. A level set's count then misses at most beta/24 of all rounds, so that none with mass 5 beta/24
    or more is overlooked. With a window or fading, runs are at most an eighth of the window or 1/(1 - fading)
    rounds apart.

    The model itself changes as it learns; what is counted is what it said then, not what it would say now.

    Examples
    --------
    >>> from river import datasets, metrics, naive_bayes
    >>> from onlinecal import LpCalibratedClassifier
    >>> model = LpCalibratedClassifier(naive_bayes.GaussianNB(), n_levels=5, within="shift")
    >>> for x, y in datasets.ImageSegments():
    ...     p = model.predict_proba_one(x)
    ...     model.learn_one(x, y)
    >>> model.n_rounds, model.n_fits
    (2310, 5)

    References
    ----------
    Bairaktari & Nguyen, "Sample-efficient Multiclass Calibration under Probability-weighted l_p Error"
    (2025); Misra & Gries,
    "Finding repeated elements" (1982).
    """

    def __init__(
        self,
        classifier: base.Classifier,
        p: float = 2.0,
        epsilon: float = 0.1,
        delta: float = 0.05,
        n_levels: int | None = None,
        tolerance: float | None = None,
        estimation: Estimation = "plug-in",
        seed: int = 0,
        within: Within = "constant",
        first_fit: int = 100,
        window: int | None = None,
        fading: float | None = None,
    ) -> None:
        super().__init__(classifier, first_fit)
        check_count(first_fit, "first_fit")
        if window is not None:
            check_count(window, "window", least=PANES)
        if fading is not None:
            check_open_unit(fading, "fading")
        if fading is not None and window is not None:
            raise ValueError(f"window and fading exclude each other, got {window!r} and {fading!r}")
        self.p = p
        self.epsilon = epsilon
        self.delta = delta
        self.n_levels = n_levels
        self.tolerance = tolerance
        self.estimation = estimation
        self.seed = seed
        self.within = within
        self.window = window
        self.fading = fading
        self._map: LevelSetMap | None = None
        settings = self._new_recalibrator()
        needs = settings.settings_for(2)
        self._levels, self._beta = settings.n_levels_, settings.beta_
        self._shares = [1.0]
        if estimation == "pools":
            sizes = [needs.masses] + [rows for pool in needs.pools for rows in (pool.masses, pool.labels)]
            self._shares = [float(size) for size in np.cumsum(sizes) / sum(sizes)]
        self._random = random.Random(seed)
        self._counts: deque[LevelSetCounts] = deque([self._new_counts()])

    def predict_proba_one(self, x: Any, **kwargs: Any) -> dict[Label, float]:
        """Recalibrated probabilities of the labels known so far; they sum to 1.

        Empty while neither the model nor the stream has named a label.
        """
        answer = {plain(label): u for label, u in self.classifier.predict_proba_one(x, **kwargs).items()}
        self._meet(answer)
        vector = self._vector(answer)
        if self._map is not None:
            self._widen()
            vector = self._map(vector[None])[0]
        return dict(zip(self._columns, vector.tolist(), strict=True))

    def _keep(self, answer: Answer, label: Label) -> None:
        self._meet((label, *answer))
        vector = self._vector(answer)
        forecast = {j: u for j, u in enumerate(vector.tolist()) if u > 0.0} if self.within == "shift" else {}
        pool = 0
        if len(self._shares) > 1:
            drawn = self._random.random()
            pool = next(i for i, share in enumerate(self._shares) if drawn <= share or share >= 1.0)
        self._counts[-1].add(self._key(vector), forecast, self._columns[label], pool)
        if self.window is not None and self.n_rounds % (self.window // PANES) == 0:
            self._counts.append(self._new_counts())
            while len(self._counts) > PANES:
                self._counts.popleft()

    def recalibrate(self) -> None:
        """Run Algorithm 2 on what is counted, now; nothing happens while fewer than two labels are known."""
        n_classes = len(self._columns)
        windows = [counts for counts in self._counts if counts.entries]
        if n_classes < 2 or not windows:
            return
        recalibrator = self._new_recalibrator()
        recalibrator.settings_for(n_classes)
        recalibrator.classes_ = np.array(list(self._columns), dtype=object)
        statistics = statistics_of(
            windows, n_classes, self._beta, self.within == "shift", self.seed + self.n_fits, self.delta
        )
        recalibrator.fit_statistics(statistics)
        self.recalibrator = recalibrator
        self._map = recalibrator.map_
        self.n_fits += 1

    def _new_recalibrator(self) -> LpRecalibrator:
        return LpRecalibrator(
            self.p,
            self.epsilon,
            self.delta,
            self.n_levels,
            self.tolerance,
            self.estimation,
            self.seed,
            self.within,
        )

    def _new_counts(self) -> LevelSetCounts:
        return LevelSetCounts(math.ceil(24.0 / self._beta), len(self._shares), self.fading)

    def _most_between_fits(self) -> int:
        if self.window is not None:
            return self.window // PANES
        return math.ceil(1.0 / (1.0 - self.fading)) if self.fading is not None else self.n_rounds

    def _key(self, vector: Floats) -> Key:
        levels = levels_of(vector, self._levels)
        found = np.flatnonzero(levels)
        return tuple(zip(found.tolist(), levels[found].tolist(), strict=True))

    def _widen(self) -> None:
        """Give the map columns for labels that were met after it was made."""
        old = self._map
        if old is None or old.levels.shape[1] == len(self._columns):
            return
        width, wider = old.levels.shape[1], len(self._columns)
        more = ((0, 0), (0, wider - width))
        levels, values = np.pad(old.levels, more), np.pad(old.values, more)
        self._map = LevelSetMap(levels, values, old.n_levels, old.shift, old.least * width / wider)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # in 0.1.0 it had another name
        self.__dict__.update({"_columns" if k == "_numbers" else k: value for k, value in state.items()})
