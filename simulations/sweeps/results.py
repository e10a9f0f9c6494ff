"""A sweep's configuration, a TOML file, what it leaves on disk, and how fast errors grow in it.

(msgspec.convert would check the types alone; its errors name neither the value nor the key that was meant.)

The exponent of a forecaster against an adversary is the slope of log(error) against log(T). What counts as
an independent observation is a seed, not a game: the draws of a short game are the first ones of the long
games with the same seed, so a lucky start lifts or lowers them together. One line is therefore fitted per
seed, the exponent is the mean of their slopes, and its standard error their deviation / sqrt(seeds). Where
that says too little (one seed, nothing random, few seeds that happen to agree, a curve that is no straight
line), the residuals of the line through the means over seeds say more: of both errors the larger counts.

Errors below half a round count as half a round: what stays that small does not grow, and reads as exponent 0.

A fitted exponent is that of the games that were played. An error of a sqrt(T) less something smaller has a
slope above 1/2 that falls as T grows; no standard error says so. Of the distance it is the upper end of the
bracket that is fitted: where brackets open up as T grows, more effort (`budget`) lowers the exponent.

    <out>/sweep.toml             the configuration, and the versions it was played with
    <out>/games/<digest>.json    one finished game; the digest is that of everything it depends on
    <out>/results.parquet        one row per game (or results.csv)
    <out>/trajectories.parquet   certificate and guarantee as the games went on (or trajectories.csv)
    <out>/rates.parquet          fitted exponents of T, if there is more than one T (or rates.csv)

Every file appears under its name only when it is complete, so whatever interrupts a sweep, what is there
is whole.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import msgspec
import numpy as np
import polars as pl
from numpy.typing import ArrayLike

import adversaries
from onlinecal.catalogue import did_you_mean
from onlinecal.tables import write_table, write_whole
from onlinecal.validation import check_count, check_positive
from simulations.games import players
from simulations.games.duel import Duel
from simulations.games.measuring import OF_WINDOWS, Line, Measured

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
    named = _list(table["load"], "load", _text) if table.get("load", []) != [] else ()
    paths = [*(folder / name for name in named), *load]
    loaded = tuple(dict.fromkeys(str(path.resolve()) for path in paths))
    forecasters, opponents = (_list(table[key], key, _text) for key in ("forecasters", "adversaries"))
    rounds = _list(table["rounds"], "rounds", partial(check_count, most=MOST_ROUNDS))
    seeds = _list(table.get("seeds", [0]), "seeds", partial(check_count, most=2**63 - 1, least=0))
    budget = check_positive(table.get("budget", 1.0), "budget")
    checkpoints = check_count(table.get("checkpoints", 200), "checkpoints", most=100_000)
    players.load_all(loaded)

    def opponent(spec: str) -> str:
        (name,) = {adversaries.create(spec, T).name for T in rounds}
        return name

    forecasters = _made(forecasters, "forecasters", lambda spec: players.create(spec).spec)
    opponents = _made(opponents, "adversaries", opponent)
    config = Config(forecasters, opponents, tuple(sorted(rounds)), seeds, budget, checkpoints, loaded)
    for key in ("forecasters", "adversaries", "rounds", "seeds"):
        values = getattr(config, key)
        for value in values:
            if values.count(value) > 1:
                raise ValueError(f"{key}: {value!r} is listed twice")
    return config


def _list(value: Any, key: str, read: Callable[[Any, str], Any]) -> tuple[Any, ...]:
    if not isinstance(value, list) or not value:
        raise ValueError(f"{key} must be a list with at least one entry, got {value!r}")
    return tuple(read(entry, f"{key}[{place}]") for place, entry in enumerate(value))


def _text(value: Any, key: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{key} must be a string, got {value!r}")
    return value


def _made(specs: Sequence[str], key: str, create: Callable[[str], str]) -> tuple[str, ...]:
    names = []
    for place, spec in enumerate(specs):
        try:
            names.append(create(spec))
        except ValueError as error:
            raise ValueError(f"{key}[{place}]: {error}") from error
    return tuple(names)


MEASURES = {"distance": "distance_upper", "ece": "ece", "certificate": "certificate", "regret": "regret"}
"""What is fitted, and the column of results that it is.

The distance is taken by the upper end of its bracket, the regret is the Brier score beyond that of the best
constant forecast in hindsight.
"""

NOMINAL = {"distance": 1 / 2, "ece": 2 / 3, "certificate": 1 / 2, "regret": 1 / 2}
"""The exponent at which the constant is taken."""

LEAST = 0.5
"""Errors below half a round count as half a round."""

SCHEMA = {
    **dict.fromkeys(("forecaster", "adversary", "measure"), pl.String),
    **dict.fromkeys(("exponent", "standard_error", "nominal", "constant"), pl.Float64),
    **dict.fromkeys(("n_seeds", "n_rounds", "most_rounds"), pl.Int64),
}


class Rate(NamedTuple):
    """A fitted exponent of T; its standard error is None where nothing says how wrong it may be."""

    exponent: float
    standard_error: float | None


def fit(rounds: ArrayLike, seeds: ArrayLike, errors: ArrayLike) -> Rate | None:
    """The growth of errors, sums over rounds, one per game; None without two values of T for some seed.

    Parameters
    ----------
    rounds, seeds, errors
        T, seed and error of each game, equally long; a seed need not have played every T.
    """
    x = np.log(np.asarray(rounds, dtype=np.float64))
    y = np.log(np.maximum(np.asarray(errors, dtype=np.float64), LEAST))
    owners = np.asarray(seeds)
    parts = [owners == seed for seed in np.unique(owners)]
    # less the first value, so that of equal ones the slope is exactly 0
    slopes = [
        float(np.polyfit(x[part], y[part] - y[part][0], 1)[0])
        for part in parts
        if len(np.unique(x[part])) > 1
    ]
    if not slopes:
        return None
    candidates = []
    if len(slopes) > 1:
        candidates.append(float(np.std(slopes, ddof=1)) / math.sqrt(len(slopes)))
    places, group = np.unique(x, return_inverse=True)
    if len(places) > 2:
        _, covariance = np.polyfit(places, np.bincount(group, y) / np.bincount(group), 1, cov=True)
        candidates.append(math.sqrt(covariance[0, 0]))
    return Rate(float(np.mean(slopes)), max(candidates, default=None))


def rates_table(results: pl.DataFrame) -> pl.DataFrame:
    """One row per forecaster, adversary and measure; empty if no pair has played two values of T.

    Columns: forecaster, adversary, measure (a key of `MEASURES`), exponent, standard_error (null if there is
    one seed and two values of T), nominal (an exponent that theory names), constant (the largest error /
    T^nominal of all games), n_seeds, n_rounds (how many values of T), most_rounds (the largest).
    """
    rows = []
    for pair, games in results.group_by("forecaster", "adversary", maintain_order=True):
        for (measure, column), nominal in zip(MEASURES.items(), NOMINAL.values(), strict=True):
            known = games.select("rounds", "seed", pl.col(column).cast(pl.Float64)).drop_nulls()
            rounds, seeds, errors = (known[name].to_numpy() for name in known.columns)
            if (rate := fit(rounds, seeds, errors)) is not None:
                constant = float((np.maximum(errors, LEAST) / rounds**nominal).max())
                several = len(np.unique(seeds)), len(np.unique(rounds)), int(rounds.max())
                rows.append((*pair, measure, *rate, nominal, constant, *several))
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


Format = Literal["parquet", "csv"]
TABLES = ("results", "trajectories", "rates")
VERSIONED = ("onlinecal", "numpy", "numba", "scipy")


@dataclass(frozen=True)
class PlannedGame:
    """One game of a sweep: all that its result depends on, apart from the code."""

    forecaster: str
    adversary: str
    rounds: int
    seed: int
    budget: float
    checkpoints: int

    @property
    def digest(self) -> str:
        """A name for the result's file: different for different games, and for different rules."""
        own = players.checksum(self.forecaster, self.adversary)
        text = json.dumps([*asdict(self).values(), code_digest(), *([own] if own else [])])
        return hashlib.sha256(text.encode()).hexdigest()[:24]


class Finished(msgspec.Struct, frozen=True):
    """A finished game as it is kept: its line of the table and its trajectory, three equally long lists."""

    measured: Measured
    checkpoints: list[int]
    certificates: list[float]
    guarantees: list[float | None]


@cache
def code_digest() -> str:
    """Changes with the code that plays and measures: results of older rules do not count."""
    from onlinecal.compiling import source_digest

    return source_digest() or "unknown"


class Store:
    """The folder of one sweep's results."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.games = folder / "games"

    def save(self, game: PlannedGame, finished: Finished) -> None:
        """Keep a finished game."""
        self.games.mkdir(parents=True, exist_ok=True)
        write_whole(self._path(game), msgspec.json.encode(finished))

    def load(self, game: PlannedGame) -> Finished | None:
        """The finished game, or None if it has not been played (or its file is damaged)."""
        try:
            return msgspec.json.decode(self._path(game).read_bytes(), type=Finished)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def is_finished(self, game: PlannedGame) -> bool:
        """Whether the game need not be played again."""
        return self.load(game) is not None

    def write_config(self, config: Config) -> None:
        """Write sweep.toml: the full configuration beside the results, and the versions in use."""
        self.folder.mkdir(parents=True, exist_ok=True)
        table = asdict(config)
        table["load"] = [os.path.relpath(path, self.folder.resolve()) for path in config.load]
        versions = {"python": platform.python_version(), **versions_of(VERSIONED)}
        # JSON's strings, numbers and arrays are TOML too
        listed, named = (
            [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in part.items()]
            for part in (table, versions)
        )
        lines = [*listed, "", "[versions]", *named]
        write_whole(self.folder / "sweep.toml", ("\n".join(lines) + "\n").encode())

    def write_tables(self, games: Iterable[PlannedGame], form: Format = "parquet") -> list[Path]:
        """Write the tables from the finished ones among the games, in their order; the files written."""
        finished = [found for found in map(self.load, games) if found is not None]
        results = results_table([one.measured for one in finished])
        tables = {
            "results": results,
            "trajectories": pl.concat(course_of(one.measured, ("rounds",), one) for one in finished),
        }
        if not (rates := rates_table(results)).is_empty():
            tables["rates"] = rates
        for name in TABLES:
            for other in get_args(Format):
                if other != form or name not in tables:
                    (self.folder / f"{name}.{other}").unlink(missing_ok=True)
        return [write_table(table, self.folder / f"{name}.{form}") for name, table in tables.items()]

    def read_table(self, name: str) -> pl.DataFrame:
        """One of the tables, "results", "trajectories" or "rates"; FileNotFoundError if there is none."""
        if (path := self.folder / f"{name}.parquet").is_file():
            return pl.read_parquet(path)
        if (path := self.folder / f"{name}.csv").is_file():
            return pl.read_csv(path, infer_schema_length=None)
        raise FileNotFoundError(
            f"no results in {self.folder}: neither {name}.parquet nor {name}.csv; "
            f"make some with onlinecal sweep FILE --out {self.folder}"
        )

    def loaded(self) -> list[Path]:
        """The files of one's own that the sweep has loaded, those that are still there."""
        try:
            table = tomllib.loads((self.folder / "sweep.toml").read_text(encoding="utf-8"))
        except (FileNotFoundError, tomllib.TOMLDecodeError):
            return []
        paths = [self.folder / name for name in table.get("load", [])]
        return [path for path in paths if path.is_file()]

    def _path(self, game: PlannedGame) -> Path:
        return self.games / f"{game.digest}.json"


def results_table(measured: Iterable[Measured]) -> pl.DataFrame:
    """One row per game; regret and regret_bound beside what they are made of."""
    last = ["seconds", *OF_WINDOWS]
    table = pl.DataFrame([one.record() for one in measured], infer_schema_length=None)
    return table.select(pl.exclude(last), *last)


def course_of(measured: Line, sizes: Sequence[str], course: Finished | Duel) -> pl.DataFrame:
    """A row per checkpoint of a game: its names, sizes and seed, and round, certificate, guarantee."""
    names = ("forecaster", "adversary", *sizes, "seed")
    return pl.DataFrame(
        {
            **{name: getattr(measured, name) for name in names},
            "round": course.checkpoints,
            "certificate": course.certificates,
            "guarantee": course.guarantees,
        },
        schema_overrides={"guarantee": pl.Float64},
    )


def summarise(results: pl.DataFrame) -> pl.DataFrame:
    """Per forecaster: games, the largest distance / sqrt(T) and distance / guarantee, and against whom."""
    ratios = results.with_columns(
        over_root=pl.col("distance_upper") / pl.col("rounds").sqrt(),
        over_guarantee=pl.col("distance_upper") / pl.col("guarantee"),
    ).with_columns(game=pl.format("{}, T = {}", "adversary", "rounds"))
    return ratios.group_by("forecaster", maintain_order=True).agg(
        pl.len().alias("games"),
        pl.col("over_root").max().alias("worst_over_root"),
        pl.col("game").get(pl.col("over_root").arg_max()).alias("worst_over_root_against"),
        pl.col("over_guarantee").max().alias("worst_over_guarantee"),
        pl.col("game").get(pl.col("over_guarantee").arg_max()).alias("worst_over_guarantee_against"),
    )


def broken_bounds(results: pl.DataFrame) -> list[str]:
    """One line for each bound that a game did not keep; empty if every bound held."""
    lines = []
    for row in results.drop("regret", "regret_bound").to_dicts():
        game = Measured(**row)
        where = f"{game.forecaster} against {game.adversary}, T = {game.rounds}, seed {game.seed}"
        lines += [f"BROKEN: {broken} ({where})" for broken in game.broken_bounds()]
    return lines


def versions_of(packages: Iterable[str]) -> dict[str, str]:
    """The installed versions, "unknown" of what is not installed."""
    found = {}
    for name in packages:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return {name: found.get(name, "unknown") for name in packages}
