"""The rows that the verb `recalibrate` reads: those of the file that it fits to, and those of a new file.

Nothing here has a state. Rows keep the numbers that they have in the file. `recognise` comes first where the
kind of file was not said; it gives a new request, in which columns have names.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from onlinecal.cli.recalibrating.asked import Request
from onlinecal.remarks import label_remarks, outcome_remarks
from onlinecal.tables.classes import File, Part
from onlinecal.tables.names import event_columns
from onlinecal.texts import cut


def recognise(asked: Request, file: File) -> tuple[bool, Request]:
    """Whether the file is a table of class probabilities, and the request with all columns named.

    Else the file has a column of forecasts. Raises ValueError for options of both kinds, and for columns that
    are not found.
    """
    kinds = ("probabilities", "label"), ("forecast", "outcome", "features")
    named = [[f"--{name}" for name in kind if getattr(asked, name) is not None] for kind in kinds]
    if all(named):
        raise ValueError(
            f"{named[0][0]} and {named[1][0]} exclude each other: {named[0][0]} is for a table of class "
            f"probabilities, {named[1][0]} for forecasts of one event; leave one out"
        )
    if named[0] or (not named[1] and file.has_classes):
        return True, asked
    else_ = "" if any(named) else ", or class probabilities with --probabilities and --label"
    forecast, outcome = event_columns(file.path, asked.forecast, asked.outcome, else_, file.frame.columns)
    return False, replace(asked, forecast=forecast, outcome=outcome)


def known_rows(asked: Request, file: File, of_classes: bool) -> tuple[Part, list[str]]:
    """All rows of the file, with labels, and remarks on what looks wrong in the labels."""
    if of_classes:
        table = file.classes(asked.label)
        if table.labels is None:
            raise ValueError(f"{file.path} has no labels to fit to: name their column with --label")
        if len(table.classes) < 2:
            raise ValueError(
                f"{file.path} must have probabilities of at least two classes, got the column of "
                f"{table.classes[0]!r} alone; name all columns with --probabilities"
            )
        remarks = label_remarks(table.probabilities, table.labels, table.classes, asked.label or "the labels")
        return table, remarks
    if asked.outcome is None:
        raise ValueError("--outcome is missing: name the column of outcomes")
    events = file.events(asked.outcome, asked.forecast)
    forecasts = None if asked.forecast is None else events.probabilities
    return events, outcome_remarks(events.settled, forecasts, asked.outcome, asked.forecast or "")


def new_rows(asked: Request, path: Path, classes: tuple[str, ...]) -> Part:
    """The rows of a new file, which may have no labels.

    It must have these classes; () stands for a table of forecasts of one event, which has none.
    """
    file = File.read(path, asked.probabilities)
    wanted = asked.label if classes else asked.outcome
    known = wanted if wanted in file.frame.columns else None
    if not classes:
        return replace(file.events(known, asked.forecast), name="apply")
    if file.lacks_classes():
        raise ValueError(
            f"{path} must have the columns of probabilities of {asked.file}, got "
            f"{cut(', '.join(file.frame.columns))}: rename its columns, or name another file with --apply"
        )
    new = file.classes(known)
    if new.classes != classes:
        raise ValueError(
            f"{path} must have the classes of {asked.file}, {', '.join(classes)}, but it has the classes "
            f"{', '.join(new.classes)}"
        )
    return replace(new, name="apply")
