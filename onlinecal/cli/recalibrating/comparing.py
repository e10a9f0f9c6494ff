"""Methods fitted on some rows and compared on others: all that apply, of which one is taken, or one alone.

A single method is compared with the usual recalibrations, and reports more about itself.

The order is: methods are made, each is fitted on the fitted rows of each fold (`tried`), tested rows are
scored, and the report is made. In a fold no tested row is fitted; where halves take turns each row is tested
once, by a fit of the others. Rows of --apply are mapped by a fit of all rows. Methods stand in the order of
their simplicity, by which ties are decided. Nothing is kept from one request to the next, and what comes out
never changes; equal requests give equal reports, as long as BLAS has one thread (`recalibrate.py` sees to
it).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from onlinecal.arrays import Bools, Floats
from onlinecal.catalogue import did_you_mean
from onlinecal.cli.output import progress, results, table
from onlinecal.cli.recalibrating.asked import OF_CLASSES, Request
from onlinecal.cli.recalibrating.grouping import GroupColumns
from onlinecal.cli.recalibrating.methods import METHODS, Findings, Map, Run, View, the_probabilities
from onlinecal.cli.recalibrating.report import AS_GIVEN, Drawing, RecalibrationReport, record_tables, sizes
from onlinecal.cli.recalibrating.rows import known_rows, new_rows, recognise
from onlinecal.cli.recalibrating.scores import (
    FEWEST_UNITS,
    RESAMPLES,
    Score,
    advice,
    class_scores_of,
    confidences,
    drawn_units,
    event_scores_of,
    resamples,
    score_records,
    verdict_of,
    worst_group,
)
from onlinecal.cli.recalibrating.splitting import LEAST_PART_ROWS, Split, read_split
from onlinecal.cli.verbs import gathered_warnings
from onlinecal.measures.scores import ECE_BINS, class_scores, event_scores
from onlinecal.recalibration.classical.linear import ChosenDirichlet, VectorScaling
from onlinecal.recalibration.classical.temperature import (
    PerClassIsotonic,
    TemperatureScaling,
    TopLabelIsotonic,
)
from onlinecal.recalibration.decision.losses import LossTable, gaussian_losses
from onlinecal.recalibration.groups.maker import GroupMaker
from onlinecal.recalibration.probability_recalibrator import ProbabilityRecalibrator
from onlinecal.remarks import LabelWarning
from onlinecal.tables.classes import File, Part

if TYPE_CHECKING:
    from rich.table import Table

Fit = Callable[[Part], Map]
"""From a part with labels to a map of parts: their probabilities (n, k), or forecasts (n,)."""

CLASS_MEASURES = ("Brier score", "log loss", "accuracy", f"top-label ECE ({ECE_BINS} bins)")
EVENT_MEASURES = ("Brier score", "log loss", f"ECE ({ECE_BINS} bins)")
MOST_DIRICHLET = 1_500_000
"""With more rows to fit times classes squared Dirichlet calibration would take minutes."""
MOST_DECISION = 2_000_000
"""With more rows to fit times classes decision recalibration would take minutes."""
COMPARED_LOSSES, COMPARED_ACTIONS = 100, 2
"""The decision gap is that of so many Gaussian losses, with so many actions."""
WORST_GROUP = "worst group"
INTERRUPTED = "interrupted"
"""Why a method is left out if its fit was interrupted."""


def fitted(model: Any, fit: Part, view: View = the_probabilities) -> Map:
    """The map of probabilities of a model that is fitted to these rows."""
    first, *more = view(fit)
    model.fit(first, fit.settled, *more)
    # isotonic regression of scikit-learn is a regressor
    answer = model.predict_proba if hasattr(model, "predict_proba") else model.predict
    return lambda part: np.asarray(answer(*view(part)))


def rivals(k: int) -> dict[str, ProbabilityRecalibrator]:
    """The usual recalibrations of k classes, unfitted, by the names they have in reports."""
    models: dict[str, ProbabilityRecalibrator]
    models = {"temperature": TemperatureScaling(), "isotonic per class": PerClassIsotonic()}
    # with two classes the top label adds nothing
    return models if k == 2 else {**models, "isotonic top label": TopLabelIsotonic()}


def isotonic() -> IsotonicRegression:
    """The usual recalibration of one event, unfitted."""
    return IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")


def rival_maps(fit: Part) -> dict[str, Map]:
    """The usual recalibrations, fitted, to compare with."""
    if not fit.probabilities.size:
        return {}
    known: dict[str, Any] = rivals(len(fit.classes)) if fit.classes else {"isotonic": isotonic()}
    with gathered_warnings(LabelWarning):
        return {name: fitted(model, fit) for name, model in known.items()}


def as_they_came(part: Part) -> Floats:
    """The map that changes nothing."""
    return part.probabilities


def class_methods(asked: Request, n_fit: int, k: int) -> tuple[dict[str, Fit], dict[str, str]]:
    """The methods for probabilities of k classes, and the reasons why others are left out.

    A method that --choose names is tried however long it takes.
    """
    methods: dict[str, Fit] = {
        AS_GIVEN: lambda _: as_they_came,
        "temperature": lambda fit: fitted(TemperatureScaling(), fit),
        "vector": lambda fit: fitted(VectorScaling(), fit),
        "top-label": lambda fit: fitted(TopLabelIsotonic(), fit),
        "isotonic": lambda fit: fitted(PerClassIsotonic(), fit),
        "dirichlet": lambda fit: fitted(ChosenDirichlet(asked.seed), fit),
        **{name: of_method(name, asked) for name in OF_CLASSES},
    }
    left_out = {}
    if k == 2:
        left_out["top-label"] = "with two classes it adds nothing to isotonic"
    if n_fit * k**2 > MOST_DIRICHLET and asked.choose != "dirichlet":
        left_out["dirichlet"] = (
            f"its {k * (k + 1):,} numbers take minutes to fit to {n_fit:,} rows; --choose dirichlet tries it"
        )
    if n_fit * k > MOST_DECISION and asked.choose != "decision":
        left_out["decision"] = f"its search takes minutes on {n_fit:,} rows; --choose decision tries it"
    return {name: method for name, method in methods.items() if name not in left_out}, left_out


def event_methods(asked: Request) -> tuple[dict[str, Fit], dict[str, str]]:
    """The methods for a column of forecasts, and the reasons why others are left out."""
    methods: dict[str, Fit] = {
        AS_GIVEN: lambda _: as_they_came,
        "platt": platt_map,
        "beta": beta_map,
        "isotonic": lambda fit: fitted(isotonic(), fit),
    }
    left_out = {}
    if asked.group:
        methods["groups"] = of_method("groups", asked)
    else:
        left_out["groups"] = "it needs --group"
    if asked.features is None:
        left_out["boost"] = "it needs --features"
    else:
        methods["boost"] = of_method("boost", asked)
    return methods, left_out


def of_method(name: str, asked: Request) -> Fit:
    """One of the methods that can be asked for alone."""
    method = METHODS[name]
    return lambda fit: fitted(method.model(asked, None), fit, method.view(asked, fit))


def by_odds(model: Any, fit: Part, features: Callable[[Floats], Floats]) -> Map:
    """The map of a model of two classes that is fitted to features of forecasts strictly between 0 and 1."""
    floor = least_forecast(fit.probabilities)
    curve = fitted(model, fit, lambda part: (features(part.probabilities.clip(floor, 1.0 - floor)),))
    return lambda part: curve(part)[:, 1]


def platt_map(fit: Part) -> Map:
    """A logistic curve in the log odds of the forecast (Platt, 1999)."""
    if fit.settled.min() == fit.settled.max():
        came = int(fit.settled[0])
        raise ValueError(
            f"the fitted rows must have both outcomes, 0 and 1, but all of them have {came}: give more rows"
        )
    # a small penalty, which keeps the slope finite if forecasts separate the outcomes without an error
    curve = LogisticRegression(C=1e4, solver="newton-cholesky")
    return by_odds(curve, fit, lambda p: np.log(p / (1.0 - p))[:, None])


def beta_map(fit: Part) -> Map:
    """A factor for log p, one for log(1 - p), and an offset (Kull et al., 2017), as vector scaling."""
    return by_odds(VectorScaling(), fit, lambda p: np.column_stack([1.0 - p, p]))


def least_forecast(forecasts: Floats) -> float:
    """What forecasts of 0 count as where log odds are needed: 1/(n + 1), or the least of the others."""
    both = np.minimum(forecasts, 1.0 - forecasts)
    return min(1.0 / (len(both) + 1.0), float(both[both > 0.0].min(initial=1.0)))


def scoring(k: int, members: Bools | None) -> Callable[[Floats, Part], dict[str, Score]]:
    """The function from mapped probabilities and their part to scores; `members` of all rows, (n, G)."""
    losses = gaussian_losses(COMPARED_ACTIONS, k or 2, COMPARED_LOSSES)

    def scores_of(mapped: Floats, part: Part) -> dict[str, Score]:
        if k:
            scores = class_scores_of(mapped, part.settled, losses)
        else:
            scores = event_scores_of(mapped, part.settled, losses)
        if members is not None:
            event, came = confidences(mapped, part.settled) if k else (mapped, part.settled)
            scores[WORST_GROUP] = worst_group(event, came, members[part.rows])
        return scores

    return scores_of


class Tried(NamedTuple):
    """A method that was fitted: the mapped tested rows of each fold, its scores, its warnings."""

    maps: list[Floats]
    drawn: dict[str, Floats]
    warnings: list[str]


def tried(
    method: Fit, rows: Part, split: Split, scoring: Callable[[Floats, Part], dict[str, Score]], seed: int
) -> Tried:
    """Fit a method on the rows of each fold, map and score the others."""
    maps, drawn = [], dict[str, Floats]()
    n_tested = sum(len(test) for _, test in split.folds)
    with gathered_warnings(LabelWarning) as warned:
        for at, (fit, test) in enumerate(split.folds):
            part = rows.take("test", test)
            maps.append(method(rows.take("fit", fit))(part))
            scores = scoring(maps[-1], part)
            own = None if split.together is None else split.together[test]
            values_of = defaultdict[str, list[Floats]](list)
            few = drawn_units(len(part), own) < FEWEST_UNITS
            for weights in resamples(len(part), own, len(rows.classes) or 1, seed + at):
                for measure, score in scores.items():
                    unknown = few and bool(values_of[measure])
                    values_of[measure].append(
                        np.full(weights.shape[1], np.nan) if unknown else score(weights)
                    )
            for measure, values in values_of.items():
                drawn[measure] = drawn.get(measure, 0.0) + len(part) / n_tested * np.concatenate(values)
    return Tried(maps, drawn, warned)


def alone(asked: Request, name: str) -> RecalibrationReport:
    """Fit one method, compare it with the usual recalibrations, and report."""
    method, of_classes = METHODS[name], name in OF_CLASSES
    file = File.read(asked.file, asked.probabilities if of_classes else None)
    every, warned = known_rows(asked, file, of_classes)
    if asked.apply is None:
        rows, tested = read_split(file.frame, asked).folds[0]
        fit, other = every.take("fit", rows), every.take("test", tested)
    elif asked.split or asked.together:
        raise ValueError(
            "--apply with --method fits all rows of FILE and tests none: leave out --split and --together"
        )
    elif len(every) < LEAST_PART_ROWS:
        raise ValueError(
            f"{asked.file} must have at least {LEAST_PART_ROWS} rows to fit, got {len(every)}: give more rows"
        )
    else:
        fit, other = replace(every, name="fit"), new_rows(asked, asked.apply, every.classes)
    losses = None if asked.losses is None else read_losses(asked.losses, every.classes)
    if losses is not None:
        fit, other = (replace(part, classes=tuple(losses.classes)) for part in (fit, other))
    model, view = method.model(asked, losses), method.view(asked, fit)
    with gathered_warnings(LabelWarning) as remarks:
        own = fitted(model, fit, view)
    first: dict[str, Map] = {AS_GIVEN: as_they_came}
    if not fit.probabilities.size:
        mean = float(fit.settled.mean())
        first = {"mean outcome": lambda part: np.full(len(part), mean)}
    maps = {**first, name: own, **rival_maps(fit)}
    parts = [part for part in (fit, other) if part.labels is not None]
    mapped = {part.name: {name: of(part) for name, of in maps.items()} for part in parts}
    run = Run(asked, model, view, losses, parts, mapped)
    findings = method.findings(run)
    lines = scored_lines(run, findings)
    record: dict[str, Any] = {
        "method": name,
        "file": asked.file.name,
        "parameters": findings.parameters,
        "rows": {part.name: len(part) for part in (fit, other)},
        "facts": findings.facts,
        "measures": lines,
        "tables": findings.tables,
        "warnings": [*warned, *remarks],
    }
    schema = {"measure": pl.String, "part": pl.String, **dict.fromkeys(maps, pl.Float64)}
    scores = pl.DataFrame([{**line, **line["values"]} for line in lines], schema=schema)
    before = next(iter(first.values()))(other)
    return RecalibrationReport(
        record, scores, record_tables(record), other.with_maps(before, own(other)), findings.pictures
    )


def read_losses(path: Path, classes: tuple[str, ...]) -> LossTable:
    """The loss table in the order of the classes; if these are only numbers, the table names them."""
    table = LossTable.read_csv(path)
    if sorted(table.classes) == sorted(classes):
        order = [list(table.classes).index(name) for name in classes]
        return LossTable(table.values[:, order], table.actions, classes)
    if classes != tuple(map(str, range(len(table.classes)))):
        theirs, ours = ", ".join(table.classes), ", ".join(classes)
        raise ValueError(
            f"--losses: {path} must have a column for each class, {ours}, but its columns are {theirs}"
        )
    return table


def scored_lines(run: Run, findings: Findings) -> list[dict[str, Any]]:
    """A record for each measure and part, a value per map: the method's own measures, then the usual ones."""
    measures, score = (CLASS_MEASURES, class_scores) if run.shown.classes else (EVENT_MEASURES, event_scores)
    lines: dict[str, dict[str, dict[str, float | None]]] = {}
    for part in run.parts:
        for name, after in run.mapped[part.name].items():
            usual = zip(measures, score(after, part.settled), strict=True)
            for measure, value in [*findings.scores(part, name).items(), *usual]:
                lines.setdefault(measure, {}).setdefault(part.name, {})[name] = value
    return [
        {"measure": measure, "part": part, "values": values}
        for measure, parts in lines.items()
        for part, values in parts.items()
    ]


def compare(asked: Request) -> RecalibrationReport:
    """Fit all, compare, choose, and apply the one chosen."""
    from rich.text import Text

    file = File.read(asked.file, asked.probabilities)
    of_classes, asked = recognise(asked, file)
    rows, remarks = known_rows(asked, file, of_classes)
    k, split = len(rows.classes), read_split(file.frame, asked, in_turn=True)
    n_fit, n_tested = len(split.folds[0][0]), sum(len(test) for _, test in split.folds)
    methods, left_out = class_methods(asked, n_fit, k) if k else event_methods(asked)
    members = None
    if asked.group:
        members = GroupMaker().fit(GroupColumns.of(rows.frame, asked.group)(rows.frame), len(rows))
    new = None if asked.apply is None else new_rows(asked, asked.apply, rows.classes)
    if asked.choose is not None and asked.choose not in methods:
        reason = left_out.get(asked.choose)
        known = f": {reason}" if reason else did_you_mean(asked.choose, methods, "They are")
        raise ValueError(f"--choose {asked.choose!r} is none of the methods tried{known}")
    trials: dict[str, Tried] = {}
    interrupted = False
    with progress() as bar:
        task = bar.add_task("", total=len(methods))
        for name, method in methods.items():
            bar.update(task, description=name)
            try:
                if not interrupted:
                    trials[name] = tried(method, rows, split, scoring(k, members), asked.seed)
            except ValueError as error:
                left_out[name] = str(error)
            except KeyboardInterrupt:
                if not trials:
                    raise
                interrupted = True
            if interrupted:
                left_out[name] = INTERRUPTED
            bar.advance(task)
    scores = {
        measure: {name: trial.drawn[measure] for name, trial in trials.items()}
        for measure in trials[AS_GIVEN].drawn
    }
    purposes = {"probabilities": "log loss", "the top label": "top-label ECE", "decisions": "decision gap"}
    if not k:
        del purposes["the top label"]
    if members is not None:
        purposes["groups"] = WORST_GROUP
    recommended, why = advice(scores, purposes, n_tested)
    chosen = asked.choose or recommended
    if chosen not in trials:
        reason = left_out[chosen]
        if reason == INTERRUPTED:
            raise ValueError(f"--choose {chosen!r} was interrupted before it was fitted: run it again")
        raise ValueError(f"--choose {chosen!r} could not be fitted: {reason}; choose another method")
    warned = trials[chosen].warnings
    if split.together is not None:
        units = min(drawn_units(len(test), split.together[test]) for _, test in split.folds)
        if units < FEWEST_UNITS:
            remarks = [
                *remarks,
                f"--together {asked.together}: {units} of its values are too few to say what chance "
                f"explains: {FEWEST_UNITS} are needed, and there are no intervals",
            ]
    if new is None:
        tested = [rows.take("test", test) for _, test in split.folds]
        both = zip(tested, trials[chosen].maps, strict=True)
        mapped = pl.concat([part.with_maps(part.probabilities, after) for part, after in both]).sort("row")
    else:
        with gathered_warnings(LabelWarning) as warned:
            mapped = new.with_maps(new.probabilities, methods[chosen](rows)(new))
    best = []
    for purpose, measure in purposes.items():
        take, tied = verdict_of(measure, scores[measure])
        others = [name for name in tied if name != take]
        best.append({"purpose": purpose, "measure": measure, "take": take, "tied": others})
    record: dict[str, Any] = {
        "file": asked.file.name,
        "contents": f"probabilities of {k} classes"
        if k
        else f"{asked.forecast} as forecasts of {asked.outcome}",
        "split": split.in_words,
        "rows": {"fit and test": n_tested} if len(split.folds) > 1 else {"fit": n_fit, "test": n_tested},
        "methods": [*trials],
        "left_out": left_out,
        "resamples": RESAMPLES,
        "scores": score_records(scores, AS_GIVEN),
        "best": best,
        "recommended": recommended,
        "why": why,
        "chosen": chosen,
        "warnings": [*remarks, *warned],
        "interrupted": interrupted,
    }
    frame = pl.DataFrame(record["scores"], schema_overrides={"best": pl.String}, infer_schema_length=None)
    shown = [*board_tables(record), Text(sentence(record))]
    return RecalibrationReport(record, frame, shown, mapped, lambda: pictures(record, frame), interrupted)


def pictures(record: dict[str, Any], frame: pl.DataFrame) -> list[Drawing]:
    """The scoreboard, drawn."""
    from onlinecal.plots.recalibrations import draw_scoreboard

    below = "; ".join([record["contents"], record["split"]])
    texts = {"title": record["file"], "below": below, "chosen": record["chosen"]}
    numbers = frame.with_columns(**{name: pl.lit(text) for name, text in texts.items()})
    return [Drawing(draw_scoreboard, numbers, "scoreboard")]


def board_tables(record: dict[str, Any]) -> list[Table]:
    """The scoreboard, and the table of the best methods by purpose."""
    scored: dict[str, list[dict[str, Any]]] = {}
    for score in record["scores"]:
        scored.setdefault(score["measure"], []).append(score)
    # a narrow terminal has no room for intervals
    wide = results().width >= 14 + 17 * len(scored)
    columns = [_cells(rows, wide) for rows in scored.values()]
    title = f"{record['file']}: {record['contents']}, {sizes(record)}"
    scores = table(title, ["", *scored], list(zip(record["methods"], *columns, strict=True)))
    scores.rows[record["methods"].index(record["chosen"])].style = "bold"
    scores.caption_justify = "left"
    scores.caption = (
        f"On rows that were not fitted: {record['split']}. * the one to take, = tied with it: chance "
        "explains what is between them and the best."
    )
    if wide:
        scores.caption += f" ± half an interval of 95 %, by {record['resamples']} resamples."
    for column in scores.columns[1:]:
        column.overflow = "fold"
    if record["left_out"]:
        reasons = "; ".join(f"{name} ({reason})" for name, reason in record["left_out"].items())
        scores.caption += f"\nLeft out: {reasons}."
    best = [
        [line["purpose"], line["measure"], line["take"], ", ".join(line["tied"]) or "–"]
        for line in record["best"]
    ]
    return [scores, table(None, ["best for", "by", "take", "tied with it"], best, left=4)]


def _cells(rows: list[dict[str, Any]], wide: bool) -> list[str]:
    """The scoreboard's cells for a measure, with as many digits as the largest score needs."""
    largest = max(abs(row["value"]) for row in rows)
    digits = 3 + wide + (largest < 0.02) + (largest < 0.002)
    cells = []
    for row in rows:
        value = f"{row['value']:.{digits}f}"
        text = value if wide else value.removeprefix("0")
        if wide and row["high"] is not None:
            half = f"{row['high'] - row['value']:.{digits}f}"
            text += f" ±{half.removeprefix('0')}"
        cells.append({"take": "*", "tied": "=", None: ""}[row["best"]] + text)
    return cells


def sentence(record: dict[str, Any]) -> str:
    """A sentence with the recommended method, and with the chosen one if it is another."""
    name, chosen = record["recommended"], record["chosen"]
    what = f"Leave them as given ({AS_GIVEN})" if name == AS_GIVEN else f"Take {name}"
    return f"{what}: {record['why']}." + ("" if chosen == name else f" Chosen: {chosen}.")
