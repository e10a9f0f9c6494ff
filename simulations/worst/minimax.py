"""The least worst case of all deterministic forecasters in a short game, between two proven bounds.

A forecaster announces p_t, the opponent answers with y_t, and in the end the forecaster pays the distance to
calibration. A deterministic forecaster is a number for every history of outcomes, and its worst case the
largest of 2^T distances. The least worst case, over all forecasters, is the value of the game: no cleverness
avoids paying it.

The distance is the least l1 distance to one of finitely many sequences, those that are calibrated for the
outcomes. So the value is that of a linear program, once each game is told which of them to go to. Branch and
bound decides that: in a node some games have some of their sequences left, and mixtures of these are allowed,
which can only lower the value. Reflection (outcomes and forecasts turned round) halves the work. The value is
at least what games that begin with outcome 0 cost after a first forecast of 1/2 or more, and at most what
they cost after 1/2 itself.
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

MOST_ROUNDS = 8
ROUNDING = 1e-9
"""More than floating point can be wrong in the sum of a few ten thousand products of at most 1."""
DESCENTS = 100
"""After so many programs no better forecasters are looked for, which would take most of the time."""
CLOSED = 1e-6
"""Bounds this close count as met."""
LARGEST_DENOMINATOR = 100_000
"""Forecasts are rounded to such fractions before their worst case is worked out exactly."""

STORED = Path(__file__).with_name("minimax.toml")
"""Forecasters that long searches have found: forecasts after no outcome, 0, 00, 01, 000, ..."""

History = tuple[int, ...]


@dataclass(frozen=True)
class LeastWorst:
    """Between which bounds the least worst distance of T rounds lies, sums over rounds.

    No deterministic forecaster has a smaller worst case than `lower`. `upper` is the exact worst case of the
    forecaster that was found, which has a forecast for every history of fewer than T outcomes. `nodes` linear
    programs were solved for the lower bound.
    """

    rounds: int
    lower: float
    upper: Fraction
    forecaster: Mapping[History, Fraction]
    nodes: int

    @property
    def is_closed(self) -> bool:
        """Whether the bounds meet, up to 1e-6."""
        return self.upper - self.lower <= CLOSED


def calibrated_sequences(outcomes: History) -> NDArray[np.int64]:
    """All sequences that are perfectly calibrated for these outcomes, in units of 1/lcm(1, ..., T).

    One for each way to group the rounds, every round at the mean of its group; rows differ.
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


def worst_distance(forecaster: Mapping[History, Fraction], rounds: int) -> Fraction:
    """The largest distance to calibration over all 2^T sequences, exactly.

    `forecaster` has a forecast for every history of fewer than T outcomes.
    """
    unit = math.lcm(*range(1, rounds + 1))
    whole = math.lcm(unit, *(p.denominator for p in forecaster.values()))
    worst = 0
    for outcomes in product((0, 1), repeat=rounds):
        said = [int(forecaster[outcomes[:t]] * whole) for t in range(rounds)]
        # in Python's integers: the common denominator may be long
        rows = ([whole // unit * q for q in row] for row in calibrated_sequences(outcomes).tolist())
        worst = max(worst, min(sum(abs(p - q) for p, q in zip(said, row, strict=True)) for row in rows))
    return Fraction(worst, whole)


class Relaxation:
    """The linear program of a node: forecasts, and for each game a mixture of calibrated sequences.

    Variables: forecasts, the value z, weights of all games' sequences, distances of all games' rounds.
    """

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.games = [(0, *rest) for rest in product((0, 1), repeat=rounds - 1)]
        self.histories: dict[History, int] = {}
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
        """`below` x <= 0: a distance is at least |p - q|, z at least the sum of a game's; `mixed` x = 1."""
        games, steps = self.paths.shape[0], self.paths.size
        said = csr_array((np.ones(steps), self.paths.ravel(), np.arange(steps + 1)), (steps, self.value))
        meant = block_diag([csr_array(choices.T) for choices in self.sequences])
        alone, above = eye_array(steps), np.ones((games, 1))
        sums = kron(eye_array(games), np.ones((1, self.rounds)))
        apart = [[sign * said, None, -sign * meant, -alone] for sign in (1.0, -1.0)]
        below = block_array([*apart, [None, -above, None, sums]], format="csr")
        # both signs of a round stand together
        order = np.arange(2 * steps).reshape(2, steps).T.ravel()
        self.below = below[np.append(order, np.arange(2 * steps, 2 * steps + games))]
        mixtures = block_diag([np.ones((1, len(choices))) for choices in self.sequences])
        self.mixed = hstack([csr_array((games, self.value + 1)), mixtures, csr_array((games, steps))], "csr")

    def solve(self, allowed: NDArray[np.bool_], first: float) -> Node | None:
        """With these sequences allowed and a first forecast from 1/2 to `first`; None if that cannot be."""
        low, high = np.zeros(self.moves.stop), np.ones(self.moves.stop)
        high[self.value], low[0], high[0], high[self.weights] = self.rounds, 0.5, first, allowed
        cost = np.zeros(len(low))
        cost[self.value] = 1.0
        bounds = np.column_stack([low, high])
        ones = np.ones(len(self.games))
        found = linprog(cost, self.below, np.zeros(self.below.shape[0]), self.mixed, ones, bounds, "highs")
        if found.x is None:
            return None
        # any multipliers prove a bound, since every variable has both ends: the solver need not be trusted
        prices = np.maximum(-found.ineqlin.marginals, 0.0)
        reduced = cost + self.below.T @ prices - self.mixed.T @ found.eqlin.marginals
        proven = found.eqlin.marginals.sum() + np.minimum(reduced * low, reduced * high).sum()
        return Node(float(proven) - ROUNDING, found.x, prices[-len(self.games) :], allowed)

    def gaps(self, forecasts: Floats, allowed: NDArray[np.bool_]) -> tuple[Floats, NDArray[np.intp]]:
        """The distance of every game to the nearest sequence it is allowed, and where among all that is."""
        nearest = []
        for g, choices in enumerate(self.sequences):
            distances = np.abs(choices - forecasts[self.paths[g]]).sum(axis=1)
            distances[~allowed[self.starts[g] : self.starts[g + 1]]] = np.inf
            nearest.append((distances.min(), self.starts[g] + distances.argmin()))
        least, where = zip(*nearest, strict=True)
        return np.array(least), np.array(where)


@dataclass(frozen=True, eq=False)
class Node:
    """A solved program: what it proves, its solution, what each game's distance weighs, what was allowed."""

    bound: float
    solution: Floats
    prices: Floats
    allowed: NDArray[np.bool_]


def least_worst(rounds: int, most_nodes: int = 2000) -> LeastWorst:
    """Between which bounds the least worst distance of any deterministic forecaster lies.

    The rounds are at most 8; up to 5 the bounds meet within a second. The search stops with the bounds it has
    after so many linear programs. ValueError for numbers outside these ranges.
    """
    rounds = check_count(rounds, "rounds", most=MOST_ROUNDS)
    most_nodes = check_count(most_nodes, "most_nodes")
    game = Relaxation(rounds)
    root = game.solve(game.everything, 1.0)
    assert root is not None
    best, forecasts = descend(game, root.solution)
    waiting, nodes, lower = [(root.bound, 0, root)], 1, root.bound
    while waiting:
        lower, _, node = heapq.heappop(waiting)
        if best - lower <= CLOSED / 2 or nodes >= most_nodes:
            break
        for allowed in branches(game, node):
            child = game.solve(allowed, 1.0)
            nodes += 1
            if child is not None:
                heapq.heappush(waiting, (max(child.bound, lower), nodes, child))
        if nodes < DESCENTS:
            best, forecasts = min((best, forecasts), descend(game, node.solution), key=lambda one: one[0])
    forecaster = reflected({history: exact(forecasts[place]) for history, place in game.histories.items()})
    found = worst_distance(forecaster, rounds), forecaster
    upper, forecaster = min(found, stored(rounds) or found, key=lambda one: one[0])
    return LeastWorst(rounds, lower, upper, forecaster, nodes)


def branches(game: Relaxation, node: Node) -> list[NDArray[np.bool_]]:
    """The sequences of one game in two parts: where the mixture falls shortest of the distance, by price."""
    true, _ = game.gaps(node.solution[: game.value], node.allowed)
    mixed = node.solution[game.moves].reshape(game.paths.shape).sum(axis=1)
    g = int(np.argmax((node.prices + CLOSED) * np.maximum(true - mixed, 0.0)))
    places = game.starts[g] + np.flatnonzero(node.allowed[game.starts[g] : game.starts[g + 1]])
    choices = game.sequences[g][places - game.starts[g]]
    weights = node.solution[game.weights][places]
    mean = weights @ choices / weights.sum()
    t = int((weights @ (choices - mean) ** 2).argmax())
    below = choices[:, t] <= mean[t] + CLOSED
    if below.all():
        below = choices[:, t] < choices[:, t].max()
    halves = []
    for dropped in (places[below], places[~below]):
        allowed = node.allowed.copy()
        allowed[dropped] = False
        halves.append(allowed)
    return halves


def descend(game: Relaxation, solution: Floats) -> tuple[float, Floats]:
    """Forecasts, the first 1/2, that cannot be bettered while every game goes to its nearest sequence."""
    forecasts, best = solution[: game.value].copy(), math.inf
    forecasts[0] = 0.5
    while True:
        distances, where = game.gaps(forecasts, game.everything)
        if distances.max() >= best - CLOSED / 10:
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
    """A forecast as a fraction that is not too long."""
    return min(max(Fraction(float(p)).limit_denominator(LARGEST_DENOMINATOR), Fraction(0)), Fraction(1))


def reflected(forecasts: Mapping[History, Fraction]) -> dict[History, Fraction]:
    """The forecaster with these forecasts after a first 0, and the reflected ones after a first 1."""
    turned = {tuple(1 - y for y in history): 1 - p for history, p in forecasts.items() if history}
    return {**forecasts, **turned}


def stored(rounds: int) -> tuple[Fraction, dict[History, Fraction]] | None:
    """The best forecaster that a long search has found, with its worst case; None if none is kept."""
    with STORED.open("rb") as file:
        kept = {one["rounds"]: one for one in tomllib.load(file)["forecaster"]}
    if rounds not in kept:
        return None
    histories = [(), *((0, *rest) for t in range(rounds - 1) for rest in product((0, 1), repeat=t))]
    forecasts = map(Fraction, kept[rounds]["forecasts"].split())
    return Fraction(kept[rounds]["worst"]), reflected(dict(zip(histories, forecasts, strict=True)))
