"""Hints against forecasts, key by key: how far from calibrated each was, and what was proven at once."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from onlinecal.plots.style import HALO, INK, OKABE_ITO, QUIET, along, colour_key, headline, in_house_style

PROVEN, MEASURED = OKABE_ITO[1], OKABE_ITO[0]

SUMS = ("certificate", "forecasts_lower", "forecasts_upper", "hints_lower", "hints_upper")


def prepare(keys: pl.DataFrame) -> pl.DataFrame:
    """A row a key: key, rounds, and per round the certificate and both ends of the distances."""
    return keys.select("key", "rounds", *(pl.col(name) / pl.col("rounds") for name in SUMS))


@in_house_style
def draw(table: pl.DataFrame) -> Figure:
    """Two dots a key, above the lower end of its hints' distance; below the diagonal the forecasts win."""
    figure = Figure(figsize=(9.6, 7.0))
    axis = figure.subplots(gridspec_kw={"left": 0.085, "right": 0.975, "top": 0.835, "bottom": 0.09})
    hints, proven, measured = (
        table[name].to_numpy() for name in ("hints_lower", "certificate", "forecasts_upper")
    )
    better, at_once = (int(np.sum(y < hints)) for y in (measured, proven))
    headline(
        figure,
        f"Forecasts are nearer to calibrated than the hints in {better:,} of {table.height:,} streams",
        f"For {at_once:,} the certificate alone, known while the stream ran, proves it. Two dots a stream, "
        "larger with more rounds; averages per round.",
    )
    colour_key(
        figure,
        [("the certificate", PROVEN), ("the forecasts' distance, at most", MEASURED)],
        "Above each stream's hints:",
        0.72,
    )
    # a few short streams whose hints happen to fit lie on the edges
    low = 0.6 * max(float(np.quantile(np.minimum(hints, measured), 0.01)), 1e-3)
    high = 1.25 * float(max(hints.max(), proven.max()))
    sizes = np.clip(1.2 * np.sqrt(table["rounds"].to_numpy()), 5.0, 60.0)
    axis.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), aspect="auto")
    axis.set(xlabel="hints: distance to calibration per round, at least", ylabel="forecasts, per round")
    axis.plot([low, high], [low, high], color=INK, lw=1.0, zorder=2)
    along(
        axis, "as far from calibrated as the hints", 1.15 * low, 1.17 * low, 2.3 * low, 2.34 * low, color=INK
    )
    for heights, colour in ((proven, PROVEN), (measured, MEASURED)):
        axis.scatter(
            np.maximum(hints, low),
            np.maximum(heights, low),
            s=sizes,
            color=colour,
            alpha=0.45,
            lw=0,
            zorder=3,
        )
    rounds = table["rounds"].to_numpy()
    for heights, colour, name in ((proven, PROVEN, "certificate"), (measured, MEASURED, "distance")):
        mean = float(np.sum(heights * rounds) / rounds.sum())
        axis.axhline(mean, color=colour, lw=1.2, ls=(0, (4, 2)), zorder=4)
        axis.annotate(
            f"all rounds: {name} {mean:.3f}", (1.0, mean), (-4, 4), xycoords=axis.get_yaxis_transform(),
            textcoords="offset points", ha="right", color=colour, fontsize=9, fontweight="bold",
            path_effects=HALO, zorder=6,
        )  # fmt: skip
    everyone = float(np.sum(hints * rounds) / rounds.sum())
    axis.axvline(everyone, color=QUIET, lw=1.2, ls=(0, (4, 2)), zorder=2)
    axis.annotate(
        f"all rounds: hints {everyone:.3f}", (everyone, 0.0), (4, 6), xycoords=axis.get_xaxis_transform(),
        textcoords="offset points", color="#555555", fontsize=9, fontweight="bold", path_effects=HALO,
        zorder=6,
    )  # fmt: skip
    for one in (axis.xaxis, axis.yaxis):
        one.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        one.set_minor_formatter(NullFormatter())
    return figure
