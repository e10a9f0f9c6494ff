"""The exact distance for thousands of rounds: only the part of the lattice that a cheap path can use.

The relaxation's potentials turn the cost of every level set into a reduced cost that is never negative: a
level set of r zeros and s ones at v = s/(r+s) costs

    sum f0_i(v) + sum f1_j(v) - r u0(v) - s u1(v),    f_i(v) = |forecast_i - v| - u(forecast_i) + u(v) >= 0,

more than its share of the lower bound. A path is as far above the lower bound as its reduced costs, its
excess, add up to. So all paths below a cutoff are found by extending only lattice points reached below it; if
none arrives at the end, the cutoff itself is a proven addition to the lower bound.

A path from the end, exact up to half the cutoff, comes first. It tells how much excess every lattice point
still has ahead (half the cutoff, where it did not arrive), and the path from the start need not go on from
points for which the two together exceed the cutoff.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.measures.counts import Counts, prefix
from onlinecal.measures.distance.exact.pruned_kernel import extend_paths, room_for
from onlinecal.measures.distance.exact.steps import Side
from onlinecal.measures.distance.fractional.relaxation import Relaxation
from onlinecal.measures.distance.levels import Levels, make_levels

VALUE_BINS = 64
"""Ranges of v over which the largest useful step is bounded."""

SET_UP_WORK = 8 * VALUE_BINS
"""Per forecast value, what bounding the steps takes, in lattice points looked at."""


@dataclass(frozen=True, eq=False)
class Search:
    """What a search below a cutoff came to.

    Attributes
    ----------
    levels
        A nearest perfectly calibrated sequence if its excess over the lower bound is within the cutoff.
    complete
        Whether every path below the cutoff was looked at. Without levels, the cutoff is then a proven excess.
    work
        Lattice points times steps looked at, and what setting up takes.

    """

    levels: Levels | None
    complete: bool
    work: int


@dataclass(frozen=True, eq=False)
class _Reached:
    """Lattice points in ragged rows: row n holds the points of n rounds and starts[n] or more ones.

    excess and last_step are flat; row n is the slice of widths[n] entries from offsets[n] on.
    """

    excess: Floats
    last_step: Ints
    offsets: Ints
    starts: Ints
    widths: Ints
    steps: Ints
    complete: bool
    work: int

    def position(self, n: int, b: int) -> int:
        """Where the point of n rounds and b ones is, -1 if it is not."""
        column = b - int(self.starts[n])
        return int(self.offsets[n]) + column if 0 <= column < self.widths[n] else -1


def rounding_noise(n_rounds: int) -> float:
    """More than the rounding errors of the excess of a path."""
    return n_rounds**2 * 1e-15


def search_below(counts: Counts, relaxation: Relaxation, cutoff: float, work_limit: float) -> Search:
    """Look at every path whose excess over the relaxation's lower bound is at most `cutoff`."""
    set_up = 2 * SET_UP_WORK * len(counts.values)
    if set_up > work_limit:
        return Search(None, False, 0)
    work_limit -= set_up
    from_end = _extend(*_mirrored(counts, relaxation), cutoff / 2.0, work_limit, None, np.inf)
    if not from_end.complete:
        return Search(None, False, set_up + from_end.work)
    found = _extend(counts, relaxation, cutoff, work_limit - from_end.work, from_end, cutoff / 2.0)
    end = found.position(counts.n_rounds, counts.n_ones)
    arrived = found.complete and end >= 0 and found.last_step[end] >= 0
    levels = _walk_back(counts, found) if arrived else None
    return Search(levels, found.complete, set_up + from_end.work + found.work)


def _mirrored(counts: Counts, relaxation: Relaxation) -> tuple[Counts, Relaxation]:
    """The same history with the two outcomes exchanged: its paths are the old ones, from the end."""
    turned = Counts(1.0 - counts.values[::-1], counts.ones[::-1], counts.zeros[::-1])
    return turned, Relaxation(
        relaxation.lower,
        1.0 - relaxation.nodes[::-1],
        relaxation.one_potential[::-1],
        relaxation.zero_potential[::-1],
        relaxation.masses[::-1],
    )


def _extend(
    counts: Counts,
    relaxation: Relaxation,
    cutoff: float,
    work_limit: float,
    from_end: _Reached | None,
    unreached: float,
) -> _Reached:
    """Extend paths from the start; `unreached` is the least excess ahead of points that from_end has not."""
    n_rounds = counts.n_rounds
    if from_end is None:
        empty = np.zeros(n_rounds + 1, dtype=np.int64)
        ahead = (np.zeros(0), empty, empty, empty)
        unreached = 0.0
    else:
        # row n of a path from the end is row T - n from the start, and its ones are the zeros not used yet
        starts = from_end.starts[::-1] + np.arange(n_rounds + 1) - counts.n_zeros
        ahead = (
            np.minimum(from_end.excess, unreached),
            np.ascontiguousarray(from_end.offsets[::-1]),
            starts,
            np.ascontiguousarray(from_end.widths[::-1]),
        )
    room = room_for(counts.n_zeros, counts.n_ones)
    excess, last_step, steps, n_steps, complete, work = extend_paths(
        *_sides(counts, relaxation),
        np.ascontiguousarray(relaxation.nodes),
        np.ascontiguousarray(relaxation.zero_potential),
        np.ascontiguousarray(relaxation.one_potential),
        float(cutoff),
        _step_limits(counts, relaxation, cutoff),
        *ahead,
        float(unreached),
        int(min(max(work_limit, 0), 2**62)),
        *room,
    )
    offsets, starts, widths = room[2][:3]
    return _Reached(excess, last_step, offsets, starts, widths, steps[:n_steps], complete, work)


def _sides(counts: Counts, relaxation: Relaxation) -> list[Side]:
    sides = []
    potentials = (relaxation.zero_potential, relaxation.one_potential)
    for rounds, potential in zip(counts.expanded(), potentials, strict=True):
        lifts = np.interp(rounds, relaxation.nodes, potential)
        sides.append((rounds, lifts, prefix(rounds), prefix(lifts)))
    return sides


def _walk_back(counts: Counts, reached: _Reached) -> Levels:
    n, b = counts.n_rounds, counts.n_ones
    taken = []
    while n > 0:
        step = reached.steps[reached.last_step[reached.position(n, b)]]
        taken.append(step)
        n, b = n - int(step[0] + step[1]), b - int(step[1])
    path = np.array(taken)
    return make_levels(path[:, 0], path[:, 1])


def _step_limits(counts: Counts, relaxation: Relaxation, cutoff: float) -> Ints:
    """For each range of v, the size of the largest step r+s that can stay below the cutoff; (VALUE_BINS,)."""
    edges = np.arange(VALUE_BINS + 1) / VALUE_BINS
    limits = np.empty(VALUE_BINS, dtype=np.int64)
    for k in range(VALUE_BINS):
        low, high = edges[k], edges[k + 1]
        # f_i(v) falls towards v = forecast_i from either side: its least value in a range is at the nearest v
        nearest = np.clip(counts.values, low, high)
        fits = []
        for masses, potential in (
            (counts.zeros, relaxation.zero_potential),
            (counts.ones, relaxation.one_potential),
        ):
            excess = np.abs(counts.values - nearest)
            excess += np.interp(nearest, relaxation.nodes, potential)
            excess -= np.interp(counts.values, relaxation.nodes, potential)
            fits.append(_most_rounds(np.maximum(excess, 0.0), masses, cutoff))
        by_zeros = fits[0] / (1.0 - high) if high < 1.0 else np.inf
        by_ones = fits[1] / low if low > 0.0 else np.inf
        limits[k] = min(counts.n_rounds, int(min(by_zeros, by_ones, counts.n_rounds)) + 1)
    return limits


def _most_rounds(excess: Floats, masses: Ints, cutoff: float) -> int:
    """How many rounds, the cheapest first, have a total excess of at most the cutoff (rounded up)."""
    fits = (excess <= cutoff) & (masses > 0)
    excess, masses = excess[fits], masses[fits]
    order = np.argsort(excess)
    excess, masses = excess[order], masses[order]
    totals = np.cumsum(excess * masses)
    whole = int(np.searchsorted(totals, cutoff, side="right"))
    if whole == len(totals):
        return int(masses.sum()) + 1
    left = cutoff - (totals[whole - 1] if whole else 0.0)
    return int(masses[:whole].sum()) + min(int(left / excess[whole]) + 1, int(masses[whole]))
