"""Evolutionary search for outcome sequences that are hard for a forecaster.

Individuals are genomes, few words each repeated for a stretch of the game; their fitness is the distance to
calibration of the forecaster's game against them, divided by sqrt(T). Children must be better than the worst
of their parents' generation to survive, so a child is dropped at the first upper bound on its distance that
is below: the forecaster's certificate, then the cheapest pooling, then the bracket.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from adversaries import Genome
from onlinecal.validation import check_count
from simulations.games import players
from simulations.searching.breeding import crossed, mutated, normalised, random_genome
from simulations.searching.fitness import Task, exact_distance, rate
from simulations.searching.records import (
    CHAMPION,
    POPULATION,
    Found,
    Generation,
    Individual,
    State,
    read_found,
    read_record,
    save,
)
from simulations.sweeps.pool import work

TOURNAMENT = 3
CHILDREN = 2
"""Children per individual and generation."""
CROSSED = 0.4
"""Share of children with two parents."""
NEW = 0.1
"""Share of children with none."""
ALIKE = 0.02
"""Share of the rounds in which two survivors must differ, while there are others to choose from."""
CHUNK = 4
"""Genomes that a process rates at a time."""


def search(
    task: Task,
    generations: int,
    folder: Path,
    *,
    resume: bool = False,
    jobs: int = 1,
    progress: Callable[[int, int, Found], None] | None = None,
) -> State:
    """Breed so many generations, all in all, and keep the best genome in the folder.

    The folder has champion.json, written after every generation, and population.json, from which
    `resume` goes on after any generation, as if there had been no interrupt; without that file it goes on
    from the champion alone. The number of jobs changes nothing but the time.

    Raises
    ------
    ValueError
        If there is a search in the folder that is not to be resumed, or one for another task.
    """
    check_count(generations, "generations")
    state = _resumed(task, folder) if resume else None
    if state is None:
        if not resume and (folder / CHAMPION).exists():
            raise ValueError(f"{folder} has a search already: go on with --resume, or choose another --out")
        state = _begun(task, folder, jobs)
    if progress is not None:
        progress(len(state.history) - 1, generations, state.found)
    while len(state.history) <= generations:
        state = _next_generation(state, jobs)
        save(state, folder)
        if progress is not None:
            progress(len(state.history) - 1, generations, state.found)
    return state


def _begun(task: Task, folder: Path, jobs: int) -> State:
    """Generation 0: random genomes, and the champion that is in the folder, if there is one."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng((task.seed, 0))
    genomes = [random_genome(rng, task.rounds) for _ in range(CHILDREN * task.population)]
    if (folder / CHAMPION).exists():
        genomes[0] = normalised(list(Genome.parse(read_found(folder).genome).blocks), task.rounds)
    rated = _rated(task, [genome.text for genome in genomes], -1.0, jobs)
    individuals = _survivors(rated, task)
    state = State(
        task, individuals, [_line(0, individuals, len(rated), len(genomes))], _crown(task, rated, 0)
    )
    save(state, folder)
    return state


def _next_generation(state: State, jobs: int) -> State:
    task, number = state.task, len(state.history)
    rng = np.random.default_rng((task.seed, number))
    parents = state.individuals
    outcomes = {_outcomes(one.genome, task.rounds) for one in parents}
    children: list[str] = []
    for _ in range(CHILDREN * task.population):
        child = _child(parents, rng, task.rounds).text
        played = _outcomes(child, task.rounds)
        if played not in outcomes:
            outcomes.add(played)
            children.append(child)
    full = len(parents) >= task.population
    rated = _rated(task, children, parents[-1].fitness if full else -1.0, jobs)
    individuals = _survivors([*parents, *rated], task)
    line = _line(number, individuals, len(rated), CHILDREN * task.population)
    found = state.found
    if rated and max(one.fitness for one in rated) > found.distance_over_root + 1e-12:
        found = max(found, _crown(task, rated, number), key=lambda one: one.distance)
    return State(
        task, individuals, [*state.history, line], msgspec.structs.replace(found, generations=number)
    )


def _child(parents: Sequence[Individual], rng: np.random.Generator, rounds: int) -> Genome:
    kind = rng.random()
    if kind < NEW:
        return random_genome(rng, rounds)
    one = _tournament(parents, rng)
    if kind >= NEW + CROSSED:
        return mutated(one, rng, rounds)
    child = crossed(one, _tournament(parents, rng), rng, rounds)
    return mutated(child, rng, rounds) if rng.random() < 0.5 else child


def _tournament(parents: Sequence[Individual], rng: np.random.Generator) -> Genome:
    # the best of a few; parents stand in order of their fitness
    return Genome.parse(parents[int(rng.integers(len(parents), size=TOURNAMENT).min())].genome)


def _rated(task: Task, genomes: Sequence[str], threshold: float, jobs: int) -> list[Individual]:
    """Those above the threshold, in the order given."""
    chunks = [genomes[first : first + CHUNK] for first in range(0, len(genomes), CHUNK)]
    answers = work(rate, ((task, chunk, threshold) for chunk in chunks), min(jobs, len(chunks) or 1), True)
    fitnesses = [fitness for answer in answers for fitness in answer]
    return [
        Individual(genome, fitness)
        for genome, fitness in zip(genomes, fitnesses, strict=True)
        if fitness is not None
    ]


def _survivors(individuals: Sequence[Individual], task: Task) -> list[Individual]:
    """The best ones that differ enough from all better ones, then if there is room the best of the others."""
    ordered = sorted(individuals, key=lambda one: (-one.fitness, len(one.genome), one.genome))
    kept: list[Individual] = []
    played: list[NDArray[np.uint8]] = []
    spare: list[Individual] = []
    for one in ordered:
        outcomes = Genome.parse(one.genome).outcomes(task.rounds)
        if all(np.count_nonzero(outcomes != other) > ALIKE * task.rounds for other in played):
            kept.append(one)
            played.append(outcomes)
        else:
            spare.append(one)
        if len(kept) == task.population:
            break
    kept += spare[: task.population - len(kept)]
    return sorted(kept, key=lambda one: (-one.fitness, len(one.genome), one.genome))


def _crown(task: Task, rated: Sequence[Individual], generation: int) -> Found:
    best = max(rated, key=lambda one: one.fitness)
    genome = Genome.parse(best.genome)
    distance = exact_distance(task.forecaster, genome, task.rounds, task.seed, task.draws)
    return Found(
        forecaster=task.forecaster,
        rounds=task.rounds,
        seed=task.seed,
        population=task.population,
        draws=task.draws,
        genome=reduced(genome).text,
        generation=generation,
        distance=distance,
        distance_over_root=distance / math.sqrt(task.rounds),
        bound=players.create(task.forecaster).bound(task.rounds),
        generations=generation,
    )


def reduced(genome: Genome) -> Genome:
    """The same genome with shares that have no common divisor."""
    divisor = math.gcd(*(share for share, _ in genome.blocks))
    return Genome(tuple((share // divisor, word) for share, word in genome.blocks))


def _line(number: int, individuals: Sequence[Individual], measured: int, children: int) -> Generation:
    fitnesses = [one.fitness for one in individuals]
    return Generation(number, fitnesses[0], float(np.median(fitnesses)), measured, children)


def _outcomes(text: str, rounds: int) -> bytes:
    return Genome.parse(text).outcomes(rounds).tobytes()


def _resumed(task: Task, folder: Path) -> State | None:
    """Where the search in the folder stands; None if there is at most a champion."""
    if not (path := folder / POPULATION).is_file():
        return None
    state = read_record(path, State)
    if state.task != task:
        raise ValueError(f"{path} is a search for {_words(state.task)}, not for {_words(task)}")
    return state


def _words(task: Task) -> str:
    return (
        f"{task.forecaster} in {task.rounds} rounds (seed {task.seed}, population {task.population}, "
        f"draws {task.draws})"
    )
