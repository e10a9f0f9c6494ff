"""Reliability of single games: how often the outcome was 1 after each forecast."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from onlinecal.plots.panels import named, reliability_panels
from onlinecal.plots.reliability_diagram import reliability_data
from simulations.games.measuring import Game

draw = reliability_panels


def prepare(games: Sequence[Game]) -> pl.DataFrame:
    """Columns forecaster, adversary, and those of `reliability_data`."""
    return pl.concat(
        named(
            reliability_data(game.forecasts, game.outcomes), game.measured.forecaster, game.measured.adversary
        )
        for game in games
    )
