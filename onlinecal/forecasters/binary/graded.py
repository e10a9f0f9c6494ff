"""Graded grids: finer in the middle, where a step of the grid would cost most.

A cell below 1/2 reports its lower end, so that only outcomes 1 cost its width; a cell above 1/2 reports its
upper end, so that only outcomes 0 do. With w the width of the cell below a point v <= 1/2, each round that
is charged to v then costs v w on average, but for the bias of v. A graded grid has v w = lambda at every
point, and 1/2 is one of its points (docs/theory.md, Theorem 7d). Points are whole numbers of 2^-28.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

GRAIN_BITS = 28
GRAIN = 1 << GRAIN_BITS
MOST_SPLIT = 3
"""Once outcomes are shares no cell is wider than this many times lambda."""
MOST_HALF = 1 << 19
"""Cells below 1/2, at most: the narrowest are then some 2^7 units wide."""


@lru_cache(64)
def graded_points(half: int) -> NDArray[np.int64]:
    """The points of the graded grid with so many cells below 1/2 and as many above, in units of 2^-28."""
    rate, step = 1.0 / (8 * half), 1.0
    # steps like Newton's: v^2 of the lowest point falls 2 * half times as fast as the rate rises
    while abs(step) > 1e-15 * rate and half > 1:
        step = (_below(rate, half)[-1] ** 2 - rate) / (2 * half)
        rate += step
    lower = [0, *(round(v * GRAIN) for v in reversed(_below(rate, half)))]
    points = np.array([*lower, *(GRAIN - v for v in reversed(lower[:-1]))], np.int64)
    points.setflags(write=False)
    return points


def _below(rate: float, half: int) -> list[float]:
    """The points from 1/2 down to the lowest above 0, where v w is the rate, and at 1/2 itself w is."""
    v = 0.5
    found = [v]
    for place in range(half - 1):
        v -= rate / v if place else rate
        found.append(v)
    return found


NESTED_STAGES = 5
"""The nested grid of stage s has 2^s cells; up to this stage its points are some of NESTED_POINTS."""
NESTED_POINTS = graded_points(1 << (NESTED_STAGES - 1))
NESTED_ROUNDS = np.array([4, 42, 222, 800, 4865], np.int64)
"""So many rounds, times the slack, the grids of the stages 1 to NESTED_STAGES serve; later ones four times as
many as the one before. By the first four the guarantee is never above sqrt(3 t), at slack 1/2."""
LAST_STAGE = 19
"""The last stage serves for ever: at slack 1/2 it begins after some 10^11 rounds."""


class Nested(NamedTuple):
    """What the guarantee needs of a nested grid and of the next one: its prices, and two more such numbers.

    When the next grid takes over, the kappa of its points change. `turn` is the sum of the sizes of these
    changes; `late_turn` that with the weights max(v, 1 - v), and the largest of these once more. `half_split`
    is what half of the widest cell is, as a rate, if cells are split for shares.
    """

    rate: int
    weight: int
    corners: int
    turn: int
    late_turn: int
    half_split: int


def nested_points(stage: int, split_at: int = 0) -> NDArray[np.int64]:
    """The points of the nested grid of 2^stage cells, in units of 2^-28.

    If its wide cells were split for shares at a stage, `split_at`, there are more.
    """
    first = split_at or min(stage, NESTED_STAGES)
    if split_at:
        points = split(nested_points(split_at), nested(split_at).rate)
    else:
        points = NESTED_POINTS[:: 1 << (NESTED_STAGES - first)]
    for _ in range(first, stage):
        middles = (points[:-1] + points[1:]) >> 1
        points = np.insert(points, np.arange(1, len(points)), middles)
    return points


@lru_cache(LAST_STAGE)
def nested(stage: int) -> Nested:
    """What the guarantee needs of the nested grid of 2^stage cells."""
    points = nested_points(stage)
    finer = nested_points(min(stage + 1, LAST_STAGE))
    inner = points[1:-1]
    (ones, zeros), later = _costs(points), _costs(finer)
    turns = np.abs(zeros - ones - (later[1] - later[0])[np.searchsorted(finer, inner) - 1])
    weighted = -(-turns * np.maximum(inner, GRAIN - inner) // GRAIN)
    owned = prices(points)
    widest = int(np.diff(split(points, owned[0])).max())
    late_turn = int(weighted.sum() + weighted.max())
    return Nested(*owned, int(turns.sum()), late_turn, widest * (GRAIN >> 1))


def best_half(rounds: int, weight: float) -> int:
    """For which number of cells below 1/2 the sum of rounds * lambda and `weight` for each point is least."""
    about = math.sqrt(rounds / (16.0 * weight))
    first = min(max(1, int(about + 0.25 * math.log(max(about, 1.0)) + 0.5)), MOST_HALF - 2)
    return min(range(first, first + 3), key=lambda half: _number(rounds, weight, half))


def _number(rounds: int, weight: float, half: int) -> float:
    rate, points, _ = prices(graded_points(half))
    return rounds * rate / GRAIN**2 + weight * points / GRAIN


def prices(points: NDArray[np.int64]) -> tuple[int, int, int]:
    """Of a grid: lambda, the sum of 1 + |kappa| over the inner points, that with the weights max(v, 1 - v).

    Lambda is in units of 1/scale^2, the sums are in units of 1/scale, the second rounded up.
    """
    scale, inner = points[-1], points[1:-1]
    ones, zeros = _costs(points)
    rate = (inner * ones + (scale - inner) * zeros).max()
    weights = scale + np.abs(zeros - ones)
    corners = -(-weights * np.maximum(inner, scale - inner) // scale)
    return int(rate), int(weights.sum()), int(corners.sum())


def _costs(points: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How far from its report each inner point is when it is charged with a one, and with a zero."""
    scale, inner, widths = points[-1], points[1:-1], np.diff(points)
    return np.where(2 * inner <= scale, widths[:-1], 0), np.where(2 * inner >= scale, widths[1:], 0)


def split(points: NDArray[np.int64], rate: int) -> NDArray[np.int64]:
    """The points, and as many more, evenly in each cell, as leave none wider than 3 times this lambda."""
    widest = max(1, MOST_SPLIT * rate // int(points[-1]))
    pieces = -(-np.diff(points) // widest)
    cells = zip(points.tolist(), points[1:].tolist(), pieces.tolist(), strict=False)
    return np.array(
        [low + (high - low) * part // number for low, high, number in cells for part in range(number)]
        + [int(points[-1])],
        np.int64,
    )
