"""The results of a sweep on disk, and fitted exponents that say how fast errors grow.

The exponent of a forecaster against an adversary is the slope of log(error) against log(T). An independent
observation is a seed and not a game: the draws of a short game are the first ones of the long games with the
same seed, so a lucky start lifts or lowers them together. So one line is fitted per seed, the exponent is the
mean of their slopes, and its standard error is their deviation / sqrt(seeds). That may say too little: with
one seed, nothing random, few seeds that happen to agree, or a curve that is not a straight line. Then the
residuals of the line through the means over seeds say more. The larger of both errors is taken.

Errors below half a round count as half a round: an error that stays that small does not grow and has
exponent 0.

A fitted exponent is that of the games that were played. An error of a sqrt(T) minus something smaller has a
slope above 1/2 that falls as T grows, which no standard error shows. For the distance the upper end of the
bracket is fitted: if brackets widen as T grows, more effort (`budget`) lowers the exponent.

    <out>/sweep.toml             the plan, and the versions it was played with
    <out>/games/<digest>.json    one finished game; the digest is made of everything it depends on
    <out>/results.parquet        one row per game (or results.csv)
    <out>/trajectories.parquet   certificate and guarantee as the games went on (or trajectories.csv)
    <out>/rates.parquet          fitted exponents of T, if there is more than one T (or rates.csv)

Every file appears under its name only when it is complete. So after any interrupt all files are whole.

`Store` alone writes these files; `onlinecal plot` adds pictures to the folder, under other names. `keep` adds
a finished game, in memory and on disk; nothing takes one away. A game of older code stays on disk under its
own digest, and is not read. The fields of `Finished` and of `Measured` are read by name, and a game that
lacks one that has no default is played again. Tables are made anew from the games each time, and
`write_tables` removes those in the other format. So a folder that has such files, and no plan that a sweep
has written, is refused. LEAST_ERROR, FITTED_MEASURES and NOMINAL_EXPONENTS decide
rates, and no game.

Nothing locks the folder: two processes that sweep into it at once play some games twice, and the tables are
those of the last one.
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
from typing import Any, Literal, NamedTuple, get_args

import msgspec
import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from onlinecal.simulations.games.duel import Duel
from onlinecal.simulations.games.measuring import WINDOW_FIELDS, Line, Measured
from onlinecal.simulations.sweeps.plan import Plan, PlannedGame
from onlinecal.tables.writing import write_table, write_whole

FITTED_MEASURES = {
    "distance": "distance_upper",
    "ece": "ece",
    "certificate": "certificate",
    "regret": "regret",
}
"""The measures whose exponents are fitted, and their columns of the results."""

NOMINAL_EXPONENTS = {"distance": 1 / 2, "ece": 2 / 3, "certificate": 1 / 2, "regret": 1 / 2}
"""The exponent with which the constant of each measure is computed."""

LEAST_ERROR = 0.5
"""Errors below half a round count as half a round."""


class SweepTables(NamedTuple):
    """The tables of a sweep, data frames of polars.

    Attributes
    ----------
    results
        A row for each game, in the plan's order: forecaster, adversary, rounds (T) and seed, and what was
        measured. Errors, scores and bounds are sums over the T rounds, ones counts the outcomes 1, and
        seconds is the time that it took to play and measure.
    trajectories
        A row for each checkpoint of a game: forecaster, adversary, rounds and seed of the game; round, how
        many rounds had been played; certificate and guarantee, bounds on the distance to calibration, sums
        over these rounds.
    rates
        A row for each forecaster, adversary and measure: exponent, the power of T with which the error
        grows, fitted to the games, and its standard_error; nominal, the power that theory names, and
        constant, the largest error / T^nominal. Empty if all games have the same T.
    """

    results: pl.DataFrame
    trajectories: pl.DataFrame
    rates: pl.DataFrame


TABLE_NAMES = SweepTables._fields
TEXT_COLUMNS = ("forecaster", "adversary", "measure")
"""The columns of the tables that hold texts."""

RATE_SCHEMA = {
    **dict.fromkeys(TEXT_COLUMNS, pl.String),
    **dict.fromkeys(("exponent", "standard_error", "nominal", "constant"), pl.Float64),
    **dict.fromkeys(("n_seeds", "n_rounds", "most_rounds"), pl.Int64),
}


class Rate(NamedTuple):
    """A fitted exponent of T; its standard error is None if nothing says how wrong it may be."""

    exponent: float
    standard_error: float | None


def fit(rounds: ArrayLike, seeds: ArrayLike, errors: ArrayLike) -> Rate | None:
    """The growth of errors, which are sums over rounds, one per game; None if no seed has two values of T."""
    x = np.log(np.asarray(rounds, dtype=np.float64))
    y = np.log(np.maximum(np.asarray(errors, dtype=np.float64), LEAST_ERROR))
    owners = np.asarray(seeds)
    parts = [owners == seed for seed in np.unique(owners)]
    # the first value is subtracted, so that equal values have a slope of exactly 0
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
    """A row for each forecaster, adversary and measure; empty if no pair has played two values of T.

    Columns: forecaster, adversary, measure (a key of `FITTED_MEASURES`), exponent, standard_error (null if
    there is one seed and two values of T), nominal (an exponent that theory names), constant (the largest
    error / T^nominal of all games), n_seeds, n_rounds (how many values of T), most_rounds (the largest).
    """
    rows = []
    for pair, games in results.group_by("forecaster", "adversary", maintain_order=True):
        for (measure, column), nominal in zip(
            FITTED_MEASURES.items(), NOMINAL_EXPONENTS.values(), strict=True
        ):
            known = games.select("rounds", "seed", pl.col(column).cast(pl.Float64)).drop_nulls()
            rounds, seeds, errors = (known[name].to_numpy() for name in known.columns)
            if (rate := fit(rounds, seeds, errors)) is not None:
                constant = float((np.maximum(errors, LEAST_ERROR) / rounds**nominal).max())
                several = len(np.unique(seeds)), len(np.unique(rounds)), int(rounds.max())
                rows.append((*pair, measure, *rate, nominal, constant, *several))
    return pl.DataFrame(rows, schema=RATE_SCHEMA, orient="row")


Format = Literal["parquet", "csv"]
TABLES = tuple(f"{name}.{form}" for name in TABLE_NAMES for form in get_args(Format))
"""The names of the files of all tables."""


class Finished(msgspec.Struct, frozen=True):
    """A finished game as it is kept: its line of the table, and its trajectory in lists of equal length."""

    measured: Measured
    checkpoints: list[int]
    certificates: list[float]
    guarantees: list[float | None]


class Store:
    """The folder of a plan's results.

    `finished` has the games of the plan that need not be played again: those that were in the folder at the
    start, and those kept since then.
    """

    def __init__(self, plan: Plan, folder: Path) -> None:
        """Raises ValueError if the folder has a file that would be lost and that no sweep has written."""
        refuse_files_of_others(folder)
        self.plan, self.folder = plan, folder
        read = ((game, self._read(game)) for game in plan.games)
        self.finished: dict[PlannedGame, Finished] = {
            game: finished for game, finished in read if finished is not None
        }

    def _path(self, game: PlannedGame) -> Path:
        return self.folder / "games" / f"{game.digest}.json"

    def _read(self, game: PlannedGame) -> Finished | None:
        """The finished game; None if it has not been played, or its file is damaged."""
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
        """Write sweep.toml, with the full plan and the versions in use, beside the results."""
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

    def tables(self) -> SweepTables:
        """The tables of the finished games, in the plan's order."""
        finished = [self.finished[game] for game in self.plan.games if game in self.finished]
        results = results_table([game_finished.measured for game_finished in finished])
        trajectories = pl.concat(
            course_of(game_finished.measured, ("rounds",), game_finished) for game_finished in finished
        )
        return SweepTables(results, trajectories, rates_table(results))

    def write_tables(self, form: Format = "parquet") -> list[Path]:
        """Write the tables of the finished games that have rows; returns the files."""
        tables = {name: table for name, table in self.tables()._asdict().items() if not table.is_empty()}
        for name in TABLE_NAMES:
            for other in get_args(Format):
                if other != form or name not in tables:
                    (self.folder / f"{name}.{other}").unlink(missing_ok=True)
        return [write_table(table, self.folder / f"{name}.{form}") for name, table in tables.items()]


def read_table(folder: Path, name: str) -> pl.DataFrame:
    """A table of a sweep, one of TABLE_NAMES; OSError if its folder has none, or is no folder."""
    if (path := folder / f"{name}.parquet").is_file():
        return pl.read_parquet(path)
    if (path := folder / f"{name}.csv").is_file():
        table = pl.read_csv(path, infer_schema_length=None)
        # a column without any number, as of guarantees that nobody has, is read as texts
        return table.with_columns(pl.col(pl.String).exclude(*TEXT_COLUMNS).cast(pl.Float64))
    if folder.is_file():
        raise NotADirectoryError(
            f"no results in {folder}, which is a file: name the folder of a sweep's results"
        )
    raise FileNotFoundError(
        f"no results in {folder}: neither {name}.parquet nor {name}.csv; name a folder that "
        "onlinecal sweep FILE --out FOLDER has written"
    )


def refuse_files_of_others(folder: Path) -> None:
    """ValueError if a sweep into the folder would replace, or remove, what was not written by one."""
    taken = [name for name in ("sweep.toml", *TABLES) if (folder / name).exists()]
    if taken and "versions" not in _plan_in(folder):
        raise ValueError(
            f"{folder} has a file {taken[0]} that no sweep has written, and that would be lost: "
            "name another folder"
        )


def _plan_in(folder: Path) -> dict[str, Any]:
    """What a folder's sweep.toml says, nothing if there is none that can be read."""
    try:
        return tomllib.loads((folder / "sweep.toml").read_text(encoding="utf-8"))
    except (FileNotFoundError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return {}


def loaded_files(folder: Path) -> list[Path]:
    """The files of one's own that the sweep in a folder has loaded, if they are still there."""
    paths = [folder / name for name in _plan_in(folder).get("load", [])]
    return [path for path in paths if path.is_file()]


def results_table(measured: Iterable[Measured]) -> pl.DataFrame:
    """A row for each game, with the columns regret and regret_bound."""
    last = ["seconds", *WINDOW_FIELDS]
    table = pl.DataFrame([line.record() for line in measured], infer_schema_length=None)
    return table.select(pl.exclude(last), *last)


def course_of(measured: Line, sizes: Sequence[str], course: Finished | Duel) -> pl.DataFrame:
    """A row for each checkpoint of a game: its names, sizes and seed, and round, certificate, guarantee."""
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
    """For each forecaster its games, its largest distance / sqrt(T) and / guarantee, and against whom."""
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
    """A line for each bound that a game broke; empty if every bound held."""
    lines = []
    for row in results.drop("regret", "regret_bound").to_dicts():
        game = Measured(**row)
        where = f"{game.forecaster} against {game.adversary}, T = {game.rounds}, seed {game.seed}"
        lines += [f"BROKEN: {broken} ({where})" for broken in game.broken_bounds()]
    return lines


@cache
def versions() -> dict[str, str]:
    """The versions of the packages that games depend on; "unknown" for one that is not installed."""
    known = {"python": platform.python_version()}
    for name in ("onlinecal", "numpy", "numba", "scipy"):
        try:
            known[name] = version(name)
        except PackageNotFoundError:
            known[name] = "unknown"
    return known
