"""What a search keeps in its folder: the champion, and the population from which it goes on."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from onlinecal.tables import write_whole
from simulations.searching.fitness import Task

Record = TypeVar("Record")

CHAMPION, POPULATION = "champion.json", "population.json"
"""Files of a search's folder: the best that was found, and all that it needs to go on."""


class Individual(msgspec.Struct, frozen=True):
    """A genome as text, and its distance to calibration divided by sqrt(T)."""

    genome: str
    fitness: float


class Generation(msgspec.Struct, frozen=True):
    """A line of the history: best and median fitness, and how many children were measured to the end."""

    generation: int
    best: float
    median: float
    measured: int
    children: int


class Found(msgspec.Struct, frozen=True):
    """The best genome of a search.

    Attributes
    ----------
    forecaster, rounds, seed, population, draws
        The task.
    genome, generation
        The best genome, and in which generation it was found.
    distance, distance_over_root
        The exact distance to calibration, a sum over rounds (its mean over the draws), and over sqrt(T).
    bound
        What was proven of the distance, a sum; None if nothing was.
    generations
        How many there have been.
    """

    forecaster: str
    rounds: int
    seed: int
    population: int
    draws: int
    genome: str
    generation: int
    distance: float
    distance_over_root: float
    bound: float | None
    generations: int

    def broken_bounds(self) -> list[str]:
        """That the distance exceeds what was proven, in words; empty if all is well."""
        if self.bound is None or self.distance <= self.bound + 1e-9 * self.rounds:
            return []
        return [f"BROKEN: distance {self.distance:.6g} > bound {self.bound:.6g} ({self.forecaster})"]


class State(msgspec.Struct, frozen=True):
    """Where a search stands: individuals from the best to the worst, and what has been."""

    task: Task
    individuals: list[Individual]
    history: list[Generation]
    found: Found


def read_found(folder: Path) -> Found:
    """The best of a search; FileNotFoundError or ValueError (with the path) if there is none or no JSON."""
    path = folder / CHAMPION
    if not path.is_file():
        raise FileNotFoundError(f"no {CHAMPION} in {folder}; onlinecal search --out {folder} makes one")
    return read_record(path, Found)


def read_history(folder: Path) -> list[Generation]:
    """The generations of a search; empty if only its champion is there."""
    path = folder / POPULATION
    return read_record(path, State).history if path.is_file() else []


def save(state: State, folder: Path) -> None:
    """Write both files, each whole."""
    write_whole(folder / CHAMPION, _json(state.found))
    write_whole(folder / POPULATION, _json(state))


def _json(record: Found | State) -> bytes:
    return msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"


def read_record(path: Path, kind: type[Record]) -> Record:
    """What a file of a search holds; ValueError with its path if that is something else."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except msgspec.DecodeError as error:
        raise ValueError(f"{path} is not what a search writes: {error}") from error
