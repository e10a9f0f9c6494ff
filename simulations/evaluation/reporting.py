"""Evaluations as a table for people, records for machines, and pictures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from onlinecal.cli.output import table
from onlinecal.measures.scores import BINS
from simulations.evaluation.scoring import Evaluation, Score

if TYPE_CHECKING:
    from rich.table import Table


def score_table(scores: Sequence[Score], late: int) -> Table:
    """A line per stream, model and method; averages over rounds."""
    streams = {score.stream: score.rounds for score in scores}
    title = ", ".join(f"{name} ({rounds:,} rounds)" for name, rounds in streams.items())
    labels = f", labels {late} rounds late" if late else ""
    return table(
        f"{title}{labels}: averages per round",
        ["stream", "model", "", "Brier", "log loss", f"ECE ({BINS} bins)", "ECE", "distance to calibration",
         "certificate", "guarantee"],
        [_line(score) for score in scores],
        left=3,
    )  # fmt: skip


def machine_readable(
    scores: Sequence[Score], broken: Sequence[str], files: Sequence[Path], remarks: Sequence[str] = ()
) -> dict[str, Any]:
    """The scores as plain records."""
    return {
        "scores": [msgspec.structs.asdict(score) for score in scores],
        "broken": list(broken),
        "warnings": list(remarks),
        "pictures": [str(path) for path in files],
    }


def write_evaluations(evaluations: Sequence[Evaluation], folder: Path) -> list[Path]:
    """Write results.csv, reliability diagrams per stream and model, and how the distance grew."""
    import polars as pl

    from onlinecal.plots.files import write_figure
    from onlinecal.tables import write_table
    from simulations.plots import running_distance
    from simulations.plots.games import reliability

    rows = [msgspec.structs.asdict(one.score) for one in evaluations]
    written = [write_table(pl.DataFrame(rows, infer_schema_length=None), folder / "results.csv")]
    groups: dict[tuple[str, str], list[Evaluation]] = {}
    for one in evaluations:
        groups.setdefault((one.score.stream, one.score.model), []).append(one)
    for names, group in groups.items():
        numbers = reliability.prepare([one.game for one in group])
        stem = folder / _file_name("reliability", *names)
        written.append(write_figure(reliability.draw(numbers), numbers, stem))
    numbers = running_distance.prepare(evaluations)
    written.append(write_figure(running_distance.draw(numbers), numbers, folder / "distance"))
    return written


def _line(score: Score) -> list[str]:
    low, high = f"{score.distance_lower:.4f}", f"{score.distance_upper:.4f}"
    errors = (score.brier, score.log_loss, score.ece_bins, score.ece)
    proofs = (score.certificate, score.guarantee)
    return [
        score.stream,
        score.model,
        score.method,
        *(f"{value:.4f}" for value in errors),
        high if low == high else f"{low} … {high}",
        *("–" if value is None else f"{value:.4f}" for value in proofs),
    ]


def _file_name(*parts: str) -> str:
    return "-".join(re.sub(r"\W+", "-", part).strip("-").lower() for part in parts)
