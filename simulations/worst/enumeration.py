"""The worst case of a forecaster, found by playing every outcome sequence.

What holds on all 2^T sequences holds against every adversary, so the largest error among them is the worst
case itself and not an estimate. A randomised forecaster's error is averaged over several seeded sequences of
draws for each outcome sequence; so the worst sequence is one that does not react to the draws.

The sequences of one length are walked as a tree: rounds that they have in common are played once.

Nothing is kept between two calls but compiled walks and tables of steps. A forecaster plays on copies of its
memory, one for each round, so that a round can be taken back by going on from an earlier copy. If a copy has
no room, the forecaster grows, and its piece is walked anew. The work is cut into pieces that share nothing,
and their answers are put together in the order of the tasks, so the answer does not depend on the number of
processes. SPLIT_ROUNDS decides in which order errors are added up, and so the last bits of `mean`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

import onlinecal.adversaries as adversaries
from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import compiled, kernel_part
from onlinecal.compiling.instructions import copy
from onlinecal.forecasters.binary.cells import NO_HINT
from onlinecal.forecasters.rules import Rules
from onlinecal.measures import calibration_distance, expected_calibration_error
from onlinecal.measures.distance.lattice import path_costs, primitive_steps
from onlinecal.simulations.games import players
from onlinecal.simulations.games.duel import play
from onlinecal.simulations.games.players import Player
from onlinecal.simulations.sweeps.playing import Workers, work
from onlinecal.validation import check_choice, check_count

WorstMeasure = Literal["distance", "ece"]

MOST_ENUMERATED_ROUNDS = 24
"""The most rounds: these are sixteen million games, and every further round doubles them, and the time."""

DEFAULT_DRAWS = 8
"""How many sequences of draws a randomised forecaster is averaged over by default."""

SPLIT_ROUNDS = 6
"""The tree is cut after this many rounds, into a piece for each sequence of these rounds."""

EQUAL_ERRORS = 1e-11
"""Errors count as equal if they are closer than this; the first of equally bad sequences is named."""


@dataclass(frozen=True)
class WorstGame:
    """The worst of all games of `rounds` rounds, the first of equally bad ones; errors are sums over rounds.

    `mean` is the mean error of all 2^T sequences, which is the expected error against fair coins. `bound` is
    the proven bound on the distance, or None if nothing is proven.
    """

    rounds: int
    sequence: str
    error: float
    mean: float
    bound: float | None

    @property
    def over_root(self) -> float:
        """error / sqrt(T)."""
        return self.error / math.sqrt(self.rounds)


@dataclass(frozen=True)
class Enumeration:
    """The worst games of every length, from 1 round to the longest, and the settings of the search."""

    forecaster: str
    measure: WorstMeasure
    draws: int
    seed: int
    games: tuple[WorstGame, ...]

    @property
    def longest(self) -> WorstGame:
        """The worst of the longest games."""
        return self.games[-1]

    def broken_bounds(self) -> list[str]:
        """Every length whose worst distance exceeds its proven bound, in words; empty if none does."""
        return [
            f"BROKEN: distance {game.error:.6g} > bound {game.bound:.6g} ({self.forecaster}, {game.sequence})"
            for game in self.games
            if game.bound is not None and game.error > game.bound + EQUAL_ERRORS
        ]

    def record(self) -> dict[str, Any]:
        """The enumeration as plain records."""
        games = [{**asdict(game), "over_root": game.over_root} for game in self.games]
        return {**asdict(self), "games": games}


def enumerate_games(
    spec: str,
    rounds: int,
    *,
    measure: WorstMeasure = "distance",
    draws: int = DEFAULT_DRAWS,
    seed: int = 0,
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Enumeration:
    """Play every outcome sequence of 1 to `rounds` rounds and find the worst of each length.

    A forecaster that is built for a horizon is built anew for each length. A randomised forecaster's errors
    are averaged over the draws of the seeds seed, ..., seed + draws - 1. `progress` is called with (pieces of
    the tree done, all pieces). Up to 16 rounds take a second or two, 20 rounds take ten, and 24, the most,
    take many minutes.

    Raises
    ------
    ValueError
        For a spec that is not one, or arguments outside these ranges.
    """
    player = players.create(spec)
    rounds = check_count(rounds, "rounds", most=MOST_ENUMERATED_ROUNDS)
    check_choice(measure, get_args(WorstMeasure), "measure")
    draws = check_count(draws, "draws")
    # a deterministic forecaster does not draw, so one game is enough
    draws = draws if len(player.build(1)._draws(1)) else 1
    tasks = [
        (player.spec, t, prefix, measure, draws, seed)
        for t in range(rounds, 0, -1)
        for prefix in (
            [""] if t <= SPLIT_ROUNDS else (f"{number:0{SPLIT_ROUNDS}b}" for number in range(2**SPLIT_ROUNDS))
        )
    ]
    # a first game compiles the loop, so that all processes find it on disk
    play_piece(player.spec, 1, "", measure, 1, seed)
    # answers come in the order of the tasks, so that sums are rounded alike for any number of jobs
    answers = work(play_piece, tasks, Workers(jobs=min(jobs, len(tasks))), ordered=True)
    best_of: dict[int, _Best] = {}
    for done, ((_, t, *_), best) in enumerate(zip(tasks, answers, strict=True), 1):
        best_of[t] = _worse(best_of[t], best) if t in best_of else best
        if progress is not None:
            progress(done, len(tasks))
    games = (
        WorstGame(
            rounds=t,
            sequence=best.sequence,
            error=_remeasured(player, best.sequence, measure, draws, seed),
            mean=best.total / 2**t,
            bound=player.bound(t) if measure == "distance" else None,
        )
        for t, best in sorted(best_of.items())
    )
    return Enumeration(player.spec, measure, draws, seed, tuple(games))


def replay(player: Player, sequence: str, seed: int = 0) -> NDArray[np.float64]:
    """The forecasts of one game, shape (T,); for references their answers."""
    outcomes = [int(letter) for letter in sequence]
    stream = adversaries.replay_sequence(outcomes).adversary()
    duel = play(player.build(len(outcomes), seed), stream, len(outcomes), hints=None, n_checkpoints=1)
    return duel.charged if player.family.kind == "reference" else duel.forecasts


@dataclass(frozen=True)
class _Best:
    """The worst of some sequences of one length, and the sum of the errors of these sequences."""

    error: float
    sequence: str
    total: float


def _worse(first: _Best, second: _Best) -> _Best:
    """The worst of both, with the sum of both totals; the result does not depend on their order."""
    pair = sorted((first, second), key=lambda best: best.sequence)
    worst = pair[1] if pair[1].error > pair[0].error + EQUAL_ERRORS else pair[0]
    return _Best(worst.error, worst.sequence, first.total + second.total)


def play_piece(spec: str, rounds: int, prefix: str, measure: WorstMeasure, draws: int, seed: int) -> _Best:
    """The worst of the games of `rounds` rounds that begin with this prefix."""
    player = players.create(spec)
    begun = np.array([int(letter) for letter in prefix], dtype=np.uint8)
    below = rounds - len(prefix)
    errors = np.zeros(2**below)
    for draw in range(draws):
        forecaster = player.build(rounds, seed + draw)
        peeks = player.family.kind == "reference"
        drawn = np.asarray(forecaster._draws(rounds), dtype=np.float64)
        walk = tree_walk(forecaster._rules)
        added = np.empty_like(errors)
        arguments = begun, rounds, drawn, measure == "ece", steps_up_to(MOST_ENUMERATED_ROUNDS), added
        while not walk(forecaster.memory, peeks, *arguments):
            forecaster._grow()
        errors += added
    errors /= draws
    place = int(np.argmax(errors >= errors.max() - EQUAL_ERRORS))
    return _Best(float(errors[place]), f"{prefix}{place:0{below}b}", float(errors.sum()))


def _remeasured(player: Player, sequence: str, measure: WorstMeasure, draws: int, seed: int) -> float:
    """The error of one game, played once more and measured by the library's measures."""
    outcomes = [int(letter) for letter in sequence]
    errors = []
    for draw in range(draws):
        forecasts = replay(player, sequence, seed + draw)
        if measure == "ece":
            errors.append(expected_calibration_error(forecasts, outcomes, normalize=False))
        else:
            exact = calibration_distance(forecasts, outcomes, method="exact").exact
            assert exact is not None
            errors.append(exact)
    return float(np.mean(errors))


class LatticeSteps(NamedTuple):
    """The primitive steps of every small lattice, in one table.

    Those of the lattice of n0 zeros and n1 ones are rows[begins[n0, n1] : ends[n0, n1]].
    """

    rows: Ints
    begins: Ints
    ends: Ints


@cache
def steps_up_to(rounds: int) -> LatticeSteps:
    """The steps of all lattices of at most this many rounds."""
    rows, begins, ends = [], np.zeros((2, rounds + 1, rounds + 1), np.int64), 0
    for zeros in range(rounds + 1):
        for ones in range(rounds + 1 - zeros):
            table = primitive_steps(zeros, ones)
            begins[:, zeros, ones] = ends, ends + len(table)
            ends += len(table)
            rows.append(table)
    return LatticeSteps(np.concatenate(rows), begins[0], begins[1])


@kernel_part
def small_distance(forecasts: Floats, outcomes: NDArray[np.uint8], steps: LatticeSteps) -> float:
    """The exact distance to calibration of a short game, a sum; forecasts and outcomes of shape (T,)."""
    order = in_order(forecasts)
    zeros, ones = with_sums(forecasts, outcomes, order, 0), with_sums(forecasts, outcomes, order, 1)
    n0, n1 = len(zeros[0]), len(ones[0])
    rows = steps.rows[steps.begins[n0, n1] : steps.ends[n0, n1]]
    return float(path_costs((zeros, ones), rows, np.inf)[n0, n1])


@kernel_part
def in_order(forecasts: Floats) -> Ints:
    """The places of a few forecasts in their order, (n,): sorted by insertion, which is soon compiled."""
    order = np.arange(len(forecasts))
    for place in range(1, len(forecasts)):
        i = place
        while i > 0 and forecasts[order[i - 1]] > forecasts[place]:
            order[i] = order[i - 1]
            i -= 1
        order[i] = place
    return order


@kernel_part
def with_sums(
    forecasts: Floats, outcomes: NDArray[np.uint8], order: Ints, outcome: int
) -> tuple[Floats, Floats]:
    """The forecasts of the rounds with this outcome in order, (n,), and their prefix sums, (n+1,)."""
    ordered, sums, n = np.zeros(len(order)), np.zeros(len(order) + 1), 0
    for place in order:
        if outcomes[place] == outcome:
            ordered[n] = forecasts[place]
            sums[n + 1] = sums[n] + ordered[n]
            n += 1
    return ordered[:n], sums[: n + 1]


@kernel_part
def small_ece(forecasts: Floats, outcomes: NDArray[np.uint8]) -> float:
    """The expected calibration error of a short game by exact forecast, a sum."""
    total, bias, value = 0.0, 0.0, -1.0
    for place in in_order(forecasts):
        if forecasts[place] != value:
            total, bias, value = total + abs(bias), 0.0, forecasts[place]
        bias += value - outcomes[place]
    return total + abs(bias)


@cache
def tree_walk(rules: Rules) -> Callable[..., bool]:
    """A kernel walk(memory, peeks, prefix, rounds, draws, by_ece, steps, errors) -> whether memory had room.

    It writes the error of every game of `rounds` rounds that begins with the prefix into `errors`, of shape
    (2^(rounds - len(prefix)),), in binary order. There is one draw a round, or none. A forecaster that peeks
    is measured by the values that it is charged for.
    """
    has_room, announce, settle, point = rules.has_room, rules.announce, rules.settle, rules.point

    @compiled
    def walk(
        memory: NDArray[Any],
        peeks: bool,
        prefix: NDArray[np.uint8],
        rounds: int,
        draws: NDArray[np.float64],
        by_ece: bool,
        steps: LatticeSteps,
        errors: NDArray[np.float64],
    ) -> bool:
        drawn, start = len(draws) > 0, len(prefix)
        memories = np.empty((rounds + 1, len(memory)), memory.dtype)
        copy(memory, 0, memories[0], 0, len(memory))
        first, second = np.zeros(rounds, np.int64), np.zeros(rounds, np.int64)
        announced, measured = np.empty(rounds), np.empty(rounds)
        outcomes = np.empty(rounds, np.uint8)
        below = rounds - start
        level = 0
        for leaf in range(1 << below):
            # the rounds that this leaf has in common with the one before it are played already
            if leaf > 0:
                level = rounds - 1
                shifted = leaf
                while shifted & 1 == 0:
                    shifted >>= 1
                    level -= 1
            for t in range(level, rounds):
                outcome = np.int64(prefix[t]) if t < start else (leaf >> (rounds - 1 - t)) & 1
                if t < start or outcome == 0:
                    if not has_room(memories[t]):
                        return False
                    u = draws[t] if drawn else 0.0
                    first[t], second[t], announced[t], _ = announce(memories[t], NO_HINT, u)
                here = memories[t + 1]
                copy(memories[t], 0, here, 0, len(memory))
                measured[t] = announced[t]
                if peeks:
                    measured[t] = point(here, first[t], second[t], outcome, announced[t])
                settle(here, first[t], second[t], outcome, announced[t])
                outcomes[t] = outcome
            if by_ece:
                errors[leaf] = small_ece(measured, outcomes)
            else:
                errors[leaf] = small_distance(measured, outcomes, steps)
        return True

    return walk
