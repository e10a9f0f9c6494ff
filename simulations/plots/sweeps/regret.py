"""Brier regret against T, under what the distance to calibration guarantees of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import polars as pl
from matplotlib.figure import Figure

from onlinecal.plots.style import in_house_style
from simulations.games import players
from simulations.plots.sweeps.against_rounds import Curve, bands_mean, draw_panels, over_seeds
from simulations.sweeps.rates import LEAST


def prepare(results: pl.DataFrame) -> pl.DataFrame:
    """Columns forecaster, adversary, rounds, line, low, high, seeds (see `over_seeds`), regret and bound.

    Regrets are sums over rounds, against the best constant forecast in hindsight; line, low and high are
    lifted to half a round. `regret` is the median over seeds as it was, `bound` twice the bound on the
    distance, null where nothing is proven.
    """
    table = over_seeds(results, "regret", "regret")
    bounds = [_guarantee(spec, rounds) for spec, rounds in table.select("forecaster", "rounds").iter_rows()]
    return table.with_columns(
        pl.col("line", "low", "high").clip(lower_bound=LEAST),
        regret=pl.col("line"),
        bound=pl.Series(bounds, dtype=pl.Float64),
    )


def curves(spec: str) -> Sequence[Curve]:
    """Twice the forecaster's bound on its distance; none where nothing is proven."""
    if _guarantee(spec, 1) is None:
        return ()
    label = " ".join(f"2 × the bound {players.create(spec).bound_label or ''} on its distance".split())
    return (Curve(label, lambda T: _guarantee(spec, T) or math.nan, strong=True),)


@in_house_style
def draw(table: pl.DataFrame) -> Figure:
    """A panel per forecaster, a line per adversary, the guarantee in black."""
    return draw_panels(
        table,
        curves,
        "No adversary makes a forecaster regret more than twice the bound on its distance"
        if table["bound"].null_count() == 0
        else "No adversary drives the regret past twice a distance that is proven",
        bands_mean(table, "One line per adversary: Brier score less that of the best constant in hindsight.")
        + " At the bottom, half a round or less: hardly worse than that constant, or better.",
        "Brier regret (sum over rounds)",
    )


def _guarantee(spec: str, rounds: float) -> float | None:
    bound = players.create(spec).bound(int(rounds))
    return None if bound is None else 2.0 * bound
