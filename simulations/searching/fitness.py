"""How hard a genome is for a forecaster: its game, and the distance to calibration of that, over sqrt(T)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

import adversaries
from adversaries import Genome
from onlinecal.measures import calibration_distance
from onlinecal.measures.counts import count_rounds
from onlinecal.measures.distance.levels import distance_to
from onlinecal.measures.distance.pooling import pooled_levels
from onlinecal.validation import check_count
from simulations.games import players
from simulations.games.duel import Duel, play
from simulations.games.players import Player

MOST_ROUNDS = 20_000
BUDGET = 0.1
"""Effort for the distance of one game; what remains open counts at its proven lower end."""


@dataclass(frozen=True)
class Task:
    """What is searched for: all that the result depends on, apart from the number of generations."""

    forecaster: str
    rounds: int
    seed: int = 0
    population: int = 40
    draws: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "forecaster", players.create(self.forecaster).spec)
        check_count(self.rounds, "rounds", most=MOST_ROUNDS)
        check_count(self.population, "population", most=10_000)
        check_count(self.draws, "draws")
        check_count(self.seed, "seed", least=0)


def play_genome(player: Player, genome: Genome, rounds: int, seed: int = 0, checkpoints: int = 1) -> Played:
    """The game of a forecaster against a genome."""
    forecaster = player.build(rounds, seed)
    stream = adversaries.replay_sequence(genome.outcomes(rounds)).adversary()
    duel = play(forecaster, stream, rounds, None, checkpoints)
    answers = player.family.kind == "reference"
    return Played(duel, duel.charged if answers else duel.forecasts, float(forecaster.certificate))


def exact_distance(spec: str, genome: Genome, rounds: int, seed: int = 0, draws: int = 1) -> float:
    """The exact distance to calibration, a sum; the mean over the draws of the seeds seed, seed + 1, ..."""
    player = players.create(spec)
    distances = []
    for draw in range(draws):
        played = play_genome(player, genome, rounds, seed + draw)
        distances.append(
            calibration_distance(
                played.measured, played.duel.outcomes, method="exact", look_ahead=played.duel.charged
            ).upper
        )
    return float(np.mean(distances))


def rate(task: Task, genomes: Sequence[str], threshold: float) -> list[float | None]:
    """The fitness of each genome; None if it is not above the threshold.

    Where a bracket stays open, its lower end counts.
    """
    return [_rate_one(task, Genome.parse(text), threshold) for text in genomes]


@dataclass(frozen=True, eq=False)
class Played:
    """A game: the duel, what of it is measured, and a bound on the distance, a sum."""

    duel: Duel
    measured: NDArray[np.float64]
    certificate: float

    @cached_property
    def pooled(self) -> float:
        """The distance to the best sequence that sends neighbouring forecasts to one level."""
        counts, _, _ = count_rounds(self.measured, self.duel.outcomes)
        return distance_to(counts, pooled_levels(counts))


def _rate_one(task: Task, genome: Genome, threshold: float) -> float | None:
    player, root = players.create(task.forecaster), math.sqrt(task.rounds)
    games = [play_genome(player, genome, task.rounds, task.seed + draw) for draw in range(task.draws)]
    for bounds in ((game.certificate for game in games), (game.pooled for game in games)):
        if sum(bounds) / (root * task.draws) <= threshold:
            return None
    total = sum(
        calibration_distance(
            game.measured, game.duel.outcomes, "bracket", look_ahead=game.duel.charged, budget=BUDGET
        ).lower
        for game in games
    )
    fitness = total / (root * task.draws)
    return fitness if fitness > threshold else None
