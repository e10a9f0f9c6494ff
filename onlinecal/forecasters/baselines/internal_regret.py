"""Calibration by having no internal regret: the stationary distribution of a chain that follows regrets."""

from __future__ import annotations

import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray

from onlinecal.forecasters.baselines.grid import GridBaseline, lean
from onlinecal.forecasters.baselines.neighbours import HERE, between_neighbours
from onlinecal.forecasters.mixing import (
    POINTS,
    SUPPORT,
    Memory,
    count,
    mixing_rules,
    ones,
    play_many,
    play_one,
)

mix_neighbours = between_neighbours(lean)


@register_jitable
def regret(memory: Memory, place: int, other: int) -> float:
    """Brier score saved, had the other point been forecast whenever this one was; in units of 1/m^2."""
    m = int(memory[POINTS]) - 1
    return (place - other) * (count(memory, place) * (place + other) - 2.0 * m * ones(memory, place))


@register_jitable
def reach(memory: Memory, place: int) -> int:
    """The furthest point that a point regrets not to have been, short of its mirror in its mean outcome."""
    m, n = int(memory[POINTS]) - 1, count(memory, place)
    mirror = 2.0 * m * ones(memory, place) / n - place
    far = int(np.ceil(mirror)) - 1 if mirror > place else int(np.floor(mirror)) + 1
    return min(max(far, 0), m)


@register_jitable
def stationary(chain: NDArray[np.float64]) -> tuple[int, NDArray[np.float64]]:
    """The stationary distribution of a chain with these rates, and the first state that it lives on.

    Elimination from the last state to the first, after Grassmann, Taksar and Heyman: nothing is subtracted,
    so nothing cancels. A state that never returns to earlier ones leaves those behind. Overwrites `chain`.
    """
    first, states = 0, len(chain)
    for k in range(states - 1, 0, -1):
        leaving = chain[k, :k].sum()
        if leaving == 0.0:
            first = k
            break
        chain[:k, k] /= leaving
        for i in range(k):
            chain[i, :k] += chain[i, k] * chain[k, :k]
    weights = np.zeros(states)
    weights[first] = 1.0
    for k in range(first + 1, states):
        weights[k] = (weights[first:k] * chain[first:k, k]).sum()
    return first, weights / weights.sum()


@register_jitable
def mix_stationary(memory: Memory) -> None:
    """A point without regrets, or the stationary distribution of the chain that moves along regrets.

    A point regrets its neighbour if and only if it leans that way, and then all points up to its mirror image
    in its mean outcome. Two neighbours that lean towards each other are found as Foster finds them; what the
    chain can reach from there is an interval, and a point without regrets in it is where the chain ends.
    """
    mix_neighbours(memory)
    if memory[SUPPORT] == 1:
        return
    first, last = int(memory[HERE]), int(memory[HERE]) + 1
    grown = True
    while grown:
        grown = False
        for place in range(first, last + 1):
            if lean(memory, place) == 0.0:
                memory[HERE] = place
                play_one(memory, place)
                return
            far = reach(memory, place)
            if far < first or far > last:
                first, last = min(first, far), max(last, far)
                grown = True
    states = last - first + 1
    chain = np.zeros((states, states))
    for i in range(states):
        for j in range(states):
            chain[i, j] = max(0.0, regret(memory, first + i, first + j))
    _, weights = stationary(chain)
    play_many(memory, first, weights)


class FosterVohraForecaster(GridBaseline):
    """Draws so that no point regrets, in Brier score, not to have been another: the first of its kind.

    The draw is the stationary distribution of a chain that moves from point to point at the rates of their
    regrets; with T^(1/3) cells its expected ECE is of order T^(2/3) while the draws are hidden. A round costs
    the cube of the number of points that the chain can reach, in practice a few.

    References
    ----------
    Foster and Vohra (1998). Asymptotic calibration. Biometrika 85, 379-390. The rate is that cited by
    Arunachaleswaran, Collina, Roth and Shi (2024).
    """

    machine = mixing_rules(mix_stationary)
