"""The worst case of a forecaster, by playing every outcome sequence there is.

What holds on all 2^T sequences holds against every adversary, so the largest error among them is the worst
case itself and not an estimate. A randomised forecaster's error is averaged over so many seeded sequences of
draws for each outcome sequence: the worst sequence is then one that does not react to the draws.

Every outcome sequence of a short game, walked as a tree: what is common to sequences is played once.

The node of a sequence is the binary number that it spells behind a leading 1, so the two continuations of
node i are 2i and 2i + 1, and the games of t rounds are the nodes from 2^t up to 2^(t+1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

import adversaries
from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import compiled, kernel_part
from onlinecal.forecasters.binary.cells import NO_HINT
from onlinecal.forecasters.rules import Rules
from onlinecal.measures import calibration_distance, expected_calibration_error
from onlinecal.measures.distance.levels import primitive_steps, shortest_paths
from onlinecal.validation import check_choice, check_count
from simulations.games import players
from simulations.games.duel import play
from simulations.games.players import Player
from simulations.sweeps.playing import Workers, work

Measure = Literal["distance", "ece"]
MEASURES: tuple[Measure, ...] = ("distance", "ece")

MOST_ROUNDS = 24
"""Sixteen million games; every further round doubles them, and the time."""

DRAWS = 8
"""Sequences of draws over which a randomised forecaster is averaged."""

SPLIT = 6
"""The tree is cut after so many rounds, into as many pieces as there are sequences of them."""

ROUNDING = 1e-11
"""Errors closer than this are equal; of equally bad sequences the first in binary order is named."""


@dataclass(frozen=True)
class WorstGame:
    """The worst of all games of so many rounds.

    Attributes
    ----------
    rounds
        T.
    sequence
        The outcomes, as a text of 0 and 1; of equally bad ones the first.
    error
        The measure there, a sum over rounds; for randomised forecasters its mean over the draws.
    mean
        The measure's mean over all 2^T sequences: what to expect against fair coins.
    bound
        What was proven of the distance for so many rounds, a sum; None if nothing was.
    stopped
        The worst error after so many rounds of a forecaster that was built for the longest game.
    """

    rounds: int
    sequence: str
    error: float
    mean: float
    bound: float | None
    stopped: float

    @property
    def over_root(self) -> float:
        """error / sqrt(T)."""
        return self.error / math.sqrt(self.rounds)


@dataclass(frozen=True)
class Enumeration:
    """The worst games of every length, from 1 round to the longest, and how they were measured."""

    forecaster: str
    measure: Measure
    draws: int
    seed: int
    games: tuple[WorstGame, ...]

    @property
    def longest(self) -> WorstGame:
        """The worst of the longest games."""
        return self.games[-1]

    @property
    def stops_matter(self) -> bool:
        """Whether a forecaster built for the longest game does otherwise in shorter ones."""
        return any(abs(game.error - game.stopped) > ROUNDING for game in self.games)

    def broken_bounds(self) -> list[str]:
        """Every length whose worst distance exceeds what was proven, in words; empty if all is well."""
        return [
            f"BROKEN: distance {game.error:.6g} > bound {game.bound:.6g} ({self.forecaster}, {game.sequence})"
            for game in self.games
            if game.bound is not None and game.error > game.bound + ROUNDING
        ]

    def record(self) -> dict[str, Any]:
        """All of it as plain records."""
        games = [{**asdict(game), "over_root": game.over_root} for game in self.games]
        return {**asdict(self), "games": games}

    @cached_property
    def forecasts(self) -> NDArray[np.float64]:
        """What was measured in the longest worst game, with the first sequence of draws; shape (T,)."""
        return replay(players.create(self.forecaster), self.longest.sequence, self.seed)


def enumerate_games(
    spec: str,
    rounds: int,
    *,
    measure: Measure = "distance",
    draws: int = DRAWS,
    seed: int = 0,
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Enumeration:
    """Play every outcome sequence of 1 to `rounds` rounds and find the worst of each length.

    Parameters
    ----------
    spec
        The forecaster. One that is built for a horizon is built anew for each length.
    rounds
        T, at most 24. Up to 16 it takes a second or two, 20 ten, beyond that minutes.
    measure
        "distance" for the exact distance to calibration, "ece" for the expected calibration error.
    draws, seed
        A randomised forecaster's errors are averaged over the draws of the seeds seed, ..., seed + draws - 1.
    jobs
        Processes to use; 1 plays in this one.
    progress
        Called with (pieces of the tree done, all).

    Raises
    ------
    ValueError
        For a spec that is none, or arguments outside these ranges.
    """
    player = players.create(spec)
    check_count(rounds, "rounds", most=MOST_ROUNDS)
    check_choice(measure, MEASURES, "measure")
    check_count(draws, "draws")
    # a deterministic forecaster does not draw: one game tells everything
    draws = draws if len(player.build(1).draws(1)) else 1
    walks = _walks(player, rounds)
    tasks = [
        (player.spec, built_for, prefix, depth, measure, draws, seed)
        for built_for in sorted(set(walks), reverse=True)
        for prefix, depth in _pieces(max(t for t in range(1, rounds + 1) if walks[t - 1] == built_for))
    ]
    # compiled here once, and found on disk by all processes
    play_piece(player.spec, rounds, "", 1, measure, 1, seed)
    # in the order of the tasks, so that sums round alike whatever the number of jobs
    answers = work(play_piece, tasks, Workers(jobs=min(jobs, len(tasks))), ordered=True)
    found: dict[tuple[int, int], _Best] = {}
    for done, (built_for, start, bests) in enumerate(answers, 1):
        for below, best in enumerate(bests):
            key = built_for, start + 1 + below
            found[key] = best if key not in found else _worse(found[key], best)
        if progress is not None:
            progress(done, len(tasks))
    games: list[WorstGame] = []
    for t in range(1, rounds + 1):
        best = found[walks[t - 1], t]
        games.append(
            WorstGame(
                rounds=t,
                sequence=best.sequence,
                error=_remeasured(player, walks[t - 1], best.sequence, measure, draws, seed),
                mean=best.total / 2**t,
                bound=player.bound(t) if measure == "distance" else None,
                stopped=found[walks[-1], t].error,
            )
        )
    return Enumeration(player.spec, measure, draws, seed, tuple(games))


def replay(player: Player, sequence: str, seed: int = 0, built_for: int | None = None) -> NDArray[np.float64]:
    """The forecasts (of references: the answers) of one game, shape (T,)."""
    outcomes = [int(letter) for letter in sequence]
    stream = adversaries.replay_sequence(outcomes).adversary()
    duel = play(player.build(built_for or len(outcomes), seed), stream, len(outcomes), None, 1)
    return duel.charged if player.family.kind == "reference" else duel.forecasts


@dataclass(frozen=True)
class _Best:
    """The worst sequence among some of one length, and the sum of the errors of all of them."""

    error: float
    sequence: str
    total: float


def _worse(one: _Best, other: _Best) -> _Best:
    """The two together; the result does not depend on which comes first."""
    pair = sorted((one, other), key=lambda best: best.sequence)
    worst = pair[1] if pair[1].error > pair[0].error + ROUNDING else pair[0]
    return _Best(worst.error, worst.sequence, one.total + other.total)


def _walks(player: Player, rounds: int) -> list[int]:
    """For each length from 1 on, the largest horizon for which the same forecaster would be built."""
    memories = [player.build(t).memory for t in range(1, rounds + 1)]
    return [
        max(s for s in range(t, rounds + 1) if np.array_equal(memories[s - 1], memories[t - 1]))
        for t in range(1, rounds + 1)
    ]


def _pieces(rounds: int) -> Iterator[tuple[str, int]]:
    """Prefixes and depths of subtrees that make up the tree; the upper part is a piece of its own."""
    cut = min(SPLIT, rounds)
    if rounds > cut:
        for number in range(2**cut):
            yield f"{number:0{cut}b}", rounds
    yield "", cut


def play_piece(
    spec: str, built_for: int, prefix: str, rounds: int, measure: Measure, draws: int, seed: int
) -> tuple[int, int, list[_Best]]:
    """Play one subtree: the horizon, the prefix's length, and the worst of each length beyond it."""
    player = players.create(spec)
    begun = np.array([int(letter) for letter in prefix], dtype=np.uint8)
    depth = rounds - len(prefix)
    sums = np.zeros(2 ** (depth + 1))
    for draw in range(draws):
        forecaster = player.build(built_for, seed + draw)
        peeks = player.family.kind == "reference"
        drawn = np.asarray(forecaster.draws(built_for), dtype=np.float64)
        walk = tree_walk(forecaster.rules)
        while True:
            added = np.zeros_like(sums)
            arguments = begun, rounds, drawn, measure == "ece", steps_up_to(MOST_ROUNDS), added
            if walk(forecaster.memory, peeks, *arguments):
                break
            forecaster.grow()
        sums += added
    sums /= draws
    bests = []
    for below in range(1, depth + 1):
        errors = sums[2**below : 2 ** (below + 1)]
        place = int(np.argmax(errors >= errors.max() - ROUNDING))
        bests.append(_Best(float(errors[place]), f"{prefix}{place:0{below}b}", float(errors.sum())))
    return built_for, len(prefix), bests


def _remeasured(
    player: Player, built_for: int, sequence: str, measure: Measure, draws: int, seed: int
) -> float:
    """The error of one game, played and measured once more by the library's own measures."""
    outcomes = [int(letter) for letter in sequence]
    errors = []
    for draw in range(draws):
        forecasts = replay(player, sequence, seed + draw, built_for)
        if measure == "ece":
            errors.append(expected_calibration_error(forecasts, outcomes, normalize=False))
        else:
            exact = calibration_distance(forecasts, outcomes, method="exact").exact
            assert exact is not None
            errors.append(exact)
    return float(np.mean(errors))


class Steps(NamedTuple):
    """The primitive steps of every small lattice, one table after the other.

    The lattice of n0 zeros and n1 ones has rows[begins[n0, n1] : ends[n0, n1]].
    """

    rows: Ints
    begins: Ints
    ends: Ints


@cache
def steps_up_to(rounds: int) -> Steps:
    """The steps of all lattices of at most so many rounds."""
    rows, begins, ends = [], np.zeros((2, rounds + 1, rounds + 1), np.int64), 0
    for zeros in range(rounds + 1):
        for ones in range(rounds + 1 - zeros):
            table = primitive_steps(zeros, ones)
            begins[:, zeros, ones] = ends, ends + len(table)
            ends += len(table)
            rows.append(table)
    return Steps(np.concatenate(rows), begins[0], begins[1])


@kernel_part
def small_distance(forecasts: Floats, outcomes: NDArray[np.uint8], steps: Steps) -> float:
    """The exact distance to calibration of a short game, a sum; forecasts and outcomes of shape (T,)."""
    sorted_rounds = np.sort(forecasts[outcomes == 0]), np.sort(forecasts[outcomes == 1])
    n0, n1 = len(sorted_rounds[0]), len(sorted_rounds[1])
    rows = steps.rows[steps.begins[n0, n1] : steps.ends[n0, n1]]
    last_step = np.full((n0 + 1, n1 + 1), -1, np.int32)
    return float(shortest_paths(sorted_rounds[0], sorted_rounds[1], rows, last_step)[n0, n1])


@kernel_part
def small_ece(forecasts: Floats, outcomes: NDArray[np.uint8]) -> float:
    """The expected calibration error of a short game by exact forecast, a sum."""
    order = np.argsort(forecasts, kind="mergesort")
    total, bias, value = 0.0, 0.0, -1.0
    for place in order:
        if forecasts[place] != value:
            total, bias, value = total + abs(bias), 0.0, forecasts[place]
        bias += value - outcomes[place]
    return total + abs(bias)


@cache
def tree_walk(rules: Rules) -> Callable[..., bool]:
    """walk(memory, peeks, prefix, rounds, draws, by_ece, steps, sums) -> whether the memory had room.

    Adds to sums[i] the error of node i, counted from the prefix as node 1, for all continuations up to so
    many rounds in all: sums (2^(rounds - len(prefix) + 1),). The nodes 0 and 1 are left alone. Draws are one
    a round, or none. Of a forecaster that peeks, what it is charged for is measured.
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
        steps: Steps,
        sums: NDArray[np.float64],
    ) -> bool:
        drawn, start = len(draws) > 0, len(prefix)
        memories = np.empty((rounds + 1, len(memory)), memory.dtype)
        memories[0] = memory
        first, second = np.zeros(rounds, np.int64), np.zeros(rounds, np.int64)
        announced, measured = np.empty(rounds), np.empty(rounds)
        outcomes = np.empty(rounds, np.uint8)
        below = rounds - start
        level = 0
        for leaf in range(1 << below):
            # what this leaf shares with the one before it is played already
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
                memories[t + 1] = memories[t]
                here = memories[t + 1]
                measured[t] = announced[t]
                if peeks:
                    measured[t] = point(here, first[t], second[t], outcome, announced[t])
                settle(here, first[t], second[t], outcome, announced[t])
                outcomes[t] = outcome
                if t >= start:
                    node = (1 << (t + 1 - start)) | (leaf >> (rounds - 1 - t))
                    if by_ece:
                        sums[node] += small_ece(measured[: t + 1], outcomes[: t + 1])
                    else:
                        sums[node] += small_distance(measured[: t + 1], outcomes[: t + 1], steps)
        return True

    return walk
