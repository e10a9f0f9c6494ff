"""A bracket of the distance to calibration of a history with outcomes 0 and 1, made narrower step by step.

The relaxation proves a lower end, and level sets that are known beforehand attain an upper end. Rounding
fractional level sets to real ones lowers the upper end. Searches below growing cutoffs raise the lower end,
and if one arrives it has the exact distance. Both begin with little work and go on in turns, each with about
as much work as the other has had: so neither costs much if the other alone would have been enough.

Invariant: lower <= distance <= upper at any time, and `levels` attain the upper end, up to rounding.

`bracket` alone makes a `Narrowing`, and calls `run` and then `reached`; these and what they call write it.
`lower` rises and `upper` falls, with `levels`, but for the last bits that sums are rounded by.

Work is counted in level sets and points that were looked at, not in seconds. So all constants here decide
where a bracket ends that is not exact: they are part of the answers, equal on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.measures.counts import Counts, PrefixSums, merged, prefix_sums
from onlinecal.measures.distance.exact import rounding_noise, search_below, step_limits
from onlinecal.measures.distance.fractional.relaxation import (
    Relaxation,
    apart,
    deduction,
    few_masses,
    one_way_bound,
    relax,
)
from onlinecal.measures.distance.fractional.rounding import (
    Curve,
    curve_of_levels,
    curve_of_masses,
    round_near,
    search_tables,
)
from onlinecal.measures.distance.lattice import exact_levels, lattice_work, steps_within
from onlinecal.measures.distance.levels import Levels, distance_by_sums, distance_to
from onlinecal.measures.distance.one_way import one_way_levels
from onlinecal.measures.distance.pooling import MAX_CUTS, pooled_levels
from onlinecal.validation import check_number

LEAST_NODES, MAX_NODES = 64, 40_000
"""The relaxation has so many nodes at least and at most, whatever the effort."""

USUAL_NODES = 4000
"""Nodes of the relaxation at effort 1, which take some hundredths of a second; they grow with its square
root."""

LEAST_CUTS = 100
"""Pooling may cut the line at so many places at least, however small the effort."""

LEAST_WORK = 1e6
"""Rounding may try so many level sets at least, however small the effort."""

ROUNDING_WORK = 2.5e7
"""Rounding may try so many level sets at effort 1."""

MAX_ROUNDING_EFFORT = 10.0
"""Effort beyond this goes into the searches alone."""

FIRST_LOOK_WORK = 2.5e6
"""Level sets tried in a first look near each of the relaxation's curves: some hundredths of a second."""

FINE_CELLS = 300
"""The ends of so many equal cells are added to the relaxation's nodes: level sets need values between
forecasts."""

MOST_COARSE_CELLS = 1500
"""Cells of the finest of the coarser relaxations whose curves are looked at."""

SEARCH_WORK = 2e8
"""Lattice points that searches look at, at effort 1."""

SEARCH_ROUNDS = 50_000
"""Longer histories are not searched: with so large a lattice the cutoff would gain next to nothing."""

TINY_LATTICE, SMALL_LATTICE = 2_500, 10_000
"""A plain lattice of so many points is quicker than anything before it; and quicker than the relaxation."""

LATTICE_ROUNDS = 3000
"""Longer histories get no plain lattice, which needs room for all points and grows with their square."""

LATTICE_WORK_AT_ONCE = 2.5e7
"""A plain lattice of so much work, some 1,000 rounds, comes before the searches."""

LOOK_SHARE = 0.25
"""A look for level sets before the plain lattice may cost this share of its work."""

FIRST_CUTOFFS = (1.0 / 16.0, 1.0 / 4.0)
"""The first two cutoffs, in shares of the gap. These searches show how the work grows with the cutoff."""

LEAST_RISE = 1.5
"""The second cutoff is larger than the first by this factor at least, however the gap has shrunk."""

CUTOFF_POWER = 1.5
"""The work of a search usually has a fixed part and a part that grows with this power of the cutoff."""

WORK_GROWTH = 3.0
"""The next search may be expected to take so many times the work of the last one."""

PLANNED_SHARE, LEAST_GROWTH = 0.8, 1.2
"""A search is planned for this share of the work that is left, and only if it then is so many times the
last."""


class Bracket(NamedTuple):
    """lower <= distance <= upper, both proven, and level sets that attain the upper end."""

    lower: float
    upper: float
    is_exact: bool
    levels: Levels


def nodes_allowed(effort: float) -> int:
    """Nodes of the relaxation for an effort."""
    return int(min(MAX_NODES, max(LEAST_NODES, USUAL_NODES * math.sqrt(effort))))


def even_nodes(n_cells: int) -> Floats:
    """The ends of so many equal cells of [0, 1]."""
    return np.linspace(0.0, 1.0, n_cells + 1)


def check_effort(budget: float, rtol: float = 0.0) -> None:
    """ValueError for a budget or a relative tolerance that cannot be."""
    check_number(budget, "budget", 0.0, math.inf, "(]", "a positive number")
    check_number(rtol, "rtol", 0.0, math.inf, "[]", "a number of at least 0")


def bracket(
    counts: Counts, starts: list[Levels], effort: float, rtol: float = 0.0, plain: bool = False
) -> Bracket:
    """Bracket the distance, from calibrated sequences known beforehand; effort inf goes on to the end.

    It stops early when upper - lower <= rtol * upper. Whatever the effort, it takes a fixed number of passes
    over the history, a small cut of the line and a small relaxation. With `plain` the plain lattice is taken
    as soon as it is expected to be quicker than the searches.
    """
    points = counts.n_zeros * counts.n_ones
    if plain and points <= TINY_LATTICE:
        return _nearest(counts)
    if found := one_way_levels(counts):
        levels, upper = found
        return Bracket(upper, upper, True, levels)
    sums = prefix_sums(counts)
    cuts = int(min(MAX_CUTS, max(LEAST_CUTS, MAX_CUTS * math.sqrt(effort))))
    known = [*starts, pooled_levels(sums, cuts)]
    levels = known[int(np.argmin([distance_by_sums(sums, candidate) for candidate in known]))]
    upper = distance_to(counts, levels)
    # the deduction for rounding errors alone must not keep a distance from being called exact
    if upper - one_way_bound(counts) <= deduction(counts.n_rounds):
        return Bracket(upper, upper, True, levels)
    if plain and points <= SMALL_LATTICE:
        return _nearest(counts)
    relaxation = relax(counts, nodes_allowed(effort))
    narrowing = Narrowing(counts, sums, relaxation, levels, upper, effort, rtol)
    narrowing.run(plain)
    return narrowing.reached()


def _nearest(counts: Counts) -> Bracket:
    """The distance itself, by the whole plain lattice."""
    levels = exact_levels(counts)
    distance = distance_to(counts, levels)
    return Bracket(distance, distance, True, levels)


class Narrowing:
    """A history, its relaxation, and the ends of the bracket so far."""

    def __init__(
        self,
        counts: Counts,
        sums: PrefixSums,
        relaxation: Relaxation,
        levels: Levels,
        upper: float,
        effort: float,
        rtol: float,
    ) -> None:
        self.counts = counts
        self.relaxation = relaxation
        self.levels = levels
        self.upper = upper
        self.lower = relaxation.lower
        self.rtol = rtol
        self.tables = search_tables(counts, sums, relaxation)
        self.rounding_left = ROUNDING_WORK * min(effort, MAX_ROUNDING_EFFORT)
        self.search_left = SEARCH_WORK * effort
        self.rounded = self.searched = 0.0
        self.curves = self._curves()

    @property
    def tolerance(self) -> float:
        """How far the ends may stay apart."""
        return max(self.rtol * self.upper, deduction(self.counts.n_rounds))

    @property
    def is_done(self) -> bool:
        """Whether the ends are near enough."""
        return self.upper - self.lower <= self.tolerance

    def reached(self) -> Bracket:
        """The bracket so far; if only rounding errors keep the ends apart, it is exact."""
        # so far the upper end came from prefix sums; here it comes from every forecast
        self.upper = distance_to(self.counts, self.levels)
        self.lower = min(self.lower, self.upper)
        if self.upper - self.lower <= deduction(self.counts.n_rounds):
            return Bracket(self.upper, self.upper, True, self.levels)
        return Bracket(self.lower, self.upper, False, self.levels)

    def run(self, plain: bool) -> None:
        """Narrow the bracket until it is done or its work is used up."""
        plain = plain and self.counts.n_rounds <= LATTICE_ROUNDS
        if not self.is_done:
            self._round(LOOK_SHARE * lattice_work(self.counts, self._limits()) if plain else math.inf)
        if not self.is_done and plain:
            limits = self._limits()
            if lattice_work(self.counts, limits) <= min(LATTICE_WORK_AT_ONCE, self.search_left):
                self._take_lattice(limits)
        if self.counts.n_rounds <= SEARCH_ROUNDS or self.search_left == math.inf:
            self._search(plain)
        while not self.is_done and self.rounding_left > 0.0:
            self._round(least=self.rounding_left)

    @property
    def gap(self) -> float:
        """The most that a cheapest sequence can cost beyond the relaxation's bound, with rounding errors."""
        return self.upper - self.relaxation.lower + rounding_noise(self.counts.n_rounds)

    def _limits(self) -> Ints:
        """The largest steps that a cheapest sequence can have, by range of their value."""
        return step_limits(self.counts, self.relaxation, self.gap)

    def _take_lattice(self, limits: Ints) -> None:
        """Find a nearest calibrated sequence in the plain lattice."""
        most = self.upper + rounding_noise(self.counts.n_rounds)
        self._settle(exact_levels(self.counts, steps_within(self.counts, limits), most))

    def _settle(self, levels: Levels) -> None:
        """Take a nearest calibrated sequence."""
        self.levels = levels
        self.lower = self.upper = distance_to(self.counts, levels)

    def _search(self, plain: bool) -> None:
        """Search below growing cutoffs, and round in between, until the work for searches is used up."""
        noise, cutoffs, works = rounding_noise(self.counts.n_rounds), list[float](), list[float]()
        while not self.is_done:
            if self.rounded <= self.searched and self.rounding_left > 0.0:
                self._round()
                continue
            limits = self._limits()
            lattice = lattice_work(self.counts, limits) if plain else math.inf
            cutoff, most = self.gap, lattice
            if len(works) < len(FIRST_CUTOFFS):
                least = LEAST_RISE * cutoffs[-1] if cutoffs else 0.0
                cutoff, most = (
                    min(cutoff, max(least, FIRST_CUTOFFS[len(works)] * cutoff)),
                    LOOK_SHARE * lattice,
                )
            else:
                # the last two searches give the fixed part and the one that grows with the cutoff
                rate = (works[-1] - works[-2]) / (cutoffs[-1] ** CUTOFF_POWER - cutoffs[-2] ** CUTOFF_POWER)
                expected = works[-1] + rate * (self.gap**CUTOFF_POWER - cutoffs[-1] ** CUTOFF_POWER)
                if lattice <= min(expected, self.search_left):
                    return self._take_lattice(limits)
                planned = min(WORK_GROWTH * works[-1], PLANNED_SHARE * self.search_left)
                if planned < LEAST_GROWTH * works[-1]:
                    return None
                if expected > max(planned, self.rounded):
                    cutoff = (cutoffs[-1] ** CUTOFF_POWER + (planned - works[-1]) / rate) ** (
                        1.0 / CUTOFF_POWER
                    )
            search = search_below(self.counts, self.relaxation, cutoff, min(self.search_left, most))
            self.search_left -= search.work
            self.searched += search.work
            if search.levels is not None:
                return self._settle(search.levels)
            if not search.complete:
                if lattice > self.search_left:
                    return None
                return self._take_lattice(limits)
            self.lower = max(self.lower, min(self.upper, self.relaxation.lower + cutoff - noise))
            cutoffs.append(cutoff)
            works.append(float(search.work))
        return None

    def _round(self, most: float = math.inf, least: float = 0.0) -> None:
        """Look for better level sets near the next curve, with work between `least` and `most`."""
        curve, work = next(self.curves)
        work = min(max(work, least), most, max(LEAST_WORK, self.rounding_left))
        levels, distance, tried = round_near(self.tables, self.relaxation.lower, curve, work, self.tolerance)
        # without a gain all of the work counts as done, so that the next try has more
        spent = max(tried, work)
        if levels is not None and distance < self.upper:
            self.levels, self.upper, spent = levels, distance, tried
        self.rounded += spent
        self.rounding_left -= spent
        self.lower = min(self.lower, self.upper)

    def _curves(self) -> Iterator[tuple[Curve, float]]:
        """Curves to round near, with the work for each.

        The first is that of the relaxation. Those of coarser relaxations follow, since every value costs
        something when it is made real, and fewer values can make a better sequence. All later ones are the
        curve of the best level sets so far.
        """
        work = FIRST_LOOK_WORK
        yield self._curve_on(merged(self.relaxation.nodes, even_nodes(FINE_CELLS))), work
        root = math.sqrt(self.counts.n_rounds)
        if len(self.counts.values) > 2.0 * root:
            cells = {int(min(MOST_COARSE_CELLS, max(1, factor * root))) for factor in (3.0, 1.5, 0.5)}
            for n_cells in sorted(cells, reverse=True):
                yield self._curve_on(even_nodes(n_cells)), work
        while True:
            yield curve_of_levels(self.levels), work
            work *= WORK_GROWTH

    def _curve_on(self, nodes: Floats) -> Curve:
        nodes = apart(nodes)
        return curve_of_masses(self.counts, nodes, few_masses(self.counts, nodes))
