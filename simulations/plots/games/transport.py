"""The way to calibration of single games: which forecasts must move where."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from onlinecal.plots.panels import named, transport_panels
from onlinecal.plots.transport_plan import transport_data
from simulations.games.measuring import Game

draw = transport_panels


def prepare(games: Sequence[Game]) -> pl.DataFrame:
    """Columns forecaster, adversary, and those of `transport_data`."""
    return pl.concat(
        named(
            transport_data(game.forecasts, game.outcomes, witness=game.witness),
            game.measured.forecaster,
            game.measured.adversary,
        )
        for game in games
    )
