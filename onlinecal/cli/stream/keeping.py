"""The verbs that keep a ledger: `stream check`, `repair`, `archive`, `export` and `doctor`.

No state is kept here: each verb hands paths to `engine.ledger` and prints what comes back. `check`, `doctor`
and `export` only read the ledger. Scripts rely on the exit codes, the names of options and the keys of the
JSON records; texts may be changed freely.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from typer import Exit, Option

from onlinecal.cli.output import BETWEEN_LINES, WatchedWork, answer, watched
from onlinecal.cli.verbs import EXIT_CHECK_FAILED, AsJson, LedgerFile
from onlinecal.texts import counted, number

LISTED_PROBLEMS = 20
"""Differences that are listed; --json lists all."""


def telling(what: str) -> AbstractContextManager[WatchedWork]:
    """Tells how many events of a ledger are done, and of how many."""
    return watched(what, line=what + ": {:,} of {:,} events", seconds=BETWEEN_LINES)


def check(
    ledger: LedgerFile,
    archives: Annotated[
        list[Path] | None,
        Option("--archive", help="An archive of the ledger, to be checked as well. May be repeated."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Replay a whole ledger: every forecast and every state must come out as it is written there.

    Each row is compared with its checksum, too. Where older events were archived, the replay starts from the
    states behind them; archives have to have the digests that the ledger keeps of them. Nothing is written.
    Exit code 1 if anything differs.

    Example:

    [bold]onlinecal stream check --ledger rain.db[/bold]
    """
    import msgspec

    from onlinecal.engine.ledger.check import check_ledger

    with telling("checking") as tell:
        result = check_ledger(ledger, archives=archives or [], progress=tell)
    how = "differences: " + number(len(result.problems)) if result.problems else "all as written"
    played = f"{ledger}: {counted(result.events, 'event')} of {counted(result.keys, 'key')} replayed, {how}"
    record = {"path": str(ledger), **msgspec.to_builtins(result)}
    answer(as_json, record, [*result.problems[:LISTED_PROBLEMS], played])
    if result.problems:
        raise Exit(EXIT_CHECK_FAILED)


def repair(
    ledger: Annotated[Path, Option(help="The damaged ledger; it stays as it is.")],
    into: Annotated[Path, Option("--into", help="The new ledger, a file that is not there yet.")],
    as_json: AsJson = False,
) -> None:
    """Play what can be read of a damaged ledger into a new one.

    Exit code 1 if events were lost, or do not agree with the checksums of their rows, or if keys now have
    other forecasts than were answered, because earlier events are lost. All of them are named.

    Example:

    [bold]onlinecal stream repair --ledger rain.db --into saved.db[/bold]
    """
    import msgspec

    from onlinecal.engine.ledger.check import repair_ledger

    saved = repair_ledger(ledger, into)
    kept = f"{into}: {counted(saved.events, 'event')} of {counted(saved.keys, 'key')} saved"
    if saved.parked:
        kept += f", {counted(saved.parked, 'parked outcome')}"
    lines = [
        *(f"lost: {sentence}" for sentence in saved.lost),
        *(f"not as it was: {sentence}" for sentence in saved.doubtful),
        *(f"changed: forecasts of key {key!r}" for key in saved.changed),
        kept + ("" if saved.lost else ", nothing lost"),
    ]
    answer(as_json, {"path": str(into), **msgspec.to_builtins(saved)}, lines)
    if saved.lost or saved.changed or saved.doubtful:
        raise Exit(EXIT_CHECK_FAILED)


def archive(
    ledger: Annotated[Path, Option(help="The ledger.")],
    into: Annotated[
        Path,
        Option(
            "--into",
            help="The archive to make, a file that is not there yet; after an interrupt the same one, and "
            "the work goes on.",
        ),
    ],
    before: Annotated[
        str | None,
        Option(
            help="Move the events that come before the first one of this time or later. It is a number, as "
            "the times of events are, or where these are seconds since 1970 a date (of UTC) such as "
            "2026-01-31 or 2026-01-31T12:00:00Z. Give this or --keep.",
        ),
    ] = None,
    keep: Annotated[
        int | None,
        Option(min=0, help="Move all events but so many of the last. Give this or --before."),
    ] = None,
    shrink: Annotated[
        bool,
        Option(
            "--shrink",
            help="Make the ledger's file smaller by what was moved. Otherwise new events fill the space.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Move older events to an archive, so that a ledger that runs for years stays small.

    Forecasts that are open stay, whatever their age. The events are replayed on the way, as by `check`. The
    archive may be made while an engine writes to the ledger, but for the move itself, one transaction, nobody
    else may write: stop the engine then, and repeat the same command, which goes on, also after an interrupt.

    An archive is read as a ledger is, by `report`, `check` and `export`. An id that was moved cannot be used
    again: events about it are rejected as `archived`.

    Example:

    [bold]onlinecal stream archive --ledger rain.db --before 2026-01-01 --into rain-2025.archive[/bold]
    """
    from onlinecal.engine.ledger.archive import archive_ledger

    when = None if before is None else seconds(before)
    if (keep is None) == (when is None):
        got = "neither" if keep is None else "both"
        raise ValueError(f"archive needs either --keep or --before, one of the two, got {got}")
    with telling("archiving") as tell:
        moved = archive_ledger(ledger, into, keep=keep, before=when, shrink=shrink, progress=tell)
    archived, said = None, f"{ledger}: there is nothing older to move"
    if moved is not None:
        digest = moved.digest.hex()
        counts = {name: getattr(moved, name) for name in ("events", "queries", "closings", "number")}
        archived = {**counts, "digest": digest}
        said = f"{into}: {counted(moved.events, 'event')} up to number {moved.number}, SHA-256 {digest}"
    answer(as_json, {"path": str(ledger), "into": str(into), "archived": archived}, [said])


def seconds(when: str) -> float:
    """A time as events have it: a number, or a date, of UTC if it names no other zone."""
    from onlinecal.validation import check_finite

    with suppress(ValueError):
        return check_finite(float(when), "--before")
    try:
        date = datetime.fromisoformat(when)
    except ValueError as error:
        raise ValueError(
            f"--before must be a number, as the times of events are, or a date like 2026-01-31, got {when!r}"
        ) from error
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


def export(
    ledger: LedgerFile,
    into: Annotated[Path, Option("--into", help="The Parquet file to write.")],
    force: Annotated[
        bool,
        Option("--force", help="Replace a file of that name. Without it such a file is an error."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write every forecast of a ledger with its outcome to a table in Parquet, a row each, for analysis.

    The ledger is only read, also while `onlinecal stream` is writing to it: the table has what was there when
    the export began. The file appears when it is complete. docs/operate.md says what the columns are.

    Example:

    [bold]onlinecal stream export --ledger rain.db --into rain.parquet[/bold]
    """
    from contextlib import closing

    from onlinecal.engine.ledger.ledger import Ledger as OpenLedger
    from onlinecal.engine.ledger.report import export_ledger

    with telling("exporting") as tell:
        rows = export_ledger(ledger, into, force=force, progress=tell)
    with closing(OpenLedger(ledger, read_only=True)) as opened:
        parked = opened.parking_counts().waiting
    record = {"path": str(ledger), "into": str(into), "rows": rows, "parked": parked}
    waiting = f"; {counted(parked, 'parked outcome')} without a forecast, in no row" if parked else ""
    answer(as_json, record, [f"{into}: {counted(rows, 'forecast')}{waiting}"])


def doctor(
    ledger: LedgerFile,
    integrity: Annotated[
        bool,
        Option(
            "--integrity/--no-integrity",
            help="Whether every page of the ledger and its archives is checked, which takes a few seconds a "
            "gigabyte.",
        ),
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Look over a ledger, the program and the machine, and say what is wrong and what to do about it.

    Nothing is written. It works while an engine uses the ledger, and on one that is damaged or of another
    format. Exit code 1 if something is wrong. The events are not replayed: `onlinecal stream check` does
    that.

    Example:

    [bold]onlinecal stream doctor --ledger rain.db[/bold]
    """
    import msgspec

    from onlinecal.engine.ledger.check import examine

    program, findings = surroundings()
    facts, more_findings = examine(ledger, integrity)
    findings += more_findings
    known = {"path": str(ledger), "program": program, "ledger": facts}
    lines = [f"{name:<16} {text}" for name, text in [*spelt(program), *spelt(facts)]]
    wrongs = [f"\nWRONG: {finding.wrong}\n  do:  {finding.do}" for finding in findings]
    wrongs = wrongs or ["\nnothing is wrong"]
    answer(as_json, {**known, "wrong": msgspec.to_builtins(findings)}, [*lines, *wrongs])
    if findings:
        raise Exit(EXIT_CHECK_FAILED)


def surroundings() -> tuple[dict[str, Any], list[Any]]:
    """Versions and compiled code, and what is wrong with them."""
    import platform
    import sqlite3
    from importlib.metadata import PackageNotFoundError, version

    from onlinecal.compiling.folder import looked_into
    from onlinecal.engine.ledger.check import LedgerFinding
    from onlinecal.version import STATE_FORMAT

    facts: dict[str, Any] = {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    for name in ("onlinecal", "numpy", "numba", "river", "msgspec"):
        with suppress(PackageNotFoundError):
            facts[name] = version(name)
    facts["format"] = STATE_FORMAT
    folders = looked_into()
    facts["compiled"] = [{"folder": str(folder), "kernels": kernels} for folder, kernels in folders]
    if any(kernels for _, kernels in folders):
        return facts, []
    cold = LedgerFinding(
        "no compiled code is kept: a start compiles for a minute",
        "run `onlinecal warmup` with the NUMBA_CACHE_DIR that the engine has",
    )
    return facts, [cold]


def spelt(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Facts as lines for people."""
    lines = []
    for name, fact in facts.items():
        if name.endswith("bytes"):
            fact = f"{fact / 2**20:,.1f} MiB"
        elif name == "last_commit":
            fact = datetime.fromtimestamp(fact, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        lines.append((name.removesuffix("_bytes").replace("_", " "), words(fact)))
    return lines


def words(fact: Any) -> str:
    """A fact in words, also one of several parts."""
    if isinstance(fact, dict):
        return ", ".join(f"{name} {words(part)}" for name, part in fact.items())
    if isinstance(fact, list):
        return "; ".join(map(words, fact)) or "none"
    return "none" if fact is None else str(fact)
