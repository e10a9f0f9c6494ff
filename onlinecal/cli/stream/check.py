"""The verbs `stream check` and `stream repair`: whether a ledger is sound, and what can be saved of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onlinecal.cli.verbs import CHECK_FAILED

SHOWN = 20
"""Differences that are listed; --json lists all."""


def check(
    ledger: Annotated[
        Path,
        typer.Option("--ledger", help="The ledger, which may be in use, or an archive."),
    ],
    archives: Annotated[
        list[Path] | None,
        typer.Option("--archive", help="An archive of it, to be checked, too; may be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """Replay a whole ledger: every forecast and every state must come out as it is written there.

    Where older events were archived, the replay starts from the states behind them; archives have to have the
    digests that the ledger keeps of them. Reads only. Exit code 1 if anything differs.

    Example:

    [bold]onlinecal stream check --ledger rain.db[/bold]
    """
    import msgspec

    from onlinecal.cli.output import print_json, results
    from onlinecal.cli.stream.progress import telling
    from onlinecal.engine.ledger.check import check_ledger
    from onlinecal.tables import counted, number

    with telling("checking") as tell:
        found = check_ledger(ledger, archives=archives or [], tell=tell)
    if as_json:
        print_json({"path": str(ledger), **msgspec.to_builtins(found)})
    else:
        console = results()
        for problem in found.problems[:SHOWN]:
            console.print(problem, markup=False, soft_wrap=True)
        replayed = f"{ledger}: {counted(found.events, 'event')} of {counted(found.keys, 'key')} replayed"
        how = "differences: " + number(len(found.problems)) if found.problems else "all as written"
        console.print(f"{replayed}, {how}", markup=False, soft_wrap=True)
    if found.problems:
        raise typer.Exit(CHECK_FAILED)


def repair(
    ledger: Annotated[Path, typer.Option("--ledger", help="The damaged ledger; it stays as it is.")],
    into: Annotated[Path, typer.Option("--into", help="The ledger to make.")],
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """Play what can be read of a damaged ledger into a new one.

    Exit code 1 if events were lost, or if forecasts come out other than they were answered, because events
    before them are lost; each is named.

    Example:

    [bold]onlinecal stream repair --ledger rain.db --into saved.db[/bold]
    """
    import msgspec

    from onlinecal.cli.output import print_json, results
    from onlinecal.engine.ledger.check import repair_ledger
    from onlinecal.tables import counted

    saved = repair_ledger(ledger, into)
    if as_json:
        print_json({"path": str(into), **msgspec.to_builtins(saved)})
    else:
        console = results()
        for sentence in saved.lost:
            console.print(f"lost: {sentence}", markup=False, soft_wrap=True)
        for key in saved.changed:
            console.print(f"changed: forecasts of key {key!r}", markup=False, soft_wrap=True)
        kept = f"{into}: {counted(saved.events, 'event')} of {counted(saved.keys, 'key')} saved"
        console.print(kept + ("" if saved.lost else ", nothing lost"), markup=False, soft_wrap=True)
    if saved.lost or saved.changed:
        raise typer.Exit(CHECK_FAILED)
