"""Which grid a run that tunes itself plays on next: its base grid, or a finer one that its account bears."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from onlinecal.forecasters.simplex.guarantees import MOST_CELLS, point_bound, reach
from onlinecal.forecasters.simplex.input import MOST_PARTS
from onlinecal.forecasters.simplex.machine.memory import FINENESS, most_late, records_of
from onlinecal.forecasters.simplex.machine.table import (
    BALANCE,
    BASE,
    CLASSES,
    FINE,
    POINT,
    REPORT,
    RESERVE,
    ROUNDS,
    SCALE,
    USED,
    units,
)

MANY = 1000
"""So many labels may be late on every grid, whatever is gained by finer ones."""
EAGERNESS = 2, 4
"""By REPORT: a grid is so fine that the distance on it is at most this part of what the charged points may be
biased, a half or a quarter: hints are worth more on finer cells, and bias is seldom as large as it may be."""

HEADROOM = 6
"""Where the grid may change it can become so many times twice as fine, with as many late labels."""
FEWEST_PARTS = 1 << 8


def allowance(k: int) -> int:
    """With what the balance begins: what a grid that tunes itself is guaranteed more than a nested one."""
    return RESERVE + 2 * k


def wish(
    memory: NDArray[np.int64], k: int, base: int, slack: float | None, grows: bool, parts: int = 1
) -> int:
    """The number of cells a side to play on next, for k classes from `base` up, a power of two.

    Units are so many `parts` of a cell on the finest grid.
    """
    if memory[BALANCE] < (RESERVE + 1) * int(units(memory)):
        return base
    bias, distance = bounds_of(k, min(k, base + 1), slack, bool(memory[REPORT]))
    biases, distances = int(memory[USED]) * bias, (int(memory[ROUNDS]) + 1) * distance
    cells, eagerness = base, EAGERNESS[memory[REPORT]]
    while 2 * cells <= MOST_CELLS and cells * biases < eagerness * distances:
        if most_late(k, 2 * cells * parts, slack, grows) < MANY:
            break
        cells *= 2
    return cells


@lru_cache(maxsize=256)
def bounds_of(k: int, support: int, slack: float | None, follows: bool) -> tuple[int, int]:
    """How far a charged point may be biased, and how far a round may be from it, in a unit of their own."""
    bias, distance = point_bound(support, slack), reach(k, k, follows)
    unit = bias.denominator * distance.denominator
    return int(bias * unit), int(distance * unit)


def next_review(rounds: int) -> int:
    """The round after which the grid is chosen again."""
    return rounds + max(2, rounds >> 3)


def rebased(memory: NDArray[np.int64], old: int, m: int) -> None:
    """Take the grid of m for the base, where it was that of `old` (0: none): its points are no orphans.

    What points have that leave it with a class more, or were played before, is in the guarantee already.
    """
    k, scale = int(memory[CLASSES]), int(memory[SCALE])
    memory[BASE] = scale // m
    if not old:
        memory[BALANCE] = allowance(k) * int(units(memory))
    if old in (0, m):
        return
    table = records_of(memory)
    points = table[:, POINT : POINT + k]
    on_new, on_old = ((points % (scale // cells) == 0).all(axis=1) for cells in (m, old))
    owed = int(np.abs(table[on_new & ~on_old, POINT + k :]).sum())
    memory[BALANCE] += owed * k * int(memory[FINE])


def parts_for(k: int, scale: int, slack: float | None, grows: bool, changing: bool, late: int) -> int:
    """Into how many parts rounds are divided, a power of two; ValueError if the grid is too fine."""
    finest = scale << (HEADROOM if changing else 0)
    parts = MOST_PARTS
    while parts > FEWEST_PARTS and (
        most_late(k, finest * parts, slack, grows) < MANY or k * finest * parts > FINENESS
    ):
        parts >>= 1
    if most_late(k, scale * parts, slack, grows) < late or k * scale * parts > FINENESS:
        raise ValueError(
            f"a grid of {scale} cells a side is too fine for soft labels over {k} classes: name fewer n_cells"
        )
    return parts
