"""The verb `sweep`: a grid of games, resumable at any moment."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from onlinecal.cli.errors import INTERRUPTED


class TableFormat(StrEnum):
    """How tables are written."""

    parquet = "parquet"
    csv = "csv"


def sweep(
    file: Annotated[str, typer.Argument(help="TOML file that describes the grid, or: demo, arena")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the results.")] = Path("results/sweep"),
    jobs: Annotated[int | None, typer.Option("--jobs", min=1, help="Processes; default: all cores.")] = None,
    form: Annotated[
        TableFormat, typer.Option("--format", help="How tables are written.")
    ] = TableFormat.parquet,
    load: Annotated[
        list[Path] | None,
        typer.Option("--load", help="A Python file that registers forecasters or adversaries; repeatable."),
    ] = None,
) -> None:
    """Play every forecaster against every adversary, for every number of rounds and every seed.

    Each finished game is kept at once: started again after an interrupt or with more entries in the TOML
    file, a sweep only plays what is missing.

    Beside the results it writes rates.parquet: how fast each error grows with T, as a fitted exponent with
    its standard error. In polars:
    [bold]pl.read_parquet("rates.parquet").filter(measure="distance").pivot("adversary", index="forecaster",
    values="exponent")[/bold]

    Example: [bold]onlinecal sweep demo --out results/demo && onlinecal plot results/demo[/bold]
    """
    from onlinecal.cli.output import milestones, notices, progress, results
    from simulations.compiling import Compiled
    from simulations.config import find_config, read_config
    from simulations.results import Store
    from simulations.sweep import cells_of, run_sweep

    config = read_config(find_config(file), load or ())
    cells = cells_of(config)
    processes = min(jobs or available_cores(), len(cells))
    tell = milestones("games finished")
    compiled = Compiled()

    def advance(done: int, every: int) -> None:
        bar.update(task, completed=done)
        tell(done, every)

    with progress() as bar:
        task = bar.add_task(f"games ({processes} process{'es' if processes > 1 else ''})", total=len(cells))
        try:
            played = run_sweep(config, out, processes, advance, compiled)
        except KeyboardInterrupt:
            bar.stop()
            kept = sum(map(Store(out).is_finished, cells))
            notices().print(
                f"interrupted: {kept} of {len(cells)} games are kept; the same command goes on from there"
            )
            raise typer.Exit(INTERRUPTED) from None
    if compiled.notice is not None:
        notices().print(compiled.notice)
    written = Store(out).write_tables(cells, form.value)
    results().print(
        f"{len(cells)} games: {played} played, {len(cells) - played} were there already. "
        f"Tables: {', '.join(map(str, written))}",
        soft_wrap=True,
    )


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
