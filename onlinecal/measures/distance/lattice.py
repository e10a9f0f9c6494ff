"""The exact distance of a short history: a shortest path on the lattice of (zeros used, ones used).

Zeros Z_1 <= .. <= Z_n0 and ones O_1 <= .. <= O_n1 are the sorted forecasts of the rounds with outcome 0 and
outcome 1. A cheapest calibrated sequence is monotone within each outcome, so it is a path from (0, 0) to
(n0, n1) whose steps are level sets: r zeros and s ones at the value v = s/(r+s), at cost sum |Z_i - v| + sum
|O_j - v|. Level sets of equal value may be cut into primitive steps (r, s coprime), and taken by increasing
value the path is convex: only lattice points below the straight line to where it must end can lie on it.

For longer histories `exact.py` looks only at a part of this lattice.

Nothing here has a state. Steps come in the order of their values, as `primitive_steps` gives them:
`path_costs` and `step_back` rely on that order. Of equally cheap paths `step_back` takes the one whose last
step comes first, so the order decides which level sets are the witness. `narrowing.py` calls `steps_within`
and `exact_levels`; START_WORK is part of how it decides, and so of brackets that are not exact.
"""

from __future__ import annotations

import math

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import compiled, uncounted
from onlinecal.measures.counts import Counts, prefix
from onlinecal.measures.distance.levels import Levels, count_up_to, make_levels, walk_back

SortedRounds = tuple[Floats, Floats]
"""The sorted forecasts of the rounds with one outcome, (n,), and their prefix sums, (n+1,)."""

START_WORK = 0.005
"""The work for a point that a step starts from, in points that a search looks at. It is small because only
some points are on the way to the end, and these are quick to look at."""


def exact_levels(counts: Counts, steps: Ints | None = None, most: float = math.inf) -> Levels:
    """Level sets of a nearest perfectly calibrated sequence.

    steps (N, 2): rows of `primitive_steps` that the path may use; None: all, and time grows like n0^2 n1^2.
    most: what a nearest sequence costs at most, up to rounding; points that cost more are passed over.
    """
    if not counts.n_zeros or not counts.n_ones:
        return make_levels(np.array([counts.n_zeros]), np.array([counts.n_ones]))
    rounds = counts.expanded()
    sides = (rounds[0], prefix(rounds[0])), (rounds[1], prefix(rounds[1]))
    n_zeros, n_ones = len(rounds[0]), len(rounds[1])
    if steps is None:
        steps = primitive_steps(n_zeros, n_ones)
    values = steps[:, 1] / steps.sum(axis=1)
    costs = path_costs(sides, steps, most)

    def last_step(a: int, b: int) -> Ints:
        # paths are convex: none is steeper before its last step
        first = int(np.searchsorted(values, b / (a + b)))
        return np.asarray(steps[step_back(sides, steps, costs, first, a, b)])

    return walk_back(n_zeros, n_ones, last_step)


def steps_within(counts: Counts, limits: Ints) -> Ints:
    """The primitive steps of at most limits[k] rounds whose value lies in range k of as many equal ones."""
    largest = int(limits.max())
    steps = primitive_steps(min(counts.n_zeros, largest), min(counts.n_ones, largest))
    sizes = steps.sum(axis=1)
    ranges = np.minimum(steps[:, 1] * len(limits) // sizes, len(limits) - 1)
    return np.asarray(steps[sizes <= limits[ranges]])


def lattice_work(counts: Counts, limits: Ints) -> float:
    """Expected time of `exact_levels` with steps within these limits, in points that a search looks at."""
    sizes = np.arange(1, int(limits.max()) + 1)
    value = (np.arange(len(limits))[:, None] + 0.5) / len(limits)
    zeros, ones = counts.n_zeros + 1 - (1.0 - value) * sizes, counts.n_ones + 1 - value * sizes
    starts = np.maximum(zeros, 0.0) * np.maximum(ones, 0.0) * (sizes <= limits[:, None])
    # of the numbers up to a size, the share 6/pi^2 is coprime to it
    return START_WORK * 6.0 / math.pi**2 * float((starts * sizes).sum()) / len(limits)


def primitive_steps(n_zeros: int, n_ones: int) -> Ints:
    """All coprime (r, s) with r <= n_zeros and s <= n_ones by increasing s/(r+s); shape (N, 2)."""
    r, s = np.meshgrid(np.arange(n_zeros + 1), np.arange(n_ones + 1), indexing="ij")
    coprime = np.gcd(r, s) == 1
    steps = np.column_stack([r[coprime], s[coprime]]).astype(np.int64)
    # distinct fractions of whole numbers below 2**26 differ as floats
    return steps[np.argsort(steps[:, 1] / steps.sum(axis=1), kind="stable")]


@uncounted
def fill_costs(sums: Floats, value: float, below: int, out: Floats) -> None:
    """Fill in the sums of |forecast - value| over the first i rounds; `below` of all are at most value."""
    for i in range(below + 1):
        out[i] = value * i - sums[i]
    for i in range(below + 1, len(sums)):
        out[i] = value * (2 * below - i) + (sums[i] - 2.0 * sums[below])


@compiled
def path_costs(sides: tuple[SortedRounds, SortedRounds], steps: Ints, most: float) -> Floats:
    """Cost of the cheapest path to each lattice point that a path to the end can use, (n0+1, n1+1).

    steps (N, 2) int64 as from `primitive_steps`. Costs are infinite where no such path was needed, and those
    above `most` may be too large.
    """
    (zeros, zero_sums), (ones, one_sums) = sides
    n0, n1, below0, below1 = len(zeros), len(ones), 0, 0
    zero_costs, one_costs, step_costs = np.empty(n0 + 1), np.empty(n1 + 1), np.empty(n1 + 1)
    costs = np.full((n0 + 1, n1 + 1), np.inf)
    costs[0, 0] = 0.0
    # in row a only points left[a] .. right[a] may be on a path that costs at most `most`
    left, right = np.full(n0 + 1, n1 + 1), np.full(n0 + 1, -1)
    left[0] = right[0] = 0
    for k in range(len(steps)):
        r, s = steps[k, 0], steps[k, 1]
        value = s / (r + s)
        while below0 < n0 and zeros[below0] <= value:
            below0 += 1
        while below1 < n1 and ones[below1] <= value:
            below1 += 1
        fill_costs(zero_sums, value, below0, zero_costs)
        fill_costs(one_sums, value, below1, one_costs)
        for b in range(n1 - s + 1):
            step_costs[b] = one_costs[b + s] - one_costs[b]
        if r == 0:
            # the step is one round at the value 1, and another such step may follow it at once
            for b in range(n1):
                costs[n0, b + 1] = min(costs[n0, b + 1], costs[n0, b] + step_costs[b])
            continue
        # no earlier step was steeper than (r, s), and no later step is flatter
        first = 0
        if s > 0:
            first = max(0, n0 - n1 * r // s)
        for a in range(first, n0 - r + 1):
            here, start, end = costs[a], 0, min(n1 - s, a * s // r, (n1 * r - (n0 - a) * s) // r)
            if most < np.inf:
                start, last = left[a], right[a]
                # the rest of a path costs as much at least as its forecasts and its ones differ in sum
                rest = zero_sums[n0] - zero_sums[a] + one_sums[n1] - n1
                while start <= last and here[start] + abs(rest - one_sums[start] + start) > most:
                    start += 1
                while last > start and here[last] + abs(rest - one_sums[last] + last) > most:
                    last -= 1
                left[a], right[a], end = start, last, min(end, last)
                if start > end:
                    continue
                left[a + r], right[a + r] = min(left[a + r], start + s), max(right[a + r], end + s)
            zero_cost, there = zero_costs[a + r] - zero_costs[a], costs[a + r, s:]
            # there is no branch, and the step is not noted, so that the processor takes four points at a time
            for b in range(start, end + 1):
                reached = here[b] + (zero_cost + step_costs[b])
                there[b] = reached if reached < there[b] else there[b]
    return costs


@compiled
def step_back(
    sides: tuple[SortedRounds, SortedRounds], steps: Ints, costs: Floats, first: int, a: int, b: int
) -> int:
    """The row of `steps`, from row `first` on, that ends a cheapest path to the point of a zeros, b ones."""
    best, best_step = np.inf, -1
    for k in range(first, len(steps)):
        r, s = steps[k, 0], steps[k, 1]
        if r > a or s > b or costs[a - r, b - s] >= best:
            continue
        value = s / (r + s)
        reached = costs[a - r, b - s] + level_cost(sides[0], a - r, a, value)
        reached += level_cost(sides[1], b - s, b, value)
        if reached < best:
            best, best_step = reached, k
    return best_step


@uncounted
def level_cost(side: SortedRounds, start: int, end: int, value: float) -> float:
    """Sum of |forecast - value| over the rounds start .. end-1 of one outcome."""
    rounds, sums = side
    middle = min(max(count_up_to(rounds, value), start), end)
    return value * (2 * middle - start - end) - (2.0 * sums[middle] - sums[start] - sums[end])
