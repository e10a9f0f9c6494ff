"""A certified bracket of the distance to calibration, of a whole history or a running one.

With outcomes 0 and 1:

1. The relaxation proves a lower end.
2. Calibrated sequences near it, and from pooling, give an upper end.
3. Searches below growing cutoffs raise the lower end, and end with the exact distance if one arrives.

With outcomes between 0 and 1 (shares, ties, rates) the distance is NP-hard to find (Qiao, 2026): rounds of
one outcome can be dealt in order, but here nearly every round has an outcome of its own. Both ends are proven
all the same.

- From below: an outcome y as 1 - y of a round with outcome 0 and y of one with outcome 1. The parts may part,
  so their lower distance is at most the distance.
- From above: the best pooling of neighbouring forecasts, and level sets of other calibrated sequences, each
  set moved to the mean of its outcomes.
- From both sides: outcomes rounded to 0 and 1. That changes the distance by at most what was rounded off.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, SupportsFloat

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import compiled
from onlinecal.html import Shown, Table, bracket_of
from onlinecal.measures.counts import Counts, PrefixSums, Tallies, count_shares, prefix_sums
from onlinecal.measures.distance.exact import rounding_noise, search_below
from onlinecal.measures.distance.fractional.relaxation import (
    LEAST_NODES,
    ROUNDING,
    Relaxation,
    one_way_bound,
    relax,
    relaxation_nodes,
    solve,
)
from onlinecal.measures.distance.fractional.rounding import (
    curve_of_levels,
    curve_of_masses,
    round_near,
    search_tables,
)
from onlinecal.measures.distance.levels import (
    Levels,
    conditional_means,
    count_up_to,
    distance_by_sums,
    distance_to,
    group_means,
    make_levels,
)
from onlinecal.measures.smooth import smooth_error_of_counts
from onlinecal.validation import check_count, check_probability, share_of

MAX_CUTS = 700
"""Places at which to cut; more forecasts than that are first joined to groups of about equal size."""


def pooled_levels(sums: PrefixSums, max_cuts: int = MAX_CUTS) -> Levels:
    """Level sets of the cheapest cut of the forecasts into intervals; its time grows like max_cuts^2.

    All rounds with a forecast in one interval go to one level set, whatever their outcome: binning, with the
    best bins. It is a good start where forecasts are biased all in one direction, or many are distinct.
    """
    kept = pooling(sums, max_cuts)
    return make_levels(np.diff(sums.zeros[kept]), np.diff(sums.ones[kept]))


def pooling(sums: PrefixSums, max_cuts: int = MAX_CUTS) -> Ints:
    """Numbers of forecasts to the left of the cheapest cuts, increasing, from 0 to K."""
    cuts = np.arange(len(sums.zeros))
    if len(cuts) > max_cuts:
        wanted = np.linspace(0, sums.zeros[-1] + sums.ones[-1], max_cuts)
        cuts = np.unique(np.append(np.searchsorted(sums.zeros + sums.ones, wanted[:-1]), len(cuts) - 1))
    # one kind of arrays, so that the kernel is compiled once: floats hold all these numbers exactly
    floats = sums._replace(zeros=sums.zeros.astype(np.float64), ones=sums.ones.astype(np.float64))
    return best_cuts(floats, cuts)


@compiled
def best_cuts(sums: PrefixSums, cuts: Ints) -> Ints:
    """Which of the cuts to keep, the first and last among them, for the cheapest level sets.

    The sums are all float64; cuts (C,): increasing numbers of forecasts to the left, from 0 to K.
    """
    (values, zeros, ones, sums0, sums1), n = sums, len(cuts)
    cost = np.full(n, np.inf)
    came_from = np.zeros(n, dtype=np.int64)
    cost[0] = 0.0
    for i in range(1, n):
        end = cuts[i]
        for h in range(i):
            start = cuts[h]
            s = ones[end] - ones[start]
            v = s / (zeros[end] - zeros[start] + s)
            g = min(max(count_up_to(values, v), start), end)
            moved_up = v * (zeros[g] - zeros[start] + ones[g] - ones[start])
            moved_up -= sums0[g] - sums0[start] + sums1[g] - sums1[start]
            moved_down = sums0[end] - sums0[g] + sums1[end] - sums1[g]
            moved_down -= v * (zeros[end] - zeros[g] + ones[end] - ones[g])
            total = cost[h] + moved_up + moved_down
            if total < cost[i]:
                cost[i] = total
                came_from[i] = h
    n_kept = 1
    i = n - 1
    while i > 0:
        i = came_from[i]
        n_kept += 1
    kept = np.empty(n_kept, dtype=np.int64)
    i = n - 1
    for k in range(n_kept - 1, -1, -1):
        kept[k] = cuts[i]
        i = came_from[i]
    return kept


NODES = 1500
"""Nodes of the relaxation at effort 1, growing with its square root; the solver's time can be quadratic."""

Groups = NDArray[np.intp]
"""A number for each round, the same within a level set."""


def share_bounds(counts: Counts, effort: float) -> tuple[float, float, Groups]:
    """Lower and upper end from counts alone, and the groups (K,) of forecast values that attain the upper."""
    relaxation = relax(counts, relaxation_nodes(counts, NODES * math.sqrt(effort)))
    cuts = pooling(prefix_sums(counts))
    pooled = np.repeat(np.arange(len(cuts) - 1), np.diff(cuts))
    alone = np.arange(len(counts.values))
    rounds, costs = counts.zeros + counts.ones, []
    for groups in (pooled, alone):
        means = np.bincount(groups, weights=counts.ones) / np.bincount(groups, weights=rounds)
        costs.append(math.fsum(rounds * np.abs(counts.values - means[groups])))
    upper = min(costs)
    return min(relaxation.lower, upper), upper, (pooled, alone)[costs.index(upper)]


def sequence_of(outcomes: Floats, groups: Groups) -> Floats:
    """The calibrated sequence with these level sets, (T,): each round at the mean outcome of its group.

    Groups whose means are the same float are one level set; its mean, that of all their rounds, is theirs up
    to rounding.
    """
    while True:
        values = group_means(outcomes, groups)
        _, joined = np.unique(values, return_inverse=True)
        if joined.max() == groups.max():
            return values[groups]
        groups = joined[groups]


def rounded_outcomes(forecasts: Floats, outcomes: Floats) -> tuple[NDArray[np.uint8], float]:
    """Outcomes rounded to 0 and 1, (T,), and what was rounded off in all; ties go up and down in turns."""
    whole = (outcomes > 0.5).astype(np.uint8)
    ties = np.flatnonzero(outcomes == 0.5)
    whole[ties[np.argsort(forecasts[ties], kind="stable")][::2]] = 1
    return whole, math.fsum(np.abs(outcomes - whole))


def deduction(n_rounds: int) -> float:
    """More than the rounding errors of both ends: a bracket as narrow as that is closed."""
    return 2.0 * ROUNDING * n_rounds


LEAST_CUTS = 100
"""Fewest places at which pooling may cut the line, however small the effort."""

ROUNDING_WORK = 2.5e7
"""Level sets tried while rounding, at effort 1: about three quarters of a second."""

MAX_ROUNDING_EFFORT = 10.0
"""More effort than that goes into the searches only."""

SEARCH_WORK = 2e8
"""Lattice points looked at in the searches, at effort 1: about half a second."""

SEARCH_ROUNDS = 50_000
"""Longer histories are not searched: the lattice is too large for a cutoff that would show."""

WORK_GROWTH = 3.0
"""From one cutoff to the next, as far as the last two tell; usually work grows like cutoff^2.5."""


class Bracket(NamedTuple):
    """lower <= distance <= upper, both proven, and level sets that attain the upper end."""

    lower: float
    upper: float
    is_exact: bool
    levels: Levels


def bracket(counts: Counts, starts: list[Levels], effort: float, rtol: float = 0.0) -> Bracket:
    """Bracket the distance, from calibrated sequences known beforehand; effort inf goes on to the end.

    It stops early when upper - lower <= rtol * upper. Whatever the effort, it takes a fixed number of passes
    over the history, a small cut of the line and a small relaxation.
    """
    # the deduction for rounding errors alone must not keep a distance from being called exact
    rounding = deduction(counts.n_rounds)
    sums = prefix_sums(counts)
    size = math.sqrt(effort)
    known = [*starts, pooled_levels(sums, int(min(MAX_CUTS, max(LEAST_CUTS, MAX_CUTS * size))))]
    levels = known[int(np.argmin([distance_by_sums(sums, one) for one in known]))]
    upper = distance_to(counts, levels)
    if upper - one_way_bound(counts) <= rounding:
        return Bracket(upper, upper, True, levels)
    relaxation = relax(counts, relaxation_nodes(counts, NODES * size))
    tolerance = max(rtol * relaxation.lower, rounding)
    if upper - relaxation.lower > tolerance:
        found = _improved(counts, sums, relaxation, levels, effort, tolerance)
        if (distance := distance_to(counts, found)) < upper:
            levels, upper = found, distance
    if upper - relaxation.lower <= rounding:
        return Bracket(upper, upper, True, levels)
    lower = min(relaxation.lower, upper)
    if counts.n_rounds > SEARCH_ROUNDS and effort < np.inf:
        return Bracket(lower, upper, False, levels)
    return _searched(counts, relaxation, levels, upper, SEARCH_WORK * effort, rtol)


def _searched(
    counts: Counts, relaxation: Relaxation, levels: Levels, upper: float, work_left: float, rtol: float
) -> Bracket:
    """The lower end raised by searches below growing cutoffs, until one arrives or the work is spent."""
    lower = min(relaxation.lower, upper)
    noise = rounding_noise(counts.n_rounds)
    cutoff = (upper - lower) / 16.0
    growth, last_work = 1.5, 0
    while upper - lower > rtol * upper:
        cutoff = min(cutoff, upper - relaxation.lower + noise)
        search = search_below(counts, relaxation, cutoff, work_left)
        work_left -= search.work
        if search.levels is not None:
            upper = distance_to(counts, search.levels)
            return Bracket(upper, upper, True, search.levels)
        if not search.complete:
            break
        lower = max(lower, min(upper, relaxation.lower + cutoff - noise))
        if last_work:
            power = math.log(max(search.work / last_work, 1.01)) / math.log(growth)
            growth = min(8.0, max(1.3, WORK_GROWTH ** (1.0 / power)))
        cutoff, last_work = cutoff * growth, search.work
    return Bracket(lower, upper, lower >= upper, levels)


def _improved(
    counts: Counts, sums: PrefixSums, relaxation: Relaxation, levels: Levels, effort: float, tolerance: float
) -> Levels:
    """The best calibrated sequence found: a quick look near several curves, then the other work on one."""
    work_left = ROUNDING_WORK * min(effort, MAX_ROUNDING_EFFORT)
    tables = search_tables(counts, sums, relaxation)
    upper = distance_by_sums(sums, levels)
    n_coarser = _coarser_cells(counts, NODES * math.sqrt(effort))
    quick = work_left / 10.0 if n_coarser else work_left
    # the relaxation's own curve first; the coarser ones are computed only if it does not do
    for n_cells in (0, *n_coarser):
        if upper - relaxation.lower <= tolerance:
            return levels
        nodes, masses = relaxation.nodes, relaxation.masses
        if n_cells:
            nodes, _, _, masses = solve(counts, np.linspace(0.0, 1.0, n_cells + 1))
        curve = curve_of_masses(counts, nodes, masses)
        found, distance, work = round_near(tables, relaxation.lower, curve, quick, tolerance)
        work_left -= work
        if found is not None and distance < upper:
            levels, upper = found, distance
    if work_left > 0.0:
        curve = curve_of_levels(levels)
        found, distance, _ = round_near(tables, relaxation.lower, curve, work_left, tolerance)
        if found is not None and distance < upper:
            levels = found
    return levels


def _coarser_cells(counts: Counts, most: float) -> list[int]:
    """Sizes of coarser relaxations worth a look, at most so many cells; for many distinct forecasts.

    Every value costs something when it is made real, so fewer values can make a better sequence.
    """
    root = math.sqrt(counts.n_rounds)
    if len(counts.values) <= 2.0 * root:
        return []
    most = max(LEAST_NODES, min(NODES, most))
    return sorted({int(min(most, max(1, factor * root))) for factor in (3.0, 1.5, 0.5)}, reverse=True)


@dataclass(frozen=True)
class Interval(Shown):
    """`lower` <= measure <= `upper`, both proven."""

    lower: float
    upper: float

    def _shown(self) -> Table:
        return bracket_of(self, "lower ≤ measure ≤ upper")


class CalibrationMonitor(Tallies):
    """Counts a stream of settled forecasts and answers how far from calibrated it is, at any time.

    Forecasts are counted by exact value while there are at most `resolution` distinct ones: nothing is lost
    for a forecaster that uses a grid. Further values are counted at the nearest multiple of 1/resolution. How
    far they were moved in all is kept in `moved` and added to every bracket, since the distance to
    calibration changes by no more than the forecasts do.

    Parameters
    ----------
    resolution
        Distinct forecasts counted exactly; memory is at most twice as many counts and one.

    Attributes
    ----------
    n_rounds
        Rounds counted.
    moved
        Sum over rounds of |forecast - the value it is counted at|.

    Examples
    --------
    >>> monitor = CalibrationMonitor()
    >>> monitor.update_many([0.4, 0.6], [0, 1])
    >>> answer = monitor.calibration_distance()
    >>> round(answer.lower, 9), round(answer.upper, 9)
    (0.2, 0.2)
    """

    def __init__(self, resolution: int = 2000) -> None:
        super().__init__(check_count(resolution, "resolution"))

    def update(self, forecast: float, outcome: SupportsFloat) -> None:
        """Count one round; the outcome is 0, 1, or any number between.

        Raises
        ------
        ValueError
            A forecast or an outcome outside [0, 1]; nothing is counted then.
        """
        self._count(check_probability(forecast, "forecast"), share_of(outcome))

    def update_many(self, forecasts: ArrayLike, outcomes: ArrayLike) -> None:
        """Count rounds, each array of shape (T,); in memory and bracket the same as one by one.

        With outcomes between 0 and 1 the same up to rounding. Errors are those of `update`, and one for
        forecasts that are all 0 or 1 beside outcomes that are not, which look swapped.
        """
        counts, p, _ = count_shares(forecasts, outcomes)
        index = np.searchsorted(counts.values, p)
        # which values are still counted exactly depends on the order in which they first appear
        order = np.unique(index, return_index=True)[1].argsort()
        for k in order.tolist():
            zeros, ones = counts.zeros[k].item(), counts.ones[k].item()
            self._add(float(counts.values[k]), zeros, ones, round(zeros + ones))

    def calibration_distance(
        self, normalize: bool = False, *, budget: float = 1.0, rtol: float = 0.0
    ) -> Interval:
        """A bracket of the distance to calibration of all rounds so far, (0, 0) before the first.

        Parameters
        ----------
        normalize
            False: sums over rounds. True: divided by the number of rounds.
        budget, rtol
            As for `onlinecal.measures.calibration_distance`. Of little use with outcomes between 0 and 1, of
            which sums are kept only: the upper end is that of the best pooling of neighbouring forecasts.
        """
        if self.n_rounds == 0:
            return Interval(0.0, 0.0)
        counts = self.counts()
        if not counts.are_whole:
            lower, upper, _ = share_bounds(counts, budget)
            return self._widened(lower, upper, self.moved, normalize)
        found = bracket(counts, [conditional_means(counts)], budget, rtol)
        return self._widened(found.lower, found.upper, self.moved, normalize)

    def smooth_calibration_error(self, normalize: bool = True) -> Interval:
        """A bracket of the smooth calibration error of all rounds so far, one point if nothing was moved.

        An average over rounds; with normalize=False their sum.
        """
        if self.n_rounds == 0:
            return Interval(0.0, 0.0)
        error = smooth_error_of_counts(self.counts())
        # w(p) (y - p) changes by at most |y - p| |w(p) - w(p')| + |w(p')| |p - p'|
        return self._widened(error, error, 2.0 * self.moved, normalize)

    def _widened(self, lower: float, upper: float, by: float, normalize: bool) -> Interval:
        scale = self.n_rounds if normalize else 1
        return Interval(max(0.0, lower - by) / scale, (upper + by) / scale)
