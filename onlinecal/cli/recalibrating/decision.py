"""Decision recalibration of a table of class probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from onlinecal.arrays import Floats, Ints
from onlinecal.cli.recalibrating.alone import Findings, Method, Run, Scores, facts_of_start, stops_until
from onlinecal.cli.recalibrating.asked import Asked, made
from onlinecal.cli.recalibrating.reading import Part
from onlinecal.cli.recalibrating.report import NONE, Picture
from onlinecal.measures.decision.errors import decision_calibration_error, decision_loss_gap
from onlinecal.measures.decision.losses import decision_losses, row_losses
from onlinecal.recalibration.decision.losses import LossTable, gaussian_losses
from onlinecal.recalibration.decision.recalibrator import DecisionRecalibrator

N_LOSSES = 500
N_CURVES, N_STOPS = 100, 16
"""Losses and rounds of the picture of gaps."""
N_SPLITS = 400
"""Random halves of the rows, a dot each."""
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
    """The gap against rounds, if any, and what losses cost beyond what was predicted."""
    from onlinecal.plots import decision_losses_data
    from onlinecal.plots.decisions import draw_methods
    from onlinecal.plots.recalibrations import draw_gaps

    shown, loss_table = run.shown, run.loss_table
    mapped = {name: run.mapped[shown.name][name] for name in DRAWN}
    drawn = []
    if run.model.n_rounds_:
        drawn.append(Picture(draw_gaps, gaps_by_round(run, losses[:N_CURVES]), "gaps"))
    each = {
        name: decision_losses_data(table, shown.settled, losses).drop("loss")
        if loss_table is None
        else losses_of_halves(table, shown.settled, losses)
        for name, table in mapped.items()
    }
    what = pl.lit("loss" if loss_table is None else "half").alias("each")
    named = [table.select(pl.lit(name).alias("method"), pl.all(), what) for name, table in each.items()]
    drawn.append(Picture(draw_methods, pl.concat(named), "losses"))
    return drawn


def gaps_by_round(run: Run, losses: Floats) -> pl.DataFrame:
    """Columns part, round, mean, worst, and n_losses; round -1 is as given, 0 the start."""
    stops = {-1, *stops_until(run.model.n_rounds_, N_STOPS)}
    rows = []
    for part in run.parts:
        stages = [(-1, part.probabilities), *enumerate(run.model.staged_predict_proba(part.probabilities))]
        for at, now in stages:
            if at in stops:
                gaps = decision_loss_gap(now, part.settled, losses)
                ends = {"mean": float(gaps.mean()), "worst": float(gaps.max())}
                rows.append({"part": part.name, "round": at, **ends, "n_losses": len(losses)})
    return pl.DataFrame(rows)


def losses_of_halves(table: Floats, labels: Ints, loss: Floats) -> pl.DataFrame:
    """Columns predicted, true: a row per random half of the rows, the same halves for every table."""
    rng = np.random.default_rng([SEED, 13])
    n = len(labels)
    halves = [rng.permutation(n)[: max(n // 2, 1)] for _ in range(N_SPLITS)]
    _, predicted, true = (one[0] for one in row_losses(table, labels, loss))
    means = {"predicted": predicted, "true": true}
    return pl.DataFrame({name: [float(one[half].mean()) for half in halves] for name, one in means.items()})
