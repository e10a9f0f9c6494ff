"""The plan of a sweep: a TOML file is read and checked once, and the plan never changes after that.

Specs in a plan are canonical, so that equal games have equal names. The digest of a game is made of the
fields of a `PlannedGame` in their order, of the code of all modules that `sweeps/playing.py` imports, of
one's own files, and of the files whose rows it replays. If any of these changes, the game counts as one that
was not played. Versions of libraries are not in it: `playing.identity` compares them between processes, and
`sweep.toml` says which were used. A stored champion is named by its number alone.

`make_plan` checks every entry, so whoever has a `Plan` need not. The keys of its table are the fields of
`Plan`.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from functools import cache, cached_property, partial
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

import onlinecal.adversaries as adversaries
from onlinecal.adversaries.registry import recorded_files
from onlinecal.catalogue import did_you_mean
from onlinecal.compiling import modules_digest
from onlinecal.simulations.games import players
from onlinecal.validation import check_count, check_positive

MOST_PLANNED_ROUNDS = 10**9
PACKAGED_SWEEPS = ("demo", "arena")
"""The names of sweeps that come with the package."""


@dataclass(frozen=True)
class PlannedGame:
    """One game of a sweep: everything that its result depends on, apart from code and files that are read."""

    forecaster: str
    adversary: str
    rounds: int
    seed: int
    budget: float
    checkpoints: int

    @property
    def digest(self) -> str:
        """The name of the result's file, which differs for different games and for different code."""
        own = players.checksum(self.forecaster, self.adversary)
        # the code that plays and measures is part of it, so that results of older code do not count
        code = modules_digest("onlinecal.simulations.sweeps.playing")
        read: list[str] = []
        # an adversary of one's own has no recorded files before it is loaded, and cannot be played either
        with suppress(ValueError):
            read = [_contents(path) for path in recorded_files(self.adversary) if path.is_file()]
        text = json.dumps([*asdict(self).values(), code, *([own] if own else []), *read])
        return hashlib.sha256(text.encode()).hexdigest()[:24]


def _contents(path: Path) -> str:
    """A digest of what is in a file now."""
    state = path.stat()
    return _digest_of(path.resolve(), state.st_mtime_ns, state.st_size)


@cache
def _digest_of(path: Path, *state: int) -> str:
    """The same, read once for each `state` of the file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class Plan:
    """A grid of games: every forecaster meets every adversary, for every T of `rounds` and every seed.

    Specs are in canonical form. `budget` is the effort for each distance, see `calibration_distance`.
    `checkpoints` says how many certificates of each game are recorded. `load` has the absolute paths of files
    of one's own with more forecasters and adversaries.
    """

    forecasters: tuple[str, ...]
    adversaries: tuple[str, ...]
    rounds: tuple[int, ...]
    seeds: tuple[int, ...] = (0,)
    budget: float = 1.0
    checkpoints: int = 200
    load: tuple[str, ...] = ()

    @cached_property
    def games(self) -> tuple[PlannedGame, ...]:
        """Every game, in the order of the tables: by forecaster, adversary, rounds, seed."""
        grid = product(self.forecasters, self.adversaries, self.rounds, self.seeds)
        return tuple(PlannedGame(*game, self.budget, self.checkpoints) for game in grid)


def find_plan(name: str) -> Path:
    """The file of that name; if there is none, "demo" and "arena" are files of the package."""
    path = Path(name)
    if not path.is_file() and name in PACKAGED_SWEEPS:
        return Path(str(files("onlinecal.simulations").joinpath(f"{name}.toml")))
    return path


def read_plan(path: Path, load: Sequence[Path] = ()) -> Plan:
    """Read and check a sweep's TOML file, after loading the files it names and those of `load`.

    Raises
    ------
    FileNotFoundError
        If there is no such file, or one to be loaded is missing.
    ValueError
        For a file that is not TOML, a key that is unknown, missing or of the wrong type, an unknown
        forecaster or adversary, or a number of rounds that some adversary cannot play; the error names the
        key.
    """
    if not path.is_file():
        raise FileNotFoundError(
            f"no such file: {path}{did_you_mean(path, PACKAGED_SWEEPS, 'Names that need no file')}"
        )
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid TOML: {error}") from error
    # a plan that was kept beside its results says with which versions they were played
    table.pop("versions", None)
    try:
        return make_plan(table, path.parent, load)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def make_plan(table: Mapping[str, Any], folder: Path = Path(), load: Sequence[Path] = ()) -> Plan:
    """The plan that a table of keys and values describes; ValueError names the offending key.

    The files under the key "load" are relative to `folder`, those of `load` to the working directory.
    """
    # msgspec.convert would only check types, and its errors name neither the value nor the key that was meant
    known = [field.name for field in fields(Plan)]
    for key in table:
        if key not in known:
            raise ValueError(f"unknown key {key!r}{did_you_mean(key, known)}")
    for key in ("forecasters", "adversaries", "rounds"):
        if key not in table:
            raise ValueError(f"the key {key!r} is missing: give it a list with at least one entry")
    named = _list(table["load"], "load", _text(str)) if table.get("load", []) != [] else ()
    paths = [*(folder / name for name in named), *load]
    loaded = tuple(dict.fromkeys(str(path.resolve()) for path in paths))
    players.load_all(loaded)
    rounds = _list(table["rounds"], "rounds", partial(check_count, most=MOST_PLANNED_ROUNDS))

    def opponent(spec: str) -> str:
        (name,) = {adversaries.create(spec, T).name for T in rounds}
        return name

    return Plan(
        _list(table["forecasters"], "forecasters", _text(lambda spec: players.create(spec).spec)),
        _list(table["adversaries"], "adversaries", _text(opponent)),
        tuple(sorted(rounds)),
        _list(table.get("seeds", [0]), "seeds", partial(check_count, most=2**63 - 1, least=0)),
        check_positive(table.get("budget", 1.0), "budget"),
        check_count(table.get("checkpoints", 200), "checkpoints", most=100_000),
        loaded,
    )


def _list(value: Any, key: str, read: Callable[[Any, str], Any]) -> tuple[Any, ...]:
    """The entries of a list after `read`, which is given an entry and its name; equal entries are refused."""
    if not isinstance(value, (list, tuple, range)) or not value:
        raise ValueError(f"{key} must be a list with at least one entry, got {value!r}")
    entries = tuple(read(entry, f"{key}[{place}]") for place, entry in enumerate(value))
    for entry in entries:
        if entries.count(entry) > 1:
            raise ValueError(f"{key}: {entry!r} is listed twice: leave one out")
    return entries


def _text(made: Callable[[str], str]) -> Callable[[Any, str], str]:
    """A reader for `_list` that applies `made` to a text; its errors begin with the entry's name."""

    def read(value: Any, key: str) -> str:
        if not isinstance(value, str):
            raise ValueError(f"{key} must be a string, got {value!r}")
        try:
            return made(value)
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from error

    return read
