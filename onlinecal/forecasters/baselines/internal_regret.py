"""Calibration by having no internal regret: the stationary distribution of a chain that follows regrets."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from onlinecal.forecasters.baselines.grid import GridBaseline, lean
from onlinecal.forecasters.baselines.mixing import (
    POINTS,
    SUPPORT,
    Memory,
    count,
    mixing_rules,
    ones,
    play_many,
    play_one,
)
from onlinecal.forecasters.baselines.neighbours import HERE, between_neighbours
from onlinecal.forecasters.binary.cells import inlined

mix_neighbours = between_neighbours(lean)


@inlined
def regret(memory: Memory, place: int, other: int) -> float:
    """Brier score saved, had the other point been forecast whenever this one was; in units of 1/m^2."""
    m = int(memory[POINTS]) - 1
    return (place - other) * (count(memory, place) * (place + other) - 2.0 * m * ones(memory, place))


@inlined
def reach(memory: Memory, place: int) -> int:
    """The furthest point that a point regrets not to have been, short of its mirror in its mean outcome."""
    m, n = int(memory[POINTS]) - 1, count(memory, place)
    mirror = 2.0 * m * ones(memory, place) / n - place
    far = int(np.ceil(mirror)) - 1 if mirror > place else int(np.floor(mirror)) + 1
    return min(max(far, 0), m)


@inlined
def stationary(chain: NDArray[np.float64]) -> tuple[int, NDArray[np.float64]]:
    """The stationary distribution of a chain with these rates, and the first state that it lives on.

    Elimination from the last state to the first, after Grassmann, Taksar and Heyman: nothing is subtracted,
    so nothing cancels. A state that never returns to earlier ones leaves those behind. Overwrites `chain`.
    """
    first, states = 0, len(chain)
    for k in range(states - 1, 0, -1):
        low, leaving = k, 0.0
        for j in range(k - 1, -1, -1):
            if chain[k, j] > 0.0:
                low = j
                leaving += chain[k, j]
        if low == k:
            first = k
            break
        for i in range(k):
            if chain[i, k] > 0.0:
                chain[i, k] /= leaving
                for j in range(low, k):
                    chain[i, j] += chain[i, k] * chain[k, j]
    weights = np.zeros(states)
    weights[first], total = 1.0, 1.0
    for k in range(first + 1, states):
        for i in range(first, k):
            weights[k] += weights[i] * chain[i, k]
        total += weights[k]
    for k in range(first, states):
        weights[k] /= total
    return first, weights


@inlined
def mix_stationary(memory: Memory) -> None:
    """A point without regrets, or the stationary distribution of the chain that moves along regrets.

    A point regrets its neighbour if and only if it leans that way, and then all points up to its mirror image
    in its mean outcome. Two neighbours that lean towards each other are found as Foster finds them; what the
    chain can reach from there is an interval, and a point without regrets in it is where the chain may end.
    """
    mix_neighbours(memory)
    if memory[SUPPORT] == 1:
        return
    first, last = int(memory[HERE]), int(memory[HERE]) + 1
    # looked at so far: from `left` to `right`
    left, right = last, first
    while first < left or right < last:
        if first < left:
            left -= 1
            place = left
        else:
            right += 1
            place = right
        if lean(memory, place) == 0.0:
            memory[HERE] = place
            play_one(memory, place)
            return
        far = reach(memory, place)
        first, last = min(first, far), max(last, far)
    states = last - first + 1
    chain = np.zeros((states, states))
    for place in range(first, last + 1):
        far = reach(memory, place)
        for other in range(min(place, far), max(place, far) + 1):
            chain[place - first, other - first] = max(0.0, regret(memory, place, other))
    _, weights = stationary(chain)
    play_many(memory, first, weights)


class FosterVohraForecaster(GridBaseline):
    """Draws so that no grid point regrets, by Brier score, that it was not another: the first of its kind.

    The draw is the stationary distribution of a chain that moves from point to point at the rates of their
    regrets. While the draws are hidden, E[ECE] <= T/(2m) + sqrt(m + 1) T^(3/4): the sum of squared positive
    regrets grows by at most m a round in expectation. That is what docs/theory-baselines.md proves. The rate
    of the literature is T^(2/3), at m = T^(1/3), and that is what one sees. A round costs up to the cube of
    the number of points that the chain can reach, which adversaries can make most of the grid.

    References
    ----------
    Foster and Vohra (1998). Asymptotic calibration. Biometrika 85, 379-390. The rate of T^(2/3) is credited
    to them by Arunachaleswaran, Collina, Roth and Shi (2024).
    """

    machine = mixing_rules(mix_stationary)
    places = (HERE,)

    def expected_ece(self, rounds: int) -> float:
        """T/(2m) + sqrt(m + 1) T^(3/4): bounds the expected ECE while the draws are hidden, a sum."""
        m = self.n_points - 1
        return rounds / (2 * m) + math.sqrt(m + 1) * rounds**0.75
