"""Almost-One-Step-Ahead on the grid {0, 1/m, ..., 1}: one integer a point, O(1) a round.

The table holds the m + 1 sums, a position is its own index and the step is 1. See `cells` for the
protocol and the meaning of a sum.

Without hints the labels stay sorted: all points left of the current cell accept 0, all right of it
accept 1. Only the charged point can change its label, and then the neighbouring cell is valid. The
two loops at the end of `charge` therefore only ever turn after hints or late labels have disturbed
that order; they end because 0 always accepts 0 and 1 always accepts 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onlinecal.forecasters.binary.cells import (
    BRIM,
    HIGH,
    LOW,
    LOWER,
    MOVED,
    ROUNDS,
    SCALE,
    SPREAD,
    STEP,
    TABLE,
    TILT,
    Memory,
    header,
    inlined,
    rises_at_ends,
    travelled,
)

FORMAT_UNIFORM = 1


def new_memory(n_cells: int, rule: str, slack: float, report: str) -> NDArray[np.int64]:
    """The memory before the first round: any cell is valid then (sign) or the middle one (balanced)."""
    memory = header(FORMAT_UNIFORM, n_cells, max(1, 2**31 // n_cells), rule, slack, report)
    memory[LOWER], memory[STEP] = (n_cells - 1) // 2, 1
    return np.concatenate([memory, memory[TILT] * np.arange(n_cells + 1)])


def in_use(memory: NDArray[np.int64]) -> NDArray[np.int64]:
    """The memory without room to spare, of which it has none."""
    return memory


@inlined
def bears(memory: Memory) -> bool:
    """Whether no accumulator can wrap in one more round."""
    return bool(memory[MOVED] < BRIM and memory[SPREAD] < BRIM and memory[ROUNDS] < BRIM)


@inlined
def has_room(memory: Memory) -> bool:
    """The table never grows."""
    return bears(memory)


@inlined
def propose(memory: Memory, hint: float) -> tuple[int, int]:
    """The current cell, or with a hint the valid cell nearest to it (of two equally near, the lower)."""
    if hint < 0.0:
        return memory[LOWER], 1
    m, low, high = memory[SCALE], memory[LOW], memory[HIGH]
    target = hint * m
    left = min(int(target), m - 1)
    if memory[TABLE + left] <= high and memory[TABLE + left + 1] >= low:
        return left, 1
    right = left + 1
    left -= 1
    while True:
        if right >= m or (left >= 0 and target - (left + 1) <= right - target):
            if memory[TABLE + left] <= high and memory[TABLE + left + 1] >= low:
                return left, 1
            left -= 1
        else:
            if memory[TABLE + right] <= high and memory[TABLE + right + 1] >= low:
                return right, 1
            right += 1


@inlined
def charge(memory: Memory, lower: int, step: int, outcome: int, reported: float) -> None:
    """Charge the round to its end of the cell and make a valid cell current."""
    low, high = memory[LOW], memory[HIGH]
    point = lower + outcome
    change = point - outcome * memory[SCALE]
    new = memory[TABLE + point] + change
    memory[TABLE + point] = new
    bias = new - memory[TILT] * point
    memory[SPREAD] += abs(bias) - abs(bias - change)
    memory[MOVED] += travelled(memory, lower, step, outcome, reported)
    memory[ROUNDS] += 1
    cell = lower + (outcome & (new < low)) - ((1 - outcome) & (new > high))
    while memory[TABLE + cell] > high:
        cell -= 1
    while memory[TABLE + cell + 1] < low:
        cell += 1
    memory[LOWER] = cell


@inlined
def certificate_rises(memory: Memory, lower: int, step: int, reported: float) -> tuple[float, float]:
    """By how much the certificate would rise with outcome 0 and with outcome 1."""
    below, above = memory[TABLE + lower], memory[TABLE + lower + 1]
    return rises_at_ends(memory, lower, step, below, above, reported)
