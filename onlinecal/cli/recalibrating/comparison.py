"""Methods side by side on one file: who takes part, on which rows, and by which scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from onlinecal.cli.recalibrating import boost, events, multiclass
from onlinecal.cli.recalibrating.candidates import Method, class_methods, event_methods
from onlinecal.cli.recalibrating.decision import ACTIONS, SEED
from onlinecal.cli.recalibrating.events import Events
from onlinecal.cli.recalibrating.group_tables import GroupColumns
from onlinecal.cli.recalibrating.options import ChooseSettings, LpSettings, Rows
from onlinecal.cli.recalibrating.parts import Split, read_split
from onlinecal.cli.recalibrating.recognised import recognise
from onlinecal.cli.recalibrating.tables import Part
from onlinecal.cli.recalibrating.weighted_scores import (
    Score,
    class_scores_of,
    confidences,
    event_scores_of,
    worst_group,
)
from onlinecal.recalibration.decision.losses import gaussian_losses
from onlinecal.recalibration.groups.maker import GroupMaker
from onlinecal.tables import read_frame

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

N_LOSSES = 100
"""Gaussian losses of the decision gap."""
WORST_GROUP = "worst group"


@dataclass(frozen=True, eq=False)
class Comparison:
    """One file, and everything that is to be compared on it.

    Attributes
    ----------
    file, contents
        Its name, and what it is taken for.
    take
        Some rows, as a part of this name.
    split
        Which rows are fitted and tested.
    width
        Numbers a row.
    methods, left_out
        Who takes part, the simplest first; and who does not, with the reason.
    scores
        From what a map makes of a part, the part, and the numbers of its rows, to the scores by name.
    purposes
        The score by which a purpose is served.
    written
        The rows of a part, with what a map makes of them.
    new
        The rows of the file of --apply, if any.
    remarks
        What looks wrong in the labels.
    """

    file: str
    contents: str
    take: Callable[[str, Ints], Any]
    split: Split
    width: int
    methods: dict[str, Method]
    left_out: dict[str, str]
    scores: Callable[[Floats, Any, Ints], dict[str, Score]]
    purposes: dict[str, str]
    written: Callable[[Any, Floats], pl.DataFrame]
    new: Any
    remarks: list[str]


def read_comparison(file: Path, rows: Rows, settings: ChooseSettings) -> Comparison:
    """What FILE asks for."""
    of_classes, settings = recognise(file, settings)
    comparison = class_comparison if of_classes else event_comparison
    return comparison(file, rows, settings)


def class_comparison(file: Path, rows: Rows, settings: ChooseSettings) -> Comparison:
    """The methods for a table of class probabilities."""
    table, remarks = multiclass.read_labelled(file, settings)
    k = len(table.classes)
    split = read_split(len(table), rows, file, in_turn=True)
    methods, left_out = class_methods(len(split.folds[0][0]), k, rows.seed, settings.choose)
    members = group_members(file, settings.group, len(table))
    losses = gaussian_losses(ACTIONS, k, N_LOSSES, SEED)
    p, n_levels = LpSettings.p, LpSettings.levels or 5

    def scores(mapped: Floats, part: Part, numbers: Ints) -> dict[str, Score]:
        assert part.labels is not None
        found = class_scores_of(mapped, part.labels, p, n_levels, losses)
        if members is not None:
            found[WORST_GROUP] = worst_group(*confidences(mapped, part.labels), members[numbers])
        return found

    purposes = {
        "probabilities": "log loss",
        "the top label": "top-label ECE",
        "decisions": "decision gap",
    }
    return Comparison(
        file=file.name,
        contents=f"probabilities of {k} classes",
        take=table.take,
        split=split,
        width=k,
        methods=methods,
        left_out=left_out,
        scores=scores,
        purposes=purposes | ({} if members is None else {"groups": WORST_GROUP}),
        written=lambda part, after: multiclass.written_rows(part, table.classes, after),
        new=None if rows.apply is None else multiclass.read_new(rows.apply, settings, file, table),
        remarks=remarks,
    )


def event_comparison(file: Path, rows: Rows, settings: ChooseSettings) -> Comparison:
    """The methods for a column of forecasts of one event."""
    features = boost.named_features(settings.features) if settings.features is not None else []
    further = [*(settings.group or ()), *features]
    everything, remarks = events.read_settled(file, settings, further)
    split = read_split(len(everything), rows, file, in_turn=True)
    methods, left_out = event_methods(settings, rows.seed)
    members = group_members(file, settings.group, len(everything))
    losses = gaussian_losses(ACTIONS, 2, N_LOSSES, SEED)

    def scores(mapped: Floats, part: Events, numbers: Ints) -> dict[str, Score]:
        found = event_scores_of(mapped, part.settled, losses)
        if members is not None:
            found[WORST_GROUP] = worst_group(mapped, part.settled, members[numbers])
        return found

    purposes = {"probabilities": "log loss", "decisions": "decision gap"}
    return Comparison(
        file=file.name,
        contents=f"{settings.forecast} as forecasts of {settings.outcome}",
        take=everything.take,
        split=split,
        width=1,
        methods=methods,
        left_out=left_out,
        scores=scores,
        purposes=purposes | ({} if members is None else {"groups": WORST_GROUP}),
        written=lambda part, after: events.written_rows(part, part.told, after),
        new=None if rows.apply is None else events.read_new(rows.apply, settings, further),
        remarks=remarks,
    )


def group_members(file: Path, names: list[str] | None, n_rows: int) -> Bools | None:
    """Who is in which group that columns make, shape (n, G): everyone, each value, each pair of values."""
    if not names:
        return None
    frame = read_frame(file, names)
    if frame.height != n_rows:
        raise ValueError(f"{file}: --group {names[0]} has {frame.height:,} values for {n_rows:,} rows")
    return GroupMaker().fit(GroupColumns.of(frame, names)(frame), n_rows)
