"""One method by itself: read, fit, compare with the usual recalibrations, and what the method says more."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from sklearn.isotonic import IsotonicRegression

from onlinecal.arrays import Floats, Ints
from onlinecal.cli.recalibrating.asked import OF_CLASSES, Asked
from onlinecal.cli.recalibrating.reading import SCORED, Chunks, Part, read_known, read_new, with_label
from onlinecal.cli.recalibrating.report import NONE, Picture, Report, Section, record_tables
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


class Findings(NamedTuple):
    """What a method reports beside the usual scores.

    Attributes
    ----------
    scores
        Its own measures, of a part and the name of a map of it.
    parameters, facts
        What the method was made with; single numbers about the fit: rounds, groups, patches.
    sections, pictures
        Further tables; what makes the pictures.
    """

    scores: Callable[[Part, str], Scores]
    parameters: dict[str, Any]
    facts: dict[str, Any]
    sections: list[Section]
    pictures: Callable[[], list[Picture]]


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
    further
        The columns it needs besides; None: all of numbers.
    """

    model: Callable[[Asked, LossTable | None], Any]
    findings: Callable[[Run], Findings]
    view: Callable[[Asked, Part], View] = lambda *_: the_probabilities
    further: Callable[[Asked], Sequence[str] | None] = lambda _: ()


def the_probabilities(part: Part) -> tuple[Floats]:
    """The view of a method that looks at nothing else."""
    return (part.probabilities,)


def method_of(name: str) -> Method:
    """The method of a name in METHODS."""
    found: Method = import_module(f"onlinecal.cli.recalibrating.{name}").METHOD
    return found


@dataclass(frozen=True, eq=False)
class Run:
    """A method, fitted on some rows; the others are a test part, or a new file that may have no labels.

    `maps` are by name, the first is of the probabilities as given; `loss_table` is that asked for.
    """

    asked: Asked
    fit: Part
    other: Part
    model: Any
    view: View
    maps: dict[str, Map]
    loss_table: LossTable | None = None

    @cached_property
    def labelled(self) -> list[Part]:
        """The parts with labels; of large ones a sample."""
        return [part.scored for part in (self.fit, self.other) if part.labels is not None]

    @property
    def shown(self) -> Part:
        """The part that tables and pictures show."""
        return self.labelled[-1]

    @property
    def title(self) -> str:
        """The file and the part that are shown."""
        return f"{self.asked.file.name}, {self.shown.name} rows"

    @cached_property
    def mapped(self) -> dict[str, dict[str, Floats]]:
        """What maps make of the rows that are scored, by part and by map."""
        return {part.name: {name: of(part) for name, of in self.maps.items()} for part in self.labelled}

    @cached_property
    def seen(self) -> dict[str, tuple[Any, ...]]:
        """What the method looks at of these rows, by part."""
        return {part.name: self.view(part) for part in self.labelled}


def recalibrate(asked: Asked, name: str) -> Report:
    """Fit a method, compare and report."""
    method, of_classes = method_of(name), name in OF_CLASSES
    asked = with_label(asked) if of_classes else asked
    further = method.further(asked)
    everything, said = read_known(asked, of_classes, further)
    classes = everything.classes
    if asked.apply is None:
        rows, tested = read_split(len(everything), asked).folds[0]
        fit, other = everything.take("fit", rows), everything.take("test", tested)
    else:
        _check_all_fitted(asked, len(everything))
        fit, other = replace(everything, name="fit"), read_new(asked, asked.apply, classes, further)
    loss_table = None if asked.losses is None else read_losses(asked, classes)
    if loss_table is not None:
        fit, other = (replace(part, classes=tuple(loss_table.classes)) for part in (fit, other))
    model, view = method.model(asked, loss_table), method.view(asked, fit)
    with gathered_warnings() as remarks:
        own = fitted(model, fit, view)
    # of large files rivals that sort all rows are left out
    large = fit.is_large or other.is_large
    first: dict[str, Map] = {NONE: as_they_came}
    if not fit.probabilities.size:
        mean = float(fit.settled.mean())
        first = {"mean outcome": lambda part: np.full(len(part), mean)}
    maps = {**first, name: own, **rival_maps(fit, large)}
    run = Run(asked, fit, other, model, view, maps, loss_table)
    found = method.findings(run)
    if large:
        less = "of the rivals only temperature is fitted" if of_classes else "isotonic is left out"
        remarks.append(f"scores are of {SCORED:,} random rows of a part; {less}")
    lines = scored_lines(run, found)
    record: dict[str, Any] = {
        "method": name,
        "file": asked.file.name,
        "parameters": found.parameters,
        "rows": {part.name: len(part) for part in (fit, other)},
        "facts": found.facts,
        "measures": lines,
        "tables": {section.title: section.rows for section in found.sections},
        "warnings": [*said, *remarks],
    }
    schema = {"measure": pl.String, "part": pl.String, **dict.fromkeys(maps, pl.Float64)}
    frame = pl.DataFrame([{**one, **one["values"]} for one in lines], schema=schema)

    def written(rows: slice) -> pl.DataFrame:
        part = other.take(other.name, rows)
        return part.with_maps(next(iter(maps.values()))(part), own(part))

    return Report(
        record,
        frame,
        lambda _: record_tables(record, found.sections),
        Chunks(len(other), written),
        found.pictures,
    )


def _check_all_fitted(asked: Asked, n_rows: int) -> None:
    for option, value in (("--split", asked.split), ("--together", asked.together)):
        if value is not None:
            raise ValueError(f"--apply and {option} exclude each other: with --apply all of FILE is fitted")
    if n_rows < LEAST_ROWS:
        raise ValueError(f"{n_rows} rows are too few to fit: {LEAST_ROWS} are needed")


def read_losses(asked: Asked, classes: tuple[str, ...]) -> LossTable:
    """The loss table in the order of the classes; where these are mere numbers, it names them."""
    for name in ("n_actions", "partition"):
        if name in asked.values:
            raise ValueError(f"--set {name} and --losses exclude each other: the losses say it")
    path = asked.losses
    assert path is not None
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


def scored_lines(run: Run, found: Findings) -> list[dict[str, Any]]:
    """A record for each measure and part, a value per map: the method's own measures, then the usual ones."""
    measures, score = (CLASS_MEASURES, class_scores) if run.fit.classes else (EVENT_MEASURES, event_scores)
    scores = {
        part.name: {
            name: {
                **found.scores(part, name),
                **dict(zip(measures, score(after, part.settled), strict=True)),
            }
            for name, after in run.mapped[part.name].items()
        }
        for part in run.labelled
    }
    names = next(iter(next(iter(scores.values())).values()))
    return [
        {"measure": name, "part": part, "values": {column: one[name] for column, one in columns.items()}}
        for name in names
        for part, columns in scores.items()
    ]


CLASS_MEASURES = ("Brier score", "log loss", "accuracy", f"top-label ECE ({BINS} bins)")
EVENT_MEASURES = ("Brier score", "log loss", f"ECE ({BINS} bins)")


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


def rival_maps(fit: Part, large: bool) -> dict[str, Map]:
    """The usual recalibrations, fitted, to compare with; of large parts only one that sorts no rows."""
    known: dict[str, Any] = rivals() if fit.classes else {"isotonic": isotonic()}
    if not fit.probabilities.size:
        return {}
    if len(fit.classes) == 2:
        del known["isotonic top label"]  # of two classes one is all there is
    with gathered_warnings():
        return {name: fitted(one, fit) for name, one in known.items() if not large or name == "temperature"}


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
