"""What the baselines on a grid {0, 1/m, ..., 1} share: its size, and the lean of a grid point."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from onlinecal.forecasters.baselines.baseline import Baseline
from onlinecal.forecasters.baselines.mixing import POINTS, Memory, count, new_memory, ones, play_two
from onlinecal.forecasters.binary.cells import inlined
from onlinecal.validation import check_count

MOST_CELLS = 1 << 20


@inlined
def error(memory: Memory, place: int) -> float:
    """-alpha, the sum of (y - i/m) at grid point i, in units of 1/(2m): a whole number."""
    m = int(memory[POINTS]) - 1
    return 2.0 * (m * ones(memory, place) - place * count(memory, place))


@inlined
def mean_error(memory: Memory, place: int) -> float:
    """The average of (y - i/m) at grid point i, in units of 1/(2m); 0 if it was never forecast."""
    rounds = count(memory, place)
    return error(memory, place) / rounds if rounds > 0.0 else 0.0


@inlined
def beyond(off: float, excused: float) -> float:
    """What of an error is not excused, with its sign."""
    if off > excused:
        return off - excused
    if off < -excused:
        return off + excused
    return 0.0


@inlined
def lean(memory: Memory, place: int) -> float:
    """By how much the error exceeds what half a cell a round excuses, with its sign, in units of 1/(2m).

    Positive: more ones came than the point can stand for; negative: fewer; 0: the average outcome is
    within 1/(2m). The point 0 never leans down, the point 1 never up.
    """
    return beyond(error(memory, place), count(memory, place))


@inlined
def hedge(memory: Memory, place: int, below: float, above: float) -> None:
    """Mix a point that leans up (below > 0) with its upper neighbour, which leans down (above < 0).

    The weights are such that neither outcome makes things worse in expectation, but for the width of the
    cell: below * weight = -above * (1 - weight).
    """
    play_two(memory, place, -above / (below - above), place + 1)


class GridBaseline(Baseline):
    """A baseline on a uniform grid; about T^(1/3) cells suit most of them.

    Parameters
    ----------
    horizon
        T, at least 1.
    n_cells
        m, instead of the number that suits the horizon.
    seed
        Of the draws: an integer or a sequence of integers, none negative.

    Raises
    ------
    ValueError
        For parameters that are not of this kind; the message names parameter and value.
    """

    randomised = True

    def __init__(
        self, horizon: int = 10_000, n_cells: int | None = None, seed: int | Sequence[int] = 0
    ) -> None:
        check_count(horizon, "horizon")
        if n_cells is not None:
            check_count(n_cells, "n_cells", most=MOST_CELLS)
        self.horizon = horizon
        self.n_cells = n_cells
        self.seed = seed
        m = n_cells or self._suitable_cells(horizon)
        self._begin(self._memory(m), seed)

    def _suitable_cells(self, horizon: int) -> int:
        return max(1, round(horizon ** (1 / 3)))

    def _memory(self, m: int) -> Any:
        return new_memory(np.arange(m + 1) / m)

    def expected_ece(self, rounds: int) -> float:
        """What the expected ECE cannot exceed while the draws are hidden, a sum over rounds.

        Unless a class says otherwise, T/(2m) + sqrt((m + 1) T).
        """
        m = self.n_points - 1
        return rounds / (2 * m) + math.sqrt((m + 1) * rounds)

    @property
    def n_points(self) -> int:
        """m + 1, the number of grid points."""
        return int(self.memory[POINTS])
