"""Expected calibration error against T: the measure that adversaries can blow up."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from matplotlib.figure import Figure

from onlinecal.plots.style import in_house_style
from simulations.plots.sweeps.against_rounds import Curve, bands_mean, bound_curve, draw_panels, over_seeds

LINEAR = Curve("T/2", lambda T: T / 2)


def prepare(results: pl.DataFrame) -> pl.DataFrame:
    """Columns forecaster, adversary, rounds, line, low, high, seeds: see `over_seeds`."""
    return over_seeds(results, upper="ece", lower="ece")


def curves(spec: str) -> Sequence[Curve]:
    """Linear growth, and the bound that holds for the distance to calibration."""
    return (LINEAR, *bound_curve(spec, "bound on its distance"))


@in_house_style
def draw(table: pl.DataFrame) -> Figure:
    """A panel per forecaster, a line per adversary."""
    return draw_panels(
        table,
        curves,
        "The usual calibration error (ECE) of the same games can grow with T itself",
        bands_mean(
            table,
            "Answer 1 to forecasts just below 0.5 and 0 to those just above: ECE counts every round half "
            "wrong, though a nudge would calibrate them.",
        ),
        "expected calibration error (sum over rounds)",
    )
