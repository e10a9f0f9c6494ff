"""One method by itself: read, fit, compare with the usual recalibrations, and what the method says more."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sklearn.isotonic import IsotonicRegression

from onlinecal.arrays import Floats
from onlinecal.cli.recalibrating.asked import OF_CLASSES, Asked
from onlinecal.cli.recalibrating.methods import METHODS, Findings, Map, Run, View, the_probabilities
from onlinecal.cli.recalibrating.reading import LEAST_ROWS, File, Part, known_rows, new_rows, read_split
from onlinecal.cli.recalibrating.report import NONE, Report, record_tables
from onlinecal.measures.scores import BINS, class_scores, event_scores
from onlinecal.recalibration.classical.temperature import (
    PerClassIsotonic,
    TemperatureScaling,
    TopLabelIsotonic,
)
from onlinecal.recalibration.decision.losses import LossTable
from onlinecal.recalibration.probability_recalibrator import ProbabilityRecalibrator
from onlinecal.remarks import LabelWarning

CLASS_MEASURES = ("Brier score", "log loss", "accuracy", f"top-label ECE ({BINS} bins)")
EVENT_MEASURES = ("Brier score", "log loss", f"ECE ({BINS} bins)")


def recalibrate(asked: Asked, name: str) -> Report:
    """Fit a method, compare and report."""
    method, of_classes = METHODS[name], name in OF_CLASSES
    file = File.read(asked.file, asked.probabilities if of_classes else None)
    every, said = known_rows(asked, file, of_classes)
    if asked.apply is None:
        rows, tested = read_split(file.frame, asked).folds[0]
        fit, other = every.take("fit", rows), every.take("test", tested)
    elif asked.split or asked.together:
        raise ValueError("--apply and --split or --together exclude each other: all of FILE is fitted")
    elif len(every) < LEAST_ROWS:
        raise ValueError(f"{len(every)} rows are too few to fit: {LEAST_ROWS} are needed")
    else:
        fit, other = replace(every, name="fit"), new_rows(asked, asked.apply, every.classes)
    losses = None if asked.losses is None else read_losses(asked.losses, every.classes)
    if losses is not None:
        fit, other = (replace(part, classes=tuple(losses.classes)) for part in (fit, other))
    model, view = method.model(asked, losses), method.view(asked, fit)
    with gathered_warnings() as remarks:
        own = fitted(model, fit, view)
    first: dict[str, Map] = {NONE: as_they_came}
    if not fit.probabilities.size:
        mean = float(fit.settled.mean())
        first = {"mean outcome": lambda part: np.full(len(part), mean)}
    maps = {**first, name: own, **rival_maps(fit)}
    parts = [part for part in (fit, other) if part.labels is not None]
    mapped = {part.name: {name: of(part) for name, of in maps.items()} for part in parts}
    run = Run(asked, model, view, losses, parts, mapped)
    found = method.findings(run)
    lines = scored_lines(run, found)
    record: dict[str, Any] = {
        "method": name,
        "file": asked.file.name,
        "parameters": found.parameters,
        "rows": {part.name: len(part) for part in (fit, other)},
        "facts": found.facts,
        "measures": lines,
        "tables": found.tables,
        "warnings": [*said, *remarks],
    }
    schema = {"measure": pl.String, "part": pl.String, **dict.fromkeys(maps, pl.Float64)}
    scores = pl.DataFrame([{**one, **one["values"]} for one in lines], schema=schema)
    before = next(iter(first.values()))(other)
    return Report(record, scores, record_tables(record), other.with_maps(before, own(other)), found.pictures)


def read_losses(path: Path, classes: tuple[str, ...]) -> LossTable:
    """The loss table in the order of the classes; where these are mere numbers, it names them."""
    table = LossTable.read_csv(path)
    if sorted(table.classes) == sorted(classes):
        order = [list(table.classes).index(name) for name in classes]
        return LossTable(table.values[:, order], table.actions, classes)
    if classes != tuple(map(str, range(len(table.classes)))):
        theirs, ours = ", ".join(table.classes), ", ".join(classes)
        raise ValueError(f"{path} has losses for the classes {theirs}, there are {ours}")
    return table


def scored_lines(run: Run, found: Findings) -> list[dict[str, Any]]:
    """A record for each measure and part, a value per map: the method's own measures, then the usual ones."""
    measures, score = (CLASS_MEASURES, class_scores) if run.shown.classes else (EVENT_MEASURES, event_scores)
    lines: dict[str, dict[str, dict[str, float | None]]] = {}
    for part in run.parts:
        for name, after in run.mapped[part.name].items():
            usual = zip(measures, score(after, part.settled), strict=True)
            for measure, value in [*found.scores(part, name).items(), *usual]:
                lines.setdefault(measure, {}).setdefault(part.name, {})[name] = value
    return [
        {"measure": measure, "part": part, "values": values}
        for measure, parts in lines.items()
        for part, values in parts.items()
    ]


@contextmanager
def gathered_warnings() -> Iterator[list[str]]:
    """What is warned of inside, each text once, but for labels: the command names their column itself."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("ignore", LabelWarning)
        yield texts
    texts.extend(dict.fromkeys(" ".join(str(one.message).split()) for one in caught))


def fitted(model: Any, fit: Part, view: View = the_probabilities) -> Map:
    """The map of probabilities that a model becomes by these rows."""
    first, *more = view(fit)
    model.fit(first, fit.settled, *more)
    predict = getattr(model, "predict_proba", model.predict)
    return lambda part: np.asarray(predict(*view(part)))


def rivals() -> dict[str, ProbabilityRecalibrator]:
    """The usual recalibrations of classes, unfitted, by the names they have in reports."""
    return {
        "temperature": TemperatureScaling(),
        "isotonic per class": PerClassIsotonic(),
        "isotonic top label": TopLabelIsotonic(),
    }


def isotonic() -> IsotonicRegression:
    """The usual recalibration of one event, unfitted."""
    return IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")


def rival_maps(fit: Part) -> dict[str, Map]:
    """The usual recalibrations, fitted, to compare with."""
    if not fit.probabilities.size:
        return {}
    known: dict[str, Any] = rivals() if fit.classes else {"isotonic": isotonic()}
    if len(fit.classes) == 2:
        del known["isotonic top label"]  # of two classes one is all there is
    with gathered_warnings():
        return {name: fitted(one, fit) for name, one in known.items()}


def as_they_came(part: Part) -> Floats:
    """The map that changes nothing."""
    return part.probabilities
