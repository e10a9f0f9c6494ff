"""The least worst case of all deterministic forecasters in a short game, between two proven bounds.

A forecaster announces p_t, the opponent answers with y_t, and in the end the forecaster pays the distance to
calibration. A deterministic forecaster has a number for every history of outcomes, and its worst case is the
largest of 2^T distances. The least worst case of all forecasters is the value of the game: every forecaster
has to pay it at least once.

The distance is the least l1 distance to one of finitely many sequences, those that are calibrated for the
outcomes. So once the sequence of each game is chosen, the value is that of a linear program. Branch and bound
chooses: in a node some games have some of their sequences left, and mixtures of these are allowed, which can
only lower the value. Reflection, which exchanges 0 and 1 in outcomes and forecasts, halves the work. The
value is at least the cost of games that begin with outcome 0 after a first forecast of 1/2 or more, and at
most their cost after a first forecast of 1/2.

A `GameRelaxation` is made once for a number of rounds, and only read by the search; a `SearchNode` never
changes. What always holds during the search: the least bound of the open nodes is at most the value, and the
best forecaster found pays at least the value. Forecasters that long searches have found are kept in
minimax.toml, in the order in which STORED_FORECASTERS says; their worst case stands beside them, and
`tests/simulations/worst` computes it again.

Which forecaster is found, and how near the bounds come, depends on the solver and on the numbers below; that
the bounds hold does not, as `solve` proves each one from the multipliers, whatever these are.
"""

from __future__ import annotations

import heapq
import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import block_array, block_diag, csr_array, eye_array, hstack, kron

from onlinecal.arrays import Floats
from onlinecal.validation import check_count

MOST_MINIMAX_ROUNDS = 8
BOUND_ROUNDING = 1e-9
"""This is more than the rounding error of a sum of a few ten thousand products of at most 1."""
MOST_DESCENTS = 100
"""After this many programs no better forecasters are searched for, which would take most of the time."""
EQUAL_BOUNDS = 1e-6
"""Bounds count as equal if they are this close."""
LARGEST_DENOMINATOR = 100_000
"""Forecasts are rounded to fractions with at most this denominator before their worst case is computed."""

STORED_FORECASTERS = Path(__file__).with_name("minimax.toml")
"""The file of forecasters that long searches have found: their forecasts after no outcome, 0, 00, 01, 000,
..."""

OutcomesSoFar = tuple[int, ...]
"""The outcomes before a round."""


@dataclass(frozen=True)
class LeastWorst:
    """Bounds on the least worst distance of T rounds, which are sums over rounds.

    No deterministic forecaster has a smaller worst case than `lower`. `upper` is the exact worst case of the
    forecaster that was found, which has a forecast for every history of fewer than T outcomes. `nodes` linear
    programs were solved for the lower bound.
    """

    rounds: int
    lower: float
    upper: Fraction
    forecaster: Mapping[OutcomesSoFar, Fraction]
    nodes: int

    @property
    def is_closed(self) -> bool:
        """Whether the bounds meet, up to 1e-6."""
        return self.upper - self.lower <= EQUAL_BOUNDS


def calibrated_sequences(outcomes: OutcomesSoFar) -> NDArray[np.int64]:
    """All sequences that are perfectly calibrated for these outcomes, in units of 1/lcm(1, ..., T).

    There is one for each way to group the rounds: every round has the mean of its group. All rows differ.
    """
    unit = math.lcm(*range(1, len(outcomes) + 1))

    def grouped(rest: tuple[int, ...]) -> Iterator[dict[int, int]]:
        if not rest:
            yield {}
            return
        first, others = rest[0], rest[1:]
        for chosen in product((False, True), repeat=len(others)):
            group = [first, *(t for t, inside in zip(others, chosen, strict=True) if inside)]
            mean = unit * sum(outcomes[t] for t in group) // len(group)
            left = tuple(t for t, inside in zip(others, chosen, strict=True) if not inside)
            for tail in grouped(left):
                yield dict.fromkeys(group, mean) | tail

    rounds = tuple(range(len(outcomes)))
    return np.array(sorted({tuple(way[t] for t in rounds) for way in grouped(rounds)}))


def worst_distance(forecaster: Mapping[OutcomesSoFar, Fraction], rounds: int) -> Fraction:
    """The largest distance to calibration over all 2^T sequences, exactly.

    `forecaster` has a forecast for every history of fewer than T outcomes.
    """
    unit = math.lcm(*range(1, rounds + 1))
    whole = math.lcm(unit, *(p.denominator for p in forecaster.values()))
    worst = 0
    for outcomes in product((0, 1), repeat=rounds):
        forecasts = [int(forecaster[outcomes[:t]] * whole) for t in range(rounds)]
        # the common denominator may be long, so these are Python's integers
        rows = ([whole // unit * q for q in row] for row in calibrated_sequences(outcomes).tolist())
        worst = max(worst, min(sum(abs(p - q) for p, q in zip(forecasts, row, strict=True)) for row in rows))
    return Fraction(worst, whole)


class GameRelaxation:
    """The linear program of a node: forecasts, and for each game a mixture of calibrated sequences.

    Variables: forecasts, the value z, weights of all games' sequences, distances of all games' rounds.
    """

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.games = [(0, *rest) for rest in product((0, 1), repeat=rounds - 1)]
        self.histories: dict[OutcomesSoFar, int] = {}
        for game in self.games:
            for t in range(rounds):
                self.histories.setdefault(game[:t], len(self.histories))
        unit = math.lcm(*range(1, rounds + 1))
        self.sequences = [calibrated_sequences(game) / unit for game in self.games]
        self.paths = np.array([[self.histories[game[:t]] for t in range(rounds)] for game in self.games])
        self.starts = np.cumsum([0, *map(len, self.sequences)])
        n, k = len(self.histories), int(self.starts[-1])
        self.value, self.weights = n, slice(n + 1, n + 1 + k)
        self.moves = slice(n + 1 + k, n + 1 + k + self.paths.size)
        self.everything = np.ones(k, dtype=bool)
        self._matrices()

    def _matrices(self) -> None:
        """Make the constraints `below` x <= 0 and `mixed` x = 1.

        The former say that a distance is at least |p - q|, and that z is at least the sum of a game's
        distances; the latter that the weights of a game have the sum 1.
        """
        games, steps = self.paths.shape[0], self.paths.size
        announced = csr_array((np.ones(steps), self.paths.ravel(), np.arange(steps + 1)), (steps, self.value))
        calibrated = block_diag([csr_array(choices.T) for choices in self.sequences])
        alone, above = eye_array(steps), np.ones((games, 1))
        sums = kron(eye_array(games), np.ones((1, self.rounds)))
        apart = [[sign * announced, None, -sign * calibrated, -alone] for sign in (1.0, -1.0)]
        below = block_array([*apart, [None, -above, None, sums]], format="csr")
        # the constraints of a round with both signs stand beside each other
        order = np.arange(2 * steps).reshape(2, steps).T.ravel()
        self.below = below[np.append(order, np.arange(2 * steps, 2 * steps + games))]
        mixtures = block_diag([np.ones((1, len(choices))) for choices in self.sequences])
        self.mixed = hstack([csr_array((games, self.value + 1)), mixtures, csr_array((games, steps))], "csr")

    def solve(self, allowed: NDArray[np.bool_], first: float) -> SearchNode | None:
        """Solve it for these allowed sequences, and a first forecast in [1/2, first]; None if infeasible."""
        low, high = np.zeros(self.moves.stop), np.ones(self.moves.stop)
        high[self.value], high[self.weights] = self.rounds, allowed
        low[0], high[0] = 0.5, first
        cost = np.zeros(len(low))
        cost[self.value] = 1.0
        bounds = np.column_stack([low, high])
        ones = np.ones(len(self.games))
        solved = linprog(cost, self.below, np.zeros(self.below.shape[0]), self.mixed, ones, bounds, "highs")
        if solved.x is None:
            return None
        # every variable has both bounds, so any multipliers prove a bound, even if the solver is wrong
        prices = np.maximum(-solved.ineqlin.marginals, 0.0)
        reduced = cost + self.below.T @ prices - self.mixed.T @ solved.eqlin.marginals
        proven = solved.eqlin.marginals.sum() + np.minimum(reduced * low, reduced * high).sum()
        return SearchNode(float(proven) - BOUND_ROUNDING, solved.x, prices[-len(self.games) :], allowed)

    def gaps(self, forecasts: Floats, allowed: NDArray[np.bool_]) -> tuple[Floats, NDArray[np.intp]]:
        """The distance of every game to the nearest allowed sequence, and the place of that among all."""
        nearest = []
        for g, choices in enumerate(self.sequences):
            distances = np.abs(choices - forecasts[self.paths[g]]).sum(axis=1)
            distances[~allowed[self.starts[g] : self.starts[g + 1]]] = np.inf
            nearest.append((distances.min(), self.starts[g] + distances.argmin()))
        least, where = zip(*nearest, strict=True)
        return np.array(least), np.array(where)


@dataclass(frozen=True, eq=False)
class SearchNode:
    """A solved program: its proven bound, its solution, the prices of games, and the allowed sequences."""

    bound: float
    solution: Floats
    prices: Floats
    allowed: NDArray[np.bool_]


def least_worst(rounds: int, most_nodes: int = 2000) -> LeastWorst:
    """Bounds on the least worst distance of any deterministic forecaster.

    There are at most 8 rounds; up to 5 the bounds meet within a second. The search stops after `most_nodes`
    linear programs, with the bounds it has then. Raises ValueError for numbers outside these ranges.
    """
    rounds = check_count(rounds, "rounds", most=MOST_MINIMAX_ROUNDS)
    most_nodes = check_count(most_nodes, "most_nodes")
    game = GameRelaxation(rounds)
    root = game.solve(game.everything, 1.0)
    assert root is not None
    best, forecasts = descend(game, root.solution)
    waiting, nodes, lower = [(root.bound, 0, root)], 1, root.bound
    while waiting:
        lower, _, node = heapq.heappop(waiting)
        if best - lower <= EQUAL_BOUNDS / 2 or nodes >= most_nodes:
            break
        for allowed in branches(game, node):
            child = game.solve(allowed, 1.0)
            nodes += 1
            if child is not None:
                heapq.heappush(waiting, (max(child.bound, lower), nodes, child))
        if nodes < MOST_DESCENTS:
            best, forecasts = min((best, forecasts), descend(game, node.solution), key=lambda pair: pair[0])
    forecaster = reflected({history: exact(forecasts[place]) for history, place in game.histories.items()})
    own = worst_distance(forecaster, rounds), forecaster
    upper, forecaster = min(own, stored(rounds) or own, key=lambda pair: pair[0])
    return LeastWorst(rounds, lower, upper, forecaster, nodes)


def branches(game: GameRelaxation, node: SearchNode) -> list[NDArray[np.bool_]]:
    """Two nodes that divide the sequences of one game: that whose mixture is farthest below its distance.

    The distances are weighted by the prices of the games.
    """
    true, _ = game.gaps(node.solution[: game.value], node.allowed)
    mixed = node.solution[game.moves].reshape(game.paths.shape).sum(axis=1)
    g = int(np.argmax((node.prices + EQUAL_BOUNDS) * np.maximum(true - mixed, 0.0)))
    places = game.starts[g] + np.flatnonzero(node.allowed[game.starts[g] : game.starts[g + 1]])
    choices = game.sequences[g][places - game.starts[g]]
    weights = node.solution[game.weights][places]
    mean = weights @ choices / weights.sum()
    t = int((weights @ (choices - mean) ** 2).argmax())
    below = choices[:, t] <= mean[t] + EQUAL_BOUNDS
    if below.all():
        below = choices[:, t] < choices[:, t].max()
    halves = []
    for dropped in (places[below], places[~below]):
        allowed = node.allowed.copy()
        allowed[dropped] = False
        halves.append(allowed)
    return halves


def descend(game: GameRelaxation, solution: Floats) -> tuple[float, Floats]:
    """Forecasts, with 1/2 as the first, that are best while every game goes to its nearest sequence.

    They are improved from `solution` on, until the largest distance no longer falls.
    """
    forecasts, best = solution[: game.value].copy(), math.inf
    forecasts[0] = 0.5
    while True:
        distances, where = game.gaps(forecasts, game.everything)
        if distances.max() >= best - EQUAL_BOUNDS / 10:
            return best, forecasts
        best = float(distances.max())
        chosen = np.zeros_like(game.everything)
        chosen[where] = True
        node = game.solve(chosen, 0.5)
        assert node is not None
        candidate = node.solution[: game.value]
        if game.gaps(candidate, game.everything)[0].max() >= best:
            return best, forecasts
        forecasts = candidate


def exact(p: float) -> Fraction:
    """A forecast as a fraction with a denominator of at most LARGEST_DENOMINATOR."""
    return min(max(Fraction(float(p)).limit_denominator(LARGEST_DENOMINATOR), Fraction(0)), Fraction(1))


def reflected(forecasts: Mapping[OutcomesSoFar, Fraction]) -> dict[OutcomesSoFar, Fraction]:
    """The forecaster with these forecasts after a first 0, and the reflected ones after a first 1."""
    turned = {tuple(1 - y for y in history): 1 - p for history, p in forecasts.items() if history}
    return {**forecasts, **turned}


def stored(rounds: int) -> tuple[Fraction, dict[OutcomesSoFar, Fraction]] | None:
    """Worst case and forecasts of the best forecaster that a long search has found; None if there is none."""
    with STORED_FORECASTERS.open("rb") as file:
        kept = {entry["rounds"]: entry for entry in tomllib.load(file)["forecaster"]}
    if rounds not in kept:
        return None
    histories = [(), *((0, *rest) for t in range(rounds - 1) for rest in product((0, 1), repeat=t))]
    forecasts = map(Fraction, kept[rounds]["forecasts"].split())
    return Fraction(kept[rounds]["worst"]), reflected(dict(zip(histories, forecasts, strict=True)))
