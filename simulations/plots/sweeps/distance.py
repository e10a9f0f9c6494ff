"""Distance to calibration against T, under the curves of the theory."""

from __future__ import annotations

import math
from collections.abc import Sequence

import polars as pl
from matplotlib.figure import Figure

from onlinecal.plots.style import in_house_style
from simulations.games import players
from simulations.plots.sweeps.against_rounds import Curve, bands_mean, bound_curve, draw_panels, over_seeds

PAPER = Curve("the paper's 2√T + 1", lambda T: 2 * math.sqrt(T) + 1)
LOWER = Curve("T^(1/3)", lambda T: T ** (1 / 3), below=True, at=0.64)


def prepare(results: pl.DataFrame) -> pl.DataFrame:
    """Columns forecaster, adversary, rounds, line, low, high, seeds (see `over_seeds`), and bound."""
    table = over_seeds(results, "distance_upper", "distance_lower")
    known = {spec: players.create(spec) for spec in table["forecaster"].unique()}
    bounds = [known[spec].bound(rounds) for spec, rounds in table.select("forecaster", "rounds").iter_rows()]
    return table.with_columns(bound=pl.Series(bounds, dtype=pl.Float64))


def curves(spec: str) -> Sequence[Curve]:
    """The forecaster's own bound, the paper's, and the rate that no forecaster can beat everywhere."""
    own = players.create(spec).bound(10**6)
    crowded = own is not None and own < PAPER.value(10**6) < 1.5 * own
    return (LOWER, PAPER, *bound_curve(spec, below=crowded or spec == "sign"))


@in_house_style
def draw(table: pl.DataFrame) -> Figure:
    """A panel per forecaster; the line is the bracket's upper end, the band its lower end or other seeds."""
    proven = table["bound"].null_count() == 0
    return draw_panels(
        table,
        curves,
        "No adversary pushes the distance to calibration past its bound"
        if proven
        else "No adversary pushes the distance to calibration past a bound, where one is proven",
        bands_mean(
            table,
            "One line per adversary: the proven upper end of the distance; bands reach down to the proven "
            "lower end.",
        )
        + " No forecaster can grow slower than T^(1/3) against everyone.",
        "distance to calibration (sum over rounds)",
    )
