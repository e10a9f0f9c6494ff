"""Compiled search over the lattice points that paths below a cutoff reach.

Steps are taken in the order of their value v; `steps` says where each may fit, and what a side is.
`extend_paths` is one long function: cut into parts, it took numba a seventh longer to compile.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import compiled, kernel_part
from onlinecal.measures.distance.exact.steps import (
    BLOCK,
    Side,
    first_fractions,
    fitting_window,
    next_fraction,
    step_excess,
)
from onlinecal.measures.distance.pooling import infinite

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
