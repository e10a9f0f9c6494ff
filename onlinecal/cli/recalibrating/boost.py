"""Boosting for multicalibration: features and outcomes, from a column of forecasts or from the mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from onlinecal.arrays import Floats
from onlinecal.cli.recalibrating.alone import Findings, Method, Run, Scores, View
from onlinecal.cli.recalibrating.asked import Asked, made
from onlinecal.cli.recalibrating.reading import Part, is_numbers, numbers
from onlinecal.cli.recalibrating.report import Picture, Section
from onlinecal.measures import functional_multicalibration_error
from onlinecal.measures.scores import brier_score, event_scores
from onlinecal.recalibration.boosted.recalibrator import BoostedRecalibrator
from onlinecal.recalibration.boosted.rounds import BOUND

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEVELS = 20
"""Level sets of the violations that are reported."""


def model(asked: Asked, _: Any = None) -> BoostedRecalibrator:
    """An unfitted recalibrator; with a setting of the paper's algorithm it is that."""
    papers = {"alpha", "bound", "n_levels"} & set(asked.values)
    more = {} if "step" in asked.values else {"step": "level sets" if papers else "log-odds"}
    return made(BoostedRecalibrator, asked, **more)


def view(asked: Asked, fit: Part) -> View:
    """Features, and forecasts if there are some; missing values are NaN, which regression trees take."""
    names = feature_names(asked, fit)

    def looked_at(part: Part) -> tuple[Floats, Floats | None]:
        table = np.column_stack([numbers(part.frame, name) for name in names])
        return table, None if asked.forecast is None else part.probabilities

    return looked_at


def feature_names(asked: Asked, fit: Part) -> list[str]:
    """The columns named, or all columns of numbers but forecast and outcome."""
    frame, names = fit.frame, asked.features
    if names is None:
        used = {asked.outcome, asked.forecast}
        found = [name for name in frame.columns if name not in used and is_numbers(frame[name].dtype)]
        if not found:
            raise ValueError("no columns of numbers are left as features; name them with --features")
        return found
    if len(set(names)) < len(names):
        raise ValueError(f"a feature is listed twice: {', '.join(names)}")
    if asked.outcome in names:
        raise ValueError(f"the outcome {asked.outcome!r} cannot be a feature too")
    return [*names]


def findings(run: Run) -> Findings:
    """The worst violation by simple tests; the squared error of every round."""
    model: BoostedRecalibrator = run.model
    fitted, bound = run.view(run.fit)[0], float(model.bound or BOUND)
    tests = {name: standard_tests(fitted, seen[0], bound) for name, seen in run.seen.items()}

    def scores(part: Part, name: str) -> Scores:
        after = run.mapped[part.name][name]
        found = functional_multicalibration_error(after, part.settled, tests[part.name], LEVELS)
        return {"worst violation, one feature": float(found.max())}

    rounds = errors_by_round(run)
    counts = {"rounds": model.n_rounds_, "rounds kept": model.n_kept_, "rounds at most": model.max_rounds_}
    facts: dict[str, Any]
    if model.start_ is not None:
        facts = {"start": model.start_.kind, **counts}
    else:
        facts = {
            "levels": model.n_levels_,
            **counts,
            "violation that is promised": model.violation_bound_,
            "mass in level sets too small": model.skipped_mass_,
        }
    return Findings(
        scores,
        parameters={**model.get_params(), "features": feature_names(run.asked, run.fit)},
        facts=facts,
        sections=[Section("squared error by round", rounds.to_dicts())],
        pictures=lambda: pictures(run, rounds),
    )


METHOD = Method(model, findings, view, lambda asked: asked.features)


def standard_tests(fitted: Floats, values: Floats, bound: float) -> Floats:
    """Test functions sqrt(bound) times 1, and times each feature, brought to [-1, 1] by its fitted range.

    Missing values are 0, values outside the range are clipped.
    """
    with np.errstate(invalid="ignore"):
        low, high = np.nanmin(fitted, axis=0), np.nanmax(fitted, axis=0)
        span = np.where(high > low, high - low, 1.0)
        scaled = np.nan_to_num(np.clip(2.0 * (values - low) / span - 1.0, -1.0, 1.0))
    return np.asarray(np.sqrt(bound) * np.column_stack([np.ones(len(values)), scaled]))


def errors_by_round(run: Run) -> pl.DataFrame:
    """Columns round, level_sets, and the squared error of each part after the round, of those kept."""
    kept = range(run.model.n_kept_ + 1)
    columns: dict[str, Any] = {
        "round": [*kept],
        "level_sets": [run.model.rounds_[number].n_level_sets for number in kept],
    }
    for part in run.labelled:
        stages = run.model.staged_predict(*run.seen[part.name])
        columns[part.name] = [brier_score(p, part.settled) / len(part) for p in stages]
    return pl.DataFrame(columns)


def pictures(run: Run, rounds: pl.DataFrame) -> list[Picture]:
    """Reliability before and after, and the squared error against rounds, if any were kept."""
    from onlinecal.plots.recalibrations import draw_boosting
    from onlinecal.plots.reliability_diagram import named, reliability_data, reliability_panels
    from onlinecal.plots.style import AFTER, BEFORE, OKABE_ITO

    tables = []
    for name, p in run.mapped[run.shown.name].items():
        errors = event_scores(p, run.shown.settled)
        heading = f"{name}: squared error {errors.brier:.4f}, ECE {errors.ece:.4f}"
        bins = named(reliability_data(p, run.shown.settled, bins=20), name, run.title)
        tables.append(bins.with_columns(heading=pl.lit(heading)))

    def draw(table: pl.DataFrame) -> Figure:
        return reliability_panels(table, "heading", colours=(BEFORE, AFTER, *OKABE_ITO[2:]))

    drawn = [Picture(draw, pl.concat(tables), "reliability")]
    if run.model.n_kept_:
        long = rounds.unpivot(index=["round", "level_sets"], variable_name="part", value_name="squared_error")
        drawn.append(Picture(draw_boosting, long, "rounds"))
    return drawn
