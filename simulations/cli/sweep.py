"""The verbs `sweep` and `plot`: a grid of games, resumable at any moment, and its pictures."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onlinecal.cli.verbs import CHECK_FAILED, INTERRUPTED

if TYPE_CHECKING:
    from simulations.sweeps.playing import Workers


class TableFormat(StrEnum):
    """How tables are written."""

    parquet = "parquet"
    csv = "csv"


class Backend(StrEnum):
    """Who plays the games."""

    loky = "loky"
    dask = "dask"
    ray = "ray"


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
    backend: Annotated[
        Backend,
        typer.Option("--backend", help="Who plays: loky, processes of this machine, or dask or ray."),
    ] = Backend.loky,
    scheduler: Annotated[
        str | None,
        typer.Option(
            "--scheduler",
            metavar="HOST:PORT",
            help="The Dask or Ray cluster to use; without it, --jobs processes of this machine are started.",
        ),
    ] = None,
) -> None:
    """Play every forecaster against every adversary, for every number of rounds and every seed.

    Each finished game is kept at once: started again after an interrupt or with more entries in the TOML
    file, a sweep only plays what is missing.

    The backend changes nothing but the time, also half-way through a sweep. A cluster's workers need the
    same versions of onlinecal and its libraries, but no disk in common: results are kept by this process.

    Beside the results it writes rates.parquet: how fast each error grows with T, as a fitted exponent with
    its standard error. In polars:
    [bold]pl.read_parquet("rates.parquet").filter(measure="distance").pivot("adversary", index="forecaster",
    values="exponent")[/bold]

    Examples, the second on a cluster:

    [bold]onlinecal sweep demo --out results/demo && onlinecal plot results/demo[/bold]

    [bold]onlinecal sweep arena --backend dask --scheduler 10.0.0.1:8786[/bold]
    """
    from onlinecal.cli.output import milestones, notices, progress, results
    from onlinecal.compiling import Compiled
    from simulations.sweeps.playing import planned_games, run_sweep
    from simulations.sweeps.results import Store, find_config, read_config

    config = read_config(find_config(file), load or ())
    games = planned_games(config)
    workers = _workers(backend, scheduler, jobs, len(games))
    tell = milestones("games finished")
    compiled = Compiled()

    def advance(done: int, every: int) -> None:
        bar.update(task, completed=done)
        tell(done, every)

    with progress() as bar:
        task = bar.add_task(f"games ({workers})", total=len(games))
        try:
            played = run_sweep(config, out, workers, advance, compiled)
        except KeyboardInterrupt:
            bar.stop()
            kept = sum(map(Store(out).is_finished, games))
            notices().print(
                f"interrupted: {kept} of {len(games)} games are kept; the same command goes on from there"
            )
            raise typer.Exit(INTERRUPTED) from None
    if compiled.notice is not None:
        notices().print(compiled.notice)
    written = Store(out).write_tables(games, form.value)
    results().print(
        f"{len(games)} games: {played} played, {len(games) - played} were there already. "
        f"Tables: {', '.join(map(str, written))}",
        soft_wrap=True,
    )


def _workers(backend: Backend, scheduler: str | None, jobs: int | None, n_games: int) -> Workers:
    """Who plays; ValueError if the options do not go together."""
    from joblib import cpu_count

    from simulations.sweeps.playing import Workers

    if scheduler is not None and backend is Backend.loky:
        raise ValueError("--scheduler needs --backend dask or ray: loky only knows this machine")
    if scheduler is not None and jobs is not None:
        raise ValueError("--jobs and --scheduler exclude each other: a cluster has the workers it has")
    return Workers(backend.value, scheduler, min(jobs or cpu_count(), n_games))


def plot(
    folder: Annotated[Path, typer.Argument(help="Folder of results that a sweep has written.")],
    figure: Annotated[
        list[str] | None,
        typer.Option(
            "--figure",
            help="distance, ece, regret, trajectories, landscape or matrix; may be repeated. Default: all, "
            "the last two where T varies.",
        ),
    ] = None,
    measure: Annotated[
        str | None,
        typer.Option(
            "--measure", help="Of landscape and matrix: distance (default), ece, certificate, regret."
        ),
    ] = None,
    adversary: Annotated[
        str | None,
        typer.Option(
            "--adversary", help="Of landscape: this one alone, large, each forecaster named. Default: all."
        ),
    ] = None,
    load: Annotated[
        list[Path] | None,
        typer.Option("--load", help="A Python file of your own, if the sweep was moved away from it."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The closing summary as JSON.")] = False,
) -> None:
    """Draw the results of a sweep: each picture as PNG and SVG beside a CSV of the numbers in it.

    Closes with a summary of how near the games came to their bounds; exit code 1 if any bound was broken.

    Examples:

    [bold]onlinecal plot results/demo --figure distance[/bold]

    [bold]onlinecal plot results/arena --figure landscape --adversary coin --measure ece[/bold]
    """
    from onlinecal.cli.output import print_json, progress, results, table
    from onlinecal.tables import number
    from simulations.games import players
    from simulations.plots import GROWTH_FIGURES, draw_sweep, figure_of, sweep_figures
    from simulations.sweeps.results import Store, broken_bounds, summarise

    for name in figure or []:
        figure_of(name)
    games = Store(folder).read_table("results")
    players.load_all([*Store(folder).loaded(), *(load or [])])
    names = list(dict.fromkeys(figure or sweep_figures(folder)))
    if measure is not None and not set(names) & set(GROWTH_FIGURES):
        raise ValueError("--measure is for the figures landscape and matrix")
    if adversary is not None and "landscape" not in names:
        raise ValueError("--adversary is for the figure landscape")
    with progress() as bar:
        pictures = [
            draw_sweep(folder, name, measure, adversary) for name in bar.track(names, description="drawing")
        ]
    summary, broken = summarise(games), broken_bounds(games)
    if as_json:
        print_json(
            {"figures": [str(path) for path in pictures], "summary": summary.to_dicts(), "broken": broken}
        )
    else:
        out = results()
        for path in pictures:
            out.print(str(path), soft_wrap=True)
        out.print()
        out.print(
            table(
                "Distance to calibration at its worst",
                ["forecaster", "games", "distance/√T", "against", "distance/guarantee", "against"],
                [
                    (
                        row["forecaster"],
                        str(row["games"]),
                        number(row["worst_over_root"]),
                        row["worst_over_root_against"],
                        *(
                            ("–", "nothing is proven")
                            if row["worst_over_guarantee"] is None
                            else (number(row["worst_over_guarantee"]), row["worst_over_guarantee_against"])
                        ),
                    )
                    for row in summary.to_dicts()
                ],
            )
        )
        for line in broken or ["Every bound held."]:
            out.print(line, soft_wrap=True)
    if broken:
        raise typer.Exit(CHECK_FAILED)
