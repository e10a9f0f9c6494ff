"""Everything about a few games that were played together: their table, and their pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from onlinecal.plots.files import write_figure
from onlinecal.tables import write_table
from simulations.games.measuring import Game
from simulations.plots import GAME_FIGURES, figure_module
from simulations.sweeps.results import results_table


def write_games(games: Sequence[Game], folder: Path) -> list[Path]:
    """Write results.csv and the pictures of `GAME_FIGURES` and trajectories; the files to look at."""
    written = [write_table(results_table([game.measured for game in games]), folder / "results.csv")]
    for name in GAME_FIGURES:
        module = figure_module(name)
        table = module.prepare(games)
        written.append(write_figure(module.draw(table), table, folder / name))
    parts = [part for part in map(_trajectory, games) if part is not None]
    if parts:
        module = figure_module("trajectories")
        table = module.prepare(pl.concat(parts))
        written.append(write_figure(module.draw(table), table, folder / "trajectories"))
    return written


def _trajectory(game: Game) -> pl.DataFrame | None:
    if game.duel is None:
        return None
    one = game.measured
    return pl.DataFrame(
        {
            "forecaster": one.forecaster,
            "adversary": one.adversary,
            "rounds": one.rounds,
            "seed": one.seed,
            "round": game.duel.checkpoints,
            "certificate": game.duel.certificates,
            "guarantee": game.duel.guarantees,
        }
    )
