"""The exact distance to calibration: shortest paths on the lattice of (zeros used, ones used).

Zeros Z_1 <= .. <= Z_n0 and ones O_1 <= .. <= O_n1 are the sorted forecasts of the rounds with outcome 0 and
outcome 1. A cheapest calibrated sequence is monotone within each outcome, so it is a path from (0, 0) to
(n0, n1) whose steps are level sets: r zeros and s ones at the value v = s/(r+s), at cost sum |Z_i - v| +
sum |O_j - v|. Level sets of equal value may be cut into primitive steps (r, s coprime), and taken by
increasing value the path is convex: only lattice points below the straight line to where it must end can
lie on it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import compiled, kernel_part
from onlinecal.measures.counts import Counts
from onlinecal.measures.distance.levels import Levels, make_levels


def exact_levels(counts: Counts) -> Levels:
    """Level sets of a nearest perfectly calibrated sequence. Time grows like n0^2 n1^2, memory like n0 n1."""
    zeros, ones = counts.expanded()
    steps = primitive_steps(len(zeros), len(ones))
    last_step = np.full((len(zeros) + 1, len(ones) + 1), -1, dtype=np.int32)
    shortest_paths(zeros, ones, steps, last_step)
    return _walk_back(steps, last_step)


def primitive_steps(n_zeros: int, n_ones: int) -> Ints:
    """All coprime (r, s) with r <= n_zeros and s <= n_ones by increasing s/(r+s); shape (N, 2)."""
    r, s = np.meshgrid(np.arange(n_zeros + 1), np.arange(n_ones + 1), indexing="ij")
    coprime = np.gcd(r, s) == 1
    steps = np.column_stack([r[coprime], s[coprime]]).astype(np.int64)
    # distinct fractions of whole numbers below 2**26 differ as floats
    return steps[np.argsort(steps[:, 1] / steps.sum(axis=1), kind="stable")]


@kernel_part
def prefix_costs(rounds: Floats, value: float, out: Floats) -> None:
    """Fill out[i] = sum of |rounds[j] - value| over j < i."""
    out[0] = 0.0
    for i in range(len(rounds)):
        out[i + 1] = out[i] + abs(rounds[i] - value)


@compiled
def shortest_paths(zeros: Floats, ones: Floats, steps: Ints, last_step: NDArray[np.int32]) -> Floats:
    """Cost of the cheapest path to each lattice point that a path to the end can use.

    zeros (n0,) and ones (n1,) float64, sorted; steps (N, 2) int64 as from `primitive_steps`; last_step
    (n0+1, n1+1) int32, filled with the row of `steps` that ends a cheapest path there (-1 = none).
    Returns the costs, shape (n0+1, n1+1) float64, infinite where no such path was needed.
    """
    n0, n1 = len(zeros), len(ones)
    cost = np.empty((n0 + 1, n1 + 1))
    for a in range(n0 + 1):
        for b in range(n1 + 1):
            cost[a, b] = np.inf
    cost[0, 0] = 0.0
    zero_costs = np.empty(n0 + 1)
    one_costs = np.empty(n1 + 1)
    for k in range(len(steps)):
        r, s = steps[k, 0], steps[k, 1]
        value = s / (r + s)
        prefix_costs(zeros, value, zero_costs)
        prefix_costs(ones, value, one_costs)
        for a in range(n0 - r + 1):
            top = n1 - s
            if r > 0:
                # so far no step was steeper than (r, s), and none from here on will be flatter
                top = min(top, a * s // r, (n1 * r - (n0 - a) * s) // r)
            zero_cost = zero_costs[a + r] - zero_costs[a]
            for b in range(top + 1):
                reached = cost[a, b] + (zero_cost + (one_costs[b + s] - one_costs[b]))
                if reached < cost[a + r, b + s]:
                    cost[a + r, b + s] = reached
                    last_step[a + r, b + s] = k
    return cost


def _walk_back(steps: Ints, last_step: NDArray[np.int32]) -> Levels:
    a, b = last_step.shape[0] - 1, last_step.shape[1] - 1
    taken = []
    while a or b:
        step = steps[last_step[a, b]]
        taken.append(step)
        a, b = a - int(step[0]), b - int(step[1])
    path = np.array(taken)
    return make_levels(path[:, 0], path[:, 1])
