"""The baselines on a grid {0, 1/m, ..., 1}: what they share, and one after another their rules.

Most of them choose between two neighbouring grid points, one that leans up and one that leans down. Walk the
grid from 0 to 1: the first point cannot lean down, the last cannot lean up. So there is a point that leans
neither way, which may be forecast as it is, or two neighbours that lean towards each other. Foster draws one
of the two; so do Foster and Hart, but for them every error counts, however small, and leans are average
errors; Gupta and Ramdas, who answer after the outcome, pick the one that it suits. Foster and Vohra have no
internal regret: their draw is the stationary distribution of a chain that follows regrets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.compiling import inlined
from onlinecal.forecasters.baselines.mixing import (
    POINTS,
    SETTINGS,
    SUPPORT,
    Baseline,
    Memory,
    count,
    mixing_rules,
    new_memory,
    ones,
    own,
    play_many,
    play_one,
    play_two,
    value,
)
from onlinecal.validation import check_count

MOST_CELLS = 1 << 20
HERE = SETTINGS
"""Where the last mixture of neighbours was: the search starts from there."""
RATE = SETTINGS
"""The step size of gradient steps."""
NO_GAIN = 1e-12
"""Relative size of an improvement that is not worth another point."""


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
        horizon = check_count(horizon, "horizon")
        if n_cells is not None:
            n_cells = check_count(n_cells, "n_cells", most=MOST_CELLS)
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


def between_neighbours(leaning: Callable[[Memory, int], float]) -> Callable[[Memory], None]:
    """The mixture of the nearest point that does not lean, or of two that lean towards each other."""

    @inlined
    def mix(memory: Memory) -> None:
        here = int(memory[HERE])
        mine = leaning(memory, here)
        while mine > 0.0:
            above = leaning(memory, here + 1)
            if above < 0.0:
                break
            here, mine = here + 1, above
        while mine < 0.0:
            here, mine = here - 1, leaning(memory, here - 1)
        memory[HERE] = here
        if mine == 0.0:
            play_one(memory, here)
        else:
            hedge(memory, here, mine, leaning(memory, here + 1))

    return mix


class FosterForecaster(GridBaseline):
    """Draws between neighbouring grid points whose average outcomes are more than half a cell off.

    While the draws are hidden, E[ECE] <= T/(2m) + sqrt((m + 1) T), about 1.5 T^(2/3) at m = T^(1/3): the
    sum over points of the squared lean grows by at most 1 a round in expectation.

    References
    ----------
    Foster (1999). A proof of calibration via Blackwell's approachability theorem. Games and Economic
    Behavior 29, 73-78.
    """

    machine = mixing_rules(between_neighbours(lean))
    places = (HERE,)


class FosterHartForecaster(GridBaseline):
    """Draws between neighbouring grid points whose average errors differ in sign: hedging the forecast.

    Like Foster's, but without a tolerance: every error is worked off. While the draws are hidden,
    E[ECE] <= T/(2m) + sqrt((m + 1) T (1 + log(T/(m + 1)))): the sum over points of (average error)^2 times
    rounds grows in expectation by at most 1/(4m^2) a round, and by 1/n the nth time a point is drawn.

    References
    ----------
    Foster and Hart (2021). Forecast hedging and calibration. Journal of Political Economy 129, 3447-3490.
    """

    machine = mixing_rules(between_neighbours(mean_error))
    places = (HERE,)

    def expected_ece(self, rounds: int) -> float:
        """T/(2m) + sqrt((m + 1) T (1 + log(T/(m + 1)))), the logarithm being 0 if T is less than m + 1."""
        m = self.n_points - 1
        logarithm = math.log(max(1.0, rounds / (m + 1)))
        return rounds / (2 * m) + math.sqrt((m + 1) * rounds * (1.0 + logarithm))


class PowerOfTwoChoices(GridBaseline):
    """A reference that names two neighbouring points, looks at the outcome, and answers with one of them.

    No forecaster, since it peeks: without any draw its ECE is at most T/(2m) + m + 1, about sqrt(2T) with
    m = sqrt(T/2). `replay` gives its answers; `predict_proba_one`, which must speak before the outcome, the
    mean of the two points.

    References
    ----------
    Gupta and Ramdas (2022). Faster online calibration without randomization: interval forecasts and the
    power of two choices. COLT.
    """

    machine = mixing_rules(between_neighbours(lean))
    places = (HERE,)
    randomised = False

    def __init__(self, horizon: int = 10_000, n_cells: int | None = None) -> None:
        super().__init__(horizon, n_cells)

    def _suitable_cells(self, horizon: int) -> int:
        return max(1, round(math.sqrt(horizon / 2)))

    def _memory(self, m: int) -> Any:
        return new_memory(np.arange(m + 1) / m, peeks=True)

    def expected_ece(self, rounds: int) -> float:
        """Nothing is drawn: as `promise`."""
        return self.promise(rounds)

    def promise(self, rounds: int) -> float:
        """T/(2m) + m + 1: the ECE of the answers cannot exceed it, a sum."""
        m = self.n_points - 1
        return rounds / (2 * m) + m + 1


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


@inlined
def rise(memory: Memory, place: int, outcome: int) -> float:
    """By how much that point's squared lean rises if it is forecast and this outcome comes."""
    m = int(memory[POINTS]) - 1
    after = beyond(error(memory, place) + 2.0 * (m * outcome - place), count(memory, place) + 1.0)
    before = lean(memory, place)
    return (after - before) * (after + before)


@inlined
def best_against(memory: Memory, share: float) -> int:
    """The point with the smallest rise against outcomes that are 0 with this probability."""
    best, least, tie = 0, np.inf, np.inf
    for place in range(int(memory[POINTS])):
        zero, one = rise(memory, place, 0), rise(memory, place, 1)
        mean = share * zero + (1.0 - share) * one
        if mean < least or (mean == least and max(zero, one) < tie):
            best, least, tie = place, mean, max(zero, one)
    return best


@inlined
def mix_minimax(memory: Memory) -> None:
    """The mixture whose worst expected rise is smallest: one point or two, found by adding columns.

    The program min over w of max(w.zeros, w.ones) has an optimal mixture of at most two points. Start with
    the best point against each outcome; against the share of zeros that makes the two equal, look for a
    point that is better than both; let it replace the one on its side; repeat until there is none.
    """
    low, high = best_against(memory, 1.0), best_against(memory, 0.0)
    low_gap = rise(memory, low, 1) - rise(memory, low, 0)
    high_gap = rise(memory, high, 0) - rise(memory, high, 1)
    while low_gap > 0.0 and high_gap > 0.0:
        share = (rise(memory, low, 1) - rise(memory, high, 1)) / (low_gap + high_gap)
        found = best_against(memory, share)
        zero, one = rise(memory, found, 0), rise(memory, found, 1)
        gain = share * (rise(memory, low, 0) - zero) + (1.0 - share) * (rise(memory, low, 1) - one)
        if found in (low, high) or gain <= NO_GAIN * (abs(zero) + abs(one)):
            play_two(memory, low, high_gap / (low_gap + high_gap), high)
            return
        if one >= zero:
            low, low_gap = found, one - zero
        else:
            high, high_gap = found, zero - one
    play_one(memory, low if low_gap <= 0.0 else high)


class MinimaxForecaster(GridBaseline):
    """Draws from the mixture that is best against the worse outcome of the coming round.

    Calibration follows from the minimax theorem, as Hart observed: against a known mixture of outcomes there
    is a good forecast, so there is a mixture of forecasts that is good against every outcome. His game lasts
    T rounds; this one is played a round at a time, for the sum of squared leans of Foster's proof. While
    the draws are hidden, E[ECE] <= T/(2m) + sqrt((m + 1) T), since its mixture is no worse than Foster's.
    A round takes O(m) steps.

    References
    ----------
    Hart (2025). Calibrated forecasts: the minimax proof. Games of No Strategy and Low-Grade Combinatorics; a
    proof of 1995, first told in Foster and Vohra (1998).
    """

    machine = mixing_rules(mix_minimax)
