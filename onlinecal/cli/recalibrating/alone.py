"""One method by itself: read, fit, compare with the usual recalibrations, and what the method says more."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from sklearn.isotonic import IsotonicRegression

from onlinecal.arrays import Floats, Ints
from onlinecal.cli.recalibrating.asked import OF_CLASSES, Asked
from onlinecal.cli.recalibrating.reading import File, Part, known_rows, new_rows
from onlinecal.cli.recalibrating.report import NONE, Picture, Report, record_tables
from onlinecal.cli.recalibrating.splits import LEAST_ROWS, read_split
from onlinecal.measures.scores import BINS, class_scores, event_scores
from onlinecal.recalibration.classical.temperature import (
    PerClassIsotonic,
    TemperatureScaling,
    TopLabelIsotonic,
)
from onlinecal.recalibration.decision.losses import LossTable
from onlinecal.recalibration.probability_recalibrator import ProbabilityRecalibrator
from onlinecal.recalibration.starting import StartedRecalibrator
from onlinecal.remarks import LabelWarning

Scores = Mapping[str, float | None]
"""By the name of the measure; None where there is none."""
Map = Callable[[Part], Floats]
View = Callable[[Part], tuple[Any, ...]]
"""What a method looks at of a part: its probabilities, a table of features, groups."""

CLASS_MEASURES = ("Brier score", "log loss", "accuracy", f"top-label ECE ({BINS} bins)")
EVENT_MEASURES = ("Brier score", "log loss", f"ECE ({BINS} bins)")


class Findings(NamedTuple):
    """What a method reports beside the usual scores.

    Attributes
    ----------
    scores
        Its own measures, of a part and the name of a map of it.
    parameters, facts
        What the method was made with; single numbers about the fit: rounds, groups, patches.
    tables
        Further tables by their titles.
    pictures
        What makes the pictures.
    """

    scores: Callable[[Part, str], Scores]
    parameters: dict[str, Any]
    facts: dict[str, Any]
    tables: dict[str, list[dict[str, Any]]]
    pictures: Callable[[], list[Picture]]


def the_probabilities(part: Part) -> tuple[Floats]:
    """The view of a method that looks at nothing else."""
    return (part.probabilities,)


class Method(NamedTuple):
    """A method of recalibration.

    Attributes
    ----------
    model
        An unfitted estimator with the settings asked for.
    findings
        What it reports, when it is fitted.
    view
        From the rows to fit to what it looks at of any: first what is mapped, then the other arguments.
    """

    model: Callable[[Asked, LossTable | None], Any]
    findings: Callable[[Run], Findings]
    view: Callable[[Asked, Part], View] = lambda *_: the_probabilities


def method_of(name: str) -> Method:
    """The method of a name in METHODS."""
    found: Method = import_module(f"onlinecal.cli.recalibrating.{name}").METHOD
    return found


@dataclass(frozen=True, eq=False)
class Run:
    """A method, fitted on some rows, and the usual recalibrations beside it.

    Attributes
    ----------
    asked, model, view, loss_table
        What was asked for, the method, what it looks at, and the losses asked for.
    parts
        The rows that were fitted, and others if they have labels: those to test, or of a new file.
    mapped
        What each map makes of each part, by their names; the first map leaves probabilities as given.
    """

    asked: Asked
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


def recalibrate(asked: Asked, name: str) -> Report:
    """Fit a method, compare and report."""
    method, of_classes = method_of(name), name in OF_CLASSES
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


def facts_of_start(model: StartedRecalibrator) -> dict[str, Any]:
    """What a correction began with, and how much of it is given out."""
    return {
        "start": model.start_name_,
        "inverse temperature at the start": float(model.inverse_temperature_),
        "share of the correction": model.share_,
        "largest factor of the correction": None if math.isinf(model.limit_) else model.limit_,
    }


def drawn_labels(table: Floats, rng: np.random.Generator) -> Ints:
    """A label for each row of probabilities (n, k), drawn from them: what came, had they been right."""
    ends = table.cumsum(axis=1)
    return (ends < rng.random((len(table), 1)) * ends[:, -1:]).sum(axis=1)


def stops_until(end: int, most: int) -> list[int]:
    """At most so many numbers of rounds, evenly spread from 0 to the end."""
    return np.unique(np.round(np.linspace(0, end, most)).astype(int)).tolist()
