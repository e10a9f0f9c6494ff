"""Stored champions: genomes that were found to be hard for a forecaster, with what they were measured to do.

They live in champions.toml beside this file, one table each. A search writes the file with `champions_text`;
everything in it is checked when it is read, and it is read only when a champion is asked for.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from typing import Any

from adversaries.kinds.genome import Genome, genome_step
from adversaries.protocol import Kind, State
from onlinecal.specs import Parameter
from onlinecal.validation import check_count, check_number

FILE = "champions.toml"


@dataclass(frozen=True)
class Champion:
    """A genome and what it did to a forecaster.

    Parameters
    ----------
    number
        Under which `champion:number=...` plays it, at least 1.
    against
        The forecaster's spec, as `onlinecal simulate --forecaster` takes it.
    rounds
        T, the rounds of the game in which it was measured, at least 1.
    distance_over_root
        The distance to calibration in that game, a sum over rounds, divided by sqrt(T).
    genome
        What it plays.
    found_by
        How it was found, in a few words.

    Raises
    ------
    ValueError
        For a field of the wrong type or range; it names the field and the value.
    """

    number: int
    against: str
    rounds: int
    distance_over_root: float
    genome: Genome
    found_by: str

    def __post_init__(self) -> None:
        for name in ("number", "rounds"):
            check_count(getattr(self, name), name)
        for name in ("against", "found_by"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value.isprintable() or not value.strip():
                raise ValueError(f"{name} must be a line of text, got {value!r}")
        allowed = "a number of at least 0"
        check_number(self.distance_over_root, "distance_over_root", 0.0, math.inf, "[)", allowed)
        if not isinstance(self.genome, Genome):
            raise ValueError(f"genome must be a Genome, got {self.genome!r}")


FIELDS = [field.name for field in fields(Champion)]


def read_champions(text: str) -> tuple[Champion, ...]:
    """The champions that a TOML text lists as [[champion]] tables, in its order.

    Parameters
    ----------
    text
        What `champions_text` writes: every table has the fields of `Champion`, the genome as text.

    Raises
    ------
    ValueError
        For a text that is not TOML, a table with missing or unknown fields, a value that is not allowed (it
        names the table, counting from 0, and the field), or a number that two champions share.
    """
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"the champions are not written as TOML: {error}") from error
    listed = tables.pop("champion", [])
    if tables or not isinstance(listed, list) or not all(isinstance(table, dict) for table in listed):
        got = ", ".join(tables) or repr(listed)
        raise ValueError(f"champions are listed as [[champion]] tables only, got {got}")
    champions = []
    for place, table in enumerate(listed):
        try:
            champions.append(_champion(table))
        except ValueError as error:
            raise ValueError(f"champion[{place}]: {error}") from error
    numbers = [champion.number for champion in champions]
    for place, number in enumerate(numbers):
        if number in numbers[:place]:
            raise ValueError(
                f"champion[{place}]: number {number} is taken by champion[{numbers.index(number)}]"
            )
    return tuple(champions)


def champions_text(champions: Iterable[Champion]) -> str:
    """The TOML text of `champions` that `read_champions` reads back; ValueError if two share a number."""
    tables = []
    for champion in champions:
        values = {name: getattr(champion, name) for name in FIELDS} | {"genome": champion.genome.text}
        lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in values.items()]
        tables.append("\n".join(["[[champion]]", *lines]) + "\n")
    text = "\n".join(tables)
    read_champions(text)
    return text


@cache
def stored_champions() -> tuple[Champion, ...]:
    """The champions that come with the library, in the order of its file."""
    return read_champions(resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8"))


def champion_initial(values: Mapping[str, Any], horizon: int | None) -> State:
    """State of `genome_step` for a stored champion; ValueError lists the numbers there are."""
    assert horizon is not None
    stored = {champion.number: champion for champion in stored_champions()}
    number = values["number"]
    if number not in stored:
        known = ", ".join(map(str, sorted(stored))) or "none"
        raise ValueError(f"champion: no champion has number {number}; there are {known}")
    return stored[number].genome.state(horizon)


def _champion(table: dict[str, Any]) -> Champion:
    missing = [name for name in FIELDS if name not in table]
    unknown = [name for name in table if name not in FIELDS]
    if missing or unknown:
        raise ValueError(f"expected the fields {', '.join(FIELDS)}; {_wrong(missing, unknown)}")
    if not isinstance(table["genome"], str):
        raise ValueError(f"genome must be a text, got {table['genome']!r}")
    return Champion(**{**table, "genome": Genome.parse(table["genome"])})


def _wrong(missing: list[str], unknown: list[str]) -> str:
    parts = [
        f"{what}: {', '.join(names)}" for what, names in (("missing", missing), ("unknown", unknown)) if names
    ]
    return "; ".join(parts)


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
