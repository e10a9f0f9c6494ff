"""What a sweep leaves on disk: one small file per finished game, and tables made of them.

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
import os
import platform
import tomllib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import msgspec

from onlinecal.tables import write_table, write_whole
from simulations.games import extensions
from simulations.games.measuring import OF_WINDOWS, Measured
from simulations.sweeps.config import Config

if TYPE_CHECKING:
    import polars as pl

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
        own = extensions.checksum(self.forecaster, self.adversary)
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
        lines = [f"{key} = {_toml(value)}" for key, value in table.items()]
        versions = {
            "python": platform.python_version(),
            **{name: package_version(name) for name in VERSIONED},
        }
        lines += ["", "[versions]", *(f"{name} = {_toml(text)}" for name, text in versions.items())]
        write_whole(self.folder / "sweep.toml", ("\n".join(lines) + "\n").encode())

    def write_tables(self, games: Iterable[PlannedGame], form: Format = "parquet") -> list[Path]:
        """Write the tables from the finished ones among the games, in their order; the files written."""
        from simulations.sweeps.rates import rates_table

        finished = [found for found in map(self.load, games) if found is not None]
        results = results_table([one.measured for one in finished])
        tables = {"results": results, "trajectories": trajectories_table(finished)}
        if not (rates := rates_table(results)).is_empty():
            tables["rates"] = rates
        for name in TABLES:
            for other in get_args(Format):
                if other != form or name not in tables:
                    (self.folder / f"{name}.{other}").unlink(missing_ok=True)
        return [write_table(table, self.folder / f"{name}.{form}") for name, table in tables.items()]

    def read_table(self, name: str) -> pl.DataFrame:
        """One of the tables, "results", "trajectories" or "rates"; FileNotFoundError if there is none."""
        import polars as pl

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
    import polars as pl

    rows = [
        {**msgspec.structs.asdict(one), "regret": one.regret, "regret_bound": one.regret_bound}
        for one in measured
    ]
    last = ["seconds", *OF_WINDOWS]
    table = pl.DataFrame(rows, infer_schema_length=None)
    return table.select(pl.exclude(last), *last)


def trajectories_table(finished: Iterable[Finished]) -> pl.DataFrame:
    """One row per game and checkpoint: round, certificate, guarantee."""
    import polars as pl

    columns = ["forecaster", "adversary", "rounds", "seed"]
    parts = [
        pl.DataFrame(
            {
                **{name: getattr(one.measured, name) for name in columns},
                "round": one.checkpoints,
                "certificate": one.certificates,
                "guarantee": one.guarantees,
            },
            schema_overrides={"guarantee": pl.Float64},
        )
        for one in finished
    ]
    return pl.concat(parts)


def summarise(results: pl.DataFrame) -> pl.DataFrame:
    """Per forecaster: games, the largest distance / sqrt(T) and distance / guarantee, and against whom."""
    import polars as pl

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


def _toml(value: object) -> str:
    # JSON's strings, numbers and arrays are TOML too
    return json.dumps(value, ensure_ascii=False)


def package_version(package: str) -> str:
    """The installed version, "unknown" if there is none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
