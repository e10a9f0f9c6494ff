"""The baselines on a grid {0, 1/m, ..., 1}: what they share, and then the rules of each.

Most of them choose between two neighbouring grid points, one that leans up and one that leans down. Walk the
grid from 0 to 1: the first point cannot lean down, the last cannot lean up. So there is a point that leans
neither way, which may be forecast as it is, or there are two neighbours that lean towards each other.

Foster draws one of the two. So do Foster and Hart, but their leans are average errors, and every error
counts, however small. Gupta and Ramdas answer after the outcome, with the point that it suits. Foster and
Vohra have no internal regret: their draw is the stationary distribution of a chain that follows regrets.

Memories are those of `mixing`, which says how a round goes and what always holds. `learn` of a baseline
writes its own numbers behind the lists, and nothing else; `mix` reads all, and writes the mixture, and
LAST_PLACE where the machine has that. Equal seeds give equal draws, so the order in which draws are used may
not change. Nor may the order of a mixture's points, of which the first that a draw reaches is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.compiling import inlined
from onlinecal.forecasters.baselines.mixing import (
    FIRST_SETTING,
    POINTS,
    SUPPORT_SIZE,
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
LAST_PLACE = FIRST_SETTING
"""The setting that has the place of the last mixture of neighbours, from which the next search starts."""
STEP_SIZE = FIRST_SETTING
"""The setting of another machine, which has the size of gradient steps."""
LEAST_IMPROVEMENT = 1e-12
"""A smaller improvement, relative to the rises, is not worth another point."""


@inlined
def error(memory: Memory, place: int) -> float:
    """The sum of (y - i/m) at grid point i, which is -alpha, in units of 1/(2m): a whole number."""
    m = int(memory[POINTS]) - 1
    return 2.0 * (m * ones(memory, place) - place * count(memory, place))


@inlined
def mean_error(memory: Memory, place: int) -> float:
    """The average of (y - i/m) at grid point i, in units of 1/(2m); 0 if it was never forecast."""
    rounds = count(memory, place)
    return error(memory, place) / rounds if rounds > 0.0 else 0.0


@inlined
def beyond(off: float, tolerance: float) -> float:
    """The part of an error that is beyond the tolerance, with its sign."""
    if off > tolerance:
        return off - tolerance
    if off < -tolerance:
        return off + tolerance
    return 0.0


@inlined
def lean(memory: Memory, place: int) -> float:
    """By how much the error exceeds half a cell for each round, with its sign, in units of 1/(2m).

    A lean is positive if the average outcome is more than 1/(2m) above the point, negative if it is more than
    that below it, else 0. The point 0 never leans down, the point 1 never up.
    """
    return beyond(error(memory, place), count(memory, place))


@inlined
def hedge(memory: Memory, place: int, below: float, above: float) -> None:
    """Mix a point that leans up (below > 0) with its upper neighbour, which leans down (above < 0).

    The weights make the expected lean 0, below * weight = -above * (1 - weight). So neither outcome makes
    things worse in expectation by more than the width of the cell.
    """
    play_two(memory, place, -above / (below - above), place + 1)


class GridBaseline(Baseline):
    """A baseline on a uniform grid; about T^(1/3) cells suit most of them.

    Parameters
    ----------
    horizon
        T, at least 1.
    n_cells
        m, at least 1, instead of the number that suits the horizon.
    seed
        Of the draws: an integer or a sequence of integers, none negative. The same seed and outcomes give the
        same forecasts.

    Raises
    ------
    ValueError
        If a parameter is not of this kind; the message names parameter and value.
    """

    randomised = True

    def __init__(
        self, horizon: int = 10_000, *, n_cells: int | None = None, seed: int | Sequence[int] = 0
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
        """A bound on the mean ECE after `rounds` rounds whose draws are hidden, a sum over rounds.

        The ECE is the sum over grid points of |sum of (point - outcome) over the rounds in which it was
        forecast|. Draws are hidden if whoever chooses the outcomes does not see them. With m cells and T =
        `rounds` the bound is T/(2m) + sqrt((m + 1) T). Nothing is played. Raises ValueError for a number of
        rounds that is not whole, or below 0.
        """
        rounds = check_count(rounds, "rounds", least=0)
        m = self.n_points - 1
        return rounds / (2 * m) + math.sqrt((m + 1) * rounds)

    @property
    def n_points(self) -> int:
        """How many points the grid has: m + 1 with m cells."""
        return int(self.memory[POINTS])


def between_neighbours(leaning: Callable[[Memory, int], float]) -> Callable[[Memory], None]:
    """The mixture of the nearest point that does not lean, or of two that lean towards each other."""

    @inlined
    def mix(memory: Memory) -> None:
        place = int(memory[LAST_PLACE])
        lean_here = leaning(memory, place)
        while lean_here > 0.0:
            lean_above = leaning(memory, place + 1)
            if lean_above < 0.0:
                break
            place, lean_here = place + 1, lean_above
        while lean_here < 0.0:
            place, lean_here = place - 1, leaning(memory, place - 1)
        memory[LAST_PLACE] = place
        if lean_here == 0.0:
            play_one(memory, place)
        else:
            hedge(memory, place, lean_here, leaning(memory, place + 1))

    return mix


class FosterForecaster(GridBaseline):
    """Draws between neighbouring grid points whose average outcomes are more than half a cell off.

    Forecasts are points of the grid 0, 1/m, ..., 1. A point leans up if the average outcome of its rounds is
    more than 1/(2m) above it, down if it is more than that below. A point that leans neither way is forecast
    as it is, else one of two neighbours that lean towards each other is drawn. The expected calibration error
    (ECE) is the sum over points of |sum of (point - outcome) over the rounds in which it was forecast|, a sum
    over rounds. While whoever chooses the outcomes does not see the draws, the mean of the ECE is at most
    T/(2m) + sqrt((m + 1) T), about 1.5 T^(2/3) at m = T^(1/3) (docs/theory-baselines.md).

    Parameters
    ----------
    horizon
        T, the number of rounds it is made for, at least 1; it may play fewer or more.
    n_cells
        m, the cells of the grid, from 1 to 2^20. None: about T^(1/3).
    seed
        Of the draws: an integer or a sequence of integers, none negative. The same seed and outcomes give the
        same forecasts.

    Raises
    ------
    ValueError
        For a bad parameter; the message names it and the value.

    References
    ----------
    Foster (1999). A proof of calibration via Blackwell's approachability theorem. Games and Economic Behavior
    29, 73-78.
    """

    machine = mixing_rules(between_neighbours(lean))
    places = (LAST_PLACE,)


class FosterHartForecaster(GridBaseline):
    """Draws between neighbouring grid points whose average errors differ in sign: hedging the forecast.

    Forecasts are points of the grid 0, 1/m, ..., 1. A point whose average outcome is the point itself, or one
    never forecast before, is forecast as it is, else one of two neighbours is drawn, of which the lower one
    is below its average outcome and the upper one above. The expected calibration error (ECE) is the sum over
    points of |sum of (point - outcome) over the rounds in which it was forecast|, a sum over rounds. While
    whoever chooses the outcomes does not see the draws, the mean of the ECE is at most T/(2m) + sqrt((m + 1)
    T (1 + log(T/(m + 1)))) (docs/theory-baselines.md).

    Parameters
    ----------
    horizon
        T, the number of rounds it is made for, at least 1; it may play fewer or more.
    n_cells
        m, the cells of the grid, from 1 to 2^20. None: about T^(1/3).
    seed
        Of the draws: an integer or a sequence of integers, none negative. The same seed and outcomes give the
        same forecasts.

    Raises
    ------
    ValueError
        For a bad parameter; the message names it and the value.

    References
    ----------
    Foster and Hart (2021). Forecast hedging and calibration. Journal of Political Economy 129, 3447-3490.
    """

    machine = mixing_rules(between_neighbours(mean_error))
    places = (LAST_PLACE,)

    def expected_ece(self, rounds: int) -> float:
        """A bound on the mean ECE after `rounds` rounds whose draws are hidden, a sum over rounds.

        The ECE is the sum over grid points of |sum of (point - outcome) over the rounds in which it was
        forecast|. Draws are hidden if whoever chooses the outcomes does not see them. With m cells and T =
        `rounds` the bound is T/(2m) + sqrt((m + 1) T (1 + log(T/(m + 1)))), where the logarithm is 0 if T is
        less than m + 1. Nothing is played. Raises ValueError for a number of rounds that is not whole, or
        below 0.
        """
        rounds = check_count(rounds, "rounds", least=0)
        m = self.n_points - 1
        logarithm = math.log(max(1.0, rounds / (m + 1)))
        return rounds / (2 * m) + math.sqrt((m + 1) * rounds * (1.0 + logarithm))


class PowerOfTwoChoices(GridBaseline):
    """A reference that names two neighbouring points, looks at the outcome, and answers with one of them.

    It peeks, so it is no forecaster. Its points are those of the grid 0, 1/m, ..., 1. A point whose average
    outcome is within 1/(2m) of it is answered as it is; else the answer is the one of two neighbours that is
    nearer to the outcome. Without any draw the expected calibration error, the sum over points of |sum of
    (point - outcome) over the rounds that were answered with it|, is at most T/(2m) + m + 1, a sum over T
    rounds, about sqrt(2T) with m = sqrt(T/2). `replay` gives its answers. `predict_proba_one` must speak
    before the outcome, and gives the mean of the two points.

    Parameters
    ----------
    horizon
        T, the number of rounds it is made for, at least 1; it may play fewer or more.
    n_cells
        m, the cells of the grid, from 1 to 2^20. None: about sqrt(T/2).

    Raises
    ------
    ValueError
        For a bad parameter; the message names it and the value.

    References
    ----------
    Gupta and Ramdas (2022). Faster online calibration without randomization: interval forecasts and the
    power of two choices. COLT.
    """

    machine = mixing_rules(between_neighbours(lean))
    places = (LAST_PLACE,)
    randomised = False

    def __init__(self, horizon: int = 10_000, *, n_cells: int | None = None) -> None:
        super().__init__(horizon, n_cells=n_cells)

    def _suitable_cells(self, horizon: int) -> int:
        return max(1, round(math.sqrt(horizon / 2)))

    def _memory(self, m: int) -> Any:
        return new_memory(np.arange(m + 1) / m, peeks=True)

    def expected_ece(self, rounds: int) -> float:
        """T/(2m) + m + 1, which the ECE of the answers to T = `rounds` outcomes cannot exceed.

        The ECE is the sum over grid points of |sum of (point - outcome) over the rounds that were answered
        with it|, a sum over rounds, and m is the number of cells of the grid. Nothing is drawn, so it holds
        in every game. Nothing is played. Raises ValueError for a number of rounds that is not whole, or below
        0.
        """
        return self._promise(check_count(rounds, "rounds", least=0))

    def _promise(self, rounds: int) -> float:
        """T/(2m) + m + 1, which the ECE of the answers cannot exceed, a sum over rounds."""
        m = self.n_points - 1
        return rounds / (2 * m) + m + 1


mix_neighbours = between_neighbours(lean)


@inlined
def regret(memory: Memory, place: int, other: int) -> float:
    """How much Brier score the other point would have saved in all rounds of this one, in units of 1/m^2."""
    m = int(memory[POINTS]) - 1
    return (place - other) * (count(memory, place) * (place + other) - 2.0 * m * ones(memory, place))


@inlined
def reach(memory: Memory, place: int) -> int:
    """The furthest point that a point regrets: the last one before its mirror image in its mean outcome."""
    m, n = int(memory[POINTS]) - 1, count(memory, place)
    mirror = 2.0 * m * ones(memory, place) / n - place
    far = int(np.ceil(mirror)) - 1 if mirror > place else int(np.floor(mirror)) + 1
    return min(max(far, 0), m)


@inlined(counted=True)
def stationary(chain: NDArray[np.float64]) -> tuple[int, NDArray[np.float64]]:
    """The stationary distribution of a chain with these rates, and the first state that it lives on.

    States are eliminated from the last to the first, after Grassmann, Taksar and Heyman: nothing is
    subtracted, so no digits are lost. A state that never returns to earlier ones leaves those behind. The
    `chain` is overwritten.
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


@inlined(counted=True)
def mix_stationary(memory: Memory) -> None:
    """A point without regrets, or the stationary distribution of the chain that moves along regrets.

    A point regrets its neighbour if and only if it leans that way, and then all points up to its mirror image
    in its mean outcome. Two neighbours that lean towards each other are found as Foster finds them. The chain
    can reach an interval from there. If a point in it has no regrets, the chain may end there.
    """
    mix_neighbours(memory)
    if memory[SUPPORT_SIZE] == 1:
        return
    first, last = int(memory[LAST_PLACE]), int(memory[LAST_PLACE]) + 1
    # the points from `left` to `right` have been looked at
    left, right = last, first
    while first < left or right < last:
        if first < left:
            left -= 1
            place = left
        else:
            right += 1
            place = right
        if lean(memory, place) == 0.0:
            memory[LAST_PLACE] = place
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
    """Draws so that no grid point regrets, by Brier score, that another one was not forecast in its place.

    Forecasts are points of the grid 0, 1/m, ..., 1. The draw is the stationary distribution of a chain that
    moves from point to point at the rates of their regrets, which are the Brier score that the other point
    would have saved in all rounds of the one. The expected calibration error (ECE) is the sum over points of
    |sum of (point - outcome) over the rounds in which it was forecast|, a sum over rounds. While whoever
    chooses the outcomes does not see the draws, the mean of the ECE is at most T/(2m) + sqrt(m + 1) T^(3/4)
    (docs/theory-baselines.md). The literature states the rate T^(2/3), at m = T^(1/3), and games show it. A
    round costs up to the cube of the number of points that the chain can reach, which adversaries can make
    most of the grid.

    Parameters
    ----------
    horizon
        T, the number of rounds it is made for, at least 1; it may play fewer or more.
    n_cells
        m, the cells of the grid, from 1 to 2^20. None: about T^(1/3).
    seed
        Of the draws: an integer or a sequence of integers, none negative. The same seed and outcomes give the
        same forecasts.

    Raises
    ------
    ValueError
        For a bad parameter; the message names it and the value.

    References
    ----------
    Foster and Vohra (1998). Asymptotic calibration. Biometrika 85, 379-390. The rate of T^(2/3) is credited
    to them by Arunachaleswaran, Collina, Roth and Shi (2024).
    """

    machine = mixing_rules(mix_stationary)
    places = (LAST_PLACE,)

    def expected_ece(self, rounds: int) -> float:
        """A bound on the mean ECE after `rounds` rounds whose draws are hidden, a sum over rounds.

        The ECE is the sum over grid points of |sum of (point - outcome) over the rounds in which it was
        forecast|. Draws are hidden if whoever chooses the outcomes does not see them. With m cells and T =
        `rounds` the bound is T/(2m) + sqrt(m + 1) T^(3/4). Nothing is played. Raises ValueError for a number
        of rounds that is not whole, or below 0.
        """
        rounds = check_count(rounds, "rounds", least=0)
        m = self.n_points - 1
        return rounds / (2 * m) + math.sqrt(m + 1) * rounds**0.75


@inlined
def mix_by_bisection(memory: Memory) -> None:
    """Mix two neighbours that pull towards each other, or play a point that pulls nowhere or outwards."""
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
    moved = memory[at] + memory[STEP_SIZE] * (outcome - value(memory, place))
    memory[at] = min(1.0, max(-1.0, moved))


class LinearOptimisationForecaster(GridBaseline):
    """Keeps all grid points' biases small by playing against a vector that gradient ascent moves.

    Forecasts are points of the grid 0, 1/m, ..., 1. The expected calibration error (ECE) is the sum over
    points of |sum of (point - outcome) over the rounds in which it was forecast|, a sum over rounds. It is
    the largest inner product of the points' sums with a vector of numbers in [-1, 1]. Gradient ascent moves
    such a vector, and is within sqrt((m + 1) T) of the largest product. For each of its vectors a draw
    between two neighbours, found by bisection, keeps the expected product at most 1/(2m) a round. So while
    whoever chooses the outcomes does not see the draws, the mean of the ECE is at most T/(2m) + sqrt((m + 1)
    T) at the horizon T, about 1.5 T^(2/3) at m = T^(1/3). A round takes log2(m) steps, whatever T is.

    Parameters
    ----------
    horizon
        T, the number of rounds it is made for, at least 1; it may play fewer or more.
    n_cells
        m, the cells of the grid, from 1 to 2^20. None: about T^(1/3).
    seed
        Of the draws: an integer or a sequence of integers, none negative. The same seed and outcomes give the
        same forecasts.

    Raises
    ------
    ValueError
        For a bad parameter; the message names it and the value.

    References
    ----------
    Abernethy, Bartlett and Hazan (2011). Blackwell approachability and no-regret learning are equivalent.
    COLT, section on calibration. Here the gradient step is taken at the point that was drawn.
    """

    machine = mixing_rules(mix_by_bisection, learn_direction)

    def _memory(self, m: int) -> Any:
        return new_memory(np.arange(m + 1) / m, [math.sqrt((m + 1) / self.horizon)], own=m + 1)

    def expected_ece(self, rounds: int) -> float:
        """A bound on the mean ECE after `rounds` rounds whose draws are hidden, a sum over rounds.

        The ECE is the sum over grid points of |sum of (point - outcome) over the rounds in which it was
        forecast|. Draws are hidden if whoever chooses the outcomes does not see them. With m cells and t =
        `rounds` the bound is t/(2m) + sqrt((m + 1) T) (1 + t/T)/2, where T is the horizon, for which its
        steps are made. Nothing is played. Raises ValueError for a number of rounds that is not whole, or
        below 0.
        """
        rounds = check_count(rounds, "rounds", least=0)
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
    """The point with the smallest mean rise if outcomes are 0 with this probability.

    Of several the one with the smallest worse rise.
    """
    best, least_mean, least_worst = 0, np.inf, np.inf
    for place in range(int(memory[POINTS])):
        rise_zero, rise_one = rise(memory, place, 0), rise(memory, place, 1)
        mean, worst = share * rise_zero + (1.0 - share) * rise_one, max(rise_zero, rise_one)
        if mean < least_mean or (mean == least_mean and worst < least_worst):
            best, least_mean, least_worst = place, mean, worst
    return best


@inlined
def mix_minimax(memory: Memory) -> None:
    """The mixture whose worst expected rise is smallest: one point or two, found by adding columns.

    The program min over w of max(w.zeros, w.ones) has an optimal mixture of at most two points. Start with
    the best point against each outcome. Take the share of zeros that makes the two equally good, and look for
    a point that is better against it. Let that point replace the one on its side, and repeat until there is
    none.
    """
    low, high = best_against(memory, 1.0), best_against(memory, 0.0)
    low_gap = rise(memory, low, 1) - rise(memory, low, 0)
    high_gap = rise(memory, high, 0) - rise(memory, high, 1)
    while low_gap > 0.0 and high_gap > 0.0:
        share = (rise(memory, low, 1) - rise(memory, high, 1)) / (low_gap + high_gap)
        better = best_against(memory, share)
        rise_zero, rise_one = rise(memory, better, 0), rise(memory, better, 1)
        gain = share * (rise(memory, low, 0) - rise_zero) + (1.0 - share) * (rise(memory, low, 1) - rise_one)
        if better in (low, high) or gain <= LEAST_IMPROVEMENT * (abs(rise_zero) + abs(rise_one)):
            play_two(memory, low, high_gap / (low_gap + high_gap), high)
            return
        if rise_one >= rise_zero:
            low, low_gap = better, rise_one - rise_zero
        else:
            high, high_gap = better, rise_zero - rise_one
    play_one(memory, low if low_gap <= 0.0 else high)


class MinimaxForecaster(GridBaseline):
    """Draws from the mixture that is best against the worse outcome of the coming round.

    Forecasts are points of the grid 0, 1/m, ..., 1. Calibration follows from the minimax theorem, as Hart
    observed: against a known mixture of outcomes there is a good forecast, so there is a mixture of forecasts
    that is good against every outcome. His game lasts T rounds; this one is played a round at a time. It
    keeps the sum over points of the squared lean small, the lean of a point being by how much |sum of (point
    - outcome)| exceeds 1/(2m) for each of its rounds. The expected calibration error (ECE) is the sum over
    points of |sum of (point - outcome) over the rounds in which it was forecast|, a sum over rounds. While
    whoever chooses the outcomes does not see the draws, the mean of the ECE is at most T/(2m) + sqrt((m + 1)
    T), since the mixture is no worse than that of FosterForecaster. A round takes O(m) steps.

    Parameters
    ----------
    horizon
        T, the number of rounds it is made for, at least 1; it may play fewer or more.
    n_cells
        m, the cells of the grid, from 1 to 2^20. None: about T^(1/3).
    seed
        Of the draws: an integer or a sequence of integers, none negative. The same seed and outcomes give the
        same forecasts.

    Raises
    ------
    ValueError
        For a bad parameter; the message names it and the value.

    References
    ----------
    Hart (2025). Calibrated forecasts: the minimax proof. Games of No Strategy and Low-Grade Combinatorics; a
    proof of 1995, first told in Foster and Vohra (1998).
    """

    machine = mixing_rules(mix_minimax)
