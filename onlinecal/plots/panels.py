"""Several histories side by side, a panel each, as `measure` and the simulations write them."""

from __future__ import annotations

import polars as pl
from matplotlib.figure import Figure

from onlinecal.plots.own_axes import describe
from onlinecal.plots.reliability_diagram import draw_reliability
from onlinecal.plots.style import OKABE_ITO, headline, in_house_style, panels
from onlinecal.plots.transport_plan import draw_transport, plan_costs


def named(table: pl.DataFrame, forecaster: str, adversary: str) -> pl.DataFrame:
    """The numbers of one history, with who made the forecasts and of what, in front."""
    return table.select(
        pl.lit(forecaster).alias("forecaster"), pl.lit(adversary).alias("adversary"), pl.all()
    )


@in_house_style
def reliability_panels(table: pl.DataFrame) -> Figure:
    """A reliability diagram per forecaster from tables that are `named`."""
    names = table["forecaster"].unique(maintain_order=True).to_list()
    figure, axes = panels(names, height=4.3)
    headline(
        figure,
        f"What came after each forecast, on {table['adversary'][0]}",
        "Dots: forecasts and what followed (area: rounds). Bars: 95 % confidence intervals (Wilson's).",
    )
    for place, (name, axis) in enumerate(axes.items()):
        draw_reliability(axis, table.filter(pl.col("forecaster") == name), OKABE_ITO[place % len(OKABE_ITO)])
        describe(axis, "forecast (bars below: rounds)", "frequency of outcome 1")
        axis.set_title(name)
    return figure


@in_house_style
def transport_panels(table: pl.DataFrame) -> Figure:
    """A plan of the way to calibration per forecaster from tables that are `named`."""
    names = table["forecaster"].unique(maintain_order=True).to_list()
    figure, axes = panels(names, height=5.2)
    headline(
        figure,
        f"The way to calibration, on {table['adversary'][0]}",
        "Dots: rounds, and the value they go to. Bars: what they add to the distance. "
        "Orange: up, blue: down.",
    )
    for name, axis in axes.items():
        moves = table.filter(pl.col("forecaster") == name)
        draw_transport(axis, moves)
        describe(axis, "forecast", "value in a calibrated sequence")
        axis.set_title(f"{name}\n{plan_costs(moves)}", fontsize=10)
    return figure
