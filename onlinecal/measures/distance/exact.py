"""The exact distance for thousands of rounds, on the part of the lattice that a cheap path can use.

The relaxation's potentials turn the cost of every level set into a reduced cost that is never negative: a
level set of r zeros and s ones at v = s/(r+s) costs

    sum f0_i(v) + sum f1_j(v) - r u0(v) - s u1(v),    f_i(v) = |forecast_i - v| - u(forecast_i) + u(v) >= 0,

more than its share of the lower bound. The sum of a path's reduced costs, its *excess*, is how far its cost
is above the lower bound. So all paths below a cutoff are found by extending only lattice points that are
reached below it. If none arrives at the end, the cutoff itself is a proven addition to the lower bound.
Steps, which are level sets, are taken in the order of their value v.

For a fixed v, the excess f_i(v) of a round falls and then rises along the sorted forecasts: the starts from
which r zeros (or s ones) fit into the room that the cutoff leaves are an interval, found by bisection.

A search from the end, exact up to half the cutoff, comes first. It gives the least excess that is still ahead
of every lattice point; points that it did not reach have at least half the cutoff ahead. The search from the
start need not go on from points whose excess so far and ahead exceeds the cutoff.

A `Points` is written by the kernels of one search, and thrown away with it. What always holds there: an
excess that is kept is that of the cheapest path to its point found so far, and a point without a path has an
infinite one. Steps must come by increasing value, since rows are finished, and points left out, by that
order. A search that is not `complete` proves nothing. What counts as work decides where searches end: it is
part of answers that are not exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import compiled, kernel_part, uncounted
from onlinecal.compiling.instructions import copy
from onlinecal.measures.counts import Counts, prefix
from onlinecal.measures.distance.fractional.relaxation import Relaxation
from onlinecal.measures.distance.levels import Levels, first_fractions, next_fraction, walk_back

Flags = NDArray[np.int32]
OutcomeRounds = tuple[Floats, Floats, Floats, Floats]
"""The rounds of one outcome, sorted: forecasts (n,), potentials (n,), prefix sums of both (n + 1,) each."""
BothOutcomes = tuple[OutcomeRounds, OutcomeRounds]
PointPools = tuple[Floats, Flags]
"""For each lattice point the least excess, infinite where it is not reached, and the last step, or -1."""

BLOCK_ROWS = 32
"""So many rows form a block, whose least excess is kept."""
FITTING_WORK = 200
"""Finding where a step fits takes about as long as looking at so many lattice points."""


class PathStep(NamedTuple):
    """A level set of r zeros and s ones at v = s/(r + s).

    `below0` and `below1` are how many forecasts of either outcome are at most v, `u0` and `u1` the potentials
    there. `slack` is the excess of the set less that of its rounds; `number` is its place among kept steps.
    """

    r: int
    s: int
    v: float
    below0: int
    below1: int
    u0: float
    u1: float
    slack: float
    number: int


Functions = tuple[Floats, Floats, Floats]
"""Both potentials as functions, linear between nodes: nodes, of zeros, of ones; shape (n,) each."""


class Ahead(NamedTuple):
    """Lower bounds on the excess from points to the end, in rows as in `_Reached`.

    `elsewhere` is the bound for points in no row, and `cutoff` the most excess that a path may have in all.
    """

    excess: Floats
    offsets: Ints
    starts: Ints
    widths: Ints
    elsewhere: float
    cutoff: float


class Points(NamedTuple):
    """Lattice points that paths reach, with a row for each number of rounds, and room to work in.

    Attributes
    ----------
    rows
        Offset, start and width of each row, and its first and last point that was reached, (5, T + 1).
    least, ahead
        For each row the least excess of its points so far, and from them to the end, (T + 1,).
    block_least, block_ahead
        The same for blocks of rows.
    zero_costs, one_costs
        The costs of the zeros and of the ones of a step.
    state
        How many entries are in use, the nearest row that paths go on from, the farthest row that was reached,
        the work done and the work allowed, (5,).
    """

    rows: Ints
    least: Floats
    ahead: Floats
    block_least: Floats
    block_ahead: Floats
    zero_costs: Floats
    one_costs: Floats
    state: Ints


ROW_OFFSET, ROW_START, ROW_WIDTH, ROW_FIRST, ROW_LAST = range(5)
ENTRIES_USED, NEAREST_ROW, FARTHEST_ROW, WORK_DONE, WORK_ALLOWED = range(5)


@uncounted
def prefix_excess(side: OutcomeRounds, i: int, v: float, below: int, u: float) -> float:
    """Sum of f(v) over the first i rounds of one outcome; `below` of them have a forecast of at most v."""
    _, _, sums, lifts = side
    distance = v * i - sums[i] if i <= below else v * (2 * below - i) + sums[i] - 2.0 * sums[below]
    return distance - lifts[i] + i * u


@uncounted
def step_excess(side: OutcomeRounds, i: int, size: int, v: float, below: int, u: float) -> float:
    """Sum of f(v) over rounds i..i+size-1 of one outcome."""
    return prefix_excess(side, i + size, v, below, u) - prefix_excess(side, i, v, below, u)


@uncounted
def fitting_starts(
    side: OutcomeRounds, size: int, v: float, below: int, u: float, room: float
) -> tuple[int, int]:
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


@uncounted
def fitting_window(
    sides: BothOutcomes, step: PathStep, room: float, points: Points
) -> tuple[int, int, int, int]:
    """First and last numbers of zeros, and of ones, from which a step may fit; an empty range if it cannot.

    The first look gives the step all the room. The second subtracts the least excess before and after the
    step of the points that the first look leaves.
    """
    points.state[WORK_DONE] += FITTING_WORK
    left, size, (zeros, ones) = room, step.r + step.s, sides
    a_first, a_last, b_first, b_last = 1, 0, 1, 0
    for _ in range(2):
        if left < 0.0:
            return 1, 0, 1, 0
        a_first, a_last = fitting_starts(zeros, step.r, step.v, step.below0, step.u0, left)
        if a_first > a_last:
            return 1, 0, 1, 0
        b_first, b_last = fitting_starts(ones, step.s, step.v, step.below1, step.u1, left)
        if b_first > b_last:
            return 1, 0, 1, 0
        least, last = np.inf, min(a_last + b_last, points.state[FARTHEST_ROW])
        for k in range((a_first + b_first) // BLOCK_ROWS, last // BLOCK_ROWS + 1):
            shifted = k + size // BLOCK_ROWS
            if shifted < len(points.block_least):
                onward = min(points.block_ahead[shifted], points.block_ahead[shifted + 1])
                least = min(least, points.block_least[k] + onward)
        left = room - least
    return (a_first, a_last, b_first, b_last) if left >= 0.0 else (1, 0, 1, 0)


@kernel_part
def make_room(pools: PointPools, points: Points, row: int, column: int, end: int) -> PointPools:
    """Make a row long enough to hold `column` (at most `end`), moving it to the end of the pools."""
    (reached, last_step), rows, used = pools, points.rows, points.state[ENTRIES_USED]
    old_start, old_width = rows[ROW_START, row], rows[ROW_WIDTH, row]
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
        size = 2 * (used + width)
        longer, longer_steps = np.empty(size), np.empty(size, np.int32)
        copy(reached, 0, longer, 0, used)
        copy(last_step, 0, longer_steps, 0, used)
        for i in range(used, size):
            longer[i], longer_steps[i] = np.inf, -1
        reached, last_step = longer, longer_steps
    for j in range(old_width):
        reached[used + old_start - first + j] = reached[rows[ROW_OFFSET, row] + j]
        last_step[used + old_start - first + j] = last_step[rows[ROW_OFFSET, row] + j]
    rows[ROW_OFFSET, row], rows[ROW_START, row], rows[ROW_WIDTH, row] = used, first, width
    points.state[ENTRIES_USED] = used + width
    return reached, last_step


def points_for(n_zeros: int, n_ones: int, work_limit: float) -> Points:
    """Room to work in. It is made outside of kernels, since numba compiles the making of arrays slowly."""
    n_rows = n_zeros + n_ones + 1
    n_blocks = (n_rows - 1) // BLOCK_ROWS + 1
    rows = np.zeros((5, n_rows), dtype=np.int64)
    rows[ROW_FIRST], rows[ROW_LAST] = n_ones + 1, -1
    least, block_least, block_ahead = (np.full(n, np.inf) for n in (n_rows, n_blocks, n_blocks + 1))
    costs = np.empty(n_zeros + 1), np.empty(n_ones + 1)
    state = np.array([0, 0, 0, 0, int(min(max(work_limit, 0), 2**62))])
    return Points(rows, least, np.empty(n_rows), block_least, block_ahead, *costs, state)


@uncounted
def look_ahead(ahead: Ahead, points: Points) -> None:
    """The least excess ahead of each row and block."""
    for n in range(len(points.ahead)):
        least = ahead.elsewhere
        for j in range(ahead.offsets[n], ahead.offsets[n] + ahead.widths[n]):
            least = min(least, ahead.excess[j])
        points.ahead[n] = least
        points.block_ahead[n // BLOCK_ROWS] = min(points.block_ahead[n // BLOCK_ROWS], least)


@kernel_part
def extend_rows(
    pools: PointPools, points: Points, ahead: Ahead, step: PathStep, window: tuple[int, int, int, int]
) -> tuple[PointPools, bool]:
    """Take a step from the points of a window, row after row, and say whether any point became cheaper.

    The costs of its zeros and ones are in `points`. When no more work is allowed, rows are left out.
    """
    n0, n1 = len(points.zero_costs) - 1, len(points.one_costs) - 1
    rows, state, s, size = points.rows, points.state, step.s, step.r + step.s
    (reached, last_step), (a_first, a_last, b_first, b_last), improved = pools, window, False
    for n in range(max(state[NEAREST_ROW], a_first + b_first), a_last + b_last + 1):
        if n > state[FARTHEST_ROW] or state[WORK_DONE] > state[WORK_ALLOWED]:
            break
        target = n + size
        limit = ahead.cutoff - points.ahead[target]
        if points.least[n] + step.slack > limit:
            continue
        # no later step is flatter: points that are too high do not reach the end
        top = n1 - ((n0 + n1 - n) * s + size - 1) // size
        first = max(b_first, n - a_last, rows[ROW_FIRST, n])
        last = min(b_last, n - a_first, rows[ROW_LAST, n], top)
        state[WORK_DONE] += max(0, last - first + 1)
        here = rows[ROW_OFFSET, n] - rows[ROW_START, n]
        for b in range(first, last + 1):
            excess = reached[here + b] + points.zero_costs[n - b] + points.one_costs[b]
            if excess > limit:
                continue
            b2 = b + s
            column = b2 - rows[ROW_START, target]
            inside = 0 <= column < rows[ROW_WIDTH, target]
            if inside and excess >= reached[rows[ROW_OFFSET, target] + column]:
                continue
            onward = ahead.elsewhere
            if 0 <= b2 - ahead.starts[target] < ahead.widths[target]:
                onward = ahead.excess[ahead.offsets[target] + b2 - ahead.starts[target]]
            if excess + onward > ahead.cutoff:
                continue
            if not inside:
                reached, last_step = make_room((reached, last_step), points, target, b2, n1)
            place = rows[ROW_OFFSET, target] + b2 - rows[ROW_START, target]
            reached[place] = excess
            last_step[place] = step.number
            improved = True
            state[FARTHEST_ROW] = max(state[FARTHEST_ROW], target)
            rows[ROW_FIRST, target] = min(rows[ROW_FIRST, target], b2)
            rows[ROW_LAST, target] = max(rows[ROW_LAST, target], b2)
            points.least[target] = min(points.least[target], excess)
            block = target // BLOCK_ROWS
            points.block_least[block] = min(points.block_least[block], excess)
    return (reached, last_step), improved


@kernel_part
def take_step(
    sides: BothOutcomes,
    pools: PointPools,
    points: Points,
    ahead: Ahead,
    step: PathStep,
    window: tuple[int, int, int, int],
) -> PointPools:
    """Take a step from every point of a window, where it fits, and from those that it reaches."""
    zeros, ones = sides
    n1, n_rounds, size = len(ones[0]), len(zeros[0]) + len(ones[0]), step.r + step.s
    state = points.state
    while True:
        a_first, a_last, b_first, b_last = window
        for a in range(a_first, a_last + 1):
            excess = step_excess(zeros, a, step.r, step.v, step.below0, step.u0)
            points.zero_costs[a] = step.slack + excess
        for b in range(b_first, b_last + 1):
            points.one_costs[b] = step_excess(ones, b, step.s, step.v, step.below1, step.u1)
        state[WORK_DONE] += a_last - a_first + b_last - b_first + 2
        # no later step is flatter: a row is finished when its points are too high to reach the end by this
        # step
        while state[NEAREST_ROW] < state[FARTHEST_ROW]:
            row = state[NEAREST_ROW]
            if points.rows[ROW_FIRST, row] <= n1 - ((n_rounds - row) * step.s + size - 1) // size:
                break
            state[NEAREST_ROW] += 1
        pools, improved = extend_rows(pools, points, ahead, step, window)
        # the step may have more room from points that it reached than from those where it started
        if not improved or state[WORK_DONE] > state[WORK_ALLOWED]:
            return pools
        window = fitting_window(sides, step, ahead.cutoff - step.slack, points)
        if window[0] > window[1] or (
            window[0] >= a_first and window[1] <= a_last and window[2] >= b_first and window[3] <= b_last
        ):
            return pools


@compiled
def extend_paths(
    sides: BothOutcomes,
    potentials: Functions,
    step_limits: Ints,
    ahead: Ahead,
    points: Points,
    pools: PointPools,
) -> tuple[PointPools, Ints, bool]:
    """The least excess of every lattice point that paths below the cutoff reach.

    step_limits: by range of v, the largest step worth trying. Returns the pools, the steps that fit
    somewhere, (N, 2) int64, and whether the search is complete. In the pools the point of n rounds and b ones
    is at offset[n] + b - start[n] if 0 <= b - start[n] < width[n], with the rows of `points`.
    """
    (zeros, ones), steps = sides, np.empty((1024, 2), dtype=np.int64)
    n0, n1, n_bins = len(zeros[0]), len(ones[0]), len(step_limits)
    state, (nodes, zero_potential, one_potential) = points.state, potentials
    pools = make_room(pools, points, 0, 0, n1)
    pools[0][points.rows[ROW_OFFSET, 0]] = 0.0
    points.rows[ROW_FIRST, 0] = points.rows[ROW_LAST, 0] = 0
    points.least[0] = points.block_least[0] = 0.0
    look_ahead(ahead, points)
    n_steps = below0 = below1 = node = 0
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
            state[WORK_DONE] += 4
            if r <= n0 and s <= n1 and size <= step_limits[bin_of_v]:
                share = (v - nodes[node]) / (nodes[node + 1] - nodes[node])
                u0 = zero_potential[node] + share * (zero_potential[node + 1] - zero_potential[node])
                u1 = one_potential[node] + share * (one_potential[node + 1] - one_potential[node])
                step = PathStep(r, s, v, below0, below1, u0, u1, -(r * u0 + s * u1), n_steps)
                window = fitting_window(sides, step, ahead.cutoff - step.slack, points)
                if window[0] <= window[1]:
                    pools = take_step(sides, pools, points, ahead, step, window)
                    if n_steps == len(steps):
                        longer = np.empty((2 * n_steps, 2), dtype=np.int64)
                        for i in range(n_steps):
                            longer[i, 0], longer[i, 1] = steps[i, 0], steps[i, 1]
                        steps = longer
                    steps[n_steps, 0], steps[n_steps, 1] = r, s
                    n_steps += 1
            if state[WORK_DONE] > state[WORK_ALLOWED]:
                return pools, steps[:n_steps], False
            s, size, next_s, next_size = next_fraction(s, size, next_s, next_size, order)
    return pools, steps[:n_steps], True


VALUE_BINS = 64
"""So many ranges of v have each a bound on the largest useful step."""

SET_UP_WORK = VALUE_BINS
"""The work of bounding the steps for each forecast value, in lattice points looked at."""


class Search(NamedTuple):
    """The result of a search below a cutoff, and the lattice points times steps that it looked at.

    The levels are those of a nearest perfectly calibrated sequence, if its excess over the lower bound is
    within the cutoff. If there are none and the search is complete, every sequence has at least the cutoff as
    excess.
    """

    levels: Levels | None
    complete: bool
    work: int


class _Reached(NamedTuple):
    """Lattice points that paths reach, with steps; `excess` and `last_step` are flat, in rows of `points`."""

    excess: Floats
    last_step: Flags
    points: Points
    steps: Ints
    complete: bool

    @property
    def work(self) -> int:
        """The work that the search took."""
        return int(self.points.state[WORK_DONE])

    def position(self, n: int, b: int) -> int:
        """The place of the point of n rounds and b ones; -1 if it has none."""
        offset, start, width = self.points.rows[:3, n].tolist()
        return int(offset + b - start) if 0 <= b - start < width else -1


def rounding_noise(n_rounds: int) -> float:
    """A bound on the rounding errors of the excess of a path."""
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
    from_start = _extend(counts, relaxation, cutoff, work_limit - from_end.work, from_end, cutoff / 2.0)
    end = from_start.position(counts.n_rounds, counts.n_ones)
    levels = None
    if from_start.complete and end >= 0 and from_start.last_step[end] >= 0:
        levels = walk_back(
            counts.n_zeros,
            counts.n_ones,
            lambda a, b: from_start.steps[from_start.last_step[from_start.position(a + b, b)]],
        )
    return Search(levels, from_start.complete, set_up + from_end.work + from_start.work)


def _mirrored(counts: Counts, relaxation: Relaxation) -> tuple[Counts, Relaxation]:
    """The same history with the two outcomes exchanged: its paths are the old ones, walked from the end."""
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
    """Extend paths from the start; `unreached` is the least excess ahead of points that `from_end` lacks."""
    n_rounds = counts.n_rounds
    if from_end is None:
        empty = np.zeros(n_rounds + 1, dtype=np.int64)
        ahead = Ahead(np.zeros(0), empty, empty, empty, 0.0, float(cutoff))
    else:
        # row n of a path from the end is row T - n from the start, and its ones are the zeros not used yet
        offsets, starts, widths = np.ascontiguousarray(from_end.points.rows[:3, ::-1])
        starts = starts + np.arange(n_rounds + 1) - counts.n_zeros
        excess = np.minimum(from_end.excess, unreached)
        ahead = Ahead(excess, offsets, starts, widths, float(unreached), float(cutoff))
    points, size = points_for(counts.n_zeros, counts.n_ones, work_limit), 16 * (n_rounds + 1)
    functions = relaxation.nodes, relaxation.zero_potential, relaxation.one_potential
    nodes, zero_potential, one_potential = (np.ascontiguousarray(values) for values in functions)
    (excess, last_step), steps, complete = extend_paths(
        _sides(counts, relaxation),
        (nodes, zero_potential, one_potential),
        step_limits(counts, relaxation, cutoff),
        ahead,
        points,
        (np.full(size, np.inf), np.full(size, -1, dtype=np.int32)),
    )
    return _Reached(excess, last_step, points, steps, complete)


def _sides(counts: Counts, relaxation: Relaxation) -> BothOutcomes:
    rounds = counts.expanded()
    zeros, ones = (relaxation.potential(outcome, rounds[outcome]) for outcome in (0, 1))
    return (
        (rounds[0], zeros, prefix(rounds[0]), prefix(zeros)),
        (rounds[1], ones, prefix(rounds[1]), prefix(ones)),
    )


def step_limits(counts: Counts, relaxation: Relaxation, cutoff: float) -> Ints:
    """For each range of v, the size of the largest step r+s that can stay below the cutoff; (VALUE_BINS,)."""
    edges = np.arange(VALUE_BINS + 1) / VALUE_BINS
    low, high = edges[:-1], edges[1:]
    fits = []
    for outcome, masses in enumerate((counts.zeros, counts.ones)):
        values, masses = counts.values[masses > 0], masses[masses > 0]
        # f_i(v) falls towards v = forecast_i from either side: its least value in a range is at the nearest v
        nearest = np.clip(values, low[:, None], high[:, None])
        excess = np.abs(values - nearest) + relaxation.potential(outcome, nearest)
        excess -= relaxation.potential(outcome, values)
        fits.append(_most_rounds(np.maximum(excess, 0.0), masses, cutoff))
    with np.errstate(divide="ignore"):
        largest = np.minimum(fits[0] / (1.0 - high), fits[1] / low)
    return np.minimum(largest + 1.0, counts.n_rounds).astype(np.int64)


def _most_rounds(excess: Floats, masses: Ints, cutoff: float) -> Ints:
    """How many rounds of each row, the cheapest first, have a total excess within the cutoff (rounded up).

    excess (N, K): that of a round with each forecast; masses (K,): rounds with that forecast. Shape (N,).
    """
    order = np.argsort(excess, axis=1)
    excess, masses = np.take_along_axis(excess, order, axis=1), masses[order]
    # one more forecast, dearer than any, makes the rule the same for all: the part of it that fits is rounded
    # up
    totals = np.pad(np.cumsum(excess * masses, axis=1), ((0, 0), (1, 1)), constant_values=(0.0, np.inf))
    rounds = np.pad(np.cumsum(masses, axis=1), ((0, 0), (1, 0)))
    excess = np.pad(excess, ((0, 0), (0, 1)), constant_values=np.inf)
    row, whole = np.arange(len(excess)), (totals <= cutoff).sum(axis=1) - 1
    part = (cutoff - totals[row, whole]) / excess[row, whole]
    return np.asarray(rounds[row, whole] + part.astype(np.int64) + 1)
