"""Pictures of evaluations: how the distance of each method grew, and reliability diagrams side by side.

`prepare_...` makes a table, and all that `draw_...` draws is in it. Nothing has a state. The columns are
those of the files that are written beside pictures. `write_evaluations` makes names of files of those of
streams and models; `WRITTEN_TABLES` in `cli/evaluate.py` has them as patterns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec
import polars as pl
from matplotlib.figure import Figure

from onlinecal.plots import over_rounds, style
from onlinecal.simulations.evaluation import CALIBRATED_METHOD, Evaluation
from onlinecal.simulations.games.measuring import Game
from onlinecal.simulations.plots import PreparedPicture
from onlinecal.simulations.plots.games import RELIABILITY
from onlinecal.simulations.plots.sweeps import lines_of
from onlinecal.tables.writing import write_table

PROOF_LOOKS = {"certificate": style.Look(style.QUIET), "guarantee": style.Look(style.INK)}
"""The looks of the columns that only a calibrated method has."""


def prepare_running(evaluations: Sequence[Evaluation]) -> pl.DataFrame:
    """A table with columns panel, method, round, distance, certificate, guarantee: averages so far."""
    kinds = {"certificate": pl.Float64, "guarantee": pl.Float64}
    parts = [
        pl.DataFrame(
            {
                "panel": f"{evaluation.score.stream}: {evaluation.score.model}",
                "method": evaluation.score.method,
                "round": evaluation.checkpoints,
                "distance": over_rounds.running_distance_table(
                    evaluation.game.forecasts, evaluation.game.outcomes, rounds=evaluation.checkpoints
                )["upper"],
                "certificate": evaluation.certificates or None,
                "guarantee": evaluation.guarantees or None,
            },
            schema_overrides=kinds,
        )
        for evaluation in evaluations
    ]
    return pl.concat(parts).with_columns(pl.col(*PROOF_LOOKS) / pl.col("round"))


@style.in_house_style
def draw_running(table: pl.DataFrame) -> Figure:
    """Draw a panel per stream and model with a line per method; certificates are grey, guarantees black."""
    names = table["panel"].unique(maintain_order=True).to_list()
    methods = table["method"].unique(maintain_order=True).to_list()
    look = style.looks(methods)
    figure, axes = style.panels(names, [*look, *PROOF_LOOKS], height=3.4)
    style.headline(
        figure,
        "Distance to calibration so far",
        "Average per round, upper end of the bracket. Grey: the certificate, proven as the stream runs. "
        "Black: the guarantee.",
    )
    last = int(style.highest(table["round"]))
    # the axis shows everything but guarantees in full
    top = 1.1 * max(over_rounds.later_height(table.select("round", "distance", "certificate")), 0.01)
    for panel, axis in zip(names, axes, strict=True):
        axis.set(xlim=(0, last), ylim=(0, top), xlabel="round t", ylabel="distance / t")
        axis.locator_params(axis="x", nbins=5)
        ends = {}
        for method, part in lines_of(table, panel, "panel", "method"):
            method_look, width = look[method], 2.2 if method == CALIBRATED_METHOD else 1.4
            axis.plot(
                part["round"],
                part["distance"],
                color=method_look.colour,
                ls=method_look.dashes,
                lw=width,
                zorder=3,
            )
            ends[method] = min(float(part["distance"][-1]), top), method_look
            if part["certificate"].null_count() == 0:
                for name, proof in PROOF_LOOKS.items():
                    axis.plot(part["round"], part[name], color=proof.colour, lw=1.6, zorder=2)
                    ends[name] = min(float(part[name][-1]), top), proof
        style.name_lines(axis, ends)
    return figure


RUNNING = PreparedPicture(prepare_running, draw_running)


def write_evaluations(evaluations: Sequence[Evaluation], folder: Path) -> list[Path]:
    """Write results.csv, a reliability diagram per stream and model, and a picture of growing distances."""
    rows = [msgspec.structs.asdict(evaluation.score) for evaluation in evaluations]
    written = [write_table(pl.DataFrame(rows, infer_schema_length=None), folder / "results.csv")]
    games: dict[str, list[Game]] = {}
    for evaluation in evaluations:
        names = "reliability", evaluation.score.stream, evaluation.score.model
        parts = (re.sub(r"\W+", "-", name).strip("-").lower() for name in names)
        games.setdefault("-".join(parts), []).append(evaluation.game)
    written += [RELIABILITY.write(folder / name, group) for name, group in games.items()]
    written.append(RUNNING.write(folder / "distance", evaluations))
    return written
