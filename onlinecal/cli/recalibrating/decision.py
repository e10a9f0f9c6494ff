"""Decision recalibration of a table of class probabilities."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from threadpoolctl import threadpool_limits

from onlinecal.arrays import Floats, Ints
from onlinecal.cli.recalibrating.jobs import Job, Mapped, facts_of_start, read_job
from onlinecal.cli.recalibrating.options import Rows, Settings, estimator
from onlinecal.cli.recalibrating.report import NONE, Picture, Report, Scores, Section
from onlinecal.cli.recalibrating.tables import Part
from onlinecal.measures.decision.errors import decision_calibration_error, decision_loss_gap
from onlinecal.measures.decision.losses import decision_losses, row_losses
from onlinecal.recalibration.decision.losses import LossTable, gaussian_losses
from onlinecal.recalibration.decision.recalibrator import DecisionRecalibrator

ACTIONS = 2
N_LOSSES = 500
N_CURVES = 100
"""Gaussian losses that are followed from round to round."""
N_STOPS = 16
"""Rounds at which they are looked at, at most."""
N_SPLITS = 400
"""Random halves of the tested rows."""
DRAWN = (NONE, "temperature", "decision")
SEED = 0
"""Of the Gaussian losses: the same for every table and split."""


def new_model(settings: Settings, losses: Floats | None, seed: int) -> DecisionRecalibrator:
    """An unfitted recalibrator."""
    return estimator(DecisionRecalibrator, settings, losses=losses, seed=seed)


def recalibrate(file: Path, rows: Rows, settings: Settings) -> Report:
    """Fit, compare and report."""
    job = read_job(file, "decision", settings, rows)
    with threadpool_limits(1, "blas"):
        return _recalibrate(job, settings, rows.seed)


def _recalibrate(job: Job, settings: Settings, seed: int) -> Report:
    for name in ("n_actions", "partition"):
        if name in settings.values and settings.losses is not None:
            raise ValueError(f"--set {name} and --losses exclude each other: the losses say it")
    clinic = None if settings.losses is None else read_losses(settings.losses, job.classes)
    model = new_model(settings, None if clinic is None else clinic.values, seed)
    if clinic is not None:
        job = replace(job, classes=tuple(clinic.classes))
    maps, remarks = job.beside_rivals("decision", model)
    mapped = job.mapped(maps)
    k = len(job.classes)
    losses = gaussian_losses(model.n_actions, k, N_LOSSES, SEED) if clinic is None else clinic.values[None]
    names = _names(model.n_actions, clinic)

    def own(part: Part, name: str) -> Scores:
        after = mapped[part.name][name]
        gaps = decision_loss_gap(after, part.settled, losses)
        if clinic is not None:
            predicted, true = decision_losses(after, part.settled, losses)
            values = float(gaps[0]), float(predicted[0]), float(true[0])
        else:
            worst = decision_calibration_error(after, part.settled, model.n_actions)
            values = float(gaps.mean()), float(gaps.max()), worst
        return dict(zip(names, values, strict=True))

    shown = job.labelled[-1]
    sections = []
    if clinic is not None:
        rows = action_rows(clinic, shown.told, mapped[shown.name]["decision"], shown.settled)
        sections.append(Section(f"decisions before and after ({shown.name} rows)", rows))
    return job.report(
        "decision",
        maps,
        mapped,
        own,
        remarks,
        parameters={
            **model.get_params(),
            "losses": None if settings.losses is None else str(settings.losses),
        },
        facts={**facts_of_start(model), "rounds": model.n_rounds_},
        sections=sections,
        pictures=lambda: pictures(job, mapped, model, losses, clinic),
    )


def _names(n_actions: int, clinic: LossTable | None) -> tuple[str, str, str]:
    if clinic is not None:
        return "gap of the losses", "loss that is predicted", "loss that comes"
    return (
        f"mean gap of {N_LOSSES} losses",
        f"worst gap of {N_LOSSES} losses",
        f"worst gap, {n_actions} actions",
    )


def read_losses(path: Path, classes: tuple[str, ...]) -> LossTable:
    """A loss table in the order of the classes; where these are mere numbers, it names them."""
    table = LossTable.read_csv(path)
    if sorted(table.classes) == sorted(classes):
        order = [list(table.classes).index(name) for name in classes]
        return LossTable(table.values[:, order], table.actions, classes)
    if len(table.classes) != len(classes):
        raise ValueError(f"{path} has losses for {len(table.classes)} classes, there are {len(classes)}")
    if classes != tuple(map(str, range(len(classes)))):
        missing = next(name for name in classes if name not in table.classes)
        raise ValueError(f"{path} has no losses for class {missing!r}; it has {', '.join(table.classes)}")
    return table


def action_rows(clinic: LossTable, before: Floats, after: Floats, labels: Ints) -> list[dict[str, Any]]:
    """How often each action is taken, and what it costs where it is taken, predicted and true."""
    rows: list[dict[str, Any]] = [{"action": name} for name in clinic.actions]
    for kind, table in (("before", before), ("after", after)):
        decisions, predicted, true = (one[0] for one in row_losses(table, labels, clinic.values[None]))
        for action, row in enumerate(rows):
            mine = decisions == action
            row[f"rows_{kind}"] = int(mine.sum())
            row[f"predicted_{kind}"] = float(predicted[mine].mean()) if mine.any() else None
            row[f"true_{kind}"] = float(true[mine].mean()) if mine.any() else None
    return rows


def pictures(
    job: Job, by_part: Mapped, model: DecisionRecalibrator, losses: Floats, clinic: LossTable | None
) -> list[Picture]:
    """The gap against rounds, if any; predicted and true losses; a given table with its regions."""
    from onlinecal.plots.recalibration.decisions import draw_decisions, draw_methods, prepare_decisions
    from onlinecal.plots.recalibration.rounds import draw_gaps

    shown = job.labelled[-1]
    labels, mapped = shown.settled, {name: by_part[shown.name][name] for name in DRAWN}
    with threadpool_limits(1, "blas"):
        drawn = []
        if model.n_rounds_:
            drawn.append(Picture(draw_gaps, gaps_by_round(job, model, losses), "gaps"))
        if clinic is None:
            numbers = losses_each(mapped, labels, losses)
            drawn.append(Picture(draw_methods, numbers, "losses"))
            return drawn
    numbers = losses_of_halves(mapped, labels, clinic.values)
    drawn.append(Picture(draw_methods, numbers, "losses"))
    numbers = prepare_decisions(clinic, shown.told, mapped["decision"])
    drawn.append(Picture(draw_decisions, numbers, "decisions"))
    return drawn


def gaps_by_round(job: Job, model: DecisionRecalibrator, losses: Floats) -> pl.DataFrame:
    """Columns part, round, mean, worst, and n_losses; round -1 is before the temperature."""
    watched = losses[:N_CURVES]
    stops = set(np.unique(np.round(np.linspace(0, model.n_rounds_, N_STOPS)).astype(int)).tolist())
    rows = []
    for part in job.labelled:
        stages = [(-1, part.told), *enumerate(model.staged_predict_proba(part.told))]
        for at, now in stages:
            if at == -1 or at in stops:
                gaps = decision_loss_gap(now, part.settled, watched)
                rows.append(
                    {"part": part.name, "round": at, "mean": float(gaps.mean()), "worst": float(gaps.max())}
                )
    return pl.DataFrame(rows).with_columns(pl.lit(len(watched)).alias("n_losses"))


def losses_each(mapped: dict[str, Floats], labels: Ints, losses: Floats) -> pl.DataFrame:
    """Columns method, predicted, true: a row per loss, divided by its norm."""
    from onlinecal.plots import decision_losses_data

    parts = [
        decision_losses_data(table, labels, losses).select(
            pl.lit(name).alias("method"), "predicted", "true", pl.lit("loss").alias("each")
        )
        for name, table in mapped.items()
    ]
    return pl.concat(parts)


def losses_of_halves(mapped: dict[str, Floats], labels: Ints, loss: Floats) -> pl.DataFrame:
    """Columns method, predicted, true: a row per random half of the rows."""
    rng = np.random.default_rng([SEED, 13])
    n = len(labels)
    halves = [rng.permutation(n)[: max(n // 2, 1)] for _ in range(N_SPLITS)]
    parts = []
    for name, table in mapped.items():
        _, predicted, true = (one[0] for one in row_losses(table, labels, loss[None]))
        parts.append(
            pl.DataFrame(
                {
                    "method": name,
                    "predicted": [float(predicted[half].mean()) for half in halves],
                    "true": [float(true[half].mean()) for half in halves],
                }
            )
        )
    return pl.concat(parts).with_columns(pl.lit("half").alias("each"))
