"""The exact distance for thousands of rounds: only the part of the lattice that a cheap path can use.

Steps of the search are taken over lattice points: what they cost, and where they fit.
For a fixed value v, the excess f_i(v) of a round falls and then rises along the sorted forecasts: the starts
from which r zeros (or s ones) fit into the room that the cutoff leaves are an interval, found by bisection.

One outcome's rounds are a tuple (forecasts (n,), potentials (n,), prefix sums of both (n+1,), (n+1,)),
sorted.

Steps are taken in the order of their value v; `steps` says where each may fit, and what a side is.
`extend_paths` is one long function: cut into parts, it took numba a seventh longer to compile.

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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import compiled, kernel_part
from onlinecal.measures.counts import Counts, prefix
from onlinecal.measures.distance.fractional.relaxation import Relaxation
from onlinecal.measures.distance.levels import Levels, infinite, make_levels

Side = tuple[Floats, Floats, Floats, Floats]

BLOCK = 32
"""Rows whose least excess is kept together."""


@kernel_part
def first_fractions(numerator: int, denominator: int, order: int) -> tuple[int, int, int, int]:
    """A fraction in lowest terms and the next larger one with a denominator of at most `order`."""
    a, b = numerator, denominator
    while b > 0:
        a, b = b, a % b
    s, size = numerator // a, denominator // a
    # neighbours s/size < p/q have p size - q s = 1; the nearest has the largest q
    for q in range(order, order - size, -1):
        if (q * s + 1) % size == 0:
            return s, size, (q * s + 1) // size, q
    return s, size, 1, 1


@kernel_part
def next_fraction(s: int, size: int, next_s: int, next_size: int, order: int) -> tuple[int, int, int, int]:
    """Move one fraction on among those with a denominator of at most `order`."""
    k = (order + size) // next_size
    return next_s, next_size, k * next_s - s, k * next_size - size


@kernel_part
def prefix_excess(side: Side, i: int, v: float, below: int, u: float) -> float:
    """Sum of f(v) over the first i rounds of one outcome; `below` of them have a forecast of at most v."""
    _, _, sums, lifts = side
    distance = v * i - sums[i] if i <= below else v * (2 * below - i) + sums[i] - 2.0 * sums[below]
    return distance - lifts[i] + i * u


@kernel_part
def step_excess(side: Side, i: int, size: int, v: float, below: int, u: float) -> float:
    """Sum of f(v) over rounds i..i+size-1 of one outcome."""
    return prefix_excess(side, i + size, v, below, u) - prefix_excess(side, i, v, below, u)


@kernel_part
def fitting_starts(side: Side, size: int, v: float, below: int, u: float, room: float) -> tuple[int, int]:
    """First and last i for which rounds i..i+size-1 have a total excess of at most `room` (empty: 1, 0)."""
    rounds, potentials, _, _ = side
    n = len(rounds)
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
    if step_excess(side, best, size, v, below, u) > room:
        return 1, 0
    low, high = 0, best
    while low < high:
        middle = (low + high) // 2
        if step_excess(side, middle, size, v, below, u) <= room:
            high = middle
        else:
            low = middle + 1
    first = low
    low, high = best, n - size
    while low < high:
        middle = (low + high + 1) // 2
        if step_excess(side, middle, size, v, below, u) <= room:
            low = middle
        else:
            high = middle - 1
    return first, low


@kernel_part
def fitting_window(
    zeros: Side,
    ones: Side,
    r: int,
    s: int,
    v: float,
    below0: int,
    below1: int,
    u0: float,
    u1: float,
    room: float,
    farthest: int,
    block_least: Floats,
    block_ahead: Floats,
) -> tuple[int, int, int, int]:
    """First and last numbers of zeros, and of ones, from which a step may fit; an empty range if it cannot.

    The first look gives the step all the room. The second takes off what the points that then come into
    question need at least before and after the step.
    """
    n_blocks = len(block_least)
    left = room
    a_first, a_last, b_first, b_last = 1, 0, 1, 0
    for _ in range(2):
        if left < 0.0:
            return 1, 0, 1, 0
        a_first, a_last = fitting_starts(zeros, r, v, below0, u0, left)
        if a_first > a_last:
            return 1, 0, 1, 0
        b_first, b_last = fitting_starts(ones, s, v, below1, u1, left)
        if b_first > b_last:
            return 1, 0, 1, 0
        least = np.inf
        for k in range((a_first + b_first) // BLOCK, min(a_last + b_last, farthest) // BLOCK + 1):
            shifted = k + (r + s) // BLOCK
            if shifted < n_blocks:
                least = min(least, block_least[k] + min(block_ahead[shifted], block_ahead[shifted + 1]))
        left = room - least
    return (a_first, a_last, b_first, b_last) if left >= 0.0 else (1, 0, 1, 0)


Flags = NDArray[np.int32]

WINDOW_WORK = 200
"""Finding where a step fits takes about as long as looking at so many lattice points."""


@kernel_part
def no_steps(size: int) -> Flags:
    """Room for the last steps to so many points, none of which has one."""
    steps = np.empty(size, dtype=np.int32)
    for i in range(size):
        steps[i] = -1
    return steps


@kernel_part
def make_room(
    reached: Floats,
    last_step: Flags,
    used: int,
    offsets: Ints,
    starts: Ints,
    widths: Ints,
    row: int,
    column: int,
    end: int,
) -> tuple[Floats, Flags, int]:
    """Make a row long enough to hold `column` (at most `end`), moving it to the end of the pools."""
    old_start, old_width = starts[row], widths[row]
    if old_width == 0:
        first, last = max(0, column - 8), min(end, column + 8)
    else:
        first, last = old_start, old_start + old_width - 1
        if column < first:
            first = max(0, min(column, first - old_width))
        if column > last:
            last = min(end, max(column, last + old_width))
    width = last - first + 1
    if used + width > len(reached):
        longer, longer_steps = infinite(2 * (used + width)), no_steps(2 * (used + width))
        for j in range(used):
            longer[j] = reached[j]
            longer_steps[j] = last_step[j]
        reached, last_step = longer, longer_steps
    for j in range(old_width):
        reached[used + old_start - first + j] = reached[offsets[row] + j]
        last_step[used + old_start - first + j] = last_step[offsets[row] + j]
    offsets[row], starts[row], widths[row] = used, first, width
    return reached, last_step, used + width


def room_for(n_zeros: int, n_ones: int) -> tuple[NDArray[Any], ...]:
    """The arrays that `extend_paths` works in.

    Two pools for rows of lattice points; by row, its offset, start, width, first and last point reached
    (5, T+1), and the least excess of its points so far and ahead (T+1,); these two of blocks of rows; what
    the zeros and the ones of a step cost; steps.
    """
    n_rows = n_zeros + n_ones + 1
    n_blocks = (n_rows - 1) // BLOCK + 1
    rows = np.zeros((5, n_rows), dtype=np.int64)
    rows[3], rows[4] = n_ones + 1, -1
    return (
        *(np.full(16 * n_rows, np.inf), np.full(16 * n_rows, -1, dtype=np.int32)),
        *(rows, np.full(n_rows, np.inf), np.empty(n_rows)),
        *(np.full(n_blocks, np.inf), np.full(n_blocks + 1, np.inf)),
        *(np.empty(n_zeros + 1), np.empty(n_ones + 1)),
        np.empty((1024, 2), dtype=np.int64),
    )


@compiled
def extend_paths(
    zeros: Side,
    ones: Side,
    nodes: Floats,
    potential0: Floats,
    potential1: Floats,
    cutoff: float,
    step_limits: Ints,
    ahead: Floats,
    ahead_offsets: Ints,
    ahead_starts: Ints,
    ahead_widths: Ints,
    ahead_elsewhere: float,
    work_limit: int,
    reached: Floats,
    last_step: Flags,
    rows: Ints,
    row_least: Floats,
    row_ahead: Floats,
    block_least: Floats,
    block_ahead: Floats,
    zero_costs: Floats,
    one_costs: Floats,
    steps: Ints,
) -> tuple[Floats, Flags, Ints, int, bool, int]:
    """The least excess of every lattice point that paths below the cutoff reach.

    zeros, ones: the rounds of either outcome; nodes, potential0, potential1 (n,): the potentials as
    functions; step_limits: by range of v, the largest step worth trying. ahead: no more than the excess from
    a point on to the end, in ragged rows (see below), ahead_elsewhere at points in no row.

    The rest is what `room_for` makes: numba takes long to compile what makes arrays.

    Returns reached (float64, infinite where not) and last_step (int32, row of steps, -1), both flat, of which
    rows has the offsets, starts and widths: the point of n rounds and b ones is at offsets[n] + b - starts[n]
    if 0 <= b - starts[n] < widths[n]; steps (N, 2) int64, the first so many of which count; whether the
    search is complete; the work.
    """
    n0, n1 = len(zeros[0]), len(ones[0])
    n_rounds, n_bins = n0 + n1, len(step_limits)
    offsets, starts, widths, first_alive, last_alive = rows[0], rows[1], rows[2], rows[3], rows[4]
    reached, last_step, used = make_room(reached, last_step, 0, offsets, starts, widths, 0, 0, n1)
    reached[offsets[0]] = 0.0
    first_alive[0] = last_alive[0] = 0
    nearest = farthest = 0

    row_least[0] = block_least[0] = 0.0
    for n in range(n_rounds + 1):
        row_ahead[n] = ahead_elsewhere
        for j in range(ahead_offsets[n], ahead_offsets[n] + ahead_widths[n]):
            row_ahead[n] = min(row_ahead[n], ahead[j])
        block_ahead[n // BLOCK] = min(block_ahead[n // BLOCK], row_ahead[n])

    n_steps = 0
    work = 0
    below0 = below1 = node = 0
    for bin_of_v in range(n_bins):
        # the fractions v = s/size of the bin in lowest terms with size <= order, by the recurrence of the
        # Farey sequence; an order of at least n_bins has the edges of the bins among them
        order = max(step_limits[bin_of_v], n_bins)
        s, size, next_s, next_size = first_fractions(bin_of_v, n_bins, order)
        while s <= size and (s * n_bins < (bin_of_v + 1) * size or bin_of_v == n_bins - 1):
            v, r = s / size, size - s
            while below0 < n0 and zeros[0][below0] <= v:
                below0 += 1
            while below1 < n1 and ones[0][below1] <= v:
                below1 += 1
            while node < len(nodes) - 2 and nodes[node + 1] < v:
                node += 1
            share = (v - nodes[node]) / (nodes[node + 1] - nodes[node])
            u0 = potential0[node] + share * (potential0[node + 1] - potential0[node])
            u1 = potential1[node] + share * (potential1[node + 1] - potential1[node])
            slack = -(r * u0 + s * u1)
            possible = r <= n0 and s <= n1 and size <= step_limits[bin_of_v]
            done = (n0 + 1, -1, n1 + 1, -1)
            # points that the step reaches may leave it more room than those it started from
            work += 4
            while possible:
                work += WINDOW_WORK
                window = fitting_window(
                    zeros,
                    ones,
                    r,
                    s,
                    v,
                    below0,
                    below1,
                    u0,
                    u1,
                    cutoff - slack,
                    farthest,
                    block_least,
                    block_ahead,
                )
                a_first, a_last, b_first, b_last = window
                if a_first > a_last or (
                    a_first >= done[0] and a_last <= done[1] and b_first >= done[2] and b_last <= done[3]
                ):
                    break
                if done[1] < 0:
                    if n_steps == len(steps):
                        longer = np.empty((2 * n_steps, 2), dtype=np.int64)
                        for k in range(n_steps):
                            longer[k, 0], longer[k, 1] = steps[k, 0], steps[k, 1]
                        steps = longer
                    steps[n_steps, 0], steps[n_steps, 1] = r, s
                    n_steps += 1
                done = window
                for a in range(a_first, a_last + 1):
                    zero_costs[a] = slack + step_excess(zeros, a, r, v, below0, u0)
                for b in range(b_first, b_last + 1):
                    one_costs[b] = step_excess(ones, b, s, v, below1, u1)
                work += a_last - a_first + b_last - b_first + 2
                # no later step is flatter: a row of points too high for it to reach the end is finished
                while nearest < farthest:
                    if first_alive[nearest] <= n1 - ((n_rounds - nearest) * s + size - 1) // size:
                        break
                    nearest += 1
                improved = False
                for n in range(max(nearest, a_first + b_first), a_last + b_last + 1):
                    if n > farthest or work > work_limit:
                        break
                    target = n + size
                    limit = cutoff - row_ahead[target]
                    if row_least[n] + slack > limit:
                        continue
                    top = n1 - ((n_rounds - n) * s + size - 1) // size
                    first = max(b_first, n - a_last, first_alive[n])
                    last = min(b_last, n - a_first, last_alive[n], top)
                    work += max(0, last - first + 1)
                    here = offsets[n] - starts[n]
                    for b in range(first, last + 1):
                        excess = reached[here + b] + zero_costs[n - b] + one_costs[b]
                        if excess > limit:
                            continue
                        b2 = b + s
                        column = b2 - starts[target]
                        inside = 0 <= column < widths[target]
                        if inside and excess >= reached[offsets[target] + column]:
                            continue
                        onward = ahead_elsewhere
                        if 0 <= b2 - ahead_starts[target] < ahead_widths[target]:
                            onward = ahead[ahead_offsets[target] + b2 - ahead_starts[target]]
                        if excess + onward > cutoff:
                            continue
                        if not inside:
                            reached, last_step, used = make_room(
                                reached, last_step, used, offsets, starts, widths, target, b2, n1
                            )
                        reached[offsets[target] + b2 - starts[target]] = excess
                        last_step[offsets[target] + b2 - starts[target]] = n_steps - 1
                        improved = True
                        farthest = max(farthest, target)
                        first_alive[target] = min(first_alive[target], b2)
                        last_alive[target] = max(last_alive[target], b2)
                        row_least[target] = min(row_least[target], excess)
                        block_least[target // BLOCK] = min(block_least[target // BLOCK], excess)
                possible = improved and work <= work_limit
            if work > work_limit:
                return reached, last_step, steps, n_steps, False, work
            s, size, next_s, next_size = next_fraction(s, size, next_s, next_size, order)
    return reached, last_step, steps, n_steps, True, work


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
