"""The exact distance for thousands of rounds: only the part of the lattice that a cheap path can use.

The relaxation's potentials turn the cost of every level set into a reduced cost that is never negative: a
level set of r zeros and s ones at v = s/(r+s) costs

    sum f0_i(v) + sum f1_j(v) - r u0(v) - s u1(v),    f_i(v) = |forecast_i - v| - u(forecast_i) + u(v) >= 0,

more than its share of the lower bound. A path is as far above the lower bound as its reduced costs add up to.
So all paths below a cutoff are found by extending only lattice points reached below it; if none arrives at
the end, the cutoff itself is a proven addition to the lower bound.

For a fixed v, f_i(v) falls and then rises along the sorted forecasts. That makes the starts from which r
zeros (or s ones) fit under the cutoff an interval, found by bisection, and bounds the size of a step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from onlinecal.measures.counts import Counts, Floats, Ints
from onlinecal.measures.levels import Levels, make_levels
from onlinecal.measures.relaxation import Relaxation

VALUE_BINS = 64
"""Ranges of v over which the largest useful step is bounded."""

FOUND, NONE_BELOW_CUTOFF, TOO_MUCH_WORK, BAND_TOO_NARROW = range(4)


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
        Lattice points times steps looked at.

    """

    levels: Levels | None
    complete: bool
    work: int


def rounding_noise(n_rounds: int) -> float:
    """More than the rounding errors of the reduced cost of a path."""
    return n_rounds**2 * 1e-15


def search_below(counts: Counts, relaxation: Relaxation, cutoff: float, work_limit: float) -> Search:
    """Look at every path whose excess over the relaxation's lower bound is at most `cutoff`."""
    zeros, ones = counts.expanded()
    tables = [
        zeros,
        ones,
        np.interp(zeros, relaxation.nodes, relaxation.zero_potential),
        np.interp(ones, relaxation.nodes, relaxation.one_potential),
    ]
    step_limits = _step_limits(counts, relaxation, cutoff)
    sizes = np.concatenate([[0.0], np.cumsum(relaxation.masses)])
    middle = np.interp(
        np.arange(counts.n_rounds + 1) * (sizes[-1] / counts.n_rounds),
        sizes,
        np.concatenate([[0.0], np.cumsum(relaxation.masses * relaxation.nodes)]),
    )
    width, work = min(128, counts.n_ones + 1), 0
    while True:
        starts = np.clip(np.rint(middle).astype(np.int64) - width // 2, 0, counts.n_ones + 1 - width)
        reached = np.full((counts.n_rounds + 1, width), np.inf)
        last_step = np.full((counts.n_rounds + 1, width), -1, dtype=np.int32)
        status, steps, visits = extend_paths(
            *tables,
            relaxation.nodes,
            relaxation.zero_potential,
            relaxation.one_potential,
            cutoff,
            step_limits,
            starts,
            reached,
            last_step,
            int(min(work_limit - work, 2**62)),
        )
        work += visits
        if status == BAND_TOO_NARROW:
            width = min(2 * width, counts.n_ones + 1)
        else:
            break
    levels = _walk_back(counts, starts, last_step, steps) if status == FOUND else None
    return Search(levels, status != TOO_MUCH_WORK, work)


def _walk_back(counts: Counts, starts: Ints, last_step: NDArray[np.int32], steps: Ints) -> Levels:
    n, b = counts.n_rounds, counts.n_ones
    taken = []
    while n > 0:
        step = steps[last_step[n, b - starts[n]]]
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
    order = np.argsort(excess)
    excess, masses = excess[order], masses[order]
    totals = np.cumsum(excess * masses)
    whole = int(np.searchsorted(totals, cutoff, side="right"))
    if whole == len(totals):
        return int(masses.sum())
    left = cutoff - (totals[whole - 1] if whole else 0.0)
    return int(masses[:whole].sum()) + min(int(left / excess[whole]) + 1, int(masses[whole]))


@njit(cache=True)
def prefix_excess(
    i: int, v: float, below: int, sum_below: float, sums: Floats, lifts: Floats, u: float
) -> float:
    """Sum of f(v) over the first i rounds of one outcome; `below` of them have a forecast of at most v."""
    distance = v * i - sums[i] if i <= below else v * (2 * below - i) + sums[i] - 2.0 * sum_below
    return distance - lifts[i] + i * u


@njit(cache=True)
def fitting_starts(
    size: int,
    v: float,
    below: int,
    rounds: Floats,
    potentials: Floats,
    sums: Floats,
    lifts: Floats,
    u: float,
    room: float,
) -> tuple[int, int]:
    """First and last i for which rounds i..i+size-1 have a total excess of at most `room` (empty: 1, 0)."""
    n = len(rounds)
    sum_below = sums[below]
    if size == 0:
        return 0, n
    if size > n:
        return 1, 0
    low = min(max(0, below - size), n - size)
    high = max(low, min(below, n - size))
    # the total is convex here: f falls on the side of the first round and rises on that of the last
    while low < high:
        middle = (low + high) // 2
        gained = abs(rounds[middle + size] - v) - potentials[middle + size]
        lost = abs(rounds[middle] - v) - potentials[middle]
        if gained >= lost:
            high = middle
        else:
            low = middle + 1
    best = low
    total = prefix_excess(best + size, v, below, sum_below, sums, lifts, u)
    if total - prefix_excess(best, v, below, sum_below, sums, lifts, u) > room:
        return 1, 0
    low, high = 0, best
    while low < high:
        middle = (low + high) // 2
        total = prefix_excess(middle + size, v, below, sum_below, sums, lifts, u)
        if total - prefix_excess(middle, v, below, sum_below, sums, lifts, u) <= room:
            high = middle
        else:
            low = middle + 1
    first = low
    low, high = best, n - size
    while low < high:
        middle = (low + high + 1) // 2
        total = prefix_excess(middle + size, v, below, sum_below, sums, lifts, u)
        if total - prefix_excess(middle, v, below, sum_below, sums, lifts, u) <= room:
            low = middle
        else:
            high = middle - 1
    return first, low


@njit(cache=True)
def extend_paths(
    zeros: Floats,
    ones: Floats,
    zero_potentials: Floats,
    one_potentials: Floats,
    nodes: Floats,
    u0: Floats,
    u1: Floats,
    cutoff: float,
    step_limits: Ints,
    starts: Ints,
    reached: Floats,
    last_step: NDArray[np.int32],
    work_limit: int,
) -> tuple[int, Ints, int]:
    """Fill in the least excess of every lattice point that paths below the cutoff reach.

    zeros (n0,), ones (n1,) sorted forecasts, with the potentials at each; u0, u1 at the nodes; step_limits by
    range of v. A lattice point of n rounds and b ones is at [n, b - starts[n]] in reached (float64, infinite)
    and last_step (int32, -1), both (T+1, width). Returns a status, the steps (N, 2) that last_step counts in,
    and the work.
    """
    n0, n1 = len(zeros), len(ones)
    n_rounds, width = n0 + n1, reached.shape[1]
    sums0, sums1 = np.zeros(n0 + 1), np.zeros(n1 + 1)
    lifts0, lifts1 = np.zeros(n0 + 1), np.zeros(n1 + 1)
    for i in range(n0):
        sums0[i + 1] = sums0[i] + zeros[i]
        lifts0[i + 1] = lifts0[i] + zero_potentials[i]
    for j in range(n1):
        sums1[j + 1] = sums1[j] + ones[j]
        lifts1[j + 1] = lifts1[j] + one_potentials[j]
    zero_costs, one_costs = np.empty(n0 + 1), np.empty(n1 + 1)
    reached[0, -starts[0]] = 0.0
    lowest = np.full(n_rounds + 1, np.inf)
    lowest[0] = 0.0
    first_alive = np.full(n_rounds + 1, n1 + 1)
    last_alive = np.full(n_rounds + 1, -1)
    first_alive[0] = last_alive[0] = 0
    nearest = farthest = 0
    steps = np.empty((1024, 2), dtype=np.int64)
    n_steps = 0
    work = 0
    order = 1
    for k in range(len(step_limits)):
        order = max(order, step_limits[k])
    below0 = below1 = node = 0
    # the fractions s/size in [0, 1] in lowest terms with size <= order, by the recurrence of the Farey
    # sequence
    s, size, next_s, next_size = 0, 1, 1, order
    while True:
        v = s / size
        r = size - s
        if r <= n0 and s <= n1 and size <= step_limits[min(int(v * len(step_limits)), len(step_limits) - 1)]:
            while below0 < n0 and zeros[below0] <= v:
                below0 += 1
            while below1 < n1 and ones[below1] <= v:
                below1 += 1
            while node < len(nodes) - 2 and nodes[node + 1] < v:
                node += 1
            share = (v - nodes[node]) / (nodes[node + 1] - nodes[node])
            u0v = u0[node] + share * (u0[node + 1] - u0[node])
            u1v = u1[node] + share * (u1[node + 1] - u1[node])
            slack = -(r * u0v + s * u1v)
            room = cutoff - slack
            a_first, a_last, b_first, b_last = 1, 0, 1, 0
            if room >= 0.0:
                a_first, a_last = fitting_starts(
                    r, v, below0, zeros, zero_potentials, sums0, lifts0, u0v, room
                )
            if a_first <= a_last:
                b_first, b_last = fitting_starts(s, v, below1, ones, one_potentials, sums1, lifts1, u1v, room)
            if b_first <= b_last:
                for a in range(a_first, a_last + 1):
                    cost = prefix_excess(a + r, v, below0, sums0[below0], sums0, lifts0, u0v)
                    cost -= prefix_excess(a, v, below0, sums0[below0], sums0, lifts0, u0v)
                    zero_costs[a] = cost + slack
                for b in range(b_first, b_last + 1):
                    cost = prefix_excess(b + s, v, below1, sums1[below1], sums1, lifts1, u1v)
                    one_costs[b] = cost - prefix_excess(b, v, below1, sums1[below1], sums1, lifts1, u1v)
                if n_steps == len(steps):
                    longer = np.empty((2 * n_steps, 2), dtype=np.int64)
                    longer[:n_steps] = steps
                    steps = longer
                steps[n_steps, 0], steps[n_steps, 1] = r, s
                n_steps += 1
                work += a_last - a_first + b_last - b_first + 2
                # no later step is flatter than this one: a row of points too high for it to reach the end
                # is done
                while (
                    nearest < farthest
                    and first_alive[nearest] > n1 - ((n_rounds - nearest) * s + size - 1) // size
                ):
                    nearest += 1
                for n in range(max(nearest, a_first + b_first), a_last + b_last + 1):
                    if n > farthest:
                        break
                    if lowest[n] > room:
                        continue
                    top = n1 - ((n_rounds - n) * s + size - 1) // size
                    first = max(b_first, n - a_last, first_alive[n])
                    last = min(b_last, n - a_first, last_alive[n], top)
                    if first > last:
                        continue
                    work += last - first + 1
                    target = n + size
                    here, there = starts[n], starts[target] - s
                    for b in range(first, last + 1):
                        excess = reached[n, b - here] + zero_costs[n - b] + one_costs[b]
                        if excess > cutoff:
                            continue
                        column = b - there
                        if column < 0 or column >= width:
                            return 3, steps[:n_steps], work
                        if excess < reached[target, column]:
                            reached[target, column] = excess
                            last_step[target, column] = n_steps - 1
                            farthest = max(farthest, target)
                            lowest[target] = min(lowest[target], excess)
                            first_alive[target] = min(first_alive[target], b + s)
                            last_alive[target] = max(last_alive[target], b + s)
                if work > work_limit:
                    return 2, steps[:n_steps], work
        if s == size:
            break
        k = (order + size) // next_size
        s, size, next_s, next_size = next_s, next_size, k * next_s - s, k * next_size - size
    found = reached[n_rounds, n1 - starts[n_rounds]] <= cutoff
    return 0 if found else 1, steps[:n_steps], work
