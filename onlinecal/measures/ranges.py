"""The p-value of the cumulative calibration error: how large it is if forecasts are calibrated.

The error is the range of a walk: along the sorted forecasts, outcome - forecast is summed up. With many
independent outcomes it is distributed like the range of a Brownian motion. With few uncertain outcomes it is
not: one event among twenty forecasts of .002 is rare, and seven standard deviations large. In that case walks
are drawn.

`Walks` is prepared once for the forecasts and draws as often as it is asked; equal seeds give equal draws.
Nothing else has a state. P-values depend on WALKS_SEED, on how many walks are drawn at a time
(SURPRISES_AT_ONCE, ENOUGH_REACHED) and on when drawing ends: to change one of these changes answers.
Forecasts must be ascending and different, as those of `Counts` are.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Bools, Floats, Ints
from onlinecal.measures.counts import Counts

BROWNIAN_VARIANCE = 200.0
"""If the variance, the sum of p (1 - p), is at least this, the p-value is that of a Brownian motion. P-values
up to a are then not more frequent than a, even if events are rare (tests/measures/test_ranges.py)."""
MOST_DRAWS, ENOUGH_REACHED = 9_999, 200
"""At most MOST_DRAWS walks are drawn, and no more once ENOUGH_REACHED were as large as the one at hand."""
SURPRISES_AT_ONCE = 1 << 17
"""About so many surprises are drawn at a time."""
WALKS_SEED = 0x5EED
"""The seed of all walks."""
N_TERMS = 40
"""So many terms of either series are summed up; all later ones are below 1e-300."""
RANGE_ROUNDING = 1e-9
"""Ranges whose relative difference is smaller count as equal: rounding must not make a p-value too small."""


def p_value_of_range(counts: Counts, size: float) -> float:
    """How likely the forecasts of a counted history would have a range of at least `size` if calibrated.

    Under calibration it is at most a with probability at most a. Without any uncertainty it is 1 for the
    range 0 and 0 for any other.
    """
    rounds = counts.zeros + counts.ones
    variance = math.fsum(rounds * counts.values * (1.0 - counts.values))
    if not variance:
        return float(size == 0.0)
    if variance < BROWNIAN_VARIANCE:
        return drawn_p_value(counts.values, np.asarray(rounds, np.float64), size)
    return chance_of_range(size / math.sqrt(variance))


def drawn_p_value(values: Floats, rounds: Floats, size: float) -> float:
    """The same by drawing walks, always the same ones for the same forecasts.

    Drawing stops as soon as h = ENOUGH_REACHED ranges were as large as `size`. If that took l draws, the
    p-value is h/l. If all n = MOST_DRAWS draws brought only k < h of them, it is (1 + k)/(1 + n). Both are
    valid for any number of rounds: Besag & Clifford, "Sequential Monte Carlo p-values" (1991).
    """
    walks, rng = Walks(values, rounds), np.random.default_rng(WALKS_SEED)
    least, done, reached = size - RANGE_ROUNDING * (1.0 + size), 0, 0
    batch = max(1, int(SURPRISES_AT_ONCE / (1.0 + walks.surprises)))
    while done < MOST_DRAWS:
        number = min(batch, 2 * ENOUGH_REACHED, MOST_DRAWS - done)
        upto = reached + np.cumsum(walks.ranges(rng, number) >= least)
        if upto[-1] >= ENOUGH_REACHED:
            return ENOUGH_REACHED / (done + int(np.searchsorted(upto, ENOUGH_REACHED)) + 1)
        done, reached = done + number, int(upto[-1])
    return (1 + reached) / (1 + done)


class Walks:
    """Draws walks of calibrated forecasts, in time that grows with the surprises and not with the rounds.

    A round's surprise is the less likely of its outcomes: 1 for forecasts up to 1/2, 0 for larger ones.
    Without surprises the walk falls up to the forecast 1/2, and rises from there on. A surprise shifts the
    rest of the walk by one. Surprises of independent rounds are drawn as the points of a Poisson process, on
    which a round whose surprise has chance q has the length -log(1 - q).

    Parameters
    ----------
    values, rounds
        The different forecasts, ascending, and how often each came, shape (n,). If that is no whole number,
        the fraction counts as one more round, whose steps are in proportion.
    """

    def __init__(self, values: Floats, rounds: Floats) -> None:
        self.falls = values <= 0.5
        """At which forecasts the walk falls without a surprise, and rises with one."""
        self.lengths = -np.log1p(-np.where(self.falls, values, 1.0 - values))
        self.rounds = rounds
        self.ends = np.cumsum(np.ceil(rounds) * self.lengths)
        self.surprises = float(self.ends[-1])
        steps = rounds * np.where(self.falls, -values, 1.0 - values)
        self.unsurprised = np.concatenate([[0.0], np.cumsum(steps)])
        """The walk before the first level and after each level, if there are no surprises."""
        self.valley = int(self.falls.sum())
        """Up to which level the walk falls, if there are no surprises."""

    def ranges(self, rng: np.random.Generator, number: int) -> Floats:
        """The ranges of so many walks."""
        draw, level, amount = self._surprises(rng, number)
        before = self.unsurprised[level] + (shifts := _sums_before(draw, amount))
        behind = self.unsurprised[level + 1] + shifts + amount
        risen, fallen = (np.bincount(draw, np.maximum(sign * amount, 0.0), number) for sign in (1.0, -1.0))
        # up to the valley surprises only raise the walk; those that lower it all come behind it
        valley = self.unsurprised[self.valley] + risen
        end = self.unsurprised[-1] + risen - fallen
        low, high = np.minimum(np.minimum(valley, end), 0.0), np.maximum(np.maximum(valley, end), 0.0)
        for place in (before, behind):
            np.minimum.at(low, draw, place)
            np.maximum.at(high, draw, place)
        return high - low

    def _surprises(self, rng: np.random.Generator, number: int) -> tuple[Ints, Ints, Floats]:
        """Walk by walk, the levels with surprises and by how much they shift the walk, shapes (n,)."""
        points = np.sort(rng.random(rng.poisson(number * self.surprises)) * number)
        draw = points.astype(np.int64)
        at = (points - draw) * self.surprises
        level = np.minimum(np.searchsorted(self.ends, at, side="right"), len(self.ends) - 1)
        start = np.where(level > 0, self.ends[level - 1], 0.0)
        row = np.floor((at - start) / self.lengths[level])
        # two points in one round are one surprise
        new = _differs(draw, level, row)
        draw, level, row = draw[new], level[new], row[new]
        amount = np.minimum(self.rounds[level] - row, 1.0) * np.where(self.falls[level], 1.0, -1.0)
        first = np.flatnonzero(_differs(draw, level))
        return draw[first], level[first], np.add.reduceat(amount, first) if len(first) else amount


def _differs(*columns: NDArray[Any]) -> Bools:
    """Whether a row differs from the one before in any column; the first one does."""
    differs = np.ones(len(columns[0]), bool)
    differs[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return differs


def _sums_before(draw: Ints, amount: Floats) -> Floats:
    """For each amount the sum of the earlier amounts of the same draw."""
    before = np.cumsum(amount) - amount
    first = np.maximum.accumulate(np.where(_differs(draw), np.arange(len(draw)), 0))
    return before - before[first] if len(draw) else before


def chance_of_range(size: float) -> float:
    """The chance that a standard Brownian motion on [0, 1] has at least this range."""
    from scipy.special import erfc

    if size < 0.1:
        # the chance of a smaller range is below 1e-200
        return 1.0
    if size < 1.0:
        # a series of eigenfunctions on an interval of this length
        waves = math.pi * (np.arange(N_TERMS) + 0.5) / size
        return float(1.0 - ((8.0 + 2.0 / waves**2) / size**2 * np.exp(-2.0 * waves**2)).sum())
    terms = np.arange(1, N_TERMS + 1)
    return float((4.0 * (-1.0) ** (terms - 1) * terms * erfc(terms * size / math.sqrt(2.0))).sum())
