"""Stored champions: genomes that were found to be hard for a forecaster, with what they were measured to do.

They were bred: genomes were mutated and crossed over hundreds of generations, and those lived on whose games
ended with the largest exact distances to calibration. champions.toml beside this file has one table each. It
is read only when a champion is asked for.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from adversaries.kinds.genome import Genome, genome_step
from adversaries.protocol import Kind, State
from onlinecal.catalogue import Parameter


class Champion(NamedTuple):
    """A genome and what it did to a forecaster.

    Attributes
    ----------
    number
        Under which `champion:number=...` plays it, at least 1.
    against
        The forecaster's spec, as `onlinecal simulate --forecaster` takes it.
    rounds
        T, the rounds of the game in which it was measured.
    distance_over_root
        The distance to calibration in that game, a sum over rounds, divided by sqrt(T).
    genome
        What it plays.
    found_by
        How it was found, in a few words.
    """

    number: int
    against: str
    rounds: int
    distance_over_root: float
    genome: Genome
    found_by: str


@cache
def stored_champions() -> tuple[Champion, ...]:
    """The champions that come with the library, in the order of its file."""
    text = resources.files(__package__).joinpath("champions.toml").read_text(encoding="utf-8")
    return tuple(
        Champion(**{**table, "genome": Genome.parse(table["genome"])})
        for table in tomllib.loads(text)["champion"]
    )


def champion_initial(values: Mapping[str, Any], horizon: int | None) -> State:
    """State of `genome_step` for a stored champion; ValueError lists the numbers there are."""
    assert horizon is not None
    stored = {champion.number: champion for champion in stored_champions()}
    number = values["number"]
    if number not in stored:
        known = ", ".join(map(str, sorted(stored)))
        raise ValueError(f"champion: no champion has number {number}; there are {known}")
    return stored[number].genome.state(horizon)


CHAMPION = Kind(
    "champion",
    "a stored genome that was found to be hard for a forecaster",
    "oblivious",
    "this library, found by search",
    (Parameter("number", 1, "which one", low=1, high=1_000_000, form="whole"),),
    genome_step,
    champion_initial,
    needs_horizon=True,
)
