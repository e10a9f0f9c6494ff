"""How far from calibrated each recalibration has been so far, against the round, beside what was proven."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from onlinecal.plots.numbers import highest
from onlinecal.plots.over_rounds import draw_distance, running_distance_data
from onlinecal.plots.style import INK, QUIET, Look, headline, in_house_style, looks, name_lines, panels
from simulations.evaluation.scoring import Evaluation
from simulations.evaluation.sources import CALIBRATED

PROOFS = {"certificate": QUIET, "guarantee": INK}
"""The columns that only a calibrated method has, and their colours."""


def prepare(evaluations: Sequence[Evaluation]) -> pl.DataFrame:
    """Columns panel, method, round, distance, certificate, guarantee: averages over the rounds so far."""
    parts = []
    for one in evaluations:
        measured = running_distance_data(one.game.forecasts, one.game.outcomes, rounds=one.checkpoints)
        blank: list[float | None] = [None] * len(one.checkpoints)
        parts.append(
            pl.DataFrame(
                {
                    "panel": f"{one.score.stream}: {one.score.model}",
                    "method": one.score.method,
                    "round": one.checkpoints,
                    "distance": measured["upper"],
                    "certificate": _averages(one.certificates, one.checkpoints) or blank,
                    "guarantee": _averages(one.guarantees, one.checkpoints) or blank,
                },
                schema_overrides={"certificate": pl.Float64, "guarantee": pl.Float64},
            )
        )
    return pl.concat(parts)


@in_house_style
def draw(table: pl.DataFrame) -> Figure:
    """A panel per stream and model: a line per method; certificate grey, guarantee black."""
    names = table["panel"].unique(maintain_order=True).to_list()
    methods = table["method"].unique(maintain_order=True).to_list()
    look = looks(methods)
    for name, colour in PROOFS.items():
        look[name] = Look(colour, to_rgb(colour), "-", "")
    figure, axes = panels(names, [*look], height=3.4)
    headline(
        figure,
        "Distance to calibration so far",
        "Average per round, upper end of the bracket. Grey: the certificate, proven as the stream runs. "
        "Black: the guarantee.",
    )
    last = int(highest(table["round"]))
    top = _room(table)
    for panel, axis in axes.items():
        axis.set(xlim=(0, last), ylim=(0, top))
        axis.locator_params(axis="x", nbins=5)
        axis.set_title(panel)
        axis.set_xlabel("round t")
        axis.set_ylabel("distance / t")
        ends: dict[str, float] = {}
        mine = table.filter(pl.col("panel") == panel)
        for method in methods:
            measured = mine.filter(pl.col("method") == method).select("round", upper="distance")
            one = look[method]
            width = 2.2 if method == CALIBRATED else 1.4
            draw_distance(axis, measured, one.colour, dashes=one.dashes, width=width)
            ends[method] = min(float(measured["upper"][-1]), top)
        proven = mine.filter(pl.col("certificate").is_not_null()).select("round", "certificate", "guarantee")
        if proven.height:
            rounds, certificates, guarantees = proven.to_numpy().T
            for name, values in zip(PROOFS, (certificates, guarantees), strict=True):
                axis.plot(rounds, values, color=PROOFS[name], lw=1.6, zorder=2)
                ends[name] = min(float(values[-1]), top)
        name_lines(axis, ends, look)
    return figure


def _averages(sums: Sequence[float], rounds: Sequence[int]) -> list[float]:
    return [total / count for total, count in zip(sums, rounds, strict=True)] if sums else []


def _room(table: pl.DataFrame) -> float:
    """How far up the axis goes: everything but guarantees fits, once a sixth of the stream is over."""
    later = table.filter(pl.col("round") * 6 >= pl.col("round").max())
    return 1.1 * max(highest(later["distance"], later["certificate"]), 0.01)
