"""Games that were played together: their table, and pictures that show each of them in full."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl

from onlinecal.plots.panels import named, reliability_panels, transport_panels
from onlinecal.plots.reliability_diagram import reliability_data
from onlinecal.plots.style import write_figure
from onlinecal.plots.transport_plan import transport_data
from onlinecal.tables import write_table
from simulations.games.measuring import Game
from simulations.games.multiclass.measuring import MeasuredMulticlass, MulticlassGame, records
from simulations.plots import filmstrip
from simulations.plots.multiclass import distance, triangle
from simulations.plots.sweeps import trajectories
from simulations.sweeps.results import results_table


def write_games(games: Sequence[Game], folder: Path) -> list[Path]:
    """Write results.csv, the pictures of `PICTURES` and trajectories; the files to look at."""
    written = [write_table(results_table([game.measured for game in games]), folder / "results.csv")]
    for name, (prepare, draw) in PICTURES.items():
        table = prepare(games)
        written.append(write_figure(draw(table), table, folder / name))
    course = _trajectories(games, "rounds")
    if course is not None:
        table = trajectories.prepare(course)
        written.append(write_figure(trajectories.draw(table), table, folder / "trajectories"))
    return written


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
    course = _trajectories(games, "classes", "rounds")
    if course is not None:
        written.append(write_table(course, folder / "trajectories.csv"))
    return written


def reliability_of(games: Sequence[Game]) -> pl.DataFrame:
    """Columns forecaster, adversary, and those of `reliability_data`: how often the outcome was 1."""
    return _of_games(games, lambda game: reliability_data(game.forecasts, game.outcomes))


def transport_of(games: Sequence[Game]) -> pl.DataFrame:
    """Columns forecaster, adversary, and those of `transport_data`: which forecasts must move where."""
    return _of_games(games, lambda game: transport_data(game.forecasts, game.outcomes, witness=game.witness))


PICTURES = {
    "reliability": (reliability_of, reliability_panels),
    "transport": (transport_of, transport_panels),
    "filmstrip": (filmstrip.prepare, filmstrip.draw),
}
"""Of games in full: how each picture's table is prepared, and drawn."""


def _of_games(games: Sequence[Game], data: Callable[[Game], pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(named(data(game), game.measured.forecaster, game.measured.adversary) for game in games)


def _trajectories(games: Sequence[Game | MulticlassGame], *sizes: str) -> pl.DataFrame | None:
    """Certificates and guarantees as the games went on; None where only recorded forecasts are."""
    parts = [
        pl.DataFrame(
            {
                **{
                    name: getattr(game.measured, name) for name in ("forecaster", "adversary", *sizes, "seed")
                },
                "round": game.duel.checkpoints,
                "certificate": game.duel.certificates,
                "guarantee": game.duel.guarantees,
            }
        )
        for game in games
        if game.duel is not None
    ]
    return pl.concat(parts) if parts else None
