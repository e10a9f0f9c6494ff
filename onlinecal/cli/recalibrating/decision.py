"""Decision recalibration of a table of class probabilities."""

from __future__ import annotations

from typing import Any

import polars as pl

from onlinecal.arrays import Floats
from onlinecal.cli.recalibrating.alone import Findings, Method, Run, Scores, facts_of_start
from onlinecal.cli.recalibrating.asked import Asked, made
from onlinecal.cli.recalibrating.reading import Part
from onlinecal.cli.recalibrating.report import NONE, Picture
from onlinecal.measures.decision.errors import decision_calibration_error, decision_loss_gap
from onlinecal.measures.decision.losses import decision_losses, row_losses
from onlinecal.recalibration.decision.losses import LossTable, gaussian_losses
from onlinecal.recalibration.decision.recalibrator import DecisionRecalibrator

N_LOSSES = 500
DRAWN = (NONE, "temperature", "decision")
SEED = 0
"""Of the Gaussian losses: the same for every table and split."""


def model(asked: Asked, loss_table: LossTable | None) -> DecisionRecalibrator:
    """An unfitted recalibrator."""
    for name in ("n_actions", "partition"):
        if loss_table is not None and name in asked.values:
            raise ValueError(f"--set {name} and --losses exclude each other: the losses say it")
    return made(DecisionRecalibrator, asked, losses=None if loss_table is None else loss_table.values)


def findings(run: Run) -> Findings:
    """How wrong it is about losses, those asked for or random ones; the decisions before and after."""
    model, loss_table, shown = run.model, run.loss_table, run.shown
    k, n_actions = len(shown.classes), model.n_actions
    losses = gaussian_losses(n_actions, k, N_LOSSES, SEED) if loss_table is None else loss_table.values[None]

    def scores(part: Part, name: str) -> Scores:
        after = run.mapped[part.name][name]
        gaps = decision_loss_gap(after, part.settled, losses)
        if loss_table is None:
            return {
                f"mean gap of {N_LOSSES} losses": float(gaps.mean()),
                f"worst gap of {N_LOSSES} losses": float(gaps.max()),
                f"worst gap, {n_actions} actions": decision_calibration_error(after, part.settled, n_actions),
            }
        predicted, true = decision_losses(after, part.settled, losses)
        return {
            "gap of the losses": float(gaps[0]),
            "loss that is predicted": float(predicted[0]),
            "loss that comes": float(true[0]),
        }

    tables = {}
    if loss_table is not None:
        rows = action_rows(loss_table, shown, run.mapped[shown.name]["decision"])
        tables[f"decisions before and after ({shown.name} rows)"] = rows
    asked = run.asked.losses
    return Findings(
        scores,
        parameters={**model.get_params(), "losses": None if asked is None else str(asked)},
        facts={**facts_of_start(model), "rounds": model.n_rounds_},
        tables=tables,
        pictures=lambda: pictures(run, losses),
    )


METHOD = Method(model, findings)


def action_rows(loss_table: LossTable, part: Part, after: Floats) -> list[dict[str, Any]]:
    """How often each action is taken, and what it costs where it is taken, predicted and true."""
    rows: list[dict[str, Any]] = [{"action": name} for name in loss_table.actions]
    losses = loss_table.values[None]
    for kind, table in (("before", part.probabilities), ("after", after)):
        decisions, predicted, true = (one[0] for one in row_losses(table, part.settled, losses))
        for action, row in enumerate(rows):
            mine = decisions == action
            row[f"rows_{kind}"] = int(mine.sum())
            row[f"predicted_{kind}"] = float(predicted[mine].mean()) if mine.any() else None
            row[f"true_{kind}"] = float(true[mine].mean()) if mine.any() else None
    return rows


def pictures(run: Run, losses: Floats) -> list[Picture]:
    """Predicted and true losses of random decision makers, or a given table with its regions."""
    from onlinecal.plots import decision_losses_data
    from onlinecal.plots.decisions import decision_numbers, draw_decisions, draw_methods

    shown, mapped = run.shown, run.mapped[run.shown.name]
    if run.loss_table is not None:
        numbers = decision_numbers(run.loss_table, shown.probabilities, mapped["decision"])
        return [Picture(draw_decisions, numbers, "decisions")]
    each = pl.lit("loss").alias("each")
    tables = [
        decision_losses_data(mapped[name], shown.settled, losses)
        .drop("loss")
        .select(pl.lit(name).alias("method"), pl.all(), each)
        for name in DRAWN
    ]
    return [Picture(draw_methods, pl.concat(tables), "losses")]
