"""The verbs `stream archive` and `stream export`: older events to a file of their own, and all as a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from onlinecal.engine.ledger.archive import Archived


def archive(
    ledger: Annotated[Path, typer.Option("--ledger", help="The ledger.")],
    into: Annotated[
        Path,
        typer.Option(
            "--into",
            help="The archive to make, or one that was interrupted: then go on.",
        ),
    ],
    before: Annotated[
        str | None,
        typer.Option(
            "--before",
            help="Move what comes before the first event of that time: a number as in the events, or a date "
            "such as 2026-01-31 or 2026-01-31T12:00:00Z where they count seconds since 1970.",
        ),
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option("--keep", min=0, help="Move all but so many of the last events."),
    ] = None,
    shrink: Annotated[
        bool, typer.Option("--shrink", help="Give the space to the disk; else new events fill it.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """Move older events to an archive, so that a ledger that runs for years stays small.

    Forecasts that are open stay, whatever their age. The events are replayed on the way, as by `check`. The
    archive is made beside a running engine; for the move itself, one transaction, nobody else may write:
    stop the engine, and repeat the same command if it was running. Interrupted, the same command goes on.

    An archive is read as a ledger is, by `report`, `check` and `export`. An id that was moved cannot be used
    again: events about it are rejected as `archived`.

    Example:

    [bold]onlinecal stream archive --ledger rain.db --before 2026-01-01 --into rain-2025.archive[/bold]
    """
    from onlinecal.cli.output import print_json, results
    from onlinecal.cli.stream.progress import telling
    from onlinecal.engine.ledger.archive import archive_ledger
    from onlinecal.tables import counted

    when = None if before is None else seconds(before)
    if (keep is None) == (when is None):
        raise ValueError("give one of --keep and --before")
    with telling("archiving") as tell:
        moved = archive_ledger(ledger, into, keep=keep, before=when, shrink=shrink, tell=tell)
    if as_json:
        archived = None if moved is None else facts_of(moved)
        print_json({"path": str(ledger), "into": str(into), "archived": archived})
        return
    said = f"{ledger}: there is nothing older to move"
    if moved is not None:
        events = f"{counted(moved.events, 'event')} up to number {moved.number}"
        said = f"{into}: {events}, SHA-256 {moved.digest.hex()}"
    results().print(said, markup=False, soft_wrap=True)


def facts_of(moved: Archived) -> dict[str, int | str]:
    """What was archived, for machines."""
    counts = {name: getattr(moved, name) for name in ("events", "queries", "closings", "number")}
    return {**counts, "digest": moved.digest.hex()}


def seconds(when: str) -> float:
    """A time as events have it: a number, or a date, of UTC if it names no other zone."""
    from datetime import UTC, datetime
    from math import isfinite

    try:
        found = float(when)
    except ValueError:
        try:
            date = datetime.fromisoformat(when)
        except ValueError as error:
            raise ValueError(f"--before must be a number or a date like 2026-01-31, got {when!r}") from error
        found = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    if not isfinite(found):
        raise ValueError(f"--before must be finite, got {when!r}")
    return found


def export(
    ledger: Annotated[
        Path,
        typer.Option("--ledger", help="The ledger, which may be in use, or an archive."),
    ],
    into: Annotated[Path, typer.Option("--into", help="The Parquet file to write.")],
    force: Annotated[bool, typer.Option("--force", help="Write it in place of a file of that name.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """Write every forecast of a ledger with its outcome to a table in Parquet, a row each, for analysis.

    Reads only, and may be asked while `onlinecal stream` is writing: the table is as of its start. The file
    is there when it is complete. docs/operate.md says what the columns are.

    Example:

    [bold]onlinecal stream export --ledger rain.db --into rain.parquet[/bold]
    """
    from onlinecal.cli.output import print_json, results
    from onlinecal.cli.stream.progress import telling
    from onlinecal.engine.ledger.report import export_ledger
    from onlinecal.tables import counted

    with telling("exporting") as tell:
        rows = export_ledger(ledger, into, force=force, tell=tell)
    if as_json:
        print_json({"path": str(ledger), "into": str(into), "rows": rows})
    else:
        results().print(f"{into}: {counted(rows, 'forecast')}", markup=False, soft_wrap=True)
