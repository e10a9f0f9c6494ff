"""Evaluations as a table for people, records for machines, and pictures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from onlinecal.cli.output import table
from onlinecal.measures.scores import BINS
from onlinecal.remarks import beside, constant_remarks, input_remarks
from simulations.evaluation.scoring import Evaluation, Score
from simulations.evaluation.sources import BASE, CALIBRATED

if TYPE_CHECKING:
    from rich.table import Table


def score_table(scores: Sequence[Score], late: str) -> Table:
    """A line per stream, model and method, and one for the best constant; averages over rounds.

    Beside Brier score and log loss stands how far they are from those of the model alone.
    """
    streams = {score.stream: score.rounds for score in scores}
    title = ", ".join(f"{name} ({rounds:,} rounds)" for name, rounds in streams.items())
    lines = []
    for base, group in by_model(scores):
        lines += [_line(score, base) for score in group]
        constant = [base.stream, base.model, "best constant"]
        for own, other in zip(base.constants.values(), base.losses.values(), strict=True):
            constant += [f"{own:.4f}", _change(own, other)]
        lines.append([*constant, *[""] * 5])
    return table(
        f"{title}{late}: averages per round",
        ["stream", "model", "", "Brier", "± base", "log loss", "± base", f"ECE ({BINS} bins)", "ECE",
         "distance to calibration", "certificate", "guarantee"],
        lines,
        left=3,
    )  # fmt: skip


def by_model(scores: Sequence[Score]) -> list[tuple[Score, list[Score]]]:
    """The scores of each model on each stream, and among them those of the model itself."""
    groups: dict[tuple[str, str], list[Score]] = {}
    for score in scores:
        groups.setdefault((score.stream, score.model), []).append(score)
    return [(next(one for one in group if one.method == BASE), group) for group in groups.values()]


def comparisons(scores: Sequence[Score]) -> list[str]:
    """Where the model or its calibrated version is worse than a constant, or the latter than the model."""
    texts = []
    for base, group in by_model(scores):
        for one in (one for one in group if one.method in (BASE, CALIBRATED)):
            name = f"{one.method} {one.model} on {one.stream}"
            texts += constant_remarks(name, one.rounds, beside(one.losses, one.constants))
            texts += input_remarks(name, f"{base.method} {base.model}", beside(one.losses, base.losses))
    return texts


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

    from onlinecal.plots.panels import reliability_panels
    from onlinecal.plots.style import write_figure
    from onlinecal.tables import write_table
    from simulations.plots import running_distance
    from simulations.plots.games import reliability_of

    rows = [msgspec.structs.asdict(one.score) for one in evaluations]
    written = [write_table(pl.DataFrame(rows, infer_schema_length=None), folder / "results.csv")]
    groups: dict[tuple[str, str], list[Evaluation]] = {}
    for one in evaluations:
        groups.setdefault((one.score.stream, one.score.model), []).append(one)
    for names, group in groups.items():
        numbers = reliability_of([one.game for one in group])
        stem = folder / _file_name("reliability", *names)
        written.append(write_figure(reliability_panels(numbers), numbers, stem))
    numbers = running_distance.prepare(evaluations)
    written.append(write_figure(running_distance.draw(numbers), numbers, folder / "distance"))
    return written


def _line(score: Score, base: Score) -> list[str]:
    low, high = f"{score.distance_lower:.4f}", f"{score.distance_upper:.4f}"
    proofs = (score.certificate, score.guarantee)
    return [
        score.stream,
        score.model,
        score.method,
        f"{score.brier:.4f}",
        "" if score is base else _change(score.brier, base.brier),
        f"{score.log_loss:.4f}",
        "" if score is base else _change(score.log_loss, base.log_loss),
        f"{score.ece_bins:.4f}",
        f"{score.ece:.4f}",
        high if low == high else f"{low} … {high}",
        *("–" if value is None else f"{value:.4f}" for value in proofs),
    ]


def _change(value: float, base: float) -> str:
    return f"{100 * (value / base - 1):+.1f} %" if base else "–"


def _file_name(*parts: str) -> str:
    return "-".join(re.sub(r"\W+", "-", part).strip("-").lower() for part in parts)
