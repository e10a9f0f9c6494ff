"""Everything about a few games of several classes that were played together: their table and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from onlinecal.plots.files import write_figure
from onlinecal.tables import write_table
from simulations.games.multiclass.measuring import MeasuredMulticlass, MulticlassGame, records
from simulations.plots.multiclass import distance, triangle


def write_simplex_games(
    games: Sequence[MulticlassGame], shorter: Sequence[MeasuredMulticlass], folder: Path
) -> list[Path]:
    """Write results.csv, with three classes simplex_triangle, with shorter games simplex_distance."""
    measured = [*shorter, *(game.measured for game in games)]
    written = [write_table(pl.DataFrame(records(measured), infer_schema_length=None), folder / "results.csv")]
    if any(game.measured.classes == 3 for game in games):
        table = triangle.prepare(games)
        written.append(write_figure(triangle.draw(table), table, folder / "simplex_triangle"))
    if shorter:
        table = distance.prepare(measured)
        written.append(write_figure(distance.draw(table), table, folder / "simplex_distance"))
    written.append(write_table(_trajectories(games), folder / "trajectories.csv"))
    return written


def _trajectories(games: Sequence[MulticlassGame]) -> pl.DataFrame:
    """Certificates and guarantees as the games went on."""
    columns = ("forecaster", "adversary", "classes", "rounds", "seed")
    parts = [
        pl.DataFrame(
            {
                **{column: getattr(game.measured, column) for column in columns},
                "round": game.duel.checkpoints,
                "certificate": game.duel.certificates,
                "guarantee": game.duel.guarantees,
            }
        )
        for game in games
        if game.duel is not None
    ]
    return pl.concat(parts) if parts else pl.DataFrame()
