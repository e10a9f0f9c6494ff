"""Calibration by online linear optimisation on the vector of biases."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onlinecal.forecasters.baselines.grid import GridBaseline, hedge
from onlinecal.forecasters.baselines.mixing import (
    POINTS,
    SETTINGS,
    Memory,
    mixing_rules,
    new_memory,
    own,
    play_one,
    value,
)
from onlinecal.forecasters.binary.cells import inlined

RATE = SETTINGS
"""The step size of the gradient steps."""


@inlined
def mix_by_bisection(memory: Memory) -> None:
    """A point that pulls nowhere or out of the grid, or two neighbours that pull towards each other."""
    direction, m = own(memory), int(memory[POINTS]) - 1
    if memory[direction] <= 0.0:
        play_one(memory, 0)
        return
    if memory[direction + m] >= 0.0:
        play_one(memory, m)
        return
    below, above = 0, m
    while above - below > 1:
        middle = (below + above) >> 1
        if memory[direction + middle] > 0.0:
            below = middle
        else:
            above = middle
    if memory[direction + above] == 0.0:
        play_one(memory, above)
    else:
        hedge(memory, below, memory[direction + below], memory[direction + above])


@inlined
def learn_direction(memory: Memory, place: int, outcome: int) -> None:
    """A gradient step along (outcome - forecast), kept in [-1, 1]."""
    at = own(memory) + place
    moved = memory[at] + memory[RATE] * (outcome - value(memory, place))
    memory[at] = min(1.0, max(-1.0, moved))


class LinearOptimisationForecaster(GridBaseline):
    """Keeps all grid points' biases small by playing against a vector that gradient ascent moves.

    The ECE is the largest inner product of the errors with such a vector; gradient ascent is within
    sqrt((m + 1) T) of it, and for each of its vectors some draw between two neighbours, found by bisection,
    keeps the expected product below 1/(2m). While the draws are hidden, E[ECE] <= T/(2m) + sqrt((m + 1) T)
    at the horizon T, about 1.5 T^(2/3) at m = T^(1/3). A round takes log2(m) steps, whatever T is.

    References
    ----------
    Abernethy, Bartlett and Hazan (2011). Blackwell approachability and no-regret learning are equivalent.
    COLT, section on calibration. Here the gradient step is taken at the point that was drawn.
    """

    machine = mixing_rules(mix_by_bisection, learn_direction)

    def _memory(self, m: int) -> Any:
        return new_memory(np.arange(m + 1) / m, [math.sqrt((m + 1) / self.horizon)], own=m + 1)

    def expected_ece(self, rounds: int) -> float:
        """t/(2m) + sqrt((m + 1) T) (1 + t/T)/2 after t rounds: the step size is made for the horizon T."""
        m = self.n_points - 1
        return rounds / (2 * m) + math.sqrt((m + 1) * self.horizon) * (1.0 + rounds / self.horizon) / 2.0
