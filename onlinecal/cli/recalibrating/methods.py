"""The methods that can be asked for alone: how each is made, what it takes, reports and draws.

METHODS has all that is known of a method, and never changes. What comes out of a fit, a `Findings`, never
changes either. Names of measures, facts and columns are keys of report.json. Seeds and numbers of draws
decide those figures; how many rows, curves and dots are shown may change freely.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
from polars import selectors

from onlinecal.arrays import Floats, Ints
from onlinecal.cli.recalibrating.asked import Request, made
from onlinecal.cli.recalibrating.grouping import GroupColumns
from onlinecal.cli.recalibrating.report import AS_GIVEN, Drawing
from onlinecal.cli.verbs import check_different
from onlinecal.measures.decision.errors import decision_calibration_error, decision_loss_gap
from onlinecal.measures.decision.losses import decision_losses, row_losses
from onlinecal.measures.groups import MulticalibrationReport, multicalibration_report
from onlinecal.measures.lp.errors import lp_calibration_error
from onlinecal.measures.scores import brier_score, event_scores
from onlinecal.recalibration.boosted import BoostedRecalibrator
from onlinecal.recalibration.decision.losses import LossTable, gaussian_losses
from onlinecal.recalibration.decision.recalibrator import DecisionRecalibrator
from onlinecal.recalibration.groups.maker import GroupRepair
from onlinecal.recalibration.groups.recalibrator import GroupRecalibrator
from onlinecal.recalibration.lp.recalibrator import LpRecalibrator
from onlinecal.recalibration.starting import StartedRecalibrator
from onlinecal.tables.classes import Part, column, numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MeasureScores = Mapping[str, float | None]
"""Scores by the names of their measures; None if there is no score."""
Map = Callable[[Part], Floats]
View = Callable[[Part], tuple[Any, ...]]
"""The arguments of a method's model, from a part: its probabilities, a table of features, groups."""


class Findings(NamedTuple):
    """A method's report beside the usual scores.

    Attributes
    ----------
    scores
        Its own measures, from a part and the name of a map.
    parameters, facts
        The settings of the method; single numbers about the fit: rounds, groups, patches.
    tables
        Further tables by their titles.
    pictures
        The function that makes the pictures.
    """

    scores: Callable[[Part, str], MeasureScores]
    parameters: dict[str, Any]
    facts: dict[str, Any]
    tables: dict[str, list[dict[str, Any]]]
    pictures: Callable[[], list[Drawing]]


def the_probabilities(part: Part) -> tuple[Floats]:
    """The view of a method that takes probabilities alone."""
    return (part.probabilities,)


class Method(NamedTuple):
    """A method of recalibration.

    Attributes
    ----------
    model
        Makes an unfitted estimator with the settings asked for.
    findings
        Makes its report, when it is fitted.
    view
        Makes the `View` from the request and the rows to fit. The first of the arguments that this makes of
        rows is what is mapped.
    """

    model: Callable[[Request, LossTable | None], Any]
    findings: Callable[[Run], Findings]
    view: Callable[[Request, Part], View] = lambda *_: the_probabilities


@dataclass(frozen=True, eq=False)
class Run:
    """A method, fitted on some rows, and the usual recalibrations beside it.

    Attributes
    ----------
    asked, model, view, loss_table
        The request, the method's model, its view, and the losses of the request.
    parts
        The rows that were fitted, and others if they have labels: those to test, or of a new file.
    mapped
        The probabilities of each part by each map, by their names; the first map leaves them as given, or is
        the mean outcome if none are given.
    """

    asked: Request
    model: Any
    view: View
    loss_table: LossTable | None
    parts: list[Part]
    mapped: dict[str, dict[str, Floats]]

    @property
    def shown(self) -> Part:
        """The part that tables and pictures show."""
        return self.parts[-1]

    @property
    def title(self) -> str:
        """The file and the part that are shown."""
        return f"{self.asked.file.name}, {self.shown.name} rows"


def facts_of_start(model: StartedRecalibrator) -> dict[str, Any]:
    """The start of a correction, and how much of the correction is used."""
    return {
        "start": model.start_name_,
        "inverse temperature at the start": float(model.inverse_temperature_),
        "share of the correction": model.share_,
        "largest factor of the correction": None if math.isinf(model.limit_) else model.limit_,
    }


def drawn_labels(table: Floats, rng: np.random.Generator) -> Ints:
    """A label for each row of probabilities (n, k), drawn from them as if they were right."""
    ends = table.cumsum(axis=1)
    return (ends < rng.random((len(table), 1)) * ends[:, -1:]).sum(axis=1)


def stops_until(end: int, most: int) -> list[int]:
    """At most so many numbers of rounds, evenly spread from 0 to the end."""
    return np.unique(np.round(np.linspace(0, end, most)).astype(int)).tolist()


TOP_LEVEL_SETS, CHANCE_DRAWS = 10, 10
"""So many level sets are listed, and labels are drawn so often for the error that chance alone would make."""
DRAWN_LOSSES = 500
N_CURVES, N_STOPS = 100, 16
"""The picture of gaps shows so many losses, at so many rounds."""
N_SPLITS = 400
"""The picture of losses shows so many random halves of the rows, a dot each."""
DRAWN_METHODS = (AS_GIVEN, "temperature", "decision")
LOSSES_SEED = 0
"""The seed of the Gaussian losses, the same for every table and split."""
N_PATCH_STOPS = 61
"""The picture of patches shows violations at so many numbers of patches."""


def lp_findings(run: Run) -> Findings:
    """The report of lp: its error, the error by chance alone, and the level sets that carry it."""
    from onlinecal.plots.groups import level_set_errors

    model: LpRecalibrator = run.model
    p, n_levels = float(model.p), model.n_levels_
    order = "∞" if math.isinf(p) else f"{p:g}"

    def scores(part: Part, name: str) -> MeasureScores:
        after = run.mapped[part.name][name]
        return {
            f"Err_{order}, {n_levels} levels": lp_calibration_error(after, part.settled, p, n_bins=n_levels),
            f"Err_{order} by chance alone": chance_error(after, p, n_levels, model.random_state),
        }

    part = run.shown
    before, after = part.probabilities, run.mapped[part.name]["lp"]
    cells = level_set_errors(before, after, part.settled, part.classes, n_levels, p)
    names = {"before": "forecast_before", "after": "forecast_after", "share": "share_of_error"}
    carriers = (
        cells.head(TOP_LEVEL_SETS).select("level_set", "class", "rows", "frequency", *names).rename(names)
    )
    return Findings(
        scores,
        parameters={
            **model.get_params(),
            "p": "inf" if math.isinf(p) else p,
            "n_levels": n_levels,
            "tolerance": model.tolerance_,
        },
        facts={
            **facts_of_start(model),
            "rounds": model.n_rounds_,
            "level sets": len(model.level_sets_),
            "groups": len(model.predictions_),
        },
        tables={f"level sets that carry the error ({part.name} rows)": carriers.to_dicts()},
        pictures=lambda: lp_pictures(run, cells),
    )


def chance_error(table: Floats, p: float, n_levels: int, seed: int) -> float:
    """The average Err_p of labels drawn from the probabilities themselves, which chance alone makes."""
    rng = np.random.default_rng([seed, 11])
    draws = (drawn_labels(table, rng) for _ in range(CHANCE_DRAWS))
    return float(np.mean([lp_calibration_error(table, labels, p, n_bins=n_levels) for labels in draws]))


def lp_pictures(run: Run, cells: pl.DataFrame) -> list[Drawing]:
    """The level sets before and after, and the rounds, if there were some."""
    from onlinecal.plots.groups import draw_levels
    from onlinecal.plots.recalibrations import draw_lp_rounds

    drawn = [Drawing(draw_levels, cells.with_columns(title=pl.lit(run.title)), "levels")]
    if run.model.n_rounds_:
        drawn.append(Drawing(draw_lp_rounds, errors_by_round(run.model), "rounds"))
    return drawn


def errors_by_round(model: LpRecalibrator) -> pl.DataFrame:
    """Columns round, error, squared_error, p: by the fitted rows; round 0 is the start."""
    history = model.history_
    errors = {"error": history.error, "squared_error": history.squared_error}
    return pl.DataFrame({"round": np.arange(len(history.error)), **errors, "p": float(model.p)})


def decision_model(asked: Request, loss_table: LossTable | None) -> DecisionRecalibrator:
    """An unfitted recalibrator."""
    for name in ("n_actions", "partition"):
        if loss_table is not None and name in asked.values:
            raise ValueError(
                f"--set {name} and --losses exclude each other, since the file of losses determines {name}: "
                "leave one out"
            )
    return made(DecisionRecalibrator, asked, losses=None if loss_table is None else loss_table.values)


def decision_findings(run: Run) -> Findings:
    """The report of decision: errors about the request's or random losses; decisions before and after."""
    model, loss_table, shown = run.model, run.loss_table, run.shown
    k, n_actions = len(shown.classes), model.n_actions
    losses = (
        gaussian_losses(n_actions, k, DRAWN_LOSSES, LOSSES_SEED)
        if loss_table is None
        else loss_table.values[None]
    )

    def scores(part: Part, name: str) -> MeasureScores:
        after = run.mapped[part.name][name]
        gaps = decision_loss_gap(after, part.settled, losses)
        if loss_table is None:
            return {
                f"mean gap of {DRAWN_LOSSES} losses": float(gaps.mean()),
                f"worst gap of {DRAWN_LOSSES} losses": float(gaps.max()),
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
        pictures=lambda: decision_pictures(run, losses),
    )


def action_rows(loss_table: LossTable, part: Part, after: Floats) -> list[dict[str, Any]]:
    """For each action how often it is taken, and its mean predicted and true losses when it is taken."""
    rows: list[dict[str, Any]] = [{"action": name} for name in loss_table.actions]
    losses = loss_table.values[None]
    for kind, table in (("before", part.probabilities), ("after", after)):
        decisions, predicted, true = (of_losses[0] for of_losses in row_losses(table, part.settled, losses))
        for action, row in enumerate(rows):
            mine = decisions == action
            row[f"rows_{kind}"] = int(mine.sum())
            row[f"predicted_{kind}"] = float(predicted[mine].mean()) if mine.any() else None
            row[f"true_{kind}"] = float(true[mine].mean()) if mine.any() else None
    return rows


def decision_pictures(run: Run, losses: Floats) -> list[Drawing]:
    """The gap against rounds, if any, and true losses against predicted ones."""
    from onlinecal.plots.decisions import decision_costs_table, draw_methods
    from onlinecal.plots.recalibrations import draw_gaps

    shown, loss_table = run.shown, run.loss_table
    mapped = {name: run.mapped[shown.name][name] for name in DRAWN_METHODS}
    drawn = []
    if run.model.n_rounds_:
        drawn.append(Drawing(draw_gaps, gaps_by_round(run, losses[:N_CURVES]), "gaps"))
    each = {
        name: decision_costs_table(table, shown.settled, losses).drop("loss")
        if loss_table is None
        else losses_of_halves(table, shown.settled, losses)
        for name, table in mapped.items()
    }
    what = pl.lit("loss" if loss_table is None else "half").alias("each")
    named = [table.select(pl.lit(name).alias("method"), pl.all(), what) for name, table in each.items()]
    drawn.append(Drawing(draw_methods, pl.concat(named), "losses"))
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
    rng = np.random.default_rng([LOSSES_SEED, 13])
    n = len(labels)
    halves = [rng.permutation(n)[: max(n // 2, 1)] for _ in range(N_SPLITS)]
    _, predicted, true = (of_losses[0] for of_losses in row_losses(table, labels, loss))
    means = {"predicted": predicted, "true": true}
    return pl.DataFrame(
        {name: [float(values[half].mean()) for half in halves] for name, values in means.items()}
    )


def group_view(asked: Request, fit: Part) -> View:
    """Forecasts, and columns of categories; ValueError if the columns of either are not named."""
    if asked.forecast is None:
        raise ValueError("--method groups needs --forecast, the name of the column of forecasts")
    if not asked.group:
        raise ValueError("--method groups needs --group, the name of at least one column of groups")
    columns = GroupColumns.of(fit.frame, asked.group)
    return lambda part: (part.probabilities, columns(part.frame))


def group_findings(run: Run) -> Findings:
    """The report of groups: violations of the groups, and each group before and after."""
    model: GroupRecalibrator = run.model
    reports = {
        (part.name, name): report_of(model, part, run.view(part)[1], after)
        for part in run.parts
        for name, after in run.mapped[part.name].items()
    }

    def scores(part: Part, name: str) -> MeasureScores:
        report = reports[part.name, name]
        return {
            "worst group's violation": report.worst.violation,
            "mean violation": float(np.mean([line.violation for line in report.lines])),
            "mean violation by chance": float(np.mean([line.noise for line in report.lines])),
        }

    def pictures() -> list[Drawing]:
        from onlinecal.plots.groups import draw_repair, group_numbers
        from onlinecal.plots.recalibrations import draw_patches

        numbers = group_numbers(repair).with_columns(title=pl.lit(run.title))
        drawn = [Drawing(draw_repair, numbers, "groups")]
        if model.n_patches_:
            drawn.append(Drawing(draw_patches, violations_by_patches(run), "patches"))
        return drawn

    shown = run.shown.name
    both = GroupRepair(reports[shown, AS_GIVEN], reports[shown, "groups"])
    repair = sorted(both.rows(), key=lambda row: -row["violation_before"])
    seen = [{name: value for name, value in row.items() if name != "mass"} for row in repair]
    return Findings(
        scores,
        parameters={
            **model.get_params(),
            "groups": [*run.asked.group],
            "cuts": GroupColumns.of(run.parts[0].frame, run.asked.group).cuts,
        },
        facts={
            "groups": model.n_groups_,
            "start": model.start_.kind if model.start_ else "none",
            "patches": model.n_patches_,
            "patches at most": model.max_patches_,
        },
        tables={f"each group before and after ({shown} rows)": seen},
        pictures=pictures,
    )


def violations_by_patches(run: Run) -> pl.DataFrame:
    """Columns part, patches, worst, chance, squared_error: forecasts after the start and so many patches."""
    stops, rows = stops_until(run.model.n_patches_, N_PATCH_STOPS), []
    for part in run.parts:
        forecasts, groups = run.view(part)
        stages = run.model.staged_predict_proba(forecasts, groups, stops)
        for stop, p in zip(stops, stages, strict=True):
            worst = report_of(run.model, part, groups, p).worst
            row = {"part": part.name, "patches": stop, "worst": worst.violation, "chance": worst.noise}
            rows.append({**row, "squared_error": brier_score(p, part.settled) / len(part)})
    return pl.DataFrame(rows).with_columns(alpha=pl.lit(run.model.alpha, pl.Float64))


def report_of(
    model: GroupRecalibrator, part: Part, groups: pl.DataFrame, p: Floats
) -> MulticalibrationReport:
    """The multicalibration report of forecasts of a part in its groups."""
    members = model.members(groups, len(part))
    return multicalibration_report(
        p, part.settled, members, n_bins=model.n_levels_ or None, names=model.group_names_
    )


def boost_view(asked: Request, fit: Part) -> View:
    """Features, and forecasts if there are some; missing values are NaN, which regression trees take."""
    names = feature_names(asked, fit)

    def looked_at(part: Part) -> tuple[Floats, Floats | None]:
        table = np.column_stack(
            [numbers(column(part.frame, name, f"--features {name}: the file")) for name in names]
        )
        return table, None if asked.forecast is None else part.probabilities

    return looked_at


def feature_names(asked: Request, fit: Part) -> list[str]:
    """The columns named, or all columns of numbers but forecast and outcome."""
    frame, names = fit.frame, asked.features
    if names is None:
        used = {asked.outcome, asked.forecast}
        columns = frame.select(selectors.numeric() | selectors.boolean()).columns
        features = [name for name in columns if name not in used]
        if not features:
            raise ValueError(
                "--method boost needs columns of numbers as features, and the file has none besides outcome "
                "and forecast: add one"
            )
        return features
    check_different(names, "--features")
    if asked.outcome in names:
        raise ValueError(f"--features must not name the outcome, {asked.outcome!r}: leave it out of the list")
    return [*names]


def boost_findings(run: Run) -> Findings:
    """The report of boost: how many rounds there were."""
    model: BoostedRecalibrator = run.model
    return Findings(
        lambda *_: {},
        parameters={**model.get_params(), "features": feature_names(run.asked, run.parts[0])},
        facts={
            "start": model.start_.kind if model.start_ else "none",
            "rounds": model.n_rounds_,
            "rounds kept": model.n_kept_,
            "rounds at most": model.max_rounds_,
        },
        tables={},
        pictures=lambda: boost_pictures(run),
    )


def boost_pictures(run: Run) -> list[Drawing]:
    """Reliability before and after, and the squared error against rounds, if any were kept."""
    from onlinecal.plots.recalibrations import draw_boosting
    from onlinecal.plots.reliability_diagram import named, reliability_panels, reliability_table
    from onlinecal.plots.style import AFTER_COLOUR, BEFORE_COLOUR, OKABE_ITO

    tables = []
    for name, p in run.mapped[run.shown.name].items():
        errors = event_scores(p, run.shown.settled)
        heading = f"{name}: squared error {errors.brier:.4f}, ECE {errors.ece:.4f}"
        bins = named(reliability_table(p, run.shown.settled, n_bins=20), name, run.title)
        tables.append(bins.with_columns(heading=pl.lit(heading)))

    def draw(table: pl.DataFrame) -> Figure:
        return reliability_panels(table, "heading", colours=(BEFORE_COLOUR, AFTER_COLOUR, *OKABE_ITO[2:]))

    drawn = [Drawing(draw, pl.concat(tables), "reliability")]
    if run.model.n_kept_:
        drawn.append(Drawing(draw_boosting, squared_errors_by_round(run), "rounds"))
    return drawn


def squared_errors_by_round(run: Run) -> pl.DataFrame:
    """Columns part, round, squared_error: after each of the rounds that are kept, an average."""
    return pl.DataFrame(
        {"part": part.name, "round": number, "squared_error": brier_score(p, part.settled) / len(part)}
        for part in run.parts
        for number, p in enumerate(run.model.staged_predict_proba(*run.view(part)))
    )


METHODS = {
    "lp": Method(lambda asked, _: made(LpRecalibrator, asked), lp_findings),
    "decision": Method(decision_model, decision_findings),
    "groups": Method(lambda asked, _: made(GroupRecalibrator, asked), group_findings, group_view),
    "boost": Method(lambda asked, _: made(BoostedRecalibrator, asked), boost_findings, boost_view),
}
