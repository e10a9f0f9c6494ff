"""What a sweep is to play: a TOML file, checked from the first key to the last spec.

(msgspec.convert would check the types alone; its errors name neither the value nor the key that was meant.)
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import adversaries
from onlinecal.catalogue import did_you_mean
from onlinecal.validation import check_count, check_positive
from simulations.games import extensions, players

MOST_ROUNDS = 10**9
PACKAGED = ("demo", "arena")
"""Sweeps that come with the package, by name."""


@dataclass(frozen=True)
class Config:
    """A grid of games: every forecaster meets every adversary, for every T and every seed.

    Attributes
    ----------
    forecasters, adversaries
        Specs, in canonical form.
    rounds
        The values of T.
    seeds
        Seeds of the adversaries' draws.
    budget
        Effort spent on each distance to calibration, see `calibration_distance`.
    checkpoints
        How many rounds of each game get their certificate recorded.
    load
        Files of one's own with more forecasters and adversaries, absolute paths.
    """

    forecasters: tuple[str, ...]
    adversaries: tuple[str, ...]
    rounds: tuple[int, ...]
    seeds: tuple[int, ...] = (0,)
    budget: float = 1.0
    checkpoints: int = 200
    load: tuple[str, ...] = ()


def find_config(name: str) -> Path:
    """The file of that name; "demo" and "arena" come with the package, if there is no such file here."""
    path = Path(name)
    if not path.is_file() and name in PACKAGED:
        return Path(str(files("simulations").joinpath(f"{name}.toml")))
    return path


def read_config(path: Path, load: Sequence[Path] = ()) -> Config:
    """Read and check a sweep's TOML file, after loading the files it names and those of `load`.

    Raises
    ------
    FileNotFoundError
        If there is no such file, or one to be loaded is missing.
    ValueError
        For a file that is no TOML, a key that is unknown, missing or of the wrong type, an unknown forecaster
        or adversary, or a number of rounds that some adversary cannot play; the message names the key.
    """
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}{did_you_mean(path, PACKAGED, 'Without a file')}")
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid TOML: {error}") from error
    try:
        return check_config(table, path.parent, load)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def check_config(table: Mapping[str, Any], folder: Path = Path(), load: Sequence[Path] = ()) -> Config:
    """The configuration that a table of keys and values describes; ValueError names the offending key.

    The files under the key "load" are relative to `folder`, those of `load` to the working directory.
    """
    known = [field.name for field in fields(Config)]
    for key in table:
        if key not in known:
            raise ValueError(f"unknown key {key!r}{did_you_mean(key, known)}")
    for key in ("forecasters", "adversaries", "rounds"):
        if key not in table:
            raise ValueError(f"the key {key!r} is missing")
    config = Config(
        forecasters=_list(table["forecasters"], "forecasters", _text),
        adversaries=_list(table["adversaries"], "adversaries", _text),
        rounds=_list(table["rounds"], "rounds", partial(check_count, most=MOST_ROUNDS)),
        seeds=_list(table.get("seeds", [0]), "seeds", partial(check_count, most=2**63 - 1, least=0)),
        budget=check_positive(table.get("budget", 1.0), "budget"),
        checkpoints=check_count(table.get("checkpoints", 200), "checkpoints", most=100_000),
        load=_files(table, folder, load),
    )
    extensions.load_all(config.load)
    return _with_canonical_specs(config)


def _with_canonical_specs(config: Config) -> Config:
    """The same with canonical specs, each of them tried out for every number of rounds."""
    names = [_at("forecasters", i, players.create, spec).spec for i, spec in enumerate(config.forecasters)]
    _refuse_repeated("forecasters", names)
    canonical = []
    for i, spec in enumerate(config.adversaries):
        made = [_at("adversaries", i, adversaries.create, spec, rounds) for rounds in config.rounds]
        canonical.append(made[0].name)
    _refuse_repeated("adversaries", canonical)
    _refuse_repeated("rounds", config.rounds)
    _refuse_repeated("seeds", config.seeds)
    return replace(
        config,
        forecasters=tuple(names),
        adversaries=tuple(canonical),
        rounds=tuple(sorted(config.rounds)),
    )


def _files(table: Mapping[str, Any], folder: Path, more: Sequence[Path]) -> tuple[str, ...]:
    """Absolute paths of what is to be loaded, each once."""
    named = _list(table["load"], "load", _text) if table.get("load", []) != [] else ()
    paths = [*(folder / name for name in named), *more]
    return tuple(dict.fromkeys(str(path.resolve()) for path in paths))


def _at(key: str, place: int, create: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return create(*arguments)
    except ValueError as error:
        raise ValueError(f"{key}[{place}]: {error}") from error


def _refuse_repeated(key: str, values: Any) -> None:
    for value in values:
        if list(values).count(value) > 1:
            raise ValueError(f"{key}: {value!r} is listed twice")


def _list(value: Any, key: str, read: Callable[[Any, str], Any]) -> tuple[Any, ...]:
    if not isinstance(value, list) or not value:
        raise ValueError(f"{key} must be a list with at least one entry, got {value!r}")
    return tuple(read(entry, f"{key}[{place}]") for place, entry in enumerate(value))


def _text(value: Any, key: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{key} must be a string, got {value!r}")
    return value
