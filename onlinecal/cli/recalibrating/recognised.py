"""What a file is, by its columns: class probabilities with labels, or forecasts of one event."""

from __future__ import annotations

import fnmatch
from dataclasses import replace
from pathlib import Path

import numpy as np

from onlinecal.cli.recalibrating.options import ChooseSettings
from onlinecal.cli.recalibrating.tables import USUAL_PROBABILITIES, read_names
from onlinecal.formats import called, is_pipe, readable

LABELS = ("label", "labels", "y", "y_true", "target", "class", "truth", "ground_truth", "outcome")
FORECASTS = ("forecast", "p", "prob", "prob1", "probability", "prediction", "hint", "risk")
OUTCOMES = ("outcome", "y", "label", "y_true", "target", "event", "result", "prob1_outcome")
"""Names that such columns have in most files; tried in this order, in any case."""


def recognise(file: Path, settings: ChooseSettings) -> tuple[bool, ChooseSettings]:
    """Whether the file is a table of class probabilities (else a column of forecasts), all columns named.

    Raises ValueError for options of both kinds, and for columns that are not found.
    """
    if is_pipe(file):
        raise ValueError(f"{called(file)} is read several times here; name a file, or a method")
    classes = {"--probabilities": settings.probabilities, "--label": settings.label}
    event = {
        "--forecast": settings.forecast,
        "--outcome": settings.outcome,
        "--features": settings.features,
    }
    named = [[name for name, value in kind.items() if value is not None] for kind in (classes, event)]
    if all(named):
        raise ValueError(
            f"{named[0][0]} and {named[1][0]} exclude each other: the one is for a table of class "
            "probabilities, the other for forecasts of one event"
        )
    names = read_names(file)
    if named[0] or (not named[1] and has_class_columns(file, names)):
        label = settings.label
        if label is None and file.suffix.lower() != ".npz":
            label = usual(names, LABELS)
        return True, replace(settings, label=label)
    forecast = settings.forecast or usual(names, FORECASTS)
    outcome = settings.outcome or usual(names, tuple(one for one in OUTCOMES if one != forecast))
    if forecast is None or outcome is None:
        missing = "forecasts (--forecast)" if forecast is None else "outcomes (--outcome)"
        other = "" if any(named) else "; class probabilities are named with --probabilities and --label"
        raise ValueError(
            f"{file}: cannot tell which column has the {missing}{other}. Its columns: {', '.join(names)}"
        )
    return False, replace(settings, forecast=forecast, outcome=outcome)


def has_class_columns(file: Path, names: list[str]) -> bool:
    """Whether there is a table of probabilities in an NPZ file, or several columns with their usual names."""
    if file.suffix.lower() == ".npz":
        with readable(file, "npz"), np.load(file, allow_pickle=False) as arrays:
            return any(arrays[name].ndim == 2 for name in arrays.files)
    return any(
        sum(fnmatch.fnmatchcase(name, pattern) for name in names) > 1 for pattern in USUAL_PROBABILITIES
    )


def usual(names: list[str], known: tuple[str, ...]) -> str | None:
    """The first of the known names that a column has, as the file writes it."""
    by_name = {name.strip().lower(): name for name in reversed(names)}
    return next((by_name[name] for name in known if name in by_name), None)
