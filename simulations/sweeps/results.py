"""What a sweep leaves on disk, and how fast errors grow in it.

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

    <out>/sweep.toml             the plan, and the versions it was played with
    <out>/games/<digest>.json    one finished game; the digest is that of everything it depends on
    <out>/results.parquet        one row per game (or results.csv)
    <out>/trajectories.parquet   certificate and guarantee as the games went on (or trajectories.csv)
    <out>/rates.parquet          fitted exponents of T, if there is more than one T (or rates.csv)

Every file appears under its name only when it is complete, so whatever interrupts a sweep, what is there
is whole.
"""

from __future__ import annotations

import json
import math
import os
import platform
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import msgspec
import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from onlinecal.simulations.games.duel import Duel
from onlinecal.simulations.games.measuring import OF_WINDOWS, Line, Measured
from onlinecal.simulations.sweeps.plan import Plan, PlannedGame
from onlinecal.tables.writing import write_table, write_whole

MEASURES = {"distance": "distance_upper", "ece": "ece", "certificate": "certificate", "regret": "regret"}
"""What is fitted, and the column of results that it is."""

NOMINAL = {"distance": 1 / 2, "ece": 2 / 3, "certificate": 1 / 2, "regret": 1 / 2}
"""The exponent at which the constant is taken."""

LEAST = 0.5
"""Errors below half a round count as half a round."""

TABLES = ("results", "trajectories", "rates")
NAMES = ("forecaster", "adversary", "measure")
"""Their columns of texts."""

SCHEMA = {
    **dict.fromkeys(NAMES, pl.String),
    **dict.fromkeys(("exponent", "standard_error", "nominal", "constant"), pl.Float64),
    **dict.fromkeys(("n_seeds", "n_rounds", "most_rounds"), pl.Int64),
}


class Rate(NamedTuple):
    """A fitted exponent of T; its standard error is None where nothing says how wrong it may be."""

    exponent: float
    standard_error: float | None


def fit(rounds: ArrayLike, seeds: ArrayLike, errors: ArrayLike) -> Rate | None:
    """The growth of errors, sums over rounds, one per game; None without two values of T for some seed."""
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


class Finished(msgspec.Struct, frozen=True):
    """A finished game as it is kept: its line of the table and its trajectory, three equally long lists."""

    measured: Measured
    checkpoints: list[int]
    certificates: list[float]
    guarantees: list[float | None]


class Store:
    """The folder of a plan's results.

    `finished` has the games of the plan that need not be played again: those in the folder, read once, and
    those kept since.
    """

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan, self.folder = plan, folder
        found = ((game, self._read(game)) for game in plan.games)
        self.finished: dict[PlannedGame, Finished] = {game: one for game, one in found if one is not None}

    def _path(self, game: PlannedGame) -> Path:
        return self.folder / "games" / f"{game.digest}.json"

    def _read(self, game: PlannedGame) -> Finished | None:
        """The finished game, or None if it has not been played (or its file is damaged)."""
        try:
            return msgspec.json.decode(self._path(game).read_bytes(), type=Finished)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def keep(self, game: PlannedGame, finished: Finished) -> None:
        """Keep a game that was just finished."""
        path = self._path(game)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, msgspec.json.encode(finished))
        self.finished[game] = finished

    def write_plan(self) -> None:
        """Write sweep.toml: the full plan beside the results, and the versions in use."""
        self.folder.mkdir(parents=True, exist_ok=True)
        table = asdict(self.plan)
        table["load"] = [os.path.relpath(path, self.folder.resolve()) for path in self.plan.load]
        # JSON's strings, numbers and arrays are TOML too
        listed, named = (
            [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in part.items()]
            for part in (table, versions())
        )
        lines = [*listed, "", "[versions]", *named]
        write_whole(self.folder / "sweep.toml", ("\n".join(lines) + "\n").encode())

    def write_tables(self, form: Format = "parquet") -> list[Path]:
        """Write the tables of the finished games, in the plan's order; the files written."""
        finished = [self.finished[game] for game in self.plan.games if game in self.finished]
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


def read_table(folder: Path, name: str) -> pl.DataFrame:
    """A table of a sweep, one of `TABLES`; FileNotFoundError if its folder has none."""
    if (path := folder / f"{name}.parquet").is_file():
        return pl.read_parquet(path)
    if (path := folder / f"{name}.csv").is_file():
        table = pl.read_csv(path, infer_schema_length=None)
        # a column without any number, such as the guarantees of what promises nothing, reads as texts
        return table.with_columns(pl.col(pl.String).exclude(*NAMES).cast(pl.Float64))
    raise FileNotFoundError(
        f"no results in {folder}: neither {name}.parquet nor {name}.csv; "
        f"make some with onlinecal sweep FILE --out {folder}"
    )


def loaded_files(folder: Path) -> list[Path]:
    """The files of one's own that the sweep in a folder has loaded, those that are still there."""
    try:
        table = tomllib.loads((folder / "sweep.toml").read_text(encoding="utf-8"))
    except (FileNotFoundError, tomllib.TOMLDecodeError):
        return []
    paths = [folder / name for name in table.get("load", [])]
    return [path for path in paths if path.is_file()]


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


@cache
def versions() -> dict[str, str]:
    """The versions of all that the numbers of a game depend on; "unknown" of what is not installed."""
    found = {"python": platform.python_version()}
    for name in ("onlinecal", "numpy", "numba", "scipy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found
